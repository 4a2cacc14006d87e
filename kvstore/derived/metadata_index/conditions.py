"""Conditions over documents as a small algebra, independent of the text that expresses them.

A condition is true, false or unknown for a document, as in SQL (NULL compares as unknown). SQL's WHERE and dictionaries
are both converted to these classes; :mod:`.evaluation` finds the documents. An operand that the index cannot evaluate
is :class:`Unsupported`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import eq, ge, gt, le, lt
from typing import Any, Literal

from ...text.text_query import TextQuery

Operator = Literal["=", "<", "<=", ">", ">="]
#: The functions of the operators, for two values of the same kind.
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {"=": eq, "<": lt, "<=": le, ">": gt, ">=": ge}
FieldValue = str | int | float


@dataclass(frozen=True, slots=True)
class ColumnField:
    """A column of the ``documents`` table."""

    name: str


@dataclass(frozen=True, slots=True)
class MetaField:
    """A field of the metadata, by its path of names.

    With ``elements`` it denotes any element of a list, or the value itself if it is a text or a number.
    """

    names: tuple[str, ...]
    elements: bool = False


Field = ColumnField | MetaField

#: The searched text of a document.
DOCUMENT_TEXT = ColumnField("content")


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison of a field with a value. Numbers are less than texts. It is unknown if the field is NULL.

    With ``same_kind``, a number is only compared with numbers, and a text only with texts.
    """

    field: Field
    operator: Operator
    value: FieldValue
    same_kind: bool = False


@dataclass(frozen=True, slots=True)
class IsOneOf:
    """The condition that a field equals one of some values of the same kind (number or text).

    It is unknown if the field is NULL.
    """

    field: Field
    values: Sequence[FieldValue]


@dataclass(frozen=True, slots=True)
class IsNotNull:
    """The condition that a field is not NULL. It is never unknown."""

    field: Field


@dataclass(frozen=True, slots=True)
class IsLike:
    """The condition that a field's text matches a pattern.

    The pattern is one of LIKE, which ignores the case of ASCII letters, or with ``glob`` one of GLOB without brackets.
    With ``same_kind``, the field must be a text, not a number.
    """

    field: Field
    pattern: str
    glob: bool = False
    same_kind: bool = False


@dataclass(frozen=True, slots=True)
class HasText:
    """The condition that a field is a text that contains ``text``. ``ignores_case`` compares both in lower case."""

    field: Field
    text: str
    ignores_case: bool = False


@dataclass(frozen=True, slots=True)
class MatchesText:
    """The condition that a field's text matches a full-text query. It is unknown if the field is NULL."""

    field: Field
    query: TextQuery


@dataclass(frozen=True, slots=True)
class IsEmptyList:
    """The condition that a field is an empty list. It is never unknown."""

    field: Field


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of the condition ``operand``."""

    operand: Condition


@dataclass(frozen=True, slots=True)
class All:
    """The conjunction (AND) of the conditions ``operands``."""

    operands: Sequence[Condition]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """The disjunction (OR) of the conditions ``operands``."""

    operands: Sequence[Condition]


@dataclass(frozen=True, slots=True)
class Exists:
    """The condition that the condition ``operand`` is true. It is false, not unknown, if ``operand`` is unknown.

    If the field of the operand denotes list elements, the operand must be true for at least one of them.
    """

    operand: Condition


@dataclass(frozen=True, slots=True)
class Unknown:
    """A condition that is neither true nor false for any document: a comparison with NULL."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A condition that the index cannot evaluate."""


Condition = (
    Compare
    | IsOneOf
    | IsNotNull
    | IsLike
    | HasText
    | MatchesText
    | IsEmptyList
    | Not
    | All
    | AnyOf
    | Exists
    | Unknown
    | Unsupported
)


def is_supported(condition: Condition) -> bool:
    """True if the index can evaluate a condition and all conditions inside it."""
    match condition:
        case Unsupported():
            return False
        case Not(operand) | Exists(operand):
            return is_supported(operand)
        case All(operands) | AnyOf(operands):
            return all(map(is_supported, operands))
    return True


def has_text_search(condition: Condition) -> bool:
    """True if a condition is or contains a full-text query on the documents' texts."""
    match condition:
        case MatchesText(field):
            return field == DOCUMENT_TEXT
        case Not(operand) | Exists(operand):
            return has_text_search(operand)
        case All(operands) | AnyOf(operands):
            return any(map(has_text_search, operands))
    return False
