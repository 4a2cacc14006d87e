"""Texts that arrive piece by piece from a generator, which returns a result after the last piece, such as an answer."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Generic, TypeVar

from ..process.closed_on_exit import ClosedOnExit
from ..text.patterns import compile_lazily

Result = TypeVar("Result")

_SURROGATE_PATTERN = compile_lazily("[\ud800-\udfff]")


def join_surrogates(text: str) -> str:
    """Return a text that can be encoded: two halves of a surrogate pair become one character, a lone half U+FFFD.

    >>> join_surrogates("\\ud83d\\ude00, \\ud83d")
    '😀, �'
    """
    if _SURROGATE_PATTERN.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class TextPieces(ClosedOnExit, Iterator[str], Generic[Result]):
    """The pieces of a text as they arrive, and the result of their generator; leaving the context closes the generator.

    A piece can have any size.
    """

    def __init__(self, pieces: Generator[str, None, Result]) -> None:
        """Wrap a generator that yields the pieces of a text, and at its end returns a result, such as the answer."""
        self._pieces = pieces
        self._result: Result | None = None

    def __next__(self) -> str:
        """Return the next piece. At the end, record the result of the generator, and raise StopIteration."""
        try:
            return next(self._pieces)
        except StopIteration as end:
            if self._result is None:
                self._result = end.value
            raise StopIteration from None

    @property
    def result(self) -> Result | None:
        """The final result; None before the last piece, or if the pieces were closed early."""
        return self._result

    def close(self) -> None:
        """Close the generator, so that a model stops writing."""
        self._pieces.close()


def collect_result(
    pieces: Generator[str, None, Result], on_text: Callable[[str], object] = lambda text: None
) -> Result:
    """Pass each piece of a text to ``on_text``, and return the result that the generator ``pieces`` returns at its end.

    The generator is closed if ``on_text`` raises.
    """
    with closing(pieces):
        while True:
            try:
                text = next(pieces)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            on_text(text)
