"""The parser of SQL conditions on documents for the metadata index; SQLite evaluates the forms it does not support.
A *field* is a column or a field of the metadata. ``Unsupported`` is a condition for SQLite; UnsupportedForm is raised
inside the parser.

In: the text of a condition and its parameters. Out: a condition of :mod:`kvstore.derived.metadata_index.conditions`, in
which every part that does not have one of these forms is ``Unsupported``:

- AND, OR, NOT and parentheses
- ``=  ==  <>  !=  <  <=  >  >=``, ``IS [NOT]``, ``IN (values)``, ``BETWEEN``, ``LIKE``, ``GLOB``, ``MATCH``, ``IS
  NULL`` of a value and a column or a field (``meta ->> 'name'``, ``meta -> 'a' ->> 'b'``, ``json_extract(meta,
  '$.a.b')``)
- ``EXISTS (SELECT 1 FROM json_each(meta, '$.a') WHERE value = 'x')`` and ``'x' IN (SELECT value FROM json_each(meta,
  '$.a'))``

Only an invalid full-text query is rejected here. SQLite reports all other errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..derived.metadata_index.conditions import (
    All,
    AnyOf,
    ColumnField,
    Compare,
    Condition,
    Exists,
    Field,
    FieldValue,
    IsLike,
    IsNotNull,
    IsOneOf,
    MatchesText,
    MetaField,
    Not,
    Operator,
    Unknown,
    Unsupported,
)
from ..errors import InputError
from ..registry.sql_table import Parameters
from ..text.text_query import parse_text_query
from .condition import ConditionError
from .condition_values import (
    NULL,
    InvalidPath,
    ParameterValues,
    UnsupportedForm,
    parse_json_key,
    parse_number,
    parse_path,
)
from .document_tables import DOCUMENTS
from .tokens import Token, split_statements, unquote

#: For each operator of SQL the comparison, and True if it is negated.
_COMPARISONS: Mapping[str, tuple[Operator, bool]] = {
    "=": ("=", False), "==": ("=", False), "<>": ("=", True), "!=": ("=", True),
    "<": ("<", False), "<=": ("<=", False), ">": (">", False), ">=": (">=", False),
}  # fmt: skip
#: The operator that keeps the meaning when the two sides of a comparison are exchanged.
_SWAPPED_OPERATORS: Mapping[Operator, Operator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_COLUMNS = frozenset(DOCUMENTS.all_columns) - {"meta"}
#: Words after which AND can belong to an expression and not to the condition.
_AMBIGUOUS_WORDS = frozenset({"BETWEEN", "CASE"})
#: The maximum depth of nested parentheses, and number of NOT in a row, so that parsing cannot exhaust the stack.
_MAX_DEPTH = 50


def parse_sql_condition(text: str, parameters: Parameters = ()) -> Condition:
    """Parse an SQL condition on documents for evaluation by an index.

    ``parameters`` are the values of ``?`` (a sequence) or of names (a mapping). Returns ``Unsupported`` if the form of
    the condition is not supported, so that SQLite must evaluate it. Raises ConditionError for an invalid full-text
    query.
    """
    statements = list(split_statements(text))
    if len(statements) != 1:
        return Unsupported()
    try:
        parser = _ConditionParser(text, statements[0], parameters)
        condition = parser.parse_condition()
        parser.expect_end()
    except (UnsupportedForm, InvalidPath):
        return Unsupported()
    return condition


class _ConditionParser:
    """A recursive-descent parser of one condition, which reads its tokens from ``_position`` on."""

    def __init__(self, text: str, tokens: Sequence[Token], parameters: Parameters) -> None:
        """Prepare to parse ``text``, an SQL condition, from its ``tokens``, with the values of its parameters."""
        self._source = text
        self._tokens = tokens
        self._position = 0
        self._depth = 0
        self._values = ParameterValues(tokens, parameters)

    def expect_end(self) -> None:
        """Raise UnsupportedForm if tokens or parameter values remain after the condition; SQLite reports the error."""
        if self._position < len(self._tokens) or self._values.has_unused:
            raise UnsupportedForm

    def parse_condition(self) -> Condition:
        """Parse conditions joined by OR. Raises UnsupportedForm if they are nested too deeply."""
        self._depth += 1
        try:
            if self._depth > _MAX_DEPTH:
                raise UnsupportedForm
            alternatives = [self._parse_conjunction()]
            while self._accept("OR"):
                alternatives.append(self._parse_conjunction())
        finally:
            self._depth -= 1
        return alternatives[0] if len(alternatives) == 1 else AnyOf(alternatives)

    def _parse_conjunction(self) -> Condition:
        """Parse conditions joined by AND."""
        conditions = [self._parse_negation()]
        while self._accept("AND"):
            conditions.append(self._parse_negation())
        return conditions[0] if len(conditions) == 1 else All(conditions)

    def _parse_negation(self) -> Condition:
        """Parse a condition without AND and OR, after any number of NOT. Raises UnsupportedForm for too many NOT."""
        num_negations = 0
        # NOT EXISTS is parsed as one form.
        while self._is_word("NOT") and not self._is_word("EXISTS", 1):
            self._position += 1
            num_negations += 1
        if num_negations > _MAX_DEPTH:
            raise UnsupportedForm
        condition = self._parse_operand()
        for _ in range(num_negations):
            condition = Not(condition)
        return condition

    def _parse_operand(self) -> Condition:
        """Parse a condition without AND, OR and NOT.

        A form that only SQLite can evaluate is skipped and returned as Unsupported. Raises UnsupportedForm if it is
        unclear where that form ends.
        """
        start = self._position
        try:
            condition = self._parse_simple_condition()
            if not self._is_at_end():
                raise UnsupportedForm
        except UnsupportedForm:
            self._position = start
            self._skip_unsupported()
            return Unsupported()
        return condition

    def _is_at_end(self) -> bool:
        """True at the end of a simple condition: at the end of the text, or before AND, OR or ``)``."""
        return self._position == len(self._tokens) or self._get_word() in ("AND", "OR", ")")

    def _skip_unsupported(self) -> None:
        """Move past an unsupported condition: to the AND, OR or closing parenthesis after it, or to the end.

        Raises UnsupportedForm if there are no tokens to skip, or if it is unclear where the condition ends.
        """
        nesting = 0
        start = self._position
        while self._position < len(self._tokens):
            word = self._get_word()
            if word in ("(", ")"):
                nesting += 1 if word == "(" else -1
                if nesting < 0:
                    break
            elif nesting == 0 and word in ("AND", "OR"):
                break
            elif nesting == 0 and word in _AMBIGUOUS_WORDS:
                raise UnsupportedForm  # the next AND may belong to an expression instead of joining conditions
            self._position += 1
        if self._position == start:
            raise UnsupportedForm

    def _parse_simple_condition(self) -> Condition:
        """Parse a condition in parentheses, an EXISTS, or a comparison. Raises UnsupportedForm for other forms."""
        if self._is_word("(") and not self._is_word("SELECT", 1):
            start = self._position
            self._position += 1
            condition = self.parse_condition()
            self._expect(")")
            if self._is_at_end():
                return condition
            self._position = start  # the parentheses enclose only the left operand
        if self._is_word("NOT") and self._is_word("EXISTS", 1):
            self._position += 2
            return Not(self._parse_exists())
        if self._accept("EXISTS"):
            return self._parse_exists()
        if self._is_at_value():
            return self._parse_reversed_condition()
        return self._parse_field_condition(self._parse_field())

    # Fields ----------------------------------------------------------------------------------------------------------

    def _parse_field(self) -> Field:
        """Parse a column, or a field of the metadata such as ``meta ->> 'year'`` or ``json_extract(meta, '$.year')``.

        Raises UnsupportedForm for other expressions.
        """
        if self._accept("("):
            field = self._parse_field()
            self._expect(")")
            return field
        name = self._parse_name()
        if name == "documents" and self._accept("."):
            name = self._parse_name()
        if name == "json_extract" and self._is_word("("):
            self._position += 1
            if self._parse_name() != "meta":
                raise UnsupportedForm
            self._expect(",")
            names = parse_path(self._parse_text())
            self._expect(")")
            return MetaField(names)
        if name == "meta":
            return MetaField(tuple(self._parse_arrows()))
        if name not in _COLUMNS:
            raise UnsupportedForm
        return ColumnField(name)

    def _parse_arrows(self) -> list[str]:
        """Parse the operators after ``meta`` and return the names of the fields that they read, outermost first.

        For example, ``-> 'a' ->> 'b'`` returns ``["a", "b"]``.
        """
        names: list[str] = []
        while self._accept("->"):
            names += parse_json_key(self._parse_text())
        self._expect("->>")
        names += parse_json_key(self._parse_text())
        return names

    def _parse_field_condition(self, field: Field) -> Condition:
        """Parse the operator and the value after ``field``, such as ``= 2024``, and return the condition on the field.

        Raises UnsupportedForm for an operator or a value that the index cannot evaluate.
        """
        operator_word = self._get_word()
        if operator_word in _COMPARISONS:
            self._position += 1
            operator, is_negated = _COMPARISONS[operator_word]
            return _make_comparison(field, operator, self._parse_value(), is_negated=is_negated)
        if self._accept("ISNULL"):
            return Not(IsNotNull(field))
        if self._accept("NOTNULL"):
            return IsNotNull(field)
        if self._accept("IS"):
            is_negated = self._accept("NOT")
            if self._is_word("DISTINCT"):
                raise UnsupportedForm
            return _apply_negation(self._parse_identity(field), is_negated)
        is_negated = self._accept("NOT")
        if is_negated and self._accept("NULL"):
            return IsNotNull(field)
        return _apply_negation(self._parse_predicate(field), is_negated)

    def _parse_identity(self, field: Field) -> Condition:
        """Parse the operand of ``field IS`` and return the condition, which is never unknown (NULL).

        The caller negates the condition for IS NOT. Raises UnsupportedForm for IS TRUE and IS FALSE.
        """
        if self._is_word("TRUE") or self._is_word("FALSE"):
            raise UnsupportedForm  # IS TRUE tests the truth of a value, not equality
        value = self._parse_value()
        if value is NULL:
            return Not(IsNotNull(field))
        return All([IsNotNull(field), _make_comparison(field, "=", value)])

    def _parse_predicate(self, field: Field) -> Condition:
        """Parse IN, BETWEEN, LIKE, GLOB or MATCH after a field. Raises UnsupportedForm for another operator."""
        if self._accept("IN"):
            self._expect("(")
            values = [self._parse_value()]
            while self._accept(","):
                values.append(self._parse_value())
            self._expect(")")
            known_values = [value for value in values if value is not NULL]
            alternatives: list[Condition] = [IsOneOf(field, known_values)] if known_values else []
            # A comparison with NULL is unknown.
            return AnyOf(alternatives if len(known_values) == len(values) else [*alternatives, Unknown()])
        if self._accept("BETWEEN"):
            lower_bound = self._parse_value()
            self._expect("AND")
            return All([_make_comparison(field, ">=", lower_bound), _make_comparison(field, "<=", self._parse_value())])
        if self._is_word("LIKE") or self._is_word("GLOB"):
            is_glob = self._is_word("GLOB")
            self._position += 1
            pattern = self._parse_value()
            if not isinstance(pattern, str):
                raise UnsupportedForm
            return IsLike(field, pattern, is_glob)
        if self._accept("MATCH"):
            return self._parse_full_text(field)
        raise UnsupportedForm

    def _parse_full_text(self, field: Field) -> Condition:
        """Parse the full-text query after ``field MATCH``, and return the condition.

        Raises ConditionError for an invalid query, which SQLite reports only if it checks a document. Raises
        UnsupportedForm if the query is not a string.
        """
        offset = self._tokens[self._position].start if self._position < len(self._tokens) else 0
        query = self._parse_value()
        if not isinstance(query, str):
            raise UnsupportedForm
        try:
            return MatchesText(field, parse_text_query(query))
        except InputError as error:
            raise ConditionError(self._source, offset, str(error)) from error

    # Values first ----------------------------------------------------------------------------------------------------

    def _parse_reversed_condition(self) -> Condition:
        """Parse a condition that begins with a value: ``2024 = year``, or ``1 IN (SELECT value FROM json_each(…))``.

        Raises UnsupportedForm for other forms.
        """
        value = self._parse_value()
        operator_word = self._get_word()
        if operator_word in _COMPARISONS:
            self._position += 1
            operator, is_negated = _COMPARISONS[operator_word]
            swapped_operator = _SWAPPED_OPERATORS.get(operator, operator)
            return _make_comparison(self._parse_field(), swapped_operator, value, is_negated=is_negated)
        is_negated = self._accept("NOT")
        self._expect("IN")
        self._expect("(")
        self._expect("SELECT")
        self._expect("VALUE")
        field = self._parse_elements()
        self._expect(")")
        return _apply_negation(_make_comparison(field, "=", value), is_negated)

    def _parse_exists(self) -> Condition:
        """Parse the query after EXISTS, such as ``(SELECT 1 FROM json_each(meta, '$.a') WHERE value = 'x')``.

        Return the condition that an element of that list satisfies its WHERE. Raises UnsupportedForm for other queries.
        """
        self._expect("(")
        self._expect("SELECT")
        if not (self._accept("*") or self._accept("1") or self._accept("VALUE")):
            raise UnsupportedForm
        field = self._parse_elements()
        self._expect("WHERE")
        if self._accept("JSON_EACH"):
            self._expect(".")
        self._expect("VALUE")
        if self._get_word() not in _COMPARISONS and not self._is_word("IN"):
            raise UnsupportedForm
        condition = self._parse_field_condition(field)
        self._expect(")")
        if isinstance(condition, (Compare, AnyOf)):
            return Exists(condition)
        raise UnsupportedForm

    def _parse_elements(self) -> MetaField:
        """Parse ``FROM json_each(meta, '$.a')``, and return the field whose values are the elements of that list.

        Raises UnsupportedForm for another table.
        """
        self._expect("FROM")
        self._expect("JSON_EACH")
        self._expect("(")
        if self._parse_name() != "meta":
            raise UnsupportedForm
        if self._accept("->"):
            names = parse_json_key(self._parse_text())
        else:
            self._expect(",")
            names = parse_path(self._parse_text())
        self._expect(")")
        return MetaField(tuple(names), elements=True)

    # Tokens ----------------------------------------------------------------------------------------------------------

    def _get_word(self, ahead: int = 0) -> str:
        """Return the word, operator or number ``ahead`` tokens after the next one, in capitals; "" for other tokens."""
        position = self._position + ahead
        if position >= len(self._tokens):
            return ""
        token = self._tokens[position]
        return token.text.upper() if token.kind in ("word", "operator", "number") else ""

    def _is_word(self, word: str, ahead: int = 0) -> bool:
        """True if the token that is ``ahead`` tokens after the next token is this word, operator or number."""
        return self._get_word(ahead) == word

    def _accept(self, word: str) -> bool:
        """Consume the next token if it is ``word``; return True if it was."""
        if self._is_word(word):
            self._position += 1
            return True
        return False

    def _expect(self, word: str) -> None:
        """Consume the next token; raise UnsupportedForm if it is not ``word``."""
        if not self._accept(word):
            raise UnsupportedForm

    def _read_token(self) -> Token:
        """Consume and return the next token; raise UnsupportedForm if there is no more."""
        if self._position >= len(self._tokens):
            raise UnsupportedForm
        self._position += 1
        return self._tokens[self._position - 1]

    def _parse_name(self) -> str:
        """Parse an identifier, plain or in double quotes, and return it in lower case; else raise UnsupportedForm."""
        token = self._read_token()
        if token.kind == "word":
            return token.text.lower()
        if token.kind == "quoted" and token.text[0] == '"':
            return unquote(token.text).lower()
        raise UnsupportedForm

    def _parse_text(self) -> str:
        """Parse a string literal, or a parameter with a string, and return the string; else raise UnsupportedForm."""
        token = self._read_token()
        if token.kind == "string":
            return unquote(token.text)
        value = self._values.get_value(token) if token.kind == "parameter" else None
        if not isinstance(value, str):
            raise UnsupportedForm
        return value

    def _is_at_value(self) -> bool:
        """True if the next token begins a literal or is a parameter."""
        if self._position >= len(self._tokens):
            return False
        token = self._tokens[self._position]
        return token.kind in ("string", "number", "parameter") or token.text == "-"

    def _parse_value(self) -> Any:
        """Parse a literal or a parameter, and return its value; NULL is the object :data:`NULL`.

        Raises UnsupportedForm for any other expression.
        """
        token = self._read_token()
        is_negative = token.text == "-" and token.kind == "operator"
        if is_negative:
            token = self._read_token()
            if token.kind != "number":
                raise UnsupportedForm
        match token.kind:
            case "number":
                return parse_number(("-" if is_negative else "") + token.text)
            case "string":
                text = unquote(token.text)
                if "\0" in text:
                    raise UnsupportedForm  # SQLite ends the condition there
                return text
            case "parameter":
                return self._values.get_value(token)
            case "word":
                words = {"NULL": NULL, "TRUE": 1, "FALSE": 0}
                if token.text.upper() in words:
                    return words[token.text.upper()]
        raise UnsupportedForm


def _make_comparison(
    field: Field, operator: Operator, value: FieldValue | object, *, is_negated: bool = False
) -> Condition:
    """Return the condition that compares a field with a value by ``operator`` or, if ``is_negated``, its negation.

    A comparison with NULL is Unknown, negated or not.
    """
    if value is NULL:
        return Unknown()
    return _apply_negation(Compare(field, operator, value), is_negated)  # type: ignore[arg-type]


def _apply_negation(condition: Condition, is_negated: bool) -> Condition:
    """Return the negation of a condition if ``is_negated``, else the condition."""
    return Not(condition) if is_negated else condition
