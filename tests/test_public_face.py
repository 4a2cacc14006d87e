"""The package as a Python user sees it: names, help, a store as a container, the module as a command, the log."""

from __future__ import annotations

import ast
import inspect
import logging
import pydoc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import kvstore
import kvstore.language
from kvstore.structures.indexes.index_building import IndexBuilder
from kvstore.structures.indexes.vector_index import VECTOR_INDEX

pytestmark = pytest.mark.public_api

#: All that is public on a store, a snapshot and a transaction.
READING = {
    *("aliases", "ask", "describe_document", "describe_entity", "expand", "get", "indexes", "keys", "lookup", "names"),
    *("nearest_names", "prompt", "retrieve", "search", "state", "triples"),
}


def list_public_names(class_: type) -> set[str]:
    return {name for name in dir(class_) if name[0] != "_"}


def test_only_user_facing_names_are_public() -> None:
    internals = {
        *(
            "begun",
            "committed",
            "count_lookups",
            "environment",
            "hits",
            "filter_cache",
            "last_lookup",
            "fingerprint_cache",
            "open_indexes",
        ),
        *("place_cache", "has_own_embedder", "reranker", "view", "document", "put_fact"),
        *("settle_files", "update_origins"),
    }
    for of in (kvstore.Store, kvstore.Snapshot, kvstore.Transaction):
        assert list_public_names(of) & internals == set()
        assert list_public_names(of) >= READING
    own = {name for name in vars(kvstore.Snapshot) if name[0] != "_"}
    assert own == {"close", "state"}


def test_names_are_shown_before_they_are_used() -> None:
    code = (
        "import sys, kvstore; assert {*kvstore.__all__} == {name for name in dir(kvstore) if name[:2] != '__'}; "
        "assert 'numpy' not in sys.modules and 'lmdb' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    help_text = pydoc.plain(pydoc.render_doc(kvstore))
    for text in ("class Store(", "open = open_store(", "in_transaction", "class Transaction("):
        assert text in help_text
    assert str(inspect.signature(kvstore.Store.get)) == "(self, key: 'str') -> 'Document | None'"


@pytest.mark.parametrize("module", [kvstore, kvstore.language], ids=["kvstore", "kvstore.language"])
def test_lazy_names_are_those_of_type_checkers(module: ModuleType) -> None:
    """A name that is imported on first use is also imported for type checkers, from the same place, and listed."""
    tree = ast.parse(inspect.getsource(module))
    (block,) = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imported = {
        name.asname or name.name: f"{'.' * node.level}{node.module}:{name.name}"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    assert imported == module._LAZY_ATTRIBUTES
    assert set(module.__all__) >= imported.keys()
    assert all(getattr(module, name) is not None for name in module.__all__)


def test_a_store_is_a_container_of_its_documents(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store()
    assert (len(store), bool(store), list(store)) == (0, True, [])
    store.put("tea", "Tea is made from leaves.")
    store.put("coffee", "Coffee is roasted.")
    assert (len(store), list(store)) == (2, ["coffee", "tea"])
    assert "tea" in store
    assert not any(value in store for value in ("cocoa", "", "\ud800", "a\0b", 5, None))
    with store.snapshot() as snapshot, store.transaction() as transaction:
        transaction.delete("tea")
        assert (len(transaction), "tea" in transaction) == (1, False)
        assert (len(snapshot), "tea" in snapshot, len(store)) == (2, True, 2)


def test_repr_describes_a_store(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store()
    assert repr(store) == f"<kvstore.Store {str(store.path)!r}>"
    store.close()
    assert repr(store) == f"<kvstore.Store {str(store.path)!r}, closed>"
    store.close()
    assert repr(make_store(readonly=True)) == f"<kvstore.Store {str(store.path)!r}, read-only>"


def test_repr_of_a_cursor_names_what_was_done_or_the_columns(store: kvstore.Store) -> None:
    insertion = store.execute("INSERT DOCUMENT 'tea' TEXT 'Tea is made from leaves.'")
    assert repr(insertion) == "<kvstore.Cursor INSERT: 1 document inserted>"
    cursor = store.execute("SELECT key, chunks FROM documents")
    assert repr(cursor) == "<kvstore.Cursor SELECT: key, chunks>"
    assert cursor.fetchall() == [("tea", 1)]


def test_repr_describes_what_a_store_opens(store: kvstore.Store, tmp_path: Path) -> None:
    path = repr(str(store.path))
    with store.snapshot() as snapshot:
        assert repr(snapshot) == f"<kvstore.Snapshot {path}>"
    assert repr(snapshot) == f"<kvstore.Snapshot {path}, closed>"
    with store.transaction() as transaction:
        assert repr(transaction) == f"<kvstore.Transaction {path}>"
    assert repr(transaction) == f"<kvstore.Transaction {path}, ended>"
    assert repr(store.strategies()[0]) == "<strategy vector>"
    (tmp_path / "tea.txt").write_text("Tea is made from leaves.")
    with store.ingest_progress(tmp_path / "tea.txt") as ingestion:
        list(ingestion)
    assert repr(ingestion).startswith("<kvstore.Ingestion: 1 added, 0 changed, 0 unchanged, 0 removed, 0 skipped, ")


def test_repr_of_a_document_has_the_beginning_of_its_text(store: kvstore.Store) -> None:
    store.put("tea", "Tea is made from leaves. " * 1000, meta={"year": 1848})
    description = repr(store.get("tea"))
    assert description.startswith(
        "Document(key='tea', title=None, source=None, meta={'year': 1848}, format='text', text='Tea"
    )
    assert "leaves. …', bytes=25000, chunks=" in description and len(description) < 500


def test_reports_and_evidence_are_printed_for_people(store: kvstore.Store, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "tea.txt").write_text("Tea is made from leaves.")
    (folder / "bad.txt").write_bytes(b"caf\xe9")
    (folder / "tea.bin").write_bytes(b"\0")
    report = store.ingest(folder, include=["*.txt"])
    assert str(report).startswith(
        "1 added, 0 changed, 0 unchanged, 0 removed, 1 skipped (1 .bin), 1 failed; 1 chunk in "
    )
    assert str(report.failures[0]).startswith(f"{folder}/bad.txt: byte 0xE9 at offset 3 is not valid UTF-8")
    store.put("coffee", "Coffee is made from seeds.")
    evidence = store.retrieve("What is tea made from?", using="lexical")
    assert [line.split(",")[:2] for line in str(evidence).splitlines()[::2]] == [
        ["1. tea.txt", " chunk 0"],
        ["2. coffee", " chunk 0"],
    ]
    prompt = store.prompt("What is tea made from?")
    assert str(prompt) == "\n\n".join(message["content"] for message in prompt.messages)
    assert str(evidence.hits[0]).endswith("\n   Tea is made from leaves.")
    store.put("water", "Water\n\nWater is clear.")
    assert str(store.search("water", using="lexical")[0]).endswith("\n   Water\n\n   Water is clear.")


@pytest.mark.slow
def test_type_checkers_know_the_methods_that_change_a_store(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "application.py").write_text(
        "import kvstore\n"
        "with kvstore.open('s') as store:\n"
        "    store.put('tea', 'Tea.', metadata={})\n"
        "    store.update('tea', titel='Tea')\n"
        "    count: str = store.delete_many(['tea'])\n"
    )
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", tmp_path / "application.py"],
        capture_output=True,
        text=True,
    )
    errors = [line.split(":")[1] for line in checked.stdout.splitlines() if ": error:" in line]
    assert errors == ["3", "4", "5"], checked.stdout


def test_public_modules_need_no_import_of_their_own() -> None:
    code = "import kvstore; kvstore.dbapi.connect, kvstore.aio.open, kvstore.errors.KvstoreError"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="module 'kvstore' has no attribute 'connect'"):
        kvstore.connect  # noqa: B018


def test_a_store_is_opened_by_the_function_open_and_in_a_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kvstore.errors.ArgumentError, match=r"open a store with kvstore\.open\(path\)"):
        kvstore.Store("notes")  # type: ignore[arg-type]
    with pytest.raises(kvstore.errors.InputError, match="every store is a directory; use a temporary directory"):
        kvstore.open(":memory:")
    assert not list(tmp_path.iterdir())


def test_the_module_is_the_command() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "kvstore", "--version"], capture_output=True, text=True, check=True
    ).stdout
    assert kvstore.__version__ in result


def test_the_log_is_silent_without_a_handler(
    store: kvstore.Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "from kvstore.process.logger import get_logger; get_logger().warning('heard')"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stderr == ""
    monkeypatch.setattr(
        IndexBuilder,
        "find_record_to_build",
        lambda *_: (_ for _ in ()).throw(kvstore.errors.IndexUnavailableError("no room for the index")),
    )
    with caplog.at_level(logging.INFO, "kvstore"):
        store._session.store.index_manager._extend_files([VECTOR_INDEX])
    assert "in the background" in caplog.text
    assert "no room for the index" in caplog.text
