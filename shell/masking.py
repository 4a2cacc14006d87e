"""Masking of control characters in untrusted text on its way to a terminal.

In: text with names of files and trees, document keys, chunks, messages of a server. Out: the same text, with ``�`` in
place of each control character (C0, DEL and C1 of ISO 6429), half of a surrogate pair, and mark that changes the
writing direction. No text can therefore move the cursor, change colors or the window title, or display in a different
order than it is stored. Only bold text passes, because answers use it. :func:`mask_output` masks everything that the
command prints.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

_CONTROL = r"\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_LINE_CONTROL_PATTERN = re.compile(rf"[\x00-\x1f{_CONTROL}]")
#: The control sequences of a terminal that begin and end bold text; they are the only ones that lines may contain.
BOLD, PLAIN = "\x1b[1m", "\x1b[22m"
#: A carriage return ends a line only before a line feed.
_TEXT_CONTROL_PATTERN = re.compile(rf"(?!\x1b\[(?:1|22)m)[\x00-\x08\x0b\x0c\x0e-\x1f{_CONTROL}]|\r(?!\n)")
_MASK = "�"


def mask_line(text: str) -> str:
    """Return ``text`` for one line: control characters, line ends and tabs are replaced by ``�``."""
    return text if text.isprintable() else _LINE_CONTROL_PATTERN.sub(_MASK, text)


def mask_lines(text: str) -> str:
    """Return ``text`` with ``�`` for each control character except line ends, tabs, ``BOLD`` and ``PLAIN``."""
    return text if text.isprintable() else _TEXT_CONTROL_PATTERN.sub(_MASK, text)


class MaskedStream:
    """A text stream that masks what it writes with :func:`mask_lines`.

    Other attributes are those of the wrapped stream.
    """

    def __init__(self, stream: TextIO) -> None:
        """Wrap ``stream``, to which the masked text is written."""
        #: The wrapped stream, for output that moves the cursor.
        self.unmasked_stream = stream

    def write(self, text: str) -> int:
        """Write ``text`` with masked control characters, and return its length."""
        self.unmasked_stream.write(mask_lines(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write several texts with masked control characters."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the wrapped stream that this class does not define."""
        return getattr(self.unmasked_stream, name)


@contextmanager
def mask_output() -> Iterator[None]:
    """Mask standard error, and standard output if it is a terminal, within the ``with`` block.

    A pipe or a file gets results unchanged.
    """
    out = cast(TextIO, MaskedStream(sys.stdout)) if sys.stdout.isatty() else sys.stdout
    with redirect_stdout(out), redirect_stderr(cast(TextIO, MaskedStream(sys.stderr))):
        yield
