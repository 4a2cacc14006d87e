"""Facts: data that users add and that cannot be derived, such as documents, edges and aliases. The *row key* of a fact
is the key of its record on disk. A *line* is a JSON object in an export, here a dict of fields. A fact *introduces* the
names in it: it makes them known as entities.

The kinds are documents, triples of documents, edges, aliases, and the kinds that systems declare. Each kind is declared
once, as a :class:`~kvstore.registry.fact.Fact`, here or by a system. :func:`list_fact_kinds` lists them in the order in
which a store imports them. This list determines export and import, what CHECK REPAIR reads and reports as lost, the
statements of ``.dump`` and what they cannot express, and FORMAT.md's list of data that cannot be rebuilt. Everything
else in a store is derived from facts and settings.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
import numpy.typing as npt

from .. import registry
from ..arguments import format_count
from ..errors import InputError
from ..extraction.validation import unpack_chunks
from ..process.frozen_dataclass import frozen_dataclass
from ..registry.contract import TRIPLE_LINK
from ..registry.fact import BoundStatement, ChangeContext, DocumentFact, ExportLine, Fact, Fields, StatedFact
from ..storage import records
from ..structures import tables
from ..structures.documents.document_triples import TRIPLE_KIND, DocumentTriples, find_linked_pairs, parse_triples
from ..structures.documents.document_triples import Triple as Triple
from ..structures.documents.documents import DocumentRecord
from ..structures.forest.forest import EdgeKey, StatedEdge
from ..structures.names.aliases import ALIAS, MERGE, Alias, AliasWriter
from ..structures.state import State
from ..text.stated_names import check_tree_name, clean_name

_OPTIONAL_TEXT = (str, type(None))


@frozen_dataclass
class SourceDocument:
    """A document as the user supplied it. ``vectors`` and ``chunks`` are set if the user supplied them; ``vectors`` are
    rows of numbers. ``origin`` is the folder from which it was ingested."""

    format: str
    text: str
    title: str | None = None
    source: str | None = None
    meta: dict[str, Any] | None = None
    left_out: int | None = None
    origin: str | None = None
    vectors: npt.ArrayLike | None = None
    chunks: str | Sequence[Sequence[int]] | None = None


class _StatedDocuments(Fact[str, SourceDocument]):
    """The kind of fact with the documents as the user supplied them, by document key."""

    name = "document"
    plural = "documents"
    fields: ClassVar[Fields] = {
        "document": str,
        "title": _OPTIONAL_TEXT,
        "source": _OPTIONAL_TEXT,
        "meta": (dict, type(None)),
        "format": str,
        "text": str,
        "left_out": (int, type(None)),
        "origin": _OPTIONAL_TEXT,
        "vectors": (list, type(None)),
        "chunks": (str, list, type(None)),
    }
    # Only the vectors that users supplied are facts; the others are derived.
    tables = (tables.DOCUMENTS, tables.TEXTS, tables.VECTORS)

    def scan(self, state: State) -> Iterator[tuple[str, SourceDocument]]:
        """Yield the key and content of each document, in order of the keys."""
        for key in sorted(state.documents.iter_keys()):
            # No document has the id 0: in a damaged store, a key without an id raises CorruptionError.
            yield self.read(state, records.encode_u64(state.documents.find_id(key) or 0))

    def read(self, state: State, row_key: bytes) -> tuple[str, SourceDocument]:
        """Return the key and content of a document, with its vectors only if the user supplied them.

        ``row_key``, the key of its record, has the document's id.
        """
        record = state.documents.get(records.U64.unpack(row_key)[0])
        source = SourceDocument(
            format=record.format,
            text=state.documents.read_text(record.id).decode(),
            title=record.title,
            source=record.source,
            meta=record.meta,
            left_out=record.left_out,
            origin=record.origin,
            vectors=state.read_vectors(record) if record.own_vectors and record.chunk_count else None,
            chunks=unpack_chunks(record.own_chunks),
        )
        return record.key, source

    def to_line(self, key: str, value: SourceDocument) -> ExportLine:
        """Return the fields of a document's line in an export; omit empty optional fields."""
        line = {"document": key, **{name: getattr(value, name) for name in self.fields if name != "document"}}
        line["vectors"] = None if value.vectors is None else np.asarray(value.vectors).tolist()
        return {
            name: field_value
            for name, field_value in line.items()
            if field_value or name not in ("left_out", "origin", "vectors", "chunks")
        }

    def parse(self, line: ExportLine) -> tuple[str, SourceDocument]:
        """Return the key and content of a document from the fields of its line in an export."""
        return line["document"], SourceDocument(**{name: line[name] for name in line if name != "document"})

    def describe_row(self, row_key: bytes) -> str:
        """Return a phrase such as ``document 7``, by which CHECK REPAIR reports a document that it cannot recover."""
        return f"document {records.U64.unpack(row_key)[0]}"

    def iter_dump_statements(self, state: State) -> Iterator[BoundStatement]:
        """Yield an INSERT DOCUMENT statement, with its values, for each document.

        No statement can express the user's vectors, the user's chunks (except the whole text), or ``left_out``.
        """
        for key, source in self.scan(state):
            format_clause = f" AS {source.format}" if source.format != "text" else ""
            meta = json.dumps(source.meta, ensure_ascii=False) if source.meta else None
            clauses = {" SOURCE ?": source.source, " TITLE ?": source.title, " TEXT ?": source.text, " META ?": meta}
            used_clauses = {clause: value for clause, value in clauses.items() if value is not None}
            whole_clause = " WHOLE" if source.chunks == "whole" else ""
            statement = f"INSERT DOCUMENT ?{format_clause}{''.join(used_clauses)}{whole_clause}"
            yield statement, (key, *used_clauses.values())

    def iter_dump_comments(self, state: State) -> Iterator[BoundStatement]:
        """Yield comments for the dump on what it omits: the user's vectors and chunks, and omitted parts of pages."""
        num_own_vectors = num_partial = num_own_chunks = 0
        for record in state.documents.scan():
            num_own_vectors += int(record.own_vectors)
            num_partial += int(record.left_out > 0)
            num_own_chunks += int(isinstance(record.own_chunks, list))  # not "whole", which a statement can express
        if num_own_vectors:
            documents = format_count(num_own_vectors, "document")
            yield f"the dump omits the user's own vectors of {documents}; use EXPORT TO to keep them", ()
        if num_partial:
            pages = format_count(num_partial, "page")
            yield f"the dump omits how much of {pages} was left out; use EXPORT TO to keep it", ()
        if num_own_chunks:
            documents = format_count(num_own_chunks, "document")
            yield f"the dump omits the user's own chunks of {documents}; use EXPORT TO to keep them", ()


class _StatedTriples(DocumentFact[DocumentTriples]):
    """The kind of fact with the triples of documents, by document key."""

    name = "triples"
    plural = "triples"
    fields: ClassVar[Fields] = {"triples": str, "names": list, "rows": list}
    tables = (tables.TRIPLES,)
    kinds = (TRIPLE_KIND,)

    def parse_fields(self, *fields: Any) -> DocumentTriples:
        """Return the triples of a document, from the names and the triples of its line in an export."""
        names, triples = fields
        return parse_triples(triples, names)

    def to_fields(self, value: DocumentTriples) -> Sequence[Any]:
        """Return the names and the triples, which follow the document key in the document's line of an export."""
        return value.names, value.triples

    def format_count(self, number: int) -> str:
        """Return "the triples of N documents", where N is ``number``, or "" for 0."""
        return f"the triples of {format_count(number, 'document')}" if number else ""

    def iter_dump_comments(self, state: State) -> Iterator[BoundStatement]:
        """Yield a comment for the dump if imported triples are stored; it omits them, as no statement creates them."""
        num_documents = state.lmdb.count(tables.TRIPLES)
        if num_documents:
            documents = format_count(num_documents, "document")
            yield f"the dump omits the triples imported for {documents}; use EXPORT TO to keep them", ()

    def estimate_size(self, value: DocumentTriples) -> int:
        """Return the estimated memory of pending triples, in chunks: each name and each triple counts as a chunk."""
        return len(value.names) + len(value.triples)

    def count_items(self, value: DocumentTriples) -> int:
        """Return the number of triples, which DESCRIBE shows."""
        return len(value.triples)

    def merge(self, value: DocumentTriples, new_value: DocumentTriples) -> DocumentTriples:
        """Return the union of two sets of triples of a document."""
        return value.merge(new_value)

    def list_introductions(self, value: DocumentTriples) -> Iterable[tuple[str, str]]:
        """Return (spelling, kind of name) for each name in the triples, which becomes an entity."""
        return ((spelling, TRIPLE_KIND) for spelling in value.get_spellings_by_key().values())

    def list_links(self, state: State, value: DocumentTriples) -> Iterable[tuple[int, int, int]]:
        """Return (entity, entity, kind of link) for each pair of different entities that a triple connects."""
        return ((first, second, TRIPLE_LINK) for first, second in find_linked_pairs(value, state.filter))


class _StatedEdges(StatedFact[EdgeKey, StatedEdge]):
    """The kind of fact with the edges that the user asserted, by tree and the normal forms of both names."""

    name = "edge"
    plural = "edges"
    fields: ClassVar[Fields] = {"edge": str, "parent": str, "tree": str}
    tables = (tables.STATED_EDGES,)

    def make_edge(self, child: str, parent: str, tree: str) -> StatedEdge:
        """Return an edge with cleaned names. Raises InputError for an invalid name or tree, or equal names."""
        edge = StatedEdge(clean_name(child), clean_name(parent), check_tree_name(tree))
        _, child_key, parent_key = edge.key
        if child_key == parent_key:
            raise InputError(f"{edge.child!r} cannot be its own parent; name another parent")
        return edge

    def scan(self, state: State) -> Iterator[tuple[EdgeKey, StatedEdge]]:
        """Yield the edges that the user asserted, in order of their keys."""
        edges = {edge.key: edge for _, _, edge in state.forest.iter_stated_edges()}
        yield from sorted(edges.items())

    def to_line(self, key: EdgeKey, value: StatedEdge) -> ExportLine:
        """Return the fields of an edge's line in an export."""
        return {"edge": value.child, "parent": value.parent, "tree": value.tree}

    def parse(self, line: ExportLine) -> tuple[EdgeKey, StatedEdge]:
        """Return the key of an edge and the edge from the fields of its line in an export."""
        edge = self.make_edge(line["edge"], line["parent"], line["tree"])
        return edge.key, edge

    def describe_row(self, row_key: bytes) -> str:
        """Return the phrase by which CHECK REPAIR reports an edge that it cannot recover.

        ``row_key`` has the ids of the edge's nodes.
        """
        child, parent = records.U64_PAIR.unpack(row_key)
        return f"the user's edge between tree nodes {child} and {parent}"

    def read(self, state: State, row_key: bytes) -> tuple[EdgeKey, StatedEdge]:
        """Return the key and value of a stored edge; ``row_key``, the key of its record, has the ids of its nodes."""
        edge = state.forest.find_stated_edge(*records.U64_PAIR.unpack(row_key))
        assert edge is not None  # the caller found the row key in this state
        return edge.key, edge

    def iter_dump_statements(self, state: State) -> Iterator[BoundStatement]:
        """Yield an INSERT EDGE statement, and the values of its ``?``, for each edge."""
        for _, edge in self.scan(state):
            yield "INSERT EDGE ? UNDER ? IN TREE ?", (edge.child, edge.parent, edge.tree)

    def iter_dump_comments(self, state: State) -> Iterator[BoundStatement]:
        """Yield nothing: statements can express every edge."""
        return iter(())

    def find_nodes(self, state: State, key: EdgeKey) -> tuple[int, int] | None:
        """Return the tree nodes (child, parent) that an edge with this key joins or would join.

        Returns None if a node is missing. ``key`` has the tree and the normal forms of child and parent.
        """
        tree, child, parent = key
        child_entity, parent_entity = map(int, state.filter.find_entities([child, parent]))  # 0: an unknown name
        if not child_entity or not parent_entity:
            return None
        return state.forest.find_node_pair(tree, child_entity, parent_entity)

    def find(self, state: State, key: EdgeKey) -> StatedEdge | None:
        """Return the edge between two names in a tree, or None if the user did not assert it."""
        nodes = self.find_nodes(state, key)
        return None if nodes is None else state.forest.find_stated_edge(*nodes)

    def list_introductions(self, value: StatedEdge) -> Iterable[tuple[str, str]]:
        """Return (spelling, kind of name) of the child and the parent, which become entities."""
        return (value.child, "tree"), (value.parent, "tree")

    def remove(self, context: ChangeContext, key: EdgeKey, value: StatedEdge) -> None:
        """Withdraw the user's assertion of an edge; the edge remains if documents also assert it.

        Tree nodes that no edge needs are unlinked from their entities.
        """
        nodes = self.find_nodes(context.state, key)
        assert nodes is not None  # it is stored
        context.linker.remove_node_addresses(context.forest.remove_user_edge(*nodes))

    def put(self, context: ChangeContext, ids: Mapping[str, int], key: EdgeKey, value: StatedEdge) -> None:
        """Store an edge as asserted by the user, and link its new tree nodes to their entities.

        ``ids`` has the entities of its names, by key (normal form).
        """
        tree, child, parent = key
        new_nodes = context.forest.add_user_edge(tree, ids[child], ids[parent], (value.child, value.parent))
        context.linker.add_node_addresses(new_nodes)


class _StatedAliases(StatedFact[str, Alias]):
    """The kind of fact with the aliases and merges that the user added, by the normal form of the alias. An
    alias adds another name of an entity; a merge does this for a name that is known already.
    """

    kinds = (ALIAS,)
    name = "alias"
    plural = "aliases"
    fields: ClassVar[Fields] = {"alias": str, "entity": str, "kind": str}
    tables = (tables.ALIASES,)

    def make_alias(self, name: str, entity: str, kind: str) -> Alias:
        """Return an alias (or a merge, by ``kind``) of ``name`` for ``entity``, with cleaned names.

        Raises InputError for an invalid name or kind.
        """
        alias = Alias(clean_name(name), clean_name(entity), kind)
        if kind not in (ALIAS, MERGE):
            raise InputError(f"the kind of an alias must be {ALIAS!r} or {MERGE!r}, not {kind!r}")
        return alias

    def scan(self, state: State) -> Iterator[tuple[str, Alias]]:
        """Yield the aliases and merges, in order of their keys."""
        return state.aliases.iter_all()

    def to_line(self, key: str, value: Alias) -> ExportLine:
        """Return the fields of the line of an alias or merge in an export."""
        return {"alias": value.name, "entity": value.entity, "kind": value.kind}

    def parse(self, line: ExportLine) -> tuple[str, Alias]:
        """Return the key and the alias or merge from the fields of its line in an export."""
        alias = self.make_alias(line["alias"], line["entity"], line["kind"])
        return alias.key, alias

    def describe_row(self, row_key: bytes) -> str:
        """Return the phrase by which CHECK REPAIR reports an alias that it cannot recover.

        ``row_key`` is the normal form of the alias in UTF-8.
        """
        return f"the alias {row_key.decode()!r}"

    def read(self, state: State, row_key: bytes) -> tuple[str, Alias]:
        """Return the key and value of an alias or merge; ``row_key`` is the normal form of the alias in UTF-8."""
        alias = state.aliases.get(row_key.decode())
        assert alias is not None  # the caller found the row key in this state
        return alias.key, alias

    def iter_dump_statements(self, state: State) -> Iterator[BoundStatement]:
        """Yield a statement, and the values of its ``?``, for each alias and merge whose names are known now."""
        # An alias comes after the aliases that make its entity known. Aliases form no cycle, so the loop ends.
        remaining_aliases = {key: alias for key, alias in self.scan(state) if self._is_expressible(state, alias)}
        while remaining_aliases:
            for key, alias in list(remaining_aliases.items()):
                if alias.target not in remaining_aliases:
                    del remaining_aliases[key]
                    statement = "ALIAS ? FOR ?" if alias.kind == ALIAS else "MERGE ENTITY ? INTO ?"
                    yield statement, (alias.name, alias.entity)

    def iter_dump_comments(self, state: State) -> Iterator[BoundStatement]:
        """Yield a comment for the dump for each alias or merge that it omits, because one of its names is unknown."""
        for _, alias in self.scan(state):
            if not self._is_expressible(state, alias):
                relation = "is an alias of" if alias.kind == ALIAS else "is merged into"
                yield (
                    f"? {relation} ?, but one of these names is unknown now, so no statement can express this; "
                    "EXPORT TO keeps it",
                    (alias.name, alias.entity),
                )

    def _is_expressible(self, state: State, alias: Alias) -> bool:
        """True if an ALIAS or MERGE statement can create this alias or merge: the names that it requires are known.

        ALIAS requires the entity; MERGE requires both names.
        """
        required_names = (alias.target,) if alias.kind == ALIAS else (alias.target, alias.key)
        return all(state.filter.find(key) is not None for key in required_names)

    def check_consistency(self, value: Alias, get_stated: Callable[[str], Alias | None]) -> None:
        """Raise InputError if following the user's aliases from the entity leads back to the alias.

        ``get_stated`` returns the alias or merge of a name, given as its normal form, or None if it has none.
        """
        key = value.target
        while key != value.key:
            next_alias = get_stated(key)
            if next_alias is None:
                return
            key = next_alias.target
        raise InputError(f"{value.entity!r} is already an alias of {value.name!r}; a name cannot be an alias of itself")

    def find(self, state: State, key: str) -> Alias | None:
        """Return the alias or merge of the name with the normal form ``key``, or None if it has none."""
        return state.aliases.get(key)

    def list_introductions(self, value: Alias) -> Iterable[tuple[str, str]]:
        """Return (spelling, kind of name) of the entity that an alias adds; empty if it merges two entities instead."""
        return ((value.name, ALIAS),) if value.kind == ALIAS else ()

    def remove(self, context: ChangeContext, key: str, value: Alias) -> None:
        """Delete an alias or merge, which is stored under the normal form of its name (``key``)."""
        AliasWriter(context.write).remove(value)

    def put(self, context: ChangeContext, ids: Mapping[str, int], key: str, value: Alias) -> None:
        """Store an alias or merge under the normal form of its name (``key``)."""
        AliasWriter(context.write).put(value)


DOCUMENTS = _StatedDocuments()
TRIPLES = _StatedTriples()
EDGES = _StatedEdges()
ALIASES = _StatedAliases()


def list_stated_fact_kinds() -> list[StatedFact[Any, Any]]:
    """Return the kinds of facts (data that users add) except documents, such as edges, aliases and triples."""
    return [TRIPLES, EDGES, ALIASES, *registry.list_facts()]


def list_fact_kinds() -> list[Fact[Any, Any]]:
    """Return the kinds of facts (documents, triples, edges, ...) in the order of export and import.

    A kind comes after the kinds that it needs.
    """
    return [DOCUMENTS, *list_stated_fact_kinds()]


def find_fact_kind(line: ExportLine) -> Fact[Any, Any]:
    """Return the kind of fact on a line of an export, which has a field with the kind's name, such as ``edge``.

    Raises InputError if the line has no such field.
    """
    for fact in list_fact_kinds():
        if fact.name in line:
            return fact
    raise InputError(f"the line has none of the fields {', '.join(fact.name for fact in list_fact_kinds())}")


def list_document_fact_kinds() -> list[DocumentFact[Any]]:
    """Return the kinds of facts that are about a document and are removed with it, such as triples."""
    return [fact for fact in list_stated_fact_kinds() if isinstance(fact, DocumentFact)]


def list_present_fact_kinds(state: State) -> list[DocumentFact[Any]]:
    """Return the kinds of facts about documents, such as triples, that have records in the state.

    The module of a system is imported only if a table of its facts has records, because imports take time.
    """

    def has_records(table: str) -> bool:
        """True if a table of the state is not empty."""
        return next(state.lmdb.scan(table), None) is not None

    kinds = [TRIPLES] if has_records(TRIPLES.row_table) else []  # no system declares them
    return [*kinds, *(fact for fact in registry.list_stored_facts(has_records) if isinstance(fact, DocumentFact))]


def iter_document_facts(state: State, *documents: DocumentRecord) -> Iterator[tuple[DocumentFact[Any], str, Any]]:
    """Yield the facts about documents, such as their triples, as (kind of fact, document key, value)."""
    row_keys = [records.encode_u64(record.id) for record in documents]
    for kind in list_present_fact_kinds(state):
        for row_key, row in zip(row_keys, state.lmdb.get_many(kind.row_table, row_keys), strict=True):
            if row is not None:
                yield kind, *kind.read(state, row_key)


Report = TypeVar("Report", bound="ExportReport")


@dataclass(frozen=True)
class ExportReport:
    """The number of documents, edges and aliases that were written, and of documents whose triples were written."""

    documents: int = 0
    triples: int = 0
    edges: int = 0
    aliases: int = 0


@dataclass(frozen=True)
class ImportReport(ExportReport):
    """The number of new or changed documents, edges and aliases, of documents with new or changed triples, and of lines
    that changed nothing."""

    unchanged: int = 0


def make_report(report_type: type[Report], counts: Mapping[str, int]) -> Report:
    """Return a report with a field for every count.

    ``counts`` of facts that systems declare become additional fields, which the repr shows only if they are not 0.
    """
    declared_fields = {dataclass_field.name for dataclass_field in fields(report_type)}
    extra_fields = [(name, int, field(repr=count > 0)) for name, count in counts.items() if name not in declared_fields]
    if extra_fields:
        report_type = cast(
            type[Report],
            make_dataclass(report_type.__name__, extra_fields, bases=(report_type,), frozen=True, kw_only=True),
        )
    return report_type(**counts)
