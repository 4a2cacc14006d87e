"""Passages: the text around *hits* (retrieved chunks), divided into *snippets*: sentences, list items, table rows,
lines of code. A hit consists of *spans* of stored text. A *block* is a paragraph, list item or table.

In: hits and their state. Out: one :class:`Passage` for adjacent spans, with the chunks before and after them under the
same heading, so that a sentence can include the one before it even if a chunk begins between them. Headings, synopses,
diagrams and tables of contents are not snippets, because they do not read as answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from ..retrieval.evidence import Hit, TextSpan
from ..structures.documents.chunks import ChunkRecord
from ..structures.documents.documents import build_heading_path
from ..structures.state import State
from ..text.blocks import parse_blocks, to_plain_text
from ..text.words import is_unspaced
from .inline_rendering import render_inline, strip_item_marker
from .markdown_snippets import MarkdownSnippetSplitter
from .plain_text_snippets import SENTENCE_END_PATTERN, PlainTextSplitter
from .releases import find_latest_release
from .settings_snippets import is_configuration_file
from .snippet_context import MIN_WORDS, ContextAnnotator, count_words
from .snippets import Snippet, SnippetHeading

#: The maximum number of chunks of a section that are read before a table or a configuration for its context.
_MAX_TABLE_CHUNKS = 250


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
    #: The title, the headings above the innermost one (outermost first), and that heading, as a reader sees them.
    plain_title: str = field(init=False)
    parent_headings: list[str] = field(init=False)
    plain_heading: str = field(init=False)

    def __post_init__(self) -> None:
        """Convert the title and the headings to plain text once, because every snippet is scored with them."""
        self.plain_title = to_plain_text(self.title or "")
        *self.parent_headings, self.plain_heading = map(to_plain_text, self.heading.split(" > "))

    def list_labels(self, index: int) -> list[str]:
        """Return the title, the headings and the caption above the snippet at ``index``, without repetitions.

        Parent headings can be needed to understand a snippet, such as the version in a changelog.
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
        record = state.documents.get_by_key(document)
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


def _find_adjacent_chunk(state: State, record: ChunkRecord, chunk_id: int, step: int) -> ChunkRecord | None:
    """Return the next (``step`` 1) or previous (-1) chunk of a document, or None if its id is not ``chunk_id + step``.

    ``record`` is the record of ``chunk_id``.
    """
    document, ordinal = state.documents.get(record.document), record.ordinal + step
    has_adjacent = 0 <= ordinal < document.chunk_count and document.get_chunk_id(ordinal) == chunk_id + step
    return state.chunks.get(chunk_id + step) if has_adjacent else None


def _get_adjacent_chunk(state: State, record: ChunkRecord, chunk_id: int, step: int) -> int:
    """Return the id of the next (``step`` 1) or previous (-1) chunk if it is in the same section, else ``chunk_id``.

    ``record`` is the record of ``chunk_id``.
    """
    adjacent = _find_adjacent_chunk(state, record, chunk_id, step)
    return chunk_id + step if adjacent is not None and adjacent.section == record.section else chunk_id


def _build_passage(group: _ChunkGroup, state: State) -> Passage:
    """Return the passage of a group of adjacent chunks, divided into snippets (sentences, list items, table rows).

    Each snippet records the hit that it begins in. A snippet that is the title of the document cannot be selected as an
    answer. If the passage is a whole document without sentences, its paragraphs are the snippets.
    """
    first_chunk, last_chunk = state.chunks.get(group.first), state.chunks.get(group.last)
    start = first_chunk.start
    record = state.documents.get(group.document)
    text = state.documents.read_text_slice(record.id, start, last_chunk.end)
    sections = state.documents.get_sections(record.id)
    heading = " > ".join(build_heading_path(sections, group.section))
    is_whole_document = group.last - group.first + 1 == record.chunk_count
    passage = Passage(record.key, record.title, heading, start, text, is_whole_document)
    language = state.find_sentence_language(record.id)
    is_table, is_configuration = text.lstrip().startswith("|"), is_configuration_file(record.key)
    passage.snippets = list(
        split_snippets(
            text,
            record.format,
            heading,
            _starts_mid_line(group, first_chunk, state),
            language,
            _read_section_before(group, start, state) if is_table or is_configuration else "",
            is_configuration=is_configuration,
        )
    )
    dated_snippets = [(snippet, snippet.release) for snippet in passage.snippets if snippet.release is not None]
    latest = find_latest_release(sections) if dated_snippets else None
    for snippet, release in dated_snippets:
        snippet.release = release._replace(is_latest=latest is not None and release.version == latest[1].version)
    has_content = any(snippet.is_selectable or snippet.kind == "code" for snippet in passage.snippets)
    if start == 0 and passage.snippets:
        first, title = passage.snippets[0], passage.plain_title
        # A title that ends with punctuation can be a sentence.
        if first.kind == "prose" and first.text == title and not SENTENCE_END_PATTERN.search(title):
            first.is_selectable = False
    if is_whole_document and not has_content:
        passage.snippets = list(_split_notes(text, record.format))
    _assign_hits(passage, group.hit_spans)
    return passage


def _starts_mid_line(group: _ChunkGroup, first_chunk: ChunkRecord, state: State) -> bool:
    """True if there is text before the first chunk of a group in the same line of the document."""
    previous = _find_adjacent_chunk(state, first_chunk, group.first, -1)
    # Chunks can overlap, so the previous one can begin at the same place.
    if previous is None or previous.start >= first_chunk.start:
        return False
    text_before = state.documents.read_text_slice(group.document, previous.start, first_chunk.start)
    return bool(text_before.rpartition("\n")[2].strip())


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
    section_before: str = "",
    *,
    is_configuration: bool = False,
) -> Iterator[Snippet]:
    """Yield the snippets of a passage under ``heading``, in order, with the fields that describe their context.

    A snippet is a sentence, an item, a row of a table or a few lines of code. ``format`` is ``markdown``, or another
    one that is split as plain text. ``starts_mid_line`` is True if the passage begins in the middle of a line.
    ``language`` decides where sentences end (None: the rules for English). ``section_before`` is the text of the
    section before a passage that begins in a table, or in a configuration file (``is_configuration``).
    """
    section_heading = to_plain_text(heading.rpartition(" > ")[2])
    elements = list(
        MarkdownSnippetSplitter(text, language, section_before, is_configuration=is_configuration).split()
        if format == "markdown"
        else PlainTextSplitter(text, language, section_heading).split(starts_mid_line)
    )
    annotator = ContextAnnotator(text, elements, section_heading)
    for element in elements:
        if isinstance(element, SnippetHeading):
            annotator.open_section(element.title.strip())
        else:
            annotator.annotate(element)
            yield element


def _split_notes(text: str, format: str) -> Iterator[Snippet]:
    """Yield each paragraph of a document without sentences, such as a note, as one snippet.

    Headings, paragraphs of fewer than ``MIN_WORDS`` words and paragraphs in capitals are omitted.
    """
    for block_index, block in enumerate(parse_blocks(text, format)):
        displayed_text = strip_item_marker(render_inline(text[block.start : block.end]))
        is_in_capitals = displayed_text.upper() == displayed_text and not is_unspaced(displayed_text)
        if block.kind != "heading" and count_words(displayed_text) >= MIN_WORDS and not is_in_capitals:
            # A note is displayed like a row of a table, on a line of its own.
            yield Snippet(start=block.start, end=block.end, text=displayed_text, kind="table", block_index=block_index)
