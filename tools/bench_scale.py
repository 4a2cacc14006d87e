"""Measure one store as it grows: loading, every strategy, opening, replacing, CHECK, COMPACT and backup at each size. A
*step* is one of these; a *count* is a size in chunks. A load has *parts*, files of 10,000 chunks.

    python tools/bench_scale.py --work FOLDER [--sizes 10000,100000,1000000] [--minutes N] [--json FILE]

Documents of about 2.7 chunks are generated (:mod:`scale.made_documents`: Zipf's and Heaps' laws), and ingested from
files of 10,000 chunks with one worker, the ``hashing`` embedder and ``language = rules``. All sizes are measured on one
growing store; steps that change it, except loading, use a copy. Every step has a process of its own, and its result is
saved in the working folder. With ``--minutes`` no step, and no part of a load, begins after that time; the same command
continues later.

Out: a table of figures by size, with an extrapolation to ten times the largest size (figure × the ratio of the last
two). ``--json`` has all figures, and those of each part of the load. Times are processor time unless they are called
wall: of the writer with its threads, and of all processes. Bytes written include those that workers send to the
writer; those of index files are derived from the sizes of the files. Memory is the peak of resident pages, including
mapped files. ``--with-index`` creates indexes such as ``communities`` before the strategies are measured. Without it,
strategies that need an index are skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from bench_peers import format_figure
from scale.made_documents import PARAGRAPHS_PER_PART

TOOLS = Path(__file__).resolve().parent
#: The steps at each size, in this order. The step "copy" copies the store for the steps that change it.
STEPS = ("ask", "open", "check", "backup", "copy", "replace", "compact")
STEPS_ON_COPY = ("replace", "compact")

FIGURE_LABELS = {
    "chunks": "chunks",
    "load_writer_s": "load, writer, s a 1,000 chunks",
    "load_s": "load, all processes, s a 1,000 chunks",
    "load_written_kb": "written, KB a chunk",
    "load_written_data_kb": "  of it to data.mdb, KB a chunk",
    "index_ratio": "written to index files ÷ their size",
    "load_memory_mb": "memory of the writer, MB",
    "data_mb": "data.mdb, MB",
    "index_mb": "index files, MB",
    "open_ms": "open, ms",
    "open_wall_ms": "  wall, ms",
    "ask_memory_mb": "memory of a process that asks, MB",
    "ask_anonymous_mb": "  that is no file's, MB",
    "replace_p50_ms": "document replaced, p50, ms",
    "replace_ms": "  mean with what follows, ms",
    "replace_written_kb": "  written, KB",
    "check_s": "CHECK, s",
    "check_wall_s": "  wall, s",
    "check_memory_mb": "  memory, MB",
    "compact_s": "COMPACT, s",
    "compact_wall_s": "  wall, s",
    "compact_after_mb": "  data.mdb after it, MB",
    "backup_s": "backup, s",
    "backup_wall_s": "  wall, s",
}


@click.command()
@click.option(
    "--work",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the store and the figures.",
)
@click.option(
    "--sizes", default="10000,100000,1000000", show_default=True, help="Numbers of chunks, as multiples of 10,000."
)
@click.option("--minutes", type=float, help="Time after which no step begins.")
@click.option("--workers", default=1, show_default=True, help="Processes that extract and embed.")
@click.option("--embedder", default="hashing", show_default=True, help="Embedder of the store.")
@click.option("--with-index", "kinds", multiple=True, metavar="KIND", help="Create an index of this kind at each size.")
@click.option("--json", "out", type=click.Path(dir_okay=False, path_type=Path), help="Write all figures to a file.")
def main(
    work: Path, sizes: str, minutes: float | None, workers: int, embedder: str, kinds: tuple[str, ...], out: Path | None
) -> None:
    """Measure one store as it grows; the same command resumes after an interruption."""
    counts = [int(size) for size in sizes.split(",") if size.isdigit()]
    if not counts or counts != sorted(set(counts)) or any(count % PARAGRAPHS_PER_PART for count in counts):
        raise click.UsageError(
            f"--sizes takes ascending multiples of {PARAGRAPHS_PER_PART:,} with commas between them, not {sizes!r}"
        )
    work = work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    deadline = time.time() + 60 * minutes if minutes is not None else float("inf")
    progress = Progress(work)
    settings = {"embedder": embedder, "language": "rules"}
    # Sizes are measured one after the other, until one of them returns a step for which no time was left.
    unfinished_steps = (
        load_and_measure(progress, count, deadline, {"workers": workers, **settings}, kinds) for count in counts
    )
    next_step = next(filter(None, unfinished_steps), "")
    figures = compute_figures(progress, counts)
    if out is not None:
        out.write_text(json.dumps({"sizes": figures, "parts": progress.load_parts()}, indent=1))
    print_table(figures)
    if next_step:
        click.echo(f"stopped before {next_step}; the same command resumes there")


class Progress:
    """The results so far, in the working folder: figures by size and step, and one line per part of the load."""

    def __init__(self, work: Path) -> None:
        """Read the figures of earlier runs in the ``work`` folder."""
        self.work = work
        self.store, self.copy = work / "store", work / "copy" / "store"
        self._file, self.log = work / "figures.json", work / "load.jsonl"
        self.steps: dict[str, dict[str, Any]] = json.loads(self._file.read_text()) if self._file.exists() else {}

    def load_parts(self) -> list[dict[str, Any]]:
        """Return the loaded parts, in order."""
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def run(self, count: int, step: str, **job: Any) -> dict[str, Any]:
        """Run a step of :mod:`scale.steps` in a new process with the arguments ``job``, and return its figures."""
        output = self.work / "step.json"
        job |= {"step": step, "out": str(output)}
        path = os.pathsep.join(filter(None, [str(TOOLS), os.environ.get("PYTHONPATH", "")]))
        environment = os.environ | {"PYTHONPATH": path}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # otherwise each process would compile its imports again
        command = [sys.executable, "-P", "-c", "from scale.steps import main; main()", json.dumps(job)]
        click.echo(f"{count:,} chunks: {step}", err=True)
        process = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL)
        if process.returncode:
            raise click.ClickException(f"{step} at {count:,} chunks ended with status {process.returncode}")
        figures: dict[str, Any] = json.loads(output.read_text())
        return figures

    def save_figures(self, count: int, step: str, figures: dict[str, Any]) -> None:
        """Save the figures of a step, by replacing the file of all figures."""
        self.steps.setdefault(str(count), {})[step] = figures
        new_file = self._file.with_suffix(".new")
        new_file.write_text(json.dumps(self.steps, indent=1))
        new_file.replace(self._file)

    def has_figures(self, count: int, step: str) -> bool:
        """True if the figures of a step are saved."""
        return step in self.steps.get(str(count), {})


def load_and_measure(
    progress: Progress, count: int, deadline: float, settings: dict[str, Any], kinds: tuple[str, ...]
) -> str:
    """Load up to ``count`` chunks, and run the other steps, except those whose figures are saved.

    Return a description of the step for which no time was left before ``deadline`` (a time in seconds), or ''.
    """
    if not progress.has_figures(count, "load"):
        if time.time() > deadline:
            return f"load at {count:,} chunks"
        end_part = count // PARAGRAPHS_PER_PART
        job: dict[str, Any] = {
            "first": len(progress.load_parts()),
            "last": end_part,
            "log": str(progress.log),
            "until": min(deadline, 1e12),  # JSON has no infinity
        }
        figures = progress.run(count, "load", store=str(progress.store), **job, **settings)
        if figures["last"] < end_part - 1:
            return f"the rest of the load at {count:,} chunks"
        progress.save_figures(count, "load", figures)
    for step in (*(f"index {kind}" for kind in kinds), *STEPS):
        if progress.has_figures(count, step):
            continue
        if time.time() > deadline:
            return f"{step} at {count:,} chunks"
        progress.save_figures(count, step, _run_step(progress, count, step))
    shutil.rmtree(progress.copy.parent, ignore_errors=True)
    shutil.rmtree(progress.work / "backup", ignore_errors=True)
    return ""


def _run_step(progress: Progress, count: int, step: str) -> dict[str, Any]:
    """Run a step other than loading, and return its figures; "copy" has none."""
    if step == "copy":
        shutil.rmtree(progress.copy.parent, ignore_errors=True)
        shutil.copytree(progress.store, progress.copy)
        return {}
    shutil.rmtree(progress.work / "backup", ignore_errors=True)  # of an earlier step
    name, _, kind = step.partition(" ")  # "index KIND", or a name only
    job: dict[str, Any] = {"kind": kind} if kind else {}
    if step in ("ask", "replace"):
        job["paragraphs"] = count
    store = progress.copy if step in STEPS_ON_COPY else progress.store
    return progress.run(count, name, store=str(store), **job)


def compute_figures(progress: Progress, counts: list[int]) -> dict[str, dict[str, Any]]:
    """Return all figures by size. Those of the load are means over the parts loaded since the previous size.

    Times of the load are in seconds per 1,000 chunks, and written bytes in kB per chunk.
    """
    figures_by_size: dict[str, dict[str, Any]] = {}
    previous_count = 0
    for count in counts:
        steps = progress.steps.get(str(count), {})
        figures: dict[str, Any] = {}
        for step, step_figures in steps.items():
            for name, value in step_figures.items():
                figures[f"{step}_{name}" if name in ("memory_mb", "anonymous_mb") else name] = value
        all_parts = [part for part in progress.load_parts() if part["part"] * PARAGRAPHS_PER_PART < count]
        parts = [part for part in all_parts if previous_count <= part["part"] * PARAGRAPHS_PER_PART]
        if "load" in steps and any(part["chunks"] for part in parts):
            figures |= _compute_load_figures(parts)
            figures["load_memory_mb"] = max(part["memory_mb"] for part in all_parts)
            if figures["index_mb"]:
                figures["index_ratio"] = sum(part["index_written"] for part in all_parts) / figures["index_mb"] / 1e6
        figures_by_size[str(count)] = figures
        previous_count = count
    return figures_by_size


def _compute_load_figures(parts: list[dict[str, Any]]) -> dict[str, float]:
    """Return the times and written bytes of loading some parts, per chunk."""
    chunks = sum(part["chunks"] for part in parts)
    bytes_written, index_written = (sum(part[name] for part in parts) for name in ("written", "index_written"))
    return {
        "load_writer_s": 1000 * sum(part["writer_s"] for part in parts) / chunks,
        "load_s": 1000 * sum(part["all_s"] for part in parts) / chunks,
        "load_written_kb": bytes_written / chunks / 1000,
        "load_written_data_kb": (bytes_written - index_written) / chunks / 1000,
    }


def print_table(figures: dict[str, dict[str, Any]]) -> None:
    """Print the figures of all sizes, with an extrapolation to ten times the largest size.

    The extrapolation is printed only if the largest size is ten times the one before it.
    """
    measured = [count for count, size_figures in figures.items() if size_figures]
    can_extrapolate = len(measured) > 1 and 10 * int(measured[-2]) == int(measured[-1])
    headings = [f"{int(count):,}" for count in measured] + (
        [f"{10 * int(measured[-1]):,} (guess)"] if can_extrapolate else []
    )
    click.echo(f"{'':44}" + "".join(f"{text:>20}" for text in headings))
    names = dict.fromkeys(name for size_figures in figures.values() for name in size_figures)
    for name, label in _label_figures(names).items():
        values = [figures[count].get(name) for count in measured]
        if all(value is None for value in values):
            continue
        if can_extrapolate:  # the value grows by the same factor again
            values.append(values[-1] ** 2 / values[-2] if values[-1] and values[-2] else None)
        click.echo(f"{label:44}" + "".join(f"{format_figure(value):>20}" for value in values))
    for count in measured:
        for name, value in figures[count].items():
            if name.endswith("_not_asked"):
                click.echo(f"{int(count):,} chunks: {name.removesuffix('_not_asked')} was not asked: {value}")
            if name == "check_found" and value:
                click.echo(f"{int(count):,} chunks: CHECK found {len(value)} problems: {value[:3]}")


def _label_figures(names: Iterable[str]) -> dict[str, str]:
    """Return the labels of figures by name: those of FIGURE_LABELS, then those of strategies and indexes."""
    labels = FIGURE_LABELS | {
        name: f"{name.removesuffix('_ms').replace('_', ' ')}, ms"
        for name in names
        if name.endswith("_ms") and name not in FIGURE_LABELS
    }
    return labels | {
        name: f"{name.removesuffix('_s').replace('_', ' ')}, s"
        for name in names
        if name.startswith("index_") and name.endswith("_s")
    }


if __name__ == "__main__":
    main()
