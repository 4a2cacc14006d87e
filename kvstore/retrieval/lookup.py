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

from ..structures.documents.chunks import FIRST_UPPER, GROUP
from ..structures.filter import addresses
from ..structures.forest.forest import RELATIONS_TREE
from ..structures.names.aliases import Identity
from ..structures.state import State
from ..text.blocks import plain
from ..text.normalize import entity_key
from ..text.sentences import sentences
from .evidence import Location
from .ordered_addresses import AbstractAddress, ordered_addresses, tree_names

#: Addresses that are looked at beyond the limit, so that ties are broken by what they hold.
_AHEAD = 64


def lookup(view: State, name: str, limit: int) -> Iterator[Location]:
    """At most ``limit`` locations of one name."""
    key = entity_key(name)
    identity = view.resolve(key) if key else None
    if identity is None:
        return
    shown = view.entities.get(identity.entry.entity).name
    nodes, places = ordered_addresses(view, identity, limit + _AHEAD)
    stated, told = _parted(view, nodes)
    most = max(limit - len(places), (limit + 1) // 2)
    above = list(islice((row for node in stated for row in _tree_locations(view, node, shown, identity)), most))
    beside = (row for node in told for row in _tree_locations(view, node, shown, identity))
    related = list(islice(beside, most - len(above)))
    places = places[: limit - len(above) - len(related)]
    headed = [place for place in places if place[0] < addresses.BODY_FIRST]
    yield from above
    yield from (_abstract_location(view, place, shown, identity) for place in headed)
    yield from related
    yield from (_abstract_location(view, place, shown, identity) for place in places[len(headed) :])


def _parted(view: State, nodes: list[int]) -> tuple[list[int], list[int]]:
    """Nodes of the trees that somebody stated, and those of the tree of relations found in prose."""
    trees = tree_names(view, nodes)
    stated = [node for node in nodes if trees[node] != RELATIONS_TREE]
    return stated, [node for node in nodes if trees[node] == RELATIONS_TREE]


def _tree_locations(view: State, node: int, shown: str, identity: Identity) -> Iterator[Location]:
    forest = view.forest
    tree = forest.tree_name(forest.node(node).tree)
    level = forest.level(node)
    children = _node_names(view, forest.by_name(forest.children(node))[:4])
    below = ", ".join(children[:3]) + (", …" if len(children) > 3 else "")
    parents: list[str | None] = [*_node_names(view, forest.by_name(forest.parents(node)))] or [None]
    for above in parents:
        text = f"{shown} is under {above}" if above else f"{shown} is a root"
        text += f"; above {below}" if below else ""
        yield Location(shown, identity.entry.temperature, tree, level, above, None, None, text)


def _node_names(view: State, nodes: Sequence[int]) -> list[str]:
    return [record.name for record in view.entities.get_many([view.forest.node(node).entity for node in nodes])]


def _abstract_location(view: State, place: AbstractAddress, shown: str, identity: Identity) -> Location:
    rank, abstract, record = place
    document = view.documents.get(record.document)
    above = None if record.parent is None else view.abstracts.get(record.parent)
    parent = None if above is None else view.abstracts.heading(above)
    named = rank >= addresses.BODY_FIRST and abstract < FIRST_UPPER
    text = (_sentence_with(view, abstract, identity.entities) if named else None) or view.abstracts.text(record)
    ordinal = document.abstract_ordinal(abstract)
    return Location(shown, identity.entry.temperature, None, record.level, parent, document.key, ordinal, text)


def _sentence_with(view: State, leaf: int, entities: list[int]) -> str | None:
    """The first sentence of a leaf abstract that mentions one of some entities, or a heading that does."""
    heading = None
    chunks = range(GROUP * leaf, GROUP * leaf + GROUP)
    for chunk, mentions in zip(chunks, view.mentions.in_chunks(chunks), strict=True):
        starts = [start for entity, start, _ in mentions if entity in entities]
        if not starts:
            continue
        text = view.chunk_text(chunk)
        encoded = text.encode()
        places = [len(encoded[:start].decode()) for start in starts]
        for first, last in sentences(text):
            if any(first <= place < last for place in places):
                if not text.startswith("#", first):
                    return plain(text[first:last])
                heading = heading or plain(text[first:last].lstrip("#"))
    return heading
