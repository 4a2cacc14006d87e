"""Stored texts: what was put in comes out, whole and in slices, however it was kept."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstore import Store
from kvstore.errors import CorruptionError
from kvstore.storage import records
from kvstore.storage.environment import Environment
from kvstore.structures import tables
from kvstore.structures.documents.documents import DocumentRecord, Documents, DocumentWriter
from kvstore.structures.documents.stored_texts import MAX_COMPRESSED_TEXT, decode_stored_text
from kvstore.structures.documents.stored_texts import encode_stored_text as encoded


@given(text=st.text().map(str.encode) | st.binary() | st.integers(0, 70_000).map(lambda size: b"tea " * (size // 4)))
def test_a_text_is_restored_and_takes_at_most_one_byte_more(text: bytes) -> None:
    stored = encoded(text)
    assert decode_stored_text(memoryview(stored), b"key") == text
    assert len(stored) <= len(text) + 1
    assert len(text) <= MAX_COMPRESSED_TEXT or stored[1:] == text


def test_a_short_text_pays_for_no_frame_and_one_in_a_frame_is_read() -> None:
    text = b"Captain Reid wrote of Pier 1 that its stones came over the water, and of Pier 2 that its stones did not."
    framed = zlib.compress(text)
    assert len(encoded(text)) == 1 + len(framed) - 6
    assert decode_stored_text(memoryview(b"\x01" + framed), b"key") == text


@pytest.mark.parametrize("stored", [b"", b"\x03abc", b"\x02\xff", b"\x02", b"\x01abc", b"\x01"])
def test_an_invalid_stored_text_is_damage(stored: bytes) -> None:
    with pytest.raises(CorruptionError, match="table texts, key 6b6579"):
        decode_stored_text(memoryview(stored), b"key")


@pytest.mark.parametrize("encoding", [b"\x01", b"\x02"])
def test_a_truncated_stream_is_damage_for_any_number_of_bytes_beyond_it(encoding: bytes) -> None:
    text = b"Captain Reid wrote of Pier 1 that its stones came over the water, and of Pier 2 that its stones did not."
    body = zlib.compress(text) if encoding == b"\x01" else encoded(text)[1:]
    truncated, complete = memoryview(encoding + body[:-12]), memoryview(encoding + body)
    readable = len(zlib.decompressobj(15 if encoding == b"\x01" else -15).decompress(body[:-12]))
    for max_bytes in range(len(text) + 2):
        assert decode_stored_text(complete, b"key", max_bytes).startswith(text[:max_bytes])
        if max_bytes <= readable:
            assert decode_stored_text(truncated, b"key", max_bytes).startswith(text[:max_bytes])
        else:
            with pytest.raises(CorruptionError, match="table texts, key 6b6579"):
                decode_stored_text(truncated, b"key", max_bytes)


def test_slices_are_those_of_the_text(tmp_path: Path) -> None:
    choose = random.Random(1)
    noise = "".join(chr(choose.randrange(32, 127)) for _ in range(MAX_COMPRESSED_TEXT + 10))
    sizes = (1, 500, MAX_COMPRESSED_TEXT - 1, MAX_COMPRESSED_TEXT, MAX_COMPRESSED_TEXT + 1, MAX_COMPRESSED_TEXT + 10)
    texts = [kind[:size] for size in sizes for kind in (noise, "ab" * len(noise))]
    with Environment.open(tmp_path / "store") as environment:
        with environment.write() as view:
            writer = DocumentWriter(view)
            for number, text in enumerate(texts, 1):
                record = DocumentRecord(number, f"d{number}", None, None, "text", {}, bytes(16), len(text), 0)
                writer.put(record, text.encode(), [])
                assert writer.read_text(number) == text.encode()
            writer.remove([record])
            with pytest.raises(CorruptionError, match="no stored text"):
                writer.read_text(record.id)
        with environment.snapshot() as snapshot:
            documents = Documents(snapshot)
            for number, text in enumerate(texts[:-1], 1):
                for _ in range(5):
                    start, end = sorted(choose.choices(range(len(text) + 1), k=2))
                    assert documents.read_text_slice(number, start, end) == text[start:end]
                with pytest.raises(CorruptionError, match="so bytes 0 to .* do not exist"):
                    documents.read_text_slice(number, 0, len(text) + 1)
                assert documents.read_text(number) == text.encode()


def test_a_short_text_is_compressed_in_a_store(make_store: Callable[..., Store]) -> None:
    store = make_store()
    text = "Tea from Darjeeling goes to the harbour, and tea from Assam goes to the harbour too. " * 4
    store.put("tea", text)
    with store.snapshot() as snapshot:
        value = snapshot._state.lmdb.get(tables.TEXTS, records.encode_u64(1))
        assert value is not None
        assert len(value) < len(text) / 2
    document = store.get("tea")
    assert document is not None
    assert document.text == text


def test_an_ordinal_leads_to_the_id_of_its_chunk(store: Store) -> None:
    sections = "".join(f"# Pier {number}\n\n" + "The tide turns. " * 40 * number + "\n\n" for number in range(1, 5))
    store.put("piers", sections, format="markdown")
    with store.state() as state:
        record = state.documents.find_by_key("piers")
        assert record is not None
        assert len(record.groups) > 1
        assert [record.get_chunk_id(ordinal) for ordinal in range(record.chunk_count)] == list(record.chunk_ids())
        with pytest.raises(IndexError):
            record.get_chunk_id(record.chunk_count)
