"""Beam search for paths in the graph of units and entities (CUE-RAG, Algorithm 3, Q-Iter). A *unit* is a sentence with
its own vector; its *row* is its number in the graph. A *hop* goes from an entity to a unit that mentions it. A path's
*extension* is the same path with one more unit.

From an entity, a path continues to the units that mention it and are nearest to the rest of the question. From a unit,
it continues to every entity that the unit mentions. The rest of the question is its vector minus the vectors of the
units on the path, so their content is not searched for again. After each hop, only the best paths remain. The score of
a path is the cosine of the question with the sum of its units' vectors, plus the fraction of the question's words in
them. If a cross-encoder is configured, it scores the paths instead, as in the paper.

In: a :class:`~.unit_graph.UnitGraph` and the entities that each beam starts at. Out: the best paths after each hop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...structures.vectors.vectors import Matrix
from .unit_graph import UnitGraph, UnitRows

#: A function that scores texts, each together with the question.
Scorer = Callable[[Sequence[str]], Iterable[float]]


@dataclass(frozen=True, slots=True)
class UnitPath:
    """A path: its units, as rows of the unit graph, and the entity by which each was reached.

    ``vector_sum`` is the sum of the units' vectors, ``squared_norm`` its squared norm, and ``dot_product`` its product
    with the question. ``word_mask`` has a bit for each word in the question, set if a unit contains the word.
    """

    rows: tuple[int, ...]
    entities: tuple[int, ...]
    vector_sum: Matrix
    squared_norm: float
    dot_product: float
    word_mask: int
    score: float


class _Extension(NamedTuple):
    """A possible extension of a path by a unit, given by its row in the unit graph.

    ``entity`` leads from the path to the unit, which mentions it. ``similarity`` is the dot product of the unit's
    vector with the sum of the path's vectors.
    """

    path: UnitPath
    entity: int
    row: int
    similarity: float


class _ScoredExtension(NamedTuple):
    """An extension of a path, and the score of the extended path."""

    score: float
    extension: _Extension


#: The extensions of the paths of a beam. The key has the sorted row numbers of all units on the extended path, because
#: paths with the same units in another order are the same.
_Extensions = Mapping[tuple[int, ...], _Extension]
#: The paths of a beam after a hop, each with the entities that its last unit mentions.
_Frontier = list[tuple[UnitPath, Sequence[int]]]


@dataclass(frozen=True, slots=True)
class Beam:
    """Parameters of a beam search.

    ``units_per_entity`` is the maximum number of units tried per entity. ``width`` is the number of paths that remain
    after each hop, and ``max_hops`` the number of hops. ``discount`` is the fraction of each unit's vector that is
    subtracted from the question. ``word_weight`` is the weight of words in a score relative to the cosine.
    """

    units_per_entity: int
    width: int
    max_hops: int
    discount: float
    word_weight: float


def search_paths(
    graph: UnitGraph, start_entities: Sequence[Sequence[int]], beam: Beam, scorer: Scorer | None
) -> Iterator[list[UnitPath]]:
    """Run one beam search per group of ``start_entities``; after each hop, yield the best paths (CUE-RAG, Algorithm 3).

    A hop goes from an entity to a unit that mentions it, and to the entities in that unit. The paths are yielded beam
    by beam, best first. The beams are independent, but advance together, so that one read of the store serves a hop of
    all beams. ``scorer`` scores the texts of paths; None: vectors and words decide.
    """
    empty_path = UnitPath(
        rows=(),
        entities=(),
        vector_sum=np.zeros(graph.vectors.shape[1], np.float32),
        squared_norm=0.0,
        dot_product=0.0,
        word_mask=0,
        score=0.0,
    )
    frontiers: list[_Frontier] = [[(empty_path, entities)] for entities in start_entities]
    for hop in range(beam.max_hops):
        # Read the units that mention the entities at the ends of all paths.
        graph.load_entity_units(entity for frontier in frontiers for _, entities in frontier for entity in entities)
        extension_groups = list(filter(None, (_collect_extensions(graph, frontier, beam) for frontier in frontiers)))
        if not extension_groups:
            return
        # Read the texts of the units on the extended paths, from which the paths are scored. The keys of a group are
        # the rows of the units on each path.
        graph.load_contents(row for extensions in extension_groups for rows in extensions for row in rows)
        path_groups = [_select_best_paths(graph, extensions, beam, scorer) for extensions in extension_groups]
        yield [path for paths in path_groups for path in paths]
        if hop == beam.max_hops - 1:
            return
        # Each path continues from the entities that its last unit mentions.
        graph.load_entities(path.rows[-1] for paths in path_groups for path in paths)
        frontiers = [[(path, graph.get_entities(path.rows[-1])) for path in paths] for paths in path_groups]


def _collect_extensions(graph: UnitGraph, frontier: _Frontier, beam: Beam) -> _Extensions:
    """Return the extensions of the paths of a beam search, each by one unit.

    ``frontier`` has the paths, each with the entities of its last unit. Of several extensions with the same units, only
    the first is returned.
    """
    extensions: dict[tuple[int, ...], _Extension] = {}
    for path, entities in frontier:
        for extension in _iter_extensions(graph, path, entities, beam):
            extensions.setdefault(tuple(sorted((*path.rows, extension.row))), extension)
    return extensions


def _select_best_paths(graph: UnitGraph, extensions: _Extensions, beam: Beam, scorer: Scorer | None) -> list[UnitPath]:
    """Score the extensions of the paths of a beam search, and return the ``beam.width`` best paths, best first.

    ``scorer`` scores the texts of paths; None: the score is computed from vectors and words.
    """
    if scorer is None:
        scores = _score_extensions(graph, list(extensions.values()), beam)
    else:
        # The text of a path is the texts of its units, joined in document order.
        texts = [" ".join(map(graph.get_text, sorted(rows, key=graph.get_sort_key))) for rows in extensions]
        scores = [float(score) for score in scorer(texts)]
    scored_extensions = [
        _ScoredExtension(score, extension) for score, extension in zip(scores, extensions.values(), strict=True)
    ]
    ranked_extensions = sorted(scored_extensions, key=lambda candidate: -candidate.score)
    is_last_tied = (
        len(ranked_extensions) > beam.width
        and ranked_extensions[beam.width - 1].score == ranked_extensions[beam.width].score
    )
    if is_last_tied:
        # Break ties by document key and position, since the order of rows is arbitrary.
        ranked_extensions.sort(
            key=lambda candidate: (
                -candidate.score,
                *map(graph.get_sort_key, (*candidate.extension.path.rows, candidate.extension.row)),
            )
        )
    return [_extend_path(graph, extension, score) for score, extension in ranked_extensions[: beam.width]]


def _iter_extensions(graph: UnitGraph, path: UnitPath, entities: Sequence[int], beam: Beam) -> Iterator[_Extension]:
    """Yield the extensions of a path: for each of its last ``entities``, the units nearest to the rest of the question.

    The rest is the question's vector minus ``beam.discount`` times the sum of the vectors of the path's units. Their
    content is therefore not searched for again (CUE-RAG, Algorithm 3). Units on the path are skipped.
    """
    for entity, rows in graph.get_entity_rows(entities).items():
        for row in path.rows:
            rows = rows[rows != row]
        if not len(rows):
            continue
        cosines = graph.cosines[rows]
        similarities = graph.compute_dot_products(rows, path.vector_sum) if path.rows else np.zeros(len(rows))
        for index in _select_top_indexes(graph, rows, cosines - beam.discount * similarities, beam.units_per_entity):
            yield _Extension(path, entity, int(rows[index]), float(similarities[index]))


def _score_extensions(graph: UnitGraph, extensions: Sequence[_Extension], beam: Beam) -> list[float]:
    """Return the score of each extended path of units.

    It is a cosine plus ``beam.word_weight`` times the fraction of the question's words, by rarity, in the units. The
    cosine is between the question and the sum of the units' vectors.
    """
    scores: list[float] = []
    for extension in extensions:
        dot_product = extension.path.dot_product + float(graph.cosines[extension.row])
        # A zero vector has the dot product 0, so any other divisor will do.
        score = dot_product / math.sqrt(_compute_squared_norm(graph, extension) or 1.0)
        if beam.word_weight:
            word_mask = extension.path.word_mask | graph.get_word_mask(extension.row)
            score += beam.word_weight * graph.compute_rarity_fraction(word_mask)
        scores.append(score)
    return scores


def _compute_squared_norm(graph: UnitGraph, extension: _Extension) -> float:
    """Return the squared norm of the sum of the vectors of the units on an extended path."""
    # |sum + vector|² = |sum|² + 2 sum · vector + |vector|²; rounding can make it negative.
    return max(0.0, extension.path.squared_norm + 2 * extension.similarity + float(graph.squared_norms[extension.row]))


def _extend_path(graph: UnitGraph, extension: _Extension, score: float) -> UnitPath:
    """Return the path of an extension with its unit appended; ``score`` is the score of the new path."""
    path, entity, row, _ = extension
    return UnitPath(
        rows=(*path.rows, row),
        entities=(*path.entities, entity),
        vector_sum=path.vector_sum + graph.vectors[row],
        squared_norm=_compute_squared_norm(graph, extension),
        dot_product=path.dot_product + float(graph.cosines[row]),
        word_mask=path.word_mask | graph.get_word_mask(row),
        score=score,
    )


def _select_top_indexes(graph: UnitGraph, rows: UnitRows, values: npt.NDArray[np.float64], count: int) -> list[int]:
    """Return the indexes of the ``count`` greatest values, descending, with ties in document order.

    ``values`` has a value for each unit in ``rows``.
    """
    order = np.argsort(-values, kind="stable")
    if len(order) > count:
        min_value = values[order[count - 1]]
        order = order[values[order] >= min_value]  # with everything that ties with the last one
    indexes: list[int] = order.tolist()
    has_ties = len(set(values[order].tolist())) < len(indexes)
    if has_ties:
        indexes.sort(key=lambda index: (-values[index], graph.get_sort_key(int(rows[index]))))
    return indexes[:count]
