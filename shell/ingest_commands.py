"""The commands that ingest files: ``ingest`` and ``watch``.

In: files and folders. Out: a store with their documents; progress and problems on standard error; with ``--json`` a
report on standard output.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import click

import kvstore
from kvstore.settings import TIME_LIMIT

from . import command_completion as completing
from .command_options import (
    EXCLUDE,
    FAILED,
    FORMAT,
    INCLUDE,
    INTERRUPTED,
    READER_OPTIONS,
    STORE,
    add_opening_options,
    convert_to_option_errors,
    open_command_store,
    report_message,
    split_assignment,
)


@click.command()
@STORE
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", shell_complete=completing.complete_files)
@FORMAT
@INCLUDE
@EXCLUDE
@click.option(
    "--prune",
    is_flag=True,
    help="Also delete documents whose files, or whose rows in a file, no longer exist in the ingested paths.",
)
@add_opening_options
@click.option("--quiet", is_flag=True, help="Print only failures.")
@click.option(
    "--workers",
    type=click.IntRange(0, 64),
    help="Number of worker processes (0: no worker; default: depends on the files, at most 4 without Ray).",
)
@click.option(
    "--engine",
    default="processes",
    metavar="NAME",
    show_default=True,
    help="Where the workers run: processes (on this machine), or a Ray cluster: ray://local or ray://HOST:PORT.",
)
@click.option(
    "--time-limit",
    type=click.FloatRange(0, min_open=True),
    default=TIME_LIMIT,
    metavar="SECONDS",
    show_default=True,
    help="Maximum time that a worker may spend on a file without progress.",
)
@click.option(
    "--memory-limit",
    type=click.FloatRange(0, min_open=True),
    metavar="MEGABYTES",
    help="Maximum memory of a worker (default: half of the machine's memory, divided by the number of workers).",
)
@READER_OPTIONS
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON object.")
def ingest(
    store: Path,
    paths: tuple[str, ...],
    format_name: str | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    prune: bool,
    opening: dict[str, Any],
    quiet: bool,
    workers: int | None,
    engine: str,
    time_limit: float,
    memory_limit: float | None,
    options: tuple[str, ...],
    as_json: bool,
) -> int:
    """Ingest files, folders and glob patterns into STORE.

    STORE is created if it does not exist."""
    from kvstore.language import check_engine, delete_unused_store, list_ingest_patterns

    from .interrupts import DeferredInterrupts
    from .progress import ProgressLine

    reader_options = _parse_reader_options(options)
    if not all(paths):
        raise click.BadParameter("a path is empty; use . for the current folder", param_hint="PATH")
    with convert_to_option_errors():
        check_engine(engine)
        list_ingest_patterns(include, exclude)
    is_new = not (store / "data.mdb").exists()
    problems = _list_path_problems(paths, format_name) if is_new else None
    if problems is not None:
        for problem in problems:
            report_message(problem)
        report_message(f"error: there is nothing to ingest, so no store was created at {store}")
        return FAILED
    with (
        open_command_store(store, create=True, **opening) as opened_store,
        DeferredInterrupts() as interrupts,
    ):
        progress_line = ProgressLine(sys.stderr, silent=quiet)
        try:
            report = opened_store.ingest(
                list(paths),
                format=format_name,
                prune=prune,
                include=include,
                exclude=exclude,
                options=reader_options,
                progress=interrupts.wrap_callback(progress_line.show),
                workers=workers,
                engine=engine,
                time_limit=time_limit,
                memory_limit=memory_limit,
            )
        except KeyboardInterrupt:
            progress_line.close()
            report_message(
                f"interrupted; {progress_line.describe_saved_progress()}; run the same command again to continue"
            )
            return INTERRUPTED
        except Exception:
            if is_new:
                delete_unused_store(opened_store)
            raise
        progress_line.close()
        _write_report(report, as_json=as_json, quiet=quiet)
        if is_new and report.failures and delete_unused_store(opened_store):
            report_message(f"nothing was stored, so no store was created at {store}")
        return FAILED if report.failures else 0


def _parse_reader_options(options: tuple[str, ...]) -> dict[str, str]:
    """Parse reader options, each NAME=VALUE, and return their values by name.

    Raises BadParameter for any other text, and OptionError for an unknown name or an invalid value.
    """
    from kvstore.language import ReadOptions

    reader_options = dict(split_assignment(option, "-o") for option in options)
    with convert_to_option_errors():
        ReadOptions.parse(reader_options)
    return reader_options


def _list_path_problems(paths: tuple[str, ...], format_name: str | None) -> list[str] | None:
    """Return an error message for each path if none of them can be ingested; None if at least one can.

    ``format_name`` is the format of the files (None: detected for each file).
    """
    from kvstore.errors import ReaderError
    from kvstore.language import check_source

    problems = []
    for path in paths:
        try:
            check_source(path, format_name)
        except ReaderError as error:
            problems.append(str(error))
        else:
            return None
    return problems


def _write_report(report: kvstore.IngestReport, *, as_json: bool, quiet: bool) -> None:
    """Print a report as JSON if ``as_json``, and its problems, counts and remarks as messages.

    If ``quiet``, only the problems are messages.
    """
    from kvstore.language import format_count

    if as_json:
        print(_format_report(report))
    for problem in report.problems:
        report_message(problem)
    if quiet:
        return
    if report.known:
        report_message(f"{format_count(report.known, 'unchanged file')} skipped")
    report_message(str(report))
    for remark in report.remarks:
        report_message(remark)


def _format_report(report: kvstore.IngestReport) -> str:
    """Return a report as one JSON object; its members are the fields of IngestReport."""
    members = {field.name: getattr(report, field.name) for field in fields(report)}
    members["seconds"] = round(report.seconds, 3)
    members["failures"] = [asdict(failure) for failure in report.failures]
    return json.dumps(members, ensure_ascii=False)


@click.command()
@STORE
@click.argument(
    "folders",
    nargs=-1,
    required=True,
    metavar="FOLDER...",
    type=click.Path(path_type=Path),
    shell_complete=completing.complete_folders,
)
@FORMAT
@INCLUDE
@EXCLUDE
@click.option("--no-prune", is_flag=True, help="Keep documents whose files are deleted.")
@add_opening_options
@click.option(
    "--debounce",
    type=click.FloatRange(0, 60, min_open=True),
    metavar="SECONDS",
    default=0.5,
    show_default=True,
    help="Wait until no file has changed for SECONDS, then ingest all changes together.",
)
@click.option(
    "--poll",
    type=click.FloatRange(0, 86400, min_open=True),
    metavar="SECONDS",
    help="Look for changes at this interval. By default, the operating system reports changes or, without the "
    "watch extra, kvstore checks every 2 seconds.",
)
@READER_OPTIONS
def watch(
    store: Path,
    folders: tuple[Path, ...],
    format_name: str | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    no_prune: bool,
    opening: dict[str, Any],
    debounce: float,
    poll: float | None,
    options: tuple[str, ...],
) -> int:
    """Keep STORE in sync with FOLDER... until you press Ctrl-C.

    STORE is created if it does not exist."""
    from .watching import ingest_on_change, make_watcher

    for folder in folders:
        if not folder.is_dir():
            raise click.BadParameter(f"{folder} is not a folder; specify an existing folder", param_hint="FOLDER")
    reader_options = _parse_reader_options(options)
    reported_failures: set[str] = set()  # the failures of the previous ingest

    def report_ingest(report: kvstore.IngestReport) -> None:
        """Print failures that the previous ingest did not have, and the counts of an ingest that changed the store."""
        failures = {f"{failure.place}: {failure.reason}" for failure in report.failures}
        for text in sorted(failures - reported_failures):
            report_message(text)
        reported_failures.clear()
        reported_failures.update(failures)
        if report.added or report.changed or report.removed:
            report_message(str(report))

    with open_command_store(store, create=True, **opening) as opened_store:

        def ingest_folders() -> kvstore.IngestReport:
            """Ingest the watched folders again; unchanged files are skipped."""
            return opened_store.ingest(
                list(folders),
                format=format_name,
                prune=not no_prune,
                include=include,
                exclude=exclude,
                options=reader_options,
            )

        try:
            changes = make_watcher(folders, store, quiet_seconds=debounce, interval=poll)
            report_message(f"watching {', '.join(map(str, folders))}; Ctrl-C stops")
            ingest_on_change(
                changes, ingest_folders, report_ingest, lambda error: report_message(f"error: {error}; trying again")
            )
        except KeyboardInterrupt:
            report_message("stopped watching")
        return 0
