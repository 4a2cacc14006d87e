"""Passages: the text around *hits* (retrieved chunks), divided into *snippets*: sentences, list items, table rows,
lines of code. A hit consists of *spans* of stored text. A *block* is a paragraph, list item or table. A *reply* follows
a question in the text. A *lead-in* introduces the next block.

In: hits and their state. Out: one :class:`Passage` for adjacent spans, with the chunks before and after them under the
same heading, so that a sentence can include the one before it even if a chunk begins between them. Headings, synopses,
diagrams and tables of contents are not snippets, because they do not read as answers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, takewhile
from typing import NamedTuple

from ..errors import CorruptionError
from ..retrieval.evidence import Hit, TextSpan
from ..structures.documents.chunks import ChunkRecord
from ..structures.documents.documents import build_heading_path
from ..structures.state import State
from ..text.blocks import parse_blocks, to_plain_text
from ..text.patterns import compile_lazily
from ..text.words import FUNCTION_WORDS, count_written_words, is_unspaced
from .block_kinds import FIELD_PATTERN
from .inline_rendering import render_inline, strip_item_marker
from .markdown_snippets import MarkdownSnippetSplitter
from .plain_text_snippets import FIELD_OR_SPEAKER_PATTERN, SENTENCE_END_PATTERN, PlainTextSplitter
from .settings_snippets import is_configuration_file
from .snippets import TABLE_RULE_PATTERN, Snippet, SnippetHeading

_WORD_PATTERN = compile_lazily(r"\w+")
_SYMBOL_PATTERN = compile_lazily(r"[^\w\s]|_")
#: Words at the start of a sentence that refer to the sentence before it.
_CONNECTIVE_PATTERN = compile_lazily(
    r"""(?:this|that|these|those|such|however|but|and|or|so|therefore|thus|then|hence|also|otherwise|moreover
    |furthermore|instead|likewise|similarly|consequently|accordingly|nevertheless|nonetheless|still|yet|besides
    |conversely|both|here|again|finally|later|afterwards?|meanwhile|additionally|rather|indeed|neither|each
    |the\ (?:former|latter|above|following|same|other|(?:reason|cause)\ (?:is|was|for\ (?:this|that)))
    |as\ (?:a\ result|such|well)
    |in\ (?:addition|contrast|turn|that|this|such|fact|other|particular)|for\ (?:example|instance|this|that|these|those)
    |(?:because\ of|due\ to|at|with|after|by)\ (?:this|that|these)|to\ (?:this|that)\ end|on\ the\ other
    |all\ of\ (?:these|this|them)|none\ of)\b""",
    re.IGNORECASE | re.VERBOSE,
)
#: Words inside a sentence that refer to a list in the sentence before it.
_BACK_REFERENCE_PATTERN = compile_lazily(
    r"\b(?:all|any|both|each|either|most|neither|none|one|some)(?: of)? (?:these|those)\b", re.IGNORECASE
)
#: Pronouns that refer to something named before, at the start of a sentence or after the number of a clause.
_PRONOUN_PATTERN = compile_lazily(
    r"(?:\d{1,3}(?:\.\d{1,3})*\.? +)?(?:he|she|it|they|his|her|its|their|him|them|we|our|i|my)\b", re.IGNORECASE
)
#: Headings of sections that show how something is written, or list other sections.
_SYNOPSIS_HEADINGS = frozenset(("synopsis", "usage", "syntax", "table of contents", "contents", "see also"))
#: The line above a quoted mail, with its date: "On 3 May 2026 at 09:05, Ann Voss wrote:".
_ATTRIBUTION_PATTERN = compile_lazily(r"(?=.*\d{1,2}[:.h]\d\d)(?=.*\d{4}|.*@).{1,200}:", re.DOTALL)
#: The minimum number of words of a readable snippet, and of an item, a sentence, a field or a row with a number.
_MIN_WORDS, _MIN_COMPLETE_WORDS = 3, 2
#: The maximum fraction of symbols in a readable snippet.
_MAX_SYMBOL_FRACTION = 0.35
#: The maximum number of chunks of a section that are read before a table or a configuration for its context.
_MAX_TABLE_CHUNKS = 250
#: The maximum number of words of a heading or caption in a block of its own.
_MAX_CAPTION_WORDS = 12


@dataclass(slots=True)
class Passage:
    """Consecutive snippets of a document, in the order of its text.

    ``text`` begins at byte ``start`` of the document's text. ``is_whole_document`` is True if it has all chunks.
    """

    document: str
    title: str | None
    heading: str
    start: int
    text: str
    is_whole_document: bool
    snippets: list[Snippet] = field(default_factory=list)
    #: The title and the headings above the passage's own heading, outermost first, as a reader sees them.
    plain_title: str = field(init=False)
    parent_headings: list[str] = field(init=False)

    def __post_init__(self) -> None:
        """Convert the title and the parent headings to plain text once, because every snippet is scored with them."""
        self.plain_title = to_plain_text(self.title or "").strip()
        self.parent_headings = [to_plain_text(heading).strip() for heading in self.heading.split(" > ")[:-1]]

    def list_labels(self, index: int) -> list[str]:
        """Return the title, the headings and the caption above the snippet at ``index``, without repetitions.

        Parent headings can be needed to understand a snippet, such as the version in a list of changes.
        """
        snippet = self.snippets[index]
        labels = (self.plain_title, *self.parent_headings, snippet.heading, snippet.caption)
        return list(dict.fromkeys(filter(None, labels)))

    def to_byte_offset(self, offset: int) -> int:
        """Convert a character offset in the passage to a byte offset in the document's text."""
        return self.start + len(self.text[:offset].encode())


def iter_spans(hit: Hit, state: State) -> Iterator[tuple[int, TextSpan]]:
    """Yield a pair for each span of stored text that a hit (a retrieved text) consists of: its chunk id and the span.

    Raises CorruptionError if the document of a span is missing.
    """
    for document, spans in groupby(hit.spans, key=lambda span: span.document):
        record = state.documents.find_by_key(document)
        if record is None:
            raise CorruptionError(f"document {document!r} is missing but has chunks; run CHECK")
        yield from ((record.get_chunk_id(span.ordinal), span) for span in spans)


class _HitSpan(NamedTuple):
    """A retrieved hit, and one of its spans of stored text; a hit can consist of several."""

    hit: Hit
    span: TextSpan


@dataclass(slots=True)
class _ChunkGroup:
    """Adjacent chunks of one section, which become a passage: those with spans of hits, and one before and after them.

    ``first`` and ``last`` are the ids of the first and last chunk. ``section`` is the index of the section.
    """

    document: int
    section: int
    first: int
    last: int
    hit_spans: list[_HitSpan]


def build_passages(hits: Sequence[Hit], state: State) -> list[Passage]:
    """Return the passages around the spans of text that ``hits`` consist of, sorted by the rank of their best hits.

    Adjacent spans under one heading become one passage, with one more chunk before and after them.
    """
    groups: list[_ChunkGroup] = []
    for hit in hits:
        for chunk_id, span in iter_spans(hit, state):
            _add_to_groups(groups, _HitSpan(hit, span), chunk_id, state)
    for group in groups:
        group.hit_spans.sort(key=lambda hit_span: hit_span.hit.rank)
    groups.sort(key=lambda group: group.hit_spans[0].hit.rank)
    return [_build_passage(group, state) for group in groups]


def _add_to_groups(groups: list[_ChunkGroup], hit_span: _HitSpan, chunk_id: int, state: State) -> None:
    """Add a span of a hit, in the chunk ``chunk_id``, to the ``groups`` of adjacent chunks.

    It becomes a new group with the chunks before and after it. Groups that are adjacent to it are merged into it.
    """
    record = state.chunks.get(chunk_id)
    # A passage includes the chunk before and the chunk after each span.
    first, last = (_get_adjacent_chunk(state, record, chunk_id, step) for step in (-1, 1))
    merged = _ChunkGroup(document=record.document, section=record.section, first=first, last=last, hit_spans=[hit_span])
    for group in [group for group in groups if (group.document, group.section) == (merged.document, merged.section)]:
        if merged.first <= group.last + 1 and group.first <= merged.last + 1:
            groups.remove(group)
            merged.first, merged.last = min(merged.first, group.first), max(merged.last, group.last)
            merged.hit_spans += group.hit_spans
    groups.append(merged)


def _get_adjacent_chunk(state: State, record: ChunkRecord, chunk_id: int, step: int) -> int:
    """Return the id of the next (``step`` 1) or previous (-1) chunk if it is in the same section, else ``chunk_id``.

    ``record`` is the record of ``chunk_id``. The ids of a document's chunks are consecutive.
    """
    adjacent_id = chunk_id + step
    adjacent = state.chunks.find(adjacent_id) if adjacent_id >= 0 else None
    is_in_section = adjacent is not None and (adjacent.document, adjacent.section) == (record.document, record.section)
    return adjacent_id if is_in_section else chunk_id


def _build_passage(group: _ChunkGroup, state: State) -> Passage:
    """Return the passage of a group of adjacent chunks, divided into snippets (sentences, list items, table rows).

    Each snippet records the hit that it begins in. A snippet that is the title of the document cannot be selected as an
    answer. If the passage is a whole document without sentences, its paragraphs are the snippets.
    """
    start = state.chunks.get(group.first).start
    record = state.documents.get(group.document)
    text_before_passage, text = _read_with_chunk_before(group, state)
    starts_mid_line = bool(text_before_passage.rpartition("\n")[2].strip())
    heading = " > ".join(build_heading_path(state.documents.get_sections(record.id), group.section))
    is_whole_document = group.last - group.first + 1 == record.chunk_count
    passage = Passage(
        document=record.key,
        title=record.title,
        heading=heading,
        start=start,
        text=text,
        is_whole_document=is_whole_document,
    )
    language = state.find_sentence_language(record.id)
    is_table, is_configuration = text.lstrip().startswith("|"), is_configuration_file(record.key)
    section_before = _read_section_before(group, start, state) if is_table or is_configuration else ""
    passage.snippets = list(
        split_snippets(
            text,
            record.format,
            heading,
            starts_mid_line,
            language,
            header_row=_find_table_header(section_before) if is_table else "",
            preceding_settings=section_before if is_configuration else None,
        )
    )
    has_content = any(snippet.is_selectable or snippet.kind == "code" for snippet in passage.snippets)
    if start == 0 and passage.snippets:
        first, title = passage.snippets[0], to_plain_text(record.title or "")
        # A title that ends with punctuation can be a sentence.
        if first.kind == "prose" and first.text == title and not SENTENCE_END_PATTERN.search(title):
            first.is_selectable = False
    if is_whole_document and not has_content:
        passage.snippets = list(_split_notes(text, record.format))
    _assign_hits(passage, group.hit_spans)
    return passage


def _read_with_chunk_before(group: _ChunkGroup, state: State) -> tuple[str, str]:
    """Return the text of the chunk before a group of chunks in its document (empty if none), and the group's text.

    The first text is without the part that both have, because chunks can overlap.
    """
    start, end = state.chunks.get(group.first).start, state.chunks.get(group.last).end
    previous = state.chunks.find(group.first - 1) if group.first else None
    has_previous = previous is not None and previous.document == group.document
    both_start = min(start, previous.start) if previous is not None and has_previous else start
    both_texts = state.documents.read_text_slice(group.document, both_start, end)
    text = both_texts.encode()[start - both_start :].decode()
    return both_texts[: len(both_texts) - len(text)], text


def _read_section_before(group: _ChunkGroup, start: int, state: State) -> str:
    """Return the text of the passage's section that precedes the passage, from at most ``_MAX_TABLE_CHUNKS`` chunks.

    The passage consists of the chunks of ``group``, and begins at byte ``start`` of the document's text.
    """
    first = group.first
    for _ in range(_MAX_TABLE_CHUNKS):
        previous = _get_adjacent_chunk(state, state.chunks.get(first), first, -1)
        if previous == first:
            break
        first = previous
    return state.documents.read_text_slice(group.document, state.chunks.get(first).start, start)


def _find_table_header(text_before: str) -> str:
    """Return the header row of the Markdown table at the end of a text; empty if there is no table or no header."""
    rows = list(takewhile(lambda line: line.lstrip().startswith("|"), reversed(text_before.splitlines())))
    rows.reverse()
    has_header = len(rows) > 1 and TABLE_RULE_PATTERN.fullmatch(rows[1]) is not None
    return rows[0] if has_header else ""


def _assign_hits(passage: Passage, hit_spans: Sequence[_HitSpan]) -> None:
    """Set the ``hit`` and ``ordinal`` of each snippet of a passage that begins in one of the ``hit_spans``.

    ``ordinal`` is the number of the span's chunk. If a snippet begins in several spans, the last one in the document
    decides.
    """
    encoded_text = passage.text.encode()
    character_spans = []
    for hit, span in sorted(hit_spans, key=lambda hit_span: hit_span.span.start):
        start, end = (
            len(encoded_text[: offset - passage.start].decode(errors="ignore")) for offset in (span.start, span.end)
        )
        character_spans.append((start, end, hit, span.ordinal))
    for snippet in passage.snippets:
        for start, end, hit, ordinal in character_spans:
            if start <= snippet.start < end:
                snippet.hit, snippet.ordinal = hit, ordinal


def split_snippets(
    text: str,
    format: str,
    heading: str,
    starts_mid_line: bool,
    language: str | None,
    header_row: str = "",
    preceding_settings: str | None = None,
) -> Iterator[Snippet]:
    """Yield the snippets of a passage under ``heading``, in order, with the fields that describe their context.

    A snippet is a sentence, an item, a row of a table or a few lines of code. ``format`` is ``markdown``, or another
    one that is split as plain text. ``starts_mid_line`` is True if the passage begins in the middle of a line.
    ``language`` decides where sentences end (None: the rules for English). ``header_row`` is the header of the table in
    which the passage begins, if any. In a configuration file, ``preceding_settings`` is the text of the section before
    the passage (None: any other kind of file).
    """
    section_heading = to_plain_text(heading.rpartition(" > ")[2]).strip()
    elements = list(
        MarkdownSnippetSplitter(text, language, header_row, preceding_settings).split()
        if format == "markdown"
        else PlainTextSplitter(text, language, section_heading).split(starts_mid_line)
    )
    annotator = _ContextAnnotator(text, elements, section_heading)
    for element in elements:
        if isinstance(element, SnippetHeading):
            annotator.open_section(element.title.strip())
        else:
            annotator.annotate(element)
            yield element


class _ContextAnnotator:
    """Sets the fields of the snippets of a text that describe their context, in the order of the text. An *attribution*
    is the line above a quoted mail ("On 3 May, Ann wrote:"). The *open question* is one whose reply can follow; it acts
    as the heading of its reply.
    """

    def __init__(self, text: str, elements: Sequence[Snippet | SnippetHeading], heading: str) -> None:
        """Prepare to annotate the snippets of ``text``, which is in a section with this ``heading``.

        ``elements`` are the snippets and headings of the text, in order. The snippets of attributions become
        unselectable: answers cannot quote them.
        """
        self._text = text
        self._heading = heading
        self._section = 0
        self._at_section_start = True
        self._block_sizes = Counter(element.block_index for element in elements if isinstance(element, Snippet))
        self._attributions = _find_attributions(text, elements)
        self._previous_snippet: Snippet | None = None
        #: The caption of the table or quoted mail that the current snippet is in.
        self._caption = ""
        #: The open question, and the first snippet of its reply.
        self._open_question: Snippet | None = None
        self._reply: Snippet | None = None

    def open_section(self, heading: str) -> None:
        """Begin a section with this heading, and forget the open question. The next snippet is the section's first."""
        self._heading, self._at_section_start, self._open_question = heading, True, None
        self._section += 1

    def annotate(self, snippet: Snippet) -> None:
        """Set the fields of the next snippet of the text: its section, heading, caption and length.

        Also sets whether it is a question, whether it can be quoted (``is_selectable``), and whether an answer must
        display it with the snippet before it (``needs_previous``) or the subject of its pronoun (``needs_subject``).
        A heading that dates a release gets only its section. Snippets must be given in order.
        """
        previous = self._previous_snippet
        opens_block = previous is None or previous.block_index != snippet.block_index
        snippet.is_question |= snippet.kind in ("prose", "item") and snippet.text.endswith(("?", "？"))
        self._update_open_question(snippet, opens_block)
        snippet.section = self._section
        if snippet.release is not None:
            return  # a heading that dates a release needs no context
        question = self._open_question
        snippet.heading = self._heading if question is None or question is snippet else question.text
        snippet.num_words = count_written_words(snippet.text)
        is_synopsis = self._heading.lower() in _SYNOPSIS_HEADINGS
        is_only_snippet = self._block_sizes[snippet.block_index] == 1
        snippet.is_selectable = snippet.is_selectable and not is_synopsis and _is_readable(snippet, is_only_snippet)
        follows_table = previous is not None and previous.kind == "table"  # prose refers to no single row of it
        if snippet.kind == "item" or (snippet.kind == "prose" and not follows_table):
            snippet.needs_previous = not self._at_section_start and _refers_back(snippet, opens_block)
            snippet.needs_subject = bool(_PRONOUN_PATTERN.match(snippet.text))
        if opens_block:
            self._open_block(snippet)
        snippet.caption = self._caption
        # An answer is not understood without its question.
        snippet.needs_previous |= question is not None and question is previous
        self._at_section_start, self._previous_snippet = False, snippet

    def _open_block(self, snippet: Snippet) -> None:
        """Set the caption of the block that ``snippet`` opens. The snippet needs a lead-in directly before it."""
        self._caption = self._attributions.get(snippet.block_index, "")
        lead_in = self._previous_snippet
        if self._caption or lead_in is None or not lead_in.is_lead_in or lead_in.section != self._section:
            return
        snippet.needs_previous = True
        if snippet.kind == "table" and not lead_in.is_selectable:  # the lead-in is not a sentence
            self._caption = lead_in.text.rstrip(":")

    def _update_open_question(self, snippet: Snippet, opens_block: bool) -> None:
        """Make ``snippet`` the open question if it asks something, or remember it as the first snippet of a reply.

        Forget the open question if the snippet no longer belongs to its reply. A question can have a reply if it is a
        chat message, if it opens a block (``opens_block``), or if it follows another question with an unfinished reply.
        """
        question = self._open_question
        if snippet.is_question:
            # A chat log is parsed as a table with a row for each message.
            can_have_reply = snippet.kind == "table" or opens_block or question is not None
            self._open_question = snippet if can_have_reply else None
        elif question is not None and question is self._previous_snippet:
            self._reply = snippet
        elif (
            question is not None and self._reply is not None and _ends_reply(self._text, question, self._reply, snippet)
        ):
            self._open_question = None


def _find_attributions(text: str, elements: Sequence[Snippet | SnippetHeading]) -> dict[int, str]:
    """Return the line that introduces each quoted mail ("On 3 May, Ann wrote:"), by the block index of the mail.

    ``elements`` are the snippets and headings of ``text``, in order. Side effect: the snippets of these lines become
    unselectable.
    """
    attributions: dict[int, str] = {}
    attribution = ""
    previous_block: list[Snippet] = []
    snippets = (element for element in elements if isinstance(element, Snippet))
    for block_index, group in groupby(snippets, key=lambda snippet: snippet.block_index):
        block_snippets = list(group)
        first = block_snippets[0]
        first_line = text[text.rfind("\n", 0, first.start) + 1 : first.end]
        if first_line.lstrip().startswith(">"):  # the mark of a quotation
            # The line above the first block of a mail also introduces its other blocks.
            if previous_block and not attribution:
                line = render_inline(text[previous_block[0].start : previous_block[-1].end])
                if _ATTRIBUTION_PATTERN.fullmatch(line):
                    attribution = line.rstrip(": ")
                    for snippet in previous_block:
                        snippet.is_selectable = False
            if attribution:
                attributions[block_index] = attribution
            previous_block = []
        else:
            attribution, previous_block = "", block_snippets
    return attributions


def _ends_reply(text: str, question: Snippet, reply: Snippet, snippet: Snippet) -> bool:
    """True if ``snippet`` is no longer part of the reply to ``question``, an earlier snippet of ``text`` that asks.

    ``reply`` is the first snippet of the reply. In a chat, only the next message (a row) is the reply, and in a
    transcript only the turn of the next speaker. A question in a list item is answered by the items below it, or else
    by the next item. A paragraph with its own heading is not a reply.
    """
    has_own_heading = bool(snippet.label) and snippet.block_index != reply.block_index
    if question.kind == "table" or has_own_heading:
        return True
    if question.kind == "item":
        if snippet.block_index in (question.block_index, reply.block_index):
            return False
        question_indent = _get_indent(text, question.start)
        are_below = all(_get_indent(text, other.start) > question_indent for other in (reply, snippet))
        return snippet.kind != "item" or not are_below
    return all(FIELD_OR_SPEAKER_PATTERN.match(turn.text) for turn in (question, snippet))


def _get_indent(text: str, offset: int) -> int:
    """Return the number of white space characters at the beginning of the line that contains ``offset``."""
    line = text[text.rfind("\n", 0, offset) + 1 :].partition("\n")[0]
    return len(line) - len(line.lstrip())


def _refers_back(snippet: Snippet, opens_block: bool) -> bool:
    """True if a sentence (a snippet) continues or refers to the sentence before it, and so cannot be understood alone.

    ``opens_block`` is True for the first sentence of a paragraph or item. Such a sentence refers back only with a word
    such as "This" or "However", and never if it defines a term.
    """
    if opens_block and snippet.term:
        return False
    is_continuation = snippet.text[:1].islower() and not opens_block
    return is_continuation or bool(
        _CONNECTIVE_PATTERN.match(snippet.text) or _BACK_REFERENCE_PATTERN.search(snippet.text)
    )


def _count_words(text: str) -> int:
    """Return the number of words of a text; in scripts without spaces, two characters count as a word."""
    return count_written_words(text) if is_unspaced(text) else len(_WORD_PATTERN.findall(text))


def _is_readable(snippet: Snippet, is_only_snippet: bool) -> bool:
    """True if a snippet can be quoted: it is not a drawing, a fragment or a line of a table of contents.

    If ``is_only_snippet``, it is a whole paragraph, and must also not be a heading, caption or salutation.
    """
    labeled_text = f"{snippet.label} {snippet.text}"
    num_words = _count_words(labeled_text)
    num_symbols = len(_SYMBOL_PATTERN.findall(snippet.cell_text or snippet.text))
    is_field = FIELD_PATTERN.fullmatch(snippet.text) is not None
    is_numeric_row = snippet.kind == "table" and any(map(str.isdigit, snippet.text))
    is_sentence = snippet.text.endswith((".", "!")) and not snippet.text[-2:-1].isdigit()  # not "Article 11."
    is_complete = is_sentence or is_field or is_numeric_row or bool(snippet.cell_text) or snippet.kind == "item"
    is_fragment = num_words < (_MIN_COMPLETE_WORDS if is_complete else _MIN_WORDS)
    is_contents_line = ". . ." in snippet.text  # the dots before a page number
    is_drawing = num_symbols > _MAX_SYMBOL_FRACTION * len(snippet.text)
    if is_fragment or is_contents_line or is_drawing:
        return False
    can_be_heading = snippet.kind == "prose" and not (snippet.label or is_field) and num_words <= _MAX_CAPTION_WORDS
    if not (can_be_heading and is_only_snippet):
        return True
    if snippet.text.endswith(","):  # the salutation or the end of a mail
        return False
    has_function_word = any(word.lower() in FUNCTION_WORDS for word in _WORD_PATTERN.findall(labeled_text))
    return has_function_word or bool(SENTENCE_END_PATTERN.search(snippet.text)) or not snippet.text.isascii()


def _split_notes(text: str, format: str) -> Iterator[Snippet]:
    """Yield each paragraph of a document without sentences, such as a note, as one snippet.

    Headings, paragraphs of fewer than ``_MIN_WORDS`` words and paragraphs in capitals are omitted.
    """
    for block_index, block in enumerate(parse_blocks(text, format)):
        displayed_text = strip_item_marker(render_inline(text[block.start : block.end]))
        is_in_capitals = displayed_text.upper() == displayed_text and not is_unspaced(displayed_text)
        if block.kind != "heading" and _count_words(displayed_text) >= _MIN_WORDS and not is_in_capitals:
            # A note is displayed like a row of a table, on a line of its own.
            yield Snippet(start=block.start, end=block.end, text=displayed_text, kind="table", block_index=block_index)
