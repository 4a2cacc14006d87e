"""Kernels check what they are given: a bad length, bound, index or parameter is an error, never a read beyond an array.

Every call below with arguments at random, most of them nearly right, must return or raise an error of Python's. With
``KERNEL_ROUNDS`` there are more of them, for ``make sanitize``, which runs this under AddressSanitizer.
"""

from __future__ import annotations

import contextlib
import os
import random
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kvstore.text.names import _RULES
from kvstore_cext import filter as kernel
from kvstore_cext.arc_eager import parse
from kvstore_cext.capital_runs import CapitalRuns, RunRules, is_code
from kvstore_cext.chnsw import LayeredGraph, LayeredGraphBuilder, compute_checksums
from kvstore_cext.compact import EdgeChanges, change_blocks, locate_last_blocks, pack_numbers, unpack_numbers
from kvstore_cext.hierarchy import NodeSentences
from kvstore_cext.mentions import (
    collect_groups,
    pack_mentions,
    remove_mentions,
    select_outermost_mentions,
    unpack_mentions,
)
from kvstore_cext.msgpack_rows import read_elements, read_numbers, replace_elements
from kvstore_cext.pagerank import ForwardPush
from kvstore_cext.postings import PostingChanges, count_postings, unpack_postings
from kvstore_cext.row_products import compute_row_dots, compute_row_products, compute_selected_row_dots
from kvstore_cext.vector_rows import gather_rows
from kvstore_cext.word_scores import WordScores, select_chunks_with_postings
from kvstore_cext.words import WordSet, count_terms, count_tokens, find_term_words, find_words, list_name_pieces

#: Imports the module of names with a kernel that was built from earlier sources.
STALE_KERNEL = """
from kvstore_cext import capital_runs

def raise_key_error(*values):
    raise KeyError("calendar_short")

capital_runs.RunRules = raise_key_error
import kvstore.text.names
"""
ROUNDS = int(os.environ.get("KERNEL_ROUNDS", "300"))

#: What a wrong call may raise.
REFUSED = (ValueError, TypeError, OverflowError, AttributeError, KeyError, IndexError, MemoryError)


def make_u32(*numbers: int) -> Any:
    return np.array(numbers, np.uint32)


def make_u64(*numbers: int) -> Any:
    return np.array(numbers, np.uint64)


def make_i64(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


def make_f64(*numbers: float) -> Any:
    return np.array(numbers, np.float64)


def append_checksum(payload: bytes) -> bytes:
    return payload + zlib.crc32(payload).to_bytes(4, "little")


# -- PageRank


def make_push(**changed: Any) -> ForwardPush:
    arguments = {
        "seeds": make_u64(1),
        "masses": make_f64(1),
        "sizes": make_f64(1),
        "restart": 0.5,
        "epsilon": 0.1,
        **changed,
    }
    return ForwardPush(*arguments.values())


def test_the_error_for_a_stale_kernel_says_how_to_build_it() -> None:
    process = subprocess.run([sys.executable, "-c", STALE_KERNEL], capture_output=True, text=True)
    message = process.stderr.splitlines()[-1]
    assert message.startswith("ImportError: the kernel capital_runs was built from other sources")
    assert "python setup.py build_ext --inplace" in message


@pytest.mark.parametrize(
    "changed",
    [
        {"restart": 0.0},
        {"restart": 1.0},
        {"restart": float("nan")},
        {"epsilon": 0.0},
        {"restart": 1e-12, "epsilon": 1e-12},
        {"masses": make_f64()},
        {"masses": make_f64(0.5)},
        {"masses": make_f64(-1)},
        {"masses": make_f64(float("inf"))},
        {"sizes": make_f64()},
        {"sizes": make_f64(0)},
        {"sizes": make_f64(float("nan"))},
    ],
)
def test_a_pagerank_that_would_not_end_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        make_push(**changed)


@pytest.mark.parametrize(
    "rows",
    [
        (make_u64(1), make_i64(0), make_u64(2), make_f64(1), make_f64(1)),
        (make_u64(1), make_i64(0, 2), make_u64(2), make_f64(1), make_f64(1)),
        (make_u64(1), make_i64(-1, 1), make_u64(2), make_f64(1), make_f64(1)),
        (make_u64(1), make_i64(1, 0), make_u64(2), make_f64(1), make_f64(1)),
        (make_u64(1, 2), make_i64(0, 1 << 60, 1), make_u64(2), make_f64(1), make_f64(1)),
        (make_u64(1), make_i64(0, 1), make_u64(2), make_f64(), make_f64(1)),
        (make_u64(1), make_i64(0, 1), make_u64(2), make_f64(1), make_f64()),
        (make_u64(1), make_i64(0, 1), make_u64(2), make_f64(-1), make_f64(1)),
        (make_u64(1), make_i64(0, 1), make_u64(2), make_f64(float("nan")), make_f64(1)),
        (make_u64(1), make_i64(0, 1), make_u64(2), make_f64(1), make_f64(0)),
        (make_u64(1), make_i64(), make_u64(), make_f64(), make_f64()),
    ],
)
def test_rows_that_lead_outside_their_arrays_are_refused(rows: tuple[Any, ...]) -> None:
    kernel = make_push()
    assert kernel.run().tolist() == [1]
    with pytest.raises(ValueError):
        kernel.add_rows(*rows)
    kernel.add_rows(make_u64(1), make_i64(0, 0), make_u64(), make_f64(), make_f64())
    assert kernel.run().tolist() == []
    assert kernel.rows == 1


def test_the_path_to_a_node_that_was_visited_later_is_found() -> None:
    kernel = make_push(epsilon=0.9)
    kernel.run()
    kernel.add_rows(make_u64(1), make_i64(0, 1), make_u64(2), make_f64(1), make_f64(1))
    assert kernel.get_predecessors(2).tolist() == [1]
    kernel.add_rows(make_u64(2), make_i64(0, 500), make_u64(*range(100, 600)), np.ones(500), np.ones(500))
    assert kernel.get_predecessors(599).tolist() == [2]


def test_a_pagerank_cannot_be_restarted() -> None:
    kernel = make_push()
    kernel.__init__(make_u64(5), make_f64(1), make_f64(1), 0.5, 0.1)  # type: ignore[misc]
    assert kernel.run().tolist() == [1]


# -- The filter


class AddressLists:
    """The long address lists that the kernel reads and changes."""

    def __init__(self) -> None:
        self.lists: dict[int, set[int]] = {}

    def change_many(self, changes: dict[int, tuple[Any, Any]]) -> dict[int, tuple[int, int]]:
        return {entity: self._change(entity, set(gone), set(added)) for entity, (gone, added) in changes.items()}

    def _change(self, entity: int, gone: set[int], added: set[int]) -> tuple[int, int]:
        addresses = self.lists.get(entity, set())
        self.lists[entity] = addresses - gone | added
        return len(addresses & gone), len(added - addresses)

    def take(self, entity: int) -> bytes:
        return np.array(sorted(self.lists.pop(entity)), np.uint64).tobytes()


class Damage(Exception):
    """The exception that page tables raise in these tests."""


Stored = dict[bytes, dict[int, bytes]]
ENCODINGS = kernel.DIRECTORY_ENCODING, kernel.FORK_ENCODING, kernel.BUCKET_ENCODING, kernel.BLOCK_ENCODING


class Filter:
    """A filter over pages in dictionaries, which calls the kernel directly."""

    def __init__(self, stored: Stored | None = None, head: Any = None, *, writable: bool = True) -> None:
        self.stored: Stored = stored or {encoding: {} for encoding in ENCODINGS}
        if stored is None:
            self.stored[kernel.DIRECTORY_ENCODING][0] = kernel.DIRECTORY_ENCODING + bytes(kernel.PAGE_BYTES - 4)
        self.hasher = kernel.NameHash(7)
        self.tables = [self._make_table(encoding, writable) for encoding in ENCODINGS]
        self.blocks = kernel.BlockStore(self.tables[3], lambda after: [])
        head = head or ((0,) * 7, (0, 0))
        directories, forks, buckets = self.tables[:3]
        self.directory = kernel.Directory(directories, forks, buckets, self.blocks, self.hasher, head[0])
        self.index = kernel.EntityIndex(
            self.hasher, self.directory, self.blocks, AddressLists(), self.to_addresses, head[1]
        )

    def _make_table(self, encoding: bytes, writable: bool) -> kernel.PageTable:
        pages = self.stored[encoding]

        def load(number: int) -> bytes:
            if number not in pages:
                raise Damage(f"page {number} is missing")
            return pages[number]

        count = max(pages) + 1 if pages else int(encoding in ENCODINGS[2:])
        live = min(count, len(pages))
        return kernel.PageTable("t", encoding, load, lambda after: [], Damage, Damage, count, live, writable)

    @staticmethod
    def to_addresses(addresses: Any) -> Any:
        return np.frombuffer(addresses, np.uint64) if isinstance(addresses, bytes) else addresses

    def flush(self) -> tuple[Stored, Any]:
        for encoding, table in zip(ENCODINGS, self.tables, strict=True):
            for number, page in table.take_changed():
                self.stored[encoding][number] = bytes(page)
        return self.stored, (self.directory.state, (self.index.entities, self.index.addresses))


NAMES = [f"name {number}" for number in range(700)] + ["x" * 511, "a b c", "naïve"]


def make_filled_filter() -> tuple[Stored, Any]:
    filter_ = Filter()
    filter_.index.insert_many(NAMES, np.arange(1, len(NAMES) + 1, dtype=np.uint32))
    for number, name in enumerate(NAMES[:200]):
        filter_.index.change_addresses([name], [make_u64(*range(number % 60))], True)
    return filter_.flush()


@pytest.fixture(scope="module")
def pages() -> tuple[Stored, Any]:
    return make_filled_filter()


def test_a_filter_over_plain_pages_answers(pages: tuple[Stored, Any]) -> None:
    for writable in (False, True):
        again = Filter(*pages, writable=writable)
        entities = np.zeros(len(NAMES), np.uint32)
        kernel.find_many(again.index, NAMES, entities)
        assert entities.tolist() == list(range(1, len(NAMES) + 1))


def test_arrays_of_other_lengths_are_refused(pages: tuple[Stored, Any]) -> None:
    index = Filter(*pages).index
    for wrong in (
        lambda: kernel.select_longest(make_i64(0, 5), make_i64(3)),
        lambda: kernel.select_longest(make_i64(0), make_i64(3, 5)),
        lambda: kernel.find_many(index, NAMES, np.zeros(3, np.uint32)),
        lambda: kernel.find_many(index, NAMES[:3], np.zeros(3, np.uint32), np.zeros(2, np.uint64)),
        lambda: index.insert_many(["new"], make_u32()),
        lambda: index.insert_many(["x" * 5000], make_u32(1)),
        lambda: index.insert_many([""], make_u32(1)),
        lambda: index.change_addresses(["name 1"], [np.zeros(13, np.uint8)], True),
        lambda: kernel.PageTable("t", b"", None, None, Damage, Damage, 0, 0, True),  # type: ignore[arg-type]
        lambda: kernel.PageTable("t", b"KVB1", None, None, Damage, Damage, 1 << 31, 0, True),  # type: ignore[arg-type]
        lambda: PostingChanges(0),
        lambda: change_blocks({1: ([], [5])}, [None], 0, 0, {}),
        lambda: change_blocks({1: ([], [5, 4])}, [None], 9, 0, {}),
        lambda: change_blocks({1: ([], [5])}, [], 9, 0, {}),
        lambda: pack_numbers([3, 2]),
        lambda: read_elements(append_checksum(b"\x92\x01\x02"), [1, 0]),
    ):
        with pytest.raises(ValueError):
            wrong()


def test_missing_parts_are_refused() -> None:
    filter_ = Filter()
    for wrong in (
        lambda: kernel.find_many(None, [], make_u32()),  # type: ignore[arg-type]
        lambda: kernel.recognize(None, b"", 1),  # type: ignore[arg-type]
        lambda: kernel.EntityIndex(filter_.hasher, None, filter_.blocks, None, None, (0, 0)),  # type: ignore[arg-type]
        lambda: kernel.BlockStore(None, None),  # type: ignore[arg-type]
        lambda: kernel.PageCheck(None, [], []),  # type: ignore[arg-type]
        lambda: kernel.select_longest(None, None),  # type: ignore[arg-type]
        lambda: compute_row_products(None, None, None),  # type: ignore[arg-type]
        lambda: make_push(seeds=None),
        lambda: LayeredGraph(None, None, None, None, None, None, None, None, None),  # type: ignore[arg-type]
        lambda: LayeredGraphBuilder(None, None, None),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError):
            wrong()


def test_pages_of_another_kind_are_refused() -> None:
    filter_ = Filter()
    directory, forks, buckets, blocks = filter_.tables
    with pytest.raises(ValueError, match="block-list pages"):
        kernel.BlockStore(buckets, lambda after: [])
    with pytest.raises(ValueError, match="a directory needs pages"):
        kernel.Directory(directory, forks, blocks, filter_.blocks, filter_.hasher, (0,) * 7)


def test_a_filter_of_a_snapshot_cannot_be_changed(pages: tuple[Stored, Any]) -> None:
    snapshot = Filter(*pages, writable=False)
    for change in (
        lambda: snapshot.tables[2].mark_changed(1),
        lambda: snapshot.index.insert_many(["new"], make_u32(9000)),
        lambda: snapshot.index.delete("name 1"),
        lambda: snapshot.index.change_addresses(["name 1"], [make_u64(4)], True),
        lambda: snapshot.index.add_hits("name 1", 1, True),
    ):
        with pytest.raises(ValueError, match="cannot be changed"):
            change()
    assert snapshot.index.find("name 1") == (2, 1, 0)


def test_a_page_of_another_length_is_damage(pages: tuple[Stored, Any]) -> None:
    stored = {
        encoding: {number: page[:40] for number, page in pages_by_number.items()}
        for encoding, pages_by_number in pages[0].items()
    }
    for writable in (False, True):
        with pytest.raises(Damage, match="has 40 bytes"):
            Filter(stored, pages[1], writable=writable).index.find("name 1")


def test_records_that_overlap_are_not_changed(pages: tuple[Stored, Any]) -> None:
    """A page may be sound by its sums and yet have one record in another: a change of one would make the other lie."""
    page = bytearray(kernel.PAGE_BYTES)
    page[:4] = kernel.BLOCK_ENCODING
    page[8:12] = (1).to_bytes(4, "little")
    top = kernel.PAGE_BYTES - 200
    page[12:14], page[14:16], page[16:18] = ((2).to_bytes(2, "little"), top.to_bytes(2, "little"), b"\x32\x00")
    page[24:26], page[26:28] = top.to_bytes(2, "little"), (top + 4).to_bytes(2, "little")
    for at in (top, top + 4):
        page[at + 16 : at + 18] = (5).to_bytes(2, "little")
    page[top + 8 : top + 12] = page[top + 12 : top + 16] = bytes(4)
    table = kernel.PageTable("t", kernel.BLOCK_ENCODING, lambda n: bytes(page), None, Damage, Damage, 2, 1, True)
    with pytest.raises(Damage, match="is inconsistent"):
        table.get_page(1)


# -- Arbitrary arguments


class RandomArguments:
    """Random arguments, most of them nearly valid."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def draw_number(self) -> Any:
        return self.draw.choice(
            [0, 1, 2, 3, 7, 31, 32, 33, 255, 256, 4079, -1, 1 << 31, (1 << 63) - 1, 1 << 64, None, 1.5]
        )

    def draw_size(self) -> int:
        return self.draw.choice([0, 1, 2, 3, 5, 13, 32, 64])

    def draw_array(self, dtype: str, *shape: int) -> Any:
        """Return an array of a shape, or (one time in ten) of another, or another object."""
        if self.draw.random() < 0.1:
            return self.draw.choice([None, 5, "text", np.zeros(3, "u1"), np.zeros((2, 2), dtype)[:, 1]])
        lengths = [self.draw_size() if self.draw.random() < 0.1 else length for length in shape]
        if self.draw.random() < 0.5:
            return np.zeros(lengths, dtype)
        bits = np.frombuffer(self.draw.randbytes(int(np.prod(lengths)) * np.dtype(dtype).itemsize), dtype)
        return np.array(bits).reshape(lengths)

    def draw_small_array(self, dtype: str, length: int, most: int) -> Any:
        array = np.array([self.draw.randrange(most) for _ in range(length)], dtype)
        return self.draw_array(dtype, length) if self.draw.random() < 0.2 else array

    def mutate_bytes(self, valid: bytes) -> Any:
        """Return valid bytes with some changed, cut or added."""
        data = bytearray(valid)
        for _ in range(self.draw.choice([0, 1, 1, 3])):
            place = self.draw.randrange(len(data) + 1)
            match self.draw.randrange(3):
                case 0:
                    data[place : place + 1] = bytes([self.draw.choice([0, 1, 127, 128, 255, self.draw.randrange(256)])])
                case 1:
                    del data[place:]
                case 2:
                    data[place:place] = self.draw.randbytes(self.draw.choice([1, 2, 9]))
        return self.draw.choice([bytes(data), memoryview(bytes(data)), bytearray(data)])

    def draw_text(self) -> Any:
        marks = [
            "",
            "a",
            "Ada",
            " ",
            "\n\n",
            "*",
            "`",
            "...",
            "é",
            "中文",
            "\u0301",
            "\U0001f600",
            "'",
            "-",
            "\0",
            "x" * 70,
        ]
        text = "".join(self.draw.choice(marks) for _ in range(self.draw.randrange(40)))
        return self.draw.choice([text, text, text, None, 5, text + "\ud800"])


def call_parse(chance: RandomArguments) -> None:
    tokens, hidden, pieces, moves = chance.draw_size(), chance.draw.choice([1, 2, 4]), chance.draw.choice([1, 2]), 6
    row = hidden * pieces
    kinds = np.array([0, 1, 2, 3, 4, 3], np.uint8) if chance.draw.random() < 0.8 else chance.draw_array("u1", moves)
    lengths = make_i32_lengths(chance, tokens)
    heads, labels = chance.draw_array("i4", tokens), chance.draw_array("i4", tokens)
    if chance.draw.random() < 0.2:
        labels = heads
    if chance.draw.random() < 0.1:
        lengths = heads
    with np.errstate(all="ignore"):
        parse(
            chance.draw_array("f4", tokens + 1, 13 * row),
            chance.draw_array("f4", row),
            chance.draw_array("f4", hidden, 32),
            chance.draw_array("f4", 32),
            kinds,
            lengths,
            heads,
            labels,
        )


def make_i32_lengths(chance: RandomArguments, total: int) -> Any:
    parts = []
    while total > 0:
        parts.append(chance.draw.randint(0, total))
        total -= parts[-1]
    return chance.draw_array("i4", len(parts)) if chance.draw.random() < 0.1 else np.array(parts, np.int32)


def call_packed_numbers(chance: RandomArguments) -> None:
    numbers = sorted(chance.draw.sample(range(2000), chance.draw_size()))
    payload = pack_numbers(numbers)
    unpack_numbers(chance.draw_number(), chance.mutate_bytes(payload))
    changes: Any = {
        owner: (sorted(chance.draw.sample(range(3000), 9)), chance.draw.sample(range(3000), 3) if owner > 2 else [])
        for owner in range(chance.draw.randrange(4))
    }
    blocks = [
        chance.draw.choice(
            [None, (owner.to_bytes(4, "big") + bytes(8), append_checksum(bytes(chance.mutate_bytes(payload))))]
        )
        for owner in changes
    ]
    locate_last_blocks(changes)
    edges = EdgeChanges(*chance.draw.choice([(13, 16), (13, 16), (0, 4), (40, 50)]))
    with contextlib.suppress(REFUSED):
        value = chance.draw.choice([None, memoryview(append_checksum(bytes(chance.mutate_bytes(payload))))])
        row = {chance.draw_number(): chance.draw_number()}
        edges.change_row(chance.draw_number(), b"key", value, row, {0, 1}, chance.draw_number(), {})
    edges.take(1000)
    change_blocks(changes, blocks, chance.draw_number(), chance.draw_number(), chance.draw.choice([{}, {}, {}, None]))


def call_postings(chance: RandomArguments) -> None:
    changes = PostingChanges(chance.draw.choice([1, 3, 256]))
    for chunk in range(3):
        changes.add(chunk, {"a": chunk + 1, "b": 1}, chance.draw.choice([5, 70000]))
    written: dict[bytes, bytes | None] = {}
    changes.change_blocks(["a"], [b"a\0"], [None], written)
    key, value = next(iter(written.items()))
    assert value is not None
    payload = chance.mutate_bytes(value[:-4])
    count_postings(payload)
    changes.remove(chance.draw.choice([0, 1, 2, 9]), ["a", "b"])
    block = chance.draw.choice([(key, memoryview(append_checksum(bytes(payload)))), (key[:5], memoryview(value)), None])
    try:
        changes.change_blocks(chance.draw.choice([["a"], ["a", "b"], ["z"]]), [b"a\0"], [block], {})
    finally:
        unpack_postings(chance.draw_number(), payload)


def call_word_scores(chance: RandomArguments) -> None:
    changes = PostingChanges(64)
    for chunk in range(90):
        changes.add(5 * chunk, {"a": 1 + chunk % 4}, 7 + chunk % 30)
    written: dict[bytes, Any] = {}
    changes.change_blocks(["a"], [b"a\0"], [None], written)
    blocks: Any = [(key, memoryview(value)) for key, value in sorted(written.items())]
    if chance.draw.random() < 0.7:
        key, value = blocks[0]
        blocks[0] = (
            chance.draw.choice([key, key[:5]]),
            chance.draw.choice([append_checksum, bytes])(chance.mutate_bytes(value[:-4])),
        )
        blocks = chance.draw.choice([blocks, blocks[::-1], [None], None, [[*blocks[0]]], [(key,)]])
    numbers = [1.2, 0.0, 0.75, -1.0, float("nan"), float("inf")]
    chunks = np.array(sorted(chance.draw.sample(range(500), 40)), np.uint64)
    chunks = chance.draw.choice([chunks, chunks[::-1].copy(), chance.draw_array("u8", 9)])
    groups = chance.draw.choice([None, np.ones(20, np.uint8), chance.draw_array("u1", 90)])
    k1, b, average = (chance.draw.choice(numbers) for _ in range(3))
    scores = WordScores(k1, b, average, chance.draw.choice([1, 5, 500, 0]), groups)
    calls: list[Callable[[], Any]] = [
        lambda: scores.restrict_to(chunks),
        lambda: scores.compute_bound(1.5, blocks),
        lambda: scores.can_enter(chance.draw.choice(numbers)),
        lambda: scores.add_term(2.0, blocks, *(chance.draw.choice(numbers) for _ in range(2))),
        lambda: scores.add_term(1.0, blocks, 3.0, 0.0),
        lambda: select_chunks_with_postings(chunks, blocks),
        scores.list_chunks,
        scores.select_best,
    ]
    for call in chance.draw.sample(calls, len(calls)):
        with contextlib.suppress(REFUSED):
            call()


def call_rows(chance: RandomArguments) -> None:
    packed = b"\x95\x01\xc0\xa3abc\x92\x01\x02\xcd\x01\x00"
    packed = chance.draw.choice([packed, b"\xdc\x00\x03\x01\xdb\x00\x00\x00\x02ab\xdd\x00\x00\x00\x01\xc4\x01x"])
    value = append_checksum(bytes(chance.mutate_bytes(packed)))
    changed = {chance.draw.randrange(6): chance.draw.choice([None, b"\x07", b"", "text"])}
    for call in (
        lambda: read_elements(value, [chance.draw_number(), chance.draw_number()]),
        lambda: replace_elements(value, changed),
        lambda: read_numbers([memoryview(value)], np.zeros((1, chance.draw_size() % 17), np.int64)),
        lambda: select_outermost_mentions([memoryview(value), None]),
        lambda: select_outermost_mentions(
            [memoryview(append_checksum(bytes(chance.mutate_bytes(b"\x93\x01\xcd\x01\x00\x05"))))]
        ),
        lambda: unpack_mentions(memoryview(value), tuple),
        lambda: remove_mentions([memoryview(value), None], {1}),
        lambda: collect_groups([5], [memoryview(value)], chance.draw_number(), chance.draw.choice([(), (1, 2)])),
        lambda: pack_mentions([(chance.draw_number(), chance.draw_number(), chance.draw_number())]),
    ):
        with contextlib.suppress(REFUSED):
            call()


def call_products(chance: RandomArguments) -> None:
    n, k, m = chance.draw_size(), chance.draw_size(), chance.draw_size()
    with np.errstate(all="ignore"):
        with contextlib.suppress(REFUSED):
            compute_row_products(
                chance.draw_array("f4", n, k), chance.draw_array("f4", m, k), chance.draw_array("f4", n, m)
            )
        compute_row_dots(chance.draw_array("f4", n, k), chance.draw_array("f4", k), chance.draw_array("f4", n))
        with contextlib.suppress(REFUSED):
            compute_selected_row_dots(
                chance.draw_array("f4", n, k),
                chance.draw_array("i8", m),
                chance.draw_array("f4", k),
                chance.draw_array("f4", m),
            )


def call_vector_rows(chance: RandomArguments) -> None:
    rows, dimension, count = chance.draw.randrange(5), chance.draw.randrange(9), chance.draw.randrange(4)
    quantised = chance.draw.random() < 0.5
    size = 16 + rows * (8 + (4 + dimension if quantised else 4 * dimension)) + chance.draw.choice([0, 0, 3, -1])
    body = struct.pack("<HHI", rows, 0, dimension) + bytes(max(0, size - 16))
    block = (b"vec1" + zlib.crc32(body).to_bytes(4, "little") + body)[: max(0, size)]
    blocks = [
        chance.draw.choice([memoryview(block), memoryview(bytes(chance.mutate_bytes(block))), None]) for _ in range(2)
    ]
    for noted in (np.zeros(2, np.uint64), chance.draw_array("u8", chance.draw.randrange(4))):
        with contextlib.suppress(REFUSED), np.errstate(all="ignore"):
            gather_rows(
                blocks, size, b"vec1", rows, quantised, noted, np.sort(chance.draw_small_array("i8", count, 3)),
                chance.draw_small_array("i8", count, 5), chance.draw_small_array("i8", count, 4),
                np.zeros((count, dimension), np.float32),
            )  # fmt: skip


def call_places(chance: RandomArguments) -> None:
    class Longer(list):
        def __len__(self) -> int:
            return 50

    def load(node: int) -> Any:
        parents = chance.draw.choice([(), (node + 1,), [1, 2, 3], Longer([4]), (-1,), None])
        return (
            chance.draw.choice([b"name", "name", b"\xff"]) if node % 50 == 49 else b"name",
            b"tree",
            parents,
            (node // 2,),
        )

    places = NodeSentences(chance.draw.choice([0, 1, 3, 100]), chance.draw.choice([0, 1, 5, 1 << 17]))
    for _ in range(4):
        with contextlib.suppress(REFUSED):
            places.describe([chance.draw.choice([0, 1, 7, 49, -1, 1 << 63, "x"]) for _ in range(3)], load)


def call_push(chance: RandomArguments) -> None:
    count = chance.draw.choice([1, 2, 3])
    kernel = ForwardPush(
        chance.draw_small_array("u8", count, 9), np.full(count, 1 / count), np.ones(count),
        chance.draw.choice([0.2, 0.9, 0.5, 0, -1, 2, float("nan")]), chance.draw.choice([1e-3, 0.1, 0, 1e300, 1e-3]),
    )  # fmt: skip
    for _ in range(8):
        nodes = kernel.run()
        if not len(nodes):
            break
        ends = sorted(chance.draw.randrange(12) for _ in nodes)
        bounds = np.array([0, *ends], np.int64)
        rows = ends[-1]
        try:
            kernel.add_rows(
                nodes,
                bounds if chance.draw.random() < 0.7 else chance.draw_small_array("i8", len(bounds), 40),
                chance.draw_small_array("u8", rows, 30),
                chance.draw_array("f8", rows) if chance.draw.random() < 0.3 else np.ones(rows),
                np.full(rows, 2.0) if chance.draw.random() < 0.8 else chance.draw_array("f8", rows),
            )
        except REFUSED:
            kernel.add_rows(nodes, np.zeros(len(nodes) + 1, np.int64), make_u64(), make_f64(), make_f64())
        kernel.get_predecessors(chance.draw.randrange(40))
    kernel.get_masses()
    kernel.get_predecessors(chance.draw_number())


def call_layers(chance: RandomArguments) -> None:
    """Build a graph over layers, change some of its arrays, and search it."""
    sizes = [chance.draw.choice([0, 1, 2, 30, 300]) for _ in range(chance.draw.randint(1, 3))]
    starts = np.cumsum([0, *sizes]).astype(np.uint32)
    nodes, dimension = int(starts[-1]), chance.draw.choice([0, 1, 5, 32, 33])
    with np.errstate(all="ignore"):
        vectors = np.random.default_rng(nodes).integers(-3, 4, (nodes, dimension)).astype(np.float32)
    if chance.draw.random() < 0.1:
        starts, vectors = chance.draw_array("u4", len(starts)), chance.draw_array("f4", nodes, dimension)
    order = (
        np.arange(nodes, dtype=np.uint32)
        if chance.draw.random() < 0.9
        else chance.draw_small_array("u4", nodes, nodes + 2)
    )
    with contextlib.suppress(REFUSED):
        compute_checksums(starts, vectors)
    builder = LayeredGraphBuilder(starts, vectors, order, chance.draw.choice([2, 3, 16, chance.draw_number()]), 20)
    while builder.link_nodes(chance.draw.choice([1, 7, 1000])):
        with contextlib.suppress(REFUSED):
            builder.build_arrays()
    above = nodes - (int(starts[1]) if len(starts) > 1 else 0)
    bounds = np.sort(chance.draw.choices(range(nodes + 1), k=above + 1)).astype(np.uint32)
    arrays = [starts, vectors, *builder.build_arrays(), bounds, np.arange(nodes, dtype=np.uint32)]
    for _ in range(chance.draw.choice([0, 0, 1, 2])):
        number = chance.draw.randrange(9)
        shape = arrays[number].shape
        arrays[number] = chance.draw_array(arrays[number].dtype.str, *shape)
    graph = LayeredGraph(*arrays)
    for _ in range(3):
        with contextlib.suppress(REFUSED):
            graph.search(
                chance.draw_array("f4", dimension),
                chance.draw_small_array("i8", len(sizes), 9),
                chance.draw.choice([1, 5, 400, chance.draw_number()]),
                follow_links_down=chance.draw.random() < 0.8,
                max_compared_nodes=chance.draw.choice([0, 0, 20, 10**6]),
            )


def call_words(chance: RandomArguments) -> None:
    text = chance.draw_text()
    for call in (
        lambda: count_tokens(text),
        lambda: find_words(text),
        lambda: find_term_words(text),
        lambda: WordSet(chance.draw.choice([{"a", "le"}, set(), {""}, [1], None])).count(text),
        lambda: count_terms(text, chance.draw.choice([str, str.upper, None]), chance.draw.choice([set(), {"a"}, None])),
        lambda: list_name_pieces(text, chance.draw.choice([set(), None]), set()),
    ):
        with contextlib.suppress(REFUSED):
            call()


def call_runs(chance: RandomArguments) -> None:
    words = ["Ada", "of", "the", "The", "and", "for", "A.", "B.C.", "St.", "King's", "1901", "May", "Table", "&", "/"]
    words += ["- ", "    ", ":", "`x`", "*y*", "a_b", "Don't", "SHALL", "NOT", "Acts", "ß", ",", "", None, 1]
    likely = chance.draw.choice([len(words), len(words) - 3, 9])
    pieces: list[Any] = [chance.draw.choices(words[:likely], k=chance.draw.randrange(12)) for _ in range(3)]
    if chance.draw.random() < 0.1:
        pieces.append(chance.draw.choice([None, ("Ada",), 5]))
    for call in (
        lambda: CapitalRuns(chance.draw.choice([_RULES, None]), pieces, {"acts"}, chance.draw.choice([{"Ada"}, None])),
        lambda: [
            CapitalRuns(_RULES, pieces, {"acts"}, {"Ada"}).list_names(chance.draw.randrange(-2, 5)) for _ in range(9)
        ],
        lambda: _RULES.starts_with_page_heading(
            chance.draw.choice([None, [], ["NOTES"], [None, "A"], ["NOTES", "The"]])
        ),
        lambda: RunRules({}, {}, chance.draw_number(), str.isupper, str.upper, str.upper),
        lambda: is_code(chance.draw.choice([None, "", "a1"])),
    ):
        with contextlib.suppress(REFUSED):
            call()


def call_filter(chance: RandomArguments, pages: tuple[Stored, Any]) -> None:
    """Call the methods of a filter over pages, some of which are changed at random."""
    stored = {encoding: dict(table_pages) for encoding, table_pages in pages[0].items()}
    state = list(pages[1][0])
    for _ in range(chance.draw.choice([0, 1, 1, 2, 20])):
        table_pages = stored[chance.draw.choice([encoding for encoding in ENCODINGS if stored[encoding]])]
        number = chance.draw.choice(list(table_pages))
        page = bytearray(table_pages[number])
        for _ in range(chance.draw.choice([1, 4, 30])):
            place = chance.draw.choice([chance.draw.randrange(12, 64), chance.draw.randrange(12, len(page))])
            page[place] = chance.draw.choice([0, 1, 2, 255, chance.draw.randrange(256)])
        table_pages[number] = bytes(page)
    if chance.draw.random() < 0.2:
        state[chance.draw.randrange(7)] = chance.draw_number()
    filter_ = Filter(stored, (tuple(state), pages[1][1]), writable=chance.draw.random() < 0.7)
    index = filter_.index
    names = [*chance.draw.sample(NAMES, 20), "absent", "", "y" * 600, "\ud800"]
    text = " ".join(chance.draw.sample(NAMES, 5)).encode() + chance.draw.randbytes(9)
    calls: list[Callable[[], object]] = [
        lambda: kernel.find_many(
            index, names, chance.draw_array("u4", len(names)), chance.draw_array("u8", len(names))
        ),
        lambda: kernel.list_addresses_below(index, names, chance.draw_number()),
        lambda: kernel.count_candidates(index, chance.draw_array("u8", 300)),
        lambda: kernel.recognize(index, chance.draw.choice([text, b"", None]), chance.draw_number()),
        lambda: kernel.find_occurrences(
            text, chance.draw.choice([b"name 1", "naïve".encode(), b"", b" ", None]), chance.draw_number()
        ),
        lambda: kernel.select_longest(chance.draw_small_array("i8", 5, 9), chance.draw_small_array("i8", 5, 20)),
        lambda: index.find(chance.draw_text()),
        lambda: index.look_up(chance.draw.choice(names), chance.draw_number(), chance.draw_number()),
        lambda: index.list_records(chance.draw_number()),
        lambda: index.insert_many([f"new {number}" for number in range(300)], np.arange(9000, 9300, dtype=np.uint32)),
        lambda: index.insert_many([chance.draw_text()], chance.draw_array("u4", 1)),
        lambda: [index.delete(name) for name in names],
        lambda: [index.change_addresses([name], [chance.draw_array("u8", 50)], True) for name in names],
        lambda: index.change_addresses(names, [make_u64(*range(90)) for _ in names], chance.draw.random() < 0.5),
        lambda: [index.add_hits(name, chance.draw_number(), True) for name in names],
        lambda: [
            name
            for table in filter_.tables
            for name in (table.count_loaded(), table.list_used([1]), table.take_changed())
        ],
        lambda: filter_.tables[chance.draw.randrange(4)].get_page(chance.draw_number()),
        lambda: kernel.PageCheck(index, [1, 2, 3], [1, 2, 3, chance.draw_number()]),
    ]
    for call in chance.draw.sample(calls, 9):
        try:
            call()
        except (*REFUSED, Damage):
            pass


CALLERS = [
    call_parse,
    call_packed_numbers,
    call_postings,
    call_word_scores,
    call_rows,
    call_products,
    call_vector_rows,
    call_places,
    call_push,
    call_layers,
    call_words,
    call_runs,
]


@pytest.mark.parametrize("call_kernel", CALLERS)
def test_any_arguments_are_accepted_or_refused(call_kernel: Callable[[RandomArguments], None]) -> None:
    for seed in range(ROUNDS):
        with contextlib.suppress(REFUSED):
            call_kernel(RandomArguments(seed))


def test_any_pages_are_read_or_refused(pages: tuple[Stored, Any]) -> None:
    for seed in range(ROUNDS):
        try:
            call_filter(RandomArguments(seed), pages)
        except (*REFUSED, Damage):
            pass
