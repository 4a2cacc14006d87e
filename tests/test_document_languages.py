"""A new store takes the stemmer and the rules of the language of its first documents, and an ingest reports it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from other_process import read_line, start_python

import kvstore
from kvstore.changes.dump import dump
from kvstore.text.languages import detect_document_language, detect_language, get_stated_language

GERMAN = {
    "heizung.md": "# Heizung\n\nDie Heizung wurde von der Firma Eder eingebaut und ist im Keller.",
    "garten.md": "# Garten\n\nDie Tomaten werden nicht vor Mai gepflanzt, weil der Boden noch zu kalt ist.",
    "notes.md": "# Notes\n\nThe keys are in the box, and the code is on the door of the cellar.",
}
ENGLISH = {
    "heating.md": "# Heating\n\nThe heating was built by Eder and it is in the cellar of the house.",
    "garten.md": GERMAN["garten.md"],
    "notes.md": GERMAN["notes.md"],
}


def write_files(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def german_folder(tmp_path: Path) -> Path:
    return write_files(tmp_path / "german", GERMAN)


def dump_store(store: kvstore.Store) -> object:
    with store.state() as state:
        return dump(state)


def open_store(path: Path, **settings: str) -> kvstore.Store:
    return kvstore.open(path, embedder="hashing", settings=settings)


def test_a_new_store_takes_the_language_of_most_first_documents(tmp_path: Path, german_folder: Path) -> None:
    with open_store(tmp_path / "store") as store:
        report = store.ingest(german_folder)
        assert (store.settings.stemmer, store.settings.language) == ("german", "rules")
        (remark,) = report.remarks
        assert "2 of the first 3 documents are in German" in remark
        assert "stemmer = german and language = rules" in remark
        assert store.check() == []
        content = dump_store(store)
    with open_store(tmp_path / "store", stemmer="german", language="rules") as store:
        assert store.check() == [] and dump_store(store) == content
    with open_store(tmp_path / "named", stemmer="german", language="rules") as store:
        store.ingest(german_folder)
        assert dump_store(store) == content, "equal settings and documents, equal content"


def test_the_statement_and_workers_choose_alike(tmp_path: Path, german_folder: Path) -> None:
    with open_store(tmp_path / "store") as store:
        store.statistics()  # reads what the settings say
        cursor = store.execute(f"INGEST '{german_folder}' WITH (workers = 1)")
        assert "2 of the first 3 documents are in German" in str(cursor.message)
        assert store.settings.stemmer == "german"
        assert store.check() == []


def test_a_folder_of_more_than_the_first_documents_with_mail_has_its_language(tmp_path: Path) -> None:
    mail = "From: ada@example.org\nSubject: Heizung\n\n" + GERMAN["heizung.md"]  # a worker reads mail
    letters = {f"brief-{number:02}.md": GERMAN["garten.md"] for number in range(30)}
    folder = write_files(tmp_path / "german", {"anfrage.eml": mail, **letters})
    with open_store(tmp_path / "store") as store:
        store.ingest(folder)
        assert (store.settings.stemmer, store.settings.language) == ("german", "rules")


def test_an_english_folder_changes_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        assert store.ingest(write_files(tmp_path / "english", ENGLISH)).remarks == []
        assert (store.settings.stemmer, store.settings.language) == ("english", "en")


def test_named_settings_win_and_mismatches_are_reported(tmp_path: Path, german_folder: Path) -> None:
    with open_store(tmp_path / "store", stemmer="english", language="en") as store:
        (remark,) = store.ingest(german_folder).remarks
        assert "this store stems English words" in remark and "stemmer = german" in remark
        assert (store.settings.stemmer, store.settings.language) == ("english", "en")
        assert store.ingest(german_folder).remarks == [], "nothing new was read"
    with kvstore.open(tmp_path / "none", embedder="all-MiniLM-L6-v2", settings={"stemmer": "none"}) as store:
        remarks = store.ingest(german_folder).remarks
        assert store.settings.stemmer == "none"
        assert [remark.startswith("the embedder all-MiniLM-L6-v2 supports only English") for remark in remarks] == [
            False,
            True,
        ]


@pytest.mark.parametrize("change", ["put", "begin", "reopen", "second handle"])
def test_a_store_that_is_not_new_never_changes_its_settings(tmp_path: Path, german_folder: Path, change: str) -> None:
    path = tmp_path / "store"
    store = open_store(path)
    if change == "put":
        store.put("tea", "Tea is made from leaves.")
    elif change == "begin":
        with store.transaction():
            pass
    elif change == "reopen":
        store.close()
        store = open_store(path)
    else:
        open_store(path, stemmer="english", language="en").close()
    with store:
        report = store.ingest(german_folder)
        assert (store.settings.stemmer, store.settings.language) == ("english", "en")
        assert "this store stems English words" in report.remarks[0]
        assert store.check() == []


def test_a_store_that_another_process_has_open_keeps_its_settings(tmp_path: Path, german_folder: Path) -> None:
    path = tmp_path / "store"
    with open_store(path) as store:
        with start_python(
            "import kvstore; other = kvstore.open(path); print('open', flush=True); sys.stdin.read()", path
        ) as other_process:
            assert read_line(other_process) == "open"
            report = store.ingest(german_folder)
        assert store.settings.stemmer == "english"
        assert "this store stems English words" in report.remarks[0]
        assert store.check() == []


def test_a_put_of_another_thread_waits_for_the_decision(
    tmp_path: Path, german_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kvstore.database.open_store import OpenStore

    with open_store(tmp_path / "store") as store:
        write_settings = OpenStore._write_settings
        threads: list[threading.Thread] = []

        def put_meanwhile(target_store: OpenStore, settings: kvstore.settings.FixedSettings) -> bool:
            threads.append(threading.Thread(target=store.put, args=("rohr", "Die Rohre sind im Keller.")))
            threads[0].start()
            threads[0].join(0.2)
            assert threads[0].is_alive()
            return write_settings(target_store, settings)

        monkeypatch.setattr(OpenStore, "_write_settings", put_meanwhile)
        store.ingest(german_folder)
        threads[0].join()
        assert store.settings.stemmer == "german"
        assert store.check() == []


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Die Heizung ist im Keller, und der Druck wird dort gemessen.", "german"),
        ("Quand la pression descend, il faut remettre de l'eau dans la chaudière.", "french"),
        ("La caldera de la casa está en el sótano y no se usa en verano.", "spanish"),
        ("The heating is in the cellar and it is old.", "english"),
        ("Котёл стоит в подвале, и он не работает с зимы, но его починят.", "russian"),
        ("暖房は地下室にあります。", "japanese"),
        ("锅炉在地下室里。", "chinese"),
        ("Eder, Brandner, Lindinger: 4711", None),
    ],
)
def test_the_language_of_a_document(text: str, language: str | None) -> None:
    assert detect_language(text) == language


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Die Heizung ist im Keller, und der Druck wird dort gemessen.", "de"),
        ("La porte est fermée.", "fr"),
        ("Котел новый.", "ru"),
        ("Котел новий, і його поставили.", "uk"),
        ("Кацёл новы, і яго паставілі.", None),
        ("यह एक नया नियम है।", "hi"),
        ("এটি একটি নতুন নিয়ম।", "bn"),
        ("보일러는 지하에 있습니다.", "ko"),
        ("المرجل في القبو.", "ar"),
        ("הדוד נמצא במרתף.", "he"),
        ("หม้อน้ำอยู่ชั้นใต้ดิน", "th"),
        ("Ο λέβητας είναι στο υπόγειο.", "el"),
        ("Eder, Brandner, Lindinger: 4711", None),
    ],
)
def test_the_code_of_the_language_of_a_document(text: str, code: str | None) -> None:
    assert detect_document_language(text.encode()) == code


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({"language": "de"}, "de"),
        ({"lang": "pt_BR"}, "pt"),
        ({"language": "German"}, "de"),
        ({"language": 3, "lang": "not a language"}, None),
        ({}, None),
    ],
)
def test_metadata_states_the_language(meta: dict[str, object], code: str | None) -> None:
    assert get_stated_language(meta) == code


def test_documents_are_selected_by_their_language(store: kvstore.Store) -> None:
    store.put("heizung", GERMAN["heizung.md"])
    store.put("notes", GERMAN["notes.md"])
    store.put("parts", "Rohr 17, Rohr 18", meta={"language": "de-AT"})
    store.put("numbers", "17, 18")
    languages = "SELECT language, count(*) FROM documents GROUP BY language"
    assert store.execute(languages).fetchall() == [(None, 1), ("de", 2), ("en", 1)]
    assert [hit.document for hit in store.search("cellar", where="language = 'en'")] == ["notes"]
    assert {hit.document for hit in store.search("cellar", where={"$language": "de"})} == {"heizung", "parts"}
    assert store.keys(where="language IS NULL") == ["numbers"]
    store.put("heizung", GERMAN["notes.md"])
    store.delete("parts")
    assert store.execute(languages).fetchall() == [(None, 1), ("en", 2)]
