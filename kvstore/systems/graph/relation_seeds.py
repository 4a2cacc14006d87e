"""Relations that match a question, as starts of a walk (HippoRAG 2, Gutiérrez et al. 2025, section 3.2, by words).

In: the passages nearest to a question, and the terms of what it asks beside its names. The relations that those
passages' documents state, in what was imported for them or in edges of the forest, match as far as their words are the
question's; the rarer a word, the more it says. Out: the entities that the best matches join, with masses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from ...text.words import list_content_terms
from ..passage_graph.neighbourhood import make_entity_node
from .stated_relations import RelationInWords

#: Relations that a walk starts at.
_MAX_STARTS = 5
#: Relations of one document that are read.
MAX_RELATIONS = 200


def match_relations(
    relations: Iterable[RelationInWords], rarities: Mapping[str, float], stem: Callable[[str], str]
) -> list[tuple[tuple[str, str], float]]:
    """The relations that match best, the best first: the names that each joins, and how well it matches; none that has
    no word of the question. ``rarities`` are those of the question's terms."""
    scores: dict[tuple[str, str], float] = {}
    for subject, words, other in relations:
        score = math.fsum(
            rarities.get(term, 0.0) for term in set(list_content_terms(f"{subject} {words} {other}", stem))
        )
        if score > 0:
            scores[subject, other] = max(score, scores.get((subject, other), 0.0))
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:_MAX_STARTS]


def list_joined_names(matches: Iterable[tuple[tuple[str, str], float]]) -> list[str]:
    """The names that relations join, each once."""
    return list(dict.fromkeys(name for pair, _ in matches for name in pair))


def compute_relation_masses(
    matches: Sequence[tuple[tuple[str, str], float]], entities: Mapping[str, int]
) -> dict[int, float]:
    """Nodes of the entities that the best matching relations join, with masses that sum to 1 where all names are known;
    ``entities`` are those of the names, 0 for one that is not."""
    total = 2 * sum(score for _, score in matches)
    masses: dict[int, float] = {}
    for pair, score in matches:
        for name in pair:
            if entities[name]:
                node = make_entity_node(entities[name])
                masses[node] = masses.get(node, 0.0) + score / total
    return masses
