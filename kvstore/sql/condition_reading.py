"""What a SQL condition over documents says, as far as the index of their values tells it.

In: the text of a condition and its parameters. Out: a condition of
:mod:`kvstore.systems.metadata_index.conditions`, in which everything that is not one of the forms below is ``Untold``:
AND, OR, NOT and parentheses; ``=  ==  <>  !=  <  <=  >  >=``, ``IS [NOT]``, ``IN (values)``, ``BETWEEN``, ``LIKE``,
``GLOB``, ``MATCH``, ``IS NULL`` of a column or a field (``meta ->> 'name'``, ``meta -> 'a' ->> 'b'``,
``json_extract(meta, '$.a.b')``) and a value; ``EXISTS (SELECT 1 FROM json_each(meta, '$.a') WHERE value = 'x')`` and
``'x' IN (SELECT value FROM json_each(meta, '$.a'))``. Nothing but a
full-text query is refused: what else is wrong SQLite says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InputError
from ..systems.metadata_index.conditions import (
    All,
    AnyOf,
    ColumnField,
    Compare,
    Condition,
    Exists,
    Field,
    FieldValue,
    IsLike,
    MatchesText,
    MetaField,
    Not,
    Operator,
    Present,
    Unknown,
    Untold,
    one_of,
)
from ..systems.sql_table import Parameters
from ..text.text_query import parse_text_query
from .condition import ConditionError
from .document_tables import DOCUMENTS
from .tokens import Token, split, unquote

_COMPARISONS: Mapping[str, tuple[Operator, bool]] = {
    "=": ("=", True), "==": ("=", True), "<>": ("=", False), "!=": ("=", False),
    "<": ("<", True), "<=": ("<=", True), ">": (">", True), ">=": (">=", True),
}  # fmt: skip
#: What a comparison becomes when its sides change places.
_SWAPPED_OPERATORS: Mapping[str, str] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_COLUMNS = frozenset(DOCUMENTS.every_column) - {"meta"}
#: Words with which AND may belong to an expression and not to the condition.
_AMBIGUOUS_WORDS = frozenset({"BETWEEN", "CASE"})
_STEP = re.compile(r'\.(?:([\w-]+)|"([^"\\]+)")')
_PATH = re.compile(r'\$(\.[^.\["]+|\."[^"]*"|\[(#(-\d+)?|\d+)\])*')
_NULL = object()
_DEEPEST = 50


class _UnsupportedForm(Exception):
    """Not one of the forms that are read."""


class _InvalidPath(Exception):
    """What SQLite refuses when it meets the first document."""


def condition_of(text: str, parameters: Parameters = ()) -> Condition:
    """The condition that a text says, ``Untold`` where it is in no form that is read."""
    scripts = list(split(text))
    if len(scripts) != 1:
        return Untold()
    try:
        parser = _ConditionParser(text, scripts[0], parameters)
        found = parser.condition()
        parser.end()
    except (_UnsupportedForm, _InvalidPath):
        return Untold()
    return found


class _ConditionParser:
    """One condition, token by token."""

    def __init__(self, text: str, script: Sequence[Token], parameters: Parameters) -> None:
        self._source = text
        self._script = script
        self._place = 0
        self._depth = 0
        self._values = _ParameterValues(script, parameters)

    def end(self) -> None:
        if self._place < len(self._script):
            raise _UnsupportedForm
        self._values.check_used()

    def condition(self) -> Condition:
        """Parts joined by OR."""
        self._depth += 1
        try:
            if self._depth > _DEEPEST:
                raise _UnsupportedForm
            parts = [self._parse_conjunction()]
            while self._take("OR"):
                parts.append(self._parse_conjunction())
        finally:
            self._depth -= 1
        return parts[0] if len(parts) == 1 else AnyOf(parts)

    def _parse_conjunction(self) -> Condition:
        parts = [self._parse_negation()]
        while self._take("AND"):
            parts.append(self._parse_negation())
        return parts[0] if len(parts) == 1 else All(parts)

    def _parse_negation(self) -> Condition:
        if self._is("NOT") and not self._is("EXISTS", 1):
            self._place += 1
            return Not(self._parse_negation())
        start = self._place
        try:
            condition = self._part()
            if not self._ends():
                raise _UnsupportedForm
        except _UnsupportedForm:
            self._place = start
            self._pass_over()
            return Untold()
        return condition

    def _ends(self) -> bool:
        return self._place == len(self._script) or self._is("AND") or self._is("OR") or self._is(")")

    def _pass_over(self) -> None:
        """Go to the end of what is not read: the next AND or OR outside of its parentheses, or what closes ours."""
        nesting = 0
        start = self._place
        while self._place < len(self._script):
            word = self._word()
            if word in ("(", ")"):
                nesting += 1 if word == "(" else -1
                if nesting < 0:
                    break
            elif nesting == 0 and word in ("AND", "OR"):
                break
            elif nesting == 0 and word in _AMBIGUOUS_WORDS:
                raise _UnsupportedForm  # its AND is none of ours
            self._place += 1
        if self._place == start:
            raise _UnsupportedForm

    def _part(self) -> Condition:
        if self._is("(") and not self._is("SELECT", 1):
            start = self._place
            self._place += 1
            found = self.condition()
            self._expect(")")
            if self._ends():
                return found
            self._place = start
        negated = self._is("NOT")
        if self._is("EXISTS", int(negated)):
            self._place += 1 + negated
            found = self._parse_exists()
            return Not(found) if negated else found
        if self._is_value():
            return self._turned()
        return self._of_field(self._parse_field())

    # Fields ----------------------------------------------------------------------------------------------------------

    def _parse_field(self) -> Field:
        if self._take("("):
            field = self._parse_field()
            self._expect(")")
            return field
        name = self._name()
        if name == "documents" and self._take("."):
            name = self._name()
        if name == "json_extract" and self._is("("):
            self._place += 1
            if self._name() != "meta":
                raise _UnsupportedForm
            self._expect(",")
            names = _path(self._text())
            self._expect(")")
            return MetaField(names)
        if name == "meta":
            return MetaField(tuple(self._names()))
        if name not in _COLUMNS:
            raise _UnsupportedForm
        return ColumnField(name)

    def _names(self) -> list[str]:
        """What follows ``meta``: -> to a field within which the next is, ->> to the last."""
        names: list[str] = []
        while self._take("->"):
            names += _label(self._text())
        self._expect("->>")
        names += _label(self._text())
        return names

    def _of_field(self, field: Field) -> Condition:
        operator_word = self._word()
        if operator_word in _COMPARISONS:
            self._place += 1
            operator, holds = _COMPARISONS[operator_word]
            return _compared(field, operator, self._value(), holds=holds)
        if self._take("ISNULL"):
            return Not(Present(field))
        if self._take("NOTNULL"):
            return Present(field)
        if self._take("IS"):
            negated = self._take("NOT")
            if self._is("DISTINCT"):
                raise _UnsupportedForm
            return _negate_if(self._identity(field), negated)
        negated = self._take("NOT")
        if negated and self._take("NULL"):
            return Present(field)
        return _negate_if(self._predicate(field), negated)

    def _identity(self, field: Field) -> Condition:
        if self._is("TRUE") or self._is("FALSE"):
            raise _UnsupportedForm  # whether something is true is another question
        value = self._value()
        if value is _NULL:
            return Not(Present(field))
        return All([Present(field), _compared(field, "=", value)])

    def _predicate(self, field: Field) -> Condition:
        if self._take("IN"):
            self._expect("(")
            values = [self._value()]
            while self._take(","):
                values.append(self._value())
            self._expect(")")
            return one_of(field, [None if value is _NULL else value for value in values])
        if self._take("BETWEEN"):
            low = self._value()
            self._expect("AND")
            return All([_compared(field, ">=", low), _compared(field, "<=", self._value())])
        if self._is("LIKE") or self._is("GLOB"):
            glob = self._is("GLOB")
            self._place += 1
            pattern = self._value()
            if not isinstance(pattern, str):
                raise _UnsupportedForm
            return IsLike(field, pattern, glob)
        if self._take("MATCH"):
            return self._parse_full_text(field)
        raise _UnsupportedForm

    def _parse_full_text(self, field: Field) -> Condition:
        """What has to match a query; one that is wrong is refused, whether or not a document is left for SQLite."""
        offset = self._script[self._place].start if self._place < len(self._script) else 0
        query = self._value()
        if not isinstance(query, str):
            raise _UnsupportedForm
        try:
            return MatchesText(field, parse_text_query(query))
        except InputError as error:
            raise ConditionError(self._source, offset, str(error)) from error

    # Values first ----------------------------------------------------------------------------------------------------

    def _turned(self) -> Condition:
        """A value, and what it is compared with."""
        value = self._value()
        operator_word = self._word()
        if operator_word in _COMPARISONS:
            self._place += 1
            operator, holds = _COMPARISONS[operator_word]
            return _compared(self._parse_field(), _SWAPPED_OPERATORS.get(operator, operator), value, holds=holds)  # type: ignore[arg-type]
        negated = self._take("NOT")
        self._expect("IN")
        self._expect("(")
        self._expect("SELECT")
        self._expect("VALUE")
        field = self._elements()
        self._expect(")")
        return _negate_if(_compared(field, "=", value), negated)

    def _parse_exists(self) -> Condition:
        self._expect("(")
        self._expect("SELECT")
        if not (self._take("*") or self._take("1") or self._take("VALUE")):
            raise _UnsupportedForm
        field = self._elements()
        self._expect("WHERE")
        if self._take("JSON_EACH"):
            self._expect(".")
        self._expect("VALUE")
        if self._word() not in _COMPARISONS and not self._is("IN"):
            raise _UnsupportedForm
        condition = self._of_field(field)
        self._expect(")")
        if isinstance(condition, (Compare, AnyOf)):
            return Exists(condition)
        raise _UnsupportedForm

    def _elements(self) -> MetaField:
        self._expect("FROM")
        self._expect("JSON_EACH")
        self._expect("(")
        if self._name() != "meta":
            raise _UnsupportedForm
        if self._take("->"):
            names = _label(self._text())
        else:
            self._expect(",")
            names = _path(self._text())
        self._expect(")")
        return MetaField(tuple(names), elements=True)

    # Tokens ----------------------------------------------------------------------------------------------------------

    def _word(self, ahead: int = 0) -> str:
        position = self._place + ahead
        if position >= len(self._script):
            return ""
        token = self._script[position]
        return token.text.upper() if token.kind in ("word", "operator", "number") else ""

    def _is(self, word: str, ahead: int = 0) -> bool:
        return self._word(ahead) == word

    def _take(self, word: str) -> bool:
        if self._is(word):
            self._place += 1
            return True
        return False

    def _expect(self, word: str) -> None:
        if not self._take(word):
            raise _UnsupportedForm

    def _next(self) -> Token:
        if self._place >= len(self._script):
            raise _UnsupportedForm
        self._place += 1
        return self._script[self._place - 1]

    def _name(self) -> str:
        token = self._next()
        if token.kind == "word":
            return token.text.lower()
        if token.kind == "quoted" and token.text[0] == '"':
            return unquote(token.text).lower()
        raise _UnsupportedForm

    def _text(self) -> str:
        token = self._next()
        value = self._values.of(token) if token.kind == "parameter" else unquote(token.text)
        if token.kind not in ("string", "parameter") or not isinstance(value, str):
            raise _UnsupportedForm
        return value

    def _is_value(self) -> bool:
        if self._place >= len(self._script):
            return False
        token = self._script[self._place]
        return token.kind in ("string", "number", "parameter") or token.text == "-"

    def _value(self) -> Any:
        """A literal or a parameter; ``_NULL`` for NULL."""
        token = self._next()
        negative = token.text == "-" and token.kind == "operator"
        if negative:
            token = self._next()
            if token.kind != "number":
                raise _UnsupportedForm
        match token.kind:
            case "number":
                return _number(("-" if negative else "") + token.text)
            case "string":
                text = unquote(token.text)
                if "\0" in text:
                    raise _UnsupportedForm
                return text
            case "parameter":
                return self._values.of(token)
            case "word":
                words = {"NULL": _NULL, "TRUE": 1, "FALSE": 0}
                if token.text.upper() in words:
                    return words[token.text.upper()]
        raise _UnsupportedForm


class _ParameterValues:
    """The parameters of a condition by their tokens, numbered as SQLite does."""

    def __init__(self, script: Sequence[Token], parameters: Parameters) -> None:
        self._values_by_offset: dict[int, object] = {}
        is_named = isinstance(parameters, Mapping)
        values: Mapping[Any, object] = parameters if isinstance(parameters, Mapping) else dict(enumerate(parameters, 1))
        max_number = 0
        for token in script:
            if token.kind != "parameter":
                continue
            if token.text[0] == "?":
                number = int(token.text[1:] or max_number + 1)
                max_number = max(max_number, number)
                if is_named or number not in values:
                    raise _UnsupportedForm
                self._values_by_offset[token.start] = values[number]
            elif is_named and token.text[1:] in values:
                self._values_by_offset[token.start] = values[token.text[1:]]
            else:
                raise _UnsupportedForm
        self._complete = is_named or max_number == len(parameters)

    def of(self, token: Token) -> Any:
        value = self._values_by_offset[token.start]
        if value is None:
            return _NULL
        if isinstance(value, bool):
            return int(value)
        if type(value) is int and -(1 << 63) <= value < 1 << 63:
            return value
        if type(value) is float:
            return _NULL if value != value else value
        if type(value) is str and _is_text(value):
            return value
        raise _UnsupportedForm

    def check_used(self) -> None:
        """Values that are too many are for SQLite to refuse."""
        if not self._complete:
            raise _UnsupportedForm


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _number(text: str) -> float:
    try:
        integer = int(text)
    except ValueError:
        return float(text)
    return integer if -(1 << 63) <= integer < 1 << 63 else float(text)


def _label(text: str) -> tuple[str, ...]:
    """The names that the right side of -> or ->> says: one, or with ``$`` a path."""
    if text.startswith("$"):
        return _path(text)
    if not text or text.startswith("["):
        raise _UnsupportedForm
    return (text,)


def _path(text: str) -> tuple[str, ...]:
    """The names of a path such as ``$.a."b c"``."""
    if not _PATH.fullmatch(text):
        raise _InvalidPath
    names: list[str] = []
    position = 1
    while position < len(text):
        step = _STEP.match(text, position)
        if step is None:
            raise _UnsupportedForm
        names.append(step[1] or step[2])
        position = step.end()
    if not names:
        raise _UnsupportedForm
    return tuple(names)


def _compared(field: Field, operator: Operator, value: FieldValue | object, *, holds: bool = True) -> Condition:
    if value is _NULL:
        return Unknown()
    comparison = Compare(field, operator, value)  # type: ignore[arg-type]
    return comparison if holds else Not(comparison)


def _negate_if(condition: Condition, negated: bool) -> Condition:
    return Not(condition) if negated else condition
