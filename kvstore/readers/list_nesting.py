"""Assembly of list items and lines of code into nested lists and code blocks.

In: blocks, items with their depths, and lines of code, in the order of a document. Out: blocks.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .markdown_blocks import ListItem, MarkdownBlock, make_code_block, make_list, make_paragraph, prepend_label

#: The label of an item that Markdown can number: ``3.`` or ``3)``.
_ITEM_NUMBER_PATTERN = re.compile(r"(\d{1,9})[.)]?")


class _NestedItem(NamedTuple):
    """A list item: its depth in nested lists, from 0, its marker (``-`` or a number), and its blocks."""

    depth: int
    marker: str
    blocks: list[MarkdownBlock]


class BlockBuilder:
    """A builder of blocks: consecutive items become nested lists, consecutive lines of code become one code block.
    The open list (``_items``) and code block (``_code_lines``) end as soon as something else is added.
    """

    def __init__(self) -> None:
        """Create a builder without blocks."""
        self._blocks: list[MarkdownBlock] = []
        self._items: list[_NestedItem] = []  # of the open list
        self._code_lines: list[str] = []  # of the open code block

    def add_blocks(self, *blocks: MarkdownBlock) -> None:
        """End the open list and the open code block, add them, and add ``blocks`` after them."""
        if self._code_lines:
            self._blocks.append(make_code_block("\n".join(self._code_lines)))
            self._code_lines.clear()
        start = 0
        while start < len(self._items):
            nested_list, start = _build_nested_list(self._items, start)
            self._blocks.append(nested_list)
        self._items.clear()
        self._blocks += blocks

    def add_code(self, line: str) -> None:
        """Add a line of code to the open code block, or begin one, which ends the open list."""
        if self._items:
            self.add_blocks()  # ends the list
        self._code_lines.append(line)

    def add_item(self, depth: int, label: str, blocks: list[MarkdownBlock]) -> None:
        """Add an item to the open list. Ends an open code block first.

        ``depth`` is its depth in nested lists, from 0. ``label`` is ``-``, a number such as ``1.``, or a label such as
        ``(a)`` or ``4.2``, which begins the text, because Markdown has no such marker.
        """
        if self._code_lines:
            self.add_blocks()  # ends the code block
        number_match = _ITEM_NUMBER_PATTERN.fullmatch(label)
        if label != "-":
            blocks = remove_typed_label(label, blocks)
        if number_match is None and label != "-":
            blocks = prepend_label(label, blocks)
        self._items.append(_NestedItem(depth, "-" if number_match is None else f"{number_match[1]}.", blocks))

    def extend_item(self, blocks: list[MarkdownBlock]) -> None:
        """Add blocks to the last item of the open list, or, if no list is open, as separate blocks."""
        if self._items:
            self._items[-1].blocks.extend(blocks)
        else:
            self.add_blocks(*blocks)

    def finish_blocks(self) -> list[MarkdownBlock]:
        """End the open list and the open code block, and return all blocks."""
        self.add_blocks()  # ends them
        return self._blocks


def remove_typed_label(label: str, blocks: list[MarkdownBlock]) -> list[MarkdownBlock]:
    """Return the blocks of a list item without a typed copy of its label: ``tea`` for ``1. tea`` in item ``1.``."""
    if not blocks or blocks[0].kind != "paragraph" or not blocks[0].text.startswith(label[:1]):
        return blocks
    typed_label = make_paragraph(f"{label} ").text  # escaped, as in the blocks
    if not blocks[0].text.startswith(typed_label):
        return blocks
    return [make_paragraph(blocks[0].text.removeprefix(typed_label)), *blocks[1:]]


def label_line(label: str, line: str) -> str:
    """Return a line with its label in front, unless the author of the line already typed the label.

    >>> label_line("2.", "Tea"), label_line("2.", "2. Tea"), label_line("2.1.", "2.1 Tea")
    ('2. Tea', '2. Tea', '2.1 Tea')
    >>> label_line("2.", "2 teas"), label_line("", "Tea")
    ('2. 2 teas', 'Tea')
    """
    typed_label = line.partition(" ")[0]
    is_typed = typed_label.rstrip(".") == label.rstrip(".") and ("." in typed_label or "." not in label)
    return line if not label or is_typed else f"{label} {line}"


def _build_nested_list(items: list[_NestedItem], start: int) -> tuple[MarkdownBlock, int]:
    """Return the list that begins at ``items[start]``, and the index of the first item after it.

    Deeper items become lists in the item before them. Bulleted and numbered items of one depth are separate lists.
    """
    first_item = items[start]
    list_items: list[ListItem] = []
    index = start
    while index < len(items) and items[index].depth >= first_item.depth:
        item = items[index]
        if item.depth > first_item.depth:
            inner_list, index = _build_nested_list(items, index)
            list_items[-1].blocks.append(inner_list)
        elif (item.marker == "-") == (first_item.marker == "-"):  # both are bullets, or both are numbers
            list_items.append(ListItem(item.marker, item.blocks))
            index += 1
        else:
            break
    return make_list(list_items), index
