"""Elements of stored arrays: read and changed as those of a list, and no bytes are fatal."""

from __future__ import annotations

import zlib

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstore.storage import records
from kvstore_cext.msgpack_rows import compute_checksum, get_payload, read_elements, read_numbers, replace_elements

NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.sampled_from([0, 127, 128, 255, 256, 65535, 65536, -1, -32, -33, -129])
VALUES = st.none() | NUMBERS | st.floats(allow_nan=False) | st.text(max_size=300) | st.binary(max_size=300)
ROWS = st.lists(VALUES, max_size=20) | st.integers(65530, 65540).map("x".__mul__)
ARRAYS = st.lists(st.none() | ROWS, max_size=20)


@given(array=ARRAYS, data=st.data())
def test_elements_are_read_and_changed_as_those_of_a_list(array: list[object], data: st.DataObject) -> None:
    stored = records.pack(array)
    places = sorted(data.draw(st.sets(st.integers(0, len(array) - 1)))) if array else []
    read = read_elements(stored, places)
    assert [None if row is None else msgpack.unpackb(row) for row in read] == [array[place] for place in places]
    for place in places:
        array[place] = data.draw(st.none() | ROWS)
    changed = {place: None if array[place] is None else msgpack.packb(array[place]) for place in places}
    after = replace_elements(memoryview(stored), changed)
    assert after == (records.pack(array) if any(row is not None for row in array) else None)
    with pytest.raises(ValueError, match="fewer"):
        read_elements(stored, [len(array)])


@given(payload=st.binary(max_size=80) | st.binary(max_size=8).map(lambda rest: b"\xdd\xff\xff\xff\xff" + rest))
def test_other_bytes_are_refused_or_read(payload: bytes) -> None:
    for stored in (payload, records.seal(payload), records.seal(b"\x92" + payload)):
        for read in (
            lambda stored=stored: read_elements(stored, [0, 1]),
            lambda stored=stored: replace_elements(stored, {1: None}),
        ):
            try:
                read()
            except ValueError as error:
                assert str(error)


@given(st.binary(max_size=300), st.integers(0, 303))
def test_a_sealed_value_without_a_wrong_byte_has_its_payload(payload: bytes, position: int) -> None:
    assert compute_checksum(bytearray(payload)) == zlib.crc32(payload)
    sealed = records.seal(payload)
    assert sealed == payload + zlib.crc32(payload).to_bytes(4, "little")
    assert get_payload(sealed) == payload == get_payload(memoryview(sealed))
    damaged = bytearray(sealed)
    damaged[position % len(sealed)] ^= 1
    assert get_payload(memoryview(damaged)) is None
    assert get_payload(sealed[:3]) is None


@given(rows=st.lists(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=4, max_size=4), max_size=9))
def test_records_of_numbers_are_read_as_a_table(rows: list[list[int | None]]) -> None:
    values = [memoryview(records.pack(row)) for row in rows]
    table = np.full((len(rows), 4), 77)
    assert read_numbers([*values], table, 5) == -1
    assert table.tolist() == [[5 if number is None else number for number in row] for row in rows]
    for wrong in (None, memoryview(records.pack([1, 2, 3])), memoryview(records.pack([1, 2, 3, "4"])), memoryview(b"")):
        assert read_numbers([*values, wrong], np.zeros((len(rows) + 1, 4), np.int64)) == len(rows)
    damaged = bytes(records.pack([1, 2, 3, 4])[:-1]) + b"\x00"
    assert read_numbers([memoryview(damaged)], np.zeros((1, 4), np.int64)) == 0
    with pytest.raises(ValueError, match="do not match 1 rows"):
        read_numbers([], np.zeros((1, 4), np.int64))
