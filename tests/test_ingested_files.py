"""A file that was ingested completely is not read again until something about it changes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

import kvstore
from kvstore.changes.dump import dump
from kvstore.readers import Item


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("kvstore.ingest.file_visit.SETTLED_SECONDS", 0)
    root = tmp_path / "papers"
    root.mkdir()
    for name in ("one", "two", "three"):
        (root / f"{name}.txt").write_text(f"Port Ellen has pier {name}.")
    (root / "rows.csv").write_text("id,text\na,Captain Reid came.\nb,Captain Reid left.\n")
    return root


@pytest.fixture
def read_names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that receives the name of each file when it is read."""
    from kvstore.ingest import file_documents

    names: list[str] = []
    original = file_documents.read_stream

    def record_name(opened: Callable[[], BinaryIO], name: str, *rest: object) -> Iterator[Item]:
        names.append(Path(name).name)
        return original(opened, name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(file_documents, "read_stream", record_name)
    return names


def ingest_folder(
    store: kvstore.Store, folder: Path, read_names: list[str], **options: object
) -> tuple[set[str], int, int, int]:
    """Return the files that an ingest reads, and the numbers of added, changed and unchanged documents."""
    read_names.clear()
    report = store.ingest(folder, **options)  # type: ignore[arg-type]
    assert len(read_names) == len(set(read_names)) == len(list(folder.iterdir())) - report.known
    return set(read_names), report.added, report.changed, report.unchanged


def test_files_are_read_again_when_anything_about_them_changed(
    store: kvstore.Store, folder: Path, read_names: list[str]
) -> None:
    everything = {"one.txt", "two.txt", "three.txt", "rows.csv"}
    assert ingest_folder(store, folder, read_names) == (everything, 5, 0, 0)
    assert ingest_folder(store, folder, read_names) == (set(), 0, 0, 5)
    table = "SELECT source, bytes, documents FROM files WHERE path LIKE '%rows.csv'"
    assert store.execute(table).fetchall() == [(str(folder / "rows.csv"), 50, 2)]
    assert store.statistics()["ingested_files"] == 4
    # Another text of the same size, with the old time of change put back.
    before = (folder / "one.txt").stat()
    (folder / "one.txt").write_text("Port Ellen had pier one.")
    os.utime(folder / "one.txt", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert ingest_folder(store, folder, read_names) == ({"one.txt"}, 0, 1, 4)
    # A document that was deleted or changed by hand comes back as the file has it.
    store.delete("two.txt")
    store.update("b", title="By hand")
    assert ingest_folder(store, folder, read_names) == ({"two.txt", "rows.csv"}, 1, 1, 3)
    store.put("three.txt", "By hand.")
    assert ingest_folder(store, folder, read_names) == ({"three.txt"}, 0, 1, 4)
    assert ingest_folder(store, folder, read_names, options={"encoding": "latin-1"})[0] == everything
    assert ingest_folder(store, folder, read_names)[0] == everything
    assert ingest_folder(store, folder, read_names)[0] == set()


def test_a_file_with_a_failure_is_read_again(store: kvstore.Store, folder: Path, read_names: list[str]) -> None:
    (folder / "rows.csv").write_text("id,text\na,Captain Reid came.\nb,too,many\n")
    store.ingest(folder)
    assert ingest_folder(store, folder, read_names)[0] == {"rows.csv"}


def test_the_first_of_two_files_keeps_a_key_and_the_row_of_the_other_gets_another(
    store: kvstore.Store, folder: Path, read_names: list[str]
) -> None:
    store.ingest(folder)
    (folder / "again.csv").write_text("id,text\na,Captain Grey came.\n")
    report = store.ingest(folder)
    assert (report.added, report.changed, report.known, report.failures) == (1, 1, 4, [])
    rows = store.execute("SELECT document, text FROM chunks WHERE document IN ('a', 'b', 'rows.csv:2')").fetchall()
    assert sorted(rows) == [
        ("a", "Captain Grey came."),
        ("b", "Captain Reid left."),
        ("rows.csv:2", "Captain Reid came."),
    ]
    assert "rows.csv" in ingest_folder(store, folder, read_names)[0]


def test_prune_knows_the_documents_of_files_that_are_not_read(
    store: kvstore.Store, folder: Path, read_names: list[str]
) -> None:
    store.ingest(folder)
    (folder / "two.txt").unlink()
    assert store.ingest(folder, prune=True).removed == 1
    assert store.keys() == ["a", "b", "one.txt", "three.txt"]


def test_a_document_changed_by_another_writer_is_not_recorded(
    store: kvstore.Store, folder: Path, read_names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # When the next file begins, the record of this one waits for the next commit, and its documents are stored.
    def change_during_ingest(now: kvstore.IngestProgress) -> None:
        if now.current == "three.txt":
            store.delete("a")

    monkeypatch.setattr("kvstore.ingest.document_batch.BATCH_DOCUMENTS", 1)
    store.ingest(folder, progress=change_during_ingest)
    assert store.execute("SELECT source FROM files ORDER BY source").fetchall() == [
        (str(folder / "one.txt"),),
        (str(folder / "three.txt"),),
        (str(folder / "two.txt"),),
    ]
    assert "rows.csv" in ingest_folder(store, folder, read_names)[0]


def test_a_file_changed_a_moment_ago_is_not_recorded(
    store: kvstore.Store, folder: Path, read_names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstore.ingest.file_visit.SETTLED_SECONDS", 3600)
    store.ingest(folder)
    assert len(ingest_folder(store, folder, read_names)[0]) == 4


def test_the_dump_does_not_know_of_files(make_store: Callable[..., kvstore.Store], folder: Path) -> None:
    ingested, put_store = make_store("one"), make_store("other")
    ingested.ingest(folder)
    for key in ingested.keys():  # noqa: SIM118
        document = ingested.get(key)
        assert document is not None
        put_store.put(key, document.text, title=document.title, source=document.source, meta=document.meta)
    with ingested.state() as ingested_state, put_store.state() as put_state:
        assert list(map(str, dump(ingested_state))) == list(map(str, dump(put_state)))
    assert put_store.execute("SELECT * FROM files").fetchall() == []


def test_an_interrupted_folder_continues_from_its_last_file(
    store: kvstore.Store, folder: Path, read_names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstore.ingest.document_batch.BATCH_DOCUMENTS", 2)

    def interrupt(now: kvstore.IngestProgress) -> None:
        if now.done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.ingest(folder, progress=interrupt)
    known_counts: list[int] = []
    report = store.ingest(folder, progress=lambda now: known_counts.append(now.known))
    assert report.known == known_counts[0] >= 1
    assert report.added + report.unchanged == 5


@pytest.mark.parametrize("change", ["rewritten", "cut", "removed"])
def test_a_file_that_changes_while_it_is_read_is_read_again(
    store: kvstore.Store, folder: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """The text that was read is stored, but the file is not recorded as known: the next ingest reads it again."""
    from kvstore.ingest import file_documents

    original = file_documents.read_stream
    page = folder / "two.txt"

    def read_and_change(opened: Callable[[], BinaryIO], name: str, *rest: object) -> Iterator[Item]:
        yield from original(opened, name, *rest)  # type: ignore[arg-type]
        if name == str(page):
            if change == "removed":
                page.unlink()
            else:
                page.write_text("Captain Reid came." if change == "rewritten" else "Port")

    with monkeypatch.context() as patch:
        patch.setattr(file_documents, "read_stream", read_and_change)
        store.ingest(folder)
    assert store.get("two.txt").text == "Port Ellen has pier two."  # type: ignore[union-attr]
    report = store.ingest(folder, prune=True)
    if change == "removed":
        assert store.get("two.txt") is None
    else:
        assert (report.changed, report.known) == (1, 3)
        assert store.get("two.txt").text == page.read_text()  # type: ignore[union-attr]


def test_a_clock_that_is_set_back_makes_nothing_stale(
    store: kvstore.Store, folder: Path, read_names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstore.ingest.file_visit.SETTLED_SECONDS", 2.0)
    now = time.time_ns()
    for shift, pages in ((0, 1), (-400 * 86_400, 2), (5, 3)):  # in seconds
        # Each state of the clock is the only one that the program knows; the files keep the times they were given.
        monkeypatch.setattr(time, "time_ns", lambda shift=shift: now + shift * 10**9)
        monkeypatch.setattr(time, "time", lambda shift=shift: now / 1e9 + shift)
        (folder / "one.txt").write_text(f"Port Ellen has {pages} piers.")
        store.ingest(folder)
        assert store.get("one.txt").text == f"Port Ellen has {pages} piers."  # type: ignore[union-attr]
        store.ingest(folder)
        # A file is taken as known once the clock is past its times: in doubt it is read again.
        assert store.execute("SELECT count(*) FROM files").fetchone() == (4 if shift == 5 else 0,)
    assert store.check() == []


def test_the_alternative_text_of_an_image_is_searched_and_not_quoted(store: kvstore.Store, tmp_path: Path) -> None:
    image = "<p><img src=a.png alt='The request for leave is approved on the screen Approvals with the green button'>"
    text = "<p>The manager approves the request for leave within three days in the list of open tasks."
    (tmp_path / "leave.html").write_text(f"<h1>Leave</h1><p>Choose the days in the calendar.{image}{text}")
    store.ingest(tmp_path / "leave.html")
    assert store.search("green button")
    answer = store.ask("Where is a request for leave approved?").text
    assert "open tasks" in answer and "green button" not in answer
