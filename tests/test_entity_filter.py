"""The entity filter against a dictionary of sets: exact, durable, transactional, whatever the names' hashes."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from unittest import mock

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from hypothesis_profile import num_examples

from kvstore.errors import ClosedError, EntityNotFoundError, InputError, ReadOnlyError, SettingsMismatchError
from kvstore.storage.environment import Environment, View, WriteTransaction
from kvstore.structures import tables
from kvstore.structures.filter import block_lists
from kvstore.structures.filter.entity_filter import EntityFilter
from kvstore_cext.filter import NameHash

SEED = 20240607
U64 = (1 << 64) - 1
PRIME = (1 << 61) - 1

Model = dict[str, tuple[int, set[int]]]


def make_addresses(addresses: object) -> npt.NDArray[np.uint64]:
    return np.array(sorted(addresses), np.uint64)  # type: ignore[call-overload]


def invert_mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the inverse of the hash's mixer."""
    x = x ^ (x >> np.uint64(31)) ^ (x >> np.uint64(62))
    x = x * np.uint64(pow(0x94D049BB133111EB, -1, 1 << 64))
    x = x ^ (x >> np.uint64(27)) ^ (x >> np.uint64(54))
    x = x * np.uint64(pow(0xBF58476D1CE4E5B9, -1, 1 << 64))
    return x ^ (x >> np.uint64(30)) ^ (x >> np.uint64(60))


def compute_hash_seed(base: int) -> int:
    """Return the hash seed that gives the polynomial this base."""
    return int(invert_mix(np.array([base], np.uint64))[0])


#: Under this seed a name of eight characters *is* its polynomial, written in base 256: hashes can be chosen.
CHOSEN_SEED = compute_hash_seed(256)
#: Under this seed a name read backwards, if it has an odd number of characters, has the same hash.
MIRROR_SEED = compute_hash_seed(PRIME - 1)


def make_colliding_names(bits: int, pattern: int, count: int) -> list[str]:
    """Return names of ASCII characters whose hashes under ``CHOSEN_SEED`` end in the same ``bits`` bits."""
    generator = np.random.default_rng(bits * 1000003 + pattern)
    names: list[str] = []
    while len(names) < count:
        high = generator.integers(0, 1 << (64 - bits), 200_000, dtype=np.uint64)
        x = invert_mix(high << np.uint64(bits) | np.uint64(pattern))
        x = x[x < PRIME]
        # The digits of base 256 are byte + 1, so they run from 1 to 128 for ASCII.
        digits = x.astype(">u8").view(np.uint8).reshape(-1, 8)
        for row in digits[((digits > 0) & (digits <= 128)).all(axis=1)]:
            names.append(bytes(row - 1).decode())
        names = list(dict.fromkeys(names))
    assert {NameHash(CHOSEN_SEED)(name) & ((1 << bits) - 1) for name in names} == {pattern}
    return names[:count]


@contextmanager
def open_environment() -> Iterator[Environment]:
    folder = tempfile.mkdtemp()
    try:
        with Environment.open(Path(folder) / "store", durability="relaxed") as opened:
            yield opened
    finally:
        shutil.rmtree(folder)


@contextmanager
def record_writes(view: WriteTransaction) -> Iterator[list[str]]:
    """Yield the list of tables that are written, in order, with one entry per put."""
    writes: list[str] = []
    put, change_many = view.put, view.change_many

    def record_put(table: str, key: bytes, value: bytes | bytearray | memoryview) -> None:
        writes.append(table)
        put(table, key, value)

    def record_changes(table: str, changes: Mapping[bytes, bytes | None]) -> None:
        writes.extend(table for value in changes.values() if value is not None)
        change_many(table, changes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(view, "put", record_put)
        patch.setattr(view, "change_many", record_changes)
        yield writes


@pytest.fixture
def env() -> Iterator[Environment]:
    """Yield a store for a filter."""
    with open_environment() as opened:
        yield opened


def assert_filter_matches(filter_: EntityFilter, model: Model, absent: list[str]) -> None:
    """Assert that every query of the filter has the answer of the model."""
    names = list(model)
    assert filter_.find_entities(names).tolist() == [model[name][0] for name in names]
    assert not filter_.find_entities(absent).any()
    entities, first_addresses = filter_.lookup_many(names)
    assert entities.tolist() == [model[name][0] for name in names]
    assert first_addresses.tolist() == [min(model[name][1], default=0) for name in names]
    entries = dict(filter_.iter_entries())
    assert {name: entry.entity for name, entry in entries.items()} == {
        name: entity for name, (entity, _) in model.items()
    }
    for name, (entity, addresses) in model.items():
        entry = filter_.find(name)
        assert entry is not None
        assert entry == entries[name]
        assert (entry.entity, entry.count) == (entity, len(addresses))
        assert np.array_equal(filter_.get_addresses(name), make_addresses(addresses))
    for name in absent[:20]:
        assert filter_.find(name) is None
        assert filter_.lookup(name) is None
        assert not len(filter_.get_addresses(name))
    figures = filter_.compute_statistics()
    assert figures.entities == len(model)
    assert figures.addresses == sum(len(addresses) for _, addresses in model.values())


def insert_names(env: Environment, names: list[str], seed: int = SEED, first: int = 1) -> Model:
    """Insert names with one address each; entities and addresses are numbered from ``first``."""
    numbers = range(first, first + len(names))
    model: Model = {name: (number, {number}) for name, number in zip(names, numbers, strict=True)}
    with env.write() as view:
        filter_ = EntityFilter(view, hash_seed=seed)
        filter_.insert_many(names, numbers)
        filter_.add_address_lists(names, [make_addresses([number]) for number in numbers])
        filter_.flush()
        assert list(filter_.check()) == []
    return model


STARTS = st.integers(0, 8000)
COUNTS = st.sampled_from([1, 20, 300, 1500, 4000])
STEPS = st.sampled_from([1, 7])


class FilterMachine(RuleBasedStateMachine):
    """Random changes to a filter and to a dictionary of sets, in transactions that commit or abort."""

    #: Names of three kinds: ordinary ones, ones that agree in 24 or 33 bits, and ones whose hashes are all the same.
    pool: list[str]
    seed: int

    @initialize(seed=st.sampled_from([CHOSEN_SEED, MIRROR_SEED, SEED]))
    def open(self, seed: int) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.seed = seed
        letters = "abcdefgh"
        mirrored = [
            f"{a}{b}{c}{d}{e}" for a in letters for b in letters for c in letters for d in letters for e in "xyz"
        ]
        self.pool = [f"ordinary {number}" for number in range(6000)] + AGREEING + mirrored[:: 1 + len(mirrored) // 800]
        self.env = Environment.open(self.folder / "store", durability="relaxed")
        self.committed: Model = {}
        self.next_entity = 1
        self.begin()

    def begin(self) -> None:
        self.view = self.env.write()
        self.filter = EntityFilter(self.view, hash_seed=self.seed)
        self.model = {name: (entity, set(addresses)) for name, (entity, addresses) in self.committed.items()}

    def select_names(self, start: int, count: int, step: int) -> list[str]:
        return [self.pool[(start + i * step) % len(self.pool)] for i in range(count)]

    @rule(start=STARTS, count=COUNTS, step=STEPS)
    def insert(self, start: int, count: int, step: int) -> None:
        names = [name for name in dict.fromkeys(self.select_names(start, count, step)) if name not in self.model]
        numbers = list(range(self.next_entity, self.next_entity + len(names)))
        self.next_entity += len(names)
        self.filter.insert_many(names, numbers)
        self.model.update({name: (number, set()) for name, number in zip(names, numbers, strict=True)})

    @rule(start=STARTS, count=COUNTS, step=STEPS)
    def insert_present(self, start: int, count: int, step: int) -> None:
        names = dict.fromkeys(self.select_names(start, count, step))
        if self.model.keys() & names.keys():
            with pytest.raises(InputError):
                self.filter.insert_many(list(names), [7] * len(names))

    @rule(start=STARTS, count=COUNTS, step=STEPS)
    def delete(self, start: int, count: int, step: int) -> None:
        for name in self.select_names(start, count, step):
            assert self.filter.delete_many([name]) == (self.model.pop(name, None) is not None)

    @rule(start=STARTS, count=st.integers(1, 60), several=st.integers(1, 90), base=st.integers(0, 300))
    def add(self, start: int, count: int, several: int, base: int) -> None:
        for name in self.select_names(start, count, 1):
            new = set(range(base, base + several))
            if name in self.model:
                assert self.filter.add_addresses(name, make_addresses(new)) == len(new - self.model[name][1])
                self.model[name][1].update(new)
            else:
                with pytest.raises(EntityNotFoundError):
                    self.filter.add_addresses(name, make_addresses(new))

    @rule(start=STARTS, count=st.integers(1, 60), several=st.integers(1, 90), base=st.integers(0, 300))
    def remove(self, start: int, count: int, several: int, base: int) -> None:
        for name in self.select_names(start, count, 1):
            gone = set(range(base, base + several))
            present = self.model[name][1] if name in self.model else set()
            assert self.filter.remove_addresses(name, make_addresses(gone)) == len(gone & present)
            present -= gone

    @rule(start=STARTS, hits=st.integers(1, 5))
    def heat(self, start: int, hits: int) -> None:
        self.filter.add_hits(dict.fromkeys(self.select_names(start, 30, 1), hits))

    @rule()
    def commit(self) -> None:
        self.filter.flush()
        assert list(self.filter.check()) == []
        self.view.commit()
        self.committed = self.model
        self.begin()

    @rule()
    def flush(self) -> None:
        self.filter.flush()

    @rule()
    def abort(self) -> None:
        self.view.abort()
        self.begin()

    @rule()
    def reopen(self) -> None:
        self.view.abort()
        self.env.close()
        self.env = Environment.open(self.folder / "store", durability="relaxed")
        with self.env.snapshot() as view:
            assert_filter_matches(
                EntityFilter(view, hash_seed=self.seed), self.committed, ["", "no such name", "x" * 600]
            )
        self.begin()

    @invariant()
    def agrees_with_model(self) -> None:
        if not hasattr(self, "filter"):
            return
        entities = self.filter.find_entities(self.pool).tolist()
        assert entities == [self.model[name][0] if name in self.model else 0 for name in self.pool]

    def teardown(self) -> None:
        if hasattr(self, "env"):
            assert_filter_matches(self.filter, self.model, ["", "no such name"])
            self.view.abort()
            self.env.close()
            shutil.rmtree(self.folder)


AGREEING = make_colliding_names(24, 0xABCDEF, 700) + make_colliding_names(33, 0x1_2345_6789, 600)

TestFilterMachine = FilterMachine.TestCase
TestFilterMachine.settings = settings(
    max_examples=num_examples(25), stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.parametrize(
    ("seed", "steps"),
    [
        (CHOSEN_SEED, 100),
        *(pytest.param(seed, 1500, marks=pytest.mark.slow) for seed in (CHOSEN_SEED, MIRROR_SEED, SEED)),
    ],
)
def test_a_long_run_splits_and_merges_many_times(seed: int, steps: int) -> None:
    chance = random.Random(seed + steps)
    machine = FilterMachine()
    machine.open(seed)
    others = ["insert", "delete", "add", "remove", "heat", "commit", "commit", "commit", "abort", "reopen"]
    for number in range(steps):
        start, count, step = chance.randrange(8000), chance.choice([20, 1500, 4000, 8000]), chance.choice([1, 7])
        # Tides, so that the pages fill and empty.
        tide = "delete" if number // 10 % 2 else "insert"
        action = chance.choice(others) if number % 2 else tide
        if action in ("insert", "delete"):
            getattr(machine, action)(start, count, step)
        elif action in ("add", "remove"):
            getattr(machine, action)(start, chance.randint(1, 60), chance.randint(1, 90), chance.randrange(300))
        elif action == "heat":
            machine.heat(start, chance.randint(1, 5))
        else:
            getattr(machine, action)()
        machine.agrees_with_model()
    machine.commit()
    figures = machine.filter.compute_statistics()
    if seed != MIRROR_SEED:  # under which most names share a few slots
        assert figures.splits > steps // 5
        assert figures.merges > steps // 5
    machine.teardown()


def test_pages_are_created_and_removed_with_ten_thousand_names(env: Environment) -> None:
    names = [f"name {number}" for number in range(10_000)]
    model = insert_names(env, names)
    absent = [f"absent {number}" for number in range(10_000)]
    with env.snapshot() as view:
        filter_ = EntityFilter(view, hash_seed=SEED)
        assert_filter_matches(filter_, model, absent)
        grown = filter_.compute_statistics()
        assert grown.splits >= 20
        assert grown.load > 0.4
        assert len(list(filter_.iter_pages())) == grown.bucket_pages == view.count(tables.BUCKET_PAGES)
        assert sum(row.entries for row in filter_.iter_pages()) == len(names)
    with env.write() as view:
        filter_ = EntityFilter(view, hash_seed=SEED)
        for name in names[10:]:
            assert filter_.delete_many([name])
            del model[name]
        assert_filter_matches(filter_, model, names[10:] + absent)
        filter_.flush()
        assert list(filter_.check()) == []
        shrunk = filter_.compute_statistics()
        assert shrunk.bucket_pages == 1
        assert shrunk.block_pages <= 2
        assert shrunk.merges >= 20
    again = insert_names(env, names[10:], first=10_001) | model
    with env.snapshot() as view:
        filter_ = EntityFilter(view, hash_seed=SEED)
        assert filter_.compute_statistics().entities == len(again)
        # Pages that were given back are used again.
        assert filter_.compute_statistics().bytes <= grown.bytes * 1.1


@pytest.mark.parametrize(("bits", "pattern"), [(12, 0x5A5), (20, 0), (31, 7), (40, 0xF0F0F0F0F0), (44, 3)])
def test_names_of_one_page_are_separated_by_further_bits(env: Environment, bits: int, pattern: int) -> None:
    names = make_colliding_names(bits, pattern, 1500 if bits < 40 else 100)
    model = insert_names(env, names, CHOSEN_SEED)
    with env.write() as view:
        filter_ = EntityFilter(view, hash_seed=CHOSEN_SEED)
        assert_filter_matches(filter_, model, [f"absent {number}" for number in range(1000)])
        figures = filter_.compute_statistics()
        # However many bits agree, the directory stays in proportion to the pages.
        assert figures.directory_pages == 1
        assert figures.depth <= 10
        if bits == 31:
            assert figures.forks >= 20
        for name in names[20:]:
            assert filter_.delete_many([name])
            del model[name]
        filter_.flush()
        assert list(filter_.check()) == []
        assert_filter_matches(filter_, model, names[20:])
        assert filter_.compute_statistics().bucket_pages <= 2


def test_names_whose_stored_bits_are_equal_share_a_slot_and_are_all_found(env: Environment) -> None:
    letters = [f"{a}{b}{c}" for a in "abcdefghij" for b in "klmnopqrst" for c in "uvwxyz"]
    names = letters + [name[::-1] for name in letters]
    sums = {NameHash(MIRROR_SEED)(name) for name in names}
    assert len(sums) < len(names) // 4
    model = insert_names(env, names, MIRROR_SEED)
    with env.write() as view:
        filter_ = EntityFilter(view, hash_seed=MIRROR_SEED)
        assert_filter_matches(filter_, model, ["".join(reversed(name)) + "!" for name in names])
        assert sum(row.entries for row in filter_.iter_pages()) <= len(sums)
        for name in names[::2]:
            filter_.add_addresses(name, make_addresses(range(200)))
            model[name][1].update(range(200))
        assert_filter_matches(filter_, model, [])
        for name in names[1::3]:
            assert filter_.delete_many([name])
            assert not filter_.delete_many([name])
            del model[name]
        filter_.flush()
        assert list(filter_.check()) == []
        assert_filter_matches(filter_, model, names[1::3])


def test_an_insert_changes_at_most_four_bucket_pages(env: Environment) -> None:
    names = [f"name {number}" for number in range(3000)] + AGREEING[:600]
    with env.write() as view:
        filter_ = EntityFilter(view, hash_seed=CHOSEN_SEED)
        with record_writes(view) as writes:
            for number, name in enumerate(names, 1):
                writes.clear()
                filter_.insert(name, number)
                filter_.flush()
                assert 1 <= writes.count(tables.BUCKET_PAGES) <= 4
        assert filter_.compute_statistics().splits >= 6


def test_long_lists_change_in_few_blocks(env: Environment) -> None:
    everything = np.arange(0, 300_000, 3, dtype=np.uint64)
    with env.write() as view:
        filter_ = EntityFilter(view, hash_seed=SEED)
        filter_.insert_many(["long", "short"], [1, 2])
        assert filter_.add_addresses("long", everything) == len(everything) == 100_000
        filter_.add_addresses("short", make_addresses([5]))
        with record_writes(view) as writes:
            for address in (1, 150_001, 299_999):
                assert filter_.add_addresses("long", make_addresses([address])) == 1
            for address in (0, 150_000, 299_997):
                assert filter_.remove_addresses("long", make_addresses([address])) == 1
            assert len(writes) <= 2 * 6
        filter_.flush()
        assert list(filter_.check()) == []
    expected = np.array(sorted(set(everything.tolist()) - {0, 150_000, 299_997} | {1, 150_001, 299_999}), np.uint64)
    with env.write() as view:
        filter_ = EntityFilter(view, hash_seed=SEED)
        assert np.array_equal(filter_.get_addresses("long"), expected)
        assert np.array_equal(filter_.get_addresses("long", 10, 150_003), expected[expected > 150_003][:10])
        assert filter_.remove_addresses("long", expected[5:]) == len(expected) - 5
        assert np.array_equal(filter_.get_addresses("long"), expected[:5])
        assert view.count(tables.ADDRESS_BLOCKS) == 0
        assert filter_.add_addresses("long", everything) == len(everything) - 4
        assert filter_.delete_many(["long"])
        assert view.count(tables.ADDRESS_BLOCKS) == 0
        filter_.flush()
        assert list(filter_.check()) == []


def test_long_lists_of_many_names_change_together(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"name {number}" for number in range(30)]
    sizes: list[int] = []
    change = block_lists.BlockLists.change_many
    monkeypatch.setattr(
        block_lists.BlockLists,
        "change_many",
        lambda self, changes: sizes.append(len(changes)) or change(self, changes),  # type: ignore[func-returns-value]
    )
    with env.write() as view:
        filter_ = EntityFilter(view, hash_seed=SEED)
        filter_.insert_many([*names, "short"], range(1, 32))
        filter_.add_address_lists(
            [*names, "short"], [make_addresses(range(200)) for _ in names] + [make_addresses([7])]
        )
        sizes.clear()
        assert filter_.add_address_lists([*names, "short"], [[300, 301]] * 31) == 62
        # A name given twice is changed twice; what is left of its list may be short by then.
        assert (
            filter_.remove_address_lists(
                [*names, names[3], "absent"], [make_addresses(range(100))] * 31 + [make_addresses([1])]
            )
            == 3000
        )
        assert sizes == [30, 30, 1]
        assert (
            filter_.remove_address_lists(
                [names[5], names[5], names[5]], [make_addresses(range(190)), make_addresses([195]), make_addresses([1])]
            )
            == 91
        )
        with pytest.raises(EntityNotFoundError, match="'absent' is not in the filter"):
            filter_.add_address_lists([names[0], "absent", names[1]], [make_addresses([900])] * 3)
        assert filter_.get_addresses(names[0]).tolist() == [*range(100, 200), 300, 301, 900]
        assert filter_.get_addresses(names[1]).tolist() == [*range(100, 200), 300, 301]
        assert filter_.get_addresses(names[5]).tolist() == [*range(190, 195), *range(196, 200), 300, 301]
        filter_.flush()
        assert list(filter_.check()) == []


@pytest.mark.parametrize("count", [0, 1, 8, 15, 16, 17, 64, 65, 124, 125, 500])
def test_addresses_can_be_read_in_part(env: Environment, count: int) -> None:
    addresses = make_addresses(
        {i << 56 | i * 7 for i in range(min(count, 250))} | {U64 - i for i in range(count - 250)}
    )
    with env.write() as view:
        filter_ = EntityFilter(view, hash_seed=SEED)
        filter_.insert("name", 4)
        assert filter_.add_addresses("name", addresses[::-1]) == len(addresses)
        assert filter_.add_addresses("name", np.concatenate((addresses, addresses))) == 0
        filter_.flush()
    with env.snapshot() as view:
        filter_ = EntityFilter(view, hash_seed=SEED)
        for limit in (None, 0, 1, 10, 70, 1000):
            assert np.array_equal(filter_.get_addresses("name", limit), addresses[:limit])
            entry = filter_.lookup("name", limit)
            assert entry is not None
            assert entry[0].count == count
            assert np.array_equal(entry[1], addresses[:limit])
            for after in (-5, -1, 0, 6, 7, 1 << 60, U64 - 1, U64, U64 + 1):
                expected = make_addresses(address for address in addresses.tolist() if address > after)[:limit]
                assert np.array_equal(filter_.get_addresses("name", limit, after), expected)
        for stop in (0, 1, 1 << 56, 100 << 56, U64):
            below = tuple(address for address in addresses.tolist() if address < stop)
            assert filter_.list_addresses_below(["name", "absent"], stop) == [below, ()]


def test_the_first_addresses_of_a_long_list_are_found_without_the_rest(env: Environment) -> None:
    with env.write() as view:
        filter_ = EntityFilter(view, hash_seed=SEED)
        filter_.insert("name", 4)
        filter_.add_addresses("name", make_addresses([3, 5, *range(1 << 60, (1 << 60) + 100_000)]))
        filter_.flush()
    with env.snapshot() as snapshot:
        filter_ = EntityFilter(snapshot, hash_seed=SEED)
        with mock.patch.object(block_lists, "_decompress_block", wraps=block_lists._decompress_block) as unpacked:
            assert filter_.list_addresses_below(["name"], 1 << 56) == [(3, 5)]
        assert unpacked.call_count <= 4


def test_temperatures_add_up_and_order_the_buckets(env: Environment) -> None:
    names = [f"name {number}" for number in range(450)]
    insert_names(env, names)
    for _ in range(2):
        with env.write() as view:
            filter_ = EntityFilter(view, hash_seed=SEED)
            filter_.add_hits({name: int(name[5:]) for name in names} | {"absent": 9})
            filter_.flush()
            assert list(filter_.check()) == []
    with env.snapshot() as view:
        filter_ = EntityFilter(view, hash_seed=SEED)
        heats = {name: entry.temperature for name, entry in dict(filter_.iter_entries()).items()}
        assert heats == {name: 2 * int(name[5:]) for name in names}
        # Heads in a bucket lead to records whose temperatures fall.
        records = {}
        for number in range(1, 1 + filter_.compute_statistics().block_pages):
            page = bytes(view.get(tables.BLOCK_PAGES, number.to_bytes(4, "big")) or b"")
            for slot in range(int.from_bytes(page[12:14], "little")):
                offset = int.from_bytes(page[24 + 2 * slot : 26 + 2 * slot], "little")
                records[number << 8 | slot] = int.from_bytes(page[offset + 4 : offset + 8], "little")
        bucket_page = bytes(view.get(tables.BUCKET_PAGES, (1).to_bytes(4, "big")) or b"")[48:]
        heads = np.frombuffer(bucket_page, "<u8").reshape(-1, 4).astype(np.uint32)
        assert np.count_nonzero(heads) == len(names)
        for bucket in heads:
            temperatures = [records[int(head)] for head in bucket if head]
            assert temperatures == sorted(temperatures, reverse=True)


def test_temperatures_stop_at_the_largest_number(env: Environment) -> None:
    insert_names(env, ["hot"])
    with env.write() as view:
        filter_ = EntityFilter(view, hash_seed=SEED)
        filter_.add_hits({"hot": (1 << 32) - 2})
        filter_.add_hits({"hot": 1 << 40})
        entry = filter_.find("hot")
        assert entry is not None
        assert entry.temperature == (1 << 32) - 1


def test_a_snapshot_keeps_its_filter_while_others_commit(env: Environment) -> None:
    insert_names(env, [f"name {number}" for number in range(2000)])
    with env.snapshot() as old:
        early = EntityFilter(old, hash_seed=SEED)
        with env.write() as view:
            filter_ = EntityFilter(view, hash_seed=SEED)
            for number in range(1500):
                filter_.delete_many([f"name {number}"])
            filter_.insert("new", 5000)
            filter_.flush()
        assert np.count_nonzero(early.find_entities([f"name {number}" for number in range(2000)])) == 2000
        assert early.find("new") is None
        assert list(early.check()) == []
        late_view = env.snapshot()
        late = EntityFilter(late_view, hash_seed=SEED)
        assert late.compute_statistics().entities == 501
    late_view.close()
    for ask in (
        lambda: late.find("new"),
        lambda: late.find_entities(["new"]),
        lambda: late.get_addresses("new"),
        lambda: list(late.check()),
    ):
        with pytest.raises(ClosedError):
            ask()


def test_several_threads_read_one_snapshot(env: Environment) -> None:
    names = [f"name {number}" for number in range(20_000)]
    insert_names(env, names)
    with env.write() as view:
        filter_ = EntityFilter(view, hash_seed=SEED)
        filter_.insert("long", 30_000)
        filter_.add_addresses("long", make_addresses(range(1000)))
        filter_.flush()
    expected = np.arange(1, len(names) + 1, dtype=np.uint32)
    wrong: list[int] = []
    with env.snapshot() as view:
        filter_ = EntityFilter(view, hash_seed=SEED)

        def read(first: int) -> None:
            for _ in range(5):
                entities = np.roll(filter_.find_entities(names[first:] + names[:first]), first)
                wrong.append(int(np.count_nonzero(entities != expected)))
                for number in range(first, first + 200):
                    wrong.append(filter_.get_addresses(names[number]).tolist() != [number + 1])
                    wrong.append(filter_.get_addresses("long", 3, number % 900).tolist()[0] != number % 900 + 1)

        threads = [Thread(target=read, args=(first,)) for first in (0, 5000, 10_000, 15_000)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(wrong) == 4 * 5 * 401
    assert not any(wrong)


def test_an_invalid_record_is_refused_and_changes_nothing(env: Environment) -> None:
    insert_names(env, ["there"])
    with env.write() as view:
        filter_ = EntityFilter(view, hash_seed=SEED)
        for keys, entities in (
            (["new", "there"], [2, 3]),
            (["new", "new"], [2, 3]),
            (["new", ""], [2, 3]),
            (["new", "x" * 512], [2, 3]),
            (["new", "é" * 256], [2, 3]),
            (["new", "\ud800"], [2, 3]),
            (["new"], [0]),
            (["new"], [1 << 32]),
            (["new"], [1 << 64]),
            (["new"], [1.5]),
            (["new", "newer"], [2]),
        ):
            with pytest.raises(InputError):
                filter_.insert_many(keys, entities)
        assert list(dict(filter_.iter_entries())) == ["there"]
        filter_.insert("x" * 511, 9)
        assert filter_.find("x" * 511) is not None
        for absent in ("", "x" * 510, "x" * 512, "\ud800", "there ", "There"):
            assert filter_.find(absent) is None
            assert not filter_.delete_many([absent])
            assert filter_.remove_addresses(absent, make_addresses([1])) == 0
        assert filter_.find_entities(["", "\ud800", "x" * 512, "there"]).tolist() == [0, 0, 0, 1]
        for addresses in ([-1], [1.5], [1 << 64], ["a"]):
            with pytest.raises(InputError):
                filter_.add_addresses("there", addresses)  # type: ignore[arg-type]
        with pytest.raises(InputError):
            filter_.get_addresses("there", -1)
        assert filter_.get_addresses("there").tolist() == [1]
        filter_.flush()
        assert list(filter_.check()) == []


def test_a_snapshot_changes_nothing_and_another_seed_is_refused(env: Environment) -> None:
    def attempts(view: View) -> Iterator[object]:
        filter_ = EntityFilter(view, hash_seed=SEED)
        yield lambda: filter_.insert("new", 2)
        yield lambda: filter_.delete_many(["there"])
        yield lambda: filter_.add_addresses("there", make_addresses([9]))
        yield lambda: filter_.remove_addresses("there", make_addresses([1]))
        yield lambda: filter_.add_hits({"there": 1})
        yield lambda: filter_.flush()

    with env.snapshot() as view:
        assert EntityFilter(view, hash_seed=SEED).find("there") is None
        assert list(EntityFilter(view, hash_seed=SEED).check()) == []
    insert_names(env, ["there"])
    with env.snapshot() as view:
        for attempt in attempts(view):
            with pytest.raises(ReadOnlyError):
                attempt()  # type: ignore[operator]
        with pytest.raises(SettingsMismatchError):
            EntityFilter(view, hash_seed=SEED + 1)


def test_the_hash_is_a_polynomial_of_the_utf8_bytes() -> None:
    def model(name: str, seed: int) -> int:
        base = mix(seed) % PRIME
        total = 0
        for byte in name.encode():
            total = (total * base + byte + 1) % PRIME
        return mix(total)

    def mix(x: int) -> int:
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & U64
        x = (x ^ x >> 27) * 0x94D049BB133111EB & U64
        return x ^ x >> 31

    for seed in (0, 1, SEED, U64, CHOSEN_SEED, MIRROR_SEED):
        hash_of = NameHash(seed)
        for name in ("", "a", "1234567", "12345678", "123456789", "héllo wörld ✓", "x" * 511, "\0\0\0"):
            assert hash_of(name) == model(name, seed)


def test_the_bytes_are_those_of_the_worked_example(env: Environment) -> None:
    with env.write() as view:
        filter_ = EntityFilter(view, hash_seed=42)
        filter_.insert_many(["vienna", "ludwig van beethoven"], [7, 8])
        filter_.add_addresses("vienna", make_addresses([0x3F00000000000005, 0x3]))
        filter_.add_hits({"vienna": 2})
        filter_.flush()
    assert NameHash(42)("vienna") == 0x19E6CDA3626B0B83
    with env.snapshot() as view:
        page_number = (1).to_bytes(4, "big")
        bucket = bytes(view.get(tables.BUCKET_PAGES, page_number) or b"")
        block = bytes(view.get(tables.BLOCK_PAGES, page_number) or b"")
        directory = bytes(view.get(tables.FILTER_DIRECTORY, b"d" + bytes(4)) or b"")
    assert len(bucket) == len(block) == len(directory) == 4080
    assert bucket[1744:1752].hex(" ") == "00 01 00 00 83 0b eb 19"
    assert block[:4] == b"KVL1"
    assert block[8:28].hex(" ") == "01 00 00 00 02 00 84 0f 52 00 01 00 00 00 00 00 84 0f ae 0f"
    assert block[3972:4014].hex(" ") == (
        "07 00 00 00 02 00 00 00 02 00 00 00 00 00 00 00 06 00 00 00 76 69 65 6e 6e 61 "
        "03 00 00 00 00 00 00 00 05 00 00 00 00 00 00 3f"
    )
    assert directory[16:19].hex(" ") == "01 00 00"


@pytest.mark.slow
def test_a_million_names(env: Environment) -> None:
    count = 1_000_000
    names = [f"{number * 0x9E3779B1 % 2**32:x} of {number % 977}" for number in range(count)]
    expected = np.arange(1, count + 1, dtype=np.uint32)
    for start in range(0, count, 100_000):
        with env.write() as view:
            filter_ = EntityFilter(view, hash_seed=SEED)
            part = names[start : start + 100_000]
            filter_.insert_many(part, expected[start : start + 100_000])
            filter_.add_address_lists(part, [make_addresses([start + i, count + i]) for i in range(len(part))])
            filter_.flush()
    with env.snapshot() as view:
        filter_ = EntityFilter(view, hash_seed=SEED)
        assert list(filter_.check()) == []
        entities, first = filter_.lookup_many(names)
        assert np.array_equal(entities, expected)
        assert np.array_equal(first, np.arange(count))
        assert not filter_.find_entities([name + "?" for name in names]).any()
    for start in range(0, count, 250_000):
        with env.write() as view:
            filter_ = EntityFilter(view, hash_seed=SEED)
            for name in names[start : start + 249_000]:
                assert filter_.delete_many([name])
            filter_.flush()
            assert list(filter_.check()) == []
    with env.snapshot() as view:
        filter_ = EntityFilter(view, hash_seed=SEED)
        assert filter_.compute_statistics().entities == 4000
        assert np.count_nonzero(filter_.find_entities(names)) == 4000
