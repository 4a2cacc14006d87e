"""Opposites: a sentence about the smallest port does not answer a question about the largest one.

In: the words of a question that have an opposite, and a text. Out: if the text has an opposite instead of the word. Of
the questions of SQuAD 2.0 outside the held-out articles, 3 % of the near misses have an opposite in the sentence with
the most words of the question, and 0.1 % of the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from ..text.patterns import compile_lazily
from ..text.words import FUNCTION_WORDS

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
    """Map each word to its opposites. ``pairs`` has two words per pair, and commas between the pairs."""
    opposites: dict[str, set[str]] = defaultdict(set)
    for pair in pairs.split(","):
        first, second = pair.split()
        opposites[first].add(second)
        opposites[second].add(first)
    return {word: frozenset(words) for word, words in opposites.items()}


_OPPOSITES = _map_opposites(_PAIRS)


class Contrast(NamedTuple):
    """A word of a question with its opposites, and the word after it that it may modify, or an empty string."""

    word: str
    opposites: frozenset[str]
    noun: str


def find_contrasts(question: str) -> list[Contrast]:
    """Return the words of a question that have an opposite, in order, each with its opposites and its noun.

    The noun is the next word, or an empty string if that is a function word or missing.

    >>> [contrast.noun for contrast in find_contrasts("Which is the largest port of the north?")]
    ['port', '']
    """
    words = _WORD_PATTERN.findall(_QUANTITY_PATTERN.sub("", question.lower()))
    return [
        Contrast(word, _OPPOSITES[word], "" if following in FUNCTION_WORDS else following)
        for word, following in pairwise([*words, ""])
        if word in _OPPOSITES
    ]


def is_contrary(contrasts: Sequence[Contrast], text: str) -> bool:
    """True if a text lacks a word of a question and has its opposite.

    A text without the word that the question's word modifies is about something else: a debit card does not contradict
    a credit union.

    >>> contrasts = find_contrasts("Which is the smallest port?")
    >>> texts = "The largest port is Bergen.", "Bergen is a port.", "The largest port is Bergen, the smallest Moss."
    >>> [is_contrary(contrasts, text) for text in (*texts, "Moss has the largest church.")]
    [True, False, False, False]
    """
    if not contrasts:
        return False
    words = set(_WORD_PATTERN.findall(text.lower()))
    return any(
        contrast.word not in words
        and not contrast.opposites.isdisjoint(words)
        and any(word.startswith(contrast.noun.removesuffix("s")) for word in words)
        for contrast in contrasts
    )
