"""Answers to overview questions: summary sentences, each with its citation.

In: evidence whose hits are summaries or reports, and their state. Out: a paragraph for each hit, of sentences word for
word. If the question limits the length, all hits are used; otherwise only the sentences that cover most of them
(:mod:`~kvstore.retrieval.cover`), as much as people read of an answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..retrieval.cover import CoverSentence, select_cover
from ..retrieval.evidence import Hit
from ..retrieval.overview import is_overview_question
from ..structures.state import State
from ..text.blocks import format_summary_sentence
from ..text.greedy_cover import extract_sentence_words
from .citations import Citation, neutralize_citations
from .passages import iter_spans

#: Tokens of an answer, where the question does not limit what is found.
_TOKENS = 300


def is_overview(question: str, hits: Sequence[Hit]) -> bool:
    """True if a question asks for an overview and the hits are one."""
    return bool(hits) and all(hit.kind in ("summary", "report") for hit in hits) and is_overview_question(question)


def build_overview(hits: Sequence[Hit], state: State, *, include_all: bool) -> tuple[str, list[Citation]]:
    """The answer's text and its citations, one a sentence; ``include_all`` leaves none of them out."""
    hits_by_span: dict[tuple[int, int, int], Hit] = {}
    sentences: list[CoverSentence] = []
    for hit in hits:
        for chunk, span in iter_spans(hit, state):
            document = state.chunks.get(chunk).document
            if (document, span.start, span.end) not in hits_by_span:
                hits_by_span[document, span.start, span.end] = hit
                text_shown = format_summary_sentence(state.documents.text_slice(document, span.start, span.end))
                words = extract_sentence_words(text_shown)
                sentences.append(CoverSentence(document, chunk, span.start, span.end, text_shown, words))
    paragraphs: dict[int, list[str]] = {}
    citations = []
    for number, sentence in enumerate(sentences if include_all else select_cover(sentences, _TOKENS), 1):
        hit = hits_by_span[sentence.document, sentence.start, sentence.end]
        # Numbers that a document has in brackets itself would pass for citations.
        text = neutralize_citations(sentence.text)
        paragraphs.setdefault(hit.rank, []).append(f"{text} [{number}]")
        place = sentence.to_span(state)
        citations.append(Citation(number, place.document, place.ordinal, place.start, place.end, text, hit.kind))
    return "\n\n".join(" ".join(paragraph) for paragraph in paragraphs.values()), citations
