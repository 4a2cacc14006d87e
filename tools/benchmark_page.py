"""Generate the page of benchmarks: run the measuring tools and record the output of each.

    python tools/benchmark_page.py [--only NAME ... | --as-kept] [--data FOLDER] [--work FOLDER] [--kept FOLDER]
                                   [--page FILE]

Runs the tools of ``MEASUREMENTS`` one after another, or those of ``--only``. All of them together take less than
``MINUTES`` of one otherwise idle processor; the page also names commands for larger measurements. The output of each
tool is stored as JSON in ``--kept``, with the command, the commit, the day, the machine and its load. The page contains
all stored results, including those of tools that were not run again. If a tool fails, misses a target or lacks its
data, the page shows its output and the reason.
"""

from __future__ import annotations

import json
import resource
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click
from measured_on import ROOT, describe_environment

#: The maximum processor time of all measurements together, in minutes.
MINUTES = 45


@dataclass(frozen=True)
class Measurement:
    """A tool and its arguments, and the arguments of a larger measurement.

    ``{data}`` and ``{work}`` in them are folders; ``{new}`` is an initially empty folder below ``{work}``.
    """

    name: str
    title: str
    command: tuple[str, ...]
    larger: tuple[str, ...] = ()


MEASUREMENTS = (
    Measurement(
        "peers",
        "Comparison with other systems",
        (
            *("bench_peers.py", "--data", "{data}/qa/2wiki", "--cache", "{work}/peers"),
            *("--json", "{work}/peers.json"),
            *("--systems", "kvstore,chroma,lancedb,sqlite-vec,tantivy"),
            *("--rows", "load,vector,filter,bm25,hybrid,replace,delete,open", "--size", "1"),
        ),
        ("bench_peers.py", "--data", "{data}/qa/2wiki", "--cache", "{work}/peers", "--size", "1,10"),
    ),
    Measurement(
        "ingest",
        "Loading and maintenance",
        ("bench_ingest.py", "--data", "{data}/qa/2wiki", "--limit", "2000", "--chunks", "20000"),
        ("bench_ingest.py", "--data", "{data}/qa/2wiki"),
    ),
    Measurement(
        "quality",
        "Retrieval quality",
        (
            *("evaluate.py", "--data", "{data}/qa/hotpotqa", "--data", "{data}/qa/musique"),
            *("--data", "{data}/qa/2wiki:780"),
            *("--strategy", "adaptive", "--strategy", "hybrid", "--strategy", "lexical", "--strategy", "vector"),
        ),
        ("evaluate.py", "--data", "{data}/qa/hotpotqa", "--data", "{data}/qa/musique", "--compare"),
    ),
    Measurement("filter", "The entity filter", ("bench_filter.py",)),
    Measurement("forest", "Entity forests", ("bench_forest.py", "{data}/forest/wordnet-hypernyms.csv.gz")),
    Measurement(
        "vectors",
        "The vector index",
        ("bench_vectors.py", "--data", "{data}", "--cache", "{work}/vectors.npz", "--vectors", "50000"),
        ("bench_vectors.py", "--data", "{data}", "--cache", "{work}/vectors.npz"),
    ),
    Measurement("shell", "The shell and SELECT", ("bench_shell.py",)),
    Measurement(
        "scale",
        "A growing store",
        ("bench_scale.py", "--work", "{new}", "--sizes", "10000,50000"),
        ("bench_scale.py", "--work", "{new}"),
    ),
)


@dataclass(frozen=True)
class Outcome:
    """The output of a tool, and the environment of the measurement."""

    command: str
    output: str
    failure: str
    day: str
    commit: str
    machine: str
    processor_seconds: int
    busy: float


@click.command(help=__doc__)
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help=f"Run these: {', '.join(measurement.name for measurement in MEASUREMENTS)}.",
)
@click.option(
    "--as-kept", "uses_stored_results", is_flag=True, help="Run nothing; generate the page from the stored results."
)
@click.option("--data", type=click.Path(path_type=Path), default=ROOT.parent / "shared" / "data", show_default=True)
@click.option("--work", type=click.Path(path_type=Path), default=ROOT / "build" / "benchmarks", show_default=True)
@click.option(
    "--kept", "results_folder", type=click.Path(path_type=Path), default=ROOT / "docs" / "benchmarks", show_default=True
)
@click.option("--page", type=click.Path(path_type=Path), default=ROOT / "docs" / "benchmarks.md", show_default=True)
def main(
    only: Sequence[str], uses_stored_results: bool, data: Path, work: Path, results_folder: Path, page: Path
) -> None:
    """Run the selected measurements, store their results, and generate the page from all stored results."""
    for folder in (results_folder, work):
        folder.mkdir(parents=True, exist_ok=True)
    commit = describe_environment().commit  # before any file is written here
    for measurement in MEASUREMENTS:
        if not uses_stored_results and (not only or measurement.name in only):
            click.echo(f"{measurement.name}: {measurement.title}", err=True)
            outcome = replace(run_measurement(measurement, data, work), commit=commit)
            (results_folder / f"{measurement.name}.json").write_text(
                json.dumps(asdict(outcome), indent=1), encoding="utf-8"
            )
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(build_page(results_folder), encoding="utf-8")
    click.echo(page)


def run_measurement(measurement: Measurement, data: Path, work: Path) -> Outcome:
    """Run one tool and return its outcome; if it fails, the outcome has the last line of its standard error."""
    new_folder = work / f"{measurement.name}-new"
    shutil.rmtree(new_folder, ignore_errors=True)
    arguments = [part.format(data=data, work=work, new=new_folder) for part in measurement.command]
    environment = describe_environment()
    seconds_before = _get_child_processor_seconds()
    missing = [part for part in arguments if part.startswith(str(data)) and not Path(part.partition(":")[0]).exists()]
    if missing:
        output, failure = "", f"{missing[0]} is missing"
    else:
        command = [sys.executable, str(ROOT / "tools" / arguments[0]), *arguments[1:]]
        process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        output, error_lines = process.stdout, process.stderr.strip().splitlines()
        failure = ": ".join([f"status {process.returncode}", *error_lines[-1:]]) if process.returncode else ""
    shutil.rmtree(new_folder, ignore_errors=True)
    return Outcome(
        command=_format_command(measurement.command),
        output=output.rstrip(),
        failure=failure,
        processor_seconds=round(_get_child_processor_seconds() - seconds_before),
        **asdict(environment),
    )


def build_page(results_folder: Path) -> str:
    """Return the page as Markdown, generated from all stored results."""
    outcomes = {
        measurement: Outcome(**json.loads(path.read_text(encoding="utf-8")))
        for measurement in MEASUREMENTS
        if (path := results_folder / f"{measurement.name}.json").is_file()
    }
    seconds = sum(outcome.processor_seconds for outcome in outcomes.values())
    parts = [
        "# Benchmarks\n",
        "This page contains the unedited output of the benchmark tools, for developers of kvstore. The page",
        '"[Figures](figures.md)" explains the most important results. The docstring at the beginning of each tool',
        "explains the figures in the tool's output.\n",
        "To run all benchmarks and generate this page, use `make benchmark`, which takes less than",
        f"{MINUTES} minutes of processor time. The measurements on this page took {seconds:,} s of processor time.",
        "To run one benchmark, use `python tools/benchmark_page.py --only NAME`. Some sections end with a command that",
        "repeats the measurement with more data.\n",
    ]
    for measurement, outcome in outcomes.items():
        parts += _format_section(measurement, outcome)
    unmeasured = [
        f"{measurement.title} (`{measurement.name}`)" for measurement in MEASUREMENTS if measurement not in outcomes
    ]
    if unmeasured:
        parts.append(f"Not measured yet: {', '.join(unmeasured)}.\n")
    return "\n".join(parts)


def _format_section(measurement: Measurement, outcome: Outcome) -> list[str]:
    """Return the paragraphs of the section about a measurement."""
    busy_note = (
        " The machine was busy, so compare ratios of times, not the times themselves." if outcome.busy >= 1 else ""
    )
    parts = [
        f"## {measurement.title}\n\nThis section shows the output of `{outcome.command}`.\n\nThe measurement took "
        f"{outcome.processor_seconds:,} s of processor time ({outcome.day}, commit {outcome.commit}, "
        f"{outcome.machine}).{busy_note}\n"
    ]
    if outcome.output:
        output = "\n".join(line.rstrip() for line in outcome.output.splitlines())
        parts.append(f"```text\n{output}\n```\n")
    if outcome.failure:
        introduction = "The tool ended with exit" if outcome.output else "Not measured:"
        parts.append(f"{introduction} {outcome.failure}\n")
    if measurement.larger:
        parts.append(f"For a larger measurement, use `{_format_command(measurement.larger)}`.\n")
    return parts


def _format_command(command: Sequence[str]) -> str:
    """Return a command as a user types it in the root of the repository."""
    tool, *arguments = command
    folders = {"data": "../shared/data", "work": "build/benchmarks", "new": "build/benchmarks/new"}
    return shlex.join(["python", f"tools/{tool}", *(part.format(**folders) for part in arguments)])


def _get_child_processor_seconds() -> float:
    """Return the processor time of all finished child processes."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
