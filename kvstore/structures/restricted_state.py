"""A state restricted by a condition on documents: the only place that decides which names and relations are visible.
The *allowed* documents match the condition of the query. Data is visible if it comes from an allowed document or from
the user. An *address* is a place where a name occurs.

In: a state, and the allowed documents. Out: the same state, with only the visible documents, chunks, names, relations
and hierarchies. A name must be in the text, a title, a heading, a triple or an edge of an allowed document, or in an
alias or edge of the user. An edge must be asserted by an allowed document or by the user. Strategies, indexes and
answers read through this state, so none of them filters names or paths.

Statistics describe the whole state: counters, postings and the degrees of the passage graph, which weight words and
names. Data cached for other states is read and built through :attr:`State.unrestricted`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, islice

import numpy as np
import numpy.typing as npt

from ..text.normalize import FoldedText
from . import tables
from .documents.allowed import AllowedDocuments
from .documents.chunks import FIRST_UPPER_ABSTRACT, GROUP_SIZE, ChunkRecord, Chunks
from .documents.documents import DocumentRecord, Documents
from .filter import addresses
from .filter.entity_filter import EntityFilter, FilterEntry, Matches, Mention
from .forest.edge_filter import Edge
from .forest.forest import USER, Assertion, Forest, Node
from .names.aliases import Aliases
from .names.entities import Entities, EntityRecord
from .postings import Postings
from .state import State
from .vectors.vectors import Ids

#: Neighbors of a node whose assertions are read together.
_BATCH_SIZE = 256
#: Tables of edges whose keys begin with the child.
_CHILD_FIRST_TABLES = frozenset((tables.EDGES_UP, tables.REFUSED_UP, tables.LOOPED_EDGES))


class RestrictedState(State):
    """A state that contains only data from the user or from documents that the query allows."""

    def __init__(self, state: State, allowed: AllowedDocuments) -> None:
        """Restrict ``state`` to the documents that the query allows; the new state is closed with ``state``."""
        super().__init__(state.lmdb, state.settings, state.open_indexes)
        self.allowed: AllowedDocuments = allowed
        self._unrestricted_state = state
        state.restricted_states.add(self)

    @property
    def unrestricted(self) -> State:
        """The same state without the condition on documents."""
        return self._unrestricted_state

    @cached_property
    def documents(self) -> Documents:
        """The documents that the query allows."""
        return RestrictedDocuments(self)

    @cached_property
    def chunks(self) -> Chunks:
        """The chunks of the documents that the query allows."""
        return RestrictedChunks(self)

    @cached_property
    def entities(self) -> Entities:
        """The entities mentioned in the user's facts or in documents that the query allows."""
        return RestrictedEntities(self)

    @cached_property
    def forest(self) -> RestrictedForest:
        """The edges asserted by the user or by documents that the query allows."""
        return RestrictedForest(self)

    @cached_property
    def filter(self) -> EntityFilter:
        """The entity filter, restricted to names and occurrences that come from the user or from allowed documents."""
        return RestrictedFilter(self)

    @cached_property
    def postings(self) -> Postings:
        """The postings; a term that no allowed document contains counts as missing."""
        return RestrictedPostings(self)


class RestrictedDocuments(Documents):
    """The documents that the query allows."""

    def __init__(self, state: RestrictedState) -> None:
        """Create a reader of the documents of the store; only documents in ``state.allowed`` are visible."""
        super().__init__(state.lmdb)
        self._allowed = state.allowed

    def find_by_key(self, key: str) -> DocumentRecord | None:
        """Return the record of the document with this key, or None if it is missing or the query does not allow it."""
        record = super().find_by_key(key)
        return record if record is not None and record.id in self._allowed else None

    def has_id(self, document: int) -> bool:
        """True if a document with this id exists and the query allows it."""
        return document in self._allowed and super().has_id(document)

    def scan(self) -> Iterator[DocumentRecord]:
        """Yield the records of the documents that the query allows."""
        return iter(self.get_many(self._allowed.documents.tolist()).values())

    def scan_origin(self, origin: str) -> Iterator[DocumentRecord]:
        """Yield the records of the documents that the query allows and that come from the ``origin`` folder."""
        return (record for record in super().scan_origin(origin) if record.id in self._allowed)

    def iter_keys(self, prefix: str = "") -> Iterator[str]:
        """Yield the keys that begin with ``prefix``, only of documents that the query allows."""
        return (key for key in super().iter_keys(prefix) if self.find_by_key(key) is not None)


class RestrictedChunks(Chunks):
    """The chunks of the documents that the query allows."""

    def __init__(self, state: RestrictedState) -> None:
        """Create a reader of the chunks of the store; only chunks of documents in ``state.allowed`` are visible."""
        super().__init__(state.lmdb)
        self._allowed = state.allowed

    def find_many(self, chunks: Iterable[int]) -> list[ChunkRecord | None]:
        """Return the record of each chunk, or None if the chunk is missing or the query does not allow its document."""
        ids = list(chunks)
        records = zip(ids, super().find_many(ids), strict=True)
        return [record if self._allowed.is_chunk_allowed(chunk) else None for chunk, record in records]

    def has_many(self, chunks: Iterable[int]) -> list[bool]:
        """Return for each id True if it belongs to a chunk of a document that the query allows, else False."""
        ids = list(chunks)
        return [
            is_present and self._allowed.is_chunk_allowed(chunk)
            for chunk, is_present in zip(ids, super().has_many(ids), strict=True)
        ]

    def scan(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, ChunkRecord]]:
        """Yield the chunks with ``start`` <= id < ``stop`` (None: no end) of documents that the query allows."""
        for document_start, document_stop in zip(
            self._allowed.starts.tolist(), self._allowed.stops.tolist(), strict=True
        ):
            range_stop = document_stop if stop is None else min(document_stop, stop)
            if max(document_start, start) < range_stop:
                yield from super().scan(max(document_start, start), range_stop)


class RestrictedPostings(Postings):
    """The postings (chunks by term) for a query with a condition on documents. A term has the count 0 if no allowed
    document contains it. Any other term keeps its count in the whole store, which determines its rarity.
    """

    def __init__(self, state: RestrictedState) -> None:
        """Create a reader of the store's postings; a term is visible if a document in ``state.allowed`` contains it."""
        super().__init__(state.lmdb)
        self._allowed = state.allowed

    def count_chunks_by_term(self, terms: Sequence[str]) -> dict[str, int]:
        """Return the number of chunks of the whole store with each term; 0 if no allowed document has the term."""
        counts = super().count_chunks_by_term(terms)
        return {term: count if count and self._is_in_allowed_chunk(term) else 0 for term, count in counts.items()}

    def _is_in_allowed_chunk(self, term: str) -> bool:
        """True if a document that the query allows contains the term."""
        return any(self._allowed.get_chunk_mask(block.chunks).any() for block in self.iter_decoded_blocks(term))


class RestrictedEntities(Entities):
    """The entities with visible names: names in the user's facts or in documents that the query allows.

    ``get``, ``get_many`` and ``find_many`` do not check this, so the caller must pass ids of visible names.
    """

    def __init__(self, state: RestrictedState) -> None:
        """Create a reader of the entities of the store; ``state.filter`` decides which names are visible."""
        super().__init__(state.lmdb)
        self._filter = state.filter

    def _is_visible(self, key: str) -> bool:
        """True if the user's facts or an allowed document mention the name whose normal form is ``key``."""
        return self._filter.find(key) is not None

    def __contains__(self, entity: int) -> bool:
        """True if the name of the entity is visible: in a fact of the user or in a document that the query allows."""
        return 0 <= entity < 1 << 32 and self.has_many([entity])[0]

    def has_many(self, entities: Sequence[int]) -> list[bool]:
        """Return for each entity True if its name is visible, else False."""
        records = self.find_many(entities)
        return [record is not None and self._is_visible(record.key) for record in records]

    def find_id(self, key: str) -> int | None:
        """Return the entity with this key, or None if it is not visible to the query.

        It is visible if a document that the query allows, or a fact (such as an edge) that the user added, mentions its
        name.
        """
        return super().find_id(key) if self._is_visible(key) else None

    def scan(self) -> Iterator[tuple[int, EntityRecord]]:
        """Yield the entities with visible names, with their records."""
        return ((entity, record) for entity, record in super().scan() if self._is_visible(record.key))

    def iter_names(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Yield the visible names (normal forms) that begin with ``prefix``, in byte order, with their entities."""
        return ((key, entity) for key, entity in super().iter_names(prefix) if self._is_visible(key))


class RestrictedForest(Forest):
    """The edges asserted by the user or by documents that the query allows, and the nodes and trees with such edges."""

    def __init__(self, state: RestrictedState) -> None:
        """Create a forest reader that returns only edges asserted by the user or by a document in ``state.allowed``."""
        super().__init__(state.lmdb)
        self._allowed = state.allowed

    def has_node(self, node: int) -> bool:
        """True if the user or a document that the query allows asserts an edge, accepted or not, at a node."""
        return next(chain(self.iter_asserted_parents(node), self.iter_asserted_children(node)), None) is not None

    def get_assertions(self, edges: Iterable[Edge]) -> dict[Edge, list[Assertion]]:
        """Return the assertions of each edge by the user and by documents that the query allows."""
        return {
            edge: [assertion for assertion in assertions if self._is_visible(assertion)]
            for edge, assertions in super().get_assertions(edges).items()
        }

    def _is_visible(self, assertion: Assertion) -> bool:
        """True if the user or a document that the query allows makes an assertion."""
        return assertion.document == USER or assertion.document in self._allowed

    def list_document_edges(self, documents: Sequence[int]) -> dict[int, list[Edge]]:
        """Return the edges (child, parent) that each document asserts, if the query allows the document."""
        return super().list_document_edges([document for document in documents if document in self._allowed])

    def find_node(self, tree: int, entity: int) -> int | None:
        """Return the node of an entity in a tree, or None if it is missing or has no visible edge.

        An edge is visible if the user or a document that the query allows asserts it.
        """
        node = super().find_node(tree, entity)
        return node if node is not None and self.has_node(node) else None

    def iter_nodes(self, tree: int | None = None) -> Iterator[tuple[int, Node]]:
        """Yield the nodes of a tree (None: of all trees) with an edge of the user or of an allowed document."""
        return ((node, tree_node) for node, tree_node in super().iter_nodes(tree) if self.has_node(node))

    def find_tree(self, name: str) -> int | None:
        """Return the tree with this name if it has a node with a visible edge, or None."""
        tree = super().find_tree(name)
        return tree if tree is not None and next(self.iter_nodes(tree), None) is not None else None

    def iter_trees(self) -> Iterator[tuple[int, str]]:
        """Yield the ids and names of the trees that have a node with a visible edge."""
        return ((tree, name) for tree, name in super().iter_trees() if next(self.iter_nodes(tree), None) is not None)

    def iter_edges(self) -> Iterator[Edge]:
        """Yield the edges (child, parent) asserted by the user or by a document that the query allows."""
        return (edge for edge in super().iter_edges() if self.get_assertions([edge])[edge])

    def get_edge_status(self, child: int, parent: int) -> int | None:
        """Return the status of an edge (such as ACCEPTED) if it is visible, else None.

        An edge is visible if the user or a document that the query allows asserts it.
        """
        edge = child, parent
        return super().get_edge_status(child, parent) if self.get_assertions([edge])[edge] else None

    def _iter_neighbors(self, table: str, node: int) -> Iterator[int]:
        """Yield the other ends of a node's edges in an edge table, such as ``EDGES_UP``.

        Only edges asserted by the user, or by a document that the query allows, are followed.
        """
        neighbors = super()._iter_neighbors(table, node)
        while batch := list(islice(neighbors, _BATCH_SIZE)):
            # An edge is (child, parent).
            edges = [(node, neighbor) if table in _CHILD_FIRST_TABLES else (neighbor, node) for neighbor in batch]
            assertions = self.get_assertions(edges)
            yield from (neighbor for neighbor, edge in zip(batch, edges, strict=True) if assertions[edge])


class RestrictedFilter(EntityFilter):
    """The names mentioned by the user's facts or by documents that the query allows, with their visible addresses."""

    def __init__(self, state: RestrictedState) -> None:
        """Create a reader of the names and addresses (places where names occur) that are visible in ``state``."""
        super().__init__(state.lmdb, hash_seed=state.settings.hash_seed)
        self._allowed = state.allowed
        self._forest = state.forest
        self._abstracts = state.abstracts
        # Not restricted, because this filter decides which entities and aliases are visible.
        self._entities = Entities(state.lmdb)
        self._aliases = Aliases(state.lmdb)
        self._visible_entries: dict[str, tuple[FilterEntry, Ids] | None] = {}  # a cache by name; None: hidden

    def find(self, key: str) -> FilterEntry | None:
        """Return a name's entity, number of visible addresses and number of lookups, or None if the name is hidden.

        Only addresses of documents that the query allows, and of nodes with edges asserted by these or by the user, are
        visible.
        """
        visible_entry = self._look_up(key, limit=None, start=0)
        if visible_entry is None:
            return None
        entry, _ = visible_entry
        return entry

    def find_entities(self, keys: Sequence[str]) -> npt.NDArray[np.uint32]:
        """Return the entity of each name; 0 for a hidden or unknown name."""
        entities, _ = self.lookup_many(keys)
        return entities

    def lookup_many(self, keys: Sequence[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint64]]:
        """Return the entity and the first visible address of each name.

        Both are 0 for a hidden or unknown name; the address is also 0 for a name without a visible address.
        """
        entities, first_addresses = np.zeros(len(keys), np.uint32), np.zeros(len(keys), np.uint64)
        for index, key in enumerate(keys):
            visible_entry = self._look_up(key, limit=None, start=0)
            if visible_entry:
                entry, visible_addresses = visible_entry
                entities[index] = entry.entity
                first_addresses[index] = visible_addresses[0] if len(visible_addresses) else 0
        return entities, first_addresses

    def list_addresses_below(self, keys: Sequence[str], stop: int) -> list[tuple[int, ...]]:
        """Return each name's addresses below ``stop`` that are visible to the query."""
        address_arrays = (np.array(row, np.uint64) for row in super().list_addresses_below(keys, stop))
        return [tuple(array[self._compute_visible_mask(array)].tolist()) for array in address_arrays]

    def recognize(self, folded: FoldedText, max_words: int) -> Matches:
        """Return the matches of visible names (names of the user or of documents that the query allows) in a text."""
        matches = super().recognize(folded, max_words)
        entities = list(dict.fromkeys(matches.entity.tolist()))
        names = zip(entities, self._entities.get_many(entities), strict=True)
        visible = np.isin(matches.entity, [entity for entity, record in names if self.find(record.key) is not None])
        return Matches(matches.start[visible], matches.end[visible], matches.entity[visible])

    def find_mentions(
        self, folded: FoldedText, max_words: int, keys: dict[int, str], mention_type: type[Mention]
    ) -> list[Mention]:
        """Return the mentions of visible names in a text; add the normal forms of all recognized entities to ``keys``.

        A mention begins with its entity.
        """
        mentions = super().find_mentions(folded, max_words, keys, mention_type)
        entities = (entity for entity, *_ in mentions)
        return [
            mention for mention, entity in zip(mentions, entities, strict=True) if self.find(keys[entity]) is not None
        ]

    def _look_up(self, key: str, limit: int | None, start: int) -> tuple[FilterEntry, Ids] | None:
        """Return a name's entry (entity, counts) and its visible addresses from ``start`` on; None for a hidden name.

        At most ``limit`` addresses are returned (None: all). All visible addresses of the name are cached.
        """
        if key not in self._visible_entries:
            self._visible_entries[key] = self._read_visible_entry(key)
        visible_entry = self._visible_entries[key]
        if not visible_entry:
            return None
        entry, visible_addresses = visible_entry
        first_index = int(np.searchsorted(visible_addresses, np.uint64(start)))
        return entry, visible_addresses[first_index:][:limit]

    def _read_visible_entry(self, key: str) -> tuple[FilterEntry, Ids] | None:
        """Return a name's filter entry, and its visible addresses (the nodes and abstracts where it occurs).

        The entry counts only the visible addresses. Returns None if the name is unknown, and if it has no visible
        address, unless it has an alias or is one.
        """
        record = super()._look_up(key, limit=None, start=0)
        if not record:
            return None
        entry, entity_addresses = record
        visible_addresses = entity_addresses[self._compute_visible_mask(entity_addresses)]
        has_or_is_alias = self._aliases.get(key) is not None or bool(self._aliases.list_direct_aliases(key))
        if not len(visible_addresses) and not has_or_is_alias:
            return None
        return FilterEntry(entry.entity, len(visible_addresses), entry.temperature), visible_addresses

    def _compute_visible_mask(self, entity_addresses: Ids) -> npt.NDArray[np.bool_]:
        """Return a mask of addresses: True for nodes with a visible edge, and for abstracts of allowed documents."""
        ranks = entity_addresses >> np.uint64(addresses.RANK_SHIFT)
        targets = entity_addresses & np.uint64(addresses.TARGET_MASK)
        is_node = ranks == addresses.NODE_RANK
        is_leaf = ~is_node & (targets < FIRST_UPPER_ABSTRACT)
        is_upper = ~is_node & ~is_leaf
        is_visible = np.zeros(len(entity_addresses), np.bool_)
        # A leaf abstract belongs to the document of its first chunk.
        is_visible[is_leaf] = self._allowed.get_chunk_mask(targets[is_leaf] * np.uint64(GROUP_SIZE))
        is_visible[is_upper] = [
            abstract.document in self._allowed for abstract in self._abstracts.get_many(targets[is_upper].tolist())
        ]
        is_visible[is_node] = [self._forest.has_node(node) for node in targets[is_node].tolist()]
        return is_visible
