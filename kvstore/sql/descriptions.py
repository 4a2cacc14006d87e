"""Descriptions of a table, document, entity or strategy, for DESCRIBE and the corresponding methods.

In: one state of the store, and a key or a name. Out: a mapping of property to value, or a :class:`Table`. A missing key
or name is an error that suggests the nearest one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..changes.facts import iter_document_facts, list_document_fact_kinds
from ..registry import SYSTEMS, get_description
from ..registry.sql_table import SqlTable
from ..registry.table_reader import TableReader
from ..structures.filter.addresses import NODE_RANK
from ..structures.state import State
from ..text.normalize import to_entity_key
from .suggestions import make_document_error, make_entity_error
from .table_catalog import get_sql_table, get_sql_tables


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    ``type`` is its SQL type (None: any). ``index`` lists the kinds of conditions that find rows without a scan, such as
    ``equality``.
    """

    name: str
    type: str | None
    index: str | None


@dataclass(frozen=True, slots=True)
class Table:
    """A table that SELECT reads."""

    name: str
    columns: tuple[Column, ...]
    description: str


def list_tables() -> list[Table]:
    """Return every table that SELECT reads."""
    return [_build_table(table) for table in get_sql_tables().values()]


def get_table(name: str) -> Table:
    """Return the table with a name, ignoring case. Raises InputError if it does not exist."""
    return _build_table(get_sql_table(name))


def _build_table(table: SqlTable) -> Table:
    """Convert the definition of a table to the description that users see."""
    columns = (
        Column(name, type or None, _format_index_kinds(table, name)) for name, (type, _) in table.columns.items()
    )
    return Table(table.name, tuple(columns), table.description)


def _format_index_kinds(table: SqlTable, column: str) -> str | None:
    """Return the kinds of conditions on a column that need no scan of the table, such as "equality, range", or None."""
    lookups_by_kind = (
        ("equality", table.equality_lookups),
        ("range", table.range_lookups),
        ("words", table.match_lookups),
    )
    kinds = [kind for kind, lookups in lookups_by_kind if column in lookups]
    return ", ".join(kinds) or None


def describe_document(state: State, key: str) -> dict[str, Any]:
    """Return the properties of a document that DESCRIBE DOCUMENT shows, by name. Raises DocumentNotFoundError."""
    record = state.documents.find_by_key(key) if key else None
    if record is None:
        raise make_document_error(state, key)
    # ``own_chunks`` are spans that the user supplied, "whole" for a single chunk, or None if kvstore cut the text.
    return {
        "key": record.key,
        "title": record.title,
        "source": record.source,
        "format": record.format,
        "meta": record.meta,
        "bytes": record.size,
        "chunks": record.chunk_count,
        "cut": "by its owner" if isinstance(record.own_chunks, list) else record.own_chunks or "by rule",
        "abstracts": sum(1 for _ in record.iter_abstract_ids()),
        "changed": record.changed,
        "origin": record.origin,
        "headings": [section.title for section in state.documents.get_sections(record.id)],
        # The number of facts of each kind, such as triples, that the user stated for the document.
        **{fact_kind.plural: 0 for fact_kind in list_document_fact_kinds()},
        **{kind.plural: kind.count_items(value) for kind, _, value in iter_document_facts(state, record)},
        # The entities that are known because the document has facts, such as edges, with their names.
        "introduces": sorted(
            {state.entities.get(entity_id).name for entity_id, _, _ in state.entities.iter_introduced_names(record.id)}
        ),
    }


def describe_entity(state: State, name: str) -> dict[str, Any]:
    """Return the properties of an entity that DESCRIBE ENTITY shows, by name. Raises EntityNotFoundError."""
    reader = TableReader(state, list)  # without settings, which are not needed here
    key = to_entity_key(name)
    entity_id = reader.find_entity(key)
    if entity_id is None:
        raise make_entity_error(state, name)
    record = state.entities.get(entity_id)
    filter_entry = state.filter.find(key)
    # Pairs (rank, id): tree nodes have the rank NODE_RANK; the others are abstracts that name the entity.
    addresses = reader.list_addresses(key)
    node_ids = [address for rank, address in addresses if rank == NODE_RANK]
    own_alias = state.aliases.get(key)  # set if the name is an alias of another entity
    aliases = map(state.aliases.get, state.aliases.list_direct_aliases(key))
    system_properties: dict[str, Any] = {}
    for system in SYSTEMS.values():
        system_properties |= system.describe_entity(state, entity_id)
    return {
        "name": record.name,
        "key": record.key,
        "kind": record.kind,
        "forms": sorted(record.spellings),
        "stands for": None if own_alias is None else own_alias.entity,
        "also called": [alias.name for alias in aliases if alias is not None],
        "mentions": reader.count_mentions(entity_id, key),
        "abstracts": len(addresses) - len(node_ids),
        "trees": sorted({reader.get_tree_name(state.forest.get_node(node).tree) for node in node_ids}),
        "temperature": 0 if filter_entry is None else filter_entry.temperature,
        **system_properties,
    }


def describe_item(state: State, kind: str, key: str) -> dict[str, Any]:
    """Return the properties that DESCRIBE shows of an item that a system stores, such as a community, by name.

    Raises InputError if the kind or the key is unknown.
    """
    return dict(get_description(kind).describe(state, key))
