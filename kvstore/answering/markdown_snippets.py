"""Snippets (quotable sentences, list items, table rows, lines of code) of Markdown. A *block* is a heading, paragraph,
list item, table or code. A *term* is what a block defines: ``term: definition``, or a *run-in heading*, a sentence in
bold at its beginning.

In: a text. Out: its snippets and the headings between them, in order. The code of a configuration file is split into
its settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from ..text.blocks import ChunkBlock, is_lead_in, split_chunk_blocks
from ..text.patterns import compile_lazily
from .block_kinds import find_block_kind
from .inline_rendering import render_inline, strip_item_marker
from .settings_snippets import split_settings
from .snippets import (
    TABLE_RULE_PATTERN,
    PassageBlock,
    Snippet,
    SnippetHeading,
    iter_release_snippets,
    split_code,
    split_fields,
    split_prose,
    split_table,
)

_ITEM_MARKER = r"(?:[-*+•]|\d+[.)])[ \t]+"
#: A sentence in bold that opens a paragraph or an item, as its heading.
_RUN_IN_HEADING_PATTERN = compile_lazily(
    rf"(?:{_ITEM_MARKER})?\*\*(?P<title>[^*\n]{{1,80}}?)(?:[.!]\*\*|\*\*\.)\s+(?=\S)"
)
#: The first paragraph of an item if it is only a title in bold or italics.
_ITEM_TITLE_PATTERN = compile_lazily(
    rf"{_ITEM_MARKER}(?P<mark>\*\*?|__?)(?P<title>[^*\n]{{1,80}}?)(?<![.!?:;,])(?P=mark)"
)
#: A term, and its definition on the line below.
_DEFINITION_PATTERN = compile_lazily(r"(?P<term>[^\n]{1,80}?)[ \t]*\n {0,3}:[ \t]+\S")
#: Lines of Markdown that define the targets of links, and show nothing.
LINK_DEFINITIONS_PATTERN = compile_lazily(r"(?:[ \t]*\[[^\]\n]+\]:[ \t]+\S[^\n]*(?:\n|\Z))+")


class MarkdownSnippetSplitter:
    """Splits a Markdown text into snippets and headings. It remembers the term that is being defined."""

    def __init__(self, text: str, language: str | None, section_before: str, *, is_configuration: bool) -> None:
        """Split a text into blocks, such as paragraphs and headings.

        ``language`` decides where sentences end (None: the rules for English). ``section_before`` is the text of the
        section before the passage if this begins in a table, or in a configuration file (``is_configuration``).
        """
        self._text = text
        self._language = language
        self._section_before = section_before
        self._is_configuration = is_configuration
        self._blocks = split_chunk_blocks(text)
        #: The term that is being defined (empty: none), and the nesting level of its list item.
        self._term, self._term_level = "", 0

    def split(self) -> Iterator[Snippet | SnippetHeading]:
        """Yield the snippets and headings of the text, in order; a heading with a version and its date is both.

        Definitions of link targets, which show nothing, are skipped.
        """
        for block_index, block in enumerate(self._blocks):
            block_span = PassageBlock(self._text, block.start, block.end, block_index)
            block_kind = find_block_kind(block_span.content) if block.kind == "prose" else None
            if block.kind == "heading":
                self._term = ""
                title, _, _ = block_span.content.partition("\n")  # without an underline
                heading = render_inline(title).lstrip("# ")
                yield SnippetHeading(heading)
                yield from iter_release_snippets(heading, block_span)
            elif LINK_DEFINITIONS_PATTERN.fullmatch(self._text, block.start, block.end):
                continue
            elif block.kind == "code" and self._is_configuration:
                yield from split_settings(block_span, self._section_before)
            elif block.kind == "code":
                yield from split_code(block_span)
            elif block.kind == "table":
                first_row = _find_table_header(self._section_before) if block_index == 0 else ""
                yield from split_table(block_span, first_row if block.continues else None)
            elif block_kind is not None:
                yield from block_kind.split(block_span)
            else:
                yield from self._split_sentences(block_span)

    def _split_sentences(self, block_span: PassageBlock) -> Iterator[Snippet]:
        """Yield the sentences of a paragraph or list item as snippets, and update the term that is being defined.

        A run-in heading is not a snippet, but the term of the others.
        """
        block = self._blocks[block_span.block_index]
        next_block = (
            self._blocks[block_span.block_index + 1] if block_span.block_index + 1 < len(self._blocks) else None
        )
        own_term, heading_end = _find_own_term(self._text, block, next_block)
        if heading_end is not None:
            block_span = block_span._replace(start=heading_end)
        content = block_span.content
        has_marker = strip_item_marker(content) != content
        opens_item = has_marker and block.level <= self._term_level
        # A paragraph, another term, or an item that is not below the term ends the definition.
        if block.kind != "item" or own_term or opens_item:
            self._term, self._term_level = own_term, block.level
        introduces_next = block.introduces_next
        if block.kind == "item" and introduces_next and next_block is not None and next_block.kind == "table":
            # A table below a list belongs to its last item only after a colon.
            introduces_next = is_lead_in(content)
        for field in split_fields(block_span):
            is_first = field.start == block_span.start
            yield from split_prose(
                field,
                kind=block.kind,
                term=self._term if is_first else "",
                language=self._language,
                # A run-in heading was removed from the text; any other term is still in it.
                has_own_term=is_first and bool(own_term) and heading_end is None,
                introduces_next=introduces_next and field.end == block.end,
            )


def _find_own_term(text: str, block: ChunkBlock, next_block: ChunkBlock | None) -> tuple[str, int | None]:
    """Return the term that a paragraph or item defines, and the offset in ``text`` at which its run-in heading ends.

    The term is empty if the block defines none. The offset is None if the block has no run-in heading. A title alone is
    the run-in heading of an item that continues in ``next_block`` (None: the text ends).
    """
    start, end = block.start, block.end
    run_in_heading = _RUN_IN_HEADING_PATTERN.match(text, start, end)
    if run_in_heading is None and next_block is not None and _continues_item(text, block, next_block):
        run_in_heading = _ITEM_TITLE_PATTERN.fullmatch(text, start, end)
    if run_in_heading is not None:
        return render_inline(run_in_heading["title"]), run_in_heading.end()
    term = render_inline(strip_item_marker(text[start : block.term_end])) if block.term_end > start else ""
    if not term:
        definition = _DEFINITION_PATTERN.match(text, start, end)
        term = "" if definition is None else render_inline(definition["term"])
    return term, None


def _continues_item(text: str, block: ChunkBlock, next_block: ChunkBlock) -> bool:
    """True if ``next_block`` is another paragraph of the item that ``block`` is in, and not a new item."""
    content = text[next_block.start : next_block.end]
    are_items = block.kind == next_block.kind == "item" and block.level == next_block.level
    return are_items and strip_item_marker(content) == content


def _find_table_header(text_before: str) -> str:
    """Return the header row of the Markdown table at the end of a text; empty if there is no table or no header."""
    rows = list(takewhile(lambda line: line.lstrip().startswith("|"), reversed(text_before.splitlines())))
    rows.reverse()
    has_header = len(rows) > 1 and TABLE_RULE_PATTERN.fullmatch(rows[1]) is not None
    return rows[0] if has_header else ""
