"""A summary: sentences of whole documents that together have most of what these say, within a length.

In: a query. Out: hits of kind ``summary``, in order of document key and text, each with the places of its sentences.
Sentences are chosen from all that may answer by :mod:`~kvstore.retrieval.cover`, as one text, so that what several
documents say is said once; words of a question that asks for something in particular count twice. They are shown by
the parts of the documents that they stand in: the abstract trees cut where as many parts come out as hits are asked for
(RAPTOR, Sarthi et al. 2024, reads such a tree from above). Where the documents are too long to be read whole, the
sentences of their abstracts stand for them, those over five chunks each or, of very many, those over whole documents.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ...retrieval.cover import CoverSentence, cover, cover_sentences, sentence_weights, words_asked
from ...retrieval.dense_search import rank_by_vector
from ...retrieval.evidence import Evidence, Hit, TextSpan
from ...retrieval.overview import asks_overview
from ...retrieval.query import Query
from ...structures.documents.documents import DocumentRecord, heading_path
from ...structures.state import State
from ...text.blocks import summary_sentence
from ...text.greedy_cover import sentence_words

#: Bytes of text that are read whole for one question, about a second's work; and abstracts in their place.
_READ_WHOLE = 2_000_000
_MOST_ABSTRACTS = 20_000
#: Of more documents than that, only those of so many chunks are taken that are nearest to the question.
_MOST_DOCUMENTS = 20_000
_NEAREST = 2_000
#: Tokens that a part has at least, lest it is one sentence torn from its place.
_LEAST = 30


def summary(query: Query, strategy: str) -> Evidence:
    """A summary of what may answer, as long as the hits asked for."""
    documents = _documents(query)
    room = query.top * query.view.settings.chunk_tokens if query.within is None else query.within
    with query.trace.step("read documents") as step:
        sentences, step.detail = _sentences(query.view, documents)
        step.count = len(documents)
    with query.trace.step("cover") as step:
        chosen, share = _chosen(query, sentences, room, len(documents))
        step.detail = (
            f"{len(chosen)} of {len(sentences):,} sentences, in at most {room:,} tokens, have {share:.0%} of what "
            "their words weigh"
        )
        step.count = len(chosen)
    with query.trace.step("read chunks") as step:
        hits = _hits(query, documents, chosen, min(query.top, max(1, room // _LEAST)), share)
        step.detail, step.count = f"in {len(hits)} parts of documents", len(hits)
    return Evidence(query.question, strategy, hits, [], query.trace.steps, sum(d.chunk_count for d in documents))


def _documents(query: Query) -> list[DocumentRecord]:
    """The documents that may answer and have a text, by their keys."""
    view = query.view
    if query.allowed is not None:
        found: Iterable[DocumentRecord] = map(view.documents.get, query.allowed)
    else:
        found = view.documents.scan()
    if (len(query.allowed) if query.allowed is not None else view.counters.documents) > _MOST_DOCUMENTS:
        nearest = view.chunks.get_many(chunk for chunk, _ in rank_by_vector(query, _NEAREST))
        found = map(view.documents.get, {chunk.document for chunk in nearest})
    return sorted((record for record in found if record.groups), key=lambda record: record.key)


def _sentences(view: State, documents: Sequence[DocumentRecord]) -> tuple[list[CoverSentence], str]:
    """The sentences to choose from, in order of document key and place, and what was read."""
    if sum(record.size for record in documents) <= _READ_WHOLE:
        chunks = [chunk for record in documents for chunk in record.chunk_ids()]
        return cover_sentences(view, chunks), "every sentence"
    if sum(len(record.groups) for record in documents) <= _MOST_ABSTRACTS:
        return list(_summed_up(view, documents, leaves=True)), "the abstracts over chunks: all is too long"
    return list(_summed_up(view, documents, leaves=False)), "the abstracts over documents: these are many"


def _summed_up(view: State, documents: Sequence[DocumentRecord], *, leaves: bool) -> Iterator[CoverSentence]:
    """The sentences of the abstracts over chunks, or of those over whole documents."""
    for record in documents:
        text = view.documents.text(record.id)
        ids = list(record.chunk_ids())
        starts = [chunk.start for chunk in view.chunks.get_many(ids)]
        numbers = list(record.abstract_ids())
        for number in numbers[: len(record.groups)] if leaves else numbers[-1:]:
            for start, end in view.abstracts.get(number).summary:
                told = summary_sentence(text[start:end].decode())
                chunk = ids[bisect_right(starts, start) - 1]
                yield CoverSentence(record.id, chunk, start, end, told, sentence_words(told))


def _chosen(
    query: Query, sentences: Sequence[CoverSentence], room: int, documents: int
) -> tuple[list[CoverSentence], float]:
    """The sentences to show, by document key and place, and the share that their words have of the weight of all."""
    asked = () if asks_overview(query.question) else words_asked(query.question)
    weights = sentence_weights(sentences, asked)
    chosen = cover(sentences, room, weights=weights)
    if documents > query.top:
        # The documents that say most, and those alone: a hit is of one.
        said = dict.fromkeys((sentence.document for sentence in chosen), 0.0)
        for sentence in chosen:
            said[sentence.document] += math.fsum(weights[word] for word in set(sentence.words.words))
        kept = set(sorted(said, key=lambda document: -said[document])[: query.top])
        chosen = cover([sentence for sentence in sentences if sentence.document in kept], room, weights=weights)
    shown = {word for sentence in chosen for word in sentence.words.words}
    return chosen, math.fsum(map(weights.__getitem__, shown)) / (math.fsum(weights.values()) or 1)


def _hits(
    query: Query, documents: Sequence[DocumentRecord], chosen: Sequence[CoverSentence], most: int, share: float
) -> list[Hit]:
    """The chosen sentences by the parts that they stand in."""
    view = query.view
    hits: list[Hit] = []
    of_document: dict[int, list[CoverSentence]] = {}
    for sentence in chosen:
        of_document.setdefault(sentence.document, []).append(sentence)
    records = [record for record in documents if record.id in of_document]
    for record, parts in zip(records, _parts(view, records, most), strict=True):
        places = {chunk: place for place, chunk in enumerate(record.chunk_ids())}
        for part in parts:
            first, last = places[part.first_chunk], places[part.last_chunk]
            here = [sentence for sentence in of_document[record.id] if first <= places[sentence.chunk] <= last]
            if not here:
                continue
            spans = tuple(TextSpan(record.key, places[one.chunk], one.start, one.end) for one in here)
            text = " ".join(sentence.text for sentence in here)
            heading = " > ".join(heading_path(view.documents.outline(record.id), part.section))
            of = f"chunk {first}" if first == last else f"chunks {first} to {last}"
            path = f"{len(here)} sentence{'' if len(here) == 1 else 's'} of {of}"
            place = (record.key, spans[0].chunk, text, path, spans[0].start, spans[0].end, heading, record.title)
            hits.append(Hit(len(hits) + 1, share, *place, "summary", spans))
    return hits


class _Part(NamedTuple):
    """Neighbouring chunks of a document, the first and the last by their ids, and the section that they are of."""

    first_chunk: int
    last_chunk: int
    section: int


def _parts(view: State, documents: Sequence[DocumentRecord], most: int) -> list[list[_Part]]:
    """Each document cut into parts where its abstracts are, in order of the text: the longest is cut first, until there
    are ``most`` of all. Where an abstract has more below it than there may be parts, neighbours stay together."""
    cut: list[list[_Part]] = [[] for _ in documents]
    whole = [(-record.chunk_count, number, record.root or 0) for number, record in enumerate(documents)]
    heapq.heapify(whole)
    parts = len(whole)
    while whole:
        _, number, abstract = heapq.heappop(whole)
        record = view.abstracts.get(abstract)
        below = [view.abstracts.get(child) for child in record.children] if record.level else [record]
        into = min(len(below), most - parts + 1)
        parts += max(1, into) - 1
        if into < 2:
            cut[number].append(_Part(record.first_chunk, record.last_chunk, record.section))
        elif into == len(below):
            for child, node in zip(record.children, below, strict=True):
                heapq.heappush(whole, (node.first_chunk - node.last_chunk - 1, number, child))
        else:
            groups = [below[len(below) * n // into : len(below) * (n + 1) // into] for n in range(into)]
            cut[number] += [_Part(group[0].first_chunk, group[-1].last_chunk, record.section) for group in groups]
    return [sorted(found) for found in cut]
