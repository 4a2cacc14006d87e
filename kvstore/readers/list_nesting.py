"""Assembly of list items and lines of code into nested lists and code blocks.

In: blocks, items with their depths, and lines of code, in the order of a document. Out: blocks.
"""

from __future__ import annotations

from .markdown_blocks import MarkdownBlock, make_code_block, make_list


class BlockBuilder:
    """A builder of blocks: consecutive items become nested lists, consecutive lines of code become one code block."""

    def __init__(self) -> None:
        self._blocks: list[MarkdownBlock] = []
        self._items: list[tuple[int, str, list[MarkdownBlock]]] = []  # of the open list: depth, marker, blocks
        self._code: list[str] = []  # lines of the open code block

    def add_blocks(self, *blocks: MarkdownBlock) -> None:
        """Add finished blocks, after the open list and the open code, which they end."""
        if self._code:
            self._blocks.append(make_code_block("\n".join(self._code)))
            self._code.clear()
        start = 0
        while start < len(self._items):
            block, start = _build_nested_list(self._items, start)
            self._blocks.append(block)
        self._items.clear()
        self._blocks += blocks

    def add_code(self, line: str) -> None:
        """Add a line of code; consecutive lines become one code block."""
        if self._items:
            self.add_blocks()
        self._code.append(line)

    def add_item(self, depth: int, marker: str, blocks: list[MarkdownBlock]) -> None:
        """Add a list item; ``depth`` counts from 0."""
        if self._code:
            self.add_blocks()
        self._items.append((depth, marker, blocks))

    def extend_item(self, blocks: list[MarkdownBlock]) -> None:
        """Add blocks to the last item, or as separate blocks if there is no item."""
        if self._items:
            self._items[-1][2].extend(blocks)
        else:
            self.add_blocks(*blocks)

    def finish_blocks(self) -> list[MarkdownBlock]:
        """End the open list and the open code, and return all blocks."""
        self.add_blocks()
        return self._blocks


def _build_nested_list(items: list[tuple[int, str, list[MarkdownBlock]]], start: int) -> tuple[MarkdownBlock, int]:
    """Return the list that begins at ``items[start]``, and the index of the first item after it.

    Bulleted and numbered items of the same depth are separate lists.
    """
    level, first_marker, _ = items[start]
    inner_items: list[tuple[str, list[MarkdownBlock]]] = []
    while start < len(items) and items[start][0] >= level:
        depth, marker, blocks = items[start]
        if depth > level:
            inner_list, start = _build_nested_list(items, start)
            inner_items[-1][1].append(inner_list)
        elif (marker == "-") == (first_marker == "-"):
            inner_items.append((marker, blocks))
            start += 1
        else:
            break
    return make_list(inner_items), start
