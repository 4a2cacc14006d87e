"""The vocabulary of English: function words, everyday words, and the frequent words that the default embedder knows."""

from __future__ import annotations

from functools import cache, lru_cache

from ..text.everyday_words import is_everyday, iter_base_forms
from ..text.words import FUNCTION_WORDS


@lru_cache(maxsize=1 << 14)
def is_english(word: str) -> bool:
    """True if a word in lower case is known to be English. The result is cached.

    Known words are function words, everyday words, frequent words, and forms of frequent words, such as plurals.
    """
    is_known = word in FUNCTION_WORDS or is_everyday(word)
    return is_known or not load_english_vocabulary().isdisjoint(iter_base_forms(word))


@cache
def load_english_vocabulary() -> frozenset[str]:
    """Return frequent words of English: the vocabulary of the default embedder, whose code is imported on first use."""
    from ..models.packaged_embedder import load_vocabulary

    return load_vocabulary()
