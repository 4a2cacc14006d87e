"""FORMAT.md says what is on disk: every table, the worked examples, the sizes."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from dataclasses import fields
from importlib.resources import files

import kvstore
from kvstore.derived.passage_graph.graph import ENTITIES_PER_PAGE
from kvstore.extraction.validation import compute_digest
from kvstore.registry import get_buffered_tables, list_store_tables
from kvstore.settings import FixedSettings
from kvstore.storage import records
from kvstore.structures.counters import Counters
from kvstore.structures.documents.chunks import AbstractRecord, ChunkRecord
from kvstore.structures.documents.documents import DocumentRecord
from kvstore.structures.documents.stored_texts import encode_stored_text
from kvstore.structures.filter import addresses
from kvstore.structures.names.entities import KINDS
from kvstore.structures.vectors.vectors import ENCODING, compute_block_shape
from kvstore_cext.compact import pack_numbers
from kvstore_cext.patches import apply_patch, make_patch

FORMAT = files("kvstore.storage").joinpath("FORMAT.md").read_text(encoding="utf-8")


def test_every_table_is_described() -> None:
    assert set(re.findall(r"`([a-z_]+)`", FORMAT)) >= {table.name for table in list_store_tables()}


def test_every_table_of_a_filled_store_is_listed(store: kvstore.Store) -> None:
    store.put("tea", "# Tea\n\nRobert Fortune brought tea to Darjeeling.", title="Tea", format="markdown")
    store.put("kinds", "Tug,Ship", format="pairs")
    with store.snapshot() as snapshot:
        stored = snapshot._state.lmdb.get_table_statistics()  # type: ignore[attr-defined]
        assert set(stored) <= {table.name for table in list_store_tables()}


def test_the_tables_without_the_change_buffer_are_listed() -> None:
    (listed,) = re.findall(r"^These tables bypass the change buffer: ([^.]*)\.$", FORMAT, re.M)
    assert set(re.findall(r"`(\w+)`", listed)) == {table.name for table in list_store_tables()} - get_buffered_tables()


def test_patches_are_as_in_the_example() -> None:
    before, after = b"tea from Darjeeling, 1848", b"Green tea from Darjeeling, 1849"
    described = "19 1f 06 47 72 65 65 6e 20 18 0b 01 39"
    assert f"`{before.decode()}` becomes `{after.decode()}` by the patch `{described}`" in " ".join(FORMAT.split())
    assert apply_patch(before, bytes.fromhex(described)) == after
    assert make_patch(before, after) == bytes.fromhex(described)


def test_worked_examples_hold() -> None:
    assert records.pack(1).hex(" ") == "01 1b df 05 a5"
    assert "`01 1b df 05 a5`" in FORMAT
    assert zlib.crc32(b"\x01") == 0xA505DF1B
    assert encode_stored_text(b"tea").hex(" ") == "00 74 65 61"
    assert "`00 74 65 61`" in FORMAT
    assert f"{addresses.make_address(addresses.compute_body_rank(2), 7):016x}" == "3e00000000000007"
    assert "`3e00000000000007`" in FORMAT


def read_fields(table: str, kind: str = "field") -> list[str]:
    """Return the fields (or entries) of a record that FORMAT.md lists for a table, in order."""
    (rows,) = re.findall(rf"^\| {kind} of `{table}` \| content \|\n\|[-|]+\n((?:\|.*\n)+)", FORMAT, re.M)
    return [name for row in rows.splitlines() for name in re.findall(r"`(\w+)`", row.split(" | ")[0])]


def test_records_have_the_listed_fields_in_order() -> None:
    assert read_fields("documents") == [field.name for field in fields(DocumentRecord)][1:]
    assert read_fields("chunks") == list(ChunkRecord._fields)
    assert read_fields("abstracts") == [field.name for field in fields(AbstractRecord)]
    assert "Kinds of introductions: " + ", ".join(f"{number} `{kind}`" for number, kind in enumerate(KINDS)) in FORMAT


def test_the_maps_in_meta_have_the_listed_entries() -> None:
    (settings,) = re.findall(r"^\| `settings` \| (.*) \|$", FORMAT, re.M)
    assert re.findall(r"`(\w+)`", settings) == [field.name for field in fields(FixedSettings)]
    assert read_fields("counters", "entry") == [field.name for field in fields(Counters)]


def test_the_digest_of_a_document_is_the_described_one() -> None:
    head = json.dumps(["Tea", None, {"b": 1, "a": "é"}, "text", 0], sort_keys=True, ensure_ascii=False).encode()
    described = hashlib.blake2b(len(head).to_bytes(8, "big") + head + b"tea", digest_size=16).digest()
    assert compute_digest("Tea", None, {"a": "é", "b": 1}, "text", b"tea") == described


def test_distances_are_as_in_the_example() -> None:
    assert pack_numbers([7, 8, 308]).hex(" ") == "07 01 ac 02"
    assert "`01 ac 02`" in FORMAT


def test_sizes_are_those_described() -> None:
    assert compute_block_shape(384) == (5 * 4096 - 16, 13)
    assert ENCODING.decode() in FORMAT
    assert ENTITIES_PER_PAGE == 509
    for rank in ("10", "18", "20", "28", "30", "3f"):
        assert f"`{rank}`" in FORMAT
