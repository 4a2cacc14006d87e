"""Paths of units through the graph of units and entities, by beam search (CUE-RAG, Algorithm 3, Q-Iter).

From an entity a path goes to the units that name it and are nearest to what is still asked, from a unit to every entity
that it names. What is still asked is the question's vector less those of the units on the path: what they say is not
looked for again. After each hop the paths with the best scores go on. The score of a path is the cosine of the question
with the sum of its units' vectors, plus the share of the question's words that its units have: the paper asks a
cross-encoder, which is used where one is set.

In: a :class:`~.unit_graph.UnitGraph` and the entities where a beam starts. Out: the paths kept after each hop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...structures.vectors.vectors import Matrix
from .unit_graph import Rows, UnitGraph

#: Scores of texts, each read together with the question.
Scorer = Callable[[Sequence[str]], Iterable[float]]


@dataclass(frozen=True, slots=True)
class Path:
    """Units (rows) and the entity by which each was reached, in order; the sum of the units' vectors and its product
    with the question, which of the question's words they have, and the score."""

    rows: tuple[int, ...]
    entities: tuple[int, ...]
    total: Matrix
    cosines: float
    words: npt.NDArray[np.bool_]
    score: float


@dataclass(frozen=True, slots=True)
class Beam:
    """How a beam is searched: units taken of an entity, paths kept after a hop, hops, how much of a unit is taken from
    what is asked, and how much words count in a score beside cosines."""

    nearest: int
    paths: int
    hops: int
    update: float
    words: float


def search_paths(found: UnitGraph, starts: Sequence[int], beam: Beam, scorer: Scorer | None) -> list[list[Path]]:
    """The paths kept after each hop from some entities, best first."""
    empty = Path((), (), np.zeros(found.vectors.shape[1], np.float32), 0.0, np.zeros(0, np.bool_), 0.0)
    ends: list[tuple[Path, Sequence[int]]] = [(empty, starts)]
    hops: list[list[Path]] = []
    for _ in range(beam.hops):
        found.of_entities(entity for _, entities in ends for entity in entities)
        steps: dict[tuple[int, ...], Path] = {}
        for path, entities in ends:
            for entity, row in _steps(found, path, entities, beam):
                key = tuple(sorted((*path.rows, row)))
                if key not in steps:
                    steps[key] = _longer(found, path, entity, row, beam)
        paths = list(steps.values())
        if scorer is not None:
            paths = _scored(found, paths, scorer)
        # Of equal scores what comes first by name and place: rows are in no order that means anything.
        paths.sort(key=lambda path: (-path.score, [found.order(row) for row in path.rows]))
        kept = paths[: beam.paths]
        if not kept:
            break
        hops.append(kept)
        ends = [(path, found.named(path.rows[-1])) for path in kept]
    return hops


def _steps(found: UnitGraph, path: Path, entities: Sequence[int], beam: Beam) -> list[tuple[int, int]]:
    """The units that a path may go to, each with the entity that leads there."""
    steps = []
    for entity, rows in found.of_entities(entities).items():
        if path.rows:
            rows = rows[~np.isin(rows, path.rows)]
        if not len(rows):
            continue
        near = found.cosines[rows]
        if path.rows and beam.update:
            near = near - beam.update * found.likeness(rows, path.total)
        steps += [(entity, row) for row in _greatest(found, rows, near, beam.nearest)]
    return steps


def _greatest(found: UnitGraph, rows: Rows, values: npt.NDArray[np.float64], count: int) -> list[int]:
    """The rows of the greatest values, best first; equals in the order of their documents."""
    order = np.argsort(-values, kind="stable")
    if len(order) > count:  # all that ties with the last one taken stays in
        order = order[: int(np.searchsorted(-values[order], -values[order[count - 1]], "right"))]
    ranked = list(zip((-values[order]).tolist(), rows[order].tolist(), strict=True))
    if len(set(values[order].tolist())) < len(ranked):
        ranked.sort(key=lambda pair: (pair[0], found.order(pair[1])))
    return [row for _, row in ranked[:count]]


def _longer(found: UnitGraph, path: Path, entity: int, row: int, beam: Beam) -> Path:
    """A path with one unit more."""
    total = path.total + found.vectors[row]
    cosines = path.cosines + float(found.cosines[row])
    words = found.words(row) | path.words if path.rows else found.words(row)
    length = float(np.linalg.norm(total)) or 1.0
    score = cosines / length + beam.words * found.share(words)
    return Path((*path.rows, row), (*path.entities, entity), total, cosines, words, score)


def _scored(found: UnitGraph, paths: Sequence[Path], scorer: Scorer) -> list[Path]:
    """Paths with the scores of their units' texts, joined in the order of the documents."""
    texts = [" ".join(map(found.text, sorted(path.rows, key=found.order))) for path in paths]
    return [
        Path(path.rows, path.entities, path.total, path.cosines, path.words, float(score))
        for path, score in zip(paths, scorer(texts), strict=True)
    ]
