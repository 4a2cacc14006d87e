"""The page of benchmarks contains the output of the tools, and reports what could not be measured and why."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
TOOL = ROOT / "tools" / "benchmark_page.py"


def make_page(tmp_path: Path, *arguments: str) -> str:
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


def test_stored_results_are_shown_and_failed_measurements_are_named(tmp_path: Path) -> None:
    stored = tmp_path / "kept"
    stored.mkdir()
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
    (stored / "filter.json").write_text(json.dumps(outcome))
    page = make_page(tmp_path, "--only", "forest")
    assert "```text\nwhat  how fast\nprobe 44 ns\n```" in page
    assert "commit abc1234, a processor, 2 cores" in page
    assert "ratios hold" not in page.partition("## Entity forests")[0]
    assert f"Not measured: {tmp_path}/data/forest/wordnet-hypernyms.csv.gz is missing" in page
    assert page.count("\n## ") == 2
    assert "Not measured yet: Comparison with other systems (`peers`)" in page


def test_a_tool_that_misses_a_target_shows_its_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark_page = import_tool(monkeypatch)
    tool = tmp_path / "tools" / "bench_ours.py"
    tool.parent.mkdir()
    tool.write_text(
        "import pathlib, sys\nprint('open_ms  25  NOT met', *pathlib.Path(sys.argv[1]).parent.glob('*-new'))\n"
        "print('working', file=sys.stderr)\nsys.exit(1)"
    )
    monkeypatch.setattr(benchmark_page, "ROOT", tmp_path)
    measurement = benchmark_page.Measurement("ours", "Ours", ("bench_ours.py", "{new}/store"), ("bench_ours.py", "9"))
    monkeypatch.setattr(benchmark_page, "MEASUREMENTS", (measurement,))
    stored, work = tmp_path / "kept", tmp_path / "work"
    stored.mkdir()
    (work / "ours-new").mkdir(parents=True)  # left behind by a run that was stopped: it is empty at the next one
    outcome = benchmark_page.run_measurement(measurement, tmp_path / "data", work)
    (stored / "ours.json").write_text(json.dumps(asdict(outcome)))
    page = benchmark_page.build_page(stored)
    assert "```text\nopen_ms  25  NOT met\n```\n\nThe tool ended with exit status 1: working\n" in page
    assert "`python tools/bench_ours.py build/benchmarks/new/store`" in page
    assert "For a larger measurement, use `python tools/bench_ours.py 9`." in page


def test_all_parts_of_a_run_are_of_the_commit_it_began_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark_page = import_tool(monkeypatch)
    commits = iter(["abc1234", *["abc1234-dirty"] * 9])  # what is kept of the first part is a change of the tree
    monkeypatch.setattr(
        benchmark_page,
        "describe_environment",
        lambda: importlib.import_module("measured_on").MeasuredOn("2026-11-23", next(commits), "a machine", 0.0),
    )
    places = [f"--{name}={tmp_path / name}" for name in ("data", "work", "kept", "page")]
    benchmark_page.main.main([*places, "--only", "forest", "--only", "vectors"], standalone_mode=False)
    page = (tmp_path / "page").read_text(encoding="utf-8")
    assert page.count("commit abc1234,") == 2 and "dirty" not in page


def test_stored_results_took_at_most_the_stated_time(monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark_page = import_tool(monkeypatch)
    stored = (ROOT / "docs" / "benchmarks").glob("*.json")
    assert sum(json.loads(path.read_text())["processor_seconds"] for path in stored) < 60 * benchmark_page.MINUTES


def test_the_page_is_generated_from_stored_results() -> None:
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "benchmarks.md"
        subprocess.run([sys.executable, str(TOOL), "--as-kept", "--page", str(page)], check=True, capture_output=True)
        assert page.read_text(encoding="utf-8") == (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def test_every_tool_of_the_page_exists_and_accepts_its_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    for measurement in import_tool(monkeypatch).MEASUREMENTS:
        for command in filter(None, (measurement.command, measurement.larger)):
            source = (TOOL.parent / command[0]).read_text(encoding="utf-8")
            assert all(f'"{part}"' in source for part in command[1:] if part.startswith("--")), measurement.name


def import_tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(TOOL.parent))
    return importlib.import_module("benchmark_page")
