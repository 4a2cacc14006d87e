"""Paths of units through the graph of units and entities, by beam search (CUE-RAG, Algorithm 3, Q-Iter).

From an entity a path goes to the units that name it and are nearest to what is still asked, from a unit to every entity
that it names. What is still asked is the question's vector less those of the units on the path: what they say is not
looked for again. After each hop the paths with the best scores go on. The score of a path is the cosine of the question
with the sum of its units' vectors, plus the share of the question's words that its units have: the paper asks a
cross-encoder, which is used where one is set.

In: a :class:`~.unit_graph.UnitGraph` and the entities where a beam starts. Out: the paths kept after each hop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...structures.vectors.vectors import Matrix
from .unit_graph import UnitGraph, UnitRows

#: Scores of texts, each read together with the question.
Scorer = Callable[[Sequence[str]], Iterable[float]]


@dataclass(frozen=True, slots=True)
class UnitPath:
    """Units (rows) and the entity by which each was reached, in order; the sum of the units' vectors, its square, and
    its product with the question; which of the question's words they have (bits), and the score."""

    rows: tuple[int, ...]
    entities: tuple[int, ...]
    vector_sum: Matrix
    squared_norm: float
    dot_product: float
    word_bits: int
    score: float


class _Extension(NamedTuple):
    """A path and the unit that it may go to, with the entity that leads there, and the product of the unit's vector
    with the sum of the path's."""

    path: UnitPath
    entity: int
    row: int
    similarity: float


@dataclass(frozen=True, slots=True)
class Beam:
    """How a beam is searched: units taken of an entity, paths kept after a hop, hops, how much of a unit is taken from
    what is asked, and how much words count in a score beside cosines."""

    units_per_entity: int
    width: int
    max_hops: int
    discount: float
    word_weight: float


def search_paths(
    graph: UnitGraph, start_entities: Sequence[int], beam: Beam, scorer: Scorer | None
) -> list[list[UnitPath]]:
    """The paths kept after each hop from some entities, best first."""
    empty = UnitPath((), (), np.zeros(graph.vectors.shape[1], np.float32), 0.0, 0.0, 0, 0.0)
    frontier: list[tuple[UnitPath, Sequence[int]]] = [(empty, start_entities)]
    paths_by_hop: list[list[UnitPath]] = []
    for _ in range(beam.max_hops):
        graph.get_entity_rows(entity for _, entities in frontier for entity in entities)
        extensions: dict[tuple[int, ...], _Extension] = {}
        for path, entities in frontier:
            for extension in _iter_extensions(graph, path, entities, beam):
                extensions.setdefault(tuple(sorted((*path.rows, extension.row))), extension)
        if not extensions:
            break
        scores = (
            _score_extensions(graph, list(extensions.values()), beam)
            if scorer is None
            else _score_texts(graph, list(extensions), scorer)
        )
        # Of equal scores what comes first by name and place: rows are in no order that means anything.
        ranked = sorted(zip(scores, extensions.values(), strict=True), key=lambda pair: -pair[0])
        if len(ranked) > beam.width and ranked[beam.width - 1][0] == ranked[beam.width][0]:
            ranked.sort(key=lambda pair: (-pair[0], *map(graph.get_sort_key, (*pair[1].path.rows, pair[1].row))))
        best_paths = [_extend_path(graph, extension, score) for score, extension in ranked[: beam.width]]
        paths_by_hop.append(best_paths)
        frontier = [(path, graph.get_entities(path.rows[-1])) for path in best_paths]
    return paths_by_hop


def _iter_extensions(graph: UnitGraph, path: UnitPath, entities: Sequence[int], beam: Beam) -> Iterator[_Extension]:
    """The units that a path may go to: of each entity those nearest to what is still asked."""
    for entity, rows in graph.get_entity_rows(entities).items():
        for row in path.rows:
            rows = rows[rows != row]
        if not len(rows):
            continue
        cosines = graph.cosines[rows]
        similarities = graph.compute_similarities(rows, path.vector_sum) if path.rows else np.zeros(len(rows))
        for index in _select_greatest(graph, rows, cosines - beam.discount * similarities, beam.units_per_entity):
            yield _Extension(path, entity, int(rows[index]), float(similarities[index]))


def _score_extensions(graph: UnitGraph, extensions: Sequence[_Extension], beam: Beam) -> list[float]:
    """The scores of paths with one unit more: the cosine of the sum of the vectors, and the share of words."""
    return [
        (extension.path.dot_product + float(graph.cosines[extension.row]))
        / math.sqrt(_compute_squared_norm(graph, extension) or 1.0)
        + (
            beam.word_weight * graph.compute_share(extension.path.word_bits | graph.get_word_bits(extension.row))
            if beam.word_weight
            else 0.0
        )
        for extension in extensions
    ]


def _compute_squared_norm(graph: UnitGraph, extension: _Extension) -> float:
    """The square of the sum of the vectors with one unit more."""
    return max(0.0, extension.path.squared_norm + 2 * extension.similarity + float(graph.squares[extension.row]))


def _extend_path(graph: UnitGraph, extension: _Extension, score: float) -> UnitPath:
    """A path with one unit more."""
    path, entity, row, _ = extension
    return UnitPath(
        (*path.rows, row),
        (*path.entities, entity),
        path.vector_sum + graph.vectors[row],
        _compute_squared_norm(graph, extension),
        path.dot_product + float(graph.cosines[row]),
        path.word_bits | graph.get_word_bits(row),
        score,
    )


def _score_texts(graph: UnitGraph, paths: Sequence[Sequence[int]], scorer: Scorer) -> list[float]:
    """The scores of the texts of paths' units, joined in the order of the documents."""
    texts = [" ".join(map(graph.get_text, sorted(rows, key=graph.get_sort_key))) for rows in paths]
    return [float(score) for score in scorer(texts)]


def _select_greatest(graph: UnitGraph, rows: UnitRows, values: npt.NDArray[np.float64], count: int) -> list[int]:
    """The places of the greatest of some rows' values, best first; equals in the order of their documents."""
    order = np.argsort(-values, kind="stable")
    if len(order) > count:  # all that ties with the last one taken stays in
        order = order[: int(np.searchsorted(-values[order], -values[order[count - 1]], "right"))]
    indexes: list[int] = order.tolist()
    if len(set(values[order].tolist())) < len(indexes):
        indexes.sort(key=lambda place: (-values[place], graph.get_sort_key(int(rows[place]))))
    return indexes[:count]
