"""Generate the tables of README.md and docs/compare.md that compare kvstore with other systems.

    python tools/bench_peers.py --data FOLDER --size 1,10 --json FILE
    python tools/peers_tables.py FILE

The figures of the run that the tables need are stored in ``docs/peers.json``; without FILE, the tables are generated
from it. They are between ``<!-- peers: NAME -->`` and ``<!-- end of peers -->``. The table of losses lists every figure
in which kvstore is behind. If ``REASONS`` has no reason for a figure, this is an error, so no loss can be left out.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).resolve().parent.parent
STORED_RUN = ROOT / "docs" / "peers.json"

#: The columns, by the names of the systems.
SYSTEMS = {
    "kvstore": "kvstore",
    "chroma": "chroma",
    "lancedb": "lancedb",
    "sqlite-vec": "sqlite-vec, FTS5",
    "tantivy": "tantivy",
}


@dataclass(frozen=True)
class Row:
    """A row of a table: its name, its figure and the unit of the figure.

    ``short`` is its name in the table of losses. If ``required_figure`` is set, a system without that figure has none
    in this row: for example, the size of a system that stores no vectors cannot be compared.
    """

    name: str
    figure: str
    unit: str
    short: str = ""
    required_figure: str = ""

    def format(self, value: float) -> str:
        """Format a value of the figure, with the unit of the row."""
        return f"{_format_figure(value)} {self.unit}"


ROWS = (
    Row("load all passages, with vectors that were computed before", "load_s", "s", short="loading"),
    Row(
        "memory of the load, without the memory of the Python interpreter",
        "load_memory_mb",
        "MB",
        short="memory of a load",
    ),
    Row(
        "size on disk, divided by the size of the texts and vectors",
        "disk_ratio",
        "times",
        short="size on disk",
        required_figure="vector_ms",
    ),
    Row("vector search in 1 % of the passages", "filter_1_ms", "ms"),
    Row("vector search in 10 % of the passages", "filter_10_ms", "ms"),
    Row("vector search in all passages", "vector_ms", "ms"),
    Row("BM25 search", "bm25_ms", "ms"),
    Row("hybrid search", "hybrid_ms", "ms"),
    Row("replace a document (mean time)", "replace_ms", "ms", short="time to replace a document"),
    Row("bytes written to replace a document", "replace_written_kb", "kB"),
    Row("delete a tenth of the documents at once", "delete_s", "s", short="deleting many documents at once"),
    Row(
        "time from the start of a process to its first hybrid answer",
        "open_hybrid_ms",
        "ms",
        short="time to the first answer",
    ),
)
#: The rows of README, by their figures.
README_FIGURES = ("filter_1_ms", "hybrid_ms", "replace_ms", "load_s")

#: The reasons why another system is ahead.
REASONS = {
    "load_s": "the other systems store rows, vectors and words; kvstore also derives entities and a graph",
    "load_memory_mb": "at the end of the first load, kvstore links all documents with the entities in them",
    "disk_ratio": "the other systems store no derived data",
    "filter_1_ms": "the other system has an index specialized in this search",
    "filter_10_ms": "the other system has an index specialized in this search",
    "vector_ms": "the other system has an index specialized in this search",
    "bm25_ms": "tantivy is a search engine specialized in BM25",
    "hybrid_ms": "kvstore also scores headings, list entries and words that occur close together",
    "replace_ms": "kvstore also updates all data derived from the document",
    "replace_written_kb": "lancedb appends new data and removes old data later",
    "delete_s": "kvstore also removes all data derived from the documents",
    "open_hybrid_ms": "kvstore imports numpy and opens the store",
}

Figures = Mapping[str, float | None]


def select_figures(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a run that the tables need; raises ValueError if a figure of kvstore is missing.

    ``run`` is the file that the benchmark wrote. A figure is left out if the system lacks it, or lacks the figure that
    its row requires. Sizes that only the row ``growth`` measured, which have no time of a load, are left out too.
    """
    pairs = [(row.figure, row.required_figure or row.figure) for row in ROWS]
    sizes: dict[str, dict[str, Figures]] = {}
    for count, figures_by_system in sorted(run["sizes"].items(), key=lambda item: int(item[0])):
        if run.get("growth") and figures_by_system["kvstore"].get("load_s") is None:
            continue
        sizes[count] = {}
        for system in filter(figures_by_system.__contains__, SYSTEMS):
            figures = {name: value for name, value in figures_by_system[system].items() if value is not None}
            sizes[count][system] = {
                figure: figures[figure] for figure, required in pairs if figure in figures and required in figures
            }
        if missing := [figure for figure, _ in pairs if figure not in sizes[count].get("kvstore", {})]:
            raise ValueError(f"kvstore has no {', '.join(missing)} at {count} passages; measure all rows")
    versions = {system: run["versions"][system] for system in SYSTEMS if system in run["versions"]}
    return {"sizes": sizes, "versions": versions, "measured_on": run["measured_on"]}


def build_tables(run: Mapping[str, Any]) -> dict[str, str]:
    """Return the generated parts of the pages by name.

    These are ``whole``, the whole table; ``chosen``, the rows of README; and ``losses``, the rows that kvstore loses.
    """
    sizes: dict[str, dict[str, Figures]] = run["sizes"]
    smallest_size = next(iter(sizes.values()))
    environment, versions = run["measured_on"], run["versions"]
    others = ", ".join(f"{system} {version}" for system, version in versions.items() if system != "kvstore")
    load_note = "; the machine was busy, which hardly affects processor time" if environment["busy"] >= 1 else ""
    introduction = (
        f"The times are processor times of one run on {environment['day']} with kvstore at commit "
        f"{environment['commit']}, {others} ({environment['machine']}{load_note})."
    )
    lines = [f"{introduction} A cell is empty if the system does not support the operation.\n"]
    for count, figures_by_system in sizes.items():
        lines += [*_format_table(f"{int(count):,} passages", figures_by_system, ROWS), ""]
    readme_rows = [row for row in ROWS if row.figure in README_FIGURES]
    readme_rows.sort(key=lambda row: README_FIGURES.index(row.figure))
    return {
        "whole": "\n".join(lines).rstrip(),
        "chosen": "\n".join(_format_table("processor time", smallest_size, readme_rows)),
        "losses": "\n".join(
            [
                "| measure | documents | better systems | kvstore | reason |",
                "|---|---|---|---|---|",
                *_iter_losses(sizes),
            ]
        ),
    }


def _format_table(title: str, figures_by_system: Mapping[str, Figures], rows: Iterable[Row]) -> list[str]:
    """Return the lines of a Markdown table of the figures of one size, with a column for each system."""
    columns = [system for system in SYSTEMS if system in figures_by_system]
    lines = [f"| {title} | {' | '.join(SYSTEMS[system] for system in columns)} |", "|---" * (len(columns) + 1) + "|"]
    for row in rows:
        values = [figures_by_system[system].get(row.figure) for system in columns]
        cells = ["" if value is None else row.format(value) for value in values]
        lines.append(f"| {row.name} | {' | '.join(cells)} |")
    return lines


def _iter_losses(sizes: Mapping[str, Mapping[str, Figures]]) -> Iterator[str]:
    """Yield a row of the table of losses for each figure and size in which another system is ahead."""
    for row in ROWS:
        for count, figures_by_system in sizes.items():
            own_value = figures_by_system["kvstore"][row.figure]
            assert own_value is not None
            values = {system: figures.get(row.figure) for system, figures in figures_by_system.items()}
            better_values = {
                system: value for system, value in values.items() if value is not None and value < own_value
            }
            if better_values:
                systems = ", ".join(
                    f"{system} {row.format(value)}"
                    for system, value in sorted(better_values.items(), key=lambda item: item[1])
                )
                yield (
                    f"| {row.short or row.name} | {int(count):,} passages | {systems} | {row.format(own_value)} "
                    f"| {REASONS[row.figure]} |"
                )


def _format_figure(value: float) -> str:
    """Format a figure with at most two decimals; a large one has none."""
    return f"{value:,.0f}" if value >= 9.95 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def build_files(run_file: Path = STORED_RUN) -> dict[Path, str]:
    """Return the new contents of the pages with tables, by path."""
    parts = build_tables(json.loads(run_file.read_text(encoding="utf-8")))
    pages = {path: path.read_text(encoding="utf-8") for path in (ROOT / "README.md", ROOT / "docs" / "compare.md")}
    for path, page in pages.items():
        pages[path] = re.sub(
            r"(<!-- peers: (\w+) -->\n).*?(<!-- end of peers -->)",
            lambda match: f"{match[1]}{parts[match[2]]}\n{match[3]}",
            page,
            flags=re.DOTALL,
        )
    return pages


@click.command(help=__doc__)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=False)
def main(file: Path | None) -> None:
    """Write the tables into the pages; ``file`` is a run that first replaces the stored one."""
    if file is not None:
        try:
            figures = select_figures(json.loads(file.read_text(encoding="utf-8")))
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        STORED_RUN.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    for path, text in build_files().items():
        if path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"{path.relative_to(ROOT)} generated", file=sys.stderr)


if __name__ == "__main__":
    main()
