"""The baselines of CFT-RAG find what the filter finds, and the benchmark reports every figure it promises."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples

import kvstore
from kvstore.retrieval.hierarchy import Hierarchy

TOOLS = Path(__file__).parents[1] / "tools"
sys.path.insert(0, str(TOOLS))

from forest_baselines import (  # noqa: E402
    BloomSearch,
    DictionarySearch,
    ImprovedBloomSearch,
    LmdbSearch,
    NaiveSearch,
    Pair,
    build_trees,
)

NAMES = [f"name {number}" for number in range(12)]


@st.composite
def draw_tree(draw: st.DrawFn) -> list[Pair]:
    """Return pairs of names, each below a preceding name."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=2, max_size=9, unique=True))
    return [(name, names[draw(st.integers(0, place))]) for place, name in enumerate(names[1:])]


@settings(max_examples=num_examples(40), deadline=None)
@given(st.lists(draw_tree(), min_size=1, max_size=5), st.integers(1, 4))
def test_every_baseline_finds_the_same_locations_and_context(pairs_of_trees: list[list[Pair]], relatives: int) -> None:
    trees = {f"tree {number}": pairs for number, pairs in enumerate(pairs_of_trees)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with kvstore.open(folder / "store", embedder="hashing:16") as store:
            for key, pairs in trees.items():
                rows = "".join(f"{child},{parent}\n" for child, parent in pairs)
                store.put(key, rows, format="pairs")
            with store.snapshot() as snapshot:
                forest, hierarchy = snapshot._state.forest, Hierarchy(snapshot._state, relatives)
                nodes = hierarchy.find_nodes(NAMES)
                places = {
                    (
                        name,
                        forest.get_tree_name(forest.get_node(node).tree),
                        tuple(map(forest.get_key, forest.iter_parents(node))),
                    )
                    for name, entity_nodes in zip(NAMES, nodes, strict=True)
                    for node in entity_nodes
                }
                sentences = sorted(hierarchy.build_sentences(chain.from_iterable(nodes)))
        roots = build_trees(trees)
        for search in (NaiveSearch, BloomSearch, ImprovedBloomSearch, DictionarySearch):
            baseline = search(roots)
            entity_nodes = [(name, node) for name in NAMES for node in baseline.find_nodes(name)]
            assert len(entity_nodes) == len(places), search
            assert {
                (name, node.tree, () if node.parent is None else (node.parent.name,)) for name, node in entity_nodes
            } == places, search
            assert sorted(baseline.build_context(NAMES, relatives)) == sentences, search
        lmdb = LmdbSearch(roots, folder / "lmdb")
        assert sorted(lmdb.build_context(NAMES, relatives)) == sentences
        lmdb.close()


@pytest.mark.slow
def test_every_figure_is_reported(tmp_path: Path) -> None:
    pairs = tmp_path / "made.csv"
    rows = [f"name {number},name {number // 3}" for number in range(1, 60)]
    pairs.write_text("\n".join(["child,parent", *rows, "name 1,name 20", "dog,name 50", "name 0,entity"]))
    command = [sys.executable, str(TOOLS / "bench_forest.py"), str(pairs), "--json", "--turns", "2", "--nodes", "10"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, run.stderr
    figures = json.loads(run.stdout)
    keys = {"trees", "nodes_per_tree", "entities"}
    keys |= {f"{name}_ms" for name in ("naive", "bloom", "bloom2", "dict", "lmdb", "ours", "ours_fresh", "ours_cold")}
    assert [(row["trees"], row["entities"]) for row in figures["tables"]] == [
        (50, 10), (300, 10), (600, 5), (600, 10), (600, 20)
    ]  # fmt: skip
    assert all(row.keys() == keys and row["nodes_per_tree"] == 10 for row in figures["tables"])
    assert figures["expand_reaches_entity"] is True
    for key in ("load_s", "edge_insert_us", "edge_delete_us", "expand_ms"):
        assert figures[key] > 0
