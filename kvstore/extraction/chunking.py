"""Chunking: the split of a text into chunks of whole sentences, each under one heading. A *block* is a paragraph,
heading, list item, table or code. Table rows and lines of code are *sentences* here. A *tied* sentence stays in the
chunk of the sentence before it. Spans are in characters.

In: a text, its blocks and a chunk size in tokens. Out: the sections (by heading) and the chunks, with spans in
characters of the text. Sentences, list items, table rows and lines of code stay whole; one longer than twice the chunk
size is cut between words. A code block, table or item no longer than a chunk stays in one chunk. A longer one keeps its
beginning together: the fence and the first line, the head and the first row, or the term and the start of its
definition. A sentence that leads into a block stays with it. Every character that is not white space lies in exactly
one chunk.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ..process.frozen_dataclass import frozen_dataclass
from ..text.blocks import Block, is_lead_in
from ..text.patterns import compile_lazily
from ..text.sentences import split_sentences
from ..text.words import UNSPACED_RANGES, count_text_tokens

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

#: A token, the unit of chunk size: a word (a long one counts as several) or a punctuation mark.
TOKEN_PATTERN = compile_lazily(rf"(?=\w)[{UNSPACED_RANGES}]|[^\W{UNSPACED_RANGES}]{{1,64}}|[^\w\s]")
#: The maximum length of a chunk in characters, regardless of its tokens, so that offsets inside it fit 16 bits.
MAX_CHUNK_LENGTH = 16_000
#: The maximum size of a group of tied sentences, as a multiple of the chunk size.
_MAX_GROUP_FACTOR = 3
#: If the first sentence of an item has at most this many tokens, it is a term or label, and the next is tied to it.
_MAX_LABEL_TOKENS = 8

Span = tuple[int, int]
#: The byte offset of each character of a text, and of its end: a range if the text is ASCII.
ByteOffsets: TypeAlias = "range | npt.NDArray[np.int64]"


@frozen_dataclass
class Heading:
    """A section: the level and title of its heading, the index of the enclosing section (-1: none), and its span."""

    level: int
    title: str
    parent: int
    start: int
    end: int


class SentenceSpan(NamedTuple):
    """A sentence, list item, table row or line of code, which no chunk divides; its size and the kind of its block.

    If ``is_tied``, it should not begin a chunk, because it belongs to the sentence before it.
    """

    start: int
    end: int
    tokens: int
    kind: str
    is_tied: bool = False


@frozen_dataclass
class Chunk:
    """A chunk: its span, the innermost section around it (-1: none), and its sentences (also items and lines)."""

    start: int
    end: int
    section: int
    sentences: list[SentenceSpan] = field(default_factory=list)


def chunk_text(
    text: str, blocks: Sequence[Block], chunk_tokens: int, language: str | None = None
) -> tuple[list[Heading], list[Chunk]]:
    """Return (sections, chunks) of a text that consists of ``blocks`` (paragraphs, headings), both in text order.

    ``chunk_tokens`` is the chunk size. ``language`` decides where sentences end (None: the rules for English).
    """
    sections = _build_sections(blocks, len(text))
    chunks: list[Chunk] = []
    sentences: list[SentenceSpan] = []
    lead_headings: list[SentenceSpan] = []  # headings without a body yet, packed with the body that follows
    section = current_section = -1  # the indexes of the last heading, and of the section of the sentences
    previous: Block | None = None
    for block in blocks:
        if block.kind == "heading":
            if sentences:
                chunks += _pack_sentences([*lead_headings, *sentences], current_section, chunk_tokens)
                lead_headings, sentences = [], []
            section += 1
            lead_headings.append(_make_sentence(text, block.start, block.end, block.kind))
        else:
            current_section = section
            sentences += _tie_sentences(
                list(_split_sentences(text, block, chunk_tokens, language)),
                _is_attached(text, previous, block),
                chunk_tokens,
            )
        previous = block
    if lead_headings or sentences:
        chunks += _pack_sentences([*lead_headings, *sentences], section, chunk_tokens)
    return sections, chunks


def chunk_at_spans(
    text: str, blocks: Sequence[Block], spans: Sequence[Span], chunk_tokens: int, language: str | None = None
) -> tuple[list[Heading], list[Chunk]]:
    """Return (sections, chunks) of a text that consists of ``blocks``, with one chunk for each of ``spans``.

    ``spans`` are in characters. ``chunk_tokens`` limits the size of a sentence or line, but not of a chunk.
    ``language`` decides where sentences end (None: the rules for English). Each chunk belongs to the innermost section
    around its sentences.
    """
    sections = _build_sections(blocks, len(text))
    ends = [block.end for block in blocks]
    chunks: list[Chunk] = []
    for start, end in spans:
        sentences: list[SentenceSpan] = []
        for index in range(bisect_right(ends, start), len(blocks)):
            block = blocks[index]
            if block.start >= end:
                break
            overlap = replace(block, start=max(block.start, start), end=min(block.end, end))
            if not text[overlap.start : overlap.end].strip():
                continue
            if overlap.kind == "heading":
                sentences.append(_make_sentence(text, overlap.start, overlap.end, overlap.kind))
            else:
                sentences += _split_sentences(text, overlap, chunk_tokens, language)
        section = _find_enclosing_section(sections, sentences[0].start, sentences[-1].end)
        chunks.append(Chunk(start, end, section, sentences))
    return sections, chunks


def _find_enclosing_section(sections: Sequence[Heading], start: int, end: int) -> int:
    """Return the index of the innermost section that contains the characters ``start`` to ``end``, or -1."""
    index = bisect_right(sections, start, key=lambda section: section.start) - 1
    while index >= 0 and sections[index].end < end:
        index = sections[index].parent
    return index


def _is_attached(text: str, previous: Block | None, block: Block) -> bool:
    """True if a block of ``text`` should stay in one chunk with ``previous``, the block before it (None: no block).

    This is the case if ``previous`` is a heading or a lead-in (``as follows:``). Code and tables also stay with any
    prose or list item before them.
    """
    if previous is None:
        return False
    if previous.kind == "heading":
        return True
    if previous.kind in ("code", "table"):
        return False
    return block.kind in ("code", "table") or is_lead_in(text[previous.start : previous.end])


def _tie_sentences(sentences: list[SentenceSpan], is_attached: bool, chunk_tokens: int) -> list[SentenceSpan]:
    """Return the sentences of one block; ``is_tied`` is set for each that must stay in the chunk of its predecessor.

    Code, tables and list items that fit in a chunk of ``chunk_tokens`` stay whole. In longer ones, only the first few
    sentences stay together; in code, also the last two. In code and tables, a sentence is a line. ``is_attached`` is
    True if the block must stay in one chunk with the block before it.
    """
    if not sentences:
        return sentences
    kind, tied_indexes = sentences[0].kind, {0} if is_attached else set()
    if kind in ("code", "table", "item") and sum(sentence.tokens for sentence in sentences) <= chunk_tokens:
        tied_indexes |= set(range(1, len(sentences)))
    elif kind == "code":  # the fence and the first line, and the last line and its fence
        tied_indexes |= {1, len(sentences) - 1}
    elif kind == "table":  # the head, its rule and the first row
        tied_indexes |= {1, 2}
    elif kind == "item" and sentences[0].tokens <= _MAX_LABEL_TOKENS:  # a label, and what it labels
        tied_indexes.add(1)
    return [
        sentence._replace(is_tied=True) if index in tied_indexes else sentence
        for index, sentence in enumerate(sentences)
    ]


def _build_sections(blocks: Sequence[Block], end: int) -> list[Heading]:
    """Return a section for each heading in ``blocks``; it ends before the next one of the same or a shallower level.

    ``end`` is the length of the text in characters.
    """
    headings = [block for block in blocks if block.kind == "heading"]
    parents: list[int] = []
    ends = [end] * len(headings)
    open_sections: list[int] = []
    for index, heading in enumerate(headings):
        while open_sections and headings[open_sections[-1]].level >= heading.level:
            ends[open_sections.pop()] = heading.start
        parents.append(open_sections[-1] if open_sections else -1)
        open_sections.append(index)
    return [
        Heading(heading.level, heading.title, parent, heading.start, section_end)
        for heading, parent, section_end in zip(headings, parents, ends, strict=True)
    ]


def _make_sentence(text: str, start: int, end: int, kind: str) -> SentenceSpan:
    """Return the sentence or line from ``start`` to ``end`` of a text, without the white space at its ends.

    ``kind`` is the kind of its block.
    """
    sentence = text[start:end]
    start += len(sentence) - len(sentence.lstrip())
    sentence = sentence.strip()
    return SentenceSpan(start, start + len(sentence), count_text_tokens(sentence), kind)


def _split_sentences(text: str, block: Block, chunk_tokens: int, language: str | None) -> Iterator[SentenceSpan]:
    """Yield the lines of a code block or table, or the sentences of another block.

    A line or sentence of more than twice ``chunk_tokens`` (the chunk size), or of too many characters, is cut.
    ``language`` decides where sentences end (None: the rules for English).
    """
    if block.kind in ("code", "table"):
        spans = _split_lines(text, block.start, block.end)
    else:
        spans = (
            (block.start + sentence_start, block.start + sentence_end)
            for sentence_start, sentence_end in split_sentences(text[block.start : block.end], language)
        )
    for start, end in spans:
        sentence = _make_sentence(text, start, end, block.kind)
        if sentence.tokens > 2 * chunk_tokens or sentence.end - sentence.start > MAX_CHUNK_LENGTH // 2:
            yield from _cut_sentence(text, sentence, chunk_tokens)
        else:
            yield sentence


def _split_lines(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield the spans of the lines from ``start`` to ``end`` of a text, with their line ends; skip blank lines."""
    while start < end:
        line_end = text.find("\n", start, end)
        line_end = end if line_end < 0 else line_end + 1
        if text[start:line_end].strip():
            yield start, line_end
        start = line_end


def _cut_sentence(text: str, sentence: SentenceSpan, chunk_tokens: int) -> Iterator[SentenceSpan]:
    """Cut a sentence or line that is too long, and yield its pieces, each of at most ``chunk_tokens`` tokens.

    Pieces of several tokens have at most half of ``MAX_CHUNK_LENGTH`` characters.
    """
    start, num_tokens = sentence.start, 0
    for match in TOKEN_PATTERN.finditer(text, sentence.start, sentence.end):
        if num_tokens == chunk_tokens or (num_tokens and match.end() - start > MAX_CHUNK_LENGTH // 2):
            yield _make_sentence(text, start, match.start(), sentence.kind)
            start, num_tokens = match.start(), 0
        num_tokens += 1
    if start < sentence.end:
        # `_make_sentence` strips white space, so a long run of it does not lengthen a piece.
        yield _make_sentence(text, start, sentence.end, sentence.kind)


def _pack_sentences(sentences: list[SentenceSpan], section: int, chunk_tokens: int) -> Iterator[Chunk]:
    """Yield chunks of about equal size, near ``chunk_tokens``, made of the sentences or lines of one section.

    ``section`` is the index of that section (-1: none).
    """
    total = sum(sentence.tokens for sentence in sentences)
    quota = total / max(1, round(total / chunk_tokens))  # the tokens of each chunk, if all are equal
    pending: list[SentenceSpan] = []
    filled_tokens = 0.0
    for group in _group_tied_sentences(sentences, chunk_tokens):
        size = sum(sentence.tokens for sentence in group)
        is_too_long = pending and group[-1].end - pending[0].start > MAX_CHUNK_LENGTH
        # A group that would be mostly beyond the quota begins the next chunk.
        if pending and (is_too_long or filled_tokens + size / 2 > quota):
            yield Chunk(pending[0].start, pending[-1].end, section, pending)
            # The next chunk makes up for a chunk that is too large or too small, so that the last one is not tiny.
            filled_tokens = 0.0 if is_too_long else max(-quota / 2, filled_tokens - quota)
            pending = []
        pending += group
        filled_tokens += size
    yield Chunk(pending[0].start, pending[-1].end, section, pending)


def _group_tied_sentences(sentences: list[SentenceSpan], chunk_tokens: int) -> Iterator[list[SentenceSpan]]:
    """Yield groups of sentences or lines that stay in one chunk.

    A sentence whose ``is_tied`` is set stays with the sentence before it. A group that would grow too long is split
    even if its sentences are tied.
    """
    group: list[SentenceSpan] = []
    size = 0
    for sentence in sentences:
        is_within_limit = size + sentence.tokens <= _MAX_GROUP_FACTOR * chunk_tokens
        is_short = not group or sentence.end - group[0].start <= MAX_CHUNK_LENGTH // 2
        can_join = sentence.is_tied and is_within_limit and is_short
        if group and not can_join:
            yield group
            group, size = [], 0
        group.append(sentence)
        size += sentence.tokens
    if group:
        yield group
