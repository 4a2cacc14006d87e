"""Completion of the command ``kvstore`` itself, in bash, zsh and fish.

In: the name of a shell. Out: the script that this shell is to read once; from then on it starts ``kvstore`` with a
variable that holds what has been typed, and reads what may follow from standard output, in click's protocol. Inside a
conversation :mod:`.completion` does that work.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SHELLS = ("bash", "zsh", "fish")
#: What a shell asks with.
_COMPLETION_VARIABLE = "_KVSTORE_COMPLETE"

#: What click asks for the completions of an argument or an option.
CompletionCallback = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def build_completion_script(command: click.Command, shell: str) -> str:
    """What ``shell``, one of :data:`SHELLS`, is to read to complete ``command``."""
    from click.shell_completion import get_completion_class

    completion_class = get_completion_class(shell)
    assert completion_class is not None  # click has these three
    return completion_class(command, {}, "kvstore", _COMPLETION_VARIABLE).source()


def get_instruction() -> str | None:
    """What a shell that completes wants to know; None where ``kvstore`` was started for another purpose."""
    return os.environ.get(_COMPLETION_VARIABLE) or None


def write_completions(command: click.Command, instruction: str) -> int:
    """Write what may follow, as the shell's script reads it; returns the exit status."""
    from click.shell_completion import shell_complete

    return shell_complete(command, {}, "kvstore", _COMPLETION_VARIABLE, instruction)


def complete_folders(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offers folders, as the shell completes them."""
    return [_make_item(incomplete, type="dir")]


def complete_files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offers files and folders, as the shell completes them."""
    return [_make_item(incomplete, type="file")]


def complete_words(get_words: Callable[[], Iterable[str]]) -> CompletionCallback:
    """Offers those of some words that begin so; they are not asked for before."""

    def complete_word(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [_make_item(word) for word in get_words() if word.startswith(incomplete)]

    return complete_word


def _make_item(value: str, **options: Any) -> CompletionItem:
    from click.shell_completion import CompletionItem

    return CompletionItem(value, **options)
