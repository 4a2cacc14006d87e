"""Summaries: sentences of whole documents that together cover most of their content, within a length.

In: a query. Out: hits of kind ``summary``, in order of document key and offset, each with the spans of its sentences.
:mod:`~kvstore.retrieval.cover` chooses the sentences from everything that may answer, as from one text, so content that
several documents share is stated once. Words of a question about something specific count twice.

The sentences are grouped by the parts of the documents that contain them. The abstract trees are cut so that there are
at most as many parts as hits requested (RAPTOR, Sarthi et al. 2024, also reads such a tree from the top). If the
documents are too long to read in full, the sentences of their abstracts are used: those over five chunks each or, for
very many, those over whole documents. With the index ``topics``, the summaries of its topics are used instead: the
finest or, for very many, coarser or the largest ones.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ...retrieval.cover import (
    CoverSentence,
    collect_cover_sentences,
    compute_word_weights,
    extract_question_words,
    select_cover,
)
from ...retrieval.dense_search import rank_by_vector
from ...retrieval.evidence import Evidence, Hit, TextSpan
from ...retrieval.overview import is_overview_question
from ...retrieval.query import Query
from ...structures.documents.documents import DocumentRecord, build_heading_path
from ...structures.indexes.index_reading import bind_index
from ...structures.ranking import sort_chunks
from ...structures.state import State
from ...text.blocks import format_summary_sentence
from ...text.greedy_cover import extract_sentence_words
from .topic_index import TOPICS
from .topics import Topics

#: The maximum size of the documents (in bytes) that are read in full for one question, about a second's work.
_MAX_FULL_TEXT_BYTES = 2_000_000
#: The maximum number of lowest abstracts read instead; if there are more, those over whole documents are read.
_MAX_ABSTRACTS = 20_000
#: If more documents than this may answer, only the documents of the nearest chunks are used.
_MAX_DOCUMENTS = 20_000
_NUM_NEAREST_CHUNKS = 2_000
#: The maximum number of topics whose summaries are read; processing their sentences takes about a second.
_MAX_TOPICS = 4_000
#: The minimum number of tokens of a part, so that it is not a single sentence without context.
_MIN_PART_TOKENS = 30


def summarize(query: Query, strategy: str) -> Evidence:
    """Return a summary of everything that may answer, within the length of the hits requested."""
    state = query.view
    # A topic contains sentences of any document, so a filtered query is summarized document by document.
    topics = bind_index(state, TOPICS) if query.allowed is None and state.counters.documents > 1 else None
    source = _DocumentOverview(query) if topics is None else _TopicOverview(query, topics)
    room = query.top * state.settings.chunk_tokens if query.within is None else query.within
    with query.trace.step("read documents") as step:
        sentences, step.detail, step.count = source.collect_sentences()
    with query.trace.step("cover") as step:
        selected, share = _select_sentences(query, sentences, room, source.get_group)
        step.detail = (
            f"{len(selected)} of {len(sentences):,} sentences, in at most {room:,} tokens, cover {share:.0%} of the "
            "weight of all words"
        )
        step.count = len(selected)
    with query.trace.step("read chunks") as step:
        parts = source.iter_parts(selected, min(query.top, max(1, room // _MIN_PART_TOKENS)))
        hits = [Hit(rank, share, *fields, "summary", spans) for rank, (fields, spans) in enumerate(parts, 1)]
        step.detail, step.count = f"in {len(hits)} parts of {source.kind}", len(hits)
    return Evidence(query.question, strategy, hits, [], query.trace.steps, source.chunk_count)


def _select_sentences(
    query: Query, sentences: Sequence[CoverSentence], room: int, get_group: Callable[[CoverSentence], int | None]
) -> tuple[list[CoverSentence], float]:
    """Return the sentences to show, by document key and offset, and the share of the total word weight that they cover.

    They come from at most ``top`` groups, those with the most weight, since each group becomes one hit.
    """
    asked_words = () if is_overview_question(query.question) else extract_question_words(query.question)
    weights = compute_word_weights(sentences, asked_words)
    selected = select_cover(sentences, room, weights=weights)
    group_weights: dict[int | None, float] = {}
    for sentence in selected:
        weight = math.fsum(weights[word] for word in set(sentence.words.words))
        group = get_group(sentence)
        group_weights[group] = group_weights.get(group, 0.0) + weight
    if len(group_weights) > query.top:
        top_groups = set(sorted(group_weights, key=lambda group: -group_weights[group])[: query.top])
        selected = select_cover(
            [sentence for sentence in sentences if get_group(sentence) in top_groups], room, weights=weights
        )
    covered_words = {word for sentence in selected for word in sentence.words.words}
    return selected, math.fsum(map(weights.__getitem__, covered_words)) / (math.fsum(weights.values()) or 1)


#: The fields of a hit between score and kind, and its spans.
_HitFields = tuple[tuple[str, int, str, str, int, int, str, str | None], tuple[TextSpan, ...]]


class _DocumentOverview:
    """An overview of the documents that may answer, grouped by document."""

    kind = "documents"

    def __init__(self, query: Query) -> None:
        self._state = query.view
        self._documents = _list_documents(query)

    @property
    def chunk_count(self) -> int:
        return sum(record.chunk_count for record in self._documents)

    def collect_sentences(self) -> tuple[list[CoverSentence], str, int]:
        """Return the candidate sentences by document key and offset, a description of their source, and its size."""
        sentences, detail = _read_document_sentences(self._state, self._documents)
        return sentences, detail, len(self._documents)

    def get_group(self, sentence: CoverSentence) -> int:
        return sentence.document

    def iter_parts(self, selected: Sequence[CoverSentence], limit: int) -> Iterator[_HitFields]:
        """Yield the chosen sentences grouped by the parts of documents that contain them."""
        state = self._state
        sentences_by_document: dict[int, list[CoverSentence]] = {}
        for sentence in selected:
            sentences_by_document.setdefault(sentence.document, []).append(sentence)
        records = [record for record in self._documents if record.id in sentences_by_document]
        for record, parts in zip(records, _split_documents(state, records, limit), strict=True):
            ordinals = {chunk: ordinal for ordinal, chunk in enumerate(record.chunk_ids())}
            for part in parts:
                first, last = ordinals[part.first_chunk], ordinals[part.last_chunk]
                part_sentences = [
                    sentence
                    for sentence in sentences_by_document[record.id]
                    if first <= ordinals[sentence.chunk] <= last
                ]
                if not part_sentences:
                    continue
                heading = " > ".join(build_heading_path(state.documents.get_outline(record.id), part.section))
                chunk_range = f"chunk {first}" if first == last else f"chunks {first} to {last}"
                yield _build_hit_fields(
                    state,
                    part_sentences,
                    f"{_format_sentence_count(part_sentences)} of {chunk_range}",
                    heading,
                    record.title,
                )


class _TopicOverview:
    """An overview of all documents, grouped by topic."""

    kind = "topics"

    def __init__(self, query: Query, topics: Topics) -> None:
        self._state = query.view
        self._topics = topics
        self.chunk_count = query.view.counters.chunks

    def collect_sentences(self) -> tuple[list[CoverSentence], str, int]:
        """Return the candidate sentences by document key and offset, a description of their source, and its size."""
        state = self._state
        if state.counters.text_bytes <= _MAX_FULL_TEXT_BYTES:
            all_sentences = collect_cover_sentences(state, (chunk for chunk, _ in state.chunks.scan()))
            return all_sentences, "every sentence", state.counters.documents
        topics = self._topics.select_largest(_MAX_TOPICS)
        self._topics.load_topics(topics)
        ranges_by_document: dict[int, set[tuple[int, int]]] = {}
        for topic in topics:
            for span in self._topics.list_summary_spans(topic):
                ranges_by_document.setdefault(span.document, set()).add((span.start, span.end))
        sentences = [
            *_read_sentences(state, ranges_by_document),
            *collect_cover_sentences(state, sort_chunks(state, self._topics.list_newer_chunks())[:_NUM_NEAREST_CHUNKS]),
        ]
        keys = {sentence.document: state.documents.get_key(sentence.document) for sentence in sentences}
        sentences.sort(key=lambda sentence: (keys[sentence.document], sentence.start))
        return sentences, "the summaries of topics, and newer chunks: the full texts are too long", len(topics)

    def get_group(self, sentence: CoverSentence) -> int | None:
        """Return the largest topic with the chunk of a sentence, or None if the chunk has no topic yet."""
        return next(reversed(self._topics.find_topics(sentence.chunk)), None)

    def iter_parts(self, selected: Sequence[CoverSentence], limit: int) -> Iterator[_HitFields]:
        """Yield the chosen sentences grouped by topic."""
        sentences_by_topic: dict[int | None, list[CoverSentence]] = {}
        cut = self._select_cut({self.get_group(sentence) for sentence in selected}, limit)
        for sentence in selected:
            topic = next(
                (candidate for candidate in self._topics.find_topics(sentence.chunk) if candidate in cut), None
            )
            sentences_by_topic.setdefault(topic, []).append(sentence)
        for topic, topic_sentences in sentences_by_topic.items():  # in order of the first sentence of each
            title = None if topic is None else self._topics.get_title(topic) or None
            documents = len({sentence.document for sentence in topic_sentences})
            path = f"{_format_sentence_count(topic_sentences)} of {documents} document{'' if documents == 1 else 's'}"
            yield _build_hit_fields(self._state, topic_sentences, f"{path} on {title or 'other subjects'}", "", title)

    def _select_cut(self, roots: set[int | None], limit: int) -> set[int]:
        """Return a cut through the tree of topics: the roots, the largest repeatedly replaced by its children while
        at most ``limit`` topics result."""
        cut = {root for root in roots if root is not None}
        heap = [(-self._topics.get(topic).chunk_count, topic) for topic in cut]
        heapq.heapify(heap)
        while heap:
            _, topic = heapq.heappop(heap)
            children = self._topics.list_children(topic)
            if children and len(cut) - 1 + len(children) <= limit:
                cut = (cut - {topic}) | set(children)
                for child in children:
                    heapq.heappush(heap, (-self._topics.get(child).chunk_count, child))
        return cut


def _format_sentence_count(sentences: Sequence[CoverSentence]) -> str:
    return f"{len(sentences)} sentence{'' if len(sentences) == 1 else 's'}"


def _build_hit_fields(
    state: State, sentences: Sequence[CoverSentence], path: str, heading: str, title: str | None
) -> _HitFields:
    """Return the fields of a hit that consists of some sentences, and their spans."""
    spans = tuple(sentence.to_span(state) for sentence in sentences)
    first, text = spans[0], " ".join(sentence.text for sentence in sentences)
    return (first.document, first.ordinal, text, path, first.start, first.end, heading, title), spans


def _list_documents(query: Query) -> list[DocumentRecord]:
    """Return the documents that may answer and have text, sorted by key."""
    state = query.view
    if query.allowed is not None:
        records: Iterable[DocumentRecord] = map(state.documents.get, query.allowed.documents.tolist())
    else:
        records = state.documents.scan()
    if (len(query.allowed) if query.allowed is not None else state.counters.documents) > _MAX_DOCUMENTS:
        nearest = state.chunks.get_many(chunk for chunk, _ in rank_by_vector(query, _NUM_NEAREST_CHUNKS))
        records = map(state.documents.get, {chunk.document for chunk in nearest})
    return sorted((record for record in records if record.groups), key=lambda record: record.key)


def _read_document_sentences(state: State, documents: Sequence[DocumentRecord]) -> tuple[list[CoverSentence], str]:
    """Return the sentences of documents, and a description of what was read."""
    if sum(record.size for record in documents) <= _MAX_FULL_TEXT_BYTES:
        chunks = [chunk for record in documents for chunk in record.chunk_ids()]
        return collect_cover_sentences(state, chunks), "every sentence"
    leaves = sum(len(record.groups) for record in documents) <= _MAX_ABSTRACTS
    ranges_by_document = {
        record.id: [
            span for number in _list_abstracts(record, leaves=leaves) for span in state.abstracts.get(number).summary
        ]
        for record in documents
    }
    detail = f"the abstracts over {'chunks' if leaves else 'documents'}: the full texts are too long"
    return _read_sentences(state, ranges_by_document), detail


def _list_abstracts(record: DocumentRecord, *, leaves: bool) -> list[int]:
    """Return the lowest abstracts of a document (if ``leaves``), or only the one over the whole document."""
    numbers = list(record.iter_abstract_ids())
    return numbers[: len(record.groups)] if leaves else numbers[-1:]


def _read_sentences(state: State, ranges_by_document: Mapping[int, Iterable[tuple[int, int]]]) -> list[CoverSentence]:
    """Return the sentences at byte ranges of documents, in order of the text."""
    sentences = []
    for document, spans in ranges_by_document.items():
        text = state.documents.read_text(document)
        ids = list(state.documents.get(document).chunk_ids())
        starts = [chunk.start for chunk in state.chunks.get_many(ids)]
        for start, end in sorted(spans):
            sentence = format_summary_sentence(text[start:end].decode())
            chunk = ids[bisect_right(starts, start) - 1]
            sentences.append(CoverSentence(document, chunk, start, end, sentence, extract_sentence_words(sentence)))
    return sentences


class _DocumentPart(NamedTuple):
    """A part of a document: the ids of its first and last chunk, and its section."""

    first_chunk: int
    last_chunk: int
    section: int


def _split_documents(state: State, documents: Sequence[DocumentRecord], limit: int) -> list[list[_DocumentPart]]:
    """Split documents along their abstracts, the longest part first, until there are ``limit`` parts.

    The parts of each document are in order of the text. If an abstract has more children than there is room for parts,
    adjacent children are merged.
    """
    parts: list[list[_DocumentPart]] = [[] for _ in documents]
    heap = [(-record.chunk_count, index, record.root or 0) for index, record in enumerate(documents)]
    heapq.heapify(heap)
    part_count = len(heap)
    while heap:
        _, index, abstract = heapq.heappop(heap)
        record = state.abstracts.get(abstract)
        children = [state.abstracts.get(child) for child in record.children] if record.level else [record]
        group_count = min(len(children), limit - part_count + 1)
        part_count += max(1, group_count) - 1
        if group_count < 2:
            parts[index].append(_DocumentPart(record.first_chunk, record.last_chunk, record.section))
        elif group_count == len(children):
            for child, node in zip(record.children, children, strict=True):
                chunk_count = node.last_chunk - node.first_chunk + 1
                heapq.heappush(heap, (-chunk_count, index, child))
        else:
            groups = [
                children[len(children) * n // group_count : len(children) * (n + 1) // group_count]
                for n in range(group_count)
            ]
            parts[index] += [
                _DocumentPart(group[0].first_chunk, group[-1].last_chunk, record.section) for group in groups
            ]
    return [sorted(document_parts) for document_parts in parts]
