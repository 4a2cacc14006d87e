"""The passage graph restricted by a condition on documents. The *row* of a chunk or entity has its edges. The *degree*
of an entity is its number of chunks. A link is *visible* if the user or a document that the query allows asserts it.

In: a restricted state (:mod:`~kvstore.structures.restricted_state`). Out: rows of chunks of documents that the query
allows, and links that these documents or the user assert. Degrees describe the whole store, because they are only
used as weights. Counts that a user sees come from :meth:`RestrictedPassageGraph.read_visible_degrees`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ...registry.contract import RELATION_LINK, TRIPLE_LINK
from ...structures.filter import addresses
from .edges import (
    NO_CHUNK_LIMIT,
    ChunkRows,
    Degrees,
    EntityRows,
    LinkRows,
    UInt64Array,
    encode_degree,
    mask_informative,
)
from .graph import PassageGraph
from .rows import list_triple_pairs

if TYPE_CHECKING:
    from ...structures.state import State

#: The first address that is not a node.
_FIRST_ABSTRACT = addresses.make_address(addresses.NODE_RANK + 1, 0)


class RestrictedPassageGraph(PassageGraph):
    """The passage graph limited to the documents that the query allows."""

    def __init__(self, state: State) -> None:
        """Open the graph in ``state``, which must be restricted to some documents."""
        super().__init__(state.lmdb)
        assert state.allowed is not None
        self._state, self._allowed = state, state.allowed
        #: Caches, by entity: the entities joined to it by visible edges of trees, and by visible triples.
        self._tree_neighbors: dict[int, frozenset[int]] = {}
        self._triple_neighbors: dict[int, frozenset[int]] = {}

    def read_chunk_rows(self, chunks: UInt64Array) -> ChunkRows:
        """Return the rows of chunks (the entities they mention); a row is empty if the query excludes its document."""
        bounds, entities, mention_bits = super().read_chunk_rows(chunks)
        is_visible = np.repeat(self._allowed.get_chunk_mask(chunks), np.diff(bounds))
        return ChunkRows(_shrink_bounds(bounds, is_visible), entities[is_visible], mention_bits[is_visible])

    def read_entity_rows(self, entities: npt.NDArray[np.uint32], degrees: Degrees, max_chunks: int) -> EntityRows:
        """Return the chunks that mention each entity, without chunks of documents that the query excludes.

        ``degrees`` are the entities' numbers of chunks in the whole store. The row of an entity in more than
        ``max_chunks`` chunks is empty.
        """
        bounds, chunks, mention_bits = super().read_entity_rows(entities, degrees, max_chunks)
        is_visible = self._allowed.get_chunk_mask(chunks)
        return EntityRows(_shrink_bounds(bounds, is_visible), chunks[is_visible], mention_bits[is_visible])

    def read_visible_degrees(self, entities: npt.NDArray[np.uint32]) -> Degrees:
        """Return the degrees of entities, counted over the documents that the query allows, without link flags.

        A degree has two counts of chunks: all that mention the entity, and the informative chunks, which do not mention
        it only in lower case.
        """
        degrees = self.read_degrees(entities)
        bounds, _, mention_bits = self.read_entity_rows(entities, degrees, NO_CHUNK_LIMIT)
        informative_bounds = _shrink_bounds(bounds, mask_informative(mention_bits))
        counts = zip(np.diff(bounds).tolist(), np.diff(informative_bounds).tolist(), strict=True)
        return Degrees(np.array([encode_degree(total, informative) for total, informative in counts], np.uint64))

    def read_link_rows(self, entities: npt.NDArray[np.uint32]) -> LinkRows:
        """Return the links of entities, except links asserted only by documents that the query excludes."""
        links = super().read_link_rows(entities)
        link_tuples = zip(links.entities.tolist(), links.other_entities.tolist(), links.kinds.tolist(), strict=True)
        is_visible = np.array([self._is_link_visible(*link) for link in link_tuples], np.bool_)
        entities, other_entities, kinds, multiplicities = links
        return LinkRows(entities[is_visible], other_entities[is_visible], kinds[is_visible], multiplicities[is_visible])

    def _is_link_visible(self, entity: int, other_entity: int, kind: int) -> bool:
        """True if a link between two entities is asserted by the user or by a document that the query allows.

        ``kind`` is RELATION_LINK (an edge of a tree), TRIPLE_LINK or TITLE_LINK (a title and its short form). A
        TITLE_LINK has no assertion; it is visible if both entities are. ``entity`` must be visible. Caches its
        neighbors.
        """
        if kind == RELATION_LINK:
            if entity not in self._tree_neighbors:
                self._tree_neighbors[entity] = frozenset(self._iter_tree_neighbors(entity))
            return other_entity in self._tree_neighbors[entity]
        if kind == TRIPLE_LINK:
            if entity not in self._triple_neighbors:
                self._triple_neighbors[entity] = frozenset(self._iter_triple_neighbors(entity))
            return other_entity in self._triple_neighbors[entity]
        return other_entity in self._state.entities  # kind is TITLE_LINK

    def _iter_tree_neighbors(self, entity: int) -> Iterator[int]:
        """Yield the parents and children of an entity in all trees, by edges of the user or of allowed documents."""
        forest = self._state.forest
        key = self._state.entities.get(entity).key
        # Addresses of nodes sort before addresses of abstracts; a node without visible edges has no neighbors.
        (nodes,) = self._state.unrestricted.filter.list_addresses_below([key], _FIRST_ABSTRACT)
        for node in nodes:
            for other in chain(forest.iter_parents(node), forest.iter_children(node)):
                yield forest.get_node(other).entity

    def _iter_triple_neighbors(self, entity: int) -> Iterator[int]:
        """Yield the entities joined to an entity by triples of documents that the query allows, and the entity itself.

        An entity can be repeated.
        """
        chunks = self._state.chunks.get_many(self.list_triple_chunks(entity))
        pairs_by_document = list_triple_pairs(self._state.unrestricted, (chunk.document for chunk in chunks))
        for pair in chain.from_iterable(pairs_by_document.values()):
            if entity in pair:
                yield from pair


def _shrink_bounds(bounds: npt.NDArray[np.int64], is_retained: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the offsets of concatenated rows of edges after some edges are removed.

    ``bounds`` are the offsets before, and ``is_retained`` is true for each edge that remains.
    """
    return np.concatenate(([0], np.cumsum(is_retained, dtype=np.int64)))[bounds]
