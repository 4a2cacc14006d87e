"""The labels of numbered paragraphs in an OpenDocument text: ``4.2`` before a heading, ``(a)`` before an item.
A file has no labels. A *list style* has the format of each level, from 1; the *outline style* has those of headings.

In: the root elements of the XML files of a document, and its lists and headings in document order. Out: the label of
each item and heading. Section numbers below (``19.880``) refer to OpenDocument 1.3 part 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element

from .list_numbers import format_list_number, parse_list_number
from .opendocument import STYLE, TEXT

#: The number formats of :mod:`.list_numbers` by those of OpenDocument.
_FORMATS = {"1": "decimal", "a": "lowerAlphabetic", "A": "upperAlphabetic", "i": "lowerRoman", "I": "upperRoman"}
#: The maximum number of levels in LibreOffice, and the maximum length of the text before or after the numbers.
_MAX_LEVELS, _MAX_AFFIX = 10, 64
#: The name under which the outline style is kept among the list styles.
_OUTLINE = "\0outline"


class _NumberedLevel(NamedTuple):
    """The format of a numbered level: its numbers, the text around a label, and how many levels the label shows."""

    number_format: str
    prefix: str
    suffix: str
    num_shown: int
    start: int


class OpenDocumentNumbering:
    """A counter of the items and headings of one document, which makes their labels.
    ``_levels`` has the format of each numbered level of a style, and ``_counters`` its last number.
    """

    def __init__(self, trees: Sequence[Element]) -> None:
        """Read the list styles and the outline style from the root elements of a document."""
        self._counters: dict[str, dict[int, int]] = {}
        self._levels: dict[tuple[str, int], _NumberedLevel] = {}
        for tree in trees:
            for style in tree.iter(f"{TEXT}list-style"):
                self._read_levels(style.get(f"{STYLE}name") or "", style, "list-level-style-number")
            for style in tree.iter(f"{TEXT}outline-style"):
                self._read_levels(_OUTLINE, style, "outline-level-style")

    def _read_levels(self, name: str, style: Element, tag: str) -> None:
        """Read the numbered levels of a style, which are the elements with this ``tag`` in it."""
        for level in style.iter(f"{TEXT}{tag}"):
            number_format = level.get(f"{STYLE}num-format")
            if number_format in ("a", "A") and level.get(f"{STYLE}num-letter-sync") == "true":  # aa, bb
                number_format = "lowerLetter" if number_format == "a" else "upperLetter"
            if number_format:
                self._levels[name, parse_list_number(level.get(f"{TEXT}level"), 1)] = _NumberedLevel(
                    number_format=_FORMATS.get(number_format, number_format),
                    prefix=(level.get(f"{STYLE}num-prefix") or "")[:_MAX_AFFIX],
                    suffix=(level.get(f"{STYLE}num-suffix") or "")[:_MAX_AFFIX],
                    num_shown=min(_MAX_LEVELS, parse_list_number(level.get(f"{TEXT}display-levels"), 1)),
                    start=parse_list_number(level.get(f"{TEXT}start-value"), 1),
                )

    def begin_list(self, element: Element, style: str, level: int) -> None:
        """Forget the last numbers of a list style, unless the list is inside another list or continues one."""
        is_continued = element.get(f"{TEXT}continue-numbering") == "true" or element.get(f"{TEXT}continue-list")
        if level == 1 and not is_continued:
            self._counters.pop(style, None)

    def number_item(self, item: Element, style: str, level: int) -> str:
        """Count an item and return its label; empty for a bullet."""
        return self._number(style, level, item.get(f"{TEXT}start-value"))

    def number_heading(self, heading: Element, level: int) -> str:
        """Count a heading and return its label; empty if headings of its level have no numbers."""
        if heading.get(f"{TEXT}is-list-header") == "true":
            return ""
        return self._number(_OUTLINE, level, heading.get(f"{TEXT}start-value"))

    def _number(self, style: str, level: int, start_value: str | None) -> str:
        """Count a paragraph of a level and return its label, which is empty if the level is not numbered."""
        counters = self._counters.setdefault(style, {})
        for deeper_level in [other for other in counters if other > level]:
            del counters[deeper_level]
        level_format = self._levels.get((style, level))
        if level_format is None:
            return ""
        next_number = counters.get(level, level_format.start - 1) + 1
        counters[level] = parse_list_number(start_value, next_number)
        numbers = []
        for shown_level in range(max(1, level - level_format.num_shown + 1), level + 1):
            shown_format = self._levels.get((style, shown_level))
            if shown_format is not None:
                number = counters.get(shown_level, shown_format.start)
                numbers.append(format_list_number(number, shown_format.number_format))
        return f"{level_format.prefix}{'.'.join(numbers)}{level_format.suffix}".strip()
