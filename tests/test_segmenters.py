"""Words of Chinese and Japanese by a dictionary: the stemmers jieba and fugashi."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvstore
from kvstore.changes.dump import dump
from kvstore.errors import MissingExtraError, ReadOnlyError
from kvstore.text import segmenters
from kvstore.text.words import count_text_terms, get_stemmer, list_content_words

LIBRARY = {
    "图书馆": "市图书馆在港口旁边。图书馆星期一闭馆，其他日子九点开门。",
    "港口": "港口建于1954年。工程师李明设计了灯塔。",
    "学校": "东京都立学校有八百名学生。",
}


def open_library(path: Path, stemmer: str = "jieba") -> kvstore.Store:
    pytest.importorskip(stemmer)
    settings = {"stemmer": stemmer, "language": "rules"}
    return kvstore.open(path, embedder="hashing:64", settings=settings)


def test_words_are_those_of_the_segmenter() -> None:
    pytest.importorskip("jieba")
    stem = get_stemmer("jieba")
    assert list_content_words("图书馆什么时候闭馆？ Bergen 1954年", stem=stem) == [
        "图书馆",
        "闭馆",
        "bergen",
        "1954",
        "年",
    ]
    counts = count_text_terms("图书馆在Bergen", stem)
    assert counts == {"图": 1, "书": 1, "馆": 1, "在": 1, "bergen": 1, "图书馆": 1}


def test_japanese_words_are_those_of_the_segmenter() -> None:
    pytest.importorskip("fugashi")
    assert list_content_words("東京タワーは1954年に建設されました。", stem=get_stemmer("fugashi"))[:2] == [
        "東京",
        "タワー",
    ]


def test_a_store_with_a_segmenter_is_searched_and_asked(tmp_path: Path) -> None:
    with open_library(tmp_path / "library") as store:
        for key, text in LIBRARY.items():
            store.put(key, text)
        assert [hit.document for hit in store.search("灯塔", using="lexical")] == ["港口"]
        assert [hit.document for hit in store.search("灯", using="lexical")] == ["港口"]
        assert store.keys(where="content MATCH '\"图书馆\"'") == ["图书馆"]
        assert "星期一" in store.ask("图书馆什么时候闭馆？").text
        assert store.check() == []


def test_history_does_not_matter_with_a_segmenter(tmp_path: Path) -> None:
    with open_library(tmp_path / "one") as store, open_library(tmp_path / "other") as second_store:
        for key, text in LIBRARY.items():
            store.put(key, text)
        # The segmenter does not divide the text at the ends of this name.
        store.put("京都", "古都。", title="京都")
        for key in ("学校", "港口", "图书馆"):
            second_store.put(key, "别的文字。")
            second_store.put(key, LIBRARY[key])
        second_store.put("京都", "古都。", title="京都")
        with store.state() as state, second_store.state() as other_state:
            assert dump(state) == dump(other_state)
        assert store.check() == second_store.check() == []


def test_a_missing_segmenter_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jieba", None)
    segmenters.open_segmenter.cache_clear()
    get_stemmer.cache_clear()
    with pytest.raises(MissingExtraError, match=r"the stemmer jieba needs jieba; pip install 'kvstore-db\[chinese\]'"):
        kvstore.open(tmp_path / "library", embedder="hashing:64", settings={"stemmer": "jieba", "language": "rules"})


def test_a_store_of_another_version_is_not_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_library(tmp_path / "library") as store:
        store.put("港口", LIBRARY["港口"])
    monkeypatch.setattr("kvstore.structures.language_version.get_segmenter_version", lambda stemmer: "jieba 9")
    with open_library(tmp_path / "library") as store:
        assert [hit.document for hit in store.search("灯塔", using="lexical")] == ["港口"]
        with pytest.raises(ReadOnlyError, match=r"split by jieba [\d.]+, and jieba 9 is installed"):
            store.put("学校", LIBRARY["学校"])
        assert len(store.check()) == 1
