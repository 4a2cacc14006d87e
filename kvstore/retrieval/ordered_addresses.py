"""The addresses of an entity, the most telling first, equals by document and place or by name.

In: what a name stands for. Out: nodes of the entity forest by tree and name; abstracts by rank (see
:mod:`~kvstore.structures.filter.addresses`), then by how much lies below them (less is more telling), then by document
key and place. Of many abstracts of one rank all are looked at, as far as the rank is needed, since any may be the
first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ..structures.documents.chunks import AbstractRecord
from ..structures.filter import addresses
from ..structures.names.aliases import Identity
from ..structures.state import State

#: The rank of an abstract, its id and its record.
AbstractAddress = tuple[int, int, AbstractRecord]


def ordered_addresses(view: State, identity: Identity, most: int) -> tuple[list[int], list[AbstractAddress]]:
    """Nodes and abstracts of an entity; of more than ``most`` those that come first, at least so many together."""
    every = list(map(addresses.split, view.addresses_with_ties(identity, most).tolist()))
    nodes = [place for rank, place in every if rank == addresses.NODE]
    ranked = [(rank, place) for rank, place in every if rank != addresses.NODE]
    records = view.abstracts.get_many(place for _, place in ranked)
    found = [(rank, place, record) for (rank, place), record in zip(ranked, records, strict=True)]
    keys = view.documents.keys_of(record.document for record in records)
    return nodes_in_order(view, nodes), sorted(found, key=lambda place: _order(place, keys))


def nodes_in_order(view: State, nodes: Iterable[int]) -> list[int]:
    """Nodes of the forest by the names of their trees, then by their own."""
    found = list(nodes)
    if len(found) < 2:
        return found
    trees = tree_names(view, found)
    keys = view.forest.keys_of(found)
    return sorted(found, key=lambda node: (trees[node], keys[node]))


def tree_names(view: State, nodes: Collection[int]) -> dict[int, str]:
    """The names of the trees of some nodes, by node."""
    trees = {node: view.forest.node(node).tree for node in nodes}
    names = {tree: view.forest.tree_name(tree) for tree in set(trees.values())}
    return {node: names[tree] for node, tree in trees.items()}


def _order(place: AbstractAddress, keys: Mapping[int, str]) -> tuple[int, int, str, int]:
    rank, abstract, record = place
    # Within a document abstracts of a level are numbered as the text goes.
    return rank, record.last_chunk - record.first_chunk, keys[record.document], abstract
