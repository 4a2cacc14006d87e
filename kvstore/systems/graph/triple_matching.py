"""Triples that match a question, as starts of a walk (HippoRAG 2, Gutiérrez et al. 2025, section 3.2, by words). A
*triple* is (subject, relation, object). Its score is the total rarity (IDF) of the question's words in it. The *mass*
of a start is the probability that the walk begins there.

In: the chunks nearest to a question, and its terms without the names. The triples of their documents, imported or
written by a model, are scored by the words they share with the question; rarer words count for more. Out: the entities
that the best matches connect, with masses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ...derived.passage_graph.neighborhood import make_entity_node
from ...text.words import list_content_terms
from .graph_requests import NameTriple

#: The number of relations that a walk starts at.
_MAX_STARTS = 5


class TripleMatch(NamedTuple):
    """The match of a triple with a question: the two names that the triple connects, and its score."""

    names: tuple[str, str]
    score: float


def match_triples(
    triples: Iterable[NameTriple],
    rarities: Mapping[str, float],
    stem: Callable[[str], str],
    limit: int | None = _MAX_STARTS,
) -> list[TripleMatch]:
    """Return the matches of the ``limit`` (None: all) ``triples`` that match the question best, best first.

    This is the query-to-triple step of HippoRAG 2 (section 3.2), by words instead of vectors. Triples of the same names
    are one match, with the score of the best. The score is the sum of the rarities (IDF) of the question's terms that
    occur in the triple; ``rarities`` maps each term to its rarity. Triples without a term from the question are
    omitted. ``stem`` stems the words of triples.
    """
    scores: dict[tuple[str, str], float] = {}
    for subject, relation, object_name in triples:
        terms = set(list_content_terms(f"{subject} {relation} {object_name}", stem))
        score = math.fsum(rarities.get(term, 0.0) for term in terms)
        if score > 0:
            scores[subject, object_name] = max(score, scores.get((subject, object_name), 0.0))
    matches = [TripleMatch(names, score) for names, score in scores.items()]
    return sorted(matches, key=lambda match: (-match.score, match.names))[:limit]


def list_matched_names(matches: Iterable[TripleMatch]) -> list[str]:
    """Return the distinct names that the matching triples connect, in the order of ``matches`` (best triple first)."""
    return list(dict.fromkeys(name for match in matches for name in match.names))


def compute_triple_masses(matches: Sequence[TripleMatch], entities: Mapping[str, int]) -> dict[int, float]:
    """Return the mass with which a graph walk starts at each entity in the best triples, by node of the graph.

    The masses are in proportion to the scores of ``matches``, from :func:`match_triples`, and sum to 1 if all names are
    known. ``entities`` maps each name to its entity, or to 0 if it is unknown.
    """
    total = 2 * math.fsum(match.score for match in matches)  # each score counts for two names
    masses: dict[int, float] = {}
    for names, score in matches:
        for name in names:
            if entities[name]:
                node = make_entity_node(entities[name])
                masses[node] = masses.get(node, 0.0) + score / total
    return masses
