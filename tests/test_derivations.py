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
from kvstore.registry.contract import System
from kvstore.structures.derived_parts import split_vector_id
from kvstore.structures.vectors.vectors import find_nearest

MakeStore = Callable[..., kvstore.Store]

TEA = "Robert Fortune brought tea to Darjeeling. Tea is grown in Assam. It is drunk in the morning."


@pytest.fixture
def units() -> Iterator[None]:
    take_back = register(PHRASES)
    yield
    take_back()


@pytest.fixture
def store(units: None, make_store: MakeStore) -> kvstore.Store:
    return make_store()


@pytest.fixture
def embedded(store: kvstore.Store, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The texts of each call of the store's embedder."""
    calls: list[list[str]] = []
    embed = store._session.store.embedder.embed

    def counted(texts: Sequence[str]) -> Any:
        calls.append(list(texts))
        return embed(texts)

    monkeypatch.setattr(store._session.store.embedder, "embed", counted)
    return calls


def dump_store(store: kvstore.Store) -> dict[str, Any]:
    with store.state() as state:
        return dump(state)


def vectors_by_text(store: kvstore.Store) -> dict[tuple[str, str], bytes]:
    """Every vector of the space of units, by the key of its document and its text."""
    with store.state() as state:
        parts = state.get_derived_parts(Phrases())
        found = {}
        for ids, matrix in parts.vectors.scan():
            for id, vector in zip(ids.tolist(), matrix, strict=True):
                document, text = split_vector_id(id)
                found[state.documents.get(document).key, parts.get(document).part["texts"][text]] = vector.tobytes()
        return found


def nearest_unit(store: kvstore.Store, question: str) -> str:
    with store.state() as state:
        parts = state.get_derived_parts(Phrases())
        ids, _ = find_nearest(parts.vectors.scan(), store.embed([question])[0], 1)
        document, text = split_vector_id(int(ids[0]))
        return str(parts.get(document).part["texts"][text])


def test_units_are_kept_in_the_commit_and_embedded_with_the_chunks(
    store: kvstore.Store, embedded: list[list[str]]
) -> None:
    with store.transaction() as transaction:
        transaction.put("tea", TEA)
        transaction.put("ships", "Tug,Ship", format="pairs")
        transaction.put("again", TEA + " A tug is a ship.")
    assert len(embedded) == 1
    assert len(embedded[0]) == len(set(embedded[0])) == 2 + 4, "two chunks, and each unit once"
    assert nearest_unit(store, "tea is grown in assam") == "Tea is grown in Assam."
    assert dump_store(store)["phrases_parts"][2] == ("tea", {"texts": [f"{one}." for one in TEA[:-1].split(". ")]})
    assert len(vectors_by_text(store)) == 7
    assert ("phrase_counts_documents", 3) in store.execute("SHOW STATS").fetchall()
    assert store.check() == []


def test_a_forecast_counts_chunks_as_chunks_and_all_texts_to_embed(
    make_store: MakeStore, units: None, tmp_path: Path
) -> None:
    (tmp_path / "tea.txt").write_text(TEA)
    store = make_store("asked")
    found = store.forecast_ingest(tmp_path / "tea.txt")
    assert (found.documents, found.chunks) == (1, 1)
    assert found.tokens > 1.8 * len(TEA) / 4, "the units too"


def test_of_a_replaced_document_only_new_units_are_embedded(store: kvstore.Store, embedded: list[list[str]]) -> None:
    store.put("tea", TEA)
    before = vectors_by_text(store)
    embedded.clear()
    store.put("tea", TEA.replace("morning", "evening"))
    assert embedded == [[TEA.replace("morning", "evening"), "It is drunk in the evening."]]
    after = vectors_by_text(store)
    assert {place: after[place] for place in before.keys() & after.keys()}.items() <= before.items()
    assert len(after) == 3
    embedded.clear()
    store.update("tea", title="Tea")
    assert [text for texts in embedded for text in texts] == ["Tea\n" + TEA.replace("morning", "evening")]
    store.delete("tea")
    assert vectors_by_text(store) == {}
    assert not any(dump_store(store)[table] for table in ("phrases_parts", "phrase_counts"))


def test_a_document_with_vectors_of_its_own_has_units_too(units: None, make_store: MakeStore) -> None:
    store = make_store()
    store.put("tea", TEA, vectors=np.eye(store.settings.dimension)[:1])
    assert len(vectors_by_text(store)) == 3
    store.update("tea", title="Tea")
    assert len(vectors_by_text(store)) == 3
    without = make_store("without", embedder="none:4")
    without.put("tea", TEA, vectors=[[1, 0, 0, 0]])
    assert dump_store(without)["phrases_parts"] and not vectors_by_text(without)
    assert without.check() == []


def fill(store: kvstore.Store) -> None:
    with store.transaction() as transaction:
        for number in range(30):
            transaction.put(f"d{number:02}", f"The ship {number} sails. Its mast is {number} feet high. " + TEA)


def test_a_compacted_store_has_the_same_vectors(store: kvstore.Store) -> None:
    fill(store)
    for number in range(0, 30, 2):
        store.delete(f"d{number:02}")
    before = vectors_by_text(store)
    with store.state() as state:
        blocks = state.lmdb.count("phrases_vectors")
    store.compact()
    with store.state() as state:
        assert state.lmdb.count("phrases_vectors") < blocks
    assert vectors_by_text(store) == before
    assert store.check() == []


def drop_row(found: list[tuple[bytes, bytes]]) -> dict[bytes, bytes | None]:
    return {found[0][0]: None}


def one_more(found: list[tuple[bytes, bytes]]) -> dict[bytes, bytes | None]:
    key, value = found[-1]
    return {(int.from_bytes(key, "big") + 1).to_bytes(len(key), "big"): value}


def swap_rows(found: list[tuple[bytes, bytes]]) -> dict[bytes, bytes | None]:
    (key, value), (_, other) = found[0], found[-1]
    return {key: other if other != value else value[:-1] + bytes([value[-1] ^ 1])}


@pytest.mark.matrix
@pytest.mark.parametrize("fault", [drop_row, one_more, swap_rows])
@pytest.mark.parametrize("table", ["phrases_parts", "phrases_vectors", "phrases_vector_space", "phrase_counts"])
def test_a_fault_is_found_and_mended(
    store: kvstore.Store,
    embedded: list[list[str]],
    table: str,
    fault: Callable[[list[tuple[bytes, bytes]]], dict[bytes, bytes | None]],
) -> None:
    fill(store)
    store.put("a", "One sentence.")
    before = dump_store(store), vectors_by_text(store)
    with store._session.environment.write() as view:
        view.change_many(table, fault([(bytes(key), bytes(value)) for key, value in view.scan(table)]))
    embedded.clear()
    report = store.repair()
    assert any(problem.startswith("phrase") or "phrases" in problem for problem in report.found), report.found
    assert (report.lost, report.remaining) == ([], [])
    assert (dump_store(store), vectors_by_text(store)) == before
    if table in ("phrases_vector_space", "phrase_counts"):
        assert embedded == [], "vectors that can be read are carried over"


def test_a_store_made_without_it_is_migrated(make_store: MakeStore, units: None, monkeypatch: Any) -> None:
    store = make_store()
    store.put("tea", TEA)
    with monkeypatch.context() as context:
        context.setattr(Phrases, "version", 2)
        store.close()
        with pytest.raises(StoreFormatError, match="phrases.*kvstore migrate"):
            kvstore.open(store.path)
        with kvstore.open(store.path, readonly=True) as reading:
            assert reading.retrieve("tea").hits
        done = kvstore.migrate(store.path, backup=False)
        assert done.changed and done.rebuilt is not None and done.rebuilt.embedded == 0
        assert not kvstore.migrate(store.path).changed
        with kvstore.open(store.path) as again:
            assert again.check() == []
    assert make_store().readonly


def test_the_derivation_of_a_worker_is_stored(
    store: kvstore.Store, make_store: MakeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(6):
        (folder / f"{number}.txt").write_text(f"The ship {number} sails. {TEA}")
    store.ingest(folder)
    alone = dump_store(store), vectors_by_text(store)
    unknowing = make_store("unknowing")
    assert unknowing.ingest(folder, workers=2).documents == 6
    assert (dump_store(unknowing), vectors_by_text(unknowing)) == alone

    # Workers that know the system derive and embed it too.
    (tmp_path / "sitecustomize.py").write_text(
        "from derived_phrases import PHRASES\nfrom kvstore.registry import register\nregister(PHRASES)\n"
    )
    paths = [str(tmp_path), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))

    def none_here(*_: object) -> Any:
        raise AssertionError("this is for the workers to do")

    knowing = make_store("knowing")
    with monkeypatch.context() as context:
        context.setattr(Phrases, "derive", none_here)
        context.setattr(knowing._session.store.embedder, "embed", none_here)
        knowing.ingest(folder, workers=2)
    assert (dump_store(knowing), vectors_by_text(knowing)) == alone


def test_each_name_is_used_once(units: None) -> None:
    with pytest.raises(InputError, match="there is a structure or derivation 'phrases' already"):
        register(System("others", "", derivations=(Phrases(),)))
