"""Archives: the files in a ``.zip`` or ``.tar``, and the file in a ``.gz``, ``.bz2`` or ``.xz``.

In: an archive or a compressed file; a ``.tar.gz`` or ``.tgz`` is a compressed archive. Out: the documents of its files,
read as if they were separate files. A document's key is the key of the archive and the path in it
(``papers.zip/2024/one.pdf``). For a compressed file, it is the key of the file.

Skipped files are counted: hidden files, files of unknown suffixes, links, devices, and files whose paths lead out of
the archive. An unreadable file is a ReadFailure among its siblings, and so is the damaged end of a ``.tar``. An archive
is a ReaderError if it is damaged or locked, exceeds the limits of :mod:`.packages` when unpacked, or has no file of a
known suffix.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import PurePosixPath
from typing import BinaryIO, Protocol

from ..errors import ReaderError
from .content_format import has_ambiguous_name, is_hidden
from .packages import MAX_PARTS, MAX_UNPACKED_BYTES, Package
from .raw_document import EnclosedFile, Origin, ReadFailure, ReadOptions, SkippedPart

_BLOCK_BYTES = 1 << 20
#: Suffixes of compressed tar archives.
_PACKED_TAR_SUFFIXES = frozenset((".tgz", ".tbz", ".tbz2", ".txz"))
_DRIVE_PATTERN = re.compile(r"[A-Za-z]:")
#: A member of an archive: its path, its size in bytes, and a function that returns its bytes or the reason to skip it.
_Member = tuple[str, int, Callable[[], bytes] | str]


class _Decompressor(Protocol):
    """A file object whose reads return decompressed bytes."""

    def read(self, size: int, /) -> bytes: ...


def read_gzip(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[EnclosedFile]:
    """Yield the file that gzip compressed."""
    from gzip import GzipFile

    return _unpack(GzipFile(fileobj=stream), origin, "gzip")


def read_bzip2(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[EnclosedFile]:
    """Yield the file that bzip2 compressed."""
    from bz2 import BZ2File

    return _unpack(BZ2File(stream), origin, "bzip2")


def read_xz(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[EnclosedFile]:
    """Yield the file that xz compressed."""
    from lzma import LZMAFile

    return _unpack(LZMAFile(stream), origin, "xz")


def _unpack(packed_file: AbstractContextManager[_Decompressor], origin: Origin, program: str) -> Iterator[EnclosedFile]:
    """Yield the one file in a compressed file; raises ReaderError if it is damaged or too large."""
    data = bytearray()
    try:
        with packed_file as decompressor:
            while block := decompressor.read(_BLOCK_BYTES):
                data += block
                if len(data) > MAX_UNPACKED_BYTES:
                    raise ReaderError(
                        f"{origin.name}: unpacks to more than {MAX_UNPACKED_BYTES:,} bytes, the limit of an archive; "
                        "split it"
                    )
    except (ReaderError, MemoryError):
        raise
    except Exception as error:  # zlib, bz2 and lzma raise different exceptions
        raise ReaderError(f"{origin.name}: is damaged or not packed with {program} ({error}); pack it again") from None
    suffix = PurePosixPath(origin.name).suffix
    name = origin.name.removesuffix(suffix) + (".tar" if suffix.lower() in _PACKED_TAR_SUFFIXES else "")
    yield EnclosedFile(name, origin.key, len(data), partial(bytes, data), {})


def read_zip(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[EnclosedFile | SkippedPart]:
    """Yield the files of the archive, in the order of their paths."""
    package = Package(stream, origin.name, "ZIP")
    parts = ((part.filename, part.file_size, partial(package.read_part, part.filename)) for part in package.parts)
    yield from _iter_files(origin, [(name.replace("\\", "/"), size, content) for name, size, content in parts])


def read_tar(
    stream: BinaryIO, origin: Origin, options: ReadOptions
) -> Iterator[EnclosedFile | SkippedPart | ReadFailure]:
    """Yield the files of the archive in the order of their paths, then a failure if the archive is damaged."""
    parts: list[_Member] = []
    num_unpacked_bytes = 0
    damage = ""
    try:
        archive = tarfile.TarFile.taropen(origin.name, fileobj=stream)  # noqa: SIM115 -- the caller closes the stream
        while (member := archive.next()) is not None:
            if member.size < 0:
                raise tarfile.ReadError("a negative size")
            if member.isdir():
                continue
            name = member.name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            reason = "" if member.isreg() else "links in archives" if member.islnk() or member.issym() else "devices"
            parts.append((name, member.size, reason or partial(_read_member, archive, member)))
            num_unpacked_bytes += 0 if reason else member.size
            if num_unpacked_bytes > MAX_UNPACKED_BYTES or len(parts) > MAX_PARTS:
                raise ReaderError(
                    f"{origin.name}: unpacks to more than {MAX_UNPACKED_BYTES:,} bytes or {MAX_PARTS:,} parts, the "
                    "limit of an archive; split it"
                )
        stream.seek(archive.offset)
        if stream.read(tarfile.BLOCKSIZE).strip(b"\0"):  # tarfile stops silently at an invalid header
            damage = "no valid header at this position"
    except (ReaderError, MemoryError):
        raise
    except Exception as error:  # invalid headers raise more exceptions than those of tarfile
        damage = str(error)
    if damage and not parts:
        raise ReaderError(f"{origin.name}: is damaged or not a tar archive ({damage}); pack it again")
    yield from _iter_files(origin, parts)
    if damage:
        last_path = parts[-1][0]
        yield ReadFailure(
            origin.name, f"is damaged after {last_path!r} ({damage}), and the rest was not read; pack it again"
        )


def _read_member(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    """Return the content of a file in a tar archive."""
    member_stream = archive.extractfile(member)
    return b"" if member_stream is None else member_stream.read()


def _iter_files(origin: Origin, parts: list[_Member]) -> Iterator[EnclosedFile | SkippedPart]:
    """Yield the readable files of an archive in the order of their paths, and the reason for each skipped file."""
    from . import describe_skipped, find_format

    has_file = False
    for path, name, size, content in sorted(
        ((_normalize_path(part[0]), *part) for part in parts), key=lambda part: part[:2]
    ):
        steps = path.split("/")
        if isinstance(content, str):
            reason = content
        elif name.startswith("/") or ".." in steps or _DRIVE_PATTERN.match(name):
            reason = "paths outside the archive"
        elif any(map(is_hidden, steps)):
            reason = "hidden"
        elif find_format(path) is None and not has_ambiguous_name(path):
            reason = describe_skipped(path)
        else:
            has_file = True
            yield EnclosedFile(f"{origin.name}/{path}", f"{origin.key}/{path}", size, content, {})
            continue
        yield SkippedPart(f"{origin.name}/{path}", reason)
    if not has_file:
        raise ReaderError(f"{origin.name}: has no file with a known suffix; unpack it and name the format with AS")


def _normalize_path(name: str) -> str:
    """Return a path without empty and ``.`` steps."""
    return "/".join(step for step in name.split("/") if step not in ("", "."))
