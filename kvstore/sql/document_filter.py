"""The documents that satisfy a condition, which is SQL or a mapping such as ``{"year": 2024}``.
The metadata index decides for most documents; the *undecided* ones are read and evaluated by SQLite or, for a mapping,
in Python.

In: a SQL expression over the ``documents`` table with its parameters, or a condition as a mapping
(:mod:`.condition_mapping`). Out: the documents for which it is true; for SQL, exactly the documents that SQLite finds.
The result is cached until the store changes, unless the condition is volatile.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..arguments import find_caller_level, format_count, is_representable, to_plain_value
from ..derived.metadata_index.conditions import (
    Condition,
    IsNotNull,
    MetaField,
    Unsupported,
    has_text_search,
    is_supported,
)
from ..derived.metadata_index.evaluation import Evaluation
from ..derived.metadata_index.metadata_structure import METADATA
from ..derived.metadata_index.record_evaluation import make_predicate
from ..errors import InputError
from ..registry.sql_table import Parameters, SqlValue
from ..structures.documents.allowed import AllowedDocuments
from ..structures.state import State
from . import condition as conditions
from .condition_mapping import OPERATORS, parse_condition_mapping
from .condition_reading import parse_sql_condition
from .document_tables import DOCUMENTS
from .relational import select_documents
from .table_catalog import CACHEABLE_TABLES, get_sql_tables
from .tokens import iter_tokens

#: SQL words whose values do not depend only on the documents: time, random numbers, temperatures.
_VOLATILE_WORDS = frozenset(
    {
        "random", "randomblob", "date", "time", "datetime", "julianday", "unixepoch", "strftime", "timediff",
        "current_date", "current_time", "current_timestamp", "changes", "total_changes", "last_insert_rowid",
        "temperature",
    }
)  # fmt: skip


#: Documents read in one batch.
_BATCH_DOCUMENTS = 1000


class FilterResult(NamedTuple):
    """The documents that satisfy a condition, and a description of how they were found."""

    allowed: AllowedDocuments
    detail: str


def filter_documents(state: State, where: str | Mapping[str, Any], parameters: Parameters = ()) -> FilterResult:
    """Return the documents for which a condition is true, and a description of how they were found.

    ``where`` is an SQL expression with ``parameters``, or a mapping such as ``{"year": 2024}``. Raises a StatementError
    that points at the error for invalid SQL, and InputError for an invalid mapping. A mapping that selects nothing
    because it has ``key`` instead of ``$key`` gives a warning.
    """
    if isinstance(where, str):
        return _filter_by_sql(state, where, _to_plain_parameters(parameters))
    if parameters:
        raise InputError("a condition that is a mapping takes no parameters; put the values into the mapping")
    condition = parse_condition_mapping(where)
    key = (state.counters.change, repr(condition))
    result = _get_or_compute(
        state, key, lambda: _evaluate_condition(state, condition, partial(_iter_matching, state, condition))
    )
    if not result.allowed and state.counters.documents:
        _warn_of_missing_dollars(state, where)
    return result


def _warn_of_missing_dollars(state: State, where: Mapping[str, Any]) -> None:
    """Warn of keys of a mapping that are names of columns or operators without their ``$``.

    Does not warn if a document has a metadata field of this name.
    """
    for name, operand in where.items():
        if name != "meta" and name in DOCUMENTS.all_columns and not _has_field(state, (name,)):
            _warn(f"no document has the metadata field {name!r}; for the column, write '${name}'")
        fields = operand if isinstance(operand, Mapping) and name[0:1] != "$" else ()
        for field in fields:
            if f"${field}" in OPERATORS and not _has_field(state, (name, field)):
                _warn(f"no document has the metadata field {field!r} in {name!r}; for the operator, write '${field}'")


def _has_field(state: State, names: tuple[str, ...]) -> bool:
    """True if a document may have a metadata field, given by its name and the names of the fields that contain it."""
    return bool(Evaluation(state).evaluate(IsNotNull(MetaField(names))).possible_matches.any())


def _warn(message: str) -> None:
    """Issue a warning that points at the call of kvstore."""
    warnings.warn(message, stacklevel=find_caller_level())


def _filter_by_sql(state: State, where: str, parameters: Parameters) -> FilterResult:
    """Return the documents that satisfy an SQL condition; raise StatementError if it is invalid."""
    conditions.check_condition(where)

    find_by_sqlite = partial(select_documents, state, where, parameters)
    key = _build_cache_key(state, where, parameters)
    return _get_or_compute(
        state, key, lambda: _evaluate_condition(state, parse_sql_condition(where, parameters), find_by_sqlite)
    )


def _to_plain_parameters(parameters: Parameters) -> Parameters:
    """Return parameters with scalars of numpy, dates and missing values as plain values; text is returned unchanged."""
    if isinstance(parameters, Mapping):
        return {name: to_plain_value(value) for name, value in parameters.items()}
    # A single text is not a valid sequence of parameters; SQLite rejects it later.
    return parameters if isinstance(parameters, (str, bytes)) else [to_plain_value(value) for value in parameters]


def _get_or_compute(state: State, key: Hashable | None, compute: Callable[[], FilterResult]) -> FilterResult:
    """Return the cached result for ``key``, or compute and cache it.

    The result is always computed if ``key`` is None, or if the state belongs to a write transaction or has no cache.
    """
    cache = None if state.lmdb.writable or state.open_indexes is None else state.open_indexes.condition_cache
    if cache is None or key is None:
        return compute()
    allowed = cache.get(key)
    if allowed is not None:
        return FilterResult(allowed, "from the cache")
    result = compute()
    cache.put(key, result.allowed)
    return result


def _evaluate_condition(
    state: State, condition: Condition, find_matching: Callable[[Sequence[int] | None], Iterable[int]]
) -> FilterResult:
    """Return the documents that satisfy a condition, and a description of how they were found.

    The index of metadata decides for as many documents as it can. For the others, ``find_matching(ids)`` reads the
    documents with these ids (None: all), and returns the ids of those that satisfy the condition.
    """
    index = state.get_part(METADATA)
    if isinstance(condition, Unsupported):
        document_ids = np.array(sorted(find_matching(None)), np.int64)  # None: SQLite reads all documents
        return FilterResult(
            index.build_allowed(document_ids), f"{format_count(state.counters.documents, 'document')} read"
        )
    bounds = Evaluation(state).evaluate(condition)
    certain, possible = bounds  # flags by document id: the condition is true, or may be true
    undecided_ids = [] if bounds.is_exact else np.flatnonzero(possible & ~certain).tolist()
    if undecided_ids or not is_supported(condition):
        # Even if no document is undecided, SQLite validates the condition.
        matching_ids = list(find_matching(undecided_ids))
        if matching_ids:
            certain = certain.copy()
            certain[matching_ids] = True
    detail = "by the metadata index"
    if has_text_search(condition):
        detail = "by the word index and the metadata index"
    if undecided_ids:
        detail += f", {format_count(len(undecided_ids), 'document')} read"
    return FilterResult(index.build_allowed(np.flatnonzero(certain)), detail)


def _iter_matching(state: State, condition: Condition, candidate_ids: Sequence[int] | None) -> Iterator[int]:
    """Yield the ids of the candidate documents whose records satisfy the condition of a mapping.

    The records are read in batches. ``candidate_ids`` is never None (all documents): only SQL conditions that
    kvstore cannot parse need all documents.
    """
    assert candidate_ids is not None
    is_satisfied = make_predicate(condition, state)
    for start in range(0, len(candidate_ids), _BATCH_DOCUMENTS):
        records = state.documents.get_many(candidate_ids[start : start + _BATCH_DOCUMENTS])
        yield from (document_id for document_id, record in records.items() if is_satisfied(record))


def _build_cache_key(state: State, condition: str, parameters: Parameters) -> Hashable | None:
    """Return the cache key of an SQL condition with its parameters, or None if its result must not be cached.

    A result is not cached if it can change while the documents do not, or if a parameter is invalid.
    """
    words = {token.text.strip('"`[]').lower() for token in iter_tokens(condition) if token.kind in ("word", "quoted")}
    volatile_tables = get_sql_tables().keys() - CACHEABLE_TABLES
    if words & _VOLATILE_WORDS or words & volatile_tables:
        return None
    parameter_values = parameters.values() if isinstance(parameters, Mapping) else parameters
    if not all(isinstance(value, SqlValue) for value in parameter_values):  # SQLite rejects the value
        return None
    if not all(is_representable(value) for value in parameter_values if isinstance(value, int)):
        return None
    values = sorted(parameters.items()) if isinstance(parameters, Mapping) else parameters
    return state.counters.change, condition, tuple(map(repr, values))
