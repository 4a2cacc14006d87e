"""The SQL tables of names, trees and facts, and of the store itself: their columns, and their lookups by value.
A *row* is a small key, such as an id; its *record* is the decoded data. A lookup may yield too many rows: SQLite checks
each row again. A *node* is an entity in a tree.

In: a :class:`~kvstore.registry.table_reader.TableReader` of one state of the store. Out: for each table its columns and
its lookups: all rows, the rows with a given value of a column, the rows with a value in a range. A record is decoded
when one of its columns is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import astuple
from typing import TYPE_CHECKING, Any, NamedTuple

from ..registry import INDEXES
from ..registry.sql_table import (
    ReadColumn,
    SqlTable,
    SqlValue,
    TableRow,
    TableRows,
    hash_row,
    iter_optional,
    make_list_table,
    make_row_counter,
    make_row_lookup,
)
from ..registry.table_reader import MAX_KEY_BYTES, AssertedEdge, TableReader
from ..storage.records import U32
from ..structures import tables
from ..structures.filter import addresses
from ..structures.forest.edge_filter import ACCEPTED
from ..structures.forest.forest import USER
from ..structures.state import State
from ..text.normalize import to_entity_key

if TYPE_CHECKING:
    from ..structures.documents.chunks import ChunkRecord
    from ..structures.documents.document_triples import DocumentTriples, Triple
    from ..structures.indexes.index import IndexStatus
    from ..structures.names.mentions import Mention

# Entities ------------------------------------------------------------------------------------------------------------


def _scan_entity_range(reader: TableReader, low_key: str | None, high_key: str | None) -> TableRows:
    """Yield the ids of the entities whose keys may be between two keys; SQLite checks each key again.

    ``low_key`` and ``high_key`` are included; None means no limit.
    """
    last_key = None if high_key is None else high_key.encode()
    for key, entity in reader.state.lmdb.scan(
        tables.ENTITY_NAMES, b"" if low_key is None else low_key.encode()[:MAX_KEY_BYTES]
    ):
        if last_key is not None and bytes(key) > last_key:
            return
        yield U32.unpack(entity)[0]


def _get_temperature(reader: TableReader, row: TableRow, record: Any) -> int:
    """Return the temperature (number of lookups) of an entity, given its record; 0 if the entity filter lacks it."""
    filter_entry = reader.state.filter.find(record.key)
    return 0 if filter_entry is None else filter_entry.temperature


ENTITIES = SqlTable(
    "entities",
    "known names; key is the normal form, which all spellings of a name share",
    {
        "name": ("TEXT", lambda reader, row, record: record.name),
        "kind": ("TEXT", lambda reader, row, record: record.kind),
        "mentions": ("INTEGER", lambda reader, row, record: reader.count_mentions(row, record.key)),
        "temperature": ("INTEGER", _get_temperature),
        "key": ("TEXT", lambda reader, row, record: record.key),
    },
    scan=lambda reader: (entity for entity, _ in reader.state.entities.scan()),
    load=lambda reader, row: reader.state.entities.get(row),
    equality_lookups={
        "name": lambda reader, name: iter_optional(reader.find_entity(name)),
        "key": lambda reader, key: iter_optional(reader.find_entity(key)),
        "rowid": lambda reader, number: iter_optional(number if number in reader.state.entities else None),
    },
    range_lookups={"key": _scan_entity_range},
    estimate_rows=make_row_counter(tables.ENTITY_NAMES),
)


def _iter_mentions(reader: TableReader, chunks: Iterator[int]) -> TableRows:
    """Yield the rows of the SQL table of mentions for some chunk ids: (chunk, index of the mention in it)."""
    for chunk in chunks:
        for index in range(len(reader.list_mentions(chunk))):
            yield chunk, index


def _iter_entity_mentions(reader: TableReader, name: str) -> TableRows:
    """Yield (chunk id, index of the mention in the chunk) for each mention of the entity with this name, by chunk."""
    entity = reader.find_entity(name)
    for chunk in () if entity is None else reader.iter_mention_chunks(name):
        for index, mention in enumerate(reader.list_mentions(chunk)):
            if mention.entity == entity:
                yield chunk, index


class _MentionRecord(NamedTuple):
    """A mention, and the record of its chunk."""

    chunk: ChunkRecord
    mention: Mention


#: A row is (chunk, index of the mention in it).
MENTIONS = SqlTable(
    "mentions",
    "occurrences of entities in chunks; start and end are byte offsets in the document's stored text",
    {
        "entity": ("TEXT", lambda reader, row, record: reader.get_entity_name(record.mention.entity)),
        "document": ("TEXT", lambda reader, row, record: reader.get_document(record.chunk.document).key),
        "chunk": ("INTEGER", lambda reader, row, record: row[0]),
        "start": ("INTEGER", lambda reader, row, record: record.chunk.start + record.mention.start),
        "end": (
            "INTEGER",
            lambda reader, row, record: record.chunk.start + record.mention.start + record.mention.length,
        ),
    },
    scan=lambda reader: _iter_mentions(reader, reader.iter_ids(tables.MENTIONS)),
    load=lambda reader, row: _MentionRecord(reader.state.chunks.get(row[0]), reader.list_mentions(row[0])[row[1]]),
    get_rowid=lambda reader, row: row[0] << 16 | row[1],
    equality_lookups={
        "chunk": lambda reader, chunk: _iter_mentions(reader, make_row_lookup(tables.MENTIONS)(reader, chunk)),
        "document": lambda reader, key: _iter_mentions(reader, reader.iter_chunks(key)),
        "entity": _iter_entity_mentions,
    },
    estimate_rows=lambda reader: 10 * reader.state.lmdb.count(tables.MENTIONS),
)

# The forest ----------------------------------------------------------------------------------------------------------


def _find_tree_source(reader: TableReader, row: TableRow, record: Any) -> str | None:
    """Return the key of the document that asserts all edges of a tree.

    Return None if several documents assert them, or if a user asserted one. ``row`` is the id of the tree.
    """
    document_ids: set[int] = set()
    for node, _ in reader.state.forest.iter_nodes(row):
        for parent in reader.state.forest.iter_asserted_parents(node):
            document_ids.update(reader.state.forest.list_asserting_documents(node, parent))
            if len(document_ids) > 1:
                return None
    return _get_document_key(reader, document_ids.pop()) if document_ids else None


def _get_document_key(reader: TableReader, document: int) -> str | None:
    """Return the key of the document with this id, or None for ``USER``, which represents the user."""
    return None if document == USER else reader.get_document(document).key


TREES = SqlTable(
    "trees",
    "trees of entities; source is the document that states the tree, if only one document does",
    {
        "name": ("TEXT", lambda reader, row, record: record),
        "nodes": ("INTEGER", lambda reader, row, record: sum(1 for _ in reader.state.forest.iter_nodes(row))),
        "source": ("TEXT", _find_tree_source),
    },
    scan=lambda reader: (tree for tree, _ in reader.state.forest.iter_trees()),
    load=lambda reader, row: reader.get_tree_name(row),
    equality_lookups={"name": lambda reader, name: iter_optional(reader.find_tree(name))},
    estimate_rows=make_row_counter(tables.TREES),
)


def _iter_entity_nodes(reader: TableReader, name: str) -> TableRows:
    """Return an iterator over the ids of the tree nodes of the entity with this name."""
    return (node for rank, node in reader.list_addresses(name) if rank == addresses.NODE_RANK)


def _iter_tree_nodes(reader: TableReader, name: str) -> TableRows:
    """Return an iterator over the ids of the nodes of the tree with this name; it is empty if there is no such tree."""
    tree = reader.find_tree(name)
    return iter(()) if tree is None else (node for node, _ in reader.state.forest.iter_nodes(tree))


NODES = SqlTable(
    "nodes",
    "entities in trees, one row for each node; level 0 is a root",
    {
        "tree": ("TEXT", lambda reader, row, record: reader.get_tree_name(record.tree)),
        "entity": ("TEXT", lambda reader, row, record: reader.get_entity_name(record.entity)),
        "level": ("INTEGER", lambda reader, row, record: reader.state.forest.compute_level(row)),
        "children": ("INTEGER", lambda reader, row, record: sum(1 for _ in reader.state.forest.iter_children(row))),
    },
    scan=lambda reader: reader.iter_ids(tables.NODES),
    load=lambda reader, row: reader.state.forest.get_node(row),
    equality_lookups={"rowid": make_row_lookup(tables.NODES), "entity": _iter_entity_nodes, "tree": _iter_tree_nodes},
    estimate_rows=make_row_counter(tables.NODES),
)


def _iter_asserted_edges(reader: TableReader, child: int, parent: int) -> Iterator[AssertedEdge]:
    """Yield (child, parent, assertion) for each assertion of an edge, by a document or by the user.

    ``child`` and ``parent`` are ids of tree nodes. An assertion says who asserts the edge, and where in the document.
    """
    return ((child, parent, assertion) for assertion in reader.state.forest.iter_assertions(child, parent))


def _iter_parent_edges(reader: TableReader, nodes: Iterable[int]) -> Iterator[AssertedEdge]:
    """Yield (child, parent, assertion) for each assertion of an edge from one of ``nodes`` to a parent.

    All nodes are ids. An assertion says who asserts the edge, and where.
    """
    for node in nodes:
        for parent in reader.state.forest.iter_asserted_parents(node):
            yield from _iter_asserted_edges(reader, node, parent)


def _iter_child_edges(reader: TableReader, nodes: Iterable[int]) -> Iterator[AssertedEdge]:
    """Yield (child, parent, assertion) for each assertion of an edge from a child to one of ``nodes``.

    All nodes are ids. An assertion says who asserts the edge, and where.
    """
    for node in nodes:
        for child in reader.state.forest.iter_asserted_children(node):
            yield from _iter_asserted_edges(reader, child, node)


def _make_entity_reader(index: int) -> ReadColumn:
    """Return a function that reads the name of one node of an edge: the child for ``index`` 0, the parent for 1.

    The row of an edge is (child node, parent node, assertion).
    """
    return lambda reader, row, record: reader.get_entity_name(reader.state.forest.get_node(row[index]).entity)


#: A row is (child node, parent node, assertion), and a record the assertion.
EDGES = SqlTable(
    "edges",
    "edges of the trees, one row for each document that states the edge; document is NULL for INSERT EDGE",
    {
        "child": ("TEXT", _make_entity_reader(0)),
        "parent": ("TEXT", _make_entity_reader(1)),
        "tree": ("TEXT", lambda reader, row, record: reader.get_tree_name(reader.state.forest.get_node(row[0]).tree)),
        "kind": ("TEXT", lambda reader, row, record: record.kind),
        "confidence": ("REAL", lambda reader, row, record: record.confidence),
        "document": ("TEXT", lambda reader, row, record: _get_document_key(reader, record.document)),
        "start": ("INTEGER", lambda reader, row, record: record.start),
        "end": ("INTEGER", lambda reader, row, record: record.end),
        "accepted": (
            "INTEGER",
            lambda reader, row, record: reader.state.forest.get_edge_status(row[0], row[1]) == ACCEPTED,
        ),
    },
    scan=lambda reader: (
        edge for pair in reader.state.forest.iter_edges() for edge in _iter_asserted_edges(reader, *pair)
    ),
    load=lambda reader, row: row[2],
    get_rowid=hash_row,
    equality_lookups={
        "child": lambda reader, name: _iter_parent_edges(reader, _iter_entity_nodes(reader, name)),
        "parent": lambda reader, name: _iter_child_edges(reader, _iter_entity_nodes(reader, name)),
        "tree": lambda reader, name: _iter_parent_edges(reader, _iter_tree_nodes(reader, name)),
    },
    estimate_rows=make_row_counter(tables.STATEMENTS),
)


def _find_alias(reader: TableReader, name: str) -> TableRows:
    """Return an iterator over the key of the alias with this name; empty if there is no such alias."""
    key = _to_storable_key(name)
    return iter_optional(key if key and reader.state.aliases.get(key) else None)


def _iter_aliases(reader: TableReader, name: str) -> TableRows:
    """Return an iterator over the keys of the direct aliases of the entity with this name."""
    key = _to_storable_key(name)
    return iter(reader.state.aliases.list_direct_aliases(key) if key else ())


def _to_storable_key(name: str) -> str | None:
    """Return the key of a name, or None if it is empty or too long to be stored."""
    key = to_entity_key(name)
    return key if 0 < len(key.encode()) <= MAX_KEY_BYTES else None


ALIASES = SqlTable(
    "aliases",
    "other names of entities; kind is alias or merge",
    {
        "name": ("TEXT", lambda reader, row, record: record.name),
        "entity": ("TEXT", lambda reader, row, record: record.entity),
        "kind": ("TEXT", lambda reader, row, record: record.kind),
    },
    scan=lambda reader: (key for key, _ in reader.state.aliases.iter_all()),
    load=lambda reader, row: reader.state.aliases.get(row),
    get_rowid=hash_row,
    equality_lookups={"name": _find_alias, "entity": _iter_aliases},
    estimate_rows=make_row_counter(tables.ALIASES),
)


def _read_triples(state: State, document: int) -> DocumentTriples:
    """Return the triples of the document with the id ``document``."""
    from ..structures.documents.document_triples import Triples

    return Triples(state.lmdb).get(document)


def _iter_documents_with_triples(reader: TableReader) -> Iterator[int]:
    """Return an iterator over the ids of the documents that have triples or imported entity names."""
    from ..structures.documents.document_triples import Triples

    return iter(Triples(reader.state.lmdb).list_documents())


class _TripleRecord(NamedTuple):
    """A triple, and the name of the model that wrote it (None if it was imported)."""

    triple: Triple
    written_by: str | None


def _load_triple(reader: TableReader, row: tuple[int, int]) -> _TripleRecord:
    """Return the triple of a row, with the model that wrote it.

    The row is (id of a document, index of the triple in it).
    """
    document, index = row
    triples = reader.call_cached(_read_triples, document)
    triple = triples.triples[index]
    return _TripleRecord(triple, triples.models.get(triple))


def _iter_triples(reader: TableReader, documents: Iterator[int]) -> TableRows:
    """Yield the rows of the SQL table of triples for some document ids: (document, index of the triple in it)."""
    for document in documents:
        for index in range(len(reader.call_cached(_read_triples, document).triples)):
            yield document, index


def _iter_entity_triples(reader: TableReader, name: str) -> TableRows:
    """Yield (document, index) for all triples of each document with a triple about ``name``. SQLite selects among them.

    If ``name`` is a literal, not written as a name, the triples of all documents are yielded: literals have no index.
    """
    from ..derived.passage_graph.structure import GRAPH
    from ..text.stated_names import is_written_as_name

    if not is_written_as_name(name):
        yield from _iter_triples(reader, _iter_documents_with_triples(reader))
        return
    entity = reader.find_entity(name)
    if entity is None:
        return
    triple_chunks = reader.state.get_part(GRAPH).list_triple_chunks(entity)  # the chunks of triples about the entity
    documents = {reader.state.chunks.get(chunk).document for chunk in triple_chunks}
    yield from _iter_triples(reader, iter(documents))


#: A row is (document, index of the triple in it).
TRIPLES = SqlTable(
    "triples",
    "triples that were imported for documents, or extracted from them by a model",
    {
        "subject": ("TEXT", lambda reader, row, record: record.triple.subject),
        "relation": ("TEXT", lambda reader, row, record: record.triple.relation),
        "object": ("TEXT", lambda reader, row, record: record.triple.object),
        "document": ("TEXT", lambda reader, row, record: reader.get_document(row[0]).key),
        "written_by": ("TEXT", lambda reader, row, record: record.written_by),
    },
    scan=lambda reader: _iter_triples(reader, _iter_documents_with_triples(reader)),
    load=_load_triple,
    get_rowid=hash_row,
    equality_lookups={
        "document": lambda reader, key: _iter_triples(reader, iter_optional(reader.find_document(key))),
        "subject": _iter_entity_triples,
        "object": _iter_entity_triples,
    },
    estimate_rows=lambda reader: 10 * sum(map(reader.state.lmdb.count, (tables.TRIPLES, tables.WRITTEN_TRIPLES))),
)

# The store itself ----------------------------------------------------------------------------------------------------


def _to_sql_value(value: Any) -> SqlValue:
    """Return ``value`` if it has a type of SQLite, else its text."""
    return value if value is None or isinstance(value, (str, int, float)) else str(value)


SETTINGS = make_list_table(
    "settings",
    "settings of the store, which cannot change, and settings of the session",
    {"name": "TEXT", "value": "", "fixed": "INTEGER"},
    lambda reader: ((name, _to_sql_value(value), fixed) for name, value, fixed in reader.settings),
)
FILTER_PAGES = make_list_table(
    "filter_pages",
    "the entity filter's bucket pages; load is the share of slots in use",
    {
        "page": "INTEGER",
        "depth": "INTEGER",
        "entries": "INTEGER",
        "load": "REAL",
        "kicks": "INTEGER",
        "splits": "INTEGER",
        "bytes": "INTEGER",
    },
    lambda reader: (
        (page.page, page.depth, page.entries, page.load, page.kicks, page.splits, page.bytes)
        for page in reader.state.filter.iter_pages()
    ),
)


def _list_index_statuses(state: State) -> Iterable[IndexStatus]:
    """Return the status of each index of the store, such as whether it includes the last change."""
    from ..structures.indexes.index_reading import list_statuses

    return list_statuses(state, INDEXES.values())


INDEX_STATUSES = make_list_table(
    "indexes",
    "indexes; built is the number of the last change that an index includes, and stale is the number of later changes",
    {"kind": "TEXT", "state": "TEXT", "built": "INTEGER", "stale": "INTEGER", "detail": "TEXT"},
    lambda reader: map(astuple, _list_index_statuses(reader.state)),
)
