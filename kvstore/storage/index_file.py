"""Index files: what is derived beside ``data.mdb``, and may be thrown away at any time.

In: a head (msgpack-able map) and named arrays. On disk: one file an index, ``KIND.index``, written under another name
and renamed into place, so that it is there whole or not at all. Out: the head, and the arrays as views of the mapped
file. A file that was cut, damaged or is none of ours raises IndexUnavailableError, never anything that hurts the store.

An index may have parts, files of the same form, ``KIND-TOKEN.index``, that its head names: the next file names some of
them again and writes only the others. What no file names is removed by whoever makes the next.

FORMAT.md gives the layout.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import mmap
import os
import struct
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import msgpack
import numpy as np
import numpy.typing as npt

from ..errors import IndexUnavailableError
from .file_lock import lock_until, release_lock
from .location import INDEX_SUFFIXES
from .partial_files import remove_abandoned

MAGIC = b"kvindex1"
_HEADER = struct.Struct("<8sII")  # magic, bytes of the head, CRC-32 of the head
#: Arrays begin at multiples of this, so that they are aligned however the file is mapped.
ALIGNMENT = 64
#: Seconds to wait for whoever only looks whether a file is being made.
_LOCK_TIMEOUT = 0.1

#: The types of arrays that an index file may have, as numpy names them.
_TYPES = frozenset(
    ("|b1", "|i1", "|u1", "<f2", "<f4", "<f8", *(f"<{kind}{size}" for kind in "iu" for size in (2, 4, 8)))
)
#: Dimensions of an array.
_MAX_DIMENSIONS = 4

#: What the head says of parts.
_PARTS_KEY = "parts"

FileHead = Mapping[str, Any]
Arrays = Mapping[str, npt.NDArray[Any]]
Content = TypeVar("Content")


class FilePart(NamedTuple):
    """A part of an index; ``name`` is that of its file, empty where it is to be written."""

    head: FileHead
    arrays: Arrays
    name: str = ""


_Stamp = tuple[int, int, int]


def build_index_path(directory: Path, kind: str) -> Path:
    """Where the index file of a kind lies."""
    return directory / f"{kind}{INDEX_SUFFIXES[0]}"


def read(
    path: Path, kind: str, is_trusted: Callable[[bytes], bool], unchecked_arrays: Collection[str] = ()
) -> tuple[FileHead, Arrays]:
    """The head and the arrays of an index file, every checksum verified but those of arrays ``unchecked_arrays``.

    Those are not read: whoever walks them verifies what it meets. ``is_trusted`` says whether a token stands in the
    store's record of that kind. Raises FileNotFoundError and IndexUnavailableError.
    """
    data = _map_file(path)
    head = _parse_head(data, path, kind, is_trusted)
    arrays = {}
    for row in head["arrays"]:
        name, dtype, shape, start, checksum = _array_of(row, path)
        stop = start + dtype.itemsize * math.prod(shape)
        is_valid = stop <= len(data) and (name in unchecked_arrays or zlib.crc32(data[start:stop]) == checksum)
        if not is_valid:
            raise IndexUnavailableError(f"{path}: array {name} is cut or fails its checksum; REFRESH builds it anew")
        try:
            arrays[name] = np.ndarray(shape, dtype, data, start)
        except ValueError as error:  # nothing, in more dimensions than fit
            raise IndexUnavailableError(f"{path}: array {name}: {error}; REFRESH builds it anew") from error
    return head, arrays


def _array_of(row: object, path: Path) -> tuple[str, np.dtype[Any], tuple[int, ...], int, int]:
    """Return the name, type, shape, first byte and checksum of an array as a head states them.

    The checksum of a head is no protection from a head that was written to do harm. Raises IndexUnavailableError.
    """
    match row:
        case [str(name), str(code), list(shape), int(start), int(checksum)]:
            is_shape = len(shape) <= _MAX_DIMENSIONS and all(isinstance(size, int) and size >= 0 for size in shape)
            if code in _TYPES and is_shape and start >= 0 and start % ALIGNMENT == 0:
                return name, np.dtype(code), tuple(shape), start, checksum
    raise IndexUnavailableError(f"{path}: its head describes no array ({row!r:.100}); REFRESH builds it anew")


def read_parts(path: Path, head: FileHead, unchecked_arrays: Collection[str] = ()) -> list[FilePart]:
    """The parts that the head of an index file names.

    Raises what :func:`read` raises: FileNotFoundError where there is another file by now, and other parts.
    """
    parts = []
    for name in head.get(_PARTS_KEY, ()):
        token = name.removeprefix(f"{path.stem}-").removesuffix(INDEX_SUFFIXES[0])
        contents = read(path.with_name(name), head["kind"], partial(_is_token, token), unchecked_arrays)
        parts.append(FilePart(*contents, name))
    return parts


def _is_token(digits: str, token: bytes) -> bool:
    return token.hex() == digits


def read_head(path: Path, kind: str, is_trusted: Callable[[bytes], bool]) -> FileHead:
    """The head of an index file, without a look at its arrays; raises what :func:`read` raises."""
    return _parse_head(_map_file(path), path, kind, is_trusted)


def _map_file(path: Path) -> memoryview:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < _HEADER.size:
            raise IndexUnavailableError(f"{path}: only {size} bytes long, so it was cut; REFRESH builds it anew")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _parse_head(data: memoryview, path: Path, kind: str, is_trusted: Callable[[bytes], bool]) -> FileHead:
    magic, length, checksum = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise IndexUnavailableError(f"{path}: not an index file of this version; REFRESH puts one in its place")
    packed_head = data[_HEADER.size : _HEADER.size + length]
    if len(packed_head) != length or zlib.crc32(packed_head) != checksum:
        raise IndexUnavailableError(f"{path}: its head fails its checksum; REFRESH builds it anew")
    try:
        head = msgpack.unpackb(packed_head, raw=False)
    except ValueError as error:  # all errors of msgpack are
        raise IndexUnavailableError(f"{path}: its head cannot be read; REFRESH builds it anew") from error
    if (
        not isinstance(head, dict)
        or not isinstance(head.get("token"), bytes)
        or not isinstance(head.get("epoch", 0), int)
        or not isinstance(head.get("arrays"), list)
        or not _are_names(head.get(_PARTS_KEY, []), path)
    ):
        raise IndexUnavailableError(f"{path}: its head is none of an index file; REFRESH builds it anew")
    if head.get("kind") != kind or not is_trusted(head["token"]):
        raise IndexUnavailableError(f"{path}: made for another store or another state of it; REFRESH builds it anew")
    return head


def _are_names(parts: object, path: Path) -> bool:
    """True if these are names of parts of the index file at ``path``, which lie beside it."""
    return isinstance(parts, list) and all(
        isinstance(name, str) and name == Path(name).name and name.startswith(f"{path.stem}-") for name in parts
    )


class LoadedFile(Generic[Content]):
    """What an index file holds, read when it is first asked for and again when another file has its name.

    Any thread may ask. ``read`` raises FileNotFoundError or IndexUnavailableError where there is nothing to be had.
    """

    def __init__(self, path: Path, read: Callable[[Path], Content]) -> None:
        self.path = path
        #: Why there is nothing to be had, or why no file could be made; empty when all is well.
        self.problem = ""
        self._read = read
        self._load_lock = threading.Lock()
        #: What :func:`_compute_stamp` said of the file that was read, with its content; before the first look nothing.
        self._loaded: tuple[_Stamp | None, Content | None] = None, None

    def get(self) -> Content | None:
        """What the file of that name holds now; None where there is none that can be used."""
        stamp, (loaded_stamp, content) = _compute_stamp(self.path), self._loaded
        if stamp == loaded_stamp:
            return content
        # While one thread reads a new file, the others go on with the old one, which still exists without a name. A
        # file changed where it stood must not be touched again.
        replaced = (
            stamp is not None and loaded_stamp is not None and stamp[0] != loaded_stamp[0] and content is not None
        )
        if self._load_lock.acquire(blocking=not replaced):
            try:
                self._load(stamp)
            finally:
                self._load_lock.release()
        return self._loaded[1]

    @property
    def exists(self) -> bool:
        """Whether a file had that name at the last look, usable or not."""
        return self._loaded[0] is not None

    def reject(self, problem: str) -> None:
        """Do without the file that was read, for this reason, until another has its name."""
        with self._load_lock:
            self._loaded = self._loaded[0], None
            self.problem = problem

    def _load(self, stamp: _Stamp | None) -> None:
        if stamp == self._loaded[0]:
            return  # another thread has read it meanwhile
        content = None
        self.problem = ""
        try:
            content = self._read(self.path)
        except FileNotFoundError:
            stamp = None
        except IndexUnavailableError as error:
            self.problem = str(error)
        self._loaded = stamp, content


def _compute_stamp(path: Path) -> _Stamp | None:
    """What changes when a file does; the first number when another file has its name."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


class Draft:
    """An index file in the making, which only one process and thread makes at a time; see :func:`open_draft`."""

    def __init__(self, path: Path, partial: Path, descriptor: int) -> None:
        self.path = path
        self._partial = partial
        self._descriptor = descriptor
        #: The parts that the file names, and those that were written for it.
        self._part_names: list[str] = []
        self._written_paths: list[Path] = []

    def write(self, head: FileHead, arrays: Arrays, parts: Sequence[FilePart] = ()) -> None:
        """Write everything; nothing is visible yet. Raises OSError, where the disk is full for instance."""
        self._part_names = [part.name or self._write_part(head["kind"], part) for part in parts]
        parts_entry = {_PARTS_KEY: self._part_names} if parts else {}
        _write_file(self._descriptor, {**head, **parts_entry}, arrays)

    def publish(self) -> None:
        """Give the file its name, in place of the one that had it, and remove the parts that it does not name."""
        # Not flushed to the disk: should the machine stop now, the checksums tell, and it is built anew.
        os.replace(self._partial, self.path)
        self._written_paths.clear()
        _remove_parts(self.path, self._part_names)

    def withdraw(self) -> None:
        """Remove what was written and not published."""
        if _is_file_at(self._descriptor, self._partial):
            self._partial.unlink()
        for part in self._written_paths:
            part.unlink(missing_ok=True)

    def _write_part(self, kind: str, part: FilePart) -> str:
        token = os.urandom(16)
        path = self.path.with_name(f"{self.path.stem}-{token.hex()}{INDEX_SUFFIXES[0]}")
        self._written_paths.append(path)
        with path.open("xb", buffering=0) as file:
            _write_file(file.fileno(), {**part.head, "kind": kind, "token": token}, part.arrays)
        return path.name


def _write_file(descriptor: int, head: FileHead, arrays: Arrays) -> None:
    """Write a file from its beginning."""
    contiguous = [np.ascontiguousarray(array) for array in arrays.values()]
    array_infos = [
        (name, array.dtype.str, array.shape, zlib.crc32(_to_bytes(array)))
        for name, array in zip(arrays, contiguous, strict=True)
    ]
    # Where the arrays begin depends on the length of the head, which tells it: laid out for the longest numbers.
    offset = _align(_HEADER.size + len(_pack_head(head, array_infos, [2**63] * len(contiguous))))
    offsets = []
    for array in contiguous:
        offsets.append(offset)
        offset = _align(offset + array.nbytes)
    packed_head = _pack_head(head, array_infos, offsets)
    os.ftruncate(descriptor, 0)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(_HEADER.pack(MAGIC, len(packed_head), zlib.crc32(packed_head)))
        file.write(packed_head)
        for start, array in zip(offsets, contiguous, strict=True):
            file.seek(start)
            file.write(_to_bytes(array))
        file.truncate(offset)


def list_files(path: Path) -> list[Path]:
    """The index file of a path and its parts, as far as they are there."""
    return [file for file in (path, *_glob_parts(path)) if file.exists()]


def remove_files(path: Path) -> None:
    """Remove an index file and its parts, and what a killed process was making of it."""
    path.unlink(missing_ok=True)
    _remove_parts(path, ())
    remove_abandoned(build_partial_path(path))


def remove_leftovers(directory: Path) -> None:
    """Remove the index files in the making whose makers were killed."""
    for path in directory.glob(f"*{INDEX_SUFFIXES[1]}"):
        remove_abandoned(path)


def _glob_parts(path: Path) -> Iterator[Path]:
    return path.parent.glob(f"{path.stem}-*{INDEX_SUFFIXES[0]}")


def _remove_parts(path: Path, used_names: Collection[str]) -> None:
    for part in list(_glob_parts(path)):
        if part.name not in used_names:
            part.unlink(missing_ok=True)


@contextlib.contextmanager
def open_draft(path: Path) -> Iterator[Draft]:
    """Make the index file of this path within the block.

    What is not published when the block ends is removed; what a killed process left behind is taken over. Raises
    IndexUnavailableError where another process or thread is at it, or the directory may not be written to.
    """
    partial = build_partial_path(path)
    descriptor = None
    try:
        while True:
            descriptor = os.open(partial, os.O_RDWR | os.O_CREAT, 0o644)
            if not lock_until(descriptor, fcntl.LOCK_EX, time.monotonic() + _LOCK_TIMEOUT):
                raise IndexUnavailableError(f"{path}: another process or thread is building this index; wait for it")
            if _is_file_at(descriptor, partial):
                break
            os.close(descriptor)  # its maker has just given it its final name, or removed it
            descriptor = None
        draft = Draft(path, partial, descriptor)
        try:
            yield draft
        finally:
            draft.withdraw()
    except OSError as error:
        raise IndexUnavailableError(f"{path}: the index cannot be written ({error.strerror})") from error
    finally:
        if descriptor is not None:
            release_lock(descriptor)


def is_being_drafted(path: Path) -> bool:
    """Whether a process is making the index file of this path."""
    try:
        descriptor = os.open(build_partial_path(path), os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def build_partial_path(path: Path) -> Path:
    """Where the index file of this path is made."""
    return path.with_name(f"{path.name}.new")


def _is_file_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _align(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def _pack_head(head: FileHead, array_infos: Sequence[tuple[Any, ...]], offsets: Sequence[int]) -> bytes:
    rows = [
        [name, code, shape, offset, crc] for (name, code, shape, crc), offset in zip(array_infos, offsets, strict=True)
    ]
    packed_head: bytes = msgpack.packb({**head, "arrays": rows})
    return packed_head


def _to_bytes(array: npt.NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data
