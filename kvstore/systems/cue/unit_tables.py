"""The tables ``units`` and ``unit_mentions`` of SELECT."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...structures.documents.documents import build_heading_path
from ...structures.state import State
from ..reader import Reader
from ..sql_table import SqlTable, TableRow, TableRows, hash_row, maybe
from .units import UNITS, StoredUnit, Units


def _units(reader: Reader) -> Units:
    return reader.view.part(UNITS)


def _read_document_units(state: State, document: int) -> list[StoredUnit]:
    chunks = list(state.documents.get(document).chunk_ids())
    return [unit for units in state.part(UNITS).of_chunks(chunks) for unit in units]


def _of_documents(reader: Reader, documents: Iterable[int]) -> TableRows:
    if not _units(reader).present:
        return
    for document in documents:
        yield from reader.read(_read_document_units, document)


def _documents(reader: Reader) -> Iterator[int]:
    return (record.id for record in reader.view.documents.scan())


def _iter_units_of_key(reader: Reader, key: str) -> TableRows:
    return _of_documents(reader, maybe(reader.find_document(key)))


def _of_chunk(reader: Reader, chunk: int) -> TableRows:
    record = reader.view.chunks.find(chunk) if 0 <= chunk < 1 << 64 and _units(reader).present else None
    return iter(() if record is None else _units(reader).of_chunks([chunk])[0])


def _headings(reader: Reader, unit: StoredUnit) -> str | None:
    section = reader.view.chunks.get(unit.chunk).section
    return " > ".join(build_heading_path(reader.outline(unit.document), section)) or None


UNIT_TABLE = SqlTable(
    "units",
    "sentences with vectors of their own, where there is an index units; source is rule, or the model that wrote it",
    {
        "document": ("TEXT", lambda reader, row, record: reader.document(row.document).key),
        "chunk": ("INTEGER", lambda reader, row, record: row.chunk),
        "ordinal": ("INTEGER", lambda reader, row, record: row.ordinal),
        "heading": ("TEXT", lambda reader, row, record: _headings(reader, row)),
        "start": ("INTEGER", lambda reader, row, record: row.start),
        "end": ("INTEGER", lambda reader, row, record: row.end),
        "source": ("TEXT", lambda reader, row, record: row.source),
        "text": ("TEXT", lambda reader, row, record: _units(reader).texts([row.id])[0]),
    },
    scan=lambda reader: _of_documents(reader, _documents(reader)),
    number=hash_row,
    equal={"chunk": _of_chunk, "document": _iter_units_of_key},
    size=lambda reader: _units(reader).count,
)


def _mentioned(reader: Reader, units: TableRows) -> TableRows:
    for unit in units:
        for entity in _units(reader).entities_of([unit.id])[0]:
            yield unit, entity


def _of_entity(reader: Reader, name: str) -> TableRows:
    entity = reader.entity_id(name)
    if entity is None or not _units(reader).present:
        return
    chunks = dict.fromkeys(reader.mention_chunks(name))
    for id in _units(reader).of_entity(entity, chunks):
        yield _units(reader).get([id])[0], entity


def _number(reader: Reader, row: TableRow) -> int:
    return hash_row(reader, (row[0].id, row[1]))


UNIT_MENTION_TABLE = SqlTable(
    "unit_mentions",
    "which entities units name, in their text or in the title above it",
    {
        "document": ("TEXT", lambda reader, row, record: reader.document(row[0].document).key),
        "chunk": ("INTEGER", lambda reader, row, record: row[0].chunk),
        "ordinal": ("INTEGER", lambda reader, row, record: row[0].ordinal),
        "entity": ("TEXT", lambda reader, row, record: reader.get_entity_name(row[1])),
    },
    scan=lambda reader: _mentioned(reader, _of_documents(reader, _documents(reader))),
    number=_number,
    equal={
        "chunk": lambda reader, chunk: _mentioned(reader, _of_chunk(reader, chunk)),
        "document": lambda reader, key: _mentioned(reader, _iter_units_of_key(reader, key)),
        "entity": _of_entity,
    },
    size=lambda reader: 3 * _units(reader).count,
)
