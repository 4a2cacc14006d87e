"""Display of an answer on a terminal while a language model writes it.

In: the text, piece by piece. Out: whole words, wrapped, as soon as each is complete. Control characters of the model's
text never reach the terminal.
"""

from __future__ import annotations

import re
from typing import TextIO

from .layout import measure_width
from .masking import mask_line

_PART_PATTERN = re.compile(r"\n|[^\S\n]+|\S+")


class AnswerStream:
    """The display of an answer in pieces; call ``finish`` before writing anything else.

    ``has_output`` is True if any text was shown.
    """

    def __init__(self, out: TextIO, width: int) -> None:
        """Create the display of an answer on ``out``, wrapped to ``width`` cells."""
        self._out = out
        self._width = width
        self._column = 0  # of the cursor
        self._word = ""  # the word that is not complete yet
        self.has_output = False

    def show(self, text: str) -> None:
        """Show the complete words of a piece of text, and hold back the last word until it is complete."""
        for part in _PART_PATTERN.findall(text):
            if part.isspace():
                self._write_word()
                if part == "\n":
                    self._write("\n", 0)
            else:
                self._word += part
        self._out.flush()

    def finish(self) -> None:
        """Show the text held back, and end the line; more text may follow on the next line."""
        self._write_word()
        if self._column:
            self._write("\n", 0)
        self._out.flush()

    def _write_word(self) -> None:
        """Write the word that ``show`` has collected, if any, on a new line if it does not fit on this one."""
        word, self._word = mask_line(self._word), ""
        if not word:
            return
        size = measure_width(word)
        if not self._column:
            self._write(word, size)
        elif self._column + 1 + size > self._width:
            self._write("\n" + word, size)
        else:
            self._write(" " + word, self._column + 1 + size)

    def _write(self, text: str, column: int) -> None:
        """Write text after which the cursor is in ``column``; record the column, and that there is output."""
        self._out.write(text)
        self._column = column
        self.has_output = True
