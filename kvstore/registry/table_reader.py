"""A reader of one state (commit) of the store for the tables of SELECT.
An *address* of an entity is one of its nodes in the trees, or an *abstract* that names it. A leaf abstract summarizes
up to five chunks, an upper abstract several lower ones.

In: a state, from a snapshot or a write transaction. Out: ids, records and names; frequent lookups are cached while the
statement runs. Damage is reported as :class:`~kvstore.errors.CorruptionError`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any

from ..storage.measured_view import MeasuredView
from ..storage.records import U64, encode_u64
from ..structures import tables
from ..structures.documents.chunks import FIRST_UPPER_ABSTRACT
from ..structures.filter import addresses
from ..structures.forest.forest import Assertion
from ..structures.state import State
from ..text.normalize import to_entity_key

#: Name, value, and True if it was fixed when the store was created.
Setting = tuple[str, Any, bool]
#: Child node, parent node, and one assertion of the edge between them.
AssertedEdge = tuple[int, int, Assertion]

#: Bytes of the longest LMDB key. No stored name is longer.
MAX_KEY_BYTES = 511
#: After this many counts of the mentions of a single entity, the mentions of all entities are counted at once.
_MAX_ENTITY_COUNTS = 16


@dataclass(slots=True)
class Cost:
    """The number of rows read from a table and, if measured, the seconds and the pages read for the first time."""

    rows: int = 0
    seconds: float = 0.0
    pages: int = 0


class TableReader:
    """A reader of one state of the store for the tables of SELECT; it caches frequent lookups."""

    def __init__(
        self, state: State, list_settings: Callable[[], Sequence[Setting]], candidate_documents: Sequence[int] = ()
    ) -> None:
        """Create a reader for one statement, or for one condition on documents.

        ``list_settings`` returns the rows of the ``settings`` table. ``candidate_documents`` are the ids of the
        documents that the condition is evaluated for; empty for all documents, and for a statement.
        """
        self.state = state
        self.candidate_documents = candidate_documents
        self._list_settings = list_settings
        #: The cost of reading each table so far.
        self.costs: defaultdict[str, Cost] = defaultdict(Cost)
        #: The view that counts the pages read, for EXPLAIN ANALYZE; None for other statements.
        self.measured_view = state.lmdb if isinstance(state.lmdb, MeasuredView) else None
        # Caches of records. Their sizes bound the memory of a statement; the larger a record, the smaller its cache.
        self.get_document = lru_cache(256)(state.documents.get)
        self.get_sections = lru_cache(16)(state.documents.get_sections)
        self.get_entity_name = lru_cache(4096)(lambda entity: state.entities.get(entity).name)
        self.get_tree_name = lru_cache(256)(state.forest.get_tree_name)
        self.list_mentions = lru_cache(64)(state.mentions.get_occurrences)
        #: Returns ``function(state, number)``; caches the result. The function reads what a row needs by its number,
        #: such as the triples of a document.
        self.call_cached = lru_cache(256)(lambda function, number: function(state, number))
        #: The number of entities whose mentions were counted; after ``_MAX_ENTITY_COUNTS``, all are counted at once.
        self._num_entity_counts = 0

    def iter_ids(self, table: str, start: int = 0, stop: int | None = None) -> Iterator[int]:
        """Yield the keys of the rows of ``table``, which are numbers, ascending, without decoding the rows.

        They are at least ``start`` and less than ``stop`` (None: no limit).
        """
        for key, _ in self.state.lmdb.scan(table, encode_u64(start), None if stop is None else encode_u64(stop)):
            yield U64.unpack(key)[0]

    def has_row(self, table: str, number: int) -> bool:
        """True if ``table`` has a row whose key is this number."""
        is_in_range = 0 <= number < 1 << 64  # keys are unsigned 64-bit integers
        return is_in_range and self.state.lmdb.get(table, encode_u64(number)) is not None

    def find_document(self, key: str) -> int | None:
        """Return the id of the document with a key, or None if there is no such document."""
        return self.state.documents.find_id(key) if key else None

    def find_entity(self, name: str) -> int | None:
        """Return the id of the entity with a name in any spelling, or None if no entity has the name."""
        key = to_entity_key(name)
        # No stored name is empty or longer than a key of LMDB.
        return self.state.entities.find_id(key) if 0 < len(key.encode()) <= MAX_KEY_BYTES else None

    def find_tree(self, name: str) -> int | None:
        """Return the id of the tree (of the entity forest) with a name, or None if there is no such tree."""
        # No stored name is empty or longer than a key of LMDB.
        return self.state.forest.find_tree(name) if 0 < len(name.encode()) <= MAX_KEY_BYTES else None

    def iter_chunks(self, key: str) -> Iterator[int]:
        """Yield the ids of the chunks of the document with this key, ascending; nothing for an unknown key."""
        document = self.find_document(key)
        return iter(()) if document is None else self.get_document(document).chunk_ids()

    def list_addresses(self, name: str) -> list[tuple[int, int]]:
        """Return (rank, id) for each address of an entity; an empty list if the name is unknown.

        An address is a tree node of the entity, or an abstract of chunks that mention it; ``id`` is the id of the
        node or abstract. The rank shows which of the two it is and, for an abstract, how specific the mention is.
        """
        if self.find_entity(name) is None:
            return []
        return [
            addresses.split_address(int(address)) for address in self.state.filter.get_addresses(to_entity_key(name))
        ]

    def iter_mention_chunks(self, name: str) -> Iterator[int]:
        """Yield the ids of all chunks that may mention the entity with this name, ascending.

        The index stores the abstracts (summaries of some chunks) in which an entity occurs, so all chunks below these
        abstracts are returned.
        """
        return (chunk for chunk in self._iter_candidate_ids(name) if self.has_row(tables.CHUNKS, chunk))

    def _iter_candidate_ids(self, name: str) -> Iterator[int]:
        """Yield the ids of the chunks that the leaf abstracts naming an entity summarize, ascending.

        Some of the ids can be unused.
        """
        # An address with another rank than NODE_RANK is an abstract; leaf abstracts have the lower ids.
        leaves = {
            abstract
            for rank, abstract in self.list_addresses(name)
            if rank != addresses.NODE_RANK and abstract < FIRST_UPPER_ABSTRACT
        }
        return chain.from_iterable(map(self.state.abstracts.get_chunk_ids, sorted(leaves)))

    def count_mentions(self, entity: int, key: str) -> int:
        """Return the number of mentions of an entity in chunks. ``key`` is the normal form of its name.

        A statement that asks for many entities would read the same chunks many times. So after several calls, the
        mentions of all entities are counted in one scan, and the counts are cached.
        """
        self._num_entity_counts += 1
        if self._num_entity_counts > _MAX_ENTITY_COUNTS:
            return self._mention_counts.get(entity, 0)
        return self.state.mentions.count_occurrences(entity, self._iter_candidate_ids(key))

    @cached_property
    def _mention_counts(self) -> Mapping[int, int]:
        """The number of mentions of each entity in all chunks, counted in one scan on first use."""
        counts: Counter[int] = Counter()
        for _, mentions in self.state.mentions.scan():
            counts.update(mention.entity for mention in mentions)
        return counts

    @cached_property
    def settings(self) -> Sequence[Setting]:
        """The rows (name, value, is fixed) of the ``settings`` table: settings of the session and of the store."""
        return self._list_settings()
