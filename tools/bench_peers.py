"""Measure kvstore and other systems with the same documents and the same vectors, in one run. A *row* is a measured
operation, such as ``load`` or ``vector``; a *figure* is one of its results, such as ``vector_ms``.

    pip install '.[sentence-transformers,peers]'
    python tools/bench_peers.py --data FOLDER [--cache FOLDER] [--systems NAME,...] [--rows NAME,...] [--size N,...]
                                [--beside NAME=FOLDER ...] [--stores FOLDER] [--json FILE]

``--data`` is a folder with ``corpus.jsonl`` and ``questions.jsonl``. Every system stores each passage as one row with
one vector (all-MiniLM-L6-v2, computed once and kept in ``--cache``) and is configured as its documentation recommends.
Systems that are not installed are listed. ``--size 10`` has ten times the passages: the additional ones are altered
copies, the same in every run. ``--beside`` measures another checkout of kvstore as a system with that name: its folder
is the first entry of the module path (so it must contain ``kvstore``, ``kvstore_cext`` and ``kvstore_migrations``).
``--stores`` keeps the stores, and uses existing ones for rows other than ``load``.

Each row of each system is measured in a process of its own. Times are the processor time of all its threads, which the
load of the machine hardly affects. ``load`` excludes reading the documents; ``open`` is everything from the start of
the interpreter to the answer. The time of questions is the median of three rounds, each a mean over all questions; in
the first round, ``*_first_ms``, no question is repeated. Bytes written are those passed to the operating system; in the
JSON, ``*_disk_written_*`` are those that the kernel attributes to the disk, in units of its cache. Memory is the peak
of resident pages, including mapped files, above that of an interpreter that reads the same documents. ``growth`` loads
10,000 and 100,000 documents (``--growth``) and computes the ratio of the times of a question.

Out: a table per size, and the targets of :mod:`peers.targets` with the result for kvstore; with ``--json`` a file with
all figures: ``sizes`` (by number of passages, then system, then figure), ``growth``, ``targets``, ``versions``,
``setup``, ``measured_on``, ``not_run``. ``tools/peers_tables.py`` generates the tables of the documentation from it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import click
from measured_on import describe_environment
from peers.corpus import EMBEDDER, Corpus
from peers.rows import ROWS, Figures
from peers.systems import NAMES, find_missing_modules, get_version, load_system
from peers.targets import TargetResult, iter_target_results

TOOLS = Path(__file__).resolve().parent
ALL_ROWS = ("load", *ROWS, "open", "growth")
#: The measurements of the two stores whose times are compared.
GROWTH_ROWS = ("vector", "filter", "bm25", "hybrid", "strategies")
#: The number of processes that answer one first question.
NUM_OPENINGS = 5

#: The figures in the table, with their units.
FIGURE_LABELS = {
    "load_s": "load, s",
    "load_written_mb": "  written, MB",
    "load_memory_mb": "  memory above the interpreter's, MB",
    "disk_ratio": "disk ÷ (text + vectors)",
    "vector_ms": "vector, ms",
    "vector_recall": "  recall",
    "vector_memory_mb": "  memory of the process above the interpreter's, MB",
    "filter_1_ms": "vector, filter of 1 %, ms",
    "filter_1_first_ms": "  each filter new",
    "filter_1_recall": "  recall",
    "filter_10_ms": "vector, filter of 10 %, ms",
    "filter_10_first_ms": "  in the first round",
    "filter_10_recall": "  recall",
    "bm25_ms": "BM25, ms",
    "hybrid_ms": "hybrid, ms",
    "graph_ms": "graph, ms",
    "hipporag_ms": "hipporag, ms",
    "bridge_ms": "bridge, ms",
    "cft_ms": "cft, ms",
    "replace_ms": "document replaced, ms",
    "replace_written_kb": "  written, kB",
    "delete_one_ms": "document deleted, ms",
    "delete_one_written_kb": "  written, kB",
    "delete_s": "a tenth deleted by keys, s",
    "delete_where_s": "a tenth deleted by a condition, s",
    "open_lexical_ms": "start, open, first BM25 answer, ms",
    "open_vector_ms": "start, open, first vector answer, ms",
    "open_hybrid_ms": "start, open, first hybrid answer, ms",
}


@dataclass(frozen=True)
class MeasuredSystem:
    """A system ``name`` in the column ``label``; ``path`` is the first entry of the module path of its processes.

    The path differs for other checkouts of kvstore, and is empty otherwise.
    """

    label: str
    name: str
    path: str = ""


@dataclass
class Run:
    """The folders and results of a run, which measures rows of several systems.

    ``figures_by_count`` has the figures of each system by the number of passages. ``seconds`` is the time limit of a
    row. If ``keep`` is false, each store is deleted after its last row.
    """

    data: Path
    cache: Path
    stores: Path
    scratch: Path
    batch: int
    seconds: int
    keep: bool
    figures_by_count: dict[int, dict[str, Figures]] = field(default_factory=dict)
    not_run: list[str] = field(default_factory=list)
    _warmed_up: set[str] = field(default_factory=set)

    def measure(self, system: MeasuredSystem, corpus: Corpus, rows: list[str]) -> None:
        """Measure rows of a system and add the figures; load the store first if it is missing or its load is a row."""
        if system.label not in self._warmed_up:
            self._warmed_up.add(system.label)
            self._warm_up(system, corpus)
        figures = self.figures_by_count.setdefault(corpus.count, {}).setdefault(system.label, {})
        folder = self.stores / f"{system.label}-{corpus.count}"
        if "load" in rows or not folder.exists():
            shutil.rmtree(folder, ignore_errors=True)
            load_figures = self._measure_row(system, corpus, "load", folder)
            if load_figures is None:
                shutil.rmtree(folder, ignore_errors=True)
                return
            if "load" in rows:
                figures |= self._subtract_interpreter(load_figures, corpus)
        figures["disk_ratio"] = _measure_size(folder) / corpus.compute_size()
        for row in rows:
            if row in ROWS:
                _, changes_store = ROWS[row]
                with _open_copy(folder) if changes_store else _open_in_place(folder) as row_folder:
                    row_figures = self._measure_row(system, corpus, row, row_folder) or {}
                figures |= self._subtract_interpreter(row_figures, corpus)
            elif row == "open":
                figures |= self._measure_opening(system, corpus, folder)
        if not self.keep:
            shutil.rmtree(folder, ignore_errors=True)

    def measure_all(self, systems: list[MeasuredSystem], counts: Iterable[int], rows: list[str]) -> None:
        """Measure rows of all systems with each number of passages, and add the figures."""
        for count in counts:
            corpus = Corpus.prepare(self.data, self.cache, count)
            for system in systems:
                self.measure(system, corpus, rows)

    def _subtract_interpreter(self, figures: Figures, corpus: Corpus) -> Figures:
        """Return the figures of a row whose memory is that above what the interpreter and the documents take."""
        return {
            name: value - self._measure_interpreter(corpus) if name.endswith("_memory_mb") and value else value
            for name, value in figures.items()
        }

    def _measure_interpreter(self, corpus: Corpus) -> float:
        """Return the peak megabytes of a process that only reads the documents; measured once per corpus."""
        figures = self.figures_by_count[corpus.count].setdefault("interpreter", {})
        if not figures:
            figures |= self._measure_row(MeasuredSystem("interpreter", ""), corpus, "interpreter", Path()) or {}
        return figures["memory_mb"] or 0

    def _measure_row(self, system: MeasuredSystem, corpus: Corpus, row: str, folder: Path) -> Figures | None:
        """Measure a row in a separate process. Return None if the process fails, {} if the system cannot answer it."""
        job = {"system": system.name, "row": row, "folder": str(folder), "cache": str(self.cache)}
        job |= {"count": corpus.count, "batch": self.batch}
        out = self.scratch / "figures.json"
        out.unlink(missing_ok=True)
        job["out"] = str(out)
        label = f"{system.label}, {corpus.count:,} passages, {row}"
        if not self._run_measured_process(system, "measured", [json.dumps(job)], label):
            return None
        figures: dict[str, Any] = json.loads(out.read_text())
        if "not_answered" in figures:
            return {}
        click.echo(
            f"{label}: {', '.join(f'{name} {format_figure(value)}' for name, value in figures.items())}", err=True
        )
        return figures

    def _measure_opening(self, system: MeasuredSystem, corpus: Corpus, folder: Path) -> Figures:
        """Return the median processor time (ms) from the start of a process to its first answer, per type of query."""
        figures: Figures = {}
        out = self.scratch / "answered"
        for query_type in ("lexical", "vector", "hybrid"):
            times = []
            for question in corpus.read_questions()[:NUM_OPENINGS]:
                arguments = [system.name, query_type, str(folder), question.text, question.vector.hex(), str(out)]
                out.unlink(missing_ok=True)
                if not self._run_measured_process(
                    system, "first_answer", arguments, f"{system.label}, first {query_type} answer"
                ):
                    break
                output = out.read_text()
                if not output:  # the system does not answer this type of query
                    break
                times.append(1000 * float(output))
            if times:
                figures[f"open_{query_type}_ms"] = median(times)
        click.echo(f"{system.label}, open: {figures}", err=True)
        return figures

    def _warm_up(self, system: MeasuredSystem, corpus: Corpus) -> None:
        """Run a system once on a few documents before measuring it, so that its code is compiled."""
        folder = self.scratch / "warm"
        job = {
            "system": system.name,
            "row": "warm",
            "folder": str(folder),
            "cache": str(self.cache),
            "out": "",
            "count": corpus.count,
        }
        self._run_measured_process(system, "measured", [json.dumps(job)], f"{system.label}, warm-up")
        shutil.rmtree(folder, ignore_errors=True)

    def _run_measured_process(self, system: MeasuredSystem, module: str, arguments: list[str], label: str) -> bool:
        """Run ``main`` of a module of ``peers`` in a new process; report a failure as ``label``, and return False."""
        path = [system.path, str(TOOLS), os.environ.get("PYTHONPATH", "")]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path))}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # otherwise every process would compile the system again
        command = [sys.executable, "-P", "-c", f"from peers.{module} import main; main()", *arguments]
        try:
            process = subprocess.run(
                command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=self.seconds
            )
        except subprocess.TimeoutExpired:
            self._report_failure(f"{label}: not done in {self.seconds} s")
            return False
        if process.returncode:
            lines = process.stderr.decode(errors="replace").strip().splitlines()
            self._report_failure(f"{label}: {lines[-1] if lines else f'process with status {process.returncode}'}")
            return False
        return True

    def _report_failure(self, reason: str) -> None:
        """Print a reason now, and repeat it after the tables."""
        self.not_run.append(reason)
        click.echo(reason, err=True)


@click.command()
@click.option("--data", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--cache", type=click.Path(path_type=Path), help="Folder of the cached vectors and generated documents.")
@click.option(
    "--embedder",
    default=EMBEDDER,
    show_default=True,
    help="The embedder of a new cache; its vectors have 384 components.",
)
@click.option("--systems", default=",".join(NAMES), show_default=True, help="Systems to measure.")
@click.option("--rows", default=",".join(ALL_ROWS), show_default=True, help="Rows of the table to measure.")
@click.option(
    "--size", "sizes", default="1,10", show_default=True, help="Sizes, as multiples of the number of passages."
)
@click.option(
    "--growth",
    "growth_sizes",
    default="10000,100000",
    show_default=True,
    help="The two numbers of passages that growth compares.",
)
@click.option("--beside", multiple=True, metavar="NAME=FOLDER", help="Another checkout of kvstore, by its path.")
@click.option("--batch", default=1000, show_default=True, help="Documents that a system loads at a time.")
@click.option("--stores", type=click.Path(path_type=Path), help="Folder of the stores; existing stores are used.")
@click.option("--time-limit", "seconds", default=3600, show_default=True, help="Seconds for one row of one system.")
@click.option("--json", "out", type=click.Path(dir_okay=False, path_type=Path), help="Write all figures to a file.")
def main(
    data: Path,
    cache: Path | None,
    embedder: str,
    systems: str,
    rows: str,
    sizes: str,
    growth_sizes: str,
    beside: tuple[str, ...],
    batch: int,
    stores: Path | None,
    seconds: int,
    out: Path | None,
) -> None:
    """Measure kvstore and other systems.

    Every system stores the same passages with the same vectors, and each row of each system is measured in a process of
    its own. The docstring of this file explains the figures.
    """
    system_names = _select_names("--systems", systems, NAMES)
    row_names = _select_names("--rows", rows, ALL_ROWS)
    if not all(size.isdigit() and int(size) for size in sizes.split(",")):
        raise click.UsageError(f"--size takes whole numbers with commas between them, not {sizes!r}")
    growth_counts = [int(count) for count in growth_sizes.split(",") if count.isdigit() and int(count)]
    if len(growth_counts) != 2:
        raise click.UsageError(f"--growth takes two numbers with a comma between them, not {growth_sizes!r}")
    environment = describe_environment()
    cache = cache or Path(click.get_app_dir("kvstore-peers"))
    with tempfile.TemporaryDirectory() as scratch:
        stores_folder = (stores or Path(scratch)).resolve()
        run = Run(
            data=data,
            cache=cache,
            stores=stores_folder,
            scratch=Path(scratch),
            batch=batch,
            seconds=seconds,
            keep=stores is not None,
        )
        run.stores.mkdir(parents=True, exist_ok=True)
        columns = _select_installed(system_names, run.not_run) + [_parse_checkout(path) for path in beside]
        passages = Corpus.prepare(data, cache, None, embedder).count
        requested_rows = [row for row in row_names if row != "growth"]
        if requested_rows:
            run.measure_all(columns, [passages * int(size) for size in sizes.split(",")], requested_rows)
        growth = {}
        if "growth" in row_names:
            run.measure_all(columns, growth_counts, list(GROWTH_ROWS))
            growth = _compute_growth(*(run.figures_by_count[count] for count in growth_counts))
        target_results = _list_target_results(run.figures_by_count, growth, columns, passages)
        result = {
            "sizes": run.figures_by_count,
            "growth": growth,
            "targets": [asdict(result) for result in target_results],
            "versions": {column.name: get_version(column.name) for column in columns},
            "measured_on": asdict(environment),
            "setup": {column.name: load_system(column.name).setup for column in columns},
            "not_run": run.not_run,
        }
    if out is not None:
        out.write_text(json.dumps(result, indent=1, ensure_ascii=False))
    labels = [column.label for column in columns]
    for count, figures_by_system in run.figures_by_count.items():
        _print_figures(f"{count:,} passages", figures_by_system, labels)
    if growth:
        _print_figures("times as long at {1:,} passages as at {0:,}".format(*growth_counts), growth, labels)
    _print_targets(target_results)
    for reason in run.not_run:
        click.echo(f"not run: {reason}")


def _select_installed(names: list[str], not_run: list[str]) -> list[MeasuredSystem]:
    """Return the named systems that are installed; add a message to ``not_run`` for each of the others."""
    systems = []
    for name in names:
        if missing_modules := find_missing_modules(name):
            not_run.append(f"{name}: not installed ({', '.join(missing_modules)}); pip install '.[peers]'")
        else:
            systems.append(MeasuredSystem(name, name))
    return systems


def _parse_checkout(value: str) -> MeasuredSystem:
    """Return the checkout of kvstore that NAME=FOLDER, a value of ``--beside``, names. Raises UsageError."""
    label, separator, folder = value.partition("=")
    if not separator or not Path(folder, "kvstore").exists():
        raise click.UsageError(f"--beside takes NAME=FOLDER, a folder with kvstore in it, not {value!r}")
    return MeasuredSystem(label, "kvstore", str(Path(folder).resolve()))


def _list_target_results(
    figures_by_count: dict[int, dict[str, Figures]],
    growth: dict[str, Figures],
    columns: list[MeasuredSystem],
    passages: int,
) -> list[TargetResult]:
    """Compare kvstore's figures at multiples of ``passages``, and its growth, with the targets; return the results."""
    labels = [column.label for column in columns if column.name == "kvstore"]
    results = [
        result
        for count, figures in figures_by_count.items()
        if count % passages == 0
        for result in iter_target_results(figures, labels, count // passages)
    ]
    return [*results, *iter_target_results(growth, labels, None)]


def _compute_growth(small: dict[str, Figures], large: dict[str, Figures]) -> dict[str, Figures]:
    """Return each time of a query with the larger store, divided by that with the smaller store, by system."""
    return {
        label: {
            name: large.get(label, {})[name] / value
            for name, value in figures.items()
            if name.endswith("_ms") and value and large.get(label, {}).get(name)
        }
        for label, figures in small.items()
    }


def _select_names(option: str, value: str, known_names: tuple[str, ...]) -> list[str]:
    """Return the names in the value of an option, which commas separate; raise UsageError for an unknown one."""
    names = value.split(",")
    for name in names:
        if name not in known_names:
            raise click.UsageError(f"{option} has no {name!r}; there are {', '.join(known_names)}")
    return names


def _print_figures(title: str, figures: dict[str, Figures], labels: list[str]) -> None:
    """Print a table of the figures that any system has, with a column for each system."""
    click.echo(f"\n{title:52}" + "".join(f"{label:>11}" for label in labels))
    for name, figure_label in FIGURE_LABELS.items():
        values = [figures.get(label, {}).get(name) for label in labels]
        if any(value is not None for value in values):
            click.echo(f"{figure_label:52}" + "".join(f"{format_figure(value):>11}" for value in values))


def _print_targets(results: list[TargetResult]) -> None:
    """Print the measured value and the limit of each target."""
    if results:
        click.echo(f"\n{'target':52}{'':>11}{'measured':>11}{'limit':>13}")
    for result in results:
        comparison = "growth" if result.size is None else f"×{result.size}"
        label = f"{result.figure}, {comparison}"
        limit = f"{'≥' if result.is_minimum else '≤':>3}{format_figure(result.limit):>10}"
        verdict = "met" if result.is_met else "NOT MET"
        click.echo(f"{label:52}{result.system:>11}{format_figure(result.measured):>11}{limit}  {verdict}")


def format_figure(value: float | None) -> str:
    """Format a figure with about three digits; a missing one is a dash."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.3g}"


@contextmanager
def _open_in_place(folder: Path) -> Iterator[Path]:
    """Yield the folder unchanged, as :func:`_open_copy` yields a copy, for rows that do not change the store."""
    yield folder


@contextmanager
def _open_copy(folder: Path) -> Iterator[Path]:
    """Copy a store, drop the copy from the page cache, and yield its folder; delete it at the end."""
    copy = folder.with_name(f"{folder.name}-copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    for file in copy.rglob("*"):
        if file.is_file():
            with file.open("rb+") as opened:
                os.fsync(opened.fileno())
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    try:
        yield copy
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _measure_size(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


if __name__ == "__main__":
    main()
