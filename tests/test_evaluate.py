"""The evaluation tool: what it reports of small question sets, and its measures against sums done by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

TOOLS = Path(__file__).parents[1] / "tools"
PASSAGES = [
    {"id": "p1", "title": "Blue Harbour", "text": "Blue Harbour is a film directed by Nora Quill."},
    {"id": "p2", "title": "Nora Quill", "text": "Nora Quill was born in Tolland and makes films."},
    {"id": "p3", "title": "Tolland", "text": "Tolland is a town with a lighthouse."},
    {"id": "p4", "title": "Tea", "text": "Tea is made from leaves."},
]
QUESTIONS = [
    {"question": "Where was the director of Blue Harbour born?", "gold": ["p1", "p2"], "answer": "Tolland"},
    {"question": "Is Tolland a town?", "gold": ["p3"], "answer": "yes"},
    {"question": "What is tea made from?", "gold": ["p4"], "answer": "leaves"},
    {"question": "What of a passage that is not there?", "gold": ["p9"]},
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "tiny"
    folder.mkdir()
    for name, rows in (("corpus", PASSAGES), ("questions", QUESTIONS)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def evaluate(*arguments: object) -> dict[str, Any]:
    command = [sys.executable, str(TOOLS / "evaluate.py"), *map(str, arguments), "--embedder", "hashing", "--json"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, run.stderr
    report: dict[str, Any] = json.loads(run.stdout)
    return report


def test_one_set_and_one_strategy_are_one_flat_object(data: Path) -> None:
    report = evaluate("--data", data, "--strategy", "lexical")
    assert report["dataset"] == "tiny"
    assert report["strategy"] == "lexical"
    assert (report["questions"], report["passages"]) == (3, 4)
    assert report["all@8"] == report["recall@5"] == report["answer@8"] == 1
    assert report["p95_ms"] >= report["p50_ms"] >= report["p50_ms_without_embedding"] > 0


def test_sets_and_systems_share_a_table_with_paired_differences(data: Path) -> None:
    pytest.importorskip("bm25s")
    pytest.importorskip("hnswlib")
    report = evaluate(
        *("--data", data, "--data", f"{data}:2", "--strategy", "lexical", "--strategy", "vector"),
        "--compare",
        "--answers",
    )
    systems = ["lexical", "vector", "bm25s", "dense", "tree-rag", "graph-rag", "ASK lexical", "ASK vector"]
    assert [row["strategy"] for row in report["rows"]] == [*systems, *systems]
    assert {(row["dataset"], row["passages"]) for row in report["rows"]} == {("tiny", 4), ("tiny-2", 2)}
    # Eight documents are all there are; only what walks from names may miss some.
    assert all(row["all@8"] == 1 for row in report["rows"] if row["strategy"] in systems[:4])
    assert 0 < report["rows"][systems.index("ASK lexical")]["f1"] <= 1
    same = next(gain for gain in report["differences"] if gain["over"] == "vector")
    assert same["strategy"] == "lexical"
    assert same["all@8"] == {"difference": 0, "low": 0, "high": 0}


def test_intervals_are_those_of_the_paired_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    from evaluation.measures import Outcome, differences

    def outcomes(values: list[float]) -> list[Outcome]:
        return [Outcome({"all@8": value}, 1, 1, 1) for value in values]

    found = differences(outcomes([1, 1, 1, 0] * 25), outcomes([0, 1, 0, 0] * 25))["all@8"]
    assert found["difference"] == 0.5
    # A mean of 100 draws with a standard deviation of 0.5: 1.96 times 0.05 to each side.
    assert found["low"] == pytest.approx(0.402, abs=0.015)
    assert found["high"] == pytest.approx(0.598, abs=0.015)


def test_measures_of_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    from evaluation.answers import answer_measures, bert_score, bleu, words_of

    def vectors(text: str) -> Any:
        """Every word is at a right angle to all others."""
        known = ["the", "cat", "sat", "on", "mat", "dog"]
        return np.eye(len(known), dtype=np.float32)[[known.index(word) for word in words_of(text)]]

    found = answer_measures("The cat sat on the mat. [1, 2]", "The dog sat on the mat", vectors)
    assert found["rouge-1"] == pytest.approx(5 / 6)
    assert found["rouge-2"] == pytest.approx(3 / 5)
    assert found["rouge-l"] == pytest.approx(5 / 6)
    assert found["f1"] == pytest.approx(3 / 4)
    assert found["bertscore"] == pytest.approx(5 / 6)
    assert found["bleu"] == pytest.approx((5 / 6 * 4 / 6 * 3 / 5 * 2 / 4) ** 0.25)
    assert bleu(["cat"], ["the", "cat"]) == pytest.approx(np.exp(-1))
    assert answer_measures("", "the cat", vectors) == dict.fromkeys(found, 0.0)
    near = np.array([[1, 0], [0.6, 0.8], [0.6, 0.8]], np.float32)
    precision, recall = (1 + 0.8) / 2, (1 + 0.8 + 0.8) / 3
    matched = bert_score(np.eye(2, dtype=np.float32), near)
    assert matched == pytest.approx(2 * precision * recall / (precision + recall))
