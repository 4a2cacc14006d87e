"""The figures of tools/bench_communities.py match their definitions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from theme_texts import write_theme_documents

from kvstore import Store
from kvstore.structures.clustering.affinity import Edges

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from bench_communities import (
    VARIANTS,
    compute_calinski_harabasz,
    compute_modularity,
    compute_similarity,
    measure_methods,
)


def test_figures_of_a_small_graph() -> None:
    # Two triangles joined by an edge (Newman 2004): 6/7 inside, and half of all ends on either side.
    ends = ([0, 0, 1, 3, 3, 4, 2], [1, 2, 2, 4, 5, 5, 3])
    edges = Edges(np.array(ends[0]), np.array(ends[1]), np.ones(7, np.int64))
    assert compute_modularity(edges, np.array([0, 0, 0, 1, 1, 1])) == pytest.approx(6 / 7 - 1 / 2)
    vectors = np.array([[1.0, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]])
    labels = np.array([0, 0, 1, 1])
    between = 2 * ((0.9 - 0.6) ** 2 + (0.3 - 0.6) ** 2) * 2 / 1
    within = 4 * (0.1**2 + 0.3**2) / 2
    assert compute_calinski_harabasz(vectors, labels) == pytest.approx(between / within)
    assert compute_similarity(vectors, labels) == pytest.approx(np.hypot(0.9, 0.3))


def test_every_method_has_its_row(make_store: Callable[..., Store]) -> None:
    store = make_store()
    with store.transaction() as transaction:
        for key, text in write_theme_documents(10).items():
            transaction.put(key, text)
    dumped_tables = set(store.dump())
    rows = list(measure_methods(store, 2))
    assert [(row["method"], row["neighbours"]) for row in rows] == VARIANTS
    assert all(0 < row["kept_after_10"] <= 1 and 0 <= row["texts_anew"] < 0.5 for row in rows)
    assert set(store.dump()) == dumped_tables
