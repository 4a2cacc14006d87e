"""Evidence from the section that a question names or asks for, see :mod:`.numbered_sections`.

In: the hits of a question. Out: a quotation of the section if the question asks for its content ("What does section 4.2
say?"), or its chunks if the question asks for a fact ("Under section 4.2, who pays?").
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
from ..structures.ranking import best
from ..text.words import segment_words
from .excerpts import MAX_WORDS
from .extractive import MAX_CHUNKS
from .numbered_sections import (
    SECTION,
    NumberedSection,
    SectionReference,
    find_section,
    list_section_chunks,
    list_topic_stems,
    remove_reference,
)

#: The number of an item before its text, and its maximum length.
_ITEM_NUMBER_PATTERN, _MAX_NUMBER_BYTES = re.compile(rb"(?<=[ \t\n])\d{1,3}[.)][ \t]+\Z"), 12
#: Words that can also name a thing with a number, unless the label of the section has the word: "What costs item 5?"
_AMBIGUOUS_WORDS = frozenset("article artikel artículo artigo articolo item part point rule".split())


def retrieve_section(hits: Sequence[Hit], reference: SectionReference, query: Query) -> Evidence | None:
    """Return evidence from the section that a question names or asks for, or None if no document of ``hits`` has it.

    A question for a fact gets the chunks of the section with the most of its other words. Side effect: the question of
    ``query`` then no longer names the section, because no sentence of the section does.
    """
    section = find_section(hits, reference, query)
    if section is None:
        return None
    topic = list_topic_stems(reference, section.record, query, section.heading)
    if reference.number and topic and not reference.has_about:
        if reference.word in _AMBIGUOUS_WORDS and section.word != reference.word:
            return None
        chunks = list_section_chunks(section, query.state)
        question = query.question
        query.question = remove_reference(question)
        ranking = best(query.state, np.array(chunks, np.uint64), _count_stems(chunks, topic, query), MAX_CHUNKS)
        evidence = evidence_of(query, SECTION, ranking, "in the section that the question names", len(chunks))
        return replace(evidence, question=question)
    return _quote_section(section, topic if reference.number else set(), query)


def _count_stems(chunks: Sequence[int], stems: set[str], query: Query) -> npt.NDArray[np.float32]:
    """Return for each chunk how many of the stems occur in its text."""
    records = query.state.chunks.get_many(chunks)
    texts = (query.state.documents.read_text_slice(record.document, record.start, record.end) for record in records)
    return np.array([len(stems.intersection(map(query.stem, segment_words(text)))) for text in texts], np.float32)


def _find_number(text: bytes, start: int) -> int:
    """Return the offset of the number of an item whose text begins at byte ``start``, or ``start`` without a number."""
    match = _ITEM_NUMBER_PATTERN.search(text, max(0, start - _MAX_NUMBER_BYTES), start)
    return start if match is None else match.start()


def _quote_section(section: NumberedSection, topic: set[str], query: Query) -> Evidence | None:
    """Return evidence that quotes at most ``MAX_WORDS`` words of a section, or None if it has no sentence.

    The quotation begins with the sentence that has the most stems of the topic or, if none has any, with the section.
    """
    state = query.state
    with query.trace.step("quote section") as step:
        text = state.documents.read_text(section.record.id)
        sentences = [
            # Without the heading before it, and with the number of a step.
            sentence._replace(start=_find_number(text, max(sentence.start, section.text_start)))
            for sentence in collect_cover_sentences(state, list_section_chunks(section, state))
            if section.text_start < sentence.end and section.start <= sentence.start < section.end
        ]
        stem_counts = [len(topic.intersection(map(query.stem, segment_words(sentence.text)))) for sentence in sentences]
        first = stem_counts.index(max(stem_counts)) if any(stem_counts) else 0
        quoted: list[CoverSentence] = []
        num_words = 0
        for sentence in sentences[first:]:
            num_words += sentence.words.length
            if quoted and num_words > MAX_WORDS:
                break
            quoted.append(sentence)
        if not quoted:
            return None
        step.detail, step.count = section.heading, len(quoted)
    hit = build_composed_hit(
        "summary",
        tuple(sentence.to_span(state) for sentence in quoted),
        " ".join(sentence.text for sentence in quoted),
        "the section that the question names",
        heading=section.heading,
        title=section.record.title,
        rank=1,
        score=1.0,
    )
    return Evidence(query.question, SECTION, [hit], steps=query.trace.steps, pool=len(sentences), is_overview=True)
