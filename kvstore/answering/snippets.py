"""Snippets: the pieces of a passage (text around retrieved chunks) that an answer can quote. A snippet is a sentence,
list item, table row or a few lines of code. A *block* is a paragraph, list item, table or code. A *term* is what a
block defines. A *lead-in* introduces the next block.

In: a text and the span of a block in it. Out: :class:`Snippet` objects: a sentence of a paragraph or an item, a row of
a table, a few lines of code, or an entry of a list of lines. Offsets are in characters of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise, zip_longest
from typing import NamedTuple

from ..retrieval.evidence import Hit
from ..text.blocks import blank_struck_text, skip_marker
from ..text.patterns import compile_lazily
from ..text.sentences import split_sentences
from ..text.words import count_written_words, is_unspaced
from .answer_types import AnswerType
from .inline_rendering import IMAGE_PATTERN, QUOTE_PATTERN, render_inline, strip_item_marker
from .releases import Release, parse_release

#: The maximum number of words displayed of a snippet.
_MAX_SNIPPET_WORDS = 90
#: The number of characters that count as a word in writing without spaces, as in ``count_written_words``.
_CHARACTERS_PER_UNSPACED_WORD = 2
_FENCE_PATTERN = compile_lazily(r"^[ >]*(?:```|~~~).*$\n?", re.MULTILINE)
_BLANK_QUOTE_PATTERN = compile_lazily(r"^[ \t]*>[> \t]*$", re.MULTILINE)
#: The start of an item of a list in a quoted mail.
_QUOTED_ITEM_PATTERN = compile_lazily(r"^[ \t]*>[> \t]*[-*+•][ \t]+(?=\S)", re.MULTILINE)
#: The name of a field, which can be bold, at the start of its line.
_FIELD_NAME_PATTERN = compile_lazily(r"^(?:\*\*)?[^\W\d_a-z][^\n:.!?*]{0,40}(?::\*\*|\*\*:|:) +\S", re.MULTILINE)
#: A question in bold that opens a paragraph, as in a list of questions and answers.
_BOLD_QUESTION_PATTERN = compile_lazily(r"\*\*[^*\n]{1,200}\?\*\*(?!\w)")
TABLE_RULE_PATTERN = compile_lazily(r"[\s|:+=-]*")
_ANY_LINE_PATTERN = compile_lazily("")
#: The time at the start of a chat message, log entry or line of a transcript, with or without a date before it.
TIMESTAMP_PATTERN = compile_lazily(
    r"[\[(]?(?:[A-Z][a-z]{2},? )?(?:\d[\d./-]*\d\.?(?:T|,? +)|[A-Z][a-z]{2} {1,2}\d{1,2} +(?:\d{4} +)?)?"
    r"\d{1,2}:\d\d(?::\d\d)?(?!\d)"
)
#: The rest of an entry after its time, if it asks something. Chat messages often lack the question mark.
_QUESTION_ENTRY_PATTERN = compile_lazily(
    r".*\?\W*\Z"
    r"|[^:\n]{0,60}: (?:who|whose|what|which|where|when|why|how|(?:(?:has|does|did|is|can) )?any(?:one|body))\b",
    re.IGNORECASE | re.DOTALL,
)
#: A sentence that only says yes or no, and needs the sentence after it.
_SHORT_ANSWER_PATTERN = compile_lazily(r"(?:yes|no|ja|nein|nee|nej|oui|non|sí|sì|sim|não|да|нет)[.!]", re.IGNORECASE)
#: The maximum number of words of a list item whose sentences are one statement.
_MAX_ITEM_WORDS = 24
#: A field of a mail, as its reader writes it: the sender or the date.
MAIL_FIELD_PATTERN = compile_lazily(
    r"From: (?P<sender>[^@\n]{1,200}@.{1,200})|Date: (?P<date>\w{3}, \d{1,2} \w{3} \d{4} [\d:]{5,8} [+-]\d{4})"
)
#: The answer types of the questions that such a field can answer, and words of other questions that it can answer.
_MAIL_FIELD_TYPES = frozenset(("person", "time", "e-mail address"))
_MAIL_FIELD_WORDS = frozenset("date sender send sent write wrote written mail email".split())
#: Words of a question for the recipient of a mail, which no field states, and words of one for its sender.
_RECIPIENT_WORDS = frozenset("addressed addressee bcc cc copied receive received receives recipient recipients".split())
_SENDER_WORDS = frozenset("from sender send sends sent write wrote written".split())
#: The maximum number of lines in one piece of code.
_MAX_CODE_LINES = 8


@dataclass(slots=True)
class Snippet:
    """One snippet: characters ``start`` to ``end`` of its passage, and its displayed ``text``.

    ``kind`` is prose, item, table or code. ``num_words`` is its length.
    """

    start: int
    end: int
    text: str
    kind: str
    #: The number of its block in the passage, and of its section, which is the text between two headings.
    block_index: int
    section: int = 0
    #: The term, speaker or header row of the snippet if its own text lacks it; and the term in any case.
    label: str = ""
    term: str = ""
    #: True if it cannot be understood without the snippet before it, or without the name of its subject.
    needs_previous: bool = False
    needs_subject: bool = False
    is_lead_in: bool = False
    #: True if an answer can quote it by itself.
    is_selectable: bool = True
    is_question: bool = False
    #: The heading above it, or a question that opens its paragraph.
    heading: str = ""
    #: The caption above the table of the row, or the line above a quoted mail with its author.
    caption: str = ""
    #: The cells of a row without the names of its columns, if it has such names.
    cell_text: str = ""
    #: The names of the columns in which a row has no value.
    empty_columns: str = ""
    #: The hit that has its first character (None if no hit has it), and the number of the hit's chunk.
    hit: Hit | None = None
    ordinal: int = 0
    num_words: int = 0
    #: The release that it dates if it is a heading of a changelog.
    release: Release | None = None

    @property
    def refers_back(self) -> bool:
        """True if it cannot be understood without the snippet before it, or without the name of its subject."""
        return self.needs_previous or self.needs_subject

    @property
    def labeled_text(self) -> str:
        """The text after the label of the snippet (its term, speaker or header row), if it has one."""
        return f"{self.label.removesuffix(':')}: {self.text}" if self.label else self.text

    @property
    def scored_text(self) -> str:
        """The text to compare with a question, also with the words in its cells (``unit price`` for ``unit_price``)."""
        return f"{self.labeled_text} {self.cell_text}"


class PassageBlock(NamedTuple):
    """A block of a passage, such as a paragraph or a table: characters ``start`` to ``end`` of ``text``.

    ``block_index`` is its number in the passage, which its snippets record.
    """

    text: str
    start: int
    end: int
    block_index: int

    @property
    def content(self) -> str:
        """The text of the block alone."""
        return self.text[self.start : self.end]


class SnippetHeading(NamedTuple):
    """A heading between snippets."""

    title: str


def split_fields(block: PassageBlock) -> Iterator[PassageBlock]:
    """Yield the fields (``Name: value``) of a paragraph, or the whole paragraph if it has fewer than two.

    >>> text = "**Chair:** Ruth\\n**Minutes:** Ines"
    >>> [field.content for field in split_fields(PassageBlock(text, 0, len(text), 0))]
    ['**Chair:** Ruth', '**Minutes:** Ines']
    """
    text, start, end, _ = block
    starts = [match.start() for match in _FIELD_NAME_PATTERN.finditer(text, start, end)]
    starts = sorted({start, *starts}) if len(starts) > 1 else [start]
    for field_start, next_start in zip(starts, [*starts[1:], end], strict=True):
        yield block._replace(start=field_start, end=field_start + len(text[field_start:next_start].rstrip()))


def split_prose(
    block: PassageBlock, kind: str, term: str, language: str | None, *, has_own_term: bool, introduces_next: bool
) -> Iterator[Snippet]:
    """Yield the sentences of a paragraph or a list item as snippets. ``kind`` is ``prose`` or ``item``.

    ``term`` is the term that the block defines, or empty. It becomes the ``term`` of each snippet, and also the
    ``label`` that is displayed before it, except before the first sentence if this contains it (``has_own_term``).
    ``introduces_next`` is True if the last sentence is a lead-in to the next block. ``language`` decides where
    sentences end (None: the rules for English). A list item in a quoted mail has the kind ``item`` in any case.
    """
    text, start, end, block_index = block
    content_start = skip_marker(text, start, end) if kind == "item" else start  # "1." is not a sentence
    content = blank_struck_text(text[content_start:end])
    if "![" in content:  # the description of an image can have several sentences
        content = IMAGE_PATTERN.sub(_blank_out, content)
    if "\n>" in content:  # a quotation of several paragraphs is one block
        content = _BLANK_QUOTE_PATTERN.sub(_blank_out, content)
    spans = _split_statements(content, language, can_be_one=kind == "item" and not term)
    for index, (sentence_start, sentence_end) in enumerate(spans):
        # The first snippet includes the marker of an item.
        snippet_start = start if index == 0 else content_start + sentence_start
        snippet_end = content_start + sentence_end
        displayed_text = strip_item_marker(render_inline(text[snippet_start:snippet_end]))
        if displayed_text:
            is_quoted_item = _QUOTED_ITEM_PATTERN.match(text, snippet_start, snippet_end) is not None
            yield Snippet(
                start=snippet_start,
                end=snippet_end,
                text=displayed_text,
                kind="item" if is_quoted_item else kind,
                block_index=block_index,
                label="" if index == 0 and has_own_term else term,
                term=term,
                is_lead_in=introduces_next and snippet_end == end,
            )


def _split_statements(content: str, language: str | None, *, can_be_one: bool) -> list[tuple[int, int]]:
    """Return the spans of the sentences in a paragraph or list item (``content``) that become snippets.

    A question in bold at the beginning is one span, and so is a yes or no with the sentence after it. With
    ``can_be_one``, a few short sentences are one span too. ``language`` decides where sentences end.
    """
    spans = list(split_sentences(content, language))
    question = _BOLD_QUESTION_PATTERN.match(content)
    if question is not None:
        later_spans = [(max(start, question.end()), end) for start, end in spans if end > question.end()]
        spans = [question.span(), *later_spans]
    spans = _join_short_answers(content, list(_split_quoted_items(content, spans)))
    is_one = can_be_one and question is None and len(spans) > 1 and count_written_words(content) <= _MAX_ITEM_WORDS
    if is_one and not any(content[start:end].endswith(("?", "？")) for start, end in spans):
        return [(spans[0][0], spans[-1][1])]
    return spans


def _split_quoted_items(content: str, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the spans of sentences in ``content``, split before items of a list in a quoted mail (``> - milk``)."""
    item_starts = [match.start() for match in _QUOTED_ITEM_PATTERN.finditer(content)]
    for sentence_start, sentence_end in spans:
        inner_starts = [start for start in item_starts if sentence_start < start < sentence_end]
        for start, end in pairwise([sentence_start, *inner_starts, sentence_end]):
            yield start, start + len(content[start:end].rstrip())


def _join_short_answers(content: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans of sentences, with each yes or no joined to the sentence after it.

    >>> _join_short_answers("Yes. Call us first. Done.", [(0, 4), (5, 19), (20, 25)])
    [(0, 19), (20, 25)]
    """
    joined_spans: list[tuple[int, int]] = []
    for index, (start, end) in enumerate(spans):
        if index and _SHORT_ANSWER_PATTERN.fullmatch(content, *spans[index - 1]):
            start, _ = joined_spans.pop()
        joined_spans.append((start, end))
    return joined_spans


def _blank_out(match: re.Match[str]) -> str:
    """Return as many spaces as the match has characters, so that offsets stay the same."""
    return " " * len(match.group())


def split_code(block: PassageBlock) -> Iterator[Snippet]:
    """Yield a block of code in pieces of a few lines, without its fences (the lines of three backticks).

    Code is not selectable as an answer by itself. The first piece needs the snippet before the block, which introduces
    the code.
    """
    lines = _read_code_lines(block)
    margin = min((line.indent for line in lines if line.text.strip()), default=0)
    for index, piece in enumerate(_group_code_lines(lines)):
        yield Snippet(
            start=max(block.start, piece[0].start),
            end=piece[-1].end,
            text="\n".join(line.text[margin:] for line in piece),
            kind="code",
            block_index=block.block_index,
            needs_previous=index == 0,
            is_selectable=False,
        )


class _CodeLine(NamedTuple):
    """A line of code: its span, and its text without the ``>`` of a block quote."""

    start: int
    end: int
    text: str

    @property
    def indent(self) -> int:
        """The number of white space characters at its beginning."""
        return len(self.text) - len(self.text.lstrip())


def _read_code_lines(block: PassageBlock) -> list[_CodeLine]:
    """Return the lines of a block of code, without its fences and without the marks of a block quote around it."""
    text, start, end, _ = block
    line_start = text.rfind("\n", 0, start) + 1
    offset = line_start if text[line_start:start].isspace() else start  # with the indentation of the first line
    raw_lines = text[offset:end].splitlines(keepends=True)
    # Every line of code in a block quote begins with ">"; the block itself can begin after the first one.
    is_quoted = all(QUOTE_PATTERN.match(line) for line in raw_lines[1:] if line.strip())
    lines = []
    for line in raw_lines:
        if not _FENCE_PATTERN.fullmatch(line):
            content = QUOTE_PATTERN.sub("", line.rstrip()) if is_quoted else line.rstrip()
            lines.append(_CodeLine(offset, offset + len(line.rstrip()), content))
        offset += len(line)
    return lines


def _group_code_lines(lines: Sequence[_CodeLine]) -> Iterator[list[_CodeLine]]:
    """Yield the lines of code in pieces of at most ``_MAX_CODE_LINES``, without blank lines.

    A piece has as many whole paragraphs as fit. A longer paragraph is split at a line with the lowest indentation.
    Every piece except the last has at least half of the maximum.
    """
    piece: list[_CodeLine] = []
    for is_blank, group in groupby(lines, key=lambda line: not line.text.strip()):
        paragraph = [] if is_blank else list(group)
        if piece and paragraph and len(piece) + len(paragraph) > _MAX_CODE_LINES:
            yield piece
            piece = []
        piece += paragraph
        while len(piece) > _MAX_CODE_LINES:
            split_points = range(_MAX_CODE_LINES // 2, _MAX_CODE_LINES + 1)
            split_point = min(split_points, key=lambda index: (piece[index].indent, -index))
            yield piece[:split_point]
            piece = piece[split_point:]
    if piece:
        yield piece


def split_table(block: PassageBlock, header_row: str | None = None) -> Iterator[Snippet]:
    """Yield the rows of a Markdown table, or the lines of a bill, as snippets such as ``Item: tea; Price: 3``.

    ``header_row`` has the names of the columns (None: they are in the first row of the block; empty: there are none).
    """
    header = _split_cells(header_row) if header_row else []
    offset = block.start
    for index, line in enumerate(block.content.splitlines(keepends=True)):
        cells = _split_cells(line)
        if index == 0 and header_row is None:
            header = cells
        elif any(cells) and not TABLE_RULE_PATTERN.fullmatch(line):
            # A row can lack its last cells; a row of one cell is rather a title inside the table.
            has_named_cells = any(header) and min(2, len(header)) <= len(cells) <= len(header)
            names = header if has_named_cells else [""] * len(cells)
            fields = [
                f"{name.removesuffix(':')}: {cell}" if name else cell
                for name, cell in zip(names, cells, strict=False)
                if cell
            ]
            if len(fields) == 2 and header and not any(header):  # each row has the name and the value of a property
                fields = [f"{fields[0].removesuffix(':')}: {fields[1]}"]
            # If its first cell is empty, the header lists the things that the rows compare, and not the columns' names.
            named_cells = cells if header and header[0] else []
            identifiers = [cell for cell in named_cells if "_" in cell]  # a question can name them as they are written
            values = " ".join([*(cell.replace("_", " ") for cell in named_cells), *identifiers])
            empty_columns = [name for name, cell in zip_longest(names, cells) if name and not cell]
            yield Snippet(
                start=offset,
                end=offset + len(line.rstrip()),
                text="; ".join(fields),
                kind="table",
                block_index=block.block_index,
                cell_text=values,
                empty_columns=" ".join(empty_columns),
            )
        offset += len(line)


def _split_cells(row: str) -> list[str]:
    """Return the cells of a row of a Markdown table as a reader sees them. An escaped bar is part of a cell."""
    inner = row.strip().replace("\\|", "\0").removeprefix("|").removesuffix("|")
    cells = [render_inline(cell) for cell in inner.split("|")]
    return [cell.replace("\0", "|").strip() for cell in cells]


def split_entries(block: PassageBlock, entry_start: re.Pattern[str] = _ANY_LINE_PATTERN) -> Iterator[Snippet]:
    """Yield the entries of a list, log or chat as snippets. An entry begins with a line that matches ``entry_start``.

    By default, each line is an entry. The kind of the snippets is ``table``, because an entry is displayed on a line of
    its own like a row of a table. ``is_question`` is set if a chat message is a question.
    """
    offset = first = block.start  # of the current line, and of the current entry
    for line in [*block.content.splitlines(keepends=True), ""]:  # the empty line ends the last entry
        if offset > first and (not line or entry_start.match(line)):
            entry = block.text[first:offset]
            displayed_text = strip_item_marker(render_inline(entry.strip()))
            if displayed_text:
                timestamp = TIMESTAMP_PATTERN.match(displayed_text)
                question = timestamp and _QUESTION_ENTRY_PATTERN.match(displayed_text, timestamp.end())
                yield Snippet(
                    start=first,
                    end=first + len(entry.rstrip()),
                    text=displayed_text,
                    kind="table",
                    block_index=block.block_index,
                    is_question=question is not None,
                )
            first = offset
        offset += len(line)


def is_unasked_mail_field(snippet: Snippet, answer_type: AnswerType) -> bool:
    """True if a snippet is the field of a mail with its sender or date, and a question does not ask for either.

    ``answer_type`` has the type and the words of the question. A question for the recipients ("Who was copied?", "To
    whom was it sent?") does not ask for the sender.
    """
    match = MAIL_FIELD_PATTERN.fullmatch(snippet.text)
    if match is None:
        return False
    words = answer_type.words
    asks_for_recipient = not _RECIPIENT_WORDS.isdisjoint(words) and _SENDER_WORDS.isdisjoint(words)
    asks_for_recipient |= {"to", "whom"} <= words and "from" not in words
    if match["sender"] and asks_for_recipient:
        return True
    return answer_type.name not in _MAIL_FIELD_TYPES and _MAIL_FIELD_WORDS.isdisjoint(words)


def iter_release_snippets(heading: str, block: PassageBlock) -> Iterator[Snippet]:
    """Yield one snippet if a heading has a version and its date, which can answer a question about a release.

    ``block`` is the block of the heading. The snippet is displayed like a table row.

    >>> headings = "[2.4.0] - 2026-02-03", "Tern v2.4 (3 May 2026)", "Rules 2.4"
    >>> block = PassageBlock("", 0, 0, 0)
    >>> [snippet.release.date for heading in headings for snippet in iter_release_snippets(heading, block)]
    ['2026-02-03', '3 May 2026']
    """
    release = parse_release(heading)
    if release is not None:
        yield Snippet(
            start=block.start,
            end=block.end,
            text=heading,
            kind="table",
            block_index=block.block_index,
            is_selectable=False,
            num_words=2,  # the version and the date
            release=release,
        )


def truncate_snippet(text: str) -> str:
    """Return the first ``_MAX_SNIPPET_WORDS`` words of a text, with an ellipsis if words are omitted.

    Text in writing without spaces is cut after the usual number of characters of that many words.
    """
    if count_written_words(text) <= _MAX_SNIPPET_WORDS:
        return text
    if is_unspaced(text):
        max_characters = _CHARACTERS_PER_UNSPACED_WORD * _MAX_SNIPPET_WORDS
        return text if len(text) <= max_characters else text[:max_characters] + "…"
    words = text.split(" ")
    return text if len(words) <= _MAX_SNIPPET_WORDS else " ".join(words[:_MAX_SNIPPET_WORDS]) + " …"
