"""Conversion of Haystack's metadata filters to conditions of the store. A *condition* is a dictionary such as
``{"year": {"$gte": 2024}}`` (:mod:`kvstore.sql.condition_mapping`). A filter is a comparison or a combination of
filters.

Invalid filters raise Haystack's FilterError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from haystack.errors import FilterError

FilterMapping = dict[str, Any]

#: The store's operators by Haystack's: the operators for numbers and dates, the operators for lists, and all.
_ORDER_OPERATORS = {">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}
_LIST_OPERATORS = {"in": "$in", "not in": "$nin"}
_OPERATORS = {"==": "$eq", "!=": "$ne", **_ORDER_OPERATORS, **_LIST_OPERATORS}
#: The attributes of a document that a condition cannot compare; in Haystack, these names are not metadata fields.
_OTHER_ATTRIBUTES = ("content", "blob", "score", "embedding", "sparse_embedding")
#: The condition that no document satisfies.
_NEVER: FilterMapping = {"$key": {"$in": []}}


def build_condition(filters: Mapping[str, Any] | None) -> FilterMapping | None:
    """Convert Haystack's filters to a condition; return None without filters.

    Raises FilterError if they are invalid.
    """
    return _convert_filter(filters) if filters else None


def _convert_filter(filters: Mapping[str, Any]) -> FilterMapping:
    """Convert a comparison or a combination of filters to a condition. Raises FilterError if it is invalid.

    An AND without conditions matches every document; an OR or NOT without conditions matches no document.
    """
    if not isinstance(filters, Mapping):
        raise FilterError(f"a filter must be a dictionary, not {filters!r}")
    is_comparison = "field" in filters
    for name in ("operator", "value") if is_comparison else ("operator", "conditions"):
        if name not in filters:
            raise FilterError(f"the filter {filters!r} has no {name!r}; add it")
    if is_comparison:
        return _convert_comparison(filters["field"], filters["operator"], filters["value"])
    operator = filters["operator"]
    if operator not in ("AND", "OR", "NOT"):
        raise FilterError(f"there is no operator {operator!r} for conditions; operators are AND, OR and NOT")
    if not isinstance(filters["conditions"], Sequence) or isinstance(filters["conditions"], str):
        raise FilterError(f"the conditions of {operator} must be a list, not {filters['conditions']!r}")
    conditions = list(map(_convert_filter, filters["conditions"]))
    if operator == "OR":
        return {"$or": conditions} if conditions else _NEVER
    conjunction = {"$and": conditions} if conditions else {}
    return conjunction if operator == "AND" else {"$not": conjunction}


def _convert_comparison(field: str, operator: str, value: Any) -> FilterMapping:
    """Convert the comparison of a field with a value, such as ``>=``, to a condition. Raises FilterError if invalid.

    The ``id`` field is the key of a document; all others are metadata, with dots between the names of nested fields.
    """
    if not isinstance(field, str):
        raise FilterError(f"the field of a filter must be a string, not {field!r}")
    if operator not in _OPERATORS:
        raise FilterError(f"there is no operator {operator!r}; operators are {', '.join(_OPERATORS)}")
    if operator in _LIST_OPERATORS and not isinstance(value, list):
        raise FilterError(f"{operator!r} takes a list of values, not {value!r}")
    if operator in _ORDER_OPERATORS:
        if value is None:  # nothing is less or greater than None
            return _NEVER
        _check_order_operand(operator, value)
    if field in _OTHER_ATTRIBUTES:
        raise FilterError(f"a filter compares the id and metadata of documents, not {field!r}; use id or meta.NAME")
    condition: FilterMapping = {_OPERATORS[operator]: value}
    names = ["$key"] if field == "id" else field.removeprefix("meta.").split(".")
    for name in reversed(names):
        condition = {name: condition}
    return condition


def _check_order_operand(operator: str, value: Any) -> None:
    """Raise FilterError unless ``value``, compared by ``operator`` such as ``>=``, is a number or a date."""
    if isinstance(value, str):
        try:
            datetime.fromisoformat(value)
        except ValueError:
            raise FilterError(f"{operator!r} takes a number or a date in ISO 8601, not {value!r}") from None
    elif not isinstance(value, int | float | datetime):
        raise FilterError(f"{operator!r} takes a number or a date in ISO 8601, not {value!r}")
