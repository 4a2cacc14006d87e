"""Stores in languages that Snowball cannot stem: Hindi, Korean and Ukrainian."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvstore
from kvstore.registry.structure_versions import read_versions
from kvstore.storage import records
from kvstore.storage.view import WriteView
from kvstore.structures import tables
from kvstore.text.languages import choose_stemmer_language
from kvstore.text.words import count_text_terms, get_document_stemmer

#: For each language: the stemmer of a new store, its texts, a word in another form than in the texts, the text to find,
#: a question, and a text in the first paragraph of its answer.
FOLDERS = {
    "hindi": (
        "indic",
        [
            "साइकिल घर की चाबी चौकीदार रामलाल के पास रहती है।",
            "मेहमान की गाड़ी अधिकतम ४८ घंटे खड़ी रह सकती है।",
            "बालकनी से कबूतरों को दाना डालना मना है, क्योंकि नीचे की मंज़िल गंदी होती है।",
        ],
        ("चाबियाँ", "रामलाल"),
        ("मेहमानों की गाड़ी कितने घंटे खड़ी रह सकती है?", "४८ घंटे"),
    ),
    "korean": (
        "korean",
        [
            "예약은 총무 김영수에게 전화로 합니다.",
            "필터는 석 달에 한 번 씻습니다. 안 그러면 펌프에서 소리가 납니다.",
            "뚜껑 있는 음료만 들고 들어올 수 있습니다.",
        ],
        ("필터", "석 달"),
        ("필터를 얼마나 자주 씻어야 하나요?", "석 달에 한 번"),
    ),
    "ukrainian": (
        "ukrainian",
        [
            "Працівники купують хліб зі знижкою 30 %. На торти вона не діє.",
            "Аптечка стоїть у кабінеті технолога. Її ключ має Богдан.",
            "Рукавиці для печі висять праворуч від дверей.",
        ],
        ("знижка", "30 %"),
        ("Де аптечка?", "кабінеті технолога"),
    ),
}


@pytest.mark.parametrize("language", FOLDERS)
def test_a_folder_is_searched_by_other_forms_of_its_words(tmp_path: Path, language: str) -> None:
    stemmer, texts, (word, text_with_word), (question, answer) = FOLDERS[language]
    folder = tmp_path / "folder"
    folder.mkdir()
    for number, text in enumerate(texts):
        (folder / f"{number}.txt").write_text(text, encoding="utf-8")
    with kvstore.open(tmp_path / "store", embedder="hashing") as store:
        store.ingest(folder)
        assert (store.settings.stemmer, store.settings.language) == (stemmer, "rules")
        first_hit = next(iter(store.execute("SEARCH ? USING lexical", (word,))))
        assert text_with_word in str(first_hit)
        reply = store.ask(question)
        assert reply.outcome == "answered" and answer in reply.text.split("\n\n")[0]
        # The words as written are found, too.
        written_word = texts[0].split()[0]
        (row,) = store.execute("SELECT key FROM documents WHERE content MATCH ?", (written_word,))
        assert row[0] == "0.txt" and store.check() == []
        store.delete("0.txt")
        assert store.check() == []


def test_foreign_questions_are_refused_in_a_hindi_store(tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "store", embedder="hashing", settings={"stemmer": "indic"}) as store:
        for number, text in enumerate(FOLDERS["hindi"][1]):
            store.put(f"{number}.txt", text)
        assert store.ask("ऑस्ट्रेलिया की राजधानी क्या है?").outcome != "answered"
        assert store.ask("गोदान उपन्यास किसने लिखा?").outcome != "answered"


def test_rows_of_a_table_in_hindi_can_be_quoted(tmp_path: Path) -> None:
    rows = "".join(f"{name} किराया,दिन,₹{price}\n" for name, price in (("सीढ़ी", 50), ("ड्रिल मशीन", 100)))
    (tmp_path / "dar.csv").write_text(f"सेवा,इकाई,मालिक\n{rows}", encoding="utf-8")
    with kvstore.open(tmp_path / "store", embedder="hashing", settings={"stemmer": "indic"}) as store:
        store.ingest(tmp_path / "dar.csv")
        reply = store.ask("सीढ़ी का किराया कितना है?")
        assert reply.outcome == "answered" and "₹50" in reply.text.split("\n\n")[0]


def test_a_store_with_the_multilingual_stemmer_keeps_the_words_of_earlier_versions(tmp_path: Path) -> None:
    stem = get_document_stemmer("multilingual", "hindi")
    assert count_text_terms("चाबी", stem) == {"च": 1, "ब": 1}
    texts = {"uk": "Коли її збудували, ми не знаємо.", "hi": "यह एक नया नियम है।", "ru": "Это было новое правило."}
    languages = [choose_stemmer_language("multilingual", {}, text.encode()) for text in texts.values()]
    assert languages == ["", "", "russian"]
    with kvstore.open(tmp_path / "store", embedder="hashing", settings={"stemmer": "multilingual"}) as store:
        for key, text in texts.items():
            store.put(key, text)
        assert store.check() == []
        codes = dict(tuple(row) for row in store.execute("SELECT key, language FROM documents"))
        assert codes == {key: key for key in texts}
        for key in texts:
            store.delete(key)
        assert store.check() == []


def test_a_store_of_an_earlier_version_gets_the_languages_of_its_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_earlier_version(view: WriteView) -> None:
        view.put(tables.META, b"structures", records.pack({**read_versions(view), "metadata_index": 2}))

    with monkeypatch.context() as patch, kvstore.open(tmp_path / "store", embedder="hashing") as store:
        patch.setattr("kvstore.extraction.extraction.find_document_language", lambda meta, text: None)
        store.put("uk", "Коли її збудували, ми не знаємо.")
        assert store.execute("SELECT language FROM documents").fetchall() == [(None,)]
        store._session.store.environment.write_with_growth(write_earlier_version)
    with kvstore.open(tmp_path / "store") as store:
        assert store.execute("SELECT language FROM documents").fetchall() == [("uk",)]
        assert store.check() == []


def test_short_japanese_texts_without_kana_make_no_store_in_several_languages(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for number, text in enumerate(["これは規則です。", "犬は泊まれます。", "猫はだめです。", "電話番号", "料金表"]):
        (folder / f"{number}.txt").write_text(text, encoding="utf-8")
    with kvstore.open(tmp_path / "store", embedder="hashing") as store:
        store.ingest(folder)
        assert store.settings.stemmer == "none"
