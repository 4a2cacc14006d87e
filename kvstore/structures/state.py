"""The state of a store: everything in it, read through one view (a snapshot or a write transaction) for retrieval and
the query language. It has one *part* per structure, such as the chunks or the forest: an object that reads the
structure. A part is created, and its module imported, on first use.

In: a view, and the store's fixed settings. Out: the parts, typed. A process that runs one query needs few of them.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ..process.closed_on_exit import ClosedOnExit
from ..storage.view import ReadTransaction
from .counters import Counters
from .documents.chunks import Abstracts, Chunks
from .documents.documents import DocumentRecord, Documents
from .forest.node_cache import NodeCache

if TYPE_CHECKING:
    from kvstore_cext.hierarchy import NodeSentences

    from ..settings import FixedSettings
    from ..storage.environment import View
    from .decoded_data import DecodedData
    from .derived_parts import DerivationSpec, DerivedParts
    from .documents.allowed import AllowedDocuments
    from .documents.ingested_files import IngestedFiles
    from .filter.entity_filter import EntityFilter
    from .forest.forest import Forest
    from .names.aliases import Aliases, Identity
    from .names.entities import Entities
    from .names.mentions import Mentions
    from .open_indexes import OpenIndexes
    from .postings import Postings
    from .vectors.vectors import Ids, Matrix, Vectors

Read = TypeVar("Read", covariant=True)

#: The sort key of chunks with equal scores: document key and chunk id, which increases along the text.
ChunkSortKey = tuple[str, int]


class StatePart(Protocol[Read]):
    """A structure declared outside this package, such as the passage graph or the index of a system, that states can
    read.
    """

    @property
    def name(self) -> str:
        """The name of this structure, which is unique in a state."""
        ...

    def read(self, state: State) -> Read:
        """Return an object that reads the rows of this structure in a state."""
        ...


class State(ClosedOnExit):
    """The parts of a store in one view (a snapshot or a write transaction).

    ``allowed`` are the documents that the query's condition allows (None: all).

    A state is a context manager. Parts may refer to the state, so closing it drops them. Otherwise the reference cycle
    would keep the store open until the garbage collector runs.
    """

    allowed: AllowedDocuments | None = None

    def __init__(
        self,
        lmdb: View,
        settings: FixedSettings,
        open_indexes: OpenIndexes | None = None,
        node_cache: NodeCache | None = None,
    ) -> None:
        """Create the state of the ``lmdb`` view; ``settings`` are the store's settings.

        A view is a snapshot or a write transaction. ``open_indexes`` and ``node_cache`` are the caches of the open
        store, which its states share; None for a state without them, as in a repair.
        """
        self.lmdb = lmdb
        self.settings = settings
        self.open_indexes = open_indexes
        self._node_cache = node_cache
        self._parts: dict[str, Any] = {}  # contents of additional parts, by name; see :meth:`get_part`
        #: The readers of the data that derivations store for each document, by name of the derivation.
        self.derived_parts: dict[str, DerivedParts] = {}

    @cached_property
    def restricted_states(self) -> weakref.WeakSet[State]:
        """The states that show only some documents of this one; they are closed with it."""
        return weakref.WeakSet()

    @property
    def unrestricted(self) -> State:
        """This state without the condition of a query on documents, which only a subclass has.

        Use it to read data that is cached for other states.
        """
        return self

    def close(self) -> None:
        """Drop the additional parts and the readers of derived data of this state and its restricted states.

        The snapshot or transaction stays open.
        """
        self._parts.clear()
        self.derived_parts.clear()
        # ``self.restricted_states`` would create the set, which is rarely needed.
        for state in list(self.__dict__.get("restricted_states", ())):
            state.close()

    def get_part(self, part: StatePart[Read]) -> Read:
        """Return the reader of ``part`` in this state; a part is a structure such as the passage graph, or an index.

        The result is an object with the structure's own reading methods, or None if the structure is not stored. It is
        cached unless it is None.
        """
        content: Read | None = self._parts.get(part.name)
        if content is None:
            content = self._parts[part.name] = part.read(self)
        return content

    def get_derived_parts(self, derivation: DerivationSpec) -> DerivedParts:
        """Return the reader of the data that a derivation stores for each document (its parts); create it on demand."""
        parts = self.derived_parts.get(derivation.name)
        if parts is None:
            from .derived_parts import DerivedParts

            parts = self.derived_parts[derivation.name] = DerivedParts(self.lmdb, derivation, self.settings.dimension)
        return parts

    @cached_property
    def counters(self) -> Counters:
        """The totals over the stored documents, and the next ids. Snapshots of one commit share one object."""
        if self._shared_data is None:  # not a snapshot of an open store
            return Counters.load(self.lmdb)
        if self._shared_data.counters is None:
            self._shared_data.counters = Counters.load(self.lmdb)
        counters: Counters = self._shared_data.counters
        return counters

    @property
    def main_language(self) -> str | None:
        """The name of the language of most documents according to the settings and counters, or None if unknown."""
        from ..text.languages import get_main_language

        return get_main_language(self.settings.stemmer, self.counters.languages)

    def find_sentence_language(self, document: int) -> str | None:
        """Return the language whose rules split the sentences of a stored document; None for the rules for English."""
        from ..text.languages import MAX_EXAMINED_BYTES, find_document_language

        text_start = self.documents.read_text_start(document, MAX_EXAMINED_BYTES)
        language = find_document_language(self.documents.get(document).meta, text_start)
        return self.settings.get_sentence_language(language)

    @cached_property
    def _shared_data(self) -> DecodedData | None:
        """The data decoded by all states of this commit; None if this is not a snapshot of an open store."""
        if self.open_indexes is None or not isinstance(self.lmdb, ReadTransaction):
            return None
        return self.open_indexes.decoded_data.get(self.lmdb.change)

    @cached_property
    def documents(self) -> Documents:
        """The documents: records, texts and sections under headings."""
        return Documents(self.lmdb, self._shared_data)

    @cached_property
    def chunks(self) -> Chunks:
        """The records of chunks."""
        return Chunks(self.lmdb, self._shared_data)

    @cached_property
    def abstracts(self) -> Abstracts:
        """The abstracts, which summarize chunks and sections."""
        return Abstracts(self.lmdb, self.documents)

    @cached_property
    def entities(self) -> Entities:
        """The entities: known names, and the statements that make them known (introductions)."""
        from .names.entities import Entities

        return Entities(self.lmdb)

    @cached_property
    def mentions(self) -> Mentions:
        """The occurrences of entities in chunks, titles and headings."""
        from .names.mentions import Mentions

        return Mentions(self.lmdb)

    @cached_property
    def forest(self) -> Forest:
        """The entity forest of this state."""
        from .forest.forest import Forest

        # A write transaction can change names of nodes, so it does not use the shared cache of names. A state without
        # that cache, as in a repair, must not read the change number, because the counters may be damaged.
        if self._node_cache is None or self.lmdb.writable:
            return Forest(self.lmdb)
        return Forest(self.lmdb, self._node_cache.get_name_cache(self.counters.change))

    @cached_property
    def ingested_files(self) -> IngestedFiles:
        """The records of completely ingested files."""
        from .documents.ingested_files import IngestedFiles

        return IngestedFiles(self.lmdb)

    @cached_property
    def aliases(self) -> Aliases:
        """The aliases and merges that the user added."""
        from .names.aliases import Aliases

        return Aliases(self.lmdb)

    @cached_property
    def postings(self) -> Postings:
        """The posting lists of all terms."""
        from .postings import Postings

        return Postings(self.lmdb, self._shared_data)

    @cached_property
    def vectors(self) -> Vectors:
        """The vectors of chunks."""
        from .vectors.vectors import Vectors

        verified_blocks = None if self.open_indexes is None or self.lmdb.writable else self.open_indexes.verified_blocks
        return Vectors(self.lmdb, self.settings.dimension, verified_blocks=verified_blocks)

    @cached_property
    def filter(self) -> EntityFilter:
        """The entity filter: the known names, and the addresses (places of occurrence) of each."""
        from .filter.entity_filter import EntityFilter

        return EntityFilter(self.lmdb, hash_seed=self.settings.hash_seed)

    def get_node_sentences(self, max_relatives: int) -> NodeSentences:
        """Return the cache of the sentences about nodes of the entity forest in this state.

        A node is described with at most ``max_relatives`` ancestors and as many descendants.
        """
        if self._node_cache is None:
            self._node_cache = NodeCache()
        return self._node_cache.get_sentence_cache(self.counters.change, max_relatives)

    def resolve(self, key: str) -> Identity | None:
        """Return the entity that a name (its normal form) resolves to by aliases, or None if the name is unknown."""
        return self.aliases.resolve(key, self.filter)

    def find_addresses(self, identity: Identity, limit: int | None = None) -> Ids:
        """Return at most ``limit`` (None: all) addresses of an entity, under all its names, ascending.

        An address is a place where the entity occurs: a rank and the id of a node of the entity forest or of an
        abstract, packed into an integer. Each node or abstract occurs once, with its best rank.
        """
        import numpy as np

        from .filter import addresses

        address_lists = [self.filter.get_addresses(key, limit) for key, _ in identity.names]
        if len(address_lists) == 1:
            return address_lists[0]
        best_addresses = addresses.list_best_addresses(np.concatenate(address_lists).tolist())
        return np.array(best_addresses[:limit], np.uint64)

    def find_addresses_with_ties(self, identity: Identity, min_count: int) -> Ids:
        """Return the first ``min_count`` addresses of an entity, and all others of the last one's rank, ascending.

        An address is a rank and the id of a node or abstract, packed into an integer. The order of addresses of equal
        rank depends on ids, so the caller must break ties of rank.
        """
        import numpy as np

        from .filter import addresses

        first_addresses = self.find_addresses(identity, min_count)
        if len(first_addresses) < min_count:
            return first_addresses  # the entity has no others
        last_rank, _ = addresses.split_address(int(first_addresses[-1]))
        all_addresses = self.find_addresses(identity)
        next_rank_start = np.uint64(addresses.make_address(last_rank + 1, 0))
        return all_addresses[: int(np.searchsorted(all_addresses, next_rank_start))]

    def read_vectors(self, record: DocumentRecord) -> Matrix:
        """Read the vectors of a document's chunks, shape (chunks, dimension)."""
        chunks = self.chunks.get_many(record.chunk_ids())
        return self.vectors.gather([(chunk.block, chunk.row) for chunk in chunks])

    def get_sort_keys(self, chunks: Sequence[int]) -> list[ChunkSortKey]:
        """Return the sort key of each chunk, which orders chunks of equal score: document key and chunk id.

        Within a document, chunk ids ascend with the position in the text.
        """
        records = self.chunks.get_many(chunks)
        keys = self.documents.get_keys(record.document for record in records)
        return [(keys[record.document], chunk) for record, chunk in zip(records, chunks, strict=True)]

    def read_chunk_text(self, chunk: int) -> str:
        """Return the text of a chunk that must exist."""
        record = self.chunks.get(chunk)
        return self.documents.read_text_slice(record.document, record.start, record.end)

    def read_searchable_text(self, record: DocumentRecord) -> str:
        """Return the searchable text of a document: all of it, or its chunks alone if the user set their boundaries."""
        if record.own_chunks is None:
            return self.documents.read_text(record.id).decode()
        byte_ranges = [(chunk.start, chunk.end) for chunk in self.chunks.get_many(record.chunk_ids())]
        return "\n\n".join(self.documents.read_text_slices({record.id: byte_ranges})[record.id])
