"""A file on its way through an ingest: whether it must be read, and what is recorded of it afterwards.

In: a source and how it is read. Out: the record of a file that was ingested whole. A file is as it was when its path,
size, times of change (which no program can set: that of the inode is among them) and inode are, and it is read in the
same way, and under the same key, by the same version of kvstore and of its readers. One that changed a moment before it
was read is not recorded: a second change within one tick of the clock could not be told. Of a file at an address counts
what its file system tells of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from ..structures.documents.ingested_files import IngestedFile
from . import remote_files
from .readers import READING, get_reader_version
from .sources import Source

#: Seconds for which a file must have been as it is before it is read.
SETTLED = 2.0


def compute_reading_digest(format: str | None, options: Mapping[str, Any]) -> bytes:
    """Sixteen bytes that differ where files are read in another way."""
    description = json.dumps([version("kvstore"), READING, format, dict(options)], sort_keys=True)
    return hashlib.blake2b(description.encode(), digest_size=16).digest()


class FileVisit:
    """One file of an ingest; made before it is read."""

    __slots__ = ("_digests", "_path", "_reading", "_signature", "failed", "location", "settled", "source")

    def __init__(self, source: Source, reading_digest: bytes) -> None:
        self.source = source
        self.failed = False
        #: Whether what becomes of its documents depends on no other file.
        self.settled = True
        # A file that was ingested under another key is not known under this one, nor what another package has read.
        description = reading_digest + source.key.encode() + get_reader_version(source.format).encode()
        self._reading = hashlib.blake2b(description, digest_size=16).digest()
        self.location = source.location
        self._path = source.place if source.is_remote else os.path.realpath(source.place)
        self._signature = _compute_signature(source, self._path)
        self._digests: dict[str, bytes] = {}

    @property
    def size(self) -> int:
        """Bytes of the file; 0 where it cannot be looked at."""
        return self._signature[0] if self._signature else 0

    @property
    def root(self) -> str | None:
        """The folder it was found in, if it was not named itself."""
        return self.source.root

    def matches_record(self, file: IngestedFile | None) -> bool:
        """Whether it is what a record was made of."""
        own_state = (self._path, self._signature, self._reading)
        return file is not None and (file.path, file.signature, file.reading) == own_state

    def add_document(self, key: str, digest: bytes) -> None:
        """Note a document of it that is, or will be, stored."""
        self._digests[key] = digest

    def build_record(self) -> tuple[IngestedFile, list[bytes]] | None:
        """What to record of it after the last of its documents, with their digests; None where it must be read again.

        Its name must be text: others are written in another way in the source of its documents.
        """
        signature = self._signature
        if (
            self.failed
            or not self.settled
            or not self._digests
            or not signature
            or signature != _compute_signature(self.source, self._path)
        ):
            return None
        if not self.source.is_remote and time.time_ns() - max(signature[1:3]) < SETTLED * 1e9:
            return None
        if not _is_text(self._path):
            return None
        keys = list(self._digests)
        return IngestedFile(self.location, self._path, signature, self._reading, keys), list(self._digests.values())


def _compute_signature(source: Source, path: str) -> list[int]:
    if source.is_remote:
        return remote_files.compute_signature(path)
    try:
        stat = os.stat(path)
    except OSError:
        return []
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
