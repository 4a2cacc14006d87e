"""Snippets (quotable sentences, items, rows) of plain text. A *term* is a name that the text defines: a line above
deeper lines (``FILES``), a first column (``-v   Print more.``), or words before a colon. A *lead-in* ends with a colon.
*Parts* of a paragraph are titles, terms, items or other lines.

In: a text. Out: its snippets and the headings between them, in order.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, pairwise
from typing import NamedTuple

from ..text.blocks import Block, is_lead_in, parse_blocks
from ..text.everyday_words import VERB, get_part_of_speech
from ..text.name_words import MONTHS
from ..text.patterns import compile_lazily
from ..text.sentences import split_sentences
from ..text.words import FUNCTION_WORDS, WORD_PATTERN
from .block_kinds import COLUMNS, FIELD_PATTERN, LINE_LIST, RULE_PATTERN, find_block_kind
from .inline_rendering import render_inline
from .snippets import (
    PassageBlock,
    Snippet,
    SnippetHeading,
    iter_release_snippets,
    split_code,
    split_prose,
)

#: The name before a colon: of a field, of a speaker before a turn, or of a term before its definition.
FIELD_OR_SPEAKER_PATTERN = compile_lazily(r"(?P<term>[A-Z][\w.'’-]*(?: [A-Z][\w.'’-]*){0,4})\s?:\s+(?=\S)")
#: The first column of a line, separated from its definition by white space; the number of a clause is no term.
_COLUMN_TERM_PATTERN = compile_lazily(r"(?!\d{1,3}[.)] )(?P<term>\S+(?: \S+){0,5}?) {2,}(?=\S)")
_SHELL_PROMPT_PATTERN = compile_lazily(r"[$#%>]\s+\S")
SENTENCE_END_PATTERN = compile_lazily(r"[.!?…:;。।۔؟！？][\"'”’)\]*`~]*\Z")
#: The end of a sentence, at the end of a line or after a word in lower case, which is not an abbreviation.
_SENTENCE_PATTERN = compile_lazily(rf"{SENTENCE_END_PATTERN.pattern}|(?<=[^\W\d_A-Z]{{3}})[.!?] +(?=[^\W_])")
#: The maximum size of a line that is a term above its definition: in words unless it is an option, and in characters.
_MAX_TERM_WORDS, _MAX_TERM_LINE = 6, 72
#: The maximum length of a term in the first column, in characters.
_MAX_COLUMN_TERM = 40
#: The number of an item: "5 Rents", "1.2. Rents", "§ 7 Rents".
_ITEM_NUMBER = r"(?P<prefix>(?:§ ?)?(?:\d{1,3}\.)*)(?P<number>\d{1,3})[.)]? +"
_NUMBERED_ITEM_PATTERN = compile_lazily(rf"^[ \t]*{_ITEM_NUMBER}(?=[^\W\d_a-z])", re.MULTILINE)
#: A number with a title of a few words, and the start of the sentence after it: "5 Rents. The board …". An article
#: after the first word shows an imperative. And the function words that a title in English can have.
_RUN_IN_HEADING_PATTERN = compile_lazily(
    rf"{_ITEM_NUMBER}"
    r"(?P<title>[^\W\d_a-z][^\s.!?:;,]*(?! (?:an?|the) )(?: [^\s.!?:;,]+){0,7})\. +(?=[^\W_a-z])"
)
_TITLE_WORDS = frozenset("a about against an and at between by for from in of on the to with without".split())
#: The markers at the start of an item of a list, by kind: bullets, numbers, numbers of clauses, dates, letters, names
#: of fields, and numbers with a title. Lines are items if the paragraph has several with a marker of the same kind.
_ITEM_PATTERNS_BY_KIND = (
    compile_lazily(r"[-*•–]\s+\S"),
    compile_lazily(r"\d{1,3}[.)]\s+\S"),
    compile_lazily(r"(?:§\s?)?\d{1,3}(?:\.\d{1,3})+\.?\s+\S"),
    compile_lazily(r"(?:\d{1,2}[./]\d{1,2}(?:[./](?:\d{4}|\d\d)?)?|\d{4}-\d\d-\d\d):?\s+\S"),
    compile_lazily(r"\(?[a-z]\)\s+\S|\([ivx\d]{1,4}\)\s+\S"),
    compile_lazily(r"[^\W\d_a-z][^\n:.!?]{0,40}: \S"),
    _RUN_IN_HEADING_PATTERN,
)
#: A noun with a number at the start of a line, such as "Bed 4", and a name after it.
_NUMBERED_NOUN_PATTERN = compile_lazily(
    r"(?P<term>(?P<noun>[A-Z][^\W\d_]+) \d{1,4}\b(?:  ?[A-Z][\w.'’-]*){0,3})(?![.\w])"
)
#: The markers of lists with bullets or numbers.
_LIST_ITEM_PATTERNS = (*_ITEM_PATTERNS_BY_KIND[:2], _NUMBERED_NOUN_PATTERN)
#: The number before the title of a section.
_SECTION_NUMBER_PATTERN = compile_lazily(r"(?:§\s?)?\d{1,3}[.)]?\s+[^\W\d_]")
#: A line that is a title if it is in capitals, perhaps with a number before it: "3. HOW TO PAY".
_CAPITALS_PATTERN = compile_lazily(r"(?:\d{1,3}(?:\.\d{1,3})*[.)]?\s+)?(?!\S*\d)\S{3,}(?: \S+)*")
#: The maximum number of words of a paragraph of one line that is a heading.
_MAX_HEADING_WORDS = 8


class PlainTextSplitter:
    """Splits a text into snippets and headings. It remembers the term and the lead-in above the next paragraph."""

    def __init__(self, text: str, language: str | None, heading: str) -> None:
        """Split a text into blocks, such as paragraphs and headings.

        ``language`` decides where sentences end (None: the rules for English). ``heading`` is the heading of the
        section of which the text is a part; a first line with these words is not a sentence.
        """
        self._text = text
        self._language = language
        blocks = _split_off_heading(text, parse_blocks(text, "text"), heading)
        self._blocks = list(chain.from_iterable(_split_at_rules(text, block) for block in blocks))
        #: The term or heading above the block, and its indentation.
        self._term, self._term_indent = "", 0
        #: The indentation of a lead-in right before the block.
        self._lead_in_indent: int | None = None

    def split(self, starts_mid_line: bool) -> Iterator[Snippet | SnippetHeading]:
        """Yield the snippets and headings of the text in order; a heading with a version and its date is both.

        ``starts_mid_line`` is True if the text begins in the middle of a line.
        """
        for block_index, block in enumerate(self._blocks):
            if block.kind == "heading" and not block.title.endswith("?"):  # a question is displayed with its answer
                self._term, self._term_indent, self._lead_in_indent = "", 0, None
                yield SnippetHeading(block.title)
                block_span = PassageBlock(self._text, block.start, block.end, block_index)
                yield from iter_release_snippets(block.title, block_span)
            else:
                yield from self._split_block(block_index, starts_mid_line and block_index == 0)

    def _split_block(self, block_index: int, starts_mid_line: bool) -> Iterator[Snippet | SnippetHeading]:
        """Yield the snippets and headings of the block at ``block_index``.

        The block is code, a bill, a list or a paragraph of sentences. Also updates the term and the lead-in that the
        next block can depend on.
        """
        text, start, end = self._text, self._blocks[block_index].start, self._blocks[block_index].end
        block = PassageBlock(text, start, end, block_index)
        paragraph = block.content
        indent = start - (text.rfind("\n", 0, start) + 1)
        if indent <= self._term_indent:  # a definition is indented more than its term
            self._term = ""
        if self._lead_in_indent is not None and indent > self._lead_in_indent and _is_code(paragraph):
            yield from split_code(block)
            return
        self._lead_in_indent = None
        kind = find_block_kind(paragraph)
        if kind is None and _is_lone_field(text, self._blocks, block_index):
            kind = LINE_LIST
        if kind is not None:
            self._term = "" if kind.ends_definition else self._term
            yield from kind.split(block)
            return
        for part in _split_paragraph(text, start, end, indent, starts_mid_line):
            yield from self._split_part(part, block_index)

    def _split_part(self, part: _ParagraphPart, block_index: int) -> Iterator[Snippet | SnippetHeading]:
        """Yield the snippets of a part of a paragraph, or the part itself if it is a heading.

        Yields nothing for a line that is a term above its definition. Such a term becomes the label of later snippets.
        """
        part_span = PassageBlock(self._text, part.start, part.end, block_index)
        piece = part_span.content
        is_indented_option = part.indent > 0 and piece.startswith("-")  # such as "-V", which is a term
        # A heading in capitals opens a section; any other is a term that indented text defines.
        is_heading = part.is_heading_or_term and piece.upper() == piece and not is_indented_option
        if part.is_title or is_heading:
            self._term, self._term_indent = "", 0
            yield SnippetHeading(render_inline(piece))
            return
        if part.is_heading_or_term:
            self._term, self._term_indent = render_inline(piece), part.indent
            return
        own_term = self._find_own_term(part, piece)
        label = own_term or (self._term if part.indent > self._term_indent else "")
        run_in_heading = _RUN_IN_HEADING_PATTERN.match(piece)
        if run_in_heading is not None and self._is_numbered_title(run_in_heading):
            own_term, label = "", render_inline(run_in_heading[0].rstrip(". "))
            part_span = part_span._replace(start=part.start + run_in_heading.end())
            piece = part_span.content
        kind = find_block_kind("\n".join(map(str.strip, piece.splitlines()))) if "\n" in piece else None
        if kind is not None:
            for snippet in kind.split(part_span):
                snippet.label = snippet.term = label
                yield snippet
            return
        introduces_next = is_lead_in(piece)
        self._lead_in_indent = part.indent if introduces_next else None
        for snippet in split_prose(
            part_span,
            kind="item" if part.is_item else "prose",
            term=label,
            language=self._language,
            has_own_term=bool(own_term),
            introduces_next=introduces_next,
        ):
            field = FIELD_OR_SPEAKER_PATTERN.match(snippet.text) if own_term else None
            label = field["term"] if field else label  # "Eyes: Rinse. Skin: Wash."
            yield replace(snippet, label="" if field or not snippet.label else label, term=label)

    def _is_numbered_title(self, match: re.Match[str]) -> bool:
        """True if a number and a few words, before a period, are the title of an item in English.

        The text must have an item with the number before or after it: "3 Eggs." and "10 Downing Street." are no titles.
        """
        if self._language not in (None, "english") or not _is_title(match["title"]):
            return False
        _, title_end = next(split_sentences(match.string[match.start("title") :]))  # "Mr." does not end a title
        is_complete = title_end == len(match["title"]) + 1
        neighbors = {(match["prefix"], f"{int(match['number']) + step}") for step in (-1, 1)}
        return is_complete and not neighbors.isdisjoint(self._item_numbers)

    @cached_property
    def _item_numbers(self) -> Collection[tuple[str, str]]:
        """The prefixes and numbers of all numbered items of the text: ("1.", "2") of "1.2. Rents"."""
        return set(_NUMBERED_ITEM_PATTERN.findall(self._text))

    def _find_own_term(self, part: _ParagraphPart, text: str) -> str:
        """Return the term at the start of a part of a paragraph; empty if it has none. ``text`` is the part's text.

        The term is the first column, the thing with a number (bed 4) that the part is about or, before a colon, the
        name of a field or speaker. A first column is remembered, because deeper lines below it continue its definition.
        """
        column_match = _COLUMN_TERM_PATTERN.match(text) if part.has_term_column else None
        if column_match:
            self._term, self._term_indent = render_inline(column_match["term"]), part.indent
            return column_match["term"]
        match = FIELD_OR_SPEAKER_PATTERN.match(text)
        if match is None and part.is_item:
            match = _NUMBERED_NOUN_PATTERN.match(text)
        return render_inline(match["term"]) if match else ""


def _is_title(text: str) -> bool:
    """True if a few words are a title in English, such as "Opening of the hall", and no sentence: they have no verb."""
    words = text.lower().split()
    if any(month in words for month in MONTHS):  # "24 December"
        return False
    has_verb = any(get_part_of_speech(word) == VERB and not word.endswith("ing") for word in words)
    return not has_verb and (FUNCTION_WORDS - _TITLE_WORDS).isdisjoint(words)


def _split_off_heading(text: str, text_blocks: Sequence[Block], heading: str) -> list[Block]:
    """Return the blocks of a text; a first line that is the ``heading`` of its section becomes a separate block.

    Such a line was parsed as prose, because only the other paragraphs of the document show that it is a heading.
    """
    if not (heading and text_blocks) or text_blocks[0].kind == "heading":
        return list(text_blocks)
    start, end = text_blocks[0].start, text_blocks[0].end
    line = text[start:end].partition("\n")[0]
    if " ".join(line.split()) != heading:
        return list(text_blocks)
    line_end = start + len(line)
    body = text[line_end:end].lstrip()
    body_blocks = [Block("prose", end - len(body), end)] if body else []
    return [Block(kind="heading", start=start, end=line_end, level=1, title=heading), *body_blocks, *text_blocks[1:]]


def _split_at_rules(text: str, block: Block) -> Iterator[Block]:
    """Yield the parts of a block between its lines of dashes or similar marks, or the block itself if it has none.

    A rule below the header of a table does not split it.
    """
    if block.kind == "heading":
        yield block
        return
    lines = _list_lines(text, block.start, block.end)
    rules = [index for index, line in enumerate(lines) if RULE_PATTERN.fullmatch(text, line.start, line.end)]
    for before, rule, after in list(zip([-1, *rules], rules, [*rules[1:], len(lines)], strict=False)):
        is_below_first_line = rule == before + 2 and rule + 1 < after  # and other lines follow
        if is_below_first_line and COLUMNS.matches(text[lines[before + 1].start : lines[after - 1].end].splitlines()):
            rules.remove(rule)
    for before, after in pairwise([-1, *rules, len(lines)]):
        if after - before > 1:
            yield replace(block, start=lines[before + 1].start, end=lines[after - 1].end)


def _is_lone_field(text: str, text_blocks: Sequence[Block], block_index: int) -> bool:
    """True if the block at ``block_index`` is a single field: a line of a name and a value (``Alarm code: 4711``).

    A line above an indented block is a term with its definition instead. The first block of the text is a title
    instead, unless its value has a digit or the next block is a field.
    """
    block = text_blocks[block_index]
    field = FIELD_PATTERN.fullmatch(text, block.start, block.end)
    if field is None:
        return False
    if block_index + 1 == len(text_blocks):
        return True
    next_block = text_blocks[block_index + 1]
    is_next_indented = text[text.rfind("\n", 0, next_block.start) + 1 : next_block.start].isspace()
    is_title = (
        block_index == 0
        and not any(map(str.isdigit, field["value"]))
        and FIELD_PATTERN.fullmatch(text, next_block.start, next_block.end) is None
    )
    return not is_next_indented and not is_title


def _is_code(paragraph: str) -> bool:
    """True if a paragraph is a command or code.

    It begins with a shell prompt, or has neither a function word nor punctuation at its end.
    """
    if _SHELL_PROMPT_PATTERN.match(paragraph):
        return True
    has_function_word = not FUNCTION_WORDS.isdisjoint(WORD_PATTERN.findall(paragraph.lower()))
    return not has_function_word and SENTENCE_END_PATTERN.search(paragraph.rstrip()) is None


class _ParagraphPart(NamedTuple):
    """A part of a paragraph, at characters ``start`` to ``end`` of the text, with its indentation.

    ``is_heading_or_term`` is True for a line that is a heading, or a term above its definition. ``has_term_column`` is
    True if its first column is a term, and its second the definition (``-v   Print more.``). ``is_title`` is True for
    the title of a list below it, such as the clauses of a contract. ``is_item`` is True for an item of a list with
    bullets or numbers, also of a noun ("Bed 4").
    """

    start: int
    end: int
    indent: int
    is_heading_or_term: bool = False
    has_term_column: bool = False
    is_title: bool = False
    is_item: bool = False


class _Line(NamedTuple):
    """A line: its text without indentation, with its character offsets, and the width of the indentation."""

    text: str
    start: int
    end: int
    indent: int


def _split_paragraph(text: str, start: int, end: int, indent: int, starts_mid_line: bool) -> Iterator[_ParagraphPart]:
    """Yield the parts of the paragraph ``text[start:end]``: titles, terms, items of lists, and runs of other lines.

    A term is a line above its indented definition, or the first column of a line with the definition next to it.
    A paragraph of one short line can be a heading. ``indent`` is the number of characters before the paragraph in its
    first line. If ``starts_mid_line`` is True, the first line is assumed to be indented like the second.
    """
    lines = _list_lines(text, start - indent, end)
    if starts_mid_line and len(lines) > 1:
        lines[0] = lines[0]._replace(indent=lines[1].indent)
    item_lines = _find_item_lines(lines)
    widths = sorted(len(line.text) for line in lines)
    # One long line, such as a web address, says nothing about the width of the others.
    max_width = widths[-2 if len(widths) > 3 else -1] if widths else 0
    # The index of the first line of the next part, and the minimum indentation of the lines below a term.
    first, min_indent = 0, 0
    while first < len(lines):
        line = lines[first]
        if _is_title_line(lines, first, item_lines, max_width):
            yield _ParagraphPart(line.start, line.end, line.indent, is_title=True)
            first, min_indent = first + 1, 0
            continue
        if _is_term_line(lines, first):
            yield _ParagraphPart(line.start, line.end, line.indent, is_heading_or_term=True)
            first, min_indent = first + 1, line.indent + 1
            continue
        has_term_column = _has_term_column(lines, first)
        # A field such as "Present: …" ends with its line, unless the line is wrapped.
        has_name = FIELD_OR_SPEAKER_PATTERN.match(line.text) is not None
        if has_name and _is_unwrapped(lines, first, max_width):
            stop = first + 1
        else:
            min_next_indent = line.indent + 1 if has_term_column else min_indent
            stop = _find_part_end(lines, first, item_lines, min_next_indent, max_width)
        is_heading = len(line.text.split()) <= _MAX_HEADING_WORDS and not _SENTENCE_PATTERN.search(line.text)
        yield _ParagraphPart(
            line.start,
            lines[stop - 1].end,
            line.indent,
            is_heading_or_term=len(lines) == 1 and is_heading and not has_term_column,
            has_term_column=has_term_column,
            is_item=first in item_lines and any(pattern.match(line.text) for pattern in _LIST_ITEM_PATTERNS),
        )
        first = stop


def _find_part_end(
    lines: Sequence[_Line], first: int, item_lines: Collection[int], min_next_indent: int, max_width: int
) -> int:
    """Return the index after the last line of the part of a paragraph that begins at the line ``first``.

    The part ends before the next item of a list, title, term above its definition, or line with a term in its first
    column. It also ends before a line that is indented by less than ``min_next_indent`` characters, and before one that
    opens an entry and is not indented more than ``first``. It ends before lines of columns that follow a sentence, and
    after lines of columns. ``item_lines`` are the indexes of the first lines of items, and ``max_width`` is the width
    of the lines in characters.
    """
    for index in range(first + 1, len(lines)):
        if lines[index].indent < min_next_indent or index in item_lines:
            return index
        opens_entry = lines[index].indent <= lines[first].indent and _opens_entry(lines, index, max_width)
        if opens_entry or _is_title_line(lines, index, item_lines, max_width):
            return index
        if _is_term_line(lines, index) or _has_term_column(lines, index):
            return index
        has_gap, previous_has_gap = ("  " in line.text for line in (lines[index], lines[index - 1]))
        if has_gap and not previous_has_gap and SENTENCE_END_PATTERN.search(lines[index - 1].text):
            return index
        if previous_has_gap and not has_gap and COLUMNS.matches([line.text for line in lines[first:index]]):
            return index
    return len(lines)


def _opens_entry(lines: Sequence[_Line], index: int, max_width: int) -> bool:
    """True if the line at ``index`` does not continue the one before it, as in notes with one thing on each line.

    It begins with a capital or a digit. The line before it was not wrapped, is not in capitals, and ends within a
    sentence, but not with a comma or a function word.
    """
    before, line = lines[index - 1].text, lines[index].text
    if SENTENCE_END_PATTERN.search(before) or before.endswith(tuple(",-–—，、")) or before.isupper():
        return False
    has_start = line[:1].isupper() or line[:1].isdigit()
    ends_with_content = before.rpartition(" ")[2].lower() not in FUNCTION_WORDS
    return has_start and ends_with_content and _is_unwrapped(lines, index - 1, max_width)


def _list_lines(text: str, start: int, end: int) -> list[_Line]:
    """Return the lines of ``text[start:end]``, which begins at the start of a line."""
    lines: list[_Line] = []
    for raw_line in text[start:end].splitlines(keepends=True):
        indent = len(raw_line) - len(raw_line.lstrip())
        lines.append(_Line(raw_line.strip(), start + indent, start + len(raw_line.rstrip()), indent))
        start += len(raw_line)
    return lines


def _find_item_lines(lines: Sequence[_Line]) -> set[int]:
    """Return the indexes of the lines of a paragraph that begin an item of a list.

    At least two lines must have the same kind of marker, for example a number ("1.") or a date, or the same noun with a
    number ("Bed 4").
    """
    lines_by_marker: dict[tuple[int, str], set[int]] = defaultdict(set)
    for index, line in enumerate(lines):
        for kind, pattern in enumerate((*_ITEM_PATTERNS_BY_KIND, _NUMBERED_NOUN_PATTERN)):
            match = pattern.match(line.text)
            if match is not None:
                lines_by_marker[kind, match.groupdict().get("noun", "")].add(index)
    return set().union(*(indexes for indexes in lines_by_marker.values() if len(indexes) > 1))


def _is_title_line(lines: Sequence[_Line], index: int, item_lines: Collection[int], max_width: int) -> bool:
    """True if the line at ``index`` is the title of the lines below it, such as "3. Payment" in a contract.

    A title has a few words and no punctuation at its end. It is in capitals, which the next line is not, or it is the
    first line of the paragraph, above a list. Or it begins with a number, is not wrapped, and is above an item or a
    line that begins with a capital or a digit. ``item_lines`` are the indexes of the lines that begin an item, and
    ``max_width`` is the width of the lines in characters.
    """
    if index + 1 == len(lines):
        return False
    line, next_line = lines[index].text, lines[index + 1].text
    has_title_form = len(line.split()) <= _MAX_HEADING_WORDS and not (
        SENTENCE_END_PATTERN.search(line) or line.endswith((",", "，", "、"))
    )
    is_in_capitals = line.isupper() and not next_line.isupper() and _CAPITALS_PATTERN.fullmatch(line)
    if has_title_form and is_in_capitals and len(lines) > 2:
        return True
    if not has_title_form or (index and index not in item_lines) or lines[index + 1].indent != lines[index].indent:
        return False
    if index == 0 and 1 in item_lines and 0 not in item_lines:  # above a list
        return True
    if not _SECTION_NUMBER_PATTERN.match(line) or _SECTION_NUMBER_PATTERN.match(next_line):
        return False
    is_unwrapped = _is_unwrapped(lines, index, max_width)
    return is_unwrapped and (index + 1 in item_lines or next_line[:1].isupper() or next_line[:1].isdigit())


def _is_unwrapped(lines: Sequence[_Line], index: int, max_width: int) -> bool:
    """True if the line at ``index`` was not wrapped: the first word of the next line would fit on it.

    ``max_width`` is the assumed maximum length of a line in characters. False for the last line.
    """
    if index + 1 == len(lines):
        return False
    next_word = lines[index + 1].text.partition(" ")[0]
    return len(lines[index].text) + 1 + len(next_word) < max_width


def _is_term_line(lines: Sequence[_Line], index: int) -> bool:
    """True if the line at ``index`` can be a term above its definition, or a heading.

    It has few words or is an option (``-v``), and the next line is indented by at least two more characters. It does
    not end with a period, comma or semicolon, and its definition does not begin in a second column.
    """
    line = lines[index]
    is_next_indented = index + 1 < len(lines) and lines[index + 1].indent >= line.indent + 2
    if not is_next_indented or len(line.text) > _MAX_TERM_LINE:
        return False
    has_few_words = line.text.startswith("-") or len(line.text.split()) <= _MAX_TERM_WORDS
    is_sentence = line.text.endswith((".", ",", ";", "。", "।", "۔", "，", "、", "；"))
    return has_few_words and not is_sentence and not _has_term_column(lines, index)


def _has_term_column(lines: Sequence[_Line], index: int) -> bool:
    """True if the line at ``index`` has a term in its first column and the start of its definition in the second."""
    line = lines[index]
    column = _COLUMN_TERM_PATTERN.match(line.text)
    if column is None or len(column["term"]) > _MAX_COLUMN_TERM:
        return False
    if index + 1 < len(lines) and lines[index + 1].indent > line.indent:
        return lines[index + 1].indent == line.indent + column.end()
    # Justified text also has wide gaps between words. Without an indented line below, only an option such as -v is
    # certainly a term, and only at the start of a paragraph or below another option.
    return column["term"].startswith("-") and (index == 0 or _has_term_column(lines, index - 1))
