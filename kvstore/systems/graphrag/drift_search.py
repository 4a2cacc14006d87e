"""Strategy ``drift``: local searches that follow up on the reports of communities (GraphRAG, DRIFT search). The
*primer* is the communities nearest to the question. A *local search* ranks the chunks that mention its start entities.
Each *round* searches for names from the results of the one before.

*Follow-up*: local searches for the names that the primer leads to, in rounds; each round has half the weight of the one
before. *Reduce*: the chunks of all searches are merged into one ranking. In the published search a model invents a
hypothetical answer to search for and follow-up questions, and draws both at random; kvstore uses no randomness. Without
a model, the follow-ups are the strongest names of the primer that the question does not mention, each searched
separately with the question.

With a model, ASK makes it extract points and follow-up questions from the primer and from the result of each round
(microsoft/graphrag, "DRIFT Search"). It then writes the answer from the points.

In: a query, and the ``communities`` index. Out: evidence: chunks, and among them reports of the primer.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

import numpy as np

from ...arguments import Option
from ...retrieval.dense_search import rank_by_vector
from ...retrieval.distillation import Distiller, Point, build_distilled_evidence
from ...retrieval.evidence import Evidence
from ...retrieval.lexical_search import rank_by_words
from ...retrieval.query import Query, evidence_of, option
from ...retrieval.recognition import EntityKeyRequest
from ...structures.ranking import Ranking, append_tails, assign_ranks, best
from .community_index import COMMUNITIES
from .community_requests import NearbyCommunity, NearestCommunitiesRequest
from .local_search import (
    LocalResult,
    LocalSearch,
    LocalStrategy,
    StartEntity,
    find_near_entities,
    find_question_entities,
    search_locally,
)
from .report_hits import ReportCandidate, insert_reports, select_reports

#: The number of primer communities, and of chunks of each search that yield the next names.
_NUM_PRIMER_COMMUNITIES, _NUM_LEADING_CHUNKS = 3, 5
#: The total weight of a round, as a fraction of the weight of the round before.
_ROUND_DECAY = 0.5
#: The constant of the rank fusion; the larger it is, the less the first ranks dominate.
_RRF_CONSTANT = 10
#: The number of chunks of each search that are fused.
_NUM_FUSED = 20
#: The number of chunks near the question, by vector and by words each.
_NUM_NEAREST = 20

#: The share of the results that are reports on communities.
_REPORT_SHARE = 0.15


class DriftStrategy:
    """A strategy that goes from the reports of communities to local searches that follow up on them."""

    name = "drift"
    description = "GraphRAG, DRIFT search: rounds of local searches that follow up on the nearest communities"
    needs = COMMUNITIES.name
    options: Mapping[str, Option] = {
        "rounds": Option(2, 0, 5, "number of rounds of follow-up searches"),
        "width": Option(5, 1, 20, "number of names (or, with a language model, questions) that each round follows up"),
    }

    def retrieve(self, query: Query) -> Evidence:
        """Search for the question's entities, then in rounds for related names; fuse the rankings of all searches.

        Each search ranks the chunks of some entities. The first names come from the communities nearest to the question
        (in DRIFT search: the primer), and later ones from the results. The reports of these communities are also
        evidence.
        """
        nearest_chunks = rank_by_vector(query, max(_NUM_NEAREST, query.reach))
        rankings = [nearest_chunks[:_NUM_NEAREST], rank_by_words(query, _NUM_NEAREST)]
        starts = find_question_entities(query)
        with query.trace.step("primer") as step:
            # A round follows up at most ``width`` members, and none that the question mentions.
            max_members = int(option(query, self, "width")) + len(starts)
            primer = query.reading.fetch(NearestCommunitiesRequest(query.vector, _NUM_PRIMER_COMMUNITIES, max_members))
            step.detail, step.count = "; ".join(community.title for community in primer), len(primer)
        with query.trace.step("search of the question") as step:
            results = search_locally(query, [LocalSearch(starts, rankings)], _NUM_FUSED)
            step.count = len(results[0].ranking)
        rounds = [results, *self._follow_up(query, starts, primer)]
        paths = _collect_paths(rounds)
        # Chunks that only the question's vector finds follow those of the searches.
        ranking = append_tails(_fuse_rounds(query, rounds), nearest_chunks, top=query.reach)
        report_candidates = [ReportCandidate(community.community, path="primer") for community in primer]
        reports = select_reports(query, report_candidates, _REPORT_SHARE)
        # Chunks are returned within the limits (hits and tokens) that the reports leave.
        evidence, _ = insert_reports(
            query,
            _REPORT_SHARE,
            reports,
            lambda limited_query: evidence_of(limited_query, self.name, ranking, paths, pool=len(ranking)),
        )
        return evidence

    def distill(self, evidence: Evidence, distiller: Distiller) -> Evidence:
        """Return the evidence with the points (rated statements) that the model extracts from the hits.

        ``distiller`` runs the model. In each later round, the model also reads the hits of its follow-up questions,
        which the ``local`` strategy finds.
        """
        with distiller.open_query(evidence.question) as query:
            num_rounds, width = int(option(query, self, "rounds")), int(option(query, self, "width"))
        points: list[Point] = []
        asked_questions = {evidence.question}
        questions_with_hits = [(evidence.question, evidence.hits)]
        for rounds_left in reversed(range(num_rounds + 1)):
            questions: list[str] = []
            for question, hits in questions_with_hits:
                result = distiller.extract_points(question, hits, num_questions=width if rounds_left else 0)
                points += result.points
                questions += result.questions
            new_questions = [question for question in dict.fromkeys(questions) if question not in asked_questions]
            next_questions = new_questions[:width]
            asked_questions.update(next_questions)
            questions_with_hits = [
                (question, distiller.retrieve(question, using=LocalStrategy.name).hits) for question in next_questions
            ]
        return build_distilled_evidence(evidence, points, distiller.trace)

    def _follow_up(
        self, query: Query, starts: Sequence[StartEntity], primer: Sequence[NearbyCommunity]
    ) -> list[list[LocalResult]]:
        """Search for the strongest names of the nearest communities (``primer``), then for names in the results.

        These are the follow-up questions of DRIFT search, without a model. The names of a round come from the results
        of the round before. Returns the results by round. ``starts`` are the entities in the question, which are not
        searched for again.
        """
        rounds: list[list[LocalResult]] = []
        visited_entities = {start.entity for start in starts}
        width = int(option(query, self, "width"))
        num_rounds = int(option(query, self, "rounds"))
        entities = _select_unvisited(_iter_strongest_members(primer), visited_entities, width) if num_rounds else []
        names = query.reading.fetch(EntityKeyRequest(entities))
        for round_number in range(1, num_rounds + 1):
            if not names:
                break
            visited_entities.update(names)
            with query.trace.step(f"follow-up {round_number}") as step:
                next_starts = [StartEntity(entity, key, weight=1.0, is_named=False) for entity, key in names.items()]
                results = search_locally(query, [LocalSearch([start]) for start in next_starts], _NUM_FUSED)
                step.detail = ", ".join(names.values())
                step.count = sum(len(result.ranking) for result in results)
            rounds.append(results)
            if round_number < num_rounds:
                top_rankings = [result.ranking[:_NUM_LEADING_CHUNKS] for result in results]
                near_entities = find_near_entities(query, top_rankings, visited_entities, width)
                names = {start.entity: start.key for start in near_entities}
        return rounds


def _collect_paths(rounds: Iterable[Sequence[LocalResult]]) -> dict[int, str]:
    """Return, by chunk, the path (reason) from the first search that found it, preceded by the round of follow-up."""
    paths: dict[int, str] = {}
    for round_number, results in enumerate(rounds):
        prefix = f"follow-up {round_number}: " if round_number else ""
        for result in results:
            for chunk, path in result.paths.items():
                paths.setdefault(chunk, f"{prefix}{path}")
    return paths


def _iter_strongest_members(communities: Iterable[NearbyCommunity]) -> Iterator[int]:
    """Yield the members of communities, alternating between them, the strongest of each first."""
    for members_of_rank in zip_longest(*(community.members for community in communities)):
        yield from (member for member in members_of_rank if member is not None)


def _select_unvisited(entities: Iterable[int], visited_entities: Container[int], limit: int) -> list[int]:
    """Return the first ``limit`` distinct entities that are not in ``visited_entities``."""
    selected_entities: dict[int, None] = {}
    for entity in entities:
        if entity not in visited_entities:
            selected_entities[entity] = None
        if len(selected_entities) == limit:
            break
    return list(selected_entities)


def _fuse_rounds(query: Query, rounds: Iterable[Sequence[LocalResult]]) -> Ranking:
    """Merge the rankings of all searches into one (weighted reciprocal rank fusion).

    The score of a chunk is the sum of weight / (constant + rank) over the rankings; equal scores in a ranking share a
    rank. The searches of a round have equal weights, which decrease from round to round.
    """
    scores: dict[int, float] = {}
    for round_number, results in enumerate(rounds):
        weight = _ROUND_DECAY**round_number / len(results)
        for result in results:
            for chunk, rank in assign_ranks(result.ranking):
                scores[chunk] = scores.get(chunk, 0.0) + weight / (_RRF_CONSTANT + rank)
    return best(query.reading, list(scores), np.array(list(scores.values())), query.reach)
