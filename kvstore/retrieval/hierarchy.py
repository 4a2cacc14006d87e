"""What the entity forest says of some entities: Algorithm 3 of CFT-RAG (§3.4).

In: normal forms of names. For each, the filter gives every place in the forest; of each place the first *n* ancestors
and the first *n* descendants are taken, nearest first and by name, and put into a sentence by template. Out: those
sentences, one a place. A node that was met is not decoded again before the next commit, nor its sentence made again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..structures.filter import addresses
from ..structures.state import State

_FIRST_ABSTRACT = addresses.address(addresses.NODE + 1, 0)


class Hierarchy:
    """The forest of one view, read for context: at most ``relatives`` ancestors and as many descendants a place."""

    def __init__(self, view: State, relatives: int) -> None:
        self._view = view
        self._relatives = relatives
        self._places = view.places(relatives)

    def nodes(self, keys: Sequence[str]) -> list[tuple[int, ...]]:
        """For each name (normal form) the nodes where it stands in the forest; none where it is not known."""
        return self._view.filter.addresses_below(keys, _FIRST_ABSTRACT)

    def sentences(self, nodes: Iterable[int]) -> list[str]:
        """A sentence for each node."""
        return self._places.sentences(nodes, self._load)

    def _load(self, node: int) -> tuple[bytes, bytes, tuple[int, ...], tuple[int, ...]]:
        forest = self._view.forest
        tree, entity = forest.node(node)
        name = self._view.entities.get(entity).name
        parents, children = forest.by_name(forest.parents(node)), forest.by_name(forest.children(node))
        return name.encode(), forest.tree_name(tree).encode(), tuple(parents), tuple(children[: self._relatives])
