"""Index files: derived data next to ``data.mdb``, which can be deleted at any time. A file has a *head* (a map of
metadata), named arrays, and perhaps *parts*: further files that the head lists. A random *token* in the head shows that
the file belongs to this store. A *draft* is an unfinished file.

In: a head (msgpack-able map) and named arrays. On disk: one file per index, ``KIND.index``, written under another name
and renamed into place, so that it is complete or missing. Out: the head, and the arrays as views of the mapped file. A
file that was truncated, damaged or is not an index file raises IndexUnavailableError, and never affects the store.

Parts, ``KIND-TOKEN.index``, have the same format. The next file can reuse some of them and write only the others. The
next build removes parts that no file lists.

FORMAT.md specifies the layout.
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
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

import msgpack

from ..errors import IndexUnavailableError
from .location import INDEX_SUFFIXES, open_store_file
from .locks import is_current_file, lock_until, release_lock
from .partial_files import remove_abandoned

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MAGIC = b"kvindex1"
_HEADER = struct.Struct("<8sII")  # magic, bytes of the head, CRC-32 of the head
#: Arrays begin at multiples of this, so that they are aligned in any mapping.
ALIGNMENT = 64
#: Seconds to wait for a process that only checks whether a file is being built.
_LOCK_TIMEOUT = 0.1

#: The array types that an index file may have, by their numpy names.
_TYPES = frozenset(
    ("|b1", "|i1", "|u1", "<f2", "<f4", "<f8", *(f"<{kind}{size}" for kind in "iu" for size in (2, 4, 8)))
)
#: The maximum number of dimensions of an array.
_MAX_DIMENSIONS = 4

#: The entry of the head that lists the parts.
_PARTS_KEY = "parts"

FileHead = Mapping[str, Any]
Arrays: TypeAlias = "Mapping[str, npt.NDArray[Any]]"
Content = TypeVar("Content")


class FilePart(NamedTuple):
    """A part of an index file: its head and its arrays.

    ``name`` is the name of the file, or empty if it is not written yet.
    """

    head: FileHead
    arrays: Arrays
    name: str = ""


class _FileStamp(NamedTuple):
    """Inode, size and modification time of a file; one of them changes if its content does."""

    inode: int
    num_bytes: int
    modified_ns: int


def build_index_path(directory: Path, kind: str) -> Path:
    """Return the path of the file of an index in the directory of a store; ``kind`` is its name (``vectors``)."""
    return directory / f"{kind}{INDEX_SUFFIXES[0]}"


def read(
    path: Path, kind: str, is_trusted: Callable[[bytes], bool], unchecked_arrays: Collection[str] = ()
) -> tuple[FileHead, Arrays]:
    """Read the head and the arrays of an index file, and verify their checksums.

    ``kind`` is the name of the index. The ``unchecked_arrays`` are only mapped: the code that searches them verifies
    the rows it visits. ``is_trusted`` returns True if the store's record of the index has the token of the file. Raises
    FileNotFoundError if the file is missing, and IndexUnavailableError if it is damaged or not trusted.
    """
    import numpy as np

    mapped_file = _map_file(path)
    head = _parse_head(mapped_file, path, kind, is_trusted)
    arrays = {}
    for array_entry in head["arrays"]:
        name, dtype, shape, start, checksum = _parse_array_entry(array_entry, path)
        stop = start + dtype.itemsize * math.prod(shape)
        is_valid = stop <= len(mapped_file) and (
            name in unchecked_arrays or zlib.crc32(mapped_file[start:stop]) == checksum
        )
        if not is_valid:
            raise IndexUnavailableError(
                f"{path}: array {name} is truncated or fails its checksum; REFRESH rebuilds the file"
            )
        try:
            arrays[name] = np.ndarray(shape, dtype, mapped_file, start)
        except ValueError as error:  # an empty array whose other dimensions are too large
            raise IndexUnavailableError(f"{path}: array {name}: {error}; REFRESH rebuilds it") from error
    return head, arrays


class _ArrayEntry(NamedTuple):
    """The description of an array in the head of a file; ``start`` is the offset of its first byte."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    checksum: int


def _parse_array_entry(entry: object, path: Path) -> _ArrayEntry:
    """Parse the description of an array in the head of a file.

    Raises IndexUnavailableError if it is invalid: the checksum of a head does not protect against a malicious head.
    """
    import numpy as np

    match entry:
        case [str(name), str(type_code), list(shape), int(start), int(checksum)]:
            is_valid_shape = len(shape) <= _MAX_DIMENSIONS and all(
                isinstance(size, int) and size >= 0 for size in shape
            )
            if type_code in _TYPES and is_valid_shape and start >= 0 and start % ALIGNMENT == 0:
                return _ArrayEntry(name, np.dtype(type_code), shape=tuple(shape), start=start, checksum=checksum)
    raise IndexUnavailableError(f"{path}: its header has an invalid array ({entry!r:.100}); REFRESH rebuilds the file")


def read_parts(path: Path, head: FileHead, unchecked_arrays: Collection[str] = ()) -> list[FilePart]:
    """Return the parts that the head of an index file lists, in the same order.

    Raises IndexUnavailableError if a part is damaged, and FileNotFoundError if one is missing, because another file
    with other parts has replaced this one.
    """
    parts = []
    for name in head.get(_PARTS_KEY, ()):
        # The name of a part contains the token that the file must have.
        hex_token = name.removeprefix(f"{path.stem}-").removesuffix(INDEX_SUFFIXES[0])
        has_token = partial(_has_hex_digits, hex_token)
        part_head, arrays = read(path.with_name(name), head["kind"], has_token, unchecked_arrays)
        parts.append(FilePart(part_head, arrays, name))
    return parts


def _has_hex_digits(hex_digits: str, token: bytes) -> bool:
    """True if the ``token`` of an index file has these hexadecimal digits."""
    return token.hex() == hex_digits


def read_head(path: Path, kind: str, is_trusted: Callable[[bytes], bool]) -> FileHead:
    """Return the head of an index file, without reading its arrays.

    ``kind`` is the name of the index. ``is_trusted`` returns True if the store's record of the index has the token of
    the file. Raises FileNotFoundError and IndexUnavailableError.
    """
    return _parse_head(_map_file(path), path, kind, is_trusted)


def _map_file(path: Path) -> memoryview:
    """Return an index file mapped into memory.

    Raises FileNotFoundError, and IndexUnavailableError if it cannot be read or is shorter than a header.
    """
    try:
        # O_NONBLOCK: opening a named pipe would wait for its writer.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            size = os.fstat(file.fileno()).st_size
            if size < _HEADER.size:
                raise IndexUnavailableError(f"{path}: only {size} bytes long, so it was truncated; REFRESH rebuilds it")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise IndexUnavailableError(
            f"{path}: cannot be read ({error.strerror}); check its permissions, or let REFRESH rebuild it"
        ) from error


def _parse_head(mapped_file: memoryview, path: Path, kind: str, is_trusted: Callable[[bytes], bool]) -> FileHead:
    """Return the head of an index file, whose content is ``mapped_file``.

    Raises IndexUnavailableError if it is invalid, belongs to an index other than ``kind``, or has a token that
    ``is_trusted`` rejects.
    """
    magic, head_bytes, checksum = _HEADER.unpack_from(mapped_file)
    if magic != MAGIC:
        raise IndexUnavailableError(f"{path}: not an index file of this version; REFRESH replaces it")
    packed_head = mapped_file[_HEADER.size : _HEADER.size + head_bytes]
    if len(packed_head) != head_bytes or zlib.crc32(packed_head) != checksum:
        raise IndexUnavailableError(f"{path}: its header fails its checksum; REFRESH rebuilds the file")
    try:
        head: FileHead = msgpack.unpackb(packed_head, raw=False)
    except ValueError as error:  # the base class of all msgpack errors
        raise IndexUnavailableError(f"{path}: its header cannot be read; REFRESH rebuilds the file") from error
    is_complete = (
        isinstance(head, dict)
        and isinstance(head.get("token"), bytes)
        and isinstance(head.get("epoch", 0), int)
        and isinstance(head.get("arrays"), list)
        and _are_part_names(head.get(_PARTS_KEY, []), path)
    )
    if not is_complete:
        raise IndexUnavailableError(f"{path}: its header lacks entries; REFRESH rebuilds the file")
    if head.get("kind") != kind or not is_trusted(head["token"]):
        raise IndexUnavailableError(
            f"{path}: built for another store, or for another state of this store; REFRESH rebuilds it"
        )
    return head


def _are_part_names(parts: object, path: Path) -> bool:
    """True if these are names of parts of the index file at ``path``, in the same directory."""
    return isinstance(parts, list) and all(
        isinstance(name, str) and name == Path(name).name and name.startswith(f"{path.stem}-") for name in parts
    )


class LazyIndexFile(Generic[Content]):
    """An index file, whose content is read on first use, and again after another file replaced it. A *stamp* (inode,
    size and time of change) identifies a version of the file. Any thread may call it.

    ``read`` raises FileNotFoundError or IndexUnavailableError if no content is available.
    """

    def __init__(self, path: Path, read: Callable[[Path], Content]) -> None:
        """Create a lazy reader of the file at ``path``; ``read`` returns the content of the file, on first use."""
        self.path = path
        #: The reason why no content is available, or why no file could be built; empty if all is well.
        self.problem = ""
        self._read_content = read
        self._load_lock = threading.Lock()
        #: The stamp (:func:`_compute_stamp`) and the content of the file that was read; both None before the first
        #: check.
        self._stamp_and_content: tuple[_FileStamp | None, Content | None] = None, None

    def get(self) -> Content | None:
        """Return the content of the file that is at the path now; None if there is no usable file.

        The file is read again if its stamp (inode, size and time of change) differs from the cached content's stamp.
        While another thread reads a file that replaced the cached one, the cached content is returned.
        """
        stamp = _compute_stamp(self.path)
        loaded_stamp, content = self._stamp_and_content
        if stamp == loaded_stamp:
            return content
        # While one thread reads a new file (another inode), the others use the old one, which still exists without a
        # name. A file that was modified in place must no longer be used.
        is_replaced = (
            stamp is not None and loaded_stamp is not None and stamp.inode != loaded_stamp.inode and content is not None
        )
        if self._load_lock.acquire(blocking=not is_replaced):
            try:
                self._load(stamp)
            finally:
                self._load_lock.release()
        _, content = self._stamp_and_content
        return content

    @property
    def exists(self) -> bool:
        """True if a file, usable or not, was at the path at the last check."""
        loaded_stamp, _ = self._stamp_and_content
        return loaded_stamp is not None

    def reject(self, problem: str) -> None:
        """Drop the content of this version of the file, because of ``problem``.

        :meth:`get` returns None until the file changes.
        """
        with self._load_lock:
            loaded_stamp, _ = self._stamp_and_content
            self._stamp_and_content = loaded_stamp, None
            self.problem = problem

    def _load(self, stamp: _FileStamp | None) -> None:
        """Read the file, and store its content, or why it cannot be read, together with ``stamp``.

        The stamp (:func:`_compute_stamp`) identifies this version of the file.
        """
        loaded_stamp, _ = self._stamp_and_content
        if stamp == loaded_stamp:
            return  # another thread has read it meanwhile
        content = None
        self.problem = ""
        try:
            content = self._read_content(self.path)
        except FileNotFoundError:  # removed since the stamp was computed
            stamp = None
        except IndexUnavailableError as error:
            self.problem = str(error)
        self._stamp_and_content = stamp, content


def _compute_stamp(path: Path) -> _FileStamp | None:
    """Return the stamp of a file (its inode, size and time of change), or None if it cannot be accessed."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return _FileStamp(status.st_ino, status.st_size, status.st_mtime_ns)


class Draft:
    """An index file that is being built at a *partial path*, by one thread of one process at a time. :meth:`publish`
    renames it into place. Its parts are written under their final names.
    """

    def __init__(self, path: Path, partial_path: Path, descriptor: int) -> None:
        """Create a draft of the index file at ``path``: the open file ``descriptor``, for now at ``partial_path``."""
        self.path = path
        self._partial_path = partial_path
        self._descriptor = descriptor
        #: The names of the additional files (parts) that the index file refers to.
        self._part_names: list[str] = []
        #: The paths of the additional files that were written for this draft.
        self._written_paths: list[Path] = []

    def write(self, head: FileHead, arrays: Arrays, parts: Sequence[FilePart] = ()) -> None:
        """Write the index file, which has ``head`` and ``arrays``, and its new parts.

        A part with a name is already written. Readers see the files after :meth:`publish`. Raises OSError if a file
        cannot be written.
        """
        self._part_names = [part.name or self._write_part(head["kind"], part) for part in parts]
        parts_entry = {_PARTS_KEY: self._part_names} if parts else {}
        _write_file(self._descriptor, {**head, **parts_entry}, arrays)

    def publish(self) -> None:
        """Rename the file into place, replacing the old one; remove parts that it does not list."""
        # Not flushed to the disk: after a crash of the machine, the checksums fail and the file is rebuilt.
        os.replace(self._partial_path, self.path)
        self._written_paths.clear()  # so that :meth:`discard` keeps them
        _remove_parts(self.path, self._part_names)

    def discard(self) -> None:
        """Remove the unfinished index file, and its parts, unless they were published."""
        if is_current_file(self._descriptor, self._partial_path):
            self._partial_path.unlink()
        for part in self._written_paths:
            part.unlink(missing_ok=True)

    def _write_part(self, kind: str, part: FilePart) -> str:
        """Write a part of the index file under a new random token, and return the name of its file.

        Its path is recorded, so that the file is removed unless the index is published.
        """
        token = os.urandom(16)
        path = self.path.with_name(f"{self.path.stem}-{token.hex()}{INDEX_SUFFIXES[0]}")
        self._written_paths.append(path)
        descriptor = open_store_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            _write_file(descriptor, {**part.head, "kind": kind, "token": token}, part.arrays)
        finally:
            os.close(descriptor)
        return path.name


def _write_file(descriptor: int, head: FileHead, arrays: Arrays) -> None:
    """Replace the content of an open index file with a head and arrays."""
    import numpy as np

    contiguous_arrays = [np.ascontiguousarray(array) for array in arrays.values()]
    array_infos = [
        (name, array.dtype.str, array.shape, zlib.crc32(_to_bytes(array)))
        for name, array in zip(arrays, contiguous_arrays, strict=True)
    ]
    # The offsets of the arrays depend on the length of the head, which contains them. So reserve room for a head with
    # the longest numbers.
    next_offset = _align_up(_HEADER.size + len(_pack_head(head, array_infos, [2**63] * len(contiguous_arrays))))
    offsets = []
    for array in contiguous_arrays:
        offsets.append(next_offset)
        next_offset = _align_up(next_offset + array.nbytes)
    packed_head = _pack_head(head, array_infos, offsets)
    os.ftruncate(descriptor, 0)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(_HEADER.pack(MAGIC, len(packed_head), zlib.crc32(packed_head)))
        file.write(packed_head)
        for start, array in zip(offsets, contiguous_arrays, strict=True):
            file.seek(start)
            file.write(_to_bytes(array))
        file.truncate(next_offset)


def list_files(path: Path) -> list[Path]:
    """Return the files of an index that exist: the index file at this path and its parts."""
    return [file for file in (path, *_glob_parts(path)) if file.exists()]


def remove_files(path: Path) -> None:
    """Remove an index file and its parts, and files left by a killed build.

    Raises IndexUnavailableError if the system refuses, because the directory is not writable, for example.
    """
    try:
        path.unlink(missing_ok=True)
        _remove_parts(path, ())
    except OSError as error:
        raise IndexUnavailableError(
            f"{error.filename}: the index was dropped, but this file cannot be removed ({error.strerror}); remove it"
        ) from error
    remove_abandoned(build_partial_path(path))


def remove_leftovers(directory: Path) -> None:
    """Remove the unfinished index files in a directory that killed builds left."""
    for path in directory.glob(f"*{INDEX_SUFFIXES[1]}"):
        remove_abandoned(path)


def _glob_parts(path: Path) -> Iterator[Path]:
    """Yield the parts of an index, whose names begin with the name of the main file."""
    return path.parent.glob(f"{path.stem}-*{INDEX_SUFFIXES[0]}")


def _remove_parts(path: Path, used_names: Collection[str]) -> None:
    """Remove the parts of an index file whose names are not in ``used_names``."""
    for part in list(_glob_parts(path)):
        if part.name not in used_names:
            part.unlink(missing_ok=True)


@contextlib.contextmanager
def open_draft(path: Path) -> Iterator[Draft]:
    """Lock and open the partial file that becomes the index file at ``path`` once the block publishes the draft.

    Files not published when the block ends are removed; a file left by a killed process is overwritten. Raises
    IndexUnavailableError if another process or thread is building the index, or if the directory is not writable.
    """
    partial_path = build_partial_path(path)
    descriptor = None
    try:
        while True:
            descriptor = open_store_file(partial_path, os.O_RDWR | os.O_CREAT)
            if not lock_until(descriptor, fcntl.LOCK_EX, time.monotonic() + _LOCK_TIMEOUT):
                raise IndexUnavailableError(
                    f"{path}: another process or thread is building this index; wait until it has finished"
                )
            if is_current_file(descriptor, partial_path):
                break
            os.close(descriptor)  # its builder has just renamed or removed it
            descriptor = None
        draft = Draft(path, partial_path, descriptor)
        try:
            yield draft
        finally:
            draft.discard()
    except OSError as error:
        raise IndexUnavailableError(
            f"{path}: the index cannot be written ({error.strerror}); solve this, and run REFRESH to build it"
        ) from error
    finally:
        if descriptor is not None:
            release_lock(descriptor)


def is_being_built(path: Path) -> bool:
    """True if a process is building a new index file for ``path``."""
    try:
        descriptor = os.open(build_partial_path(path), os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # fails while the builder holds its exclusive lock
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def build_partial_path(path: Path) -> Path:
    """Return the path of the unfinished file that is renamed to the index file at ``path`` once it is complete."""
    return path.with_name(f"{path.name}.new")


def _align_up(offset: int) -> int:
    """Return the lowest multiple of ALIGNMENT that is not below ``offset``."""
    return -(-offset // ALIGNMENT) * ALIGNMENT


def _pack_head(head: FileHead, array_infos: Sequence[tuple[Any, ...]], offsets: Sequence[int]) -> bytes:
    """Return the head of an index file, with the descriptions of its arrays, as msgpack.

    ``array_infos`` has the name, type, shape and CRC-32 of each array; ``offsets`` are their positions in the file.
    """
    array_entries = [
        [name, code, shape, offset, crc] for (name, code, shape, crc), offset in zip(array_infos, offsets, strict=True)
    ]
    packed_head: bytes = msgpack.packb({**head, "arrays": array_entries})
    return packed_head


def _to_bytes(array: npt.NDArray[Any]) -> memoryview:
    """Return the bytes of an array without copying it."""
    return array.reshape(-1).view("u1").data
