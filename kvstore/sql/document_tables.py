"""The SQL tables of documents, of their chunks and abstracts (summaries), and of the files they came from.
A *row* is a small key, such as an id; its *record* is the decoded data. A lookup may yield too many rows: SQLite checks
each row again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..registry.sql_table import (
    SqlTable,
    TableRow,
    TableRows,
    hash_row,
    iter_optional,
    make_range_scan,
    make_row_counter,
    make_row_lookup,
)
from ..registry.table_reader import TableReader
from ..storage.records import U64
from ..structures import tables
from ..structures.documents.documents import LONG_KEY_PREFIX, TEXT_COLUMNS, build_heading_path


def _scan_document_range(reader: TableReader, low_key: str | None, high_key: str | None) -> TableRows:
    """Yield the ids of the documents whose keys may be between two keys; SQLite checks each key again.

    ``low_key`` and ``high_key`` are included; None means no limit.
    """
    # A long key is stored as its first bytes and a hash, so only these bytes are in order.
    first_prefix = b"" if low_key is None else low_key.encode()[:LONG_KEY_PREFIX]
    last_prefix = None if high_key is None else high_key.encode()[:LONG_KEY_PREFIX]
    for key, packed_id in reader.state.lmdb.scan(tables.DOCUMENT_KEYS, first_prefix):
        if last_prefix is not None and bytes(key[:LONG_KEY_PREFIX]) > last_prefix:
            return
        yield U64.unpack(packed_id)[0]


def _make_text_lookup(column_name: str) -> Callable[[TableReader, str], TableRows]:
    """Return a function that yields the ids of the documents whose column ``column_name`` may equal a string."""

    def find_rows(reader: TableReader, text: str) -> TableRows:
        """Yield the ids of the documents whose column may equal a string. SQLite checks the column."""
        from ..derived.metadata_index.metadata_structure import METADATA

        document_ids = reader.state.get_part(METADATA).find_text(column_name, text)
        # A text that is too long for a key is not indexed, so every document is a candidate.
        return reader.iter_ids(tables.DOCUMENTS) if document_ids is None else iter(document_ids)

    return find_rows


def _find_candidate_documents(reader: TableReader, query: str) -> TableRows:
    """Return an iterator over the ids of the documents that may match a full-text query. SQLite checks the texts."""
    from .text_matching import find_candidate_documents

    return find_candidate_documents(reader, query)


def _find_candidate_chunks(reader: TableReader, query: str) -> TableRows:
    """Return an iterator over the ids of the chunks that may match a full-text query. SQLite checks the texts."""
    from .text_matching import find_candidate_chunks

    return find_candidate_chunks(reader, query)


def _get_document_key(reader: TableReader, row: TableRow, record: Any) -> str:
    """Return the key of the document that contains a chunk or an abstract, given by its record.

    ``row`` is unused; every function that reads a column has this signature.
    """
    return reader.get_document(record.document).key


def _get_language(reader: TableReader, document: int) -> str | None:
    """Return the code of a document's language, or None if it is unknown."""
    from ..derived.metadata_index.metadata_structure import METADATA

    language: str | None = reader.state.get_part(METADATA).get_language(document)
    return language


DOCUMENTS = SqlTable(
    "documents",
    "stored documents; SELECT * omits the language and content (text) columns",
    {
        "key": ("TEXT", lambda reader, row, record: record.key),
        "title": ("TEXT", lambda reader, row, record: record.title),
        "source": ("TEXT", lambda reader, row, record: record.source),
        "meta": ("TEXT", lambda reader, row, record: json.dumps(record.meta, ensure_ascii=False)),
        "bytes": ("INTEGER", lambda reader, row, record: record.size),
        "chunks": ("INTEGER", lambda reader, row, record: record.chunk_count),
        "changed": ("TEXT", lambda reader, row, record: record.changed),
        # Bytes in the name of a folder that are not valid text become question marks.
        "origin": (
            "TEXT",
            lambda reader, row, record: record.origin and record.origin.encode(errors="replace").decode(),
        ),
        "left_out": ("INTEGER", lambda reader, row, record: record.left_out),
    },
    scan=lambda reader: reader.iter_ids(tables.DOCUMENTS),
    load=lambda reader, row: reader.get_document(row),
    equality_lookups={
        "key": lambda reader, key: iter_optional(reader.find_document(key)),
        "rowid": make_row_lookup(tables.DOCUMENTS),
        **{name: _make_text_lookup(name) for name in TEXT_COLUMNS},
    },
    range_lookups={"key": _scan_document_range, "rowid": make_range_scan(tables.DOCUMENTS)},
    estimate_rows=make_row_counter(tables.DOCUMENTS),
    hidden_columns={
        "language": ("TEXT", lambda reader, row, record: _get_language(reader, row)),
        "content": ("TEXT", lambda reader, row, record: reader.state.read_searchable_text(record)),
    },
    match_lookups={"content": _find_candidate_documents},
)

#: The documents for which SQLite evaluates a condition, in place of the ``documents`` table.
CANDIDATE_DOCUMENTS = replace(
    DOCUMENTS,
    name="_candidate_documents",
    scan=lambda reader: iter(reader.candidate_documents),
    equality_lookups={},
    range_lookups={},
    match_lookups={},
    estimate_rows=lambda reader: len(reader.candidate_documents),
)


def _format_heading(reader: TableReader, row: TableRow, record: Any) -> str | None:
    """Return the headings above a chunk, given by its record, joined by `` > ``, outermost first; None without any."""
    return " > ".join(build_heading_path(reader.get_sections(record.document), record.section)) or None


def _read_vector(reader: TableReader, row: TableRow, record: Any) -> bytes:
    """Return the vector of a chunk, given by its record, as the bytes of little-endian 32-bit floats."""
    vector: bytes = reader.state.vectors.gather([(record.block, record.row)]).astype("<f4").tobytes()
    return vector


CHUNKS = SqlTable(
    "chunks",
    "chunks of documents; start and end are byte offsets in the stored text; SELECT * omits vector (float32)",
    {
        "id": ("INTEGER", lambda reader, row, record: row),
        "document": ("TEXT", _get_document_key),
        "ordinal": ("INTEGER", lambda reader, row, record: record.ordinal),
        "heading": ("TEXT", _format_heading),
        "start": ("INTEGER", lambda reader, row, record: record.start),
        "end": ("INTEGER", lambda reader, row, record: record.end),
        "text": (
            "TEXT",
            lambda reader, row, record: reader.state.documents.read_text_slice(
                record.document, record.start, record.end
            ),
        ),
    },
    scan=lambda reader: reader.iter_ids(tables.CHUNKS),
    load=lambda reader, row: reader.state.chunks.get(row),
    equality_lookups={
        "id": make_row_lookup(tables.CHUNKS),
        "rowid": make_row_lookup(tables.CHUNKS),
        "document": lambda reader, key: reader.iter_chunks(key),
    },
    range_lookups={"id": make_range_scan(tables.CHUNKS), "rowid": make_range_scan(tables.CHUNKS)},
    estimate_rows=make_row_counter(tables.CHUNKS),
    hidden_columns={"vector": ("BLOB", _read_vector)},
    match_lookups={"text": _find_candidate_chunks},
)


def _iter_document_abstracts(reader: TableReader, key: str) -> TableRows:
    """Return an iterator over the ids of the abstracts of the document with this key; empty if there is none."""
    document = reader.find_document(key)
    return iter(()) if document is None else reader.get_document(document).iter_abstract_ids()


ABSTRACTS = SqlTable(
    "abstracts",
    "summaries; an abstract of level 0 summarizes up to five chunks, and a higher abstract summarizes lower abstracts",
    {
        "id": ("INTEGER", lambda reader, row, record: row),
        "document": ("TEXT", _get_document_key),
        "ordinal": (
            "INTEGER",
            lambda reader, row, record: reader.get_document(record.document).get_abstract_ordinal(row),
        ),
        "parent": ("INTEGER", lambda reader, row, record: record.parent),
        "level": ("INTEGER", lambda reader, row, record: record.level),
        "first_chunk": ("INTEGER", lambda reader, row, record: record.first_chunk),
        "last_chunk": ("INTEGER", lambda reader, row, record: record.last_chunk),
        "text": ("TEXT", lambda reader, row, record: reader.state.abstracts.read_text(record)),
    },
    scan=lambda reader: reader.iter_ids(tables.ABSTRACTS),
    load=lambda reader, row: reader.state.abstracts.get(row),
    equality_lookups={
        "id": make_row_lookup(tables.ABSTRACTS),
        "rowid": make_row_lookup(tables.ABSTRACTS),
        "document": _iter_document_abstracts,
    },
    range_lookups={"id": make_range_scan(tables.ABSTRACTS), "rowid": make_range_scan(tables.ABSTRACTS)},
    estimate_rows=make_row_counter(tables.ABSTRACTS),
)

FILES = SqlTable(
    "files",
    "ingested files; INGEST skips a file as long as the file and its documents are unchanged",
    {
        "path": ("TEXT", lambda reader, row, record: record.path),
        "source": ("TEXT", lambda reader, row, record: record.source),
        "bytes": ("INTEGER", lambda reader, row, record: record.signature[0]),
        "documents": ("INTEGER", lambda reader, row, record: len(record.documents)),
    },
    scan=lambda reader: (file.source for file in reader.state.ingested_files.scan()),
    load=lambda reader, row: reader.state.ingested_files.get(row),
    get_rowid=hash_row,
    equality_lookups={
        "source": lambda reader, source: iter_optional(source if reader.state.ingested_files.get(source) else None)
    },
    estimate_rows=make_row_counter(tables.INGESTED_FILES),
)
