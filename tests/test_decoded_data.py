"""The shared cache of decoded data changes no result: each snapshot reads its own commit."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvstore
from kvstore.structures import decoded_data
from kvstore.structures.decoded_data import DecodedData, DecodedDataCache, EntryCache


def test_snapshots_of_different_commits_read_their_own_documents(tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "store", embedder="hashing:16", settings={"language": "rules"}) as store:
        store.put("tea", "The harbour sells tea.", title="First")
        snapshot_before = store.snapshot()
        for _ in range(2):
            (hit,) = store.search("harbour", using="lexical")
            assert (hit.text, hit.title) == ("The harbour sells tea.", "First")
        store.put("tea", "The harbour sells milk.", title="Second")
        store.put("milk", "Another harbour.")
        for _ in range(2):
            assert {hit.text for hit in store.search("harbour", using="lexical")} == {
                "The harbour sells milk.",
                "Another harbour.",
            }
            (hit,) = snapshot_before.search("harbour", using="lexical")
            assert (hit.text, hit.title) == ("The harbour sells tea.", "First")
        snapshot_before.close()
        store.delete("milk")
        (hit,) = store.search("harbour", using="lexical")
        assert (hit.text, hit.title) == ("The harbour sells milk.", "Second")


def test_a_rolled_back_document_is_not_cached(tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "store", embedder="hashing:16", settings={"language": "rules"}) as store:
        with pytest.raises(RuntimeError), store.transaction() as transaction:
            transaction.put("tea", "The harbour sells tea.")
            assert transaction.search("harbour", using="lexical")[0].document == "tea"
            raise RuntimeError
        assert store.search("harbour", using="lexical") == []
        store.put("milk", "The harbour sells milk.")
        assert [hit.text for hit in store.search("harbour", using="lexical")] == ["The harbour sells milk."]


def test_another_commit_drops_the_data() -> None:
    cache = DecodedDataCache()
    data = cache.get(1)
    assert cache.get(1) is data
    assert cache.get(2) is not data


def test_the_data_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoded_data, "_MAX_TEXT_BYTES", 10)
    data = DecodedData()
    data.add_text(1, b"123456")
    data.add_text(2, b"1234567")
    data.add_text(3, b"12345678901")
    assert data.texts == {2: b"1234567"}


def test_a_full_cache_keeps_the_last_entries() -> None:
    cache: EntryCache[str, int] = EntryCache(2)
    assert cache.get_many(["b", "a", "b"], lambda missing: map(ord, missing)) == {"b": 98, "a": 97}
    assert cache.get_many(["a", "c"], lambda missing: [ord(key) for key in missing if key == "c"]) == {"a": 97, "c": 99}
    assert cache.entries == {"c": 99}
    assert cache.get_many(["x", "y", "z"], lambda missing: map(ord, missing)) == {"x": 120, "y": 121, "z": 122}
    assert cache.entries == {"c": 99}
