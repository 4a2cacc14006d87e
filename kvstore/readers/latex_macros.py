"""The macros of a LaTeX file, and the cursor that reads arguments and definitions and expands macros.
An *argument* is in braces; an *option* is an optional argument in brackets.

In: LaTeX source. Out: the source of each argument; an expansion is inserted at the cursor. Macros that expand to more
than ``MAX_EXPANDED_CHARACTERS`` characters are an EndlessMacrosError.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .latex_commands import PROTECTED_COMMANDS
from .latex_parts import find_closing_bracket

#: The maximum number of characters that macros of a file can expand to. Each expansion has an extra cost, so that empty
#: expansions also terminate.
MAX_EXPANDED_CHARACTERS = 4 << 20
_EXPANSION_COST = 64
_MAX_OPTION_CHARACTERS = 2_000
#: The maximum length of the parameters of a ``\\def``, and TeX's maximum number of arguments of a macro.
_MAX_PARAMETER_CHARACTERS = 200
_MAX_MACRO_ARGUMENTS = 9
_ARGUMENT_COUNTS = frozenset("123456789")
TOKEN_PATTERN = re.compile(
    r"\\(?P<command>[A-Za-z@]+\*?)|\\(?P<symbol>[^A-Za-z@])"
    r"|(?P<comment>%[^\n]*(?:\n[ \t]*(?![ \t\n]))?)|(?P<break>\n[ \t]*\n\s*)|(?P<math>\$\$?)"
    r"|(?P<open>\{)|(?P<close>\})|(?P<tilde>~)|(?P<cell>&)|(?P<argument>\#+\d?)|(?P<text>[^\\%\n$\{\}~&\#]+|\n)",
)
_FINAL_COMMAND_PATTERN = re.compile(r"\\[A-Za-z@]+\Z")
_SPACE_PATTERN = re.compile(r"(?:[ \t]|%[^\n]*\n|\n(?![ \t]*\n))*")  # spaces, comments and single line ends


class EndlessMacrosError(Exception):
    """The macros of the file exceed the expansion limit."""


class Macro(NamedTuple):
    """A macro that a file defines; with a ``default``, its first argument is optional and in brackets."""

    num_arguments: int
    default: str | None
    body: str


class MacroTable:
    """The macros that a file defines, and a limit on the number of characters that their expansions may still add."""

    def __init__(self) -> None:
        """Create an empty table."""
        self.macros: dict[str, Macro] = {}  # by name
        self.characters_left = MAX_EXPANDED_CHARACTERS


class LatexCursor:
    """A cursor in a piece of source, into which macro expansions are inserted.
    ``_text`` is the source, and ``_offset`` the offset of the next character to read.
    """

    def __init__(self, macros: MacroTable, text: str) -> None:
        """Create a cursor at the start of the source ``text``; ``macros`` has the macros that the file defines."""
        self._macros = macros
        self._text = text  # the source that is left; expansions are inserted into it
        self._offset = 0  # of the next character to read

    def _skip_space(self) -> None:
        """Move the offset past white space, comments and single line ends, but not past a blank line."""
        space = _SPACE_PATTERN.match(self._text, self._offset)
        self._offset = space.end() if space else self._offset

    def _read_argument(self) -> str:
        """Return the next argument and move the offset after it; empty if no argument follows.

        An argument is the content of braces (up to a limit if they are not closed), a command, or a character.
        """
        self._skip_space()
        if self._offset >= len(self._text):
            return ""
        if self._text[self._offset] == "{":
            end = find_closing_bracket(self._text, self._offset, "{", "}")
            inner = self._text[self._offset + 1 : end]
            self._offset = min(end + 1, len(self._text))
            return inner
        token = TOKEN_PATTERN.match(self._text, self._offset)
        if token is not None and (token["command"] or token["symbol"]):
            self._offset = token.end()
            return token[0]
        if self._text[self._offset] in "}&\n":  # the end of the group, the cell or the paragraph
            return ""
        self._offset += 1
        return self._text[self._offset - 1]

    def _read_option(self) -> str | None:
        """Return the optional argument in square brackets, and move the offset after it.

        If no such argument follows, or if it is not closed, return None, and do not move the offset.
        """
        start = self._offset
        self._skip_space()
        if self._offset < len(self._text) and self._text[self._offset] == "[":
            end = find_closing_bracket(self._text, self._offset, "[", "]", _MAX_OPTION_CHARACTERS)
            if self._text[end : end + 1] == "]":
                inner = self._text[self._offset + 1 : end]
                self._offset = end + 1
                return inner
        self._offset = start
        return None

    def _insert_source(self, text: str) -> None:
        """Insert ``text``, the expansion of a macro, at the current offset.

        Raises EndlessMacrosError if the macros of the file have expanded to too many characters.
        """
        self._macros.characters_left -= _EXPANSION_COST + len(text)
        if self._macros.characters_left < 0:
            raise EndlessMacrosError
        # Drop the source that is already read, so that nested macros do not make the text grow without limit.
        self._text = text + self._text[self._offset :]
        self._offset = 0

    def _expand_macro(self, macro: Macro) -> None:
        """Read the arguments of a macro from the source, and insert its expansion at the current offset.

        Raises EndlessMacrosError if the macros of the file have expanded to too many characters.
        """
        arguments = []
        if macro.num_arguments and macro.default is not None:
            option = self._read_option()  # the first argument, which is optional
            arguments.append(macro.default if option is None else option)
        while len(arguments) < macro.num_arguments:
            arguments.append(self._read_argument())
        arguments_by_number = {str(number): argument for number, argument in enumerate(arguments, 1)}
        # The placeholder of the first argument is #1.
        expansion = re.sub(r"#([1-9])", lambda match: arguments_by_number.get(match[1], ""), macro.body)
        separator = " "  # between a command at the end of the expansion and a letter after the macro
        if not macro.num_arguments and self._text.startswith("{}", self._offset):  # they end the name of the macro
            self._offset += 2
            separator = "{}"
        elif not macro.num_arguments:
            self._skip_space()
        if _FINAL_COMMAND_PATTERN.search(expansion) and self._text[self._offset : self._offset + 1].isalpha():
            expansion += separator
        self._insert_source(expansion)

    def _store_definition(self, command: str) -> None:
        """Read the definition of a macro after ``command``, such as ``newcommand``, and store the macro.

        A macro with an invalid name, or with the name of a command that the reader needs, is not stored.
        """
        name = self._read_argument().strip()
        if command == "NewDocumentCommand":
            num_arguments, default = self._read_argument().count("m"), None  # "m m" declares two mandatory arguments
        else:
            count_option = (self._read_option() or "").strip()
            num_arguments = int(count_option) if count_option in _ARGUMENT_COUNTS else 0
            default = self._read_option()
        body = self._read_argument()
        if name.startswith("\\") and len(name) > 1:
            self._define_macro(name[1:], num_arguments, default, body)

    def _define_macro(self, name: str, num_arguments: int, default: str | None, body: str) -> None:
        """Store a macro with its ``body``, unless it would replace a command that the reader needs.

        ``default`` is the value of its first argument if the argument is optional, else None.
        """
        if name not in PROTECTED_COMMANDS:
            self._macros.macros[name] = Macro(min(num_arguments, _MAX_MACRO_ARGUMENTS), default, body)

    def _store_plain_definition(self, command: str) -> None:
        """Read the definition of a macro after ``command``: ``def``, ``gdef`` or ``edef``, and store the macro.

        The definition after ``let`` and a macro with text between its parameters (``#1.#2``) are not stored.
        """
        name = self._read_argument().strip()
        if command == "let":
            self._skip_space()
            if self._text.startswith("=", self._offset):  # it is optional
                self._offset += 1
            self._read_argument()
            return
        brace = self._text.find("{", self._offset, self._offset + _MAX_PARAMETER_CHARACTERS)
        if brace < 0:
            return
        num_arguments = self._text.count("#", self._offset, brace)
        # "#1#2" has plain parameters; in "#1.#2", a period must follow the first argument, which is not supported.
        has_plain_parameters = re.fullmatch(r"(?:#\d)*", self._text[self._offset : brace].strip()) is not None
        self._offset = brace
        body = self._read_argument()
        if has_plain_parameters and name.startswith("\\"):
            self._define_macro(name[1:], num_arguments, default=None, body=body)
