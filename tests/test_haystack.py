"""Haystack over a store: its own tests of document stores, and what the retriever returns."""

from __future__ import annotations

import asyncio
import doctest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.conformance
pytest.importorskip("haystack")

from haystack import Document, Pipeline  # noqa: E402
from haystack.document_stores.errors import DuplicateDocumentError  # noqa: E402
from haystack.document_stores.types import DuplicatePolicy, FilterPolicy  # noqa: E402
from haystack.errors import FilterError  # noqa: E402
from haystack.testing import document_store as suite  # noqa: E402
from haystack.testing import document_store_async as async_suite  # noqa: E402

import kvstore  # noqa: E402
from kvstore import errors  # noqa: E402
from kvstore.integrations import haystack  # noqa: E402
from kvstore.integrations.haystack import KvstoreDocumentStore, KvstoreRetriever  # noqa: E402

RULES = {"language": "rules"}


def assert_equal_documents(received: list[Document], expected: list[Document]) -> None:
    """Compare documents in any order: a store returns them by id, and vectors with length 1."""
    assert sorted(document.id for document in received) == sorted(document.id for document in expected)
    by_id = {document.id: document for document in expected}
    for document in received:
        match = by_id[document.id]
        assert (document.content, document.meta, document.score) == (match.content, match.meta, match.score)
        assert (document.embedding is None) == (match.embedding is None)
        if document.embedding is not None and match.embedding is not None:
            length = sum(component**2 for component in match.embedding) ** 0.5
            assert document.embedding == pytest.approx([component / length for component in match.embedding], abs=1e-6)


@pytest.fixture
def checked_store(tmp_path: Path) -> Iterator[KvstoreDocumentStore]:
    with KvstoreDocumentStore(tmp_path / "store", embedder="hashing:768", settings=RULES) as documents:
        yield documents
        assert documents.store.check() == []


@pytest.fixture
def document_store(checked_store: KvstoreDocumentStore) -> KvstoreDocumentStore:
    return checked_store


class TestSuite(
    suite.DocumentStoreBaseExtendedTests,  # type: ignore[misc]
    suite.CountDocumentsByFilterTest,  # type: ignore[misc]
    suite.CountUniqueMetadataByFilterTest,  # type: ignore[misc]
    suite.GetMetadataFieldsInfoTest,  # type: ignore[misc]
    suite.GetMetadataFieldMinMaxTest,  # type: ignore[misc]
    suite.GetMetadataFieldUniqueValuesTest,  # type: ignore[misc]
):
    """Haystack's tests of a document store."""

    @pytest.fixture
    def document_store(self, checked_store: KvstoreDocumentStore) -> KvstoreDocumentStore:
        return checked_store

    @staticmethod
    def assert_documents_are_equal(received: list[Document], expected: list[Document]) -> None:
        assert_equal_documents(received, expected)

    def test_write_documents(self, document_store: KvstoreDocumentStore) -> None:
        """Without a policy, a document that exists is an error."""
        assert document_store.write_documents([Document(id="1", content="one")]) == 1
        with pytest.raises(DuplicateDocumentError):
            document_store.write_documents([Document(id="1", content="two")])


class TestAsyncSuite(
    async_suite.DeleteAllAsyncTest,  # type: ignore[misc]
    async_suite.CountDocumentsAsyncTest,  # type: ignore[misc]
    async_suite.CountDocumentsByFilterAsyncTest,  # type: ignore[misc]
    async_suite.CountUniqueMetadataByFilterAsyncTest,  # type: ignore[misc]
    async_suite.DeleteByFilterAsyncTest,  # type: ignore[misc]
    async_suite.UpdateByFilterAsyncTest,  # type: ignore[misc]
    async_suite.WriteDocumentsAsyncTest,  # type: ignore[misc]
    async_suite.DeleteDocumentsAsyncTest,  # type: ignore[misc]
    async_suite.GetMetadataFieldsInfoAsyncTest,  # type: ignore[misc]
    async_suite.GetMetadataFieldMinMaxAsyncTest,  # type: ignore[misc]
    async_suite.GetMetadataFieldUniqueValuesAsyncTest,  # type: ignore[misc]
    async_suite.FilterDocumentsAsyncTest,  # type: ignore[misc]
):
    """Haystack's tests of the coroutines of a document store."""

    @pytest.fixture
    def document_store(self, checked_store: KvstoreDocumentStore) -> KvstoreDocumentStore:
        return checked_store

    @pytest.fixture
    def filterable_docs(self) -> list[Document]:
        return list(suite.create_filterable_docs())

    @staticmethod
    def assert_documents_are_equal(received: list[Document], expected: list[Document]) -> None:
        assert_equal_documents(received, expected)

    @pytest.mark.asyncio
    async def test_write_documents_async(self, document_store: KvstoreDocumentStore) -> None:
        """Without a policy, a document that exists is an error."""
        assert await document_store.write_documents_async([Document(id="1", content="one")]) == 1
        with pytest.raises(DuplicateDocumentError):
            await document_store.write_documents_async([Document(id="1", content="two")])


def test_the_example_of_the_module_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert doctest.testmod(haystack).failed == 0


def write_examples(document_store: KvstoreDocumentStore) -> None:
    texts = {"tea": "Tea is made from leaves.", "sea": "The sea is salty.", "rum": "Rum is made from sugar cane."}
    document_store.write_documents(
        [Document(id=key, content=text, meta={"wet": key == "sea"}) for key, text in texts.items()]
    )


def test_a_retriever_runs_in_a_pipeline(document_store: KvstoreDocumentStore) -> None:
    write_examples(document_store)
    pipeline = Pipeline()
    pipeline.add_component("retriever", KvstoreRetriever(document_store, strategy="lexical", top_k=1))
    (document,) = pipeline.run({"retriever": {"query": "What is tea made from?"}})["retriever"]["documents"]
    assert (document.id, document.content) == ("tea", "Tea is made from leaves.")
    assert document.score is not None and document.meta["evidence"]["rank"] == 1
    copy = Pipeline.from_dict(pipeline.to_dict(), allowed_modules=["kvstore.integrations.haystack.retriever"])
    assert copy.run({"retriever": {"query": "salty sea"}})["retriever"]["documents"][0].id == "sea"


def test_a_retriever_takes_filters_embeddings_and_clauses(document_store: KvstoreDocumentStore) -> None:
    write_examples(document_store)
    dry = {"field": "meta.wet", "operator": "==", "value": False}
    retriever = KvstoreRetriever(document_store, filters=dry, filter_policy=FilterPolicy.MERGE, clauses={"depth": 1})
    filters = {"field": "id", "operator": "in", "value": ["rum", "sea"]}
    assert [document.id for document in retriever.run("What is made?", filters=filters)["documents"]] == ["rum"]
    vector = document_store.store.embed(["The sea is salty."])[0].tolist()
    assert KvstoreRetriever(document_store).run(query_embedding=vector, top_k=1)["documents"][0].id == "sea"
    result = asyncio.run(retriever.run_async("What is tea made from?", top_k=1))
    assert result["documents"][0].id == "tea"


def test_a_pipeline_can_embed_everything(tmp_path: Path) -> None:
    with KvstoreDocumentStore(tmp_path / "store", embedder="none:2", settings=RULES) as documents:
        vectors = {"tea": [3.0, 0.0], "sea": [0.0, 1.0]}
        documents.write_documents([Document(id=key, content=key, embedding=value) for key, value in vectors.items()])
        retriever = KvstoreRetriever(documents)
        assert [document.id for document in retriever.run(query_embedding=[0.1, 1.0])["documents"]] == ["sea", "tea"]
        assert documents.filter_documents()[1].embedding == [1.0, 0.0]


def test_texts_without_words_are_skipped(document_store: KvstoreDocumentStore) -> None:
    with pytest.warns(UserWarning, match="have no text"):
        assert document_store.write_documents([Document(content=" "), Document(content="Tea.")]) == 1


@pytest.mark.parametrize(
    "filters",
    [
        {"field": "meta.wet", "operator": "like", "value": "x"},
        {"operator": "XOR", "conditions": []},
        {"field": "meta.wet", "operator": "==", "value": {"a": object()}},
        {"field": "content", "operator": "!=", "value": "one"},
        {"operator": "AND", "conditions": [5]},
        5,
    ],
)
def test_invalid_filters_are_refused(document_store: KvstoreDocumentStore, filters: Any) -> None:
    document_store.write_documents([Document(content="one")])
    for use in (document_store.filter_documents, document_store.delete_by_filter):
        with pytest.raises(FilterError):
            use(filters)
    assert document_store.count_documents() == 1


def test_duplicates_within_a_list(document_store: KvstoreDocumentStore) -> None:
    twice = [Document(id="1", content="one"), Document(id="1", content="two")]
    assert document_store.write_documents(twice, DuplicatePolicy.SKIP) == 1
    assert document_store.filter_documents()[0].content == "one"
    assert document_store.write_documents(twice, DuplicatePolicy.OVERWRITE) == 2
    assert document_store.filter_documents()[0].content == "two"
    with pytest.raises(DuplicateDocumentError):
        document_store.write_documents([Document(id="2", content="a"), Document(id="2", content="b")])
    assert document_store.count_documents() == 1


@pytest.mark.parametrize("policy", list(DuplicatePolicy))
def test_documents_are_embedded_before_the_writers_lock_is_taken(
    document_store: KvstoreDocumentStore, policy: DuplicatePolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = document_store.store.embedder
    embed = embedder.embed
    in_transaction = []

    def embed_and_record(texts: Any) -> Any:
        with kvstore.open(document_store.store.path, lock_timeout=0) as other, other.transaction():
            in_transaction.append(False)  # the lock is free
        return embed(texts)

    monkeypatch.setattr(embedder, "embed", embed_and_record)
    assert document_store.write_documents([Document(id="1", content="one lamp")], policy) == 1
    assert in_transaction == [False]


def test_invalid_filters_and_fields_are_named(document_store: KvstoreDocumentStore) -> None:
    filters: list[tuple[str, Any]] = [
        ("the field of a filter must be a string", {"field": 3, "operator": "==", "value": 1}),
        ("the conditions of AND must be a list", {"operator": "AND", "conditions": 3}),
    ]
    for message, wrong in filters:
        with pytest.raises(FilterError, match=message):
            document_store.filter_documents(wrong)
    with pytest.raises(errors.ArgumentError, match="metadata_field must be text"):
        document_store.get_metadata_field_min_max(3)  # type: ignore[arg-type]
    with pytest.raises(errors.ArgumentError, match="document_store must be a KvstoreDocumentStore, not str 'shelf'$"):
        KvstoreRetriever("shelf")  # type: ignore[arg-type]
