"""Conversion of LlamaIndex's metadata filters to conditions of the store. A *condition* is a dictionary such as
``{"year": {"$gte": 2024}}`` (:mod:`kvstore.sql.condition_mapping`).

Filters can have any operator and any nesting. A missing field satisfies only ``!=``, ``nin`` and ``is_empty``, as in
LlamaIndex's own store.
"""

from __future__ import annotations

from typing import Any

from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

from ...arguments import format_value
from ...errors import ArgumentError, InputError

FilterMapping = dict[str, Any]

#: The store's operators by LlamaIndex's.
_COMPARISONS = {
    FilterOperator.EQ: "$eq",
    FilterOperator.NE: "$ne",
    FilterOperator.GT: "$gt",
    FilterOperator.GTE: "$gte",
    FilterOperator.LT: "$lt",
    FilterOperator.LTE: "$lte",
    FilterOperator.IN: "$in",
    FilterOperator.NIN: "$nin",
    # A list satisfies a comparison if one of its elements does.
    FilterOperator.CONTAINS: "$eq",
    FilterOperator.ANY: "$in",
    FilterOperator.TEXT_MATCH: "$substring",
    FilterOperator.TEXT_MATCH_INSENSITIVE: "$isubstring",
}


def build_condition(filters: MetadataFilters | None) -> FilterMapping | None:
    """Convert LlamaIndex's filters to a condition; return None without filters.

    Raises InputError for an unknown operator, and ArgumentError for anything but MetadataFilters.
    """
    if filters is None:
        return None
    if not isinstance(filters, MetadataFilters):
        raise ArgumentError(f"filters must be MetadataFilters, not {format_value(filters)}")
    if not filters.filters:
        return None
    conditions = [
        (build_condition(inner_filter) or {})
        if isinstance(inner_filter, MetadataFilters)
        else _build_comparison(inner_filter)
        for inner_filter in filters.filters
    ]
    if filters.condition == FilterCondition.OR:
        return {"$or": conditions}
    if filters.condition == FilterCondition.NOT:  # none of the filters
        return {"$not": {"$or": conditions}}
    return {"$and": conditions}


def _build_comparison(metadata_filter: MetadataFilter) -> FilterMapping:
    """Convert one comparison of LlamaIndex to a condition. Raises InputError for an unknown operator."""
    if metadata_filter.operator == FilterOperator.IS_EMPTY:
        return {metadata_filter.key: {"$empty": True}}
    if metadata_filter.operator == FilterOperator.ALL:
        values = metadata_filter.value if isinstance(metadata_filter.value, list) else [metadata_filter.value]
        return {"$and": [{metadata_filter.key: value} for value in values]} if values else {}
    operator = _COMPARISONS.get(metadata_filter.operator)
    if operator is None:
        raise InputError(
            f"the filter operator {metadata_filter.operator!r} is unknown; operators are {', '.join(FilterOperator)}"
        )
    return {metadata_filter.key: {operator: metadata_filter.value}}


def join_conditions(*conditions: FilterMapping | None) -> FilterMapping | None:
    """Join conditions with AND, ignoring None; return None if all are None."""
    present_conditions = [condition for condition in conditions if condition is not None]
    return {"$and": present_conditions} if present_conditions else None
