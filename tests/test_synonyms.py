"""The index of kind ``synonyms``: names that mean much the same, as of the last refresh, never a name that is gone."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable

import numpy as np
import pytest

import kvstore
from kvstore.derived.synonyms.synonym_graph import Synonyms
from kvstore.derived.synonyms.synonym_index import SYNONYMS
from kvstore.structures.indexes.index_reading import bind_index

NAMES = [f"{one} {two} {three}" for one in ("Port", "Cape") for two in ("Averill", "Corrin") for three in "ABCDE"]


@pytest.fixture
def store_of_names(store: kvstore.Store) -> kvstore.Store:
    """Return a store with twenty names that an edge introduces, and an index of them."""
    with store.transaction() as transaction:
        for name in NAMES:
            transaction.put_edge(name, "Places")
    store.create_index("synonyms", {"similarity": 0.5})
    return store


def bind_synonyms(snapshot: kvstore.Snapshot) -> Synonyms:
    synonyms = bind_index(snapshot._state, SYNONYMS)
    assert synonyms is not None
    return synonyms


def list_pairs(store: kvstore.Store) -> dict[tuple[str, str], float]:
    """Return all pairs of names, in both directions."""
    with store.snapshot() as snapshot:
        name = {entity: record.name for entity, record in snapshot._state.entities.scan()}
        return {
            (name[entity], name[neighbor]): round(cosine, 4)
            for entity in name
            for neighbor, cosine in bind_synonyms(snapshot).list_neighbors(entity)
        }


def compute_expected(store: kvstore.Store, similarity: float) -> dict[tuple[str, str], float]:
    with store.snapshot() as snapshot:
        names = [record.name for _, record in snapshot._state.entities.scan()]
    vectors = store.embed(names)
    cosines = {
        (names[first], names[second]): round(float(vectors[first] @ vectors[second]), 4)
        for first, second in itertools.permutations(range(len(names)), 2)
    }
    return {pair: cosine for pair, cosine in cosines.items() if cosine >= similarity}


def test_pairs_are_those_of_all_names_compared(store_of_names: kvstore.Store) -> None:
    pairs = list_pairs(store_of_names)
    assert len(pairs) > 20
    assert pairs == pytest.approx(compute_expected(store_of_names, 0.5), abs=2e-4)


def test_a_refresh_embeds_the_new_names_only(store_of_names: kvstore.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded: list[str] = []
    embed = type(store_of_names.embedder).embed

    def record_and_embed(embedder: object, texts: list[str]) -> np.ndarray:
        embedded.extend(texts)
        return embed(embedder, texts)  # type: ignore[arg-type]

    store_of_names.put_edge("Port Averill F", "Places")
    store_of_names.delete_edge("Cape Corrin E", "Places")
    before = list_pairs(store_of_names)
    assert not any("Cape Corrin E" in pair or "Port Averill F" in pair for pair in before)
    monkeypatch.setattr(type(store_of_names.embedder), "embed", record_and_embed)
    assert store_of_names.refresh("synonyms") == ["synonyms"]
    assert embedded == ["Port Averill F"]
    monkeypatch.undo()
    assert list_pairs(store_of_names) == pytest.approx(compute_expected(store_of_names, 0.5), abs=2e-4)


def test_names_that_mostly_went_leave_a_new_graph(store_of_names: kvstore.Store) -> None:
    size = (store_of_names.path / "synonyms.index").stat().st_size
    for name in NAMES[:15]:
        store_of_names.delete_edge(name, "Places")
    store_of_names.refresh()
    assert (store_of_names.path / "synonyms.index").stat().st_size < size
    assert list_pairs(store_of_names) == pytest.approx(compute_expected(store_of_names, 0.5), abs=2e-4)


def test_the_nearest_name_is_found_while_it_exists(store_of_names: kvstore.Store) -> None:
    vector = store_of_names.embed(["Cape Corrin C"])[0]
    old = store_of_names.snapshot()
    store_of_names.delete_edge("Cape Corrin C", "Places")
    with store_of_names.snapshot() as snapshot:
        nearest = [
            snapshot._state.entities.get(entity).name for entity, _ in bind_synonyms(snapshot).find_nearest(vector, 3)
        ]
    entity, cosine = bind_synonyms(old).find_nearest(vector, 3)[0]
    assert old._state.entities.get(entity).name == "Cape Corrin C"
    assert cosine == pytest.approx(1, abs=1e-5)
    assert len(nearest) == 3
    assert "Cape Corrin C" not in nearest
    old.close()


def test_a_name_written_in_another_form_is_embedded_again(store: kvstore.Store) -> None:
    store.put_edge("port averill", "Places")
    store.create_index("synonyms")
    store.put_edge("PORT Averill", "Towns")
    store.put_edge("PORT Averill", "Harbours")
    store.refresh()
    with store.snapshot() as snapshot:
        entity = snapshot._state.entities.find_id("port averill")
        vector = store.embed(["PORT Averill"])[0]
        assert bind_synonyms(snapshot).find_nearest(vector, 1)[0] == (entity, pytest.approx(1, abs=1e-5))


def test_a_store_without_the_index_or_its_file_has_no_synonyms(
    store_of_names: kvstore.Store, make_store: Callable[..., kvstore.Store]
) -> None:
    with make_store("other").snapshot() as snapshot:
        assert bind_index(snapshot._state, SYNONYMS) is None
    path = store_of_names.path / "synonyms.index"
    shutil.move(path, store_of_names.path / "aside")
    with store_of_names.snapshot() as snapshot:
        assert bind_index(snapshot._state, SYNONYMS) is None
    shutil.move(store_of_names.path / "aside", path)
    assert list_pairs(store_of_names)
    path.write_bytes(path.read_bytes()[:-100])
    with store_of_names.snapshot() as snapshot:
        assert bind_index(snapshot._state, SYNONYMS) is None
    assert store_of_names.indexes()[-1].state == "damaged"
    store_of_names.drop_index("synonyms")
    assert [index.kind for index in store_of_names.indexes()] == ["entities", "lexical", "vectors"]


def test_refresh_continues_an_interrupted_creation(store: kvstore.Store) -> None:
    store.put_edge("Port Averill", "Places")

    def interrupt(progress: kvstore.IndexProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.create_index("synonyms", progress=interrupt)
    assert store.indexes()[-1].state == "absent"
    assert store.refresh("synonyms") == ["synonyms"]
    assert (store.indexes()[-1].state, store.indexes()[-1].stale) == ("ready", 0)


def test_a_store_without_names_has_an_empty_index(store: kvstore.Store) -> None:
    store.create_index("synonyms")
    with store.snapshot() as snapshot:
        assert bind_synonyms(snapshot).find_nearest(np.eye(256, dtype=np.float32)[0], 3) == []
        assert bind_synonyms(snapshot).list_neighbors(1) == []


def test_hipporag_walks_between_synonyms(store: kvstore.Store) -> None:
    with store.transaction() as transaction:
        transaction.put("ship", "The ship came from Port Averill A in spring.")
        transaction.put("mayor", "Cape Averill B has a mayor called Ines.")
        transaction.put("mill", "Corrin Mill is old.")
    # Raise the cosine of two names to that of synonyms, by the threshold of the index.
    cosine = compute_expected(store, 0.3)[("Port Averill A", "Cape Averill B")]
    store.create_index("synonyms", {"similarity": round(cosine, 2) - 0.02})

    def list_documents(**options: float) -> dict[str, str]:
        hits = store.retrieve("What is in Port Averill A?", using="hipporag", options=options).hits
        return {hit.document: hit.path for hit in hits}

    assert list_documents()["mayor"].startswith("port averill a → cape averill b")
    assert set(list_documents(synonyms=0)) == {"ship"}
    # Of a restricted state, only the names of visible documents are synonyms.
    hits = store.retrieve("What is in Port Averill A?", using="hipporag", where="key <> 'mayor'").hits
    assert {hit.document for hit in hits} == {"ship"}
    store.drop_index("synonyms")
    assert set(list_documents()) == {"ship"}
