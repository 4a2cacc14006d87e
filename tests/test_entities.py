"""Records of entities: slots that introductions refer to, counted exactly whatever comes and goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kvstore
from kvstore.errors import CorruptionError
from kvstore.storage import records, tables
from kvstore.storage.entities import KINDS, EntityRecord, _decoded, _encoded

FORMS = ["Port Ellen", "PORT ELLEN", "port ellen"]

#: Either an introduction, or the taking back of one of those that there are (by its number, modulo how many).
steps = st.lists(st.tuples(st.sampled_from(FORMS), st.sampled_from(KINDS)) | st.integers(0, 50), max_size=60)


@given(steps=steps)
def test_slots_count_what_is_introduced_and_keep_their_places(steps: list[tuple[str, str] | int]) -> None:
    record = EntityRecord()
    standing: list[tuple[int, str, str]] = []
    most = 0
    for step in steps:
        if isinstance(step, tuple):
            record.add(*step)
            standing.append((record.place(*step), *step))
        elif standing:
            record.remove(standing.pop(step % len(standing))[0])
        ways = Counter((form, kind) for _, form, kind in standing)
        most = max(most, len(ways))
        assert sorted(slot for slot in record.slots if slot.times) == sorted((*way, n) for way, n in ways.items())
        assert all(record.slots[place][:2] == (form, kind) for place, form, kind in standing)
        assert len(record.slots) <= most, "free slots are taken first"
        if standing:
            assert record.slots[-1].times
            assert _decoded(memoryview(_encoded(record)), b"key") == record
            forms = Counter(form for _, form, _ in standing)
            assert record.forms == forms
            assert record.kinds == Counter(kind for *_, kind in standing)
            assert record.name == min(forms, key=lambda form: (-forms[form], form))
            assert record.key == "port ellen"
        else:
            assert not record.slots


def test_what_is_not_introduced_cannot_be_taken_back() -> None:
    record = EntityRecord()
    record.add("Port Ellen", "name")
    for refused in (lambda: record.remove(1), lambda: record.place("Port Ellen", "title")):
        with pytest.raises(CorruptionError, match="run CHECK"):
            refused()
    with pytest.raises(CorruptionError, match="nothing introduces"):
        _decoded(memoryview(records.pack(["", 0, 0])), b"key")


def test_an_introduction_that_leads_to_no_slot_is_found(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store()
    store.put("pier", "Captain Reid built the pier for Port Ellen.")
    with store.environment.write() as view:
        (key, value), *_ = [(bytes(key), bytes(value)) for key, value in view.scan(tables.INTRODUCTIONS)]
        row = records.unpack(value, tables.INTRODUCTIONS, key)
        view.put(tables.INTRODUCTIONS, key, records.pack([*row[:-1], 3]))
    assert any("in a way it does not know" in finding for finding in store.check())
    with pytest.raises(CorruptionError, match="free; run CHECK"):
        store.delete("pier")
    assert store.repair().remaining == []
    assert store.delete("pier")
