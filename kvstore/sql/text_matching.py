"""``MATCH`` in SQL: full-text queries of any text, and the lookups of documents and chunks by their words.

In: a query (:mod:`kvstore.text.text_query`) and a value, or a state. Out: the result of the match, or rows that can
match: the postings show that they have the words. An invalid query raises InputError.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ..derived.metadata_index.conditions import DOCUMENT_TEXT, MatchesText
from ..derived.metadata_index.evaluation import Evaluation
from ..registry.sql_table import SqlValue, TableRows
from ..registry.table_reader import TableReader
from ..structures.text_candidates import find_chunks_with_all
from ..text.text_query import TextMatcher, find_candidates, parse_text_query


def match_text(matcher: TextMatcher, query: SqlValue, value: SqlValue) -> int | None:
    """Return 1 if a value, converted to text, matches a full-text query, else 0.

    Returns None if one of them is NULL, or if the value is a blob. ``matcher`` compares the words.
    """
    if query is None or value is None or isinstance(value, bytes):
        return None
    return int(matcher.matches(str(query), str(value)))


def find_candidate_documents(reader: TableReader, query: str) -> TableRows:
    """Return an iterator over the ids of documents that may match a full-text query, in ascending order.

    These candidates are found by the index; the caller checks the text of each.
    """
    # The index finds the documents that certainly match, and those that possibly match, which include the former.
    bounds = Evaluation(reader.state).evaluate(MatchesText(DOCUMENT_TEXT, parse_text_query(query)))
    return iter(np.flatnonzero(bounds.possible_matches).tolist())


def find_candidate_chunks(reader: TableReader, query: str) -> TableRows:
    """Return an iterator over the ids of chunks that may match a full-text query, in ascending order.

    These candidates are found by the index; the caller checks the text of each.
    """
    find_chunks = partial(find_chunks_with_all, reader.state)
    return iter(find_candidates(parse_text_query(query), find_chunks, np.intersect1d, np.union1d).tolist())
