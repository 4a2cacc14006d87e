"""Imported triples: joined to their documents, known by name, gone with the text they were found in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kvstore
from kvstore import Triple, errors
from kvstore.changes.dump import dump
from kvstore.changes.repair import rebuild_store
from kvstore.registry.structure_versions import read_versions
from kvstore.storage import records
from kvstore.storage.view import WriteView
from kvstore.structures import tables
from kvstore.text.stated_names import is_written_as_name

TEXT = "Robert Fortune brought tea plants from China to Darjeeling. The journey took years."


def write_lines(path: Path, *lines: Any) -> Path:
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


@pytest.fixture
def tea_store(store: kvstore.Store) -> kvstore.Store:
    store.put("tea", TEXT, title="Tea")
    store.put("garden", "Kelloe has a botanical garden.", title="Gardens")
    return store


def test_lines_of_every_shape(tea_store: kvstore.Store, tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "t.jsonl",
        {"id": "tea", "entities": ["Fortune", "tea  plants"], "triples": [["Robert Fortune", "born in", "Kelloe"]]},
        "",
        {"key": "tea", "subject": "Robert Fortune", "predicate": "worked in", "object": "China"},
        {"document": "garden", "triples": [{"subject": "Kelloe", "relation": "founded", "object": 1843}]},
        {"id": "tea", "triples": [["Darjeeling", "is", "a town  of", "India"]]},
    )
    report = tea_store.ingest(path, format="triples")
    assert (report.added, report.changed, report.unchanged, report.failures) == (0, 2, 0, [])
    assert tea_store.triples("garden") == [Triple("Kelloe", "founded", "1843")]
    assert tea_store.triples("tea") == [
        Triple("Robert Fortune", "born in", "Kelloe"),
        Triple("Robert Fortune", "worked in", "China"),
        Triple("Darjeeling", "is a town of", "India"),
    ]
    rows = tea_store.execute(
        "SELECT relation, document FROM triples WHERE subject = 'Robert Fortune' ORDER BY 1"
    ).fetchall()
    assert rows == [("born in", "tea"), ("worked in", "tea")]
    assert tea_store.execute("SELECT subject FROM triples WHERE object = 'India'").fetchall() == [("Darjeeling",)]
    assert tea_store.execute("SELECT count(*) FROM triples WHERE document = 'tea'").fetchall() == [(3,)]
    again = tea_store.ingest(path, format="triples")
    assert (again.changed, again.unchanged, again.documents) == (0, 2, 0)
    assert len(tea_store.triples("tea")) == 3


def test_names_are_known_and_found(tea_store: kvstore.Store) -> None:
    assert tea_store.lookup("botanical garden") == []
    assert tea_store.put_triples("tea", [("Robert Fortune", "visited", "Botanical Garden")], names=["took years"])
    # Older texts too, and names that are in no triple.
    assert {place.document for place in tea_store.lookup("botanical garden")} == {"garden"}
    assert {place.document for place in tea_store.lookup("took years")} == {"tea"}
    assert tea_store.execute("SELECT kind FROM entities WHERE name = 'took years'").fetchall() == [("triple",)]
    assert not tea_store.put_triples("tea", [("Robert Fortune", "visited", "Botanical Garden")], names=["took years"])
    assert tea_store.put_triples("tea", [])
    assert tea_store.lookup("botanical garden") == []
    assert tea_store.triples("tea") == []


@pytest.mark.parametrize(
    ("phrase", "is_name"),
    [
        ("Robert Fortune", True),
        ("The Two Towers", True),
        ("University of Copenhagen", True),
        ("Ludwig van Beethoven", True),
        ("Apollo 11", True),
        ("iPhone", True),
        ("北京", True),
        ("botanical garden", False),
        ("monthly publication in 1963", False),
        ("1963", False),
        ("1.355 in 2018", False),
        ("January 1960", False),
        ("In Oslo", False),
        ("£9.6 billion", False),
        ("One Two Three Four Five Six Seven Eight Nine", False),
    ],
)
def test_a_phrase_is_a_name_if_it_is_written_as_one(phrase: str, is_name: bool) -> None:
    assert is_written_as_name(phrase) == is_name


def test_a_phrase_that_is_not_a_name_is_only_a_value(tea_store: kvstore.Store) -> None:
    values = [("Robert Fortune", "visited", "botanical garden"), ("took years", "in", "1848")]
    tea_store.put_triples("tea", [*values, ("Robert Fortune", "met", "Ada Lovelace")])
    assert tea_store.lookup("botanical garden") == []
    assert tea_store.names("took years") == []
    assert tea_store.execute("SELECT kind FROM entities WHERE name = 'Ada Lovelace'").fetchall() == [("triple",)]
    # The values are stored, found by SELECT, and exported.
    assert tea_store.triples("tea")[:2] == values
    rows = tea_store.execute("SELECT subject FROM triples WHERE object = 'botanical garden'").fetchall()
    assert rows == [("Robert Fortune",)]
    assert tea_store.execute("SELECT object FROM triples WHERE subject = 'took years'").fetchall() == [("1848",)]
    assert tea_store.check() == []


def test_a_phrase_is_a_name_if_it_is_stated_as_one(tea_store: kvstore.Store) -> None:
    tea_store.put_triples("tea", [("Robert Fortune", "visited", "botanical garden")], names=["botanical garden"])
    assert {place.document for place in tea_store.lookup("botanical garden")} == {"garden"}


def test_triples_by_an_earlier_rule_need_a_migration(tea_store: kvstore.Store) -> None:
    def write_earlier_version(view: WriteView) -> None:
        view.put(tables.META, b"structures", records.pack({**read_versions(view), "passage_graph": 1}))

    path = tea_store.path
    tea_store.put_triples("tea", [("Robert Fortune", "visited", "Atlantis")])
    tea_store._session.store.environment.write_with_growth(write_earlier_version)
    tea_store.close()
    with pytest.raises(
        errors.StoreFormatError,
        match="an earlier version of kvstore took every phrase of its imported relations for a name",
    ):
        kvstore.open(path)
    assert kvstore.migrate(path, backup=False).changed
    with kvstore.open(path) as store:
        assert store.names("atlantis")


@pytest.mark.parametrize(
    "change",
    [
        lambda store: store.put("tea", TEXT + " It rained."),
        lambda store: store.update("tea", text=TEXT + " It rained."),
        lambda store: store.put("tea", "Tea time,Tea", format="pairs"),
        lambda store: store.delete("tea"),
    ],
)
def test_triples_go_with_the_text_they_were_found_in(
    tea_store: kvstore.Store, change: Callable[[kvstore.Store], Any]
) -> None:
    tea_store.put_triples("tea", [("Robert Fortune", "visited", "Atlantis")])
    tea_store.put("tea", TEXT, title="Tea")
    assert len(tea_store.triples("tea")) == 1, "a document put as it is keeps them"
    change(tea_store)
    assert tea_store.triples("tea") == []
    assert tea_store.names("atlantis") == []


@pytest.mark.parametrize(
    "change",
    [
        lambda store: store.update("tea", title="Chai"),
        lambda store: store.update("tea", meta={"year": 1848}),
        lambda store: store.put("tea", TEXT, source="tea.txt", format="markdown"),
        lambda store: store.execute("UPDATE DOCUMENT 'tea' SET META = '{\"year\": 1848}'"),
    ],
)
def test_triples_stay_while_the_text_is_the_same(
    tea_store: kvstore.Store,
    make_store: Callable[..., kvstore.Store],
    tmp_path: Path,
    change: Callable[[kvstore.Store], Any],
) -> None:
    triples = [("Robert Fortune", "visited", "Atlantis")]
    tea_store.put_triples("tea", triples, names=["took years"])
    change(tea_store)
    assert tea_store.triples("tea") == triples
    assert {place.document for place in tea_store.lookup("took years")} == {"tea"}
    fresh = make_store("fresh")
    for key in list(tea_store.keys()):
        document = tea_store.get(key)
        assert document is not None
        fresh.put(
            key,
            document.text,
            title=document.title,
            source=document.source,
            meta=document.meta,
            format=document.format,
        )
    fresh.put_triples("tea", triples, names=["took years"])
    with tea_store.state() as here, fresh.state() as there:
        assert dump(here) == dump(there)
    tea_store.export(tmp_path / "all.jsonl")
    again = make_store("again")
    again.import_(tmp_path / "all.jsonl")
    with tea_store.state() as here, again.state() as there:
        assert dump(here) == dump(there)
    rebuild_store(tea_store._session.environment, tea_store.settings, tea_store.embed)
    assert tea_store.triples("tea") == triples


def test_triples_stay_within_a_transaction(tea_store: kvstore.Store) -> None:
    with tea_store.transaction() as transaction:
        transaction.put("new", "Robert Fortune came back.")
        transaction.put_triples("new", [("Robert Fortune", "came from", "Lhasa")])
        transaction.update("new", title="News")
        transaction.put_triples("tea", [("Robert Fortune", "visited", "Atlantis")])
        transaction.update("tea", meta={"year": 1848})
    assert tea_store.triples("new") == [("Robert Fortune", "came from", "Lhasa")]
    assert tea_store.triples("tea") == [("Robert Fortune", "visited", "Atlantis")]
    with tea_store.transaction() as transaction:
        transaction.delete("tea")
        transaction.put("tea", TEXT, title="Tea")
        transaction.put("new", "Another text.")
        transaction.put("new", "Robert Fortune came back.")
    assert tea_store.triples("tea") == tea_store.triples("new") == []


def test_invalid_files_are_reported_and_the_rest_continues(tea_store: kvstore.Store, tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "t.jsonl",
        {"id": "tea", "triples": [["one", "two"], ["China", "borders", "India"], ["a", None, "b"]]},
        {"id": "nowhere", "triples": [["a", "b", "c"]]},
        {"triples": []},
        {"id": "tea", "triples": "none"},
        {"id": "tea", "entities": [None]},
        "not JSON",
        {"id": "tea", "subject": "a"},
        {"id": "tea", "triples": [["x" * 500, "is", "long"]]},
        {"id": "garden", "triples": []},
    )
    report = tea_store.ingest(path, format="triples")
    assert tea_store.triples("tea") == [Triple("China", "borders", "India")]
    assert (report.changed, report.unchanged) == (1, 1)
    reasons = {failure.place.removeprefix(f"{path}:"): failure.reason for failure in report.failures}
    assert set(reasons) == {"1", "2", "3", "4", "5", "6", "7", "8"}
    assert reasons["1"].startswith("triples 1, 3 were left out; write each triple as three nonempty strings")
    assert "there is no document 'nowhere'" in reasons["2"]
    assert "must be the key of a document" in reasons["3"]
    assert "must be lists" in reasons["4"]
    assert "must be a list of names" in reasons["5"]
    assert "not valid JSON" in reasons["6"]
    assert "500" in reasons["8"]


def test_only_documents_with_passages_have_triples(store: kvstore.Store) -> None:
    store.put("fleet", "Tug,Ship", format="pairs")
    with pytest.raises(errors.InputError, match="consists of pairs"):
        store.put_triples("fleet", [("Tug", "pulls", "Ship")])
    with pytest.raises(errors.DocumentNotFoundError, match="did you mean 'fleet'"):
        store.put_triples("fleets", [("Tug", "pulls", "Ship")])
    for bad in (["abc"], [("a", "b")], [("a", 1, "b")], [("a", " ", "b")]):
        with pytest.raises(errors.InputError):
            store.put_triples("fleet", bad)


def test_a_transaction_sees_its_own(tea_store: kvstore.Store) -> None:
    with tea_store.transaction() as transaction:
        transaction.put("new", "Assam is in India.")
        assert transaction.put_triples("new", [("Assam", "is in", "India")])
        assert transaction.triples("new") == [Triple("Assam", "is in", "India")]
        transaction.put("new", "Assam is a state of India.")
        assert transaction.triples("new") == []
        transaction.put_triples("new", [("Assam", "state of", "India")])
        transaction.delete("new")
        with pytest.raises(errors.DocumentNotFoundError):
            transaction.put_triples("new", [])
        transaction.put_triples("tea", [("Tea", "grows in", "Assam")])
    assert tea_store.triples("tea") == [Triple("Tea", "grows in", "Assam")]
    assert tea_store.keys() == ["garden", "tea"]


def test_export_keeps_them(tea_store: kvstore.Store, make_store: Callable[..., kvstore.Store], tmp_path: Path) -> None:
    tea_store.put_triples("tea", [("Robert Fortune", "born in", "Kelloe")], names=["Fortune"])
    assert tea_store.export(tmp_path / "all.jsonl").triples == 1
    other_store = make_store("other")
    assert other_store.import_(tmp_path / "all.jsonl").triples == 1
    assert other_store.triples("tea") == tea_store.triples("tea")
    assert other_store.import_(tmp_path / "all.jsonl").unchanged == 3
    header = json.loads((tmp_path / "all.jsonl").read_text().splitlines()[0])
    del header["lines"]  # the file has other lines than those of the export
    lone = write_lines(tmp_path / "lone.jsonl", header, {"triples": "no", "names": [], "rows": []})
    with pytest.raises(errors.InputError, match="line 2: there is no document 'no'"):
        other_store.import_(lone)


def test_a_folder_of_triples(tea_store: kvstore.Store, tmp_path: Path) -> None:
    folder = tmp_path / "extracted"
    folder.mkdir()
    write_lines(folder / "a.jsonl", {"id": "tea", "triples": [["a", "b", "c"]]})
    write_lines(folder / "b.jsonl", {"id": "garden", "triples": [["d", "e", "f"]]})
    (folder / "notes.txt").write_text("nothing")
    cursor = tea_store.execute(f"INGEST '{folder}' AS triples")
    assert cursor.fetchall()[0][:6] == (0, 2, 0, 0, 1, 0)
