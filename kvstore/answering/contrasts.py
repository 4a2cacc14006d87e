"""Opposites: a sentence about the smallest port does not answer a question about the largest one.

In: a question and a text. Out: if the text has the opposite of a word of the question instead of that word. Of the
questions of SQuAD 2.0 outside the held-out articles, 3 % of the near misses have an opposite in the sentence with the
most words of the question, and 0.2 % of the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from ..text.patterns import compile_lazily

_PAIRS = """
    full-time part-time, annual monthly, annually monthly, minimum maximum, buy sell, buying selling, buyer seller,
    north south, northern southern, east west, eastern western, northeast southwest, northwest southeast,
    increase decrease, increased decreased, increases decreases, rise fall, rose fell, largest smallest,
    biggest smallest, highest lowest, oldest newest, oldest youngest, older younger,
    earliest latest, longest shortest, higher lower, larger smaller, greater smaller, male female, men women,
    public private, upper lower, positive negative, best worst, better worse, stronger weaker, inside outside,
    internal external, domestic foreign, import export, imports exports, urban rural, legal illegal,
    included excluded, accepted rejected, allowed forbidden, allowed prohibited, opened closed, majority minority,
    supported opposed, supporters opponents, successful unsuccessful, ancient modern, advantage disadvantage,
    advantages disadvantages, large small, high low, summer winter, spring autumn, adult child, adults children,
    undergraduate graduate, lend borrow, arrive depart, income expense, credit debit, employer employee,
    landlord tenant, temporary permanent, primary secondary
"""
#: Words that ask for a quantity ("how large is the harbor"): their opposite in a text does not change the answer.
_QUANTITY_PATTERN = compile_lazily(r"\bhow [a-z]+")
_WORD_PATTERN = compile_lazily(r"[a-z]+(?:-[a-z]+)*")


def _map_opposites(pairs: str) -> Mapping[str, frozenset[str]]:
    """Map each word of the pairs to its opposites."""
    opposites: dict[str, set[str]] = defaultdict(set)
    for pair in pairs.split(","):
        first, second = pair.split()
        opposites[first].add(second)
        opposites[second].add(first)
    return {word: frozenset(words) for word, words in opposites.items()}


_OPPOSITES = _map_opposites(_PAIRS)


def is_contrary(question: str, text: str) -> bool:
    """True if a text lacks a word of the question and has its opposite.

    >>> texts = "The largest port is Bergen.", "Bergen is a port.", "The largest port is Bergen, the smallest Moss."
    >>> [is_contrary("Which is the smallest port?", text) for text in texts]
    [True, False, False]
    """
    words = set(_WORD_PATTERN.findall(text.lower()))
    question_words = set(_WORD_PATTERN.findall(_QUANTITY_PATTERN.sub("", question.lower())))
    missing_words = _OPPOSITES.keys() & question_words - words
    return any(not _OPPOSITES[word].isdisjoint(words) for word in missing_words)
