"""Measure communities, which are groups of entities: the quality of the grouping, and how little of it a changed
document affects. The *labels* of a grouping are the group of each entity. A language model can write a report on each
community; a *digest* identifies its inputs.

    python tools/bench_communities.py --data FOLDER[:N] ... [--trials N] [--store FOLDER] [--embedder NAME] [--json]
    python tools/bench_communities.py --data FOLDER --copies N [--json]

``--data`` names question sets; their passages become documents. For each set and method: *modularity* (Newman 2004) of
the best level over the entity graph; *calinski_harabasz* (Calinski and Harabasz 1974) and *similarity* (mean cosine of
an entity with the centroid of its community) of the finest level, over the vectors of entities; *kept_after_N*, the
share of communities whose members stay the same if N documents are left out; and *texts_anew*, the share of texts to
write again after a sentence is added to one document. The last two are means over ``--trials`` random draws.

``--copies`` builds a store of the passages and N - 1 copies of each with altered names (like ``bench_bridge.py``), and
measures the processor time of CREATE INDEX communities, and of a commit of one document with and without the index.
"""

from __future__ import annotations

import itertools
import json
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
from bench_bridge import load_or_compute_vectors, store_copies
from evaluation.question_sets import fill_store, load

import kvstore
from kvstore.structures.clustering.affinity import Edges, Partition
from kvstore.structures.state import State
from kvstore.systems.graphrag.attributes import compute_entity_vectors, load_chunk_vectors
from kvstore.systems.graphrag.community_building import build_communities
from kvstore.systems.graphrag.community_levels import CommunityOptions, partition_entities
from kvstore.systems.graphrag.community_reports import iter_reports
from kvstore.systems.graphrag.entity_graph import build_entity_graph

#: The number of documents replaced to time a commit.
NUM_TIMED_COMMITS = 200
#: The pairs (method, neighbours) of community options that are compared.
VARIANTS = [(method, neighbours) for method in ("affinity", "leiden") for neighbours in ("none", "knn")]


@click.command()
@click.option(
    "--data", multiple=True, required=True, help="A question set: FOLDER, or FOLDER:N for its first N passages."
)
@click.option(
    "--trials", default=10, show_default=True, help="Number of random draws of documents that are deleted or changed."
)
@click.option("--copies", type=int, help="Only measure times, with N times as many passages.")
@click.option(
    "--cache",
    type=click.Path(path_type=Path),
    help="With --copies: file (.npz) of the vectors; an existing file is used.",
)
@click.option(
    "--store", "store_folder", type=click.Path(path_type=Path), help="Folder of the stores; existing stores are used."
)
@click.option("--embedder", default="all-MiniLM-L6-v2", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(
    data: tuple[str, ...],
    trials: int,
    copies: int | None,
    cache: Path | None,
    store_folder: Path | None,
    embedder: str,
    as_json: bool,
) -> None:
    """Measure the grouping of entities, or time it (--copies)."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = store_folder or Path(scratch)
        folder.mkdir(exist_ok=True)
        for path in data:
            question_set = load(path)
            if copies is not None:
                with open_store_of_copies(
                    folder / f"{question_set.name}-{copies}", path, copies, embedder, cache
                ) as store:
                    rows.append({"data": question_set.name, **time_index(store)})
                continue
            with kvstore.open(folder / question_set.name.replace(":", "-"), embedder=embedder) as store:
                fill_store(store, question_set, triples=False, log=lambda line: click.echo(line, err=True))
                rows += ({"data": question_set.name, **row} for row in measure_methods(store, trials))
    if as_json:
        print(json.dumps({"rows": rows}))
    else:
        for row in rows:
            print("  ".join(f"{name} {value}" for name, value in row.items()))


def measure_methods(store: kvstore.Store, trials: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of each variant: size and quality of the grouping, and its stability after changes."""
    for method, neighbours in VARIANTS:
        options = CommunityOptions(method, neighbours)
        with store.state() as state:
            graph = build_entity_graph(state)
            vectors = compute_entity_vectors(graph, load_chunk_vectors(state, graph))
            levels = partition_entities(graph, vectors, options)
            communities = compute_communities(state, options)
        yield {
            "method": method,
            "neighbours": neighbours,
            "entities": len(graph.entities),
            "edges": len(graph.edges.weights),
            "levels": [int(labels.max()) + 1 for labels in levels],
            "modularity": round(max(compute_modularity(graph.edges, labels) for labels in levels), 4),
            "calinski_harabasz": round(compute_calinski_harabasz(vectors, levels[-1]), 2),
            "similarity": round(compute_similarity(vectors, levels[-1]), 4),
            **measure_stability(store, options, communities, trials),
        }


def measure_stability(
    store: kvstore.Store, options: CommunityOptions, communities: CommunityDigests, trials: int
) -> dict[str, float]:
    """Return how little the ``communities`` of a store change after random changes, which are rolled back.

    ``kept_after_N`` is the share of the communities that keep their members after N documents are deleted,
    ``texts_anew`` the share of the reports whose inputs change after a document is edited.
    """

    def compute_shares_after(change: Callable[[kvstore.Transaction], object]) -> tuple[float, float]:
        """Return the shares of communities and of report inputs that are kept after a change."""
        return compute_shares(communities, compute_communities_after(store, options, change))

    keys = sorted(store.keys(""))
    figures = {}
    for count in (1, 10):
        draws = (random.Random(100 * count + trial).sample(keys, count) for trial in range(trials))
        shares = [compute_shares_after(partial(delete_documents, keys_drawn)) for keys_drawn in draws]
        figures[f"kept_after_{count}"] = compute_rounded_mean(kept_communities for kept_communities, _ in shares)
    shares = [compute_shares_after(partial(add_sentence, key)) for key in random.Random(7).sample(keys, trials)]
    figures["texts_anew"] = compute_rounded_mean(1 - kept_reports for _, kept_reports in shares)
    return figures


#: The digest of the inputs of each community's report, by the names of the members.
CommunityDigests = dict[frozenset[str], bytes]


def compute_communities(state: State, options: CommunityOptions) -> CommunityDigests:
    """Return the digests of the communities that are built from a state."""
    tree = build_communities(state, options)
    members: dict[int, set[str]] = {}
    for community, node in zip(*(column.tolist() for column in tree.group_members()[:2]), strict=True):
        members.setdefault(community, set()).add(tree.graph.keys[node])
    return {frozenset(members[community]): report.content_digest for community, report in iter_reports(state, tree)}


def compute_communities_after(
    store: kvstore.Store, options: CommunityOptions, change: Callable[[kvstore.Transaction], object]
) -> CommunityDigests:
    """Return the digests of the communities after ``change``, which is rolled back again."""
    transaction = store.transaction()
    try:
        change(transaction)
        with transaction.state() as state:
            return compute_communities(state, options)
    finally:
        transaction.rollback()


def delete_documents(keys: Sequence[str], transaction: kvstore.Transaction) -> None:
    """Delete documents within a transaction."""
    for key in keys:
        transaction.delete(key)


def add_sentence(key: str, transaction: kvstore.Transaction) -> None:
    """Append a sentence to a stored document within a transaction."""
    document = transaction.get(key)
    transaction.put(key, f"{document.text} It was changed since.", title=document.title)


def compute_shares(before: CommunityDigests, after: CommunityDigests) -> tuple[float, float]:
    """Return the share of communities that keep their members, and the share of later reports with the same inputs."""
    old_digests = set(before.values())
    kept_reports = sum(digest in old_digests for digest in after.values()) / len(after)
    return len(before.keys() & after.keys()) / len(before), kept_reports


def compute_rounded_mean(values: Iterable[float]) -> float:
    """Return the mean of the values, rounded to four digits."""
    return round(statistics.fmean(values), 4)


def compute_modularity(edges: Edges, labels: Partition) -> float:
    """Return Newman's modularity: the share of edge weight inside groups minus the share expected by chance.

    ``labels`` has the group of each node; the edges are undirected.
    """
    total = edges.weights.sum()
    inside = edges.weights[labels[edges.first] == labels[edges.second]].sum() / total
    num_groups = int(labels.max()) + 1
    degrees = np.bincount(labels[edges.first], edges.weights, num_groups)
    degrees += np.bincount(labels[edges.second], edges.weights, num_groups)
    return float(inside - ((degrees / (2 * total)) ** 2).sum())


def _compute_centers(
    vectors: npt.NDArray[np.float64], labels: Partition
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.intp]]:
    """Return the mean vector of each group, and the number of vectors in each group."""
    sizes = np.bincount(labels)
    centers = np.zeros((len(sizes), vectors.shape[1]))
    np.add.at(centers, labels, vectors)
    return centers / sizes[:, None], sizes


def compute_calinski_harabasz(vectors: npt.NDArray[Any], labels: Partition) -> float:
    """Return the Calinski-Harabasz index: the variance between groups divided by the variance within groups.

    Each variance is divided by its degrees of freedom first.
    """
    vectors = vectors.astype(np.float64)
    centers, sizes = _compute_centers(vectors, labels)
    between = (sizes * ((centers - vectors.mean(axis=0)) ** 2).sum(axis=1)).sum() / (len(sizes) - 1)
    within = ((vectors - centers[labels]) ** 2).sum() / (len(vectors) - len(sizes))
    return float(between / within)


def compute_similarity(vectors: npt.NDArray[Any], labels: Partition) -> float:
    """Return the mean cosine of each unit vector with the centroid of its group."""
    vectors = vectors.astype(np.float64)
    centers, _ = _compute_centers(vectors, labels)
    centers /= np.linalg.norm(centers, axis=1)[:, None]
    return float((vectors * centers[labels]).sum(axis=1).mean())


@contextmanager
def open_store_of_copies(
    path: Path, data: str, copies: int, embedder: str, cache: Path | None
) -> Iterator[kvstore.Store]:
    """Open a store of copies of a question set with precomputed vectors; fill it if it is new."""
    question_set = load(data)
    passages, _ = load_or_compute_vectors(question_set, embedder, cache)
    with kvstore.open(path, embedder=f"none:{passages.shape[1]}", settings={"language": "rules"}) as store:
        if not store.statistics()["documents"]:
            store_copies(store, question_set, passages, copies)
        yield store


def time_index(store: kvstore.Store) -> dict[str, Any]:
    """Return the processor time of CREATE INDEX communities, and of a commit without and with the index."""
    commit_without_index = time_commits(store, "before")
    memory_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    store.create_index("communities")
    seconds = time.process_time() - started
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory_before
    commit_with_index = time_commits(store, "after")
    (index,) = (index for index in store.indexes() if index.kind == "communities")
    store.drop_index("communities")
    return {
        "chunks": store.statistics()["chunks"],
        "refresh_s": round(seconds, 2),
        "more_memory_mib": memory >> 10,  # getrusage reports KiB
        "commit_ms_with": round(1000 * commit_with_index, 3),
        "commit_ms_without": round(1000 * commit_without_index, 3),
        "detail": index.detail,
    }


def time_commits(store: kvstore.Store, word: str) -> float:
    """Return the median processor seconds of commits that each replace a document with one that ends with ``word``."""
    vector = np.eye(store.settings.dimension, dtype=np.float32)[0]  # any unit vector, so that nothing is embedded
    seconds = []
    for key in itertools.islice(store.keys(""), NUM_TIMED_COMMITS):
        document = store.get(key)
        started = time.process_time()
        store.put(key, f"{document.text} {word}.", title=document.title, vectors=vector)
        seconds.append(time.process_time() - started)
    return statistics.median(seconds)


if __name__ == "__main__":
    main()
