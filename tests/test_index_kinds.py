"""A kind of index added from outside, by one registration: built, refreshed, shown, dropped, protected from harm."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import kvstore
from kvstore import errors
from kvstore.arguments import Option
from kvstore.registry import INDEXES, register
from kvstore.registry.contract import System
from kvstore.storage import index_file
from kvstore.storage.index_file import FileHead
from kvstore.structures.indexes.index import (
    BuildTools,
    FileIndex,
    IndexContent,
    Indexes,
    IndexRecord,
    IndexWriter,
    States,
)
from kvstore.structures.indexes.index_reading import bind_index
from kvstore.structures.state import State
from kvstore_shell.completion import complete
from kvstore_shell.repl import LiveCatalog


@dataclass(frozen=True)
class Lengths:
    """Ids of documents and the bytes of their texts."""

    change: int
    ids: np.ndarray
    lengths: np.ndarray


class ToyIndex(FileIndex[Lengths, dict[str, int]]):
    """The lengths of documents of at least a given length."""

    name = "toy_lengths"
    description = "how long documents are"
    options: Mapping[str, Option] = {
        "least": Option(0, 0, 100, "bytes of the shortest"),
        "share": Option(1.0, 0, 1, "no meaning"),
    }

    def build(self, states: States, old: Lengths | None, record: IndexRecord, tools: BuildTools) -> IndexContent | None:
        with states() as state:
            if old is not None and old.change == state.counters.change:
                return None
            stored = {r.id: len(state.documents.read_text(r.id)) for r in state.documents.scan()}
            change = state.counters.change
        tools.progress(1, 1)
        lengths = {document: length for document, length in stored.items() if length >= record.get_int_option("least")}
        columns = {"ids": np.array([*lengths], np.uint64), "lengths": np.array([*lengths.values()], np.uint32)}
        return IndexContent({"change": change}, columns)

    def read(self, content: IndexContent) -> Lengths:
        return Lengths(content.head["change"], content.arrays["ids"], content.arrays["lengths"])

    def bind(self, read: Lengths, record: IndexRecord, state: State) -> dict[str, int]:
        present = {stored.id: stored.key for stored in state.documents.scan()}
        rows = zip(read.ids.tolist(), read.lengths.tolist(), strict=True)
        return {present[document]: length for document, length in rows if document in present}

    def describe(self, read: Lengths) -> str:
        return f"{len(read.ids)} documents"


class EagerToyIndex(ToyIndex):
    """The same index, created with the store and rebuilt after every commit."""

    name = "toy_eager"
    automatic = True

    def compute_extension_start(self, head: FileHead | None, record: IndexRecord, state: State) -> int:
        return 0


TOY, EAGER = ToyIndex(), EagerToyIndex()


@pytest.fixture
def registered_index() -> Iterator[None]:
    take_back = register(System("toy", "of this test", indexes=(TOY,)))
    yield
    take_back()


@pytest.fixture
def toy_store(registered_index: None, make_store: Callable[..., kvstore.Store]) -> Iterator[kvstore.Store]:
    """Yield a store of two documents, and an index of both."""
    store = make_store()
    store.put("a", "four")
    store.put("b", "sixsix")
    store.execute("CREATE INDEX Toy_Lengths WITH (least = 2)")
    yield store
    assert store.check() == []
    store.close()


def show_index(store: kvstore.Store) -> tuple[str, int, str] | None:
    rows = {kind: (state, stale, detail) for kind, state, _, stale, detail in store.execute("SHOW INDEXES")}
    return rows.get("toy_lengths")


def get_lengths(store: kvstore.Store) -> dict[str, int] | None:
    with store.state() as state:
        return bind_index(state, TOY)


def test_it_is_created_shown_refreshed_and_dropped(toy_store: kvstore.Store) -> None:
    assert show_index(toy_store) == ("ready", 0, "2 documents")
    size = (toy_store.path / "toy_lengths.index").stat().st_size
    assert toy_store.statistics()["index_toy_lengths_bytes"] == size
    toy_store.put("c", "x")
    toy_store.delete("a")
    assert show_index(toy_store) == ("ready", 2, "2 documents")
    assert get_lengths(toy_store) == {"b": 6}
    progress: list[kvstore.IndexProgress] = []
    assert toy_store.refresh("toy_lengths", progress=progress.append) == ["toy_lengths"]
    assert progress == [kvstore.IndexProgress("toy_lengths", 1, 1)]
    assert toy_store.execute("REFRESH").fetchall() == []
    assert show_index(toy_store) == ("ready", 0, "1 documents")  # "c" is shorter than two bytes
    toy_store.execute("DROP INDEX toy_lengths")
    assert show_index(toy_store) is None
    assert get_lengths(toy_store) is None
    assert not (toy_store.path / "toy_lengths.index").exists()
    assert "index_toy_lengths_bytes" not in toy_store.statistics()
    assert toy_store.refresh() == []
    assert sorted(os.listdir(toy_store.path)) == ["data.mdb", "lock.mdb", "writer.lock"]


def test_the_shell_completes_it(toy_store: kvstore.Store) -> None:
    catalog = LiveCatalog(SimpleNamespace(store=toy_store))  # type: ignore[arg-type]

    def list_completions(before: str) -> list[str]:
        return [completion.text for completion in complete(before, catalog)]

    assert list_completions("CREATE INDEX toy") == list_completions("REFRESH INDEX toy") == ["toy_lengths"]
    assert list_completions("CREATE INDEX toy_lengths WITH (") == ["least", "share"]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE INDEX toy_length", "did you mean toy_lengths?"),
        ("CREATE INDEX toy_lengths WITH (leest = 1)", "did you mean least?"),
        ("CREATE INDEX toy_lengths WITH (least = 101)", "must be between 0 and 100, not 101"),
        ("CREATE INDEX toy_lengths WITH (least = 1.5)", "must be a whole number, not 1.5"),
        ("CREATE INDEX toy_lengths WITH (share = 'all')", "must be a number, not 'all'"),
        ("CREATE INDEX toy_lengths", "index toy_lengths already exists"),
    ],
)
def test_its_name_and_options_are_checked(toy_store: kvstore.Store, statement: str, message: str) -> None:
    with pytest.raises(errors.InputError) as raised:
        toy_store.execute(statement)
    assert message in str(raised.value)


#: Options that give a kind a file in a small store.
NEEDED = {"vectors": {"exact_below": 1}}

CHILD = """
import os, sys
sys.path.insert(0, os.path.dirname(sys.argv[2]))
import kvstore, {module} as toy
toy.register(toy.System("toy", "of this test", indexes=(toy.TOY,)))
setattr(toy.index_file.Draft, sys.argv[3], lambda *_: os._exit(9))
kvstore.open(sys.argv[1]).refresh(sys.argv[4])
"""


def get_stated_kind(kind: str) -> str:
    """Return the kind that statements name to create and refresh an index."""
    index = INDEXES[kind]
    return (index.companion_of if isinstance(index, FileIndex) else "") or kind


def get_state(store: kvstore.Store, kind: str) -> str | None:
    return next((index.state for index in store.indexes() if index.kind == kind), None)


@pytest.fixture(params=[*(name for name, kind in INDEXES.items() if isinstance(kind, FileIndex)), TOY.name])
def kind(request: pytest.FixtureRequest, registered_index: None) -> str:
    """Return each kind that is a file."""
    name: str = request.param
    return name


@pytest.fixture
def indexed_store(kind: str, make_store: Callable[..., kvstore.Store]) -> Iterator[kvstore.Store]:
    store = make_store()
    store.put("a", "Port Averill is a town.")
    store.put_edge("Port Averill", "Towns")
    store.create_index(get_stated_kind(kind), NEEDED.get(kind))
    assert get_state(store, kind) == "ready"
    yield store
    assert kind in store.refresh(get_stated_kind(kind))
    assert get_state(store, kind) == "ready"
    assert not [name for name in os.listdir(store.path) if name.endswith(".new")]
    assert store.check() == []
    store.close()


@pytest.mark.matrix
@pytest.mark.parametrize("moment", ["write", "publish"])
def test_a_build_that_is_killed_leaves_nothing_harmful(indexed_store: kvstore.Store, kind: str, moment: str) -> None:
    indexed_store.put("c", "Long enough.")
    code = CHILD.format(module=Path(__file__).stem)
    command = [sys.executable, "-c", code, indexed_store.path, __file__, moment, get_stated_kind(kind)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 9, ran.stderr
    assert (indexed_store.path / f"{kind}.index.new").exists()
    assert get_state(indexed_store, kind) == "ready"


@pytest.mark.parametrize("damage", ["flipped", "cut", "deleted", "of another version"])
def test_an_unusable_file_counts_as_missing(indexed_store: kvstore.Store, kind: str, damage: str) -> None:
    path = indexed_store.path / f"{kind}.index"
    content = bytearray(path.read_bytes())
    if damage == "deleted":
        path.unlink()
    elif damage == "of another version":
        head, arrays = index_file.read(path, kind, lambda token: True)
        with index_file.open_draft(path) as draft:
            draft.write({**head, "parts": []}, {"others": next(iter(arrays.values()))})
            draft.publish()
    else:
        content[-64] ^= 1  # where the last array begins, or in it
        path.write_bytes(content if damage == "flipped" else content[:-70])
    with indexed_store.state() as state:
        index = INDEXES[kind]
        assert isinstance(index, FileIndex)
        assert bind_index(state, index) is None
    assert get_state(indexed_store, kind) == ("absent" if damage == "deleted" else "damaged")
    assert "REFRESH" in next(index.detail for index in indexed_store.indexes() if index.kind == kind)
    with index_file.open_draft(path):
        assert get_state(indexed_store, kind) == "building"
        with pytest.raises(errors.IndexUnavailableError, match="wait until it has finished"):
            indexed_store.refresh(get_stated_kind(kind))


def test_a_rebuild_keeps_the_options_and_uses_no_file_of_before(indexed_store: kvstore.Store, kind: str) -> None:
    from kvstore.changes.repair import rebuild_store

    rebuild_store(indexed_store._session.environment, indexed_store.settings, indexed_store.embed)
    with indexed_store.state() as state:
        record = Indexes(state.lmdb).get(INDEXES[kind])
        assert record is not None
        assert record.options == NEEDED.get(kind, {})
    assert get_state(indexed_store, kind) == "damaged"


def test_check_knows_its_record(toy_store: kvstore.Store) -> None:
    environment = toy_store._session.environment
    environment.write_with_growth(lambda view: IndexWriter(view).put(IndexRecord(TOY, {"least": 5, "most": 7})))
    assert toy_store.check() == ["index toy_lengths has unknown options: most"]
    environment.write_with_growth(lambda view: IndexWriter(view).put(IndexRecord(TOY, {"least": 5})))


def test_an_automatic_kind_exists_from_the_start_and_grows_in_the_background(
    make_store: Callable[..., kvstore.Store],
) -> None:
    take_back = register(System("eager", "of this test", indexes=(EAGER,)))
    try:
        store = make_store()
        assert store.indexes()[-1].state == "absent"
        store.put("a", "four")
        for thread in threading.enumerate():
            if thread.name == "kvstore index":
                thread.join()
        assert (store.indexes()[-1].state, store.indexes()[-1].stale) == ("ready", 0)
        store.drop_index("toy_eager")
        assert [index.kind for index in store.indexes()] == ["entities", "lexical", "vectors"]
        store.close()
    finally:
        take_back()


def test_a_process_that_does_not_know_the_kind_leaves_it_alone(
    registered_index: None, make_store: Callable[..., kvstore.Store]
) -> None:
    store = make_store()
    store.create_index("toy_lengths", {"least": 2})
    command = [sys.executable, "-m", "kvstore", "shell", store.path, "-c", "CHECK; REFRESH; SHOW INDEXES"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "toy" not in ran.stdout
    assert show_index(store) == ("ready", 0, "0 documents")


def test_no_file_of_the_package_knows_it() -> None:
    for package in (Path(kvstore.__file__).parent, Path(kvstore.__file__).parent.parent / "shell"):
        assert not [path for path in package.rglob("*.py") if "toy_" in path.read_text("utf-8")]
