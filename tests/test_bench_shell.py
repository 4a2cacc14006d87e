"""The benchmark of the shell runs and reports every figure that has a target."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "bench_shell.py"


@pytest.mark.slow
def test_it_reports_all_figures() -> None:
    sizes = ["--chunks", "100", "--entities", "500"]
    done = subprocess.run([sys.executable, str(TOOL), *sizes, "--json"], capture_output=True, text=True, timeout=300)
    figures = json.loads(done.stdout)
    assert done.returncode == (1 if figures["missed"] else 0)
    assert set(figures["targets"]) <= set(figures)
    assert figures["chunks"] >= 100
    assert all(figures[name] > 0 for name in figures["targets"])
