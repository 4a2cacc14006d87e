"""Files that were ingested completely, so that unchanged files are not read again.

In: what an ingest has recorded of a file. On disk: ``ingested_files`` (the source of its documents → the record). The
record is written in the commit that adds the file's last document, and removed in the commit that removes any document
of that source. Out: the record. While it exists, every document that it lists is stored as the file produced it. It is
not part of the store's content: without it, files are only read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import NamedTuple

from ...process.frozen_dataclass import frozen_dataclass
from ...storage import records
from ...storage.view import ViewReader, ViewWriter
from .. import tables
from .documents import Documents, encode_key


@frozen_dataclass
class IngestedFile:
    """A file that was ingested without a failure.

    ``source`` is the source of its documents. ``path`` is absolute, with links resolved. ``signature`` holds its size,
    times of last change (of content and of inode, in nanoseconds) and inode. ``reading`` is 16 bytes that identify how
    the file was read. ``documents`` are the keys of its documents.
    """

    source: str
    path: str
    signature: list[int]
    reading: bytes
    documents: list[str]


class CompletedFile(NamedTuple):
    """The record of a file whose last document is being stored; ``digests`` are the digests of all its documents."""

    record: IngestedFile
    digests: list[bytes]


class IngestedFiles(ViewReader):
    """The ingested files of one view, a snapshot or a write transaction."""

    def get(self, source: str) -> IngestedFile | None:
        """Return the record of the file whose documents have this source, or None."""
        value = self._view.get(tables.INGESTED_FILES, encode_key(source)) if source else None
        if value is None:
            return None
        file = IngestedFile(**records.unpack(value, tables.INGESTED_FILES, encode_key(source)))
        return file if file.source == source else None  # the key of a long source is only a prefix and a digest

    def scan(self) -> Iterator[IngestedFile]:
        """Yield the records of all completely ingested files, in order of the stored forms of their sources."""
        for key, value in self._view.scan(tables.INGESTED_FILES):
            yield IngestedFile(**records.unpack(value, tables.INGESTED_FILES, bytes(key)))


class IngestedFileWriter(ViewWriter, IngestedFiles):
    """The ingested files of one write transaction."""

    def put(self, file: CompletedFile, documents: Documents) -> None:
        """Record a file as completely ingested, unless a writer has since changed or removed one of its documents.

        ``documents`` reads the current digests of its documents.
        """
        current_records = map(documents.find_by_key, file.record.documents)
        current_digests = [record and record.digest for record in current_records]  # None for a missing document
        if current_digests == file.digests:
            row = records.pack(asdict(file.record))
            self._write_view.put(tables.INGESTED_FILES, encode_key(file.record.source), row)

    def remove(self, sources: Iterable[str | None]) -> None:
        """Remove the records of the files with these sources, if there are any; None (no source) is ignored."""
        keys = dict.fromkeys(encode_key(source) for source in sources if source)
        self._write_view.change_many(tables.INGESTED_FILES, keys)
