"""Requests of ``raptor`` for a summary: the sentences to select from, and the parts that group the selected ones. A
*part* is a range of chunks. An *abstract* summarizes consecutive chunks of a document, or lower abstracts. A *topic* is
a group of similar chunks of all documents.

In: limits on what is read, or documents and topics found before. Out: sentences from the documents that the query
allows, with the documents or the topics that contain them; parts of documents; topics; and the positions of chunks.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from ...retrieval.cover import CoverSentence, collect_cover_sentences, read_chunk_positions
from ...structures.documents.documents import DocumentRecord, build_heading_path
from ...structures.indexes.index_reading import bind_index
from ...structures.ranking import sort_chunks
from ...structures.read_requests import ReadRequest
from ...structures.state import State
from ...text.blocks import format_summary_sentence
from ...text.greedy_cover import extract_sentence_words
from .topic_index import TOPICS
from .topics import Topics


class DocumentCandidates(NamedTuple):
    """Documents by key, their sentences by document key and offset, and a description of what was read.

    A summary is a selection of these sentences that contains most of the words they share.
    """

    documents: list[DocumentRecord]
    sentences: list[CoverSentence]
    source: str


class DocumentSentencesRequest(ReadRequest[DocumentCandidates]):
    """A request for the sentences of documents that match the query's condition: of the documents of ``near_chunks``
    (None: all). If the documents have more than ``max_bytes``, their abstracts are read instead: the lowest or, if
    there are more than ``max_abstracts`` of these, those of whole documents. The answer also describes what was read.
    """

    near_chunks: Sequence[int] | None
    max_bytes: int
    max_abstracts: int

    def fetch(self, state: State) -> DocumentCandidates:
        if self.near_chunks is None:
            records: Iterable[DocumentRecord] = state.documents.scan()
        else:
            chunks = state.chunks.get_many(self.near_chunks)
            records = state.documents.get_many(chunk.document for chunk in chunks).values()
        # A document that only has edges has no chunks, and so no groups of chunks.
        documents = sorted((record for record in records if record.groups), key=lambda record: record.key)
        if sum(record.size for record in documents) <= self.max_bytes:
            ids = [chunk for record in documents for chunk in record.chunk_ids()]
            return DocumentCandidates(documents, collect_cover_sentences(state, ids), "every sentence")
        reads_lowest = sum(len(record.groups) for record in documents) <= self.max_abstracts
        ranges_by_document: dict[int, list[tuple[int, int]]] = {}
        for record in documents:
            abstracts = list(record.iter_abstract_ids())  # lowest level first; the last is of the whole document
            ranges = ranges_by_document[record.id] = []
            read_abstracts = abstracts[: len(record.groups)] if reads_lowest else abstracts[-1:]
            for abstract in read_abstracts:
                ranges += state.abstracts.get(abstract).summary
        source = f"the abstracts over {'chunks' if reads_lowest else 'documents'}: the full texts are too long"
        return DocumentCandidates(documents, _read_sentences(state, ranges_by_document), source)


class TopicCandidates(NamedTuple):
    """Sentences by document key and offset, and the topics of each of their chunks, finest first.

    ``source`` describes what was read, and ``source_count`` is the number of documents or topics read.
    """

    sentences: list[CoverSentence]
    topics_by_chunk: dict[int, list[int]]
    source: str
    source_count: int


class TopicSentencesRequest(ReadRequest[TopicCandidates | None]):
    """A request for the sentences of all documents with the topics of each; None if there are no topics. If the
    documents have more than ``max_bytes``, the summaries of at most ``max_topics`` topics are read instead, and at most
    ``max_newer_chunks`` chunks that were added after the topics were built.
    """

    max_bytes: int
    max_topics: int
    max_newer_chunks: int

    def fetch(self, state: State) -> TopicCandidates | None:
        topics = bind_index(state, TOPICS)
        if topics is None:
            return None
        if state.counters.text_bytes <= self.max_bytes:
            sentences = collect_cover_sentences(state, (chunk for chunk, _ in state.chunks.scan()))
            source, count = "every sentence", state.counters.documents
        else:
            topic_ids = topics.select_finest_topics(self.max_topics)
            sentences = self._read_summaries(state, topics, topic_ids)
            source, count = "the summaries of topics, and newer chunks: the full texts are too long", len(topic_ids)
        chunks = list(dict.fromkeys(sentence.chunk for sentence in sentences))
        topics_by_chunk = dict(zip(chunks, topics.find_topics_by_chunk(chunks), strict=True))
        return TopicCandidates(sentences, topics_by_chunk, source, count)

    def _read_summaries(self, state: State, topics: Topics, topic_ids: Sequence[int]) -> list[CoverSentence]:
        """Return the sentences of topic summaries, and of some chunks added later, by document key and offset."""
        topics.load_topics(topic_ids)
        ranges_by_document: dict[int, set[tuple[int, int]]] = {}
        for topic in topic_ids:
            for span in topics.list_summary_spans(topic):
                ranges_by_document.setdefault(span.document, set()).add((span.start, span.end))
        newer_chunks = sort_chunks(state, topics.newer_chunks)[: self.max_newer_chunks]
        sentences = [*_read_sentences(state, ranges_by_document), *collect_cover_sentences(state, newer_chunks)]
        keys = state.documents.get_keys(sentence.document for sentence in sentences)
        return sorted(sentences, key=lambda sentence: (keys[sentence.document], sentence.start))


class DocumentPart(NamedTuple):
    """A part of a document: its first and last chunk, by ordinal, and the headings around it."""

    first: int
    last: int
    heading: str


class _PartChunks(NamedTuple):
    """Consecutive chunks of a document: the ids of the first and the last, and the section that contains them."""

    first: int
    last: int
    section: int


class DocumentPartsRequest(ReadRequest[list[list[DocumentPart]]]):
    """A request for the parts of documents, at most ``limit`` in total if possible, split along their abstracts. The
    longest part is split first. The parts of each document are in order of the text. If an abstract has more children
    than the limit allows, adjacent children are merged. A part also has the headings of the section that contains it.
    """

    documents: Sequence[DocumentRecord]
    limit: int

    def fetch(self, state: State) -> list[list[DocumentPart]]:
        sections = state.documents.get_sections_many(record.id for record in self.documents)
        parts: list[list[DocumentPart]] = []
        for record, chunk_ranges in zip(self.documents, self._split_documents(state), strict=True):
            ordinals = {chunk: ordinal for ordinal, chunk in enumerate(record.chunk_ids())}
            parts.append(
                [
                    DocumentPart(
                        ordinals[first], ordinals[last], " > ".join(build_heading_path(sections[record.id], section))
                    )
                    for first, last, section in chunk_ranges
                ]
            )
        return parts

    def _split_documents(self, state: State) -> list[list[_PartChunks]]:
        """Return the parts of each document, in order.

        A part is a range of chunks that an abstract summarizes; the first parts are the whole documents. While there
        are fewer than ``limit`` parts, the abstract with the most chunks is split into its children. If there are too
        many children, they are joined into as many parts as still fit.
        """
        parts: list[list[_PartChunks]] = [[] for _ in self.documents]
        # Abstracts still to be split: (negative number of chunks, index of the document, abstract), the largest first.
        # The documents have chunks, and therefore a root.
        heap = [(-record.chunk_count, index, record.root or 0) for index, record in enumerate(self.documents)]
        heapq.heapify(heap)
        num_parts = len(heap)
        while heap:
            _, document_index, abstract = heapq.heappop(heap)
            record = state.abstracts.get(abstract)
            children = state.abstracts.get_many(record.children) if record.level else [record]
            num_groups = min(len(children), self.limit - num_parts + 1)  # parts that can replace this one
            num_parts += max(1, num_groups) - 1
            if num_groups < 2:
                parts[document_index].append(_PartChunks(record.first_chunk, record.last_chunk, record.section))
            elif num_groups == len(children):
                for child, child_record in zip(record.children, children, strict=True):
                    num_chunks = child_record.last_chunk - child_record.first_chunk + 1
                    heapq.heappush(heap, (-num_chunks, document_index, child))
            else:
                bounds = [len(children) * index // num_groups for index in range(num_groups + 1)]
                parts[document_index] += [
                    _PartChunks(children[start].first_chunk, children[stop - 1].last_chunk, record.section)
                    for start, stop in pairwise(bounds)
                ]
        return [sorted(document_parts) for document_parts in parts]


class TopicsWithinLimitRequest(ReadRequest[dict[int, str | None]]):
    """A request for the titles of topics that group sentences: ``roots``, or their descendants. The largest topics are
    replaced by their children while there are at most ``limit`` topics. A topic without a title has None. The answer is
    empty if the store has no topics.
    """

    roots: Sequence[int]
    limit: int

    def fetch(self, state: State) -> dict[int, str | None]:
        topics = bind_index(state, TOPICS)
        if topics is None:
            return {}
        topic_ids = set(self.roots)
        heap = [(-int(topics.trees.sizes[topic]), topic) for topic in topic_ids]  # the largest first
        heapq.heapify(heap)
        while heap:
            _, topic = heapq.heappop(heap)
            children = topics.list_children(topic)
            if children and len(topic_ids) - 1 + len(children) <= self.limit:
                topic_ids = (topic_ids - {topic}) | set(children)
                for child in children:
                    heapq.heappush(heap, (-int(topics.trees.sizes[child]), child))
        topics.load_topics(sorted(topic_ids))
        return {topic: topics.get_title(topic) or None for topic in sorted(topic_ids)}


class ChunkPositionsRequest(ReadRequest[dict[int, tuple[str, int]]]):
    """A request for the document key and the ordinal of chunks, by chunk."""

    chunks: Sequence[int]

    def fetch(self, state: State) -> dict[int, tuple[str, int]]:
        return read_chunk_positions(state, self.chunks)


def _read_sentences(state: State, ranges_by_document: Mapping[int, Iterable[tuple[int, int]]]) -> list[CoverSentence]:
    """Return the sentences at byte ranges of documents, in the order of the documents, then by offset."""
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
