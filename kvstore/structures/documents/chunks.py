"""Chunks and abstracts: pieces of a document's text, and the tree of summaries above them. *Leaf* abstract *i*
summarizes a group of up to five chunks, with ids from 5*i* to 5*i*+4; the last of these ids can be unused. *Upper*
abstracts summarize other abstracts; their ids start at 2**40.

On disk: ``chunks`` and ``abstracts`` (id → sealed msgpack). The tree is that of Bridge-RAG §4.1. Damage or a missing id
raises CorruptionError.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from ...process.frozen_dataclass import frozen_dataclass
from ...storage import records
from ...storage.environment import View, WriteView
from ...storage.view import ViewReader, ViewWriter
from .. import tables
from ..decoded_data import DecodedData, EntryCache
from .documents import GROUP_SIZE as GROUP_SIZE
from .documents import Documents, build_heading_path

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


#: The first id of upper abstracts, so that an id alone distinguishes leaf and upper abstracts.
FIRST_UPPER_ABSTRACT = 1 << 40


class ChunkRecord(NamedTuple):
    """A chunk: bytes ``start`` to ``end`` of its document's stored text; ``ordinal`` is its number there, from 0.

    ``section`` is the index of its section in the document (-1: before the first heading). ``words`` is the length that
    BM25 divides by. ``block`` and ``row`` locate its vector.
    """

    document: int
    start: int
    end: int
    ordinal: int
    section: int
    words: int
    block: int
    row: int


class Chunks(ViewReader):
    """The chunks of one view, a snapshot or a write transaction: by id, the place of each in its document, and the
    location (block, row) of its vector.
    """

    def __init__(self, view: View, shared_data: DecodedData | None = None) -> None:
        """Create a reader of chunks in ``view``, a snapshot or write transaction.

        ``shared_data`` caches them for all states of one commit; None caches nothing.
        """
        super().__init__(view)
        #: Shared with other states of the same commit; caches nothing if the chunks of the view can change.
        self._record_cache: EntryCache[int, ChunkRecord] = EntryCache(0) if shared_data is None else shared_data.chunks

    def find(self, chunk: int) -> ChunkRecord | None:
        """Return the record of a chunk, or None if no chunk has this id."""
        return self.find_many([chunk])[0]

    def find_many(self, chunks: Iterable[int]) -> list[ChunkRecord | None]:
        """Return the record of each chunk, or None for an id that no chunk has."""
        keys = list(map(records.encode_u64, chunks))
        stored_values = self._view.get_many(tables.CHUNKS, keys)
        values_by_key = {key: value for key, value in zip(keys, stored_values, strict=True) if value is not None}
        rows = records.unpack_numbers(list(values_by_key.values()), tables.CHUNKS, list(values_by_key), _NUM_FIELDS)
        records_by_key = dict(zip(values_by_key, map(ChunkRecord._make, rows.tolist()), strict=True))
        return list(map(records_by_key.get, keys))

    def has_many(self, chunks: Iterable[int]) -> list[bool]:
        """Return for each id True if a chunk with this id exists, else False."""
        return [
            value is not None for value in self._view.get_many(tables.CHUNKS, list(map(records.encode_u64, chunks)))
        ]

    def get(self, chunk: int) -> ChunkRecord:
        """Return the record of a chunk that must exist; raise CorruptionError if it does not."""
        return self.get_many([chunk])[0]

    def get_many(self, chunks: Iterable[int]) -> list[ChunkRecord]:
        """Return the records of chunks that must exist; raise CorruptionError if one does not."""
        ids = list(chunks)
        chunk_records = self._record_cache.get_many(
            ids, lambda missing_ids: list(map(ChunkRecord._make, self._read_rows(missing_ids).tolist()))
        )
        return [chunk_records[chunk] for chunk in ids]

    def get_vector_locations(self, chunks: Iterable[int]) -> npt.NDArray[np.int64]:
        """Return the location (block, row) of the vector of each chunk, shape (n, 2). The chunks must exist."""
        return self._read_rows(chunks)[:, _LOCATION_COLUMNS]

    def _read_rows(self, chunks: Iterable[int]) -> npt.NDArray[np.int64]:
        """Return the fields of chunks that must exist, one row each; raise CorruptionError if one is missing."""
        keys = list(map(records.encode_u64, chunks))
        return records.unpack_numbers(self._view.get_many(tables.CHUNKS, keys), tables.CHUNKS, keys, _NUM_FIELDS)

    def scan(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, ChunkRecord]]:
        """Yield the chunks with ``start`` <= id < ``stop`` (None: no end), in order of their ids."""
        end = None if stop is None else records.encode_u64(stop)
        for key, value in self._view.scan(tables.CHUNKS, records.encode_u64(start), end):
            yield records.U64.unpack(key)[0], ChunkRecord._make(records.unpack(value, tables.CHUNKS, key))


_NUM_FIELDS = len(ChunkRecord._fields)
#: The columns of block and row.
_LOCATION_COLUMNS = [ChunkRecord._fields.index("block"), ChunkRecord._fields.index("row")]


class ChunkWriter(ViewWriter, Chunks):
    """The chunks of one write transaction."""

    def put(self, chunk: int, record: ChunkRecord) -> None:
        """Store or replace the record of a chunk: its place in the document and the location of its vector."""
        self._write_view.put(tables.CHUNKS, records.encode_u64(chunk), records.pack(record))

    def update_locations(self, moves: Iterable[tuple[int, int, int]]) -> None:
        """Update the stored locations of vectors that were moved; a move is a chunk, its new block and its new row."""
        for chunk, block, row in moves:
            self.put(chunk, self.get(chunk)._replace(block=block, row=row))

    def remove(self, chunks: Iterable[int]) -> None:
        """Delete the records of chunks."""
        self._write_view.change_many(tables.CHUNKS, dict.fromkeys(map(records.encode_u64, chunks)))


@frozen_dataclass
class AbstractRecord:
    """A node of a document's tree of abstracts.

    ``parent`` is the id of the abstract above it (None: the root), and ``children`` are those below it. ``level`` 0 is
    a leaf. ``first_chunk`` to ``last_chunk``, both included, are the chunks of its descendants. ``section`` is the
    index of its section in the document (-1: the whole document). ``summary`` holds the byte spans of its summary
    sentences in the document's text, ascending.
    """

    document: int
    parent: int | None
    level: int
    first_chunk: int
    last_chunk: int
    children: list[int]
    section: int
    summary: list[tuple[int, int]]


#: A function that returns the fields of an abstract record in the order in which they are stored.
_get_fields = attrgetter(*(field.name for field in fields(AbstractRecord)))


class Abstracts:
    """The abstracts of one view; their texts are read from its documents."""

    def __init__(self, view: View, documents: Documents) -> None:
        """Create a reader of abstracts in ``view``; their texts are read from ``documents``."""
        self._view = view
        self._documents = documents

    def get(self, abstract: int) -> AbstractRecord:
        """Return the record of an abstract that must exist; raise CorruptionError if it does not."""
        return self.get_many([abstract])[0]

    def get_many(self, abstracts: Iterable[int]) -> list[AbstractRecord]:
        """Return the records of abstracts that must exist; raise CorruptionError if one does not."""
        abstract_ids = list(abstracts)
        keys = list(map(records.encode_u64, abstract_ids))
        values = self._view.get_many(tables.ABSTRACTS, keys)
        abstract_records = []
        for abstract, key, value in zip(abstract_ids, keys, values, strict=True):
            if value is None:
                raise records.make_missing_error(f"abstract {abstract}")
            abstract_records.append(AbstractRecord(*records.unpack(value, tables.ABSTRACTS, key)))
        return abstract_records

    def scan(self) -> Iterator[tuple[int, AbstractRecord]]:
        """Yield all abstracts in order of their ids: first of chunks (leaves), then of other abstracts."""
        for key, value in self._view.scan(tables.ABSTRACTS):
            record = AbstractRecord(*records.unpack(value, tables.ABSTRACTS, bytes(key)))
            yield records.U64.unpack(key)[0], record

    def get_heading(self, record: AbstractRecord) -> str | None:
        """Return the heading of the section that an abstract summarizes, or the title if it is the whole document.

        Returns None if the document has no title. Raises CorruptionError if the section is missing.
        """
        if record.section < 0:
            return self._documents.get(record.document).title
        path = build_heading_path(self._documents.get_sections(record.document), record.section)
        return path[-1]

    def read_text(self, record: AbstractRecord) -> str:
        """Return the text of an abstract: its summary sentences from the document, as plain text."""
        from ...text.blocks import format_summary_sentence, unwrap_links

        sentences = (self._documents.read_text_slice(record.document, start, end) for start, end in record.summary)
        return " ".join(format_summary_sentence(unwrap_links(sentence)) for sentence in sentences)

    def get_chunk_ids(self, abstract: int) -> range:
        """Return the range of the ids of the chunks that an abstract summarizes; some of the ids may be unused."""
        if abstract < FIRST_UPPER_ABSTRACT:
            return range(GROUP_SIZE * abstract, GROUP_SIZE * abstract + GROUP_SIZE)
        record = self.get(abstract)
        return range(record.first_chunk, record.last_chunk + 1)


class AbstractWriter(Abstracts):
    """The abstracts of one write transaction."""

    def __init__(self, view: WriteView, documents: Documents) -> None:
        """Create a writer of abstracts in ``view``, a write transaction, with texts from ``documents``."""
        super().__init__(view, documents)
        self._write_view = view

    def put(self, abstract: int, record: AbstractRecord) -> None:
        """Store or replace the record of an abstract (a summary of chunks or of a section)."""
        self._write_view.put(tables.ABSTRACTS, records.encode_u64(abstract), records.pack(_get_fields(record)))

    def remove(self, abstracts: Iterable[int]) -> None:
        """Delete the records of abstracts."""
        self._write_view.change_many(tables.ABSTRACTS, dict.fromkeys(map(records.encode_u64, abstracts)))
