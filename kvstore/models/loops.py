"""Detection of a language model that repeats itself, while its text arrives.

In: pieces of a text. Out: True as soon as the same words have occurred several times, one after another.
"""

from __future__ import annotations

import re

#: A loop is this number of consecutive tokens, occurring this number of times without overlap.
LOOP_TOKENS, LOOP_OCCURRENCES = 12, 6
#: A word or a mark, except the marks of JSON, which every entry of a list repeats.
_TOKEN_PATTERN = re.compile(r"""\w+|[^\w\s"'{}\[\]:,]""")


class LoopDetector:
    """The state of the detection in one text; its pieces can be cut anywhere.

    >>> detector = LoopDetector()
    >>> detector.feed("It is red. " * 20), detector.feed("It is red. " * 20)
    (False, True)
    """

    def __init__(self) -> None:
        self._partial = ""  # the last token, to which the next piece can add
        self._tokens: list[str] = []
        #: For each sequence of tokens, the number of its occurrences and the end of the last.
        self._occurrences: dict[tuple[str, ...], tuple[int, int]] = {}

    def feed(self, text: str) -> bool:
        """Add a piece, and return True if the text is a loop."""
        text = self._partial + text
        end = len(text)
        while end and text[end - 1].isalnum():
            end -= 1
        self._partial = text[end:]
        return any(map(self._add, _TOKEN_PATTERN.findall(text[:end])))

    def _add(self, token: str) -> bool:
        """Add a token, and return True if its sequence has occurred often enough."""
        self._tokens.append(token)
        position = len(self._tokens)
        if position < LOOP_TOKENS:
            return False
        sequence = tuple(self._tokens[-LOOP_TOKENS:])
        count, last_end = self._occurrences.get(sequence, (0, 0))
        if position - last_end < LOOP_TOKENS and count:
            return False
        self._occurrences[sequence] = count + 1, position
        return count + 1 >= LOOP_OCCURRENCES
