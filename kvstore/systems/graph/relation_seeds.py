"""Triples that match a question, as starts of a walk (HippoRAG 2, Gutiérrez et al. 2025, section 3.2, by words).

In: the chunks nearest to a question, and its terms without the names. The triples of their documents, imported or
written by a model, are scored by the words they share with the question; rarer words count for more. Out: the entities
that the best matches join, with masses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from ...derived.passage_graph.neighborhood import make_entity_node
from ...text.words import list_content_terms
from .graph_requests import RelationInWords

#: The number of relations that a walk starts at.
_MAX_STARTS = 5


def match_relations(
    relations: Iterable[RelationInWords],
    rarities: Mapping[str, float],
    stem: Callable[[str], str],
    limit: int | None = _MAX_STARTS,
) -> list[tuple[tuple[str, str], float]]:
    """Return the ``limit`` of ``relations`` (triples) that match the question best, each as (its two names, its score).

    Triples of the same names are one match, with the score of the best. The score is the sum of the rarities (IDF) of
    the question's terms that occur in the triple; ``rarities`` maps each term to its rarity. Triples without a term of
    the question are omitted. ``stem`` stems the words of triples.
    """
    scores: dict[tuple[str, str], float] = {}
    for subject, predicate, object_name in relations:
        terms = set(list_content_terms(f"{subject} {predicate} {object_name}", stem))
        score = math.fsum(rarities.get(term, 0.0) for term in terms)
        if score > 0:
            scores[subject, object_name] = max(score, scores.get((subject, object_name), 0.0))
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:limit]


def list_matched_names(matches: Iterable[tuple[tuple[str, str], float]]) -> list[str]:
    """Return the distinct names in the result of :func:`match_relations`, those of the best triple first."""
    return list(dict.fromkeys(name for pair, _ in matches for name in pair))


def compute_relation_masses(
    matches: Sequence[tuple[tuple[str, str], float]], entities: Mapping[str, int]
) -> dict[int, float]:
    """Return the start mass of the node of each entity in the best triples, in proportion to the triples' scores.

    ``matches`` come from :func:`match_relations`. ``entities`` maps each name to its entity, or to 0 if it is unknown.
    The masses sum to 1 if all names are known.
    """
    total = 2 * math.fsum(score for _, score in matches)  # each score counts for two names
    masses: dict[int, float] = {}
    for pair, score in matches:
        for name in pair:
            if entities[name]:
                node = make_entity_node(entities[name])
                masses[node] = masses.get(node, 0.0) + score / total
    return masses
