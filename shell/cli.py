"""The ``kvstore`` command.

In: arguments. Out: results on standard output, everything else on standard error. Exit status: 0 on success; 1 if a
statement, a file or a check failed; 2 for wrong usage; 130 on Ctrl-C. Errors are one message without a traceback; set
KVSTORE_TRACEBACK=1 to get the traceback. Heavy modules are imported only when a command needs them, so ``kvstore
--help`` is fast.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
import warnings
from pathlib import Path
from typing import NoReturn

import click

import kvstore
from kvstore import process
from kvstore.errors import StatementError

from . import command_completion as completing
from .command_options import (
    FAILED,
    INTERRUPTED,
    STORE,
    add_mode_options,
    convert_to_option_errors,
    explain_missing_store,
    explain_write_errors,
    open_command_store,
    report_message,
    validate_folder,
)
from .evaluate_command import evaluate
from .ingest_commands import ingest, watch
from .masking import mask_output
from .plugin_commands import CommandGroup, replace_suggestion
from .statement_commands import ask, check, compact, info, shell


@click.group(
    cls=CommandGroup,
    commands=[shell, ingest, watch, ask, evaluate, info, check, compact],
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Installed packages can add commands; kvstore plugins lists the added commands.",
)
@click.version_option(kvstore.__version__, prog_name="kvstore")
def cli() -> None:
    """Store documents in an embedded knowledge store, and get answers with citations."""


@cli.command()
@STORE
@click.argument("destination", type=click.Path(path_type=Path))
@click.option(
    "--compact/--no-compact",
    default=True,
    show_default=True,
    help="Leave unused space out of the copy. With --no-compact, writers wait until the copy is complete.",
)
def backup(store: Path, destination: Path, compact: bool) -> int:
    """Copy the current state of STORE to DESTINATION.

    During the backup, other processes can read STORE and, unless you use --no-compact, write to it."""
    with open_command_store(store, readonly=True) as opened_store:
        opened_store.backup(destination, compact=compact)
        report_message(f"copied {store} to {destination}")
        return 0


@cli.command()
@STORE
@click.option("--no-backup", is_flag=True, help="Do not keep a backup of the old store.")
def migrate(store: Path, no_backup: bool) -> int:
    """Convert STORE to the format of the installed kvstore.

    kvstore keeps a backup of the old store next to STORE."""

    with explain_missing_store(store):
        migration = kvstore.migrate(store, backup=not no_backup)
    if migration.backup is not None:
        report_message(f"{store}: the old store is kept in {migration.backup}")
    losses = [] if migration.rebuilt is None else migration.rebuilt.lost
    for loss in losses:
        report_message(f"lost: {loss}")
    report_message(
        f"{store}: converted to the current format" if migration.changed else f"{store}: the format is already current"
    )
    return FAILED if losses else 0


@cli.command()
@click.argument("shell", type=click.Choice(completing.SHELLS))
def completion(shell: str) -> int:
    """Print the completion script for bash, zsh or fish.

    \b
    source <(kvstore completion bash)               in ~/.bashrc
    source <(kvstore completion zsh)                in ~/.zshrc, after compinit
    kvstore completion fish | source                in ~/.config/fish/config.fish
    """
    print(completing.build_completion_script(cli, shell))
    return 0


@cli.command()
@click.option(
    "--store",
    type=click.Path(path_type=Path),
    help="Folder of the store (default: a temporary folder, which kvstore deletes after the tour).",
)
@click.option("--embedder", metavar="NAME", help="Embedder of the store (default: the best installed embedder).")
def demo(store: Path | None, embedder: str | None) -> int:
    """Run a tour with sample documents.

    The tour ingests documents, looks up entities, asks questions, changes a document and repeats the questions."""
    from .demo import run_tour

    return run_tour(store, embedder)


@cli.command()
@add_mode_options
def plugins(mode: str | None) -> int:
    """List the plugins of installed packages.

    Plugins are embedders, file readers, strategies and commands. The "state" column shows whether a plugin has a
    problem."""
    from .render import print_rows

    plugin_list = [*kvstore.plugins(), *cli.installed_plugins.list_plugins()]
    rows = [
        (plugin.kind, plugin.name, plugin.package, plugin.version, plugin.problem or "used") for plugin in plugin_list
    ]
    print_rows(("kind", "name", "package", "version", "state"), rows, mode)
    return 0


@cli.command()
@STORE
@click.option("--write", is_flag=True, help="Let clients change the store; create the store if it is missing.")
@click.option(
    "--tokens",
    type=click.IntRange(500),
    default=2000,
    show_default=True,
    help="Maximum size of each result, in tokens.",
)
@click.option("--strategy", metavar="NAME", help="Strategy (search method) for calls that do not name a strategy.")
@click.option(
    "--where",
    metavar="CONDITION",
    help="Serve only documents that satisfy this condition, such as \"key LIKE 'hr/%'\".",
)
def mcp(store: Path, write: bool, tokens: int, strategy: str | None, where: str | None) -> int:
    """Serve STORE over the Model Context Protocol.

    An assistant starts this server, and communicates with it over standard input and output."""
    from kvstore.integrations.mcp_server import serve
    from kvstore.integrations.store_tools import StoreTools
    from kvstore.language import get_strategy

    if strategy is not None:
        with convert_to_option_errors():
            get_strategy(strategy)
    with open_command_store(store, create=write, readonly=not write) as opened_store:
        with convert_to_option_errors(StatementError):
            tools = StoreTools(opened_store, write=write, tokens=tokens, strategy=strategy, where=where)
        serve(tools)
        return 0


@cli.command()
@STORE
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1 (default 0: any free port).")
@click.option("--no-browser", is_flag=True, help="Print the URL, but do not open a browser.")
def explore(store: Path, port: int, no_browser: bool) -> int:
    """Show STORE in a web browser.

    The explorer runs on this machine until you press Ctrl-C. It cannot change STORE. Only users who know the printed
    URL can open it."""
    from kvstore.integrations.explore.serving import serve

    def announce(url: str) -> None:
        """Print the URL of the explorer to standard output, and how to use it to standard error."""
        print(url, flush=True)
        report_message("the explorer runs at this URL until Ctrl-C; anyone with the URL can read the store")

    with explain_missing_store(store):
        serve(store, port=port, browser=not no_browser, announce=announce)
    return 0


@cli.command()
@STORE
@click.argument("name", required=False)
@click.option(
    "--depth", type=click.IntRange(0, 64), default=2, show_default=True, help="Maximum number of steps from NAME."
)
@click.option("--tree", metavar="TREE", help="Show only this tree.")
@click.option(
    "--limit", type=click.IntRange(0), default=150, show_default=True, help="Maximum number of entities (0: no limit)."
)
@click.option(
    "--to",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    callback=validate_folder,
    shell_complete=completing.complete_files,
    help="File to write. The suffix selects the format: .svg, .html, .dot, .graphml, .gexf or .json.",
)
def graph(store: Path, name: str | None, depth: int, tree: str | None, limit: int, file: Path) -> int:
    """Write a graph of entities to a file.

    The graph contains the entities (people, places and things) that are connected to NAME or, without NAME, all trees
    (hierarchies of entities) in STORE."""
    from kvstore.integrations.entity_network import build_network_around, build_whole_network
    from kvstore.integrations.network_files import FORMATS, format_network
    from kvstore.language import format_count

    file_format = file.suffix.lower().removeprefix(".")
    if file_format not in FORMATS:
        raise click.BadParameter(f"the name of {file} must end in .{', .'.join(FORMATS)}", param_hint="--to")
    with open_command_store(store, readonly=True) as opened_store:
        # For --limit 0, a limit that no network reaches.
        max_names = limit or int(opened_store.statistics()["entities"]) + 1
        if name is None:
            network = build_whole_network(opened_store, tree=tree, limit=max_names)
        else:
            network = build_network_around(opened_store, name, depth=depth, tree=tree, limit=max_names)
    if name is not None:
        title = f"Around {network.nodes[0].name if network.nodes else name}"  # the first name is the stored spelling
    elif tree is not None:
        title = f"The tree {tree}"
    else:
        title = store.resolve().name
    text = format_network(file_format, network, title)
    with explain_write_errors(file):
        file.write_text(text, encoding="utf-8")
    omission = (
        f"; {format_count(network.num_omitted, 'entity')} omitted, --limit 0 includes all"
        if network.num_omitted
        else ""
    )
    report_message(
        f"{file}: {format_count(len(network.nodes), 'entity')}, {format_count(len(network.edges), 'edge')}{omission}"
    )
    return 0


def main() -> NoReturn:
    """Run the console command and exit."""
    # Open the null device for each standard stream that was closed at the start. Otherwise the data file of a store
    # could get the descriptor of standard output.
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115
    process.runs_only_kvstore = True  # so spaCy is imported without modules that kvstore does not need
    warnings.showwarning = lambda message, *_: report_message(f"warning: {message}")
    status = run(sys.argv[1:])
    gc.freeze()  # the interpreter need not search all objects for cycles before it exits
    sys.exit(status)


def run(arguments: list[str]) -> int:
    """Run ``kvstore`` with these arguments, or write the completions that a shell requests; return the exit status.

    Control characters in the output of the command are masked.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # escape characters that the terminal lacks, instead of failing
            stream.reconfigure(errors="backslashreplace")
    request = os.environ.get(completing.COMPLETION_VARIABLE)
    if request:
        return completing.write_completions(cli, request)
    with mask_output(), warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: print(f"warning: {message}", file=sys.stderr)
        return _run_command(arguments)


def _run_command(arguments: list[str]) -> int:
    """Run ``kvstore`` with these arguments; report an error as one message, and return the exit status."""
    try:
        # Not cli.main, which handles Ctrl-C and closed pipes in its own way.
        with cli.make_context("kvstore", arguments) as context:
            status = cli.invoke(context)
        sys.stdout.flush()
        return int(status or 0)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        replace_suggestion(error).show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        report_message("interrupted")
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
        report_message(f"error: {describe_error(error)}")
        return FAILED
