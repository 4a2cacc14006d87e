"""What a published system gives to a store: the one seam between the laws, which know no system, and the systems.

A system is what a paper describes: strategies, and whatever they need besides the spine (documents, chunks, names,
mentions, the forest, postings, vectors). What it keeps is of one of two kinds, as databases have them. A
:class:`Structure` and a :class:`Derivation` are *maintained*: exact, changed in the commit of the documents that they
follow from; a :class:`MaintainedIndex` is too, in the stores that have it. Any other kind of index
(:class:`~kvstore.structures.indexes.index.FileIndex`) is *refreshed*: made of states of the store, says how stale it
is, and is corrected when it is read. The tables, the commit, CHECK, REPAIR, the dump, SHOW STATS, SELECT, the
strategies and the statements about indexes take what they need from :data:`kvstore.systems.SYSTEMS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from ..errors import InputError
from ..storage import records
from ..storage.engine_tables import LmdbTable
from ..structures import tables
from ..structures.counters import Counters
from ..structures.indexes.index import Index, IndexRecord, IndexStatus
from .chunked_text import ChunkedText

if TYPE_CHECKING:
    from ..arguments import Choice, Option
    from ..retrieval.query import Strategy
    from ..settings import FixedSettings
    from ..storage.view import View, WriteView
    from ..structures.documents.documents import DocumentRecord, Section
    from ..structures.logical import LogicalNames
    from ..structures.names.mentions import Occurrence
    from ..structures.state import State
    from .fact import StatedFact
    from .sql_table import SqlTable

__all__ = [
    "AddedChunk",
    "AddedDocument",
    "ChunkedText",
    "Delta",
    "Derivation",
    "DumpRow",
    "LmdbTable",
    "MaintainedIndex",
    "Maintainer",
    "Structure",
    "System",
]  # fmt: skip

Read = TypeVar("Read")

#: A row of the dump.
DumpRow = tuple[Any, ...]


class AddedChunk(NamedTuple):
    """A chunk with what is at hand of it: its text as stored (UTF-8), its section (-1: none), the names in it."""

    id: int
    text: bytes
    section: int
    mentions: Sequence[Occurrence]


def load_added_chunks(state: State, document: int, chunks: Sequence[int]) -> list[AddedChunk]:
    """Some chunks of a stored document."""
    text = state.documents.read_text(document)
    rows = zip(chunks, state.chunks.get_many(chunks), state.mentions.get_in_chunks(chunks), strict=True)
    return [
        AddedChunk(chunk, text[record.start : record.end], record.section, mentions) for chunk, record, mentions in rows
    ]


class AddedDocument(NamedTuple):
    """A document just written, with what is at hand of it, so that nothing need be read again; ``parts`` are what is
    derived from it, by derivation."""

    record: DocumentRecord
    outline: list[Section]
    chunks: Sequence[AddedChunk]
    parts: Mapping[str, Any]


#: Kinds of links between entities: somebody found them joined in a document; an accepted edge does, in any tree.
TRIPLE_LINK = 2
RELATION_LINK = 3


@dataclass(frozen=True, slots=True)
class Delta:
    """What one batch has changed; all of it stands in the spine already.

    ``changed_chunks`` are the chunks, by document, of which mentions, title, headings or other facts have changed;
    ``changed_mentions`` are those, by document, of which nothing but the names in their texts has. Those of documents
    ``added`` are not among them, and no document is among both. ``removed_mentions`` are chunks that name some entities no more,
    of which otherwise nothing has changed but what ``changed_mentions`` says, and in which no other name lies inside those of
    the entities. ``names_added`` and ``names_removed`` are normal forms by entity. ``links`` says of two entities in
    how many more documents (or fewer) somebody found them joined, and whether an edge between them came to be accepted
    (1) or ceased to be (-1): by entity, entity and kind.
    """

    added: Sequence[AddedDocument] = ()
    changed_chunks: Mapping[int, Set[int]] = field(default_factory=dict)
    changed_mentions: Mapping[int, Sequence[AddedChunk]] = field(default_factory=dict)
    removed_mentions: Mapping[int, Set[int]] = field(default_factory=dict)
    names_added: Mapping[int, str] = field(default_factory=dict)
    names_removed: Mapping[int, str] = field(default_factory=dict)
    links: Mapping[tuple[int, int, int], int] = field(default_factory=dict)


class Maintainer(Protocol):
    """Keeps the tables of a structure equal to a function of the spine, over one write transaction.

    After any history they hold what following everything (:func:`kvstore.changes.everything.build_full_delta`) makes of an
    empty store: the dump law, CHECK and REPAIR use exactly that.
    """

    def remove_document(self, record: DocumentRecord) -> None:
        """Learn that a document is about to go; the spine still has all of it."""
        ...

    def apply_delta(self, delta: Delta) -> None:
        """Carry what a batch has changed into the tables; once a batch, after the spine."""
        ...


class Structure(Protocol[Read]):
    """Something kept beside the spine and maintained with it."""

    @property
    def name(self) -> str:
        """What CHECK calls it."""
        ...

    @property
    def version(self) -> int:
        """Changes with whatever it makes of the same spine: a store that has another is brought up to this one."""
        ...

    @property
    def tables(self) -> Sequence[LmdbTable]:
        """The tables that are its own."""
        ...

    def read(self, state: State) -> Read:
        """What strategies and tables read of it; :meth:`State.get_part` keeps it."""
        ...

    def make_maintainer(self, state: State, write: WriteView) -> Maintainer:
        """What maintains it in a write transaction; ``state`` sees what the transaction has done so far."""
        ...

    def dump(self, read: Read, names: LogicalNames) -> Mapping[str, Iterable[DumpRow]]:
        """The rows of each table by its name, with ``names`` for every internal id.

        CHECK compares tables record by record, and these rows where records differ: what has more than one form on
        disk, such as blocks that are split where they were full, must not show in them, and all else must. They come
        from the structure's own tables alone.
        """
        ...

    def compute_statistics(self, read: Read) -> Mapping[str, int]:
        """Figures for SHOW STATS."""
        ...


class Derivation(ABC):
    """What follows from one document alone, and has vectors of its own (units of a text, summaries): pure, runs in
    workers.

    ``name`` is what CHECK calls it; its tables and its space of vectors are named after it. ``version`` changes with
    whatever it makes of the same document: a migration makes all anew in a store that has another. ``facts`` names the
    kinds of facts of a document that it follows from besides the text. ``quantised`` vectors take a byte a number.

    A part is plain data, as msgpack gives it back: None, numbers, texts, lists, and maps. It is kept with its document,
    and reaches followers as one of :attr:`Added.parts`; :meth:`State.get_derived_parts` reads parts and vectors. What every
    store keeps is one of the ``derivations`` of a system; what a store keeps once CREATE INDEX has made it is that of a
    :class:`MaintainedIndex`, which followers may not read.
    """

    name: str
    version: int
    facts: Sequence[str] = ()
    quantised: bool = False

    @abstractmethod
    def derive(self, document: ChunkedText, settings: FixedSettings, options: Mapping[str, float | str]) -> Any:
        """The part of a document; ``options`` are those of the index, all of them."""

    @abstractmethod
    def list_texts(self, part: Any, document: ChunkedText) -> Sequence[str]:
        """The texts of a part that get vectors; embedded with the document's chunks, in the same batch."""

    def find_faults(self, part: Any, document: ChunkedText) -> Iterator[str]:
        """What is wrong with a stored part, for CHECK: a sentence each."""
        return iter(())


class MaintainedIndex(Index):
    """An index that is part of every commit: what a derivation makes of each document, kept in the stores where CREATE
    INDEX has made it.

    The stored documents get their parts in batches, each a commit of its own; whatever is put meanwhile has its part
    from the first. The record says how far that is: documents of ids from ``built`` to before ``until`` have none yet.
    """

    def __init__(self, derivation: Derivation, description: str, options: Mapping[str, Option | Choice]) -> None:
        self.name = derivation.name
        self.description = description
        self.options = options
        self.derivation = derivation

    def start_record(self, record: IndexRecord, view: WriteView) -> IndexRecord:
        if record.state.get("dropping"):
            raise InputError(f"index {self.name} is being dropped; DROP INDEX {self.name} goes on with that")
        return replace(record, state={"built": 0, "until": Counters.load(view).next_document})

    def carry_over(self, record: IndexRecord) -> IndexRecord | None:
        # All documents are put in again, with their parts.
        return replace(record, state={}) if record.created else None

    def get_status(self, record: IndexRecord, state: State) -> IndexStatus | None:
        change = state.counters.change
        if record.state.get("dropping"):
            return IndexStatus(self.name, "dropping", 0, change, f"DROP INDEX {self.name} goes on with that")
        if not record.state:
            return IndexStatus(self.name, "exact", change, 0, "part of every commit")
        documents = state.counters.documents
        num_unbuilt = sum(1 for _ in iter_unbuilt_documents(record, state.lmdb))
        detail = f"{documents - num_unbuilt:,} of {documents:,} documents; REFRESH INDEX {self.name} goes on"
        return IndexStatus(self.name, "building", 0, change, detail)


def iter_unbuilt_documents(record: IndexRecord, view: View) -> Iterator[int]:
    """The stored documents that have no part of a maintained index yet, in the order of their ids."""
    if "until" in record.state:
        for key, _ in view.scan(tables.DOCUMENTS, records.encode_u64(record.state["built"])):
            document = int(records.U64.unpack(key)[0])
            if document >= record.state["until"]:
                return
            yield document


@dataclass(frozen=True, slots=True)
class Description:
    """What DESCRIBE says of a kind of thing that a system keeps: ``DESCRIBE name 'key'``.

    ``describe`` gives the properties of one, by its key; it raises InputError, naming the nearest, where there is none.
    """

    name: str
    describe: Callable[[State, str], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class System:
    """A published system: its name, the paper it is from, and what it gives to a store; ``facts`` are stated by users
    or models, ``tables`` those of SELECT, ``descriptions`` what DESCRIBE takes; ``describe_entity`` gives what DESCRIBE
    ENTITY adds, by the entity's number."""

    name: str
    paper: str
    structures: tuple[Structure[Any], ...] = ()
    derivations: tuple[Derivation, ...] = ()
    indexes: tuple[Index, ...] = ()
    strategies: tuple[Strategy, ...] = ()
    facts: tuple[StatedFact[Any, Any], ...] = ()
    tables: tuple[SqlTable, ...] = ()
    descriptions: tuple[Description, ...] = ()
    describe_entity: Callable[[State, int], Mapping[str, Any]] = lambda state, entity: {}
