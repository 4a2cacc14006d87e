"""The tables beside other systems are made of one run, and leave out nothing that is lost."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TOOLS = Path(__file__).resolve().parent.parent / "tools"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(TOOLS))
    return importlib.import_module("peers_tables")


@pytest.fixture
def sample_run(tool: ModuleType) -> dict[str, Any]:
    """Return figures of a run: kvstore needs 2 of everything; sqlite-vec needs 1 to load and 3000 to delete."""
    ours = {row.figure: 2.0 for row in tool.ROWS}
    theirs = {"disk_ratio": 0.5, "load_s": 1.0, "delete_s": 3000.0, "hybrid_ms": None, "filter_1_ms": 5.25}
    small = {"kvstore": ours | {"load_p50": 1}, "sqlite-vec": theirs, "interpreter": {"memory_mb": 9}}
    return {
        "sizes": {"610": {"kvstore": ours, "sqlite-vec": {"open_hybrid_ms": 1.0}}, "61": small},
        "versions": {"kvstore": "0.2.0", "sqlite-vec": "0.1.9", "duckdb": "1"},
        "measured_on": {"day": "2026-11-23", "commit": "abc1234", "machine": "a processor, 2 cores", "busy": 0.1},
    }


def test_tables_contain_the_measurements(tool: ModuleType, sample_run: dict[str, Any]) -> None:
    parts = tool.build_tables(tool.select_figures(sample_run))
    whole = parts["whole"]
    assert "one run on 2026-11-23 with kvstore at commit abc1234, sqlite-vec 0.1.9 (a processor, 2 cores)." in whole
    assert whole.index("| 61 passages | kvstore | sqlite-vec, FTS5 |") < whole.index("| 610 passages | kvstore |")
    load_row = "| load all passages, with vectors that were computed before"
    assert f"{load_row} | 2.0 s | 1.0 s |" in whole
    assert "| vector search in 1 % of the passages | 2.0 ms | 5.2 ms |" in whole
    assert "| hybrid search | 2.0 ms |  |" in whole
    assert "| size on disk, divided by the size of the texts and vectors | 2.0 times |  |" in whole  # it has no vectors
    assert "| delete a tenth of the documents at once | 2.0 s | 3,000 s |" in whole
    assert "| time from the start of a process to its first hybrid answer | 2.0 ms |  |" in whole
    assert [line.split(" |")[0] for line in parts["chosen"].splitlines()[2:]] == [
        "| vector search in 1 % of the passages",
        "| hybrid search",
        "| replace a document (mean time)",
        load_row,
    ]


def test_every_lost_target_is_reported_with_a_reason(tool: ModuleType, sample_run: dict[str, Any]) -> None:
    losses = tool.build_tables(tool.select_figures(sample_run))["losses"].splitlines()[2:]
    assert losses == [
        f"| loading | 61 passages | sqlite-vec 1.0 s | 2.0 s | {tool.REASONS['load_s']} |",
        f"| time to the first answer | 610 passages | sqlite-vec 1.0 ms | 2.0 ms | {tool.REASONS['open_hybrid_ms']} |",
    ]
    assert {row.figure for row in tool.ROWS} == tool.REASONS.keys()


def test_a_run_without_a_row_is_refused(tool: ModuleType, sample_run: dict[str, Any]) -> None:
    del sample_run["sizes"]["610"]["kvstore"]["replace_ms"]
    with pytest.raises(ValueError, match="no replace_ms at 610 passages"):
        tool.select_figures(sample_run)


def test_sizes_that_only_the_growth_measured_are_left_out(tool: ModuleType, sample_run: dict[str, Any]) -> None:
    run = {**sample_run, "growth": {"kvstore": {"bm25_ms": 1.0}}}
    run["sizes"] = {**sample_run["sizes"], "10000": {"kvstore": {"bm25_ms": 2.0}}}
    assert tool.select_figures(run) == tool.select_figures(sample_run)
