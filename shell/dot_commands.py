"""Dot commands: the commands of the shell itself. Each runs a function of the console and the words after the command.

In: a line that begins with a dot. Out: a change of the console, or text. ``.help`` and completion are generated from
one registry of all commands. A command can be abbreviated to any unique prefix. An unknown command or wrong arguments
raise a ValueError that lists what is valid.
"""

from __future__ import annotations

import math
import os
import shlex
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from kvstore.errors import suggest
from kvstore.integrations.saved_queries import delete_query, format_missing_message, load_queries, save_query
from kvstore.language import format_identifier, format_literal

from .command_options import open_command_store
from .configuration import get_config_path, parse_switch, set_keys, set_mode
from .console import DEFAULT_PROMPT, Console, ShellExit, get_state_folder, parse_parameter_value
from .layout import format_definitions, wrap_message
from .pager import get_default_pager
from .psql_commands import find_equivalent, suggest_replacement, suggest_sqlite_replacement
from .render import MODES
from .script import ScriptItem, split_items
from .statement_help import find_syntax

#: Seconds between two runs of a statement by ``.watch``.
_WATCH_SECONDS = 2.0
#: The number of statements that ``.history`` prints by default.
_DEFAULT_HISTORY_ENTRIES = 20


@dataclass(frozen=True, slots=True)
class Command:
    """A dot command: its name, its arguments as ``.help`` shows them, a description, and the function that runs it.

    Arguments in brackets are optional; ``max_arguments`` is set if there can be more than shown. ``argument_kind``
    selects the completions of the first argument, such as "path". If ``is_raw``, the second and last argument is the
    rest of the line, unchanged.
    """

    name: str
    arguments: str
    description: str
    run: Callable[[Console, list[str]], None]
    argument_kind: str = ""
    max_arguments: int | None = None
    is_raw: bool = False

    def get_argument_limits(self) -> tuple[int, int]:
        """Return the minimum and the maximum number of arguments. Those shown in brackets are optional."""
        shown_arguments = self.arguments.split()
        num_required = len([argument for argument in shown_arguments if not argument.startswith("[")])
        return num_required, self.max_arguments or len(shown_arguments)


def run_command(console: Console, line: str) -> None:
    """Run a dot command. Raises ValueError if it does not exist or is used wrongly, and ShellExit for ``.quit``."""
    if line.startswith("\\"):  # a command of psql
        equivalent = find_equivalent(line)
        if equivalent is None:
            raise ValueError(suggest_replacement(line))
        line = equivalent
    name, *rest_parts = line[1:].split(maxsplit=1) or [""]
    rest = "".join(rest_parts)
    command = find_command(name)
    min_arguments, max_arguments = command.get_argument_limits()
    try:
        arguments = _split_first_word(rest) if command.is_raw else shlex.split(rest)
    except ValueError as error:  # a quote is never closed
        raise ValueError(f"{line}: {str(error).lower()}") from None
    if not min_arguments <= len(arguments) <= max_arguments:
        raise ValueError(f"usage: .{command.name} {command.arguments}".rstrip())
    if command.argument_kind == "path":
        arguments = [os.path.expanduser(argument) for argument in arguments]
    command.run(console, arguments)


def _split_first_word(text: str) -> list[str]:
    """Return the first word of a text, without its quotes, and the rest unchanged; an empty part is omitted.

    Raises ValueError if the word has an opening quote without a closing quote.
    """
    stream = StringIO(text)
    lexer = shlex.shlex(stream, posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    word = lexer.get_token()  # reads no further than the character after the word
    return [argument for argument in (word, stream.read().strip()) if argument]


def find_command(name: str) -> Command:
    """Return the command with this name, or the only command with this prefix. Raises ValueError, with a suggestion."""
    if name in COMMANDS:
        return COMMANDS[name]
    matches = [command for command in COMMANDS if command.startswith(name)] if name else []
    if len(matches) == 1:
        return COMMANDS[matches[0]]
    replacement = suggest_sqlite_replacement(name)
    if replacement is not None:
        raise ValueError(replacement)
    suggestions = matches or list(filter(None, [suggest(name, COMMANDS)]))
    *first_suggestions, last_suggestion = [f".{command}" for command in suggestions] or [""]
    choices = f"{', '.join(first_suggestions)} or {last_suggestion}" if first_suggestions else last_suggestion
    hint = f"did you mean {choices}?" if suggestions else ".help lists the commands"
    raise ValueError(f"there is no command .{name}; {hint}")


def _print_help(console: Console, arguments: list[str]) -> None:
    """Print the usage and description of the commands in ``arguments``, or of all commands without arguments.

    The first words of a statement print its syntax instead; a word that begins both prints both. Raises ValueError
    for any other word.
    """
    syntax_lines = find_syntax(arguments) if arguments else []
    lines = [wrap_message(line, console.width) for line in syntax_lines]
    if syntax_lines and (len(arguments) > 1 or arguments[0] not in COMMANDS):
        console.write_lines(lines)
        return
    commands = [find_command(name.lstrip(".")) for name in arguments] or list(COMMANDS.values())
    pairs = [(f".{command.name} {command.arguments}".rstrip(), command.description) for command in commands]
    lines += format_definitions(pairs, console.width)
    if not arguments:
        closing_line = "Anything else is a statement, which ends with ';'. Try SHOW TABLES; or .help INSERT"
        lines.append(wrap_message(closing_line, console.width))
    console.write_lines(lines)


def _quit(console: Console, arguments: list[str]) -> None:
    """Leave the shell, by raising ShellExit."""
    raise ShellExit


def _run_saved_statement(console: Console, arguments: list[str]) -> None:
    """Print and run the saved statement with the name in ``arguments``, or list all saved statements without a name.

    Raises ValueError for an unknown name.
    """
    statements = load_queries()
    if not arguments:
        console.write("SAVED", ("name", "statement"), list(statements.items()))
        if not statements:
            console.notify("no statements are saved yet; .save NAME saves the last statement")
        return
    (name,) = arguments
    if name not in statements:
        raise ValueError(format_missing_message(name, statements))
    console.notify(statements[name])
    console.run_items(split_items(statements[name]))


def _save_statement(console: Console, arguments: list[str]) -> None:
    """Save a statement under a name; ``arguments`` are the name and the statement (default: the last one that ran).

    Raises ValueError if there is no statement yet.
    """
    name, statement = arguments if len(arguments) == 2 else (*arguments, console.last_statement)
    if not statement:
        raise ValueError("there is no statement to save yet; run one, or add it after the name")
    save_query(name, statement)
    console.notify(f"saved; \\n {name} runs it")


def _delete_saved_statement(console: Console, arguments: list[str]) -> None:
    """Delete the saved statement with the name in ``arguments``."""
    (name,) = arguments
    delete_query(name)
    console.notify(f"{name} is deleted")


def _print_tables(console: Console, arguments: list[str]) -> None:
    """Print the names of the tables."""
    for table in console.store.tables():
        print(table.name, file=console.out)


def _print_schema(console: Console, arguments: list[str]) -> None:
    """Print the tables that ``arguments`` name, or all, as CREATE TABLE statements."""
    store = console.store
    lines = []
    for table in map(store.describe_table, arguments) if arguments else store.tables():
        columns = ", ".join(f'"{column.name}" {column.type or ""}'.rstrip() for column in table.columns)
        lines.append(f'CREATE TABLE "{table.name}" ({columns});')
    console.write_lines(lines)


def _describe_tables(console: Console, arguments: list[str]) -> None:
    """Write the columns of the table that ``arguments`` name, or all tables and their descriptions, as a result."""
    if arguments:
        table = console.store.describe_table(arguments[0])
        columns = [(column.name, column.type, column.index) for column in table.columns]
        console.write("DESCRIBE", ("column", "type", "index"), columns)
    else:
        console.write(
            "DESCRIBE", ("table", "description"), [(table.name, table.description) for table in console.store.tables()]
        )


def _set_expanded(console: Console, arguments: list[str]) -> None:
    """Turn the ``line`` mode, with each column on its own line, on or off; without an argument, toggle it."""
    is_expanded = parse_switch(arguments[0]) if arguments else console.mode != "line"
    if is_expanded and console.mode != "line":
        console.collapsed_mode, console.mode = console.mode, "line"
    elif not is_expanded and console.mode == "line":
        console.mode = console.collapsed_mode
    console.notify(f"expanded display {'on' if is_expanded else 'off'}")


def _set_or_show_mode(console: Console, arguments: list[str]) -> None:
    """Set the format of results to the name in ``arguments``; without an argument, print the current format."""
    if arguments:
        set_mode(console, arguments[0])
    else:
        console.notify(f"mode {console.mode}")


def _set_output(console: Console, arguments: list[str]) -> None:
    """Redirect further results to the file in ``arguments``; without one, or with ``stdout``, to standard output."""
    console.redirect_output(arguments[0] if arguments and arguments[0] != "stdout" else None)


def _set_output_once(console: Console, arguments: list[str]) -> None:
    """Send only the next result to the file in ``arguments``."""
    (path,) = arguments
    console.once_path = Path(path)


def _run_script(console: Console, arguments: list[str]) -> None:
    """Run the statements of the file in ``arguments``."""
    (path,) = arguments
    console.run_script(path)


def _set_timer(console: Console, arguments: list[str]) -> None:
    """Turn the display of each statement's duration ``on`` or ``off``; without an argument, toggle it."""
    console.timer = parse_switch(arguments[0]) if arguments else not console.timer
    console.notify(f"timer {'on' if console.timer else 'off'}")


def _set_bail(console: Console, arguments: list[str]) -> None:
    """Stop scripts at the first failure (``on``), or continue after failures (``off``)."""
    (switch,) = arguments
    console.bail = parse_switch(switch)


def _set_prompt(console: Console, arguments: list[str]) -> None:
    """Set the prompts of the first line and of further lines; restore the default of a missing argument."""
    console.prompt = arguments[0] if arguments else DEFAULT_PROMPT
    console.continuation = arguments[1] if len(arguments) > 1 else None


def _set_pager(console: Console, arguments: list[str]) -> None:
    """Set the command that shows long results, and print it. ``off`` disables it, ``on`` restores the default."""
    if arguments:
        pager_command = " ".join(arguments)
        console.pager = {"off": None, "on": get_default_pager()}.get(pager_command.lower(), pager_command)
    console.notify(f"pager {console.pager or 'off'}")


def _edit_statement(console: Console, arguments: list[str]) -> None:
    """Edit the file in ``arguments``, or the last statement, in an editor; put the result into the next prompt.

    Raises ValueError without a terminal, for a path that is not a file, or if the editor fails, and OSError if the file
    cannot be read.
    """
    import click

    if not console.is_interactive:
        raise ValueError(".edit works only in a terminal")
    text = console.last_statement
    if arguments:
        path = Path(arguments[0])
        if path.exists() and not path.is_file():
            raise ValueError(f"{arguments[0]} is not a regular file; specify a text file")
        text = path.read_text(encoding="utf-8")
    try:
        edited_text = click.edit(text, extension=".sql")
    except click.ClickException as error:
        raise ValueError(f"{error.message}; set VISUAL or EDITOR to an editor that works") from error
    # The edited or unchanged text appears at the prompt; the user decides whether to run it.
    console.draft = (text if edited_text is None else edited_text).strip()


def _set_or_show_keys(console: Console, arguments: list[str]) -> None:
    """Set the key bindings if ``arguments`` name them, and print them."""
    if arguments:
        set_keys(console, arguments[0])
    console.notify(f"keys {console.keys}")


def _set_parameter(console: Console, arguments: list[str]) -> None:
    """Set a parameter of statements to a value, or print parameters.

    ``arguments`` are the name and the value to set, the name of a parameter to print, or empty to print all.
    """
    if len(arguments) == 2:
        name, value = arguments
        console.parameters[name.removeprefix(":")] = parse_parameter_value(value)
        return
    names = [argument.removeprefix(":") for argument in arguments]
    for name, parameter_value in console.parameters.items():
        if not names or name in names:
            print(f":{name} = {format_literal(parameter_value)}", file=console.out)


def _repeat_statement(console: Console, arguments: list[str]) -> None:
    """Repeat the last statement until a failure or Ctrl-C.

    ``arguments`` are the seconds between two runs and the maximum number of runs, both optional. Raises ValueError if
    they are invalid, or if there is no statement yet.
    """
    try:
        pause = float(arguments[0]) if arguments else _WATCH_SECONDS
        max_runs = int(arguments[1]) if len(arguments) > 1 else math.inf
    except ValueError:
        pause, max_runs = -1.0, 0  # invalid
    if not 0 <= pause < threading.TIMEOUT_MAX or max_runs < 1:
        raise ValueError("usage: .watch [SECONDS [TIMES]], such as .watch 5")
    if not console.last_statement:
        raise ValueError("there is no statement to repeat; run one first")
    num_runs = 0
    with console.disable_pager():
        while console.repeat():
            num_runs += 1
            if num_runs == max_runs:
                return
            console.notify(f"{time.strftime('%H:%M:%S')}, again in {pause:g} s; Ctrl-C stops")
            time.sleep(pause)


def _ingest_path(console: Console, arguments: list[str]) -> None:
    """Ingest a file or folder, as sqlite3's ``.import`` would; ``arguments`` are its path and optionally its format."""
    path, *formats = arguments
    # Users of sqlite3 name a table instead of a format, and documents is the only one that can be filled.
    format_clauses = [f" AS {format_identifier(name)}" for name in formats if name.lower() != "documents"]
    console.run(ScriptItem(f"INGEST {format_literal(path)}{''.join(format_clauses)}"))


def _print_dump(console: Console, arguments: list[str]) -> None:
    """Print the statements that re-create the store, and report content that they cannot express as failures."""
    with console.store.snapshot() as snapshot:
        for statement in snapshot.dump():
            print(statement, file=console.out)
        for message in snapshot.not_in_dump():
            console.fail(message)


def _open_store(console: Console, arguments: list[str]) -> None:
    """Replace the open store with the one whose path is in ``arguments``, which is read-only with ``--readonly``.

    Raises ValueError if the arguments are invalid, and the errors of opening a store.
    """
    readonly = "--readonly" in arguments
    paths = [argument for argument in arguments if argument != "--readonly"]
    if len(paths) != 1:
        raise ValueError("usage: .open STORE [--readonly]")
    console.change_store(open_command_store(Path(paths[0]), readonly=readonly))
    console.notify(f"opened {console.store.path}")


def _print_settings(console: Console, arguments: list[str]) -> None:
    """Print the settings of the shell."""
    rows = {
        "store": console.store.path,
        "readonly": console.store.readonly,
        "mode": console.mode,
        "output": "stdout" if console.out is sys.stdout else console.out.name,
        "prompt": repr(console.prompt),
        "keys": console.keys,
        "pager": console.pager or "off",
        "config": get_config_path(),
        "timer": "on" if console.timer else "off",
        "bail": "on" if console.bail else "off",
    }
    for name, value in rows.items():
        print(f"{name:>8}: {value}", file=console.out)


def _print_history(console: Console, arguments: list[str]) -> None:
    """Print the last statements, oldest first; ``arguments`` can contain the maximum number of statements.

    Raises ValueError if it is not a number.
    """
    from prompt_toolkit.history import FileHistory

    path = get_state_folder() / "history"
    if arguments and not arguments[0].isdigit():
        raise ValueError(f"expected a number of statements, not {arguments[0]}")
    max_entries = int(arguments[0]) if arguments else _DEFAULT_HISTORY_ENTRIES
    entries = list(FileHistory(str(path)).load_history_strings())[:max_entries] if path.exists() else []
    console.write_lines(reversed(entries))


def _print_arguments(console: Console, arguments: list[str]) -> None:
    """Print the arguments on one line, where results are written."""
    print(*arguments, file=console.out)


_COMMAND_LIST = (
    Command(
        "help",
        "[COMMAND|STATEMENT]",
        "list the commands, describe one, or show the syntax of a statement",
        _print_help,
        "command",
        max_arguments=9,
    ),
    Command("quit", "", "leave the shell; also .exit and Ctrl-D", _quit),
    Command("exit", "", "leave the shell", _quit),
    Command("open", "STORE [--readonly]", "close this store and open another", _open_store, "path"),
    Command("tables", "", "list the tables that SELECT reads", _print_tables),
    Command("schema", "[TABLE]", "show the columns of all tables, or of one", _print_schema, "table"),
    Command("describe", "[TABLE]", "list the tables, or the columns of one; also \\d", _describe_tables, "table"),
    Command("expanded", "[on|off]", "print one column per line; also \\x", _set_expanded),
    Command("saved", "[NAME]", "list the saved statements, or run one; also \\n", _run_saved_statement, "saved"),
    Command(
        "save",
        "NAME [STATEMENT]",
        "save a statement, or the last one, under a name; also \\ns",
        _save_statement,
        is_raw=True,
    ),
    Command("unsave", "NAME", "delete a saved statement; also \\nd", _delete_saved_statement, "saved"),
    Command("mode", "[MODE]", f"show or set the format of results: {', '.join(MODES)}", _set_or_show_mode, "mode"),
    Command("output", "[FILE]", "send results to a file, or to the terminal again", _set_output, "path"),
    Command("once", "FILE", "send the next result to a file", _set_output_once, "path"),
    Command("read", "FILE", "run the statements and commands of a file", _run_script, "path"),
    Command("import", "FILE [FORMAT]", "ingest a file or folder; the same as INGEST", _ingest_path, "path"),
    Command("dump", "", "print statements that re-create the documents, edges and aliases", _print_dump),
    Command(
        "edit",
        "[FILE]",
        "edit the last statement, or a file, in $EDITOR; press Enter to run it",
        _edit_statement,
        "path",
    ),
    Command("timer", "[on|off]", "print how long each statement took; also \\timing", _set_timer, "switch"),
    Command("bail", "on|off", "stop a script at the first failure", _set_bail, "switch"),
    Command(
        "pager",
        "[COMMAND|on|off]",
        "show long results with $PAGER, or with another command",
        _set_pager,
        max_arguments=9,
    ),
    Command(
        "parameter", "[NAME [VALUE]]", "show or set the value of :NAME in statements: a number or text", _set_parameter
    ),
    Command("watch", "[SECONDS [TIMES]]", "repeat the last statement until Ctrl-C", _repeat_statement),
    Command("keys", "[emacs|vi]", "show or set the key bindings", _set_or_show_keys, "keys"),
    Command("prompt", "[MAIN [CONTINUE]]", "set the prompts; \\d is replaced by the store's name", _set_prompt),
    Command("history", "[N]", "show the last N statements (default 20)", _print_history),
    Command("print", "[TEXT]...", "print text in the output", _print_arguments, max_arguments=1000),
    Command("show", "", "show the settings of the shell", _print_settings),
)

COMMANDS: dict[str, Command] = {command.name: command for command in _COMMAND_LIST}
