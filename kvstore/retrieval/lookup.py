"""LOOKUP: where an entity is found, the most telling places first.

In: names as typed. Out: :class:`~kvstore.retrieval.evidence.Location` rows: places in trees (half of the rows at most
where documents would fill the rest), then titles and headings, then text, dense before passing. Names that stand for
the same entity have the same rows, shown under its name. A name that is not known has no rows. Cost depends on the
rows asked for and on how many places tie with the last of them, not on the store.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ..storage import addresses
from ..storage.aliases import Identity
from ..storage.chunks import FIRST_UPPER, GROUP
from ..storage.store_view import StoreView
from ..text.blocks import plain
from ..text.normalize import entity_key
from ..text.sentences import sentences
from .evidence import Location
from .places import Place, places_of

#: Addresses that are looked at beyond the limit, so that ties are broken by what they hold.
_AHEAD = 64


def lookup(view: StoreView, name: str, limit: int) -> Iterator[Location]:
    """At most ``limit`` locations of one name."""
    key = entity_key(name)
    identity = view.resolve(key) if key else None
    if identity is None:
        return
    shown = view.entities.get(identity.entry.entity).name
    given = 0
    nodes, places = places_of(view, identity, limit + _AHEAD)
    most = max(limit - len(places), (limit + 1) // 2)
    for location in islice((row for node in nodes for row in _tree_locations(view, node, shown, identity)), most):
        given += 1
        yield location
    for place in places[: limit - given]:
        yield _abstract_location(view, place, shown, identity)


def _tree_locations(view: StoreView, node: int, shown: str, identity: Identity) -> Iterator[Location]:
    forest = view.forest
    tree = forest.tree_name(forest.node(node).tree)
    level = forest.level(node)
    children = [_node_name(view, child) for child in forest.by_name(forest.children(node))[:4]]
    below = ", ".join(children[:3]) + (", …" if len(children) > 3 else "")
    parents: list[int | None] = [*forest.by_name(forest.parents(node))] or [None]
    for parent in parents:
        above = None if parent is None else _node_name(view, parent)
        text = f"{shown} is under {above}" if above else f"{shown} is a root"
        text += f"; above {below}" if below else ""
        yield Location(shown, identity.entry.temperature, tree, level, above, None, None, text)


def _node_name(view: StoreView, node: int) -> str:
    return view.entities.get(view.forest.node(node).entity).name


def _abstract_location(view: StoreView, place: Place, shown: str, identity: Identity) -> Location:
    rank, abstract, record = place
    document = view.documents.get(record.document)
    above = None if record.parent is None else view.abstracts.get(record.parent)
    parent = None if above is None else view.abstracts.heading(above)
    named = rank >= addresses.BODY_FIRST and abstract < FIRST_UPPER
    text = (_sentence_with(view, abstract, identity.entities) if named else None) or view.abstracts.text(record)
    ordinal = document.abstract_ordinal(abstract)
    return Location(shown, identity.entry.temperature, None, record.level, parent, document.key, ordinal, text)


def _sentence_with(view: StoreView, leaf: int, entities: list[int]) -> str | None:
    """The first sentence of a leaf abstract that mentions one of some entities, or a heading that does."""
    heading = None
    for chunk in range(GROUP * leaf, GROUP * leaf + GROUP):
        starts = [start for entity, start, _ in view.mentions.in_chunk(chunk) if entity in entities]
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
