"""Measure retrieval from entity forests against the baselines of CFT-RAG, in one run.
A forest has several trees of names. A question is a list of names; its *context* is the sentences that state the
nearest ancestors and descendants of each name, in each tree.

    python tools/bench_forest.py shared/data/forest/wordnet-hypernyms.csv.gz --json

In: a CSV file of child,parent pairs (gzip or not). Each tree is the subtree of a randomly drawn name (seeded), cut
breadth-first. Out: tables 1 and 2 of the paper, and the cost of loading and changing the whole hierarchy;
with ``--json`` one object. All times are processor times, because other programs lengthen the elapsed time of the slow
methods most. The times of the tables are medians per question, for questions of randomly drawn names. Each method is
measured after it has answered the same questions once, so it can use its caches. ``ours_ms`` reads a durable store
through one snapshot, ``ours_fresh_ms`` opens a snapshot for every question, and ``ours_cold_ms`` opens the store for
every question.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import random
import statistics
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from time import process_time
from typing import Any

from forest_baselines import (
    BloomSearch,
    DictionarySearch,
    ImprovedBloomSearch,
    LmdbSearch,
    NaiveSearch,
    Pair,
    Search,
    build_trees,
)

import kvstore
from kvstore.retrieval.hierarchy import Hierarchy
from kvstore.text.normalize import to_entity_key

SEED = 0x5EED_F03E57
#: The number of ancestors, and of descendants, in the sentence about each place.
RELATIVES = 3
#: (number of trees, number of names in a question), for each size of tree in NODES.
SETTINGS = ((50, 10), (300, 10), (600, 5), (600, 10), (600, 20))
NODES = (10, 100)
#: The number of questions per turn; slow methods get one.
QUESTIONS = 20
SLOW_SEARCHES = ("naive_ms", "bloom_ms", "bloom2_ms")
#: The number of names for which the sentences of a slow method are checked.
NUM_CHECKED = 20
#: The number of edges that are added and removed, and of those that get a commit each.
EDGES, NUM_COMMITS = 200, 20

# -- Trees


def read_pairs(path: Path) -> list[Pair]:
    """Return the (child, parent) pairs of a CSV file with a header, without duplicates or self-references.

    Names are converted to entity keys.
    """
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        rows = csv.reader(file)
        next(rows)
        pairs = ((to_entity_key(child), to_entity_key(parent)) for child, parent in rows)
        return list(dict.fromkeys(pair for pair in pairs if pair[0] != pair[1]))


def cut_trees(pairs: Sequence[Pair], count: int, nodes: int, seed: int) -> dict[str, list[Pair]]:
    """Return ``count`` trees of ``nodes`` nodes each, cut breadth-first below randomly drawn names.

    A tree is a list of (child, parent) pairs. Trees repeat if the hierarchy has too few of that size.
    """
    children: dict[str, list[str]] = {}
    for child, parent in pairs:
        children.setdefault(parent, []).append(child)
    names = sorted(children)
    random.Random(seed).shuffle(names)
    trees: dict[str, list[Pair]] = {}
    for root in names:
        tree_pairs = cut_tree(root, children, nodes)
        if len(tree_pairs) == nodes - 1:
            trees[f"tree {len(trees)}"] = tree_pairs
            if len(trees) == count:
                return trees
    num_distinct = len(trees)
    for index in range(num_distinct, count) if num_distinct else ():
        trees[f"tree {index}"] = trees[f"tree {index % num_distinct}"]
    return trees


def cut_tree(root: str, children: dict[str, list[str]], nodes: int) -> list[Pair]:
    """Return the (child, parent) pairs of the first ``nodes`` names below and including ``root``, breadth-first."""
    tree_pairs: list[Pair] = []
    tree_names = {root}
    queue = deque([root])
    while queue and len(tree_names) < nodes:
        parent = queue.popleft()
        for child in children.get(parent, ()):
            if child not in tree_names and len(tree_names) < nodes:
                tree_names.add(child)
                tree_pairs.append((child, parent))
                queue.append(child)
    return tree_pairs


def fill_store(path: Path, trees: dict[str, list[Pair]]) -> kvstore.Store:
    """Create a durable store of these trees, one document per tree, and return it open."""
    store = kvstore.open(path, embedder="hashing:16")
    with store.transaction() as transaction:
        for tree, pairs in trees.items():
            csv_rows = "".join(f'"{child}","{parent}"\n' for child, parent in pairs)
            transaction.put(tree, csv_rows, format="pairs", meta={"tree": tree})
    return store


class StoreSearch:
    """A search of the store as ``cft`` does it: filter, addresses, sentences. Lookups of known names are counted."""

    def __init__(self, store: kvstore.Store, snapshot: kvstore.Snapshot) -> None:
        """Read the hierarchy of the trees from ``snapshot``; ``store`` counts the lookups."""
        self._store = store
        self._hierarchy = Hierarchy(snapshot._state, RELATIVES)

    def build_context(self, names: Sequence[str], relatives: int) -> list[str]:
        """Return the sentences about every node of every name, and count the lookups of names that have nodes.

        ``relatives`` is ignored; the hierarchy always uses RELATIVES.
        """
        nodes = self._hierarchy.find_nodes(names)
        self._store._session.count_lookups(
            [name for name, entity_nodes in zip(names, nodes, strict=True) if entity_nodes]
        )
        return self._hierarchy.build_sentences(chain.from_iterable(nodes))


class FreshStoreSearch:
    """A search of the store through a new snapshot for every question."""

    def __init__(self, store: kvstore.Store) -> None:
        """Search an open store."""
        self._store = store

    def build_context(self, names: Sequence[str], relatives: int) -> list[str]:
        """Return the same sentences as :class:`StoreSearch`, from a new snapshot."""
        with self._store.snapshot() as snapshot:
            return StoreSearch(self._store, snapshot).build_context(names, relatives)


# -- Measurements


def measure_seconds(function: Callable[..., object], *arguments: object) -> float:
    """Return the processor time of one call in seconds."""
    start = process_time()
    function(*arguments)
    return process_time() - start


def build_contexts(search: Search, questions: Sequence[Sequence[str]]) -> None:
    """Have a search build the context of each question, a list of names."""
    for question in questions:
        search.build_context(question, RELATIVES)


def open_and_build_context(path: Path, question: Sequence[str]) -> None:
    """Open a store read-only, and build the context of one question."""
    with kvstore.open(path, readonly=True) as store:
        FreshStoreSearch(store).build_context(question, RELATIVES)


def measure_table(
    trees: dict[str, list[Pair]], entity_counts: Sequence[int], folder: Path, turns: int
) -> list[dict[str, int | float]]:
    """Return rows of CFT-RAG's tables 1 and 2: milliseconds per question of each method, by number of entities."""
    roots = build_trees(trees)
    names = sorted({name for pairs in trees.values() for pair in pairs for name in pair})
    rng = random.Random(SEED)
    rows: list[dict[str, int | float]] = []
    lmdb_search = LmdbSearch(roots, folder / "lmdb")
    with fill_store(folder / "store", trees) as store, store.snapshot() as snapshot:
        searches: dict[str, Search] = {
            "naive_ms": NaiveSearch(roots),
            "bloom_ms": BloomSearch(roots),
            "bloom2_ms": ImprovedBloomSearch(roots),
            "dict_ms": DictionarySearch(roots),
            "lmdb_ms": lmdb_search,
            "ours_ms": StoreSearch(store, snapshot),
            "ours_fresh_ms": FreshStoreSearch(store),
        }
        check_sentences(searches, names)
        for num_entities in entity_counts:
            questions_by_turn = [
                [rng.sample(names, min(num_entities, len(names))) for _ in range(QUESTIONS)] for _ in range(turns)
            ]
            medians = {
                key: measure_median_ms(
                    search, [questions[:1] if key in SLOW_SEARCHES else questions for questions in questions_by_turn]
                )
                for key, search in searches.items()
            }
            size = 1 + max(map(len, trees.values()))
            rows.append({"trees": len(trees), "nodes_per_tree": size, "entities": num_entities, **medians})
    lmdb_search.close()
    # "Cold": the store is opened for each question, after the store above is closed.
    for row in rows:
        questions = [rng.sample(names, min(int(row["entities"]), len(names))) for _ in range(turns)]
        cold = [1000 * measure_seconds(open_and_build_context, folder / "store", question) for question in questions]
        row["ours_cold_ms"] = statistics.median(cold)
    return rows


def measure_median_ms(search: Search, question_batches: list[list[list[str]]]) -> float:
    """Return the processor time of a search per question in milliseconds: the median of the batches.

    An unmeasured run fills the caches first. Each search runs all of its batches in a row: a search that walks all
    trees evicts the data of the next one from the processor's caches.
    """
    for questions in question_batches:
        build_contexts(search, questions)
    return statistics.median(
        1000 * measure_seconds(build_contexts, search, questions) / len(questions) for questions in question_batches
    )


def check_sentences(searches: dict[str, Search], names: Sequence[str]) -> None:
    """Raise AssertionError if the sentences of a search about a name differ from those of the dictionary."""
    expected = [sorted(searches["dict_ms"].build_context([name], RELATIVES)) for name in names]
    for key, search in searches.items():
        count = NUM_CHECKED if key in SLOW_SEARCHES else len(names)
        if [sorted(search.build_context([name], RELATIVES)) for name in names[:count]] != expected[:count]:
            raise AssertionError(f"{key}: its sentences differ from those of DictionarySearch")


def measure_hierarchy(file: Path, pairs: Sequence[Pair], folder: Path) -> dict[str, Any]:
    """Return the figures of the whole hierarchy: loading it, EXPAND in it, and adding and removing edges."""
    tree = file.name.partition(".")[0]
    csv_file = folder / f"{tree}.csv"
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as source:
        csv_file.write_bytes(source.read())
    start = process_time()
    store = kvstore.open(folder / "hierarchy", embedder="hashing:16")
    report = store.ingest(csv_file, format="pairs")
    result: dict[str, Any] = {"load_s": process_time() - start}
    if report.failures:
        raise AssertionError(report.failures[0].reason)
    with store:
        # In WordNet, "dog" is many levels below the root, "entity".
        name = "dog" if any(child == "dog" for child, _ in pairs) else pairs[-1][0]
        expand = partial(store.expand, name, direction="up", depth=20)
        result["expand_ms"] = statistics.median(1000 * measure_seconds(expand) for _ in range(11))
        relatives = expand()
        result["expand_reaches_entity"] = any(row.relative == "entity" for row in relatives)
        result["expand_cut"] = relatives[-1].relative == "…"  # the last row if EXPAND omits further relatives
        result |= measure_edges(store, pairs, tree)
    return result


def measure_edges(store: kvstore.Store, pairs: Sequence[Pair], tree: str) -> dict[str, float]:
    """Return the microseconds to add an edge and to remove it: within a transaction, and with a commit.

    Half of the edges add a new name; the others connect two random names, which can close a cycle.
    """
    names = sorted({name for pair in pairs for name in pair})
    rng = random.Random(SEED)
    edges = [(f"new name {index}", rng.choice(names)) for index in range(EDGES // 2)]
    edges += [(child, parent) for child, parent in (rng.sample(names, 2) for _ in range(EDGES // 2))]
    edges = sorted(set(edges).difference(pairs))
    inserts, deletes = [], []
    with store.transaction() as transaction:

        def change(method: Callable[..., bool], child: str, parent: str) -> None:
            """Call a method for an edge, and make the transaction apply the change."""
            method(child, parent, tree=tree)
            transaction.keys()  # a transaction applies its pending changes before it reads

        for child, parent in edges:
            inserts.append(1e6 * measure_seconds(change, transaction.put_edge, child, parent))
            deletes.append(1e6 * measure_seconds(change, transaction.delete_edge, child, parent))
        transaction.rollback()
    commits = [1e6 * measure_seconds(partial(store.put_edge, tree=tree), *edge) for edge in edges[-NUM_COMMITS:]]
    for child, parent in edges[-NUM_COMMITS:]:
        store.delete_edge(child, parent, tree=tree)
    return {
        "edge_insert_us": statistics.median(inserts),
        "edge_delete_us": statistics.median(deletes),
        "edge_insert_p99_us": statistics.quantiles(inserts, n=100)[-1],
        "edge_insert_commit_us": statistics.median(commits),
    }


def measure_all(file: Path, folder: Path, sizes: Sequence[int], turns: int) -> dict[str, Any]:
    """Return the figures of the tables, of the whole hierarchy and of its edges, by name."""
    pairs = read_pairs(file)
    tables: list[dict[str, int | float]] = []
    for nodes_per_tree in sizes:
        for num_trees in sorted({num_trees for num_trees, _ in SETTINGS}):
            tree_folder = folder / f"{num_trees} trees of {nodes_per_tree}"
            tree_folder.mkdir()
            entities = [num_entities for tree_count, num_entities in SETTINGS if tree_count == num_trees]
            tables += measure_table(cut_trees(pairs, num_trees, nodes_per_tree, SEED), entities, tree_folder, turns)
    return {"tables": tables, **measure_hierarchy(file, pairs, folder)}


def main() -> int:
    """Parse the arguments, run all measurements, and print the figures; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("pairs", type=Path, help="a CSV file of child,parent pairs with a header, gzip or not")
    parser.add_argument("--turns", type=int, default=15, help="number of turns of each method (default: 15)")
    parser.add_argument(
        "--nodes", type=int, nargs="+", default=list(NODES), help="numbers of nodes of a tree (default: 10 100)"
    )
    parser.add_argument("--folder", type=Path, help="folder for the stores (default: a temporary one)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        result = measure_all(options.pairs, Path(folder), options.nodes, options.turns)
    if options.json:
        print(json.dumps(result))
        return 0
    for name, value in result.items():
        if isinstance(value, list):
            print("  ".join(f"{key:>14}" for key in value[0]))
            for row in value:
                cells = (f"{figure:14,.4f}" if isinstance(figure, float) else f"{figure:14}" for figure in row.values())
                print("  ".join(cells))
        else:
            print(f"{name:24} {value:,.2f}" if isinstance(value, float) else f"{name:24} {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
