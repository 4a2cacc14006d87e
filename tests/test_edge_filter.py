"""Accepted edges are a function of the set of stated edges, maintained exactly through any history."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples

import kvstore
from kvstore.storage.environment import Environment
from kvstore.structures.counters import Counters
from kvstore.structures.forest import edge_filter, transitive_reduction
from kvstore.structures.forest.edge_filter import ACCEPTED, CYCLIC, REDUNDANT, Edge, classify_edges, find_cycle_edges
from kvstore.structures.forest.forest import Assertion
from kvstore.structures.forest.forest_writer import ForestWriter
from kvstore.structures.names.entities import KINDS, EntityRecord, EntityWriter

NODES = 9


def classify_by_brute_force(stated: list[Edge]) -> dict[Edge, int]:
    """Return the statuses of some edges, strongest first, by trying every path."""

    def is_reachable(start: int, goal: int, edges: set[Edge]) -> bool:
        reached = {start}
        while more := {parent for child, parent in edges if child in reached} - reached:
            reached |= more
        return goal in reached

    accepted: set[Edge] = set()
    for edge in stated:
        if not is_reachable(edge[1], edge[0], accepted) or not is_reachable(edge[1], edge[0], set(stated)):
            accepted.add(edge)
    statuses = dict.fromkeys(stated, CYCLIC)
    for child, parent in accepted:
        longer = is_reachable(child, parent, accepted - {(child, parent)})
        statuses[child, parent] = REDUNDANT if longer else ACCEPTED
    return statuses


edge = st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)).filter(lambda pair: pair[0] != pair[1])


@pytest.mark.parametrize("bits", [edge_filter._TARGET_BATCH, 2])
@given(stated=st.lists(edge, unique=True, max_size=40))
def test_the_whole_tree_is_judged_as_by_trying_every_way(bits: int, stated: list[Edge]) -> None:
    looped = find_cycle_edges(stated)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edge_filter, "_TARGET_BATCH", bits)
        assert classify_edges(stated, [edge for edge in stated if edge in looped]) == classify_by_brute_force(stated)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    with Environment.open(tmp_path_factory.mktemp("forest") / "store", create=True) as environment:
        yield environment


#: A document states edges with one confidence each, in place of what it stated before; None deletes it.
change = st.tuples(
    st.integers(1, 5),
    st.one_of(st.none(), st.dictionaries(edge, st.sampled_from([0.5, 0.9, 1.0]), min_size=1, max_size=12)),
)


@pytest.mark.parametrize("least_work", [transitive_reduction._MIN_WORK, 12, -1000])
@settings(max_examples=num_examples(150), deadline=None)
@given(history=st.lists(change, min_size=1, max_size=14))
def test_any_history_gives_the_statuses_of_the_remaining_documents(
    environment: Environment, least_work: int, history: list[tuple[int, dict[Edge, float] | None]]
) -> None:
    """With little work allowed some trees are judged as a whole, with none all are."""
    with pytest.MonkeyPatch.context() as patch, environment.write() as view:
        patch.setattr(transitive_reduction, "_MIN_WORK", least_work)
        entities = EntityWriter(view)
        entities.put_many({node + 1: EntityRecord([f"name {node}", KINDS.index("tree"), 1]) for node in range(NODES)})
        forest = ForestWriter(view, Counters())
        documents: dict[int, dict[Edge, float]] = {}
        for document, edges in history:
            if documents.pop(document, None):
                forest.remove_document_edges([document])
            if edges is not None:
                documents[document] = edges
                forest.add_document_edges(
                    document,
                    {
                        ("t", child + 1, parent + 1): [Assertion(document, "of", confidence, 7 * child, 7 * child + 5)]
                        for (child, parent), confidence in edges.items()
                    },
                )
            forest.reduction.classify_deferred_trees()
            support: dict[Edge, int] = {}
            for stated in documents.values():
                for pair, confidence in stated.items():
                    support[pair] = support.get(pair, 0) + round(1000 * confidence)
            # All sentences are equally long: more evidence, then the earlier place, then the names.
            expected = classify_by_brute_force(sorted(support, key=lambda pair: (-support[pair], pair)))
            statuses = {
                (forest.get_node(child).entity - 1, forest.get_node(parent).entity - 1): forest.get_edge_status(
                    child, parent
                )
                for child, parent in forest.iter_edges()
            }
            assert statuses == expected
        view.abort()


def list_accepted(store: kvstore.Store) -> set[tuple[str, str]]:
    return set(store.execute("SELECT child, parent FROM edges WHERE accepted"))


def test_a_nearer_edge_displaces_the_distant_one_and_gives_it_back(store: kvstore.Store) -> None:
    for child, parent in permutations(["tug", "ship", "vessel"], 2):
        if (child, parent) in {("tug", "ship"), ("ship", "vessel"), ("tug", "vessel")}:
            store.put_edge(child, parent)
    assert list_accepted(store) == {("tug", "ship"), ("ship", "vessel")}
    assert [row.parent for row in store.lookup("tug")] == ["ship"]
    store.delete_edge("ship", "vessel")
    assert list_accepted(store) == {("tug", "ship"), ("tug", "vessel")}


def test_of_a_cycle_the_edge_with_least_evidence_yields_until_the_others_are_gone(store: kvstore.Store) -> None:
    fleet = {"format": "pairs", "meta": {"tree": "fleet"}}
    store.put("one", "tug,ship\nship,vessel\nvessel,tug\n", **fleet)
    store.put("two", "vessel,tug\n", **fleet)
    store.put("three", "ship,vessel\n", **fleet)
    assert list_accepted(store) == {("ship", "vessel"), ("vessel", "tug")}
    store.delete("three")
    store.delete("two")
    assert list_accepted(store) == {("tug", "ship"), ("ship", "vessel")}, "of equals the first that is said"
    store.put("one", "ship,vessel\nvessel,tug\n", **fleet)
    assert list_accepted(store) == {("ship", "vessel"), ("vessel", "tug")}


def test_refused_edges_are_shown_and_nowhere_followed(store: kvstore.Store) -> None:
    store.put("fleet", "tug,ship\nship,vessel\nvessel,tug\ntug,vessel\n", format="pairs")
    rows = store.execute("SELECT child, parent, accepted FROM edges WHERE child = 'vessel' OR parent = 'vessel'")
    assert sorted(rows) == [("ship", "vessel", 1), ("tug", "vessel", 0), ("vessel", "tug", 0)]
    assert [row.relative for row in store.expand("vessel", direction="up", depth=5)] == ["vessel"]
    assert list(store.execute("SELECT level FROM nodes WHERE entity = 'tug'")) == [(2,)]
