"""EXTRACT triples: what a model writes joins entities, goes with its text, and stays apart from imported triples."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from model_server import PlannedResponse, Server, build_extract_answer, list_quoted_texts

import kvstore
from kvstore import errors
from kvstore.changes.dump import dump

MakeStore = Callable[..., kvstore.Store]

TEXTS = {
    "fortune": "Robert Fortune was born in Kelloe. He took tea plants to Darjeeling.",
    "acme": "Maria Jensen founded Acme Corporation. Tom Berg audits it.",
    "pier": "The light at the pier is red.",
}
TRIPLES = {
    TEXTS["fortune"]: [
        ["Robert Fortune", "was born in", "Kelloe"],
        ["Robert  Fortune", "took tea plants to", "Darjeeling"],
        ["Robert Fortune", "founded", "Acme Corporation"],
    ],
    TEXTS["acme"]: [["Maria Jensen", "founded", "Acme Corporation"], [" ", "audits", "it"]],
    TEXTS["pier"]: [["light", "is", "red"]],
}


def write_triples(request: dict[str, Any]) -> PlannedResponse:
    return build_extract_answer(request, "triples", TRIPLES.__getitem__)


@pytest.fixture
def filled_store(store: kvstore.Store, server: Server) -> kvstore.Store:
    server.respond = write_triples
    for key, text in TEXTS.items():
        store.put(key, text)
    return store


def fetch_rows(store: kvstore.Store, query: str) -> list[tuple[Any, ...]]:
    return store.execute(query).fetchall()


def dump_contents(store: kvstore.Store) -> Any:
    with store.state() as state:
        return dump(state)


def test_supported_triples_are_stored_and_join_entities(filled_store: kvstore.Store, server: Server) -> None:
    cursor = filled_store.execute("EXTRACT triples")
    ((kind, model, passages, copied, calls, *_, refused, left),) = cursor.fetchall()
    assert (kind, model, passages, copied, calls, refused, left) == ("triples", "tiny", 3, 0, 1, 0, 0)
    assert sorted(fetch_rows(filled_store, "SELECT document, subject, relation, object, written_by FROM triples")) == [
        ("acme", "Maria Jensen", "founded", "Acme Corporation", "tiny"),
        ("fortune", "Robert Fortune", "took tea plants to", "Darjeeling", "tiny"),
        ("fortune", "Robert Fortune", "was born in", "Kelloe", "tiny"),
        ("pier", "light", "is", "red", "tiny"),
    ]
    assert ("Maria Jensen", "founded", "Acme Corporation") in filled_store.triples("acme")
    assert fetch_rows(filled_store, "SELECT document FROM triples WHERE object = 'Kelloe'") == [("fortune",)]
    assert fetch_rows(filled_store, "SELECT document FROM triples WHERE object = 'red'") == [("pier",)]
    assert any(link.name == "Darjeeling" for link in filled_store.neighbours("Robert Fortune"))
    assert filled_store.extract("triples").calls == 0
    assert dict(fetch_rows(filled_store, "DESCRIBE DOCUMENT 'fortune'"))["written_triples"] in (2, "2")


def test_explain_counts_and_sends_nothing(filled_store: kvstore.Store, server: Server) -> None:
    steps = filled_store.explain("EXTRACT triples WHERE key < 'g'")
    assert [(step.name, step.count) for step in steps] == [("find passages", 2), ("choose", 2), ("ask model", 1)]
    assert "triples of subject, relation and object" in steps[2].detail and server.requests == []
    forecast = filled_store.forecast_extract("triples", where="key < 'g'")
    report = filled_store.extract("triples", within=forecast.tokens, by="random")
    assert 0 < report.sent <= forecast.tokens and report.passages == 2
    with pytest.raises(errors.InputError, match="did you mean triples"):
        filled_store.extract("triple")


def test_they_go_with_their_text_and_stay_apart_from_imported_ones(filled_store: kvstore.Store, server: Server) -> None:
    filled_store.put_triples(
        "fortune", [("Robert Fortune", "was born in", "Kelloe"), ("Robert Fortune", "knew", "Tom Berg")]
    )
    filled_store.extract("triples")
    query = "SELECT subject, relation, object, written_by FROM triples WHERE document = 'fortune'"
    assert fetch_rows(filled_store, query) == [
        ("Robert Fortune", "was born in", "Kelloe", None),
        ("Robert Fortune", "knew", "Tom Berg", None),
        ("Robert Fortune", "took tea plants to", "Darjeeling", "tiny"),
    ]
    filled_store.put_triples("fortune", [])
    assert {relation for _, relation, _, _ in fetch_rows(filled_store, query)} == {"was born in", "took tea plants to"}
    filled_store.put("fortune", "Robert Fortune wrote books.")
    assert fetch_rows(filled_store, query) == []
    filled_store.delete("acme")
    assert {document for (document,) in fetch_rows(filled_store, "SELECT document FROM triples")} == {"pier"}
    names = {name for (name,) in fetch_rows(filled_store, "SELECT name FROM entities")}
    assert names.isdisjoint({"Darjeeling", "Kelloe", "Maria Jensen"})


def test_an_export_has_them_and_history_does_not_matter(
    filled_store: kvstore.Store, make_store: MakeStore, server: Server, tmp_path: Path
) -> None:
    filled_store.put_triples("fortune", [("Robert Fortune", "was born in", "Kelloe")])
    filled_store.extract("triples")
    filled_store.export(tmp_path / "all.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert {line["written_triples"] for line in lines if "written_triples" in line} == set(TEXTS)
    copy = make_store("copy")
    copy.import_(tmp_path / "all.jsonl")
    assert dump_contents(copy) == dump_contents(filled_store)
    other = make_store("other")
    for key in reversed(TEXTS):
        other.put(key, "Something else first.")
        other.put(key, TEXTS[key])
        other.extract("triples", where=f"key = '{key}'")
    other.put_triples("fortune", [("Robert Fortune", "was born in", "Kelloe")])
    assert dump_contents(other) == dump_contents(filled_store)
    assert other.check() == []
    assert server.requests and all(len(list_quoted_texts(request)) in (1, 3) for request in server.requests)


def test_a_second_attempt_chooses_from_the_predicates_of_a_passage(store: kvstore.Store, server: Server) -> None:
    store.put("fortune", TEXTS["fortune"], title="Robert Fortune")

    def write(request: dict[str, Any]) -> PlannedResponse:
        """Answer with a triple of the example first, and then with one of what the schema allows."""
        schema = request["response_format"]["json_schema"]["schema"]["properties"]["passages"]["items"]
        triple = schema["properties"]["triples"]["items"]
        if triple["type"] == "array":
            return build_extract_answer(request, "triples", lambda text: [["Ann Lee", "founded", "choir of Rome"]])
        assert {name: schema["enum"] for name, schema in triple["properties"].items()} == {
            "subject": ["Robert Fortune"],
            "predicate": ["was born in | Kelloe", "took | tea plants"],
        }
        part = {"subject": "Robert Fortune", "predicate": "was born in | Kelloe"}
        return build_extract_answer(request, "triples", lambda text: [part])

    server.respond = write
    assert store.extract("triples").refused == 1
    assert store.triples("fortune") == [("Robert Fortune", "was born in", "Kelloe")]


def test_a_line_with_an_invalid_triple_is_reported(filled_store: kvstore.Store, tmp_path: Path) -> None:
    path = tmp_path / "wrong.jsonl"
    filled_store.export(path)
    with path.open("a") as file:
        print(json.dumps({"written_triples": "pier", "passages": [[None, "given", ["light is red"]]]}), file=file)
    with pytest.raises(errors.InputError, match="a triple is a subject, a relation and an object"):
        filled_store.import_(path)


def test_triples_of_unchanged_chunks_stay(store: kvstore.Store, make_store: MakeStore, server: Server) -> None:
    """A change of one section removes the triples of that section, and the store equals a new one."""
    filler = " ".join(f"Word{number} follows word{number + 1}." for number in range(20))
    names = ["Maria Jensen", "Tom Berg", "Anna Lind", "Carl Holm"]
    server.respond = lambda request: build_extract_answer(
        request, "triples", lambda text: [[text.partition(" leads ")[0].split("\n")[-1], "leads", "Port Office"]]
    )

    def build_book(leaders: list[str]) -> str:
        parts = enumerate(leaders)
        return "\n\n".join(f"# Part {number}\n\n{name} leads Port Office. {filler}" for number, name in parts)

    def count_leaders(book: kvstore.Store) -> int:
        return len({triple.subject for triple in book.triples("book")})

    store.put("book", build_book(names), format="markdown")
    store.put_triples("book", [("Tom Berg", "leads", "Port Office")])
    store.extract("triples")
    assert count_leaders(store) == 4
    store.put("book", build_book([*names[:3], "Eva Dahl"]), format="markdown")
    assert count_leaders(store) == 3, "imported triples go with the text, and those of the last section"
    assert store.check() == []
    store.extract("triples")
    fresh = make_store("fresh")
    fresh.put("book", build_book([*names[:3], "Eva Dahl"]), format="markdown")
    fresh.extract("triples")
    assert dump_contents(store) == dump_contents(fresh)
    assert {name for (name,) in fetch_rows(store, "SELECT name FROM entities WHERE name LIKE '% %'")} >= {"Eva Dahl"}
