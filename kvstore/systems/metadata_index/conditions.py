"""Conditions over documents as a small algebra, apart from the text that says them.

A condition is true, false or unknown of a document, as in SQL (NULL compares as unknown). What makes conditions (SQL's
WHERE; a dictionary) builds these; :mod:`.evaluation` finds the documents. A part that the index does not tell is
:class:`Unsupported`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ...text.text_query import TextQuery

Operator = Literal["=", "<", "<=", ">", ">="]
FieldValue = str | int | float


@dataclass(frozen=True, slots=True)
class ColumnField:
    """A column of the table ``documents``."""

    name: str


@dataclass(frozen=True, slots=True)
class MetaField:
    """A field of the metadata, by the names that lead to it; ``elements`` stands for any element of it, where it is a
    list, and for itself, where it is a text or a number."""

    names: tuple[str, ...]
    elements: bool = False


Field = ColumnField | MetaField

#: The text of a document that is searched.
DOCUMENT_TEXT = ColumnField("content")


@dataclass(frozen=True, slots=True)
class Compare:
    """A field against a value, numbers before texts; unknown where the field is NULL.

    ``alike``: only a value of the same kind fulfils it, numbers with numbers and texts with texts.
    """

    field: Field
    operator: Operator
    value: FieldValue
    alike: bool = False


@dataclass(frozen=True, slots=True)
class Present:
    """A field is not NULL; never unknown."""

    field: Field


@dataclass(frozen=True, slots=True)
class IsLike:
    """A field's text is like a pattern: that of LIKE, any case of ASCII letters, or with ``glob`` that of GLOB without
    brackets; ``alike``: and the field is a text, no number."""

    field: Field
    pattern: str
    glob: bool = False
    alike: bool = False


@dataclass(frozen=True, slots=True)
class HasText:
    """A field is a text that has another in it; with ``any_case`` both are compared in lower case."""

    field: Field
    text: str
    any_case: bool = False


@dataclass(frozen=True, slots=True)
class MatchesText:
    """A field's text matches a full-text query; unknown where the field is NULL."""

    field: Field
    query: TextQuery


@dataclass(frozen=True, slots=True)
class EmptyList:
    """A field is a list without elements; never unknown."""

    field: Field


@dataclass(frozen=True, slots=True)
class Not:
    """True where a part is false."""

    part: Condition


@dataclass(frozen=True, slots=True)
class All:
    """True where every part is."""

    parts: Sequence[Condition]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """True where one part is."""

    parts: Sequence[Condition]


@dataclass(frozen=True, slots=True)
class Exists:
    """True where a part, of any element of its field if that is about elements, is; else false, never unknown."""

    part: Condition


@dataclass(frozen=True, slots=True)
class Unknown:
    """True and false of nothing: a comparison with NULL."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """Somebody else knows."""


Condition = (
    Compare | Present | IsLike | HasText | MatchesText | EmptyList | Not | All | AnyOf | Exists | Unknown | Unsupported
)


def is_supported(condition: Condition) -> bool:
    """Whether no part of a condition is untold."""
    match condition:
        case Unsupported():
            return False
        case Not(part) | Exists(part):
            return is_supported(part)
        case All(parts) | AnyOf(parts):
            return all(map(is_supported, parts))
    return True


def has_text_search(condition: Condition) -> bool:
    """Whether a part of a condition is about the words of the documents' texts."""
    match condition:
        case MatchesText(field):
            return field == DOCUMENT_TEXT
        case Not(part) | Exists(part):
            return has_text_search(part)
        case All(parts) | AnyOf(parts):
            return any(map(has_text_search, parts))
    return False


def build_in_condition(field: Field, values: Sequence[FieldValue | None]) -> Condition:
    """A field equals one of some values (IN)."""
    return AnyOf([Unknown() if value is None else Compare(field, "=", value) for value in values])
