"""Mutated files and mutated records: documents or an error of ours, never another exception, never a wrong value."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples

import kvstore
from kvstore.errors import CorruptionError, ReaderError
from kvstore.readers import RawDocument, RawFact, ReadFailure, SkippedPart, read_bytes
from kvstore.storage import records

FEW, MANY = 60, 3000

ROWS = b'id,title,text,year\r\na,"One, two","Port Ellen\nhas a pier.",1900\r\nb,,Captain Reid.,\r\n'
LINES = b'{"id": "a", "title": "T", "text": "Port Ellen.", "year": 1900}\n{"text": "Captain \\u00e9 Reid."}\n'
TRIPLES = b'{"id": "a", "triples": [["Port Ellen", "has", "a pier"]], "entities": ["Reid"]}\n'
MARKDOWN = (
    b"---\ntitle: Piers\nyear: 1900\n---\n# Piers\n\nText *with* `code`.\n\n- a\n  - b\n\n"
    b"| a | b |\n|---|---|\n| 1 | 2 |\n"
)
HTML = (
    b"<!doctype html><html><head><title>Piers</title><meta charset=utf-8></head><body><nav>Home</nav><main><h1>Piers"
    b"</h1><p>Port &amp; <b>Ellen</b></p><table><tr><th>a<td>b</table><ul><li>x<ul><li>y</ul></ul><pre>z</pre></main>"
)


def make_pdf() -> bytes:
    pypdf = pytest.importorskip("pypdf")
    writer = pypdf.PdfWriter()
    page = writer.add_blank_page(200, 200)
    stream = pypdf.generic.DecodedStreamObject()
    stream.set_data(b"BT /F1 12 Tf 20 100 Td (Port Ellen has a pier.) Tj ET")
    name, dictionary = pypdf.generic.NameObject, pypdf.generic.DictionaryObject
    font = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
    font_object = dictionary({name(key): name(value) for key, value in font.items()})
    page[name("/Contents")] = writer._add_object(stream)
    page[name("/Resources")] = dictionary({name("/Font"): dictionary({name("/F1"): font_object})})
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


def make_docx() -> bytes:
    docx = pytest.importorskip("docx")
    document = docx.Document()
    document.add_heading("Piers", 1)
    document.add_paragraph("Port Ellen has a pier.")
    document.add_table(1, 2).cell(0, 0).text = "cell"
    packed, unpacked = io.BytesIO(), io.BytesIO()
    document.save(packed)
    # Not compressed, so that a changed byte is one of the XML and not of the packing alone.
    with zipfile.ZipFile(packed) as source, zipfile.ZipFile(unpacked, "w", zipfile.ZIP_STORED) as target:
        for name in source.namelist():
            target.writestr(name, source.read(name))
    return unpacked.getvalue()


SAMPLES: dict[str, Callable[[], bytes]] = {
    "text": lambda: "Port Ellen, é.\r\nA pier.".encode(),
    "markdown": lambda: MARKDOWN,
    "html": lambda: HTML,
    "csv": lambda: ROWS,
    "pairs": lambda: b"child,parent\nTug,Ship\nShip,Vessel\n",
    "jsonl": lambda: LINES,
    "triples": lambda: TRIPLES,
    "pdf": make_pdf,
    "docx": make_docx,
}

#: What may end up in a file that was cut, joined or written by a bad program.
PIECES = [b"\0", b'"', b"<", b"</", b"<table>", b"&#x110000;", b"\xff\xfe", b"{" * 50, b"[" * 2000, b"obj", b"-1"]

#: What is done to bytes: at a place (as a share of the length), so many bytes are replaced by others.
mutations = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.integers(0, 12),
        st.one_of(
            st.binary(max_size=8),
            st.sampled_from(PIECES),
        ),
    ),
    min_size=1,
    max_size=6,
)


def mutate(data: bytes, changes: list[tuple[float, int, bytes]]) -> bytes:
    for share, size, put in changes:
        at = int(share * len(data))
        data = data[:at] + put + data[at + size :]
    return data


def assert_read_or_refused(format: str, changes: list[tuple[float, int, bytes]]) -> None:
    try:
        for item in read_bytes(mutate(SAMPLE[format], changes), "file", format):
            assert isinstance(item, (RawDocument, RawFact, ReadFailure, SkippedPart))
    except ReaderError as error:
        assert str(error)


SAMPLE: dict[str, bytes] = {}


@pytest.fixture(params=SAMPLES)
def format(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    SAMPLE.setdefault(name, SAMPLES[name]())
    return name


def test_the_samples_are_read_unchanged(format: str) -> None:
    assert any(isinstance(item, (RawDocument, RawFact)) for item in read_bytes(SAMPLE[format], "file", format))


@settings(max_examples=FEW, deadline=None, suppress_health_check=list(HealthCheck))
@given(changes=mutations)
def test_mutated_files_are_read_or_refused(format: str, changes: list[tuple[float, int, bytes]]) -> None:
    assert_read_or_refused(format, changes)


@pytest.mark.slow
@settings(max_examples=MANY, deadline=None, suppress_health_check=list(HealthCheck))
@given(changes=mutations)
def test_many_mutated_files_are_read_or_refused(format: str, changes: list[tuple[float, int, bytes]]) -> None:
    assert_read_or_refused(format, changes)


def test_a_document_that_unpacks_to_more_than_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("word/document.xml", b"0" * (4 << 20))
    assert len(bomb.getvalue()) < 1 << 16
    pytest.importorskip("docx")
    monkeypatch.setattr("kvstore.readers.packages.MAX_UNPACKED_BYTES", 1 << 20)
    with pytest.raises(ReaderError, match="unpacks to"):
        list(read_bytes(bomb.getvalue(), "bomb.docx"))


def test_a_file_over_the_limit_is_refused_unread(tmp_path: Path, store: kvstore.Store) -> None:
    with (tmp_path / "huge.html").open("wb") as file:
        file.write(b"<p>A page.")
        file.truncate(300 << 20)
    assert "the limit for this format is" in store.ingest(tmp_path / "huge.html", workers=0).failures[0].reason


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=num_examples(200), deadline=None)
@given(value=plain_values, changes=mutations)
def test_a_mutated_record_is_the_same_or_known_to_be_damaged(
    value: Any, changes: list[tuple[float, int, bytes]]
) -> None:
    packed = records.pack(value)
    assert records.unpack(packed, "table", b"key") == value
    damaged = mutate(packed, changes)
    try:
        assert records.unpack(damaged, "table", b"key") == value
        assert damaged == packed
    except CorruptionError as error:
        assert "table" in str(error)


@settings(max_examples=num_examples(200), deadline=None)
@given(payload=st.binary(max_size=200))
@example(payload=b"\x81\x90\x00")  # a map whose key is a list
def test_sealed_bytes_of_any_kind_are_decoded_or_known_to_be_damaged(payload: bytes) -> None:
    try:
        records.unpack(records.seal(payload), "table", b"key")
    except CorruptionError as error:
        assert "not msgpack" in str(error)
