"""Systems: what a structure must hold to, for each that is registered, and for one that is added from outside."""

from __future__ import annotations

import ast
import random
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kvstore
from kvstore.arguments import Choice, Option
from kvstore.changes.dump import dump
from kvstore.errors import InputError, ReadOnlyError, StoreFormatError
from kvstore.registry import SYSTEMS, build_manifest, list_manifests, list_structures, register
from kvstore.registry.cached_lists import invalidate_lists
from kvstore.registry.contract import Delta, Description, DumpRow, LmdbTable, System
from kvstore.registry.sql_table import make_list_table
from kvstore.retrieval.evidence import Evidence
from kvstore.retrieval.query import Query, evidence_of, get_choice_option
from kvstore.storage import records
from kvstore.storage.view import View, WriteView
from kvstore.structures.documents.documents import DocumentRecord
from kvstore.structures.logical import LogicalNames
from kvstore.structures.ranking import best
from kvstore.structures.state import State

MakeStore = Callable[..., kvstore.Store]

# A system that no file of kvstore knows: how long the words of documents are. -----------------------------------------


class Lengths:
    """The number of words of each length, by document and for all documents together."""

    def __init__(self, view: View) -> None:
        self._view = view

    def get_lengths(self, document: int) -> Counter[int]:
        return self._read("toy_lengths", records.encode_u64(document))

    def scan_rows(self, table: str) -> Iterator[tuple[int, int, int]]:
        for key, _ in self._view.scan(table):
            for length, words in self._read(table, key).items():
                yield int.from_bytes(key, "big"), length, words

    def _read(self, table: str, key: bytes) -> Counter[int]:
        value = self._view.get(table, key)
        return Counter(None if value is None else records.unpack(value, table, key))


class LengthFollower(Lengths):
    def __init__(self, state: State, write: WriteView) -> None:
        super().__init__(write)
        self._write = write

    def remove_document(self, record: DocumentRecord) -> None:
        self._count(self.get_lengths(record.id), -1)
        self._write.delete("toy_lengths", records.encode_u64(record.id))

    def apply_delta(self, delta: Delta) -> None:
        for record, _, chunks, *_ in delta.added:
            lengths = Counter(len(word) for chunk in chunks for word in chunk.text.decode().split())
            if lengths:
                self._write.put(
                    "toy_lengths", records.encode_u64(record.id), records.pack(dict(sorted(lengths.items())))
                )
            self._count(lengths, 1)

    def _count(self, lengths: Counter[int], sign: int) -> None:
        for length, words in lengths.items():
            key = records.encode_u32(length)
            remaining = self._read("toy_words", key)[length] + sign * words
            if remaining:
                self._write.put("toy_words", key, records.pack({length: remaining}))
            else:
                self._write.delete("toy_words", key)


class LengthStructure:
    name = "toy"
    version = 1
    tables = (LmdbTable("toy_lengths"), LmdbTable("toy_words"))

    def read(self, state: State) -> Lengths:
        return Lengths(state.lmdb)

    def make_maintainer(self, state: State, write: WriteView) -> LengthFollower:
        return LengthFollower(state, write)

    def dump(self, content: Lengths, names: LogicalNames) -> Mapping[str, Iterable[DumpRow]]:
        return {
            "toy_lengths": (
                (names.name_document(document), *row) for document, *row in content.scan_rows("toy_lengths")
            ),
            "toy_words": content.scan_rows("toy_words"),
        }

    def compute_statistics(self, content: Lengths) -> Mapping[str, int]:
        return {"lengths": sum(1 for _ in content.scan_rows("toy_words"))}


LENGTHS = LengthStructure()


class LongWords:
    name = "longwords"
    description = "the chunks of the documents with the longest words"
    options: Mapping[str, Option | Choice] = {"first": Choice("long", ("long", "short"), "which words come first")}

    def retrieve(self, query: Query) -> Evidence:
        lengths = query.state.get_part(LENGTHS)
        with query.trace.step("measure words") as step:
            sign = 1 if get_choice_option(query, self, "first") == "long" else -1
            longest = {
                c: sign * max(lengths.get_lengths(chunk.document), default=0) for c, chunk in query.state.chunks.scan()
            }
            step.count = len(longest)
        ranking = best(query.state, list(longest), np.array(list(longest.values()), float), query.reach)
        return evidence_of(query, self.name, ranking, "long words", len(longest))


def get_length(state: State, key: str) -> Mapping[str, Any]:
    lengths = [words for _, length, words in state.get_part(LENGTHS).scan_rows("toy_words") if str(length) == key]
    if not lengths:
        raise InputError(f"no word has {key} letters")
    return {"letters": int(key), "words": lengths[0], "documents": ["tea", "silk"]}


TOY = System(
    "toy",
    "of no paper",
    structures=(LENGTHS,),
    strategies=(LongWords(),),
    tables=(
        make_list_table(
            "word_lengths",
            "how many words of a length a document has",
            {"document": "TEXT", "length": "INTEGER", "words": "INTEGER"},
            lambda reader: (
                (reader.get_document(document).key, length, words)
                for document, length, words in reader.state.get_part(LENGTHS).scan_rows("toy_lengths")
            ),
        ),
    ),
    descriptions=(Description("length", get_length),),
    describe_entity=lambda state, entity: {"letters": len(state.entities.get(entity).name)},
)


@pytest.fixture
def toy() -> Iterator[System]:
    take_back = register(TOY)
    yield TOY
    take_back()


def dump_store(store: kvstore.Store) -> dict[str, Any]:
    with store.state() as state:
        return dump(state)


def fill_store(store: kvstore.Store) -> None:
    store.put("tea", "Robert Fortune brought tea to Darjeeling.\n\nTea is grown in Assam.", title="Tea (drink)")
    store.put("assam", "Assam is a state. Robert Fortune never saw Assam.", title="Assam")
    store.put("ships", "Tug,Ship\nShip,Vessel", format="pairs")
    store.put_triples("tea", [("Tea", "grows in", "Assam")])


def test_an_external_system_is_recorded_in_the_commit_and_shown(toy: System, make_store: MakeStore) -> None:
    store = make_store()
    fill_store(store)
    rows = store.execute("SELECT words FROM word_lengths WHERE document = 'tea' AND length = 3").fetchall()
    assert rows == [(2,)]
    assert "word_lengths" in {name for name, _, _ in store.execute("SHOW TABLES")}
    assert store.execute("SELECT count(DISTINCT length) FROM word_lengths").fetchall() == [(7,)]
    assert ("toy_lengths", 7) in store.execute("SHOW STATS").fetchall()
    assert "longwords" in {name for name, _ in store.execute("SHOW STRATEGIES")}
    assert store.retrieve("anything", using="longwords", top=1).hits[0].document == "tea"
    assert "measure words" in {row[0] for row in store.execute("EXPLAIN RETRIEVE 'anything' USING longwords")}
    with store.transaction() as transaction:
        transaction.delete("tea")
        transaction.put("assam", "Short now.")
    assert {row[0] for row in store.execute("SELECT document FROM word_lengths")} == {"assam"}


def test_an_option_of_a_strategy_may_be_one_of_some_words(toy: System, make_store: MakeStore) -> None:
    store = make_store()
    fill_store(store)
    first = "RETRIEVE 'anything' USING longwords TOP 1 WITH (first = {})"
    documents = {word: store.execute(first.format(word)).fetchall()[0][2] for word in ("long", "SHORT", "'short'")}
    assert documents == {"long": "tea", "SHORT": "assam", "'short'": "assam"}
    assert store.retrieve("anything", using="longwords", top=1, options={"first": "short"}).hits[0].document == "assam"
    described: dict[str, str] = dict(store.execute("DESCRIBE STRATEGY longwords").fetchall())
    assert described["option first"] == "which words come first (one of long, short, by default long)"
    for wrong in ("shorter", 3, None):
        with pytest.raises(InputError, match="longwords: option first must be one of long, short, not"):
            store.retrieve("anything", using="longwords", options={"first": wrong})


def test_a_system_from_outside_follows_every_history(toy: System, make_store: MakeStore, tmp_path: Path) -> None:
    rng = random.Random(7)
    store, documents = make_store("lived"), {}
    for _ in range(40):
        key = f"d{rng.randrange(8)}"
        if rng.random() < 0.3:
            documents.pop(key, None)
            if store.get(key) is not None:
                store.delete(key)
        else:
            documents[key] = " ".join("x" * rng.randrange(1, 9) for _ in range(rng.randrange(60)))
            store.put(key, documents[key])
    fresh = make_store("fresh")
    with fresh.transaction() as transaction:
        for key, text in documents.items():
            transaction.put(key, text)
    assert dump_store(store) == dump_store(fresh)
    assert dump_store(fresh)["toy_words"]
    store.export(tmp_path / "facts.jsonl")
    assert "toy" not in (tmp_path / "facts.jsonl").read_text()
    brought = make_store("brought")
    brought.import_(tmp_path / "facts.jsonl")
    assert dump_store(brought) == dump_store(fresh)


@contextmanager
def register_system(system: System) -> Iterator[None]:
    take_back = register(system)
    try:
        yield
    finally:
        take_back()


def test_a_store_of_before_gets_a_new_structure_when_it_is_opened(make_store: MakeStore, set_toy_version: Any) -> None:
    store = make_store()
    fill_store(store)
    store.close()
    with register_system(TOY):
        with kvstore.open(store.path, readonly=True) as again:
            assert again.execute("SELECT count(*) FROM word_lengths").fetchall() == [(0,)]
        with kvstore.open(store.path) as again:
            assert again.check() == []
            assert again.execute("SELECT count(*) FROM word_lengths").fetchall() != [(0,)]
            with again._session.environment.write() as view:
                view.clear("toy_lengths")
            assert again.check()
        set_toy_version(2)
        with kvstore.open(store.path) as again:
            assert again.check() == []


def test_unmaintained_structures_are_not_changed(make_store: MakeStore, set_toy_version: Any) -> None:
    store = make_store()
    with register_system(TOY):
        set_toy_version(2)
        store.close()
        with kvstore.open(store.path) as newer:
            fill_store(newer)
        set_toy_version(1)
        older = make_store()
        with pytest.raises(ReadOnlyError, match=r"it contains toy \(version 2\), which .*; upgrade kvstore"):
            older.put("milk", "Milk.")
        older.close()
    unknowing = make_store()
    assert unknowing.readonly
    for change in (
        lambda: unknowing.delete("tea"),
        unknowing.compact,
        lambda: unknowing.create_index("vectors"),
        lambda: unknowing.execute("BACKUP TO 'copy'"),
    ):
        with pytest.raises(ReadOnlyError, match="upgrade kvstore"):
            change()
    assert unknowing.check() == []
    assert unknowing.retrieve("Who brought tea to Darjeeling?").hits[0].document == "tea"
    unknowing.close()
    with pytest.raises(StoreFormatError, match="upgrade kvstore"):
        kvstore.migrate(store.path)


def test_a_writer_opened_before_another_added_a_structure_is_refused(make_store: MakeStore) -> None:
    store = make_store()
    with (
        register_system(TOY),
        pytest.raises(StoreFormatError, match="its toy data is missing or outdated; open the store again"),
    ):
        store.put("milk", "Milk.")
    store.put("milk", "Milk.")
    with store._session.environment.write() as view:
        view.put("meta", b"structures", records.pack({"passage_graph": 1, "later": 1}))
    with pytest.raises(StoreFormatError, match=r"it contains later \(version 1\)"):
        store.put("tea", "Tea.")
    store.close()


@pytest.fixture
def set_toy_version(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    def set_version(version: int) -> None:
        monkeypatch.setattr(LengthStructure, "version", version)
        invalidate_lists()

    return set_version


def test_unregistered_systems_are_unknown_and_names_are_unique(make_store: MakeStore) -> None:
    take_back = register(TOY)
    with pytest.raises(InputError, match="a system 'toy' already exists"):
        register(TOY)
    with pytest.raises(InputError, match="a strategy 'graph' already exists"):
        register(System("other", "", strategies=(type("Graph", (LongWords,), {"name": "graph"})(),)))
    store = make_store()
    assert store.execute("SELECT * FROM word_lengths").fetchall() == []
    take_back()
    with pytest.raises(kvstore.errors.StatementError, match="no table word_lengths"):
        store.execute("SELECT * FROM word_lengths")


def test_a_system_registered_during_a_listing_is_listed_afterwards() -> None:
    structures = list_structures()
    late_system = System("late", "", structures=structures[:1])

    class RegisteringStructures(tuple[Any, ...]):
        """The structures of a system, during whose iteration another thread registers a system."""

        def __iter__(self) -> Iterator[Any]:
            thread = threading.Thread(target=SYSTEMS.__setitem__, args=("late", late_system))
            thread.start()
            thread.join()
            return iter(())

    try:
        SYSTEMS["slow"] = System("slow", "", structures=RegisteringStructures())
        assert list_structures() == structures
        assert list_structures() == (*structures, structures[0])
    finally:
        del SYSTEMS["slow"], SYSTEMS["late"]


def test_the_tables_of_a_system_are_described(make_store: MakeStore, toy: System) -> None:
    store = make_store()
    store.put("tea", "Tea comes from Darjeeling.")
    assert store.describe("length", "5")["words"] == 1
    properties = dict(store.execute("DESCRIBE Length '5'").fetchall())
    assert properties == {"letters": 5, "words": 1, "documents": "tea; silk"}
    assert store.describe_entity("Darjeeling")["letters"] == len("Darjeeling")
    with pytest.raises(InputError, match="no word has 99 letters"):
        store.execute("DESCRIBE length '99'")
    with pytest.raises(InputError, match="no kind of thing to DESCRIBE 'lenght'; did you mean length"):
        store.execute("DESCRIBE lenght '5'")
    with pytest.raises(InputError, match="a kind of thing to DESCRIBE 'entity' already exists"):
        register(System("other", "", descriptions=(Description("entity", get_length),)))


def test_no_file_of_the_package_knows_it() -> None:
    package = Path(kvstore.__file__).parent
    assert not [path for path in package.rglob("*.py") if re.search(r"\btoy\b|word_lengths", path.read_text())]


# What holds for every structure ---------------------------------------------------------------------------------------


def drop_row(rows: list[tuple[bytes, bytes]]) -> dict[bytes, bytes | None]:
    return {rows[len(rows) // 2][0]: None}


def add_row(rows: list[tuple[bytes, bytes]]) -> dict[bytes, bytes | None]:
    key, value = rows[-1]
    return {(int.from_bytes(key, "big") + 1).to_bytes(len(key), "big"): value}


def swap_row(rows: list[tuple[bytes, bytes]]) -> dict[bytes, bytes | None]:
    """Return a row with the value of another row, or with one changed byte if the table has a single row."""
    key, value = rows[len(rows) // 2]
    new_value = next((new_value for _, new_value in rows if new_value != value), value[:-1] + bytes([value[-1] ^ 1]))
    return {key: new_value}


@pytest.mark.parametrize("fault", [drop_row, add_row, swap_row])
def test_a_fault_in_any_table_of_any_structure_is_detected_and_repaired(
    toy: System, make_store: MakeStore, fault: Callable[[list[tuple[bytes, bytes]]], dict[bytes, bytes | None]]
) -> None:
    store = make_store()
    fill_store(store)
    before = dump_store(store)
    for structure in list_structures():
        for table in structure.tables:
            with store._session.environment.write() as view:
                rows = [(bytes(key), bytes(value)) for key, value in view.scan(table.name)]
                assert rows, f"the store of this test has nothing in {table.name}"
                view.change_many(table.name, fault(rows))
            report = store.repair()
            assert any(table.name in problem for problem in report.found), (table.name, report.found)
            assert (report.lost, report.remaining) == ([], [])
            assert dump_store(store) == before


def test_a_sentence_of_check_names_the_rows(store: kvstore.Store) -> None:
    fill_store(store)
    with store._session.environment.write() as view:
        key, _ = next(view.scan("passage_entities"))
        view.delete("passage_entities", bytes(key))
    problems = store.check()
    assert all(problem.startswith("passage_graph: table passage_entities lacks a row: (") for problem in problems)
    assert problems
    store.repair()


def test_check_reports_a_missing_folder_for_its_files(store: kvstore.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_store(store)
    with monkeypatch.context() as patch:
        patch.setattr("tempfile.tempdir", "/nowhere")
        (problem,) = store.check()
    assert "TMPDIR" in problem


def test_a_package_of_a_system_imports_nothing() -> None:
    """A package that imports its own modules can get an incomplete one while another thread imports that module."""
    modules = list(Path(kvstore.__file__).parent.glob("*/*/system.py"))
    assert len(modules) == len(SYSTEMS)
    for module in modules:
        source = module.with_name("__init__.py").read_text(encoding="utf-8")
        assert [type(statement) for statement in ast.parse(source).body] == [ast.Expr], module  # only a docstring


def test_the_line_of_each_folder_describes_its_system() -> None:
    """The registry's manifest of a system, known before its import, equals the system."""
    code = "import kvstore.registry as systems; print(list(zip(systems.SYSTEMS, map(tuple, systems.list_manifests()))))"
    unimported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    expected = [(name, tuple(build_manifest(system))) for name, system in SYSTEMS.items()]
    assert unimported.replace("mappingproxy({})", "{}").strip() == str(expected)
    assert list_manifests() == tuple(build_manifest(system) for system in SYSTEMS.values())
