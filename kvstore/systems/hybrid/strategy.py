"""Strategy ``hybrid``: dense and lexical search together, by calibrated scores; see :mod:`.direct`."""

from __future__ import annotations

from collections.abc import Mapping

from ...arguments import Option
from ...retrieval.evidence import Evidence
from ...retrieval.query import Query, evidence_of, option
from ...structures.ranking import best
from .direct_search import Weights, search_directly

_DEFAULTS = Weights()


class HybridStrategy:
    """Retrieval of chunks that resemble the question in meaning, words, headings and entries."""

    name = "hybrid"
    description = "cosine and BM25 as calibrated shares, with headings, entries and words that occur close together"
    options: Mapping[str, Option] = {
        "words": Option(
            _DEFAULTS.words,
            0,
            1,
            "share of lexical search; dense search has the rest if it separates as well",
        ),
        "nearness": Option(_DEFAULTS.nearness, 0, 10, "weight of question words that occur close together"),
        "headings": Option(_DEFAULTS.headings, 0, 10, "weight of headings that have words of the question"),
        "entries": Option(_DEFAULTS.entries, 0, 10, "weight of an entry or section that begins there with that name"),
    }

    def retrieve(self, query: Query) -> Evidence:
        direct = search_directly(query, Weights(**{name: option(query, self, name) for name in self.options}))
        ranking = best(query.reading, direct.chunks, direct.scores, query.reach)
        return evidence_of(query, self.name, ranking, direct.format_paths(), len(direct.chunks))
