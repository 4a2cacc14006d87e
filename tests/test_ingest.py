"""Files in: what is added, changed, skipped, pruned, and what a bad file does."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import kvstore
from kvstore import errors
from kvstore.storage.dump import dump


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


def test_a_fault_in_extraction_costs_the_document_it_happens_at(
    store: kvstore.Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kvstore.ingest import extraction

    chunk_text = extraction.chunk_text

    def faulty(text: str, *arguments: object) -> object:
        if "two piers" in text:
            raise ZeroDivisionError("a fault")
        return chunk_text(text, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(extraction, "chunk_text", faulty)
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


def test_bad_files_are_reported_and_the_rest_goes_on(store: kvstore.Store, folder: Path) -> None:
    (folder / "empty.txt").write_text("")
    (folder / "latin.txt").write_bytes(b"caf\xe9 au lait")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 nothing else")
    (folder / "rows.csv").write_text("id,text\na,First row here.\nb,Second,too many\nc,Third row here.\n")
    report = store.ingest([folder, folder / "missing.txt"])
    reasons = {Path(failure.place.split(":")[0]).name: failure.reason for failure in report.failures}
    assert set(reasons) == {"empty.txt", "latin.txt", "broken.pdf", "rows.csv", "missing.txt"}
    assert "empty" in reasons["empty.txt"]
    assert "encoding" in reasons["latin.txt"]
    assert not any(str(folder) in reason for reason in reasons.values()), "the place is named once"
    assert {"a", "c", "one.md", "deep/two.txt"} <= set(store.keys())
    assert "b" not in store.keys()  # noqa: SIM118


def test_a_folder_that_could_not_be_read_whole_is_not_pruned(store: kvstore.Store, folder: Path) -> None:
    store.ingest(folder)
    (folder / "one.md").write_bytes(b"# caf\xe9")
    report = store.ingest(folder, prune=True)
    assert report.removed == 0
    assert any("pruned" in failure.reason for failure in report.failures)
    document = store.get("one.md")
    assert document is not None
    assert "Port Ellen" in document.text, "what is stored stays until it can be replaced"


def test_a_key_used_twice_is_reported_and_the_first_kept(store: kvstore.Store, tmp_path: Path) -> None:
    rows = [{"id": "x", "text": "First of them."}, {"id": "x", "text": "Second of them."}]
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    report = store.ingest(tmp_path / "rows.jsonl")
    assert report.added == 1
    assert "used in this ingest already" in report.failures[0].reason
    document = store.get("x")
    assert document is not None
    assert document.text == "First of them."


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


def test_progress_is_told_and_ends_at_the_end(store: kvstore.Store, folder: Path) -> None:
    seen: list[kvstore.IngestProgress] = []
    store.ingest(folder, progress=seen.append)
    assert [now.done for now in seen] == [0, 1, 2, 3]
    assert seen[-1].chunks == 3
    assert seen[-1].total == 3


def test_an_interrupted_ingest_keeps_what_is_committed_and_goes_on(
    store: kvstore.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstore.ingest.pipeline.BATCH_DOCUMENTS", 2)
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


def test_options_reach_the_reader_and_unknown_formats_are_refused(store: kvstore.Store, tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9 au lait")
    assert store.ingest(tmp_path / "latin.txt", options={"encoding": "latin-1"}).added == 1
    document = store.get("latin.txt")
    assert document is not None
    assert document.text == "café au lait"
    with pytest.raises(errors.InputError, match="no format 'pptx'"):
        store.ingest(tmp_path / "latin.txt", format="pptx")


def test_a_second_process_of_the_same_content_changes_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstore.ingest.file_visit.SETTLED", 0)
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


def test_a_commit_may_bring_more_names_than_pages_of_heads_are_held_at_first(store: kvstore.Store) -> None:
    with store.transaction() as transaction:
        for number in range(90):
            streets = ". ".join(f"Name{number}x{index} Street" for index in range(100))
            transaction.put(f"d{number}", streets + ".")
    assert store.statistics()["entities"] > 16 * 509


PAGE = (
    "<nav class=top><a href=/>Home</a> <a href=/boats>Boats</a></nav><main><h1>Piers</h1><p>The Old Pier stands in the "
    "harbour of Port Ellen.</p></main><footer>Copyright 2024</footer>"
)


def test_what_was_left_out_of_pages_is_told(store: kvstore.Store, tmp_path: Path) -> None:
    (tmp_path / "piers.html").write_text(PAGE)
    (tmp_path / "plain.txt").write_text("Nothing is left out of a text.")
    rows = store.execute(f"EXPLAIN INGEST '{tmp_path}'").fetchall()
    told = [detail for step, detail, *_ in rows if step == "leave out"]
    assert told == [
        "footer, footer of the page, 14 characters on 1 pages: Copyright 2024",
        "nav.top, navigation, 9 characters on 1 pages: Home Boats",
    ]
    row = store.execute(f"INGEST '{tmp_path}'")
    assert dict(zip(row.columns, row.fetchall()[0], strict=True))["left_out"] == 23
    assert store.execute("SELECT key, left_out FROM documents").fetchall() == [("piers.html", 23), ("plain.txt", 0)]
    assert store.ingest(tmp_path / "piers.html", options={"navigation": "keep"}).left_out == {}
    kept = store.get("piers.html")
    assert kept is not None
    assert kept.text.startswith("Home Boats\n\n# Piers")
    assert store.execute("SELECT left_out FROM documents WHERE key = 'piers.html'").fetchall() == [(0,)]
    assert store.ingest(tmp_path / "piers.html").left_out == {"piers.html": 23}


def test_what_was_left_out_belongs_to_the_document(
    store: kvstore.Store, make_store: Callable[..., kvstore.Store], tmp_path: Path
) -> None:
    (tmp_path / "piers.html").write_text(PAGE)
    store.ingest(tmp_path / "piers.html")
    before = dump_of(store)
    store.update("piers.html", meta={"seen": 1})
    assert store.execute("SELECT left_out FROM documents").fetchall() == [(23,)]
    store.update("piers.html", text="By hand.")
    assert store.execute("SELECT left_out FROM documents").fetchall() == [(0,)]
    store.ingest(tmp_path / "piers.html")
    assert dump_of(store) == before
    store.export(tmp_path / "all.jsonl")
    other = make_store("other")
    other.import_(tmp_path / "all.jsonl")
    assert dump_of(other) == before
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
    monkeypatch.setattr(file_visit, "SETTLED", 0.0)
    monkeypatch.setattr(file_visit, "READING", file_visit.READING - 1)
    store.ingest(path)
    assert store.ingest(path).known == 1
    monkeypatch.undo()
    assert store.ingest(path).known == 0
    assert store.ingest(path).unchanged == 1


def dump_of(store: kvstore.Store) -> object:
    with store.reading() as view:
        return dump(view)
