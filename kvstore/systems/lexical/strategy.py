"""Strategy ``lexical``: BM25 over the postings (Robertson and Zaragoza 2009, with the non-negative idf of Lucene)."""

from __future__ import annotations

from collections.abc import Mapping

from ...arguments import Option
from ...retrieval.evidence import Evidence
from ...retrieval.lexical_search import K1, B, rank_by_words
from ...retrieval.query import Query, evidence_of, option

#: Characters that open a phrase.
_QUOTE_CHARACTERS = frozenset('"\u201c')


class LexicalStrategy:
    """Retrieval of chunks that share the question's words; rare words count for more."""

    name = "lexical"
    description = "BM25 over the words of chunks, titles and headings"
    options: Mapping[str, Option] = {
        "k1": Option(K1, 0, 10, "how much repetitions of a word count; 0 ignores them"),
        "b": Option(B, 0, 1, "how much the score of a long chunk is reduced (0: not at all)"),
    }

    def retrieve(self, query: Query) -> Evidence:
        """Return the chunks that best match the question's words by BM25; a quoted phrase counts as one more term."""
        k1, b = option(query, self, "k1"), option(query, self, "b")
        if _QUOTE_CHARACTERS.isdisjoint(query.question):  # most questions, which need no code for phrases
            ranking = rank_by_words(query, query.reach, k1, b)
        else:
            from ...retrieval.phrase_search import rank_by_words_and_phrases

            ranking = rank_by_words_and_phrases(query, query.reach, k1, b)
        return evidence_of(query, self.name, ranking, paths="shares words with the question", pool=len(ranking))
