"""The hits that the answer reader reads in addition to those of the strategy.

In: the hits of a question. Out: the hits, the chunks with the nearest vectors, chunks of the document that the question
identifies by its date or number, and the rows that the question compares by a superlative ("the cheapest room"). The
compared rows are in a section of a document, or each of them is a document, as in a CSV file.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice, takewhile
from pathlib import PurePosixPath
from typing import NamedTuple

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
#: The maximum number of hits whose tables are compared, of rows that are documents, and of chunks of a section.
_MAX_TABLES, _MAX_ROW_DOCUMENTS, _MAX_SECTION_CHUNKS = 16, 2000, 80


class CandidateHits(NamedTuple):
    """The hits to read, and the keys of the documents in ``compared``: all rows of their tables are among the hits.

    Of rows that are documents, only those with an extreme value are among the hits.
    """

    hits: list[Hit]
    compared: frozenset[str]


def add_candidate_hits(hits: Sequence[Hit], query: Query) -> CandidateHits:
    """Return the hits, the chunks with the nearest vectors, and chunks that the question identifies or compares.

    A question identifies a document by a date, number or version, and compares the rows of a table by a superlative.
    Each chunk is returned once. The store must have an embedder.
    """
    limited_query = query.copy_with_limits(top=min(query.top, MAX_CHUNKS), within=None)
    limited_query.abstracts = False  # only the hits are used
    hits_by_chunk = {(hit.document, hit.ordinal): hit for hit in hits}

    def add_ranking(ranking: Ranking, explanation: str) -> None:
        """Add the first chunks of a ranking to the hits."""
        if ranking:
            for hit in evidence_of(limited_query, "vector", ranking, explanation, query.chunk_count).hits:
                hits_by_chunk.setdefault((hit.document, hit.ordinal), hit)

    add_ranking(rank_by_vector(limited_query, MAX_CHUNKS), "near the question")
    add_ranking(_rank_identified_document(hits, query), "in the document with the number that the question names")
    rows = _list_compared_rows(list(hits_by_chunk.values()), query)
    if rows.chunks:
        chunks = np.array(rows.chunks, np.uint64)
        limited_query.top = len(chunks)
        ranking = best(query.state, chunks, compute_cosines(query.state, chunks, query.vector), len(chunks))
        add_ranking(ranking, "in a table whose rows the question compares")
    return CandidateHits(list(hits_by_chunk.values()), frozenset(rows.complete_documents))


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


class _ComparedRows(NamedTuple):
    """The chunks with the rows to compare; ``complete_documents`` are documents (keys) without any other row."""

    chunks: list[int]
    complete_documents: set[str]


def _list_compared_rows(hits: Sequence[Hit], query: Query) -> _ComparedRows:
    """Return the rows that a superlative of the question compares, in the tables of the first ``_MAX_TABLES`` hits.

    A table is the section around a hit, or consists of documents with one row each. In the second case, only the
    chunks of rows with an extreme value are returned. A table with too many rows is omitted. Without a superlative, the
    result is empty.
    """
    superlative = find_superlative(query.question, query.stem)
    rows = _ComparedRows([], set())
    if superlative is None:
        return rows
    state = query.state
    long_documents: set[str] = set()
    for hit in hits[:_MAX_TABLES]:
        record = state.documents.find_by_key(hit.document)
        if record is None:
            continue
        if record.chunk_count > 1:
            chunks = _list_section_chunks(record, hit, state)
            if len(chunks) <= _MAX_SECTION_CHUNKS:
                rows.chunks.extend(chunks)
                rows.complete_documents.add(hit.document)
            else:
                long_documents.add(hit.document)
        elif hit.document not in rows.complete_documents:
            documents = _list_row_documents(record, state) if _is_row(hit.text) else [record]
            texts = ["; ".join(state.documents.read_text(row.id).decode().splitlines()) for row in documents]
            marked = mark_extremes([ComparedRow("", text) for text in texts], superlative, query.stem)
            rows.chunks.extend(documents[index].get_chunk_id(0) for index, text in marked.items() if text)
            rows.complete_documents.update(row.key for row in documents)
    return _ComparedRows(list(dict.fromkeys(rows.chunks)), rows.complete_documents - long_documents)


def _list_section_chunks(record: DocumentRecord, hit: Hit, state: State) -> list[int]:
    """Return the chunks of the section of a hit; if there are too many, one more than ``_MAX_SECTION_CHUNKS``."""
    section = state.chunks.get(record.get_chunk_id(hit.ordinal)).section

    def is_in_section(ordinal: int) -> bool:
        """True if a chunk of the document is in the section."""
        return state.chunks.get(record.get_chunk_id(ordinal)).section == section

    before = takewhile(is_in_section, range(hit.ordinal, -1, -1))
    after = takewhile(is_in_section, range(hit.ordinal + 1, record.chunk_count))
    return [record.get_chunk_id(ordinal) for ordinal in islice(chain(before, after), _MAX_SECTION_CHUNKS + 1)]


def _is_row(text: str) -> bool:
    """True if each line of a text is a name with a value, as in a row that is a document."""
    lines = text.splitlines()
    return len(lines) > 1 and all(": " in line for line in lines)


def _list_row_documents(record: DocumentRecord, state: State) -> list[DocumentRecord]:
    """Return the documents of one chunk that are rows of the same table as a given document, including that document.

    They come from the same file or, without a file, were stored one after another. The result is empty if there are too
    many.
    """
    if record.source is not None:
        is_from_source, _ = Evaluation(state).evaluate(Compare(ColumnField("source"), "=", record.source))
        documents = np.flatnonzero(is_from_source).tolist()
    else:
        documents = [
            *takewhile(state.documents.has_id, range(record.id, -1, -1)),
            *takewhile(state.documents.has_id, range(record.id + 1, record.id + _MAX_ROW_DOCUMENTS)),
        ]
    if len(documents) > _MAX_ROW_DOCUMENTS:
        return []
    records = state.documents.get_many(filter(state.documents.has_id, documents)).values()
    return [row for row in records if row.chunk_count == 1 and row.source == record.source]
