"""Vectors of many blocks, gathered in any order, before and after writing; damage is detected."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples

from kvstore.errors import CorruptionError
from kvstore.storage import records
from kvstore.storage.environment import Environment
from kvstore.structures.vectors.vectors import CHUNK_VECTORS, Matrix, Vectors, VectorSpace, VectorWriter
from kvstore.structures.vectors.verified_blocks import VerifiedBlocks
from kvstore_cext.vector_rows import gather_rows, read_used_rows

DIMENSION = 300
QUANTIZED = VectorSpace("units", "units_vectors", "units_vector_space", quantized=True)


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Environment]:
    with Environment.open(tmp_path / "store", durability="relaxed") as opened:
        yield opened


def make_vectors(count: int) -> Matrix:
    rows = np.random.default_rng(count).standard_normal((count, DIMENSION)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@settings(deadline=None, max_examples=num_examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(num_written=st.integers(0, 60), further=st.integers(0, 20), quantized=st.booleans(), data=st.data())
def test_vectors_are_gathered_in_any_order(
    environment: Environment, num_written: int, further: int, quantized: bool, data: st.DataObject
) -> None:
    space = QUANTIZED if quantized else CHUNK_VECTORS
    vectors = make_vectors(num_written + further)
    rows = data.draw(st.lists(st.integers(0, len(vectors) - 1), max_size=90)) if len(vectors) else []
    places: list[tuple[int, int]] = []
    with environment.write() as view:
        view.clear(space.blocks)
        view.clear(space.free_rows)
        writer = VectorWriter(view, DIMENSION, space)
        for number, vector in enumerate(vectors):
            if number == num_written:
                writer.flush()
            places.append(writer.add(number + 1, vector, 1 + max((block for block, _ in places), default=0)))
        before = writer.gather([places[row] for row in rows])
        writer.flush()
    with environment.snapshot() as snapshot:
        verified = VerifiedBlocks()
        for _ in range(2):
            stored = Vectors(snapshot, DIMENSION, space, verified)
            gathered = stored.gather(np.array([places[row] for row in rows], np.int64).reshape(-1, 2))
            assert gathered.tobytes() == before.tobytes()
    if quantized:
        assert np.allclose(before, vectors[rows], atol=2e-3)
    else:
        assert before.tobytes() == vectors[rows].tobytes()


@settings(deadline=None, max_examples=num_examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(count=st.integers(0, 60), quantized=st.booleans(), data=st.data())
def test_all_rows_are_those_of_a_scan(
    environment: Environment, count: int, quantized: bool, data: st.DataObject
) -> None:
    space = QUANTIZED if quantized else CHUNK_VECTORS
    removed = data.draw(st.sets(st.integers(0, max(count - 1, 0)), max_size=count))
    with environment.write() as view:
        view.clear(space.blocks)
        view.clear(space.free_rows)
        writer = VectorWriter(view, DIMENSION, space)
        places: list[tuple[int, int]] = []
        for number, vector in enumerate(make_vectors(count)):
            places.append(writer.add(number + 1, vector, 1 + max((block for block, _ in places), default=0)))
        for index in removed:
            writer.remove(*places[index])
        writer.flush()
    with environment.snapshot() as snapshot:
        for verified in (None, VerifiedBlocks()):
            stored = Vectors(snapshot, DIMENSION, space, verified)
            for _ in range(2):
                ids, vectors = stored.read_all()
                assert len(ids) == count - len(removed)
                parts = list(stored.scan())
                assert ids.tobytes() == b"".join(part_ids.tobytes() for part_ids, _ in parts)
                assert vectors.tobytes() == b"".join(part_vectors.tobytes() for _, part_vectors in parts)


def test_a_damaged_or_missing_block_is_reported(environment: Environment) -> None:
    with environment.write() as view:
        writer = VectorWriter(view, DIMENSION)
        places = [writer.add(number, vector, 1) for number, vector in enumerate(make_vectors(3), 1)]
        writer.flush()
    with environment.snapshot() as snapshot:
        stored = Vectors(snapshot, DIMENSION)
        with pytest.raises(CorruptionError, match="vector block 7 is missing"):
            stored.gather([*places, (7, 0)])
        with pytest.raises(CorruptionError, match="vector block 1 is damaged"):
            Vectors(snapshot, DIMENSION - 1).gather(places)
    with environment.write() as view:
        value = view.get(CHUNK_VECTORS.blocks, records.encode_u32(1))
        assert value is not None
        view.put(CHUNK_VECTORS.blocks, records.encode_u32(1), bytes(value[:-1]) + bytes([value[-1] ^ 1]))
    with environment.snapshot() as snapshot, pytest.raises(CorruptionError, match="vector block 1 is damaged"):
        Vectors(snapshot, DIMENSION).gather(places)
    with environment.snapshot() as snapshot, pytest.raises(CorruptionError, match="vector block 1 is damaged"):
        Vectors(snapshot, DIMENSION).read_all()


def test_arguments_that_do_not_fit_are_refused() -> None:
    number, block = np.zeros(1, np.int64), memoryview(bytes(64))
    for blocks, size, encoding, rows, order in [
        ([], 64, b"vec1", number, number),
        ([block], 64, b"vec1", np.zeros(2, np.int64), number),
        ([block], 64, b"vec", number, number),
        ([block], 20, b"vec1", number, number),
    ]:
        with pytest.raises(ValueError, match="do not match|a block of"):
            gather_rows(
                blocks,
                size,
                encoding,
                1,
                False,
                np.zeros(1, np.uint64),
                number,
                rows,
                order,
                np.zeros((1, 4), np.float32),
            )
    for all_blocks, size, encoding, num_checksums, num_rows in [
        ([], 64, b"vec1", 1, 1),
        ([block], 64, b"vec1", 1, 0),
        ([block], 64, b"vec", 1, 1),
        ([block], 20, b"vec1", 1, 1),
    ]:
        with pytest.raises(ValueError, match="do not match|a block of"):
            read_used_rows(
                all_blocks,
                size,
                encoding,
                1,
                False,
                np.zeros(num_checksums, np.uint64),
                np.zeros(num_rows, np.uint64),
                np.zeros((num_rows, 4), np.float32),
            )
