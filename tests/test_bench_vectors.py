"""The benchmark of the index of vectors measures the whole index, in all its files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parent.parent / "tools" / "bench_vectors.py"


@pytest.mark.slow
def test_size_and_recall_are_those_of_the_index(tmp_path: Path) -> None:
    folder = tmp_path / "qa" / "piers"
    folder.mkdir(parents=True)
    passages = [{"title": f"Pier {n}", "text": f"Ship {n * n} came to pier {n}."} for n in range(50)]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, passages)))
    (folder / "questions.jsonl").write_text("\n".join(json.dumps({"question": f"Which ship? {n}"}) for n in range(5)))
    arguments = [
        "--data",
        tmp_path,
        "--vectors",
        "1000",
        "--embedder",
        "hashing:64",
        "--ef-construction",
        "40",
        "--json",
    ]
    run = subprocess.run([sys.executable, TOOL, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    figures = json.loads(run.stdout)
    assert figures["recall_at_10"] > 0.9
    assert figures["file_mb"] >= 1000 * 64 / 1e6  # a byte a number at least
