"""The command ``kvstore``.

In: arguments. Out: results on standard output, everything else on standard error. Exit status: 0 on success; 1 if a
statement, a file or a check failed; 2 for wrong usage; 130 on Ctrl-C. Errors are one message without a traceback; set
KVSTORE_TRACEBACK=1 to get the traceback. Heavy modules are imported only when a command needs them, so ``kvstore
--help`` is fast.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

import kvstore
from kvstore.settings import TIME_LIMIT, FixedSettings

from . import command_completion as completing
from .masking import mask_output
from .plugin_commands import CommandGroup

if TYPE_CHECKING:
    from .console import Console

MODES = ("table", "box", "json", "jsonl", "csv", "tsv", "markdown", "line")
FAILED = 1
INTERRUPTED = 130

_STORE = click.argument("store", type=click.Path(path_type=Path), shell_complete=completing.complete_folders)
_MODE = click.option("--mode", type=click.Choice(MODES), help="How results are written (terminal: table, else tsv).")

#: Seconds to wait for another writer.
_DEFAULT_LOCK_TIMEOUT = 5.0
_SETTINGS = (
    click.option(
        "--setting",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="Setting of a new store, such as chunk_tokens=200 (repeatable); must agree with that of an old one.",
    ),
    click.option("--language", metavar="NAME", help="The same as --setting language=NAME: en, rules, or a pipeline."),
    click.option("--stemmer", metavar="NAME", help="The same as --setting stemmer=NAME: english, german, ..., none."),
)
_LOCK_TIMEOUT = click.option(
    "--lock-timeout",
    type=click.FloatRange(0),
    default=_DEFAULT_LOCK_TIMEOUT,
    metavar="SECONDS",
    show_default=True,
    help="How long a change waits for another writer.",
)
_PARAMETERS = click.option(
    "-p",
    "--parameter",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="Value of :NAME in statements, such as year=2024 (repeatable): a number, or else text.",
)


def _add_settings_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options for the settings of a new store to a command."""
    for option in reversed(_SETTINGS):
        command = option(command)
    return command


def _list_formats() -> list[str]:
    from kvstore import language

    return list(language.formats())


def _list_strategies() -> list[str]:
    from kvstore import language

    return language.strategy_names()


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Installed packages may bring more commands; kvstore plugins lists them.",
)
@click.version_option(kvstore.__version__, prog_name="kvstore")
def cli() -> None:
    """An embedded knowledge store: documents in, answers with citations out."""


@cli.command()
@_STORE
@click.option("-c", "--command", "commands", multiple=True, metavar="SQL", help="Run this and leave (repeatable).")
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    metavar="FILE",
    shell_complete=completing.complete_files,
    help="Run a script and leave; - is stdin.",
)
@_PARAMETERS
@_MODE
@click.option("--readonly", is_flag=True, help="Open to read only; a missing store is not made.")
@click.option("--bail", is_flag=True, help="Stop at the first failure; an open transaction is rolled back.")
@click.option("--embedder", metavar="NAME", help="Embedder of a new store; must agree with that of an old one.")
@_add_settings_options
@_LOCK_TIMEOUT
@click.option("--no-warn", is_flag=True, help="Do not ask before a statement that deletes by condition.")
def shell(
    store: Path,
    commands: tuple[str, ...],
    files: tuple[str, ...],
    parameters: tuple[str, ...],
    mode: str | None,
    readonly: bool,
    bail: bool,
    embedder: str | None,
    settings: tuple[str, ...],
    language: str | None,
    stemmer: str | None,
    lock_timeout: float,
    no_warn: bool,
) -> int:
    """Talk to STORE: interactively, or with a script from -c, -f or standard input.

    A missing store is created; with a script, once it stores something.
    """

    new_settings = _parse_settings(settings, language, stemmer)
    parameter_values = _parse_parameters(parameters)

    def open_store() -> kvstore.Store:
        return _open_store(
            store,
            create=not readonly,
            readonly=readonly,
            embedder=embedder,
            settings=new_settings,
            lock_timeout=lock_timeout,
        )

    if not commands and not files and sys.stdin.isatty():
        return _run_conversation(store, open_store, parameter_values, mode=mode, bail=bail, warn=not no_warn)
    from .background_opening import BackgroundOpening
    from .console import Bail, Console, Leave
    from .dot_commands import run_command

    # Options of a new store mean that the user wants one; otherwise a missing store is created once there is data to
    # store.
    opens_lazily = not (readonly or embedder or new_settings or (store / "data.mdb").exists())
    store_or_opening = BackgroundOpening(store, open_store) if opens_lazily else open_store()
    console = Console(store_or_opening, mode=mode, bail=bail, parameters=parameter_values, run_command=run_command)
    try:
        _run_scripts(console, commands, files)
    except (Bail, Leave):
        pass
    finally:
        console.finish()
    return FAILED if console.failed else 0


def _run_conversation(
    store: Path,
    open_store: Callable[[], kvstore.Store],
    parameters: Mapping[str, Any],
    *,
    mode: str | None,
    bail: bool,
    warn: bool,
) -> int:
    from .background_opening import BackgroundOpening, pause_garbage_collection

    with pause_garbage_collection():
        from .console import Console
        from .dot_commands import run_command
        from .repl import converse
    opening = BackgroundOpening(store, open_store)
    if not (store / "data.mdb").exists():
        # The store is created or the command fails here, before the prompt.
        opening.start()
        opening.wait_for_store()
    console = Console(opening, mode=mode, bail=bail, parameters=parameters, run_command=run_command)
    try:
        return converse(console, opening, warn=warn)
    finally:
        console.finish()


def _run_scripts(console: Console, commands: tuple[str, ...], files: tuple[str, ...]) -> None:
    from .script import read_items, split_items

    for command in commands:
        console.run_items(split_items(command))
    for file in files or (() if commands else ("-",)):
        if file == "-":
            console.run_items(read_items(sys.stdin.buffer), "standard input")
        else:
            console.run_script(file)


def _validate_format(_: click.Context, __: click.Parameter, form: str | None) -> str | None:
    if form is not None and form not in kvstore.FORMATS:
        from kvstore import language

        # A broken reader reports its error when it is used.
        broken_readers = {plugin.name for plugin in kvstore.plugins() if plugin.kind == "reader"}
        if form not in (formats := language.formats()) and form not in broken_readers:
            raise click.BadParameter(f"{form!r} is not one of {', '.join(formats)}")
    return form


_FORMAT = click.option(
    "--as",
    "form",
    callback=_validate_format,
    metavar="FORMAT",
    shell_complete=completing.complete_words(_list_formats),
    help=f"What the files are: {', '.join(kvstore.FORMATS)}, or units (default: by their names).",
)
_INCLUDE = click.option(
    "--include", multiple=True, metavar="PATTERN", help="Of folders, take these files, such as '*.wiki' (repeatable)."
)
_READER_OPTIONS = click.option(
    "-o",
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="Option of the reader (repeatable): encoding; of rows key, text, title (names of columns or fields) and "
    "delimiter; of pairs child, parent, tree.",
)


@cli.command()
@_STORE
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", shell_complete=completing.complete_files)
@_FORMAT
@_INCLUDE
@click.option(
    "--prune", is_flag=True, help="Remove documents whose files vanished from the folders and patterns named."
)
@click.option("--embedder", metavar="NAME", help="Embedder of a new store; must agree with that of an old one.")
@_add_settings_options
@_LOCK_TIMEOUT
@click.option("--quiet", is_flag=True, help="Tell failures only.")
@click.option(
    "--workers", type=click.IntRange(0, 64), help="Processes that read and embed (default: by size; 0: none)."
)
@click.option(
    "--engine",
    default="processes",
    metavar="NAME",
    show_default=True,
    help="Where they run: processes (here), ray://local or ray://HOST:PORT.",
)
@click.option(
    "--time-limit",
    type=click.FloatRange(0, min_open=True),
    default=TIME_LIMIT,
    metavar="SECONDS",
    show_default=True,
    help="How long reading a file may take.",
)
@click.option(
    "--memory-limit",
    type=click.FloatRange(0, min_open=True),
    metavar="MEGABYTES",
    help="What a worker may take (default: its share of half of the machine's memory).",
)
@_READER_OPTIONS
def ingest(
    store: Path,
    paths: tuple[str, ...],
    form: str | None,
    include: tuple[str, ...],
    prune: bool,
    embedder: str | None,
    settings: tuple[str, ...],
    language: str | None,
    stemmer: str | None,
    lock_timeout: float,
    quiet: bool,
    workers: int | None,
    engine: str,
    time_limit: float,
    memory_limit: float | None,
    options: tuple[str, ...],
) -> int:
    """Ingest files, folders and globs into STORE, which is created if it is missing."""
    from kvstore.language import counted

    from .interrupts import DeferredInterrupts
    from .progress import ProgressLine

    reader_options = dict(_split_assignment(option, "-o") for option in options)
    new_settings = _parse_settings(settings, language, stemmer)
    if not all(paths):
        raise click.BadParameter("an empty path names nothing; write . for the current folder", param_hint="PATH")
    with (
        _open_store(
            store, create=True, embedder=embedder, settings=new_settings, lock_timeout=lock_timeout
        ) as opened_store,
        DeferredInterrupts() as interrupts,
    ):
        progress_line = ProgressLine(sys.stderr, silent=quiet)
        try:
            report = opened_store.ingest(
                list(paths),
                format=form,
                prune=prune,
                include=include,
                options=reader_options,
                progress=interrupts.wrap_callback(progress_line.show),
                workers=workers,
                engine=engine,
                time_limit=time_limit,
                memory_limit=memory_limit,
            )
        except KeyboardInterrupt:
            progress_line.close()
            _report(f"interrupted; {progress_line.describe_kept()}; run the same command again to go on")
            return INTERRUPTED
        progress_line.close()
        for problem in report.problems:
            _report(problem)
        if not quiet:
            if report.known:
                are, were = ("is", "was") if report.known == 1 else ("are", "were")
                _report(f"{counted(report.known, 'file')} {were} ingested before and {are} unchanged")
            _report(_format_counts(report))
            for remark in report.remarks:
                _report(remark)
        return FAILED if report.failures else 0


def _format_counts(report: kvstore.IngestReport) -> str:
    from kvstore.language import counted

    counts = f"{report.added} added, {report.changed} changed, {report.unchanged} unchanged, "
    skipped = f"{report.skipped} skipped" + (f" ({report.skips})" if report.skipped else "")
    counts += f"{report.removed} removed, {skipped}, {len(report.failures)} failed"
    return f"{counts}; {counted(report.chunks, 'chunk')} in {report.seconds:.1f} s"


@cli.command()
@_STORE
@click.argument(
    "folders",
    nargs=-1,
    required=True,
    metavar="FOLDER...",
    type=click.Path(path_type=Path),
    shell_complete=completing.complete_folders,
)
@_FORMAT
@_INCLUDE
@click.option("--no-prune", is_flag=True, help="Keep documents whose files vanish.")
@click.option("--embedder", metavar="NAME", help="Embedder of a new store; must agree with that of an old one.")
@_add_settings_options
@_LOCK_TIMEOUT
@click.option(
    "--debounce",
    type=click.FloatRange(0, 60, min_open=True),
    metavar="SECONDS",
    default=0.5,
    show_default=True,
    help="How long nothing may change before what changed is ingested, in one commit.",
)
@click.option(
    "--poll",
    type=click.FloatRange(0, 86400, min_open=True),
    metavar="SECONDS",
    help="Look at the folders so often, in place of being told by the system (2 without the extra watch).",
)
@_READER_OPTIONS
def watch(
    store: Path,
    folders: tuple[Path, ...],
    form: str | None,
    include: tuple[str, ...],
    no_prune: bool,
    embedder: str | None,
    settings: tuple[str, ...],
    language: str | None,
    stemmer: str | None,
    lock_timeout: float,
    debounce: float,
    poll: float | None,
    options: tuple[str, ...],
) -> int:
    """Keep STORE in sync with FOLDER... while files there change, until Ctrl-C; a missing STORE is created."""
    from .watching import follow, make_watcher

    for folder in folders:
        if not folder.is_dir():
            raise click.BadParameter(f"{folder} is no folder; name one that is there", param_hint="FOLDER")
    reader_options = dict(_split_assignment(option, "-o") for option in options)
    new_settings = _parse_settings(settings, language, stemmer)
    reported_failures: set[str] = set()

    def report_ingest(report: kvstore.IngestReport) -> None:
        failures = {f"{failure.place}: {failure.reason}" for failure in report.failures}
        for text in sorted(failures - reported_failures):
            _report(text)
        reported_failures.clear()
        reported_failures.update(failures)
        if report.added or report.changed or report.removed:
            _report(_format_counts(report))

    with _open_store(
        store, create=True, embedder=embedder, settings=new_settings, lock_timeout=lock_timeout
    ) as opened_store:

        def ingest_folders() -> kvstore.IngestReport:
            return opened_store.ingest(
                list(folders), format=form, prune=not no_prune, include=include, options=reader_options
            )

        try:
            changes = make_watcher(folders, store, quiet=debounce, interval=poll)
            _report(f"watching {', '.join(map(str, folders))}; Ctrl-C ends it")
            follow(changes, ingest_folders, report_ingest, lambda error: _report(f"error: {error}; trying again"))
        except KeyboardInterrupt:
            _report("no longer watching")
        return 0


def _split_assignment(text: str, hint: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=hint)
    return name, value


def _parse_parameters(parameters: tuple[str, ...]) -> dict[str, Any]:
    from .console import parse_parameter_value

    assignments = dict(_split_assignment(parameter, "-p") for parameter in parameters)
    return {name.removeprefix(":"): parse_parameter_value(value) for name, value in assignments.items()}


def _parse_settings(settings: tuple[str, ...], language: str | None, stemmer: str | None) -> dict[str, Any]:
    """Return the settings of a new store, with whole numbers as int."""
    new_settings: dict[str, Any] = dict(_split_assignment(setting, "--setting") for setting in settings)
    new_settings |= {name: value for name, value in (("language", language), ("stemmer", stemmer)) if value is not None}
    numbers = {field.name for field in fields(FixedSettings) if isinstance(field.default, int)}
    return {
        name: int(value) if name in numbers and value.removeprefix("-").isdecimal() else value
        for name, value in new_settings.items()
    }


@cli.command()
@_STORE
@click.argument("question")
@click.option(
    "--using",
    metavar="STRATEGY",
    shell_complete=completing.complete_words(_list_strategies),
    help="How evidence is found; SHOW STRATEGIES lists the ways.",
)
@click.option("--top", type=click.IntRange(1, 10_000), help="Chunks of evidence.")
@click.option("--depth", type=click.IntRange(0, 64), help="Levels of abstracts to expand.")
@click.option("--model", metavar="NAME", help="Language model that answers (default: $KVSTORE_LLM_MODEL, else none).")
@click.option("--where", metavar="CONDITION", help="Ask of these documents only, such as \"key LIKE 'hr/%'\".")
@click.option(
    "--within", type=click.IntRange(1, 10**18 - 1), metavar="TOKENS", help="The most that the evidence may hold."
)
@_PARAMETERS
@click.option("--json", "as_json", is_flag=True, help="The same as --mode json.")
@_MODE
def ask(
    store: Path,
    question: str,
    using: str | None,
    top: int | None,
    depth: int | None,
    model: str | None,
    where: str | None,
    within: int | None,
    parameters: tuple[str, ...],
    as_json: bool,
    mode: str | None,
) -> int:
    """Answer QUESTION from STORE, with citations."""
    from .console import Console
    from .script import ScriptItem

    parameter_values = _parse_parameters(parameters)
    if as_json and mode not in (None, "json"):
        raise click.UsageError("--json and --mode name two ways to write the answer; leave one out")
    clauses: dict[str, Any] = {"USING": using, "DEPTH": depth, "TOP": top, "MODEL": model, "WITHIN": within}
    with _open_store(store, readonly=True) as opened_store:
        if where is not None:
            opened_store.count(where, parameter_values)  # its errors show the condition as the user typed it
        set_clauses = {name: value for name, value in clauses.items() if value is not None}
        statement = "ASK :_QUESTION" + "".join(
            f" {name} :_{name}" + " TOKENS" * (name == "WITHIN") for name in set_clauses
        )
        # Parentheses ensure that the text is one condition.
        statement += "" if where is None else f" WHERE ({where}\n)"
        clause_values = {f"_{name}": value for name, value in {"QUESTION": question, **set_clauses}.items()}
        console = Console(opened_store, mode="json" if as_json else mode, parameters=parameter_values | clause_values)
        console.run(ScriptItem(statement))
        return FAILED if console.failed else 0


@cli.command()
@_STORE
@_MODE
def info(store: Path, mode: str | None) -> int:
    """Show the contents and settings of STORE."""
    from .console import Console

    with _open_store(store, readonly=True) as opened_store:
        fixed = [(name, value) for name, value, is_fixed in opened_store.settings_table() if is_fixed]
        rows = [("path", str(opened_store.path)), *fixed, *opened_store.statistics().items()]
        Console(opened_store, mode=mode).write("INFO", ("name", "value"), rows)
        return 0


@cli.command()
@_STORE
@click.option("--repair", is_flag=True, help="Make everything derived again from the documents where that is needed.")
@_MODE
def check(store: Path, repair: bool, mode: str | None) -> int:
    """Verify every checksum and invariant of STORE; the exit status is 1 if one is violated."""
    return _run_statement(store, "CHECK REPAIR" if repair else "CHECK", mode, readonly=not repair)


@cli.command()
@_STORE
@_MODE
def compact(store: Path, mode: str | None) -> int:
    """Return the space of deleted data in STORE to the file system; no other process may have it open."""
    return _run_statement(store, "COMPACT", mode, readonly=False)


@cli.command()
@_STORE
@click.argument("destination", type=click.Path(path_type=Path))
@click.option(
    "--compact/--no-compact",
    default=True,
    show_default=True,
    help="Leave out free pages. Without it the file is copied page by page, and writers wait meanwhile.",
)
def backup(store: Path, destination: Path, compact: bool) -> int:
    """Copy the current state of STORE to DESTINATION, while others read and write."""
    with _open_store(store, readonly=True) as opened_store:
        opened_store.backup(destination, compact=compact)
        _report(f"copied {store} to {destination}")
        return 0


@cli.command()
@_STORE
@click.option("--no-backup", is_flag=True, help="Keep no copy of the store as it was.")
def migrate(store: Path, no_backup: bool) -> int:
    """Convert STORE to the format of this version; a backup of the old store is kept next to it."""

    migration = kvstore.migrate(store, backup=not no_backup)
    if migration.backup is not None:
        _report(f"{store}: kept as it was in {migration.backup}")
    for loss in [] if migration.rebuilt is None else migration.rebuilt.lost:
        _report(f"lost: {loss}")
    _report(
        f"{store}: the format is current now" if migration.changed else f"{store}: nothing to do, the format is current"
    )
    return FAILED if migration.rebuilt is not None and migration.rebuilt.lost else 0


@cli.command()
@click.argument("shell", type=click.Choice(completing.SHELLS))
def completion(shell: str) -> int:
    """Print the completion script for SHELL: bash, zsh or fish.

    \b
    source <(kvstore completion bash)               in ~/.bashrc
    source <(kvstore completion zsh)                in ~/.zshrc, after compinit
    kvstore completion fish | source                in ~/.config/fish/config.fish
    """
    print(completing.build_completion_script(cli, shell))
    return 0


@cli.command()
@click.option("--store", type=click.Path(path_type=Path), help="Keep the store here (default: a temporary folder).")
@click.option("--embedder", metavar="NAME", help="Embedder to use (default: the best that is installed).")
def demo(store: Path | None, embedder: str | None) -> int:
    """Take a tour with a small sample: ingest, look up, ask, change a document, ask again."""
    from .demo import run_tour

    return run_tour(store, embedder)


@cli.command()
@_MODE
def plugins(mode: str | None) -> int:
    """List what installed packages add: embedders, readers, strategies and commands, with any problem."""
    from shutil import get_terminal_size

    from .render import write_result

    plugin_list = [*kvstore.plugins(), *cli.installed.list_plugins()]
    rows = [
        (plugin.kind, plugin.name, plugin.package, plugin.version, plugin.problem or "used") for plugin in plugin_list
    ]
    columns = ("kind", "name", "package", "version", "state")
    is_terminal = sys.stdout.isatty()
    width = get_terminal_size().columns if is_terminal else None
    write_result("PLUGINS", columns, rows, sys.stdout, mode=mode or ("table" if is_terminal else "tsv"), width=width)
    return 0


@cli.command()
@_STORE
@click.option("--write", is_flag=True, help="Let clients change the store, which is made where it is missing.")
@click.option(
    "--tokens", type=click.IntRange(500), default=2000, show_default=True, help="The most that a result may hold."
)
@click.option("--strategy", metavar="NAME", help="How evidence is found where a client does not say.")
@click.option("--where", metavar="CONDITION", help="Give these documents only, such as \"key LIKE 'hr/%'\".")
def mcp(store: Path, write: bool, tokens: int, strategy: str | None, where: str | None) -> int:
    """Serve STORE to an assistant over the Model Context Protocol, on standard input and output."""
    from kvstore.integrations.mcp_server import serve
    from kvstore.integrations.store_tools import StoreTools

    with _open_store(store, create=write, readonly=not write) as opened_store:
        serve(StoreTools(opened_store, write=write, tokens=tokens, strategy=strategy, where=where))
        return 0


@cli.command()
@_STORE
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on this machine (default 0: any free port)."
)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
def explore(store: Path, port: int, no_browser: bool) -> int:
    """Browse STORE in a browser on this machine until Ctrl-C; access is read-only and needs the printed address."""
    from kvstore.integrations.explore.serving import serve

    def announce(address: str) -> None:
        print(address, flush=True)
        _report("the explorer answers there until Ctrl-C; anyone with this address can read the store")

    serve(store, port=port, browser=not no_browser, announce=announce)
    return 0


@cli.command()
@_STORE
@click.argument("name", required=False)
@click.option(
    "--depth", type=click.IntRange(0, 64), default=2, show_default=True, help="How many steps from NAME it reaches."
)
@click.option("--tree", metavar="TREE", help="Draw this tree alone.")
@click.option("--limit", type=click.IntRange(0), default=150, show_default=True, help="The most names; 0: all.")
@click.option(
    "--to",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    shell_complete=completing.complete_files,
    help="The file to write, by its ending: .svg, .html, .dot, .graphml, .gexf or .json.",
)
def graph(store: Path, name: str | None, depth: int, tree: str | None, limit: int, file: Path) -> int:
    """Write the graph around NAME, or the trees of STORE, to a file: a picture, or a graph for other programs."""
    from kvstore.integrations.entity_network import build_network_around, build_whole_network
    from kvstore.integrations.network_files import FORMATS, format_network
    from kvstore.language import counted

    file_format = file.suffix.lower().removeprefix(".")
    if file_format not in FORMATS:
        raise click.BadParameter(f"{file} ends in none of .{', .'.join(FORMATS)}", param_hint="--to")
    with _open_store(store, readonly=True) as opened_store:
        max_names = limit or int(opened_store.statistics()["entities"]) + 1
        if name is None:
            network = build_whole_network(opened_store, tree=tree, limit=max_names)
        else:
            network = build_network_around(opened_store, name, depth=depth, tree=tree, limit=max_names)
    middle = name if name is None or not network.names else network.names[0].name
    title = (
        f"Around {middle}" if middle is not None else f"The tree {tree}" if tree is not None else store.resolve().name
    )
    text = format_network(file_format, network, title)
    file.write_text(text, encoding="utf-8")
    verb = "is" if network.left_out == 1 else "are"
    remark = f"; {network.left_out:,} more {verb} left out, --limit 0 takes all" if network.left_out else ""
    _report(f"{file}: {counted(len(network.names), 'name')}, {counted(len(network.edges), 'join')}{remark}")
    return 0


def _run_statement(store: Path, statement: str, mode: str | None, *, readonly: bool = True) -> int:
    from .console import Console
    from .script import ScriptItem

    with _open_store(store, readonly=readonly) as opened_store:
        console = Console(opened_store, mode=mode)
        console.run(ScriptItem(statement))
        return FAILED if console.failed else 0


def _open_store(
    path: Path,
    *,
    create: bool = False,
    readonly: bool = False,
    embedder: str | None = None,
    settings: Mapping[str, Any] | None = None,
    lock_timeout: float = _DEFAULT_LOCK_TIMEOUT,
) -> kvstore.Store:
    from kvstore.errors import StoreNotFoundError

    try:
        return kvstore.open(
            path,
            create=create,
            readonly=readonly,
            embedder=embedder,
            settings=settings,
            lock_timeout=lock_timeout,
        )
    except StoreNotFoundError as error:
        if create:
            raise
        remedy = f"kvstore ingest {path} FOLDER or kvstore shell {path} makes one"
        raise StoreNotFoundError(f"{path}: there is no store here; {remedy}") from error


def _report(text: str) -> None:
    from .console import write_message

    write_message(text)


def main() -> NoReturn:
    """Run the console command and exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run the command; return the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # escape characters that the terminal lacks, instead of failing
            stream.reconfigure(errors="backslashreplace")
    instruction = completing.get_instruction()
    if instruction is not None:
        return completing.write_completions(cli, instruction)
    with mask_output():
        return _run(arguments)


def _run(arguments: list[str]) -> int:
    try:
        # Not cli.main, which handles Ctrl-C and closed pipes in its own way.
        with cli.make_context("kvstore", arguments) as context:
            status = cli.invoke(context)
        sys.stdout.flush()
        return int(status or 0)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        _report("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # The process that read the output has closed the pipe; the buffered rest must not be flushed into it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        from .console import describe_error

        if os.environ.get("KVSTORE_TRACEBACK"):
            traceback.print_exc()
            return FAILED
        _report(f"error: {describe_error(error)}")
        return FAILED
