"""Units: the sentences of a document, each with a vector (CUE-RAG, section 4.1: the middle part of its graph). A *unit*
is a sentence, a clause, a list item or a table row. A model can write the units of a chunk instead. A *part* is the
stored data of a document: its encoded units, by chunk.

In: a document split into chunks, and the units that a model has written for some of them. Out, for each document, plain
data: for each chunk the spans of its units, or the number of units written by a model instead. Sentences and items need
at least four words. A chunk without any is a single unit.

The text embedded is the title, the headings and the sentence. This context shows who a sentence refers to; in the
paper, a model writes full names into the sentence for this purpose. A chunk with one unit is not embedded twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from ...arguments import Option
from ...extraction.chunking import chunk_text
from ...extraction.extraction import build_embedding_text, compute_byte_offsets
from ...extraction.syntax import iter_sentences
from ...models.language import ENGLISH, Parse, open_language
from ...registry.chunked_text import ChunkedText, ChunkSpan
from ...registry.contract import Derivation, MaintainedIndex
from ...registry.written_passages import build_chunk_passage
from ...settings import FixedSettings
from ...text.blocks import parse_blocks, replace_sound_annotations, skip_marker, to_plain_text, unwrap_links
from ...text.languages import detect_english
from ...text.mail_fields import is_mail_header
from .clauses import Clause, find_clauses
from .written_units import WRITTEN_UNITS

#: The kinds of blocks that are split into units.
_UNIT_KINDS = ("prose", "item", "table")
#: The minimum number of words of a sentence.
_MIN_WORDS = 4


class UnitSpan(NamedTuple):
    """A unit's range of bytes in the document's text, and the range of its subject if the subject is outside it."""

    start: int
    end: int
    subject: tuple[int, int] | None = None


class DocumentUnitSpans(NamedTuple):
    """The units of a document: for each chunk, the spans of its units and the number of units written by a model.

    A chunk with units written by a model has no spans.
    """

    spans: list[list[UnitSpan]]
    written_counts: list[int]


def encode_units(units: DocumentUnitSpans, chunks: Sequence[ChunkSpan]) -> Any:
    """Encode the units of a document as a list with one item for each chunk.

    The item of a chunk without spans is the number of units that a model wrote, or 0. Otherwise it is a list with, for
    each unit, the distance from the end of the previous unit and the length, in bytes. For a clause with a separate
    subject, the length is negative. The distance of the subject from the unit's start and the subject's length follow.
    """
    rows: list[Any] = []
    for chunk, spans, num_written in zip(chunks, units.spans, units.written_counts, strict=True):
        row: list[int] = []
        previous_end = chunk.start
        for start, end, subject in spans:
            row += (start - previous_end, end - start)
            previous_end = end
            if subject is not None:
                subject_start, subject_end = subject
                row[-1] = start - end  # a negative length says that the subject follows
                row += (subject_start - start, subject_end - subject_start)
        rows.append(row if spans else num_written)
    return rows


def decode_units(rows: Any, starts: Sequence[int]) -> DocumentUnitSpans:
    """Decode the units of a document: for each chunk, the spans, or the number that a model wrote.

    ``rows`` is the result of :func:`encode_units`, with an item for each chunk. ``starts`` has the byte offset at which
    each chunk starts.
    """
    units = DocumentUnitSpans([], [])
    for row, start in zip(rows, starts, strict=True):
        units.spans.append(decode_spans(row, start))
        units.written_counts.append(row if isinstance(row, int) else 0)
    return units


def decode_spans(row: Any, chunk_start: int) -> list[UnitSpan]:
    """Decode the spans (ranges of bytes) of the units of one chunk.

    ``row`` has two integers per unit, or four if the unit has a separate subject, as :func:`encode_units` documents.
    ``chunk_start`` is the byte offset at which the chunk starts. The list is empty if a model wrote the units; ``row``
    is then their number.
    """
    spans: list[UnitSpan] = []
    previous_end = chunk_start
    numbers = iter(() if isinstance(row, int) else row)
    for distance in numbers:
        start, length, subject = previous_end + distance, next(numbers), None
        if length < 0:
            subject_start = start + next(numbers)
            length, subject = -length, (subject_start, subject_start + next(numbers))
        previous_end = start + length
        spans.append(UnitSpan(start, previous_end, subject))
    return spans


def count_units(encoded: Any) -> int:
    """Return the number of units of one chunk, given their encoded form.

    The form is the number of units that a model wrote, or a list of integers: two per unit, or four if the unit has a
    separate subject.
    """
    if isinstance(encoded, int):
        return encoded
    if min(encoded, default=0) >= 0:
        return len(encoded) // 2
    # A negative number shows that some unit has a separate subject; they must be decoded to count them.
    return len(decode_spans(encoded, chunk_start=0))


def render_unit(source_text: str) -> str:
    """Return the plain text of a unit without list marker, emphasis and links.

    Commas separate the cells of a table row. Sound annotations of a transcript are removed.
    """
    text = source_text[skip_marker(source_text, 0, len(source_text)) :]
    text = to_plain_text(replace_sound_annotations(unwrap_links(text)))
    if not text.startswith("|"):
        return text
    cells = map(str.strip, text.strip("|").split("|"))
    return ", ".join(filter(None, cells))


class UnitDerivation(Derivation):
    """The derivation of units from a document."""

    name = "units"
    version = 1
    facts = (WRITTEN_UNITS.name,)
    quantised = True

    def derive(self, document: ChunkedText, settings: FixedSettings, options: Mapping[str, float | str]) -> Any:
        """Return the units of a document, encoded by :func:`encode_units`: sentences, or clauses if that option is on.

        They are the middle part of the paper's graph, between chunks and entities (CUE-RAG, section 4.1). Units that a
        model wrote for a chunk replace its sentences. A chunk without units is itself a single unit.
        """
        units = DocumentUnitSpans([[] for _ in document.chunks], [0] * len(document.chunks))
        if not document.chunks:
            return []
        starts = np.array([chunk.start for chunk in document.chunks])
        spans = _iter_sentences(document, settings)
        if options["clauses"]:
            spans = _iter_clauses(document, spans, settings.language)
        for span in spans:
            # A unit belongs to the chunk in which it starts; -1 is before the first chunk.
            ordinal = int(np.searchsorted(starts, span.start, "right")) - 1
            if ordinal >= 0 and span.start < document.chunks[ordinal].end:
                units.spans[ordinal].append(span._replace(end=min(span.end, document.chunks[ordinal].end)))
        for ordinal, chunk in enumerate(document.chunks):
            num_written = len(find_written_units(document, ordinal))
            if num_written:
                units.spans[ordinal].clear()
                units.written_counts[ordinal] = num_written
            elif not units.spans[ordinal]:
                units.spans[ordinal].append(UnitSpan(chunk.start, chunk.end))
        return encode_units(units, document.chunks)

    def list_texts(self, part: Any, document: ChunkedText) -> Sequence[str]:
        """Return the texts to embed for the units of a document, in order.

        ``part`` has the encoded units of each chunk. A unit gets its title and headings before its text. The only unit
        of a chunk gets the same text as the chunk, so that it is embedded only once. A chunk without spans has units
        that a language model wrote.
        """
        texts: list[str] = []
        for ordinal, spans in enumerate(decode_units(part, [chunk.start for chunk in document.chunks]).spans):
            headings = document.list_headings(ordinal)
            if len(spans) == 1:
                texts.append(build_embedding_text(document.title, headings, document.get_chunk_text(ordinal).decode()))
                continue
            unit_texts: Sequence[str] = [render_span(document.text, span) for span in spans]
            if not spans:
                unit_texts = find_written_units(document, ordinal)
            titles = dict.fromkeys(filter(None, [document.title, *headings]))  # without duplicates
            texts += [". ".join([*titles, text]) for text in unit_texts]
        return texts

    def find_faults(self, part: Any, document: ChunkedText) -> Iterator[str]:
        """Yield a message for CHECK for each mismatch of a document with ``part``, its encoded units."""
        if len(part) != len(document.chunks):
            yield f"it has units for {len(part)} chunks, but {len(document.chunks)} chunks"
            return
        units = decode_units(part, [chunk.start for chunk in document.chunks])
        for ordinal, (spans, num_recorded) in enumerate(zip(units.spans, units.written_counts, strict=True)):
            chunk = document.chunks[ordinal]
            for start, end, subject in spans:
                unit_spans = [(start, end), *([subject] if subject else [])]
                if not all(chunk.start <= span_start < span_end <= chunk.end for span_start, span_end in unit_spans):
                    yield f"a unit lies outside chunk {ordinal}"
            num_written = len(find_written_units(document, ordinal))
            if num_recorded != num_written:
                yield f"chunk {ordinal} has {num_recorded} units by a model, but the model wrote {num_written}"


def find_written_units(document: ChunkedText, ordinal: int) -> Sequence[str]:
    """Return the sentences that a language model wrote as the units of a chunk, if any.

    ``ordinal`` is the position of the chunk in the document.
    """
    value = document.facts.get(WRITTEN_UNITS.name)
    chunk_texts = None if value is None else value.get_texts(build_chunk_passage(document, ordinal).digest)
    return () if chunk_texts is None else chunk_texts.texts


def render_span(text: bytes, span: UnitSpan) -> str:
    """Return the unit at ``span`` of a text as plain text, after its subject if the subject is elsewhere."""
    unit_text = render_unit(text[span.start : span.end].decode())
    if span.subject is None:
        return unit_text
    subject_start, subject_end = span.subject
    return f"{render_unit(text[subject_start:subject_end].decode())} {unit_text}"


def _iter_clauses(document: ChunkedText, spans: Iterable[UnitSpan], language: str) -> Iterator[UnitSpan]:
    """Yield the spans of the clauses of sentences; a sentence with one clause is yielded as it is.

    A clause without a subject of its own gets the subject of the clause before it. A sentence with markup is not split.
    If the store's language is ``en``, no sentence of a document in another language is split. Without a parser for the
    language, all sentences are yielded as they are.
    """
    sentence_spans = list(spans)
    texts = [document.text[span.start : span.end].decode() for span in sentence_spans]
    pipeline = open_language(language)
    if pipeline is None:
        yield from sentence_spans
        return
    is_document_parsable = language != ENGLISH or any(
        detect_english([document.get_chunk_text(ordinal).decode() for ordinal in range(len(document.chunks))])
    )
    # Rendering changes a text with markup.
    are_parsable = [is_document_parsable and text == render_unit(text) for text in texts]
    parsed_clauses = pipeline.parse_texts(compress(texts, are_parsable), _extract_clauses)
    for span, text, is_parsable in zip(sentence_spans, texts, are_parsable, strict=True):
        clauses = next(parsed_clauses) if is_parsable else []
        if len(clauses) < 2:
            yield span
            continue
        # The byte offset in the document of each character of the sentence.
        byte_offsets = [span.start + int(offset) for offset in compute_byte_offsets(text, span.end - span.start)]
        for start, end, subject in clauses:
            subject_span = None if subject is None else (byte_offsets[subject[0]], byte_offsets[subject[1]])
            yield UnitSpan(byte_offsets[start], byte_offsets[end], subject_span)


def _extract_clauses(text: str, parses: Sequence[Parse]) -> list[Clause]:
    """Return the clauses of a parsed text, or an empty list if the text was too long for a single parse."""
    if len(parses) != 1:
        return []
    return [clause for sentence in iter_sentences(parses[0].doc) for clause in find_clauses(sentence)]


def _iter_sentences(document: ChunkedText, settings: FixedSettings) -> Iterator[UnitSpan]:
    """Yield the spans of the sentences, list items and table rows of a document, in text order.

    Skips short sentences and items, mail headers, and the header row and separator of a table.
    """
    text = document.text.decode()
    byte_offsets = compute_byte_offsets(text, len(document.text))
    language = settings.get_sentence_language(document.language)
    _, chunks = chunk_text(text, parse_blocks(text, document.format), settings.chunk_tokens, language)
    for chunk in chunks:
        next_sentences = [*chunk.sentences[1:], None]
        for sentence, next_sentence in zip(chunk.sentences, next_sentences, strict=True):
            start, end, kind = sentence.start, sentence.end, sentence.kind
            source_text = text[start:end]
            if kind not in _UNIT_KINDS or _is_table_separator(source_text) or is_mail_header(text, start, end):
                continue
            if next_sentence is not None and _is_table_separator(text[next_sentence.start : next_sentence.end]):
                continue  # skip the header row: column names alone mean nothing
            num_words = sum(any(map(str.isalnum, word)) for word in render_unit(source_text).split())
            min_words = 1 if kind == "table" else _MIN_WORDS
            if num_words >= min_words:
                yield UnitSpan(int(byte_offsets[start]), int(byte_offsets[end]))


def _is_table_separator(row: str) -> bool:
    """True if a table row is the separator between header and body, such as ``|---|---|``."""
    return row.startswith(("|--", "|:", "| -", "| :")) and not any(map(str.isalnum, row))


UNIT_DERIVATION = UnitDerivation()
UNIT_INDEX = MaintainedIndex(
    UNIT_DERIVATION,
    "sentences with vectors of their own, for the strategy cue",
    {"clauses": Option(0, 0, 1, "1 splits sentences into clauses, by the parser of the store's language")},
)
