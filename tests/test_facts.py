"""Facts: a kind registered from outside is exported, imported, checked, repaired and reported by .dump."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest

import kvstore
from kvstore import errors
from kvstore import registry as systems
from kvstore.changes import facts
from kvstore.changes.dump import dump
from kvstore.registry import register
from kvstore.registry.contract import System
from kvstore.registry.fact import DocumentFact
from kvstore.structures.documents.document_triples import TRIPLE_KIND

TEXT = "Robert Fortune brought tea plants from China to Darjeeling."
NOTES = "notes"
Notes = tuple[str, ...]
MakeStore = Callable[..., kvstore.Store]


class NoteFact(DocumentFact[Notes]):
    """Names that a user noted on a document, as an example of a fact about documents."""

    name = "note"
    plural = "notes"
    fields = {"note": str, "names": list}  # noqa: RUF012
    tables = (NOTES,)
    kinds = (TRIPLE_KIND,)

    def parse_fields(self, *parts: Any) -> Notes:
        (names,) = parts
        if not all(isinstance(name, str) for name in names):
            raise errors.InputError("a note is a list of names")
        return tuple(names)

    def to_fields(self, value: Notes) -> list[Notes]:
        return [value]

    def list_introductions(self, value: Notes) -> Iterable[tuple[str, str]]:
        return ((name, TRIPLE_KIND) for name in value)


NOTE = NoteFact()


@pytest.fixture(autouse=True)
def registered_notes() -> Iterator[None]:
    take_back = register(System("notes", "no paper: a fact from outside", facts=(NOTE,)))
    yield
    take_back()


@pytest.fixture
def tea_store(store: kvstore.Store) -> kvstore.Store:
    store.put("tea", TEXT)
    store.put("garden", "A garden has tea plants.")
    put_note(store, "tea", "Tea Plants", "Camellia")
    return store


def put_note(store: kvstore.Store, key: str, *names: str) -> bool:
    with store.transaction() as transaction:
        return transaction._put_fact(NOTE, key, names)


def scan_notes(store: kvstore.Store) -> dict[str, Notes]:
    assert store.check() == []
    with store.state() as state:
        return dict(NOTE.scan(state))


def dump_contents(store: kvstore.Store) -> dict[str, Any]:
    with store.state() as state:
        return dump(state)


def test_it_is_stored_known_and_deleted_with_the_text(tea_store: kvstore.Store) -> None:
    assert scan_notes(tea_store) == {"tea": ("Tea Plants", "Camellia")}
    assert not put_note(tea_store, "tea", "Tea Plants", "Camellia")
    assert {place.document for place in tea_store.lookup("tea plants")} == {"tea", "garden"}
    assert tea_store.statistics()["documents_with_notes"] == 1
    assert ("notes", "1") in [
        (name, str(value)) for name, value in tea_store.execute("DESCRIBE DOCUMENT 'tea'").fetchall()
    ]
    tea_store.update("tea", title="Tea")
    assert scan_notes(tea_store) == {"tea": ("Tea Plants", "Camellia")}
    with pytest.raises(errors.DocumentNotFoundError, match="there is no document 'milk'"):
        put_note(tea_store, "milk", "Cow")
    tea_store.put("tea", TEXT + " It rained.")
    assert scan_notes(tea_store) == {}
    assert tea_store.names("camellia") == []


def test_it_is_exported_and_imported(tea_store: kvstore.Store, make_store: MakeStore, tmp_path: Path) -> None:
    assert (
        str(tea_store.export(tmp_path / "all.jsonl"))
        == "ExportReport(documents=2, triples=0, edges=0, aliases=0, notes=1)"
    )
    assert json.loads((tmp_path / "all.jsonl").read_text().splitlines()[-1]) == {
        "note": "tea",
        "names": ["Tea Plants", "Camellia"],
    }
    other = make_store("other")
    assert asdict(other.import_(tmp_path / "all.jsonl"))["notes"] == 1
    assert dump_contents(other) == dump_contents(tea_store)
    cursor = other.execute(f"IMPORT FROM '{tmp_path / 'all.jsonl'}'")
    assert cursor.message == "0 documents, 0 edges, 0 aliases and 0 notes imported, 3 unchanged"
    (tmp_path / "bad.jsonl").write_text((tmp_path / "all.jsonl").read_text() + '{"note": "tea", "names": [1]}\n')
    with pytest.raises(errors.InputError, match="line 5: a note is a list of names"):
        other.import_(tmp_path / "bad.jsonl")


def test_it_survives_a_repair_and_its_loss_is_named(tea_store: kvstore.Store) -> None:
    before = dump_contents(tea_store)
    with tea_store._session.environment.write() as view:
        key = bytes(next(view.scan("mentions"))[0])
        view.delete("mentions", key)
    assert tea_store.repair().lost == []
    assert dump_contents(tea_store) == before
    with tea_store._session.environment.write() as view:
        (row,) = [bytes(key) for key, _ in view.scan(NOTES)]
        view.put(NOTES, row, b"damage")
    report = tea_store.repair()
    assert report.remaining == []
    (loss,) = report.lost
    assert re.match("the notes of document .*checksum", loss)
    assert scan_notes(tea_store) == {}


def test_dump_reports_that_no_statement_expresses_it(tea_store: kvstore.Store) -> None:
    assert tea_store.not_in_dump() == ["the dump omits 1 note; use EXPORT TO to keep it"]
    assert not any("Camellia" in statement for statement in tea_store.dump())


def test_the_reports_have_a_field_for_every_kind_of_fact() -> None:
    declared = [fact.plural for fact in facts.list_fact_kinds() if fact not in systems.list_facts()]
    assert [field.name for field in fields(kvstore.ExportReport)] == declared
    assert [field.name for field in fields(kvstore.ImportReport)] == [*declared, "unchanged"]
    names = [name for fact in facts.list_fact_kinds() for name in (fact.name, fact.plural)]
    assert len(set(names)) + 2 == len(names), "triples, stated or written, are called the same, one and many"


def test_dump_reports_parts_of_pages_that_were_left_out(store: kvstore.Store) -> None:
    assert store.not_in_dump() == []
    with store.transaction() as transaction:
        transaction.put("page", TEXT, left_out=12)
    assert store.not_in_dump() == ["the dump omits how much of 1 page was left out; use EXPORT TO to keep it"]


def mentions_triples(path: Path) -> bool:
    """True if the code of a module, without its docstrings and comments, contains the word."""
    text = path.read_text(encoding="utf-8")
    if "triples" not in text:
        return False
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body[0] = ast.Pass()
    return "triples" in ast.unparse(tree)


def test_few_files_mention_a_kind_of_fact_by_name() -> None:
    package = Path(kvstore.__file__).parent
    own = {"changes/facts.py", "structures/documents/document_triples.py"}
    own |= {"systems/hipporag/system.py", "systems/hipporag/written_triples.py"}  # triples that a model writes
    # Strategies that follow triples.
    own |= {"systems/adaptive/strategy.py", "systems/adaptive/triple_joins.py"}
    own |= {f"systems/graph/{name}.py" for name in ("graph_requests", "strategy", "triple_matching")}
    mentioning = {path.relative_to(package).as_posix() for path in package.rglob("*.py") if mentions_triples(path)}
    assert len([name for name in mentioning - own if not name.startswith(("aio/", "language/"))]) <= 10
