"""Stored mentions: what was put in comes out, in order, whatever the numbers are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples

from kvstore.derived.passage_graph.rows import mark_nested
from kvstore.errors import CorruptionError
from kvstore.storage import records
from kvstore.storage.environment import Environment
from kvstore.structures.names.mentions import (
    HeadingOccurrence,
    Mentions,
    MentionWriter,
    Occurrence,
    collect_addresses,
)

small, large = st.integers(0, 2**16 - 1), st.integers(0, 2**32 - 1)
chunk_rows = st.lists(st.tuples(large, small, small), max_size=40)
heading_rows = st.lists(st.tuples(large, large, st.integers(0, 2**41)), max_size=8)


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Environment]:
    with Environment.open(tmp_path / "store", durability="relaxed") as opened:
        yield opened


@settings(deadline=None, max_examples=num_examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(puts=st.lists(st.tuples(st.integers(1, 3), chunk_rows, heading_rows), min_size=1, max_size=6))
def test_mentions_are_those_put_last(
    environment: Environment,
    puts: list[tuple[int, list[tuple[int, int, int]], list[tuple[int, int, int]]]],
) -> None:
    in_chunks: dict[int, list[tuple[int, int, int]]] = {}
    in_headings: dict[int, list[tuple[int, int, int]]] = {}
    with environment.write() as view:
        view.clear("mentions")
        view.clear("place_mentions")
        writer = MentionWriter(view)
        for number, chunk, places in puts:
            writer.put_chunk(number, map(Occurrence._make, chunk))
            writer.put_headings(number, map(HeadingOccurrence._make, places))
            in_chunks[number] = sorted(chunk, key=lambda row: (row[1], row[2], row[0]))
            in_headings[number] = sorted(places, key=lambda row: (row[1], row[2], row[0]))
            assert writer.get_occurrences(number) == in_chunks[number]
            assert writer.get_heading_occurrences(number) == in_headings[number]
        writer.flush()
    with environment.snapshot() as snapshot:
        mentions = Mentions(snapshot)
        for number in range(1, 5):
            assert mentions.get_occurrences(number) == in_chunks.get(number, [])
            assert mentions.get_heading_occurrences(number) == in_headings.get(number, [])
        scanned = dict(mentions.scan())
        assert scanned == {number: rows for number, rows in sorted(in_chunks.items()) if rows}


@settings(deadline=None, max_examples=num_examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 30), st.integers(1, 12)), max_size=40))
def test_outermost_mentions_are_in_no_longer_one(environment: Environment, rows: list[tuple[int, int, int]]) -> None:
    with environment.write() as view:
        view.clear("mentions")
        writer = MentionWriter(view)
        writer.put_chunk(2, map(Occurrence._make, rows))
        writer.flush()
    expected = mark_nested((start, start + length, entity) for entity, start, length in rows)
    with environment.snapshot() as snapshot:
        none, mentions = Mentions(snapshot).get_outermost_in_chunks([1, 2])
    assert not len(none)
    assert sorted(map(tuple, mentions.tolist())) == sorted((e, a, z) for (a, z, e), inside in expected if not inside)


@settings(deadline=None, max_examples=num_examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.dictionaries(
        st.integers(1, 12),
        st.lists(st.tuples(st.integers(1, 9), st.integers(0, 30), st.integers(1, 12)), max_size=20),
    ),
    headings=heading_rows,
    removed=st.sets(st.integers(1, 9)),
    is_flushed=st.booleans(),
)
def test_entities_are_removed_from_stored_and_pending_chunks(
    environment: Environment,
    rows: dict[int, list[tuple[int, int, int]]],
    headings: list[tuple[int, int, int]],
    removed: set[int],
    is_flushed: bool,
) -> None:
    with environment.write() as view:
        view.clear("mentions")
        view.clear("place_mentions")
        writer = MentionWriter(view)
        chunks = {chunk: writer.put_chunk(chunk, map(Occurrence._make, row)) for chunk, row in rows.items()}
        writer.put_headings(1, map(HeadingOccurrence._make, headings))
        if is_flushed:
            writer.flush()
        collected = writer.collect_addresses(range(1, 14), [1, 2])
        expected = collect_addresses(chunks, writer.get_heading_occurrences(1))
        assert {entity: sorted(targets) for entity, targets in collected.items()} == {
            entity: sorted(targets) for entity, targets in expected.items()
        }
        removals = writer.remove_entities(range(1, 14), removed)
        for chunk, occurrences in chunks.items():
            dropped = [occurrence for occurrence in occurrences if occurrence.entity in removed]
            remaining = [occurrence for occurrence in occurrences if occurrence.entity not in removed]
            assert writer.get_occurrences(chunk) == remaining
            assert (chunk in removals) == bool(dropped)
            if dropped:
                assert removals[chunk].entities == {occurrence.entity for occurrence in dropped}
                assert removals[chunk].covered_others == any(
                    outer.start <= inner.start and inner.start + inner.length <= outer.start + outer.length
                    for outer in dropped
                    for inner in remaining
                )
        writer.flush()
    with environment.snapshot() as snapshot:
        assert dict(Mentions(snapshot).scan()) == {
            chunk: remaining
            for chunk, occurrences in sorted(chunks.items())
            if (remaining := [occurrence for occurrence in occurrences if occurrence.entity not in removed])
        }


def test_damaged_mentions_are_reported(environment: Environment) -> None:
    for value in (b"damaged", records.pack([1, 2]), records.pack("names")):
        with environment.write() as view:
            view.put("mentions", records.encode_u64(1), value)
        with environment.snapshot() as snapshot:
            for read in (
                lambda mentions: mentions.get_outermost_in_chunks([1]),
                lambda mentions: mentions.collect_addresses([1], []),
            ):
                with pytest.raises(CorruptionError, match="table mentions"):
                    read(Mentions(snapshot))
        with environment.write() as view, pytest.raises(CorruptionError, match="table mentions"):
            MentionWriter(view).remove_entities([1], {1})
