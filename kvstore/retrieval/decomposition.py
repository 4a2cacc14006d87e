"""The parts of a question: the names it compares and what it asks about them.

In: a question and the entities recognized in it. Out: a :class:`Decomposition`. No model is used. Two names joined by
"or" are compared ("Which film came out first, A or B?"). Two names joined by "and" are compared if the question can
only be about both ("Are A and B from the same country?"). The question without its names ("Where was the composer of
film born?") describes the chunks at the end of a chain, which may not contain any name of the question.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ..text.patterns import compile_lazily
from .recognition import Seed

#: The text between two compared names.
_CONJUNCTION_PATTERN = compile_lazily(
    r"[\W_]*\b(?P<word>or|and)\b(?:\s+(?:the|a|an|is|was|does|did|do|films?|movies?|songs?))*[\W_]*", re.I
)
_YES_NO_PATTERN = compile_lazily(
    r"\W*(?:are|is|am|did|do|does|were|was|have|has|had|can|could|will|would)\b", re.IGNORECASE
)
_BOTH_PATTERN = compile_lazily(r"\b(?:both|same|common|share)\b", re.IGNORECASE)


class Decomposition(NamedTuple):
    """The parts of a question.

    ``compared_keys`` are the keys of the seeds that it compares with each other. ``remainder`` is the question without
    its names, or the whole question if it consists of names only.
    """

    compared_keys: tuple[str, ...]
    remainder: str

    def __str__(self) -> str:
        """Return the text that EXPLAIN shows."""
        remainder_text = f"asks {self.remainder!r}"
        return f"compares {', '.join(self.compared_keys)}; {remainder_text}" if self.compared_keys else remainder_text


def decompose(question: str, seeds: Sequence[Seed]) -> Decomposition:
    """Split a question into the names that it compares and the remainder. ``seeds`` are its recognized entities.

    Two names joined by "or" are compared; two joined by "and" only in a yes/no question or one that asks about both.
    If no words remain, the remainder is the whole question.
    """
    encoded = question.encode()  # the spans of seeds are in bytes
    name_spans = sorted((start, end, seed.key) for seed in seeds for start, end in seed.spans)
    asks_of_both = _YES_NO_PATTERN.match(question) or _BOTH_PATTERN.search(question)
    compared_keys: list[str] = []
    remainder_parts: list[bytes] = []
    last_end, last_key = 0, None
    for start, end, key in name_spans:
        text_between = encoded[last_end:start]
        remainder_parts.append(text_between)
        conjunction = _CONJUNCTION_PATTERN.fullmatch(text_between.decode())
        if last_key is not None and conjunction and (asks_of_both or conjunction["word"].lower() == "or"):
            compared_keys += [last_key, key]
        last_end, last_key = end, key
    remainder_parts.append(encoded[last_end:])
    remainder = " ".join(b" ".join(remainder_parts).decode().split())
    has_word = any(character.isalnum() for character in remainder)
    return Decomposition(tuple(dict.fromkeys(compared_keys)), remainder if has_word else question)
