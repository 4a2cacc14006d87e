"""Kinds of facts: data that users or models state, such as triples and edges, which cannot be derived again.
A fact is a key and a value. Its kind defines its *line* in an export, the *statement* that creates it, and its *row*
on disk.

Documents, edges and aliases are kinds of facts (:mod:`kvstore.changes.facts`). A system can declare more in
:attr:`~kvstore.registry.contract.System.facts`. The declaration drives export and import, the data that CHECK REPAIR
reads and reports as lost, and the statements of ``.dump`` with the facts that they cannot express.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from ..storage import records

if TYPE_CHECKING:
    from ..storage.view import WriteView
    from ..structures.forest.forest_writer import ForestWriter, NodeEntityPairs
    from ..structures.state import State
    from .chunked_text import ChunkedText


class NodeLinker(Protocol):
    """The writer of the entity filter for facts: it adds and removes the addresses (tree nodes) of an entity."""

    def add_node_addresses(self, nodes: NodeEntityPairs) -> None:
        """Record that these pairs (tree node, entity) are to be added to the addresses of the entities."""
        ...

    def remove_node_addresses(self, nodes: NodeEntityPairs) -> None:
        """Record that these pairs (tree node, entity) are to be removed from the addresses of the entities."""
        ...


@dataclass(frozen=True, slots=True)
class ChangeContext:
    """The state and the writers that facts are stored with, in one set of changes.

    ``state`` sees the changes so far. ``write`` changes tables on disk, ``forest`` the trees of entities, and
    ``linker`` the nodes at which an entity is found.
    """

    state: State
    write: WriteView
    forest: ForestWriter
    linker: NodeLinker


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

#: A line of an export.
ExportLine = Mapping[str, Any]
#: A statement of the query language, or a sentence, with ``?`` for each value; and the values.
BoundStatement = tuple[str, Sequence[str]]

#: The type, or the allowed types, of each field.
Fields = Mapping[str, type | tuple[type, ...]]


class Fact(ABC, Generic[Key, Value]):
    """A kind of fact, such as edges or triples: its line in an export, its statement, and its rows on disk.

    A fact is data that users or models state, so it cannot be derived from the documents again.

    ``name`` is the first field of its line. ``fields`` has all fields with their types; a field whose type allows None
    can be missing. ``plural`` is used in counts. ``tables`` hold the data that cannot be derived again; the first has
    one row per fact.
    """

    name: str
    plural: str
    fields: ClassVar[Fields]
    tables: tuple[str, ...]

    @property
    def row_table(self) -> str:
        """The table with one row per fact."""
        return self.tables[0]

    @abstractmethod
    def scan(self, state: State) -> Iterator[tuple[Key, Value]]:
        """Yield the key and the value of each stored fact of this kind, in key order."""

    @abstractmethod
    def to_line(self, key: Key, value: Value) -> ExportLine:
        """Return a fact as a line of an export, a mapping of field names to values."""

    @abstractmethod
    def parse(self, line: ExportLine) -> tuple[Key, Value]:
        """Return the key and the value of the fact in an export line.

        The fields have the right types. Raises InputError for an invalid value.
        """

    @abstractmethod
    def describe_row(self, row_key: bytes) -> str:
        """Return the phrase by which CHECK REPAIR reports a fact that it cannot recover, such as ``document 7``.

        ``row_key`` is the key of the fact's row in :attr:`row_table`.
        """

    @abstractmethod
    def read(self, state: State, row_key: bytes) -> tuple[Key, Value]:
        """Return the key and the value of the fact whose row (in :attr:`row_table`) has the key ``row_key``.

        Raises CorruptionError if the row is missing or damaged.
        """

    def format_count(self, number: int) -> str:
        """Return the number of facts with the name of their kind; a subclass can return "" to omit it from reports."""
        return f"{number:,} {self.name if number == 1 else self.plural}"

    def iter_dump_statements(self, state: State) -> Iterator[BoundStatement]:
        """Yield the statements of a dump, with their values, that create all facts of this kind, in executable order.

        By default, no statement can create a fact.
        """
        return iter(())

    def iter_dump_comments(self, state: State) -> Iterator[BoundStatement]:
        """Yield comments for the dump on the facts that it omits, because no statement can create them.

        A comment is a pair (text with placeholders, their values), like a statement. By default, there is one comment
        with the number of facts, if there are any.
        """
        num_facts = state.lmdb.count(self.row_table)
        if num_facts:
            pronoun = "it" if num_facts == 1 else "them"
            yield f"the dump omits {self.format_count(num_facts)}; use EXPORT TO to keep {pronoun}", ()


class StatedFact(Fact[Key, Value]):
    """A kind of fact that users add to the documents, and that is stored as typed.

    A fact is deleted by stating None in place of a value. A new value for a key replaces the old one, or is merged with
    it if the kind ``is_cumulative``. ``kinds`` are the kinds of names that it introduces, which can exist without
    occurring in any text or tree.
    """

    kinds: tuple[str, ...] = ()
    is_cumulative: bool = False

    @property
    def statistic_name(self) -> str:
        """The name under which SHOW STATS counts the facts of this kind: the name of the table of their rows."""
        return self.row_table

    def estimate_size(self, value: Value) -> int:
        """Return the estimated memory of a pending value, measured in chunks; by default 1."""
        return 1

    def merge(self, value: Value, new_value: Value) -> Value:
        """Combine the stored value of a key with a new one, which by default replaces it; return the result."""
        return new_value

    def check_consistency(self, value: Value, get_stated: Callable[[Key], Value | None]) -> None:
        """Raise InputError if a value contradicts a stated fact; by default, no value does.

        ``get_stated`` returns the stated value of a key, or None.
        """

    @abstractmethod
    def find(self, state: State, key: Key) -> Value | None:
        """Return the value that is stated for this key, or None if the fact does not exist."""

    def list_introductions(self, value: Value) -> Iterable[tuple[str, str]]:
        """Return (spelling, kind of name) for each name in a value that becomes an entity when the value is stored.

        :data:`kvstore.structures.names.entities.KINDS` lists the kinds. By default, there are no names.
        """
        return ()

    @abstractmethod
    def remove(self, context: ChangeContext, key: Key, value: Value) -> None:
        """Delete a fact and its stored value. The names that it introduces are still known when this is called."""

    @abstractmethod
    def put(self, context: ChangeContext, ids: Mapping[str, int], key: Key, value: Value) -> None:
        """Store a fact.

        ``ids`` maps the normal form of each name that the value introduces to the entity's id.
        """


class DocumentFact(StatedFact[str, Value]):
    """A kind of fact about a document with a text, keyed by document key. Its table has a row per document id: the list
    of the fields of its line after the document key.

    It is deleted with that text, or with the parts of the text that it describes (:meth:`fit_to_document`). If it
    ``affects_structures``, structures are notified of a document whose facts changed. Derivations name the facts that
    they depend on.
    """

    affects_structures: bool = True

    def fit_to_document(self, value: Value, document: Callable[[], ChunkedText], same_text: bool) -> Value | None:
        """Return the part of a stated ``value`` that still applies to its document, or None if it no longer applies.

        ``document`` returns the current document. ``same_text`` is True if the value was stated about the current text
        of the document; this holds for new values.
        """
        return value if same_text else None

    #: True if it supplies text for the vectors of chunks in a store with ``chunk_context``, see :meth:`build_contexts`.
    gives_context: ClassVar[bool] = False

    def build_contexts(self, value: Value, document: ChunkedText) -> Sequence[str]:
        """Return, for each chunk, the text that a stated ``value`` adds to its embedded text, after the headings.

        By default, it is an empty text.
        """
        return [""] * len(document.chunks)

    @abstractmethod
    def parse_fields(self, *fields: Any) -> Value:
        """Build a value from the fields of an export line, without the first, the document key.

        Raises InputError if a field is invalid.
        """

    @abstractmethod
    def to_fields(self, value: Value) -> Sequence[Any]:
        """Return the fields of an export line with this value; they follow the first field, the document key."""

    def count_items(self, value: Value) -> int:
        """Return the number of items (such as triples) in a value, which DESCRIBE shows; by default 1."""
        return 1

    def list_links(self, state: State, value: Value) -> Iterable[tuple[int, int, int]]:
        """Return (entity, entity, kind of link) for each pair of known entities that a value links; none by default.

        A kind of link is, for example, :data:`~kvstore.registry.contract.TRIPLE_LINK`.
        """
        return ()

    @property
    def statistic_name(self) -> str:
        """The name of the count in SHOW STATS, which counts documents."""
        return f"documents_with_{self.plural}"

    def to_line(self, key: str, value: Value) -> ExportLine:
        """Return the export line of a fact: the document key, then the fields of the value."""
        return dict(zip(self.fields, (key, *self.to_fields(value)), strict=True))

    def parse(self, line: ExportLine) -> tuple[str, Value]:
        """Return the document key and the value of an export line."""
        key, *fields = (line[name] for name in self.fields)
        return key, self.parse_fields(*fields)

    def describe_row(self, row_key: bytes) -> str:
        """Return the phrase for a fact that CHECK REPAIR reports as lost; ``row_key`` has its document's id."""
        return f"the {self.plural} of document {records.U64.unpack(row_key)[0]}"

    def scan(self, state: State) -> Iterator[tuple[str, Value]]:
        """Yield the document key and the value of each fact, in order of the keys."""
        row_keys = [row_key for row_key, _ in state.lmdb.scan(self.row_table)]
        # A row key is a document id, but the facts are sorted by the key of their document.
        row_keys.sort(key=lambda row_key: state.documents.get(records.U64.unpack(row_key)[0]).key)
        return (self.read(state, row_key) for row_key in row_keys)

    def read(self, state: State, row_key: bytes) -> tuple[str, Value]:
        """Return the document key and the value of a row, whose key is the document id."""
        key = state.documents.get(records.U64.unpack(row_key)[0]).key
        row = state.lmdb.get(self.row_table, row_key) or b""  # a missing row fails its checksum
        return key, self.parse_fields(*records.unpack(row, self.row_table, row_key))

    def find(self, state: State, key: str) -> Value | None:
        """Return the value stated about the document with this key, or None if nothing is stated."""
        row_key = _make_row_key(state, key)
        if state.lmdb.get(self.row_table, row_key) is None:
            return None
        _, value = self.read(state, row_key)
        return value

    def remove(self, context: ChangeContext, key: str, value: Value) -> None:
        """Delete the fact about the document with this key from the table that has a row for each document."""
        context.write.delete(self.row_table, _make_row_key(context.state, key))

    def put(self, context: ChangeContext, ids: Mapping[str, int], key: str, value: Value) -> None:
        """Store the value stated about the document with this key, in the table with a row for each document.

        The fields have names as they were stated, so the ``ids`` of entities are not needed.
        """
        context.write.put(self.row_table, _make_row_key(context.state, key), records.pack(self.to_fields(value)))


def _make_row_key(state: State, key: str) -> bytes:
    """Return the row key of the document with this key: its id, or 0, which no document has, if it does not exist."""
    return records.encode_u64(state.documents.find_id(key) or 0)
