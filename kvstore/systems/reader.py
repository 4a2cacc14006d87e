"""One state of the store as the tables of SELECT read it.

In: a view of everything the store holds, a snapshot or a write transaction. Out: ids, records and names, those looked
up often kept while the statement runs. Damage met on the way is a :class:`~kvstore.errors.CorruptionError`.
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

#: Name, value, and whether it was fixed when the store was made.
Setting = tuple[str, Any, bool]
#: Child node, parent node, and one assertion of the edge between them.
AssertedEdge = tuple[int, int, Assertion]

#: Bytes of the longest key of LMDB: no stored name is longer.
MAX_KEY_BYTES = 511
#: After so many entities one by one, mentions are counted for all of them at once.
_MAX_COUNTED_SINGLY = 16


@dataclass(slots=True)
class Cost:
    """Rows read of a table; where that is measured, the seconds it took and the pages read for the first time."""

    rows: int = 0
    seconds: float = 0.0
    pages: int = 0


class Reader:
    """One state of the store as the tables read it; what is looked up often is kept while the statement runs."""

    def __init__(
        self, state: State, settings: Callable[[], Sequence[Setting]], candidate_documents: Sequence[int] = ()
    ) -> None:
        self.state = state
        #: The documents of which a condition is asked.
        self.candidate_documents = candidate_documents
        self._settings = settings
        #: What reading each table has cost so far.
        self.costs: defaultdict[str, Cost] = defaultdict(Cost)
        #: Counts pages, where the view is measured.
        self.measured_view = state.lmdb if isinstance(state.lmdb, MeasuredView) else None
        self.get_document = lru_cache(256)(state.documents.get)
        self.get_outline = lru_cache(16)(state.documents.get_outline)
        self.get_entity_name = lru_cache(4096)(lambda entity: state.entities.get(entity).name)
        self.get_tree_name = lru_cache(256)(state.forest.get_tree_name)
        self.list_mentions = lru_cache(64)(state.mentions.get_in_chunk)
        #: What a function makes of the state and a number.
        self.call_cached = lru_cache(256)(lambda function, number: function(state, number))
        self._num_counted = 0

    def iter_ids(self, table: str, start: int = 0, stop: int | None = None) -> Iterator[int]:
        """The numbers under which ``table`` stores its rows; nothing is decoded."""
        for key, _ in self.state.lmdb.scan(table, encode_u64(start), None if stop is None else encode_u64(stop)):
            yield U64.unpack(key)[0]

    def has_row(self, table: str, number: int) -> bool:
        return 0 <= number < 1 << 64 and self.state.lmdb.get(table, encode_u64(number)) is not None

    def find_document(self, key: str) -> int | None:
        return self.state.documents.find_id(key) if key else None

    def find_entity(self, name: str) -> int | None:
        """The entity of a name in any spelling."""
        key = to_entity_key(name)
        return self.state.entities.find_id(key) if 0 < len(key.encode()) <= MAX_KEY_BYTES else None

    def find_tree(self, name: str) -> int | None:
        return self.state.forest.find_tree(name) if 0 < len(name.encode()) <= MAX_KEY_BYTES else None

    def iter_chunks(self, key: str) -> Iterator[int]:
        document = self.find_document(key)
        return iter(()) if document is None else self.get_document(document).chunk_ids()

    def list_addresses(self, name: str) -> list[tuple[int, int]]:
        """Rank and place of every address of an entity."""
        if self.find_entity(name) is None:
            return []
        return [
            addresses.split_address(int(address)) for address in self.state.filter.get_addresses(to_entity_key(name))
        ]

    def iter_mention_chunks(self, name: str) -> Iterator[int]:
        """Chunks that may mention an entity, in order."""
        return (chunk for chunk in self._iter_chunks_below(name) if self.has_row(tables.CHUNKS, chunk))

    def _iter_chunks_below(self, name: str) -> Iterator[int]:
        """Numbers of the chunks below an entity's addresses, in order; of some there may be no chunk."""
        leaves = {
            abstract
            for rank, abstract in self.list_addresses(name)
            if rank != addresses.NODE_RANK and abstract < FIRST_UPPER_ABSTRACT
        }
        return chain.from_iterable(map(self.state.abstracts.get_chunk_ids, sorted(leaves)))

    def count_mentions(self, entity: int, key: str) -> int:
        """How often an entity is mentioned in chunks."""
        self._num_counted += 1
        if self._num_counted > _MAX_COUNTED_SINGLY:
            return self._mention_counts.get(entity, 0)
        return self.state.mentions.count_occurrences(entity, self._iter_chunks_below(key))

    @cached_property
    def _mention_counts(self) -> Mapping[int, int]:
        counts: Counter[int] = Counter()
        for _, mentions in self.state.mentions.scan():
            counts.update(mention.entity for mention in mentions)
        return counts

    @cached_property
    def settings(self) -> Sequence[Setting]:
        return self._settings()
