"""Commands of installed packages, found through the entry points ``kvstore.commands``.

In: the target of an entry point: a click command, called by the name of the entry point. Out: ``kvstore NAME``.
Built-in commands come first, and no package replaces them. Packages are searched only for unknown names or for a list
of all commands, so ``kvstore --help`` is fast. The error for an unknown command suggests the right one.
"""

from __future__ import annotations

import os
from functools import cached_property
from shlex import quote
from typing import Any

import click

from kvstore.errors import PluginError
from kvstore.extensions.entry_points import Plugin, PluginGroup


class CommandGroup(click.Group):
    """The built-in commands, followed by those of installed packages."""

    @cached_property
    def installed_plugins(self) -> PluginGroup[click.Command]:
        """The commands of installed packages, except those with the name of a built-in command."""
        return PluginGroup("command", get_reserved_names=lambda: self.commands, convert=_require_click_command)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command from kvstore or an installed package, or None."""
        return super().get_command(ctx, cmd_name) or self.installed_plugins.get(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the name and the command that ``args`` begin with, and the remaining arguments, for click.

        Raises UsageError for an unknown command, with a suggestion if there is one.
        """
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            suggestion = _suggest_command(args[0])
            if suggestion:
                raise click.UsageError(f"{error.format_message()} {suggestion}", ctx) from None
            equivalent = _COMMANDS_BY_MEANING.get(args[0].lower())
            if equivalent:
                # Without click's own guess, which is the command with the most similar spelling.
                raise click.UsageError(f"No such command {args[0]!r}. {equivalent}", ctx) from None
            raise


_ADD = "To ingest files: kvstore ingest STORE PATH"
_ASK = "To ask: kvstore ask STORE QUESTION. To search: kvstore shell STORE -c \"SEARCH 'text'\""
_DELETE = "To delete a document: kvstore shell STORE -c \"DELETE DOCUMENT 'key'\""
_DRY_RUN = "To estimate an ingest without storing anything: kvstore shell [STORE] -c \"EXPLAIN INGEST 'PATH'\""
_LIST = "To list the documents: kvstore shell STORE -c 'SELECT key FROM documents'. To count them: kvstore info STORE"
_MAKE = "To create a store: kvstore ingest STORE PATH, or kvstore shell STORE"
_SERVE = "For a browser: kvstore explore STORE. For an assistant: kvstore mcp STORE"
_SHELL = "To run statements: kvstore shell STORE"
_SHOW = "To show what a store contains: kvstore info STORE"

#: Names of commands in other programs, and the equivalent here.
_COMMANDS_BY_MEANING = {
    "add": _ADD,
    "browse": _SERVE,
    "copy": "To copy a store: kvstore backup STORE DESTINATION",
    "create": _MAKE,
    "delete": _DELETE,
    "dump": "To print statements that re-create a store: kvstore shell STORE -c .dump",
    "export": "To write a store to a file: kvstore shell STORE -c \"EXPORT TO 'file.jsonl'\"",
    "find": _ASK,
    "import": f"{_ADD}. To import an export: kvstore shell STORE -c \"IMPORT FROM 'file.jsonl'\"",
    "index": f"{_ADD}. To refresh indexes: kvstore shell STORE -c REFRESH",
    "insert": _ADD,
    "list": _LIST,
    "load": _ADD,
    "ls": _LIST,
    "open": _SHELL,
    "query": _ASK,
    "remove": _DELETE,
    "repair": "To repair a store: kvstore check --repair STORE",
    "retrieve": _ASK,
    "rm": _DELETE,
    "search": _ASK,
    "select": _SHELL,
    "serve": _SERVE,
    "show": _SHOW,
    "sql": _SHELL,
    "stats": _SHOW,
    "status": _SHOW,
    "tables": "To list the tables: kvstore shell STORE -c .tables",
    "update": f"{_ADD}, which ingests the changed files. For a store of an older format: kvstore migrate STORE",
    "vacuum": "To reclaim space: kvstore compact STORE",
    "version": "To print the version: kvstore --version",
}


def _suggest_command(word: str) -> str:
    """Return a suggestion for an unknown command that is a store, a file or a question, else an empty string."""
    if os.path.isfile(os.path.join(word, "data.mdb")):
        return f"It is a store: kvstore shell {quote(word)}"
    if os.path.exists(word):
        return f"To ingest it into a store: kvstore ingest STORE {quote(word)}"
    return f"To ask a store: kvstore ask STORE {quote(word)}" if " " in word else ""


def replace_suggestion(error: click.ClickException) -> click.ClickException:
    """Return an error that suggests EXPLAIN INGEST for the unknown option ``--dry-run``; click suggests ``--prune``.

    Any other error is returned unchanged.
    """
    if isinstance(error, click.NoSuchOption) and error.option_name == "--dry-run":
        return click.UsageError(f"No such option {error.option_name!r}. {_DRY_RUN}", error.ctx)
    return error


def _require_click_command(plugin: Plugin, command: Any) -> click.Command:
    """Return the object of the entry point of ``plugin`` unchanged. Raises PluginError if it is not a click command."""
    if not isinstance(command, click.Command):
        raise PluginError(f"it is not a click command, but {command!r:.80}")
    return command
