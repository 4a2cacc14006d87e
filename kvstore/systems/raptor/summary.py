"""Summaries: sentences of whole documents that together cover most of their content, within a length. They are grouped
into *parts*, which become hits: ranges of chunks of a document, or *topics* (groups of similar chunks of all
documents).

In: a query. Out: hits of kind ``summary``, in order of document key and offset, each with the spans of its sentences.
:mod:`~kvstore.retrieval.cover` chooses the sentences from all allowed documents, as from one text, so content that
several documents share is included once. Words of a question about something specific count twice.

The sentences are grouped by the parts of the documents that contain them. The abstract trees are cut so that there are
at most as many parts as hits requested (RAPTOR, Sarthi et al. 2024, also reads such a tree from the top). If the
documents are too long to read in full, the sentences of their abstracts are used: abstracts of five chunks each or, for
very many, abstracts of whole documents. With the ``topics`` index, the summaries of its topics are used instead: the
finest or, for very many, coarser or the largest ones. The requests are in :mod:`.summary_requests`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from ...arguments import format_count
from ...retrieval.cover import (
    CoverSentence,
    build_composed_hit,
    compute_word_weights,
    extract_question_words,
    select_cover,
)
from ...retrieval.dense_search import rank_by_vector
from ...retrieval.evidence import Evidence, Hit, TextSpan
from ...retrieval.query import Query
from ...structures.read_requests import BatchedReader
from .summary_requests import (
    ChunkPositionsRequest,
    DocumentCandidates,
    DocumentPartsRequest,
    DocumentSentencesRequest,
    TopicCandidates,
    TopicSentencesRequest,
    TopicsWithinLimitRequest,
)

#: The maximum size of the documents (in bytes) that are read in full for one question, about a second's work.
_MAX_FULL_TEXT_BYTES = 2_000_000
#: The maximum number of lowest abstracts read instead; if there are more, abstracts of whole documents are read.
_MAX_ABSTRACTS = 20_000
#: If more documents than this are allowed, only the documents of the nearest chunks are used.
_MAX_DOCUMENTS = 20_000
_NUM_NEAREST_CHUNKS = 2_000
#: The maximum number of topics whose summaries are read; processing their sentences takes about a second.
_MAX_TOPICS = 4_000
#: The minimum number of tokens of a part, so that it is not a single sentence without context.
_MIN_PART_TOKENS = 30


def summarize(query: Query, strategy: str) -> Evidence:
    """Return sentences that together contain most of the content of the documents, as evidence.

    All documents that match the query's condition are summarized. The sentences have at most ``query.within`` tokens
    or, without that limit, as many as ``query.top`` chunks can have. The hits are the parts of documents, or the
    topics, that contain the sentences. ``strategy`` is the name that the evidence shows.
    """
    with query.trace.step("read documents") as step:
        overview = _read_overview(query)
        step.detail, step.count = overview.source, overview.source_count
    max_tokens = query.top * query.reading.settings.chunk_tokens if query.within is None else query.within
    with query.trace.step("cover") as step:
        sentences, coverage = _select_sentences(query, overview.sentences, max_tokens, overview.get_group)
        step.detail = (
            f"{len(sentences)} of {len(overview.sentences):,} sentences, in at most {max_tokens:,} tokens, cover "
            f"{coverage:.0%} of the weight of all words"
        )
        step.count = len(sentences)
    with query.trace.step("read chunks") as step:
        parts = overview.iter_parts(sentences, min(query.top, max(1, max_tokens // _MIN_PART_TOKENS)))
        hits = [replace(hit, rank=rank, score=coverage) for rank, hit in enumerate(parts, 1)]
        step.detail, step.count = f"in {len(hits)} parts of {overview.kind}", len(hits)
    return Evidence(query.question, strategy, hits, steps=query.trace.steps, pool=overview.chunk_count)


def _read_overview(query: Query) -> _TopicOverview | _DocumentOverview:
    """Read the sentences to select from, and return them grouped by topic or by document.

    They are grouped by document if there are no topics, if the query has a condition on documents, or if the store has
    a single document.
    """
    reader = query.reading
    # A topic contains sentences from any document, so a filtered query is summarized document by document.
    if query.allowed is None and reader.counters.documents > 1:
        topic_candidates = reader.fetch(
            TopicSentencesRequest(
                max_bytes=_MAX_FULL_TEXT_BYTES, max_topics=_MAX_TOPICS, max_newer_chunks=_NUM_NEAREST_CHUNKS
            )
        )
        if topic_candidates is not None:
            return _TopicOverview(reader, topic_candidates)
    near_chunks = None  # all documents are read
    num_documents = reader.counters.documents if query.allowed is None else len(query.allowed)
    if num_documents > _MAX_DOCUMENTS:
        near_chunks = [chunk for chunk, _ in rank_by_vector(query, _NUM_NEAREST_CHUNKS)]
    request = DocumentSentencesRequest(
        near_chunks=near_chunks, max_bytes=_MAX_FULL_TEXT_BYTES, max_abstracts=_MAX_ABSTRACTS
    )
    return _DocumentOverview(reader, reader.fetch(request))


def _select_sentences(
    query: Query, sentences: Sequence[CoverSentence], max_tokens: int, get_group: Callable[[CoverSentence], int | None]
) -> tuple[list[CoverSentence], float]:
    """Return the sentences to show, in order, and the weight of their words as a fraction of the weight of all words.

    They have at most ``max_tokens`` tokens, and come from at most ``query.top`` groups, the groups with the most
    weight; each group becomes one hit. ``get_group`` returns the group of a sentence, such as its document. The
    sentences with the group None form a group, too.
    """
    question_words = () if query.asks_for_overview else extract_question_words(query.question)
    weights = compute_word_weights(sentences, question_words)
    selected_sentences = select_cover(sentences, max_tokens, weights=weights)
    group_weights: dict[int | None, float] = {}
    for sentence in selected_sentences:
        weight = math.fsum(weights[word] for word in set(sentence.words.words))
        group = get_group(sentence)
        group_weights[group] = group_weights.get(group, 0.0) + weight
    if len(group_weights) > query.top:
        top_groups = set(sorted(group_weights, key=lambda group: -group_weights[group])[: query.top])
        selected_sentences = select_cover(
            [sentence for sentence in sentences if get_group(sentence) in top_groups], max_tokens, weights=weights
        )
    covered_words = {word for sentence in selected_sentences for word in sentence.words.words}
    covered_weight = math.fsum(weights[word] for word in covered_words)
    total_weight = math.fsum(weights.values())
    return selected_sentences, covered_weight / total_weight if total_weight else 0.0


class _DocumentOverview:
    """An overview of the documents that match the query's condition, grouped by document."""

    kind = "documents"

    def __init__(self, reader: BatchedReader, candidates: DocumentCandidates) -> None:
        """Store the sentences to select from, and their documents; ``reader`` reads how documents divide into parts."""
        self._reader = reader
        self._documents = candidates.documents
        self.sentences = candidates.sentences
        # For EXPLAIN: a description of what was read, and the number of documents that it comes from.
        self.source = candidates.source
        self.source_count = len(self._documents)
        # All chunks of these documents were considered.
        self.chunk_count = sum(record.chunk_count for record in self._documents)

    def get_group(self, sentence: CoverSentence) -> int:
        """Return the group of a sentence in this overview: its document."""
        return sentence.document

    def iter_parts(self, selected_sentences: Sequence[CoverSentence], limit: int) -> Iterator[Hit]:
        """Yield a hit, without a rank or score, for each part of a document that has selected sentences.

        Documents are split further as long as this leaves at most ``limit`` parts.
        """
        sentences_by_document: dict[int, list[CoverSentence]] = {}
        for sentence in selected_sentences:
            sentences_by_document.setdefault(sentence.document, []).append(sentence)
        records = [record for record in self._documents if record.id in sentences_by_document]
        for record, parts in zip(records, self._reader.fetch(DocumentPartsRequest(records, limit)), strict=True):
            ordinals = {chunk: ordinal for ordinal, chunk in enumerate(record.chunk_ids())}
            positions = {chunk: (record.key, ordinal) for chunk, ordinal in ordinals.items()}
            for first, last, heading in parts:
                part_sentences = [
                    sentence
                    for sentence in sentences_by_document[record.id]
                    if first <= ordinals[sentence.chunk] <= last
                ]
                if part_sentences:
                    chunk_range = f"chunk {first}" if first == last else f"chunks {first} to {last}"
                    path = f"{format_count(len(part_sentences), 'sentence')} of {chunk_range}"
                    yield _build_hit(part_sentences, positions, path, heading, record.title)


class _TopicOverview:
    """An overview of all documents, grouped by topic."""

    kind = "topics"

    def __init__(self, reader: BatchedReader, candidates: TopicCandidates) -> None:
        """Store the sentences to select from, and their topics; ``reader`` reads topic titles and chunk positions."""
        self._reader = reader
        self.sentences = candidates.sentences
        self._topics_by_chunk = candidates.topics_by_chunk
        # For EXPLAIN: a description of what was read, and the number of documents or topics that it comes from.
        self.source = candidates.source
        self.source_count = candidates.source_count
        self.chunk_count = reader.counters.chunks

    def get_group(self, sentence: CoverSentence) -> int | None:
        """Return the group of a sentence: the coarsest topic that contains its chunk, or None if no topic does.

        The topics of a chunk are in order from the finest.
        """
        return next(reversed(self._topics_by_chunk[sentence.chunk]), None)

    def iter_parts(self, selected_sentences: Sequence[CoverSentence], limit: int) -> Iterator[Hit]:
        """Yield a hit, without a rank or score, for each topic that has selected sentences.

        Large topics are replaced by their children as long as this leaves at most ``limit`` topics. Sentences of chunks
        in no topic form one more hit.
        """
        groups = {self.get_group(sentence) for sentence in selected_sentences}
        roots = sorted(group for group in groups if group is not None)
        titles, positions = self._reader.fetch(
            TopicsWithinLimitRequest(roots, limit),
            ChunkPositionsRequest(list(dict.fromkeys(sentence.chunk for sentence in selected_sentences))),
        )
        sentences_by_topic: dict[int | None, list[CoverSentence]] = {}
        for sentence in selected_sentences:
            topic = next((topic for topic in self._topics_by_chunk[sentence.chunk] if topic in titles), None)
            sentences_by_topic.setdefault(topic, []).append(sentence)
        for topic, topic_sentences in sentences_by_topic.items():  # in order of the first sentence of each
            title = None if topic is None else titles[topic]
            num_documents = len({sentence.document for sentence in topic_sentences})
            path = f"{format_count(len(topic_sentences), 'sentence')} of {format_count(num_documents, 'document')}"
            path += f" on {title or 'other subjects'}"
            yield _build_hit(topic_sentences, positions, path, heading="", title=title)


def _build_hit(
    sentences: Sequence[CoverSentence],
    positions: Mapping[int, tuple[str, int]],
    path: str,
    heading: str,
    title: str | None,
) -> Hit:
    """Return a hit of the kind ``summary`` that consists of sentences, still with rank and score 0.

    ``positions`` maps chunks to document keys and ordinals. ``path`` is the reason for the hit that EXPLAIN shows.
    ``title`` is the title of the document or topic (None: no title).
    """
    spans = tuple(TextSpan(*positions[sentence.chunk], sentence.start, sentence.end) for sentence in sentences)
    text = " ".join(sentence.text for sentence in sentences)
    return build_composed_hit("summary", spans, text, path, heading=heading, title=title)
