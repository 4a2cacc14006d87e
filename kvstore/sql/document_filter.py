"""Which documents fulfil a condition: by the index of their values, and by SQLite where that does not tell.

In: a SQL expression over the table ``documents`` and its parameters, or a mapping that says a condition
(:mod:`.condition_mapping`). Out: the documents for which it is true, of SQL exactly those that SQLite finds. What the
index knows for certain is not read; the documents it cannot judge are, by SQLite or, for a mapping, as they are. A
condition is evaluated once while the store stays as it is, unless it may become another by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..arguments import is_representable
from ..errors import InputError
from ..structures.documents.allowed import AllowedDocuments
from ..structures.state import State
from ..systems.metadata_index.conditions import Condition, Unsupported, has_text_search, is_supported
from ..systems.metadata_index.evaluation import Evaluation
from ..systems.metadata_index.judgement import make_predicate
from ..systems.metadata_index.metadata_structure import METADATA
from ..systems.sql_table import Parameters, SqlValue
from . import condition as conditions
from .condition_mapping import parse_condition_mapping
from .condition_reading import parse_sql_condition
from .relational import select_documents
from .store_tables import SPINE_TABLES, get_sql_tables
from .tokens import tokens

#: Words of SQL of which a value is not a function of the documents: the time, chance, temperatures.
_VOLATILE_WORDS = frozenset(
    {
        "random", "randomblob", "date", "time", "datetime", "julianday", "unixepoch", "strftime", "timediff",
        "current_date", "current_time", "current_timestamp", "changes", "total_changes", "last_insert_rowid",
        "temperature",
    }
)  # fmt: skip


#: Documents that are read together to be judged.
_BATCH_DOCUMENTS = 1000


class FilterResult(NamedTuple):
    """The documents that a condition leaves, and how they were found."""

    allowed: AllowedDocuments
    detail: str


def filter_documents(state: State, where: str | Mapping[str, Any], parameters: Parameters = ()) -> FilterResult:
    """The documents for which a condition is true.

    Raises StatementError for SQL that is no condition, showing the place, and InputError for a mapping that is none.
    """
    if isinstance(where, str):
        conditions.check_condition(where)

        def find_by_sqlite(among: Sequence[int] | None) -> Iterator[int]:
            return select_documents(state, where, parameters, among)

        key = _build_cache_key(state, where, parameters)
        return _find_cached(
            state, key, lambda: _evaluate_condition(state, parse_sql_condition(where, parameters), find_by_sqlite)
        )
    if parameters:
        raise InputError("a condition that is a mapping takes no parameters; put their values into it")
    condition = parse_condition_mapping(where)
    key = (state.counters.change, repr(condition))
    return _find_cached(
        state, key, lambda: _evaluate_condition(state, condition, partial(_iter_fulfilling, state, condition))
    )


def _find_cached(state: State, key: Hashable | None, find: Callable[[], FilterResult]) -> FilterResult:
    """What a condition left when it was last asked for, else what it leaves now; ``key`` None: that is not kept."""
    cache = None if state.lmdb.writable or state.open_indexes is None else state.open_indexes.condition_cache
    if cache is None or key is None:
        return find()
    allowed = cache.get(key)
    if allowed is not None:
        return FilterResult(allowed, "kept since it was last asked for")
    result = find()
    cache.put(key, result.allowed)
    return result


def _evaluate_condition(
    state: State, condition: Condition, find_fulfilling: Callable[[Sequence[int] | None], Iterable[int]]
) -> FilterResult:
    """The documents that fulfil a condition; ``find_fulfilling`` reads some, or all (None), to say which of them do."""
    index = state.get_part(METADATA)
    if isinstance(condition, Unsupported):
        document_ids = np.array(sorted(find_fulfilling(None)), np.int64)
        return FilterResult(index.build_allowed(document_ids), f"{state.counters.documents:,} documents read")
    certain, possible = Evaluation(state).evaluate(condition)
    unclear = [] if certain is possible else np.flatnonzero(possible & ~certain).tolist()
    if unclear or not is_supported(condition):
        # Where nothing is unclear, SQLite still judges what the condition says.
        fulfilling = list(find_fulfilling(unclear))
        if fulfilling:
            certain = certain.copy()
            certain[fulfilling] = True
    detail = (
        "by the postings of words and the index of values" if has_text_search(condition) else "by the index of values"
    )
    detail += f", {len(unclear):,} documents read" if unclear else ""
    return FilterResult(index.build_allowed(np.flatnonzero(certain)), detail)


def _iter_fulfilling(state: State, condition: Condition, among: Sequence[int] | None) -> Iterator[int]:
    """Those of some documents that fulfil a condition, by their records."""
    is_fulfilled, candidates = make_predicate(condition, state), among or ()
    for start in range(0, len(candidates), _BATCH_DOCUMENTS):
        records = state.documents.get_many(candidates[start : start + _BATCH_DOCUMENTS])
        yield from (document for document, record in records.items() if is_fulfilled(record))


def _build_cache_key(state: State, condition: str, parameters: Parameters) -> Hashable | None:
    """What a condition is kept by; None where what it says may change while the documents do not."""
    words = {token.text.strip('"`[]').lower() for token in tokens(condition) if token.kind in ("word", "quoted")}
    if words & _VOLATILE_WORDS or words & (get_sql_tables().keys() - SPINE_TABLES):
        return None
    parameter_values = parameters.values() if isinstance(parameters, Mapping) else parameters
    if not all(isinstance(value, SqlValue) for value in parameter_values):  # SQLite says so when it is given them
        return None
    if not all(is_representable(value) for value in parameter_values if isinstance(value, int)):
        return None
    values = sorted(parameters.items()) if isinstance(parameters, Mapping) else parameters
    return state.counters.change, condition, tuple(map(repr, values))
