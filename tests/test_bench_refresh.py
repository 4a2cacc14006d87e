"""The figures of tools/bench_refresh.py."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import kvstore

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
import bench_refresh


def test_it_counts_texts_and_those_that_a_document_changes(
    make_store: Callable[..., kvstore.Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_refresh, "_NUM_TURNS", 1)
    store = make_store()
    for number in range(12):
        store.put(f"{number:02}", f"{('Tea', 'Rail', 'Hive')[number % 3]} is what this one is about, and {number}.")
    row = bench_refresh.measure_index(store, "topics", 2)
    store.create_index("topics")
    assert row["texts"] == store.forecast_refresh("topics")["topics"].calls > 1
    assert 1 / row["texts"] <= row["texts_anew"] <= 1
    assert row["commit_ms_with"] > 0 < row["commit_ms_without"]
    assert store.statistics()["documents"] == 12
