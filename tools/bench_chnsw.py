"""Measure C-HNSW against one graph of hnswlib per layer, over the same layers and questions, in one run.

    python tools/bench_chnsw.py --data FOLDER [--data FOLDER ...] [--embedder NAME] [--queries N] [--store FOLDER]

``--data`` names folders with ``corpus.jsonl`` (id, title, text) and ``questions.jsonl`` (question). Their passages are
stored together, and attributed communities are built from them (ArchRAG, arXiv 2502.09891, section 3.1.2). Layer 0 has
the entities, the layers above it the communities from the finest to the coarsest. Every question searches the nearest
5 nodes of each layer. ``--store`` keeps the store, or uses an existing one.

``equal`` compares both systems at the smallest ef at which each finds 0.99 of the nearest in every layer. ``ef 20``
shows the recall at that ef. ``unlinked`` is the same graph without links between layers. ``distances`` counts the
cosines per question over all layers. For hnswlib they are counted by repeating its search in its own graph, which must
find the same nodes for 98 of 100 questions (ties may differ). Times are microseconds per question in one thread,
called from Python: the best of five rounds in which the systems take turns. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from pathlib import Path
from typing import Any

# Set before numpy is loaded, so that a single thread is measured.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import click
import hnswlib
import numpy as np
import numpy.typing as npt

import kvstore
from kvstore.models.embedder import open_embedder
from kvstore.storage import index_file
from kvstore.structures.vectors.chnsw import CHECKED_IN_PLACE, LayeredVectors, build_layered_arrays
from kvstore.structures.vectors.hnsw import SEED
from kvstore.systems.graphrag.attributes import compute_entity_vectors, load_chunk_vectors
from kvstore.systems.graphrag.community_building import CommunityOptions, build_communities
from kvstore_cext.chnsw import LayeredGraph

Matrix = npt.NDArray[np.float32]
#: Nearest nodes asked for a layer; what both graphs are built with.
TOP, M, EF_CONSTRUCTION = 5, 16, 100
#: The values of ef that are tried one after the other, and the recall that a system must reach.
EFS, MIN_RECALL = (5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 75, 100, 125, 150, 200), 0.99
#: The number of documents per commit.
BATCH = 500


@click.command()
@click.option(
    "--data", "folders", multiple=True, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option("--embedder", default="all-MiniLM-L6-v2", show_default=True, help="Whose vectors these are.")
@click.option("--queries", default=300, show_default=True, help="Questions asked, at most.")
@click.option(
    "--store", "store_path", type=click.Path(path_type=Path), help="Folder of the store; an existing store is used."
)
def main(folders: Sequence[Path], embedder: str, queries: int, store_path: Path | None) -> None:
    """Build both over the layers of attributed communities, and run every query on both."""
    questions = [row["question"] for folder in folders for row in iter_rows(folder / "questions.jsonl")]
    with tempfile.TemporaryDirectory() as scratch:
        layers, parents = load_layers(store_path or Path(scratch) / "store", folders, embedder)
        question_vectors = open_embedder(embedder).embed(questions[:queries])
        report = measure(layers, parents, np.ascontiguousarray(question_vectors), Path(scratch))
    print(json.dumps({"data": [folder.name for folder in folders], **report}))


def iter_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file of JSON lines."""
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def load_layers(path: Path, folders: Sequence[Path], embedder: str) -> tuple[list[Matrix], list[npt.NDArray[Any]]]:
    """Return the vectors of entities and communities (finest first), and the parents of all but the coarsest."""
    exists = path.exists()
    with kvstore.open(path, embedder=embedder) as store:
        for folder in folders if not exists else ():
            passages = list(iter_rows(folder / "corpus.jsonl"))
            for first in range(0, len(passages), BATCH):
                with store.transaction() as transaction:
                    for passage in passages[first : first + BATCH]:
                        transaction.put(f"{folder.name}/{passage['id']}", passage["text"], title=passage["title"])
        with store.snapshot() as snapshot:
            state = snapshot._state
            tree = build_communities(state, CommunityOptions(neighbours="knn"))
            entities = compute_entity_vectors(tree.graph, load_chunk_vectors(state, tree.graph))
    layers, parents, above = [entities], [], tree.finest
    for level in range(int(tree.level.max(initial=-1)), -1, -1):
        here = np.flatnonzero(tree.level == level)
        positions = np.full(len(tree) + 1, -1)  # the last entry, at index -1, is for nodes without a parent
        positions[here] = np.arange(len(here))
        parents.append(positions[above])
        above = tree.parents[here]
        layers.append(tree.vectors[here])
    return layers, parents


def measure(layers: list[Matrix], parents: list[npt.NDArray[Any]], questions: Matrix, scratch: Path) -> dict[str, Any]:
    """Build C-HNSW and one graph of hnswlib per layer over the same layers, and return the figures of both."""
    nearest = [find_exact_nearest(layer, questions) for layer in layers]
    started = time.perf_counter()
    digests = [np.random.default_rng(0).permutation(len(layer)).astype(np.uint64) for layer in layers]
    arrays = build_layered_arrays(layers, parents, digests, m=M, exact_below=0)
    assert arrays is not None
    build_seconds = time.perf_counter() - started
    started = time.perf_counter()
    hnswlib_graphs = [build_hnswlib_graph(layer) for layer in layers]
    hnswlib_build_seconds = time.perf_counter() - started

    names = ("layers", "vectors", "links0", "links", "down", "entry", "checks", "bounds", "members")
    graph = LayeredGraph(*(arrays[name] for name in names))
    counts = np.full(len(layers), TOP, np.int64)

    def make_joint_search(linked: bool) -> Callable[[Matrix, int], tuple[list[npt.NDArray[Any]], int]]:
        """Return a search of all layers in C-HNSW: (nodes by layer, distances). Links down are used if ``linked``."""

        def search(question: Matrix, ef: int) -> tuple[list[npt.NDArray[Any]], int]:
            """Search the graph, and number the nodes within their layers."""
            nodes, _, bounds, compared = graph.search(question, counts, ef, follow_links_down=linked)
            nodes_by_layer = [nodes[low:high] for low, high in pairwise(bounds)]
            return [part - first for part, first in zip(nodes_by_layer, arrays["layers"], strict=False)], compared

        return search

    replays = [Replay(graph, layer) for graph, layer in zip(hnswlib_graphs, layers, strict=True)]

    def search_layers_separately(question: Matrix, ef: int) -> tuple[list[npt.NDArray[Any]], int]:
        """Search each graph of hnswlib; return the nodes by layer and the number of distances of all searches."""
        results = [replay.search(question, ef) for replay in replays]
        return [labels for labels, _ in results], sum(compared for _, compared in results)

    def search_joint_graph(question: Matrix, ef: int) -> None:
        """Search all layers of C-HNSW once, to be timed."""
        graph.search(question, counts, ef)

    def search_hnswlib_graphs(question: Matrix, ef: int) -> None:
        """Search every graph of hnswlib once, to be timed."""
        for graph in hnswlib_graphs:
            graph.knn_query(question, k=min(TOP, graph.element_count), num_threads=1)

    searches = {
        "chnsw": make_joint_search(True),
        "unlinked": make_joint_search(False),
        "hnswlib": search_layers_separately,
    }
    sides = {name: measure_quality(search, questions, nearest) for name, search in searches.items()}
    at_20, unlinked = (measure_at_ef(make_joint_search(linked), questions, nearest, 20) for linked in (True, False))
    ours, theirs = time_searches(
        [
            (search_joint_graph, sides["chnsw"]["ef"], []),
            (search_hnswlib_graphs, sides["hnswlib"]["ef"], hnswlib_graphs),
        ],
        questions,
    )
    nodes = sum(map(len, layers))
    share_equal = sum(replay.num_equal for replay in replays) / sum(replay.num_searches for replay in replays)
    assert share_equal > 0.98, f"only {share_equal:.1%} of the walks found what hnswlib found"
    return {
        "layers": [len(layer) for layer in layers],
        "dimension": questions.shape[1],
        "questions": len(questions),
        "equal": {
            "chnsw": {**sides["chnsw"], "us": round(ours, 1)},
            "hnswlib": {**sides["hnswlib"], "us": round(theirs, 1)},
            "unlinked": sides["unlinked"],
            "ratio_to_unlinked": round(sides["chnsw"]["distances"] / sides["unlinked"]["distances"], 3),
            "distances_ratio": round(sides["chnsw"]["distances"] / sides["hnswlib"]["distances"], 3),
            "time_ratio": round(ours / theirs, 3),
        },
        "ef 20": {
            **at_20,
            "share_of_nodes": round(at_20["distances"] / nodes, 4),
            "ratio_to_unlinked": round(at_20["distances"] / unlinked["distances"], 3),
            "unlinked": unlinked,
        },
        "build_s": {"chnsw": round(build_seconds, 2), "hnswlib": round(hnswlib_build_seconds, 2)},
        **measure_opening(arrays, questions, counts, scratch),
    }


def find_exact_nearest(layer: Matrix, questions: Matrix) -> list[tuple[float, set[int]]]:
    """Return for each question the least cosine among the nearest nodes, and all nodes that are at least as near."""
    nearest_by_question = []
    for row in questions @ layer.T:
        min_cosine = float(np.sort(row)[-min(TOP, len(row))])
        nearest_by_question.append((min_cosine, set(np.flatnonzero(row >= min_cosine - 1e-6).tolist())))
    return nearest_by_question


def measure_at_ef(
    search: Any, questions: Matrix, nearest: list[list[tuple[float, set[int]]]], ef: int
) -> dict[str, Any]:
    """Return the recall of the worst layer and the number of distances per question, at a given ef."""
    hits, wanted, compared = np.zeros(len(nearest)), np.zeros(len(nearest)), 0
    for number, question in enumerate(questions):
        nearest_nodes, distances = search(question, ef)
        compared += distances
        for layer, labels in enumerate(nearest_nodes):
            near = nearest[layer][number][1]
            hits[layer] += len(near & set(labels.tolist()))
            wanted[layer] += min(TOP, len(near))
    recalls = hits / wanted
    return {
        "recall": round(float(recalls.min()), 4),
        "recalls": [round(float(recall), 4) for recall in recalls],
        "distances": round(compared / len(questions), 1),
    }


def measure_quality(search: Any, questions: Matrix, nearest: list[list[tuple[float, set[int]]]]) -> dict[str, Any]:
    """Return recall and number of distances at the smallest ef that reaches the required recall."""
    for ef in EFS:
        measured = measure_at_ef(search, questions, nearest, ef)
        if measured["recall"] >= MIN_RECALL:
            break
    return {"ef": ef, **measured}


def time_searches(sides: list[tuple[Any, int, list[Any]]], questions: Matrix) -> list[float]:
    """Return the microseconds per question of each system: the best of five rounds in which the systems take turns."""
    best = [float("inf")] * len(sides)
    for _ in range(5):
        for number, (ask, ef, graphs) in enumerate(sides):
            for graph in graphs:
                graph.set_ef(max(ef, TOP))
            started = time.perf_counter()
            for question in questions:
                ask(question, ef)
            best[number] = min(best[number], (time.perf_counter() - started) / len(questions) * 1e6)
    return best


def measure_opening(
    arrays: dict[str, Any], questions: Matrix, counts: npt.NDArray[np.int64], scratch: Path
) -> dict[str, Any]:
    """Measure how long it takes to open a file of the graph, and to answer the first question, which verifies nodes."""
    path = scratch / "layers.index"
    with index_file.open_draft(path) as draft:
        draft.write({"kind": "layers", "token": b"", "epoch": 0}, arrays)
        draft.publish()
    times, firsts = [], []
    for _ in range(5):
        started = time.perf_counter()
        opened = LayeredVectors(index_file.read(path, "layers", lambda token: True, CHECKED_IN_PLACE)[1])
        times.append(time.perf_counter() - started)
        started = time.perf_counter()
        opened.find_nearest(questions[0], counts.tolist(), 20)
        firsts.append(time.perf_counter() - started)
    return {
        "file_mb": round(path.stat().st_size / 1e6, 1),
        "open_ms": round(1000 * min(times), 2),
        "first_question_ms": round(1000 * min(firsts), 2),
    }


def build_hnswlib_graph(layer: Matrix) -> Any:
    """Build the graph of hnswlib of one layer."""
    graph = hnswlib.Index("ip", layer.shape[1])
    graph.init_index(len(layer), M=M, ef_construction=EF_CONSTRUCTION, random_seed=SEED)
    graph.add_items(layer, np.arange(len(layer)), num_threads=1)
    return graph


class Replay:
    """A search in a graph of hnswlib that counts its distance computations."""

    def __init__(self, graph: Any, layer: Matrix) -> None:
        self._graph, self._layer = graph, layer
        #: The searches so far, and those in which the walk found the same cosines as hnswlib.
        self.num_searches, self.num_equal = 0, 0
        state = graph.__getstate__()[0]
        count, stride = state["cur_element_count"], state["size_data_per_element"]
        level0 = state["data_level0"].view(np.uint8)[: count * stride].reshape(count, stride)
        self._labels = level0[:, state["label_offset"] : state["label_offset"] + 8].copy().view(np.uint64)[:, 0]
        links = level0[:, : 4 + 4 * state["max_M0"]].copy().view(np.uint32)
        self._level0 = [row[1 : 1 + (row[0] & 0xFFFF)].astype(np.int64) for row in links]
        width, offset, lists = state["size_links_per_element"], 0, state["link_lists"].view(np.uint8)
        self._above: dict[int, list[npt.NDArray[np.int64]]] = {}
        for node, levels in enumerate(state["element_levels"][:count].tolist()):
            above = lists[offset : offset + levels * width].copy().view(np.uint32).reshape(levels, width // 4)
            self._above[node] = [row[1 : 1 + (row[0] & 0xFFFF)].astype(np.int64) for row in above]
            offset += levels * width
        self._top, self._entry = state["max_level"], state["enterpoint_node"]

    def search(self, question: Matrix, ef: int) -> tuple[npt.NDArray[Any], int]:
        """Return the labels that hnswlib finds, and the number of distances that it computes."""
        count = min(TOP, len(self._layer))
        self._graph.set_ef(max(ef, count))
        labels, distances = self._graph.knn_query(question, k=count, num_threads=1)
        walk_cosines, compared = self._walk(question, max(ef, count), count)
        self.num_searches += 1
        self.num_equal += np.allclose(walk_cosines, 1 - np.sort(distances[0]), atol=1e-5)
        return labels[0].astype(np.int64), compared

    def _walk(self, question: Matrix, ef: int, count: int) -> tuple[list[float], int]:
        """Search as hnswlib does; return the ``count`` best cosines and the number of computed distances."""

        def compute_cosine(nodes: Any) -> Any:
            """Return the cosine of each node with the question."""
            return self._layer[self._labels[nodes].astype(np.int64)] @ question

        node, compared = self._entry, 1
        best = float(compute_cosine(node))
        for level in range(self._top, 0, -1):
            changed = True
            while changed:
                changed = False
                others = self._above[node][level - 1]
                compared += len(others)
                for other, near in zip(others.tolist(), compute_cosine(others).tolist(), strict=True):
                    if near > best:
                        best, node, changed = near, other, True
        compared += 1
        unexpanded, best_nodes, visited = [(-best, node)], [(best, node)], {node}
        while unexpanded:
            worst, node = heappop(unexpanded)
            if -worst < best_nodes[0][0]:
                break
            new_nodes = [other for other in self._level0[node].tolist() if other not in visited]
            visited.update(new_nodes)
            compared += len(new_nodes)
            for other, near in zip(new_nodes, compute_cosine(new_nodes).tolist() if new_nodes else [], strict=True):
                if len(best_nodes) < ef or near > best_nodes[0][0]:
                    heappush(unexpanded, (-near, other))
                    heappush(best_nodes, (near, other))
                    if len(best_nodes) > ef:
                        heappop(best_nodes)
        return sorted((near for near, _ in best_nodes), reverse=True)[:count], compared


if __name__ == "__main__":
    main()
