"""The addresses of an entity, the most telling first, equals by document and place or by name.

In: what a name stands for. Out: nodes of the entity forest by tree and name; abstracts by rank (see
:mod:`~kvstore.structures.filter.addresses`), then by how much lies below them (less is more telling), then by document
key and place. Of many abstracts of one rank all are looked at, as far as the rank is needed, since any may be the
first.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..structures.documents.chunks import AbstractRecord
from ..structures.filter import addresses
from ..structures.names.aliases import Identity
from ..structures.state import State

#: The rank of an abstract, its id and its record.
AbstractAddress = tuple[int, int, AbstractRecord]


def ordered_addresses(view: State, identity: Identity, most: int) -> tuple[list[int], list[AbstractAddress]]:
    """Nodes and abstracts of an entity; of more than ``most`` those that come first, at least so many together."""
    nodes: list[int] = []
    found: list[AbstractAddress] = []
    for rank, place in map(addresses.split, view.addresses_with_ties(identity, most).tolist()):
        if rank == addresses.NODE:
            nodes.append(place)
        else:
            found.append((rank, place, view.abstracts.get(place)))
    return nodes_in_order(view, nodes), sorted(found, key=lambda place: _order(view, place))


def nodes_in_order(view: State, nodes: Iterable[int]) -> list[int]:
    """Nodes of the forest by the names of their trees, then by their own."""
    found = list(nodes)
    if len(found) < 2:
        return found
    return sorted(found, key=lambda node: (view.forest.tree_name(view.forest.node(node).tree), view.forest.key(node)))


def _order(view: State, place: AbstractAddress) -> tuple[int, int, str, int]:
    rank, abstract, record = place
    # Within a document abstracts of a level are numbered as the text goes.
    return rank, record.last_chunk - record.first_chunk, view.documents.key_of(record.document), abstract
