"""Snippets of Markdown text, block by block.

In: a text. Out: its snippets and the headings between them, in order. The code of a configuration file is split into
its settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..text.blocks import ChunkBlock, is_lead_in, split_chunk_blocks
from ..text.patterns import compile_lazily
from .block_kinds import find_block_kind
from .inline_rendering import render_inline, strip_item_marker
from .settings_snippets import split_settings
from .snippets import (
    PassageBlock,
    Snippet,
    SnippetHeading,
    iter_release_snippets,
    split_code,
    split_fields,
    split_prose,
    split_table,
)

#: A sentence in bold that opens a paragraph or an item, as its heading.
_RUN_IN_HEADING_PATTERN = compile_lazily(
    r"(?:(?:[-*+•]|\d+[.)])[ \t]+)?\*\*(?P<title>[^*\n]{1,80}?)(?:[.!]\*\*|\*\*\.)\s+(?=\S)"
)
#: A term, and its definition on the line below.
_DEFINITION_PATTERN = compile_lazily(r"(?P<term>[^\n]{1,80}?)[ \t]*\n {0,3}:[ \t]+\S")
#: Lines of Markdown that define the targets of links, and show nothing.
LINK_DEFINITIONS_PATTERN = compile_lazily(r"(?:[ \t]*\[[^\]\n]+\]:[ \t]+\S[^\n]*(?:\n|\Z))+")


def split_markdown(
    text: str, language: str | None, header_row: str = "", settings_before: str | None = None
) -> Iterator[Snippet | SnippetHeading]:
    """Yield the snippets and headings of a Markdown text, in order.

    ``language`` decides where sentences end (None: the rules for English). ``header_row`` is the header of the table in
    which the text begins, if it begins in one. If the text is part of a configuration file, ``settings_before`` is the
    text of the section before it (None: it is part of another file).
    """
    term, term_level = "", 0  # the term that is being defined, and the depth of its item
    blocks = split_chunk_blocks(text)
    for block_index, block in enumerate(blocks):
        block_span = PassageBlock(text, block.start, block.end, block_index)
        block_kind = find_block_kind(block_span.content) if block.kind == "prose" else None
        if block.kind == "heading":
            term = ""
            title, _, _ = block_span.content.partition("\n")  # without an underline
            heading = render_inline(title).lstrip("# ")
            yield SnippetHeading(heading)
            yield from iter_release_snippets(heading, block_span)
        elif LINK_DEFINITIONS_PATTERN.fullmatch(text, block.start, block.end):
            continue
        elif block.kind == "code" and settings_before is not None:
            yield from split_settings(block_span, settings_before)
        elif block.kind == "code":
            yield from split_code(block_span)
        elif block.kind == "table":
            first_row = header_row if block_index == 0 else ""
            yield from split_table(block_span, first_row if block.continues else None)
        elif block_kind is not None:
            yield from block_kind.split(block_span)
        else:
            own_term, heading_end = _find_own_term(text, block)
            if heading_end is not None:
                block_span = block_span._replace(start=heading_end)
            content = block_span.content
            has_marker = strip_item_marker(content) != content
            opens_item = has_marker and block.level <= term_level
            # A paragraph, another term, or an item that is not below the term ends the definition.
            if block.kind != "item" or own_term or opens_item:
                term, term_level = own_term, block.level
            introduces_next = block.introduces_next and not _precedes_separate_table(
                block, blocks[block_index + 1 :], content
            )
            for field in split_fields(block_span):
                label = term if field.start == block_span.start else ""
                yield from split_prose(
                    field,
                    kind=block.kind,
                    term=label,
                    language=language,
                    has_own_term=bool(own_term and label and heading_end is None),
                    introduces_next=introduces_next and field.end == block.end,
                )


def _precedes_separate_table(block: ChunkBlock, following: Sequence[ChunkBlock], content: str) -> bool:
    """True if a block is an item of a list above a table that is not part of the item.

    ``following`` are the blocks after it. A table belongs to an item only if the text of the item (``content``) is a
    lead-in.
    """
    is_above_table = bool(following) and following[0].kind == "table"
    return block.kind == "item" and is_above_table and not is_lead_in(content)


def _find_own_term(text: str, block: ChunkBlock) -> tuple[str, int | None]:
    """Return the term that a paragraph or item defines, and the offset in ``text`` at which its run-in heading ends.

    The term is empty if the block defines none. A run-in heading is a sentence in bold at the beginning, which is the
    term of the rest; the offset is None without such a heading.
    """
    start, end = block.start, block.end
    run_in_heading = _RUN_IN_HEADING_PATTERN.match(text, start, end)
    if run_in_heading is not None:
        return render_inline(run_in_heading["title"]), run_in_heading.end()
    term = render_inline(strip_item_marker(text[start : block.term_end])) if block.term_end > start else ""
    if not term:
        definition = _DEFINITION_PATTERN.match(text, start, end)
        term = "" if definition is None else render_inline(definition["term"])
    return term, None
