"""A damaged entity filter: CHECK says so, reading says so or is right, and nothing crashes or runs for ever."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples

from kvstore.errors import CorruptionError, KvstoreError
from kvstore.storage import records
from kvstore.storage.environment import Environment, WriteTransaction
from kvstore.structures import tables
from kvstore.structures.filter.entity_filter import EntityFilter
from kvstore.text.normalize import fold

SEED = 3
NAMES = [f"name {number}" for number in range(1500)]
LONG = NAMES[7]
PAGED = (tables.BUCKET_PAGES, tables.BLOCK_PAGES, tables.FILTER_DIRECTORY, tables.ADDRESS_BLOCKS)


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    with Environment.open(tmp_path_factory.mktemp("damage") / "store") as opened:
        with opened.write() as view:
            filter_ = EntityFilter(view, hash_seed=SEED)
            filter_.insert_many(NAMES, range(1, len(NAMES) + 1))
            filter_.add_address_lists(NAMES, [np.array([number], np.uint64) for number in range(len(NAMES))])
            filter_.add_addresses(LONG, np.arange(5000, dtype=np.uint64))
            filter_.flush()
            assert list(filter_.check()) == []
        # Some pages become free, some get room.
        with opened.write() as view:
            filter_ = EntityFilter(view, hash_seed=SEED)
            for name in NAMES[200:700]:
                filter_.delete_many([name])
            filter_.flush()
            assert list(filter_.check()) == []
        yield opened


def list_page_records(view: WriteTransaction) -> list[tuple[str, bytes, bytes]]:
    return [(table, bytes(key), bytes(value)) for table in PAGED for key, value in view.scan(table)]


def use_filter(view: WriteTransaction) -> list[str]:
    """Read and change the filter, and return the findings of CHECK, or the message of a CorruptionError."""
    findings: list[str] = []
    try:
        filter_ = EntityFilter(view, hash_seed=SEED)
    except CorruptionError as error:
        return [str(error)]

    def insert_again() -> None:
        filter_.insert_many([f"new {number}" for number in range(300)], range(9000, 9300))

    def delete() -> None:
        for name in NAMES[:100]:
            filter_.delete_many([name])

    def add() -> None:
        for name in NAMES[100:180]:
            filter_.add_addresses(name, np.arange(40, dtype=np.uint64))

    def check() -> None:
        findings.extend(filter_.check())

    for action in (
        check,
        lambda: filter_.find_entities(NAMES),
        lambda: filter_.lookup_many(NAMES),
        lambda: [filter_.get_addresses(name) for name in NAMES],
        lambda: filter_.recognize(fold(" ".join(NAMES)), 3),
        lambda: list(filter_.iter_entries()),
        lambda: list(filter_.iter_pages()),
        lambda: filter_.add_hits(dict.fromkeys(NAMES, 2)),
        add,
        insert_again,
        delete,
        lambda: filter_.remove_addresses(LONG, np.arange(4990, dtype=np.uint64)),
        filter_.flush,
        check,
    ):
        try:
            action()
        except KvstoreError as error:
            findings.append(str(error))
    return findings


def test_a_changed_byte_anywhere_is_noticed(env: Environment) -> None:
    generator = random.Random(1)
    with env.write() as view:
        stored = list_page_records(view)
        view.abort()
    assert {table for table, _, _ in stored} == set(PAGED)
    assert {key[:1] for table, key, _ in stored if table == tables.FILTER_DIRECTORY} >= {b"h", b"d", b"r", b"l"}
    for table, key, value in stored:
        for _ in range(3):
            damaged = bytearray(value)
            at = generator.randrange(len(damaged))
            damaged[at] ^= 1 << generator.randrange(8)
            with env.write() as view:
                view.put(table, key, damaged)
                try:
                    reported = list(EntityFilter(view, hash_seed=SEED).check())
                except CorruptionError as error:
                    reported = [str(error)]
                view.abort()
            assert reported, (table, key, at)


@pytest.mark.slow
def test_a_missing_or_cut_or_strange_value_is_noticed(env: Environment) -> None:
    with env.write() as view:
        stored = list_page_records(view)
        view.abort()
    for table, key, value in stored:
        for instead in (None, b"", value[:-1], value + b"\0" * 8, records.pack(["something", "else"])):
            with env.write() as view:
                if instead is None:
                    view.delete(table, key)
                else:
                    view.put(table, key, instead)
                reported = use_filter(view)
                view.abort()
            # A page that is not on a list of pages with room is not used, which is no fault; one that is free is.
            assert reported, (table, key, instead)


def test_a_page_in_anothers_place_is_noticed(env: Environment) -> None:
    for table in (tables.BUCKET_PAGES, tables.BLOCK_PAGES):
        with env.write() as view:
            (first_key, first), (second_key, second), *_ = [
                (bytes(key), bytes(value)) for key, value in view.scan(table)
            ]
            view.put(table, first_key, second)
            view.put(table, second_key, first)
            assert any("has the number of another page" in sentence for sentence in use_filter(view))
            view.abort()


def seal_page(page: bytearray) -> bytearray:
    page[4:8] = zlib.crc32(page[8:]).to_bytes(4, "little")
    return page


@settings(deadline=None, max_examples=num_examples(400))
@given(data=st.data())
def test_wrong_pages_with_right_checksums_do_no_harm(env: Environment, data: st.DataObject) -> None:
    with env.write() as view:
        stored = [item for item in list_page_records(view) if len(item[2]) == 4080]
        for _ in range(data.draw(st.integers(1, 3))):
            table, key, value = data.draw(st.sampled_from(stored))
            damaged = bytearray(value)
            for _ in range(data.draw(st.integers(1, 8))):
                at = data.draw(st.one_of(st.integers(12, 160), st.integers(12, 4078)))
                width = data.draw(st.sampled_from([1, 2, 4]))
                damaged[at : at + width] = data.draw(st.binary(min_size=width, max_size=width))
            del damaged[4080:]
            view.put(table, key, seal_page(damaged))
        use_filter(view)
        view.abort()


def test_circles_and_dead_ends_are_noticed(env: Environment) -> None:
    with env.write() as view:
        stored = {(table, key): value for table, key, value in list_page_records(view)}
        view.abort()
    directory = bytearray(stored[tables.FILTER_DIRECTORY, b"d" + records.encode_u32(0)])
    bucket_key, bucket = next((key, value) for (table, key), value in stored.items() if table == tables.BUCKET_PAGES)
    block_key, block = next((key, value) for (table, key), value in stored.items() if table == tables.BLOCK_PAGES)
    number = int.from_bytes(block_key, "big")

    def build_directory_page(value: int) -> bytearray:
        page = bytearray(directory)
        page[16:19] = value.to_bytes(3, "little")
        return page

    def build_chained_block(to: int) -> bytearray:
        page = bytearray(block)
        slots = int.from_bytes(page[12:14], "little")
        for slot in range(slots):
            offset = int.from_bytes(page[24 + 2 * slot : 26 + 2 * slot], "little")
            if offset:
                page[offset + 12 : offset + 16] = (number << 8 | (slot + to) % slots).to_bytes(4, "little")
        return page

    def build_bucket_page(reference: int) -> bytearray:
        page = bytearray(bucket)
        for at in range(48, 4080, 8):
            if any(page[at : at + 8]):
                page[at : at + 4] = reference.to_bytes(4, "little")
        return page

    def build_named_block(byte: int) -> bytearray:
        page = bytearray(block)
        offset = int.from_bytes(page[24:26], "little")
        page[offset + 20] = byte
        return page

    for table, key, page in (
        (tables.FILTER_DIRECTORY, b"d" + records.encode_u32(0), build_directory_page(0x7FFFFF)),
        (tables.FILTER_DIRECTORY, b"d" + records.encode_u32(0), build_directory_page(0x800000)),
        (tables.FILTER_DIRECTORY, b"d" + records.encode_u32(0), build_directory_page(0)),
        (tables.BLOCK_PAGES, block_key, build_chained_block(0)),
        (tables.BLOCK_PAGES, block_key, build_chained_block(1)),
        (tables.BUCKET_PAGES, bucket_key, build_bucket_page(0xFFFFFFFF)),
        (tables.BUCKET_PAGES, bucket_key, build_bucket_page(number << 8 | 255)),
        (tables.BUCKET_PAGES, bucket_key, build_bucket_page(number << 8)),
        (tables.BLOCK_PAGES, block_key, build_named_block(0xFF)),
    ):
        with env.write() as view:
            view.put(table, key, seal_page(page))
            assert use_filter(view), (table, key)
            view.abort()


def test_a_head_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    with Environment.open(tmp_path / "store") as opened:
        for head in (
            {},
            [],
            {"encoding": "kvfilter0"},
            {"encoding": "kvfilter1", "bucket_pages": [1 << 40, 1]},
            {"encoding": "kvfilter1", "bucket_pages": [2, 5]},
            {"encoding": "kvfilter1", "directory": [60, 0, 0, 0, 0, 0, 0]},
            {"encoding": "kvfilter1", "directory": [1]},
            {"encoding": "kvfilter1", "directory": ["x"] * 7},
            {"encoding": "kvfilter1", "fork_pages": -1},
            {"encoding": "kvfilter1", "directory": [0, 99, 0, 0, 0, 0, 0]},
            {"encoding": "kvfilter1", "entities": "many"},
        ):
            with opened.write() as view:
                sample = EntityFilter(view, hash_seed=SEED)._pages._sample_hash
                if isinstance(head, dict):
                    head["sample"] = sample
                view.put(tables.FILTER_DIRECTORY, b"h", records.pack(head))
                with pytest.raises(CorruptionError):
                    EntityFilter(view, hash_seed=SEED)
                view.abort()
