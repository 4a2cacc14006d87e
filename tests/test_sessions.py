"""Handles and sessions: one store of a process, used through several, each with what is its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

import kvstore
from kvstore import errors

pytestmark = pytest.mark.public_api

MakeStore = Callable[..., kvstore.Store]


def reopen(store: kvstore.Store, **options: object) -> kvstore.Store:
    return kvstore.open(store.path, **options)  # type: ignore[arg-type]


def test_an_open_path_gives_another_handle_and_the_last_close_closes(store: kvstore.Store) -> None:
    store.put("tea", "Tea is made from leaves.")
    second_handle = kvstore.open(os.path.relpath(store.path))
    assert second_handle is not store
    assert second_handle.keys() == ["tea"]
    second_handle.put("coffee", "Coffee is brewed.")
    assert store.keys() == ["coffee", "tea"]
    second_handle.set("top", 3)
    assert ("top", 8, False) in store.settings_table()
    second_handle.close()
    second_handle.close()
    assert (second_handle.closed, store.closed) == (True, False)
    with pytest.raises(errors.ClosedError, match="this handle was closed"):
        second_handle.keys()
    with pytest.raises(errors.ClosedError, match="this handle was closed"):
        second_handle.put("milk", "Milk.")
    with pytest.raises(errors.ClosedError, match="this handle was closed"):
        second_handle.set("top", 2)
    assert store.delete("coffee")
    third = reopen(store)
    store.close()
    assert third.keys() == ["tea"]
    third.close()
    assert third.closed
    with kvstore.open(third.path) as again:
        assert again.check() == []


def test_a_handle_that_was_dropped_counts_no_more(store: kvstore.Store) -> None:
    second_handle = reopen(store)
    del second_handle
    path = store.path
    store.close()
    with kvstore.open(path, durability="relaxed") as again:
        assert again.keys() == []


def test_each_handle_waits_for_a_writer_as_long_as_its_lock_timeout(store: kvstore.Store) -> None:
    with reopen(store, lock_timeout=0.05) as impatient, impatient.session() as session:
        writes = [
            lambda: impatient.put("tea", "Tea."),
            lambda: session.execute("INSERT DOCUMENT 'tea' TEXT 'Tea.'"),
            impatient.compact,
        ]
        for write in writes:
            raised: list[BaseException] = []

            def attempt(write: Callable[[], object] = write, raised: list[BaseException] = raised) -> None:
                try:
                    write()
                except errors.LockTimeoutError as error:
                    raised.append(error)

            with store.transaction():
                thread = threading.Thread(target=attempt)
                thread.start()
                thread.join()
            assert "in 0.05 s" in str(raised[0])
    with pytest.raises(errors.InputError, match="negative"):
        reopen(store, lock_timeout=-1)


def test_another_handle_must_use_the_existing_settings(make_store: MakeStore, store: kvstore.Store) -> None:
    with pytest.raises(errors.SettingsMismatchError, match="chunk_tokens"):
        reopen(store, settings={"chunk_tokens": 77})
    with pytest.raises(errors.SettingsMismatchError, match="embedder"):
        reopen(store, embedder="hashing:64")
    with pytest.raises(errors.SettingsMismatchError, match="durability = 'full', not 'relaxed'"):
        reopen(store, durability="relaxed")
    with pytest.raises(errors.SettingsMismatchError, match="max_bytes"):
        reopen(store, max_bytes=1 << 30)
    other_store = make_store("other")
    other_store.close()
    with (
        kvstore.open(other_store.path, readonly=True) as reading,
        pytest.raises(errors.InputError, match="open read-only in this process"),
    ):
        reopen(reading)


def test_a_reading_handle_sees_the_commits_of_others(store: kvstore.Store) -> None:
    with reopen(store, readonly=True) as reading:
        store.put("tea", "Tea is made from leaves.")
        assert reading.keys() == ["tea"]
        assert reading.readonly
        assert not store.readonly
        for change in (lambda: reading.delete("tea"), lambda: reading.execute("DELETE DOCUMENT 'tea'")):
            with pytest.raises(errors.ReadOnlyError):
                change()
        reading.search("tea")
    assert store.keys() == ["tea"]


def test_a_session_has_its_own_settings_transaction_and_lookup(store: kvstore.Store) -> None:
    store.put("tea", "Robert Fortune took tea to India.")
    store.put_edge("Darjeeling", "India", tree="places")
    store.set("top", 5)
    session = store.session()
    assert ("top", 5, False) in session.settings_table()
    session.set("top", 2)
    assert ("top", 5, False) in store.settings_table()
    session.lookup("Darjeeling")
    with pytest.raises(errors.InputError, match="last LOOKUP"):
        store.expand()
    assert session.expand()
    session.execute("BEGIN")
    session.execute("INSERT DOCUMENT 'milk' TEXT 'Milk goes into tea.'")
    assert session.execute("SELECT count(*) FROM documents").fetchall() == [(2,)]
    assert store.execute("SELECT count(*) FROM documents").fetchall() == [(1,)]
    assert not store.in_transaction
    with pytest.raises(errors.TransactionError, match="no transaction is open"):
        store.execute("COMMIT")
    session.close()
    assert store.keys() == ["tea"]
    session = store.session()
    store.close()
    assert session.closed


def test_null_resets_a_setting_to_its_default(store: kvstore.Store) -> None:
    defaults = store.settings_table()
    for name, value in (("strategy", "lexical"), ("model", "some"), ("base_url", "http://localhost:1/v1"), ("top", 3)):
        store.set(name, value)
        assert store.settings_table() != defaults
        store.set(name, None)
        assert store.settings_table() == defaults
        store.set(name, value)
        store.execute(f"SET {name} = NULL")
        assert store.settings_table() == defaults
    for value in (True, 2.5):
        with pytest.raises(errors.InputError, match="top must be a whole number"):
            store.set("top", value)


def test_fifty_threads_with_their_own_sessions_make_one_history(make_store: MakeStore) -> None:
    store = make_store(lock_timeout=120)
    store.put("counter", "0 counted.", meta={"count": 0})
    wrong: list[BaseException | str] = []
    begin = threading.Barrier(50)

    def write_document(number: int) -> None:
        with store.session() as session:
            session.execute("BEGIN")
            ((count,),) = session.execute("SELECT meta ->> 'count' FROM documents WHERE key = 'counter'").fetchall()
            session.execute("UPDATE DOCUMENT 'counter' SET META = ?", (f'{{"count": {count + 1}}}',))
            session.execute("INSERT DOCUMENT ? TEXT ?", (f"writer {number}", f"Captain {number} was here."))
            session.execute("COMMIT")

    def read_counts(number: int) -> None:
        with store.session() as session:
            session.set("top", number % 5 + 1)
            last = 0
            for _ in range(4):
                query = "SELECT count(*), max(meta ->> 'count') FROM documents"
                ((documents, count),) = session.execute(query).fetchall()
                if documents != count + 1 or count < last:
                    wrong.append(f"{documents} documents at {count} after {last}")
                last = count
                if len(session.search("Captain", using="lexical", top=number % 5 + 1)) > number % 5 + 1:
                    wrong.append("another session's top")

    def run_work(work: Callable[[int], None], number: int) -> None:
        try:
            begin.wait(60)
            work(number)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=run_work, args=((write_document, read_counts)[n % 2], n)) for n in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert store.execute("SELECT meta ->> 'count' FROM documents WHERE key = 'counter'").fetchall() == [(25,)]
    assert len(store.keys()) == 26


def test_threads_that_open_and_close_at_once_share_one_store(tmp_path: Path) -> None:
    wrong: list[BaseException] = []

    def open_and_put(number: int) -> None:
        try:
            for turn in range(3):
                with kvstore.open(tmp_path / "store", embedder="hashing", lock_timeout=60) as store:
                    store.put(f"{number}-{turn}", f"Captain {number} came.")
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=open_and_put, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    with kvstore.open(tmp_path / "store") as store:
        assert len(store.keys()) == 18
        assert store.check() == []


def test_a_request_for_many_reads_one_state(store: kvstore.Store) -> None:
    with store.transaction() as transaction:
        for number in range(5):
            transaction.put(
                f"tea {number}", f"Robert Fortune took tea {number} to India.", meta={"year": 2020 + number}
            )
    assert [document and document.key for document in store.get_many(["tea 3", "none", "tea 1"])] == [
        "tea 3",
        None,
        "tea 1",
    ]
    assert (store.count(), store.count("meta ->> 'year' > ?", (2022,))) == (5, 2)
    chunks = [id for (id,) in store.execute("SELECT id FROM chunks ORDER BY document DESC")]
    texts = [text for (text,) in store.execute("SELECT text FROM chunks ORDER BY document DESC")]
    assert np.allclose(store.vectors(chunks), store.embed(texts), atol=1e-6)
    assert store.vectors([]).shape == (0, 256)
    with pytest.raises(errors.InputError, match="there is no chunk 999"):
        store.vectors([chunks[0], 999])
    cursor = store.execute("SELECT key FROM documents ORDER BY key")
    assert [len(cursor.fetchmany(2)) for _ in range(4)] == [2, 2, 1, 0]
    with store.transaction() as transaction:
        transaction.put("new", "Not stored yet.")
        assert transaction.delete("tea 4")
        assert transaction.delete_many(["tea 0", "none", "tea 4", "", "tea 0", "new"]) == 2
        assert transaction.delete_many(["tea 0", "new"]) == 0
    with pytest.raises(errors.StatementError):
        store.count("no such")


def test_keys_of_metadata_become_texts_unless_two_become_the_same(store: kvstore.Store) -> None:
    store.put("tea", "Tea.", meta={1: "a", None: "b", "nested": {2.5: "c"}})
    tea = store.get("tea")
    assert tea is not None and tea.meta == {"1": "a", "null": "b", "nested": {"2.5": "c"}}
    for meta in ({1: "a", "1": "b"}, {"nested": [{True: "a", "true": "b"}]}):
        with pytest.raises(errors.InputError, match="'tea'.* two of its keys are the same string '(1|true)' in JSON"):
            store.put("tea", "Tea.", meta=meta)


def test_dates_in_metadata_are_iso_text(store: kvstore.Store) -> None:
    when = datetime(2024, 5, 6, 7, 8, tzinfo=UTC)
    store.put("tea", "Tea is made from leaves.", meta={"at": when, "on": when.date(), "years": [when.date()]})
    document = store.get("tea")
    assert document is not None
    assert document.meta == {"at": "2024-05-06T07:08:00+00:00", "on": "2024-05-06", "years": ["2024-05-06"]}
    assert not store.put("tea", "Tea is made from leaves.", meta=document.meta)
    with pytest.raises(errors.InputError, match="invalid metadata field 'what': object is not a JSON value"):
        store.put("tea", "Tea.", meta={"what": object()})
