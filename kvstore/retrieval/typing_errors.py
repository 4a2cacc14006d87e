"""Typing errors: replace an unknown word of an English question by the known word that was probably meant.

In: a question and a state. Out: the words that are neither known to be English nor in any chunk, with their
corrections. A correction differs by one letter that is missing, added or wrong, or by two letters in the wrong order.
Both begin with the same letter. Unless the order of letters is wrong, they also end with the same letter, because
another end mostly makes another form of a word ("router", "route").

The frequent words of English are those in the vocabulary of the default embedder. Of 568 random errors in the
words of the questions about six folders, 497 are corrected, and 12 become a wrong word. With one error in each of 163
questions, the first sentence answers 128 instead of 89 of them, and 133 without errors.

Source: Damerau, "A technique for computer detection and correction of spelling errors", CACM 1964.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from string import ascii_lowercase

from ..structures.state import State
from ..text.everyday_words import is_everyday, iter_base_forms
from ..text.patterns import compile_lazily
from ..text.words import FUNCTION_WORDS, QuestionStemmer

#: Words that can contain an error, without capitalized words, identifiers and parts of paths, which may be names.
_WORD_PATTERN = compile_lazily(r"(?<![\w./@=-])[a-z]{4,}(?![\w/@=-]|\.\w)")
#: The minimum length of a correction, and of a word whose correction need not be frequent: few other words are like it.
_MIN_CORRECTION, _MIN_LONG_WORD = 5, 8


def find_corrections(question: str, state: State, stem: Callable[[str], str]) -> dict[str, str]:
    """Return the misspelled words of an English question, each with its most probable correction.

    ``stem`` is the stemming function for the question. A correction occurs in chunks in some form, or is an everyday
    word. Frequent words are preferred, and then the correction in the most chunks. A word without a correction is
    omitted.
    """
    words = list(dict.fromkeys(_WORD_PATTERN.findall(question)))
    counts = _count_chunks(words, state, stem)
    corrections = {}
    # Chunks have nearly all words, so few questions need the vocabulary of English.
    for word in (word for word in words if not counts[word] and not _is_english(word)):
        candidates = _list_candidates(word)
        candidate_counts = _count_chunks(candidates, state, stem)
        likely = [candidate for candidate in candidates if candidate_counts[candidate] or is_everyday(candidate)]
        if likely:
            corrections[word] = max(
                likely,
                key=lambda candidate: (candidate in _load_vocabulary(), candidate_counts[candidate], candidate),
            )
    return corrections


def _count_chunks(words: Sequence[str], state: State, stem: Callable[[str], str]) -> dict[str, int]:
    """Return, by word, the approximate number of chunks that contain it in any form.

    In a store of several languages, the chunks with its stem in each language are added up.
    """
    terms_by_word = {
        word: stem.list_variants(word) if isinstance(stem, QuestionStemmer) else [stem(word)] for word in words
    }
    terms = dict.fromkeys(term for word_terms in terms_by_word.values() for term in word_terms)
    counts = state.postings.count_chunks_by_term(list(terms))
    return {word: sum(counts[term] for term in word_terms) for word, word_terms in terms_by_word.items()}


@lru_cache(maxsize=1024)
def _list_candidates(word: str) -> list[str]:
    """Return the possible corrections of a word: frequent words, or any letters if the word is long; cached.

    Function words are omitted, because searches ignore them.

    >>> _list_candidates("huose"), _list_candidates("houser")
    (['house'], [])
    """
    candidates: dict[str, None] = {}
    for index in range(1, len(word)):
        before, letter, after = word[:index], word[index], word[index + 1 :]
        candidates |= dict.fromkeys(f"{before}{other}{letter}{after}" for other in ascii_lowercase)
        if after:
            candidates |= dict.fromkeys(f"{before}{other}{after}" for other in ascii_lowercase)
            candidates[before + after] = None
            candidates[before + after[0] + letter + after[1:]] = None
    is_long = len(word) >= _MIN_LONG_WORD
    return [
        candidate
        for candidate in candidates
        if len(candidate) >= _MIN_CORRECTION
        and (is_long or candidate in _load_vocabulary())
        and candidate not in FUNCTION_WORDS
    ]


@lru_cache(maxsize=1 << 14)
def _is_english(word: str) -> bool:
    """True if a word in lower case is known to be English. The result is cached.

    Known words are function words, everyday words, frequent words, and forms of frequent words, such as plurals.
    """
    is_known = word in FUNCTION_WORDS or is_everyday(word)
    return is_known or not _load_vocabulary().isdisjoint(iter_base_forms(word))


@cache
def _load_vocabulary() -> frozenset[str]:
    """Return frequent words of English: the vocabulary of the default embedder, whose code is imported on first use."""
    from ..models.packaged_embedder import load_vocabulary

    return load_vocabulary()
