"""Answers to overview questions: summary sentences, each with its citation.

In: hits that are summaries or reports, and their state. Out: a paragraph of quoted sentences for each hit. If the
question limits the length of the hits, all sentences are included. Otherwise, only the sentences that cover most of
their content (:mod:`~kvstore.retrieval.cover`) are included, up to the length that people read of an answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..retrieval.cover import CoverSentence, select_cover
from ..retrieval.evidence import Hit
from ..structures.state import State
from ..text.blocks import format_summary_sentence
from ..text.greedy_cover import extract_sentence_words
from .citations import Citation, neutralize_citations
from .passages import LINK_DEFINITIONS_PATTERN, iter_spans
from .snippets import render_inline

#: The maximum number of tokens of an answer if the question does not limit the length of the hits.
_MAX_TOKENS = 300


def build_overview(hits: Sequence[Hit], state: State, *, include_all: bool) -> tuple[str, list[Citation]]:
    """Return the text of an answer that quotes summaries, a paragraph per hit, and a citation for each sentence.

    Without ``include_all``, only the sentences that cover most of the content in ``_MAX_TOKENS`` tokens are included,
    and a hit without one gets no paragraph.
    """
    hits_by_span: dict[tuple[int, int, int], Hit] = {}
    sentences: list[CoverSentence] = []
    for hit in hits:
        for chunk, span in iter_spans(hit, state):
            document = state.chunks.get(chunk).document
            if (document, span.start, span.end) not in hits_by_span:
                hits_by_span[document, span.start, span.end] = hit
                text = state.documents.read_text_slice(document, span.start, span.end)
                if LINK_DEFINITIONS_PATTERN.fullmatch(text):
                    continue
                displayed = format_summary_sentence(render_inline(text))
                words = extract_sentence_words(displayed)
                sentences.append(CoverSentence(document, chunk, span.start, span.end, displayed, words))
    paragraphs: dict[int, list[str]] = {}
    citations = []
    for number, sentence in enumerate(sentences if include_all else select_cover(sentences, _MAX_TOKENS), 1):
        hit = hits_by_span[sentence.document, sentence.start, sentence.end]
        # Bracketed numbers of the document would look like citations.
        text = neutralize_citations(sentence.text)
        paragraphs.setdefault(hit.rank, []).append(f"{text} [{number}]")
        span = sentence.to_span(state)
        citations.append(Citation(number, span.document, span.ordinal, span.start, span.end, text, hit.kind))
    return "\n\n".join(" ".join(paragraph) for paragraph in paragraphs.values()), citations
