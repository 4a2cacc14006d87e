"""Files in: what is added, changed, skipped, pruned, and what a bad file does."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

import kvstore
from kvstore import errors
from kvstore.changes.dump import dump
from kvstore.ingest.ingest_log import read_ingests


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "papers"
    (root / "deep").mkdir(parents=True)
    (root / "one.md").write_text("# Harbour\n\nThe Harbour lies at Port Ellen.")
    (root / "deep" / "two.txt").write_text("Port Ellen has two piers.")
    (root / "three.html").write_text("<html><body><nav>Home</nav><h1>Piers</h1><p>Old Pier stands.</p></body></html>")
    return root


def test_a_folder_is_ingested_once_and_then_skipped(store: kvstore.Store, folder: Path) -> None:
    report = store.ingest(folder)
    assert (report.added, report.changed, report.unchanged, report.failures) == (3, 0, 0, [])
    assert store.keys() == ["deep/two.txt", "one.md", "three.html"]
    again = store.ingest(folder)
    assert (again.added, again.changed, again.unchanged) == (0, 0, 3)
    document = store.get("three.html")
    assert document is not None
    assert "Home" not in document.text
    assert document.title == "Piers"


def test_an_ingest_in_a_transaction_is_refused_before_any_file_is_read(store: kvstore.Store, folder: Path) -> None:
    with store.transaction() as transaction:
        transaction.put("a", "The Harbour is closed.")
        with pytest.raises(errors.TransactionError, match="this thread has a write transaction open"):
            store.ingest_progress(folder)
    assert store.keys() == ["a"]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
def test_a_folder_whose_name_is_not_utf8_is_ingested_and_pruned(
    store: kvstore.Store, tmp_path: Path, workers: int
) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system takes no such names")
    (folder / "menu.md").write_text("# Menu\n\nThe soup of Port Ellen.")
    (folder / os.fsdecode(b"the\xe9.txt")).write_text("Tea of Port Ellen.")
    (folder / os.fsdecode(b"bad\xe9.pdf")).write_text("no PDF")
    report = store.ingest(folder, workers=workers)
    assert report.added == 2
    (failure,) = report.failures
    assert "bad" in failure.place
    assert store.execute("SELECT key, source, origin FROM documents ORDER BY key").fetchall() == [
        ("menu.md", f"{tmp_path}/caf\\xe9/menu.md", f"{tmp_path}/caf\\xe9"),
        ("the\\xe9.txt", f"{tmp_path}/caf\\xe9/the\\xe9.txt", f"{tmp_path}/caf\\xe9"),
    ]
    (folder / os.fsdecode(b"bad\xe9.pdf")).unlink()
    (folder / "menu.md").unlink()
    report = store.ingest(folder, workers=workers, prune=True)
    assert (report.removed, report.unchanged, report.failures) == (1, 1, [])


def test_a_fault_in_extraction_costs_the_document_it_happens_at(
    store: kvstore.Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kvstore.extraction import extraction

    chunk_text = extraction.chunk_text

    def fail_on_two_piers(text: str, *arguments: object) -> object:
        if "two piers" in text:
            raise ZeroDivisionError("a fault")
        return chunk_text(text, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(extraction, "chunk_text", fail_on_two_piers)
    report = store.ingest(folder)
    assert report.added == 2
    assert [(Path(failure.place).name, failure.reason) for failure in report.failures] == [
        ("two.txt", "could not be extracted (ZeroDivisionError: a fault); please report it with the file")
    ]


def test_a_changed_file_is_replaced_and_a_vanished_one_pruned(store: kvstore.Store, folder: Path) -> None:
    store.ingest(folder)
    store.put("by hand", "Port Ellen again.")
    (folder / "one.md").write_text("# Harbour\n\nThe Harbour moved to Bowmore.")
    (folder / "three.html").unlink()
    report = store.ingest(folder)
    assert (report.changed, report.removed) == (1, 0)
    assert "three.html" in store.keys()  # noqa: SIM118
    assert store.ingest(folder, prune=True).removed == 1
    assert store.keys() == ["by hand", "deep/two.txt", "one.md"]
    assert [row.document for row in store.lookup("Bowmore")] == ["one.md"]


def test_a_renamed_file_is_never_missing(store: kvstore.Store, folder: Path) -> None:
    store.ingest(folder, prune=True)
    before = store.statistics()["change"]
    (folder / "one.md").rename(folder / "renamed.md")
    report = store.ingest(folder, prune=True)
    assert (report.added, report.removed) == (1, 1)
    assert store.statistics()["change"] == before + 1  # one commit: no reader finds neither, or both


@pytest.mark.parametrize("as_folder", [False, True])
def test_prune_removes_the_rows_that_are_gone_from_a_file(
    store: kvstore.Store, tmp_path: Path, as_folder: bool
) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    path = folder if as_folder else folder / "people.csv"
    (folder / "people.csv").write_text("id,name\n1,Ann\n2,Bob\n")
    store.put("note", "Bob came by hand.")
    store.ingest(path)
    (folder / "people.csv").write_text("id,name\n1,Ann\n3\n")
    assert store.ingest(path, prune=True).removed == 0  # a row cannot be read: it may be the missing one
    (folder / "people.csv").write_text("id,name\n1,Ann\n")
    assert store.ingest(path).removed == 0
    assert store.ingest(path, prune=True).removed == 1
    assert sorted(store.keys()) == ["1", "note"]


def test_prune_spares_other_folders(store: kvstore.Store, folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "letters"
    other.mkdir()
    (other / "letter.txt").write_text("Dear Port Ellen.")
    store.ingest([folder, other])
    (folder / "one.md").unlink()
    store.ingest(folder, prune=True)
    assert "letter.txt" in store.keys()  # noqa: SIM118
    assert "one.md" not in store.keys()  # noqa: SIM118


def test_a_document_belongs_to_the_folder_it_was_found_in_last(store: kvstore.Store, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text("The same text.")
    store.ingest(tmp_path / "one" / "a.txt")
    store.ingest(tmp_path / "one")
    store.ingest(tmp_path / "two")
    (tmp_path / "one" / "a.txt").unlink()
    assert store.ingest(tmp_path / "one", prune=True).removed == 0
    (tmp_path / "two" / "a.txt").unlink()
    assert store.ingest(tmp_path / "two", prune=True).removed == 1


def test_documents_of_an_imported_store_belong_to_their_folder(
    store: kvstore.Store, folder: Path, tmp_path: Path
) -> None:
    store.ingest(folder)
    store.export(tmp_path / "all.jsonl")
    (folder / "one.md").unlink()
    with kvstore.open(tmp_path / "imported", embedder="hashing") as imported:
        imported.import_(tmp_path / "all.jsonl")
        assert imported.ingest(folder, prune=True).removed == store.ingest(folder, prune=True).removed == 1


def test_a_changed_file_that_is_ingested_alone_still_belongs_to_its_folder(store: kvstore.Store, folder: Path) -> None:
    store.ingest(folder)
    (folder / "one.md").write_text("# One\n\nAnother text.")
    assert store.ingest(folder / "one.md").changed == 1
    (folder / "one.md").unlink()
    assert store.ingest(folder, prune=True).removed == 1


@pytest.mark.slow
def test_bad_files_are_reported_and_the_others_ingested(store: kvstore.Store, folder: Path) -> None:
    (folder / "empty.txt").write_text("")
    (folder / "latin.txt").write_bytes(b"caf\xe9 au lait")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 nothing else")
    (folder / "rows.csv").write_text("id,text\na,First row here.\nb,Second,too many\nc,Third row here.\n")
    report = store.ingest([folder, folder / "missing.txt"])
    reasons = {Path(failure.place.split(":")[0]).name: failure.reason for failure in report.failures}
    assert set(reasons) == {"latin.txt", "broken.pdf", "rows.csv", "missing.txt"}
    assert report.skips == "1 empty"
    assert "encoding" in reasons["latin.txt"]
    assert not any(str(folder) in reason for reason in reasons.values()), "the place is named once"
    assert {"a", "c", "one.md", "deep/two.txt"} <= set(store.keys())
    assert "b" not in store.keys()  # noqa: SIM118


def test_prune_keeps_the_documents_of_files_that_cannot_be_read(store: kvstore.Store, folder: Path) -> None:
    store.ingest(folder)
    (folder / "one.md").write_bytes(b"# caf\xe9")
    (folder / "three.html").unlink()
    report = store.ingest(folder, prune=True)
    assert (report.removed, [Path(failure.place).name for failure in report.failures]) == (1, ["one.md"])
    assert store.keys() == ["deep/two.txt", "one.md"]
    document = store.get("one.md")
    assert document is not None
    assert "Port Ellen" in document.text, "what is stored stays until it can be replaced"
    (folder / "one.md").unlink()
    assert store.ingest(folder, prune=True).removed == 1


def test_prune_keeps_the_documents_of_folders_that_cannot_be_listed(
    store: kvstore.Store, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder)
    (folder / "broken.txt").write_text("Port Ellen has a broken pier.")
    store.ingest(link)
    (folder / "one.md").unlink()
    (folder / "broken.txt").unlink()
    (folder / "broken.txt").symlink_to(folder / "nowhere.txt")

    def list_names(path: Path, original: Callable[..., list[str]] = os.listdir) -> list[str]:
        if Path(path).name == "deep":
            raise PermissionError(13, "Permission denied")
        return original(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", list_names)
        report = store.ingest(link, prune=True)
    assert (report.removed, len(report.failures)) == (1, 2)
    assert store.keys() == ["broken.txt", "deep/two.txt", "three.html"]
    (folder / "broken.txt").unlink()
    assert store.ingest(link, prune=True).removed == 1


def test_a_key_used_twice_is_reported_and_its_first_text_stored(store: kvstore.Store, tmp_path: Path) -> None:
    rows = [{"id": "x", "text": "First of them."}, {"id": "x", "text": "Second of them."}]
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    report = store.ingest(tmp_path / "rows.jsonl")
    assert report.added == 1
    assert "already used in this ingest" in report.failures[0].reason
    document = store.get("x")
    assert document is not None
    assert document.text == "First of them."


@pytest.mark.slow
def test_a_text_over_the_limit_is_refused(store: kvstore.Store, tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("word " * (20 << 20))
    (tmp_path / "fine.txt").write_text("A fine text.")
    report = store.ingest([tmp_path / "long.txt", tmp_path / "fine.txt"])
    assert "the limit is" in report.failures[0].reason
    assert store.keys() == ["fine.txt"]


def test_pairs_go_into_the_forest(store: kvstore.Store, tmp_path: Path) -> None:
    (tmp_path / "kinds.csv").write_text("child,parent\nTug,Ship\nShip,Vessel\n")
    store.ingest(tmp_path / "kinds.csv", format="pairs")
    assert [(row.tree, row.parent) for row in store.lookup("tug")] == [("kinds", "Ship")]
    assert {row.relative for row in store.expand("Tug", direction="up", depth=5)} == {"Tug", "Ship", "Vessel"}


def test_the_source_of_a_document_is_its_file(store: kvstore.Store, folder: Path, tmp_path: Path) -> None:
    store.ingest(folder)
    (folder / "rows.csv").write_text("id,text\na,The Old Pier burned.\n")
    store.ingest(os.path.relpath(folder / "rows.csv"))
    sources = {key: store.get(key).source for key in store.keys()}  # type: ignore[union-attr]  # noqa: SIM118
    assert sources == {
        "a": str(folder / "rows.csv"),
        "deep/two.txt": str(folder / "deep" / "two.txt"),
        "one.md": str(folder / "one.md"),
        "three.html": str(folder / "three.html"),
    }
    moved = folder.rename(tmp_path / "elsewhere")
    report = store.ingest(moved, prune=True)
    assert (report.added, report.changed, report.removed) == (0, 4, 0)
    assert store.get("one.md").source == str(moved / "one.md")  # type: ignore[union-attr]
    (citation,) = store.execute("ASK 'What burned?' TOP 1").fetchall()[0][1]
    assert Path(citation["source"]).is_file()


def test_a_file_ingested_again_under_another_key_is_reported(
    store: kvstore.Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstore.ingest.file_visit.SETTLED_SECONDS", -1.0)
    store.ingest(folder)
    assert store.ingest(folder).remarks == []
    report = store.ingest(folder / "deep")
    assert (report.added, report.known) == (1, 0)
    (remark,) = report.remarks
    assert "'two.txt' and 'deep/two.txt'" in remark
    cursor = store.execute("INGEST ?", (str(folder.parent),))
    assert cursor.message is not None
    assert cursor.message.count("stored under two keys") == 1
    assert "and 1 more" in cursor.message
    store.ingest(folder, prune=True)
    assert store.check() == []


def test_patterns_to_include_that_match_no_file_are_reported(store: kvstore.Store, folder: Path) -> None:
    assert store.ingest(folder, include=[".md", "*.md"]).remarks == []
    report = store.ingest(folder, include=".md")
    assert report.remarks == [
        "no file matches the include patterns ('.md'); to match names by their suffix, write '*.md'"
    ]
    (folder / "nothing").mkdir()
    assert store.ingest(folder / "nothing", include=".md").remarks == []


def test_a_glob_and_a_folder_prune_the_files_they_cover(store: kvstore.Store, folder: Path) -> None:
    (folder / "four.md").write_text("# Four\n\nA fourth pier.")
    (folder / "note.wiki").write_text("A note.")
    store.ingest(folder)
    store.ingest(folder, include="*.wiki")
    (folder / "one.md").unlink()
    (folder / "deep" / "two.txt").unlink()
    (folder / "note.wiki").unlink()
    assert store.ingest(str(folder / "*.md"), prune=True).removed == 1
    assert store.keys() == ["deep/two.txt", "four.md", "note.wiki", "three.html"]
    assert store.ingest(folder, format="markdown", prune=True).removed == 0, "it covers Markdown only"
    assert store.ingest(folder, prune=True).removed == 1
    assert store.ingest([folder], include=["*.wiki", "*.md"], prune=True).removed == 1
    assert store.keys() == ["four.md", "three.html"]


def test_lock_files_of_office_programs_are_skipped_and_old_formats_are_named_with_new_ones(
    store: kvstore.Store, folder: Path
) -> None:
    for name in ("~$four.md", ".~lock.four.md#", "~$fee.docx", "fee.doc", "plan.PPT", "mail.msg", "map.png"):
        (folder / name).write_bytes(b"\0Ada Byron")
    report = store.ingest(folder)
    assert report.failures == []
    assert report.skips == "3 hidden, 1 .doc, 1 .msg, 1 .png, 1 .ppt; save .doc as .docx, .ppt as .pptx, .msg as .eml"
    cursor = store.execute("INGEST ?", (str(folder),))
    assert cursor.message is not None
    assert ".msg as .eml" in cursor.message


def test_skipped_files_are_counted_by_suffix_and_may_be_included(store: kvstore.Store, folder: Path) -> None:
    for name in ("a.wiki", "b.wiki", "c.xyz"):
        (folder / name).write_text("Asciidoc has piers.")
    (folder / "core").write_bytes(b"\0")
    report = store.ingest(folder)
    assert (report.skipped, report.skips) == (4, "2 .wiki, 1 no suffix, 1 .xyz")
    assert report.skipped_by == {"suffix .wiki": 2, "suffix .xyz": 1, "no suffix": 1}
    cursor = store.execute("INGEST ? AS text WITH (include = '*.wiki')", (str(folder),))
    assert cursor.fetchall()[0][0] == 2
    assert cursor.message is not None
    assert "1 .xyz" in cursor.message
    assert store.get("a.wiki").format == "text"  # type: ignore[union-attr]
    for wrong in ("", [""], [7]):
        with pytest.raises(errors.InputError, match="a pattern of file names"):
            store.ingest(folder, include=wrong)  # type: ignore[arg-type]


def test_excluded_files_and_folders_are_skipped_and_their_documents_are_not_pruned(
    store: kvstore.Store, folder: Path, tmp_path: Path
) -> None:
    (folder / "deep" / "er").mkdir()
    (folder / "deep" / "er" / "four.md").write_text("# Four\n\nA fourth pier.")
    store.ingest(folder)
    assert store.keys() == ["deep/er/four.md", "deep/two.txt", "one.md", "three.html"]
    for index, pattern in enumerate(("deep", "deep/", "deep/*", "*er/", "d?ep/**")):
        report = store.ingest(folder, exclude=["*.html", pattern], prune=True)
        assert report.removed == 0
        assert report.skipped_by["excluded"] in (2, 3)
        with kvstore.open(tmp_path / f"store{index}", embedder="hashing") as other:
            other.ingest(folder, exclude=["three.html", pattern])
            assert other.keys() == (["deep/two.txt", "one.md"] if pattern == "*er/" else ["one.md"])
    (folder / "deep" / "two.txt").unlink()
    (folder / "one.md").unlink()
    assert store.ingest(folder, exclude="deep", prune=True).removed == 1
    cursor = store.execute("INGEST ? WITH (exclude = 'deep/er', prune = true)", (str(folder),))
    assert cursor.message is not None
    assert "1 excluded" in cursor.message
    assert store.keys() == ["deep/er/four.md", "three.html"]
    store.ingest(folder / "three.html", exclude="*.html")  # a named file is not excluded
    assert "no file matches" in str(store.ingest(folder / "*.html", exclude="*.html").failures)
    assert store.ingest(folder, exclude=["./deep", "/three.html"]).skipped_by["excluded"] == 2
    assert store.ingest(folder, exclude="/er").skipped_by["excluded"] == 0, "it is in another folder"
    with pytest.raises(errors.InputError, match="a pattern of file names to exclude"):
        store.ingest(folder, exclude="/")
    with pytest.raises(errors.StatementError, match="the option exclude must be a pattern"):
        store.execute("INGEST ? WITH (exclude = 7)", (str(folder),))


def test_an_empty_path_is_an_error_and_nothing_is_ingested(store: kvstore.Store, folder: Path) -> None:
    for paths in ("", [folder, ""]):
        with pytest.raises(errors.InputError, match="path that is not empty"):
            store.ingest(paths)
    with pytest.raises(errors.InputError, match="path that is not empty"):
        store.execute("INGEST ''")
    with pytest.raises(errors.InputError, match="path that is not empty"):
        store.execute("EXPLAIN INGEST ''")
    assert store.keys() == []


def test_undecodable_file_names_and_their_spelling_are_both_stored(store: kvstore.Store, folder: Path) -> None:
    (folder / "bad\\xff.txt").write_text("The literal one.")
    (folder / "bad\udcff.txt").write_text("The byte.")
    report = store.ingest([folder / "bad\\xff.txt", folder / "bad\udcff.txt"])
    assert (report.added, report.failures) == (2, [])
    assert store.ingest(folder).failures == []
    assert store.get("bad\\xff.txt").text == "The byte."  # type: ignore[union-attr]
    assert store.get("bad\\x5cxff.txt").text == "The literal one."  # type: ignore[union-attr]
    for pattern in ("bad?.txt", "bad\\xff.txt", "bad*"):  # the second is the document's key
        assert store.ingest(folder, exclude=pattern, prune=True).removed == 0, pattern


def test_a_damaged_log_of_ingests_is_continued(store: kvstore.Store, tmp_path: Path) -> None:
    folder = tmp_path / "line\u2028end"
    folder.mkdir()
    (folder / "a.txt").write_text("Tea is made from leaves.")
    log = store.path / "ingests.jsonl"
    log.write_bytes(b"\xff\xfe\n")
    for _ in range(2):
        store.ingest(folder)
    damaged_line, *lines = log.read_text(errors="replace").removesuffix("\n").split("\n")
    assert (damaged_line, [json.loads(line)["paths"] for line in lines]) == ("\ufffd\ufffd", [[str(folder)]] * 2)
    assert [entry["added"] for entry in read_ingests(store.path)] == [0, 1]


def test_a_file_with_several_paths_is_read_once(store: kvstore.Store, folder: Path) -> None:
    report = store.ingest([folder, str(folder / "**" / "*.md"), folder])
    assert (report.added, report.unchanged, report.failures) == (3, 0, [])


def test_progress_is_reported_up_to_the_end(store: kvstore.Store, folder: Path) -> None:
    reports: list[kvstore.IngestProgress] = []
    store.ingest(folder, progress=reports.append)
    assert [report.done for report in reports] == [0, 1, 2, 3]
    assert reports[-1].chunks == 3
    assert reports[-1].total == 3
    assert reports[-1].bytes == reports[-1].bytes_done == sum(path.stat().st_size for path in folder.rglob("*.*"))
    assert [report.bytes_done for report in reports] == sorted(report.bytes_done for report in reports)
    assert (reports[-1].documents, reports[-1].seconds_left) == (3, 0.0)


def test_the_time_left_follows_from_the_bytes_of_the_last_while(monkeypatch: pytest.MonkeyPatch) -> None:
    from kvstore.ingest import throughput as pace

    now = [100.0]
    monkeypatch.setattr(pace.time, "monotonic", lambda: now[0])
    throughput = pace.Pace()
    throughput.start(1000)
    assert throughput.estimate_seconds_left() is None
    now[0] += 30
    throughput.end_file(100)
    assert throughput.estimate_seconds_left() is None, "too little is known: models were loaded"
    now[0] += 4
    throughput.add_partial(700, 100)
    assert (throughput.bytes_done, throughput.estimate_seconds_left()) == (200, 32.0)
    throughput.end_file(100)
    assert throughput.bytes_done == 200
    for _ in range(100):  # a slow file: what came before counts no more
        now[0] += 1
        throughput.add_partial(1, 700)
    assert throughput.bytes_done == 300
    assert throughput.estimate_seconds_left() == pytest.approx(700, rel=0.1)
    throughput.end_file(800)
    assert throughput.estimate_seconds_left() == 0


def test_a_file_that_fails_counts_neither_as_read_nor_as_remaining(store: kvstore.Store, tmp_path: Path) -> None:
    """A large file that failed at once made the time left too short by as much as it is large."""
    (tmp_path / "a.pdf").write_bytes(bytes(1 << 20))
    (tmp_path / "b.txt").write_text("Tea is made from leaves.")
    reports: list[kvstore.IngestProgress] = []
    assert len(store.ingest(tmp_path, progress=reports.append).failures) == 1
    assert [(report.bytes_done, report.bytes) for report in reports] == [(0, (1 << 20) + 24), (0, 24), (24, 24)]


def test_texts_larger_than_their_file_leave_the_remaining_time_unknown(
    store: kvstore.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstore.ingest.document_batch.BATCH_DOCUMENTS", 2)
    rows = "".join(f"{number};Port Ellen\n" for number in range(40))
    (tmp_path / "table.csv").write_text("a rather long heading;another rather long heading\n" + rows)
    reports: list[kvstore.IngestProgress] = []
    store.ingest(tmp_path, progress=reports.append)
    full = [report for report in reports if report.bytes_done == report.bytes]
    assert {report.seconds_left for report in full if report.done < report.total} == {None}
    assert full[-1].seconds_left == 0


def test_an_interrupted_ingest_keeps_committed_documents_and_continues(
    store: kvstore.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstore.ingest.document_batch.BATCH_DOCUMENTS", 2)
    for number in range(7):
        (tmp_path / f"{number}.txt").write_text(f"Document number {number} of Port Ellen.")

    def interrupt(now: kvstore.IngestProgress) -> None:
        if now.done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.ingest(str(tmp_path / "*.txt"), progress=interrupt)
    assert store.keys() == ["0.txt", "1.txt", "2.txt", "3.txt"]
    report = store.ingest(str(tmp_path / "*.txt"))
    assert (report.unchanged, report.added) == (4, 3)


def test_an_ingest_can_be_iterated_over_and_left(
    store: kvstore.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstore.ingest.document_batch.BATCH_DOCUMENTS", 2)
    monkeypatch.setattr("kvstore.ingest.document_batch.MAX_WAIT_SECONDS", 0)
    for number in range(7):
        (tmp_path / f"{number}.txt").write_text(f"Document number {number} of Port Ellen.")
    pattern = str(tmp_path / "*.txt")
    with store.ingest_progress(pattern, workers=1) as ingestion:
        assert store.keys() == []
        for step in ingestion:
            if step.documents == 4:
                break
        store.put("between", "A change between two commits.")  # it holds no lock
        assert ingestion.report.documents == 4
    assert list(ingestion) == []
    assert store.keys() == ["0.txt", "1.txt", "2.txt", "3.txt", "between"]
    steps = list(again := store.ingest_progress(pattern, include=["*.txt"], options=None))
    assert (steps[0].done, steps[-1].done, steps[-1].total) == (0, 7, 7)
    assert (again.report.unchanged, again.report.added, again.report.seconds > 0) == (4, 3, True)
    with pytest.raises(TypeError, match=r"ingest_progress\(\) has no argument 'worker'; did you mean 'workers'"):
        store.ingest_progress(pattern, worker=1)  # type: ignore[call-arg]
    with pytest.raises(errors.InputError, match="workers must be 0"):
        store.ingest_progress(pattern, workers=99)


def test_batches_grow_with_the_store_as_far_as_memory_allows(
    make_store: Callable[..., kvstore.Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstore.ingest.document_batch.BATCH_DOCUMENTS", 4)
    monkeypatch.setattr("kvstore.ingest.document_batch.STORE_DIVISOR", 4)
    monkeypatch.setattr("kvstore.ingest.document_batch.MAX_BATCH_SIZE", 10)
    rows = (json.dumps({"id": str(number), "text": f"Number {number} of Port Ellen."}) for number in range(90))
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))

    def list_commit_sizes(store: kvstore.Store) -> list[int]:
        counts = [0]
        store.ingest(tmp_path / "rows.jsonl", workers=0, progress=lambda now: counts.append(now.documents))
        return [after - before for before, after in pairwise(sorted(set(counts)))]

    assert list_commit_sizes(make_store("large")) == [4, 4, 4, 4, 4, 5, 6, 7, 9, 10, 10, 10, 10, 3]
    monkeypatch.setattr("kvstore.ingest.document_batch.BATCH_BYTES", 30_000)
    sizes = list_commit_sizes(make_store("small memory"))
    assert max(sizes) == 5
    assert sum(sizes) == 90


@pytest.mark.slow
def test_embedded_documents_that_arrive_quickly_are_committed_together(
    make_store: Callable[..., kvstore.Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstore.ingest.document_batch.BATCH_DOCUMENTS", 4)
    monkeypatch.setattr("kvstore.ingest.document_batch.MAX_BATCH_SIZE", 10)
    monkeypatch.setattr("kvstore.ingest.document_batch.MAX_WAIT_SECONDS", 1e9)
    rows = (json.dumps({"id": str(number), "text": f"Number {number} of Port Ellen."}) for number in range(24))
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))

    def list_commit_sizes(store: kvstore.Store, workers: int) -> list[int]:
        counts = [0]
        store.ingest(tmp_path / "rows.jsonl", workers=workers, progress=lambda now: counts.append(now.documents))
        return [after - before for before, after in pairwise(sorted(set(counts)))]

    assert list_commit_sizes(make_store("by a worker"), 1) == [10, 10, 4]
    assert list_commit_sizes(make_store("here, where it is yet to be embedded"), 0) == [4] * 6
    monkeypatch.setattr("kvstore.ingest.throughput.Pace.estimate_seconds_left", lambda pace: 0.0)
    assert list_commit_sizes(make_store("so that nothing waits when the workers end"), 1) == [4] * 6
    monkeypatch.undo()
    monkeypatch.setattr("kvstore.ingest.document_batch.BATCH_DOCUMENTS", 4)
    monkeypatch.setattr("kvstore.ingest.document_batch.MAX_WAIT_SECONDS", 0)
    assert list_commit_sizes(make_store("slowly"), 1) == [4] * 6


def test_options_reach_the_reader_and_unknown_formats_are_refused(store: kvstore.Store, tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9 au lait")
    assert store.ingest(tmp_path / "latin.txt", options={"encoding": "latin-1"}).added == 1
    document = store.get("latin.txt")
    assert document is not None
    assert document.text == "café au lait"
    with pytest.raises(errors.InputError, match="no format 'visio'"):
        store.ingest(tmp_path / "latin.txt", format="visio")


def test_a_second_process_of_the_same_content_changes_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstore.ingest.file_visit.SETTLED_SECONDS", 0)
    with kvstore.open(tmp_path / "s", embedder="hashing") as store:
        store.ingest(folder)
    with kvstore.open(tmp_path / "s") as store:
        before = store.statistics()["change"]
        store.ingest(folder)
        assert store.statistics()["change"] == before
        assert store.check() == []


def test_nothing_is_ingested_into_a_readonly_store(folder: Path, tmp_path: Path) -> None:
    kvstore.open(tmp_path / "s", embedder="hashing").close()
    with kvstore.open(tmp_path / "s", readonly=True) as store, pytest.raises(errors.ReadOnlyError):
        store.ingest(folder)


def _make_name(number: int) -> str:
    """Return a name that is unique to a number."""
    return "Q" + "".join("abcdefghij"[int(digit)] for digit in f"{number:05}")


def test_a_commit_may_bring_more_names_than_pages_of_heads_are_held_at_first(store: kvstore.Store) -> None:
    with store.transaction() as transaction:
        for number in range(90):
            streets = ". ".join(f"{_make_name(100 * number + index)} Street" for index in range(100))
            transaction.put(f"d{number}", streets + ".")
    assert store.statistics()["entities"] > 16 * 509


PAGE = (
    "<nav class=top><a href=/>Home</a> <a href=/boats>Boats</a></nav><main><h1>Piers</h1><p>The Old Pier stands in the "
    "harbour of Port Ellen.</p></main><footer>Copyright 2024</footer>"
)


def test_left_out_parts_of_pages_are_reported(store: kvstore.Store, tmp_path: Path) -> None:
    (tmp_path / "piers.html").write_text(PAGE)
    (tmp_path / "plain.txt").write_text("Nothing is left out of a text.")
    rows = store.execute(f"EXPLAIN INGEST '{tmp_path}'").fetchall()
    details = [detail for step, detail, *_ in rows if step == "leave out"]
    assert details == [
        "footer, page footer, 14 characters on 1 page: Copyright 2024",
        "nav.top, navigation, 9 characters on 1 page: Home Boats",
    ]
    row = store.execute(f"INGEST '{tmp_path}'")
    assert dict(zip(row.columns, row.fetchall()[0], strict=True))["left_out"] == 23
    assert store.execute("SELECT key, left_out FROM documents").fetchall() == [("piers.html", 23), ("plain.txt", 0)]
    assert store.ingest(tmp_path / "piers.html", options={"navigation": "keep"}).left_out == {}
    document = store.get("piers.html")
    assert document is not None
    assert document.text.startswith("Home Boats\n\n# Piers")
    assert store.execute("SELECT left_out FROM documents WHERE key = 'piers.html'").fetchall() == [(0,)]
    assert store.ingest(tmp_path / "piers.html").left_out == {"piers.html": 23}


def test_left_out_parts_are_stored_with_the_document(
    store: kvstore.Store, make_store: Callable[..., kvstore.Store], tmp_path: Path
) -> None:
    (tmp_path / "piers.html").write_text(PAGE)
    store.ingest(tmp_path / "piers.html")
    before = dump_documents(store)
    store.update("piers.html", meta={"seen": 1})
    assert store.execute("SELECT left_out FROM documents").fetchall() == [(23,)]
    store.update("piers.html", text="By hand.")
    assert store.execute("SELECT left_out FROM documents").fetchall() == [(0,)]
    store.ingest(tmp_path / "piers.html")
    assert dump_documents(store) == before
    store.export(tmp_path / "all.jsonl")
    other = make_store("other")
    other.import_(tmp_path / "all.jsonl")
    assert dump_documents(other) == before
    document = store.get("piers.html")
    assert document is not None
    other.put(document.key, document.text, title=document.title, source=document.source, format=document.format)
    assert other.execute("SELECT left_out FROM documents").fetchall() == [(0,)]


def test_files_that_older_readers_read_are_read_again(
    store: kvstore.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kvstore.ingest import file_visit

    path = tmp_path / "piers.html"
    path.write_text(PAGE)
    os.utime(path, (1_000_000_000, 1_000_000_000))
    monkeypatch.setattr(file_visit, "SETTLED_SECONDS", 0.0)
    monkeypatch.setattr(file_visit, "READING", file_visit.READING - 1)
    store.ingest(path)
    assert store.ingest(path).known == 1
    monkeypatch.undo()
    assert store.ingest(path).known == 0
    assert store.ingest(path).unchanged == 1


def dump_documents(store: kvstore.Store) -> object:
    with store.state() as state:
        return dump(state)


def test_files_without_a_known_suffix_are_read_by_their_first_bytes(store: kvstore.Store, tmp_path: Path) -> None:
    folder = tmp_path / "unpacked"
    mail = "Return-Path: <ann@example.org>\nFrom: Ann Bell <ann@example.org>\nSubject: The pump\n"
    mail += "Message-ID: <1@example.org>\n\nThe pump stands.\n"
    files = {
        "LICENSE": "Anyone may copy the drawings of the pump.",
        "MPL-1.1": "        PUMP LICENSE\n        Version 1.1\n\nDisputes are settled in Port Ellen.",
        "README.Debian": "The pump is packaged.",
        "get.py.README": "Getting pumps\n=============\n\nThe pump is got.",
        "mail/cur/1258471718.M1P2.host:2,S": mail,
        "mail/new/1258471719.M1P2.host": mail.replace("<1@", "<2@"),
        "site/page.php?id=3": "<!DOCTYPE html>\n<html><body><h1>Harbour</h1><p>Open at noon.</p></body></html>",
        "id_rsa": "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n",
        "lock": '{"pump": [1]}',
        "notes~": "The pump was old.",
        "pump.1": '.\\" A page.\n.TH PUMP 1\n.SH NAME\npump \\- lifts water\n',
        "letter.2": ".pp\nDear Ann,\n",
        "core": "\0\1",
        "empty": "",
        "style.css": "p { color: red }",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    report = store.ingest(folder)
    assert (report.added, report.failures) == (8, [])
    assert report.skipped_by == {"no suffix": 5, "suffix .2": 1, "suffix .css": 1}
    keys = store.keys()
    assert {key: (store.get(key).format, store.get(key).title) for key in keys} == {  # type: ignore[union-attr]
        "1@example.org": ("markdown", "The pump"),
        "2@example.org": ("markdown", "The pump"),
        "LICENSE": ("text", None),
        "MPL-1.1": ("text", "PUMP LICENSE, Version 1.1"),
        "README.Debian": ("text", None),
        "get.py.README": ("text", "Getting pumps"),
        "pump.1": ("markdown", "pump(1): lifts water"),
        "site/page.php?id=3": ("markdown", "Harbour"),
    }
    assert store.ingest(folder / "id_rsa").added == 1, "what is named is read"
    (folder / "LICENSE").unlink()
    (folder / "mail/new/1258471719.M1P2.host").unlink()
    assert store.ingest(folder, prune=True).removed == 2
    assert store.ingest(folder, format="text", prune=True).removed == 0, "it covers files that are named as texts"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Release notes\n=============\nAll that is new.", "Release notes"),
        ("=====\nPlan\n=====\n\nFirst.", "Plan"),
        ("\n\n            GNU LICENSE\n        Version 2, June 1991\n\nCopyright", "GNU LICENSE, Version 2, June 1991"),
        ("   How to report a fault in\n                 the pump\n\n   Tell us.", "How to report a fault in the pump"),
        (
            "Group                A. Bell\nRequest: 793       May 1981\n\n          PUMP PROTOCOL\n\n1. Scope",
            "PUMP PROTOCOL",
        ),
        ("Guide for visitors\n\nCome by boat.", "Guide for visitors"),
        ("The pump was stopped at noon.\n\nIt runs again.", None),
        ("Dear Ann,\n\nthank you.", None),
        ("Copyright (c) The Regents\n\nRedistribution", None),
        ("ann@example.org\n\nHello", None),
        ("all\n\nprint(1)", None),
        ("2026-01-02\n\nRain.", None),
        ("---\n\n***\n\n", None),
        ("one\ntwo\nthree\nfour\n\nfive", None),
    ],
)
def test_a_plain_text_gets_its_first_line_as_title(
    store: kvstore.Store, tmp_path: Path, text: str, title: str | None
) -> None:
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "a.log").write_text(text)
    store.ingest([tmp_path / "a.txt", tmp_path / "a.log"])
    assert store.execute("SELECT title FROM documents ORDER BY key").fetchall() == [(None,), (title,)]


def test_the_source_of_a_page_is_read_in_its_own_format(store: kvstore.Store, tmp_path: Path) -> None:
    (tmp_path / "faq.rst.txt").write_text("Questions\n=========\n\nPumps\n-----\n\nAsk ``pump``.\n")
    store.ingest(tmp_path)
    assert store.execute("SELECT title, heading FROM chunks JOIN documents ON document = key").fetchall() == [
        ("Questions", "Questions > Pumps")
    ]


def test_empty_files_do_not_prevent_pruning(store: kvstore.Store, tmp_path: Path) -> None:
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "__init__.py").write_text("\n")
    (folder / "empty.md").write_bytes(b"")
    (folder / "searchindex.js").write_text("Search.setIndex({" + "'pump':[1,2]," * 1000 + "})")
    (folder / "a.txt").write_text("Port Ellen has a pier.")
    (folder / "b.txt").write_text("Port Ellen has a pump.")
    report = store.ingest(folder)
    assert (report.added, report.failures) == (2, [])
    assert report.skips == "2 empty, 1 generated code"
    (folder / "b.txt").unlink()
    assert store.ingest(folder, prune=True).removed == 1


def test_the_first_of_very_many_failures_are_reported(store: kvstore.Store, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,text\n" + "".join(f"{n},a,b,c\n" for n in range(250)))
    cursor = store.execute("INGEST ?", (str(tmp_path / "rows.csv"),))
    assert len(cursor.problems) == 101
    assert cursor.problems[-1] == "... and 150 more that could not be read"
    assert len(store.ingest(tmp_path / "rows.csv").failures) == 250


def test_rows_of_two_tables_with_the_same_keys_are_all_there(tmp_path: Path) -> None:
    """Rows of the first file have the keys; rows of the next get keys by position, as in a new store of both files."""
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "items.csv").write_text("id,item\n1,Pear\n2,Plum\n")
    (folder / "people.csv").write_text("id,name\n1,Ann\n3,Bob\n")
    (folder / "talks.json").write_text('[{"id": 1, "text": "Ann is in Oslo."}]')
    with kvstore.open(tmp_path / "store", embedder="hashing") as store:
        report = store.ingest(folder)
        assert (report.added, report.failures) == (5, [])
        assert sorted(store.keys()) == ["1", "2", "3", "people.csv:2", "talks.json:1"]
        assert store.ingest(folder).unchanged == 5
        (folder / "items.csv").unlink()
        store.ingest(folder, prune=True)
        assert sorted(store.keys()) == ["1", "3", "talks.json:1"] and "Ann" in store.get("1").text


@pytest.mark.parametrize("more_rows", ["", "3,Cy\n3,Di\n"])  # the file is recorded, or has a failure
def test_rows_whose_keys_an_added_file_takes_get_other_keys_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more_rows: str
) -> None:
    monkeypatch.setattr("kvstore.ingest.file_visit.SETTLED_SECONDS", 0)
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "people.csv").write_text("id,name\n1,Ann\n2,Bob\n" + more_rows)
    with kvstore.open(tmp_path / "store", embedder="hashing") as store:
        assert len(store.ingest(folder).failures) == bool(more_rows)
        (folder / "items.csv").write_text("id,item\n1,Pear\n3,Plum\n")
        report = store.ingest(folder, prune=True)
        with kvstore.open(tmp_path / "new", embedder="hashing") as new_store:
            assert report.failures == new_store.ingest(folder).failures
            assert dump_documents(store) == dump_documents(new_store)
        assert sorted(store.keys())[:4] == ["1", "2", "3", "people.csv:2"]
        assert store.ingest(folder, prune=True).changed == 0
