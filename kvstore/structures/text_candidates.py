"""Candidates of full-text queries: the chunks that may match according to postings alone. The caller reads their texts.

In: a phrase, or phrases near each other. Out: ascending chunk ids, a superset of the matches. Postings have no word
positions: a position per word would take another sixth of the text's size on disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce

import numpy as np

from ..text.text_query import Phrase, Proximity, WordPattern
from ..text.words import get_stemmer
from .postings import Ids
from .state import State

#: The number of leading letters that a word shares with its stem, if it has so many.
_MIN_STEM_LETTERS = 3
#: Suffixes that an English stemmer removes or shortens. A prefix query may end within such a suffix.
_ENDINGS = (
    *("e", "es", "ed", "er", "ers", "ing", "ings", "ingly", "edly", "y", "ies", "ied", "ly", "al", "ally", "ational"),
    *("ations", "ators", "ionally", "ively", "iveness", "ivity", "ities", "ability", "ibility", "ably", "ibly"),
    *("ments", "ness", "fulness", "fully", "ousness", "ously", "izes", "izing", "izer", "ization", "ises", "ising"),
    *("iser", "isation", "ances", "ences", "isms", "ists", "icate", "ically", "icity", "iciti", "ogy", "ogist"),
)
#: Every end of these suffixes: what may follow the prefix of a query.
_ENDING_SUFFIXES = sorted({ending[start:] for ending in _ENDINGS for start in range(len(ending) + 1)})


def iter_patterns(query: Phrase | Proximity) -> Iterator[WordPattern]:
    """Yield the words of a phrase, or of phrases near each other."""
    for phrase in (query,) if isinstance(query, Phrase) else query.phrases:
        yield from phrase.words


def find_chunks_with_word(state: State, pattern: WordPattern) -> Ids:
    """Return the chunks that may contain a word, or a word with the pattern's prefix; ascending ids."""
    stem = get_stemmer(state.settings.stemmer)
    if not pattern.prefix:
        return state.postings.get(stem(pattern.word)).chunks
    chunk_arrays = [state.postings.find_chunks_by_prefix(pattern.word)]
    chunk_arrays += [
        state.postings.get(term).chunks for term in sorted(_list_shorter_stems(pattern.word, state.settings.stemmer))
    ]
    return np.unique(np.concatenate(chunk_arrays))


def find_chunks_with_all(state: State, query: Phrase | Proximity) -> Ids:
    """Return the chunks that may contain all words of a phrase, or of phrases near each other; ascending ids."""
    patterns = set(iter_patterns(query))
    stem = get_stemmer(state.settings.stemmer)
    whole_words = {stem(pattern.word) for pattern in patterns if not pattern.prefix}
    chunk_arrays: Iterable[Ids] = (find_chunks_with_word(state, pattern) for pattern in patterns if pattern.prefix)
    if whole_words:
        chunk_arrays = (state.postings.find_chunks_with_terms(whole_words), *chunk_arrays)
    return reduce(lambda chunks, other_chunks: np.intersect1d(chunks, other_chunks, assume_unique=True), chunk_arrays)


def _list_shorter_stems(prefix: str, stemmer_name: str) -> set[str]:
    """Return the stems of words beginning with ``prefix`` that do not begin with it themselves."""
    if stemmer_name == "none":
        return set()
    stem = get_stemmer(stemmer_name)
    stems = {stem(prefix + ending) for ending in _ENDING_SUFFIXES}
    stems.update(prefix[:length] for length in range(_MIN_STEM_LETTERS, len(prefix)))
    return {term for term in stems if not term.startswith(prefix)}
