"""Affinity clustering: partitions that follow from what is clustered, and change where that changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples

from kvstore.structures.clustering import nearest_rows as rows_module
from kvstore.structures.clustering.affinity import (
    Edges,
    Partition,
    cluster_graph,
    cluster_vectors,
    renumber_clusters,
    select_strongest_edges,
)
from kvstore.structures.clustering.nearest_rows import find_near_rows, find_nearest_rows
from kvstore.structures.vectors.vectors import Matrix


def make_vectors(count: int, seed: int = 0, dimension: int = 48) -> Matrix:
    """Return unit vectors in clusters of about thirty."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(count // 30 + 1, dimension))
    vectors = centres[random.integers(0, len(centres), count)] + 0.7 * random.normal(size=(count, dimension))
    units: Matrix = (vectors / np.linalg.norm(vectors, axis=1)[:, None]).astype(np.float32)
    return units


def make_rings(count: int, size: int) -> tuple[int, Edges]:
    """Return complete graphs in a chain of weak edges."""
    pairs = [
        (ring * size + first, ring * size + second, 10)
        for ring in range(count)
        for first in range(size)
        for second in range(first + 1, size)
    ]
    pairs += [(ring * size, (ring + 1) * size, 1) for ring in range(count - 1)]
    return count * size, make_edges(pairs)


def make_edges(pairs: list[tuple[int, int, int]]) -> Edges:
    return Edges(*(np.array(column, np.int64) for column in (zip(*pairs, strict=True) if pairs else ((), (), ()))))


def list_groups(labels: Partition, names: Partition) -> set[tuple[int, ...]]:
    """Return the clusters of two or more nodes as names."""
    clusters = (tuple(names[labels == label].tolist()) for label in range(labels.max() + 1))
    return {group for group in clusters if len(group) > 1}


def assert_levels(levels: list[Partition], count: int, size: int) -> None:
    """Check that each level is a partition, numbered by smallest nodes, and coarser than the preceding level."""
    previous: Partition = np.arange(count)
    for labels in levels:
        assert labels.tolist() == renumber_clusters(labels).tolist()
        of_group: dict[int, int] = {}
        for inner, outer in zip(previous.tolist(), labels.tolist(), strict=True):
            assert of_group.setdefault(inner, outer) == outer
        assert max(np.bincount(list(of_group.values()))) <= size
        assert labels.max() < previous.max()
        previous = labels


def test_a_graph_is_split_into_connected_components() -> None:
    count, edges = make_rings(6, 5)
    levels = cluster_graph(count, edges)
    assert_levels(levels, count, 12)
    assert (np.arange(count) // 5).tolist() in [labels.tolist() for labels in levels]


def test_without_edges_nothing_joins() -> None:
    assert cluster_graph(3, make_edges([])) == []
    assert cluster_graph(0, make_edges([])) == []
    assert list(cluster_vectors(np.empty((0, 8), np.float32))) == []
    assert list(cluster_vectors(make_vectors(1))) == []


@settings(max_examples=num_examples(60), deadline=None)
@given(
    count=st.integers(2, 30),
    pairs=st.sets(st.tuples(st.integers(0, 29), st.integers(0, 29)), min_size=1, max_size=60),
    size=st.integers(2, 6),
    random=st.randoms(use_true_random=False),
)
def test_levels_are_partitions_whatever_the_order_of_edges(
    count: int, pairs: set[tuple[int, int]], size: int, random: object
) -> None:
    unique = {(min(pair), max(pair)) for pair in pairs if max(pair) < count and pair[0] != pair[1]}
    triples = [(*pair, 1 + (pair[0] * 7 + pair[1]) % 5) for pair in sorted(unique)]
    levels = cluster_graph(count, make_edges(triples), max_cluster_size=size)
    assert_levels(levels, count, size)
    random.shuffle(triples)  # type: ignore[attr-defined]
    assert [labels.tolist() for labels in cluster_graph(count, make_edges(triples), max_cluster_size=size)] == [
        labels.tolist() for labels in levels
    ]


def test_the_strongest_edges_of_each_end_stay() -> None:
    star = make_edges([(0, node, node) for node in range(1, 8)])
    strongest = select_strongest_edges(8, star, 2)
    assert strongest.second.tolist() == list(range(1, 8)), "each is the strongest of its other end"
    edges = make_edges([*((0, node, node) for node in range(1, 8)), *((node, 8, 100) for node in range(1, 8))])
    strongest = select_strongest_edges(9, edges, 1)
    assert [pair for pair in zip(strongest.first.tolist(), strongest.second.tolist(), strict=True) if pair[0] == 0] == [
        (0, 7)
    ]


def test_vectors_fall_into_their_clouds() -> None:
    vectors = make_vectors(600)
    levels = list(cluster_vectors(vectors))
    assert_levels(levels, 600, 12)
    cohesion = []
    for labels in levels:
        sums = np.zeros((labels.max() + 1, vectors.shape[1]))
        np.add.at(sums, labels, vectors)
        centres = sums / np.linalg.norm(sums, axis=1)[:, None]
        cohesion.append((vectors * centres[labels]).sum(axis=1).mean())
    assert cohesion[0] > 0.8
    assert cohesion == sorted(cohesion, reverse=True)


def test_removing_a_vector_changes_its_neighbors() -> None:
    vectors = make_vectors(900)
    names = np.arange(900)
    remaining = np.delete(names, 450)
    pairs = zip(cluster_vectors(vectors), cluster_vectors(vectors[remaining]), strict=False)
    old_groups, new_groups = set(), set()
    for level, (old_labels, new_labels) in enumerate(pairs):
        old_groups |= {(level, group) for group in list_groups(old_labels, names)}
        new_groups |= {(level, group) for group in list_groups(new_labels, remaining)}
    assert len(old_groups & new_groups) >= 0.95 * len(old_groups)


def test_equal_vectors_are_joined_as_many_as_may_be() -> None:
    vectors = np.repeat(make_vectors(2), 60, axis=0)
    levels = list(cluster_vectors(vectors, max_levels=2))
    assert_levels(levels, 120, 12)
    assert levels[0].max() + 1 == 10


def test_the_nearest_are_exact_among_few_and_mostly_found_among_many(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = make_vectors(2500)
    exact, cosines = find_nearest_rows(vectors)
    products = vectors @ vectors.T
    np.fill_diagonal(products, -1)
    assert (np.abs(products[np.arange(2500), exact] - products.max(axis=1)) < 1e-4).all()
    assert (np.abs(cosines / 10_000 - products.max(axis=1)) < 1e-4).all()
    monkeypatch.setattr(rows_module, "_MAX_EXACT_ROWS", 100)
    monkeypatch.setattr(rows_module, "_ROWS_PER_CELL", 40)
    rows, _ = find_nearest_rows(vectors)
    assert (rows == exact).mean() > 0.9


def test_rows_of_a_large_cell_are_compared_a_few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = make_vectors(700)
    nearest, near_rows = find_nearest_rows(vectors), find_near_rows(vectors, 5)
    monkeypatch.setattr(rows_module, "_MAX_PRODUCTS", 700 * 9)
    assert all((rows == expected).all() for rows, expected in zip(find_nearest_rows(vectors), nearest, strict=True))
    assert (np.sort(find_near_rows(vectors, 5)) == np.sort(near_rows)).all()


def test_near_rows_are_those_of_largest_cosine() -> None:
    vectors = make_vectors(400)
    products = vectors @ vectors.T
    np.fill_diagonal(products, -np.inf)
    expected = np.sort(products, axis=1)[:, -7:]
    rows = find_near_rows(vectors, 7)
    assert np.allclose(np.sort(np.take_along_axis(products, rows, axis=1), axis=1), expected, atol=1e-4)
    assert all(len({*row}) == 7 for row in rows.tolist())
    few_rows = find_near_rows(vectors[:3], 5)
    assert [sorted(row) for row in few_rows.tolist()] == [[-1, -1, -1, 1, 2], [-1, -1, -1, 0, 2], [-1, -1, -1, 0, 1]]
    assert find_near_rows(vectors[:1], 2).tolist() == [[-1, -1]] and find_near_rows(vectors[:0], 2).shape == (0, 2)


def test_most_near_rows_are_found_by_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = make_vectors(3000)
    exact = find_near_rows(vectors, 10)
    monkeypatch.setattr(rows_module, "_MAX_EXACT_ROWS", 100)
    monkeypatch.setattr(rows_module, "_ROWS_PER_CELL", 32)
    near_rows = find_near_rows(vectors, 10)
    assert all(len(set(row) - {-1}) == sum(column != -1 for column in row) for row in near_rows.tolist())
    shared = [len({*column} & {*near}) for column, near in zip(exact.tolist(), near_rows.tolist(), strict=True)]
    assert sum(shared) >= 0.8 * 10 * len(vectors)
