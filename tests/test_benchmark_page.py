"""The page of benchmarks is made of what the tools say, and tells what could not be measured and why."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOL = ROOT / "tools" / "benchmark_page.py"


def made(tmp_path: Path, *arguments: str) -> str:
    page = tmp_path / "benchmarks.md"
    places = [
        "--data",
        str(tmp_path / "data"),
        "--work",
        str(tmp_path / "work"),
        "--kept",
        str(tmp_path / "kept"),
        "--page",
        str(page),
    ]
    run = subprocess.run(
        [sys.executable, str(TOOL), *places, *arguments], capture_output=True, text=True, check=False, timeout=300
    )
    assert run.returncode == 0, run.stderr
    return page.read_text(encoding="utf-8")


def test_what_is_kept_is_shown_and_what_cannot_be_measured_is_named(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    outcome = {
        "command": "python tools/bench_filter.py",
        "output": "what  how fast\nprobe 44 ns",
        "failure": "",
        "day": "2026-11-22",
        "commit": "abc1234",
        "machine": "a processor, 2 cores, 8 GB, Python 3.11.0",
        "processor_seconds": 12,
        "busy": 0.2,
    }
    (kept / "filter.json").write_text(json.dumps(outcome))
    page = made(tmp_path, "--only", "forest")
    assert "```text\nwhat  how fast\nprobe 44 ns\n```" in page
    assert "commit abc1234, a processor, 2 cores" in page
    assert "ratios hold" not in page.partition("## Entity forests")[0]
    assert f"Not measured: {tmp_path}/data/forest/wordnet-hypernyms.csv.gz is not there" in page
    assert page.count("\n## ") == 2
    assert "Not measured on this page yet: Beside other systems (`peers`)" in page


def test_the_page_is_made_of_what_is_kept() -> None:
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "benchmarks.md"
        subprocess.run([sys.executable, str(TOOL), "--as-kept", "--page", str(page)], check=True, capture_output=True)
        assert page.read_text(encoding="utf-8") == (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def test_every_tool_of_the_page_is_there_and_takes_its_arguments() -> None:
    sys.path.insert(0, str(TOOL.parent))
    try:
        from benchmark_page import MEASUREMENTS
    finally:
        sys.path.remove(str(TOOL.parent))
    for measurement in MEASUREMENTS:
        source = (TOOL.parent / measurement.command[0]).read_text(encoding="utf-8")
        assert all(f'"{part}"' in source for part in measurement.command[1:] if part.startswith("--")), measurement.name
