"""What others wrote, on its way to a terminal: no control character of theirs gets there.

In: text with names of files and trees, document keys, passages, what a server said. Out: the same, ``�`` in place of
each control character (C0, DEL and C1 of ISO 6429), half of a surrogate pair, and mark that turns the direction of
writing, so that no text can move the cursor, change colours or the title of the window, or be read in another order
than it is stored. :func:`mask_output` puts this before everything that the command prints.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

_CONTROL = r"\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_LINE_CONTROL_PATTERN = re.compile(rf"[\x00-\x1f{_CONTROL}]")
#: A carriage return is the end of a line before a line feed only.
_TEXT_CONTROL_PATTERN = re.compile(rf"[\x00-\x08\x0b\x0c\x0e-\x1f{_CONTROL}]|\r(?!\n)")
_MASK = "�"


def mask_line(text: str) -> str:
    """``text`` on a line, with control characters, white space but the blank among them, as ``�``."""
    return text if text.isprintable() else _LINE_CONTROL_PATTERN.sub(_MASK, text)


def mask_lines(text: str) -> str:
    """``text`` with control characters but line ends and tabs as ``�``."""
    return text if text.isprintable() else _TEXT_CONTROL_PATTERN.sub(_MASK, text)


class MaskedStream:
    """A text stream to which control characters but line ends and tabs go as ``�``; for all else the stream itself."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write some text, masked."""
        self._stream.write(mask_lines(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write some texts, masked."""
        for line in lines:
            self.write(line)

    @property
    def unmasked(self) -> TextIO:
        """The stream itself, for what moves the cursor on purpose."""
        return self._stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def mask_output() -> Iterator[None]:
    """While this lasts, messages are masked, and results where they go to a terminal: a pipe or a file gets them as
    they are."""
    out, error = sys.stdout, sys.stderr
    if out.isatty():
        sys.stdout = cast(TextIO, MaskedStream(out))
    sys.stderr = cast(TextIO, MaskedStream(error))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, error
