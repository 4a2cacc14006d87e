"""An answer on a terminal while a language model writes it.

In: its text, piece by piece. Out: whole words, wrapped, as soon as each is complete. What a model writes is text:
control characters never reach the terminal.
"""

from __future__ import annotations

import re
from typing import TextIO

from .layout import width_of
from .masking import masked

_PARTS = re.compile(r"\n|[^\S\n]+|\S+")


class AnswerStream:
    """Where the pieces go; ``end`` it before anything else is written.

    ``told`` says whether anything was shown.
    """

    def __init__(self, out: TextIO, width: int) -> None:
        self._out = out
        self._width = width
        self._used = 0
        self._word = ""
        self.told = False

    def show(self, text: str) -> None:
        """Take a piece."""
        for part in _PARTS.findall(text):
            if part.isspace():
                self._end_word()
                if part == "\n":
                    self._write("\n", 0)
            else:
                self._word += part
        self._out.flush()

    def end(self) -> None:
        """Show what was held back, and end the line; more may follow on the next one."""
        self._end_word()
        if self._used:
            self._write("\n", 0)
        self._out.flush()

    def _end_word(self) -> None:
        word, self._word = masked(self._word), ""
        if not word:
            return
        size = width_of(word)
        if not self._used:
            self._write(word, size)
        elif self._used + 1 + size > self._width:
            self._write("\n" + word, size)
        else:
            self._write(" " + word, self._used + 1 + size)

    def _write(self, text: str, used: int) -> None:
        self._out.write(text)
        self._used = used
        self.told = True
