"""Candidates of full-text queries: the chunks that may match according to the postings, which list the chunks of each
*term* (stemmed word) without positions. The caller reads their texts to find the matches.

In: a phrase, or phrases near each other. Out: ascending chunk ids, a superset of the matches. A position
per word in the postings would take another sixth of the text's size on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce

import numpy as np

from ..text.languages import open_document_stemmers
from ..text.text_query import Phrase, Proximity, WordPattern
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
    """Yield the words (whole words or prefixes) of a phrase, or of phrases that must be near each other."""
    phrases = [query] if isinstance(query, Phrase) else query.phrases
    for phrase in phrases:
        yield from phrase.words


def find_chunks_with_word(state: State, pattern: WordPattern) -> Ids:
    """Return the ids of the chunks that may contain a match of ``pattern`` (a word or a prefix), ascending."""
    stemmers = open_document_stemmers(state.settings.stemmer, state.counters.languages)
    if not pattern.is_prefix:
        terms = {stem(pattern.word) for stem in stemmers}  # a stemmer for each language of the store
        return union_sorted([state.postings.get(term).chunks for term in terms])
    # The stem of a word with the prefix can be shorter than the prefix: "studies" has the stem "studi".
    shorter_stems = {term for stem in stemmers for term in _list_shorter_stems(pattern.word, stem)}
    return union_sorted(
        [
            state.postings.find_chunks_by_prefix(pattern.word),
            *(state.postings.get(term).chunks for term in sorted(shorter_stems)),
        ]
    )


def find_chunks_with_all(state: State, query: Phrase | Proximity) -> Ids:
    """Return the ids of the chunks that may contain all words of a phrase, or of phrases near each other, ascending."""
    patterns = set(iter_patterns(query))
    whole_words = [pattern.word for pattern in patterns if not pattern.is_prefix]
    chunk_arrays: Iterable[Ids] = (find_chunks_with_word(state, pattern) for pattern in patterns if pattern.is_prefix)
    if whole_words:
        stemmers = open_document_stemmers(state.settings.stemmer, state.counters.languages)
        term_sets = {frozenset(map(stem, whole_words)) for stem in stemmers}
        matching_chunks = union_sorted([state.postings.find_chunks_with_terms(terms) for terms in term_sets])
        chunk_arrays = (matching_chunks, *chunk_arrays)
    return reduce(lambda chunks, other_chunks: np.intersect1d(chunks, other_chunks, assume_unique=True), chunk_arrays)


def union_sorted(chunk_arrays: Sequence[Ids]) -> Ids:
    """Return the union of arrays of ids, ascending. Each array is ascending and has distinct ids."""
    if not chunk_arrays:
        return np.empty(0, np.uint64)
    return chunk_arrays[0] if len(chunk_arrays) == 1 else np.unique(np.concatenate(chunk_arrays))


def _list_shorter_stems(prefix: str, stem: Callable[[str], str]) -> set[str]:
    """Return the stems of words beginning with ``prefix`` that do not begin with it themselves.

    A query for words with the prefix "flyin" must also find the stem "fly", under which "flying" is stored.
    """
    if stem is str:  # words are not stemmed
        return set()
    stems = {stem(prefix + ending) for ending in _ENDING_SUFFIXES}
    stems.update(prefix[:length] for length in range(_MIN_STEM_LETTERS, len(prefix)))
    return {term for term in stems if not term.startswith(prefix)}
