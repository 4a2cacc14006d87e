"""The ``evaluate`` command. A *figure* is a measured share, such as hit@3; ``--fail-below`` sets the minimum of one.

In: a store, and optionally a file of questions. Out: the figures of strategies and settings on standard output; the
exit status is 1 if a figure is below the bound of ``--fail-below``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from . import command_completion as completing
from .command_options import (
    FAILED,
    MODE,
    STORE,
    convert_to_option_errors,
    explain_write_errors,
    merge_modes,
    open_command_store,
    report_message,
    validate_folder,
)

if TYPE_CHECKING:
    from kvstore.evaluation import EvaluationReport

#: The maximum number of missing documents that a warning lists.
_MAX_SHOWN_KEYS = 3


def _parse_minimums(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> list[tuple[str, float]]:
    """Parse NAME=SHARE to pairs of a figure and its minimum, from 0 to 1; without NAME, the figure is ``right``.

    Raises BadParameter for an unknown figure or an invalid minimum.
    """
    if not texts:
        return []  # without importing the evaluation
    from kvstore.evaluation.comparison import COLUMNS

    minimums = []
    for text in texts:
        name, equals, value = text.rpartition("=")
        try:
            minimum = float(value)
        except ValueError:
            minimum = -1.0  # invalid
        if not 0 <= minimum <= 1:
            raise click.BadParameter(f"{text!r} is not a share from 0 to 1, or NAME=SHARE such as hit@3=0.8")
        figure = name if equals else "right"
        if figure not in COLUMNS:
            raise click.BadParameter(f"{name!r} is not the name of a figure; figures are {', '.join(COLUMNS)}")
        minimums.append((figure, minimum))
    return minimums


@click.command()
@STORE
@click.option(
    "--questions",
    "questions_file",
    type=click.Path(path_type=Path),
    shell_complete=completing.complete_files,
    help="File of questions, one per line, as text or JSON (default: kvstore generates questions from the documents).",
)
@click.option(
    "--save-questions",
    "saved_file",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=validate_folder,
    help="Write the questions to this file. You can edit the file and use it with --questions.",
)
@click.option("--strategy", "strategies", multiple=True, metavar="NAME", help="Compare this strategy (repeatable).")
@click.option(
    "--limit",
    type=click.IntRange(2),
    default=100,
    show_default=True,
    help="Maximum number of answerable questions to generate.",
)
@click.option("--model", default="none", show_default=True, metavar="NAME", help="Language model that answers.")
@click.option(
    "--no-chunk-sizes",
    is_flag=True,
    help="Skip the comparison of chunk sizes, which embeds a sample of the documents again.",
)
@click.option(
    "--html",
    "page_file",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=validate_folder,
    shell_complete=completing.complete_files,
    help="Also write the report as an HTML page with bar charts.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON object.")
@click.option(
    "--fail-below",
    "minimums",
    multiple=True,
    callback=_parse_minimums,
    metavar="[NAME=]SHARE",
    help="Exit with status 1 if a figure for the current strategy is below SHARE (repeatable). NAME is the "
    "figure: right (the default), answered, refused, hit@1, hit@3 or hit@8.",
)
@MODE
def evaluate(
    store: Path,
    questions_file: Path | None,
    saved_file: Path | None,
    strategies: tuple[str, ...],
    limit: int,
    model: str,
    no_chunk_sizes: bool,
    page_file: Path | None,
    as_json: bool,
    minimums: list[tuple[str, float]],
    mode: str | None,
) -> int:
    """Measure the answers of STORE, and compare settings.

    Without --questions, kvstore generates questions from headings, definitions, tables and dates in the documents.
    It also generates near misses: questions that no document answers, and that kvstore should therefore refuse.
    """
    from kvstore import evaluation
    from kvstore.evaluation.report_page import format_report_page

    from .progress import ProgressLine

    merge_modes(as_json, mode)
    progress = ProgressLine(sys.stderr)
    with open_command_store(store, readonly=True) as opened_store:
        with convert_to_option_errors():
            for strategy in strategies:
                opened_store.describe_strategy(strategy)
        report = evaluation.evaluate_store(
            opened_store,
            None if questions_file is None else evaluation.read_questions(questions_file),
            strategies=strategies,
            limit=limit,
            model=model,
            compare_chunk_sizes=not no_chunk_sizes,
            progress=progress.show_questions,
        )
    progress.close()
    # The report is printed before files are written, because writing can fail after a long evaluation.
    if as_json:
        print(json.dumps(report.to_dict(), ensure_ascii=False))
    else:
        _write_report(report, mode)
    if saved_file is not None:
        with explain_write_errors(saved_file):
            evaluation.write_questions(saved_file, report.questions)
    if page_file is not None:
        with explain_write_errors(page_file):
            page_file.write_text(format_report_page(report), encoding="utf-8")
    return _report_missed_minimums(report, minimums)


def _write_report(report: EvaluationReport, mode: str | None) -> None:
    """Print a row for each compared setting in the format ``mode`` (None: a table on a terminal, else TSV).

    Counts of questions, warnings and advice go to standard error.
    """
    from kvstore.arguments import format_count
    from kvstore.evaluation.comparison import COLUMNS

    from .render import print_rows

    rows = [
        (f"{row.compared} {row.name}", *map(row.figures.get, COLUMNS), row.ms, "*" if row.is_current else "")
        for row in report.rows
    ]
    print_rows(("setting", *COLUMNS, "ms", "current"), rows, mode)
    sys.stdout.flush()
    # For example: 80 answerable, 20 unanswerable questions.
    *counts, (last_kind, last_count) = report.counts.items()
    first_counts = [f"{count} {kind}" for kind, count in counts]
    report_message(", ".join([*first_counts, format_count(last_count, f"{last_kind} question")]))
    if report.missing_documents:
        keys = ", ".join(map(repr, report.missing_documents[:_MAX_SHOWN_KEYS]))
        keys += ", ..." if len(report.missing_documents) > _MAX_SHOWN_KEYS else ""
        missing_count = format_count(len(report.missing_documents), "gold document")
        report_message(f"warning: the store lacks {missing_count}, so their questions cannot get a hit: {keys}")
    for advice in report.advice:
        report_message(str(advice))


def _report_missed_minimums(report: EvaluationReport, minimums: list[tuple[str, float]]) -> int:
    """Report the figures that are below their minimum or not measured; return the exit status."""
    status = 0
    for name, minimum in minimums:
        value = report.current.figures[name]
        if value is None or value < minimum:
            report_message(f"{name} was not measured" if value is None else f"{name} is {value}, below {minimum}")
            status = FAILED
    return status
