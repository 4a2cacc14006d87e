"""The page of a question: the answer with each sentence linked to its source, the evidence, and the steps. The
*evidence* is the passages (*hits*) that the search found. The *steps* are the steps of the search, with their times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import kvstore

from ...errors import InputError, KvstoreError, StatementError
from ..store_queries import get_default_strategy
from .cited_pieces import DocumentTexts, split_paragraphs
from .page import ExplorerPage, PageContent, PageRequest

#: The maximum number of pieces of evidence.
_MAX_TOP = 50


def build_content(request: PageRequest) -> PageContent:
    """Return the answer to the ``q`` argument of a request.

    The arguments ``using`` (a strategy), ``where`` (a condition) and ``top`` (the number of hits) are optional. If a
    model writes the answer and the page can be streamed, the content has no ``answer``. Instead, ``pieces`` yields the
    text as it arrives, and then ``answered`` returns the whole answer. A page reports invalid options in its form.
    """
    store, question = request.store, request.get_text("q")
    content: PageContent = {
        "question": question,
        "using": request.get_text("using"),
        "where": request.get_text("where"),
        "top": request.get_text("top"),
        "strategies": [{"name": strategy.name, "description": strategy.description} for strategy in store.strategies()],
        "strategy": get_default_strategy(store),
        "model": None,
        "answer": None,
        "is_empty": len(store) == 0,
    }
    model = store.language_model()
    try:
        content["top"] = request.get_number("top", 0, maximum=_MAX_TOP)
        if not question or content["is_empty"]:
            return content
        content["model"] = None if model is None else model.name
        clauses: dict[str, Any] = {name: content[name] for name in ("using", "where", "top") if content[name]}
        pieces = request.run_within_deadline(lambda: store.ask_pieces(question, **clauses))
    except (InputError, StatementError) as error:
        return request.report_invalid(content, error)
    if model is None or request.as_data:
        return content | {"answer": build_answer_data(store, pieces.answer)}
    return content | {"pieces": _iter_pieces(pieces), "answered": lambda: _finish_answer(store, pieces)}


def _iter_pieces(pieces: kvstore.AnswerPieces) -> Iterator[str]:
    """Yield the text of an answer as it arrives. An error ends it silently, since it is shown below the text."""
    with suppress(KvstoreError):
        yield from pieces


def _finish_answer(store: kvstore.Store, pieces: kvstore.AnswerPieces) -> dict[str, Any]:
    """Wait for the end of an answer that arrives in pieces; return it as JSON data, or the error that ended it."""
    try:
        return build_answer_data(store, pieces.answer)
    except KvstoreError as error:
        return {"error": str(error)}


def build_answer_data(store: kvstore.Store, answer: kvstore.Answer) -> dict[str, Any]:
    """Return an answer with its citations, evidence and steps as JSON data.

    ``answer_words`` are the words of each paragraph that answer the question. ``weighed`` is the confidence with its
    signals, and ``pool`` is the number of chunks that were ranked.
    """
    cited_spans = {(span.document, span.start, span.end) for citation in answer.citations for span in citation.spans}
    texts = DocumentTexts(store)
    return {
        "text": answer.text,
        "paragraphs": [
            [piece.as_data() for piece in paragraph]
            for paragraph in split_paragraphs(answer.text, answer.citations, texts)
        ],
        "extractive": answer.extractive,
        "model": answer.model,
        "abstained": answer.abstained,
        "outcome": answer.outcome,
        "verdict": answer.verdict,
        "answer_words": _list_answer_words(answer),
        "weighed": None if answer.weighed is None else asdict(answer.weighed),
        "remarks": answer.remarks,
        "citations": [
            {
                "number": citation.number,
                "text": citation.text,
                "kind": citation.kind,
                "format": texts.get_format(citation.spans[0].document),
                "documents": _group_by_document(citation.spans),
            }
            for citation in answer.citations
        ],
        "strategy": answer.evidence.strategy,
        "pool": answer.evidence.pool,
        "hits": [build_hit_data(hit, texts, cited_spans) for hit in answer.evidence.hits],
        "steps": build_steps_data(answer.evidence.steps),
        "milliseconds": sum(step.milliseconds or 0.0 for step in answer.evidence.steps),
    }


def _list_answer_words(answer: kvstore.Answer) -> list[str | None]:
    """Return the first words of each paragraph of an answer that answer the question, or None."""
    spans = [span for span in (answer.answer_span, *(part.span for part in answer.parts)) if span is not None]
    # The number of paragraph ends before a span is the index of its paragraph; the first span of a paragraph wins.
    words_by_paragraph = {answer.text.count("\n\n", 0, span.start): span.text for span in reversed(spans)}
    return [words_by_paragraph.get(paragraph) for paragraph in range(answer.text.count("\n\n") + 1)]


def _group_by_document(spans: Sequence[kvstore.TextSpan]) -> list[dict[str, Any]]:
    """Return spans as JSON data, grouped by document in order of first occurrence; ``places`` are byte ranges."""
    ranges_by_document: dict[str, list[list[int]]] = {}
    for span in spans:
        ranges_by_document.setdefault(span.document, []).append([span.start, span.end])
    return [{"document": document, "places": ranges} for document, ranges in ranges_by_document.items()]


def build_hit_data(
    hit: kvstore.Hit, texts: DocumentTexts, cited_spans: Set[tuple[str, int, int]] = frozenset()
) -> dict[str, Any]:
    """Return a hit as JSON data; ``marks`` are the cited byte ranges of its text.

    ``cited_spans`` are triples of a document's key and the byte offsets where a cited span starts and ends.
    """
    # Other hits have no marks, because their text is not the bytes between their offsets.
    is_slice = hit.kind in ("chunk", "segment") and len(hit.text.encode()) == hit.end - hit.start
    document_spans = [(start, end) for document, start, end in cited_spans if is_slice and document == hit.document]
    marks = sorted(
        (start - hit.start, end - hit.start) for start, end in document_spans if hit.start <= start and end <= hit.end
    )
    return {
        "rank": hit.rank,
        "score": hit.score,
        "document": hit.document,
        "title": hit.title,
        "heading": hit.heading,
        "ordinal": hit.ordinal,
        "chunk": hit.ordinal,  # the deprecated name
        "start": hit.start,
        "end": hit.end,
        "kind": hit.kind,
        "format": texts.get_format(hit.document),
        "path": hit.path,
        "text": hit.text,
        "marks": [list(span) for span in marks],
        "documents": _group_by_document(hit.spans),
    }


def build_steps_data(steps: Sequence[kvstore.Step]) -> list[dict[str, Any]]:
    """Return the steps of a search as JSON data, with their times.

    ``before`` is the fraction of the total time that passed before a step, and ``share`` the fraction spent in it.
    """
    total_milliseconds = sum(step.milliseconds or 0.0 for step in steps) or 1.0  # 1.0 avoids a division by zero
    rows, elapsed = [], 0.0
    for step in steps:
        milliseconds = step.milliseconds or 0.0
        rows.append(asdict(step) | {"before": elapsed / total_milliseconds, "share": milliseconds / total_milliseconds})
        elapsed += milliseconds
    return rows


PAGE = ExplorerPage("/ask", build_content, "ask.html", label="Ask")
