"""Sentences about entities from the entity forest: Algorithm 3 of CFT-RAG (§3.4). A *node* is a place of an entity in a
tree of the forest. Its *relatives* are its ancestors and descendants.

In: normal forms of names. The filter returns every node of each name. For each node, the first *n* ancestors and the
first *n* descendants, nearest first and then by name, are put into a sentence by template. Out: one sentence per node.
Decoded nodes and their sentences are cached until the next commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..structures.filter import addresses
from ..structures.state import State

#: The first address of an abstract. Addresses sort by rank, and nodes have the lowest, so all smaller ones are nodes.
_FIRST_ABSTRACT = addresses.make_address(addresses.NODE_RANK + 1, 0)


class Hierarchy:
    """A builder of sentences about the nodes of entities in one state."""

    def __init__(self, state: State, max_relatives: int) -> None:
        """Create a builder of sentences that each name at most ``max_relatives`` ancestors and as many descendants."""
        self._state = state
        self._max_relatives = max_relatives
        #: A cache of the state, which also builds the sentences.
        self._node_sentences = state.get_node_sentences(max_relatives)

    def find_nodes(self, keys: Sequence[str]) -> list[tuple[int, ...]]:
        """Return the nodes with each name (in normal form) in the trees of entities; empty for an unknown name."""
        # An address is a place where a name occurs: a node or an abstract. The address of a node is its id.
        return self._state.filter.list_addresses_below(keys, _FIRST_ABSTRACT)

    def build_sentences(self, nodes: Iterable[int]) -> list[str]:
        """Return a sentence about each node of the forest, such as ``a (in tree) is under b; above c, d``, in order.

        Nodes whose sentences are not cached are read and decoded.
        """
        return self._node_sentences.describe(nodes, self._load_node)

    def _load_node(self, node: int) -> tuple[bytes, bytes, tuple[int, ...], tuple[int, ...]]:
        """Return the name of a node, the name of its tree (both in UTF-8), its parents and its first children.

        Parents and children are ids of nodes, sorted by name; there are at most ``max_relatives`` children.
        """
        forest = self._state.forest
        tree, entity = forest.get_node(node)
        name = self._state.entities.get(entity).name
        parents = forest.sort_by_name(forest.iter_parents(node))
        children = forest.sort_by_name(forest.iter_children(node))
        return (
            name.encode(),
            forest.get_tree_name(tree).encode(),
            tuple(parents),
            tuple(children[: self._max_relatives]),
        )
