"""An index that is part of every commit once CREATE INDEX has made it; by a toy from outside."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from derived_lines import LINES, LINES_INDEX, Lines

import kvstore
from kvstore import errors
from kvstore.changes import index_maintenance
from kvstore.changes.dump import dump
from kvstore.registry import register
from kvstore.registry.cached_lists import invalidate_lists
from kvstore.registry.structure_versions import read_versions
from kvstore.structures.derived_parts import split_vector_id
from kvstore_shell.console import Console
from kvstore_shell.script import ScriptItem

MakeStore = Callable[..., kvstore.Store]

TEXT = "Tea is grown in Assam. It is drunk in the morning."
TRIPLE = ("Tea", "is grown in", "Assam")
TABLES = ("lines_parts", "lines_vectors", "lines_vector_space")


@pytest.fixture(autouse=True)
def registered_kind() -> Iterator[None]:
    take_back = register(LINES)
    yield
    take_back()


@pytest.fixture
def store(make_store: MakeStore) -> kvstore.Store:
    return make_store()


@pytest.fixture
def embedded_texts(store: kvstore.Store, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list to which the store's embedder appends its texts."""
    texts: list[str] = []
    embed = store._session.store.embedder.embed
    monkeypatch.setattr(store._session.store.embedder, "embed", lambda batch: texts.extend(batch) or embed(batch))
    return texts


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit batches to two documents."""
    monkeypatch.setattr(index_maintenance, "_MAX_BATCH_DOCUMENTS", 2)


def fill_store(store: kvstore.Store, count: int = 7) -> None:
    with store.transaction() as transaction:
        for number in range(count):
            transaction.put(f"d{number}", f"Tea {number} is good. {TEXT}", title=f"Tea {number}")
        transaction.put("pairs", "Tug,Ship", format="pairs")
        transaction.put_triples("d1", [TRIPLE])


def dump_store(store: kvstore.Store) -> dict[str, Any]:
    with store.state() as state:
        return dump(state)


def list_parts(store: kvstore.Store) -> dict[str, list[str]]:
    with store.state() as state:
        scanned = state.get_derived_parts(Lines()).scan()
        return {state.documents.get(document).key: entry.part for document, entry in scanned}


def read_vectors(store: kvstore.Store) -> dict[tuple[str, int], bytes]:
    with store.state() as state:
        vectors = {}
        for ids, matrix in state.get_derived_parts(Lines()).vectors.scan():
            for id, vector in zip(ids.tolist(), matrix, strict=True):
                document, text = split_vector_id(id)
                vectors[state.documents.get(document).key, text] = vector.tobytes()
        return vectors


def count_records(store: kvstore.Store) -> int:
    with store.state() as state:
        return sum(state.lmdb.count(table) for table in TABLES)


def get_index_row(store: kvstore.Store) -> tuple[str, int, str] | None:
    rows = {kind: (state, stale, detail) for kind, state, _, stale, detail in store.execute("SHOW INDEXES")}
    return rows.get("lines")


def interrupt_after(monkeypatch: pytest.MonkeyPatch, method: str, times: int) -> None:
    """Make a builder raise KeyboardInterrupt after a number of batches."""
    real = getattr(index_maintenance.MaintainedIndexBuilder, method)
    done: list[int] = []

    def call_or_interrupt(self: Any, *args: Any) -> Any:
        if len(done) == times:
            raise KeyboardInterrupt
        done.append(1)
        return real(self, *args)

    monkeypatch.setattr(index_maintenance.MaintainedIndexBuilder, method, call_or_interrupt)


def test_a_store_has_it_only_after_create_index(store: kvstore.Store, embedded_texts: list[str]) -> None:
    fill_store(store)
    assert (count_records(store), get_index_row(store)) == (0, None)
    assert "lines_parts" not in dump_store(store) and "lines_documents" not in store.statistics()
    embedded_texts.clear()
    store.execute("CREATE INDEX lines")
    assert set(embedded_texts) == {f"Tea {n}: {line}" for n in range(7) for line in list_parts(store)[f"d{n}"]}, (
        "no chunk again"
    )
    assert get_index_row(store) == ("exact", 0, "part of every commit")
    assert list_parts(store)["d1"] == ["Tea 1 is good.", "Tea is grown in Assam.", "It is drunk in the morning.",
                                  "Tea is grown in Assam"]  # fmt: skip
    assert list_parts(store)["pairs"] == []
    assert store.statistics()["lines_documents"] == 8
    assert store.check() == []
    store.execute("DROP INDEX lines")
    assert (count_records(store), get_index_row(store)) == (0, None)
    with store.state() as state:
        assert "lines" not in read_versions(state.lmdb)


def test_it_is_the_same_whenever_it_is_made(make_store: MakeStore) -> None:
    before, after = make_store("before"), make_store("after")
    before.create_index("lines", {"least": 20})
    for store in (before, after):
        fill_store(store)
        store.delete("d3")
        store.put("d4", "Another line that is long enough.\nNo.")
    after.create_index("lines", {"least": 20})
    assert dump_store(before) == dump_store(after)
    assert list_parts(after)["d4"] == ["Another line that is long enough."]
    assert read_vectors(before) == read_vectors(after)


def test_puts_replacements_and_deletions_are_followed(store: kvstore.Store, embedded_texts: list[str]) -> None:
    store.create_index("lines")
    store.put("tea", TEXT, title="Tea")
    assert embedded_texts == ["Tea\n" + TEXT, "Tea: Tea is grown in Assam.", "Tea: It is drunk in the morning."]
    before = read_vectors(store)
    embedded_texts.clear()
    store.put("tea", TEXT + " Or at noon.", title="Tea")
    assert embedded_texts == ["Tea\n" + TEXT + " Or at noon.", "Tea: Or at noon."]
    assert before.items() <= read_vectors(store).items(), "the same bits when it is stored again"
    assert store.delete("tea")
    assert count_records(store) == 0


def test_a_fact_that_it_follows_from_changes_it_in_the_same_commit(
    store: kvstore.Store, embedded_texts: list[str]
) -> None:
    store.create_index("lines")
    fill_store(store)
    embedded_texts.clear()
    before = read_vectors(store)
    with store.transaction() as transaction:
        transaction.put_triples("d2", [TRIPLE, ("Tea", "is", "hot")])
        transaction.put_triples("d1", [])
        transaction.put("new", "Something.")
        transaction.put_triples("new", [TRIPLE])
    assert list_parts(store)["d2"][3:] == ["Tea is grown in Assam", "Tea is hot"]
    assert len(list_parts(store)["d1"]) == 3
    assert list_parts(store)["new"] == ["Something.", "Tea is grown in Assam"]
    assert embedded_texts == [
        "Something.",
        "Tea is grown in Assam",
        "Tea 2: Tea is grown in Assam",
        "Tea 2: Tea is hot",
    ]
    assert {place: rows for place, rows in before.items() if place[0] != "d1"}.items() <= read_vectors(store).items()
    embedded_texts.clear()
    store.update("d2", title="Tea")
    assert list_parts(store)["d2"][4] == "Tea is hot", "its text is the same, so its triples stay"
    store.delete("d2")
    assert "d2" not in list_parts(store)
    assert store.check() == []


def test_an_interrupted_build_continues(
    store: kvstore.Store, make_store: MakeStore, embedded_texts: list[str], small_batches: None
) -> None:
    fill_store(store)
    reports: list[kvstore.IndexProgress] = []
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        interrupt_after(patch, "_store_batch", 2)
        store.create_index("lines", progress=reports.append)
    assert [(report.done, report.total, report.unit, report.kept) for report in reports] == [
        (n, 8, "documents", True) for n in (0, 2, 4)
    ]
    assert get_index_row(store) == ("building", 1, "4 of 8 documents; run REFRESH INDEX lines to continue")
    assert store.check() == []
    with pytest.raises(errors.InputError, match="index lines already exists; REFRESH"):
        store.create_index("lines")
    # Documents put, changed and deleted meanwhile: before, after and at the current position of the build.
    store.put("d0", TEXT)
    store.put("d5", TEXT)
    store.put_triples("d2", [TRIPLE])
    store.put_triples("d6", [TRIPLE])
    store.delete("d4")
    assert list_parts(store).keys() == {"d0", "d1", "d2", "d3", "d5"}
    assert store.check() == []
    store.close()
    again = make_store()
    embedded_texts.clear()
    assert again.refresh() == ["lines"]
    assert get_index_row(again) == ("exact", 0, "part of every commit")
    fresh = make_store("fresh")
    fresh.create_index("lines")
    fill_store(fresh)
    fresh.put("d0", TEXT)
    fresh.put("d5", TEXT)
    fresh.put_triples("d2", [TRIPLE])
    fresh.put_triples("d6", [TRIPLE])
    fresh.delete("d4")
    assert dump_store(fresh) == dump_store(again)
    assert read_vectors(fresh) == read_vectors(again)
    assert again.refresh() == []


def test_changes_during_the_embedding_of_a_batch_are_kept(store: kvstore.Store, small_batches: None) -> None:
    fill_store(store)
    changes = iter(
        [lambda: store.put_triples("d0", [TRIPLE]), lambda: store.delete("d1"), lambda: store.put("d2", TEXT)]
    )
    real = index_maintenance.MaintainedIndexBuilder._derive_batch

    def call_and_change(self: Any, *args: Any) -> Any:
        batch = real(self, *args)
        next(changes, lambda: None)()
        return batch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_maintenance.MaintainedIndexBuilder, "_derive_batch", call_and_change)
        store.create_index("lines")
    assert list_parts(store)["d0"][-1] == "Tea is grown in Assam"
    assert list_parts(store).keys() == {"d0", "d2", "d3", "d4", "d5", "d6", "pairs"}
    assert store.check() == []


def test_two_that_build_it_at_once_do_not_disturb_each_other(store: kvstore.Store, small_batches: None) -> None:
    fill_store(store)
    real = index_maintenance.MaintainedIndexBuilder._derive_batch
    begun: list[int] = []

    def call_and_refresh(self: Any, *args: Any) -> Any:
        batch = real(self, *args)
        begun.append(1)
        if len(begun) == 2:
            assert store.refresh("lines") == ["lines"]
        return batch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_maintenance.MaintainedIndexBuilder, "_derive_batch", call_and_refresh)
        store.create_index("lines")
    assert get_index_row(store) == ("exact", 0, "part of every commit")
    assert len(list_parts(store)) == 8
    assert store.check() == []


def test_an_interrupted_drop_continues(store: kvstore.Store, small_batches: None) -> None:
    fill_store(store)
    store.create_index("lines")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        interrupt_after(patch, "_remove_batch", 2)
        store.drop_index("lines")
    state = get_index_row(store)
    assert state is not None and (state[0], state[2]) == ("dropping", "run DROP INDEX lines to finish")
    assert len(list_parts(store)) == 4 and "lines_parts" not in dump_store(store)
    store.delete("d6")
    store.put("d5", TEXT)
    assert len(list_parts(store)) == 2, "what is left goes with its documents"
    assert store.check() == []
    store.compact()
    with pytest.raises(errors.InputError, match="is being dropped; run DROP INDEX lines to finish"):
        store.create_index("lines")
    store.execute("DROP INDEX lines")
    assert (count_records(store), get_index_row(store)) == (0, None)
    store.create_index("lines")
    assert len(list_parts(store)) == 7


def test_a_repair_keeps_it_and_ends_unfinished_builds(
    store: kvstore.Store, embedded_texts: list[str], small_batches: None
) -> None:
    fill_store(store)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        interrupt_after(patch, "_store_batch", 2)
        store.create_index("lines", {"least": 18})
    with store._session.environment.write() as view:
        view.clear("lines_vector_space")
    assert store.check() == ["lines: free rows are recorded for vector blocks without free rows"] or store.check()
    embedded_texts.clear()
    report = store.repair()
    assert (report.lost, report.remaining) == ([], [])
    assert get_index_row(store) == ("exact", 0, "part of every commit")
    assert len(list_parts(store)) == 8 and list_parts(store)["d1"][-1] == "Tea is grown in Assam"
    assert not [text for text in embedded_texts if text.startswith("Tea 1: ")], "its vectors are carried over"
    assert [text for text in embedded_texts if text.startswith("Tea 6: ")]
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        interrupt_after(patch, "_remove_batch", 2)
        store.drop_index("lines")
    with store._session.environment.write() as view:
        view.clear("lines_vectors")
    report = store.repair()
    assert (report.lost, report.remaining) == ([], [])
    assert (count_records(store), get_index_row(store)) == (0, None)


@pytest.mark.parametrize("table", TABLES)
def test_a_fault_is_detected_and_repaired_and_does_not_prevent_a_drop(store: kvstore.Store, table: str) -> None:
    store.create_index("lines")
    fill_store(store, 40)
    before = dump_store(store), read_vectors(store)
    for _ in range(2):
        with store._session.environment.write() as view:
            rows = [(bytes(key), bytes(value)) for key, value in view.scan(table)]
            key, value = rows[len(rows) // 2]
            view.put(table, key, value[:-1] + bytes([value[-1] ^ 1]))
        assert any("lines" in problem for problem in store.check())
        if _ == 0:
            report = store.repair()
            assert (report.lost, report.remaining) == ([], [])
            assert (dump_store(store), read_vectors(store)) == before
    store.drop_index("lines")
    assert count_records(store) == 0


def test_ingest_and_import_maintain_it(make_store: MakeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(6):
        (folder / f"{number}.txt").write_text(f"Ship {number} sails. {TEXT}")
    alone, by_workers, imported = (make_store(name) for name in ("alone", "by_workers", "imported"))
    for store in (alone, by_workers, imported):
        store.create_index("lines", {"least": 20})
    alone.ingest(folder)
    alone.put_triples("0.txt", [TRIPLE])
    # Workers that know the kind derive and embed what the store keeps.
    (tmp_path / "sitecustomize.py").write_text(
        "from derived_lines import LINES\nfrom kvstore.registry import register\nregister(LINES)\n"
    )
    paths = [str(tmp_path), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))

    def refuse_to_read(*_: object) -> Any:
        raise AssertionError("this is for the workers to do")

    with monkeypatch.context() as context:
        context.setattr(Lines, "derive", refuse_to_read)
        context.setattr(by_workers._session.store.embedder, "embed", refuse_to_read)
        by_workers.ingest(folder, workers=2)
    by_workers.put_triples("0.txt", [TRIPLE])
    assert (dump_store(alone), read_vectors(alone)) == (dump_store(by_workers), read_vectors(by_workers))
    alone.export(tmp_path / "all.jsonl")
    imported.import_(tmp_path / "all.jsonl")
    assert dump_store(alone)["lines_parts"] == dump_store(imported)["lines_parts"]
    assert read_vectors(alone) == read_vectors(imported)


def test_a_changed_version_is_migrated_if_the_store_has_the_index(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    without, store = make_store("without"), make_store("with")
    for store_to_fill in (without, store):
        fill_store(store_to_fill)
    store.create_index("lines")
    without.close()
    store.close()
    with monkeypatch.context() as context:
        context.setattr(Lines, "version", 2)
        invalidate_lists()
        assert not make_store("without").readonly
        with pytest.raises(errors.StoreFormatError, match="lines.*kvstore migrate"):
            kvstore.open(store.path)
        done = kvstore.migrate(store.path, backup=False)
        assert done.rebuilt is not None and done.rebuilt.embedded == 0
        with kvstore.open(store.path) as again:
            assert len(list_parts(again)) == 8 and again.check() == []
    invalidate_lists()
    refused = kvstore.open(store.path)
    with pytest.raises(errors.KvstoreError, match="lines"):
        refused.put("more", TEXT)
    refused.close()


@pytest.mark.slow
def test_a_process_that_does_not_know_the_kind_only_reads(store: kvstore.Store) -> None:
    fill_store(store)
    store.create_index("lines")
    command = [sys.executable, "-m", "kvstore", "shell", store.path, "-c", "DELETE DOCUMENT 'd1'"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode != 0 and "it contains lines (version 1)" in ran.stderr
    command[-1] = "SELECT count(*) FROM documents"
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0 and "8" in ran.stdout


def test_the_shell_explains_how_to_resume_a_build(
    store: kvstore.Store, small_batches: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_store(store)
    interrupt_after(monkeypatch, "_store_batch", 2)
    console = Console(store)
    with pytest.raises(KeyboardInterrupt):
        console.run_items([ScriptItem("CREATE INDEX lines;")])
    output = capsys.readouterr().err
    assert "interrupted; 4 of 8 documents are done and will not be repeated; REFRESH INDEX lines continues" in output


def test_each_name_is_used_once() -> None:
    with pytest.raises(errors.InputError, match="a structure or derivation 'lines' already exists"):
        register(kvstore.registry.contract.System("others", "", indexes=(LINES_INDEX,)))
