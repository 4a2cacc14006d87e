"""Export and import: a file from which a store arises again, read line by line."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples

import kvstore
from kvstore import errors
from kvstore.changes.dump import dump

HEADER = {"format": "kvstore-export", "version": 1, "settings": {}}
TEA = {"document": "tea", "format": "text", "text": "Tea is made from leaves."}


def dump_contents(store: kvstore.Store) -> dict:
    assert store.check() == []
    with store.snapshot() as snapshot:
        return dump(snapshot._state)


def write_lines(path: Path, *lines: Any) -> Path:
    texts = (line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    path.write_bytes(b"\n".join(texts) + b"\n")
    return path


def fill_store(store: kvstore.Store) -> None:
    store.put(
        "ß/é", 'Line one.\n\n"Quoted", \\ and \x00 and \u2028 here.', title="Ünï", source="x", meta={"a": [1, None]}
    )
    store.put("fleet", "Tug,Ship\n", format="pairs", meta={"tree": "fleet"})
    store.put("city", "# New York\n\nNew York has five boroughs.", format="markdown")
    store.put_edge("tug", "ship", tree="fleet")
    store.put_edge("Anchor", "tug", tree="fleet")
    store.alias("Big Apple", "New York")
    store.merge("Anchor", "Tug")


def test_the_file_holds_everything_in_order(store: kvstore.Store, tmp_path: Path) -> None:
    fill_store(store)
    report = store.export(tmp_path / "out.jsonl")
    assert (report.documents, report.edges, report.aliases) == (3, 2, 2)
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_bytes().split(b"\n")[:-1]]
    assert lines[0] == {**HEADER, "settings": lines[0]["settings"], "lines": 7}
    assert lines[0]["settings"]["embedder"] == store.settings.embedder
    assert [line["document"] for line in lines[1:4]] == ["city", "fleet", "ß/é"]
    assert lines[3] == {
        "document": "ß/é",
        "title": "Ünï",
        "source": "x",
        "meta": {"a": [1, None]},
        "format": "text",
        "text": 'Line one.\n\n"Quoted", \\ and \x00 and \u2028 here.',
    }
    assert lines[4:] == [
        {"edge": "Anchor", "parent": "tug", "tree": "fleet"},
        {"edge": "tug", "parent": "ship", "tree": "fleet"},
        {"alias": "Anchor", "entity": "Tug", "kind": "merge"},
        {"alias": "Big Apple", "entity": "New York", "kind": "alias"},
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "store"], "nothing is left beside it"


def test_a_copy_holds_the_same_and_exports_the_same_file(make_store: Any, tmp_path: Path) -> None:
    original, copy = make_store("original"), make_store("copy")
    fill_store(original)
    original.export(tmp_path / "first.jsonl")
    report = copy.import_(tmp_path / "first.jsonl")
    assert (report.documents, report.edges, report.aliases, report.unchanged) == (3, 2, 2, 0)
    assert dump_contents(copy) == dump_contents(original)
    copy.export(tmp_path / "second.jsonl")
    assert (tmp_path / "first.jsonl").read_bytes() == (tmp_path / "second.jsonl").read_bytes()
    again = copy.import_(tmp_path / "first.jsonl")
    assert (again.documents, again.edges, again.aliases, again.unchanged) == (0, 0, 0, 7)


@pytest.mark.parametrize("num_lines", range(1, 8))
def test_a_file_cut_off_after_a_line_imports_nothing(make_store: Any, tmp_path: Path, num_lines: int) -> None:
    original, copy = make_store("original"), make_store("copy")
    fill_store(original)
    original.export(tmp_path / "whole.jsonl")
    lines = (tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(b"".join(lines[:num_lines]))
    with pytest.raises(errors.InputError, match=rf"wrote 7 lines .* has {num_lines - 1}, .* \(nothing was imported\)"):
        copy.import_(cut)
    cut.write_bytes(b"".join(lines[:num_lines]) + lines[num_lines][:-2])  # within a line
    with pytest.raises(errors.InputError, match=rf"wrote 7 lines .* has {num_lines - 1}, .* \(nothing was imported\)"):
        copy.import_(cut)
    assert copy.keys() == []
    # An export of an earlier version, and one whose lines were deleted on purpose.
    header = json.loads(lines[0])
    del header["lines"]
    cut.write_bytes(b"".join([json.dumps(header).encode() + b"\n", *lines[1:num_lines]]))
    assert copy.import_(cut).documents == min(num_lines - 1, 3)
    # A missing last line end loses nothing.
    cut.write_bytes(b"".join(lines).rstrip(b"\n"))
    copy.import_(cut)
    assert dump_contents(copy) == dump_contents(original)


def test_an_import_replaces_documents_with_the_same_key_only(make_store: Any, tmp_path: Path) -> None:
    original, other = make_store("original"), make_store("other")
    fill_store(original)
    original.export(tmp_path / "out.jsonl")
    other.put("city", "Something else.")
    other.put("more", "Gotham is a city.", title="Gotham")
    other.alias("Big Apple", "Gotham")
    other.import_(tmp_path / "out.jsonl")
    assert other.keys() == ["city", "fleet", "more", "ß/é"]
    assert {row.entity for row in other.lookup("big apple")} == {"New York"}


numbers = st.floats(-1e3, 1e3, width=32)
vector = st.lists(numbers, min_size=3, max_size=3).filter(lambda row: sum(map(abs, row)) > 1e-3)


@pytest.mark.slow
@settings(max_examples=num_examples(30), deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 60), st.booleans(), vector), max_size=5))
def test_own_vectors_are_restored_bit_for_bit(documents: list) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (
            kvstore.open(folder / "one", embedder="none:3", settings={"chunk_tokens": 16}) as original,
            kvstore.open(folder / "two", embedder="none:3", settings={"chunk_tokens": 16}) as imported,
        ):
            for key, sentences, has_row_vectors, row in documents:
                text = "Every word counts here. " * sentences
                original.put(key, text, vectors=row)
                document = original.get(key)
                assert document is not None
                if has_row_vectors:
                    rows = [[row[0] + number, *row[1:]] for number in range(document.chunks)]
                    if all(sum(map(abs, row)) > 1e-3 for row in rows):
                        original.put(key, text, vectors=rows)
            original.export(folder / "out.jsonl")
            imported.import_(folder / "out.jsonl")
            assert dump_contents(imported) == dump_contents(original)
            stored = [
                [
                    (hit.document, hit.ordinal, hit.score)
                    for hit in s.search("?", using="vector", vector=[1, 2, 3], top=99)
                ]
                for s in (original, imported)
            ]
            assert stored[0] == stored[1]
            imported.export(folder / "again.jsonl")
        assert (folder / "out.jsonl").read_bytes() == (folder / "again.jsonl").read_bytes()


def test_other_settings_are_accepted_except_for_vectors_of_the_user(make_store: Any, tmp_path: Path) -> None:
    own_vectors = make_store("given", embedder="none:3")
    own_vectors.put("x", "First of all.", vectors=[1, 0, 0])
    own_vectors.export(tmp_path / "vectors.jsonl")
    original = make_store("original", settings={"chunk_tokens": 40})
    fill_store(original)
    original.export(tmp_path / "plain.jsonl")
    other = make_store("other", embedder="hashing:16", settings={"chunk_tokens": 16})
    other.import_(tmp_path / "plain.jsonl")
    assert other.keys() == original.keys()
    with pytest.raises(errors.InputError, match=r"vectors.jsonl, line 2: document 'x': the store's vectors"):
        other.import_(tmp_path / "vectors.jsonl")


def test_the_last_of_several_equal_keys_in_one_file_counts(store: kvstore.Store, tmp_path: Path) -> None:
    store.put("tea", "Tea is made from leaves.")
    report = store.import_(write_lines(tmp_path / "in.jsonl", HEADER, {**TEA, "text": "No."}, b"", TEA))
    assert (report.documents, report.unchanged) == (0, 2)
    document = store.get("tea")
    assert document is not None
    assert document.text == TEA["text"]


def test_aliases_are_restored_with_known_and_unknown_entities(make_store: Any, tmp_path: Path) -> None:
    original, copy = make_store("original"), make_store("copy")
    original.put("city", "# New York\n\nNew York has five boroughs.", format="markdown")
    original.alias("Big Apple", "New York")
    original.alias("Apple", "big apple")
    original.merge("New York", "boroughs") if original.lookup("boroughs") else None
    original.delete("city")
    original.export(tmp_path / "out.jsonl")
    copy.import_(tmp_path / "out.jsonl")
    assert copy.aliases() == original.aliases() != []
    assert dump_contents(copy) == dump_contents(original)


BAD = [
    ([], "line 1: not JSON"),
    ([b"\xff\xfe"], "line 1: not JSON"),
    ([{"format": "other"}], "line 1: an export begins with"),
    ([{**HEADER, "version": 2}], "line 1: this export has version 2"),
    ([HEADER, b"{"], "line 2: not JSON"),
    ([HEADER, b"[1]"], "line 2: this line is not a JSON object"),
    ([HEADER, {"name": "x"}], "line 2: the line has none of the fields document, triples, edge, alias"),
    ([HEADER, {**TEA, "text": 5}], "line 2: the field 'text' is missing, unknown or"),
    (
        [HEADER, {"document": "tea", "format": "text"}],
        "line 2: the field 'text' is missing, unknown or of the wrong type",
    ),
    (
        [HEADER, {**TEA, "titel": "x"}],
        "line 2: the field 'titel' is missing, unknown or of the wrong type; the fields are",
    ),
    ([HEADER, {**TEA, "text": " "}], "line 2: document 'tea' is empty"),
    ([HEADER, {**TEA, "format": "html"}], "line 2: .*format must be one of"),
    ([HEADER, {**TEA, "meta": {"n": 2**70}}], "line 2: document 'tea': invalid metadata field 'n': .* 64 bits"),
    (
        [HEADER, b'{"document": "tea", "format": "text", "text": "x", "meta": {"n": Infinity}}'],
        "line 2: document 'tea': invalid metadata field 'n': infinity is not a JSON value",
    ),
    ([HEADER, {**TEA, "title": "\ud800"}], "line 2: .*must be strings, and its metadata must be JSON values"),
    ([HEADER, {**TEA, "left_out": 2**70}], "line 2: left_out takes 0 to"),
    (
        [HEADER, {**TEA, "format": "pairs", "text": "x" * 200_000}],
        "line 2: (pairs must be lines of CSV|a pair must have two names)",
    ),
    ([HEADER, {**TEA, "vectors": [["a"]]}], "line 2: document 'tea': vectors must be rows of"),
    ([HEADER, {**TEA, "vectors": [[10**400]]}], "line 2: document 'tea': vectors must be rows of"),
    ([HEADER, {"edge": "Tug", "parent": "tug", "tree": "t"}], "line 2: 'Tug' cannot be its own parent"),
    ([HEADER, {"edge": "\ud800", "parent": "tug", "tree": "t"}], "line 2: .*surrogate"),
    ([HEADER, {"edge": "Tug", "parent": "Ship"}], "line 2: the field 'tree' is missing, unknown or of the wrong type"),
    ([HEADER, {"alias": "a", "entity": "b", "kind": "c"}], "line 2: the kind of an alias must be"),
    (
        [HEADER, {"alias": "a", "entity": "b", "kind": "alias"}, {"alias": "b", "entity": "A", "kind": "merge"}],
        "line 3: 'A' is already an alias of 'b'",
    ),
]


@pytest.mark.parametrize(("lines", "message"), BAD)
def test_bad_lines_are_named(store: kvstore.Store, tmp_path: Path, lines: list, message: str) -> None:
    path = write_lines(tmp_path / "in.jsonl", *lines)
    with pytest.raises(errors.InputError, match=rf"in.jsonl, {message}.* \(nothing was imported\)$"):
        store.import_(path)
    assert store.keys() == []
    assert store.aliases() == []


def test_a_file_of_one_table_is_not_imported(store: kvstore.Store, tmp_path: Path) -> None:
    with pytest.raises(errors.InputError, match=r"the export of a single table .* use a file that EXPORT TO"):
        store.import_(tmp_path / "chunks.parquet")


def test_batches_before_a_bad_line_stay_stored(
    store: kvstore.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstore.database.exchange._BATCH_LINES", 3)
    lines = [{**TEA, "document": f"tea {number}"} for number in range(8)]
    with pytest.raises(errors.InputError, match=r"line 10: not JSON.*\(lines 2 to 7 were imported\)$"):
        store.import_(write_lines(tmp_path / "in.jsonl", HEADER, *lines, b"oops"))
    assert store.keys() == [f"tea {number}" for number in range(6)]


def test_a_line_beyond_the_limit_is_not_read_to_its_end(
    store: kvstore.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstore.database.exchange._MAX_LINE", 1000)
    path = write_lines(tmp_path / "in.jsonl", HEADER, {**TEA, "text": "a" * 2000})
    with pytest.raises(
        errors.InputError, match=r"line 2: has more than 1,000 bytes, the limit for a line; .*imported\)$"
    ):
        store.import_(path)
    path.write_bytes(b"\0" * 2000)
    with pytest.raises(errors.InputError, match="line 1: has more than 1,000 bytes"):
        store.import_(path)
    store.import_(write_lines(tmp_path / "short.jsonl", HEADER, TEA))
    assert store.keys() == [TEA["document"]]


def test_paths_that_do_not_fit_are_refused(store: kvstore.Store, tmp_path: Path) -> None:
    store.put("tea", "Tea is made from leaves.")
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(errors.InputError, match="already exists"):
        store.export(tmp_path / "taken")
    assert (tmp_path / "taken").read_text() == "mine"
    with pytest.raises(errors.InputError, match="does not exist; create it first"):
        store.export(tmp_path / "missing" / "out.jsonl")
    with pytest.raises(errors.StoreFullError, match="cannot be written"):
        store.export(tmp_path / ("x" * 250))
    os.mkfifo(tmp_path / "pipe")
    os.symlink("/dev/full", tmp_path / "device")
    for path in (tmp_path / "missing", tmp_path, tmp_path / "pipe", tmp_path / "device", Path("/dev/full")):
        with pytest.raises(errors.InputError, match="cannot be read"):
            store.import_(path)


def test_a_readonly_store_exports_and_does_not_import(tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "s", embedder="hashing") as store:
        fill_store(store)
    with kvstore.open(tmp_path / "s", readonly=True) as store:
        store.export(tmp_path / "out.jsonl")
        for change in (
            lambda: store.import_(tmp_path / "out.jsonl"),
            lambda: store.put_edge("a", "b"),
            lambda: store.delete_edge("tug", "ship", tree="fleet"),
            lambda: store.alias("a", "tug"),
            lambda: store.drop_alias("big apple"),
            lambda: store.merge("tug", "ship"),
            lambda: store.unmerge("anchor"),
        ):
            with pytest.raises(errors.ReadOnlyError, match="read-only"):
                change()
