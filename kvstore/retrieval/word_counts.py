"""The numbers of chunks that contain the words of a question, in any form.

In: words and a state. Out: a count for each word, from the posting lists of its stems.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..structures.state import State
from ..text.words import QuestionStemmer


def count_chunks(words: Sequence[str], state: State, stem: Callable[[str], str]) -> dict[str, int]:
    """Return, by word, the approximate number of chunks that contain it in any form.

    In a store of several languages, the chunks with its stem in each language are added up.
    """
    terms_by_word = {
        word: stem.list_variants(word) if isinstance(stem, QuestionStemmer) else [stem(word)] for word in words
    }
    terms = dict.fromkeys(term for word_terms in terms_by_word.values() for term in word_terms)
    counts = state.postings.count_chunks_by_term(list(terms))
    return {word: sum(counts[term] for term in word_terms) for word, word_terms in terms_by_word.items()}
