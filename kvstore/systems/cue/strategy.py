"""Strategy ``cue``: paths from the names in a question over units and entities to chunks (CUE-RAG, Q-Iter). A *unit* is
a sentence with its own vector; its *row* is its number in the graph. A *hop* goes from an entity to a unit that
mentions it. *Anchors* are entities and units at which paths start.

Each name in the question has its own beam, and the units nearest to the question share one. In a single beam, names
would compete and some would lose all their paths. The score of a chunk is the score of the best path through it, as a
fraction of the best path of all, plus its own similarity to the question. In the paper, paths only yield candidates,
which a cross-encoder ranks; but a chunk in the middle of a chain of facts is not similar to the question.

In: a query, on a store with a ``units`` index. Out: evidence, with the path to each chunk: name → "unit" → name → …
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from ...arguments import Option
from ...errors import InputError
from ...retrieval.dense_search import CosineRequest, rank_by_vector
from ...retrieval.evidence import Evidence
from ...retrieval.lexical_search import WordScoreRequest, read_question_weights
from ...retrieval.query import Query, evidence_of, option
from ...retrieval.recognition import QuestionEntity, recognize_entities
from ...retrieval.reranking import QueryReranker
from ...structures.ranking import Ranking, append_tails, best, scale_to_best
from ...structures.vectors.vectors import Ids
from .anchors import CHUNKS_PER_UNIT, find_anchors, quote
from .path_search import Beam, UnitPath, search_paths
from .unit_graph import MAX_START_CHUNKS, UnitGraph
from .unit_requests import UnitAvailability, UnitAvailabilityRequest
from .units import UNITS

#: The number of nearest chunks that are candidates in addition to the chunks on paths.
_NUM_NEAREST = 20
#: The weight of the best path to a chunk, and the weight of its cosine and of its words.
_PATH_WEIGHT = 2.0
_OWN_WEIGHT = 0.5

#: The options of the path search.
PATH_OPTIONS: Mapping[str, Option] = {
    "nearest": Option(3, 1, 100, "number of nearest units to start at, and number of units to follow from each entity"),
    "beam": Option(5, 1, 100, "number of paths that the search continues after each hop"),
    "hops": Option(3, 1, 8, "maximum number of units on a path"),
    "update": Option(1, 0, 1, "fraction of each unit's vector that is subtracted from the question for the next hop"),
    "words": Option(1, 0, 100, "weight of the question's words in the score of a path; the cosine has weight 1"),
}


class CueStrategy:
    """A strategy that follows paths of units from the question's names and nearest units to chunks."""

    name = "cue"
    description = "CUE-RAG: beam search over units and entities, from names and nearest units (needs the units index)"
    needs = UNITS.name
    options: Mapping[str, Option] = PATH_OPTIONS

    def retrieve(self, query: Query) -> Evidence:
        """Rank the chunks nearest to the question, and the chunks on the best paths of units.

        A path goes from a name in the question through units to other names (CUE-RAG, Algorithm 3). Raises InputError
        if the store has no embedder, or no usable ``units`` index.
        """
        availability = _require_units(query)
        _, weights = read_question_weights(query)
        graph = UnitGraph(query, weights)
        options = {name: option(query, self, name) for name in PATH_OPTIONS}
        num_nearest = max(_NUM_NEAREST, CHUNKS_PER_UNIT * int(options["nearest"]))
        vector_ranking = rank_by_vector(query, max(num_nearest, query.reach))
        near_ranking = vector_ranking[:num_nearest]
        known_names = recognize_entities(query)
        paths = find_paths(query, graph, availability, options, known_names, near_ranking)
        with query.trace.step("chunks of the paths") as step:
            paths_by_chunk = find_best_path_by_chunk(graph, paths)
            chunks = np.unique(np.array([*(chunk for chunk, _ in near_ranking), *paths_by_chunk], np.uint64))
            ranking = best(query.reading, chunks, _score_chunks(query, graph, chunks, paths_by_chunk), query.reach)
            ranking = append_tails(ranking, vector_ranking, top=query.reach)
            step.count = len(chunks)
            scores_text = _format_scores(query, ranking[: query.top])
            step.detail = f"{len(paths_by_chunk)} on paths, {len(near_ranking)} near the question: {scores_text}"
        path_texts = {chunk: "near the question" for chunk, _ in ranking}
        path_texts |= {
            chunk: _format_path_to_chunk(graph, paths_by_chunk[chunk], chunk)
            for chunk in path_texts
            if chunk in paths_by_chunk
        }
        return evidence_of(query, self.name, ranking, paths=path_texts, pool=len(chunks))


def has_all_unit_vectors(query: Query, availability: UnitAvailability) -> bool:
    """True if the store has a vector for each unit of its documents."""
    has_all_units = availability.is_present and availability.is_complete
    return has_all_units and not query.reading.settings.embedder.startswith("none:")


def _require_units(query: Query) -> UnitAvailability:
    """Return the availability of the ``units`` index.

    Raises InputError if the index is missing, or if the store has no embedder.
    """
    if query.reading.settings.embedder.startswith("none:"):
        raise InputError(
            "strategy cue needs vectors of units, and a store without an embedder has none; use another strategy, or a "
            "store with an embedder"
        )
    availability = query.reading.fetch(UnitAvailabilityRequest())
    if not availability.is_present:
        raise InputError("the index units does not exist; run CREATE INDEX units to create it")
    return availability


def find_paths(
    query: Query,
    graph: UnitGraph,
    availability: UnitAvailability,
    options: Mapping[str, float],
    known_names: Sequence[QuestionEntity],
    near_ranking: Ranking,
) -> list[UnitPath]:
    """Search for paths of units from the anchors of a question, and return the best after each hop.

    Anchors are the entities and units at which paths start (CUE-RAG, Algorithms 3 and 4). ``known_names`` are the
    entities that the question mentions. ``near_ranking`` is the ranking of chunks by vector, whose units are candidates
    for anchors. ``availability`` says if every document has units. Options missing from ``options`` have the defaults
    in :data:`PATH_OPTIONS`. The units that are read are added to ``graph``.
    """
    beam = _make_beam(options)
    anchors = find_anchors(query, graph, known_names, beam.units_per_entity, near_ranking)
    unit_entities = dict.fromkeys(entity for row in anchors.units for entity in graph.get_entities(row))
    # A beam for each name in the question, and one for the units nearest to it.
    start_groups = list(filter(None, [*anchors.names.values(), list(unit_entities)]))
    paths_by_hop: list[dict[tuple[int, ...], UnitPath]] = [{} for _ in range(beam.max_hops)]
    with query.trace.step("search paths") as step:
        # Read beforehand, because more chunks are read for a start entity than for an entity on a path.
        graph.load_entity_units((entity for entities in start_groups for entity in entities), MAX_START_CHUNKS)
        reranker = query.rerank
        # The cross-encoder of the query, if it has one, scores the texts of paths.
        scorer = partial(reranker.score_texts, query.question) if isinstance(reranker, QueryReranker) else None
        for hop, paths in enumerate(search_paths(graph, start_groups, beam, scorer)):
            for path in paths:
                paths_by_hop[hop].setdefault(path.rows, path)
        step.detail = f"{len(graph.ids)} units of {graph.num_chunks} chunks"
        if not availability.is_complete:
            step.detail += "; some documents have no units yet; run REFRESH INDEX units to finish the index"
        step.count = sum(map(len, paths_by_hop))
    for number, hop_paths in enumerate(paths_by_hop, 1):
        _record_paths(query, graph, number, hop_paths.values())
    return [path for hop_paths in paths_by_hop for path in hop_paths.values()]


def _make_beam(options: Mapping[str, float]) -> Beam:
    """Return the parameters of a beam search; options missing from ``options`` have their defaults."""
    values = {name: options.get(name, path_option.default) for name, path_option in PATH_OPTIONS.items()}
    return Beam(
        units_per_entity=int(values["nearest"]),
        width=int(values["beam"]),
        max_hops=int(values["hops"]),
        discount=values["update"],
        word_weight=values["words"],
    )


def _record_paths(query: Query, graph: UnitGraph, hop: int, paths: Iterable[UnitPath]) -> None:
    """Record a step for EXPLAIN that shows the ``paths`` after a hop (counted from 1) with their scores, best first."""
    with query.trace.step(f"paths after hop {hop}") as step:
        ranked_paths = sorted(paths, key=lambda path: -path.score)
        step.detail = "; ".join(f"{path.score:.3f} {_format_path(graph, path)}" for path in ranked_paths)
        step.count = len(ranked_paths)


def find_best_path_by_chunk(graph: UnitGraph, paths: Sequence[UnitPath]) -> dict[int, UnitPath]:
    """Return, by chunk id, the path of units with the highest score through each chunk on a path."""
    paths_by_chunk: dict[int, UnitPath] = {}
    for path in paths:
        for row in path.rows:
            chunk = graph.chunks[row]
            if chunk not in paths_by_chunk or path.score > paths_by_chunk[chunk].score:
                paths_by_chunk[chunk] = path
    return paths_by_chunk


def _score_chunks(
    query: Query, graph: UnitGraph, chunks: Ids, paths_by_chunk: Mapping[int, UnitPath]
) -> npt.NDArray[np.float64]:
    """Return the scores of chunks: a weighted sum of the score of the best path, cosine and BM25.

    Each is scaled to its greatest value. ``paths_by_chunk`` has the best path of units through each chunk.
    """
    path_scores = np.array(
        [paths_by_chunk[chunk].score if chunk in paths_by_chunk else 0.0 for chunk in chunks.tolist()]
    )
    cosines, word_scores = query.reading.fetch(
        CosineRequest(chunks, query.vector), WordScoreRequest(graph.weights, chunks)
    )
    own_scores = scale_to_best(cosines.astype(np.float64)) + scale_to_best(word_scores)
    return _PATH_WEIGHT * scale_to_best(path_scores) + _OWN_WEIGHT * own_scores


def _format_scores(query: Query, ranking: Ranking) -> str:
    """Return the score, document key and ordinal of each chunk of a ranking as text for EXPLAIN."""
    loaded_chunks = query.load_chunks(chunk for chunk, _ in ranking)
    return ", ".join(
        f"{score:.3f} {chunk.document.key} {chunk.record.ordinal}"
        for chunk, (_, score) in zip(loaded_chunks, ranking, strict=True)
    )


def _format_path_to_chunk(graph: UnitGraph, path: UnitPath, chunk: int) -> str:
    """Return the part of a path of entities and units up to its first unit in ``chunk``, as text."""
    end = next(index for index, row in enumerate(path.rows, 1) if graph.chunks[row] == chunk)
    return _format_path(graph, path, end)


def _format_path(graph: UnitGraph, path: UnitPath, end: int | None = None) -> str:
    """Return the first ``end`` hops of a path as text: name → "sentence" → name → …; all hops for None."""
    steps = []
    for entity, row in zip(path.entities[:end], path.rows[:end], strict=True):
        steps += [graph.get_key(entity), quote(graph.get_text(row))]
    return " → ".join(steps)
