"""EXPAND: the relatives of an entity, in the entity forest and in the abstract trees of its documents.

In: a name, a direction, a depth and a limit. Out: :class:`~kvstore.retrieval.evidence.Relative` rows, the entity
itself at level 0, ancestors below zero, descendants above, nearest first. Names that stand for the same entity are
expanded together, under its name; relatives are called what the trees call them. Never unfolds a tree: each node stands
once a tree. Where the limit cuts, the last row says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ..errors import InputError
from ..storage import addresses
from ..storage.aliases import Identity
from ..storage.store_view import StoreView
from ..text.normalize import entity_key
from .evidence import Relative
from .stating import stating_text

DIRECTIONS = ("up", "down", "both")
#: Documents whose abstract trees are shown for one entity.
_DOCUMENTS = 3


def expand(view: StoreView, name: str, *, direction: str, depth: int, tree: str | None, limit: int) -> list[Relative]:
    """Relatives of one entity up to ``depth`` levels away; none where the name is not known."""
    if direction not in DIRECTIONS:
        raise InputError(f"a direction is one of {', '.join(DIRECTIONS)}, not {direction!r}")
    if tree is not None and view.forest.tree(tree) is None and view.documents.identify(tree) is None:
        known = ", ".join(name for _, name in islice(view.forest.trees(), 5)) or "none"
        raise InputError(f"there is no tree {tree!r}; trees are {known}, and every document is one under its key")
    key = entity_key(name)
    identity = view.resolve(key) if key else None
    if identity is None:
        return []
    shown = view.entities.get(identity.entry.entity).name
    ups = direction in ("up", "both")
    downs = direction in ("down", "both")
    rows: list[Relative] = []
    for source in (_forest_relatives, _abstract_relatives):
        for row in source(view, identity, shown, ups, downs, depth, tree, limit):
            if len(rows) == limit:
                cut = Relative(shown, row.tree, 0, "…", "", f"cut at {limit} rows; LIMIT n shows more")
                return [*rows, cut]
            rows.append(row)
    return rows


def _forest_relatives(
    view: StoreView, identity: Identity, shown: str, ups: bool, downs: bool, depth: int, tree: str | None, limit: int
) -> Iterator[Relative]:
    forest = view.forest
    nodes_of: dict[str, list[int]] = {}
    for number in view.addresses_of(identity, limit).tolist():
        rank, node = addresses.split(number)
        if rank == addresses.NODE:
            nodes_of.setdefault(forest.tree_name(forest.node(node).tree), []).append(node)
    for tree_name, nodes in nodes_of.items():
        if tree is not None and tree != tree_name:
            continue
        yield Relative(shown, tree_name, 0, shown, "", "")
        for wanted, up, sign in ((ups, True, -1), (downs, False, 1)):
            if not wanted:
                continue
            steps, cut = forest.walk(nodes, up=up, depth=depth, limit=limit)
            names = dict.fromkeys(nodes, shown)
            for step in steps:
                names[step.node] = view.entities.get(forest.node(step.node).entity).name
                child, parent = (step.via, step.node) if up else (step.node, step.via)
                text = stating_text(view, child, parent, (names[child], names[parent]))
                yield Relative(shown, tree_name, sign * step.distance, names[step.node], names[step.via], text)
            if cut:
                way = "above" if up else "below"
                yield Relative(shown, tree_name, 0, "…", "", f"more {way}: cut at {limit} nodes")


def _abstract_relatives(
    view: StoreView, identity: Identity, shown: str, ups: bool, downs: bool, depth: int, tree: str | None, limit: int
) -> Iterator[Relative]:
    """The abstract tree around the best places of the entity, a few documents' at most."""
    seen: set[int] = set()
    documents: set[int] = set()
    for number in view.addresses_of(identity, limit).tolist():
        rank, place = addresses.split(number)
        if rank == addresses.NODE or place in seen:
            continue
        record = view.abstracts.get(place)
        document = view.documents.get(record.document)
        if tree is not None and tree != document.key:
            continue
        if document.id not in documents:
            if len(documents) == _DOCUMENTS:
                continue
            documents.add(document.id)
        start = label(view, place)
        seen.add(place)
        yield Relative(shown, document.key, 0, start, "", record.text)
        queue = [(record.parent, -1, start)] if ups and record.parent is not None else []
        queue += [(child, 1, start) for child in record.children] if downs else []
        while queue:
            abstract, level, via = queue.pop(0)
            if abs(level) > depth or abstract in seen:
                continue
            seen.add(abstract)
            other = view.abstracts.get(abstract)
            name = label(view, abstract)
            yield Relative(shown, document.key, level, name, via, other.text)
            if level < 0 and other.parent is not None:
                queue.append((other.parent, level - 1, name))
            elif level > 0:
                queue += [(child, level + 1, name) for child in other.children]


def label(view: StoreView, abstract: int) -> str:
    """What an abstract is called: its heading, or its document and number."""
    record = view.abstracts.get(abstract)
    document = view.documents.get(record.document)
    title = record.heading or document.title or document.key
    return f"{title} [{abstract}]"
