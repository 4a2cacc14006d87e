"""Options that several commands share, such as ``--mode``, and functions that check their values or open the store.

In: arguments. Out: settings and parameters; a store. A wrong argument is a ``click.BadParameter``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Any

import click

import kvstore
from kvstore.errors import EmbedderError, InputError, KvstoreError, LanguageError, SettingsMismatchError
from kvstore.settings import FixedSettings

from . import command_completion as completing
from .render import MODES

#: Exit statuses.
FAILED = 1
INTERRUPTED = 130


class OptionError(click.ClickException):
    """An error that the value of an option caused. The exit status is 2, as for click's own usage errors."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        """Write the message to standard error, as kvstore writes all messages; click's argument ``file`` is ignored."""
        report_message(f"error: {self.message}")


@contextmanager
def convert_to_option_errors(*error_types: type[KvstoreError]) -> Iterator[None]:
    """Convert an InputError, or an error of ``error_types``, that the ``with`` block raises to an OptionError."""
    caught_types: tuple[type[KvstoreError], ...] = (InputError, *error_types)
    try:
        yield
    except caught_types as error:
        raise OptionError(str(error)) from error


class StorePath(click.Path):
    """The path of a store. An empty string, such as an unset variable, does not mean the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert an argument to a path, for click; an empty string is an error."""
        if value == "":
            self.fail("the path is empty; use . for the current folder", param, ctx)
        return super().convert(value, param, ctx)


STORE = click.argument("store", type=StorePath(path_type=Path), shell_complete=completing.complete_folders)
MODE = click.option(
    "--mode", type=click.Choice(MODES), help="Format of results (default: table on a terminal, else tsv)."
)
JSON = click.option("--json", "as_json", is_flag=True, help="Same as --mode json.")


def add_mode_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options ``--mode`` and ``--json`` to a command.

    The command gets the selected format of results as ``mode``, None if neither option is used.
    """

    @wraps(command)
    def run(*args: Any, as_json: bool, mode: str | None, **options: Any) -> int:
        """Run the command with the format of results that the two options select."""
        return command(*args, mode=merge_modes(as_json, mode), **options)

    return JSON(MODE(run))


def merge_modes(as_json: bool, mode: str | None) -> str | None:
    """Return the format of results that ``--json`` and ``--mode`` select, None if neither is used.

    Raises UsageError if they contradict each other.
    """
    if as_json and mode not in (None, "json"):
        raise click.UsageError("--json and --mode contradict each other; omit one")
    return "json" if as_json else mode


#: Seconds to wait for another writer.
_DEFAULT_LOCK_TIMEOUT = 5.0
_OPENING_OPTIONS = (
    click.option(
        "--embedder",
        metavar="NAME",
        help="Embedder (model that computes vectors) of a new store; an existing store must already use it.",
    ),
    click.option(
        "--setting",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="Setting of a new store, such as chunk_tokens=200 (repeatable). An existing store must have the same "
        "value.",
    ),
    click.option("--language", metavar="NAME", help="Same as --setting language=NAME: en, rules, or a spaCy pipeline."),
    click.option("--stemmer", metavar="NAME", help="Same as --setting stemmer=NAME: english, german, ..., none."),
    click.option(
        "--lock-timeout",
        type=click.FloatRange(0),
        default=_DEFAULT_LOCK_TIMEOUT,
        metavar="SECONDS",
        show_default=True,
        help="Maximum time to wait for another writer.",
    ),
)
PARAMETERS = click.option(
    "-p",
    "--parameter",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="Value of the :NAME parameter in statements, such as year=2024 (repeatable). Values such as 2024 and 1.5 are "
    "numbers; all other values are text.",
)


def add_opening_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options for opening or creating a store to a command.

    The command gets them as ``opening``, the arguments of :func:`open_command_store` by name.
    """

    @wraps(command)
    def run(
        *args: Any,
        embedder: str | None,
        settings: tuple[str, ...],
        language: str | None,
        stemmer: str | None,
        lock_timeout: float,
        **options: Any,
    ) -> int:
        """Run the command with the arguments that the options select."""
        new_settings = parse_settings(settings, language, stemmer)
        opening = {"embedder": embedder, "settings": new_settings, "lock_timeout": lock_timeout}
        return command(*args, opening=opening, **options)

    for option in reversed(_OPENING_OPTIONS):  # in the help, the last added option comes first
        run = option(run)
    return run


def _list_formats() -> list[str]:
    """Return the names of all formats, for completion."""
    from kvstore import language

    return list(language.list_formats())


def _validate_format(_: click.Context, __: click.Parameter, format_name: str | None) -> str | None:
    """Return the value of ``--as`` unchanged, None without the option. Raises BadParameter for an unknown format."""
    if format_name is not None and format_name not in kvstore.FORMATS:
        from kvstore import language

        # A broken reader is accepted here, because it reports its own error when it is used.
        broken_readers = {plugin.name for plugin in kvstore.plugins() if plugin.kind == "reader"}
        formats = language.list_formats()
        if format_name not in formats and format_name not in broken_readers:
            raise click.BadParameter(f"{format_name!r} is not a format; formats are {', '.join(formats)}")
    return format_name


@contextmanager
def explain_write_errors(path: Path) -> Iterator[None]:
    """Replace an OSError from the ``with`` block, which writes the file at ``path``, with a ValueError that names it.

    Python's own error for a full disk does not name the file.
    """
    try:
        yield
    except OSError as error:
        raise ValueError(f"{path}: cannot be written ({error.strerror}); choose another path") from error


def validate_folder(_: click.Context, __: click.Parameter, file: Path | None) -> Path | None:
    """Return ``file``, the path of a file to write, unchanged (None without the option).

    Raises BadParameter if its folder does not exist.
    """
    if file is not None and not file.parent.is_dir():
        raise click.BadParameter(f"the folder {file.parent} does not exist; create it first")
    return file


class _FormatOption(click.Option):
    """The ``--as`` option. Its help lists the formats; the readers, which are large, are imported to show it."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Set the help text, which lists the formats, and return the option's names and this text, for click."""
        self.help = f"Format of the files: {', '.join(kvstore.FORMATS)}, or units (default: detected for each file)."
        return super().get_help_record(ctx)


FORMAT = click.option(
    "--as",
    "format_name",
    cls=_FormatOption,
    callback=_validate_format,
    metavar="FORMAT",
    shell_complete=completing.make_word_completer(_list_formats),
)
INCLUDE = click.option(
    "--include",
    multiple=True,
    metavar="PATTERN",
    help="In folders, ingest only files that match this pattern, such as '*.wiki' (repeatable).",
)
EXCLUDE = click.option(
    "--exclude",
    multiple=True,
    metavar="PATTERN",
    help="In folders, skip files and folders that match this pattern, such as drafts or '*.log' (repeatable).",
)
READER_OPTIONS = click.option(
    "-o",
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="Option of a file format, such as encoding=latin-1 (repeatable). Formats with rows, such as csv, have "
    "the options key, text and title, which name columns or fields. The csv and pairs formats have the delimiter "
    "option. The pairs format also has the options child, parent and tree.",
)


def split_assignment(text: str, option: str) -> tuple[str, str]:
    """Split NAME=VALUE, the value of ``option``, into name and value. Raises BadParameter, which names the option."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=option)
    return name, value


def parse_parameters(parameters: tuple[str, ...]) -> dict[str, Any]:
    """Parse arguments NAME=VALUE or :NAME=VALUE, and return the values by name, without the colon.

    Values that look like numbers become numbers.
    """
    from .console import parse_parameter_value

    assignments = dict(split_assignment(parameter, "-p") for parameter in parameters)
    return {name.removeprefix(":"): parse_parameter_value(value) for name, value in assignments.items()}


def parse_settings(settings: tuple[str, ...], language: str | None, stemmer: str | None) -> dict[str, Any]:
    """Return the settings of a new store by name: those in ``settings`` (each NAME=VALUE), language and stemmer.

    A missing language or stemmer (None) adds no setting. Values of integer settings become int.
    """
    new_settings: dict[str, Any] = dict(split_assignment(setting, "--setting") for setting in settings)
    if language is not None:
        new_settings["language"] = language
    if stemmer is not None:
        new_settings["stemmer"] = stemmer
    integer_settings = {field.name for field in fields(FixedSettings) if isinstance(field.default, int)}
    for name in new_settings.keys() & integer_settings:
        if new_settings[name].removeprefix("-").isdecimal():  # kvstore.open reports any other value
            new_settings[name] = int(new_settings[name])
    return new_settings


def open_command_store(
    path: Path,
    *,
    create: bool = False,
    readonly: bool = False,
    embedder: str | None = None,
    settings: Mapping[str, Any] | None = None,
    lock_timeout: float = _DEFAULT_LOCK_TIMEOUT,
) -> kvstore.Store:
    """Open the store of a command, and create it if it is missing and ``create`` is True.

    A new store gets the ``embedder`` (None: the best one installed) and the ``settings``. ``lock_timeout`` is the
    number of seconds to wait for another writer. The error for a missing store says which commands create one. An error
    that the embedder or the settings can cause is raised as an OptionError if they come from options.
    """
    has_options = embedder is not None or settings
    option_errors = (EmbedderError, LanguageError, SettingsMismatchError)
    with (
        nullcontext() if create else explain_missing_store(path),
        convert_to_option_errors(*option_errors) if has_options else nullcontext(),
    ):
        return kvstore.open(
            path, create=create, readonly=readonly, embedder=embedder, settings=settings, lock_timeout=lock_timeout
        )


@contextmanager
def explain_missing_store(path: Path) -> Iterator[None]:
    """Replace a StoreNotFoundError from the ``with`` block with one that says which commands create a store."""
    from kvstore.errors import StoreNotFoundError

    try:
        yield
    except StoreNotFoundError as error:
        if error.__cause__ is not None:  # the store was deleted while it was being opened
            raise
        remedy = f"create one with kvstore ingest {path} FOLDER or kvstore shell {path}"
        raise StoreNotFoundError(f"{path}: there is no store here; {remedy}") from error


def report_message(text: str) -> None:
    """Write a message for the user to standard error."""
    from .console import write_message

    write_message(text)
