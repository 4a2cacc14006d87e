"""chunk_context: vectors of chunks that are made with a sentence about their document (spRAG's AutoContext)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_server import PlannedResponse, Server, build_extract_answer

import kvstore
from kvstore import errors
from kvstore.changes.dump import dump
from kvstore.changes.facts import iter_document_facts
from kvstore.extraction.extraction import get_first_sentence
from kvstore.registry.chunked_text import load_chunked_text
from kvstore.registry.derivation import build_embedding_texts
from kvstore.structures import tables

MakeStore = Callable[..., kvstore.Store]
SETTINGS = {"chunk_context": 1, "chunk_tokens": 24, "language": "rules"}
TEXTS = {
    "lamp": "The *lighthouse* of Tolland was lit in 1911. " + "Its lamp turned all night and was cleaned at noon. " * 6,
    "tea": "# Tea\n\nTea is made from the leaves of a shrub. It is drunk hot.\n\n# India\n\n"
    + "Planters took it to Assam, where the rain is warm and long. " * 6,
    "table": "| a | b |\n| --- | --- |\n| 1 | 2 |",
}


def list_embedded_texts(store: kvstore.Store, key: str) -> list[str]:
    with store.state() as state:
        record = state.documents.find_by_key(key)
        assert record is not None
        facts = {fact.name: value for fact, _, value in iter_document_facts(state, record)}
        return build_embedding_texts(load_chunked_text(state, record, facts), state.settings)


def check_vectors(store: kvstore.Store) -> None:
    """Check that every vector is that of the chunk's embedding text."""
    for key in store.keys():  # noqa: SIM118
        with store.state() as state:
            record = state.documents.find_by_key(key)
            assert record is not None
            assert np.allclose(state.read_vectors(record), store.embed(list_embedded_texts(store, key)), atol=1e-6)
    assert store.check() == []


def put_all(store: kvstore.Store) -> None:
    with store.transaction() as transaction:
        for key, text in TEXTS.items():
            transaction.put(key, text, format="markdown")


def answer_context(request: dict[str, Any]) -> PlannedResponse:
    return build_extract_answer(
        request,
        "context",
        lambda text: {"title": " ".join(text.split()[:3]), "about": f"It is about {' '.join(text.split()[:6])}."},
    )


def test_the_first_sentence_of_a_document_is_in_the_text_of_every_chunk(make_store: MakeStore) -> None:
    store = make_store(settings=SETTINGS)
    put_all(store)
    texts = list_embedded_texts(store, "lamp")
    assert len(texts) > 2
    assert all("The lighthouse of Tolland was lit in 1911." in text for text in texts)
    assert texts[0].count("was lit in 1911") == 1
    tea_texts = list_embedded_texts(store, "tea")
    assert tea_texts[-1].startswith("India\nTea is made from the leaves of a shrub.\nPlanters took it")
    assert list_embedded_texts(store, "table") == ["| a | b | | --- | --- | | 1 | 2 |"]
    check_vectors(store)
    plain_store = kvstore.open(
        store.path.parent / "plain", embedder="hashing", settings={**SETTINGS, "chunk_context": 0}
    )
    with plain_store:
        put_all(plain_store)
        assert not any("1911" in text for text in list_embedded_texts(plain_store, "lamp")[1:])
        check_vectors(plain_store)
    assert get_first_sentence("```\nx = 1\n```") == ""


def test_ingest_workers_embed_the_same(make_store: MakeStore, tmp_path: Path) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    for key, text in TEXTS.items():
        (folder / f"{key}.md").write_text(text)
    store = make_store(settings=SETTINGS)
    store.ingest(folder)
    assert len(store) == 3
    check_vectors(store)


def test_a_new_first_sentence_reembeds_the_document_and_another_sentence_one_chunk(make_store: MakeStore) -> None:
    store = make_store(settings=SETTINGS)
    put_all(store)
    for text in (TEXTS["lamp"].replace("1911", "1912"), TEXTS["lamp"] + "It is dark now."):
        store.update("lamp", text=text)
        check_vectors(store)


def test_a_text_written_by_a_model_replaces_the_first_sentence(make_store: MakeStore, server: Server) -> None:
    server.respond = answer_context
    store = make_store(settings=SETTINGS)
    put_all(store)
    tea = store.get("tea")
    assert store.extract("context").passages >= 4
    assert store.get("tea") == tea
    tea_texts = list_embedded_texts(store, "tea")
    assert tea_texts[-1].startswith("India\n# Tea Tea\nIt is about # Tea Tea is made from.\nIt is about")
    check_vectors(store)
    # Stored by content: unchanged text keeps what was written about it.
    store.update("tea", text=TEXTS["tea"] + "\n\n# End\n\nShort.")
    check_vectors(store)
    store.export(store.path.parent / "export.jsonl")
    with kvstore.open(store.path.parent / "copy", embedder="hashing", settings=SETTINGS) as copy:
        copy.import_(store.path.parent / "export.jsonl")
        check_vectors(copy)
        with store.state() as first_state, copy.state() as copied_state:
            assert dump(first_state) == dump(copied_state)
    # Lost vectors are made again with what was written.
    with store._session.environment.write() as view:
        for key, _ in list(view.scan(tables.VECTORS)):
            view.delete(tables.VECTORS, bytes(key))
    assert store.check()
    assert store.repair().lost == []
    check_vectors(store)


def test_a_text_written_by_a_model_leaves_own_chunks_unchanged(make_store: MakeStore, server: Server) -> None:
    server.respond = answer_context
    store = make_store(settings=SETTINGS)
    store.put("tea", TEXTS["tea"], format="markdown", chunks="whole")
    store.put("lamp", TEXTS["lamp"], chunks=[(0, 40), (60, 90)])
    assert store.extract("context").passages == 2
    assert store.execute("SELECT chunks FROM documents ORDER BY key").fetchall() == [(2,), (1,)]
    check_vectors(store)


def test_an_import_of_written_context_keeps_new_metadata(make_store: MakeStore, server: Server) -> None:
    server.respond = answer_context
    store = make_store(settings=SETTINGS)
    store.put("tea", TEXTS["tea"], format="markdown", meta={"year": 2024})
    export = store.path.parent / "export.jsonl"
    store.extract("context")
    store.export(export)
    with kvstore.open(store.path.parent / "copy", embedder="hashing", settings=SETTINGS) as copy:
        copy.put("tea", TEXTS["tea"], format="markdown", meta={"year": 2023})
        copy.import_(export)
        assert copy.get("tea").meta == {"year": 2024}  # type: ignore[union-attr]
        check_vectors(copy)


def test_a_document_with_the_users_vectors_keeps_them(make_store: MakeStore, server: Server) -> None:
    server.respond = answer_context
    store = make_store(settings=SETTINGS)
    dimension = store.settings.dimension
    store.put("own", TEXTS["lamp"], vectors=np.eye(1, dimension, dtype=np.float32)[0])
    store.extract("context")
    with store.state() as state:
        record = state.documents.find_by_key("own")
        assert record is not None
        assert state.read_vectors(record)[:, 0].tolist() == [1.0] * record.chunk_count


def test_only_two_values_are_known(tmp_path: Path) -> None:
    with pytest.raises(errors.InputError, match="chunk_context must be between 0 and 1"):
        kvstore.open(tmp_path / "s", embedder="hashing", settings={"chunk_context": 2})
