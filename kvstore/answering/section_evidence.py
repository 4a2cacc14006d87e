"""Evidence from the section that a question names ("section 4.2") or asks for ("Which section covers notice?"). The
*topic* of a section has the stems of the other words of the question that neither its heading nor the name of its
document has.

In: the hits of a question. Out: a quotation of the section if the question asks for its content ("What does section 4.2
say?"), or its chunks if the question asks for a fact ("Under section 4.2, who pays?"). If the question asks what is new
in a version, the section with this version in a changelog is quoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from ..retrieval.cover import CoverSentence, build_composed_hit, collect_cover_sentences
from ..retrieval.evidence import Evidence, Hit
from ..retrieval.query import Query, evidence_of
from ..structures.documents.documents import DocumentRecord
from ..structures.ranking import best
from ..structures.state import State
from ..text.words import segment_words
from .excerpts import MAX_WORDS
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
from .releases import read_release
from .section_references import ChangesRequest, SectionReference, mentions_number, remove_reference
from .snippet_scoring import MAX_CHUNKS

#: The maximum number of words of an answer that quotes the changes in a version.
_MAX_CHANGES_WORDS = 2 * MAX_WORDS
#: The number of an item before its text, at the start of a line.
_ITEM_NUMBER_PATTERN = re.compile(rb"(?:\A|\n)[ \t>]*(?:[-*+][ \t]+)?(\d{1,3}[.)])[ \t]+\Z")
#: The maximum size of the start of a line up to the text of an item, in bytes.
_MAX_NUMBER_BYTES = 40


def retrieve_section(hits: Sequence[Hit], reference: SectionReference, query: Query) -> Evidence | None:
    """Return evidence from the section that a question names or asks for, or None if no document of ``hits`` has it.

    If the question asks for the content of the section, the section is quoted. If it asks for a fact ("Under section
    4.2, who pays?"), the evidence is the chunks of the section with the most stems of its topic.
    """
    sections = find_sections(hits, reference, query)
    if not sections:
        return None
    topics = [list_topic_stems(reference, section.record, query, section.heading) for section in sections]
    if not reference.number:  # the question asks for the section about something
        return _quote_sections(sections, [set()], query)
    # The question means the sections whose headings have the most of its words.
    min_size = min(map(len, topics))
    sections = [section for section, topic in zip(sections, topics, strict=True) if len(topic) == min_size]
    topics = [topic for topic in topics if len(topic) == min_size]
    names = (f"{section.record.title or ''} {section.record.key}" for section in sections)
    names_document = bool(reference.document_words) and not any(
        count_missing_words(reference, name, query) for name in names
    )
    asks_for_content = not topics[0] or reference.has_about
    if not asks_for_content:
        return _retrieve_chunks(sections, reference, topics[0], names_document, query)
    are_list_items = all(section.is_line and not section.word and not section.has_heading for section in sections)
    if are_list_items and not names_document:
        # An item of a list is not the section if another document mentions "rule 5" or "the fifth chapter".
        other_texts = [hit.text for hit in hits if all(hit.document != section.record.key for section in sections)]
        if any(mentions_number(reference, text) for text in other_texts):
            return None
    return _quote_sections(sections, topics, query)


def _retrieve_chunks(
    sections: Sequence[NumberedSection],
    reference: SectionReference,
    topic: set[str],
    names_document: bool,
    query: Query,
) -> Evidence | None:
    """Return the chunks of ``sections`` with the most stems of the topic as evidence.

    Unless the question names the document (``names_document``), return None if no chunk has such a stem, or if the word
    before the number can name a thing ("item 7") and no section has this word. Side effect: the question of ``query``
    no longer names the section, because no sentence of the section does.
    """
    has_word = any(section.word == reference.word for section in sections)
    if reference.word in AMBIGUOUS_WORDS and not (names_document or has_word):
        return None
    chunks = list(dict.fromkeys(chunk for section in sections for chunk in list_section_chunks(section, query.state)))
    records = query.state.chunks.get_many(chunks)
    texts = (query.state.documents.read_text_slice(record.document, record.start, record.end) for record in records)
    stem_counts = _count_stems(texts, topic, query)
    if not (names_document or any(stem_counts)):
        return None
    question = query.question
    query.question = remove_reference(question)
    ranking = best(query.state, np.array(chunks, np.uint64), np.array(stem_counts, np.float32), MAX_CHUNKS)
    evidence = evidence_of(query, SECTION, ranking, "in the section that the question names", len(chunks))
    return replace(evidence, question=question)


def retrieve_changes(hits: Sequence[Hit], request: ChangesRequest, query: Query) -> Evidence | None:
    """Return evidence that quotes the changes in the requested version from a changelog, or one part of them.

    Each part, such as "Added", is quoted with the version and its date. The list is in the first document of ``hits``
    that has the version and the requested part; None if no document has them.
    """
    state = query.state
    records = map(state.documents.find_by_key, dict.fromkeys(hit.document for hit in hits))
    parts = next(filter(None, (_list_changes(record, request, state) for record in records if record is not None)), [])
    return _quote_sections(parts, [set()] * len(parts), query, _MAX_CHANGES_WORDS)


def _list_changes(record: DocumentRecord, request: ChangesRequest, state: State) -> list[NumberedSection]:
    """Return the parts ("Added", "Fixed") of the section with the requested version in a document.

    If the request has no part, return all parts, and before them the text above the first one.
    """
    sections = state.documents.get_sections(record.id)
    for index, section in enumerate(sections):
        release = read_release(section)
        if release is None or release.version not in (request.version, f"{request.version}.0"):
            continue
        parts = [part for part in sections if part.parent == index]
        end = min((part.start for part in parts), default=section.end)
        introduction = [] if request.part else [_make_part(record, section.title, section.start, end, state)]
        return introduction + [
            _make_part(record, f"{section.title}: {part.title}", part.start, part.end, state)
            for part in parts
            if request.part in ("", part.title.lower())
        ]
    return []


def _make_part(record: DocumentRecord, heading: str, start: int, end: int, state: State) -> NumberedSection:
    """Return bytes ``start`` to ``end`` of a document, which begin with a heading, as a section without a number."""
    return skip_heading(NumberedSection(record, "", "", heading, 0, start, start, end), state)


def _count_stems(texts: Iterable[str], stems: set[str], query: Query) -> list[int]:
    """Return for each text how many of the stems it has."""
    return [len(stems.intersection(map(query.stem, segment_words(text)))) for text in texts]


def _find_number(text: bytes, start: int) -> int:
    """Return the offset of the number of an item whose text begins at byte ``start``, or ``start`` without a number."""
    match = _ITEM_NUMBER_PATTERN.search(text, max(0, start - _MAX_NUMBER_BYTES), start)
    return start if match is None else match.start(1)


def _quote_sections(
    sections: Sequence[NumberedSection], topics: Sequence[set[str]], query: Query, max_words: int = MAX_WORDS
) -> Evidence | None:
    """Return evidence that quotes at most ``max_words`` words of sections, or None if they have no sentence.

    ``topics`` has the topic of each section. Of several sections, only those that have a sentence with the most stems
    of their topic are quoted.
    """
    candidates = [
        (section, topic, sentences)
        for section, topic in zip(sections, topics, strict=True)
        if (sentences := _list_sentences(section, query.state))
    ]
    if not candidates:
        return None
    with query.trace.step("quote section") as step:
        counts = [
            max(_count_stems((sentence.text for sentence in sentences), topic, query))
            for _, topic, sentences in candidates
        ]
        candidates = [candidate for candidate, count in zip(candidates, counts, strict=True) if count == max(counts)]
        hits = [
            _build_section_hit(
                section, _select_sentences(sentences, topic, max_words // len(candidates), query), rank, query
            )
            for rank, (section, topic, sentences) in enumerate(candidates, 1)
        ]
        step.detail = "; ".join(section.heading for section, *_ in candidates)
        step.count = sum(len(hit.spans) for hit in hits)
    num_sentences = sum(len(sentences) for *_, sentences in candidates)
    return Evidence(query.question, SECTION, hits, steps=query.trace.steps, pool=num_sentences, is_overview=True)


def _list_sentences(section: NumberedSection, state: State) -> list[CoverSentence]:
    """Return the sentences of a section without its heading. The first sentence of an item begins with its number."""
    text = state.documents.read_text(section.record.id)
    return [
        sentence._replace(start=_find_number(text, max(sentence.start, section.text_start)))
        for sentence in collect_cover_sentences(state, list_section_chunks(section, state))
        if section.text_start < sentence.end and section.start <= sentence.start < section.end
    ]


def _select_sentences(
    sentences: Sequence[CoverSentence], topic: set[str], max_words: int, query: Query
) -> list[CoverSentence]:
    """Return consecutive sentences of at most ``max_words`` words, or the first one if it is longer.

    They begin with the sentence that has the most stems of the topic or, if none has any, with the first one.
    """
    stem_counts = _count_stems((sentence.text for sentence in sentences), topic, query)
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
