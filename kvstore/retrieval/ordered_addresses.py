"""The addresses of an entity, the most informative first. An *address* is a place that names the entity: a *node* of a
tree in the entity forest, or an *abstract* (a summary of a part of a document). Its *rank* is lower if it is more
informative.

In: an entity. Out: nodes of the entity forest by tree and name; abstracts by rank (see
:mod:`~kvstore.structures.filter.addresses`), then by the amount of text below them (less is more informative), then by
document key and position. All abstracts of a rank are read if the rank is needed, because any of them can be the first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from ..structures.documents.chunks import AbstractRecord
from ..structures.filter import addresses
from ..structures.names.aliases import Identity
from ..structures.state import State


class AbstractAddress(NamedTuple):
    """An abstract that mentions an entity: its id and its record.

    ``rank`` shows if a heading or the text below the abstract mentions the entity.
    """

    rank: int
    abstract: int
    record: AbstractRecord


def list_ranked_addresses(state: State, identity: Identity, limit: int) -> tuple[list[int], list[AbstractAddress]]:
    """Return the nodes and the abstracts that name an entity.

    The nodes are sorted by tree and name, and the abstracts by rank, the most informative first. ``identity`` is the
    entity with all its names. At most ``limit`` places are returned, those with the lowest ranks, but also all that tie
    with the last of them.
    """
    places = list(map(addresses.split_address, state.find_addresses_with_ties(identity, limit).tolist()))
    nodes = [node for rank, node in places if rank == addresses.NODE_RANK]
    ranked_abstracts = [(rank, abstract) for rank, abstract in places if rank != addresses.NODE_RANK]
    records = state.abstracts.get_many(abstract for _, abstract in ranked_abstracts)
    abstract_addresses = [
        AbstractAddress(rank, abstract, record)
        for (rank, abstract), record in zip(ranked_abstracts, records, strict=True)
    ]
    keys = state.documents.get_keys(record.document for record in records)
    return sort_nodes(state, nodes), sorted(abstract_addresses, key=lambda address: _build_sort_key(address, keys))


def sort_nodes(state: State, nodes: Iterable[int]) -> list[int]:
    """Return nodes of the trees of entities sorted by the names of their trees, then by their own names."""
    node_list = list(nodes)
    if len(node_list) < 2:
        return node_list
    trees = get_tree_names(state, node_list)
    keys = state.forest.get_keys(node_list)
    return sorted(node_list, key=lambda node: (trees[node], keys[node]))


def get_tree_names(state: State, nodes: Collection[int]) -> dict[int, str]:
    """Return the name of the tree of each node, keyed by node, in the order of ``nodes``."""
    trees = {node: state.forest.get_node(node).tree for node in nodes}
    names = {tree: state.forest.get_tree_name(tree) for tree in set(trees.values())}
    return {node: names[tree] for node, tree in trees.items()}


def _build_sort_key(address: AbstractAddress, keys: Mapping[int, str]) -> tuple[int, int, str, int]:
    """Return the sort key of an abstract's address: rank, distance of its last from its first chunk, document key, id.

    ``keys`` are the document keys by document id.
    """
    record = address.record
    chunk_span = record.last_chunk - record.first_chunk
    # Within a document, abstracts of a level are numbered in text order.
    return address.rank, chunk_span, keys[record.document], address.abstract
