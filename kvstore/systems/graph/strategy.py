"""Strategy ``graph``: a walk from the question's names and nearest chunks, combined with relevance to the question. The
*walk* is personalized PageRank over chunks and entities (the nodes). A node's *mass* is its probability in the walk.
The *remainder* is the question without its names.

The walk starts at the entities in the question. They are weighted by how specific they are; compared entities get equal
weight. With little weight, it also starts at the best chunks by vector and by words, and at triples of the documents of
these chunks that share words with the question. From an entity, it prefers the chunks that match what is asked
(:mod:`.query_bias`). The walk reaches all chunks along a chain of facts, including chunks that are not similar to the
question.

The reached chunks are ranked by their mass times e to the power of their relevance to the question *without its names*:
cosine plus BM25, each as a fraction of the best candidate's. The names already determined the walk; counting them again
would only favor more chunks about the same names.

If the store has a ``units`` index, a chunk's score is also multiplied by e to the power of the score of its best path
of units, as a fraction of the best path of all (:mod:`~kvstore.systems.cue.strategy`). The walk and the paths fail on
different questions.

After HippoRAG (Gutiérrez et al. 2024, section 2), with passages as seeds and nodes as in HippoRAG 2 (Gutiérrez et al.
2025, section 3). In: a query. Out: evidence with the path to each chunk. A question without a known name starts only at
its best chunks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...arguments import Option
from ...derived.passage_graph.edges import Degrees
from ...derived.passage_graph.neighborhood import (
    EntityDegreesRequest,
    NamedNeighborhoodRequest,
    get_entity,
    is_entity,
    make_chunk_node,
    make_entity_nodes,
)
from ...derived.passage_graph.pagerank import (
    DEFAULT_EPSILON,
    PageRank,
    RowsRead,
    compute_personalized_pagerank,
    make_start_request,
)
from ...derived.passage_graph.walk import compute_name_masses, describe_paths, make_degree_request, map_degrees
from ...retrieval.dense_search import CosineRequest, NearestChunksRequest
from ...retrieval.evidence import Evidence
from ...retrieval.lexical_search import (
    TermWeights,
    WordScoreRequest,
    WordSearchRequest,
    build_count_request,
    build_term_weights,
    compute_term_rarity,
    parse_question_words,
)
from ...retrieval.query import Query, evidence_of, option
from ...retrieval.recognition import (
    Decomposition,
    QuestionEntity,
    RecognitionRequest,
    decompose_question,
    record_recognized_entities,
)
from ...structures.id_sets import merge_distinct
from ...structures.ranking import Ranking, append_tails, best, scale_to_best
from ...structures.read_requests import Ids, ReadRequest
from .graph_requests import HasIndexRequest, NameTriple, TriplesRequest
from .query_bias import QueryBias, build_query_bias, has_informative_remainder, make_bias_request
from .triple_matching import compute_triple_masses, list_matched_names, match_triples

#: The number of candidate chunks from dense and from lexical search each, and of candidates at which the walk starts.
NUM_NEAREST = 20
_MAX_STARTS = 10
#: The number of best chunks of each search whose documents' relations are compared with the question.
_NUM_TRIPLE_CHUNKS = 5
#: The number of reached chunks that become candidates, the chunks with the most mass.
_NUM_REACHED = 100
#: The weight of the relations that match the question, all together, as starts; the names weigh 1.
_RELATION_WEIGHT = 0.01
#: The maximum number of chunks of an entity whose row is read ahead. The mass of the relations alone cannot expand an
#: entity in more chunks.
_MAX_RELATION_CHUNKS = int(_RELATION_WEIGHT / DEFAULT_EPSILON)
#: The mass of a candidate that the walk did not reach, as a fraction of the greatest.
_UNREACHED_MASS = 1e-5


@dataclass(frozen=True, slots=True)
class WalkWeights:
    """The weights of a walk.

    ``restart`` is the probability that the walk goes back to its starts. ``passages`` is the total weight of the best
    chunks as starts, relative to the total weight of the names. ``bias`` is how strongly the cosine with the question
    without its names draws the walk to a chunk. ``relevance`` is the weight of a chunk's relevance to the question
    without its names.
    """

    restart: float = 0.2
    passages: float = 0.1
    bias: float = 1.75
    relevance: float = 1.0


_DEFAULTS = WalkWeights()


class WalkResult(NamedTuple):
    """The result of a walk: ids of the candidate chunks, ascending, their scores, and the PageRank of all nodes."""

    chunks: Ids
    scores: npt.NDArray[np.float64]
    ranks: PageRank


def walk_graph(
    query: Query,
    names: Sequence[QuestionEntity],
    degrees: Sequence[Degrees],
    decomposition: Decomposition,
    rankings: Sequence[Ranking],
    weights: WalkWeights = WalkWeights(),
) -> WalkResult | None:
    """Run personalized PageRank over entities and chunks; score the chunks by their rank (mass) and relevance.

    After HippoRAG 2 (section 3), it finds chunks that a chain of facts links to the question. The walk starts at the
    ``names`` of the question and at its nearest chunks, the first of ``rankings`` (by vectors and by words).
    ``degrees`` has the number of chunks of each name, and ``decomposition`` the names that the question compares and
    its remainder without names. ``weights`` are the parameters of the walk. Returns None if the walk has no start.
    """
    reader = query.reading
    starts = compute_name_masses(names, degrees, decomposition.compared_keys)
    chunk_mass = weights.passages if starts else 1.0  # of all chunks; the names have the mass 1 together
    for ranking in rankings:
        _add_chunks_of_ranking(starts, ranking[:_MAX_STARTS], chunk_mass / len(rankings))
    inputs = _read_walk_inputs(query, decomposition, starts, names, degrees, rankings, weights.bias)
    _add_entities_of_triples(query, inputs, starts)
    if not starts:
        return None
    with query.trace.step("personalized PageRank") as step:
        ranks = compute_personalized_pagerank(
            reader,
            starts,
            restart=weights.restart,
            bias=inputs.bias,
            rows_read=inputs.rows_read,
            degrees=inputs.degrees,
        )
        step.detail, step.count = ranks.cost, len(ranks.chunks)
        if inputs.bias is not None:
            step.detail += f"; {len(inputs.bias.chunks)} chunks weighted by {decomposition.remainder!r}"
    chunks, masses = _select_candidates(query, ranks, rankings)
    term_weights = build_term_weights(reader.counters, inputs.terms, inputs.counts)
    relevance = _score_relevance(query, decomposition.remainder, term_weights, chunks)
    return WalkResult(chunks, masses * np.exp(weights.relevance * relevance), ranks)


@dataclass(slots=True)
class _WalkInputs:
    """The data that a walk reads in one round, once its first starts are known.

    ``terms`` are the terms in the question without its names, and ``counts`` the number of chunks that contain each.
    ``bias`` makes the walk prefer chunks similar to those terms (None: no preference). ``triples`` are the triples of
    the documents of the nearest chunks. ``rows_read`` are the graph rows (edges) of the starts. ``degrees`` has the
    number of chunks of each entity among the starts, by node. The rows and degrees of starts that come from triples are
    appended later.
    """

    terms: list[str]
    counts: Mapping[str, int]
    bias: QueryBias | None
    triples: list[NameTriple]
    rows_read: list[RowsRead]
    degrees: dict[int, int]


def _read_walk_inputs(
    query: Query,
    decomposition: Decomposition,
    starts: Mapping[int, float],
    names: Sequence[QuestionEntity],
    degrees: Sequence[Degrees],
    rankings: Sequence[Ranking],
    bias_strength: float,
) -> _WalkInputs:
    """Read the data that a graph walk (personalized PageRank) needs, all in one read of the store.

    ``starts`` maps nodes (names and chunks) to masses. ``degrees`` has the number of chunks of each of ``names``, and
    ``decomposition`` the question without its names. Only the triples of the first chunks of ``rankings`` are read. The
    walk prefers chunks with a high cosine with the question without its names; ``bias_strength`` sets how strongly (0:
    not at all).
    """
    words = parse_question_words(decomposition.remainder, query.stem)
    nearest_request = make_bias_request(query, decomposition, bias_strength)
    entity_nodes = list(filter(is_entity, starts))
    start_request = make_start_request(
        starts, map_degrees(names, degrees), None if nearest_request is None else nearest_request.vector
    )
    requests: list[ReadRequest[Any]] = [
        build_count_request(words),  # the number of chunks with each term
        TriplesRequest([chunk for ranking in rankings for chunk, _ in ranking[:_NUM_TRIPLE_CHUNKS]]),
        EntityDegreesRequest(np.array(list(map(get_entity, entity_nodes)), np.uint32)),
        start_request,  # the edges of the starts
    ]
    bias = None
    if nearest_request is None:
        counts, triples, entity_degrees, start_rows = query.reading.fetch_all(requests)
    else:
        with query.trace.step("chunk nearest to what is asked") as step:
            nearest_answer, counts, triples, entity_degrees, start_rows = query.reading.fetch_all(
                [nearest_request, *requests]
            )
            nearest_ranking, step.detail = nearest_answer  # the ranking, and how it was computed
            step.count = len(nearest_ranking)
        bias = build_query_bias(nearest_request, nearest_ranking, bias_strength)
    node_degrees = dict(zip(entity_nodes, entity_degrees.total.tolist(), strict=True))
    return _WalkInputs(
        terms=words.list_lookup_terms(counts),
        counts=counts,
        bias=bias,
        triples=triples,
        rows_read=[(start_request, start_rows)],
        degrees=node_degrees,
    )


class GraphStrategy:
    """Retrieval by a walk from the question's names and nearest chunks over the graph."""

    name = "graph"
    description = "PageRank over chunks and entities from the question's names and best chunks, combined with relevance"
    options: Mapping[str, Option] = {
        "restart": Option(_DEFAULTS.restart, 0.01, 0.99, "probability that the walk goes back to a starting point"),
        "passages": Option(
            _DEFAULTS.passages, 0, 10, "total weight of the best chunks as starting points; the names have weight 1"
        ),
        "bias": Option(
            _DEFAULTS.bias, 0, 100, "how strongly the walk prefers chunks similar to the question without its names"
        ),
        "relevance": Option(
            _DEFAULTS.relevance, 0, 100, "weight of a chunk's relevance to the question without its names"
        ),
        "units": Option(1, 0, 100, "weight of the best cue path through a chunk; needs the units index"),
    }

    def retrieve(self, query: Query) -> Evidence:
        """Rank chunks by personalized PageRank from the question's names and the best chunks by vectors and by words.

        If the store has a ``units`` index, the best path of units (sentences) through a chunk also counts. Falls back
        to dense search if the walk has no start.
        """
        search = _search_question(query)
        rankings = [search.near_ranking[:NUM_NEAREST], search.word_ranking[:NUM_NEAREST]]
        weights = WalkWeights(**{name: option(query, self, name) for name in asdict(_DEFAULTS)})
        walk_result = walk_graph(query, search.names, search.degrees, search.decomposition, rankings, weights)
        if walk_result is None:
            ranking = search.near_ranking
            return evidence_of(query, self.name, ranking, paths="near the question", pool=len(ranking))
        scores, units_weight = walk_result.scores, option(query, self, "units")
        if search.has_units and units_weight and has_informative_remainder(query, search.decomposition):
            shares = _compute_path_shares(query, search.term_weights, search.names, walk_result.chunks, rankings[0])
            scores = scores * np.exp(units_weight * shares)
        ranking = best(query.reading, walk_result.chunks, scores, query.reach)
        chunk_paths = describe_paths(query.reading, walk_result.ranks, [chunk for chunk, _ in ranking])
        # If there are fewer candidates than the query needs, the other results of both searches follow.
        ranking = append_tails(ranking, search.near_ranking, search.word_ranking, top=query.reach)
        return evidence_of(query, self.name, ranking, paths=chunk_paths, pool=len(walk_result.chunks))


class _QuestionSearch(NamedTuple):
    """The names in a question, and its best chunks by vector and by words, from which a walk starts.

    ``degrees`` has the number of chunks of each name, and ``decomposition`` the question without its names.
    ``term_weights`` are the BM25 weights of the question's terms. ``has_units`` is True if there is a ``units`` index.
    """

    names: Sequence[QuestionEntity]
    degrees: Sequence[Degrees]
    decomposition: Decomposition
    near_ranking: Ranking
    word_ranking: Ranking
    term_weights: TermWeights
    has_units: bool


def _search_question(query: Query) -> _QuestionSearch:
    """Find the names in a question and its best chunks by vector and by words, in two reads of the store."""
    reader, num_chunks = query.reading, max(NUM_NEAREST, query.reach)
    nearest_request = NearestChunksRequest(query.vector, num_chunks, query.allowed)
    words = parse_question_words(query.question, query.stem)
    with query.trace.record_requests(reader, "recognize entities", "vector search") as (recognition, step):
        names, (near_ranking, step.detail), counts = reader.fetch(
            RecognitionRequest(query.question, capitalized_only=True), nearest_request, build_count_request(words)
        )
        record_recognized_entities(query, names, recognition)
        step.count = len(near_ranking)
    decomposition = decompose_question(query, names)
    with query.trace.step("lexical search") as step:
        terms = words.list_lookup_terms(counts)
        term_weights = build_term_weights(reader.counters, terms, counts)
        word_search, degrees, has_units = reader.fetch(
            WordSearchRequest(term_weights, num_chunks, query.allowed),
            make_degree_request(names),
            HasIndexRequest("units"),
        )
        step.detail, step.count = "BM25 of " + ", ".join(terms), len(word_search.ranking)
    return _QuestionSearch(
        names,
        degrees,
        decomposition,
        near_ranking=near_ranking,
        word_ranking=word_search.ranking,
        term_weights=term_weights,
        has_units=has_units,
    )


def _compute_path_shares(
    query: Query, weights: TermWeights, names: Sequence[QuestionEntity], chunks: Ids, near_ranking: Ranking
) -> npt.NDArray[np.float64]:
    """Return the score of the best path of units (sentences) through each chunk, as a fraction of the best of all.

    A path goes from entity to sentence to entity (CUE-RAG, Algorithm 3). Paths start at the ``names`` of the question
    and in the first chunks of ``near_ranking``. ``weights`` are the BM25 weights of the question's terms. A chunk
    without a path gets 0. All chunks get 0 if some documents have no units, or if units have no vectors.
    """
    from ..cue.strategy import find_best_path_by_chunk, find_paths, has_all_unit_vectors
    from ..cue.unit_graph import UnitGraph
    from ..cue.unit_requests import UnitAvailabilityRequest

    shares = np.zeros(len(chunks))
    units = query.reading.fetch(UnitAvailabilityRequest())
    if not has_all_unit_vectors(query, units):
        return shares
    graph = UnitGraph(query, weights)
    paths_by_chunk = find_best_path_by_chunk(
        graph,
        find_paths(query, graph, units, options={}, known_names=names, near_ranking=near_ranking),  # default options
    )
    max_score = max((path.score for path in paths_by_chunk.values()), default=0.0)
    if max_score > 0:
        for index, chunk in enumerate(chunks.tolist()):
            if chunk in paths_by_chunk:
                shares[index] = max(0.0, paths_by_chunk[chunk].score) / max_score
    return shares


def _add_chunks_of_ranking(starts: dict[int, float], ranking: Ranking, mass: float) -> None:
    """Add the chunks of a ranking to ``starts``, the probability mass of each node at which a walk starts.

    ``mass`` is divided among them in proportion to their scores.
    """
    total = math.fsum(max(0.0, score) for _, score in ranking)
    for chunk, score in ranking:
        if score > 0 and mass > 0:
            node = make_chunk_node(chunk)
            starts[node] = starts.get(node, 0.0) + mass * score / total


def _add_entities_of_triples(query: Query, inputs: _WalkInputs, starts: dict[int, float]) -> None:
    """Add the entities of the triples that match the question best to the starts of a walk (HippoRAG 2, section 3.2).

    ``inputs`` has the triples (subject, relation, object), which are matched by the question's words. The masses of the
    entities are added to ``starts``, and their graph rows (edges) and degrees (numbers of chunks) to ``inputs``.
    """
    reader = query.reading
    rarities = {term: compute_term_rarity(reader.counters.chunks, inputs.counts[term]) for term in inputs.terms}
    with query.trace.step("relations that match") as step:
        matches = match_triples(inputs.triples, rarities, query.stem)
        names = list_matched_names(matches)
        if not names:
            step.detail = "none"
            return
        ((row_request, rows),) = inputs.rows_read  # so far, only the rows of the first starts
        # The cosines of chunks that were computed for the first starts are not computed again.
        known_chunks = None if rows.entities is None else rows.entities.cosine_chunks
        answer = reader.fetch(
            NamedNeighborhoodRequest(names, replace(row_request, known_chunks=known_chunks), _MAX_RELATION_CHUNKS)
        )
        entities_by_name = dict(zip(names, answer.entities.tolist(), strict=True))
        masses = compute_triple_masses(matches, entities_by_name)
        step.detail = ", ".join(name for name in names if entities_by_name[name]) or "none"
        step.count = len(masses)
    for node, mass in masses.items():
        starts[node] = starts.get(node, 0.0) + _RELATION_WEIGHT * mass
    inputs.rows_read.append((answer.request, answer.neighborhood))
    inputs.degrees.update(
        zip(make_entity_nodes(answer.distinct_entities).tolist(), answer.degrees.total.tolist(), strict=True)
    )


def _select_candidates(
    query: Query, ranks: PageRank, rankings: Sequence[Ranking]
) -> tuple[Ids, npt.NDArray[np.float64]]:
    """Return the chunks to rank, ids ascending, with their masses (PageRank scores) as fractions of the greatest.

    Candidates are the chunks of ``rankings`` and the :data:`_NUM_REACHED` allowed chunks with the most mass, and all
    that tie with the last of these. A chunk that the walk did not reach has the mass :data:`_UNREACHED_MASS`, which is
    added to every mass.
    """
    is_allowed = query.mask_allowed(ranks.chunks)
    walked_chunks, masses = ranks.chunks[is_allowed], ranks.chunk_masses[is_allowed]
    # All chunks that tie with the last one are candidates, so no sort keys need to be read.
    min_mass = np.partition(masses, -_NUM_REACHED)[-_NUM_REACHED] if len(masses) > _NUM_REACHED else 0.0
    reached_chunks = walked_chunks[masses >= min_mass].tolist()
    near_chunks = [chunk for ranking in rankings for chunk, _ in ranking]
    chunks = merge_distinct(np.array(reached_chunks + near_chunks, np.uint64))
    shares = np.zeros(len(chunks))
    if len(walked_chunks):
        is_candidate = np.isin(walked_chunks, chunks)
        shares[np.searchsorted(chunks, walked_chunks[is_candidate])] = masses[is_candidate] / masses.max()
    return chunks, shares + _UNREACHED_MASS


def _score_relevance(query: Query, remainder: str, weights: TermWeights, chunks: Ids) -> npt.NDArray[np.float64]:
    """Return the relevance of each chunk to ``remainder``, the question without its names, from 0 to 2.

    It is the sum of cosine and BM25, each as a fraction of the best. ``weights`` are the BM25 weights of the terms of
    ``remainder``.
    """
    vector = query.embed_part(remainder)
    with query.trace.step("relevance of candidates") as step:
        cosines, word_scores = query.reading.fetch(CosineRequest(chunks, vector), WordScoreRequest(weights, chunks))
        step.detail, step.count = f"cosine and BM25 of {remainder!r}", len(chunks)
    return scale_to_best(cosines.astype(np.float64)) + scale_to_best(word_scores)
