"""Evidence from the section that a question names or asks for, see :mod:`.numbered_sections`.

In: the hits of a question. Out: a quotation of the section if the question asks for its content ("What does section 4.2
say?"), or its chunks if the question asks for a fact ("Under section 4.2, who pays?"). If the question asks what is new
in a version, the section with this version in a list of changes is quoted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ..retrieval.cover import CoverSentence, build_composed_hit, collect_cover_sentences
from ..retrieval.evidence import Evidence, Hit
from ..retrieval.query import Query, evidence_of
from ..structures.documents.documents import DocumentRecord
from ..structures.ranking import best
from ..structures.state import State
from ..text.blocks import to_plain_text
from ..text.words import segment_words
from .excerpts import MAX_WORDS
from .extractive import MAX_CHUNKS
from .numbered_sections import (
    AMBIGUOUS_WORDS,
    SECTION,
    NumberedSection,
    count_missing_words,
    find_sections,
    list_section_chunks,
    list_topic_stems,
    skip_heading,
)
from .releases import parse_release
from .section_references import ChangesRequest, SectionReference, mentions_number, remove_reference

#: The maximum number of words of an answer that quotes the changes in a version.
_MAX_CHANGES_WORDS = 2 * MAX_WORDS
#: The number of an item before its text, at the start of a line.
_ITEM_NUMBER_PATTERN = re.compile(rb"(?:\A|\n)[ \t>]*(?:[-*+][ \t]+)?(\d{1,3}[.)])[ \t]+\Z")
#: The maximum size of the start of a line up to the text of an item, in bytes.
_MAX_NUMBER_BYTES = 40


def retrieve_section(hits: Sequence[Hit], reference: SectionReference, query: Query) -> Evidence | None:
    """Return evidence from the section that a question names or asks for, or None if no document of ``hits`` has it.

    A question for a fact gets the chunks of the section with the most of its other words; there must be one, unless the
    question names the document. Side effect: the question of ``query`` then no longer names the section, because no
    sentence of the section does.
    """
    sections = find_sections(hits, reference, query)
    if not sections:
        return None
    topics = [list_topic_stems(reference, section.record, query, section.heading) for section in sections]
    if not reference.number:
        return _quote_sections(sections, [set()], query)
    # A section whose heading has more words of the question is the one that it means.
    min_size = min(map(len, topics))
    sections = [section for section, topic in zip(sections, topics, strict=True) if len(topic) == min_size]
    topics = [topic for topic in topics if len(topic) == min_size]
    names = (f"{section.record.title or ''} {section.record.key}" for section in sections)
    is_named = bool(reference.document_words) and not any(count_missing_words(reference, name, query) for name in names)
    if not (topics[0] and not reference.has_about):
        # An item of a list is not the section if another document mentions "rule 5" or "the fifth chapter".
        texts = [hit.text for hit in hits if all(hit.document != section.record.key for section in sections)]
        are_items = all(section.is_line and not section.word and not section.has_heading for section in sections)
        if are_items and not is_named and any(mentions_number(reference, text) for text in texts):
            return None
        return _quote_sections(sections, topics, query)
    has_word = any(section.word == reference.word for section in sections)
    if reference.word in AMBIGUOUS_WORDS and not (is_named or has_word):
        return None
    chunks = list(dict.fromkeys(chunk for section in sections for chunk in list_section_chunks(section, query.state)))
    stem_counts = _count_stems(chunks, topics[0], query)
    if not (is_named or stem_counts.any()):
        return None
    question = query.question
    query.question = remove_reference(question)
    ranking = best(query.state, np.array(chunks, np.uint64), stem_counts, MAX_CHUNKS)
    evidence = evidence_of(query, SECTION, ranking, "in the section that the question names", len(chunks))
    return replace(evidence, question=question)


def retrieve_changes(hits: Sequence[Hit], request: ChangesRequest, query: Query) -> Evidence | None:
    """Return evidence that quotes the requested section of a list of changes, or its requested part.

    Each part, such as "Added", is quoted with the version and its date. Returns None if no document of ``hits`` has a
    section with the version and its date, or if it lacks the part.
    """
    state = query.state
    records = map(state.documents.find_by_key, dict.fromkeys(hit.document for hit in hits))
    parts = next(filter(None, (_list_changes(record, request, state) for record in records if record is not None)), [])
    quotations = [(part, sentences) for part in parts if (sentences := _list_sentences(part, state))]
    if not quotations:
        return None
    with query.trace.step("quote section") as step:
        max_words = _MAX_CHANGES_WORDS // len(quotations)
        quoted_hits = [
            _build_section_hit(part, _select_sentences(sentences, set(), max_words, query), rank, query)
            for rank, (part, sentences) in enumerate(quotations, 1)
        ]
        step.detail = "; ".join(part.heading for part, _ in quotations)
        step.count = sum(len(hit.spans) for hit in quoted_hits)
    pool = sum(len(sentences) for _, sentences in quotations)
    return Evidence(query.question, SECTION, quoted_hits, steps=query.trace.steps, pool=pool, is_overview=True)


def _list_changes(record: DocumentRecord, request: ChangesRequest, state: State) -> list[NumberedSection]:
    """Return the parts of the section with the requested version in a list of changes; all if none is requested.

    The text above the first part is a part, too.
    """
    sections = state.documents.get_sections(record.id)
    for index, section in enumerate(sections):
        release = parse_release(to_plain_text(section.title).strip())
        if release is None or release.version not in (request.version, f"{request.version}.0"):
            continue
        parts = [part for part in sections if part.parent == index]
        end = min((part.start for part in parts), default=section.end)
        changes = (
            []
            if request.part
            else [NumberedSection(record, "", "", section.title, 0, section.start, section.start, end)]
        )
        changes += [
            NumberedSection(record, "", "", f"{section.title}: {part.title}", 0, part.start, part.start, part.end)
            for part in parts
            if request.part in ("", part.title.lower())
        ]
        return [skip_heading(part, state) for part in changes]
    return []


def _count_stems(chunks: Sequence[int], stems: set[str], query: Query) -> npt.NDArray[np.float32]:
    """Return for each chunk how many of the stems occur in its text."""
    records = query.state.chunks.get_many(chunks)
    texts = (query.state.documents.read_text_slice(record.document, record.start, record.end) for record in records)
    return np.array([len(stems.intersection(map(query.stem, segment_words(text)))) for text in texts], np.float32)


def _find_number(text: bytes, start: int) -> int:
    """Return the offset of the number of an item whose text begins at byte ``start``, or ``start`` without a number."""
    match = _ITEM_NUMBER_PATTERN.search(text, max(0, start - _MAX_NUMBER_BYTES), start)
    return start if match is None else match.start(1)


def _quote_sections(sections: Sequence[NumberedSection], topics: Sequence[set[str]], query: Query) -> Evidence | None:
    """Return evidence that quotes sections, or None if they have no sentence.

    Of several sections, those with the most stems of their topic in a sentence are quoted, ``MAX_WORDS`` words at most
    together. ``topics`` are the stems of the words that a section can be asked about.
    """
    with query.trace.step("quote section") as step:
        candidates = [
            (section, topic, sentences)
            for section, topic in zip(sections, topics, strict=True)
            if (sentences := _list_sentences(section, query.state))
        ]
        if not candidates:
            return None
        counts = [max(_count_topic_stems(sentences, topic, query)) for _, topic, sentences in candidates]
        candidates = [candidate for candidate, count in zip(candidates, counts, strict=True) if count == max(counts)]
        max_words = MAX_WORDS // len(candidates)
        hits = [
            _build_section_hit(section, _select_sentences(sentences, topic, max_words, query), rank, query)
            for rank, (section, topic, sentences) in enumerate(candidates, 1)
        ]
        step.detail = "; ".join(section.heading for section, *_ in candidates)
        step.count = sum(len(hit.spans) for hit in hits)
    num_sentences = sum(len(sentences) for *_, sentences in candidates)
    return Evidence(query.question, SECTION, hits, steps=query.trace.steps, pool=num_sentences, is_overview=True)


def _list_sentences(section: NumberedSection, state: State) -> list[CoverSentence]:
    """Return the sentences of a section, without the heading before it, and with the number of a step."""
    text = state.documents.read_text(section.record.id)
    return [
        sentence._replace(start=_find_number(text, max(sentence.start, section.text_start)))
        for sentence in collect_cover_sentences(state, list_section_chunks(section, state))
        if section.text_start < sentence.end and section.start <= sentence.start < section.end
    ]


def _count_topic_stems(sentences: Sequence[CoverSentence], topic: set[str], query: Query) -> list[int]:
    """Return for each sentence how many stems of a topic it has."""
    return [len(topic.intersection(map(query.stem, segment_words(sentence.text)))) for sentence in sentences]


def _select_sentences(
    sentences: Sequence[CoverSentence], topic: set[str], max_words: int, query: Query
) -> list[CoverSentence]:
    """Return consecutive sentences of at most ``max_words`` words, or the first one if it is longer.

    They begin with the sentence that has the most stems of the topic or, if none has any, with the first one.
    """
    stem_counts = _count_topic_stems(sentences, topic, query)
    first = stem_counts.index(max(stem_counts))
    quoted: list[CoverSentence] = []
    num_words = 0
    for sentence in sentences[first:]:
        num_words += sentence.words.length
        if quoted and num_words > max_words:
            break
        quoted.append(sentence)
    return quoted


def _build_section_hit(section: NumberedSection, sentences: Sequence[CoverSentence], rank: int, query: Query) -> Hit:
    """Return the hit that quotes sentences of a section."""
    return build_composed_hit(
        "summary",
        tuple(sentence.to_span(query.state) for sentence in sentences),
        " ".join(sentence.text for sentence in sentences),
        "the section that the question names",
        heading=section.heading,
        title=section.record.title,
        rank=rank,
        score=1.0,
    )
