"""Loading many documents: what a transaction derives together, and what it keeps of it."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable

import numpy as np
import pytest

import kvstore
from kvstore.changes.dump import DumpRows, dump
from kvstore.collection_pause import collection_paused
from kvstore.errors import InputError
from kvstore.extraction import extraction
from kvstore.storage.lmdb_errors import MapFull


def test_a_transaction_parses_its_documents_together(
    make_store: Callable[..., kvstore.Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    derived: list[int] = []
    derive = extraction.derive_chunked
    monkeypatch.setattr(
        "kvstore.changes.pending.derive_chunked",
        lambda documents, settings: derived.append(len(documents)) or derive(documents, settings),  # type: ignore[func-returns-value]
    )
    store = make_store()
    with store.transaction() as transaction:
        for number in range(5):
            assert transaction.put(f"note {number}", f"Note {number} is about Ada Lovelace.")
        assert not transaction.put("note 4", "Note 4 is about Ada Lovelace.")
        assert derived == []
    assert derived == [5]
    assert len(store.lookup("Ada Lovelace")) == 5


def test_what_cannot_be_a_document_is_refused_when_it_is_put(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store()
    with store.transaction() as transaction:
        with pytest.raises(InputError, match="one for each of the 1 chunks"):
            transaction.put("two", "One chunk.", vectors=np.ones((2, 256), np.float32))
        with pytest.raises(InputError, match="tree"):
            transaction.put("pairs", "child,parent\n", format="pairs", meta={"tree": "x" * 1000})
        assert transaction.put("one", "One chunk.")
    assert store.keys() == ["one"]


def test_a_transaction_that_outgrows_the_map_derives_its_documents_again(
    make_store: Callable[..., kvstore.Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstore.database.transaction._MOST_PENDING", 3)
    texts = {f"note {number}": f"Ada Lovelace wrote note {number}." for number in range(20)}
    plain, grown = make_store("plain"), make_store("grown")
    for store in (plain, grown):
        with store.transaction() as transaction:
            for key, text in texts.items():
                transaction.put(key, text, vectors=np.arange(1, 257, dtype=np.float32))
            if store is grown:

                def full(hits: object) -> None:
                    raise MapFull("the map is full")

                monkeypatch.setattr(transaction._changes, "finish", full)
    assert contents(grown) == contents(plain)
    assert grown.check() == []


def contents(store: kvstore.Store) -> dict[str, DumpRows]:
    with store.snapshot() as snapshot:
        return dump(snapshot._view)


def test_garbage_is_collected_again_behind_overlapping_pauses() -> None:
    begun, done = threading.Event(), threading.Event()

    def other() -> None:
        with collection_paused():
            begun.set()
            done.wait(60)

    thread = threading.Thread(target=other)
    with collection_paused():
        thread.start()
        assert begun.wait(60)
    assert not gc.isenabled()
    done.set()
    thread.join()
    assert gc.isenabled()
    gc.disable()
    try:
        with collection_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_collection_is_on_after_a_load(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store()
    with pytest.raises(ZeroDivisionError), store.transaction() as transaction:
        transaction.put("note", "Ada Lovelace.")
        assert transaction.keys() == ["note"]
        raise ZeroDivisionError
    assert gc.isenabled()
