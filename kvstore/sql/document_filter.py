"""Which documents fulfil a condition: by the index of their values, and by SQLite where that does not tell.

In: a SQL expression over the table ``documents``, and its parameters. Out: the documents for which it is true, exactly
those that SQLite finds. What the index knows for certain is not read; the documents it cannot judge are. A condition is
evaluated once while the store stays as it is, unless it may become another by itself.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple

import numpy as np

from ..structures.documents.allowed import Allowed
from ..structures.state import State
from ..systems.metadata_index.conditions import Untold, is_told
from ..systems.metadata_index.evaluation import Evaluation
from ..systems.metadata_index.metadata_structure import METADATA
from ..systems.sql_table import Parameters
from . import condition as conditions
from .condition_reading import condition_of
from .relational import documents_fulfilling
from .store_tables import SPINE_TABLES, sql_tables
from .tokens import tokens

#: Words of SQL of which a value is not a function of the documents: the time, chance, temperatures.
_FLEETING = frozenset(
    {
        "random", "randomblob", "date", "time", "datetime", "julianday", "unixepoch", "strftime", "timediff",
        "current_date", "current_time", "current_timestamp", "changes", "total_changes", "last_insert_rowid",
        "temperature",
    }
)  # fmt: skip


class Filtered(NamedTuple):
    """The documents that a condition leaves, and how they were found."""

    allowed: Allowed
    how: str


def documents_where(state: State, condition: str, parameters: Parameters = ()) -> Filtered:
    """The documents for which ``condition`` is true.

    Raises StatementError for a condition that is not one, showing the place.
    """
    conditions.check_alone(condition)
    kept = None if state.lmdb.writable or state.open_indexes is None else state.open_indexes.conditions
    key = None if kept is None else _key(state, condition, parameters)
    if kept is not None and key is not None:
        allowed = kept.get(key)
        if allowed is not None:
            return Filtered(allowed, "kept since it was last asked for")
    found = _found(state, condition, parameters)
    if kept is not None and key is not None:
        kept.keep(key, found.allowed)
    return found


def _found(state: State, text: str, parameters: Parameters) -> Filtered:
    index = state.part(METADATA)
    condition = condition_of(text, parameters)
    if isinstance(condition, Untold):
        found = np.array(sorted(documents_fulfilling(state, text, parameters)), np.int64)
        return Filtered(index.allowed(found), f"{state.counters.documents:,} documents read")
    least, most = Evaluation(state).bounds(condition)
    unclear = [] if least is most else np.flatnonzero(most & ~least).tolist()
    if unclear or not is_told(condition):
        # Where nothing is unclear, SQLite still judges what the condition says.
        judged = list(documents_fulfilling(state, text, parameters, unclear))
        if judged:
            least = least.copy()
            least[judged] = True
    how = "by the index of values" + (f", {len(unclear):,} documents read" if unclear else "")
    return Filtered(index.allowed(np.flatnonzero(least)), how)


def _key(state: State, condition: str, parameters: Parameters) -> Hashable | None:
    """What a condition is kept by; None where what it says may change while the documents do not."""
    words = {token.text.strip('"`[]').lower() for token in tokens(condition) if token.kind in ("word", "quoted")}
    if words & _FLEETING or words & (sql_tables().keys() - SPINE_TABLES):
        return None
    values = sorted(parameters.items()) if isinstance(parameters, Mapping) else parameters
    return state.counters.change, condition, tuple(map(repr, values))
