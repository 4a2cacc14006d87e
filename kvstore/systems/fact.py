"""A kind of fact: something that users state, that cannot be made again, and that a store keeps as it was stated.

Documents, edges and aliases are kinds of facts (:mod:`kvstore.changes.facts`); a system may declare more, in
:attr:`~kvstore.systems.contract.System.facts`. From the declaration follow export and import, what CHECK REPAIR reads
and says is lost, the statements of ``.dump`` and what they cannot say.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from ..storage import records

if TYPE_CHECKING:
    from ..storage.view import WriteView
    from ..structures.forest.forest_writer import ForestWriter, NodePairs
    from ..structures.state import State
    from .chunked_text import ChunkedText


class NodeLinker(Protocol):
    """What keeps the addresses of entities, as far as facts change those."""

    def link_nodes(self, nodes: NodePairs) -> None:
        """Give entities the addresses of tree nodes."""
        ...

    def unlink_nodes(self, nodes: NodePairs) -> None:
        """Take the addresses of tree nodes from their entities."""
        ...


@dataclass(frozen=True, slots=True)
class ChangeContext:
    """What facts are carried into: one set of changes to a state."""

    state: State
    write: WriteView
    forest: ForestWriter
    linker: NodeLinker


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

#: A line of an export.
Line = Mapping[str, Any]
#: A statement of the language with ``?`` in place of values, or a sentence, and the values.
BoundStatement = tuple[str, Sequence[str]]

#: The types of some fields.
Fields = Mapping[str, type | tuple[type, ...]]


class Fact(ABC, Generic[Key, Value]):
    """A kind of fact: its line in an export, its statement, and its rows on disk.

    ``name`` is the first field of its line and ``fields`` has all of them with their types (one that may be None may be
    missing). ``plural`` is what it is counted by. ``tables`` hold what cannot be made again of it, the first of them a
    row a fact.
    """

    name: str
    plural: str
    fields: ClassVar[Fields]
    tables: tuple[str, ...]

    @abstractmethod
    def scan(self, state: State) -> Iterator[tuple[Key, Value]]:
        """All facts of this kind, in the order of their keys."""

    @abstractmethod
    def to_line(self, key: Key, value: Value) -> Line:
        """The line of an export that says it."""

    @abstractmethod
    def parse(self, line: Line) -> tuple[Key, Value]:
        """What :meth:`to_line` said; the types of the fields are right. Raises InputError."""

    @abstractmethod
    def describe_row(self, row: bytes) -> str:
        """What the row of this key in the first table says, in words, for a message that it is lost."""

    @abstractmethod
    def read(self, state: State, row: bytes) -> tuple[Key, Value]:
        """The fact of the row of this key; raises CorruptionError."""

    def format_count(self, number: int) -> str:
        """So many facts of this kind, in words; empty where that goes without saying."""
        return f"{number:,} {self.name if number == 1 else self.plural}"

    def to_statements(self, state: State) -> Iterator[BoundStatement]:
        """The statements that make the facts again, in an order in which they can be run."""
        return iter(())

    def find_inexpressible(self, state: State) -> Iterator[BoundStatement]:
        """What :meth:`to_statements` cannot say, each the beginning of a sentence."""
        number = state.lmdb.count(self.tables[0])
        if number:
            be, them = ("is", "it") if number == 1 else ("are", "them")
            yield f"{self.format_count(number)} {be} in no statement; EXPORT TO keeps {them}", ()


class StatedFact(Fact[Key, Value]):
    """A kind of fact that is stored as it was stated, beside the documents; None in place of a value takes it back.

    What is stated under a key stands in place of what was, or joins it where the kind ``is_cumulative``. Names of ``kinds`` that
    it makes known may stand in no text and no tree.
    """

    kinds: tuple[str, ...] = ()
    is_cumulative: bool = False

    @property
    def statistic_name(self) -> str:
        """What SHOW STATS calls how many there are."""
        return self.tables[0]

    def estimate_size(self, value: Value) -> int:
        """How much memory it takes while it waits, chunks taking 1."""
        return 1

    def merge(self, value: Value, more: Value) -> Value:
        """Two of a key as one."""
        return more

    def check_consistency(self, value: Value, get_stated: Callable[[Key], Value | None]) -> None:
        """Raise InputError where it contradicts what is stated."""

    @abstractmethod
    def find(self, state: State, key: Key) -> Value | None:
        """What is stated under this key, or None."""

    def list_introductions(self, value: Value) -> Iterable[tuple[str, str]]:
        """The names it makes known, each as typed and the kind of name it is (:mod:`kvstore.structures.names.entities`
        numbers these)."""
        return ()

    @abstractmethod
    def remove(self, context: ChangeContext, key: Key, value: Value) -> None:
        """Take back what is stored, whose names are known still."""

    @abstractmethod
    def put(self, context: ChangeContext, ids: Mapping[str, int], key: Key, value: Value) -> None:
        """Store what is not; ``ids`` are those of the names it introduces, by their normal forms."""


class DocumentFact(StatedFact[str, Value]):
    """A kind of fact that belongs to a document with a text, by the document's key, and goes with that text, or with
    the parts of it that it was stated of (:meth:`fit_to_document`).

    Its table has a row by the document's id: a list of what its line says behind the document's key. Where it is
    ``affects_structures``, structures hear of a document whose facts have changed; derivations name the facts that they follow.
    """

    affects_structures: bool = True

    def fit_to_document(self, value: Value, document: Callable[[], ChunkedText], same_text: bool) -> Value | None:
        """What of a value is said of a document as it is now, None where nothing is.

        ``same_text`` says that it was stated of that text; what is stated anew is always.
        """
        return value if same_text else None

    #: Whether it says what the vectors of chunks are made with in a store of ``chunk_context``, see :meth:`build_contexts`.
    gives_context: ClassVar[bool] = False

    def build_contexts(self, value: Value, document: ChunkedText) -> Sequence[str]:
        """For each chunk of a document what stands between its headings and its text where its vector is made."""
        return [""] * len(document.chunks)

    @abstractmethod
    def parse_fields(self, *parts: Any) -> Value:
        """What the fields of a line behind the first say; raises InputError."""

    @abstractmethod
    def to_fields(self, value: Value) -> Sequence[Any]:
        """The fields of a line behind the first."""

    def count_items(self, value: Value) -> int:
        """What DESCRIBE says of a document that has some."""
        return 1

    def list_links(self, state: State, value: Value) -> Iterable[tuple[int, int, int]]:
        """Entities that it joins, whose names are known, and how: a kind of link, :mod:`kvstore.systems.contract`."""
        return ()

    @property
    def statistic_name(self) -> str:
        return f"documents_with_{self.plural}"

    def to_line(self, key: str, value: Value) -> Line:
        return dict(zip(self.fields, (key, *self.to_fields(value)), strict=True))

    def parse(self, line: Line) -> tuple[str, Value]:
        key, *parts = (line[name] for name in self.fields)
        return key, self.parse_fields(*parts)

    def describe_row(self, row: bytes) -> str:
        return f"the {self.plural} of document {records.U64.unpack(row)[0]}"

    def scan(self, state: State) -> Iterator[tuple[str, Value]]:
        rows = [row for row, _ in state.lmdb.scan(self.tables[0])]
        keys = {state.documents.get(records.U64.unpack(row)[0]).key: row for row in rows}
        return (self.read(state, keys[key]) for key in sorted(keys))

    def read(self, state: State, row: bytes) -> tuple[str, Value]:
        key = state.documents.get(records.U64.unpack(row)[0]).key
        return key, self.parse_fields(*records.unpack(state.lmdb.get(self.tables[0], row) or b"", self.tables[0], row))

    def find(self, state: State, key: str) -> Value | None:
        row = records.encode_u64(state.documents.find_id(key) or 0)
        return None if state.lmdb.get(self.tables[0], row) is None else self.read(state, row)[1]

    def remove(self, context: ChangeContext, key: str, value: Value) -> None:
        context.write.delete(self.tables[0], records.encode_u64(context.state.documents.find_id(key) or 0))

    def put(self, context: ChangeContext, ids: Mapping[str, int], key: str, value: Value) -> None:
        row = records.encode_u64(context.state.documents.find_id(key) or 0)
        context.write.put(self.tables[0], row, records.pack(self.to_fields(value)))
