"""The hits that the answer reader reads in addition to those of the strategy.

In: the hits of a question. Out: the hits, the chunks with the nearest vectors, chunks of the document that the question
identifies by its date or number, and the rows that the question compares by a superlative ("the cheapest room"). The
compared rows are in a section of a document, or each of them is a document, as in a CSV file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

import numpy as np

from ...derived.metadata_index.conditions import ColumnField, Compare
from ...derived.metadata_index.evaluation import Evaluation
from ...retrieval.dense_search import compute_cosines, rank_by_vector
from ...retrieval.evidence import Hit
from ...retrieval.query import Query, evidence_of
from ...structures.documents.documents import DocumentRecord
from ...structures.ranking import Ranking, best
from ...structures.state import State
from ...text.words import find_reference_numbers
from ..extractive import MAX_CHUNKS
from .superlatives import ComparedRow, find_superlative, mark_extremes

#: The maximum number of chunks examined in a document that the question identifies by a number.
_MAX_DOCUMENT_CHUNKS = 500
#: The maximum number of hits whose tables are read, of documents with the rows of a file, and of chunks of a section.
_MAX_TABLES, _MAX_ROW_DOCUMENTS, _MAX_SECTION_CHUNKS = 8, 2000, 40


def add_candidate_hits(hits: Sequence[Hit], query: Query) -> list[Hit]:
    """Return the hits, the chunks with the nearest vectors, and chunks that the question identifies or compares.

    A question identifies a document by a date, number or version, and compares the rows of a table by a superlative.
    Each chunk is returned once. The store must have an embedder.
    """
    top = min(query.top, MAX_CHUNKS)
    limited_query = query.copy_with_limits(top, within=None)
    limited_query.abstracts = False  # only the hits are used
    compared_rows = _rank_compared_rows(hits, query)
    explained_rankings = [
        (rank_by_vector(limited_query, MAX_CHUNKS), top, "near the question"),
        (_rank_identified_document(hits, query), top, "in the document with the number that the question names"),
        (compared_rows, len(compared_rows), "in a table whose rows the question compares"),
    ]
    hits_by_chunk = {(hit.document, hit.ordinal): hit for hit in hits}
    for ranking, limited_query.top, explanation in explained_rankings:
        if ranking:
            for hit in evidence_of(limited_query, "vector", ranking, explanation, query.chunk_count).hits:
                hits_by_chunk.setdefault((hit.document, hit.ordinal), hit)
    return list(hits_by_chunk.values())


def _rank_identified_document(hits: Sequence[Hit], query: Query) -> Ranking:
    """Return the ``MAX_CHUNKS`` chunks nearest to the question in the document that the question identifies by numbers.

    It is the document of the first hit that has all reference numbers of the question (dates, invoice numbers,
    versions) in its file name, title or text. Only its first ``_MAX_DOCUMENT_CHUNKS`` chunks are compared. The ranking
    is empty if there is no such number or document.
    """
    numbers = set(find_reference_numbers(query.question))
    if not numbers:
        return []
    for hit in hits:
        text = f"{PurePosixPath(hit.document).stem} {hit.title or ''} {hit.text}"
        record = query.state.documents.find_by_key(hit.document)
        if record is not None and numbers.issubset(find_reference_numbers(text)):
            ordinals = range(min(record.chunk_count, _MAX_DOCUMENT_CHUNKS))
            chunks = np.array([record.get_chunk_id(ordinal) for ordinal in ordinals], np.uint64)
            return best(query.state, chunks, compute_cosines(query.state, chunks, query.vector), MAX_CHUNKS)
    return []


def _rank_compared_rows(hits: Sequence[Hit], query: Query) -> Ranking:
    """Return the chunks with the table rows that a superlative of the question compares, nearest to it first."""
    chunks = np.array(_list_compared_chunks(hits, query), np.uint64)
    return best(query.state, chunks, compute_cosines(query.state, chunks, query.vector), len(chunks))


def _list_compared_chunks(hits: Sequence[Hit], query: Query) -> list[int]:
    """Return the chunks with the rows that a superlative of the question compares, in the tables of the best hits.

    Of a file whose rows are documents, these are only the rows with an extreme value. The list is empty if the question
    has no superlative.
    """
    superlative = find_superlative(query.question, query.stem)
    if superlative is None:
        return []
    state = query.state
    chunks: dict[int, None] = {}
    sources: set[str] = set()
    for hit in hits[:_MAX_TABLES]:
        record = state.documents.find_by_key(hit.document)
        if record is None:
            continue
        if record.chunk_count > 1:
            chunks |= dict.fromkeys(_list_section_chunks(record, hit, state))
        elif record.source is not None and record.source not in sources:
            sources.add(record.source)
            documents = _list_row_documents(record.source, state)
            rows = [
                ComparedRow(record.source, "; ".join(state.documents.read_text(row.id).decode().splitlines()))
                for row in documents
            ]
            marked = mark_extremes(rows, superlative, query.stem)
            chunks |= dict.fromkeys(documents[index].get_chunk_id(0) for index, text in marked.items() if text)
    return list(chunks)


def _list_section_chunks(record: DocumentRecord, hit: Hit, state: State) -> Iterable[int]:
    """Yield the chunks of the section of a hit that are at most ``_MAX_SECTION_CHUNKS`` before or after it."""
    section = state.chunks.get(record.get_chunk_id(hit.ordinal)).section
    first, last = max(0, hit.ordinal - _MAX_SECTION_CHUNKS), min(record.chunk_count, hit.ordinal + _MAX_SECTION_CHUNKS)
    for ordinal in range(first, last):
        chunk = record.get_chunk_id(ordinal)
        if state.chunks.get(chunk).section == section:
            yield chunk


def _list_row_documents(source: str, state: State) -> list[DocumentRecord]:
    """Return the documents from a source file that consist of one chunk, as rows do; none if there are too many."""
    certain, _ = Evaluation(state).evaluate(Compare(ColumnField("source"), "=", source))
    documents = [document for document in np.flatnonzero(certain).tolist() if state.documents.has_id(document)]
    if not 1 < len(documents) <= _MAX_ROW_DOCUMENTS:
        return []
    return [record for record in state.documents.get_many(documents).values() if record.chunk_count == 1]
