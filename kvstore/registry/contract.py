"""The interface of a system (an implemented paper): what it adds to a store. A *structure* is derived data that its
*maintainer* updates in every commit. A *derivation* computes a *part* (data, with texts to embed) from one document. A
*maintained index* is a derivation that CREATE INDEX adds.

A system has strategies, and the data they need in addition to the core (documents, chunks, names, mentions, the
forest, postings, vectors). Its data is of one of two kinds, as in databases:

- *Maintained* data is exact and changes in the commit of the documents that it follows from. A :class:`Structure` and a
  :class:`Derivation` are maintained; so is a :class:`MaintainedIndex`, in the stores that have it.
- *Refreshed* data is built from a state of the store, reports how stale it is, and is corrected when it is read. Any
  other kind of index (:class:`~kvstore.structures.indexes.index.FileIndex`) is refreshed.

The tables, the commit, CHECK, REPAIR, the dump, SHOW STATS, SELECT, the strategies and the statements about indexes
take what they need from :data:`kvstore.registry.SYSTEMS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from ..errors import InputError
from ..process.frozen_dataclass import frozen_dataclass
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
    "AddedChunk", "AddedDocument", "ChunkedText", "Delta", "Derivation", "DumpRow", "LmdbTable", "MaintainedIndex",
    "Maintainer", "Structure", "System",
]  # fmt: skip

Content = TypeVar("Content")

#: A row of the dump.
DumpRow = tuple[Any, ...]


class AddedChunk(NamedTuple):
    """A chunk with data already in memory: its stored text (UTF-8), its section (-1: none) and the names in it."""

    id: int
    text: bytes
    section: int
    mentions: Sequence[Occurrence]


def load_added_chunks(state: State, document: int, chunks: Sequence[int]) -> list[AddedChunk]:
    """Load chunks of a stored document, given by their ids, with their texts and the names in them (mentions)."""
    text = state.documents.read_text(document)
    rows = zip(chunks, state.chunks.get_many(chunks), state.mentions.get_occurrences_many(chunks), strict=True)
    return [
        AddedChunk(chunk, text[record.start : record.end], record.section, mentions) for chunk, record, mentions in rows
    ]


class AddedDocument(NamedTuple):
    """A document just written, with its data already in memory, so that maintainers need not read it.

    ``parts`` has its derived parts, by the name of the derivation. ``language`` is the name of its language, or None if
    that is unknown.
    """

    record: DocumentRecord
    sections: list[Section]
    chunks: Sequence[AddedChunk]
    parts: Mapping[str, Any]
    language: str | None


#: Kinds of links between entities: a triple of some document joins them, or an accepted edge in any tree does.
TRIPLE_LINK = 2
RELATION_LINK = 3


@frozen_dataclass
class Delta:
    """The changes of one batch, all of which the core tables already contain.

    - ``added``: the new documents. Their chunks are in none of the next fields with chunks.
    - ``changed_metadata``: the documents that changed only in metadata: their records before and after.
    - ``changed_chunks``: by document, the chunks whose mentions, title, headings or other facts changed.
    - ``changed_mentions``: by document, the chunks with changed mentions in the text and no other change.
    - ``changed_headings``: the documents with other names in their titles or headings. Their chunks have the same
      mentions in the text, except of ``names_removed``. No document is in two of these three fields.
    - ``removed_mentions``: by chunk, the entities that it no longer mentions. These chunks have no other change, and no
      remaining mention lies inside a removed one.
    - ``names_added`` and ``names_removed``: normal forms by entity.
    - ``links``: by (entity, entity, kind of link), for triples, the change in the number of documents that assert one
      with both entities; for an edge, 1 if it became accepted, and -1 if it is no longer accepted.
    - ``expect_more``: True if a load adds further documents before anything is read, so changes of the tables can wait
      for its last delta.
    """

    added: Sequence[AddedDocument] = ()
    changed_metadata: Sequence[tuple[DocumentRecord, DocumentRecord]] = ()
    changed_chunks: Mapping[int, Set[int]] = field(default_factory=dict)
    changed_mentions: Mapping[int, Sequence[AddedChunk]] = field(default_factory=dict)
    changed_headings: Sequence[DocumentRecord] = ()
    removed_mentions: Mapping[int, Set[int]] = field(default_factory=dict)
    names_added: Mapping[int, str] = field(default_factory=dict)
    names_removed: Mapping[int, str] = field(default_factory=dict)
    links: Mapping[tuple[int, int, int], int] = field(default_factory=dict)
    expect_more: bool = False


class Maintainer(Protocol):
    """The writer of a structure's tables (derived data), which keeps them up to date during a write transaction.

    After any sequence of changes, the tables are equal to the tables that applying the full deltas
    (:func:`kvstore.changes.full_delta.iter_full_deltas`) to empty ones produces. The dump law, CHECK and REPAIR rely on
    this.
    """

    def remove_document(self, record: DocumentRecord) -> None:
        """Remove the data derived from a document that is about to be deleted; the core tables still contain it."""
        ...

    def apply_delta(self, delta: Delta) -> None:
        """Update the tables for ``delta``, the changes of a batch; called once per batch, after the core tables."""
        ...


class Structure(Protocol[Content]):
    """Data kept in addition to the core tables and maintained with it. ``Content`` is the type of its reader."""

    @property
    def name(self) -> str:
        """The name of this structure in the output of CHECK."""
        ...

    @property
    def version(self) -> int:
        """The version of the derivation. It changes whenever the same documents would yield different derived data.

        A structure of an older version is rebuilt when the store is opened.
        """
        ...

    @property
    def tables(self) -> Sequence[LmdbTable]:
        """The tables on disk that hold the data of this structure."""
        ...

    def read(self, state: State) -> Content:
        """Return the reader that strategies and tables use; :meth:`State.get_part` caches it."""
        ...

    def make_maintainer(self, state: State, write: WriteView) -> Maintainer:
        """Return the writer of the structure's tables in a write transaction. ``state`` sees the changes so far."""
        ...

    def dump(self, content: Content, names: LogicalNames) -> Mapping[str, Iterable[DumpRow]]:
        """Return the rows of each table by its name, with ``names`` in place of every internal id.

        ``content`` is what :meth:`read` returned.

        CHECK compares tables record by record, and compares these rows if records differ. The rows must hide
        differences of form on disk, such as blocks that were split when they were full, and must show all others. They
        come from the structure's own tables alone.
        """
        ...

    def compute_statistics(self, content: Content) -> Mapping[str, int]:
        """Return the figures of this structure for SHOW STATS, by name; ``content`` is what :meth:`read` returned."""
        ...


class Derivation(ABC):
    """Computes a *part* (data such as the sentences of a text, with vectors) from one document alone.

    It is pure, and runs in worker processes. ``name`` is its name in the output of CHECK; the tables and the vector
    space are named after it. ``version`` changes
    whenever the same document gives other data; a migration then derives everything in the store again. ``facts`` names
    the kinds of facts of a document that it depends on, in addition to the text. ``quantised`` vectors take one byte
    per number.

    A part is plain data that msgpack can store: None, numbers, texts, lists and maps. It is stored with its document,
    and maintainers get it in :attr:`AddedDocument.parts`; :meth:`State.get_derived_parts` reads parts and vectors. The
    ``derivations`` of a system are kept in every store. The derivation of a :class:`MaintainedIndex` is kept after
    CREATE INDEX, and maintainers must not read it.
    """

    name: str
    version: int
    facts: Sequence[str] = ()
    quantised: bool = False

    @abstractmethod
    def derive(self, document: ChunkedText, settings: FixedSettings, options: Mapping[str, float | str]) -> Any:
        """Return the data that this derivation stores for a document.

        ``options`` are all options of the index that the derivation belongs to, if any.
        """

    @abstractmethod
    def list_texts(self, part: Any, document: ChunkedText) -> Sequence[str]:
        """Return the texts in the data of a document that get vectors; they are embedded together with its chunks.

        ``part`` is that data, the result of :meth:`derive`.
        """

    def find_faults(self, part: Any, document: ChunkedText) -> Iterator[str]:
        """Yield a sentence for each fault in the stored data of a document, for CHECK.

        ``part`` is that data, the result of :meth:`derive`.
        """
        return iter(())


class MaintainedIndex(Index):
    """An index that every commit keeps up to date: the data that a derivation computes from each document.

    After CREATE INDEX, stored documents get their data in batches, each in its own commit; a document put before the
    last batch gets its data immediately. The index's record keeps the progress: documents with ids from ``built`` to
    before ``until`` have no data yet.
    """

    def __init__(self, derivation: Derivation, description: str, options: Mapping[str, Option | Choice]) -> None:
        """Create an index named after ``derivation``, which computes its data; CREATE INDEX takes these ``options``."""
        self.name = derivation.name
        self.description = description
        self.options = options
        self.derivation = derivation

    def prepare_record(self, record: IndexRecord, view: WriteView) -> IndexRecord:
        """Return the record of a new index: the existing documents (ids from ``built`` to ``until``) have no data yet.

        Raises InputError if an earlier index of this name is still being dropped.
        """
        if record.state.get("dropping"):
            raise InputError(f"index {self.name} is being dropped; run DROP INDEX {self.name} to finish")
        return replace(record, state={"built": 0, "until": Counters.load(view).next_document})

    def renew_record(self, record: IndexRecord) -> IndexRecord | None:
        """Return the record of the index for a repaired store, or None if the index was not created."""
        # A repair stores all documents again, which rebuilds the content of the index from an empty state.
        return replace(record, state={}) if record.is_created else None

    def get_status(self, record: IndexRecord, state: State) -> IndexStatus:
        """Return the status of the index for SHOW INDEXES: exact, being built, or being dropped.

        Until the index is exact, it counts as built from no change (0), and as stale by all changes.
        """
        change = state.counters.change  # the number of the last commit
        if record.state.get("dropping"):
            return IndexStatus(
                self.name, "dropping", built=0, stale=change, detail=f"run DROP INDEX {self.name} to finish"
            )
        if not record.state:  # the progress is removed when the index is complete
            return IndexStatus(self.name, "exact", built=change, stale=0, detail="part of every commit")
        documents = state.counters.documents
        num_unbuilt = sum(1 for _ in iter_unbuilt_documents(record, state.lmdb))
        detail = f"{documents - num_unbuilt:,} of {documents:,} documents; run REFRESH INDEX {self.name} to continue"
        return IndexStatus(self.name, "building", built=0, stale=change, detail=detail)


def iter_unbuilt_documents(record: IndexRecord, view: View) -> Iterator[int]:
    """Yield the ids of the stored documents for which a maintained index has no data yet, ascending.

    Commits keep such an index up to date once it is built. ``record`` is its stored record: while it is being built,
    the documents from ``built`` to before ``until`` have no data.
    """
    if "until" in record.state:  # only while the index is being built
        for key, _ in view.scan(tables.DOCUMENTS, records.encode_u64(record.state["built"])):
            document = int(records.U64.unpack(key)[0])
            if document >= record.state["until"]:
                return
            yield document


@frozen_dataclass
class Description:
    """The answer of DESCRIBE for a kind of item that a system stores, such as a community: ``DESCRIBE name 'key'``.

    ``describe`` returns the properties of the item with a key. For an unknown key, it raises an InputError that
    suggests the nearest one.
    """

    name: str
    describe: Callable[[State, str], Mapping[str, Any]]


@frozen_dataclass
class System:
    """A published system: its name, its paper, and its contributions to a store.

    ``facts`` are added by users or models, ``tables`` are read by SELECT, and ``descriptions`` are shown by DESCRIBE.
    ``describe_entity`` returns what DESCRIBE ENTITY adds, by the entity's id.
    """

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

    def list_derivations(self) -> list[Derivation]:
        """Return the derivations of the system and of its indexes."""
        index_derivations = [index.derivation for index in self.indexes if isinstance(index, MaintainedIndex)]
        return [*self.derivations, *index_derivations]
