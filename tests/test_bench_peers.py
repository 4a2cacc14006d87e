"""The benchmark beside other systems: its documents are the same in every run, and its figures are what they say."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

TOOLS = Path(__file__).parents[1] / "tools"
sys.path.insert(0, str(TOOLS))
from bench_peers import MeasuredSystem, Run  # noqa: E402
from peers import rows  # noqa: E402
from peers.corpus import DIMENSION, Corpus  # noqa: E402
from peers.peer import Peer, Results  # noqa: E402
from peers.systems import NAMES, find_missing_modules  # noqa: E402
from peers.targets import iter_target_results  # noqa: E402

PASSAGES = 60


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a folder of passages and questions."""
    passages = [
        {
            "id": f"p{n}",
            "title": f"Pier {n}",
            "text": f"Pier {n} was built by Captain Reid. " + f"Ship {n * n} came. " * 9,
        }
        for n in range(PASSAGES)
    ]
    questions = [{"question": f"Who built Pier {n}?"} for n in range(30)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, passages)))
    (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, questions)))
    return tmp_path


def prepare_corpus(data: Path, cache: str, count: int | None) -> Corpus:
    return Corpus.prepare(data, data / cache, count, f"hashing:{DIMENSION}")


def test_copies_are_the_same_in_every_run_and_unlike_each_other(data: Path) -> None:
    first_corpus, second_corpus = (prepare_corpus(data, cache, 500) for cache in ("one", "other"))
    assert first_corpus.read_documents() == second_corpus.read_documents()
    assert np.array_equal(first_corpus.read_vectors(), second_corpus.read_vectors())
    documents, vectors = first_corpus.read_documents(), first_corpus.read_vectors()
    assert documents[:PASSAGES] == prepare_corpus(data, "one", None).read_documents()
    assert len({document.key for document in documents}) == len({document.text for document in documents}) == 500
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    cosines = np.sum(vectors[PASSAGES : 2 * PASSAGES] * vectors[:PASSAGES], axis=1)
    assert cosines.min() > 0.9
    assert cosines.max() < 0.99
    assert set(Counter(document.drawer for document in documents).values()) == {5}
    assert set(Counter(document.shelf for document in documents).values()) == {50}
    streamed = [
        pair for batch in first_corpus.iter_batches(70) for pair in zip(batch.documents, batch.vectors, strict=True)
    ]
    assert [document for document, _ in streamed] == documents
    assert np.array_equal(np.array([row for _, row in streamed]), vectors)


def test_replacements_are_other_texts_of_the_same_documents(data: Path) -> None:
    corpus = prepare_corpus(data, "one", 500)
    by_key = {document.key: document for document in corpus.read_documents()}
    documents, vectors = corpus.make_replacements(40)
    assert len({document.key for document in documents}) == 40 == len(vectors)
    assert all(document.text.split() != by_key[document.key].text.split() for document in documents)
    assert all(document.drawer == by_key[document.key].drawer for document in documents)


class InMemoryPeer(Peer):
    """Exact search in memory, which may omit its first result."""

    name, needs, setup = "compared", (), ""
    omitted = 0

    def __init__(self, corpus: Corpus) -> None:
        super().__init__("")
        self.documents, self.vectors = corpus.read_documents(), corpus.read_vectors()

    def load(self, batches: object) -> None: ...

    def open(self) -> None: ...

    def search_by_vector(self, vector: bytes, top: int) -> Results:
        return self.search_filtered(vector, top, "", 0)

    def search_filtered(self, vector: bytes, top: int, field: str, value: int) -> Results:
        cosines = self.vectors @ np.frombuffer(vector, np.float32)
        places = [i for i in np.argsort(-cosines) if not field or getattr(self.documents[i], field) == value]
        return [(self.documents[i].key, self.documents[i].text) for i in places[self.omitted : top]]


def test_recall_counts_the_true_nearest(data: Path) -> None:
    peer = InMemoryPeer(prepare_corpus(data, "one", 500))
    corpus = prepare_corpus(data, "one", 500)
    assert rows.measure_vector_search(peer, corpus)["vector_recall"] == 1
    figures = rows.measure_filtered_search(peer, corpus)
    assert figures["filter_1_recall"] == figures["filter_10_recall"] == 1
    peer.omitted = 1
    assert rows.measure_vector_search(peer, corpus)["vector_recall"] == pytest.approx(0.9)
    assert rows.measure_filtered_search(peer, corpus)["filter_1_recall"] == pytest.approx(0.8)


def test_a_bar_is_a_number_or_a_factor_of_the_best() -> None:
    figures = {
        "kvstore": {"filter_1_ms": 3.0, "filter_1_recall": 0.98, "disk_ratio": 1.9, "delete_s": 5.0, "bm25_ms": 2.6},
        "chroma": {"filter_1_ms": 5.0},
        "sqlite-vec": {"filter_1_ms": 2.5},
        "tantivy": {"bm25_ms": 2.0},
    }
    results = {result.figure: (result.limit, result.is_met) for result in iter_target_results(figures, ["kvstore"], 1)}
    assert results["filter_1_ms"] == (2.5, False)
    assert results["filter_1_recall"] == (0.99, False)
    assert results["disk_ratio"] == (2.0, True)
    assert results["delete_s"] == (1, False)
    assert "bm25_ms" not in results and "load_s" not in results
    results = {result.figure: (result.limit, result.is_met) for result in iter_target_results(figures, ["kvstore"], 10)}
    assert results["bm25_ms"] == (2.6, True) and results["delete_s"] == (10, True)
    grown = list(iter_target_results({"kvstore": {"bm25_ms": 2.5}}, ["kvstore"], None))
    assert [(result.limit, result.is_met) for result in grown] == [(2, False)]


def test_the_memory_of_the_interpreter_is_subtracted_once(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure_row(run: Run, system: MeasuredSystem, corpus: Corpus, row: str, folder: Path) -> rows.Figures:
        folder.mkdir(exist_ok=True)
        return {"memory_mb": 20.0} if row == "interpreter" else {f"{row}_ms": 1.0, f"{row}_memory_mb": 100.0}

    monkeypatch.setattr(Run, "_measure_row", measure_row)
    monkeypatch.setattr(Run, "_warm_up", lambda *_: None)
    run = Run(data, data, data / "stores", data, batch=10, seconds=1, keep=True)
    run.stores.mkdir()
    system, corpus = MeasuredSystem("kvstore", "kvstore"), prepare_corpus(data, "one", 500)
    # The second call is that of the growth, if one of its sizes is also measured for the table.
    for row_names in (["load", "vector"], ["vector"]):
        run.measure(system, corpus, row_names)
    figures = run.figures_by_count[500]["kvstore"]
    assert figures["load_memory_mb"] == figures["vector_memory_mb"] == 80
    assert figures["load_ms"] == 1


@pytest.mark.slow
def test_every_figure_of_kvstore_is_reported(data: Path) -> None:
    arguments = ["--rows", "load,filter,replace", "--size", "2", "--systems", "kvstore"]
    figures = run_benchmark(data, *arguments)["sizes"][str(2 * PASSAGES)]["kvstore"]
    assert figures["load_s"] > 0 and figures["load_written_mb"] > 0.1
    assert figures["load_memory_mb"] > 1
    assert figures["disk_ratio"] > 1
    assert figures["filter_1_recall"] == figures["filter_10_recall"] == 1
    assert figures["replace_ms"] > 0 and figures["replace_written_kb"] > 1


def test_an_invalid_name_is_refused(data: Path) -> None:
    run = run_tool(data, "--systems", "kvstore,nothing")
    assert run.returncode == 2 and "'nothing'" in run.stderr and "sqlite-vec" in run.stderr
    run = run_tool(data, "--beside", "other=/nowhere")
    assert run.returncode == 2 and "NAME=FOLDER" in run.stderr


def test_another_checkout_can_be_measured_in_the_same_run(data: Path) -> None:
    other_package = data / "other" / "kvstore"
    other_package.mkdir(parents=True)
    (other_package / "__init__.py").write_text("raise ImportError('this is the other one')")
    results = run_benchmark(
        data, "--systems", "numpy", "--rows", "load", "--size", "1", "--beside", f"other={other_package.parent}"
    )
    assert results["not_run"] and all("this is the other one" in reason for reason in results["not_run"])
    assert results["sizes"][str(PASSAGES)]["numpy"]["load_s"] > 0
    assert results["measured_on"].keys() == {"day", "commit", "machine", "busy"}


@pytest.mark.slow
def test_growth_is_a_ratio_of_times(data: Path) -> None:
    results = run_benchmark(data, "--systems", "kvstore", "--rows", "growth", "--growth", "60,240")
    small, large = (results["sizes"][count]["kvstore"] for count in ("60", "240"))
    assert results["growth"]["kvstore"]["bm25_ms"] == large["bm25_ms"] / small["bm25_ms"]
    assert {"filter_1_ms", "hybrid_ms", "graph_ms"} <= results["growth"]["kvstore"].keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_system_finds_its_documents(data: Path, name: str) -> None:
    if find_missing_modules(name):
        results = run_benchmark(data, "--systems", name, "--rows", "load", "--size", "1")
        assert results["not_run"] == [
            reason for reason in results["not_run"] if reason.startswith(f"{name}: not installed")
        ]
        return
    results = run_benchmark(data, "--systems", name, "--size", "2", "--rows", ",".join(["load", *rows.ROWS, "open"]))
    assert results["not_run"] == []
    (of_size,) = results["sizes"].values()
    figures = of_size[name]
    assert figures["load_s"] > 0
    assert (
        figures.get("vector_recall", 1) == figures.get("filter_1_recall", 1) == figures.get("filter_10_recall", 1) == 1
    )
    assert any(figure.startswith("open_") for figure in figures)


def run_benchmark(data: Path, *arguments: str) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    out = data / "figures.json"
    run = run_tool(data, *arguments, "--json", str(out))
    assert run.returncode == 0, run.stderr
    results: dict[str, dict[str, dict[str, dict[str, float]]]] = json.loads(out.read_text())
    return results


def run_tool(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    options = ["--data", str(data), "--cache", str(data / "cache"), "--embedder", f"hashing:{DIMENSION}"]
    command = [sys.executable, str(TOOLS / "bench_peers.py"), *options, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=1200)
