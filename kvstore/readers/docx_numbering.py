"""The labels of numbered paragraphs in a Word document: ``4.2`` before a heading, ``(a)`` before an item.
A file has no labels. A paragraph names a *list* (``w:num``) and a level of it, from 0; the list refers to a
*definition* (``w:abstractNum``) with the format of each level.

In: the numbering part of the file, and its numbered paragraphs in document order. Out: the label of each, as Word
prints it. Section numbers below (``17.9.6``) refer to ECMA-376 part 1.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any, NamedTuple

from docx.oxml.ns import nsmap, qn

from .docx_runs import VALUE_ATTRIBUTE
from .list_numbers import format_list_number, parse_list_number

_LEVEL_ATTRIBUTE = qn("w:ilvl")
#: The highest level of a list (17.9.6).
MAX_LEVEL = 8
#: The number of a level in the text of a label: ``%2`` is the number of level 1 (17.9.11).
_PLACEHOLDER_PATTERN = re.compile(r"%([1-9])")
_OFF_VALUES = ("0", "false", "off")
#: The maximum length of the text of a label; that of Word is 31.
_MAX_LABEL_FORMAT = 64


class ListLevel(NamedTuple):
    """The format of a level: the ``text`` of its labels, such as ``%1.%2``, and the ``format`` of its numbers.

    The numbers begin with ``start``, and begin again after a paragraph of a level below ``restart_level``. If
    ``is_legal``, all numbers of the label are decimal.
    """

    format: str
    text: str
    start: int
    restart_level: int
    is_legal: bool


class ListNumbering:
    """A counter of the numbered paragraphs of one document, which makes their labels.
    ``_levels`` has the formats of the levels of each list. ``_counters`` has the last numbers by definition: lists with
    the same one share them, as in Word. ``_restarts`` are numbers with which a list begins a level, once.
    """

    def __init__(self, numbering: Any | None) -> None:
        """Read the definitions and lists of a numbering part, given its root element; None if a file has none."""
        levels: dict[str, dict[int, ListLevel]] = {}  # of each definition
        styled_levels: dict[str, dict[str, int]] = {}  # the level for paragraphs of a style, by definition
        for definition in () if numbering is None else numbering.iter(qn("w:abstractNum")):
            definition_id = definition.get(qn("w:abstractNumId"))
            elements = [
                (parse_list_number(level.get(_LEVEL_ATTRIBUTE), 0), level) for level in definition.iter(qn("w:lvl"))
            ]
            levels[definition_id] = {index: _read_level(index, level) for index, level in elements}
            styled_levels[definition_id] = {get_value(level, "w:pStyle", ""): index for index, level in elements}
        self._levels: dict[str, dict[int, ListLevel]] = {}  # of each list
        self._styled_levels: dict[str, dict[str, int]] = {}  # of each list
        self._definition_ids: dict[str, str] = {}  # by list
        self._restarts: dict[tuple[str, int], int] = {}  # by list and level
        for list_element in () if numbering is None else numbering.iter(qn("w:num")):
            list_id, definition_id = list_element.get(qn("w:numId")), get_value(list_element, "w:abstractNumId", "")
            self._definition_ids[list_id] = definition_id
            self._levels[list_id] = dict(levels.get(definition_id, {}))
            self._styled_levels[list_id] = styled_levels.get(definition_id, {})
            for override in list_element.iterfind("w:lvlOverride", nsmap):
                level = parse_list_number(override.get(_LEVEL_ATTRIBUTE), 0)
                level_element = override.find("w:lvl", nsmap)
                if level_element is not None:
                    self._levels[list_id][level] = _read_level(level, level_element)
                start = get_value(override, "w:startOverride", "")
                if start:
                    self._restarts[list_id, level] = parse_list_number(start, 0)
        self._counters: defaultdict[str, dict[int, int]] = defaultdict(dict)  # by definition and level

    def find_level(self, list_id: str, style_id: str) -> int:
        """Return the level of a paragraph that does not name its level: the level for its style, or 0."""
        return self._styled_levels.get(list_id, {}).get(style_id, 0)

    def number_paragraph(self, list_id: str, level: int, default_format: str) -> str:
        """Count the next paragraph of a level of a list, and return its label; empty for a bullet.

        The deeper levels begin again. ``default_format``, such as ``decimal``, is the format of an undefined level.
        """
        definition_id = self._definition_ids.get(list_id, list_id)
        levels = self._levels.get(list_id, {})
        level_format = levels.get(level) or ListLevel(
            default_format, text=f"%{level + 1}.", start=1, restart_level=level, is_legal=False
        )
        counters = self._counters[definition_id]
        for deeper_level in [other for other in counters if other > level]:
            if deeper_level not in levels or level < levels[deeper_level].restart_level:
                del counters[deeper_level]
        restart = self._restarts.pop((list_id, level), None)
        counters[level] = counters.get(level, level_format.start - 1) + 1 if restart is None else restart
        if level_format.format in ("bullet", "none"):
            return ""

        def format_placeholder(match: re.Match[str]) -> str:
            """Return the number of the level that a placeholder refers to; the first one if it has no paragraph."""
            named_level = int(match[1]) - 1
            named_format = level_format if named_level == level else levels.get(named_level, level_format)
            number_format = "decimal" if level_format.is_legal else named_format.format
            return format_list_number(counters.get(named_level, named_format.start), number_format)

        return " ".join(_PLACEHOLDER_PATTERN.sub(format_placeholder, level_format.text).split())


def _read_level(index: int, level: Any) -> ListLevel:
    """Return the format of a level, given its ``w:lvl`` element and its number ``index``, from 0 (17.9.6)."""
    legal = level.find("w:isLgl", nsmap)
    return ListLevel(
        format=get_value(level, "w:numFmt", "decimal"),
        text=get_value(level, "w:lvlText", "")[:_MAX_LABEL_FORMAT],
        start=parse_list_number(get_value(level, "w:start", ""), 0),
        restart_level=parse_list_number(get_value(level, "w:lvlRestart", str(index)), 0),
        is_legal=legal is not None and legal.get(VALUE_ATTRIBUTE) not in _OFF_VALUES,
    )


def get_value(element: Any, path: str, default: str) -> str:
    """Return the ``w:val`` attribute of the element at ``path`` below another, or ``default`` without it."""
    child = element.find(path, nsmap)
    return default if child is None else child.get(VALUE_ATTRIBUTE, default)
