"""Files at an address, such as ``s3://bucket/folder``, listed and read through fsspec (the ``remote`` extra).

In: an address ``scheme://...`` of a file, of a folder, or of files by a pattern with ``**``, ``*`` or ``?``. fsspec
finds credentials as its documentation describes; kvstore passes none. Out: the files, their sizes and bytes, and
numbers that change when a file changes. An unreachable address is a ReaderError. Only addresses that the caller names
are read, never an address inside a document, and web pages are not fetched.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, BinaryIO, NamedTuple, cast

from ..errors import ReaderError
from ..extensions.extras import import_extra
from ..readers.content_format import is_hidden

_ADDRESS_PATTERN = re.compile(r"[a-z][a-z0-9+.-]*://")
_WEB_SCHEMES = ("http://", "https://")
_WILDCARD_PATTERN = re.compile(r"[*?]")


class RemoteListing(NamedTuple):
    """The files at an address.

    ``root`` is the named folder, or the part of a pattern before its first wildcard; ``pattern`` is the rest of it.
    ``files`` are the sorted paths of all files below the root, without hidden ones.
    """

    root: str
    is_folder: bool
    pattern: str | None
    files: list[str]


def is_address(value: str) -> bool:
    """True if this is an address rather than a path.

    >>> is_address("s3://bucket/notes"), is_address("notes/a.md"), is_address("c:/notes")
    (True, False, False)
    """
    return _ADDRESS_PATTERN.match(value) is not None


def list_remote(address: str, *, with_files: bool = True) -> RemoteListing:
    """List the files below the folder of an address; no files for the address of a file, or without ``with_files``.

    A wildcard is returned as ``pattern`` and not applied. The paths of the files are relative to the folder of the
    address, or to the folder above the first part of the address with a wildcard. They are sorted, and hidden files are
    omitted. Raises ReaderError if the address does not exist or cannot be reached.
    """
    segments = address.split("/")
    # The first three segments are the scheme, an empty one and the host or bucket.
    num_fixed = next(
        (index for index, segment in enumerate(segments) if index > 2 and _WILDCARD_PATTERN.search(segment)),
        len(segments),
    )
    root = "/".join(segments[:num_fixed]).rstrip("/")
    pattern = "/".join(segments[num_fixed:]) or None
    file_system, base_path = _open_file_system(root)
    try:
        if pattern is None and file_system.isfile(base_path):
            return RemoteListing(root, is_folder=False, pattern=None, files=[])
        if not file_system.isdir(base_path):
            raise ReaderError(f"{address}: there is no such file or folder; check the address")
        paths = file_system.find(base_path) if with_files else []
    except ReaderError:
        raise
    except Exception as error:  # every file system has its own errors
        raise _make_unreachable_error(address, error) from error
    start = len(base_path.rstrip("/")) + 1
    relative_paths = sorted(path[start:] for path in paths)
    files = [path for path in relative_paths if not any(map(is_hidden, path.split("/")))]
    return RemoteListing(root, is_folder=True, pattern=pattern, files=files)


def get_size(address: str) -> int:
    """Return the size of a file in bytes, 0 if unknown. Raises OSError if it is missing, ReaderError if unreachable."""
    return int(_get_metadata(address).get("size") or 0)


def open_remote(address: str) -> BinaryIO:
    """Open a file for reading; the stream is seekable. Raises ReaderError if the file cannot be opened."""
    file_system, path = _open_file_system(address)
    try:
        return cast(BinaryIO, file_system.open(path, "rb"))
    except Exception as error:
        raise _make_unreachable_error(address, error) from error


def compute_signature(address: str) -> list[int]:
    """Return numbers that change when a file changes: its size, and part of a digest of its other metadata.

    The list is empty if the file does not exist or cannot be reached.
    """
    try:
        metadata = _get_metadata(address)
    except (OSError, ReaderError):
        return []
    attributes = sorted((name, repr(value)) for name, value in metadata.items() if name != "size")
    digest = hashlib.blake2b(repr(attributes).encode(), digest_size=7).digest()  # fits into 63 bits
    return [int(metadata.get("size") or 0), int.from_bytes(digest, "little")]


def _get_metadata(address: str) -> dict[str, Any]:
    """Return the metadata of a file from its file system; raises OSError, or ReaderError if it is unreachable."""
    file_system, path = _open_file_system(address)
    try:
        file_system.invalidate_cache()
        return dict(file_system.info(path))
    except OSError:
        raise
    except Exception as error:
        raise _make_unreachable_error(address, error) from error


def _open_file_system(address: str) -> tuple[Any, str]:
    """Return the fsspec file system of an address, and the path in it.

    Raises ReaderError for a web page, for an address that fsspec does not know, and if fsspec is not installed.
    """
    if address.startswith(_WEB_SCHEMES):
        raise ReaderError(
            f"{address}: kvstore does not fetch web pages; mirror them to a folder (wget --mirror), and ingest the "
            "folder"
        )
    url_to_fs = import_extra("fsspec.core", "remote", f"{address}: reading an address", error=ReaderError).url_to_fs
    try:
        file_system, path = url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise ReaderError(f"{address}: fsspec cannot read this address: {error}; check the address") from None
    return file_system, str(path)


def _make_unreachable_error(address: str, error: Exception) -> ReaderError:
    """Return the error for an address that a file system cannot read."""
    return ReaderError(
        f"{address}: cannot be read ({type(error).__name__}: {error}); check the address and your permissions"
    )
