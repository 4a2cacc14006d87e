"""Neighbours of an entity: what the stored graph says equals what a join of the mentions gives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

import kvstore
from kvstore import Store
from kvstore.errors import EntityNotFoundError, InputError

TEXTS = {
    "tea": "Robert Fortune took Camellia Sinensis to Darjeeling.\n\nIn Darjeeling the East India Company grew it.",
    "port": "The East India Company sailed to Calcutta. Robert Fortune sailed to Calcutta too, and to Shanghai.",
    "hills": "Darjeeling lies above Calcutta. From Calcutta a railway leads to Darjeeling.",
    "zebra": "Robert Fortune saw Shanghai, and Shanghai saw Robert Fortune.",
}


def fill_store(store: Store, keys: list[str]) -> Store:
    for key in keys:
        store.put(key, TEXTS[key])
    store.put_edge("Darjeeling", "West Bengal", tree="places")
    store.put_edge("Calcutta", "West Bengal", tree="places")
    store.put_edge("Happy Valley", "Darjeeling", tree="places")
    return store


def count_joint_chunks(store: Store, name: str) -> dict[str, int]:
    """Count the chunks that mention each name together with `name`, by the table of mentions."""
    chunks: defaultdict[int, set[str]] = defaultdict(set)
    for entity, chunk in store.execute("SELECT entity, chunk FROM mentions"):
        chunks[chunk].add(entity)
    counts: defaultdict[str, int] = defaultdict(int)
    for names in chunks.values():
        for neighbor in names - {name} if name in names else ():
            counts[neighbor] += 1
    return dict(counts)


def test_they_are_those_of_the_same_passages_and_trees(make_store: Callable[..., Store]) -> None:
    store = fill_store(make_store(), sorted(TEXTS))
    for name in ("Darjeeling", "Robert Fortune", "Calcutta"):
        neighbors = {neighbor.name: neighbor for neighbor in store.neighbours(name, 1000)}
        assert {
            neighbor_name: neighbor.passages for neighbor_name, neighbor in neighbors.items() if neighbor.passages
        } == count_joint_chunks(store, name)
    neighbors = {neighbor.name: neighbor for neighbor in store.neighbours("darjeeling")}
    assert neighbors["West Bengal"].above == ("places",) and neighbors["West Bengal"].below == ()
    assert neighbors["Happy Valley"].below == ("places",) and neighbors["Happy Valley"].document is None
    assert (neighbors["Calcutta"].document, neighbors["Calcutta"].chunk) == ("hills", 0)
    assert {neighbor.entity for neighbor in neighbors.values()} == {"Darjeeling"}


def test_the_strongest_come_first_and_the_rest_is_cut(make_store: Callable[..., Store]) -> None:
    store = fill_store(make_store(), sorted(TEXTS))
    neighbors = store.neighbours("Robert Fortune", 1000)
    trees: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for entity, chunk in store.execute("SELECT entity, chunk FROM mentions"):
        trees[entity].append((entity, chunk))
    chunks = {name: {chunk for _, chunk in rows} for name, rows in trees.items()}
    ranks = [(-neighbor.score, len(chunks[neighbor.name]), neighbor.name.casefold()) for neighbor in neighbors]
    assert ranks == sorted(ranks)
    # They are never named without him.
    assert [neighbor.name for neighbor in neighbors[:2]] == ["East India Company", "Shanghai"]
    assert store.neighbours("Robert Fortune", 2) == neighbors[:2]
    assert "Shanghai" in neighbors._repr_html_()
    with pytest.raises(InputError, match="limit"):
        store.neighbours("Robert Fortune", 0)
    with pytest.raises(EntityNotFoundError, match="Darjeeling"):
        store.neighbours("Darjeling")


def test_of_equal_scores_the_rarer_name_comes_first(store: Store) -> None:
    # Agatha Marsh has four passages and shares two with Robert Fortune, and Zelda Zink the only one that names her.
    store.put("a", "Robert Fortune met Agatha Marsh.")
    store.put("b", "Robert Fortune met Agatha Marsh and Zelda Zink.")
    store.put("c", "Agatha Marsh left.")
    store.put("d", "Agatha Marsh came back.")
    first, second = store.neighbours("Robert Fortune")
    assert (first.name, first.passages, second.name, second.passages) == ("Zelda Zink", 1, "Agatha Marsh", 2)
    assert first.score == second.score
    assert [neighbor.name for neighbor in store.neighbours("Robert Fortune", 1)] == ["Zelda Zink"]


def test_they_do_not_depend_on_history(make_store: Callable[..., Store]) -> None:
    first_store = fill_store(make_store("one"), sorted(TEXTS))
    second_store = make_store("other")
    second_store.put("gone", "Robert Fortune met Darjeeling in Lisbon. Lisbon, Lisbon.")
    fill_store(second_store, sorted(TEXTS, reverse=True))
    second_store.delete("gone")
    for name in ("Robert Fortune", "Darjeeling", "West Bengal"):
        assert first_store.neighbours(name) == second_store.neighbours(name)


def test_names_of_one_entity_are_one(make_store: Callable[..., Store]) -> None:
    store = fill_store(make_store(), sorted(TEXTS))
    alone = {neighbor.name for neighbor in store.neighbours("Shanghai", 100)}
    assert "Robert Fortune" in alone
    store.put("kolkata", "Kolkata is a city. Shanghai is another than Kolkata.")
    store.merge("Kolkata", into="Calcutta")
    neighbors: dict[str, Any] = {neighbor.name: neighbor for neighbor in store.neighbours("Shanghai", 100)}
    assert "Kolkata" not in neighbors and neighbors["Calcutta"].passages == 2
    by_either = store.neighbours("Kolkata")
    assert by_either == store.neighbours("Calcutta") and by_either[0].entity == "Calcutta"
    assert not {"Kolkata", "Calcutta"} & {neighbor.name for neighbor in by_either}


def test_a_name_of_an_edge_alone_has_those_of_the_tree(make_store: Callable[..., Store]) -> None:
    store = make_store()
    store.put_edge("B", "A", tree="letters")
    assert store.neighbours("A") == [kvstore.Neighbour("A", "B", 3.0, 0, (), ("letters",), (), None, None)]
