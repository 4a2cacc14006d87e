"""The SQL tables ``units`` and ``unit_mentions``. A *unit* is a sentence, clause, list item or table row with its own
vector. A row of ``units`` is a :class:`.StoredUnit`, and a row of ``unit_mentions`` a unit with an entity that it
mentions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ...registry.sql_table import SqlTable, TableRows, hash_row, iter_optional
from ...registry.table_reader import TableReader
from ...structures.documents.documents import build_heading_path
from ...structures.state import State
from .units import UNITS, StoredUnit, Units


def _get_units(reader: TableReader) -> Units:
    """Return the reader of the units in the store that an SQL table shows."""
    return reader.state.get_part(UNITS)


def _read_document_units(state: State, document: int) -> list[StoredUnit]:
    """Return all units of a document, in text order."""
    chunks = list(state.documents.get(document).chunk_ids())
    return [unit for units in state.get_part(UNITS).list_chunk_units(chunks) for unit in units]


def _iter_document_units(reader: TableReader, documents: Iterable[int]) -> TableRows:
    """Yield the units of the documents with these ids; nothing without the ``units`` index."""
    if not _get_units(reader).is_present:
        return
    for document in documents:
        yield from reader.call_cached(_read_document_units, document)


def _iter_document_ids(reader: TableReader) -> Iterator[int]:
    """Yield the ids of all documents."""
    return (record.id for record in reader.state.documents.scan())


def _iter_units_by_document_key(reader: TableReader, key: str) -> TableRows:
    """Yield the units of the document with this key; nothing if there is no such document."""
    return _iter_document_units(reader, iter_optional(reader.find_document(key)))


def _iter_chunk_units(reader: TableReader, chunk: int) -> TableRows:
    """Yield the units of a chunk; nothing if the chunk or the ``units`` index does not exist."""
    units = _get_units(reader)
    is_valid_id = 0 <= chunk < 1 << 64
    if not units.is_present or not is_valid_id or reader.state.chunks.find(chunk) is None:
        return iter(())
    return iter(units.list_chunk_units([chunk])[0])


def _format_headings(reader: TableReader, unit: StoredUnit) -> str | None:
    """Return the headings above a unit, joined by " > ", or None if there are none."""
    section = reader.state.chunks.get(unit.chunk).section
    return " > ".join(build_heading_path(reader.get_sections(unit.document), section)) or None


UNIT_TABLE = SqlTable(
    "units",
    "sentences with vectors of their own; source is rule, or the language model that wrote the unit",
    {
        "document": ("TEXT", lambda reader, row, record: reader.get_document(row.document).key),
        "chunk": ("INTEGER", lambda reader, row, record: row.chunk),
        "ordinal": ("INTEGER", lambda reader, row, record: row.ordinal),
        "heading": ("TEXT", lambda reader, row, record: _format_headings(reader, row)),
        "start": ("INTEGER", lambda reader, row, record: row.start),
        "end": ("INTEGER", lambda reader, row, record: row.end),
        "source": ("TEXT", lambda reader, row, record: row.source),
        "text": ("TEXT", lambda reader, row, record: _get_units(reader).list_texts([row.id])[0]),
    },
    scan=lambda reader: _iter_document_units(reader, _iter_document_ids(reader)),
    get_rowid=hash_row,
    equality_lookups={"chunk": _iter_chunk_units, "document": _iter_units_by_document_key},
    estimate_rows=lambda reader: _get_units(reader).count,
)


class _UnitMention(NamedTuple):
    """A row of the ``unit_mentions`` SQL table: a unit, and an entity that it mentions."""

    unit: StoredUnit
    entity: int


def _iter_unit_mentions(reader: TableReader, units: TableRows) -> TableRows:
    """Yield the rows of the ``unit_mentions`` SQL table for ``units``: a row for each entity that a unit mentions."""
    for unit in units:
        (entities,) = _get_units(reader).list_entities([unit.id])
        for entity in entities:
            yield _UnitMention(unit, entity)


def _iter_entity_unit_mentions(reader: TableReader, name: str) -> TableRows:
    """Yield the rows of the ``unit_mentions`` SQL table for one entity: a row for each unit that mentions it.

    Yields nothing if no entity has this name, or if the store has no units.
    """
    entity = reader.find_entity(name)
    if entity is None or not _get_units(reader).is_present:
        return
    chunks = dict.fromkeys(reader.iter_mention_chunks(name))
    for id in _get_units(reader).list_entity_units(entity, chunks):
        (unit,) = _get_units(reader).get([id])
        yield _UnitMention(unit, entity)


UNIT_MENTION_TABLE = SqlTable(
    "unit_mentions",
    "entities that each unit mentions, in its text or in the title above it",
    {
        "document": ("TEXT", lambda reader, row, record: reader.get_document(row.unit.document).key),
        "chunk": ("INTEGER", lambda reader, row, record: row.unit.chunk),
        "ordinal": ("INTEGER", lambda reader, row, record: row.unit.ordinal),
        "entity": ("TEXT", lambda reader, row, record: reader.get_entity_name(row.entity)),
    },
    scan=lambda reader: _iter_unit_mentions(reader, _iter_document_units(reader, _iter_document_ids(reader))),
    get_rowid=lambda reader, row: hash_row(reader, (row.unit.id, row.entity)),
    equality_lookups={
        "chunk": lambda reader, chunk: _iter_unit_mentions(reader, _iter_chunk_units(reader, chunk)),
        "document": lambda reader, key: _iter_unit_mentions(reader, _iter_units_by_document_key(reader, key)),
        "entity": _iter_entity_unit_mentions,
    },
    estimate_rows=lambda reader: 3 * _get_units(reader).count,
)
