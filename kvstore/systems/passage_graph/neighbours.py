"""Neighbours of an entity: the names that stand nearest to it in the stored graph.

In: one state and a name. Out: :class:`Neighbour` rows, the strongest first: what stands directly above or below the
entity in a tree, what a link joins it to, and what the same passages name. Two names are joined as the graph of
communities joins them (:mod:`kvstore.systems.graphrag.entity_graph`): by c / sqrt(d · d'), where c are the passages
that name both, with what links are worth, and d and d' those that name either. It is read from the rows of the entity
and of its passages alone, so it costs what the entity's own passages do, however large the store is. A passage names
what its text does, and what the title and the headings above it do. Passages that mention a name in lower case only do
not count, unless the entity has no others. Names that stand for the same entity are one, under its name. Of names with
equal scores the one that fewer passages name comes first, then they are in order of their normal forms.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import astuple, dataclass

import numpy as np
import numpy.typing as npt

from ...columnar import Columnar, NamedRows
from ...structures.filter import addresses
from ...structures.names.aliases import Identity
from ...structures.shown_entities import ShownEntities, shown_entities
from ...structures.state import State
from ..contract import RELATION_LINK, TRIPLE_LINK
from .edges import LOWER, TITLE_LINK, Numbers
from .graph import TOGETHER, PassageGraph
from .neighbourhood import EntityNumbers
from .structure import GRAPH

#: How many passages that name both a link is worth.
LINK_WORTHS = {TITLE_LINK: 1, TRIPLE_LINK: 3, RELATION_LINK: 3}
#: What links are called that are no edges of a tree.
_LINK_NAMES = {TITLE_LINK: "title", TRIPLE_LINK: "triple"}

_COLUMNS = ("entity", "name", "score", "passages", "above", "below", "links", "document", "chunk")
_TYPES = ("TEXT", "TEXT", "REAL", "INTEGER", "JSON", "JSON", "JSON", "TEXT", "INTEGER")


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A name that stands near ``entity``.

    ``above`` and ``below`` are the trees in which it stands directly above or below the entity, ``links`` what else
    joins the two: ``title`` (a title, and the same without the bracket at its end), ``triple`` (what was imported or
    extracted for a document). ``passages`` counts those that name both; ``document`` and ``chunk`` are the first of
    them, by key and number, None where there are none.
    """

    entity: str
    name: str
    score: float
    passages: int
    above: tuple[str, ...]
    below: tuple[str, ...]
    links: tuple[str, ...]
    document: str | None
    chunk: int | None


class Neighbours(Columnar, list[Neighbour]):
    """Neighbours of an entity, the strongest first."""

    def _rows_by_name(self) -> NamedRows:
        return _COLUMNS, [[*astuple(one)] for one in self], _TYPES

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from ...markup import table

        return table(_COLUMNS[1:], [astuple(one)[1:] for one in self])


def neighbours(state: State, identity: Identity, limit: int) -> Neighbours:
    """The neighbours of a known entity, at most ``limit``."""
    graph, shown = state.part(GRAPH), shown_entities(state)
    own = np.array(sorted(identity.entities), np.uint32)
    entity = identity.entry.entity
    chunks = _passages(graph, own)
    named, where = _named_with(graph, shown, chunks, entity)
    worths, links = _links(graph, shown, own, entity)
    above, below = _in_trees(state, shown, identity)
    others = np.union1d(named, np.array(sorted({*worths, *above, *below} - {entity}), np.uint32))
    if not len(others):
        return Neighbours()
    together = np.bincount(np.searchsorted(others, named), minlength=len(others))
    joined = together + np.array([worths.get(other, 0) for other in others.tolist()])
    counts = _passage_counts(graph, shown, others)
    # Rounded, so that scores that are shown as equal are equal.
    scores = np.round(joined / np.sqrt(np.maximum(counts, 1) * max(len(chunks), 1)), 6)
    least = np.sort(scores)[max(0, len(scores) - limit)]
    kept = np.flatnonzero(scores >= least)
    records = state.entities.get_many(others[kept].tolist())
    ranked = sorted(
        zip(kept.tolist(), records, strict=True), key=lambda pair: (-scores[pair[0]], counts[pair[0]], pair[1].key)
    )[:limit]
    firsts = _first_places(state, {int(others[place]): chunks[where[named == others[place]]] for place, _ in ranked})
    name = state.entities.get(entity).name
    rows = Neighbours()
    for place, record in ranked:
        other = int(others[place])
        document, chunk = firsts.get(other, (None, None))
        trees = tuple(sorted(above[other])), tuple(sorted(below[other]))
        linked = tuple(sorted(links[other]))
        score, passages = float(scores[place]), int(together[place])
        rows.append(Neighbour(name, record.name, score, passages, *trees, linked, document, chunk))
    return rows


def _passages(graph: PassageGraph, entities: EntityNumbers) -> Numbers:
    """The chunks that name any of some entities, ascending; those in lower case alone only where there are no
    others."""
    _, chunks, features = graph.entity_rows(entities, graph.degrees(entities), most=1 << 62)
    telling = (features & ~np.uint16(LOWER)) != 0
    return np.unique(chunks[telling] if telling.any() else chunks)


def _named_with(
    graph: PassageGraph, shown: ShownEntities, chunks: Numbers, entity: int
) -> tuple[EntityNumbers, npt.NDArray[np.int64]]:
    """The other entities that some chunks name, each once a chunk, and the places of the chunks."""
    pairs = [np.empty(0, np.int64)]
    for first in range(0, len(chunks), TOGETHER):
        bounds, entities, features = graph.chunk_rows(chunks[first : first + TOGETHER])
        places = np.repeat(np.arange(first, first + len(bounds) - 1), np.diff(bounds))
        telling = (features & ~np.uint16(LOWER)) != 0
        others = shown.of(entities[telling])
        codes = others.astype(np.int64) << 32 | places[telling]
        pairs.append(np.unique(codes[others != entity]))
    found = np.concatenate(pairs)
    return (found >> 32).astype(np.uint32), found & 0xFFFFFFFF


def _links(
    graph: PassageGraph, shown: ShownEntities, own: EntityNumbers, entity: int
) -> tuple[dict[int, int], defaultdict[int, set[str]]]:
    """What the links of an entity to each other are worth, and what those are called that are in no tree."""
    worths: dict[int, int] = {}
    names: defaultdict[int, set[str]] = defaultdict(set)
    _, others, kinds, times = graph.link_rows(own)
    for other, kind, count in zip(shown.of(others).tolist(), kinds.tolist(), times.tolist(), strict=True):
        if other == entity:
            continue
        worths[other] = worths.get(other, 0) + LINK_WORTHS[kind] * count
        if kind in _LINK_NAMES:
            names[other].add(_LINK_NAMES[kind])
    return worths, names


_TreesOf = defaultdict[int, set[str]]


def _in_trees(state: State, shown: ShownEntities, identity: Identity) -> tuple[_TreesOf, _TreesOf]:
    """The trees in which others stand directly above an entity, and directly below it."""
    above: _TreesOf = defaultdict(set)
    below: _TreesOf = defaultdict(set)
    forest, own = state.forest, identity.entry.entity
    names: dict[int, str] = {}
    for rank, node in map(addresses.split, state.addresses_of(identity).tolist()):
        if rank != addresses.NODE:
            break  # nodes come first
        tree = forest.node(node).tree
        if tree not in names:
            names[tree] = forest.tree_name(tree)
        for relatives, trees in ((forest.parents(node), above), (forest.children(node), below)):
            for relative in relatives:
                other = shown.one(forest.node(relative).entity)
                if other != own:
                    trees[other].add(names[tree])
    return above, below


def _passage_counts(graph: PassageGraph, shown: ShownEntities, entities: EntityNumbers) -> npt.NDArray[np.int64]:
    """How many passages name each of some entities, by any of its names."""
    degrees = graph.degrees(entities)
    counts = np.where(degrees.informative > 0, degrees.informative, degrees.total)
    targets = shown.targets
    for place, entity in enumerate(entities.tolist()):
        if entity in targets:
            counts[place] = len(_passages(graph, np.array(sorted(shown.names_of(entity)), np.uint32)))
    return counts


def _first_places(state: State, chunks: dict[int, Numbers]) -> dict[int, tuple[str, int]]:
    """Of each entity the first of its chunks by document key and number."""
    every = np.unique(np.concatenate([*chunks.values(), np.empty(0, np.uint64)])).astype(np.uint64)
    places = dict(zip(every.tolist(), state.places_of(every.tolist()), strict=True))
    firsts = {entity: min(map(places.__getitem__, some.tolist())) for entity, some in chunks.items() if len(some)}
    numbers = state.chunks.get_many([chunk for _, chunk in firsts.values()])
    return {entity: (key, record.ordinal) for (entity, (key, _)), record in zip(firsts.items(), numbers, strict=True)}
