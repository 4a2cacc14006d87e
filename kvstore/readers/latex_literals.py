"""The *literals* of LaTeX source: code, formulas and paths of files, which are not read as text.
In: source, and the name of the command or environment that contains a literal, or the delimiter before a formula. Out:
the literal. A *cursor* reads the source from its current offset.
"""

from __future__ import annotations

import re

from .latex_commands import NUM_SILENT_ARGUMENTS
from .latex_macros import LatexCursor, MacroTable

_BARE_PATH_PATTERN = re.compile(r"[\w./:+-]+")  # chapters/intro.tex
_LANGUAGE_OPTION_PATTERN = re.compile(r"language\s*+=\s*+(?:\{\s*+)?([\w+#-]{1,20})")  # language=Python


class LiteralCursor(LatexCursor):
    """A cursor that also reads literals: each method begins at the offset of the cursor, and moves it."""

    def __init__(self, macros: MacroTable, text: str) -> None:
        """Create a cursor at the start of the source ``text``; ``macros`` has the macros that the file defines."""
        super().__init__(macros, text)
        self._unclosed_delimiters: set[str] = set()  # those missing after the offset

    def _read_code(self, command: str) -> str:
        """Return the code after a command such as ``verb``: in braces, or between two equal characters on one line.

        If the second character is missing, return "" and leave the offset before the first: the code is read as text.
        """
        if command == "mintinline":
            self._read_argument()  # the language
        if not command.startswith("verb"):
            self._read_option()
        delimiter = self._text[self._offset : self._offset + 1]
        if delimiter == "{":
            return self._read_argument()
        start = self._offset + 1
        end = self._text.find(delimiter, start) if delimiter and delimiter != "\n" else -1
        line_end = self._text.find("\n", self._offset)
        if end < 0 or (0 <= line_end < end):
            return ""
        self._offset = end + 1
        return self._text[start:end]

    def _read_included_path(self, command: str) -> str:
        """Read the arguments of a command that includes a file, and return the path of the file.

        ``import`` and ``subimport`` have a folder and a file. The file after ``input`` needs no braces.
        """
        folder = self._read_argument() if command.endswith("import") else ""
        self._skip_space()
        bare_path = _BARE_PATH_PATTERN.match(self._text, self._offset) if command == "input" else None
        if bare_path is not None:
            self._offset = bare_path.end()
        return folder + (self._read_argument() if bare_path is None else bare_path[0])

    def _read_formula(self, opening: str) -> str | None:
        """Return the source of the formula after the delimiter ``opening``, and move the offset after its end.

        If the formula is not closed, return None. A formula between single ``$`` must be closed in its paragraph.
        """
        closing = {"\\(": "\\)", "\\[": "\\]"}.get(opening, opening)
        end = self._find_formula_end(closing)
        if end < 0 or (opening == "$" and self._text.find("\n\n", self._offset, end) >= 0):
            return None
        formula = " ".join(self._text[self._offset : end].split())
        self._offset = end + len(closing)
        return formula

    def _find_formula_end(self, closing: str) -> int:
        """Return the offset of the delimiter ``closing`` after the current offset, or -1 if it is missing."""
        if closing in self._unclosed_delimiters:  # an earlier search reached the end of the source
            return -1
        end = self._text.find(closing, self._offset)
        while end >= 0 and closing[0] == "$" and self._text[end - 1] == "\\":  # an escaped $ does not close a formula
            end = self._text.find(closing, end + 1)
        if end < 0:
            self._unclosed_delimiters.add(closing)
        return end

    def _skip_command(self, name: str) -> None:
        """Skip the options of the command ``name``, and its arguments that are not text, such as a width.

        Its other arguments are read as text later.
        """
        self._read_option()
        for _ in range(NUM_SILENT_ARGUMENTS.get(name, NUM_SILENT_ARGUMENTS.get(name.rstrip("*"), 0))):
            self._read_argument()
            self._read_option()
        if self._text[self._offset : self._offset + 1] in (" ", "\t"):  # it only ends the name of the command
            self._offset += 1


def split_listing(name: str, body: str) -> tuple[str, str]:
    r"""Return the code of the environment ``name``, such as ``minted``, and its programming language, if it names one.

    ``body`` is the source between the begin and the end of the environment. It can begin with options, such as
    ``[language=C]``. Blank code becomes "".

    >>> split_listing("minted", "{python}\nprint(1)\n")
    ('print(1)', 'python')
    """
    language = ""
    first_line, newline, other_lines = body.partition("\n")
    if option_match := re.match(r"\s*\[([^\]\n]*)\]", first_line):  # [language=C]
        language_match = _LANGUAGE_OPTION_PATTERN.search(option_match[1])
        language = language_match[1].lower() if language_match else ""
        first_line = first_line[option_match.end() :]
    argument_match = re.match(r"\s*\{([\w+#-]+)\}", first_line)  # {python}
    if name == "minted" and argument_match:
        language, first_line = argument_match[1].lower(), first_line[argument_match.end() :]
    code = (first_line + newline + other_lines) if first_line.strip() else other_lines
    return code.rstrip(), language
