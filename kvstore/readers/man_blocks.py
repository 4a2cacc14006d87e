"""The blocks of a manual page under construction: paragraphs, code, and items at several levels of indentation.
A *level* has blocks and an unfinished list; the macro ``.RS`` or an mdoc list opens it. An item has *terms*, a number
or a bullet.

In: lines of text with roff escapes, and the beginning and end of each indentation and item. Out: the finished blocks.
Levels deeper than ``MAX_LIST_DEPTH`` are not indented further.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from .decoding import collapse_whitespace
from .markdown_blocks import ListItem, MarkdownBlock, make_code_block, make_list, make_paragraph, make_table
from .mdoc import RunningText
from .roff import RoffInterpreter

#: The maximum depth of indented lists; deeper levels are not indented further.
MAX_LIST_DEPTH = 12
_BULLETS = frozenset("•·○◦*-–—+o□")
_NUMBER_PATTERN = re.compile(r"\(?(\d{1,3}|[a-z])[.)\]]")  # (1), 1. or a)
_LEADING_BULLET_PATTERN = re.compile(r"[•·]\s*|(?P<number>\d{1,3})\.[\s\u00a0]*(?=\D)")  # "• tea" or "1. tea"
#: The maximum length of a paragraph before an indentation that counts as a term, as in pages from DocBook.
_MAX_TERM_CHARACTERS = 200


@dataclass(slots=True)
class ManualItem:
    """A list item: its terms, or, if it has none, its marker (``-`` or a number)."""

    terms: list[str]
    marker: str = "-"
    blocks: list[MarkdownBlock] = field(default_factory=list)

    def to_list_item(self) -> ListItem:
        """Return the item with its terms before the text of its first paragraph, or in a paragraph of their own."""
        term = ", ".join(filter(None, self.terms))
        if not term:
            return ListItem(self.marker, self.blocks or [MarkdownBlock("paragraph", "")])
        if self.blocks and self.blocks[0].kind == "paragraph":
            text = self.blocks[0].text.removeprefix("\\")  # after the term, no escape is needed
            term_block = MarkdownBlock("paragraph", f"{term.removesuffix(':')}: {text}")
            return ListItem(self.marker, [term_block, *self.blocks[1:]])
        return ListItem(self.marker, [MarkdownBlock("paragraph", term), *self.blocks])


@dataclass(slots=True)
class IndentLevel:
    """The content of one indentation level: blocks, and an unfinished list after them.
    ``mdoc_list_type`` is the type of an mdoc list, such as ``tag``; ``rows`` are the rows of a ``column`` list. If
    ``is_list_ending``, the next block does not belong to the list, unless it is a term.
    """

    blocks: list[MarkdownBlock] = field(default_factory=list)
    items: list[ManualItem] = field(default_factory=list)
    is_list_ending: bool = False
    mdoc_list_type: str = ""
    rows: list[list[str]] = field(default_factory=list)

    def add_blocks(self, *blocks: MarkdownBlock) -> None:
        """Add blocks to the last item or, if the list is ending or has no item, end the list and add them after it."""
        if self.items and not self.is_list_ending:
            self.items[-1].blocks += blocks
        else:
            self.close_list()
            self.blocks += blocks

    def open_item(self, item: ManualItem) -> None:
        """Begin an item of the list. A numbered item after one that is not numbered, or the reverse, begins a new list.

        Terms are not numbered; like bullets, they have the marker ``-``.
        """
        if self.items and (self.items[-1].marker == "-") != (item.marker == "-"):  # only one of them is numbered
            self.close_list()
        self.is_list_ending = False
        self.items.append(item)

    def close_list(self) -> None:
        """End the unfinished list and add it to the blocks, if it has items."""
        if self.items:
            self.blocks.append(make_list([item.to_list_item() for item in self.items]))
        self.items = []
        self.is_list_ending = False


def make_item(term: str) -> ManualItem:
    """Return a new list item for ``term``, the argument of a macro such as ``.IP``.

    A bullet or a number becomes the marker of the item; any other text is its term.
    """
    if term in _BULLETS:
        return ManualItem([])
    number_match = _NUMBER_PATTERN.fullmatch(term)
    if number_match is not None and number_match[1].isdigit():
        return ManualItem([], f"{number_match[1]}.")
    return ManualItem([term])


def _is_term(text: str) -> bool:
    """True if a paragraph before an indentation is a term: it is short and not a sentence."""
    return len(text) <= _MAX_TERM_CHARACTERS and (text.endswith("...") or not text.endswith((".", "!", "?", ":", ";")))


class ManualBlocks:
    """The blocks of a page. ``_levels`` are the open levels, outermost first, ``_code_lines`` the lines of the open
    code block (None outside code), and ``_running_text`` is the open paragraph. A macro can set ``_next_line_handler``,
    which receives the next line instead of the paragraph.
    """

    def __init__(self, roff: RoffInterpreter) -> None:
        """Create a page without blocks; ``roff`` renders the escapes of the text."""
        self._roff = roff
        self._description = ""  # the first paragraph of the section NAME
        self._in_name_section = False
        self._levels = [IndentLevel()]  # the open levels, outermost first
        self._num_excess_levels = 0  # the number of open levels beyond the maximum depth
        self._running_text = RunningText()
        self._next_line_handler: Callable[[str], None] | None = None  # receives the next line instead of the paragraph
        self._is_continued = False  # True if the last line ended with \c
        self._code_lines: list[str] | None = None  # of the open code block
        self._reference_parts: list[str] | None = None  # of the open bibliographic reference

    def finish_blocks(self) -> list[MarkdownBlock]:
        """End all open lists, paragraphs and code blocks, and return the Markdown blocks of the page in order."""
        self._finish_code()
        self._flush_paragraph()
        while len(self._levels) > 1:
            self._close_level()
        self._levels[0].close_list()
        return self._levels[0].blocks

    def _add_source(self, source: str) -> None:
        """Add ``source``, a line with roff escapes, to the open code block, bibliographic reference or paragraph.

        A blank line ends the paragraph. If a macro waits for this line, such as ``.TP`` for its term, the line goes to
        the ``_next_line_handler``.
        """
        text = self._roff.render_text(source)
        is_continued = source.endswith("\\c")  # the next line continues the last word of this one
        if self._code_lines is not None:
            code_line = text.replace("\u00a0", " ").expandtabs().rstrip()
            if self._is_continued and self._code_lines:
                self._code_lines[-1] += code_line
            else:
                self._code_lines.append(code_line)
            self._is_continued = is_continued
            return
        if not text.strip():
            if not source.strip():
                self._flush_paragraph()
            return
        if self._next_line_handler is not None:
            handle_line, self._next_line_handler = self._next_line_handler, None
            handle_line(collapse_whitespace(text))
            return
        if source[0] == " ":
            self._running_text.break_line()
        if self._reference_parts is not None:
            self._reference_parts.append(collapse_whitespace(text))
            return
        self._running_text.add(text.replace("\u00a0", " ").strip(), join_before=self._is_continued)
        self._is_continued = is_continued and not text[-1].isspace()

    def _add_text(self, text: str, ending: str = "") -> None:
        """Add a line of text whose backslashes are literal; ``ending`` is a roff escape to add at its end."""
        self._add_source(text.replace("\\", "\\e") + ending)

    def _flush_paragraph(self) -> None:
        """Add the text so far to the blocks as a paragraph, unless it is empty.

        The first paragraph of the section NAME is also the description.
        """
        text = self._running_text.take_text()
        self._is_continued = False
        if text:
            if self._in_name_section and not self._description:
                self._description = collapse_whitespace(text)
            self._levels[-1].add_blocks(make_paragraph(text))

    def _finish_code(self) -> None:
        """End the open code block and add it to the blocks, if it is not empty."""
        code_lines, self._code_lines = self._code_lines, None
        if code_lines and any(code_lines):
            self._levels[-1].add_blocks(make_code_block("\n".join(code_lines).strip("\n")))

    def _finish_open_text(self) -> None:
        """End the open code block and paragraph before an item.

        Also cancels a pending heading or term, whose text would be the next line (as after ``.TP``).
        """
        self._finish_code()
        self._flush_paragraph()
        self._next_line_handler = None

    def _indent(self, macro_args: str) -> None:
        """Handle the macro ``.RS``, whose arguments are ignored: open an indentation level.

        If the paragraph before it is short and not a sentence, it becomes a term, and the level its definition.
        """
        was_code = self._code_lines is not None
        self._finish_code()
        if len(self._levels) > MAX_LIST_DEPTH:  # too deep: only count the level, so that .RE can end it
            self._flush_paragraph()
            self._num_excess_levels += 1
            return
        level = self._levels[-1]
        text_before = self._running_text.take_text()
        is_outside_list = level.is_list_ending or not level.items
        begins_definition = is_outside_list and "\n\n" not in text_before and _is_term(text_before)
        if text_before and begins_definition:
            level.open_item(make_item(collapse_whitespace(text_before.replace("\n", ", "))))
        else:
            if text_before:
                level.add_blocks(make_paragraph(text_before))
            if is_outside_list:
                level.close_list()
        self._levels.append(IndentLevel())
        if was_code:  # the code continues on the new level
            self._code_lines = []

    def _unindent(self, macro_args: str) -> None:
        """Handle the macro ``.RE``: end the level that the last ``.RS`` opened; an open code block continues after it.

        A level beyond the maximum depth was only counted, so its end only lowers the count. If no level is open, or the
        innermost one is an mdoc list, only the paragraph ends.
        """
        was_code = self._code_lines is not None
        self._finish_code()
        self._flush_paragraph()
        if self._num_excess_levels:
            self._num_excess_levels -= 1
        elif len(self._levels) > 1 and not self._levels[-1].mdoc_list_type:
            self._close_level()
        if was_code:
            self._code_lines = []

    def _close_level(self) -> None:
        """Close the innermost level of indentation and add its Markdown blocks to its parent.

        If the first paragraph begins with a bullet or a number, the blocks become an item of the parent.
        """
        self._flush_paragraph()
        level = self._levels.pop()
        level.close_list()
        if level.rows:
            level.blocks.append(make_table(level.rows[0], level.rows[1:]))
        parent = self._levels[-1]
        first_text = level.blocks[0].text if level.blocks and level.blocks[0].kind == "paragraph" else ""
        bullet = _LEADING_BULLET_PATTERN.match(first_text)
        if bullet:
            parent.open_item(ManualItem([], f"{bullet['number']}." if bullet["number"] else "-"))
            level.blocks[0] = MarkdownBlock("paragraph", first_text[bullet.end() :])
            parent.add_blocks(*level.blocks)
            parent.is_list_ending = True
        else:
            parent.add_blocks(*level.blocks)
