"""Overviews: which documents there are, or what a document or section says, in sentences with citations. A *record* is
the stored data of a document: key, title and source file. *Evidence* has hits, here opening sentences or summaries. A
*cover* is the sentences that together have most of the content.

In: a question that asks for an overview and names no strategy. Out: evidence. For several documents, it is the opening
sentence of each or, if there are more than the question's TOP, of documents at equal distances in the order of keys. Of
one document, it is the summary by the first strategy that gives overviews. Of a section that the question names by its
number, it is the first sentences.

In: such evidence, or the summaries and reports of another strategy. Out: the text of the answer, which quotes their
sentences, with a citation for each. If the question limits the length of the hits, and for a section, all sentences
are included. Otherwise, only the sentences of a cover (:mod:`~kvstore.retrieval.cover`) are included, up to the length
that people read of an answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import PurePath
from typing import NamedTuple

from ..arguments import format_count
from ..registry import get_strategy, list_overview_strategies
from ..retrieval.cover import CoverSentence, build_composed_hit, collect_cover_sentences, select_cover
from ..retrieval.evidence import Evidence, Hit, TextSpan
from ..retrieval.overview import SummaryRequest
from ..retrieval.query import Query, Strategy
from ..structures.documents.allowed import AllowedDocuments
from ..structures.documents.documents import DocumentRecord
from ..structures.state import State
from ..text.blocks import format_summary_sentence
from ..text.greedy_cover import extract_sentence_words
from .citations import Citation, neutralize_citations
from .extractive import ExtractedAnswer
from .inline_rendering import render_inline
from .markdown_snippets import LINK_DEFINITIONS_PATTERN
from .numbered_sections import SECTION
from .passages import iter_spans

#: The maximum number of tokens of a summary if the question does not limit the length of the hits.
_MAX_TOKENS = 300
#: The question for the strategy that summarizes a document.
_SUMMARY_QUESTION = "Summarize the document."
#: The name of the strategy in evidence that lists documents.
_LISTING = "documents"
#: The words after the number of documents if only some are listed.
_PARTIAL = ", among them"
#: The number of chunks at the start of a document that can contain its opening sentence.
_NUM_OPENING_CHUNKS = 2
#: The number of first lines that identify a document without a title, and of documents whose lines are read.
_NUM_OPENING_LINES, _MAX_UNTITLED_DOCUMENTS = 2, 200
#: The numbers of words of an opening sentence. Shorter and longer ones are often letterheads and lists.
_MIN_OPENING_WORDS, _MAX_OPENING_WORDS = 4, 40


def retrieve_overview(
    query: Query, request: SummaryRequest, retrieve: Callable[[Strategy, Query], Evidence]
) -> Evidence | None:
    """Return an overview of the documents that a question asks to summarize; None if no overview can be given.

    ``request`` has the subject of the question. Documents with its words in their title or key are preferred. If there
    are none, all documents that the query allows are chosen if the request covers all; otherwise, documents without a
    title that have the words in their first lines. Several documents are listed. A single one is summarized by
    ``retrieve``, which runs a query with a strategy.

    Side effect: if a single document is selected, ``query`` stays restricted to it, even if the result is None.
    """
    # A document without groups of chunks is empty.
    records = sorted(
        (record for record in query.state.documents.scan() if record.groups), key=lambda record: record.key
    )
    named_records: list[DocumentRecord] = []
    if request.subject:
        titles = (
            f"{title} {record.key}" for title, record in zip(_read_titles(query.state, records), records, strict=True)
        )
        named_records = [records[position] for position in request.find_title_positions(titles, query.stem)]
        if not named_records and not request.covers_all:
            named_records = _find_records_by_first_lines(query, request, records)
    selected_records = named_records or (records if request.covers_all else [])
    if not selected_records:
        return None
    if len(selected_records) > 1:
        subject = "The store has" if query.allowed is None else "The condition selects"
        return _list_documents(query, selected_records, "The question names" if named_records else subject)
    # A strategy whose ``needs`` is None works in every store; others need an index.
    strategies = map(get_strategy, list_overview_strategies())
    strategy = next(strategy for strategy in strategies if getattr(strategy, "needs", None) is None)
    question = query.question
    query.restrict_to(AllowedDocuments.from_records(selected_records))
    query.question = _SUMMARY_QUESTION  # without the subject, which now selects the document
    evidence = retrieve(strategy, query)
    query.question = question
    return replace(evidence, question=question) if evidence.is_overview else None


def _find_records_by_first_lines(
    query: Query, request: SummaryRequest, records: Sequence[DocumentRecord]
) -> list[DocumentRecord]:
    """Return the records of the documents without a title whose first lines contain the subject of a request.

    Documents with the same source, such as the rows of a CSV file, are omitted. Only the first
    ``_MAX_UNTITLED_DOCUMENTS`` documents without a title are read.
    """
    source_counts = Counter(record.source for record in records if record.source)
    untitled_records = [record for record in records if not record.title and source_counts[record.source or ""] <= 1]
    del untitled_records[_MAX_UNTITLED_DOCUMENTS:]
    first_lines = []
    for record in untitled_records:
        chunk = query.state.chunks.get(record.get_chunk_id(0))
        text = query.state.documents.read_text_slice(record.id, chunk.start, chunk.end)
        first_lines.append(" ".join(text.strip().split("\n", _NUM_OPENING_LINES)[:_NUM_OPENING_LINES]))
    return [untitled_records[index] for index in request.find_title_positions(first_lines, query.stem)]


def _read_titles(state: State, records: Sequence[DocumentRecord]) -> list[str]:
    """Return the title of each document or, if it has none, the heading at its start or the name of its file."""
    sections = state.documents.get_sections_many(record.id for record in records if not record.title)
    titles = []
    for record in records:
        headings = [section.title for section in sections.get(record.id, ())[:1] if not section.start]
        titles.append(record.title or next(iter(headings), "") or _get_file_name(record))
    return titles


def _get_file_name(record: DocumentRecord) -> str:
    """Return the name of the file of a document or, without a file, the last part of its key."""
    return PurePath(record.source or record.key).name


def _list_documents(query: Query, records: Sequence[DocumentRecord], subject: str) -> Evidence:
    """Return evidence that lists documents: their opening sentences are its hits, and their number is its context.

    Documents with the same source, such as the rows of a CSV file, are listed as one. At most ``query.top`` are listed,
    at equal distances in ``records``. The context begins with ``subject``, for example "The store has".
    """
    with query.trace.step("list documents") as step:
        records_by_source: dict[str, list[DocumentRecord]] = {}
        for record in records:
            records_by_source.setdefault(record.source or record.key, []).append(record)
        groups = list(records_by_source.values())
        num_listed = min(query.top, len(groups))
        selected_groups = [groups[index * len(groups) // num_listed] for index in range(num_listed)]
        first_records = [group[0] for group in selected_groups]
        hits = []
        for rank, (title, group) in enumerate(
            zip(_read_titles(query.state, first_records), selected_groups, strict=True), 1
        ):
            if len(group) > 1:  # the rows of a file
                title = f"{_get_file_name(group[0])} ({len(group):,} documents)"
            hits.append(_build_opening_hit(query.state, rank, group[0], title))
        count = format_count(len(records), "document")
        if len(groups) < len(records):
            count += f" from {format_count(len(groups), 'source')}"
        context = f"{subject} {count}{_PARTIAL if num_listed < len(groups) else ''}"
        step.detail, step.count = context, num_listed
    return Evidence(
        query.question,
        _LISTING,
        hits,
        steps=query.trace.steps,
        pool=sum(record.chunk_count for record in records),
        context=[context],
        hint="SELECT key, title FROM documents lists all documents" if num_listed < len(groups) else None,
        is_overview=True,
    )


def _build_opening_hit(state: State, rank: int, record: DocumentRecord, title: str) -> Hit:
    """Return a hit that is the opening sentence of a document or, if its first chunks have none, its first line.

    The opening sentence is the first one that can describe the document, or else the first one. ``title`` is displayed
    as the title of the document, and ``rank`` counts from 1.
    """
    sentences = collect_cover_sentences(state, islice(record.chunk_ids(), _NUM_OPENING_CHUNKS))
    opening_sentence = next(filter(_is_description, sentences), sentences[0] if sentences else None)
    if opening_sentence is None:
        chunk = state.chunks.get(record.get_chunk_id(0))
        chunk_text = state.documents.read_text_slice(record.id, chunk.start, chunk.end)
        text = chunk_text.lstrip().partition("\n")[0]
        start = chunk.start + len(chunk_text.encode()) - len(chunk_text.lstrip().encode())
        span = TextSpan(record.key, 0, start, start + len(text.encode()))
    else:
        span, text = opening_sentence.to_span(state), opening_sentence.text
    path = "the opening sentence of the document"
    return build_composed_hit("summary", (span,), text, path, title=title, rank=rank, score=1.0)


def _is_description(sentence: CoverSentence) -> bool:
    """True if a sentence can say what its document is about: it ends with punctuation and has an ordinary length."""
    is_complete = sentence.text.endswith((".", "!", "?", "。", "！", "？", "؟", "।"))
    return is_complete and _MIN_OPENING_WORDS <= sentence.words.length <= _MAX_OPENING_WORDS


class _QuotedSpan(NamedTuple):
    """The id of a document, and bytes of its text."""

    document: int
    start: int
    end: int


def _collect_sentences(evidence: Evidence, state: State) -> tuple[list[CoverSentence], dict[_QuotedSpan, Hit]]:
    """Return the distinct sentences of an overview, and by their spans the first hit with each. A span is one sentence.

    Definitions of link targets are omitted, because a page does not show them.
    """
    hits_by_span: dict[_QuotedSpan, Hit] = {}
    sentences: list[CoverSentence] = []
    for hit in evidence.hits:
        for chunk, text_span in iter_spans(hit, state):
            span = _QuotedSpan(state.chunks.get(chunk).document, text_span.start, text_span.end)
            if span in hits_by_span:
                continue
            hits_by_span[span] = hit
            text = state.documents.read_text_slice(*span)
            if not LINK_DEFINITIONS_PATTERN.fullmatch(text):
                displayed_text = format_summary_sentence(render_inline(text))
                words = extract_sentence_words(displayed_text)
                sentences.append(CoverSentence(span.document, chunk, span.start, span.end, displayed_text, words))
    return sentences, hits_by_span


def build_overview(evidence: Evidence, state: State, *, include_all: bool, max_words: int | None) -> ExtractedAnswer:
    """Return an answer that quotes an overview, with a citation for each sentence.

    If the overview is a list of documents, each document is an item. A numbered section is quoted as it is. Otherwise,
    each summary or report is a paragraph that begins with the heading of its section. Unless ``include_all``, only the
    sentences that together cover most of the content within ``_MAX_TOKENS`` or, if given, as many tokens as
    ``max_words`` are included; a summary without such a sentence is omitted. The answer has at most ``max_words`` words
    (None: no limit), but the first sentence is always included.
    """
    sentences, hits_by_span = _collect_sentences(evidence, state)
    is_listing = evidence.strategy == _LISTING
    if not (is_listing or include_all or evidence.strategy == SECTION):
        sentences = select_cover(sentences, max_words or _MAX_TOKENS) or sentences[:1]
    paragraphs: dict[int, list[str]] = {}  # by rank of the hit
    citations: list[Citation] = []
    num_words = 0
    for number, sentence in enumerate(sentences, 1):
        num_words += sentence.words.length
        if max_words is not None and num_words > max_words and citations:
            break
        hit = hits_by_span[_QuotedSpan(sentence.document, sentence.start, sentence.end)]
        # Bracketed numbers of the document would look like citations.
        text = neutralize_citations(sentence.text)
        paragraphs.setdefault(hit.rank, [_format_label(hit, evidence.strategy)]).append(f"{text} [{number}]")
        span = sentence.to_span(state)
        citations.append(Citation(number, span.document, span.ordinal, span.start, span.end, text, hit.kind))
    texts = [" ".join(filter(None, paragraph)) for paragraph in paragraphs.values()]
    if not is_listing:
        return ExtractedAnswer("\n\n".join(texts), citations)
    (lead,) = evidence.context
    if len(texts) < len(evidence.hits):
        lead = f"{lead.removesuffix(_PARTIAL)}{_PARTIAL}"
    return ExtractedAnswer("\n".join([f"{lead}:", "", *(f"- {text}" for text in texts)]), citations)


def _format_label(hit: Hit, strategy: str) -> str:
    """Return the label to display before the sentences of a hit of an overview; empty if it has none.

    It is the title of the document in a list of documents, the heading of the section in a summary, unless it equals
    the title, and both if the question names a section, because several documents can have it.
    """
    title, heading = hit.title or "", hit.heading.rpartition(" > ")[2]
    if strategy == _LISTING:
        label = title
    elif strategy == SECTION:
        label = " > ".join(dict.fromkeys(filter(None, (title, heading))))
    else:
        label = "" if heading == title else heading
    label = neutralize_citations(label)
    return label if not label or label.endswith(("?", ":")) else f"{label}:"
