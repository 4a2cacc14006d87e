"""The commands that run statements: ``shell``, ``ask``, ``info``, ``check`` and ``compact``. The *console* runs a
statement, or a *dot command* that controls the shell, such as ``.help``, and writes its result.

In: statements, or the options that they are built from. Out: results on standard output; the exit status is 1 if a
statement failed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

import kvstore
from kvstore.arguments import is_text
from kvstore.errors import StatementError
from kvstore.process.collection_pause import pause_collection

from . import command_completion as completing
from .command_options import (
    FAILED,
    JSON,
    PARAMETERS,
    STORE,
    StorePath,
    add_mode_options,
    add_opening_options,
    convert_to_option_errors,
    merge_modes,
    open_command_store,
    parse_parameters,
    report_message,
)
from .render import MODES

if TYPE_CHECKING:
    from .console import Console

#: The maximum number of words of an answer with --long.
_LONG_ANSWER_WORDS = 200
#: The key of the context's metadata that marks a store in memory.
_IN_MEMORY = "kvstore.in_memory"


def _list_strategies() -> list[str]:
    """Return the names of the strategies, for completion."""
    from kvstore import language

    return language.list_strategy_names()


@click.command(context_settings={"allow_extra_args": True})
@click.argument("store", type=StorePath(path_type=Path), required=False, shell_complete=completing.complete_folders)
@click.option(
    "-c", "--command", "commands", multiple=True, metavar="SQL", help="Run a statement and exit (repeatable)."
)
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    metavar="FILE",
    shell_complete=completing.complete_files,
    help="Run the statements in this file and exit (repeatable); - is standard input.",
)
@PARAMETERS
@add_mode_options
@click.option("--readonly", is_flag=True, help="Open the store read-only; do not create a missing store.")
@click.option("--bail", is_flag=True, help="Stop at the first failure, and roll back an open transaction.")
@add_opening_options
@click.option(
    "--no-warn",
    is_flag=True,
    help="Do not ask for confirmation before DELETE FROM, or before UPDATE documents without WHERE.",
)
def shell(
    store: Path | None,
    commands: tuple[str, ...],
    files: tuple[str, ...],
    parameters: tuple[str, ...],
    mode: str | None,
    readonly: bool,
    bail: bool,
    opening: dict[str, Any],
    no_warn: bool,
) -> int:
    """Run statements on STORE.

    Without STORE, the shell opens an empty temporary store. The shell is interactive unless statements come from -c, -f
    or standard input. The interactive shell creates a missing STORE; statements from -c, -f or standard input create it
    only if they store data.
    """
    extra_arguments = click.get_current_context().args
    if extra_arguments:  # sqlite3 and duckdb take a statement after the database
        words = " ".join(extra_arguments)
        raise click.UsageError(f"Got unexpected extra argument ({words}). To run a statement: -c {quote(words)}")
    if store is None:
        return _run_in_memory()
    parameter_values = parse_parameters(parameters)

    def open_store() -> kvstore.Store:
        """Open the store with the options of the command."""
        return open_command_store(store, create=not readonly, readonly=readonly, **opening)

    if not commands and not files and sys.stdin.isatty():
        return _run_interactively(store, open_store, parameter_values, mode=mode, bail=bail, warn=not no_warn)
    from .store_opener import StoreOpener

    with pause_collection():
        from .console import Bail, Console, ShellExit

    # Options for a new store create it immediately; without them, it is created when a statement stores data.
    opens_at_once = (
        readonly or opening["embedder"] or opening["settings"] or _IN_MEMORY in click.get_current_context().meta
    )
    is_new = not (store / "data.mdb").exists()
    opens_lazily = is_new and not opens_at_once
    with pause_collection():
        store_or_opener = StoreOpener(store, open_store) if opens_lazily else open_store()
    console = Console(store_or_opener, mode=mode, bail=bail, parameters=parameter_values, run_command=_run_command)
    console.deletes_unused_store = is_new
    try:
        _run_scripts(console, commands, files)
    except (Bail, ShellExit):
        pass
    finally:
        console.finish()
    return FAILED if console.has_failed else 0


def _run_command(console: Console, line: str) -> None:
    """Run a dot command. The module of dot commands is imported here, because most scripts have none."""
    from .dot_commands import run_command

    run_command(console, line)


def _run_in_memory() -> int:
    """Run the ``shell`` command again with the same options on an empty temporary store; return the exit status."""
    from tempfile import TemporaryDirectory

    # A file system in memory, if the machine has one; a store always has files.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with TemporaryDirectory(prefix="kvstore-", dir=memory) as folder, click.get_current_context().scope() as context:
        report_message(
            "this store is in memory and is deleted when the shell exits; kvstore shell PATH creates a permanent store"
        )
        context.meta[_IN_MEMORY] = True
        return int(context.invoke(shell, **{**context.params, "store": Path(folder) / "memory"}))


def _run_interactively(
    store: Path,
    open_store: Callable[[], kvstore.Store],
    parameters: Mapping[str, Any],
    *,
    mode: str | None,
    bail: bool,
    warn: bool,
) -> int:
    """Run the interactive shell; return the exit status.

    ``open_store`` opens the store at the path ``store``, ``parameters`` are the values of ``:name`` in statements, and
    ``mode`` is the format of results. ``bail`` ends the shell at the first error; ``warn`` asks for confirmation before
    statements that can change many documents.
    """
    from .store_opener import StoreOpener

    with pause_collection():
        from .console import Console
        from .dot_commands import run_command
        from .repl import run_repl
    opener = StoreOpener(store, open_store)
    if not (store / "data.mdb").exists():
        # Create the missing store now, so that a failure ends the command before the prompt.
        opener.start()
        opener.wait_for_store()
    console = Console(opener, mode=mode, bail=bail, parameters=parameters, run_command=run_command)
    try:
        return run_repl(console, opener, warn=warn)
    finally:
        console.finish()


def _run_scripts(console: Console, commands: tuple[str, ...], files: tuple[str, ...]) -> None:
    """Run the statements of -c, then the scripts of -f; without either, run standard input."""
    from .script import read_items, split_items

    for command in commands:
        console.run_items(split_items(command))
    if not commands and not files:
        files = ("-",)
    for file in files:
        if file == "-":
            console.run_items(read_items(sys.stdin.buffer), "standard input")
        else:
            console.run_script(file)


@click.command()
@STORE
@click.argument("question", nargs=-1, required=True)
@click.option(
    "--using",
    metavar="STRATEGY",
    shell_complete=completing.make_word_completer(_list_strategies),
    help="Strategy (search method). The SHOW STRATEGIES statement lists all strategies.",
)
@click.option("--top", type=click.IntRange(1, 10_000), help="Number of search results to base the answer on.")
@click.option(
    "--depth", type=click.IntRange(0, 64), help="How many levels of summaries the bridge strategy goes up and down."
)
@click.option(
    "--model", metavar="NAME", help="Language model that writes the answer (default: $KVSTORE_LLM_MODEL, or no model)."
)
@click.option(
    "--where", metavar="CONDITION", help="Use only documents that satisfy this condition, such as \"key LIKE 'hr/%'\"."
)
@click.option(
    "--within",
    type=click.IntRange(1, 10**18 - 1),
    metavar="TOKENS",
    help="Maximum total size of all search results, in tokens.",
)
@click.option(
    "--words", type=click.IntRange(1, 10_000), help="Maximum number of words in an answer without a language model."
)
@click.option("--long", "is_long", is_flag=True, help=f"Same as --words {_LONG_ANSWER_WORDS}.")
@PARAMETERS
@JSON
@click.option("--mode", type=click.Choice(MODES), help="Format of the answer (default: table, which prints text).")
def ask(
    store: Path,
    question: tuple[str, ...],
    using: str | None,
    top: int | None,
    depth: int | None,
    model: str | None,
    where: str | None,
    within: int | None,
    words: int | None,
    is_long: bool,
    parameters: tuple[str, ...],
    as_json: bool,
    mode: str | None,
) -> int:
    """Answer QUESTION from STORE, with citations.

    Put QUESTION in quotes if it contains a character that is special in your shell, such as ? or '."""
    from .console import Console
    from .script import ScriptItem

    parameter_values = parse_parameters(parameters)
    mode = merge_modes(as_json, mode) or "table"
    if is_long and words is not None:
        raise click.UsageError("--long and --words contradict each other; omit one")
    question_text = " ".join(question)
    if not is_text(question_text):
        raise click.BadParameter("the question is not valid UTF-8; convert it", param_hint="QUESTION")
    clauses: dict[str, Any] = {
        "USING": using,
        "DEPTH": depth,
        "TOP": top,
        "MODEL": model,
        "WITHIN": within,
        "WORDS": _LONG_ANSWER_WORDS if is_long else words,
    }
    with open_command_store(store, readonly=True) as opened_store:
        # Check the strategies and the condition alone, so that an error shows the text that the user typed.
        with convert_to_option_errors(StatementError):
            if using is not None:
                for strategy in using.split(","):
                    opened_store.describe_strategy(strategy.strip())
            has_documents = where is None or opened_store.count(where, parameter_values)
        if not has_documents:
            report_message("warning: no document satisfies the condition of --where")
        set_clauses = {name: value for name, value in clauses.items() if value is not None}
        statement = "ASK :_QUESTION"
        for name in set_clauses:
            statement += f" {name} :_{name}" + (" TOKENS" if name == "WITHIN" else "")
        # Parentheses ensure that the text is one condition; the line end closes a comment in it.
        statement += "" if where is None else f" WHERE ({where}\n)"
        clause_values = {f"_{name}": value for name, value in {"QUESTION": question_text, **set_clauses}.items()}
        console = Console(opened_store, mode=mode, parameters=parameter_values | clause_values)
        console.run(ScriptItem(statement))
        return FAILED if console.has_failed else 0


@click.command()
@STORE
@add_mode_options
def info(store: Path, mode: str | None) -> int:
    """Show the contents and settings of STORE."""
    from .console import Console

    with open_command_store(store, readonly=True) as opened_store:
        fixed_settings = [(name, value) for name, value, is_fixed in opened_store.settings_table() if is_fixed]
        rows = [("path", str(opened_store.path)), *fixed_settings, *opened_store.statistics().items()]
        Console(opened_store, mode=mode).write("INFO", ("name", "value"), rows)
        return 0


@click.command()
@STORE
@click.option("--repair", is_flag=True, help="Rebuild damaged derived data from the documents.")
@add_mode_options
def check(store: Path, repair: bool, mode: str | None) -> int:
    """Verify that the data of STORE is undamaged and consistent.

    The exit status is 1 if a check fails.
    """
    return _run_statement(store, "CHECK REPAIR" if repair else "CHECK", mode, readonly=not repair)


@click.command()
@STORE
@add_mode_options
def compact(store: Path, mode: str | None) -> int:
    """Reclaim space from deleted data in STORE.

    No other process may have STORE open while the command runs."""
    return _run_statement(store, "COMPACT", mode, readonly=False)


def _run_statement(store: Path, statement: str, mode: str | None, *, readonly: bool = True) -> int:
    """Open a store, run one statement and write its result; return the exit status.

    ``mode`` is the format of the result (None: a table on a terminal, else TSV).
    """
    from .console import Console
    from .script import ScriptItem

    with open_command_store(store, readonly=readonly) as opened_store:
        console = Console(opened_store, mode=mode)
        console.run(ScriptItem(statement))
        return FAILED if console.has_failed else 0
