"""Records of entities: slots that introductions refer to, counted exactly whatever comes and goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples

import kvstore
from kvstore.errors import CorruptionError
from kvstore.storage import records
from kvstore.storage.environment import Environment
from kvstore.structures import tables
from kvstore.structures.names.entities import KINDS, EntityRecord, EntityWriter, _decode

FORMS = ["Port Ellen", "PORT ELLEN", "port ellen"]

#: Either an introduction, or the taking back of one of those that there are (by its number, modulo how many).
steps = st.lists(st.tuples(st.sampled_from(FORMS), st.sampled_from(KINDS)) | st.integers(0, 50), max_size=60)


@given(steps=steps)
def test_slots_count_introductions_and_keep_their_places(steps: list[tuple[str, str] | int]) -> None:
    record = EntityRecord()
    standing: list[tuple[int, str, str]] = []
    most = 0
    for step in steps:
        if isinstance(step, tuple):
            record.add_introduction(*step)
            standing.append((record.get_slot_index(*step), *step))
        elif standing:
            record.remove_introduction(standing.pop(step % len(standing))[0])
        ways = Counter((form, kind) for _, form, kind in standing)
        most = max(most, len(ways))
        assert sorted(slot for slot in record.slots if slot.num_introductions) == sorted(
            (*way, n) for way, n in ways.items()
        )
        assert all(record.slots[place][:2] == (form, kind) for place, form, kind in standing)
        assert len(record.slots) <= most, "free slots are taken first"
        if standing:
            assert record.slots[-1].num_introductions
            assert _decode(record.row, 1) == record and record.is_introduced
            forms = Counter(form for _, form, _ in standing)
            assert record.spellings == forms
            assert record.kinds == Counter(kind for *_, kind in standing)
            assert record.name == min(forms, key=lambda form: (-forms[form], form))
            assert record.key == "port ellen"
        else:
            assert not record.slots and not record.is_introduced


def test_a_name_that_was_not_introduced_cannot_be_withdrawn() -> None:
    record = EntityRecord()
    record.add_introduction("Port Ellen", "name")
    for refused in (lambda: record.remove_introduction(1), lambda: record.get_slot_index("Port Ellen", "title")):
        with pytest.raises(CorruptionError, match="run CHECK"):
            refused()
    with pytest.raises(CorruptionError, match="nothing introduces"):
        _decode(["", 0, 0], 1)


@settings(deadline=None, max_examples=num_examples(60))
@given(changes=st.lists(st.tuples(st.integers(1, 70), st.sampled_from([None, *FORMS])), max_size=40))
def test_entities_are_those_put_and_not_removed(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, str | None]]
) -> None:
    standing: dict[int, EntityRecord] = {}
    path = tmp_path_factory.mktemp("entities") / "store"
    with Environment.open(path, durability="relaxed") as environment, environment.write() as view:
        writer = EntityWriter(view)
        for entity, form in changes:
            if form is None:
                writer.put_many({entity: None})
                standing.pop(entity, None)
            else:
                standing[entity] = EntityRecord([form, KINDS.index("name"), entity])
                standing[71] = EntityRecord([form, KINDS.index("tree"), 1])
                writer.put_many({number: standing[number] for number in (entity, 71)})
        assert dict(writer.scan()) == standing
        assert [entity for entity in range(-1, 90) if entity in writer] == sorted(standing)
        assert view.count(tables.ENTITIES) == len({entity // 16 for entity in standing})
        for entity, record in standing.items():
            assert writer.get(entity) == record
        with pytest.raises(CorruptionError, match="is missing"):
            writer.get(72)


def test_an_introduction_that_leads_to_no_slot_is_found(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store()
    store.put("pier", "Captain Reid built the pier for Port Ellen.")
    with store._session.environment.write() as view:
        (key, value), *_ = [(bytes(key), bytes(value)) for key, value in view.scan(tables.INTRODUCTIONS)]
        row = records.unpack(value, tables.INTRODUCTIONS, key)
        view.put(tables.INTRODUCTIONS, key, records.pack([*row[:-1], 3]))
    assert any("its introductions do not match the documents" in finding for finding in store.check())
    with pytest.raises(CorruptionError, match="free; run CHECK"):
        store.delete("pier")
    assert store.repair().remaining == []
    assert store.delete("pier")
