"""The parts of LaTeX source: groups, environments, items of lists, and rows and cells of tables.
A *group* is source in brackets or braces; an *environment* is between ``\\begin{name}`` and ``\\end{name}``.

In: source and the offset at which a part begins. Out: the source of the part, or the offset of its end. Nothing is
expanded, and unclosed groups end at a limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .latex_commands import ASCII_PUNCTUATION, UNIT_POWERS, UNIT_PREFIXES, UNITS, VERBATIM_ENVIRONMENTS
from .markdown_blocks import MAX_SPAN

#: The maximum length of an argument.
_MAX_ARGUMENT_CHARACTERS = 1 << 18
_UNIT_PATTERN = re.compile(r"\\([A-Za-z]+)|[.~]|[^\\.~{}\s]+")  # \meter, m or a product mark
#: The beginning of a cell that spans columns, after rules: ``\\midrule \\multicolumn{2}{c}{Price}``.
_SPAN_PATTERN = re.compile(r"(?:\s|\\(?:[a-z]*rule|hline)\b)*+\\multicolumn\s*\{\s*(\d{1,4})\s*\}")
ENVIRONMENT_PATTERN = re.compile(r"[ \t]{0,9}\{[ \t]{0,9}([^\\{}\n]{1,60}?)[ \t]{0,9}\}")  # {itemize}


def split_slide_title(body: str) -> tuple[str | None, str]:
    """Return (title, rest) for the body of a slide: the title in braces at its beginning, and the text after it.

    Without such a title, return None and ``body``.
    """
    start = len(body) - len(body.lstrip())
    if body[start : start + 1] != "{":
        return None, body
    end = find_closing_bracket(body, start, "{", "}")
    return body[start + 1 : end], body[end + 1 :]


def find_closing_bracket(
    text: str, start: int, opening: str, closing: str, max_length: int = _MAX_ARGUMENT_CHARACTERS
) -> int:
    """Return the offset of the ``closing`` bracket of the group that begins at ``start`` with the bracket ``opening``.

    If the group is not closed within ``max_length`` characters, or before the braces around it are closed, return the
    end of the searched range.
    """
    depth = 0
    num_open_braces = 0  # within square brackets; a square bracket in them does not count
    limit = min(len(text), start + max_length)
    offset = start
    delimiter_pattern = re.compile(rf"[\\%{{}}{re.escape(opening)}{re.escape(closing)}]")
    while (match := delimiter_pattern.search(text, offset, limit)) is not None:
        delimiter = match[0]
        offset = match.end()
        if delimiter == "\\":  # skip the escaped character
            offset += 1
        elif delimiter == "%":  # skip the comment
            line_end = text.find("\n", offset)
            offset = line_end if line_end >= 0 else limit
        elif delimiter == opening and not (opening == "[" and num_open_braces):
            depth += 1
        elif delimiter == closing and not (closing == "]" and num_open_braces):
            depth -= 1
            if depth <= 0:
                return match.start()
        elif opening != "{":  # a brace, or a square bracket in braces
            num_open_braces += 1 if delimiter == "{" else -1
            if num_open_braces < 0:  # the braces around the group are closed
                break
    return limit


def split_environment(text: str, start: int, name: str, unclosed_names: set[str]) -> tuple[str, int]:
    """Return the body of the environment ``name``, and the offset after its end; the body begins at offset ``start``.

    The body of an unclosed environment is empty, except that unclosed verbatim text and comments extend to the end of
    ``text``. ``unclosed_names`` caches the names of unclosed environments, and can be extended.
    """
    if name in unclosed_names:
        return "", start
    if name in VERBATIM_ENVIRONMENTS or name == "comment":
        end = text.find(f"\\end{{{name}}}", start)
        return (text[start:], len(text)) if end < 0 else (text[start:end], end + len(f"\\end{{{name}}}"))
    depth = 1
    delimiter_pattern = re.compile(rf"\\(begin|end)[ \t]{{0,9}}\{{[ \t]{{0,9}}{re.escape(name)}[ \t]{{0,9}}\}}")
    for match in delimiter_pattern.finditer(text, start):
        depth += 1 if match[1] == "begin" else -1
        if depth == 0:
            return text[start : match.start()], match.end()
    unclosed_names.add(name)
    return "", start


_SPLIT_PATTERN = re.compile(
    r"\\(?P<boundary>begin|end)\s*\{|\\(?P<item>item|bibitem)\b|\\\\(?:\*?\s*\[[^\]\n]{0,20}\])?|\\.|[{}&]"
    r"|(?<!\\)%[^\n]*",
    re.S,
)
_OPTION_START_PATTERN = re.compile(r"\s*\[")  # the beginning of [option]
_BIBLIOGRAPHY_KEY_PATTERN = re.compile(r"\s*\{[^{}]*\}")  # {lamport94}


def split_items(body: str, command: str) -> Iterator[tuple[str | None, str]]:
    r"""Yield (option, text) for the text before the first item of a list, and for each item.

    The option is the text in brackets after ``\item``, or None. ``command`` begins an item: ``item`` or ``bibitem``.
    The key of a ``bibitem`` is dropped.
    """
    depth = 0
    start = 0
    option: str | None = None
    for match in _SPLIT_PATTERN.finditer(body):
        if match["boundary"]:  # the beginning or end of an inner environment
            depth += 1 if match["boundary"] == "begin" else -1
        elif match["item"] == command and depth == 0:
            if match.start() < start:  # inside the option of the previous item
                continue
            yield option, body[start : match.start()]
            start = match.end()
            option = None
            if bracket := _OPTION_START_PATTERN.match(body, start):
                end = find_closing_bracket(body, bracket.end() - 1, "[", "]")
                option, start = body[bracket.end() : end], min(end + 1, len(body))
            if command == "bibitem" and (key := _BIBLIOGRAPHY_KEY_PATTERN.match(body, start)):
                start = key.end()
    yield option, body[start:]


def split_rows(body: str) -> Iterator[str]:
    """Yield the source of each row in the body of a table; rows are separated by two backslashes."""
    return _split_outside_braces(body, "\\\\")


def split_cells(row: str) -> Iterator[str]:
    """Yield the source of each cell in a row of a table; cells are separated by ``&``.

    A cell that spans several columns is followed by an empty cell for each further column.
    """
    for cell in _split_outside_braces(row, "&"):
        yield cell
        span_match = _SPAN_PATTERN.match(cell)
        if span_match is not None:
            yield from [""] * (min(int(span_match[1]), MAX_SPAN) - 1)


def _split_outside_braces(text: str, separator: str) -> Iterator[str]:
    """Split a text at each ``separator`` outside braces and environments, and yield the texts between them."""
    depth = 0
    start = 0
    for match in _SPLIT_PATTERN.finditer(text):
        if match["boundary"]:  # \begin{ or \end{
            depth += 1 if match["boundary"] == "begin" else -1
            depth += 1  # the opening brace in the match; its closing brace is another match
        elif match[0] in "{}":
            depth += 1 if match[0] == "{" else -1
        elif depth <= 0 and match[0].startswith(separator):
            yield text[start : match.start()]
            start = match.end()
    yield text[start:]


def format_unit(source: str) -> str:
    r"""Return a unit of the package siunitx, given its LaTeX source, as printed.

    >>> format_unit(r"\kilo\gram\per\cubic\metre"), format_unit("m.s^{-1}")
    ('kg/m³', 'm·s^-1')
    """
    text = separator = prefix = power = ""
    for match in _UNIT_PATTERN.finditer(source):
        name = match[1]
        if name == "per":
            separator = "/"
        elif name in UNIT_PREFIXES:
            prefix += UNIT_PREFIXES[name]
        elif name in ("square", "cubic"):  # before the unit
            power = UNIT_POWERS[name]
        elif name in UNIT_POWERS:  # after the unit
            text += UNIT_POWERS[name]
        elif match[0] in (".", "~"):
            separator = "·"
        elif name is None:  # a unit as printed, such as kg
            text += separator + match[0]
            separator = ""
        else:  # the command of a unit, such as \gram
            between = (separator or "·") if text else separator.replace("/", "1/")
            text += between + prefix + UNITS.get(name, name) + power
            separator = prefix = power = ""
    return text


def remove_labels(formula: str) -> str:
    r"""Return a formula without its ``\label`` commands."""
    return re.sub(r"\\label\s*\{[^{}]*\}", "", formula).strip()


def convert_ascii_punctuation(text: str) -> str:
    """Return a text with ``--``, ``---`` and quotes in ASCII replaced by typographic dashes and quotes."""
    for characters, replacement in ASCII_PUNCTUATION:
        if characters in text:
            text = text.replace(characters, replacement)
    return text.replace("`", "‘") if "`" in text else text
