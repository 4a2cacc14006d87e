"""Edges that the user states: beside those of documents, exact when taken back, found in every text."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvstore
from kvstore import errors
from kvstore.changes import facts
from kvstore.changes.dump import dump
from kvstore.database.open_store import OpenStore
from kvstore.storage import records
from kvstore.storage.environment import Environment
from kvstore.structures.forest.edge_filter import CYCLIC
from kvstore.structures.names.aliases import Alias


def list_places(
    store: kvstore.Store | kvstore.Transaction, name: str
) -> list[tuple[str | None, str | None, str | None]]:
    return [(row.tree, row.parent, row.document) for row in store.lookup(name)]


def test_an_edge_makes_both_names_known_and_finds_them_in_older_texts(store: kvstore.Store) -> None:
    store.put("diary", "We saw the amber room and the long gallery.", title="Diary")
    assert store.lookup("amber room") == []
    assert store.put_edge("Amber  Room", "Palace")
    assert list_places(store, "amber room") == [("edges", "Palace", None), (None, None, "diary")]
    assert store.lookup("amber room")[0].entity == "Amber Room"
    assert list_places(store, "palace") == [("edges", None, None)]
    store.put("visit", "The amber room was closed.", title="Visit")
    assert {row.document for row in store.lookup("amber room")} == {None, "diary", "visit"}
    assert store.delete_edge("AMBER room", "palace")
    assert store.lookup("amber room") == store.lookup("palace") == []
    assert store.statistics()["trees"] == store.statistics()["stated_edges"] == 0


def test_stating_twice_and_withdrawing_twice_change_nothing(store: kvstore.Store) -> None:
    assert store.put_edge("Tug", "Ship", tree="fleet")
    assert not store.put_edge("TUG", "ship", tree="fleet")
    assert store.lookup("tug")[0].entity == "Tug", "the first spelling stays"
    assert store.put_edge("Tug", "Ship", tree="other"), "another tree is another edge"
    assert not store.delete_edge("Tug", "Ship")
    assert not store.delete_edge("Ship", "Tug", tree="fleet")
    assert store.delete_edge("Tug", "Ship", tree="fleet")
    assert not store.delete_edge("Tug", "Ship", tree="fleet")
    assert list_places(store, "tug") == [("other", "Ship", None)]


def test_an_edge_stays_while_a_document_or_the_user_states_it(store: kvstore.Store) -> None:
    fleet = {"format": "pairs", "meta": {"tree": "fleet"}}
    store.put("fleet.csv", "Tug,Ship\n", **fleet)
    assert store.put_edge("Tug", "Ship", tree="fleet")
    assert store.statistics()["edges"] == 1
    store.put("fleet.csv", "Ferry,Ship\n", **fleet)
    assert list_places(store, "tug") == [("fleet", "Ship", None)], "the user still asserts it"
    store.put("fleet.csv", "Tug,Ship\n", **fleet)
    assert store.delete_edge("Tug", "Ship", tree="fleet")
    assert list_places(store, "tug") == [("fleet", "Ship", None)], "the document still asserts it"
    with pytest.raises(errors.InputError, match="'fleet.csv'.*change or delete the document"):
        store.delete_edge("Tug", "Ship", tree="fleet")
    store.delete("fleet.csv")
    assert store.lookup("tug") == []


@pytest.mark.parametrize(
    ("child", "parent", "tree", "message"),
    [
        ("Tug", " tug ", "edges", "cannot be its own parent"),
        ("", "Ship", "edges", "a name must have 1 to 400 bytes"),
        ("Tug", " \n", "edges", "a name must have 1 to 400 bytes"),
        ("Tug", "S" * 401, "edges", "a name must have 1 to 400 bytes, not 401"),
        ("\ud800", "Ship", "edges", "surrogate"),
        ("Tug", "Ship", "", "the name of a tree must have 1 to 400"),
        ("Tug", "Ship", "t" * 401, "the name of a tree must have 1 to 400"),
    ],
)
def test_bad_edges_are_refused(store: kvstore.Store, child: str, parent: str, tree: str, message: str) -> None:
    with store.transaction() as transaction:
        transaction.put_edge("Tug", "Ship")
        for change in (transaction.put_edge, transaction.delete_edge):
            with pytest.raises(errors.InputError, match=message):
                change(child, parent, tree=tree)
    assert list_places(store, "tug") == [("edges", "Ship", None)], "a refusal leaves the transaction as it was"


def test_a_transaction_sees_its_edges_and_rolls_them_back(store: kvstore.Store) -> None:
    with store.transaction() as transaction:
        transaction.put("diary", "A tug came in.", title="Diary")
        transaction.put_edge("Tug", "Ship")
        assert not transaction.put_edge("tug", "SHIP")
        assert list_places(transaction, "tug") == [("edges", "Ship", None), (None, None, "diary")]
        assert store.lookup("tug") == []
        assert transaction.delete_edge("Tug", "Ship")
        assert transaction.put_edge("TUG", "Vessel")
        assert transaction.lookup("tug")[0].entity == "TUG"
        transaction.rollback()
    assert store.lookup("tug") == []
    assert store.keys() == []


@pytest.mark.slow
def test_many_edges_of_one_transaction_make_one_tree(store: kvstore.Store) -> None:
    count = 5000
    with store.transaction() as transaction:
        for number in range(1, count):
            assert transaction.put_edge(f"Node {number}", f"Node {number // 2}")
        assert not transaction.put_edge("node 7", "node 3")
    assert store.statistics()["stated_edges"] == count - 1
    assert [row.relative for row in store.expand("node 7", direction="up", depth=9)] == [
        f"Node {n}" for n in (7, 3, 1, 0)
    ]


@pytest.mark.slow
def test_a_full_map_grows_and_the_transaction_is_run_again(tmp_path: Path) -> None:
    def changed(store: kvstore.Store) -> dict:
        with store.transaction() as transaction:
            for number in range(200):
                transaction.put(f"d{number}", f"Alpha Centauri number {number} is a star. " * 40)
                transaction.put_edge(f"Star {number}", "Alpha Centauri")
                if not number % 50:
                    transaction._put_fact(
                        facts.ALIASES, f"sun {number}", Alias(f"Sun {number}", "alpha centauri", "alias")
                    )
            transaction.delete_edge("Star 3", "Alpha Centauri")
        assert store.check() == []
        with store.snapshot() as snapshot:
            return dump(snapshot._state)

    with kvstore.open(tmp_path / "large", embedder="hashing", settings={"language": "rules"}) as store:
        expected = changed(store)
    with kvstore.open(tmp_path / "small", embedder="hashing", settings={"language": "rules"}) as store:
        fixed = store.settings
    environment = Environment.open(tmp_path / "small", map_size=1 << 20)
    with kvstore.Store(OpenStore(environment, fixed, None)) as store:
        assert changed(store) == expected
        assert environment.data.map_size > 1 << 20


def test_a_document_of_pairs_needs_a_tree_that_can_be_named(store: kvstore.Store) -> None:
    with pytest.raises(errors.InputError, match="the name of a tree must have 1 to 400 bytes"):
        store.put("k" * 500, "Tug,Ship", format="pairs")
    assert store.put("k" * 500, "Tug,Ship", format="pairs", meta={"tree": "fleet"})


def test_check_finds_damage_to_stated_edges(tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "s", embedder="hashing") as store:
        store.put_edge("Tug", "Ship")
        store.put("fleet.csv", "Ferry,Ship\n", format="pairs", meta={"tree": "edges"})
        with store.snapshot() as snapshot:
            (row,) = [(bytes(key), bytes(value)) for key, value in snapshot._state.lmdb.scan("stated_edges")]
            up = {bytes(key): bytes(value) for key, value in snapshot._state.lmdb.scan("edges_up")}
        (other,) = set(up) - {row[0]}
        with store._session.environment.write() as view:
            view.delete("stated_edges", row[0])
        findings = " ".join(store.check())
        assert "records disagree on whether the user asserts it" in findings
        assert "introductions do not match" in findings
        with store._session.environment.write() as view:
            view.put("stated_edges", *row)
            view.put("stated_edges", other, row[1])
        findings = " ".join(store.check())
        assert findings.count("records disagree on whether the user asserts it") == 1
        assert "is not that of 'Tug', a name in an edge of the user" in findings
        with store._session.environment.write() as view:
            view.delete("stated_edges", other)
        assert store.check() == []
        with store._session.environment.write() as view:
            view.delete("edges_down", row[0][8:] + row[0][:8])
        assert "is missing from the parent-to-child table" in " ".join(store.check())


def test_check_names_the_stored_status_of_an_edge(tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "s", embedder="hashing") as store:
        for child, parent in (("Tug", "Boat"), ("Boat", "Ship"), ("Tug", "Ship")):
            store.put_edge(child, parent)
        with store._session.environment.write() as view:
            ((key, _),) = list(view.scan("refused_up"))
            view.put("refused_up", bytes(key), records.pack(CYCLIC))  # the edge is redundant
        (finding,) = [finding for finding in store.check() if "does not follow from the edges" in finding]
        assert "is not accepted (as closing a cycle)" in finding
