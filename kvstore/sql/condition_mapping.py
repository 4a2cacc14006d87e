"""Conditions on documents as mappings, similar to MongoDB's queries, such as ``{"year": {"$gte": 2024}}``.
An *operator* such as ``$gte`` has an *operand*, its value. A *field* is a field of the metadata or a column
(``$key``). ``Exists`` is true if an element of a list satisfies a condition.

In: a mapping such as ``{"year": {"$gte": 2024}, "$or": [{"draft": False}, {"$key": "plan"}]}``. Out: a condition of
:mod:`kvstore.derived.metadata_index.conditions`, the same algebra that SQL is converted to. It is true or false for
each document and never unknown. A name is a field of the metadata as written, and a mapping of names below it refers to
fields within it. ``$key``, ``$title``, ``$source``, ``$bytes``, ``$chunks``, ``$changed``, ``$origin`` and
``$left_out`` are the columns.

A list satisfies a condition if one of its elements does. Numbers compare with numbers and texts with texts. An invalid
condition raises InputError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import index
from typing import Any

from ..arguments import format_value, is_text, to_plain_value
from ..derived.metadata_index.conditions import (
    All,
    AnyOf,
    ColumnField,
    Compare,
    Condition,
    Exists,
    Field,
    FieldValue,
    HasText,
    IsEmptyList,
    IsLike,
    IsNotNull,
    IsOneOf,
    MatchesText,
    MetaField,
    Not,
    Operator,
    Unknown,
)
from ..derived.metadata_index.evaluation import NUMBER_COLUMNS
from ..derived.metadata_index.pattern_matching import MAX_PATTERN_CHARS
from ..errors import InputError, suggest
from ..text.text_query import parse_text_query
from .document_tables import DOCUMENTS

_COMPARISONS: Mapping[str, Operator] = {"$eq": "=", "$lt": "<", "$lte": "<=", "$gt": ">", "$gte": ">="}
OPERATORS = (
    *_COMPARISONS,
    "$ne",
    "$in",
    "$nin",
    "$exists",
    "$empty",
    "$like",
    "$substring",
    "$isubstring",
    "$match",
    "$not",
)
_JOIN_OPERATORS = ("$and", "$or", "$not")
#: The equivalents of operators of other databases.
_FOREIGN_OPERATORS = {
    "$contains": "use $substring or $match for text; a plain value also finds an element of a list",
    "$not_contains": "use $not with $substring, or $ne for a list",
    "$regex": "use $like, $substring or $match",
}
_COLUMNS = {f"${name}": ColumnField(name) for name in DOCUMENTS.all_columns if name != "meta"}
#: The integers that metadata can contain.
_INTEGERS = range(-(1 << 63), 1 << 64)
#: The maximum depth of nested conditions, so that parsing cannot exhaust the stack.
_MAX_DEPTH = 50

#: The conditions that are true for no document, and for every document. Exists is never unknown, so it is false here.
_NEVER: Condition = Exists(Unknown())
_ALWAYS: Condition = Not(_NEVER)


def parse_condition_mapping(where: object, depth: int = 0) -> Condition:
    """Convert the mapping ``where``, such as ``{"year": {"$gte": 2024}}``, to a condition on documents.

    The conditions of its keys are joined by AND. ``depth`` is its level of nesting. Raises InputError if it is invalid
    or nested too deeply.
    """
    if not isinstance(where, Mapping):
        raise InputError(f"a condition must be a mapping such as {{'year': 2024}}, not {format_value(where)}")
    if depth > _MAX_DEPTH:
        raise InputError(f"the condition is nested more than {_MAX_DEPTH} levels deep; nest it less deeply, or use SQL")
    return _join_all(_parse_named_condition(name, operand, depth) for name, operand in where.items())


def _parse_named_condition(name: object, operand: Any, depth: int) -> Condition:
    """Convert a key and value of a mapping, such as ``"year": 2024`` or ``"$or": [...]``, to a condition.

    ``name`` is a field, a column (``$key``) or an operator that joins conditions, and ``operand`` its value. ``depth``
    is the nesting level of the mapping. Raises InputError if the condition is invalid.
    """
    if not isinstance(name, str) or not is_text(name):
        raise InputError(f"the name of a field must be text, not {format_value(name)}")
    if name == "$not":
        return Not(parse_condition_mapping(operand, depth + 1))
    if name in ("$and", "$or"):
        conditions = [
            parse_condition_mapping(inner_operand, depth + 1) for inner_operand in _to_list(name, operand, "conditions")
        ]
        if not conditions:
            raise InputError(f"{name} needs at least one condition")
        return _join_all(conditions) if name == "$and" else _join_any(conditions)
    if name in _COLUMNS:
        return _parse_field(_COLUMNS[name], name, operand, depth + 1)
    if name.startswith("$"):
        raise InputError(
            f"there is no {name}{_format_suggestion(name, (*_JOIN_OPERATORS, *_COLUMNS))}; operators are "
            f"{', '.join(_JOIN_OPERATORS)}, and columns are {', '.join(_COLUMNS)}"
        )
    return _parse_field(MetaField((name,)), name, operand, depth + 1)


def _parse_field(field: Field, name: str, operand: Any, depth: int) -> Condition:
    """Convert the operand of a metadata field or column to a condition: a value, operators, or fields within it.

    ``name`` is the name of the field in error messages, and ``depth`` is the level of nesting. Raises InputError if the
    operand is invalid.
    """
    if not isinstance(operand, Mapping):
        return _make_equality(field, name, operand)
    if depth > _MAX_DEPTH:
        raise InputError(f"the condition is nested more than {_MAX_DEPTH} levels deep; nest it less deeply, or use SQL")
    are_operators = [isinstance(key, str) and key.startswith("$") for key in operand]
    if not operand or (any(are_operators) and not all(are_operators)):
        raise InputError(
            f"{name} takes a value, or operators such as {{'$gte': 2024}}, or fields within it, but not a mixture"
        )
    if any(are_operators):
        return _join_all(_parse_operation(field, name, operator, value, depth) for operator, value in operand.items())
    if isinstance(field, ColumnField):
        raise InputError(f"{name} is a column and has no fields; operators begin with '$', such as {{'$like': 'a%'}}")
    conditions = []
    for inner_name, value in operand.items():
        if not isinstance(inner_name, str) or not is_text(inner_name):
            raise InputError(f"the name of a field must be text, not {format_value(inner_name)}")
        conditions.append(_parse_field(MetaField((*field.names, inner_name)), f"{name}.{inner_name}", value, depth + 1))
    return _join_all(conditions)


def _parse_operation(field: Field, name: str, operator: str, value: Any, depth: int) -> Condition:
    """Convert one operator with its value, such as ``"$gte": 2024``, to a condition on a field.

    ``name`` is the name of the field in error messages, and ``depth`` is the level of nesting. Raises InputError for an
    unknown operator or an invalid value.
    """
    match operator:
        case "$eq":
            return _make_equality(field, name, value)
        case "$ne":
            return Not(_make_equality(field, name, value))
        case "$in" | "$nin":
            is_one_of = _make_membership(field, name, _to_list(operator, value, "values"))
            return is_one_of if operator == "$in" else Not(is_one_of)
        case "$lt" | "$lte" | "$gt" | "$gte":
            if value is None:
                raise InputError(
                    f"{name}: {operator} takes text or a number, not None; {{'$exists': False}} finds documents "
                    "without the field"
                )
            return _make_comparison(field, _COMPARISONS[operator], _to_field_value(name, value))
        case "$exists" | "$empty":
            if not isinstance(value, bool):
                raise InputError(f"{name}: {operator} takes True or False, not {format_value(value)}")
            condition = IsNotNull(field) if operator == "$exists" else _make_empty_condition(field)
            return condition if value else Not(condition)
        case "$match" | "$like" | "$substring" | "$isubstring":
            return _parse_text_operation(field, name, operator, value)
        case "$not":
            return Not(_parse_field(field, name, value, depth + 1))
    raise InputError(
        f"{name}: there is no operator {operator}{_format_suggestion(operator, OPERATORS)}; operators are "
        f"{', '.join(OPERATORS)}"
    )


def _make_equality(field: Field, name: str, value: Any) -> Condition:
    """Build the condition that a field equals a value or, for None, that it is missing or null.

    ``name`` is the name of the field in error messages.
    """
    return Not(IsNotNull(field)) if value is None else _make_comparison(field, "=", _to_field_value(name, value))


def _make_membership(field: Field, name: str, elements: Sequence[Any]) -> Condition:
    """Build the condition that a field, or an element of its list, equals one of ``elements``.

    None is equal to a missing or null field. ``name`` is the name of the field in error messages.
    """
    values = [_to_field_value(name, element) for element in elements if element is not None]
    conditions: list[Condition] = [] if len(values) == len(elements) else [Not(IsNotNull(field))]
    if isinstance(field, ColumnField):
        values = [value for value in values if _has_kind_of_column(value, field)]
    if values:
        conditions.append(Exists(IsOneOf(_to_elements_field(field), values)))
    return _join_any(conditions)


def _has_kind_of_column(value: FieldValue, column: ColumnField) -> bool:
    """True if a value has the kind (number or text) of the values in a column."""
    return isinstance(value, str) != (column.name in NUMBER_COLUMNS)


def _make_comparison(field: Field, operator: Operator, value: FieldValue) -> Condition:
    """Build the condition that ``operator`` holds between a field, or an element of its list, and a value.

    A value of the wrong type, such as text for a number, never satisfies it.
    """
    if isinstance(field, ColumnField) and not _has_kind_of_column(value, field):
        return _NEVER  # a number is never equal to text, and never before or after it
    # One element of a list suffices (Exists), and a number is not compared with text in the list (same_kind).
    return Exists(Compare(_to_elements_field(field), operator, value, same_kind=True))


def _parse_text_operation(field: Field, name: str, operator: str, value: Any) -> Condition:
    """Convert an operator on text (``$match``, ``$like``, ``$substring``, ``$isubstring``) to a condition on a field.

    ``$isubstring`` ignores case. ``name`` is the name of the field in error messages. Raises InputError if ``value`` is
    not text, is too long, or is an invalid full-text query.
    """
    if operator == "$match":
        if not isinstance(value, str) or not is_text(value):
            raise InputError(
                f"{name}: $match takes a full-text query such as '\"sick leave\" NOT draft', not {format_value(value)}"
            )
        query = parse_text_query(value)
        return _make_text_condition(field, lambda text_field: MatchesText(text_field, query))
    if not isinstance(value, str) or not is_text(value) or len(value) > MAX_PATTERN_CHARS:
        raise InputError(
            f"{name}: {operator} takes text of up to {MAX_PATTERN_CHARS:,} characters, not {format_value(value)}"
        )
    if operator == "$like":
        return _make_text_condition(field, lambda text_field: IsLike(text_field, value, same_kind=True))
    ignores_case = operator == "$isubstring"
    return _make_text_condition(field, lambda text_field: HasText(text_field, value, ignores_case))


def _make_text_condition(field: Field, make_condition: Callable[[Field], IsLike | HasText | MatchesText]) -> Condition:
    """Build the condition that a field, or an element of its list, satisfies ``make_condition(field)``.

    A column of numbers never satisfies it.
    """
    if isinstance(field, ColumnField) and field.name in NUMBER_COLUMNS:
        return _NEVER
    return Exists(make_condition(_to_elements_field(field)))


def _make_empty_condition(field: Field) -> Condition:
    """Build the condition that a field is missing or null, an empty text or an empty list."""
    alternatives: list[Condition] = [Not(IsNotNull(field))]
    if not (isinstance(field, ColumnField) and field.name in NUMBER_COLUMNS):
        alternatives.append(Exists(Compare(field, "=", "", same_kind=True)))
    if isinstance(field, MetaField):
        alternatives.append(IsEmptyList(field))
    return _join_any(alternatives)


def _to_elements_field(field: Field) -> Field:
    """Return a field of the metadata that also matches the elements of its list. A column is returned unchanged."""
    return MetaField(field.names, elements=True) if isinstance(field, MetaField) else field


def _to_field_value(name: str, value: Any) -> FieldValue:
    """Convert a value, which is not None, to the type that it has in stored metadata: a date, for example, to text.

    Raises InputError, with the ``name`` of the field, for a value that cannot be compared.
    """
    value = to_plain_value(value)
    if value is None:  # NaN, or a missing value of pandas
        raise InputError(f"{name}: NaN cannot be compared; {{'$exists': False}} finds documents without the field")
    if isinstance(value, str):
        if is_text(value):
            return value
        raise InputError(f"{name}: the value contains half of a surrogate pair, which is not valid text")
    if isinstance(value, float):
        return value
    if hasattr(value, "__index__"):
        integer = index(value)
        if integer in _INTEGERS:
            return integer
        raise InputError(f"{name}: the value is a whole number of more than 64 bits; pass it as text")
    raise InputError(
        f"{name} can be compared with text, numbers, True, False and None, not {format_value(value)}; $in takes a list"
    )


def _to_list(operator: str, operand: Any, noun: str) -> Sequence[Any]:
    """Return the operand of an operator, a sequence or set, as a list. Raises InputError for any other operand.

    The error asks for a list of ``noun``, such as "values".
    """
    if isinstance(operand, (str, bytes, Mapping)) or not isinstance(operand, (Sequence, set, frozenset)):
        raise InputError(f"{operator} takes a list of {noun}, not {format_value(operand)}")
    return list(operand)


def _join_all(conditions: Iterable[Condition]) -> Condition:
    """Return the conjunction of some conditions; without conditions, one that is always true."""
    conditions = list(conditions)
    if len(conditions) == 1:
        return conditions[0]
    return All(conditions) if conditions else _ALWAYS


def _join_any(conditions: Sequence[Condition]) -> Condition:
    """Return the disjunction of some conditions; without conditions, one that is never true.

    Equalities of the same field become one condition, as with ``$in``, because each is evaluated by itself otherwise.
    """
    if len(conditions) == 1:
        return conditions[0]
    values: dict[Field, list[FieldValue]] = {}
    joined_conditions: list[Condition] = []
    for condition in conditions:
        match condition:
            case Exists(Compare(field, "=", value)):
                values.setdefault(field, []).append(value)
            case _:
                joined_conditions.append(condition)
    joined_conditions += [Exists(IsOneOf(field, field_values)) for field, field_values in values.items()]
    if len(joined_conditions) == 1:
        return joined_conditions[0]
    return AnyOf(joined_conditions) if joined_conditions else _NEVER


def _format_suggestion(word: str, names: Iterable[str]) -> str:
    """Return a remedy for an unknown ``word``, such as " (did you mean ...?)", or "" if none of ``names`` is similar.

    The word and the names begin with ``$``.
    """
    if word in _FOREIGN_OPERATORS:
        return f" ({_FOREIGN_OPERATORS[word]})"
    # Without the common first character, only names that are similar themselves are suggested.
    suggestion = suggest(word[1:], (name[1:] for name in names), min_similarity=0.7)
    return f" (did you mean ${suggestion}?)" if suggestion else ""
