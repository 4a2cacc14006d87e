"""The reference of the ``kvstore`` command, as a man page and as a documentation page, generated from its help.

In: the commands and options as click defines them, and the text below. Out: ``docs/kvstore.1`` (roff) and
``docs/command.md``. A test compares both with the command; ``python tools/command_reference.py`` regenerates them.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent

STATUS = (
    ("0", "success"),
    ("1", "a statement, a file or a check failed; kvstore completed the other statements, files or checks"),
    ("2", "the command or the value of an option was invalid; nothing was done"),
    ("130", "Ctrl-C interrupted the command; committed changes are kept"),
)
ENVIRONMENT = (
    ("KVSTORE_LLM_MODEL, KVSTORE_LLM_URL, KVSTORE_LLM_KEY", "the language model that answers, its server and its key"),
    (
        "KVSTORE_OPENAI_BASE_URL, OPENAI_BASE_URL, OPENAI_API_KEY",
        "the server of the embedder openai:MODEL, and its key",
    ),
    ("KVSTORE_TRACEBACK", "1: print tracebacks"),
    ("NO_COLOR", "no colors on a terminal"),
)
FILES = (
    ("$XDG_CONFIG_HOME/kvstore/config", "configuration of the shell (else ~/.config)"),
    ("$XDG_STATE_HOME/kvstore/history", "history of the shell (else ~/.local/state)"),
    ("$XDG_CACHE_HOME/kvstore/", "exported embedders and cached answers of language models (else ~/.cache)"),
)


def format_usage(command: click.Command) -> str:
    """Return the usage of a command without its name, such as "[OPTIONS] PATH"."""
    pieces = ["[OPTIONS]"] if any(isinstance(parameter, click.Option) for parameter in command.params) else []
    with click.Context(command) as context:
        pieces += [
            parameter.make_metavar(context) for parameter in command.params if isinstance(parameter, click.Argument)
        ]
    return " ".join(pieces)


def iter_options(command: click.Command) -> Iterator[tuple[str, str]]:
    """Yield the options of a command except ``--help``: the syntax and the help text of each."""
    with click.Context(command) as context:
        for parameter in command.params:
            record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
            if record is not None:
                yield record[0], " ".join(record[1].split())


def split_help(command: click.Command) -> list[str]:
    """Return the help of a command as paragraphs; those that click marks as preformatted keep their lines."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(command.help or ""))
    return [
        paragraph.removeprefix("\b\n") if paragraph.startswith("\b") else " ".join(paragraph.split())
        for paragraph in paragraphs
    ]


def build_page(cli: click.Group) -> str:
    """Return the documentation page of the command."""
    lines = [
        "# The command",
        "",
        str(cli.help),
        "",
        "`kvstore COMMAND --help` (or `-h`) prints this page's section on a command. Once kvstore is installed,",
        "`man kvstore` prints this page. For examples, see [Ask](how-to/ask.md). The [glossary](glossary.md) explains",
        "terms such as *chunk*.",
        "",
        "| exit status | meaning |",
        "|---|---|",
        *(f"| {status} | {meaning} |" for status, meaning in STATUS),
        "",
        "kvstore prints results to standard output, and all other messages to standard error. For environment",
        "variables, see [Settings](settings.md#environment-variables). Installed packages can add commands;",
        "`kvstore plugins` lists them.",
    ]
    for name, command in sorted(cli.commands.items()):
        lines += ["", f"## kvstore {name}", "", f"```plain\nkvstore {name} {format_usage(command)}\n```"]
        for text in split_help(command):
            lines += ["", f"```plain\n{text}\n```" if "\n" in text else text]
        lines += ["", "| option | effect |", "|---|---|"] if any(iter_options(command)) else []
        lines += [f"| `{syntax}` | {help_text} |" for syntax, help_text in _iter_cells(command)]
    return "\n".join(lines) + "\n"


def _iter_cells(command: click.Command) -> Iterator[tuple[str, str]]:
    """Yield the syntax and the help text of each option, as cells of a Markdown table, escaped."""
    for syntax, help_text in iter_options(command):
        yield syntax.replace("|", "\\|"), help_text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def build_man_page(cli: click.Group, version: str) -> str:
    """Return the man page of the command (roff, section 1)."""
    lines = [
        f'.TH KVSTORE 1 "" "kvstore {_escape_roff(version)}" "User Commands"',
        ".SH NAME",
        "kvstore \\- an embedded knowledge store: documents in, answers with citations out",
        ".SH SYNOPSIS",
        "\\fBkvstore\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR] [\\fIARGUMENTS\\fR]",
        ".SH DESCRIPTION",
        "A store is one directory. \\fBkvstore ingest\\fR stores documents; \\fBkvstore ask\\fR answers",
        "questions from them, with the document and the bytes that each sentence was taken from, and",
        "\\fBkvstore shell\\fR runs every statement of the language. No server, network or language model is needed.",
        ".SH COMMANDS",
        "Each command accepts \\fB\\-h\\fR, \\fB\\-\\-help\\fR.",
    ]
    for name, command in sorted(cli.commands.items()):
        lines += [f".SS kvstore {_escape_roff(name)} {_escape_roff(format_usage(command))}"]
        for index, text in enumerate(split_help(command)):
            lines += [".PP"] if index else []
            lines += [".nf", *map(_escape_roff, text.splitlines()), ".fi"] if "\n" in text else [_escape_roff(text)]
        for syntax, description in iter_options(command):
            lines += [".TP", f"\\fB{_escape_roff(syntax)}\\fR", _escape_roff(description)]
    for heading, rows in (("EXIT STATUS", STATUS), ("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES)):
        lines += [f".SH {heading}"]
        for term, description in rows:
            lines += [".TP", f"\\fB{_escape_roff(term)}\\fR", _escape_roff(description)]
    return "\n".join(lines) + "\n"


def _escape_roff(text: str) -> str:
    """Return text with the characters escaped that roff would interpret."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + escaped if escaped.startswith((".", "'")) else escaped


def build_files() -> dict[Path, str]:
    """Return the content of each generated file, by its path."""
    import kvstore
    from kvstore_shell.cli import cli

    return {
        ROOT / "docs" / "command.md": build_page(cli),
        ROOT / "docs" / "kvstore.1": build_man_page(cli, kvstore.__version__),
    }


if __name__ == "__main__":
    for path, text in build_files().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"{path.relative_to(ROOT)} generated", file=sys.stderr)
