"""EXTRACT descriptions: what a model writes about entities is checked, shown, read by local, and gone with its text."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples
from model_server import Planned, Server, build_extract_answer

import kvstore
from kvstore import errors
from kvstore.changes.dump import dump
from kvstore.systems.descriptions.written_descriptions import WRITTEN_DESCRIPTIONS

MakeStore = Callable[..., kvstore.Store]

TEXTS = {
    "fortune": "Robert Fortune was born in Kelloe. He took tea plants to Darjeeling.",
    "acme": "Maria Jensen founded Acme Corporation with Robert Fortune. Tom Berg audits it.",
}
DESCRIPTIONS = {
    TEXTS["fortune"]: [
        ["Robert Fortune", "Robert Fortune was born in Kelloe."],
        ["Robert Fortune", "Robert Fortune took tea plants to Darjeeling."],
        ["Robert Fortune", "He took tea plants to Darjeeling."],
        ["Robert Fortune", "Robert Fortune founded Acme Corporation."],
        ["Darjeeling", "Robert Fortune was born in Kelloe."],
    ],
    TEXTS["acme"]: [["Maria Jensen", "Maria Jensen founded Acme Corporation."], ["Tom Berg", "Tom Berg audits it."]],
}
QUERY = "SELECT entity, text, document, written_by FROM descriptions ORDER BY document, text"


def write_descriptions(request: dict[str, Any]) -> Planned:
    return build_extract_answer(request, "descriptions", DESCRIPTIONS.__getitem__)


@pytest.fixture
def filled(store: kvstore.Store, server: Server) -> kvstore.Store:
    server.answering = write_descriptions
    for key, text in TEXTS.items():
        store.put(key, text)
    store.create_index("communities", {"least": 2})
    store.refresh("communities")
    return store


def rows(store: kvstore.Store, query: str) -> list[tuple[Any, ...]]:
    return store.execute(query).fetchall()


def contents(store: kvstore.Store) -> Any:
    with store.state() as state:
        return dump(state)


def test_supported_descriptions_are_stored_and_shown(filled: kvstore.Store, server: Server) -> None:
    steps = filled.explain("EXTRACT descriptions")
    assert [(step.name, step.count) for step in steps] == [("find passages", 2), ("choose", 2), ("ask model", 1)]
    assert server.requests == []
    ((kind, model, passages, *_),) = rows(filled, "EXTRACT descriptions")
    assert (kind, model, passages) == ("descriptions", "tiny", 2)
    assert rows(filled, QUERY) == [
        ("Maria Jensen", "Maria Jensen founded Acme Corporation.", "acme", "tiny"),
        ("Tom Berg", "Tom Berg audits it.", "acme", "tiny"),
        ("Robert Fortune", "Robert Fortune took tea plants to Darjeeling.", "fortune", "tiny"),
        ("Robert Fortune", "Robert Fortune was born in Kelloe.", "fortune", "tiny"),
    ]
    assert len(rows(filled, "SELECT text FROM descriptions WHERE document = 'acme'")) == 2
    assert filled.extract("descriptions").calls == 0
    assert dict(rows(filled, "DESCRIBE DOCUMENT 'acme'"))["written_descriptions"] in (2, "2")


def test_local_reads_them_from_the_allowed_documents(filled: kvstore.Store) -> None:
    question = "Where was Robert Fortune born?"
    assert filled.retrieve(question, using="local").context == []
    filled.extract("descriptions")
    lines = filled.retrieve(question, using="local").context
    born = "Robert Fortune was born in Kelloe."
    assert lines[:2] == ["Robert Fortune took tea plants to Darjeeling.", born]
    assert born not in filled.retrieve(question, using="local", where="key = 'acme'").context
    filled.put("fortune", "Robert Fortune wrote books.")
    assert born not in filled.retrieve(question, using="local").context


def test_an_export_has_them_and_a_wrong_line_is_reported(
    filled: kvstore.Store, make_store: MakeStore, tmp_path: Path
) -> None:
    filled.extract("descriptions")
    filled.drop_index("communities")
    path = tmp_path / "all.jsonl"
    filled.export(path)
    copy = make_store("copy")
    copy.import_(path)
    assert contents(copy) == contents(filled)
    with path.open("a") as file:
        print(json.dumps({"descriptions": "acme", "passages": [[None, "given", ["no tab"]]]}), file=file)
    with pytest.raises(errors.InputError, match="a description is a name, a tab and a sentence"):
        copy.import_(path)


WORDS = st.sampled_from(["Ada Lovelace met Charles Babbage.", "Ada Lovelace wrote notes.", "Tea grows in Assam."])
CHANGES = st.lists(
    st.tuples(st.sampled_from(["put", "describe", "delete"]), st.sampled_from("abc"), WORDS), min_size=1, max_size=12
)


@settings(max_examples=num_examples(100), deadline=None)
@given(CHANGES)
def test_descriptions_are_dropped_with_their_text(changes: list[tuple[str, str, str]]) -> None:
    """After any changes, a store equals a new one of the surviving texts and of what was written about them."""
    texts: dict[str, str] = {}
    described: dict[str, list[str]] = {}
    options: dict[str, Any] = {"embedder": "hashing:16", "settings": {"language": "rules"}}

    def describe(store: kvstore.Store, key: str, lines: list[str]) -> None:
        with store.transaction() as transaction:
            transaction._put_fact(WRITTEN_DESCRIPTIONS, key, WRITTEN_DESCRIPTIONS.parse_fields([[None, "tiny", lines]]))

    with (
        tempfile.TemporaryDirectory() as folder,
        kvstore.open(Path(folder) / "old", **options) as store,
        kvstore.open(Path(folder) / "new", **options) as new,
    ):
        for action, key, words in changes:
            if action == "put":
                if texts.get(key) != words:
                    described.pop(key, None)
                texts[key] = words
                store.put(key, words)
            elif key in texts and action == "delete":
                store.delete(key)
                del texts[key]
                described.pop(key, None)
            elif key in texts:
                described[key] = [f"Ada Lovelace\t{words}"]
                describe(store, key, described[key])
        for key, text in texts.items():
            new.put(key, text)
        for key, lines in described.items():
            describe(new, key, lines)
        assert contents(store) == contents(new)
        shown = {document for (document,) in rows(store, "SELECT document FROM descriptions")}
        assert shown == described.keys()
        assert store.check() == []
