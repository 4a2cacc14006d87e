"""LOOKUP: where an entity is found, the most telling places first.

In: names as typed. Out: :class:`~kvstore.retrieval.evidence.Location` rows: places in trees that somebody stated, then
titles and headings, then places in the tree of relations found in prose, then text, dense before passing; half of the
rows at most are places in trees where documents would fill the rest. Names that stand for
the same entity have the same rows, shown under its name. A name that is not known has no rows. Cost depends on the
rows asked for and on how many places tie with the last of them, not on the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from ..structures.documents.chunks import FIRST_UPPER_ABSTRACT, GROUP
from ..structures.filter import addresses
from ..structures.forest.forest import RELATIONS_TREE
from ..structures.names.aliases import Identity
from ..structures.state import State
from ..text.blocks import plain
from ..text.normalize import to_entity_key
from ..text.sentences import sentences
from .evidence import Location
from .ordered_addresses import AbstractAddress, ordered_addresses, tree_names

#: Addresses that are looked at beyond the limit, so that ties are broken by what they hold.
_NUM_EXTRA_ADDRESSES = 64


def lookup(view: State, name: str, limit: int) -> Iterator[Location]:
    """At most ``limit`` locations of one name."""
    key = to_entity_key(name)
    identity = view.resolve(key) if key else None
    if identity is None:
        return
    display_name = view.entities.get(identity.entry.entity).name
    nodes, abstract_addresses = ordered_addresses(view, identity, limit + _NUM_EXTRA_ADDRESSES)
    stated_nodes, prose_nodes = _parted(view, nodes)
    max_tree_rows = max(limit - len(abstract_addresses), (limit + 1) // 2)
    stated_locations = list(
        islice(
            (row for node in stated_nodes for row in _iter_tree_locations(view, node, display_name, identity)),
            max_tree_rows,
        )
    )
    prose_rows = (row for node in prose_nodes for row in _iter_tree_locations(view, node, display_name, identity))
    prose_locations = list(islice(prose_rows, max_tree_rows - len(stated_locations)))
    abstract_addresses = abstract_addresses[: limit - len(stated_locations) - len(prose_locations)]
    heading_addresses = [address for address in abstract_addresses if address[0] < addresses.MIN_BODY_RANK]
    yield from stated_locations
    yield from (_build_abstract_location(view, address, display_name, identity) for address in heading_addresses)
    yield from prose_locations
    yield from (
        _build_abstract_location(view, address, display_name, identity)
        for address in abstract_addresses[len(heading_addresses) :]
    )


def _parted(view: State, nodes: list[int]) -> tuple[list[int], list[int]]:
    """Nodes of the trees that somebody stated, and those of the tree of relations found in prose."""
    trees = tree_names(view, nodes)
    stated_nodes = [node for node in nodes if trees[node] != RELATIONS_TREE]
    return stated_nodes, [node for node in nodes if trees[node] == RELATIONS_TREE]


def _iter_tree_locations(view: State, node: int, shown: str, identity: Identity) -> Iterator[Location]:
    forest = view.forest
    tree = forest.tree_name(forest.node(node).tree)
    level = forest.level(node)
    children = _list_node_names(view, forest.by_name(forest.children(node))[:4])
    children_text = ", ".join(children[:3]) + (", …" if len(children) > 3 else "")
    parents: list[str | None] = [*_list_node_names(view, forest.by_name(forest.parents(node)))] or [None]
    for parent in parents:
        text = f"{shown} is under {parent}" if parent else f"{shown} is a root"
        text += f"; above {children_text}" if children_text else ""
        yield Location(shown, identity.entry.temperature, tree, level, parent, None, None, text)


def _list_node_names(view: State, nodes: Sequence[int]) -> list[str]:
    return [record.name for record in view.entities.get_many([view.forest.node(node).entity for node in nodes])]


def _build_abstract_location(view: State, place: AbstractAddress, shown: str, identity: Identity) -> Location:
    rank, abstract, record = place
    document = view.documents.get(record.document)
    parent_record = None if record.parent is None else view.abstracts.get(record.parent)
    parent = None if parent_record is None else view.abstracts.heading(parent_record)
    is_leaf_mention = rank >= addresses.MIN_BODY_RANK and abstract < FIRST_UPPER_ABSTRACT
    text = (
        _find_mention_sentence(view, abstract, identity.entities) if is_leaf_mention else None
    ) or view.abstracts.text(record)
    ordinal = document.get_abstract_ordinal(abstract)
    return Location(shown, identity.entry.temperature, None, record.level, parent, document.key, ordinal, text)


def _find_mention_sentence(view: State, leaf: int, entities: list[int]) -> str | None:
    """The first sentence of a leaf abstract that mentions one of some entities, or a heading that does."""
    heading = None
    chunks = range(GROUP * leaf, GROUP * leaf + GROUP)
    for chunk, mentions in zip(chunks, view.mentions.in_chunks(chunks), strict=True):
        starts = [start for entity, start, _ in mentions if entity in entities]
        if not starts:
            continue
        text = view.chunk_text(chunk)
        encoded = text.encode()
        offsets = [len(encoded[:start].decode()) for start in starts]
        for first, last in sentences(text):
            if any(first <= offset < last for offset in offsets):
                if not text.startswith("#", first):
                    return plain(text[first:last])
                heading = heading or plain(text[first:last].lstrip("#"))
    return heading
