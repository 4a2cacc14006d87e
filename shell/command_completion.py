"""Completion of the ``kvstore`` command itself, in bash, zsh and fish.

In: the name of a shell. Out: a script that the shell reads once. From then on the shell starts ``kvstore`` with a
variable that holds the typed text, and reads the completions from standard output, in click's protocol. Completion
at the prompt of the shell is in :mod:`.completion`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SHELLS = ("bash", "zsh", "fish")
#: The environment variable in which a shell sends its request.
COMPLETION_VARIABLE = "_KVSTORE_COMPLETE"

#: The function that click calls for the completions of an argument or an option.
CompletionCallback = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def build_completion_script(command: click.Command, shell: str) -> str:
    """Return the script that ``shell``, one of :data:`SHELLS`, reads to complete ``command``."""
    from click.shell_completion import get_completion_class

    completion_class = get_completion_class(shell)
    assert completion_class is not None  # click supports the three shells
    return completion_class(command, {}, "kvstore", COMPLETION_VARIABLE).source()


def write_completions(command: click.Command, request: str) -> int:
    """Write the completions for a shell's request, in the format that its script reads; return the exit status."""
    from click.shell_completion import shell_complete

    return shell_complete(command, {}, "kvstore", COMPLETION_VARIABLE, request)


def complete_folders(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the item that makes the shell complete names of folders."""
    return [_make_item(incomplete, type="dir")]


def complete_files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the item that makes the shell complete names of files and folders."""
    return [_make_item(incomplete, type="file")]


def make_word_completer(get_words: Callable[[], Iterable[str]]) -> CompletionCallback:
    """Return a callback for click that offers the words of ``get_words`` that begin with the typed text."""

    def complete_word(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Offer the words that begin with the typed text."""
        return [_make_item(word) for word in get_words() if word.startswith(incomplete)]

    return complete_word


def _make_item(value: str, **options: Any) -> CompletionItem:
    """Return a completion item of click; click's module for completion is imported here, on first use."""
    from click.shell_completion import CompletionItem

    return CompletionItem(value, **options)
