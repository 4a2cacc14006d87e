"""WordNet's nouns as a hierarchy: cycles, thousands of children, names under several parents."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

import kvstore
from kvstore.structures.forest.edge_filter import CYCLIC, REDUNDANT, Edge

FILE = Path(__file__).parents[2] / "shared" / "data" / "forest" / "wordnet-hypernyms.csv.gz"


def list_statuses(store: kvstore.Store) -> dict[Edge, int | None]:
    with store.snapshot() as snapshot:
        forest = snapshot._state.forest
        return {edge: forest.get_edge_status(*edge) for edge in forest.iter_edges()}


@pytest.mark.slow
@pytest.mark.skipif(not FILE.exists(), reason=f"{FILE} is not there")
def test_wordnet_is_filtered_completely_and_stays_exact_edge_by_edge(store: kvstore.Store, tmp_path: Path) -> None:
    plain = tmp_path / "wordnet.csv"
    plain.write_bytes(gzip.decompress(FILE.read_bytes()))
    assert not store.ingest(plain, format="pairs").failures
    before = list_statuses(store)
    refused = [edge for edge, status in before.items() if status]
    assert len(before) > 83_000
    assert sum(before[edge] == CYCLIC for edge in refused) > 100
    assert sum(before[edge] == REDUNDANT for edge in refused) > 1000

    up = store.expand("dog", direction="up", depth=20)
    assert len(up) == 101
    assert up[-1].text == "cut at 100 rows; LIMIT n shows more"
    assert "entity" in [row.relative for row in up]
    assert [row.level for row in up[:-1]] == sorted((row.level for row in up[:-1]), reverse=True)
    whole = store.expand("dog", direction="up", depth=100, limit=10_000)
    assert whole[-1].relative != "…"
    assert len({row.relative for row in whole}) > 500
    assert len(store.expand("city", direction="down", limit=2000)) > 600

    names = [row[0] for row in store.execute("SELECT name FROM entities")]
    rng = random.Random(5)
    with store.transaction() as transaction:
        edges = [tuple(rng.sample(names, 2)) for _ in range(40)]
        stated = [edge for edge in edges if transaction.put_edge(*edge, tree="wordnet")]
        transaction.keys()
        for child, parent in reversed(stated):
            assert transaction.delete_edge(child, parent, tree="wordnet")
    assert list_statuses(store) == before
