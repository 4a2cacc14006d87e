r"""The numbers of sections in a LaTeX document, which its class prints: ``2.1`` before a title, ``A`` in an appendix.

In: the source of a file, and its section commands in order. Out: the number of each section. Sections have no numbers
if these are uncertain: for an unknown class, in a part of a document, after an included file, or if the file sets
counters or formats of its own.
"""

from __future__ import annotations

import re

from .list_numbers import format_list_number

#: The numbered commands of document classes, outermost first.
_NUMBERED_COMMANDS = {
    **dict.fromkeys(
        "article extarticle scrartcl amsart elsarticle acmart".split(), ("section", "subsection", "subsubsection")
    ),
    **dict.fromkeys(
        "book report extbook extreport scrbook scrreprt memoir amsbook".split(), ("chapter", "section", "subsection")
    ),
    "llncs": ("section", "subsection"),
}
_CLASS_PATTERN = re.compile(r"^[ \t]*\\documentclass\s*(?:\[[^\]]{0,1000}\]\s*)?\{\s*([\w-]{1,60})\s*\}", re.MULTILINE)
#: A counter or format of sections that the file sets, and an included file in the text of the document.
_CHANGE_PATTERN = re.compile(
    r"\\setcounter\s*\{(?:secnumdepth|chapter|(?:sub){0,2}section)\}|\\the(?:chapter|(?:sub){0,2}section)(?![A-Za-z])"
)
_INCLUSION_PATTERN = re.compile(r"^[^%\n]*\\(?:input|include|subfile|import|subimport)(?![A-Za-z])", re.MULTILINE)


class SectionNumbering:
    """A counter of the sections of one file.
    ``_commands`` are the section commands that print numbers, outermost first, and ``_counters`` the last number of
    each. Both are empty if the printed numbers are uncertain.
    """

    def __init__(self, preamble: str, body: str) -> None:
        """Find the numbered commands of a file, given its source before and after ``\\begin{document}``.

        The numbers are uncertain if the class is unknown, or if the file sets counters or includes other files.
        """
        match = _CLASS_PATTERN.search(preamble)
        is_certain = not (
            _CHANGE_PATTERN.search(preamble) or _CHANGE_PATTERN.search(body) or _INCLUSION_PATTERN.search(body)
        )
        self._commands = _NUMBERED_COMMANDS.get(match[1], ()) if match is not None and is_certain else ()
        self._counters = [0] * len(self._commands)
        self._is_appendix = False
        self._is_main = True  # False in the front matter and the back matter of a book

    def begin_part(self, command: str) -> None:
        """Begin the part of the document after ``appendix``, ``frontmatter``, ``mainmatter`` or ``backmatter``.

        The front and back matter have no numbers.
        """
        if command == "appendix":
            self._is_appendix = True
            self._counters = [0] * len(self._commands)
        else:
            self._is_main = command == "mainmatter"

    def number_section(self, command: str) -> str:
        """Return the number of the next section; empty if its ``command``, such as ``section*``, prints none."""
        if command not in self._commands or not self._is_main:
            return ""
        level = self._commands.index(command)
        # The sections inside it are counted from 1 again.
        self._counters[level:] = [self._counters[level] + 1] + [0] * (len(self._counters) - level - 1)
        first_format = "upperLetter" if self._is_appendix else "decimal"
        numbers = [format_list_number(self._counters[0], first_format), *map(str, self._counters[1 : level + 1])]
        return ".".join(numbers)
