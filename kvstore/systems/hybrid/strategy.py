"""Strategy ``hybrid``: dense and lexical search together, by calibrated scores; see :mod:`.direct_search`."""

from __future__ import annotations

from collections.abc import Mapping

from ...arguments import Option
from ...retrieval.evidence import Evidence
from ...retrieval.query import Query, evidence_of, option
from .direct_search import DEFAULT_WEIGHTS, Weights, search_hybrid


class HybridStrategy:
    """Retrieval of chunks by cosine and BM25, with bonuses for proximity, headings and entries."""

    name = "hybrid"
    description = "cosine and BM25 on one scale, with bonuses for headings, entries and words close together"
    options: Mapping[str, Option] = {
        "words": Option(
            DEFAULT_WEIGHTS.words,
            0,
            1,
            "weight of lexical search; the rest is the weight of vector search if the best results of both stand out "
            "equally",
        ),
        "nearness": Option(DEFAULT_WEIGHTS.nearness, 0, 10, "bonus for question words that occur close together"),
        "headings": Option(DEFAULT_WEIGHTS.headings, 0, 10, "bonus for headings that contain words from the question"),
        "entries": Option(
            DEFAULT_WEIGHTS.entries, 0, 10, "bonus if a section or entry named in the question begins in the chunk"
        ),
    }

    def retrieve(self, query: Query) -> Evidence:
        """Return the best chunks by cosine, BM25 and bonuses, with their ranks in both searches as paths."""
        hybrid = search_hybrid(query, Weights(**{name: option(query, self, name) for name in self.options}))
        return evidence_of(query, self.name, hybrid.rank(query), paths=hybrid.format_paths(), pool=len(hybrid.chunks))
