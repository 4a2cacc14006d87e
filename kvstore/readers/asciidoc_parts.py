"""The parts of AsciiDoc that need no state of the file: directives, markers, attributes, links and scripts.
In: lines, or attributes in brackets. Out: text or numbers. A *directive* is a line of the preprocessor. A *marker*,
such as ``**``, begins a list item. A *script* is a superscript or subscript.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .markdown_blocks import is_exponent

#: The maximum repetition of a table cell or column (``3*``), so that a short table cannot become a huge one.
MAX_REPETITIONS = 64
#: A line of the preprocessor; an ``ifdef`` or ``ifndef`` can contain its text.
_DIRECTIVE_PATTERN = re.compile(
    r"^(?:ifn?def::[^\s\[]*\[(.*)\]|(?:ifeval|endif|include)::[^\s\[]*\[.*\])[ \t]*(?:\n|\Z)", re.MULTILINE
)
_SUPERSCRIPT_PATTERN = re.compile(r"\^([^\s^]{1,100})\^")  # 10^6^
_SUBSCRIPT_PATTERN = re.compile(r"~([^\s~]{1,100})~")  # H~2~O
#: Patterns limit the distance between opening and closing marks, so that many unclosed marks take linear time.
_LINK_PATTERN = re.compile(
    r"(?:link:|mailto:|xref:|(?=(?:https?|ftp|irc)://))(?P<address>[^\s\[\]]{0,2000})\[(?P<label>[^\]]{0,1000})\]"
)
_REFERENCE_PATTERN = re.compile(
    r"<<(?P<target>[^,>]{1,300})(?:,\s*(?P<label>[^>]{1,300}))?>>"  # <<brewing,how to brew>>
)


def remove_directives(text: str) -> str:
    """Return a file without the lines of its preprocessor, such as ``endif::[]``; the conditional text remains."""
    return _DIRECTIVE_PATTERN.sub(lambda match: f"{match[1]}\n" if match[1] else "", text)


def render_links(text: str) -> str:
    """Return text with each link replaced by its label or address, and each reference by its label or target.

    The fragment of an address is dropped.

    >>> render_links("https://tea.org[Tea^] and link:guide.html#pots[], <<brewing,how to brew>>")
    'Tea and guide.html, how to brew'
    """

    def render_link(match: re.Match[str]) -> str:
        """Return the label of a link or, without a label, its address without the fragment."""
        label = match["label"].split(",")[0].strip('"^ ')
        return label or match["address"].partition("#")[0]

    text = _LINK_PATTERN.sub(render_link, text)
    return _REFERENCE_PATTERN.sub(lambda match: match["label"] or match["target"], text)


def render_scripts(text: str) -> str:
    """Return text whose superscripts and subscripts have no marks, except ``^`` before an exponent.

    >>> render_scripts("H~2~O at 10^-6^ on the 21^st^")
    'H2O at 10^-6 on the 21st'
    """

    def render_superscript(match: re.Match[str]) -> str:
        """Return a superscript, after ``^`` if it is an exponent."""
        last_character = match.string[max(0, match.start() - 1) : match.start()]
        return f"^{match[1]}" if is_exponent(match[1], last_character) else match[1]

    return _SUBSCRIPT_PATTERN.sub(lambda match: match[1], _SUPERSCRIPT_PATTERN.sub(render_superscript, text))


def get_language(attributes: Sequence[str]) -> str:
    """Return the language in the attributes of a source block (``[source,python]``); empty if they name no language."""
    return attributes[1] if len(attributes) > 1 and attributes[0].startswith("source") else ""


def normalize_marker(marker: str) -> str:
    """Return a list marker with ``1`` for any number and ``a`` for any letter, or ``<`` for a callout (``<1>``).

    All items of a list have the same normalized marker.
    """
    if marker[0] in "*-.":  # the common case
        return marker
    return "<" if marker[0] == "<" else re.sub(r"[a-zA-Z]", "a", re.sub(r"\d+", "1", marker))


def join_lines(lines: Iterator[str] | Sequence[str]) -> str:
    """Join the lines of a paragraph with spaces; a line that ends with `` +`` keeps its line break."""
    pieces = (f"{line[:-2].strip()}\n" if line.endswith(" +") else f"{line.strip()} " for line in lines)
    return "".join(pieces).strip()


def count_columns(attribute_text: str) -> int:
    """Return the number of columns in a table's ``cols`` attribute (``cols=2*,1``: 3), or 0 without this attribute."""
    match = re.search(r'cols\s*=\s*"?([^"\]]+)', attribute_text)
    if match is None:
        return 0
    num_columns = 0
    for column in match[1].split(","):
        if re.match(r"\s*\w+\s*=", column):  # the next attribute, such as "options=header"
            break
        repetition = re.match(r"\s*(\d+)\*", column)  # "2*" means two columns
        num_columns += min(int(repetition[1]), MAX_REPETITIONS) if repetition else 1
    return num_columns
