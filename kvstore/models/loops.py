"""Detection of a language model that repeats itself, while its text arrives. A *loop* is a sequence of 12 tokens that
has occurred 6 times. A *token* is a word or a punctuation mark.

In: pieces of a text. Out: True as soon as the same words have occurred several times, one after another.
"""

from __future__ import annotations

from ..text.patterns import compile_lazily

#: A loop is this number of consecutive tokens, occurring this number of times without overlap.
LOOP_TOKENS, LOOP_OCCURRENCES = 12, 6
#: A word or a mark, except the marks of JSON, which every entry of a list repeats.
_TOKEN_PATTERN = compile_lazily(r"""\w+|[^\w\s"'{}\[\]:,]""")


class LoopDetector:
    """A detector of loops in one text that arrives in pieces, which can be cut anywhere.

    >>> detector = LoopDetector()
    >>> detector.feed("It is red. " * 10), detector.feed("It is red. " * 10)
    (False, True)
    """

    def __init__(self) -> None:
        """Create a detector that has received no text."""
        self._last_word_parts: list[str] = []  # texts of the last word, to which the next text can add
        self._tokens: list[str] = []
        #: For each sequence of tokens, the number of its occurrences and the end of the last.
        self._occurrences: dict[tuple[str, ...], tuple[int, int]] = {}

    def feed(self, text: str) -> bool:
        """Add the next received text, and return True if it completes a loop: words that have occurred several times.

        A word at the end of the text is added with the next text, which can continue it.
        """
        end = len(text)
        while end and (text[end - 1].isalnum() or text[end - 1] == "_"):
            end -= 1
        if not end:
            self._last_word_parts.append(text)
            return False
        complete = "".join([*self._last_word_parts, text[:end]])
        self._last_word_parts = [text[end:]]
        return any(map(self.add_token, _TOKEN_PATTERN.findall(complete)))

    def add_token(self, token: str) -> bool:
        """Add a token, and return True if the last 12 tokens (``LOOP_TOKENS``) have now occurred 6 times or more.

        Occurrences that overlap the previous one do not count.
        """
        self._tokens.append(token)
        position = len(self._tokens)
        if position < LOOP_TOKENS:
            return False
        sequence = tuple(self._tokens[-LOOP_TOKENS:])
        count, last_end = self._occurrences.get(sequence, (0, 0))
        if position - last_end < LOOP_TOKENS and count:
            return False  # it overlaps the last occurrence
        self._occurrences[sequence] = count + 1, position
        return count + 1 >= LOOP_OCCURRENCES


def trim_loop(text: str) -> str:
    """Return a text up to the end of the first occurrence of its loop, or the whole text if it has no loop.

    >>> trim_loop("Tea is hot. " + "It is very very red. " * 20)
    'Tea is hot. It is very very red. It is very very red'
    """
    detector = LoopDetector()
    matches = list(_TOKEN_PATTERN.finditer(text))
    tokens = [match.group() for match in matches]
    loop_end = next((end for end, token in enumerate(tokens, 1) if detector.add_token(token)), 0)
    if not loop_end:
        return text
    loop = tokens[loop_end - LOOP_TOKENS : loop_end]
    first = next(start for start in range(loop_end) if tokens[start : start + LOOP_TOKENS] == loop)
    return text[: matches[first + LOOP_TOKENS - 1].end()]
