"""Files at an address, such as ``s3://bucket/folder``: listed and read through fsspec (the extra ``remote``).

In: an address ``scheme://...`` of a file, of a folder, or of files by a pattern with ``**``, ``*`` or ``?``; fsspec
reads what gives access to it where its own documentation says, never from here. Out: which files there are, their
sizes, their bytes, and numbers that are others once a file has changed. What cannot be reached is a ReaderError. Only
addresses that were asked for are read, none that stands in a document, and pages of the web are not fetched.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, BinaryIO, NamedTuple, cast

from ..errors import ReaderError
from ..extras import import_extra
from .readers.content_format import is_hidden

_ADDRESS_PATTERN = re.compile(r"[a-z][a-z0-9+.-]*://")
_WEB_SCHEMES = ("http://", "https://")
_WILDCARD_PATTERN = re.compile(r"[*?]")


class RemoteListing(NamedTuple):
    """What stands at an address: the folder that was asked for, or the part of a pattern without wildcards, and the
    paths of the files in it, ascending, without what is hidden."""

    root: str
    is_folder: bool
    pattern: str | None
    files: list[str]


def is_address(value: str) -> bool:
    """Whether this is an address rather than a path.

    >>> is_address("s3://bucket/notes"), is_address("notes/a.md"), is_address("c:/notes")
    (True, False, False)
    """
    return _ADDRESS_PATTERN.match(value) is not None


def list_remote(address: str) -> RemoteListing:
    """What stands at an address; raises ReaderError where nothing does, or it cannot be reached."""
    parts = address.split("/")
    num_fixed = next(
        (index for index, part in enumerate(parts) if index > 2 and _WILDCARD_PATTERN.search(part)), len(parts)
    )
    root = "/".join(parts[:num_fixed]).rstrip("/")
    pattern = "/".join(parts[num_fixed:]) or None
    file_system, base_path = _open_file_system(root)
    try:
        if pattern is None and file_system.isfile(base_path):
            return RemoteListing(root, False, None, [])
        if not file_system.isdir(base_path):
            raise ReaderError(f"{address}: there is no such file or folder; check the address")
        paths = file_system.find(base_path)
    except ReaderError:
        raise
    except Exception as error:  # every file system has errors of its own
        raise _make_unreachable_error(address, error) from error
    start = len(base_path.rstrip("/")) + 1
    relative = sorted(path[start:] for path in paths)
    return RemoteListing(root, True, pattern, [path for path in relative if not any(map(is_hidden, path.split("/")))])


def get_size(address: str) -> int:
    """Bytes of a file; raises OSError where it is not there."""
    return int(_get_info(address).get("size") or 0)


def open_remote(address: str) -> BinaryIO:
    """The bytes of a file, which can be sought in."""
    file_system, path = _open_file_system(address)
    try:
        return cast(BinaryIO, file_system.open(path, "rb"))
    except Exception as error:
        raise _make_unreachable_error(address, error) from error


def compute_signature(address: str) -> list[int]:
    """Numbers that are others once a file has changed: its size, and 8 bytes of a digest of what else its file system
    tells of it; none where it is not there."""
    try:
        info = _get_info(address)
    except (OSError, ReaderError):
        return []
    attributes = sorted((name, repr(value)) for name, value in info.items() if name != "size")
    digest = hashlib.blake2b(repr(attributes).encode(), digest_size=7).digest()
    return [int(info.get("size") or 0), int.from_bytes(digest, "little")]


def _get_info(address: str) -> dict[str, Any]:
    file_system, path = _open_file_system(address)
    try:
        file_system.invalidate_cache()
        return dict(file_system.info(path))
    except OSError:
        raise
    except Exception as error:
        raise _make_unreachable_error(address, error) from error


def _open_file_system(address: str) -> tuple[Any, str]:
    if address.startswith(_WEB_SCHEMES):
        raise ReaderError(
            f"{address}: pages of the web are not fetched; mirror them into a folder (wget --mirror), and ingest that"
        )
    url_to_fs = import_extra("fsspec.core", "remote", f"{address}: reading an address", error=ReaderError).url_to_fs
    try:
        file_system, path = url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise ReaderError(f"{address}: fsspec cannot read such an address: {error}") from None
    return file_system, str(path)


def _make_unreachable_error(address: str, error: Exception) -> ReaderError:
    return ReaderError(f"{address}: cannot be read: {type(error).__name__}: {error}")
