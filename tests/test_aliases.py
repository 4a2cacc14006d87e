"""Aliases and merges: several names read as one entity, taken back without a trace."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvstore
from kvstore import errors
from kvstore.changes.dump import dump
from kvstore.structures.names.aliases import Alias

CITY = "# New York\n\nNew York has five boroughs."
TRIP = "We flew to NYC in May. NYC was warm."


def dump_contents(store: kvstore.Store) -> dict:
    with store.snapshot() as snapshot:
        return dump(snapshot._state)


def find_places(store: kvstore.Store | kvstore.Transaction, name: str) -> list[tuple[str, str | None]]:
    return [(row.entity, row.document) for row in store.lookup(name)]


@pytest.fixture
def cities(store: kvstore.Store) -> kvstore.Store:
    store.put("city", CITY, format="markdown")
    store.put("trip", "we flew to the big apple in may. it was warm.")
    return store


def test_an_alias_finds_its_own_mentions_and_the_entitys_under_one_name(cities: kvstore.Store) -> None:
    contents = dump_contents(cities)
    assert cities.lookup("Big Apple") == []
    assert cities.alias("Big  Apple", "new york")
    assert (
        find_places(cities, "big apple")
        == find_places(cities, "new york")
        == [("New York", "city"), ("New York", "trip")]
    )
    assert "big apple" in cities.lookup("new york")[1].text, "the sentence is the one that names it"
    assert cities.aliases() == [Alias("Big Apple", "new york", "alias")]
    assert not cities.alias("BIG APPLE", "New York"), "it stands for that already"
    assert cities.drop_alias("big apple")
    assert not cities.drop_alias("big apple")
    assert dump_contents(cities) == contents


def test_a_question_with_any_of_the_names_reads_the_places_of_all(cities: kvstore.Store) -> None:
    cities.alias("Big Apple", "New York")
    for question in ("What of the Big Apple?", "What of New York?", "Is New York the Big Apple?"):
        evidence = cities.retrieve(question, using="bridge")
        assert {hit.document for hit in evidence.hits} == {"city", "trip"}
        (step,) = (step for step in evidence.steps if step.name == "recognize entities")
        assert (step.count, step.detail) == (1, "new york (2)")
        assert all(hit.path.startswith("new york →") for hit in evidence.hits)


def test_hits_of_any_name_warm_the_one_shown(cities: kvstore.Store) -> None:
    cities.alias("Big Apple", "New York")
    for name in ("big apple", "new york", "BIG APPLE"):
        cities.lookup(name)
    cities.flush()
    assert {row.temperature for row in cities.lookup("big apple")} == {3}
    cities.retrieve("What of the Big Apple?", using="bridge")
    cities.flush()
    assert {row.temperature for row in cities.lookup("New York")} == {5}


def test_a_merge_reads_two_known_names_as_one(store: kvstore.Store) -> None:
    store.put("one", "# J. Smith\n\nJ. Smith wrote it.", format="markdown")
    store.put("two", "# John Smith\n\nJohn Smith edited it.", format="markdown")
    contents = dump_contents(store)
    assert store.merge("J. Smith", "John Smith")
    assert find_places(store, "j. smith") == find_places(store, "john smith")
    assert {document for _, document in find_places(store, "J. Smith")} == {"one", "two"}
    assert {entity for entity, _ in find_places(store, "J. Smith")} == {"John Smith"}
    assert not store.merge("j. smith", "john smith")
    store.delete("one")
    assert store.lookup("J. Smith") == [], "nothing introduces it, and a merge does not"
    store.put("one", "# J. Smith\n\nJ. Smith wrote it.", format="markdown")
    assert {document for _, document in find_places(store, "J. Smith")} == {"one", "two"}, "it survives a new ingest"
    assert store.unmerge("J. Smith")
    assert not store.unmerge("J. Smith")
    assert dump_contents(store) == contents


def test_expand_walks_from_all_names_of_an_entity(store: kvstore.Store) -> None:
    store.put_edge("Tug", "Ship")
    store.put_edge("Boat", "Vehicle")
    store.put_edge("Ship", "Boat")
    store.merge("Ship", "Boat")
    for name in ("ship", "boat"):
        rows = [(row.level, row.relative, row.via) for row in store.expand(name)]
        assert rows == [(0, "Boat", ""), (-1, "Vehicle", "Boat"), (1, "Tug", "Boat")]
    assert [(row.entity, row.parent) for row in store.lookup("ship")] == [("Boat", "Vehicle"), ("Boat", "Boat")]


def test_statements_are_applied_and_undone_one_by_one(store: kvstore.Store) -> None:
    for name in ("Ada", "Countess", "Lovelace"):
        store.put(name, f"{name} wrote notes.", title=name)
    store.merge("Ada", "Countess")
    store.alias("Byron", "Ada")
    store.merge("Countess", "Lovelace")
    documents = {"Ada", "Countess", "Lovelace"}
    for name in ("Byron", "Ada", "Countess", "Lovelace"):
        assert {document for _, document in find_places(store, name)} == documents
        assert {entity for entity, _ in find_places(store, name)} == {"Lovelace"}
    store.delete("Lovelace")
    assert {entity for entity, _ in find_places(store, "Byron")} == {"Countess"}, "the last name that is known"
    store.delete("Countess")
    assert {entity for entity, _ in find_places(store, "Byron")} == {"Ada"}
    store.put("Lovelace", "Lovelace wrote notes.", title="Lovelace")
    assert {entity for entity, _ in find_places(store, "Byron")} == {"Lovelace"}, "by way of a name that is not known"
    store.unmerge("countess")
    assert {entity for entity, _ in find_places(store, "Byron")} == {"Ada"}
    assert store.alias("Byron", "Lovelace"), "stated again, it stands for another"
    assert find_places(store, "Ada") == [("Ada", "Ada")]
    assert find_places(store, "byron") == [("Lovelace", "Lovelace")]


def test_an_alias_of_a_deleted_entity_names_itself(cities: kvstore.Store) -> None:
    cities.alias("Big Apple", "New York")
    cities.delete("city")
    assert find_places(cities, "big apple") == [("Big Apple", "trip")]
    assert cities.lookup("New York") == [], "an absent name returns nothing"
    cities.put("city", CITY, format="markdown")
    assert find_places(cities, "big apple") == [("New York", "city"), ("New York", "trip")]


def test_an_invalid_alias_is_refused(cities: kvstore.Store) -> None:
    cities.alias("Big Apple", "New York")
    cities.put("york", "York is old.", title="York")
    cities.merge("York", "New York")
    contents = dump_contents(cities)
    refusals = [
        (cities.alias, ("Gotham", "New Yrok"), errors.EntityNotFoundError, "did you mean.*'New York'"),
        (cities.merge, ("Gotham", "New York"), errors.EntityNotFoundError, "no entity is called 'Gotham'"),
        (cities.merge, ("New York", "Gotham"), errors.EntityNotFoundError, "no entity is called 'Gotham'"),
        (cities.alias, ("New York", "big apple"), errors.InputError, "cannot be an alias of itself"),
        (cities.merge, ("new york", "York"), errors.InputError, "cannot be an alias of itself"),
        (cities.alias, ("New York", "new  york"), errors.InputError, "cannot be an alias of itself"),
        (cities.alias, ("", "New York"), errors.InputError, "a name must have 1 to 400 bytes"),
        (cities.alias, ("x" * 401, "New York"), errors.InputError, "a name must have 1 to 400 bytes"),
        (cities.alias, ("York", "Big Apple"), errors.InputError, "merged into.*UNMERGE"),
        (cities.merge, ("Big Apple", "York"), errors.InputError, "is an alias for.*DROP ALIAS"),
        (cities.unmerge, ("Big Apple",), errors.InputError, "is an alias for.*DROP ALIAS"),
        (cities.drop_alias, ("York",), errors.InputError, "merged into.*UNMERGE"),
    ]
    for change, names, error, message in refusals:
        with pytest.raises(error, match=message):
            change(*names)
    assert dump_contents(cities) == contents


def test_a_transaction_sees_its_aliases_and_their_entities(store: kvstore.Store) -> None:
    with store.transaction() as transaction:
        with pytest.raises(errors.EntityNotFoundError):
            transaction.alias("NYC", "New York")
        transaction.put("city", CITY, format="markdown")
        transaction.put("trip", TRIP)
        assert transaction.alias("NYC", "New York")
        assert not transaction.alias("nyc", "new york")
        assert set(find_places(transaction, "NYC")) == {("New York", "city"), ("New York", "trip")}
        assert transaction.drop_alias("NYC")
        assert transaction.aliases() == []
        assert transaction.merge("NYC", "New York"), "a document introduces it too"
        transaction.rollback()
    assert store.aliases() == []
    assert store.keys() == []


def test_many_aliases_of_one_entity_are_one_entity(cities: kvstore.Store) -> None:
    with cities.transaction() as transaction:
        for number in range(50):
            transaction.alias(f"Town {number}", "New York" if number < 2 else f"Town {number // 2}")
    cities.put("tour", "Town 7 comes before town 31, and Town 48 after both.")
    assert {document for _, document in find_places(cities, "town 20")} == {"city", "tour"}
    assert cities.statistics()["aliases"] == 50
    for number in (49, *range(49)):
        assert cities.drop_alias(f"Town {number}")
        assert not cities.drop_alias(f"Town {number}")
        if number in (49, 0):
            assert cities.check() == [], "the others still stand"
    assert [document for _, document in find_places(cities, "New York")] == ["city"]


def test_check_finds_damage_to_aliases(tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "s", embedder="hashing") as store:
        store.put("city", CITY, format="markdown")
        store.alias("NYC", "New York")
        with store.snapshot() as snapshot:
            value = bytes(snapshot._state.lmdb.get("aliases", b"nyc") or b"")
        with store._session.environment.write() as view:
            view.delete("aliases", b"nyc")
        problems = " ".join(store.check())
        assert "do not match the aliases" in problems
        assert "introductions do not match" in problems
        with store._session.environment.write() as view:
            view.put("aliases", b"nyc", value)
            view.put("aliases", b"gotham", value)
        problems = " ".join(store.check())
        assert "stored under another name" in problems
        assert "alias 'gotham' is not a known name" in problems
        with store._session.environment.write() as view:
            view.delete("aliases", b"gotham")
        assert store.check() == []


def test_a_location_in_a_table_is_a_row_without_the_others_and_links_are_their_texts(store: kvstore.Store) -> None:
    text = (
        "| time | event |\n|---|---|\n| 18:16 | The lamp goes out. |\n| 18:19 | Ewan Strand reports the failure. |\n\n"
        "Ada North has [a log of the failure](log.md#lamp).\n"
    )
    store.put("failure", text, format="markdown")
    for name in ("Ewan Strand", "Ada North"):
        store.put(f"person-{name}", f"{name} is a keeper.", title=name)

    def find_texts(name: str) -> list[str]:
        return [location.text for location in store.lookup(name) if location.document == "failure"]

    assert find_texts("Ewan Strand") == ["18:19 | Ewan Strand reports the failure."]
    assert find_texts("Ada North") == ["Ada North has a log of the failure."]
    store.put(
        "bylaws",
        "The [bylaws](https://example.org/bylaws) name the Harbor Board.",
        title="Harbor Board",
        format="markdown",
    )
    assert "The bylaws name the Harbor Board." in [location.text for location in store.lookup("Harbor Board")]
    assert store.execute("SELECT text FROM abstracts WHERE document = 'bylaws'").fetchone() == (
        "The bylaws name the Harbor Board.",
    )
