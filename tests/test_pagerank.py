"""Personalised PageRank by forward push: the kernel against the power iteration, and over a store."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from random import Random

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples

import kvstore
from kvstore.derived.passage_graph.neighborhood import make_chunk_node, make_entity_node
from kvstore.derived.passage_graph.pagerank import EdgeWeights, PageRank, compute_personalized_pagerank
from kvstore.derived.passage_graph.walk import find_walks
from kvstore.errors import InputError
from kvstore.structures.read_requests import BatchedReader
from kvstore_cext.pagerank import ForwardPush

Weights = dict[int, dict[int, float]]

# Nodes far apart and close together; weights of zero and rows without any, which are dead ends.
node = st.sampled_from([0, 1, 2, 3, 5, 8, 13, 1 << 40, (1 << 63) + 1, (1 << 63) + 2, (1 << 64) - 1])
weight = st.one_of(st.just(0.0), st.floats(0.01, 100))
graphs = st.dictionaries(node, st.dictionaries(node, weight, max_size=6), max_size=11)
seeds = st.dictionaries(node, st.floats(0.01, 1), min_size=1, max_size=4)
restarts = st.floats(0.05, 0.9)


def run_push(graph: Weights, seeds: dict[int, float], restart: float, epsilon: float) -> ForwardPush:
    """Run a push over a graph; add each row only when the push requests it."""
    total = math.fsum(seeds.values())
    kernel = ForwardPush(
        np.array(list(seeds), np.uint64),
        np.array(list(seeds.values())) / total,
        np.array([max(1, len(graph.get(seed, {}))) for seed in seeds], np.float64),
        restart,
        epsilon,
    )
    added: set[int] = set()
    while len(requested := kernel.run()):
        assert added.isdisjoint(requested.tolist())
        added.update(requested.tolist())
        rows = [graph.get(node, {}) for node in requested.tolist()]
        kernel.add_rows(
            requested,
            np.cumsum([0, *map(len, rows)]),
            np.array([neighbor for row in rows for neighbor in row], np.uint64),
            np.array([weight for row in rows for weight in row.values()], np.float64),
            np.array([max(1, len(graph.get(neighbor, {}))) for row in rows for neighbor in row], np.float64),
        )
    assert kernel.rows == len(added)
    return kernel


def iterate_powers(graph: Weights, seeds: dict[int, float], restart: float) -> dict[int, float]:
    """Return the PageRank with dead ends leading back to the seeds."""
    nodes = sorted({*seeds, *graph, *(neighbor for row in graph.values() for neighbor in row)})
    place = {node: index for index, node in enumerate(nodes)}
    start = np.zeros(len(nodes))
    for seed, mass in seeds.items():
        start[place[seed]] = mass / sum(seeds.values())
    moves: npt.NDArray[np.float64] = np.tile(start, (len(nodes), 1))
    for node, row in graph.items():
        total = sum(row.values())
        if total > 0:
            moves[place[node]] = 0
            for neighbor, weight in row.items():
                moves[place[node], place[neighbor]] = weight / total
    ranks = start
    for _ in range(2000):
        ranks = restart * start + (1 - restart) * ranks @ moves
    return dict(zip(nodes, ranks.tolist(), strict=True))


@settings(max_examples=num_examples(200), deadline=None)
@given(graphs, seeds, restarts)
def test_push_agrees_with_the_power_iteration(graph: Weights, seeds: dict[int, float], restart: float) -> None:
    expected = iterate_powers(graph, seeds, restart)
    nodes, masses, missing = run_push(graph, seeds, restart, 1e-9).get_masses()
    ranks = dict(zip(nodes.tolist(), masses.tolist(), strict=True))
    assert missing < 1e-6
    for node, mass in expected.items():
        assert abs(ranks.get(node, 0.0) - mass) < 1e-6, node


@settings(max_examples=num_examples(200), deadline=None)
@given(graphs, seeds, restarts, st.sampled_from([1e-1, 1e-2, 1e-3]))
def test_error_and_work_are_bounded(graph: Weights, seeds: dict[int, float], restart: float, epsilon: float) -> None:
    kernel = run_push(graph, seeds, restart, epsilon)
    nodes, masses, missing = kernel.get_masses()
    expected = iterate_powers(graph, seeds, restart)
    errors = [expected[node] - mass for node, mass in zip(nodes.tolist(), masses.tolist(), strict=True)]
    # Never too much, and what is missing in all is what the kernel says.
    assert min(errors) > -1e-9
    assert abs(masses.sum() + missing - 1) < 1e-9
    assert missing <= (1 - restart) * epsilon * sum(max(1, len(graph.get(node, {}))) for node in nodes.tolist()) + 1e-9
    assert kernel.pushes <= kernel.work <= 1 / (restart * epsilon)
    assert kernel.rows <= kernel.pushes


@settings(max_examples=num_examples(100), deadline=None)
@given(graphs, seeds, restarts, st.sampled_from([1e-1, 1e-2, 1e-3]), st.permutations(range(11)), st.randoms())
def test_no_order_and_no_numbering_changes_a_bit(
    graph: Weights, seeds: dict[int, float], restart: float, epsilon: float, numbers: list[int], random: Random
) -> None:
    nodes = sorted({*seeds, *graph, *(other for row in graph.values() for other in row)})
    other = {node: (7 << 40) + numbers[place] for place, node in enumerate(nodes)}

    def shuffle_row(row: dict[int, float]) -> dict[int, float]:
        entries = [(other[node], weight) for node, weight in row.items()]
        random.shuffle(entries)
        return dict(entries)

    total = math.fsum(seeds.values())
    shares = {node: mass / total for node, mass in seeds.items()}
    first_push = run_push(graph, shares, restart, epsilon)
    second_push = run_push(
        {other[node]: shuffle_row(row) for node, row in graph.items()}, shuffle_row(shares), restart, epsilon
    )
    pushed_nodes, masses, missing = first_push.get_masses()
    again, others, lost = second_push.get_masses()
    expected = dict(zip([other[node] for node in pushed_nodes.tolist()], masses.tolist(), strict=True))
    assert dict(zip(again.tolist(), others.tolist(), strict=True)) == expected
    assert (missing, first_push.pushes, first_push.rows) == (lost, second_push.pushes, second_push.rows)
    for node in pushed_nodes.tolist():
        assert {other[before] for before in first_push.get_predecessors(node).tolist()} == set(
            second_push.get_predecessors(other[node]).tolist()
        )


def find_max_probabilities(graph: Weights, seeds: dict[int, float], restart: float) -> dict[int, float]:
    """Return the probability of the most probable walk to each node."""
    probabilities = dict(seeds)
    for _ in range(len(graph) + len(seeds) + 1):
        for node, row in graph.items():
            total = sum(row.values())
            for neighbor, weight in row.items():
                if weight and node in probabilities:
                    further = probabilities[node] * (1 - restart) * weight / total
                    probabilities[neighbor] = max(probabilities.get(neighbor, 0.0), further)
    return probabilities


@settings(max_examples=num_examples(200), deadline=None)
@given(graphs, seeds, restarts)
def test_ways_are_the_likeliest_walks(graph: Weights, seeds: dict[int, float], restart: float) -> None:
    total = sum(seeds.values())
    shares = {node: mass / total for node, mass in seeds.items()}
    kernel = run_push(graph, seeds, restart, 1e-12)
    expected = find_max_probabilities(graph, shares, restart)
    for node in kernel.get_masses()[0].tolist():
        way = find_path(kernel, node)
        likelihood = shares.get(way[0], 0.0) if way else 0.0
        for before, after in itertools.pairwise(way):
            likelihood *= (1 - restart) * graph[before][after] / sum(graph[before].values())
        # A walk so unlikely that the push stopped before it is not known.
        assert expected.get(node, 0.0) < 1e-9 or abs(likelihood / expected[node] - 1) < 1e-6
    assert kernel.get_predecessors(999_999).tolist() == []


def find_path(kernel: ForwardPush, node: int) -> list[int]:
    """Return one of the most probable walks to a node."""
    path = [node]
    while path[-1] not in (before := kernel.get_predecessors(path[-1]).tolist()):
        if not before:
            return []
        path.append(before[-1])
    return path[::-1]


def rank_documents(
    store: kvstore.Store, names: Mapping[str, float], **options: object
) -> tuple[dict[str, float], PageRank]:
    """Return the masses of documents (sums over their chunks) for seeds by name, and the whole PageRank."""
    with store.snapshot() as snapshot:
        state = snapshot._state
        entities = state.filter.find_entities(list(names)).tolist()
        seeds = {make_entity_node(entity): mass for entity, mass in zip(entities, names.values(), strict=True)}
        ranks = compute_personalized_pagerank(BatchedReader(state), seeds, **options)
        masses: dict[str, float] = {}
        for chunk, mass in zip(ranks.chunks.tolist(), ranks.chunk_masses.tolist(), strict=True):
            key = state.documents.get(state.chunks.get(chunk).document).key
            masses[key] = masses.get(key, 0.0) + mass
    return masses, ranks


def fill_store(store: kvstore.Store) -> None:
    store.put("fortune", "Robert Fortune brought tea from China to Darjeeling.", title="Robert Fortune")
    store.put("darjeeling", "Darjeeling lies in West Bengal.", title="Darjeeling")
    store.put("bengal", "West Bengal borders on Bhutan. Its capital is Kolkata.", title="West Bengal")
    store.put("harvest", "A film that was made in Kolkata.", title="Harvest (film)")
    store.put("elsewhere", "Jupiter has many moons.", title="Jupiter")


def test_mass_flows_along_shared_names(store: kvstore.Store) -> None:
    fill_store(store)
    masses, ranks = rank_documents(store, {"robert fortune": 1.0}, epsilon=1e-7)
    assert masses["fortune"] > masses["darjeeling"] > masses["bengal"] > 0
    assert "elsewhere" not in masses
    total = ranks.chunk_masses.sum() + ranks.entity_masses.sum() + ranks.missing_mass
    assert total == pytest.approx(1)
    with store.snapshot() as snapshot:
        document = snapshot._state.documents.find_by_key("darjeeling")
        assert document is not None
        node = make_chunk_node(next(document.chunk_ids()))
        way, names = find_walks(BatchedReader(snapshot._state), ranks, [node])[node]
        assert way[-1] == node
        assert names == ["robert fortune", "chunk 0 of fortune", "darjeeling"]


def test_titles_lead_to_their_passage_and_lower_case_words_do_not(store: kvstore.Store) -> None:
    fill_store(store)
    for name in ("harvest (film)", "harvest"):
        masses, _ = rank_documents(store, {name: 1.0}, epsilon=1e-7)
        assert max(masses, key=masses.__getitem__) == "harvest"
    store.put("other", "After the harvest comes another harvest, in Kathmandu.")
    masses, _ = rank_documents(store, {"harvest": 1.0}, epsilon=1e-7)
    assert "other" not in masses
    masses, _ = rank_documents(store, {"harvest": 1.0}, epsilon=1e-7, weights=EdgeWeights(lower=0.5))
    assert masses["other"] > 0


def test_triples_and_edges_link_entities(store: kvstore.Store) -> None:
    fill_store(store)
    store.put_triples("fortune", [("Robert Fortune", "dreamt of", "Jupiter")])
    masses, _ = rank_documents(store, {"robert fortune": 1.0}, epsilon=1e-7)
    assert masses["elsewhere"] > 0
    store.put_triples("fortune", [])
    assert "elsewhere" not in rank_documents(store, {"robert fortune": 1.0}, epsilon=1e-7)[0]
    store.put_edge("Robert Fortune", "Jupiter")
    assert rank_documents(store, {"robert fortune": 1.0}, epsilon=1e-7)[0]["elsewhere"] > 0
    assert "elsewhere" not in rank_documents(store, {"robert fortune": 1.0}, weights=EdgeWeights(relation_link=0))[0]


def test_frequent_entities_are_not_walked_through(store: kvstore.Store) -> None:
    with store.transaction() as transaction:
        for number in range(150):
            transaction.put(f"d{number}", f"There is, in Kolkata, a quarter called Quarter{number} Park.")
    weights = EdgeWeights(max_chunks=149)
    masses, _ = rank_documents(store, {"quarter7 park": 1.0}, weights=weights)
    assert set(masses) == {"d7"}
    masses, _ = rank_documents(store, {"quarter7 park": 1.0}, epsilon=1e-7)
    assert len(masses) == 150, "a row of several blocks is read whole"


@pytest.mark.slow
def test_cost_does_not_grow_with_the_store(store: kvstore.Store) -> None:
    fill_store(store)
    # Without rarity, which depends on the number of passages, the walk is the same step for step.
    weights = EdgeWeights(rarity_exponent=0)
    _, before = rank_documents(store, {"robert fortune": 1.0}, weights=weights)
    for number in range(300):
        store.put(f"d{number}", f"Olaf{number} met Sven{number % 17} in Oslo{number % 5}.", title=f"Olaf{number}")
    _, after = rank_documents(store, {"robert fortune": 1.0}, weights=weights)
    assert (after.pushes, after.rows, after.rounds) == (before.pushes, before.rows, before.rounds)
    assert after.chunks.tolist() == before.chunks.tolist()


def test_bad_seeds_and_options_are_refused(store: kvstore.Store) -> None:
    fill_store(store)
    with store.snapshot() as snapshot:
        for seeds, options in (
            ({}, {}),
            ({1: 0.0}, {}),
            ({1: float("nan")}, {}),
            ({1: 1.0}, {"restart": 0.0}),
            ({1: 1.0}, {"epsilon": 1.0}),
        ):
            with pytest.raises(InputError):
                compute_personalized_pagerank(BatchedReader(snapshot._state), seeds, **options)
