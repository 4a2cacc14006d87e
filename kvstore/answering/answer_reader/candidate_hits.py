"""Hits (retrieved chunks) for the answer reader, in addition to those of the search strategy. A superlative in a
question ("the cheapest room") *compares* the rows of a table. The table is a section of a document, or each row is a
document of its own, as in a CSV file.

In: the hits of a question. Out: the hits, the chunks with the nearest vectors, chunks of the document that the question
identifies by its date or number, and the rows that the question compares.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Mapping, Sequence
from itertools import chain, islice, takewhile
from pathlib import PurePosixPath
from typing import NamedTuple

import numpy as np

from ...derived.metadata_index.conditions import ColumnField, Compare, Condition, IsNotNull, Not
from ...derived.metadata_index.evaluation import Evaluation
from ...retrieval.dense_search import compute_cosines, rank_by_vector
from ...retrieval.evidence import Hit
from ...retrieval.query import Query, evidence_of
from ...structures.documents.documents import DocumentRecord
from ...structures.ranking import Ranking, best
from ...structures.state import State
from ...text.words import find_reference_numbers
from ..releases import asks_for_latest_release, find_latest_release
from ..snippet_scoring import MAX_CHUNKS
from .superlatives import ComparedRow, Superlative, find_superlative, mark_extremes, split_cells

#: The maximum number of chunks examined in a document that the question identifies by a number.
_MAX_DOCUMENT_CHUNKS = 500
#: The maximum number of hits whose tables are compared, of rows that are documents, and of chunks of a section.
_MAX_TABLES, _MAX_ROW_DOCUMENTS, _MAX_SECTION_CHUNKS = 16, 2000, 80
#: The maximum number of rows of a table with the same extreme value that are read.
_MAX_EQUAL_ROWS = 48
#: The maximum number of bytes of a row that is a document in which cells are compared.
_MAX_ROW_BYTES = 16_384
_SOURCE = ColumnField("source")


def add_candidate_hits(hits: Sequence[Hit], query: Query) -> tuple[list[Hit], Mapping[str, Hashable]]:
    """Return the ``hits`` of a query with further chunks that can answer its question, and the tables to compare.

    The added hits are the chunks with the nearest vectors, those of a document that the question identifies by a date,
    number or version, and rows that it compares by a superlative. The store must have an embedder.

    The mapping has the table of each document with rows that can be compared, by document key. A table is identified by
    the document key if the document has several rows, and by the set of its columns if the document is one row. All
    rows of a document with several are among the hits. If each row is a document, only rows with an extreme value are,
    at most ``_MAX_EQUAL_ROWS`` of a table.
    """
    limited_query = query.copy_with_limits(top=min(query.top, MAX_CHUNKS), within=None)
    limited_query.abstracts = False  # only the hits are used
    hits_by_chunk = {(hit.document, hit.ordinal): hit for hit in hits}

    def add_ranking(ranking: Ranking, explanation: str) -> None:
        """Add the chunks of a ranking to ``hits_by_chunk``, at most ``limited_query.top``, with an explanation."""
        if ranking:
            for hit in evidence_of(limited_query, "vector", ranking, explanation, query.chunk_count).hits:
                hits_by_chunk.setdefault((hit.document, hit.ordinal), hit)

    def add_nearest(chunk_ids: Sequence[int], explanation: str, max_chunks: int = MAX_CHUNKS) -> None:
        """Add those of the chunks that are nearest to the question."""
        if chunk_ids:
            chunks = np.array(chunk_ids, np.uint64)
            cosines = compute_cosines(query.state, chunks, query.vector)
            add_ranking(best(query.state, chunks, cosines, max_chunks), explanation)

    add_ranking(rank_by_vector(limited_query, MAX_CHUNKS), "near the question")
    add_nearest(_list_identified_document(hits, query), "in the document with the number that the question names")
    add_nearest(_list_table_parts(list(hits_by_chunk.values()), query), "in a table that a hit is a part of")
    add_nearest(_list_release_chunks(list(hits_by_chunk.values()), query), "the latest version in a list of changes")
    rows = _list_compared_rows(list(hits_by_chunk.values()), query)
    limited_query.top = len(rows.chunks)
    add_nearest(rows.chunks, "in a table whose rows the question compares", len(rows.chunks))
    return list(hits_by_chunk.values()), rows.tables


def _list_identified_document(hits: Sequence[Hit], query: Query) -> list[int]:
    """Return the ids of the first ``_MAX_DOCUMENT_CHUNKS`` chunks of the document that the question identifies.

    It is the document of the first hit that has all reference numbers of the question (dates, invoice numbers,
    versions) in its file name, title or text. The list is empty if there is no such number or document.
    """
    numbers = set(find_reference_numbers(query.question))
    if not numbers:
        return []
    for hit in hits:
        text = f"{PurePosixPath(hit.document).stem} {hit.title or ''} {hit.text}"
        if numbers.issubset(find_reference_numbers(text)):
            record = query.state.documents.get_by_key(hit.document)
            return list(islice(record.chunk_ids(), _MAX_DOCUMENT_CHUNKS))
    return []


def _list_table_parts(hits: Sequence[Hit], query: Query) -> list[int]:
    """Return the ids of the chunks before and after the hits that continue a table of the hit."""
    state = query.state
    chunks: dict[int, None] = {}
    for hit in hits:
        lines = [line.lstrip() for line in hit.text.strip().splitlines()]  # a description in YAML is indented
        if not any(line.startswith("|") for line in lines[:1] + lines[-1:]):
            continue
        record = state.documents.get_by_key(hit.document)
        for line, ordinal in ((lines[0], hit.ordinal - 1), (lines[-1], hit.ordinal + 1)):
            if line.startswith("|") and 0 <= ordinal < record.chunk_count:
                chunk = record.get_chunk_id(ordinal)
                adjacent = state.chunks.get(chunk)
                lines_of_adjacent = state.documents.read_text_slice(record.id, adjacent.start, adjacent.end).split("\n")
                nearest_line = lines_of_adjacent[-1 if ordinal < hit.ordinal else 0]
                if nearest_line.lstrip().startswith("|"):
                    chunks[chunk] = None
    return list(chunks)


def _list_release_chunks(hits: Sequence[Hit], query: Query) -> list[int]:
    """Return the ids of the chunk with the latest version in a changelog, and of the first chunk of the changelog.

    The first chunk can name the product. The changelog is the first document of the hits that has headings with
    versions and dates. The list is empty without a changelog, or if the question does not ask for the latest version.
    """
    if not asks_for_latest_release(query.question):
        return []
    state = query.state
    for document in dict.fromkeys(hit.document for hit in hits[:_MAX_TABLES]):
        record = state.documents.get_by_key(document)
        latest = find_latest_release(state.documents.get_sections(record.id))
        if latest is not None:
            ids = list(islice(record.chunk_ids(), _MAX_DOCUMENT_CHUNKS))
            index = bisect_right(ids, latest[0].start, key=lambda chunk: state.chunks.get(chunk).start) - 1
            return sorted({ids[0], ids[max(0, index)]})
    return []


class _ComparedRows(NamedTuple):
    """The chunks with the rows to compare, and the tables of the documents with these rows, by document key."""

    chunks: list[int]
    tables: dict[str, Hashable]


def _list_compared_rows(hits: Sequence[Hit], query: Query) -> _ComparedRows:
    """Return the rows that a superlative of the question compares, in the tables of the first ``_MAX_TABLES`` hits.

    A table is the section around a hit, or consists of documents with one row each. In the second case, only the
    chunks of rows with an extreme value are returned. A table with too many rows is omitted, and so is one with a row
    that has an extreme value and several chunks. Without a superlative, the result is empty.
    """
    superlative = find_superlative(query.question, query.stem)
    rows = _ComparedRows([], {})
    if superlative is None:
        return rows
    state = query.state
    long_documents: set[str] = set()
    for hit in hits[:_MAX_TABLES]:
        record = state.documents.get_by_key(hit.document)
        if hit.document in rows.tables and record.chunk_count == 1:
            continue
        if record.chunk_count > 1:  # the table is a section of the document
            chunks = _list_section_chunks(record, hit, state)
            if len(chunks) > _MAX_SECTION_CHUNKS:
                long_documents.add(hit.document)
            else:
                rows.chunks.extend(chunks)
                rows.tables[hit.document] = hit.document
        elif not _is_row(hit.text):  # the only chunk is among the hits already
            rows.tables[hit.document] = hit.document
        elif table := _read_table(record, state):
            _add_extreme_rows(rows, table, superlative, query)
    tables = {key: table for key, table in rows.tables.items() if key not in long_documents}
    return _ComparedRows(list(dict.fromkeys(rows.chunks)), tables)


def _add_extreme_rows(rows: _ComparedRows, table: _RowDocuments, superlative: Superlative, query: Query) -> None:
    """Add the documents of a table whose rows are documents to ``rows``, and the chunks of those with an extreme value.

    Nothing is added if no row has an extreme value, or if such a row has several chunks.
    """
    marked = mark_extremes([ComparedRow("", row) for row in table.rows.values()], superlative)
    documents = query.state.documents.get_many(table.rows).values()
    extremes = [row for index, row in enumerate(documents) if marked.get(index)]
    if extremes and all(row.chunk_count == 1 for row in extremes):
        rows.chunks.extend(row.get_chunk_id(0) for row in extremes[:_MAX_EQUAL_ROWS])
        rows.tables.update((row.key, table.columns) for row in documents)


def _list_section_chunks(record: DocumentRecord, hit: Hit, state: State) -> list[int]:
    """Return the ids of the chunks in the section of a hit, at most one more than ``_MAX_SECTION_CHUNKS``.

    ``record`` is the document of the hit.
    """
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


class _RowDocuments(NamedTuple):
    """A table whose rows are documents: the rows as texts of one line, by id of the document, and all column names."""

    rows: dict[int, str]
    columns: frozenset[str]


def _read_table(record: DocumentRecord, state: State) -> _RowDocuments | None:
    """Return the table to which a document that is a row belongs, or None if too many documents can belong to it.

    Its rows are documents from the same file or, for a document without a file, documents without a file. They have the
    first column of the row ``record``, or only columns of that row.
    """
    condition: Condition = Not(IsNotNull(_SOURCE)) if record.source is None else Compare(_SOURCE, "=", record.source)
    documents = np.flatnonzero(Evaluation(state).evaluate(condition).certain_matches)  # the ids of documents
    if state.allowed is not None:
        documents = np.intersect1d(documents, np.asarray(state.allowed.documents, documents.dtype))
    if len(documents) > _MAX_ROW_DOCUMENTS:
        return None
    columns = list(split_cells(_read_row(record.id, state)))
    table: dict[int, str] = {}
    all_columns: set[str] = set()
    for document in documents.tolist():
        text = _read_row(document, state)
        cells = split_cells(text)
        if columns[0] in cells or (len(cells) > 1 and cells.keys() <= set(columns)):
            table[document] = text
            all_columns.update(cells)
    return _RowDocuments(table, frozenset(all_columns))


def _read_row(document: int, state: State) -> str:
    """Return the start of a document as a text of one line, with a semicolon between its lines."""
    return "; ".join(state.documents.read_text_start(document, _MAX_ROW_BYTES).decode(errors="ignore").splitlines())
