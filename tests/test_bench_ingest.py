"""The benchmark of ingest runs on a few documents and reports every documented figure."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "bench_ingest.py"
FIGURES = {
    "ingest": {
        "passages", "embed_s", "ingest_s", "ratio", "ratio_parser", "peak_mb_above_embedder", "file_ratio",
        "file_ratio_names", "ask_s",
    },
    "replace": {"replace_p50_ms", "edit_p50_ms", "check_s"},
    "compact": {"compact_ratio"},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("part", ["ingest", "replace", "compact"])
def test_every_figure_is_reported(part: str, tmp_path: Path) -> None:
    rows = [{"id": f"p{n}", "title": f"Pier {n}", "text": f"Pier {n} was built by Captain Reid."} for n in range(12)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    arguments = [
        "--data",
        str(tmp_path),
        "--limit",
        "10",
        "--chunks",
        "400",
        "--embedder",
        "hashing:16",
        "--only",
        part,
    ]
    run = subprocess.run([sys.executable, str(TOOL), *arguments, "--json"], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    figures = json.loads(run.stdout)
    assert set(figures) == set().union(*FIGURES.values())
    measured = {name: figure for name, figure in figures.items() if figure is not None}
    assert measured.keys() == FIGURES[part]
    # Seconds are rounded; what is divided or weighed is not next to nothing.
    assert all(figure >= 0 if name.endswith("_s") else figure > 0 for name, figure in measured.items())
    if part == "ingest":
        assert figures["passages"] == 10
        assert 10 < figures["peak_mb_above_embedder"] < 2000
        for program in ("embedding alone", "ingest, names by rule", "ingest, with the parser", "names embedded"):
            assert f"{program}: " in run.stderr
    else:
        assert "400 chunks" in run.stderr
