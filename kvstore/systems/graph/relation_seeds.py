"""Relations that match a question, as starts of a walk (HippoRAG 2, Gutiérrez et al. 2025, section 3.2, by words).

In: the passages nearest to a question, and the terms of what it asks beside its names. The relations that those
passages' documents state, in what was imported for them or in edges of the forest, match as far as their words are the
question's; the rarer a word, the more it says. Out: the entities that the best matches join, with masses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from ...retrieval.lexical_search import term_rarity
from ...structures.state import State
from ...text.words import content_terms, stemmer
from ..passage_graph.pagerank import entity_node
from ..passage_graph.rows import stated_relations

#: Relations that a walk starts at.
_STARTS = 5
#: Relations of one document that are read.
_MOST = 200


def masses_of_relations(view: State, terms: Sequence[str], chunks: Iterable[int]) -> dict[int, float]:
    """Nodes of the entities that the best matching relations join, with masses that sum to 1; empty for no match."""
    rarity = {term: term_rarity(view.counters.chunks, view.postings.count(term)) for term in terms}
    stem = stemmer(view.settings.stemmer)
    found: dict[tuple[str, str], float] = {}
    for document in dict.fromkeys(view.chunks.get(chunk).document for chunk in chunks):
        for subject, words, other in _relations(view, document):
            score = math.fsum(rarity.get(term, 0.0) for term in set(content_terms(f"{subject} {words} {other}", stem)))
            if score > 0:
                found[subject, other] = max(score, found.get((subject, other), 0.0))
    best = sorted(found.items(), key=lambda item: (-item[1], item[0]))[:_STARTS]
    total = 2 * sum(score for _, score in best)
    masses: dict[int, float] = {}
    for pair, score in best:
        for entity in view.filter.find_many(pair).tolist():
            if entity:
                masses[entity_node(entity)] = masses.get(entity_node(entity), 0.0) + score / total
    return masses


def _relations(view: State, document: int) -> Iterator[tuple[str, str, str]]:
    """Normal forms of the names that a document's relations join, with the words between them."""
    yield from stated_relations(view, document, _MOST)
    edges = view.forest.document_edges(document)
    names = sorted((view.forest.key(child), view.forest.key(parent)) for child, parent in edges)
    for child_key, parent_key in names[:_MOST]:
        yield child_key, "", parent_key
