"""What the entity forest says of some entities: Algorithm 3 of CFT-RAG (§3.4).

In: normal forms of names. For each, the filter gives every place in the forest; of each place the first *n* ancestors
and the first *n* descendants are taken, nearest first and by name, and put into a sentence by template. Out: those
sentences, one a place. A node that was met is not decoded again before the next commit, nor its sentence made again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..structures.filter import addresses
from ..structures.state import State

_FIRST_ABSTRACT = addresses.make_address(addresses.NODE_RANK + 1, 0)


class Hierarchy:
    """The forest of one view, read for context: at most ``relatives`` ancestors and as many descendants a place."""

    def __init__(self, state: State, relatives: int) -> None:
        self._state = state
        self._relatives = relatives
        self._place_cache = state.get_decoded_nodes(relatives)

    def find_nodes(self, keys: Sequence[str]) -> list[tuple[int, ...]]:
        """For each name (normal form) the nodes where it stands in the forest; none where it is not known."""
        return self._state.filter.get_addresses_below(keys, _FIRST_ABSTRACT)

    def build_sentences(self, nodes: Iterable[int]) -> list[str]:
        """A sentence for each node."""
        return self._place_cache.sentences(nodes, self._load_node)

    def _load_node(self, node: int) -> tuple[bytes, bytes, tuple[int, ...], tuple[int, ...]]:
        forest = self._state.forest
        tree, entity = forest.get_node(node)
        name = self._state.entities.get(entity).name
        parents, children = (
            forest.sort_by_name(forest.iter_parents(node)),
            forest.sort_by_name(forest.iter_children(node)),
        )
        return name.encode(), forest.get_tree_name(tree).encode(), tuple(parents), tuple(children[: self._relatives])
