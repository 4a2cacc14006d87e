"""Which files were ingested whole, so that they need not be read again while neither they nor their documents change.

In: what an ingest has seen of a file. On disk: ``ingested_files`` (the source of its documents → the record), written
in the commit that brings the file's last document, and removed in the commit that takes any document of that source
out. Out: the record, which holds as long as it is there: every document named is stored as the file made it. It is no
part of what a store holds: without it, files are read again, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from ...storage import records
from ...storage.environment import View, WriteView
from .. import tables
from .documents import Documents, encode_key


@dataclass(frozen=True, slots=True)
class IngestedFile:
    """A file that was ingested without a failure.

    ``source`` is that of its documents, ``path`` absolute and without links, ``signature`` its size, times of last
    change (of content and of inode, in nanoseconds) and inode, ``reading`` 16 bytes that differ where it was read in
    another way, ``documents`` their keys.
    """

    source: str
    path: str
    signature: list[int]
    reading: bytes
    documents: list[str]


class IngestedFiles:
    """The files of one view."""

    def __init__(self, view: View) -> None:
        self._view = view

    def get(self, source: str) -> IngestedFile | None:
        """The file whose documents have this source, or None."""
        value = self._view.get(tables.INGESTED_FILES, encode_key(source)) if source else None
        if value is None:
            return None
        file = IngestedFile(**records.unpack(value, tables.INGESTED_FILES, encode_key(source)))
        return file if file.source == source else None

    def scan(self) -> Iterator[IngestedFile]:
        """All files, in order of their sources."""
        for key, value in self._view.scan(tables.INGESTED_FILES):
            yield IngestedFile(**records.unpack(value, tables.INGESTED_FILES, bytes(key)))


class IngestedFileWriter(IngestedFiles):
    """The files of one write transaction."""

    def __init__(self, view: WriteView) -> None:
        super().__init__(view)
        self._write = view
        self._documents = Documents(view)

    def put(self, file: IngestedFile, digests: list[bytes]) -> None:
        """Record a file, unless a document of it is no longer what the file made: another may have changed it since."""
        stored = map(self._documents.find_by_key, file.documents)
        if all(record and record.digest == digest for record, digest in zip(stored, digests, strict=True)):
            self._write.put(tables.INGESTED_FILES, encode_key(file.source), records.pack(asdict(file)))

    def remove(self, sources: Iterable[str | None]) -> None:
        """Forget the files of some sources, where there are such."""
        keys = dict.fromkeys(encode_key(source) for source in sources if source)
        self._write.change_many(tables.INGESTED_FILES, keys)
