"""Write the page of benchmarks anew: run the measuring tools, and set down what each of them says.

    python tools/benchmark_page.py [--only NAME ... | --as-kept] [--data FOLDER] [--work FOLDER] [--kept FOLDER]
                                   [--page FILE]

Runs the tools of ``MEASUREMENTS`` one after another, which takes hours, or those of ``--only``. What each
prints is kept as JSON in ``--kept``, with the command, the commit, the day, the machine and what else it was doing, and
the page is made of all that is kept: those that are not run again stay as they are. A tool that fails, or whose data
are not there, is named on the page with its reason.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import resource
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Measurement:
    """A tool and its arguments; ``{data}`` and ``{work}`` in them are folders."""

    name: str
    title: str
    command: tuple[str, ...]


MEASUREMENTS = (
    Measurement("peers", "Beside other systems", ("bench_peers.py", "--data", "{data}/qa/2wiki")),
    Measurement("ingest", "Loading and keeping", ("bench_ingest.py", "--data", "{data}/qa/2wiki")),
    Measurement(
        "quality", "Passages found", ("evaluate.py", "--data", "{data}/qa/hotpotqa", "--data", "{data}/qa/musique")
    ),
    Measurement("filter", "The entity filter", ("bench_filter.py",)),
    Measurement("forest", "Entity forests", ("bench_forest.py", "{data}/forest/wordnet-hypernyms.csv.gz")),
    Measurement("vectors", "The index of vectors", ("bench_vectors.py", "--data", "{data}/qa")),
    Measurement("shell", "The shell and SELECT", ("bench_shell.py",)),
    Measurement(
        "scale", "One store as it grows", ("bench_scale.py", "--work", "{work}/scale", "--sizes", "10000,100000")
    ),
)


@dataclass(frozen=True)
class Outcome:
    """What a tool said, and where, when and on what."""

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
    "--only", multiple=True, metavar="NAME", help=f"Run these: {', '.join(each.name for each in MEASUREMENTS)}."
)
@click.option("--as-kept", is_flag=True, help="Run nothing: make the page of what is kept.")
@click.option("--data", type=click.Path(path_type=Path), default=ROOT.parent / "shared" / "data", show_default=True)
@click.option("--work", type=click.Path(path_type=Path), default=ROOT / "build" / "benchmarks", show_default=True)
@click.option("--kept", type=click.Path(path_type=Path), default=ROOT / "docs" / "benchmarks", show_default=True)
@click.option("--page", type=click.Path(path_type=Path), default=ROOT / "docs" / "benchmarks.md", show_default=True)
def main(only: Sequence[str], as_kept: bool, data: Path, work: Path, kept: Path, page: Path) -> None:
    for folder in (kept, work):
        folder.mkdir(parents=True, exist_ok=True)
    for measurement in MEASUREMENTS:
        if not as_kept and (not only or measurement.name in only):
            click.echo(f"{measurement.name}: {measurement.title}", err=True)
            outcome = measured(measurement, data, work)
            (kept / f"{measurement.name}.json").write_text(json.dumps(asdict(outcome), indent=1), encoding="utf-8")
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(page_of(kept), encoding="utf-8")
    click.echo(page)


def measured(measurement: Measurement, data: Path, work: Path) -> Outcome:
    """Run one tool; what it says on its standard error is told only where it fails."""
    arguments = [part.format(data=data, work=work) for part in measurement.command]
    busy = os.getloadavg()[0]
    before = _processor_seconds()
    missing = [part for part in arguments if part.startswith(str(data)) and not Path(part).exists()]
    if missing:
        output, failure = "", f"{missing[0]} is not there"
    else:
        command = [sys.executable, str(ROOT / "tools" / arguments[0]), *arguments[1:]]
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        output, said = run.stdout, run.stderr.strip().splitlines()
        failure = (said[-1] if said else f"status {run.returncode}") if run.returncode else ""
    return Outcome(
        command=shlex.join(["python", "tools/" + measurement.command[0], *_shown(measurement.command[1:])]),
        output=output.rstrip(),
        failure=failure,
        day=datetime.date.today().isoformat(),
        commit=_commit(),
        machine=f"{_processor()}, {os.cpu_count()} cores, {_memory()} GB, Python {platform.python_version()}",
        processor_seconds=round(_processor_seconds() - before),
        busy=round(busy, 1),
    )


def page_of(kept: Path) -> str:
    """The page, of what is kept."""
    parts = [
        "# Benchmarks\n",
        "What the measuring tools say, as they say it; `make benchmark` makes this page anew, and",
        "`python tools/benchmark_page.py --only NAME` a part of it. Each tool says with `--help` what its figures",
        "mean.\n",
    ]
    left = []
    for measurement in MEASUREMENTS:
        path = kept / f"{measurement.name}.json"
        if not path.is_file():
            left.append(f"{measurement.title} (`{measurement.name}`)")
            continue
        outcome = Outcome(**json.loads(path.read_text(encoding="utf-8")))
        beside = " Other work ran beside it: ratios hold, times do not." if outcome.busy >= 1 else ""
        parts.append(
            f"## {measurement.title}\n\n`{outcome.command}`, {outcome.day}, commit {outcome.commit}, "
            f"{outcome.machine}, {outcome.processor_seconds:,} s of a processor.{beside}\n"
        )
        output = "\n".join(line.rstrip() for line in outcome.output.splitlines())
        parts.append(f"Not measured: {outcome.failure}\n" if outcome.failure else f"```text\n{output}\n```\n")
    if left:
        parts.append(f"Not measured on this page yet: {', '.join(left)}.\n")
    return "\n".join(parts)


def _shown(arguments: Sequence[str]) -> list[str]:
    return [part.format(data="../shared/data", work="build/benchmarks") for part in arguments]


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return run.stdout.strip() or "unknown"


def _processor() -> str:
    try:
        told = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.machine()
    return next(
        (line.partition(": ")[2] for line in told.splitlines() if line.startswith("model name")), platform.machine()
    )


def _memory() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)


if __name__ == "__main__":
    main()
