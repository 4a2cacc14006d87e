"""The store as an application meets it: documents, transactions, snapshots, vectors, settings."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import kvstore
from kvstore import errors
from kvstore.database import open_store
from kvstore.database.batched_changes import BatchedChanges
from kvstore.storage import write_transaction
from kvstore.storage.change_buffer import QUICK_READ_BYTES
from kvstore.storage.environment import Environment, MapFull
from kvstore.structures import tables

pytestmark = pytest.mark.public_api

TEA = "Tea is made from the leaves of Camellia sinensis. Robert Fortune brought plants to Darjeeling in 1848."


def test_put_get_and_delete(store: kvstore.Store) -> None:
    assert store.put("tea", TEA, title="Tea", meta={"year": 1848})
    document = store.get("tea")
    assert document is not None
    assert (document.text, document.title, document.meta, document.bytes) == (TEA, "Tea", {"year": 1848}, len(TEA))
    assert document.chunks == 1
    assert not store.put("tea", TEA, title="Tea", meta={"year": 1848}), "the same again changes nothing"
    assert store.put("tea", TEA, title="Tea", meta={"year": 1849}), "metadata is part of a document"
    assert store.delete("tea")
    assert not store.delete("tea")
    assert store.get("tea") is None


def test_an_empty_store_answers_that_it_knows_nothing(store: kvstore.Store) -> None:
    assert store.lookup("tea") == []
    assert store.search("tea") == []
    answer = store.ask("What is tea?")
    assert (answer.citations, answer.extractive) == ([], True)
    assert answer.text == "The documents do not say this." and answer.outcome == "nothing"


def test_replacing_a_document_replaces_everything_derived(store: kvstore.Store) -> None:
    store.put("tea", TEA, title="Tea")
    assert [row.document for row in store.lookup("Robert Fortune")] == ["tea"]
    store.put("tea", "Coffee is roasted in Trieste, as Francesco Illy knew.", title="Coffee")
    assert store.lookup("Robert Fortune") == []
    assert store.search("Camellia", using="lexical") == []
    assert [row.document for row in store.lookup("francesco  ILLY")] == ["tea"]


def test_a_name_known_later_is_found_in_earlier_documents(store: kvstore.Store) -> None:
    store.put("early", "We saw the amber room and left.", title="Diary")
    assert store.lookup("Amber Room") == []
    store.put("late", "It was stolen.", title="Amber Room")
    assert {row.document for row in store.lookup("amber room")} == {"early", "late"}
    store.delete("late")
    assert store.lookup("amber room") == [], "the last introducer takes every mention with it"


def test_lookup_puts_titles_before_headings_before_text(store: kvstore.Store) -> None:
    store.put("text", "Some say Write Ahead Log is dull. The Write Ahead Log grows at night.", title="Notes")
    store.put("heading", "# Recovery Manual\n\nIt begins.\n\n## Write Ahead Log\n\nIt grows.", format="markdown")
    store.put("title", "It keeps changes.", title="Write Ahead Log")
    rows = store.lookup("write ahead log")
    assert [(row.tree, row.document) for row in rows] == [
        ("heading", None),
        (None, "title"),
        (None, "heading"),
        (None, "text"),
    ]


def test_lookup_reserves_half_of_its_results_for_documents(store: kvstore.Store) -> None:
    for parent in ("a", "b", "c", "d"):
        store.put_edge("Vacuum", parent)
    for key in ("one", "two", "three"):
        store.put(key, "It cleans.", title="Vacuum")
    assert [row.document is None for row in store.lookup("vacuum", limit=4)] == [True, True, False, False]
    assert [row.document is None for row in store.lookup("vacuum", limit=20)] == [True] * 4 + [False] * 3
    assert [row.document is None for row in store.lookup("vacuum", limit=1)] == [True]


def test_a_transaction_is_all_or_nothing(store: kvstore.Store) -> None:
    def put_and_fail() -> None:
        with store.transaction() as transaction:
            transaction.put("a", "Alpha Centauri is near.")
            assert transaction.get("a") is not None
            raise RuntimeError

    with pytest.raises(RuntimeError):
        put_and_fail()
    assert store.keys() == []
    with store.transaction() as transaction:
        transaction.put("a", "Alpha Centauri is near.")
        transaction.put("b", "Barnard's Star is near too.")
        assert transaction.search("Barnard", using="lexical")[0].document == "b"
        assert store.keys() == [], "nobody else sees it yet"
        transaction.delete("a")
    assert store.keys() == ["b"]
    with pytest.raises(errors.ClosedError, match="ended"):
        transaction.put("c", "Too late.")


def test_a_snapshot_does_not_see_later_commits(store: kvstore.Store) -> None:
    store.put("tea", TEA)
    with store.snapshot() as snapshot:
        store.put("tea", "Something else entirely.")
        store.put("more", "More of it.")
        assert snapshot.keys() == ["tea"]
        assert snapshot.search("Camellia", using="hybrid")[0].document == "tea"
        assert snapshot.lookup("Robert Fortune")
    assert store.lookup("Robert Fortune") == []


def test_a_second_writer_gets_the_holder_of_the_lock(store: kvstore.Store) -> None:
    with store.transaction():
        raised: list[BaseException] = []

        def begin_in_thread() -> None:
            try:
                store.transaction(timeout=0.05)
            except errors.KvstoreError as error:
                raised.append(error)

        thread = threading.Thread(target=begin_in_thread)
        thread.start()
        thread.join()
    assert len(raised) == 1
    assert isinstance(raised[0], errors.LockTimeoutError)


def test_only_the_chunks_whose_text_is_new_are_embedded_again(tmp_path: Path) -> None:
    paragraphs = [f"Paragraph {number} tells of harbour {number} and of its {number} ships." for number in range(9)]
    new_paragraph = "Paragraph four tells of harbour four and of its four ships."
    with kvstore.open(tmp_path / "s", embedder="hashing", settings={"chunk_tokens": 16}) as store:
        store.put("log", "\n\n".join(paragraphs), title="Log")
        before = map_texts_to_vectors(store)
        embedded: list[str] = []
        embedder = store._session.store.embedder
        embed = embedder.embed
        with mock.patch.object(embedder, "embed", lambda texts: embedded.extend(texts) or embed(texts)):
            store.put("log", "\n\n".join([*paragraphs[:4], new_paragraph, *paragraphs[5:]]), title="Log")
        assert len(embedded) == 1
        assert new_paragraph in embedded[0]
        after = map_texts_to_vectors(store)
        assert all(np.array_equal(after[text], before[text]) for text in after.keys() & before.keys())
        assert len(after.keys() & before.keys()) == len(after) - 1 > 3
        embedded.clear()
        with mock.patch.object(embedder, "embed", lambda texts: embedded.extend(texts) or embed(texts)):
            store.update("log", title="Another log")
        assert len(embedded) == len(after)
        embedded.clear()
        store.export(tmp_path / "out.jsonl")
        exported = (tmp_path / "out.jsonl").read_text()
        (tmp_path / "in.jsonl").write_text(exported.replace("harbour four", "harbour forty"))
        with mock.patch.object(embedder, "embed", lambda texts: embedded.extend(texts) or embed(texts)):
            store.import_(tmp_path / "in.jsonl")
        assert len(embedded) == 1
        assert "harbour forty" in embedded[0]


def map_texts_to_vectors(store: kvstore.Store) -> dict[str, Any]:
    with store.snapshot() as snapshot:
        state = snapshot._state
        chunks = list(state.chunks.scan())
        rows = state.vectors.gather([(stored.block, stored.row) for _, stored in chunks])
        return {state.read_chunk_text(chunk): row.copy() for (chunk, _), row in zip(chunks, rows, strict=True)}


def test_own_vectors_take_the_place_of_the_embedder(tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "s", embedder="none:3") as store:
        store.put("x", "First of all.", vectors=[1, 0, 0])
        store.put("y", "Second to none.", vectors=[[0, 2, 0]])
        assert [hit.document for hit in store.search("?", using="vector", vector=[0, 1, 0])] == ["y", "x"]
        assert store.put("x", "First of all.", vectors=[0, 0, 1]), "other vectors are a change"
        assert store.search("?", using="vector", vector=[0, 0, 1])[0].document == "x"
        with pytest.raises(errors.InputError, match="3 dimensions"):
            store.put("z", "Third.", vectors=[1, 2])
        with pytest.raises(errors.InputError, match="must not be zero"):
            store.put("z", "Third.", vectors=[0, 0, 0])
        with pytest.raises(errors.EmbedderError):
            store.put("z", "Third.")
        assert store.ask("What is second?", using="lexical").citations[0].document == "y"
        assert store.ask("What is second?", vector=[0, 1, 0]).citations
        assert store.keys() == ["x", "y"]
        assert store.check() == []


def test_update_changes_parts_and_keeps_own_vectors(tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "s", embedder="hashing:4") as store:
        store.put("own", "First of all.", vectors=[1, 0, 0, 0], meta={"a": 1})
        assert store.update("own", title="First")
        assert store.search("?", using="vector", vector=[1, 0, 0, 0])[0].score == pytest.approx(1)
        with pytest.raises(errors.InputError, match="has your own vectors"):
            store.update("own", text="Other.")
        store.put("plain", "Second of all.", title="Second")
        assert store.update("plain", text="Third of all.", meta={"b": 2})
        assert not store.update("plain", title="Second")
        document = store.get("plain")
        assert document is not None
        assert (document.text, document.title, document.meta) == ("Third of all.", "Second", {"b": 2})
        with pytest.raises(errors.DocumentNotFoundError, match="did you mean 'plain'"):
            store.update("plian", title="x")
        assert store.check() == []


def test_settings_are_stored_and_checked(tmp_path: Path) -> None:
    kvstore.open(tmp_path / "s", embedder="hashing:32", settings={"chunk_tokens": 40}).close()
    with kvstore.open(tmp_path / "s") as store:
        assert (store.settings.dimension, store.settings.chunk_tokens) == (32, 40)
    kvstore.open(tmp_path / "h", settings={"embedder": "hashing"}).close()
    kvstore.open(tmp_path / "h", settings={"embedder": "hashing"}).close()
    for wrong in ({"embedder": "hashing:64"}, {"settings": {"chunk_tokens": 50}}):
        with pytest.raises(errors.SettingsMismatchError, match="was created with"):
            kvstore.open(tmp_path / "s", **wrong)
    with pytest.raises(errors.InputError, match="between 16"):
        kvstore.open(tmp_path / "t", embedder="hashing", settings={"chunk_tokens": 1})
    for settings in ({"stemmer": "klingon"}, {"chunk_tokens": "many"}, {"dimension": 7}, {"tokenizer": "x"}):
        with pytest.raises((errors.InputError, errors.SettingsMismatchError)):
            kvstore.open(tmp_path / "v", embedder="hashing", settings=settings)
        assert not (tmp_path / "v").exists(), "nothing is made of a store that cannot be"
    for name, remedy in {
        "chunk_tokns": "did you mean chunk_tokens?",
        "size": "choose one of: embedder, dimension",
        "least_confidence": "change it with SET least_confidence",
    }.items():
        with pytest.raises(errors.InputError, match=f"{name}.*; {re.escape(remedy)}"):
            kvstore.open(tmp_path / "u", embedder="hashing", settings={name: 100})


def test_a_store_whose_path_is_not_utf8_is_refused_before_anything_is_created(
    store: kvstore.Store, tmp_path: Path
) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9")
    for refused in (lambda: kvstore.open(path, embedder="hashing"), lambda: store.backup(path)):
        with pytest.raises(errors.InputError, match="must be valid UTF-8"):
            refused()
    assert not path.exists()


@pytest.mark.parametrize(("second", "year"), [(-1, "1970"), (253_402_300_800, "9999"), (2**45, "9999")])
def test_a_document_is_stored_whatever_the_clock_shows(tmp_path: Path, second: int, year: str) -> None:
    (tmp_path / "note.txt").write_text("Tea is made from leaves.")
    with mock.patch("time.time", return_value=second), kvstore.open(tmp_path / "store", embedder="hashing") as store:
        assert store.ingest(tmp_path / "note.txt").added == 1
        store.update("note.txt", meta={"year": 1})
        statement = "SELECT changed FROM documents WHERE changed > '1960'"
        assert store.execute(statement).fetchall()[0][0].startswith(year)
        assert store.check() == []


def test_opening_a_path_that_is_not_a_store(tmp_path: Path) -> None:
    with pytest.raises(errors.StoreNotFoundError):
        kvstore.open(tmp_path / "missing", create=False)
    with pytest.raises(errors.StoreNotFoundError):
        kvstore.open(tmp_path / "missing", readonly=True)
    (tmp_path / "file").write_text("no store")
    with pytest.raises(errors.NotAStoreError):
        kvstore.open(tmp_path / "file")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "letter.txt").write_text("Dear all")
    with pytest.raises(errors.NotAStoreError):
        kvstore.open(tmp_path / "folder")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "data.mdb").write_bytes(b"measurements" * 1000)
    with pytest.raises(errors.NotAStoreError):
        kvstore.open(tmp_path / "other")
    assert [entry.name for entry in (tmp_path / "other").iterdir()] == ["data.mdb"], "nothing of ours is left there"


@pytest.mark.parametrize(
    "name",
    ["data.mdb", "lock.mdb", "data.mdb.repair", "data.mdb.new", "ingests.jsonl", "ingests.jsonl.part",
     "community_graph.index", "community_graph.index.new"],
)  # fmt: skip
def test_a_named_pipe_in_place_of_a_file_of_the_store_is_not_waited_for(tmp_path: Path, name: str) -> None:
    (tmp_path / "note.txt").write_text("Ana Ruiz repaired the pump in Bilbao.")
    with kvstore.open(tmp_path / "store", embedder="hashing") as store:
        store.ingest(tmp_path / "note.txt")
        store.create_index("communities")
    pipe = tmp_path / "store" / name
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    if name in ("data.mdb", "lock.mdb"):
        remedy = "not a regular file, so this is not a store" if name == "data.mdb" else "not a regular file; remove it"
        with pytest.raises(errors.KvstoreError, match=f"{name}: {remedy}"):
            kvstore.open(tmp_path / "store")
        return
    with kvstore.open(tmp_path / "store") as store:
        (tmp_path / "note.txt").write_text("Tom Berg repaired the pump in Bilbao.")
        assert store.ingest(tmp_path / "note.txt").changed == 1
        store.refresh()
        assert store.retrieve("Who repaired the pump?", using="archrag").hits
        assert store.check() == []


@pytest.mark.parametrize("name", ["link", "link/data.mdb"])
def test_a_link_to_a_missing_store_is_reported_and_left_as_it_is(tmp_path: Path, name: str) -> None:
    """The store may be on a disk that is not mounted."""
    link = tmp_path / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(tmp_path / "missing")
    for options in ({"embedder": "hashing"}, {"create": False}, {"readonly": True}):
        with pytest.raises(errors.StoreNotFoundError, match=r"a symbolic link to .*missing, which does not exist"):
            kvstore.open(tmp_path / "link", **options)
    assert link.is_symlink()
    assert not (tmp_path / "missing").exists()
    assert [file.name for file in link.parent.iterdir()] == [link.name]


def test_a_relative_path_in_a_deleted_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deleted").mkdir()
    monkeypatch.chdir(tmp_path / "deleted")
    (tmp_path / "deleted").rmdir()
    with pytest.raises(errors.StoreNotFoundError, match="notes: the store was deleted, moved or unmounted"):
        kvstore.open("notes")


def test_a_path_that_cannot_be_accessed(tmp_path: Path) -> None:
    """A link to itself stands for every path that the system refuses, such as one in a folder without permission."""
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with kvstore.open(tmp_path / "s", embedder="hashing") as store:
        store.put("tea", TEA)
        for refused in (
            lambda: kvstore.open(loop),
            lambda: kvstore.open(loop / "s", readonly=True),
            lambda: kvstore.migrate(loop),
            lambda: store.backup(loop / "copy"),
            lambda: store.export(loop / "all.jsonl"),
            lambda: store.execute(f"COPY (SELECT 1 AS one) TO '{loop / 'one.csv'}'"),
        ):
            with pytest.raises(errors.InputError, match="cannot be accessed .*; check the path"):
                refused()
        pytest.importorskip("pyarrow")
        with pytest.raises(errors.InputError, match="cannot be accessed .*; check the path"):
            store.execute(f"EXPORT TO '{loop / 'chunks.parquet'}' TABLE chunks")


def test_a_readonly_store_refuses_changes(tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "s", embedder="hashing") as store:
        store.put("tea", TEA)
    with kvstore.open(tmp_path / "s", readonly=True) as store:
        assert store.lookup("Robert Fortune")
        for change in (lambda: store.put("x", "y"), lambda: store.delete("tea"), lambda: store.ingest("x")):
            with pytest.raises(errors.ReadOnlyError, match="read-only"):
                change()


@pytest.mark.slow
def test_a_full_store_reports_it_and_loses_nothing(tmp_path: Path) -> None:
    def put_big_documents(store: kvstore.Store, numbers: range) -> None:
        for number in numbers:
            store.put(f"big-{number}", f"Sentence number {number} goes on and on. " * 800)

    with kvstore.open(tmp_path / "s", embedder="hashing", settings={"language": "rules"}, max_bytes=2 << 20) as store:
        store.put("tea", TEA)
        with pytest.raises(errors.StoreFullError, match="max_bytes"):
            put_big_documents(store, range(40))
        keys = store.keys()
        assert "tea" in keys
        assert store.check() == []
    with kvstore.open(tmp_path / "s", max_bytes=200 << 20) as store:
        assert store.keys() == keys
        put_big_documents(store, range(100, 110))
        assert store.check() == []


def test_backup_is_a_store(store: kvstore.Store, tmp_path: Path) -> None:
    store.put("tea", TEA)
    store.backup(tmp_path / "copy")
    store.put("later", "Not in the copy.")
    with kvstore.open(tmp_path / "copy") as copy:
        assert copy.keys() == ["tea"]
        assert copy.check() == []


def test_temperature_counts_lookups_over_sessions(tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "s", embedder="hashing") as store:
        store.put("tea", TEA)
        for _ in range(3):
            store.lookup("robert fortune")
    with kvstore.open(tmp_path / "s") as store:
        assert store.lookup("Robert Fortune")[0].temperature == 3
        assert store.statistics()["temperature"] == 3
        with pytest.warns(FutureWarning, match="temperature_sort has no effect"):
            store.execute("SET temperature_sort = off")
        store.flush()
        assert store.lookup("Robert Fortune")[0].temperature == 4
        assert store.check() == []


def test_many_chunks_keep_their_vectors_through_changes(store: kvstore.Store) -> None:
    generator = np.random.default_rng(7)
    texts = {f"d{n}": " ".join(f"Word{generator.integers(500)} stands here." for _ in range(60)) for n in range(30)}
    for key, text in texts.items():
        store.put(key, text)
    for key in list(texts)[::3]:
        store.delete(key)
        del texts[key]
    for key in list(texts)[::4]:
        texts[key] = texts[key][::-1]
        store.put(key, texts[key])
    assert store.check() == []
    for key, text in list(texts.items())[:8]:
        assert store.search(text[:300], using="vector", top=3)[0].document == key


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"key": "", "text": "x"}, "key is empty"),
        ({"key": "k" * 5000, "text": "x"}, "key must have 1 to"),
        ({"key": "k", "text": b"x"}, "text must be text"),
        ({"key": "k", "text": "x", "title": 5}, "title must be text"),
        ({"key": "k", "text": "x", "meta": [1]}, "meta must be a mapping"),
        ({"key": "k", "text": "  \n"}, "is empty"),
        ({"key": "k", "text": "x", "format": "html"}, "format must be one of"),
        ({"key": "k", "text": "\ud800"}, "surrogate"),
        (
            {"key": "k", "text": "x", "meta": {"b": 1, "a": {1}}},
            "document 'k': invalid metadata field 'a': set is not a JSON value; use text, a number, a list",
        ),
        (
            {"key": "k", "text": "x", "meta": {"a": [float("inf")]}},
            "invalid metadata field 'a': infinity is not a JSON value; store None or text",
        ),
        ({"key": "k", "text": "x", "meta": {"a": 2**64}}, "does not fit into 64 bits; store it as a string"),
        (
            {"key": "k", "text": "x", "meta": {"a": json.loads("[" * 100 + "]" * 100)}},
            "nested more than 100 levels deep",
        ),
        (
            {"key": "k", "text": "x", "meta": {"a": json.loads("[" * 900 + "]" * 900)}},
            "nested more than 100 levels deep",
        ),
        ({"key": "k", "text": "x" * (33 << 20)}, "the limit is"),
        ({"key": "k", "text": "one,two,three", "format": "pairs"}, "two names"),
    ],
)
def test_bad_documents_are_refused(store: kvstore.Store, arguments: dict, message: str) -> None:
    store.put("tea", TEA)
    with pytest.raises(errors.InputError, match=message):
        store.put(**arguments)
    assert store.keys() == ["tea"]


def test_long_keys_are_distinguished(store: kvstore.Store) -> None:
    long = "k" * 1000
    store.put(long + "a", "First document here.")
    store.put(long + "b", "Second document here.")
    assert set(store.keys()) == {long + "a", long + "b"}
    first = store.get(long + "a")
    assert first is not None
    assert first.text.startswith("First")
    assert store.get(long) is None
    assert store.get("") is None
    assert store.delete(long + "a")
    assert store.keys() == [long + "b"]


def test_pairs_make_a_tree_that_expands(store: kvstore.Store) -> None:
    store.put("fleet.csv", "Tug,Ship\nShip,Vessel\nFerry,Ship\n", format="pairs", meta={"tree": "fleet"})
    rows = store.lookup("ship")
    assert [(row.tree, row.level, row.parent) for row in rows] == [("fleet", 1, "Vessel")]
    relatives = {(row.level, row.relative) for row in store.expand("Ship", depth=2)}
    assert relatives == {(0, "Ship"), (-1, "Vessel"), (1, "Tug"), (1, "Ferry")}
    assert {row.relative for row in store.expand(direction="down", depth=1)} == {"Ship", "Tug", "Ferry"}
    store.put("fleet.csv", "Tug,Vessel\n", format="pairs", meta={"tree": "fleet"})
    assert store.lookup("ship") == []


def test_expand_survives_a_cycle_and_reports_truncation(store: kvstore.Store) -> None:
    rows = "A1,B1\nB1,C1\nC1,A1\n" + "".join(f"leaf{n},A1\n" for n in range(50))
    store.put("cycle", rows, format="pairs")
    nodes = store.expand("a1", direction="up", depth=10)
    assert {row.relative for row in nodes} == {"A1", "B1", "C1"}
    cut = store.expand("a1", direction="down", limit=10)
    assert len(cut) <= 12
    assert any("cut at" in row.text for row in cut)
    store.put("small", "leaf0,A1\n", format="pairs", meta={"tree": "a small tree"})
    rows_of_trees = store.expand("a1", direction="down", limit=10)
    assert len({row.tree for row in rows_of_trees}) == 2
    assert (rows_of_trees[-1].relative, rows_of_trees[-1].tree) == ("…", rows_of_trees[-2].tree)


def test_unknown_things_suggest_the_nearest(store: kvstore.Store) -> None:
    store.put("tea", TEA)
    with pytest.raises(errors.UnknownStrategyError, match="did you mean hybrid"):
        store.retrieve("tea", using="hybird")
    with pytest.raises(errors.EntityNotFoundError, match="Robert Fortune"):
        store.expand("Robert Fortun")
    with pytest.raises(errors.InputError, match="no option"):
        store.retrieve("tea", using="bridge", options={"pol": 1})
    with pytest.raises(errors.ModelError, match="language model 'gpt'.* needs a key"):
        store.ask("tea?", model="gpt")


def test_closing_leaves_a_small_change_buffer_to_be_read_by_the_next(
    make_store: Callable[..., kvstore.Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_store, "QUICK_READ_BYTES", QUICK_READ_BYTES // 8)
    names = " ".join(f"Alpha{number} Beta{number}." for number in range(4000))

    def count_buffered(store: kvstore.Store) -> int:
        with store.state() as state:
            return sum(len(segment) for _, segment in state.lmdb.scan(tables.RECENT))

    store = make_store()
    store.put("few", "Port Ellen.")
    store.close()
    store = make_store()
    assert 0 < count_buffered(store) < QUICK_READ_BYTES // 8
    store.put("many", names)
    assert count_buffered(store) > QUICK_READ_BYTES // 8
    content = store.keys(), store.lookup("Alpha7 Beta7")[0].document
    store.close()
    store = make_store()
    assert count_buffered(store) == 0
    assert (store.keys(), store.lookup("Alpha7 Beta7")[0].document) == content


def test_long_keys_are_in_order(store: kvstore.Store) -> None:
    """The table has only the beginning of a long key, so it does not have such keys in order."""
    beginning = "é" * 199 + "xy"  # its byte 400 is a letter
    keys = [beginning[:-1], *(beginning + end for end in ("", "a" * 200, "b" * 200, "c" * 200, "d"))]
    keys += [beginning[:-1] + "z" * 50, "ü", "ü" * 300]
    with store.transaction() as transaction:
        for key in reversed(keys):
            transaction.put(key, "tea")
    assert store.keys() == sorted(keys)
    assert store.keys(limit=3) == sorted(keys)[:3]
    assert store.keys(beginning + "a") == [beginning + "a" * 200]
    assert store.keys(beginning) == [key for key in sorted(keys) if key.startswith(beginning)]
    assert store.keys(where="key > ''") == sorted(keys)


def test_keys_of_documents_that_fulfil_a_condition(store: kvstore.Store) -> None:
    for key, year in (("b/tea", 1848), ("a/tea", 1848), ("a/milk", 2024), ("a/älter", 1848)):
        store.put(key, TEA, meta={"year": year})
    assert store.keys(where="meta ->> 'year' = ?", parameters=(1848,)) == ["a/tea", "a/älter", "b/tea"]
    assert store.keys("a/", where="meta ->> 'year' < 1900", limit=1) == ["a/tea"]
    assert store.keys("c", where="key > 'a'") == []
    with pytest.raises(errors.StatementError):
        store.keys(where="year =")


def test_origins_are_set_without_storing_documents_again(store: kvstore.Store) -> None:
    store.put("tea", TEA, origin="notes")
    store.put("milk", "Milk goes into tea.")
    changed = dict(store.execute("SELECT key, changed FROM documents").fetchall())
    assert store.set_origins({"tea": "notes", "milk": "letters", "cocoa": "letters"}) == 1
    with store.transaction() as transaction:
        transaction.put("sugar", "Sugar is sweet.")
        assert transaction.set_origins({"sugar": "letters", "tea": None}) == 2
        assert transaction.set_origins({"sugar": "letters", "tea": None}) == 0
        transaction.delete("milk")
        assert transaction.set_origins({"milk": "notes"}) == 0
    rows = store.execute("SELECT key, origin FROM documents ORDER BY key").fetchall()
    assert rows == [("sugar", "letters"), ("tea", None)]
    for condition in ("origin = 'letters'", {"$origin": "letters"}, "origin IS NOT NULL", {"$origin": {"$like": "l%"}}):
        assert store.keys(where=condition) == ["sugar"], condition
    for condition in (
        "origin IS NULL",
        {"$origin": None},
        {"$origin": {"$ne": "letters"}},
        {"$origin": {"$empty": True}},
    ):
        assert store.keys(where=condition) == ["tea"], condition
    assert ("tea", changed["tea"]) in store.execute("SELECT key, changed FROM documents").fetchall()
    with pytest.raises(errors.ArgumentError, match="an origin must be a string or None, not 7"):
        store.set_origins({"tea": 7})
    with pytest.raises(errors.ArgumentError, match="an origin must be text that can be written as UTF-8"):
        store.set_origins({"tea": "\udcff"})


def test_many_documents_are_one_change(store: kvstore.Store) -> None:
    many = [{"key": f"notes/{number}", "text": f"Note {number}. {TEA}", "meta": {"n": number}} for number in range(3)]
    assert store.put_many(many) == [True, True, True]
    changes = store.statistics()
    assert store.put_many(many) == [False, False, False]
    assert store.statistics() == changes, "what is stored already is no change"
    again = [{**many[0], "text": "Another."}, many[1], many[0]]
    assert store.put_many(again) == [True, False, True], "the last of a key stays"
    document = store.get("notes/0")
    assert document is not None and document.text == many[0]["text"]
    vector = np.eye(1, store.settings.dimension)
    with store.transaction() as transaction:
        assert transaction.put_many(
            [{"key": "own", "text": "Own.", "vectors": vector, "origin": "here"}, {**many[2], "title": "Note"}]
        ) == [True, True]
    assert store.vectors([("own", 0)]) == pytest.approx(vector)
    assert store.put_many([]) == []


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        ({"key": "b", "text": " "}, errors.InputError, "document 2 of 3: document 'b' is empty; give it some text"),
        ({"key": "b", "text": "B.", "meta": {1, 2}}, errors.InputError, "document 2 of 3: put.*meta must be a mapping"),
        ({"key": "b", "txt": "B."}, TypeError, "document 2 of 3: put.* has no argument 'txt'; did you mean 'text'"),
        ({"key": "b"}, TypeError, "document 2 of 3: put.* is missing 'text'"),
        ("b", TypeError, "document 2 of 3: it must map the names of put"),
        ({"key": "b", "text": "B.", "vectors": [[1.0]]}, errors.InputError, "document 2 of 3: .*"),
    ],
)
def test_an_invalid_document_among_many_is_named_and_nothing_is_stored(
    store: kvstore.Store, wrong: Any, kind: type[Exception], message: str
) -> None:
    many = [{"key": "a", "text": "A."}, wrong, {"key": "c", "text": "C."}]
    with pytest.raises(kind, match=message):
        store.put_many(many)
    with store.transaction() as transaction:
        with pytest.raises(kind, match=message):
            transaction.put_many(many)
        assert transaction.keys() == []


def test_vectors_of_chunks_as_hits_name_them(store: kvstore.Store) -> None:
    store.put("tea", f"{TEA} " * 20)
    hits = store.search("leaves", top=3)
    vectors = store.vectors([(hit.document, hit.ordinal) for hit in hits])
    ids = {(key, number): id for id, key, number in store.execute("SELECT id, document, ordinal FROM chunks")}
    assert (vectors == store.vectors([ids[hit.document, hit.ordinal] for hit in hits])).all()
    for chunk in (("tea", 999), ("milk", 0)):
        with pytest.raises(errors.InputError, match="there is no chunk"):
            store.vectors([chunk])
    for wrong in (("tea",), ("tea", -1), (5, 0)):
        with pytest.raises(errors.InputError):
            store.vectors([wrong])  # type: ignore[list-item]


def test_put_many_skips_stored_keys_without_replace(store: kvstore.Store) -> None:
    store.put("tea", "Tea is made from leaves.")
    rows = [{"key": key, "text": text} for key, text in (("tea", "Other."), ("milk", "White."), ("milk", "Cold."))]
    assert store.put_many(rows, replace=False) == [False, True, False]
    with store.transaction() as transaction:
        assert transaction.put_many([*rows, {"key": "sea", "text": "Salty."}], replace=False) == [False] * 3 + [True]
    texts = [document.text for document in store.get_many(["tea", "milk", "sea"]) if document is not None]
    assert texts == ["Tea is made from leaves.", "White.", "Salty."]


def test_a_change_of_metadata_alone_keeps_the_chunks(store: kvstore.Store, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.md").write_text("---\nteam: hr\n---\n# Leave\n\nMaria Jensen approves leave.\n")
    store.ingest(tmp_path / "in")
    store.put("own", "Ada Lovelace wrote a program.", vectors=[[1.0] * store.settings.dimension], meta={"team": "it"})
    store.put_triples("a.md", [("Maria Jensen", "leads", "Payroll")])

    def list_chunks() -> list[Any]:
        return store.execute("SELECT id, document, text FROM chunks ORDER BY id").fetchall()

    chunks = list_chunks()
    vectors = store.vectors([chunk for chunk, document, _ in chunks if document == "own"])
    with store.transaction() as transaction:
        assert transaction.update("a.md", meta={"team": "hr", "year": 2025})
        assert transaction.update("a.md", meta={"team": "it", "year": 2026})
        assert not transaction.update("a.md", meta={"year": 2026, "team": "it"})
        assert transaction.update("own", meta={"team": "hr"})
        assert transaction.keys(where={"team": "hr"}) == ["own"]
        assert transaction.keys(where={"year": {"$gte": 2026}}) == ["a.md"]
    assert list_chunks() == chunks
    assert (store.vectors([chunk for chunk, document, _ in chunks if document == "own"]) == vectors).all()
    assert store.keys(where="meta ->> 'team' = 'it'") == ["a.md"]
    assert len(store.triples("a.md")) == 1
    assert store.ingest(tmp_path / "in").changed == 1, "the file states other metadata than the update"
    assert store.get("a.md").meta == {"team": "hr"}  # type: ignore[union-attr]
    assert list_chunks() == chunks
    (tmp_path / "in" / "a.md").write_text("---\nteam: pr\n---\n# Leave\n\nMaria Jensen approves leave.\n")
    assert store.ingest(tmp_path / "in", prune=True).changed == 1
    assert store.keys(where={"team": "pr"}) == ["a.md"]
    with store.transaction() as transaction:
        transaction.update("a.md", meta={"team": "x"})
        transaction.delete("a.md")
        transaction.put("a.md", "Another text.", meta={"team": "y"})
        transaction.update("a.md", meta={"team": "z"})
    assert [(store.get("a.md").text, store.get("a.md").meta)] == [("Another text.", {"team": "z"})]  # type: ignore[union-attr]


@pytest.mark.parametrize("tree", [True, 1.0, "1", [1]])
def test_a_change_of_metadata_moves_the_edges_to_another_tree(store: kvstore.Store, tree: Any) -> None:
    store.put("a", "Ada,Bank", format="pairs", meta={"tree": 1, "year": 1843})
    store.update("a", meta={"tree": tree, "year": 1844})
    assert store.execute("SELECT name FROM trees").fetchall() == [(str(tree),)]


@pytest.mark.parametrize("other_change", [lambda store: store.delete("a"), lambda store: store.put("a", "Bo Li sang.")])
@pytest.mark.parametrize(
    "change",
    [
        lambda transaction: transaction.update("a", meta={"year": 1843}),
        lambda transaction: transaction.put_triples("a", [("Ada Lovelace", "knew", "Bo Li")]),
    ],
)
def test_changes_are_not_applied_again_to_a_document_that_another_transaction_changed(
    store: kvstore.Store,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[kvstore.Transaction], object],
    other_change: Callable[[kvstore.Store], object],
) -> None:
    """Another writer commits while the map of the file grows, for which the transaction gives up its lock."""
    store.put("a", "Ada Lovelace wrote.")
    store.put("b", "Ada Lovelace sang.")
    write_with_growth = Environment.write_with_growth

    def fill_map(*arguments: object) -> None:
        raise MapFull("the map is full")

    def write_after_other_change(environment: Environment, *arguments: Any) -> object:
        monkeypatch.undo()
        other_change(store)
        return write_with_growth(environment, *arguments)

    monkeypatch.setattr(write_transaction, "_MIN_FREE_BYTES", 1 << 60)
    with store.transaction() as transaction:
        transaction.update("b", meta={"year": 1843})
        monkeypatch.setattr(BatchedChanges, "commit", fill_map)
    assert store.get("b").meta == {"year": 1843}  # type: ignore[union-attr]
    monkeypatch.setattr(Environment, "write_with_growth", write_after_other_change)
    transaction = store.transaction()
    change(transaction)
    with pytest.raises(errors.TransactionError, match="changed document 'a' while the store was growing"):
        transaction.commit()
    document = store.get("a")
    assert not document or (document.text, document.meta) == ("Bo Li sang.", {})
    assert store.put("a", "Ada Lovelace wrote.", meta={"year": 1843})


def test_new_metadata_need_no_model(store: kvstore.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [{"key": key, "text": f"Maria Jensen approves {key}.", "meta": {"n": 1}} for key in ("a", "b", "c")]
    store.put_many(documents)
    chunks = store.execute("SELECT id, text FROM chunks ORDER BY id").fetchall()

    def fail(_: object) -> None:
        raise AssertionError("models are loaded")

    def derive_nothing(documents: list[Any], _: object) -> list[Any]:
        assert not documents
        return []

    with monkeypatch.context() as patched:
        patched.setattr(open_store.OpenStore, "load_models", fail)
        patched.setattr("kvstore.changes.document_completion.extract_chunked", derive_nothing)
        assert store.update("a", meta={"n": 2})
        assert store.put(**documents[1] | {"meta": {"n": 2}})  # type: ignore[arg-type]
        assert store.put_many([document | {"meta": {"n": 3}} for document in documents]) == [True] * 3
        assert store.execute("UPDATE documents SET meta = json_set(meta, '$.n', 4)").rowcount == 3
    assert store.execute("SELECT id, text FROM chunks ORDER BY id").fetchall() == chunks
    assert store.keys(where={"n": 4}) == ["a", "b", "c"]
    changes = [documents[0] | {"meta": {"n": 5}}, documents[0] | {"text": "Ada wrote it."}, documents[0]]
    assert store.put_many(changes) == [True] * 3
    assert [(document.text, document.meta) for document in store.get_many(["a"])] == [
        ("Maria Jensen approves a.", {"n": 1})
    ]


def test_the_time_to_store_a_title_grows_with_its_length_alone(store: kvstore.Store) -> None:
    store.put("a", "Tom Berg knows Maria Jensen.", title="Maria Jensen")
    start = time.process_time()
    store.put("b", "Tom Berg.", title="Maria Jensen " * 8_000)
    assert time.process_time() - start < 2  # with a normal form for each mention, it was 8 seconds
    assert {location.document for location in store.lookup("Maria Jensen")} == {"a", "b"}
