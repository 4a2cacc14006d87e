"""The benchmark of C-HNSW runs on a few documents and reports every documented figure."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "bench_chnsw.py"


@pytest.mark.slow
def test_every_figure_is_reported(tmp_path: Path) -> None:
    people = [f"{first} {last}" for first in ("Ada", "Otto", "Vera", "Karl") for last in ("Reid", "Munk", "Falk")]
    rows = [
        {"id": f"p{n}", "title": f"Pier {n}", "text": f"{people[n % 12]} met {people[(n * 5 + 1) % 12]} at Pier {n}."}
        for n in range(60)
    ]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "questions.jsonl").write_text(
        "\n".join(json.dumps({"question": f"Who met {person}?"}) for person in people)
    )
    run = subprocess.run(
        [sys.executable, str(TOOL), "--data", str(tmp_path), "--embedder", "hashing:16"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    figures = json.loads(run.stdout)
    assert figures["questions"] == 12
    assert figures["layers"][0] >= 12
    assert figures["equal"]["chnsw"]["recall"] >= 0.99 <= figures["equal"]["hnswlib"]["recall"]
    assert figures["equal"]["distances_ratio"] > 0 < figures["equal"]["time_ratio"]
    assert figures["ef 20"]["unlinked"]["distances"] >= figures["ef 20"]["distances"] > 0
    assert figures["open_ms"] > 0 < figures["first_question_ms"]
