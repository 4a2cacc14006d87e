"""Measure C-HNSW, one graph of several layers of vectors, against one graph of hnswlib per layer. Layer 0 has the
entities, the layers above it the communities from the finest to the coarsest. A search keeps *ef* candidates.

    python tools/bench_chnsw.py --data FOLDER [--data FOLDER ...] [--embedder NAME] [--queries N] [--store FOLDER]

``--data`` names folders with ``corpus.jsonl`` (id, title, text) and ``questions.jsonl`` (question). Their passages are
stored together, and attributed communities are built from them (ArchRAG, arXiv 2502.09891, section 3.1.2). Every
question searches the nearest 5 nodes of each layer. ``--store`` keeps the store, or uses an existing one.

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
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

# Set before numpy is loaded, so that a single thread is measured.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import click
import hnswlib
import numpy as np
import numpy.typing as npt
from evaluation.question_sets import read_json_lines

import kvstore
from kvstore.models.embedder import open_embedder
from kvstore.storage import index_file
from kvstore.structures.vectors.chnsw import CHECKED_IN_PLACE, LayeredVectors, build_layered_arrays
from kvstore.structures.vectors.hnsw import SEED
from kvstore.systems.graphrag.attributes import compute_entity_vectors, load_chunk_vectors
from kvstore.systems.graphrag.community_building import CommunityOptions, build_communities
from kvstore_cext.chnsw import LayeredGraph

Matrix = npt.NDArray[np.float32]
#: A search of all layers with a question and an ef: (nearest nodes by layer, number of computed distances).
LayerSearch = Callable[[Matrix, int], tuple[list[npt.NDArray[Any]], int]]
#: The number of nearest nodes that a question requests from each layer.
TOP = 5
#: The parameters that both graphs are built with.
M, EF_CONSTRUCTION = 16, 100
#: The number of rounds of each timing; the best one counts.
ROUNDS = 5
#: The least share of searches in which :class:`CountingSearch` finds what hnswlib finds.
MIN_EQUAL_SHARE = 0.98
#: The values of ef that are tried one after the other, and the recall that a system must reach.
EFS, MIN_RECALL = (5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 75, 100, 125, 150, 200), 0.99
#: The number of documents per commit.
BATCH = 500
#: The arrays of a :class:`LayeredGraph`, in the order of its arguments.
ARRAY_NAMES = ("layers", "vectors", "links0", "links", "down", "entry", "checks", "bounds", "members")


@click.command()
@click.option(
    "--data", "folders", multiple=True, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option("--embedder", default="all-MiniLM-L6-v2", show_default=True, help="Embedder that computes the vectors.")
@click.option("--queries", default=300, show_default=True, help="Maximum number of questions.")
@click.option(
    "--store", "store_path", type=click.Path(path_type=Path), help="Folder of the store; an existing store is used."
)
def main(folders: Sequence[Path], embedder: str, queries: int, store_path: Path | None) -> None:
    """Build C-HNSW and hnswlib graphs over the layers of attributed communities, and compare their searches."""
    questions = [row["question"] for folder in folders for row in read_json_lines(folder / "questions.jsonl")]
    with tempfile.TemporaryDirectory() as scratch:
        layers, parents = load_layers(store_path or Path(scratch) / "store", folders, embedder)
        question_vectors = open_embedder(embedder).embed(questions[:queries])
        report = measure(layers, parents, np.ascontiguousarray(question_vectors), Path(scratch))
    print(json.dumps({"data": [folder.name for folder in folders], **report}))


def load_layers(path: Path, folders: Sequence[Path], embedder: str) -> tuple[list[Matrix], list[npt.NDArray[Any]]]:
    """Return the vectors of each layer, and the parents of each node of all layers but the last.

    A parent is the index of the node's community in the next layer, or -1. The store at ``path`` is filled with the
    passages of the folders if it is new.
    """
    exists = path.exists()
    with kvstore.open(path, embedder=embedder) as store:
        for folder in folders if not exists else ():
            passages = read_json_lines(folder / "corpus.jsonl")
            for start in range(0, len(passages), BATCH):
                with store.transaction() as transaction:
                    for passage in passages[start : start + BATCH]:
                        transaction.put(f"{folder.name}/{passage['id']}", passage["text"], title=passage["title"])
        with store.snapshot() as snapshot:
            state = snapshot._state
            tree = build_communities(state, CommunityOptions(neighbours="knn"))
            entities = compute_entity_vectors(tree.graph, load_chunk_vectors(state, tree.graph))
    layers, parents, parent_communities = [entities], [], tree.finest
    for level in range(int(tree.levels.max(initial=-1)), -1, -1):
        communities = np.flatnonzero(tree.levels == level)
        # The parent -1 (none) selects the last entry, which is -1 too.
        indexes_in_layer = np.full(len(tree) + 1, -1)
        indexes_in_layer[communities] = np.arange(len(communities))
        parents.append(indexes_in_layer[parent_communities])
        parent_communities = tree.parents[communities]
        layers.append(tree.vectors[communities])
    return layers, parents


def measure(layers: list[Matrix], parents: list[npt.NDArray[Any]], questions: Matrix, scratch: Path) -> dict[str, Any]:
    """Build C-HNSW and one graph of hnswlib per layer over the same layers, and return the figures of both."""
    started = time.perf_counter()
    arrays = build_chnsw_arrays(layers, parents)
    build_seconds = time.perf_counter() - started
    started = time.perf_counter()
    hnswlib_graphs = [build_hnswlib_graph(layer) for layer in layers]
    hnswlib_build_seconds = time.perf_counter() - started
    return {
        "layers": [len(layer) for layer in layers],
        "dimension": questions.shape[1],
        "questions": len(questions),
        **compare_searches(arrays, layers, hnswlib_graphs, questions),
        "build_s": {"chnsw": round(build_seconds, 2), "hnswlib": round(hnswlib_build_seconds, 2)},
        **measure_opening(arrays, questions, np.full(len(layers), TOP, np.int64), scratch),
    }


def build_chnsw_arrays(layers: list[Matrix], parents: list[npt.NDArray[Any]]) -> dict[str, Any]:
    """Build C-HNSW over layers of vectors; return its arrays by name."""
    # The digests determine the order of insertion; a store derives them from names.
    digests = [np.random.default_rng(0).permutation(len(layer)).astype(np.uint64) for layer in layers]
    arrays = build_layered_arrays(layers, parents, digests, m=M, exact_below=0)
    assert arrays is not None
    return arrays


def compare_searches(
    arrays: dict[str, Any], layers: list[Matrix], hnswlib_graphs: list[Any], questions: Matrix
) -> dict[str, Any]:
    """Return the recall, distances and times of both systems: each at its smallest sufficient ef, and C-HNSW at ef 20.

    C-HNSW is also searched without the links between layers ("unlinked"), as if its layers were separate graphs.
    """
    graph = LayeredGraph(*(arrays[name] for name in ARRAY_NAMES))
    num_results = np.full(len(layers), TOP, np.int64)  # per layer
    nearest = [find_exact_nearest(layer, questions) for layer in layers]
    counting_searches = [CountingSearch(graph, layer) for graph, layer in zip(hnswlib_graphs, layers, strict=True)]
    search_linked, search_unlinked = (
        partial(search_joint_graph, graph, arrays["layers"], num_results, linked) for linked in (True, False)
    )
    searches: dict[str, LayerSearch] = {
        "chnsw": search_linked,
        "unlinked": search_unlinked,
        "hnswlib": partial(search_separate_graphs, counting_searches),
    }
    figures = {name: measure_at_sufficient_ef(search, questions, nearest) for name, search in searches.items()}
    at_20 = measure_at_ef(search_linked, questions, nearest, ef=20)
    unlinked_at_20 = measure_at_ef(search_unlinked, questions, nearest, ef=20)
    systems = [
        TimedSystem(lambda question, ef: graph.search(question, num_results, ef), figures["chnsw"]["ef"], []),
        TimedSystem(partial(query_hnswlib_graphs, hnswlib_graphs), figures["hnswlib"]["ef"], hnswlib_graphs),
    ]
    chnsw_us, hnswlib_us = time_searches(systems, questions)
    check_walks(counting_searches)
    return {
        "equal": {
            "chnsw": {**figures["chnsw"], "us": round(chnsw_us, 1)},
            "hnswlib": {**figures["hnswlib"], "us": round(hnswlib_us, 1)},
            "unlinked": figures["unlinked"],
            "ratio_to_unlinked": round(figures["chnsw"]["distances"] / figures["unlinked"]["distances"], 3),
            "distances_ratio": round(figures["chnsw"]["distances"] / figures["hnswlib"]["distances"], 3),
            "time_ratio": round(chnsw_us / hnswlib_us, 3),
        },
        "ef 20": {
            **at_20,
            "share_of_nodes": round(at_20["distances"] / sum(map(len, layers)), 4),
            "ratio_to_unlinked": round(at_20["distances"] / unlinked_at_20["distances"], 3),
            "unlinked": unlinked_at_20,
        },
    }


def check_walks(counting_searches: list[CountingSearch]) -> None:
    """Raise AssertionError if too many repeated searches found other nodes than hnswlib."""
    equal_share = sum(counting.num_equal for counting in counting_searches) / sum(
        counting.num_searches for counting in counting_searches
    )
    assert equal_share > MIN_EQUAL_SHARE, f"only {equal_share:.1%} of the walks found what hnswlib found"


def search_joint_graph(
    graph: LayeredGraph,
    first_nodes: npt.NDArray[np.uint32],
    num_results: npt.NDArray[np.int64],
    linked: bool,
    question: Matrix,
    ef: int,
) -> tuple[list[npt.NDArray[Any]], int]:
    """Search all layers of C-HNSW, which follows the links between layers if ``linked``.

    ``first_nodes`` has the first node of each layer. Return the nearest nodes of each layer, as indexes within the
    layer, and the number of computed distances.
    """
    nodes, _, bounds, compared = graph.search(question, num_results, ef, follow_links_down=linked)
    nodes_by_layer = [nodes[low:high] for low, high in pairwise(bounds)]
    return [part - first for part, first in zip(nodes_by_layer, first_nodes, strict=False)], compared


def search_separate_graphs(
    counting_searches: list[CountingSearch], question: Matrix, ef: int
) -> tuple[list[npt.NDArray[Any]], int]:
    """Search each graph of hnswlib; return the nodes by layer and the total number of distances."""
    results = [counting.search(question, ef) for counting in counting_searches]
    return [labels for labels, _ in results], sum(compared for _, compared in results)


def query_hnswlib_graphs(graphs: list[Any], question: Matrix, ef: int) -> None:
    """Query every graph of hnswlib once, to be timed; ``ef`` is already set in the graphs."""
    for graph in graphs:
        graph.knn_query(question, k=min(TOP, graph.element_count), num_threads=1)


def find_exact_nearest(layer: Matrix, questions: Matrix) -> list[tuple[float, set[int]]]:
    """Return for each question the cosine of the TOP-th nearest node, and the nodes that are at least as near."""
    nearest_by_question = []
    tolerance = 1e-6  # ties differ by rounding
    for cosines in questions @ layer.T:
        min_cosine = float(np.sort(cosines)[-min(TOP, len(cosines))])
        nearest_by_question.append((min_cosine, set(np.flatnonzero(cosines >= min_cosine - tolerance).tolist())))
    return nearest_by_question


def measure_at_ef(
    search: LayerSearch, questions: Matrix, nearest: list[list[tuple[float, set[int]]]], ef: int
) -> dict[str, Any]:
    """Return the recall of the worst layer, of each layer, and the number of distances per question, at an ef.

    ``nearest`` has the exact nearest nodes of each layer and question (:func:`find_exact_nearest`).
    """
    num_hits, num_requested, total_distances = np.zeros(len(nearest)), np.zeros(len(nearest)), 0
    for index, question in enumerate(questions):
        nodes_by_layer, distances = search(question, ef)
        total_distances += distances
        for layer, labels in enumerate(nodes_by_layer):
            exact_nodes = nearest[layer][index][1]
            num_hits[layer] += len(exact_nodes & set(labels.tolist()))
            num_requested[layer] += min(TOP, len(exact_nodes))
    recalls = num_hits / num_requested
    return {
        "recall": round(float(recalls.min()), 4),
        "recalls": [round(float(recall), 4) for recall in recalls],
        "distances": round(total_distances / len(questions), 1),
    }


def measure_at_sufficient_ef(
    search: LayerSearch, questions: Matrix, nearest: list[list[tuple[float, set[int]]]]
) -> dict[str, Any]:
    """Return the figures at the smallest ef that reaches MIN_RECALL, or else at the largest of EFS."""
    for ef in EFS:
        figures = measure_at_ef(search, questions, nearest, ef)
        if figures["recall"] >= MIN_RECALL:
            break
    return {"ef": ef, **figures}


class TimedSystem(NamedTuple):
    """A search function of a question and an ef, the ef, and the hnswlib graphs in which it must be set."""

    search: Callable[[Matrix, int], object]
    ef: int
    graphs: list[Any]


def time_searches(systems: list[TimedSystem], questions: Matrix) -> list[float]:
    """Return the microseconds per question of each system: the best of several rounds in which they take turns."""
    best = [float("inf")] * len(systems)
    for _ in range(ROUNDS):
        for index, (search, ef, graphs) in enumerate(systems):
            for graph in graphs:
                graph.set_ef(max(ef, TOP))
            started = time.perf_counter()
            for question in questions:
                search(question, ef)
            best[index] = min(best[index], (time.perf_counter() - started) / len(questions) * 1e6)
    return best


def measure_opening(
    arrays: dict[str, Any], questions: Matrix, counts: npt.NDArray[np.int64], scratch: Path
) -> dict[str, Any]:
    """Return the size of a file of the graph, and the times to open it and to answer the first question.

    ``counts`` is the number of results per layer. The first question also verifies checksums of the nodes.
    """
    path = scratch / "layers.index"
    with index_file.open_draft(path) as draft:
        draft.write({"kind": "layers", "token": b"", "epoch": 0}, arrays)
        draft.publish()
    open_seconds, first_question_seconds = [], []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        _, stored_arrays = index_file.read(path, "layers", lambda token: True, CHECKED_IN_PLACE)  # any token is valid
        opened = LayeredVectors(stored_arrays)
        open_seconds.append(time.perf_counter() - started)
        started = time.perf_counter()
        opened.find_nearest(questions[0], counts.tolist(), ef=20)
        first_question_seconds.append(time.perf_counter() - started)
    return {
        "file_mb": round(path.stat().st_size / 1e6, 1),
        "open_ms": round(1000 * min(open_seconds), 2),
        "first_question_ms": round(1000 * min(first_question_seconds), 2),
    }


def build_hnswlib_graph(layer: Matrix) -> Any:
    """Build an hnswlib graph of the vectors of a layer."""
    graph = hnswlib.Index("ip", layer.shape[1])  # inner product, the cosine of unit vectors
    graph.init_index(len(layer), M=M, ef_construction=EF_CONSTRUCTION, random_seed=SEED)
    graph.add_items(layer, np.arange(len(layer)), num_threads=1)
    return graph


class CountingSearch:
    """Repeats searches of hnswlib in hnswlib's own graph, and counts the computed distances.

    hnswlib does not report them. A node is an index in the graph; its label is the index of its vector in the layer.
    """

    def __init__(self, graph: Any, layer: Matrix) -> None:
        """Decode labels and links from the pickled state of ``graph``, whose vectors are the rows of ``layer``."""
        self._graph, self._layer = graph, layer
        #: The searches so far, and those in which the walk found the same cosines as hnswlib.
        self.num_searches, self.num_equal = 0, 0
        state = graph.__getstate__()[0]
        # In level 0, each node has a record with its links, its vector and its label.
        count, stride = state["cur_element_count"], state["size_data_per_element"]
        level0 = state["data_level0"].view(np.uint8)[: count * stride].reshape(count, stride)
        self._labels = level0[:, state["label_offset"] : state["label_offset"] + 8].copy().view(np.uint64)[:, 0]
        # Each list of links is preceded by its length, in the low 16 bits of a 32-bit word.
        links = level0[:, : 4 + 4 * state["max_M0"]].copy().view(np.uint32)
        self._level0 = [row[1 : 1 + (row[0] & 0xFFFF)].astype(np.int64) for row in links]
        bytes_per_level, offset, upper_links = state["size_links_per_element"], 0, state["link_lists"].view(np.uint8)
        #: For each node, its links in level 1, level 2 and so on.
        self._above: dict[int, list[npt.NDArray[np.int64]]] = {}
        for node, levels in enumerate(state["element_levels"][:count].tolist()):
            links_by_level = (
                upper_links[offset : offset + levels * bytes_per_level]
                .copy()
                .view(np.uint32)
                .reshape(levels, bytes_per_level // 4)
            )
            self._above[node] = [row[1 : 1 + (row[0] & 0xFFFF)].astype(np.int64) for row in links_by_level]
            offset += levels * bytes_per_level
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
        """Repeat hnswlib's search; return the ``count`` best cosines, descending, and the number of distances."""
        node, cosine, compared = self._descend(question)
        compared += 1  # hnswlib computes the distance of this node again in the lowest level
        # Two heaps: of the nodes to expand, the nearest first, and of the ef best nodes, the farthest first.
        unexpanded, best_nodes, visited = [(-cosine, node)], [(cosine, node)], {node}
        while unexpanded:
            negative_cosine, node = heappop(unexpanded)
            if -negative_cosine < best_nodes[0][0]:
                break
            new_nodes = [neighbor for neighbor in self._level0[node].tolist() if neighbor not in visited]
            visited.update(new_nodes)
            compared += len(new_nodes)
            new_cosines = self._compute_cosines(new_nodes, question).tolist() if new_nodes else []
            for neighbor, cosine in zip(new_nodes, new_cosines, strict=True):
                if len(best_nodes) < ef or cosine > best_nodes[0][0]:
                    heappush(unexpanded, (-cosine, neighbor))
                    heappush(best_nodes, (cosine, neighbor))
                    if len(best_nodes) > ef:
                        heappop(best_nodes)
        return sorted((cosine for cosine, _ in best_nodes), reverse=True)[:count], compared

    def _descend(self, question: Matrix) -> tuple[int, float, int]:
        """Search the levels above the lowest greedily, from the entry node down.

        Return the node that is reached, its cosine, and the number of computed distances.
        """
        node, compared = self._entry, 1
        best_cosine = float(self._compute_cosines(node, question))
        for level in range(self._top, 0, -1):
            has_moved = True
            while has_moved:
                has_moved = False
                neighbors = self._above[node][level - 1]
                compared += len(neighbors)
                cosines = self._compute_cosines(neighbors, question).tolist()
                for neighbor, cosine in zip(neighbors.tolist(), cosines, strict=True):
                    if cosine > best_cosine:
                        best_cosine, node, has_moved = cosine, neighbor, True
        return node, best_cosine, compared

    def _compute_cosines(self, nodes: Any, question: Matrix) -> Any:
        """Return the cosine of each node, or of a single node, with the question."""
        return self._layer[self._labels[nodes].astype(np.int64)] @ question


if __name__ == "__main__":
    main()
