"""Archives: the files in a ``.zip`` or ``.tar``, and the file in a ``.gz``, ``.bz2`` or ``.xz``.
A *member* is a file, link or device in an archive; skipped members are yielded as ``SkippedPart``.

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
from functools import partial
from io import BufferedIOBase
from pathlib import PurePosixPath
from typing import BinaryIO, NamedTuple

from ..errors import ReaderError
from .content_format import has_ambiguous_name, is_hidden
from .packages import MAX_PARTS, MAX_UNPACKED_BYTES, Package
from .raw_document import EnclosedFile, Origin, ReadFailure, ReadOptions, SkippedPart

_BLOCK_BYTES = 1 << 20
#: Suffixes of compressed tar archives.
_PACKED_TAR_SUFFIXES = frozenset((".tgz", ".tbz", ".tbz2", ".txz"))
_DRIVE_PATTERN = re.compile(r"[A-Za-z]:")  # C:


class _Member(NamedTuple):
    """A member of an archive: its path, its size in bytes, and a function that returns its bytes.

    If ``skip_reason`` is not empty, the member is not read.
    """

    path: str
    size: int
    read_content: Callable[[], bytes]
    skip_reason: str = ""


def read_gzip(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[EnclosedFile]:
    """Yield the file in a gzip file. Raises ReaderError while iterating if it is damaged or too large."""
    from gzip import GzipFile

    return _unpack(GzipFile(fileobj=stream), origin, "gzip")


def read_bzip2(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[EnclosedFile]:
    """Yield the file in a bzip2 file. Raises ReaderError while iterating if it is damaged or too large."""
    from bz2 import BZ2File

    return _unpack(BZ2File(stream), origin, "bzip2")


def read_xz(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[EnclosedFile]:
    """Yield the file in an xz file. Raises ReaderError while iterating if it is damaged or too large."""
    from lzma import LZMAFile

    return _unpack(LZMAFile(stream), origin, "xz")


def _unpack(packed_file: BufferedIOBase, origin: Origin, program: str) -> Iterator[EnclosedFile]:
    """Yield the one file in a compressed file, such as ``a.md.gz/a.md`` (in ``.tgz``, it is a ``.tar``).

    ``program`` is the name of the compression in messages. Raises ReaderError if the content is damaged or too large.
    """
    content = bytearray()
    try:
        with packed_file as decompressor:
            while block := decompressor.read(_BLOCK_BYTES):
                content += block
                if len(content) > MAX_UNPACKED_BYTES:
                    raise ReaderError(
                        f"{origin.name}: unpacks to more than {MAX_UNPACKED_BYTES:,} bytes, the limit for an archive; "
                        "split it"
                    )
    except (ReaderError, MemoryError):
        raise
    except Exception as error:  # zlib, bz2 and lzma raise different exceptions
        raise ReaderError(f"{origin.name}: is damaged or not packed with {program} ({error}); pack it again") from None
    path = PurePosixPath(origin.name)
    name = path.stem + (".tar" if path.suffix.lower() in _PACKED_TAR_SUFFIXES else "")
    yield EnclosedFile(f"{origin.name}/{name}", origin.key, len(content), partial(bytes, content), meta={})


def read_zip(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[EnclosedFile | SkippedPart]:
    """Yield the files of a ZIP archive in the order of their paths, and a SkippedPart for each unread file.

    Raises ReaderError if the archive is damaged, locked or too large, or if no file can be read.
    """
    package = Package(stream, origin.name, "ZIP")
    members = [
        _Member(part.filename.replace("\\", "/"), part.file_size, partial(package.read_part, part.filename))
        for part in package.parts
    ]
    yield from _iter_files(origin, members)


def read_tar(
    stream: BinaryIO, origin: Origin, options: ReadOptions
) -> Iterator[EnclosedFile | SkippedPart | ReadFailure]:
    """Yield the files of a tar archive in the order of their paths, then a failure if the archive is damaged.

    A SkippedPart is yielded for each file that is not read. Raises ReaderError if no file can be read, or if the
    archive is too large.
    """
    members: list[_Member] = []
    damage = _scan_tar(stream, origin.name, members)
    if damage and not members:
        raise ReaderError(f"{origin.name}: is damaged or not a tar archive ({damage}); pack it again")
    yield from _iter_files(origin, members)
    if damage:
        last_path = members[-1].path
        yield ReadFailure(
            origin.name, f"is damaged after {last_path!r} ({damage}), and the rest was not read; pack it again"
        )


def _scan_tar(stream: BinaryIO, name: str, members: list[_Member]) -> str:
    """Append the files, links and devices of a tar archive to ``members``; links and devices have a ``skip_reason``.

    Return a description of the archive's damage, or an empty string. Raises ReaderError if the archive exceeds a
    limit. ``name`` is the file in messages.
    """
    num_unpacked_bytes = 0
    try:
        archive = tarfile.TarFile.taropen(name, fileobj=stream)  # noqa: SIM115 -- the caller closes the stream
        while (header := archive.next()) is not None:
            if header.size < 0:
                raise tarfile.ReadError("a negative size")
            if header.isdir():
                continue
            path = header.name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            if header.islnk() or header.issym():
                skip_reason = "links in archives"
            else:
                skip_reason = "" if header.isreg() else "devices"
            members.append(_Member(path, header.size, partial(_read_member, archive, header), skip_reason))
            num_unpacked_bytes += 0 if skip_reason else header.size
            if num_unpacked_bytes > MAX_UNPACKED_BYTES or len(members) > MAX_PARTS:
                raise ReaderError(
                    f"{name}: unpacks to more than {MAX_UNPACKED_BYTES:,} bytes or {MAX_PARTS:,} parts, the "
                    "limit for an archive; split it"
                )
        stream.seek(archive.offset)
        if stream.read(tarfile.BLOCKSIZE).strip(b"\0"):  # tarfile stops silently at an invalid header
            return "no valid header at this position"
    except (ReaderError, MemoryError):
        raise
    except Exception as error:  # invalid headers raise more exceptions than tarfile documents
        return str(error)
    return ""


def _read_member(archive: tarfile.TarFile, header: tarfile.TarInfo) -> bytes:
    """Return the content of the member of a tar archive that ``header`` describes; empty if it is not a file."""
    member_stream = archive.extractfile(header)
    return b"" if member_stream is None else member_stream.read()


def _iter_files(origin: Origin, members: list[_Member]) -> Iterator[EnclosedFile | SkippedPart]:
    """Yield the files of an archive to read, in the order of their paths, and a SkippedPart for each other file.

    Raises ReaderError after the last member if there is no file to read.
    """
    from . import describe_skipped, find_format

    has_file = False
    for member in sorted(members, key=lambda member: (_normalize_path(member.path), member.path)):
        path = _normalize_path(member.path)
        names = path.split("/")
        if member.skip_reason:
            reason = member.skip_reason
        elif member.path.startswith("/") or ".." in names or _DRIVE_PATTERN.match(member.path):
            reason = "paths outside the archive"
        elif any(map(is_hidden, names)):
            reason = "hidden"
        elif find_format(path) is None and not has_ambiguous_name(path):
            reason = describe_skipped(path)
        else:
            has_file = True
            yield EnclosedFile(
                f"{origin.name}/{path}", f"{origin.key}/{path}", member.size, member.read_content, meta={}
            )
            continue
        yield SkippedPart(f"{origin.name}/{path}", reason)
    if not has_file:
        raise ReaderError(f"{origin.name}: has no file with a known suffix; unpack it and specify the format with AS")


def _normalize_path(path: str) -> str:
    """Return a path without empty or ``.`` components."""
    return "/".join(part for part in path.split("/") if part not in ("", "."))
