"""The benchmark of growth: made documents obey their laws, and what was measured is not measured again."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[1] / "tools"
sys.path.insert(0, str(TOOLS))
import bench_scale  # noqa: E402
from scale import made_documents  # noqa: E402


def test_made_documents_obey_their_laws() -> None:
    vocabulary = made_documents.generate_vocabulary()
    assert len(set(vocabulary)) == made_documents.VOCABULARY_SIZE
    documents = list(made_documents.generate_part(3, vocabulary))
    assert documents == list(made_documents.generate_part(3, vocabulary))
    texts = [str(document["text"]) for document in documents]
    paragraphs = [paragraph for text in texts for paragraph in text.split("\n\n")]
    assert len(paragraphs) == made_documents.PARAGRAPHS_PER_PART
    assert 2.3 < len(paragraphs) / len(documents) < 3.1
    counts = Counter(word for paragraph in paragraphs for word in paragraph.lower().rstrip(".").split())
    frequency = [counts[vocabulary[rank]] for rank in (0, 9, 99, 999)]
    assert all(5 < more / less < 15 for more, less in pairwise(frequency)), frequency
    start = 3 * made_documents.PARAGRAPHS_PER_PART
    new_names = [made_documents.generate_name(n) for n in range(*map(made_documents.count_names, (start, start + 100)))]
    assert all(name in "\n".join(paragraphs[:101]) for name in new_names)
    assert len({made_documents.generate_name(number) for number in range(20_000)}) > 19_500


def test_measurements_are_written_to_a_file(tmp_path: Path) -> None:
    run = ran(tmp_path, "--minutes", "0")
    assert run.returncode == 0 and "stopped before load at 10,000 chunks" in run.stdout, run.stderr
    done = bench_scale.Progress(tmp_path / "work")
    part = {"chunks": 10_000, "writer_s": 5, "all_s": 9, "written": 2e8, "index_written": 5e7, "memory_mb": 90}
    done.log.write_text("".join(json.dumps({"part": number, **part}) + "\n" for number in range(10)))
    for count, factor in ((10_000, 1), (100_000, 7)):
        done.save_figures(count, "load", {"index_mb": 100.0, "data_mb": 30.0 * factor})
        done.save_figures(count, "ask", {"chunks": count, "vector_ms": 2.0 * factor, "memory_mb": 80})
    figures = bench_scale.compute_figures(bench_scale.Progress(tmp_path / "work"), [10_000, 100_000])
    assert figures["100000"]["load_writer_s"] == 0.5
    assert figures["100000"]["load_written_kb"] == 20 and figures["100000"]["load_written_data_kb"] == 15
    assert figures["10000"]["index_ratio"] == 0.5 and figures["100000"]["index_ratio"] == 5
    run = ran(tmp_path, "--minutes", "0", "--sizes", "10000,100000")
    rows = {line[:44].strip(): line[44:].split() for line in run.stdout.splitlines()}
    assert rows["vector, ms"] == ["2", "14.0", "98.0"] and "1,000,000 (guess)" in run.stdout
    assert "stopped before open at 10,000 chunks" in run.stdout


def test_sizes_are_parts(tmp_path: Path) -> None:
    run = ran(tmp_path, "--sizes", "100")
    assert run.returncode == 2 and "multiples of 10,000" in run.stderr


@pytest.mark.slow
@pytest.mark.long
def test_every_step_of_a_small_size_is_measured(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    run = ran(tmp_path, "--sizes", "10000", "--json", str(out))
    assert run.returncode == 0, run.stderr
    report = json.loads(out.read_text())
    figures = report["sizes"]["10000"]
    assert 9_000 < figures["chunks"] < 12_000 and figures["check_found"] == []
    for name in ("load_writer_s", "load_written_kb", "hybrid_ms", "vector_filter_1_ms", "open_ms", "replace_p50_ms"):
        assert figures[name] > 0, name
    assert figures["compact_after_mb"] > 5 and figures["backup_mb"] > 5
    assert len(report["parts"]) == 1
    assert not list(tmp_path.glob("work/copy*"))


def ran(work: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOLS / "bench_scale.py"), "--work", str(work / "work"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=1200)
