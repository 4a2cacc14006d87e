"""Derivations: what a system derives of a document is kept with it, with vectors of its own; by a toy from outside."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from derived_phrases import PHRASES, Phrases

import kvstore
from kvstore.changes.dump import dump
from kvstore.errors import InputError, StoreFormatError
from kvstore.registry import register
from kvstore.registry.cached_lists import invalidate_lists
from kvstore.registry.contract import System
from kvstore.structures.derived_parts import split_vector_id
from kvstore.structures.indexes.vector_search import find_nearest

MakeStore = Callable[..., kvstore.Store]

TEA = "Robert Fortune brought tea to Darjeeling. Tea is grown in Assam. It is drunk in the morning."


@pytest.fixture
def registered_phrases() -> Iterator[None]:
    take_back = register(PHRASES)
    yield
    take_back()


@pytest.fixture
def store(registered_phrases: None, make_store: MakeStore) -> kvstore.Store:
    return make_store()


@pytest.fixture
def embedded_texts(store: kvstore.Store, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the texts of each call of the store's embedder."""
    calls: list[list[str]] = []
    embed = store._session.store.embedder.embed

    def record_call(texts: Sequence[str]) -> Any:
        calls.append(list(texts))
        return embed(texts)

    monkeypatch.setattr(store._session.store.embedder, "embed", record_call)
    return calls


def dump_store(store: kvstore.Store) -> dict[str, Any]:
    with store.state() as state:
        return dump(state)


def read_vectors_by_text(store: kvstore.Store) -> dict[tuple[str, str], bytes]:
    """Return every vector of the space of phrases by document key and text."""
    with store.state() as state:
        parts = state.get_derived_parts(Phrases())
        vectors = {}
        for ids, matrix in parts.vectors.scan():
            for id, vector in zip(ids.tolist(), matrix, strict=True):
                document, text = split_vector_id(id)
                vectors[state.documents.get(document).key, parts.get(document).part["texts"][text]] = vector.tobytes()
        return vectors


def find_nearest_phrase(store: kvstore.Store, question: str) -> str:
    with store.state() as state:
        parts = state.get_derived_parts(Phrases())
        ids, _ = find_nearest(parts.vectors.scan(), store.embed([question])[0], 1)
        document, text = split_vector_id(int(ids[0]))
        return str(parts.get(document).part["texts"][text])


def test_units_are_kept_in_the_commit_and_embedded_with_the_chunks(
    store: kvstore.Store, embedded_texts: list[list[str]]
) -> None:
    with store.transaction() as transaction:
        transaction.put("tea", TEA)
        transaction.put("ships", "Tug,Ship", format="pairs")
        transaction.put("again", TEA + " A tug is a ship.")
    assert len(embedded_texts) == 1
    assert len(embedded_texts[0]) == len(set(embedded_texts[0])) == 2 + 4, "two chunks, and each unit once"
    assert find_nearest_phrase(store, "tea is grown in assam") == "Tea is grown in Assam."
    assert dump_store(store)["phrases_parts"][2] == (
        "tea",
        {"texts": [f"{sentence}." for sentence in TEA[:-1].split(". ")]},
    )
    assert len(read_vectors_by_text(store)) == 7
    assert ("phrase_counts_documents", 3) in store.execute("SHOW STATS").fetchall()
    assert store.check() == []


def test_a_forecast_counts_chunks_as_chunks_and_all_texts_to_embed(
    make_store: MakeStore, registered_phrases: None, tmp_path: Path
) -> None:
    (tmp_path / "tea.txt").write_text(TEA)
    store = make_store("asked")
    forecast = store.forecast_ingest(tmp_path / "tea.txt")
    assert (forecast.documents, forecast.chunks) == (1, 1)
    assert forecast.tokens > 1.8 * len(TEA) / 4, "the units too"


def test_of_a_replaced_document_only_new_units_are_embedded(
    store: kvstore.Store, embedded_texts: list[list[str]]
) -> None:
    store.put("tea", TEA)
    old_vectors = read_vectors_by_text(store)
    embedded_texts.clear()
    store.put("tea", TEA.replace("morning", "evening"))
    assert embedded_texts == [[TEA.replace("morning", "evening"), "It is drunk in the evening."]]
    new_vectors = read_vectors_by_text(store)
    assert {
        place: new_vectors[place] for place in old_vectors.keys() & new_vectors.keys()
    }.items() <= old_vectors.items()
    assert len(new_vectors) == 3
    embedded_texts.clear()
    store.update("tea", title="Tea")
    assert [text for texts in embedded_texts for text in texts] == ["Tea\n" + TEA.replace("morning", "evening")]
    store.delete("tea")
    assert read_vectors_by_text(store) == {}
    assert not any(dump_store(store)[table] for table in ("phrases_parts", "phrase_counts"))


def test_a_document_with_vectors_of_its_own_has_units_too(registered_phrases: None, make_store: MakeStore) -> None:
    store = make_store()
    store.put("tea", TEA, vectors=np.eye(store.settings.dimension)[:1])
    assert len(read_vectors_by_text(store)) == 3
    store.update("tea", title="Tea")
    assert len(read_vectors_by_text(store)) == 3
    without = make_store("without", embedder="none:4")
    without.put("tea", TEA, vectors=[[1, 0, 0, 0]])
    assert dump_store(without)["phrases_parts"] and not read_vectors_by_text(without)
    assert without.check() == []


def fill_store(store: kvstore.Store) -> None:
    with store.transaction() as transaction:
        for number in range(30):
            transaction.put(f"d{number:02}", f"The ship {number} sails. Its mast is {number} feet high. " + TEA)


def test_a_compacted_store_has_the_same_vectors(store: kvstore.Store) -> None:
    fill_store(store)
    for number in range(0, 30, 2):
        store.delete(f"d{number:02}")
    vectors = read_vectors_by_text(store)
    with store.state() as state:
        blocks = state.lmdb.count("phrases_vectors")
    store.compact()
    with store.state() as state:
        assert state.lmdb.count("phrases_vectors") < blocks
    assert read_vectors_by_text(store) == vectors
    assert store.check() == []


def drop_row(rows: list[tuple[bytes, bytes]]) -> dict[bytes, bytes | None]:
    return {rows[0][0]: None}


def add_row(rows: list[tuple[bytes, bytes]]) -> dict[bytes, bytes | None]:
    key, value = rows[-1]
    return {(int.from_bytes(key, "big") + 1).to_bytes(len(key), "big"): value}


def swap_rows(rows: list[tuple[bytes, bytes]]) -> dict[bytes, bytes | None]:
    (key, value), (_, last_value) = rows[0], rows[-1]
    return {key: last_value if last_value != value else value[:-1] + bytes([value[-1] ^ 1])}


@pytest.mark.matrix
@pytest.mark.parametrize("fault", [drop_row, add_row, swap_rows])
@pytest.mark.parametrize("table", ["phrases_parts", "phrases_vectors", "phrases_vector_space", "phrase_counts"])
def test_a_fault_is_found_and_mended(
    store: kvstore.Store,
    embedded_texts: list[list[str]],
    table: str,
    fault: Callable[[list[tuple[bytes, bytes]]], dict[bytes, bytes | None]],
) -> None:
    fill_store(store)
    store.put("a", "One sentence.")
    expected = dump_store(store), read_vectors_by_text(store)
    with store._session.environment.write() as view:
        view.change_many(table, fault([(bytes(key), bytes(value)) for key, value in view.scan(table)]))
    embedded_texts.clear()
    report = store.repair()
    assert any(problem.startswith("phrase") or "phrases" in problem for problem in report.found), report.found
    assert (report.lost, report.remaining) == ([], [])
    assert (dump_store(store), read_vectors_by_text(store)) == expected
    if table in ("phrases_vector_space", "phrase_counts"):
        assert embedded_texts == [], "vectors that can be read are carried over"


def test_a_store_made_without_it_is_migrated(make_store: MakeStore, registered_phrases: None, monkeypatch: Any) -> None:
    store = make_store()
    store.put("tea", TEA)
    with monkeypatch.context() as context:
        context.setattr(Phrases, "version", 2)
        invalidate_lists()
        store.close()
        with pytest.raises(StoreFormatError, match="phrases.*kvstore migrate"):
            kvstore.open(store.path)
        with kvstore.open(store.path, readonly=True) as reader:
            assert reader.retrieve("tea").hits
        report = kvstore.migrate(store.path, backup=False)
        assert report.changed and report.rebuilt is not None and report.rebuilt.embedded == 0
        assert not kvstore.migrate(store.path).changed
        with kvstore.open(store.path) as migrated:
            assert migrated.check() == []
    invalidate_lists()
    assert make_store().readonly


def test_the_derivation_of_a_worker_is_stored(
    store: kvstore.Store, make_store: MakeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(6):
        (folder / f"{number}.txt").write_text(f"The ship {number} sails. {TEA}")
    store.ingest(folder)
    expected = dump_store(store), read_vectors_by_text(store)
    unknowing = make_store("unknowing")
    assert unknowing.ingest(folder, workers=2).documents == 6
    assert (dump_store(unknowing), read_vectors_by_text(unknowing)) == expected

    # Workers that know the system derive and embed it too.
    (tmp_path / "sitecustomize.py").write_text(
        "from derived_phrases import PHRASES\nfrom kvstore.registry import register\nregister(PHRASES)\n"
    )
    paths = [str(tmp_path), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))

    def fail_call(*_: object) -> Any:
        raise AssertionError("only workers may call this")

    knowing = make_store("knowing")
    with monkeypatch.context() as context:
        context.setattr(Phrases, "derive", fail_call)
        context.setattr(knowing._session.store.embedder, "embed", fail_call)
        knowing.ingest(folder, workers=2)
    assert (dump_store(knowing), read_vectors_by_text(knowing)) == expected


def test_each_name_is_used_once(registered_phrases: None) -> None:
    with pytest.raises(InputError, match="a structure or derivation 'phrases' already exists"):
        register(System("others", "", derivations=(Phrases(),)))
