"""Measure the entity filter against py-lmdb and sqlite3 in one run.
The filter is a table on disk from a name to its entity (an integer) and to its *addresses*, the places where the
entity occurs. An *absent* name is not in it.

    python tools/bench_filter.py --items 1000000 --json

In: the number of names, and optionally a file of names to use first (CSV or one per line, gzip or not); the others are
generated (seeded). Out: a table, or with ``--json`` one object whose keys include the units. Every figure is a median;
the systems take turns. The text for recognition is Python's help topics unless ``--text`` is given.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import sqlite3
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter, perf_counter_ns

import lmdb
import numpy as np
import numpy.typing as npt
from made_names import generate_names, select_distinct_names

from kvstore.registry import get_buffered_tables
from kvstore.storage.environment import Environment, WriteTransaction
from kvstore.structures import tables
from kvstore.structures.filter.entity_filter import EntityFilter
from kvstore.structures.names.entities import KINDS, EntityRecord, EntityWriter
from kvstore.text.normalize import fold
from kvstore_cext.filter import NameHash, count_candidates

SEED = 0x5EED_F117E4
#: The number of names per transaction.
BATCH = 10_000
#: The number of turns of a measurement, and of a load.
TURNS, LOAD_TURNS = 5, 3
#: The number of names that are looked up with a call each.
CALLS = 20_000
#: The number of addresses per entity for single calls, and the number that these request.
ADDRESSES, MAX_ADDRESSES = 12, 10
#: The maximum number of words of a name that is recognized in a text.
MAX_NAME_WORDS = 6
#: The query in SQLite that corresponds to a lookup in the filter, with a name and the number of addresses.
SQLITE_QUERY = (
    "SELECT n.entity, n.count, n.temperature, a.address FROM names n JOIN addresses a ON a.entity = n.entity "
    "WHERE n.key = ? ORDER BY a.address LIMIT ?"
)
#: The number of names of the small stores.
SMALL = 10_000
#: The sizes at which the bytes per entity are measured, as multiples of ``--items``.
SIZES = (0.7, 0.85, 1.0, 1.2, 1.4)
FILTER_TABLES = (tables.BUCKET_PAGES, tables.FILTER_DIRECTORY, tables.BLOCK_PAGES, tables.ADDRESS_BLOCKS)
ENTITY_TABLES = (*FILTER_TABLES, tables.ENTITIES, tables.ENTITY_NAMES)

KEYS = """
    items absent_answered wrong_answers probe_absent_ns lmdb_absent_ns kernel_probe_ns lookup_present_ns lmdb_present_ns
    lookup_call_us sqlite_call_us ngrams_per_s load_s lmdb_load_s insert_p999_us max_pages_dirtied page_bytes_per_entity
    total_bytes_per_entity open_ms open_ms_10k lookup_ns_10k lmdb_ns_10k
""".split()
#: For each key, a function that returns True if the figures meet the target.
TARGETS: dict[str, Callable[[dict[str, float]], bool]] = {
    "absent_answered": lambda figures: figures["absent_answered"] == 0,
    "wrong_answers": lambda figures: figures["wrong_answers"] == 0,
    "probe_absent_ns": lambda figures: (
        figures["probe_absent_ns"] <= 100 and 5 * figures["probe_absent_ns"] <= figures["lmdb_absent_ns"]
    ),
    "kernel_probe_ns": lambda figures: figures["kernel_probe_ns"] <= 40,
    "lookup_present_ns": lambda figures: figures["lookup_present_ns"] <= 1.5 * figures["lmdb_present_ns"],
    "lookup_call_us": lambda figures: figures["lookup_call_us"] <= min(4, figures["sqlite_call_us"]),
    "ngrams_per_s": lambda figures: figures["ngrams_per_s"] >= 3e6,
    "load_s": lambda figures: figures["load_s"] <= 3 * figures["lmdb_load_s"],
    "insert_p999_us": lambda figures: figures["insert_p999_us"] <= 1000,
    "max_pages_dirtied": lambda figures: figures["max_pages_dirtied"] <= 4,
    "page_bytes_per_entity": lambda figures: figures["page_bytes_per_entity"] <= 16,
    "total_bytes_per_entity": lambda figures: figures["total_bytes_per_entity"] <= 200,
    "open_ms": lambda figures: figures["open_ms"] <= 20 and figures["open_ms"] <= 1.5 * figures["open_ms_10k"],
    "lookup_ns_10k": lambda figures: (
        figures["lookup_present_ns"] / figures["lookup_ns_10k"]
        <= 1.5 * figures["lmdb_present_ns"] / figures["lmdb_ns_10k"]
    ),
}

# -- Measurements


def time_in_turns(*functions: Callable[[], object], turns: int = TURNS) -> list[float]:
    """Return the median seconds of each function, run in turns, after one turn that does not count."""
    times: list[list[float]] = [[] for _ in functions]
    for turn in range(turns + 1):
        for function, function_times in zip(functions, times, strict=True):
            start = perf_counter()
            function()
            if turn:
                function_times.append(perf_counter() - start)
    return [statistics.median(function_times) for function_times in times]


def iter_batches(names: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the names in batches, each with the index of its first name."""
    for start in range(0, len(names), BATCH):
        yield start, names[start : start + BATCH]


def load_filter(path: Path, names: list[str]) -> float:
    """Fill the filter of a new store with names, in transactions of BATCH names; return the seconds.

    Entity i + 1 has the name with the index i, and the single address i.
    """
    addresses = [np.array([index], np.uint64) for index in range(len(names))]
    started = perf_counter()
    with Environment.open(path, durability="full", buffered_tables=get_buffered_tables()) as environment:
        for start, batch in iter_batches(names):
            with environment.write() as transaction:
                filter_ = EntityFilter(transaction, hash_seed=SEED)
                filter_.insert_many(batch, np.arange(start + 1, start + 1 + len(batch), dtype=np.uint32))
                filter_.add_address_lists(batch, addresses[start : start + len(batch)])
                filter_.flush()
    return perf_counter() - started


def load_lmdb(path: Path, keys: list[bytes]) -> float:
    """Store the same keys with py-lmdb, each with a value as long as an entity and an address; return the seconds."""
    values = [index.to_bytes(12, "little") for index in range(len(keys))]
    started = perf_counter()
    with lmdb.open(str(path), map_size=1 << 36) as environment:
        for start in range(0, len(keys), BATCH):
            with environment.begin(write=True) as transaction:
                for key, value in zip(keys[start : start + BATCH], values[start : start + BATCH], strict=True):
                    transaction.put(key, value)
    return perf_counter() - started


class LmdbLookups:
    """py-lmdb over the same keys, within one read transaction."""

    def __init__(self, path: Path) -> None:
        """Open an environment, and begin a read transaction that lasts until :meth:`close`."""
        self.environment = lmdb.open(str(path), map_size=1 << 36)
        self.transaction = self.environment.begin(buffers=True)

    def look_up_all(self, keys: list[bytes]) -> None:
        """Look up keys one after the other, and discard the values."""
        get = self.transaction.get
        for key in keys:
            get(key)

    def close(self) -> None:
        """End the transaction and close the environment."""
        self.transaction.abort()
        self.environment.close()


def build_sqlite_store(
    path: Path, names: list[str], addresses_by_name: dict[str, npt.NDArray[np.uint64]]
) -> sqlite3.Connection:
    """Build a store of the same entities in SQLite, and return its connection, within a read transaction.

    ``addresses_by_name`` has the names with several addresses. A name has the values of its entry in the filter; the
    temperature counts its lookups. Addresses are clustered by entity.
    """
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF; BEGIN;"
        "CREATE TABLE names (key TEXT PRIMARY KEY, entity INTEGER, count INTEGER, temperature INTEGER) WITHOUT ROWID;"
        "CREATE TABLE addresses (entity INTEGER, address INTEGER, PRIMARY KEY (entity, address)) WITHOUT ROWID;"
    )
    counts = {name: len(addresses) for name, addresses in addresses_by_name.items()}
    rows = sorted((name, entity, counts.get(name, 1), 0) for entity, name in enumerate(names, 1))
    connection.executemany("INSERT INTO names VALUES (?, ?, ?, ?)", rows)
    address_rows = (
        (entity, address)
        for entity, name in enumerate(names, 1)
        # Other names have the one address that load_filter stores.
        for address in (addresses_by_name[name].tolist() if name in addresses_by_name else (entity - 1,))
    )
    connection.executemany("INSERT INTO addresses VALUES (?, ?)", address_rows)
    connection.execute("COMMIT")
    connection.execute("BEGIN")
    return connection


# -- Figures


def measure_lookups(folder: Path, names: list[str], absent_names: list[str], text: str) -> dict[str, float]:
    """Return the figures of all reads of the stores at ``folder``/filter and ``folder``/lmdb, by name.

    ``names`` are in the stores; ``absent_names`` are not. Names are recognized in ``text``.
    """
    hash_name = NameHash(SEED)
    absent_keys = [name.encode() for name in absent_names]
    count = len(names)
    shuffled_indexes = random.Random(3).sample(range(count), count)
    shuffled_names = [names[index] for index in shuffled_indexes]
    shuffled_keys = [name.encode() for name in shuffled_names]
    result: dict[str, float] = {}
    with Environment.open(folder / "filter", buffered_tables=get_buffered_tables()) as environment:
        lmdb_lookups = LmdbLookups(folder / "lmdb")
        with environment.snapshot() as reading:
            filter_ = EntityFilter(reading, hash_seed=SEED)
            result["absent_answered"] = int(np.count_nonzero(filter_.find_entities(absent_names)))
            result["wrong_answers"] = count_wrong_answers(filter_, shuffled_names, shuffled_indexes)
            hashes = np.array([hash_name(name) for name in absent_names], np.uint64)
            seconds = time_in_turns(
                lambda: filter_.find_entities(absent_names),
                lambda: count_candidates(filter_._index, hashes),
                lambda: lmdb_lookups.look_up_all(absent_keys),
            )
            for key, value in zip(("probe_absent_ns", "kernel_probe_ns", "lmdb_absent_ns"), seconds, strict=True):
                result[key] = value / count * 1e9
            result |= measure_growth_of_lookups(
                folder, names, lambda: filter_.lookup_many(shuffled_names), lmdb_lookups, shuffled_keys
            )
            folded = fold(text)
            (text_seconds,) = time_in_turns(lambda: filter_.recognize(folded, MAX_NAME_WORDS))
            result["ngrams_per_s"] = count_word_sequences(text, MAX_NAME_WORDS) / text_seconds
        lmdb_lookups.close()
        return result | measure_calls(folder, environment, names)


def count_wrong_answers(filter_: EntityFilter, names: list[str], indexes: list[int]) -> int:
    """Return the number of names for which a filter of :func:`load_filter` has a wrong entity or address.

    ``indexes`` are those of the names in the order of loading.
    """
    entities, addresses = filter_.lookup_many(names)
    expected = np.array(indexes, np.uint64)
    return int(np.count_nonzero((entities != expected + 1) | (addresses != expected)))


def measure_calls(folder: Path, environment: Environment, names: list[str]) -> dict[str, float]:
    """Add addresses to some names of the filter; measure a call for each of them, and the same query in SQLite."""
    called_names = random.Random(2).sample(names, min(len(names), CALLS))
    index_by_name = {name: index for index, name in enumerate(names)}
    addresses_by_name = {
        name: np.arange(ADDRESSES, dtype=np.uint64) * np.uint64(1 << 40) + np.uint64(index_by_name[name])
        for name in called_names
    }
    with environment.write() as transaction:
        filter_ = EntityFilter(transaction, hash_seed=SEED)
        filter_.add_address_lists(list(addresses_by_name), list(addresses_by_name.values()))
        filter_.flush()
    for name in called_names:
        addresses_by_name[name] = np.union1d(addresses_by_name[name], np.array([index_by_name[name]], np.uint64))
    sqlite = build_sqlite_store(folder / "sqlite", names, addresses_by_name)
    with environment.snapshot() as reading:
        filter_ = EntityFilter(reading, hash_seed=SEED)
        check_equal_results(filter_, sqlite, called_names[0])

        def call_filter() -> None:
            """Look up each name with a separate call."""
            for name in called_names:
                filter_.lookup(name, MAX_ADDRESSES)

        def call_sqlite() -> None:
            """Run a query of SQLite for each name."""
            for name in called_names:
                sqlite.execute(SQLITE_QUERY, (name, MAX_ADDRESSES)).fetchall()

        seconds = time_in_turns(call_filter, call_sqlite)
    sqlite.close()
    filter_us, sqlite_us = (value / len(called_names) * 1e6 for value in seconds)
    return {"lookup_call_us": filter_us, "sqlite_call_us": sqlite_us}


def check_equal_results(filter_: EntityFilter, sqlite: sqlite3.Connection, name: str) -> None:
    """Raise AssertionError if the filter and SQLite return different values for a name."""
    filter_result = filter_.lookup(name, MAX_ADDRESSES)
    assert filter_result is not None
    entry, addresses = filter_result
    filter_rows = [(entry.entity, entry.count, entry.temperature, address) for address in addresses.tolist()]
    assert filter_rows == sqlite.execute(SQLITE_QUERY, (name, MAX_ADDRESSES)).fetchall()


def measure_growth_of_lookups(
    folder: Path, names: list[str], look_up: Callable[[], object], lmdb_lookups: LmdbLookups, keys: list[bytes]
) -> dict[str, float]:
    """Return the nanoseconds per lookup of present names, in the large stores and in stores of SMALL names.

    All four stores take turns. ``look_up`` looks up ``keys`` in the large filter.
    """
    small_names = names[:SMALL]
    small_lmdb_lookups, small_keys = LmdbLookups(folder / "small_lmdb"), [name.encode() for name in small_names]
    num_passes = max(1, len(names) // SMALL // 10)  # so that a turn of a small store takes long enough to be timed
    with (
        Environment.open(folder / "small", buffered_tables=get_buffered_tables()) as environment,
        environment.snapshot() as reading,
    ):
        filter_ = EntityFilter(reading, hash_seed=SEED)

        def look_up_small_in_filter() -> None:
            """Look up all names of the small store, several times."""
            for _ in range(num_passes):
                filter_.lookup_many(small_names)

        def get_small_from_lmdb() -> None:
            """Look up the same names in the small LMDB environment."""
            for _ in range(num_passes):
                small_lmdb_lookups.look_up_all(small_keys)

        filter_seconds, lmdb_seconds, small_filter_seconds, small_lmdb_seconds = time_in_turns(
            look_up, lambda: lmdb_lookups.look_up_all(keys), look_up_small_in_filter, get_small_from_lmdb
        )
    small_lmdb_lookups.close()
    return {
        "lookup_present_ns": filter_seconds / len(keys) * 1e9,
        "lmdb_present_ns": lmdb_seconds / len(keys) * 1e9,
        "lookup_ns_10k": small_filter_seconds / len(small_names) / num_passes * 1e9,
        "lmdb_ns_10k": small_lmdb_seconds / len(small_names) / num_passes * 1e9,
    }


def count_word_sequences(text: str, max_words: int) -> int:
    """Return the number of sequences of up to ``max_words`` words in the paragraphs of a text.

    Recognition must look each of them up.
    """
    total = 0
    for paragraph in re.split(r"\n\s*\n", text):
        num_words = len(re.findall(r"\w+", paragraph))
        total += sum(min(max_words, num_words - start) for start in range(num_words))
    return total


def measure_inserts(path: Path, names: list[str]) -> dict[str, float]:
    """Return the 99.9th percentile of the time of an insert, and the most bucket pages that an insert changes.

    Both are measured from an empty store to one of all names.
    """
    times = np.empty(len(names))
    with Environment.open(path, durability="relaxed", buffered_tables=get_buffered_tables()) as environment:
        for first_index, batch in iter_batches(names):
            with environment.write() as transaction:
                filter_ = EntityFilter(transaction, hash_seed=SEED)
                # Entity ids begin at 1.
                for index, name in enumerate(batch, first_index):
                    start = perf_counter_ns()
                    filter_.insert(name, index + 1)
                    times[index] = perf_counter_ns() - start
                filter_.flush()
    max_changed_pages = count_changed_pages(path.with_name("changed"), names)
    return {"insert_p999_us": float(np.quantile(times, 0.999)) / 1000, "max_pages_dirtied": max_changed_pages}


def count_changed_pages(path: Path, names: list[str]) -> int:
    """Insert names one by one into a new filter; return the largest number of bucket pages that an insert changes."""
    max_changed_pages = 0
    with Environment.open(path, durability="relaxed", buffered_tables=get_buffered_tables()) as environment:
        transaction = environment.write()
        filter_ = EntityFilter(transaction, hash_seed=SEED)
        for index, name in enumerate(names, 1):
            filter_.insert(name, index)
            max_changed_pages = max(max_changed_pages, len(filter_._pages.buckets.take_changed()))
        transaction.abort()
    return max_changed_pages


def measure_bytes(environment: Environment, table_names: tuple[str, ...]) -> int:
    """Return the bytes of all LMDB pages of some tables, after merging the change buffer."""
    environment.write_with_growth(WriteTransaction.merge_buffer)
    with environment.snapshot() as reading:
        statistics = reading.get_table_statistics()
    return sum(
        statistics[table]["psize"]
        * sum(statistics[table][page_kind] for page_kind in ("branch_pages", "leaf_pages", "overflow_pages"))
        for table in table_names
        if table in statistics
    )


def put_entities(transaction: WriteTransaction, first: int, names: list[str]) -> None:
    """Write all data that a store has of entities: records, names in order, and filter entries with an address each.

    The entities get the ids from ``first`` + 1 on.
    """
    writer = EntityWriter(transaction)
    filter_ = EntityFilter(transaction, hash_seed=SEED)
    entities = range(first + 1, first + 1 + len(names))
    filter_.insert_many(names, entities)
    filter_.add_address_lists(names, [np.array([entity], np.uint64) for entity in entities])
    filter_.flush()
    names_by_entity = dict(zip(entities, names, strict=True))
    writer.put_many({entity: EntityRecord([name, KINDS.index("name"), 1]) for entity, name in names_by_entity.items()})
    writer.put_names(dict(zip(names, entities, strict=True)))


def measure_sizes(path: Path, names: list[str], items: int) -> dict[str, float]:
    """Return the bytes per entity of the bucket pages and of all tables, averaged over the sizes of one growing store.

    The sizes are SIZES, multiplied by ``items``.
    """
    bucket_page_bytes, entity_table_bytes = [], []
    num_stored = 0
    with Environment.open(path, durability="relaxed", buffered_tables=get_buffered_tables()) as environment:
        for size in (int(items * share) for share in SIZES):
            while num_stored < size:
                batch = names[num_stored : min(size, num_stored + 100_000)]
                with environment.write() as transaction:
                    put_entities(transaction, num_stored, batch)
                num_stored += len(batch)
            bucket_page_bytes.append(measure_bytes(environment, (tables.BUCKET_PAGES,)) / size)
            entity_table_bytes.append(measure_bytes(environment, ENTITY_TABLES) / size)
    return {
        "page_bytes_per_entity": statistics.mean(bucket_page_bytes),
        "total_bytes_per_entity": statistics.mean(entity_table_bytes),
    }


def measure_opening(path: Path, name: str) -> float:
    """Return the milliseconds from opening a closed store to its first answer."""

    def open_and_look_up() -> None:
        """Open the store and look up one name."""
        with (
            Environment.open(path, buffered_tables=get_buffered_tables()) as environment,
            environment.snapshot() as reading,
        ):
            assert EntityFilter(reading, hash_seed=SEED).lookup(name, MAX_ADDRESSES) is not None

    return time_in_turns(open_and_look_up, turns=4 * TURNS)[0] * 1000


def select_absent_names(count: int, names: list[str]) -> list[str]:
    """Return ``count`` different generated names that are not among ``names``."""
    known_names = set(names)
    absent_names: list[str] = []
    for name in generate_names(SEED + 1):
        if name not in known_names:
            known_names.add(name)
            absent_names.append(name)
            if len(absent_names) == count:
                break
    return absent_names


def measure_loading(folder: Path, names: list[str]) -> dict[str, float]:
    """Load names into ``folder``/filter and ``folder``/lmdb several times; return the median seconds of both."""
    keys = [name.encode() for name in names]
    filter_times: list[float] = []
    lmdb_times: list[float] = []
    for _ in range(LOAD_TURNS):
        for system in ("filter", "lmdb"):
            shutil.rmtree(folder / system, ignore_errors=True)
        filter_times.append(load_filter(folder / "filter", names))
        lmdb_times.append(load_lmdb(folder / "lmdb", keys))
    return {"load_s": statistics.median(filter_times), "lmdb_load_s": statistics.median(lmdb_times)}


def measure_all(items: int, names_file: Path | None, text: str, folder: Path) -> dict[str, float]:
    """Build all stores, and return the figures of all measurements by name.

    ``items`` is the number of names. They are taken from ``names_file``, if it is given, and then generated.
    """
    names = select_distinct_names(int(items * max(SIZES)), names_file, SEED)
    absent_names = select_absent_names(items, names)
    stored_names, small_names = names[:items], names[:SMALL]
    result: dict[str, float] = {"items": items, **measure_loading(folder, stored_names)}
    load_filter(folder / "small", small_names)
    load_lmdb(folder / "small_lmdb", [name.encode() for name in small_names])
    result["open_ms"] = measure_opening(folder / "filter", stored_names[-1])
    result["open_ms_10k"] = measure_opening(folder / "small", small_names[-1])
    result |= measure_lookups(folder, stored_names, absent_names, text)
    result |= measure_inserts(folder / "growth", stored_names)
    result |= measure_sizes(folder / "sizes", names, items)
    return result


def main() -> int:
    """Parse the arguments, run all measurements, and print the figures; return 0, even if a target is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--items", type=int, default=1_000_000, help="names in the store (default: 1,000,000)")
    parser.add_argument("--names", type=Path, help="a file of names that come first: CSV or one per line, gzip or not")
    parser.add_argument("--text", type=Path, help="an English text to recognize names in")
    parser.add_argument("--folder", type=Path, help="folder for the stores (default: a temporary one)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if options.text:
        text = options.text.read_text()
    else:
        from pydoc_data.topics import topics

        text = "\n\n".join(topics.values())
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        figures = measure_all(options.items, options.names, text, Path(folder))
    if options.json:
        print(json.dumps({key: round(figures[key], 4) for key in KEYS}))
        return 0
    for key in KEYS:
        verdict = "" if key not in TARGETS else "met" if TARGETS[key](figures) else "NOT met"
        print(f"{key:24} {figures[key]:16,.2f}  {verdict}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
