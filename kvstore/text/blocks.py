"""The blocks of a text: headings, paragraphs (*prose*), list items, tables and code, with their spans in characters. A
*chunk* is a stored piece of a text, which can begin and end inside a block. A *lead-in* ends with a colon. A *fence* is
a line of backticks or tildes that opens or closes code.

In: plain text (paragraphs, some of which :mod:`.find_plain_headings` recognizes as headings) or CommonMark with tables;
lines end with ``\\n``. Out: :class:`Block` spans in characters, in order, that together contain everything but blank
lines. Any string is valid input.

A chunk can begin and end inside a block; :func:`split_chunk_blocks` returns its blocks and parts of blocks. In stored
Markdown, code is fenced, with a blank line before the opening fence. A table consists of lines that begin with ``|``,
its header first and the rule ``| --- |`` second. An entry of a definition or option list is an item ``- term:
definition``, or ``- term:`` with the blocks of the definition indented below. An admonition is a paragraph ``Note: …``,
a footnote a paragraph ``[1] …``, and a caption a paragraph next to its table, code or image.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING

from ..process.frozen_dataclass import frozen_dataclass
from .patterns import compile_lazily
from .plain_headings import find_plain_headings

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_BLANK_LINES_PATTERN = compile_lazily(r"\n\s*\n")
#: The maximum length of a summary sentence.
_MAX_SENTENCE_WORDS, _MAX_SENTENCE_CHARACTERS = 60, 600
#: A link or an image: its text and its target (CommonMark 0.31, sections 6.3 and 6.4), on one line.
_LINK_PATTERN = compile_lazily(
    r"""!?(?<![\w\])])\[([^\[\]\n]*)\](?:\((?:<[^<>\n]*>|(?:[^()\s]|\([^()\s]*\))*)(?:\s+["'][^"'\n]*["'])?\)|\[[^\[\]\n]*\])"""
)
#: A link of a wiki or of a vault of notes: its target, and its text if that differs.
_WIKI_LINK_PATTERN = compile_lazily(r"!?\[\[(?:[^\[\]|\n]+\|)?([^\s\[\]|](?:[^\[\]|\n]*[^\s\[\]|])?)\]\]")
#: Struck-out text (GitHub Markdown 0.29, 6.5), with the space before it if no word follows it directly.
_STRUCK_SOURCE = r"(?<![\\~])(?:\s~~(?![\s~])[^~]+(?<!\s)~~(?![\w~])|~~(?![\s~])[^~]+(?<!\s)~~(?!~))"
_STRUCK_PATTERN = compile_lazily(_STRUCK_SOURCE)
_CODE_OR_STRUCK_PATTERN = compile_lazily(rf"(?<!`)(?P<ticks>`{{1,2}})(?!`)[^`\n]+(?P=ticks)(?!`)|{_STRUCK_SOURCE}")
#: Words in braces between spaces, as transcripts mark sounds that are not words.
_SOUND_ANNOTATION_PATTERN = compile_lazily(r"(?<!\S)(?:\{[a-z]+\})+(?=[\s.,;:!?)]|\Z)")
_DELIMITER_PATTERN = compile_lazily(r"(?<!\\)[*`]+|\\(?=[^\w\s])")


@frozen_dataclass
class Block:
    """One block: ``kind`` is heading, prose, item, table or code.

    A heading has a ``level`` and a plain ``title``. The first paragraph of a list item has them too; its level is the
    depth of the list (1: the outermost). The following blocks of the item have only the level.
    """

    kind: str
    start: int
    end: int
    level: int = 0
    title: str = ""


@frozen_dataclass
class ChunkBlock:
    """A block of a chunk's text, or the rest of one that the chunk cuts, with its span in characters of that text.

    ``kind`` is heading, prose, item, table or code. ``level`` is the level of a heading or the depth of an item (1: the
    outermost). ``term_end`` is the end of the term of an item ``term: definition``, or ``start`` without one.
    ``introduces_next`` is True if the end of the block introduces the next block, which cannot be understood without
    it. ``continues`` is True for a table or code that begins in an earlier chunk.
    """

    kind: str
    start: int
    end: int
    level: int = 0
    term_end: int = 0
    introduces_next: bool = False
    continues: bool = False


_FENCE_PATTERN = compile_lazily(r"\s*(?:> ?)*(`{3,}|~{3,})(?P<language>[^`]*)$")
_HEADING_PATTERN = compile_lazily(r" {0,3}(#{1,6})(?:\s|$)")
#: The line under a heading of one line (CommonMark 0.31, section 4.3).
_UNDERLINE_PATTERN = compile_lazily(r" {0,3}(?P<mark>=+|-{2,})\s*$")
_NUMBERING_PATTERN = compile_lazily(
    r"(?:(?i:chapter|appendix|part|section)\s+(?:\d+|[IVXLC]+|[A-Z])(?:\.\d+)*(?:[.:]|\s*[—–-])"
    r"|(?:[A-Z]\.)?(?:\d+\.)+|\d+(?:\.\d+){2,})\s+(?=\S)"
)
_ITEM_PATTERN = compile_lazily(r"(\s*)(?:[-*+]|\d{1,9}[.)])\s+(?=\S)")
_ROW_PATTERN = compile_lazily(r"\s*\|")
_TABLE_RULE_PATTERN = compile_lazily(r"\s*\|(?:\s*:?-+:?\s*\|)+\s*$")
#: The start of a line of unfenced code (CommonMark 0.31, section 4.4) outside a list.
_CODE_INDENTS = ("    ", "\t")
_TERM_PATTERN = compile_lazily(r"[^\n]{1,200}?(?=:(?:\s|$))")
_SENTENCE_END_PATTERN = compile_lazily(r"[.!?]\s")
#: The start of an entry of a list or option list: up to its colon, dash, parameters or value.
_ENTRY_PATTERN = compile_lazily(
    r"^[ \t]*(?:(?:[-*+•]|\d{1,9}[.)])[ \t]+"
    r"(?P<term>(?:[^\n:(=]|:(?!\s)|(?<!\w)\(){1,160}?)(?=(?<=\w)\(|=|:\s|:$| [–—-] )"
    r"|(?P<option>-{1,2}[\w?@#][^\n]{0,100}?)(?=[ \t]{2,}|$))",
    re.MULTILINE,
)
_MAX_TERM_WORDS = 12
#: A question of a list of questions and answers without headings; it is bold in Markdown.
_BOLD_QUESTION_PATTERN = compile_lazily(r"(\*\*|__)(?P<title>[^*_\n]{2,300}\?)\1")
#: The level of the section that such a question opens: below all heading levels.
_QUESTION_LEVEL = 6


def find_entry_terms(text: str) -> list[str]:
    """Return the terms at the start of list entries, in order: defined terms, names of functions, command options.

    >>> text = "- `-v`, `--verbose`: Print more.\\n- build(endpoint, values=None): A URL.\\n  -q, --quiet  Less."
    >>> find_entry_terms(text)
    ['`-v`, `--verbose`', 'build', '-q, --quiet']
    """
    return [match["term"] or match["option"] for match in _ENTRY_PATTERN.finditer(text)]


def is_lead_in(text: str) -> bool:
    """True if a text ends with a colon, and so introduces the next block. Emphasis delimiters can follow the colon."""
    return text.rstrip().rstrip("*`_ ").endswith((":", "："))


def split_chunk_blocks(text: str, format: str = "markdown") -> list[ChunkBlock]:
    """Split a chunk's text into blocks: headings, paragraphs, list items, tables and code, in order.

    The chunk can begin and end inside a block; its first and last block are then only parts of blocks. ``format`` is
    the format of the chunk's document, ``text`` or ``markdown``.

    >>> [(block.kind, block.introduces_next) for block in split_chunk_blocks("Ask it:\\n\\n```sh\\nls\\n```")]
    [('prose', True), ('code', False)]
    """
    if format == "markdown":
        blocks = _MarkdownSplitter(text).split()
    else:  # headings are prose here, and plain text has no terms
        blocks = [ChunkBlock("prose", block.start, block.end, term_end=block.start) for block in _iter_paragraphs(text)]
    for index, (block, next_block) in enumerate(pairwise(blocks)):
        # A paragraph or item introduces code or a table and, after a colon, any other block except a heading.
        if block.kind not in ("prose", "item") or next_block.kind == "heading":
            continue
        if next_block.kind in ("code", "table") or is_lead_in(text[block.start : block.end]):
            blocks[index] = replace(block, introduces_next=True)
    return blocks


class _MarkdownSplitter:
    """Divides a chunk of Markdown into blocks, line by line. The *open block* is the one that is being read.

    A chunk can begin inside a block, which a CommonMark parser would misread.
    """

    def __init__(self, text: str) -> None:
        """Prepare to split ``text``, the Markdown of a chunk. No block, code fence or list is open yet."""
        self._text = text
        self._blocks: list[ChunkBlock] = []
        #: The fields of the open block; the kind is empty if none is open.
        self._kind, self._start, self._end, self._level, self._continues = "", 0, 0, 0, False
        #: The delimiter of the open code fence, or an empty string.
        self._fence = ""
        #: The depth of the last list item, or 0 outside a list.
        self._depth = 0
        #: True if the last block to begin was not indented.
        self._is_unindented = False

    def split(self) -> list[ChunkBlock]:
        """Return the blocks in order, with ``introduces_next`` not set yet. It can be called only once."""
        lines = self._text.splitlines(keepends=True)
        position = 0
        for line, next_line in zip_longest(lines, lines[1:], fillvalue=""):
            start, end = position + len(line) - len(line.lstrip()), position + len(line.rstrip())
            self._add_line(line, next_line, position, start, end)
            position += len(line)
        self._close_block()
        return self._blocks

    def _open_block(self, kind: str, start: int, level: int = 0, continues: bool = False) -> None:
        """Begin a block at the offset ``start``; the other arguments are its fields. The caller must set its end."""
        self._kind, self._start, self._level, self._continues = kind, start, level, continues

    def _close_block(self) -> None:
        """Append the open block, if any, to the finished blocks."""
        if self._kind:
            # The term of a list item "- term: definition".
            marker = _ITEM_PATTERN.match(self._text, self._start, self._end) if self._kind == "item" else None
            term = None if marker is None else _TERM_PATTERN.match(self._text, marker.end(), self._end)
            if term and (len(term[0].split()) > _MAX_TERM_WORDS or _SENTENCE_END_PATTERN.search(term[0])):
                term = None
            term_end = self._start if term is None else term.end()
            self._blocks.append(
                ChunkBlock(self._kind, self._start, self._end, self._level, term_end, continues=self._continues)
            )
        self._kind = ""

    def _add_line(self, line: str, next_line: str, position: int, start: int, end: int) -> None:
        """Add a line to the open block, or close that block and begin a new one with the line.

        ``position`` is the offset of the line; ``start`` and ``end`` are its span without white space at its ends.
        ``next_line`` is the line below it, empty for the last line. If the line is a fence that can only close code,
        all lines so far are code, which began in an earlier chunk.
        """
        fence = _FENCE_PATTERN.match(line.rstrip())
        can_close = fence is not None and not fence["language"].strip()
        is_indented = line.startswith(_CODE_INDENTS)
        if self._fence:
            self._end = end
            if fence is not None and can_close and fence[1].startswith(self._fence):
                self._close_block()
                self._fence = ""
        elif can_close and self._kind in ("prose", "item"):
            # The fence closes code that begins in an earlier chunk, so all lines so far are code.
            self._blocks = [ChunkBlock("code", 0, end, continues=True)]
            self._kind = ""
        elif end < start:  # a blank line
            self._close_block()
        elif self._kind == "code" and is_indented:  # code without a fence
            self._end = end
        else:
            if self._kind == "code":
                self._close_block()
            self._add_text_line(line, next_line, position, start, end, fence)

    def _add_text_line(
        self, line: str, next_line: str, position: int, start: int, end: int, fence: re.Match[str] | None
    ) -> None:
        """Add a line that is not inside code to the open block, or begin a new block with it.

        ``position`` is the offset of the line; ``start`` and ``end`` are its span without white space at its ends.
        ``next_line`` is the line below it. ``fence`` is the match of a code fence that the line begins, or None.
        """
        item, row, title = _ITEM_PATTERN.match(line), _ROW_PATTERN.match(line), _HEADING_PATTERN.match(line)
        is_indented = line.startswith(_CODE_INDENTS)
        follows_unindented = not self._kind and self._is_unindented and not self._depth
        if is_indented and follows_unindented and not (fence or item or row):
            # Unfenced code after a block that is not indented; inside a list, indentation continues an item.
            self._open_block("code", start)
            self._end = end
            return
        underline = _UNDERLINE_PATTERN.match(line) if self._kind == "prose" else None
        if underline is not None and "\n" not in self._text[self._start : self._end]:
            # It makes the line above it a heading.
            self._kind, self._end, self._depth = "heading", end, 0
            self._level = 1 if underline["mark"][0] == "=" else 2
            self._close_block()
            return
        opens_block = bool(fence or row or item or title)
        continues_table = row is not None and self._kind == "table"
        # A line without a marker of its own continues prose or an item.
        continues_text = not opens_block and self._kind not in ("", "table", "heading")
        if not (continues_table or continues_text):
            self._close_block()
            self._is_unindented = not is_indented
            if fence is not None:
                self._open_block("code", start)
                self._fence = fence[1]
            elif row is not None:
                # Without the rule below its first row, the table begins in an earlier chunk.
                self._open_block("table", start, continues=_TABLE_RULE_PATTERN.match(next_line) is None)
            elif title is not None:
                self._open_block("heading", start, level=len(title[1]))
                self._depth = 0
            elif item is not None:
                self._depth = 1 + len(item[1]) // 2  # two spaces of indentation are a level
                self._open_block("item", start, level=self._depth)
            elif self._depth and line[:1].isspace():  # a later block of an item
                self._open_block("item", start, level=min(self._depth, max(1, (start - position) // 2)))
            else:
                self._open_block("prose", start)
                self._depth = 0
        self._end = end


def strip_numbering(title: str) -> str:
    """Return a heading without a prefix such as ``Chapter 5.``, ``5.4.5.`` or ``E.1.``."""
    number = _NUMBERING_PATTERN.match(title)
    return title if number is None else title[number.end() :]


def skip_marker(text: str, start: int, end: int) -> int:
    """Return the offset of a list item's content after its marker (``- ``, ``1. ``), or ``start`` without a marker.

    ``start`` and ``end`` are the span of the item in ``text``.
    """
    marker = _ITEM_PATTERN.match(text, start, end)
    return start if marker is None else marker.end()


def to_plain_text(text: str) -> str:
    """Return a piece of Markdown on one line, without the delimiters of emphasis and code spans.

    The backslashes of escapes are removed too.
    """
    has_delimiters = "*" in text or "`" in text or "\\" in text  # few texts have them
    return " ".join((_DELIMITER_PATTERN.sub("", text) if has_delimiters else text).split())


def unwrap_links(text: str) -> str:
    """Return a piece of Markdown with each link, wiki link and image replaced by its text.

    A wiki link (``[[target|text]]``) without a text is replaced by its target.

    >>> unwrap_links("[Code of Conduct](CODE.md#top), [notes][1], [[Waste]], [[people/Kees#Van|Kees]] and [[ -f x ]]")
    'Code of Conduct, notes, Waste, Kees and [[ -f x ]]'
    """
    if "[[" in text:
        text = _WIKI_LINK_PATTERN.sub(r"\1", text)
    if "](" not in text and "][" not in text:
        return text
    return _LINK_PATTERN.sub(r"\1", _LINK_PATTERN.sub(r"\1", text))  # a link can contain an image


def remove_struck_text(text: str) -> str:
    """Return a piece of Markdown without code, without its struck-out text: what is between the marks ``~~``."""
    return _STRUCK_PATTERN.sub("", text)


def blank_struck_text(text: str) -> str:
    """Return a piece of Markdown with a space for each character of struck-out text, so that offsets stay the same.

    >>> blank_struck_text("Pay ~~half~~, not `~~all~~`.")
    'Pay         , not `~~all~~`.'
    """
    if "~~" not in text:
        return text
    return _CODE_OR_STRUCK_PATTERN.sub(
        lambda match: match.group() if match["ticks"] else " " * len(match.group()), text
    )


def replace_sound_annotations(text: str) -> str:
    """Return a transcript with each sound annotation, such as ``{vocalsound}``, replaced by a space.

    >>> replace_sound_annotations("Well {pause} see /alerts/{id} {laugh}.")
    'Well   see /alerts/{id}  .'
    """
    return _SOUND_ANNOTATION_PATTERN.sub(" ", text) if "{" in text else text


def format_summary_sentence(text: str) -> str:
    """Return a sentence without Markdown delimiters for a summary, truncated to 60 words and 600 characters."""
    words = to_plain_text(text).split(" ")
    return " ".join(words[:_MAX_SENTENCE_WORDS])[:_MAX_SENTENCE_CHARACTERS]


def parse_blocks(text: str, format: str) -> list[Block]:
    """Return the blocks of a whole text, in order. ``format`` is ``text`` or ``markdown``."""
    if format == "markdown":
        return _parse_markdown(text)
    return list(_iter_paragraphs(text))


def _iter_paragraphs(text: str) -> Iterator[Block]:
    """Yield the headings and paragraphs of a plain text, in order."""
    spans: list[tuple[int, int]] = []
    start = 0
    for end in [*(match.start() for match in _BLANK_LINES_PATTERN.finditer(text)), len(text)]:
        piece = text[start:end]
        if piece.strip():
            paragraph_start = start + len(piece) - len(piece.lstrip())
            spans.append((paragraph_start, paragraph_start + len(piece.strip())))
        start = end
    for (body_start, end), heading in zip(spans, find_plain_headings(text, spans), strict=True):
        if heading is not None:
            yield Block("heading", heading.start, heading.end, heading.level, " ".join(heading.title.split()))
            body_start = heading.body_start
        body = text[body_start:end]
        if body.strip():
            yield Block("prose", end - len(body.lstrip()), end)


@lru_cache(maxsize=1)
def _get_parser() -> MarkdownIt:
    """Return the Markdown parser. The first call imports and builds it."""
    from markdown_it import MarkdownIt

    # Inline rules are not needed, only the blocks and their lines.
    return MarkdownIt("commonmark").enable("table").disable(["inline", "reference"])


_LEAF_KINDS = {"fence": "code", "code_block": "code", "table_open": "table", "html_block": "prose"}


def _parse_markdown(text: str) -> list[Block]:
    """Return the blocks of a Markdown text, with a heading for each question in bold outside a list."""
    line_starts = [0]
    for line in text.split("\n"):
        line_starts.append(line_starts[-1] + len(line) + 1)
    line_starts[-1] = len(text)
    blocks: list[Block] = []
    tokens = _get_parser().parse(text)
    index = 0
    item_depth = 0
    while index < len(tokens):
        token = tokens[index]  # the token after the opening of a heading or paragraph has its content
        item_depth += token.nesting if token.type.startswith("list_item") else 0
        opens_item = index > 0 and tokens[index - 1].type == "list_item_open"
        is_paragraph = token.type == "paragraph_open"
        content = tokens[index + 1].content.strip() if is_paragraph else ""
        leaf_kind = _LEAF_KINDS.get(token.type)  # of code, a table or HTML
        if token.type == "heading_open":
            blocks.append(_build_heading(tokens[index : index + 2], line_starts))
        elif is_paragraph and not item_depth and _BOLD_QUESTION_PATTERN.fullmatch(content):
            title = to_plain_text(unwrap_links(content))
            blocks += _make_blocks(text, token, line_starts, "heading", _QUESTION_LEVEL, title)
        elif is_paragraph or leaf_kind is not None:
            # Only the first paragraph of an item has a title.
            title = to_plain_text(unwrap_links(content)) if opens_item else ""
            kind = leaf_kind or ("item" if item_depth else "prose")
            blocks += _make_blocks(text, token, line_starts, kind, item_depth, title)
        if token.type == "table_open":  # skip the tokens of its rows
            while tokens[index].type != "table_close":
                index += 1
        index += 1
    return _fill_gaps(text, blocks)


def _fill_gaps(text: str, blocks: list[Block]) -> list[Block]:
    """Return the blocks and, for any other text between them, such as rules and empty items, a prose block."""
    all_blocks: list[Block] = []
    position = 0
    for block in [*blocks, Block("end", len(text), len(text))]:  # the added block only ends the last gap
        gap = text[position : block.start]
        if gap.strip():
            start = position + len(gap) - len(gap.lstrip())
            all_blocks.append(Block("prose", start, start + len(gap.strip())))
        all_blocks.append(block)
        position = max(position, block.end)
    return all_blocks[:-1]


def _make_blocks(
    text: str, token: Token, line_starts: list[int], kind: str, level: int = 0, title: str = ""
) -> list[Block]:
    """Return the block that a Markdown token begins, in a list; the list is empty if the lines of the token are blank.

    ``line_starts`` has the offset of each line of ``text``. ``kind``, ``level`` and ``title`` are fields of the block.
    """
    start, end = _get_span(token, line_starts)
    lines = text[start:end]
    start += len(lines) - len(lines.lstrip())
    return [Block(kind, start, start + len(lines.strip()), level, title)] if lines.strip() else []


def _get_span(token: Token, line_starts: list[int]) -> tuple[int, int]:
    """Return the start and end offset of the lines of a token, given the offset of each line of the text."""
    assert token.map is not None  # its first line, and the line after its last
    last = len(line_starts) - 1
    start, end = (line_starts[min(line, last)] for line in token.map)
    return start, end


def _build_heading(tokens: list[Token], line_starts: list[int]) -> Block:
    """Return the block of a heading, given its opening token and its inline token.

    ``line_starts`` has the offset of each line of the text. The title has no struck-out text, unless all of it is.
    """
    opening, inline = tokens
    start, end = _get_span(opening, line_starts)
    level = int(opening.tag[1])  # "h2"
    title = unwrap_links(inline.content)
    return Block("heading", start, end, level, to_plain_text(blank_struck_text(title)) or to_plain_text(title))
