"""Numbers and postings in few bytes: a payload changes as a list of them does, and no bytes are fatal."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples

from kvstore.storage.environment import Environment
from kvstore.storage.records import seal
from kvstore.structures.filter.block_lists import BLOCK_SIZE, BlockLists
from kvstore_cext.compact import EdgeChanges, change_blocks, pack_numbers, unpack_numbers
from kvstore_cext.postings import PostingChanges, count_postings, unpack_postings

NUMBERS = st.sets(st.integers(0, 300) | st.integers(0, 2**64 - 1), max_size=200)
CHUNKS = st.sets(st.integers(1, 2000) | st.integers(1, 2**40), max_size=300)
#: Mention bits by entity.
EDGES = st.dictionaries(st.integers(0, 20) | st.integers(0, 2**32 - 1), st.integers(1, 2**13 - 1), max_size=9)
Posting = tuple[int, int, int]
PREFIX = b"tea\x00"
Blocks = dict[bytes, bytes]


def list_numbers(first: int, payload: bytes) -> list[int]:
    return np.frombuffer(unpack_numbers(first, payload), np.uint64).tolist()


def list_postings(first: int, payload: bytes) -> list[Posting]:
    chunks, frequencies, lengths = unpack_postings(first, payload)
    assert count_postings(payload) == len(frequencies)
    return list(
        zip(
            np.frombuffer(chunks, np.uint64).tolist(),
            frequencies,
            np.frombuffer(lengths, np.uint16).tolist(),
            strict=True,
        )
    )


def test_numbers_are_packed_and_unpacked() -> None:
    some = [1, 2, 127, 128, 300, 2**64 - 1]
    assert list_numbers(0, pack_numbers(some)) == [0, *some]
    assert list_numbers(7, b"") == [7]


@settings(max_examples=num_examples(150), deadline=None)
@given(
    old_rows=st.dictionaries(st.integers(1, 9), EDGES),
    new_rows=st.dictionaries(st.integers(1, 9), EDGES),
    removed=st.sets(st.integers(0, 20)),
    kept=st.sampled_from([0, 0x1F00, 0x1FFF]),
)
def test_changed_rows_give_the_changes_of_the_reverse_rows(
    old_rows: dict[int, dict[int, int]], new_rows: dict[int, dict[int, int]], removed: set[int], kept: int
) -> None:
    changes = EdgeChanges(13, 16)
    stored: dict[bytes, bytes | None] = {}
    for chunk, row in old_rows.items():
        changes.change_row(chunk, struct.pack(">Q", chunk), None, row, set(), 0, stored)
    assert list_edges(changes.take(100), 1) == {
        (e, chunk, bits) for chunk, row in old_rows.items() for e, bits in row.items()
    }
    expected_rows = {}
    for chunk, row in new_rows.items():
        key, old_row = struct.pack(">Q", chunk), old_rows.get(chunk, {})
        expected_row = dict(row)
        for entity, bits in old_row.items():
            if bits & kept and entity not in removed:
                expected_row[entity] = expected_row.get(entity, 0) | bits & kept
        written: dict[bytes, bytes | None] = {}
        changes.change_row(chunk, key, stored.get(key), row, removed, kept, written)
        if expected_row == old_row:
            assert not written
        else:
            packed_edges = sorted(entity << 13 | bits for entity, bits in expected_row.items())
            assert written == {key: seal(pack_numbers(packed_edges)) if packed_edges else None}
        expected_rows[chunk] = expected_row
    old_edges = {(e, chunk, bits) for chunk in new_rows for e, bits in old_rows.get(chunk, {}).items()}
    new_edges = {(e, chunk, bits) for chunk, row in expected_rows.items() for e, bits in row.items()}
    collected: dict[int, tuple[list[int], list[int]]] = {}
    while len(changes):
        part = changes.take(3)
        assert 0 < len(part) <= 3
        collected |= part
    assert list_edges(collected, 0) == old_edges - new_edges
    assert list_edges(collected, 1) == new_edges - old_edges
    assert list(collected) == sorted(collected)
    assert all(edges == sorted(edges) for lists in collected.values() for edges in lists)
    assert not changes.take(100)


def list_edges(changes: dict[int, tuple[list[int], list[int]]], index: int) -> set[tuple[int, int, int]]:
    return {(entity, edge >> 16, edge & 0xFFFF) for entity, lists in changes.items() for edge in lists[index]}


def test_damaged_rows_of_edges_are_refused() -> None:
    for value in (b"", b"damaged", seal(b"\x80")):
        with pytest.raises(ValueError):
            EdgeChanges(13, 16).change_row(1, b"key", value, {}, set(), 0, {})


@settings(max_examples=num_examples(150), deadline=None)
@given(present=NUMBERS, removed=NUMBERS, added=NUMBERS, most=st.integers(1, 130))
def test_a_block_of_numbers_changes_as_a_set(present: set[int], removed: set[int], added: set[int], most: int) -> None:
    changed_blocks: Blocks = {}
    if present:
        change_blocks({5: ((), sorted(present))}, [None], 1000, 0, changed_blocks)
        ((key, value),) = changed_blocks.items()
        assert key == struct.pack(">IQ", 5, min(present)) and value == seal(value[:-4])
        assert list_numbers(min(present), value[:-4]) == sorted(present)
    before = dict(changed_blocks)
    block = next(iter(before.items()), None)
    counted, earlier, fallen = change_blocks({5: (sorted(removed), sorted(added))}, [block], most, 40, changed_blocks)
    first = min(present, default=0)
    if max(removed | added, default=0) >= first:
        earlier_gone, earlier_added = earlier.get(5, ([], []))
        assert (earlier_gone, earlier_added) == (
            [n for n in sorted(removed) if n < first],
            sorted(added)[: len(earlier_added)],
        )
        removed, added = removed.difference(earlier_gone), added.difference(earlier_added)
    result = (present - removed) | added
    for key, value in changed_blocks.items():
        if value is None:
            before.pop(key)
        else:
            before[key] = value
    blocks = [list_numbers(struct.unpack(">IQ", key)[1], value[:-4]) for key, value in sorted(before.items())]
    assert [number for block in blocks for number in block] == sorted(result)
    assert counted == [(len(present & removed), len(added - (present - removed)))]
    if counted != [(0, 0)]:
        assert len({len(block) for block in blocks}) <= 2, "blocks of nearly equal size"
        assert all(len(block) <= most for block in blocks)
        assert bool(fallen) == (0 < len(result) < 40 <= len(present))


def test_a_damaged_block_of_numbers_is_not_changed() -> None:
    blocks: Blocks = {}
    change_blocks({5: ((), [1, 900])}, [None], 100, 0, blocks)
    ((key, value),) = blocks.items()
    for damaged in ((key, value[:-1] + bytes([value[-1] ^ 1])), (key[:-1], value), (key, seal(b"\x80"))):
        with pytest.raises(ValueError, match="key 00000005|truncated"):
            change_blocks({5: ([1], [])}, [damaged], 100, 0, blocks)


def apply_change(blocks: Blocks, removed: list[int], added: list[Posting], max_postings: int) -> Blocks:
    """Return the blocks of a term after a change; blocks are read as a state returns them: the last below a key."""
    changes = PostingChanges(max_postings)
    changes.remove(0, [])
    for chunk in removed:
        changes.remove(chunk, ["tea"])
    for chunk, frequency, length in added:
        changes.add(chunk, {"tea": frequency}, length)
    result = dict(blocks)
    terms, prefixes, stops = changes.list_terms(), [PREFIX], [PREFIX + b"\xff" * 9]
    while terms:
        key = max((key for key in result if key < stops[0]), default=None)
        changed_blocks: dict[bytes, bytes | None] = {}
        last_block = None if key is None else (key, memoryview(result[key]))
        terms, prefixes, stops = changes.change_blocks(terms, prefixes, [last_block], changed_blocks)
        for key, value in changed_blocks.items():
            if value is None:
                del result[key]
            else:
                assert result.get(key) != value, "a block is written that is as before"
                result[key] = value
    return dict(sorted(result.items()))


def list_blocks(blocks: Blocks) -> list[list[Posting]]:
    return [list_postings(int.from_bytes(key[len(PREFIX) :], "big"), value[:-4]) for key, value in blocks.items()]


@settings(max_examples=num_examples(150), deadline=None)
@given(present=CHUNKS, removed=CHUNKS, data=st.data(), most=st.integers(1, 300))
def test_postings_change_as_in_a_dictionary(
    present: set[int], removed: set[int], data: st.DataObject, most: int
) -> None:
    def draw_postings(chunks: list[int]) -> list[Posting]:
        counts = st.tuples(st.integers(1, 255), st.integers(0, 65535))
        return [
            (chunk, *data.draw(counts)) if place < 5 else (chunk, 1 + place % 3, 90)
            for place, chunk in enumerate(chunks)
        ]

    before = draw_postings(sorted(present))
    after = max(present, default=0) + 1
    added = draw_postings(list(range(after, after + 20, 3)))
    first = apply_change({}, [], before, most)
    assert [posting for block in list_blocks(first) for posting in block] == before
    assert all(value == seal(value[:-4]) for value in first.values())
    assert [len(block) for block in list_blocks(first)[:-1]] == [most] * (len(first) - 1)
    second = apply_change(first, sorted(removed), added, most)
    remaining = [posting for posting in before if posting[0] not in removed]
    assert [posting for block in list_blocks(second) for posting in block] == remaining + added
    assert all(0 < len(block) <= most for block in list_blocks(second))


def test_counts_that_do_not_fit_are_stored_as_far_as_they_do() -> None:
    assert list_blocks(apply_change({}, [], [(7, 1000, 70000)], 256)) == [[(7, 255, 65535)]]


@settings(max_examples=num_examples(300), deadline=None)
@given(first=st.integers(0, 2**64 - 1), payload=st.binary(max_size=60))
def test_other_bytes_are_refused_or_read(first: int, payload: bytes) -> None:
    for read in (unpack_numbers, unpack_postings):
        try:
            read(first, payload)
        except ValueError as error:
            assert str(error)


def test_a_posting_cannot_be_added_before_others() -> None:
    with pytest.raises(ValueError, match="before an existing one"):
        apply_change({}, [], [(5, 1, 9), (5, 1, 9)], 256)


@pytest.mark.parametrize("damage", ["checksum", "key", "empty", "payload"])
def test_a_damaged_block_is_not_changed(damage: str) -> None:
    ((key, value),) = apply_change({}, [], [(5, 1, 9)], 256).items()
    damaged = {
        "checksum": (key, value[:-1] + bytes([value[-1] ^ 1])),
        "key": (key[:-1], value),
        "empty": (key, seal(b"\x00")),
        "payload": (key, seal(value[:-5])),
    }[damage]
    with pytest.raises(ValueError, match="key 746561|truncated"):
        apply_change(dict([damaged]), [5], [], 256)


@settings(max_examples=num_examples(25), deadline=None)
@given(
    changes=st.lists(
        st.dictionaries(
            st.integers(1, 3), st.tuples(st.sets(st.integers(0, 900), max_size=300), st.booleans()), max_size=3
        ),
        max_size=12,
    )
)
def test_lists_of_many_entities_change_as_sets(
    tmp_path_factory: pytest.TempPathFactory, changes: list[dict[int, tuple[set[int], bool]]]
) -> None:
    model: dict[int, set[int]] = {entity: set() for entity in range(1, 4)}
    with Environment.open(tmp_path_factory.mktemp("lists") / "store") as environment, environment.write() as view:
        lists = BlockLists(view)
        for change in changes:
            given_ = {
                entity: ([], sorted(some)) if adds else (sorted(some), []) for entity, (some, adds) in change.items()
            }
            changed = lists.change_many(given_)
            for entity, (some, adds) in change.items():
                before = model[entity]
                model[entity] = before | some if adds else before - some
                assert changed[entity] == (0 if adds else len(before & some), len(some - before) if adds else 0)
            for entity, expected in model.items():
                assert lists.read(entity).tolist() == sorted(expected)
                assert lists.read(entity, 7, 450).tolist() == [n for n in sorted(expected) if n >= 450][:7]
            assert all(0 < len(block) <= BLOCK_SIZE for _, _, block in lists.scan())
