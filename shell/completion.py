"""Completion at the prompt, for statements and dot commands. A *catalog* lists the names that can be completed.

In: the text before the cursor, and the catalog of a store. Out: completions;
:mod:`kvstore.language.statement_completion` completes statements.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from kvstore.integrations.saved_queries import load_queries
from kvstore.language.statement_completion import SQL_WORDS, Completion, StatementCatalog, complete_statement

from .configuration import KEYS
from .dot_commands import COMMANDS
from .psql_commands import EQUIVALENTS, find_equivalent
from .render import MODES
from .script import COMMAND_PREFIXES

__all__ = ["SQL_WORDS", "Completion", "complete"]

#: A character of a path that is special in a command, and one after a backslash.
_SPECIAL_PATTERN = re.compile(r"[\s'\"\\]")
_ESCAPED_PATTERN = re.compile(r"\\(.)")


def complete(text_before: str, catalog: StatementCatalog) -> list[Completion]:
    """Return completions of the dot command or statement before the cursor, the most likely kinds first."""
    line_start = text_before.rfind("\n") + 1
    if text_before[:line_start].strip() == "" and text_before[line_start:].startswith(COMMAND_PREFIXES):
        return list(_complete_command(text_before, line_start, catalog))
    return complete_statement(text_before, catalog)


def _complete_command(text_before: str, start: int, catalog: StatementCatalog) -> Iterator[Completion]:
    """Yield the completions of the command that begins at offset ``start`` of ``text_before``: a dot command or psql's.

    ``text_before`` is the text before the cursor. Before a space, the name of the command is completed; after it, the
    argument. ``catalog`` lists the names to choose from.
    """
    command, space, argument = text_before[start:].partition(" ")
    if not space:
        names = [f".{name}" for name in COMMANDS] + [f"\\{name}" for name in EQUIVALENTS]
        yield from (Completion(name, start, "command") for name in names if name.startswith(command))
        return
    argument_start = len(text_before) - len(argument)
    known_command = COMMANDS.get((find_equivalent(command) or command).removeprefix("."))
    argument_kind = "" if known_command is None else known_command.argument_kind
    if argument_kind == "path":
        argument = _ESCAPED_PATTERN.sub(r"\1", argument)
        paths = [_SPECIAL_PATTERN.sub(r"\\\g<0>", path) for path in catalog.list_paths(argument)]
        yield from (Completion(path, argument_start, argument_kind) for path in paths)
        return
    candidates_by_kind: Mapping[str, Iterable[str]] = {
        "command": COMMANDS,
        "mode": MODES,
        "switch": ("on", "off"),
        "keys": KEYS,
    }
    candidates = candidates_by_kind.get(argument_kind, ())
    if argument_kind == "saved":
        candidates = load_queries()
    elif argument_kind == "table":
        candidates = catalog.list_tables()
    yield from (Completion(text, argument_start, argument_kind) for text in candidates if text.startswith(argument))
