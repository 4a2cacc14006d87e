"""Evaluation of a condition on the document itself, if the index of values cannot decide.

In: a condition from a mapping (:mod:`kvstore.sql.condition_mapping`), and a document's record. Out: True if the
document satisfies it; such a condition is never unknown. SQLite evaluates conditions written in SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...structures.documents.documents import DocumentRecord
from ...structures.state import State
from ...text.text_query import build_text_matcher
from .conditions import (
    COMPARISONS,
    DOCUMENT_TEXT,
    All,
    AnyOf,
    ColumnField,
    Compare,
    Condition,
    Exists,
    Field,
    HasText,
    IsEmptyList,
    IsLike,
    IsNotNull,
    IsOneOf,
    MatchesText,
    Not,
    Unknown,
)
from .metadata_encoding import LANGUAGE_COLUMN
from .metadata_structure import METADATA
from .pattern_matching import make_pattern_matcher, make_substring_matcher

#: Columns whose record attribute has another name.
_ATTRIBUTES = {"bytes": "size", "chunks": "chunk_count"}


def make_predicate(condition: Condition, state: State) -> Callable[[DocumentRecord], bool]:
    """Return a predicate on the records of documents in ``state`` that is true if the document satisfies a condition.

    As in SQL, a condition is true, false or unknown: a comparison with NULL is unknown. Exists makes it false instead.
    Raises ValueError for a condition that can be unknown, or that only SQL can express.
    """
    match condition:
        case Not(operand):
            operand_predicate = make_predicate(operand, state)
            return lambda record: not operand_predicate(record)
        case All(operands):
            all_predicates = [make_predicate(operand, state) for operand in operands]
            return lambda record: all(predicate(record) for predicate in all_predicates)
        case AnyOf(operands):
            any_predicates = [make_predicate(operand, state) for operand in operands]
            return lambda record: any(predicate(record) for predicate in any_predicates)
        case IsNotNull(field):
            return lambda record: _get_value(record, field, state) is not None
        case IsEmptyList(field):
            return lambda record: _get_value(record, field, state) == []
        case Exists(Unknown()):  # a comparison with NULL, which is true for no value
            return lambda record: False
        case Exists(operand):
            return _make_value_predicate(operand, state)
    raise ValueError(f"a condition that can be unknown: {condition}")


def _make_value_predicate(operand: Condition, state: State) -> Callable[[DocumentRecord], bool]:
    """Return a predicate that is true if a field's value, or any element of its list, satisfies ``operand``.

    ``operand`` is a condition on a single value of the field that it names. Raises ValueError for a condition that only
    SQL can express.
    """
    match operand:
        case Compare(field, operator, value, same_kind=True):
            compare, kind = COMPARISONS[operator], str if isinstance(value, str) else (int, float)
            return lambda record: any(
                isinstance(candidate, kind) and compare(candidate, value)
                for candidate in _list_values(record, field, state)
            )
        case IsOneOf(field, values):
            value_set = frozenset(values)
            return lambda record: any(
                isinstance(candidate, (str, int, float)) and candidate in value_set
                for candidate in _list_values(record, field, state)
            )
        case IsLike(field, pattern, glob=False, same_kind=True):
            matches = make_pattern_matcher(pattern, glob=False)
        case HasText(field, text, ignores_case):
            matches = make_substring_matcher(text, ignores_case)
        case MatchesText(field, query):
            matches = build_text_matcher(query, state.settings.stemmer)
        case _:
            raise ValueError(f"a condition that only SQL has: {operand}")
    return lambda record: any(
        isinstance(candidate, str) and matches(candidate) for candidate in _list_values(record, field, state)
    )


def _list_values(record: DocumentRecord, field: Field, state: State) -> Sequence[Any]:
    """Return the elements of a field's list, or a list of the field's only value (None if it is missing)."""
    value = _get_value(record, field, state)
    return value if isinstance(value, list) else [value]


def _get_value(record: DocumentRecord, field: Field, state: State) -> Any:
    """Return the value of a column or a metadata field of a document, or its searchable text; None if it is missing."""
    if field == DOCUMENT_TEXT:
        return state.read_searchable_text(record)
    if isinstance(field, ColumnField):
        if field.name == LANGUAGE_COLUMN:
            return state.get_part(METADATA).get_language(record.id)
        return getattr(record, _ATTRIBUTES.get(field.name, field.name))
    value: Any = record.meta
    for name in field.names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
