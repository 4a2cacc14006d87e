"""Completion at the prompt, for statements and dot commands. A *catalog* lists the names that can be completed.

In: the text before the cursor, and a :class:`Catalog`. Out: completions; :mod:`kvstore.language.statement_completion`
makes those of statements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from kvstore.language.statement_completion import SQL_WORDS, Completion, StatementCatalog, complete_statement

from .psql_commands import EQUIVALENTS, find_equivalent
from .script import COMMAND_PREFIXES

__all__ = ["SQL_WORDS", "Catalog", "Completion", "complete"]


#: A character of a path that is special in a command, and one after a backslash.
_SPECIAL_PATTERN = re.compile(r"[\s'\"\\]")
_ESCAPED_PATTERN = re.compile(r"\\(.)")


class Catalog(StatementCatalog, Protocol):
    """A source of completions that adds those of the shell."""

    def list_commands(self) -> Mapping[str, str]:
        """Return the dot commands, each with the kind of its argument, or an empty string if it has none.

        The kinds are command, path, table, mode (of output), switch (on or off), keys (the key bindings), and saved (a
        saved statement).
        """
        ...

    def list_saved_queries(self) -> Sequence[str]:
        """Return the names of the saved statements."""
        ...

    def list_modes(self) -> Sequence[str]:
        """Return the output modes."""
        ...


def complete(text_before: str, catalog: Catalog) -> list[Completion]:
    """Return completions of the dot command or statement before the cursor, the most likely kinds first."""
    line_start = text_before.rfind("\n") + 1
    if text_before[:line_start].strip() == "" and text_before[line_start:].startswith(COMMAND_PREFIXES):
        return list(_complete_command(text_before, line_start, catalog))
    return complete_statement(text_before, catalog)


def _complete_command(text_before: str, start: int, catalog: Catalog) -> Iterator[Completion]:
    """Yield the completions of the command that begins at offset ``start`` of ``text_before``: a dot command or psql's.

    ``text_before`` is the text before the cursor. Before a space, the name of the command is completed; after it, the
    argument. ``catalog`` lists the names to choose from.
    """
    command, space, argument = text_before[start:].partition(" ")
    commands = catalog.list_commands()
    if not space:
        names = [f".{name}" for name in commands] + [f"\\{name}" for name in EQUIVALENTS]
        yield from (Completion(name, start, "command") for name in names if name.startswith(command))
        return
    argument_start = len(text_before) - len(argument)
    argument_kind = commands.get((find_equivalent(command) or command).removeprefix("."), "")
    candidates: Sequence[str]
    if argument_kind == "path":
        argument = _ESCAPED_PATTERN.sub(r"\1", argument)
        paths = [_SPECIAL_PATTERN.sub(r"\\\g<0>", path) for path in catalog.list_paths(argument)]
        yield from (Completion(path, argument_start, argument_kind) for path in paths)
        return
    if argument_kind == "saved":
        candidates = catalog.list_saved_queries()
    else:
        candidates_by_kind: Mapping[str, Sequence[str]] = {
            "command": list(commands),
            "table": list(catalog.list_tables()),
            "mode": catalog.list_modes(),
            "switch": ("on", "off"),
            "keys": ("emacs", "vi"),
        }
        candidates = candidates_by_kind.get(argument_kind, ())
    yield from (Completion(text, argument_start, argument_kind) for text in candidates if text.startswith(argument))
