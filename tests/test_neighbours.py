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
        for other in names - {name} if name in names else ():
            counts[other] += 1
    return dict(counts)


def test_they_are_those_of_the_same_passages_and_trees(make_store: Callable[..., Store]) -> None:
    store = fill_store(make_store(), sorted(TEXTS))
    for name in ("Darjeeling", "Robert Fortune", "Calcutta"):
        found = {one.name: one for one in store.neighbours(name, 1000)}
        assert {other: one.passages for other, one in found.items() if one.passages} == count_joint_chunks(store, name)
    found = {one.name: one for one in store.neighbours("darjeeling")}
    assert found["West Bengal"].above == ("places",) and found["West Bengal"].below == ()
    assert found["Happy Valley"].below == ("places",) and found["Happy Valley"].document is None
    assert (found["Calcutta"].document, found["Calcutta"].chunk) == ("hills", 0)
    assert {one.entity for one in found.values()} == {"Darjeeling"}


def test_the_strongest_come_first_and_the_rest_is_cut(make_store: Callable[..., Store]) -> None:
    store = fill_store(make_store(), sorted(TEXTS))
    found = store.neighbours("Robert Fortune", 1000)
    named: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for entity, chunk in store.execute("SELECT entity, chunk FROM mentions"):
        named[entity].append((entity, chunk))
    chunks = {name: {chunk for _, chunk in rows} for name, rows in named.items()}
    ranks = [(-one.score, len(chunks[one.name]), one.name.casefold()) for one in found]
    assert ranks == sorted(ranks)
    assert [one.name for one in found[:2]] == ["East India Company", "Shanghai"]  # never named without him
    assert store.neighbours("Robert Fortune", 2) == found[:2]
    assert "Shanghai" in found._repr_html_()
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
    assert [one.name for one in store.neighbours("Robert Fortune", 1)] == ["Zelda Zink"]


def test_they_do_not_depend_on_history(make_store: Callable[..., Store]) -> None:
    one = fill_store(make_store("one"), sorted(TEXTS))
    other = make_store("other")
    other.put("gone", "Robert Fortune met Darjeeling in Lisbon. Lisbon, Lisbon.")
    fill_store(other, sorted(TEXTS, reverse=True))
    other.delete("gone")
    for name in ("Robert Fortune", "Darjeeling", "West Bengal"):
        assert one.neighbours(name) == other.neighbours(name)


def test_names_of_one_entity_are_one(make_store: Callable[..., Store]) -> None:
    store = fill_store(make_store(), sorted(TEXTS))
    alone = {one.name for one in store.neighbours("Shanghai", 100)}
    assert "Robert Fortune" in alone
    store.put("kolkata", "Kolkata is a city. Shanghai is another than Kolkata.")
    store.merge("Kolkata", into="Calcutta")
    found: dict[str, Any] = {one.name: one for one in store.neighbours("Shanghai", 100)}
    assert "Kolkata" not in found and found["Calcutta"].passages == 2
    by_either = store.neighbours("Kolkata")
    assert by_either == store.neighbours("Calcutta") and by_either[0].entity == "Calcutta"
    assert not {"Kolkata", "Calcutta"} & {one.name for one in by_either}


def test_a_name_of_an_edge_alone_has_those_of_the_tree(make_store: Callable[..., Store]) -> None:
    store = make_store()
    store.put_edge("B", "A", tree="letters")
    assert store.neighbours("A") == [kvstore.Neighbour("A", "B", 3.0, 0, (), ("letters",), (), None, None)]
