"""Patches of the change buffer: what is different in a value is all that a small commit writes of it."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import kvstore
from kvstore.changes import compaction
from kvstore.changes.dump import dump
from kvstore.registry import get_buffered_tables
from kvstore.storage import change_buffer, write_transaction
from kvstore.storage.change_buffer import ChangeBufferReader
from kvstore.structures import tables
from kvstore_cext.patches import add_pieces, apply_chains, apply_patch, find_last_keys, make_patch, record_changes

MakeStore = Callable[..., kvstore.Store]

PIECES = st.lists(st.sampled_from([b"", b"a", b"abcdefgh" * 3, bytes(40), bytes(range(256))]) | st.binary(max_size=90))


@given(PIECES, st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 60), st.binary(max_size=60)), max_size=4))
@example([bytes(range(256))] * 60, [(9000, 3, b"")])
def test_a_patch_makes_the_value_and_is_shorter(pieces: list[bytes], edits: list[tuple[int, int, bytes]]) -> None:
    before = after = b"".join(pieces)
    for place, num_removed, added in edits:
        after = after[:place] + added + after[place + num_removed :]
    for old, new in ((before, after), (after, before), (before, before[::-1])):
        patch = make_patch(memoryview(old), new)
        if patch is not None:
            assert apply_patch(old, patch) == new
            assert len(patch) < len(new)


@given(st.sets(st.binary(max_size=3)), st.data())
def test_the_last_keys_of_ranges_are_found_in_both_lists(keys: set[bytes], data: st.DataObject) -> None:
    older = data.draw(st.sets(st.sampled_from(sorted(keys)))) if keys else set()
    ranges = data.draw(st.lists(st.tuples(st.binary(max_size=3), st.binary(max_size=4))))
    expected = [max((key for key in keys if start <= key < stop), default=None) for start, stop in ranges]
    assert find_last_keys(ranges, (sorted(older), sorted(keys - older))) == expected


def test_a_patch_of_a_page_contains_the_difference() -> None:
    page = random.Random(1).randbytes(4080)
    moved = page[:100] + b"new" + page[100:2000] + page[2030:3000] + bytes(8) + page[3008:]
    patch = make_patch(page, moved)
    assert patch is not None
    assert len(patch) < 40
    assert apply_patch(page, patch) == moved
    assert make_patch(page, random.Random(2).randbytes(4080)) is None
    assert make_patch(b"", b"of nothing nothing is made") is None


@given(st.binary(max_size=4080), st.lists(st.tuples(st.integers(0, 4079), st.binary(max_size=40)), max_size=5))
@example(bytes(4080), [(4, b"sum "), (2000, b"a"), (4079, b"z")])
@example(bytes(range(200)), [(0, b"x" * 200)])
def test_bytes_replaced_in_place_make_a_patch(before: bytes, edits: list[tuple[int, bytes]]) -> None:
    after = bytearray(before)
    for place, new in edits:
        after[place : place + len(new)] = new[: max(0, len(before) - place)]
    patch = make_patch(before, after)
    changed = sum(first != second for first, second in zip(before, after, strict=True))
    if patch is not None:
        assert apply_patch(before, patch) == after
    assert patch is not None or changed > 40 or len(before) < 64
    assert patch is None or len(patch) < 10 + sum(len(new) + 12 for _, new in edits)


KEYS = [b"1", b"2", b"3"]
SMALL_VALUES = st.sampled_from([b"", b"abc", bytes(50), b"x" + bytes(50), bytes(range(90))])
CHANGES = st.dictionaries(st.sampled_from(KEYS), st.none() | SMALL_VALUES)


@given(st.dictionaries(st.sampled_from(KEYS), SMALL_VALUES), st.lists(st.lists(CHANGES, max_size=4), max_size=6))
@example({b"1": bytes(50)}, [[{b"1": b"abc"}, {b"1": bytes(50)}], [{b"1": bytes(50)}]])
def test_chains_lead_to_the_last_values(
    stored: dict[bytes, bytes], commits: list[list[dict[bytes, bytes | None]]]
) -> None:
    """Of several changes of a record in one commit, the last counts, also if it restores the committed value."""
    expected: dict[bytes, bytes | None] = dict(stored)
    committed: dict[bytes, bytes | None] = {}
    for commit in commits:
        pieces: dict[bytes, bytes | None] = {}
        chains = committed.copy()
        for changes in commit:
            record_changes(changes, committed, {}, stored.get, 3, pieces, chains)
            expected |= changes
            assert apply_chains(KEYS, chains, {}, stored.get) == list(map(expected.get, KEYS))
        add_pieces(committed, {}, pieces)
        assert committed == chains


def test_a_change_to_the_same_value_is_left_out() -> None:
    stored: dict[bytes, bytes] = {b"same": bytes(50), b"other": bytes(50)}
    pieces: dict[bytes, bytes | None] = {}
    size = record_changes({b"same": bytes(50), b"other": b"1" * 50}, {}, {}, stored.get, 8, pieces, {})
    assert pieces.keys() == {b"other"}
    assert size == len(b"other") + len(pieces[b"other"] or b"")


@given(st.binary(max_size=300), st.binary(max_size=60))
@example(b"", b"\x00\x05\x00\x05\x00")
@example(b"abc", b"\x03\xff\xff\xff\xff\x7f\x00")
@example(b"abc", b"\x03\x09\x00\x09\x00")
@example(b"abc", b"\x03\x03\x00\x03\x01")
@example(b"abc", b"\x03\x03\x00\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
def test_an_invalid_patch_is_refused(old: bytes, patch: bytes) -> None:
    try:
        assert isinstance(apply_patch(old, patch), bytes)
    except ValueError:
        return


def fill_store(store: kvstore.Store, documents: int) -> Callable[..., None]:
    """Put documents whose names and words recur; return a function that puts one of them again with other words."""
    generator = np.random.default_rng(3)
    words = [f"word{number}" for number in range(400)]
    names = [f"Captain {chr(65 + number % 26)}{chr(97 + number // 26)}ddard" for number in range(60)]

    def put_document(number: int, addition: str = "", target: kvstore.Store | kvstore.Transaction = store) -> None:
        terms = [words[place] for place in (generator.zipf(1.3, 60) - 1) % len(words)]
        text = f"{' '.join(terms)}. {names[number % 60]} met {names[number * 7 % 60]}. {addition}"
        target.put(f"document {number}", text, title=f"Log {number}")

    with store.transaction() as transaction:
        for number in range(documents):
            put_document(number, target=transaction)
    store.compact()
    return put_document


def test_a_replaced_document_changes_few_pages(make_store: MakeStore) -> None:
    store = make_store()
    put = fill_store(store, 300)
    changed = []
    for number in range(20):
        before = (store.path / "data.mdb").read_bytes()
        put(7 * number, "The wind rose.")
        after = (store.path / "data.mdb").read_bytes()
        pages = range(0, len(after), 4096)
        changed.append(sum(after[place : place + 4096] != before[place : place + 4096] for place in pages))
    assert max(changed) <= 20
    with store.state() as view:
        assert view.lmdb.count(tables.RECENT) == 20


def test_another_process_reads_patched_and_merged_values(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen through an environment that reads each segment from the disk, as another process does."""
    monkeypatch.setattr(change_buffer, "MAX_SEGMENTS", 25)
    store = make_store()
    put = fill_store(store, 30)
    for number in range(60):
        put(number % 9, f"Change {number}.")
        if number % 7 == 0:
            store.delete(f"document {number // 7 + 12}")
        if number % 12 == 5:
            environment = store._session.environment
            with store.state() as view:
                mine = dump(view)
            environment.buffer_reader = ChangeBufferReader(environment.buffer_reader.buffered_tables.names)
            with store.state() as view:
                assert dump(view) == mine
    assert store.check() == []


def test_deleting_a_large_part_of_a_store_writes_its_tables_directly(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Buffered patches of all these changes would be merged into the tables in the same commit."""
    monkeypatch.setattr(change_buffer, "MIN_BYTES", 1000)
    store = make_store()
    put = fill_store(store, 60)
    store.delete("document 1")  # a small part
    with store.state() as view:
        assert view.lmdb.count(tables.RECENT)
    deleted = [f"document {number}" for number in range(2, 60, 9)]
    with store.transaction() as transaction:
        assert transaction.delete_many(deleted) == len(deleted)
        put(70, target=transaction)
    with store.state() as view:
        assert not view.lmdb.count(tables.RECENT)
        mine = dump(view)
    assert store.check() == []
    fresh_store = make_store()
    with fresh_store.transaction() as transaction:
        for key in store:
            document = store.get(key)
            assert document is not None
            transaction.put(key, document.text, title=document.title)
    with fresh_store.state() as view:
        assert dump(view) == mine


@pytest.mark.slow
def test_a_large_commit_appends_to_tables_and_buffers_the_rest(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Appended records fill pages of their own; the other changes are spread over nearly all other pages."""
    monkeypatch.setattr(write_transaction, "MAX_SEGMENT_BYTES", 10_000)
    monkeypatch.setattr(change_buffer, "MAX_SEGMENT_BYTES", 10_000)
    store = make_store()
    put = fill_store(store, 600)

    def put_documents(first: int) -> tuple[int, int]:
        """Put documents in one transaction; return the number of pages written, and of segments afterwards."""
        before = (store.path / "data.mdb").read_bytes()
        with store.transaction() as transaction:
            for number in range(first, first + 40):
                put(number, target=transaction)
        after = (store.path / "data.mdb").read_bytes()
        with store.state() as state:
            segments = state.lmdb.count(tables.RECENT)
        places = range(0, len(after), 4096)
        return sum(after[place : place + 4096] != before[place : place + 4096] for place in places), segments

    pages, segments = put_documents(1000)
    assert segments > 1
    with store.state() as view:
        statistics = view.lmdb.get_table_statistics()  # type: ignore[attr-defined]
        assert statistics[tables.TEXTS]["entries"] == 640
        mine = dump(view)
    store._session.environment.buffer_reader = ChangeBufferReader(get_buffered_tables())
    with store.state() as view:
        assert dump(view) == mine
    monkeypatch.setattr(change_buffer, "MAX_BYTES", 1000)
    merged, segments = put_documents(2000)
    assert segments == 0
    assert pages < 0.5 * merged
    assert store.check() == []


def test_a_buffer_that_is_not_compacted_is_not_merged(make_store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ingest ends with a look at whether the file has doubled: a large one would be merged each time, and stay."""
    store = make_store()
    fill_store(store, 3)(1, "More was said.")
    environment = store._session.environment

    def count_segments() -> int:
        with store.state() as state:
            return state.lmdb.count(tables.RECENT)

    before = count_segments()
    monkeypatch.setattr(compaction, "MAX_AUTOMATIC_BYTES", 0)
    compaction.compact_if_sparse(environment)
    assert count_segments() == before > 0
    monkeypatch.undo()
    compaction.compact_if_sparse(environment)
    assert count_segments() == 0
