"""The commands of installed packages, by the entry points ``kvstore.commands``.

In: what an entry point names: a command of click, called as the entry point is. Out: ``kvstore NAME``, behind the
commands of our own, which no package replaces. Packages are looked for only where a name is not one of ours, or all are
asked for, so that ``kvstore --help`` answers at once. What is no command says which was meant.
"""

from __future__ import annotations

import os
from functools import cached_property
from shlex import quote
from typing import Any

import click

from kvstore.entry_points import Plugin, PluginGroup
from kvstore.errors import PluginError


class CommandGroup(click.Group):
    """Our commands, and behind them those of installed packages."""

    @cached_property
    def installed(self) -> PluginGroup[click.Command]:
        """Those of installed packages."""
        return PluginGroup("command", taken=lambda: self.commands, made=_command)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or self.installed.get(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            meant = _meant(args[0])
            if not meant:
                raise
            raise click.UsageError(f"{error.format_message()} {meant}", ctx) from None


def _meant(word: str) -> str:
    """What somebody may have meant who gives ``word`` where sqlite3, say, takes a file."""
    if os.path.isfile(os.path.join(word, "data.mdb")):
        return f"It is a store: kvstore shell {quote(word)}"
    if os.path.exists(word):
        return f"To bring it into a store: kvstore ingest STORE {quote(word)}"
    return f"To ask a store: kvstore ask STORE {quote(word)}" if " " in word else ""


def _command(plugin: Plugin, command: Any) -> click.Command:
    if not isinstance(command, click.Command):
        raise PluginError(f"it is no command of click, but {command!r:.80}")
    return command
