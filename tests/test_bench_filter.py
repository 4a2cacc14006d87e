"""The benchmark of the entity filter runs on any machine and reports every figure it promises."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

KEYS = """
    items absent_answered wrong_answers probe_absent_ns lmdb_absent_ns kernel_probe_ns lookup_present_ns lmdb_present_ns
    lookup_call_us sqlite_call_us ngrams_per_s load_s lmdb_load_s insert_p999_us max_pages_dirtied page_bytes_per_entity
    total_bytes_per_entity open_ms open_ms_10k lookup_ns_10k lmdb_ns_10k
""".split()
TOOL = Path(__file__).parents[1] / "tools" / "bench_filter.py"


def test_every_figure_is_reported(tmp_path: Path) -> None:
    names = tmp_path / "names.csv"
    names.write_text("child,parent\nGolden Retriever,retriever\nNew  York,city\n")
    command = [sys.executable, str(TOOL), "--items", "3000", "--json", "--names", str(names), "--folder", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, run.stderr
    figures = json.loads(run.stdout)
    assert figures["items"] == 3000
    assert list(figures) == KEYS
    # What does not depend on how fast the machine is.
    assert figures["absent_answered"] == figures["wrong_answers"] == 0
    assert 1 <= figures["max_pages_dirtied"] <= 4
    assert figures["page_bytes_per_entity"] <= 30
    assert all(value > 0 for key, value in figures.items() if key not in ("absent_answered", "wrong_answers"))
