"""Measure retrieval quality and speed on question sets and on a printed index. A *system* is a strategy, a variant of
one, or another program; an *outcome* has its measures for one question.

    python tools/evaluate.py --data FOLDER[:N] ... [--manual ARCHIVE] [--strategy NAME ...] [--compare] [--triples]
                             [--answers] [--segments] [--ablations STRATEGY] [--with-index KIND ...] [--json]
    python tools/evaluate.py --overview --data FOLDER ... [--strategy NAME ...] [--json]
    python tools/evaluate.py --index FILE.jsonl [--json]

``--data`` names a folder with ``corpus.jsonl`` (id, title, text) and ``questions.jsonl`` (see
:mod:`evaluation.question_sets`), ``:N`` its first N passages. Each passage becomes one document through the public API.
If questions have spans, chunks and characters are measured instead of documents, and questions about whole documents
are left out. ``--manual`` generates two sets from an archive of HTML pages: what options and parameters do, and what
sections say. ``--compare`` measures every strategy, or the named ones, and other systems over the same chunks in the
same run; the gain of the first system over each other has a 95 % interval. ``--segments`` measures every strategy once
more with segments instead of chunks. ``--ablations`` measures a strategy, and the strategy without each of its parts.
Indexes that a strategy needs are created, and those of ``--with-index``. ``--overview`` asks the questions of a folder
that ask for an overview of a document, and measures how much of the written answers the results contain. ``--index``
names a printed index (term, subterm, gold pages) next to the archive of its HTML pages; the pages are ingested, and
every term is looked up.

For one set and one strategy, the report is one flat object; otherwise ``rows`` has an object for each set and system,
and ``differences`` has the gains of the first system. The printed table has the figures over all questions; ``--json``
also has those of the halves.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from evaluation.ablations import ABLATIONS, build_ablations
from evaluation.answers import compute_answer_outcomes
from evaluation.manual import make_manual_sets
from evaluation.measures import Outcome, compute_differences, summarize
from evaluation.overview import build_overview_rows
from evaluation.printed_index import evaluate_index
from evaluation.question_sets import QuestionSet, fill_store, load
from evaluation.retrievers import Retriever, SegmentRetriever, StrategyRetriever, compute_outcomes

import kvstore
from kvstore.registry import STRATEGIES, list_overview_strategies
from kvstore.settings import FixedSettings

#: The figures that a table shows.
SHOWN = (
    *("dataset", "strategy", "questions", "hit@1", "hit@3", "hit@8", "recall@2", "recall@5", "all@8", "answer@8"),
    *("recall_400w", "iou_400w", "whole_400w", "recall_1500w", "iou_1500w", "whole_1500w"),
    *("f1", "rouge-l", "p50_ms_without_embedding"),
    *("scope", "words_400w", "content_400w", "bigrams_400w", "words_1500w", "content_1500w", "bigrams_1500w"),
)


@click.command()
@click.option("--data", multiple=True, metavar="FOLDER[:N]", help="A question set, or its first N passages.")
@click.option(
    "--manual",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Archive of a manual of HTML pages; questions about options and headings are generated from it.",
)
@click.option("--index", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A printed index, JSONL.")
@click.option("--strategy", multiple=True, help="Strategy to measure (default: the store's).")
@click.option("--reranker", default="none", show_default=True, help="Reranker of the store.")
@click.option("--limit-corpus", type=int, help="Use only the first N passages of every set.")
@click.option("--compare", is_flag=True, help="Measure all strategies, bm25s, a dense index, Tree and Graph RAG.")
@click.option("--triples", is_flag=True, help="Import the triples.jsonl of the sets that have one.")
@click.option("--overview", is_flag=True, help="Measure questions that ask for an overview of a document.")
@click.option("--answers", is_flag=True, help="Also measure the answers of ASK: words and citations.")
@click.option("--segments", is_flag=True, help="Also measure every strategy AS SEGMENTS.")
@click.option(
    "--ablations",
    "ablated",
    type=click.Choice(list(ABLATIONS)),
    help="Also measure this strategy without each of its parts.",
)
@click.option("--with-index", "kinds", multiple=True, metavar="KIND", help="Create an index of this kind first.")
@click.option("--model", help="Language model that answers (default: $KVSTORE_LLM_MODEL, else none).")
@click.option("--embedder", default="all-MiniLM-L6-v2", show_default=True, help="Embedder of the store.")
@click.option("--language", default=FixedSettings().language, show_default=True, help="Language setting of the store.")
@click.option(
    "--store", "store_folder", type=click.Path(path_type=Path), help="Folder of the stores; existing stores are used."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(
    data: tuple[str, ...],
    manual: Path | None,
    index: Path | None,
    strategy: tuple[str, ...],
    reranker: str,
    limit_corpus: int | None,
    compare: bool,
    triples: bool,
    overview: bool,
    answers: bool,
    segments: bool,
    ablated: str | None,
    kinds: tuple[str, ...],
    model: str | None,
    embedder: str,
    language: str,
    store_folder: Path | None,
    as_json: bool,
) -> None:
    """Measure retrieval on question sets (--data, --manual) or lookups on a printed index (--index)."""
    if bool(data or manual) == (index is not None):
        raise click.UsageError("give --data and --manual, or --index")
    if overview and not data:
        raise click.UsageError("--overview measures what --data names; give a folder")
    with tempfile.TemporaryDirectory() as scratch:
        folder = store_folder or Path(scratch)
        folder.mkdir(exist_ok=True)

        def open_store(name: str) -> kvstore.Store:
            """Open or create a store of the run's folder with the chosen embedder, language and reranker."""
            opened = kvstore.open(folder / name, embedder=embedder, settings={"language": language})
            opened.set("reranker", reranker)
            return opened

        if index is not None:
            with open_store("index") as store:
                report = evaluate_index(store, index, Path(scratch), log)
        elif overview:
            overview_strategies = strategy or (*list_overview_strategies(), "hybrid")
            question_sets = (load(path, limit_corpus) for path in data)
            report = {"rows": _measure_overviews(question_sets, overview_strategies, open_store), "differences": []}
        else:
            strategies = strategy or (tuple(STRATEGIES) if compare else () if ablated else (None,))
            measurement = _Measurement(strategies, compare, answers, segments, ablated, kinds, model)
            rows: list[dict[str, Any]] = []
            differences: list[dict[str, Any]] = []
            for path in data:
                question_set = load(path, limit_corpus)
                has_triples = triples and (question_set.folder / "triples.jsonl").exists()
                name = question_set.name.replace(":", "-") + ("-triples" if has_triples else "")
                with open_store(name) as store:
                    seconds = fill_store(store, question_set, has_triples, log)
                    measurement.add_rows(store, name, [question_set], seconds, rows, differences)
            if manual is not None:
                with open_store("manual") as store:
                    seconds, sets = make_manual_sets(store, manual, Path(scratch), log)
                    measurement.add_rows(store, None, sets, seconds, rows, differences)
            report = rows[0] if len(rows) == 1 else {"rows": rows, "differences": differences}
    if as_json:
        print(json.dumps(report))
    else:
        print_report(report)


def _measure_overviews(
    question_sets: Iterable[QuestionSet], strategies: Sequence[str], open_store: Callable[[str], kvstore.Store]
) -> list[dict[str, Any]]:
    """Fill a store with each set, and return the rows of its overview questions; ``open_store`` opens it by name."""
    rows: list[dict[str, Any]] = []
    for question_set in question_sets:
        with open_store(question_set.name.replace(":", "-")) as store:
            fill_store(store, question_set, triples=False, log=log)
            rows += build_overview_rows(store, question_set.folder, strategies, log)
    return rows


@dataclass(frozen=True)
class _Measurement:
    """The options of a run: the strategies (None: that of the session), and what else is measured."""

    strategies: Sequence[str | None]
    compare: bool
    answers: bool
    segments: bool
    ablated: str | None
    kinds: Sequence[str]
    model: str | None

    def add_rows(
        self,
        store: kvstore.Store,
        name: str | None,
        question_sets: Sequence[QuestionSet],
        seconds: float,
        rows: list[dict[str, Any]],
        differences: list[dict[str, Any]],
    ) -> None:
        """Append a row for every system and set to ``rows``, and the gains of the first system to ``differences``.

        ``store`` contains the documents of all sets, and ``seconds`` is the time that it took to fill it. ``name``
        replaces the name of a set in the row.
        """
        self._create_indexes(store)
        retrievers = self._build_retrievers(store)
        for question_set in question_sets:
            dataset = name or question_set.name
            common_fields = {"dataset": dataset, "ingest_s": round(seconds, 1)}
            outcomes_by_system = {
                retriever.name: compute_outcomes(retriever, question_set, store, log) for retriever in retrievers
            }
            if self.answers:
                outcomes_by_system |= self._compute_answer_outcomes(store, question_set)
            rows += [
                common_fields | build_row(store, question_set, system, outcomes)
                for system, outcomes in outcomes_by_system.items()
                if outcomes
            ]
            differences += compare_systems(dataset, outcomes_by_system)

    def _compute_answer_outcomes(self, store: kvstore.Store, question_set: QuestionSet) -> dict[str, list[Outcome]]:
        """Return the outcomes of ASK with each strategy, and with its segments if they are measured, by system."""
        outcomes_by_system = {}
        for strategy in self.strategies:
            label = f"ASK {strategy or store._session.settings.strategy}"
            outcomes_by_system[label] = compute_answer_outcomes(store, question_set, strategy, self.model, log)
            if self.segments:
                outcomes_by_system[f"{label} AS SEGMENTS"] = compute_answer_outcomes(
                    store, question_set, strategy, self.model, log, as_segments=True
                )
        return outcomes_by_system

    def _build_retrievers(self, store: kvstore.Store) -> list[Retriever]:
        """Return the systems to measure: first the strategies, and then their variants and the baselines."""
        retrievers: list[Retriever] = [StrategyRetriever(store, strategy) for strategy in self.strategies]
        if self.ablated:
            retrievers += build_ablations(store, self.ablated)
        if self.segments:
            retrievers += [SegmentRetriever(store, strategy) for strategy in self.strategies]
        if self.compare:
            from evaluation.baselines import build_baselines

            retrievers += build_baselines(store, log)
        return retrievers

    def _create_indexes(self, store: kvstore.Store) -> None:
        """Create the indexes of ``--with-index`` and those that a strategy needs, unless they exist."""
        strategies = [STRATEGIES[name] for name in (*self.strategies, self.ablated) if name is not None]
        needed_kinds = [kind for strategy in strategies if (kind := getattr(strategy, "needs", None))]
        existing_kinds = {index.kind for index in store.indexes()}
        for kind in dict.fromkeys([*self.kinds, *needed_kinds]):
            if kind not in existing_kinds:
                log(f"CREATE INDEX {kind}")
                store.create_index(kind)


def build_row(store: kvstore.Store, question_set: QuestionSet, system: str, outcomes: list[Outcome]) -> dict[str, Any]:
    """Return the figures of one system on one set.

    ``median_pool`` is the median number of chunks that were ranked, as a share of all chunks.
    """
    chunks = int(store.statistics()["chunks"])
    pool = statistics.median(outcome.pool for outcome in outcomes)
    return {
        "strategy": system,
        "questions": len(outcomes),
        **summarize(outcomes),
        "median_pool": round(pool / chunks, 4),
        "passages": len(question_set.passages),
        "chunks": chunks,
    }


def compare_systems(dataset: str, outcomes_by_system: dict[str, list[Outcome]]) -> list[dict[str, Any]]:
    """Return the gain of the first system over each other system that was asked the same questions of a set."""
    first, *references = outcomes_by_system
    return [
        {
            "dataset": dataset,
            "strategy": first,
            "over": reference,
            **compute_differences(outcomes_by_system[first], outcomes_by_system[reference]),
        }
        for reference in references
        if len(outcomes_by_system[reference]) == len(outcomes_by_system[first])
    ]


def format_difference(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row in which each difference is text with its interval, such as "+0.012 [-0.003, +0.027]"."""
    return {
        name: f"{value['difference']:+.3f} [{value['low']:+.3f}, {value['high']:+.3f}]"
        if isinstance(value, dict)
        else value
        for name, value in row.items()
    }


def format_table(rows: list[dict[str, Any]]) -> str:
    """Format rows as a text table with a column for each key of any row."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = [columns, *([str(row.get(name, "")) for name in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells)


def print_report(report: Mapping[str, Any]) -> None:
    """Print the tables of a report with several rows, or the figures of a single row, one to a line."""
    if "rows" in report:
        print(format_table([{name: value for name, value in row.items() if name in SHOWN} for row in report["rows"]]))
        print(format_table([format_difference(row) for row in report["differences"]]))
    else:
        for name, value in report.items():
            print(f"{name:28} {value}")


def log(text: str) -> None:
    """Replace the current line of the terminal with a message; print nothing if standard error is not a terminal."""
    if sys.stderr.isatty():
        print(f"\r{text}\033[K", end="", file=sys.stderr)  # the code clears the rest of the line


if __name__ == "__main__":
    main()
