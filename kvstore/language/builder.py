"""Conversion of a statement's parse tree to its dataclass.
The ``data`` of a tree is the name of its grammar rule; its leaves are *terminals* (tokens). The tree of a *clause*,
such as ``LIMIT 3``, becomes the value of the field with its name. A *parameter* is a ``?`` or ``:name`` with a value.

In: a tree of ``grammar.lark``, the text it came from, and the parameter values by offset. Out: the statement. A
repeated clause, a number out of range and a parameter of the wrong type raise a :class:`~kvstore.errors.StatementError`
that points at it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lark import Token as Terminal
from lark import Tree

from ..arguments import format_value
from ..registry.sql_table import SqlValue
from ..sql.diagnosis import make_statement_error
from ..sql.literals import Value
from ..sql.tokens import unquote
from . import statements
from .parameters import Parameter, build_query

_STATEMENTS: dict[str, Callable[..., statements.Statement]] = {
    **{statement_class.rule: statement_class for statement_class in statements.Statement.__subclasses__()},
    "lookup": lambda *entities, **clauses: statements.Lookup(entities, **clauses),
}
#: The literals among the bare words that are values; any other word is a string.
_WORD_VALUES = {"true": True, "false": False, "null": None}
#: The maximum number of digits of a count, such as the count after LIMIT. Any such number fits into 64 bits.
_MAX_COUNT_DIGITS = 18
_COUNT_DESCRIPTION = f"a whole number from 0 to 10^{_MAX_COUNT_DIGITS} - 1"
#: Fields of clauses whose grammar rule has a different name.
_FIELD_NAMES = {
    "other_format": "format",
    "in_tree": "tree",
    "of_table": "table",
    "with_options": "options",
    "body": "text",
    "new_title": "title",
    "new_body": "text",
    "new_meta": "meta",
}
#: The values of clauses with NULL: UPDATE DOCUMENT removes the title or the metadata, INSERT DOCUMENT stores none.
_NULL_VALUES = {"new_title": "", "new_meta": "{}", "title": None, "source": None, "meta": None}


class Builder:
    """Builds the statements of a script, given the parameters by their offsets in it."""

    def __init__(self, text: str, parameters: Mapping[int, Parameter]) -> None:
        """Create a builder for the parse trees of a script. ``parameters`` has the script's parameters by offset."""
        self._text = text
        self._parameters = parameters

    def build_statement(self, tree: Tree[Terminal]) -> statements.Statement:
        """Return the statement of a parse tree, whose ``data`` is the name of its grammar rule.

        Raises StatementError for an invalid clause, or for AS SVG without EXPLAIN.
        """
        if tree.data == "select":
            (query,) = tree.scan_values(lambda terminal: True)  # its only terminal is the text of the query
            return build_query(self._text, _get_offset(query), query.end_pos or 0, self._parameters)
        for child in tree.children:
            if isinstance(child, Tree) and child.data == "as_svg":  # an enclosing EXPLAIN would have removed it
                remedy = f"write EXPLAIN {str(tree.data).upper()} ... AS SVG"
                raise make_statement_error(
                    self._text, child.meta.start_pos, f"AS SVG draws the steps of a statement; {remedy}"
                )
        arguments: list[Any] = []
        clauses: dict[str, Any] = {}
        for child in tree.children:
            assert isinstance(child, Tree)  # statements keep no terminals
            if child.data in _STATEMENTS:
                if tree.data == "explain":
                    self._move_svg_clause(child, clauses)
                arguments.append(self.build_statement(child))
            elif child.data in ("text", "name", "kind", "count", "value"):
                arguments.append(self._build_value(child))
            elif child.data == "questions":
                arguments.append(tuple(self._build_value(part) for part in child.children if isinstance(part, Tree)))
            else:
                self._add_clause(clauses, child)
        return _STATEMENTS[tree.data](*arguments, **clauses)

    def _move_svg_clause(self, explained_statement: Tree[Terminal], clauses: dict[str, Any]) -> None:
        """Move the clause AS SVG from the parse tree of an explained statement to the ``clauses`` of its EXPLAIN.

        The grammar parses it as a clause of the explained statement.
        """
        own_children = []
        for child in explained_statement.children:
            if isinstance(child, Tree) and child.data == "as_svg":
                self._add_clause(clauses, child)
            else:
                own_children.append(child)
        explained_statement.children = own_children

    def _add_clause(self, clauses: dict[str, Any], tree: Tree[Terminal]) -> None:
        """Add the value of a clause, given as its parse tree, to ``clauses`` under the name of its field.

        Raises StatementError if the clause is repeated.
        """
        name = _FIELD_NAMES.get(tree.data, tree.data)
        if name in clauses:
            clause = "UP, DOWN or BOTH" if name == "direction" else name.upper()
            raise make_statement_error(self._text, tree.meta.start_pos, f"{clause} is repeated")
        clauses[name] = self._build_clause(tree)

    def _build_clause(self, tree: Tree[Terminal]) -> Any:
        """Return the value of a clause, given as its parse tree, whose ``data`` is the name of its grammar rule.

        It is True for a keyword without a value. A keyword that is itself the value, or the name of a format, is in
        lower case. A condition is a string, the names after USING are one string with commas, options are a mapping.
        For a title, a source or metadata of NULL, the value is in :data:`_NULL_VALUES`.
        """
        if tree.data == "with_options":
            return self._build_options(tree)
        if not tree.children:
            return True  # the clause is a keyword without a value
        if tree.data == "using":
            return ", ".join(self._build_value(child) for child in tree.children if isinstance(child, Tree))
        child = tree.children[0]
        if isinstance(child, Tree):
            if tree.data in _NULL_VALUES and not self._has_value(child):
                return _NULL_VALUES[tree.data]
            value = self._build_value(child)
            return value.lower() if tree.data == "other_format" else value
        return str(child) if child.type in ("ASSIGNMENTS", "CONDITION") else child.lower()

    def _has_value(self, tree: Tree[Terminal]) -> bool:
        """True unless a value, given as its parse tree, is the keyword NULL or a parameter with the value None."""
        if tree.data == "null":
            return False
        (terminal,) = tree.children
        assert isinstance(terminal, Terminal)
        return terminal.type != "PARAMETER" or self._parameters[_get_offset(terminal)].value is not None

    def _build_options(self, tree: Tree[Terminal]) -> dict[str, Value]:
        """Return the options of the clause ``WITH (name = value, ...)``, given as its parse tree, by name.

        Raises StatementError for a repeated option or an invalid value.
        """
        options: dict[str, Value] = {}
        for option in tree.children:
            assert isinstance(option, Tree)
            name, value = (self._build_value(child) for child in option.children if isinstance(child, Tree))
            if name in options:
                raise make_statement_error(self._text, option.meta.start_pos, f"option {name} is repeated")
            options[name] = value
        return options

    def _build_value(self, tree: Tree[Terminal]) -> Any:
        """Return the value of a literal, a bare word or a parameter, given as its parse tree."""
        *sign, terminal = tree.children
        assert isinstance(terminal, Terminal)
        if terminal.type == "PARAMETER":
            return self._get_parameter_value(tree.data, terminal)
        if terminal.type == "NUMBER":
            return self._parse_count(terminal) if tree.data == "count" else _parse_number(terminal, negative=bool(sign))
        if terminal.type == "NAME":
            return _WORD_VALUES.get(terminal.lower(), str(terminal)) if tree.data == "value" else str(terminal)
        return unquote(terminal)

    def _parse_count(self, terminal: Terminal) -> int:
        """Return a count, such as the count after LIMIT. Raises StatementError unless it is a whole number in range."""
        if not (terminal.isdigit() and len(terminal) <= _MAX_COUNT_DIGITS):
            raise make_statement_error(
                self._text, _get_offset(terminal), f"expected {_COUNT_DESCRIPTION}, found {terminal:.40}"
            )
        return int(terminal)

    def _get_parameter_value(self, rule: str, terminal: Terminal) -> SqlValue:
        """Return the value of a parameter. Raises StatementError if it is invalid for the grammar ``rule`` it is in."""
        value = self._parameters[_get_offset(terminal)].value
        if rule == "count":
            expectation = _COUNT_DESCRIPTION
            is_valid = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**_MAX_COUNT_DIGITS
        elif rule == "value":
            expectation, is_valid = "text, a number, true, false or NULL", not isinstance(value, bytes)
        else:
            expectation, is_valid = "text", isinstance(value, str)
        if not is_valid:
            raise make_statement_error(
                self._text, _get_offset(terminal), f"expected {expectation}, but the value is {format_value(value)}"
            )
        return value


def _get_offset(terminal: Terminal) -> int:
    """Return the character offset of a terminal in the text."""
    assert terminal.start_pos is not None  # parser.py sets the offset of every terminal
    return terminal.start_pos


def _parse_number(terminal: Terminal, *, negative: bool) -> int | float:
    """Return the value of a number, with its sign changed if ``negative``.

    It is an int if the number is whole and has at most ``_MAX_COUNT_DIGITS`` digits, and otherwise a float.
    """
    value = int(terminal) if terminal.isdigit() and len(terminal) <= _MAX_COUNT_DIGITS else float(terminal)
    return -value if negative else value
