"""Common parts of the readers of line-based markup: AsciiDoc, Org and reStructuredText.

In: the lines of a file, or the source of a paragraph. Out: indexes of lines, and text whose code is not changed by the
patterns of inline markup.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

_PLACEHOLDER_PATTERN = re.compile(r"\0(\d+)\0")


def find_line(lines: Sequence[str], start: int, is_match: Callable[[str], object]) -> int:
    """Return the index of the first line from ``start`` on for which ``is_match`` is true, or the number of lines.

    >>> find_line(["a", "b", ""], 1, lambda line: not line)
    2
    """
    return next((index for index in range(start, len(lines)) if is_match(lines[index])), len(lines))


def find_nonblank_line(lines: Sequence[str], start: int) -> int:
    """Return the index of the first line from ``start`` on that is not empty, or the number of lines.

    The lines have no white space at their ends.
    """
    return find_line(lines, start, bool)


def get_indent(line: str) -> int:
    """Return the number of white-space characters at the beginning of a line."""
    return len(line) - len(line.lstrip())


def get_margin(lines: Sequence[str]) -> int:
    """Return the smallest indentation, in characters, of the lines that are not empty; 0 without such lines."""
    return min((get_indent(line) for line in lines if line), default=0)


class ProtectedTexts:
    """A store of the parts of a paragraph, such as code, that the patterns of inline markup must not change.

    >>> texts = ProtectedTexts()
    >>> protected = texts.protect("*p") + " is *bold*"
    >>> texts.restore(protected.replace("*", ""))
    '*p is bold'
    """

    def __init__(self) -> None:
        """Create an empty store. Placeholders replace the stored texts in the paragraph."""
        self._texts: list[str] = []

    def protect(self, text: str) -> str:
        """Store a text and return a placeholder for it."""
        self._texts.append(text)
        return f"\0{len(self._texts) - 1}\0"

    def restore(self, text: str) -> str:
        """Return a text with its placeholders replaced by the stored texts."""
        return _PLACEHOLDER_PATTERN.sub(lambda placeholder: self._texts[int(placeholder[1])], text)
