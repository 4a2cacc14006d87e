"""A file during an ingest: the check if it must be read, and the record that is stored of it afterwards. The
*signature* of a file is its size, timestamps and inode. A *reading digest* identifies the format, options and versions
that files are read with.

In: a source and the options of its reader. Out: the record of a file that was ingested completely. A file is unchanged
if its path, size, timestamps (including the change time of the inode, which no program can set) and inode are the same.
It must also be read with the same options, under the same key, by the same version of kvstore and of its readers.

A file that changed shortly before it was read is not recorded, because a second change within the same clock tick would
go unnoticed. For a file at an address, the metadata of its file system counts.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from ..extensions.extras import DISTRIBUTION
from ..readers import READING, get_reader_version
from ..structures.documents.ingested_files import CompletedFile, IngestedFile
from . import remote_files
from .sources import Source

#: The number of seconds for which a file must be unchanged before it is read.
SETTLED_SECONDS = 2.0


def compute_reading_digest(format: str | None, options: Mapping[str, Any]) -> bytes:
    """Return a 16-byte digest of the format (None: by the file), options and versions that files are read with."""
    description = json.dumps([version(DISTRIBUTION), READING, format, dict(options)], sort_keys=True)
    return hashlib.blake2b(description.encode(), digest_size=16).digest()


class FileVisit:
    """One file of an ingest and its state before it is read."""

    __slots__ = (
        "_digests",
        "_path",
        "_reading_digest",
        "_signature",
        "deferred_keys",
        "failed",
        "is_independent",
        "location",
        "source",
    )

    def __init__(self, source: Source, reading_digest: bytes) -> None:
        """Remember the state of a file before it is read.

        ``reading_digest`` identifies the format, the options and the versions that files are read with.
        """
        self.source = source
        #: True if a part of the file could not be read.
        self.failed = False
        #: True if the outcome for its documents does not depend on another file.
        self.is_independent = True
        #: The keys of documents that an earlier file took, so that the file must be read again at the end.
        self.deferred_keys: set[str] = set()
        # The record of a file applies only to the same key and to the same version of an external reader.
        description = reading_digest + source.key.encode() + get_reader_version(source.format).encode()
        self._reading_digest = hashlib.blake2b(description, digest_size=16).digest()
        self.location = source.location
        self._path = source.path if source.is_remote else os.path.realpath(source.path)
        self._signature = _compute_signature(source, self._path)
        self._digests: dict[str, bytes] = {}  # of its documents, by key

    @property
    def size(self) -> int:
        """The size of the file in bytes; 0 if it cannot be accessed."""
        return self._signature[0] if self._signature else 0  # a signature begins with the size

    @property
    def root(self) -> str | None:
        """The folder that contained the file, or None if the file was named directly."""
        return self.source.root

    @property
    def may_lose_documents(self) -> bool:
        """True if an earlier version of the file may have had other documents, which are then pruned.

        False only if the file has exactly one document, and the document has the key of the file.
        """
        return set(self._digests) != {self.source.key}

    def matches_record(self, file: IngestedFile | None) -> bool:
        """True if the file is unchanged since an earlier ingest recorded it, and would be read in the same way.

        ``file`` is the record of that ingest, or None if the file was not recorded.
        """
        if file is None:
            return False
        return (file.path, file.signature, file.reading) == (self._path, self._signature, self._reading_digest)

    def add_document(self, key: str, digest: bytes) -> None:
        """Add the key and the digest of a document that the file contains to the future record of the file."""
        self._digests[key] = digest

    def build_completed_file(self) -> CompletedFile | None:
        """Return the record of the completely ingested file, with the digests of its documents.

        Return None if the next ingest must read the file again. That is the case if the file failed, may have changed
        during the ingest, has no document, or if the outcome for a document depends on another file. It is also the
        case if the path is not valid Unicode, because its documents then have an escaped path.
        """
        signature = self._signature
        is_complete = not self.failed and self.is_independent and bool(self._digests)
        if not is_complete or not signature or signature != _compute_signature(self.source, self._path):
            return None
        if not self.source.is_remote:
            _, mtime_ns, ctime_ns, _ = signature
            # A change shortly after the last one may not change the times.
            if time.time_ns() - max(mtime_ns, ctime_ns) < SETTLED_SECONDS * 1e9:
                return None
        if not _is_valid_unicode(self._path):
            return None
        record = IngestedFile(self.location, self._path, signature, self._reading_digest, documents=list(self._digests))
        return CompletedFile(record, list(self._digests.values()))


def _compute_signature(source: Source, path: str) -> list[int]:
    """Return numbers that change when a file changes, beginning with its size; empty if it cannot be accessed.

    ``path`` is the address of the file, or its path with symbolic links resolved.
    """
    if source.is_remote:
        return remote_files.compute_signature(path)
    try:
        stat = os.stat(path)
    except OSError:
        return []
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]


def _is_valid_unicode(path: str) -> bool:
    """True if a path can be encoded as UTF-8: file names in other encodings cannot."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
