"""LangChain over a store: LangChain's own tests of vector stores, retrievers and document indexes, and index()."""

from __future__ import annotations

import asyncio
import doctest
import inspect
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kvstore
from kvstore import errors
from kvstore.registry import STRATEGIES

pytestmark = pytest.mark.conformance
pytest.importorskip("langchain_core")
pytest.importorskip("langchain_tests")

from langchain_core.documents import Document  # noqa: E402
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings  # noqa: E402
from langchain_core.indexing import aindex, index  # noqa: E402
from langchain_core.retrievers import BaseRetriever  # noqa: E402
from langchain_tests.integration_tests import (  # noqa: E402
    EmbeddingsIntegrationTests,
    RetrieversIntegrationTests,
    VectorStoreIntegrationTests,
)
from langchain_tests.integration_tests.indexer import (  # noqa: E402
    AsyncDocumentIndexTestSuite,
    DocumentIndexerTestSuite,
)

from kvstore.integrations import framework_embedder, langchain, marginal_relevance  # noqa: E402
from kvstore.integrations.langchain import (  # noqa: E402
    KvstoreDocumentIndex,
    KvstoreEmbeddings,
    KvstoreRecordManager,
    KvstoreRetriever,
    KvstoreVectorStore,
    stored_documents,
)

RULES = {"language": "rules"}
TEXTS = {
    "harbour": "The harbour of Tolland is kept by Maria Jensen. She opens the gates at six.",
    "horn": "Josiah Wrexham built the horn house at Tolland Head in 1880.",
    "beacon": "Eleanor Rudd paid for the Widow's Beacon. Josiah Wrexham built it without a fee.",
    "tender": "The tender Petrel carries oil to Tolland Head. Her master is Maria Jensen.",
    "fog": "In fog the horn of Tolland Head sounds twice a minute, says Eleanor Rudd.",
}


def mark_coroutines(tests: type) -> type:
    """Mark the tests of a suite that are coroutines."""
    for name, test in inspect.getmembers(tests, inspect.iscoroutinefunction):
        if name.startswith("test_"):
            setattr(tests, name, pytest.mark.asyncio(test))
    return tests


@mark_coroutines
class TestVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path: Path) -> Iterator[KvstoreVectorStore]:
        with KvstoreVectorStore(tmp_path / "store", self.get_embeddings(), settings=RULES) as store:
            yield store
            assert store.store.check() == []


@mark_coroutines
class TestVectorStoreOverOwnEmbedder(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, store: kvstore.Store) -> KvstoreVectorStore:
        return KvstoreVectorStore(store=store)


@pytest.fixture(scope="module")
def reused_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a store that tests open one after another and drop without closing it."""
    return tmp_path_factory.mktemp("reused") / "store"


@mark_coroutines
class TestVectorStoreThatIsDropped(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, reused_path: Path) -> KvstoreVectorStore:
        store = KvstoreVectorStore(reused_path, self.get_embeddings(), settings=RULES)
        store.store.delete_where("1")
        return store


@mark_coroutines
class TestRetrieverThatIsDropped(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def fill_reused_store(self, reused_path: Path) -> None:
        embedding = TestVectorStoreThatIsDropped().get_embeddings()
        store = KvstoreVectorStore(reused_path, embedding, settings=RULES)
        store.add_documents([Document(text, id=key) for key, text in TEXTS.items()])
        self._arguments = {"path": reused_path, "embedding": embedding}

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return KvstoreRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return self._arguments

    @property
    def retriever_query_example(self) -> str:
        return "Who built the horn house at Tolland Head?"


@mark_coroutines
class TestDocumentIndex(DocumentIndexerTestSuite):
    @pytest.fixture
    def index(self, store: kvstore.Store) -> KvstoreDocumentIndex:
        return KvstoreDocumentIndex(store=store)


@mark_coroutines
class TestAsyncDocumentIndex(AsyncDocumentIndexTestSuite):
    @pytest.fixture
    def index(self, store: kvstore.Store) -> KvstoreDocumentIndex:
        return KvstoreDocumentIndex(store=store)


@mark_coroutines
class TestEmbeddings(EmbeddingsIntegrationTests):
    @pytest.fixture(autouse=True)
    def set_store(self, store: kvstore.Store) -> None:
        self._store = store

    @property
    def embeddings_class(self) -> type[Embeddings]:
        return KvstoreEmbeddings

    @property
    def embedding_model_params(self) -> dict[str, Any]:
        return {"store": self._store}


@pytest.fixture(scope="module")
def strategy_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kvstore.Store]:
    """Yield a store that every strategy can read."""
    path = tmp_path_factory.mktemp("lights") / "store"
    with kvstore.open(path, embedder="hashing", settings=RULES) as store:
        KvstoreVectorStore(store=store).add_documents(
            [Document(text, id=key, metadata={"place": key}) for key, text in TEXTS.items()]
        )
        for kind in ("units", "topics", "communities"):
            store.execute(f"CREATE INDEX {kind}")
        yield store


@mark_coroutines
class TestRetriever(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True, params=sorted(STRATEGIES))
    def strategy(self, request: pytest.FixtureRequest, strategy_store: kvstore.Store) -> None:
        self._strategy, self._store = request.param, strategy_store

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return KvstoreRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"store": self._store, "strategy": self._strategy}

    @property
    def retriever_query_example(self) -> str:
        return "Who built the horn house at Tolland Head?"


def make_documents(source: str, *texts: str) -> list[Document]:
    return [Document(text, metadata={"source": source}) for text in texts]


def list_content(store: kvstore.Store) -> set[tuple[str, str]]:
    documents = store.get_many(store.keys())
    return {(document.meta.get("source", ""), document.text) for document in documents if document is not None}


#: What the groups of documents hold at first, and later.
FIRST = [*make_documents("a", "Alpha one.", "Alpha two."), *make_documents("b", "Beta one.", "Beta two.")]
LATER = [*make_documents("a", "Alpha one.", "Alpha three."), *make_documents("b", "Beta three.")]
WANTED = {("a", "Alpha one."), ("a", "Alpha three."), ("b", "Beta three.")}
MODES = ["incremental", "full", "scoped_full"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("by_function", [False, True])
def test_index_stores_the_last_version(store: kvstore.Store, mode: Any, by_function: bool) -> None:
    vectors = KvstoreVectorStore(store=store, namespace="docs")
    source: Any = (lambda document: document.metadata["source"]) if by_function else "source"
    manager = vectors.record_manager(source)

    def index_documents(documents: list[Document]) -> tuple[int, ...]:
        counts = index(
            documents, manager, vectors, cleanup=mode, source_id_key=source, batch_size=2, key_encoder="sha256"
        )
        return counts["num_added"], counts["num_skipped"], counts["num_deleted"]

    assert index_documents(FIRST) == (4, 0, 0)
    changed = store.execute("SELECT key, changed FROM documents ORDER BY key").fetchall()
    assert index_documents(FIRST) == (0, 4, 0)
    assert store.execute("SELECT key, changed FROM documents ORDER BY key").fetchall() == changed
    assert index_documents(LATER) == (2, 1, 3)
    assert list_content(store) == WANTED
    assert sorted(manager.list_keys()) == store.keys()


def test_aindex_does_the_same(store: kvstore.Store) -> None:
    vectors = KvstoreVectorStore(store=store)

    async def index_both() -> None:
        for documents in (FIRST, LATER):
            await aindex(
                documents,
                vectors.record_manager(),
                vectors,
                cleanup="full",
                source_id_key="source",
                key_encoder="sha256",
            )

    asyncio.run(index_both())
    assert list_content(store) == WANTED


def test_index_into_a_document_index(store: kvstore.Store) -> None:
    documents = KvstoreDocumentIndex(store=store, namespace="docs")
    manager = KvstoreRecordManager("docs", store=store)
    for version in (FIRST, LATER):
        index(version, manager, documents, cleanup="full", source_id_key="source", key_encoder="sha256")
    assert list_content(store) == WANTED


#: A process that indexes FIRST and ends at the call that its arguments name.
KILLED = """
import json, os, sys
from langchain_core.documents import Document
from langchain_core.indexing import index
from kvstore.integrations.langchain import KvstoreRecordManager, KvstoreVectorStore
path, place, mode, given = sys.argv[1:]
FIRST, LATER = ([Document(text, metadata=about) for text, about in part] for part in json.loads(given))
vectors = KvstoreVectorStore(path)
manager = vectors.record_manager()
calls = []
if place == "delete_keys":
    index(FIRST, manager, vectors, cleanup=mode, source_id_key="source", batch_size=2, key_encoder="sha256")
method = getattr(KvstoreRecordManager, place)
def killed(*given, **named):
    calls.append(given)
    if place == "delete_keys" or len(calls) == 2:
        os._exit(9)
    return method(*given, **named)
setattr(KvstoreRecordManager, place, killed)
index(
    LATER if place == "delete_keys" else FIRST, manager, vectors,
    cleanup=mode, source_id_key="source", batch_size=2, key_encoder="sha256",
)
"""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("place", ["update", "delete_keys"])
def test_a_process_killed_between_the_write_and_the_record(
    make_store: Callable[..., kvstore.Store], mode: Any, place: str
) -> None:
    store = make_store()
    path = store.path
    store.close()
    versions = json.dumps(
        [[(document.page_content, document.metadata) for document in part] for part in (FIRST, LATER)]
    )
    script = [sys.executable, "-c", KILLED, str(path), place, mode, versions]
    assert subprocess.run(script, capture_output=True).returncode == 9
    store = make_store()
    assert place == "delete_keys" or list_content(store) != WANTED
    vectors = KvstoreVectorStore(store=store)
    index(
        LATER, vectors.record_manager(), vectors,
        cleanup=mode, source_id_key="source", batch_size=2, key_encoder="sha256",
    )  # fmt: skip
    assert list_content(store) == WANTED
    assert sorted(vectors.record_manager().list_keys()) == store.keys()


def test_a_full_cleanup_leaves_other_namespaces_and_other_documents(store: kvstore.Store) -> None:
    store.put("manual", "The manual of the store.")
    mine, yours = (KvstoreVectorStore(store=store, namespace=name) for name in ("mine", "yours: of @ old"))
    index(make_documents("a", "Alpha one."), yours.record_manager(), yours, key_encoder="sha256")
    index(make_documents("a", "Alpha two."), mine.record_manager(), mine, key_encoder="sha256")
    index([], mine.record_manager(), mine, cleanup="full", key_encoder="sha256")
    assert list_content(store) == {("", "The manual of the store."), ("a", "Alpha one.")}
    assert mine.record_manager().list_keys() == []
    assert yours.delete()
    assert list_content(store) == {("", "The manual of the store.")}


def test_a_clock_that_is_set_back_costs_nothing(store: kvstore.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = KvstoreVectorStore(store=store)
    now = time.time()
    times = iter([now, *(now - 3600 for _ in range(100))])
    monkeypatch.setattr(time, "time", lambda: next(times))
    index(FIRST, vectors.record_manager(), vectors, cleanup="full", source_id_key="source", key_encoder="sha256")
    assert len(store) == 4


def test_records_are_listed_by_time_and_group_in_another_process_too(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store()
    vectors = KvstoreVectorStore(store=store)
    manager = vectors.record_manager()
    vectors.add_documents(FIRST, ids=["a1", "a2", "b1", "b2"])
    middle = manager.get_time()
    manager.update(["a1", "b1", "none"], time_at_least=middle)
    store.close()
    manager = KvstoreRecordManager(store=make_store())
    assert manager.exists(["a1", "none", "b2"]) == [True, False, True]
    assert manager.list_keys(before=middle) == ["a2", "b2"]
    assert manager.list_keys(after=middle - 1e-3, group_ids=["b"], before=middle + 60) == ["b1"]
    assert manager.list_keys(group_ids=["a", "b"], limit=3) == ["a1", "a2", "b1"]
    manager.delete_keys(["a1", "none"])
    assert manager.list_keys() == ["a2", "b1", "b2"]
    with pytest.raises(ValueError, match="is in group 'c', but in 'a' by its metadata"):
        manager.update(["a2"], group_ids=["c"])
    with pytest.raises(ValueError, match="2 keys but 1 group;"):
        manager.update(["a2", "b1"], group_ids=["a"])


def test_marginal_relevance_reads_stored_vectors(store: kvstore.Store) -> None:
    vectors = KvstoreVectorStore(store=store)
    texts = ["The harbour opens at six.", "The harbour opens at six!", "Oil goes to the lamp room."]
    vectors.add_texts(texts, ids=["six", "same", "oil"])
    results = vectors.max_marginal_relevance_search("When does the harbour open?", k=2, lambda_mult=0.1)
    assert {document.id for document in results} > {"oil"} or results[1].id == "oil"
    alike = vectors.max_marginal_relevance_search("When does the harbour open?", k=2, lambda_mult=1.0)
    assert {document.id for document in alike} == {"six", "same"}
    retriever = vectors.as_retriever(search_type="mmr", search_kwargs={"k": 1, "filter": {"$key": "oil"}})
    assert [document.id for document in retriever.invoke("When?")] == ["oil"]
    assert vectors.max_marginal_relevance_search("When?", k=0) == []


@pytest.mark.parametrize("question", ["", "?!", "🎉"])
def test_a_question_without_words_has_no_nearest_document(tmp_path: Path, question: str) -> None:
    with KvstoreVectorStore(tmp_path / "store", "hashing", settings=RULES) as vectors:
        vectors.add_texts(["Tea is made from leaves."])
        for search in (
            vectors.similarity_search,
            vectors.similarity_search_with_score,
            vectors.similarity_search_with_relevance_scores,
            vectors.max_marginal_relevance_search,
        ):
            assert search(question, k=1) == []


def test_filters_are_dictionaries_or_sql(store: kvstore.Store) -> None:
    vectors = KvstoreVectorStore.from_texts(
        ["Tea.", "Milk.", "Oil."],
        store=store,
        metadatas=[{"year": 2023}, {"year": 2024}, {}],
        ids=["tea", "milk", "oil"],
    )
    for condition in ({"year": {"$gte": 2024}}, "meta ->> 'year' >= 2024"):
        assert [document.id for document in vectors.similarity_search("tea", filter=condition)] == ["milk"]
    by_words = vectors.as_retriever(search_kwargs={"using": "lexical", "filter": {"year": 2023}})
    assert [document.id for document in by_words.invoke("tea milk")] == ["tea"]
    (best, score), *_ = vectors.similarity_search_with_relevance_scores("Tea.", k=3)
    assert best.id == "tea"
    assert score == pytest.approx(1)
    with pytest.raises(TypeError, match="takes no argument 'filters'"):
        vectors.similarity_search("tea", filters={"year": 2023})
    with pytest.raises(errors.InputError):
        vectors.similarity_search("tea", filter={"year": {"$near": 2023}})


def test_documents_without_a_text_are_skipped_with_a_warning(store: kvstore.Store) -> None:
    vectors = KvstoreVectorStore(store=store)
    with pytest.warns(UserWarning, match="1 of 2 documents have no text and were skipped: 'b'"):
        assert vectors.add_texts(["Tea.", " \n"], ids=["a", "b"]) == ["a"]
    with pytest.raises(ValueError, match="1 text but 2 metadata"):
        vectors.add_texts(["Tea."], [{}, {}])
    with pytest.raises(ValueError, match="1 document but 2 ids"):
        vectors.add_documents([Document("Tea.")], ids=["a", "b"])


def test_a_batch_has_at_least_one_document(store: kvstore.Store) -> None:
    vectors = KvstoreVectorStore(store=store)
    for batch_size in (0, -1):
        with pytest.raises(errors.InputError, match=f"batch_size takes 1 or more, not {batch_size}"):
            vectors.add_documents([Document("Tea.")], batch_size=batch_size)
        with pytest.raises(errors.InputError, match=f"batch_size takes 1 or more, not {batch_size}"):
            vectors.add_texts(["Tea."], batch_size=batch_size)
    assert vectors.add_texts(["Tea.", "Rum.", "Milk."], ids=["a", "b", "c"], batch_size=2) == ["a", "b", "c"]
    assert store.keys() == ["a", "b", "c"]


def test_a_text_is_stored_unchanged(store: kvstore.Store) -> None:
    text = "  Two lines,\n\n" + "and a long one. " * 300 + "\n"
    vectors = KvstoreVectorStore(store=store)
    vectors.add_texts([text], [{"tags": ["a", "b"], "of": {"page": 3}, "title": "Lines", "source": "l.txt"}], ids=["l"])
    (result,) = vectors.similarity_search("a long one")
    assert (result.page_content, result.metadata["of"], result.metadata["tags"]) == (text, {"page": 3}, ["a", "b"])
    document = store.get("l")
    assert document is not None
    assert (document.chunks, document.title, document.source) == (1, "Lines", "l.txt")


class CountingEmbeddings(Embeddings):
    """An embedder that counts passages and questions."""

    model_name = "counting-1"

    def __init__(self) -> None:
        self.passages = self.questions = 0

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.passages += len(texts)
        return DeterministicFakeEmbedding(size=6).embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        self.questions += 1
        return DeterministicFakeEmbedding(size=6).embed_query(text)


def test_an_embedding_is_identified_by_its_name(tmp_path: Path) -> None:
    path, embedding = tmp_path / "store", CountingEmbeddings()
    with KvstoreVectorStore(path, embedding, settings=RULES) as vectors:
        vectors.add_texts(["Tea.", "Milk."], ids=["tea", "milk"])
        vectors.add_texts(["Tea.", "Milk."], ids=["tea", "milk"])
        assert embedding.passages == 2, "what is stored is not embedded again"
        assert vectors.store.settings.embedder == "langchain:CountingEmbeddings:counting-1"
        with pytest.raises(
            errors.InputError, match="the embedder of the store is 'langchain:CountingEmbeddings:counting-1'"
        ):
            KvstoreVectorStore(store=vectors.store, embedding=DeterministicFakeEmbedding(size=6))
    with pytest.raises(errors.SettingsMismatchError):
        KvstoreVectorStore(path, DeterministicFakeEmbedding(size=6))
    with KvstoreRetriever(path=path, embedding=embedding, strategy="vector", k=1) as retriever:
        assert [document.page_content for document in retriever.invoke("Milk.")] == ["Milk."]
    for wrong in ({}, {"path": path, "store": 5}, {"store": str(path)}):
        with pytest.raises(errors.InputError, match="path"):
            KvstoreVectorStore(**wrong)  # type: ignore[arg-type]


class BrokenEmbeddings(Embeddings):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[float("nan")] * 6 for _ in texts]

    def embed_query(self, text: str) -> list[float]:
        raise ConnectionError("no route to host")


def test_an_open_store_in_place_of_a_path_names_the_right_call(store: kvstore.Store) -> None:
    with pytest.raises(
        errors.InputError, match="^KvstoreVectorStore: the first argument must be a path, .* store=store$"
    ):
        KvstoreVectorStore(store)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="path"):  # by LangChain, which checks the types of fields
        KvstoreRetriever(path=store)
    with pytest.raises(errors.InputError, match="must be a Store .* not KvstoreVectorStore; pass its attribute store$"):
        KvstoreRetriever(store=KvstoreVectorStore(store=store))
    with pytest.raises(errors.InputError, match=r"^kvstore\.open\(\): path must be a path, not int 5$"):
        KvstoreVectorStore(5)  # type: ignore[arg-type]
    with pytest.raises(errors.InputError, match=r"^kvstore\.migrate\(\): path must be a path, not int 5$"):
        kvstore.migrate(5)  # type: ignore[arg-type]


def test_an_embedding_that_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(errors.EmbedderError, match="langchain:BrokenEmbeddings failed: no route to host"):
        KvstoreVectorStore(tmp_path / "store", BrokenEmbeddings())
    assert not (tmp_path / "store").exists()


def test_the_embedder_of_a_store_as_embeddings(store: kvstore.Store) -> None:
    embeddings = KvstoreEmbeddings(store)
    passage, question = embeddings.embed_documents(["Tea."])[0], embeddings.embed_query("Tea.")
    assert np.linalg.norm(passage) == pytest.approx(1)
    assert len(question) == store.settings.dimension


def test_evidence_is_in_the_metadata(store: kvstore.Store) -> None:
    store.put("handbook", "# Leave\n\nMaria Jensen approves parental leave.\n\n# Pay\n\n" + "Wages are paid. " * 200,
              format="markdown", meta={"year": 2024}, source="handbook.md")  # fmt: skip
    retriever = KvstoreRetriever(store=store, strategy="hybrid", k=2)
    result, *_ = retriever.invoke("Who approves parental leave?")
    assert (result.id, result.metadata["source"], result.metadata["year"]) == ("handbook", "handbook.md", 2024)
    evidence = result.metadata["evidence"]
    assert evidence["document"] == "handbook"
    document = store.get("handbook")
    assert document is not None
    assert document.text.encode()[evidence["start"] : evidence["end"]].decode() == result.page_content
    assert evidence["path"]
    (segment, *_) = retriever.invoke("Who approves parental leave?", as_segments=True)
    assert segment.metadata["evidence"]["kind"] == "segment"
    assert retriever.invoke("leave", where={"year": 2023}) == []
    chunk, *_ = KvstoreVectorStore(store=store).similarity_search("parental leave", k=1)
    assert chunk.page_content in document.text
    assert chunk.metadata["evidence"]["ordinal"] == 0
    assert len(retriever.invoke("Who approves leave?", strategy="bridge", k=3, fill="none")) < 4


def test_the_examples_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for module in (langchain, stored_documents, framework_embedder, marginal_relevance):
        assert doctest.testmod(module).failed == 0


def test_wrong_arguments_are_named(make_store: Any) -> None:
    vectors: Any = KvstoreVectorStore(store=make_store())
    vectors.add_texts(["Tea is made from leaves.", "The sea is salty."])
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("k must be a whole number, not str '3'", lambda: vectors.similarity_search("tea", k="3")),
        ("k must be a whole number", lambda: vectors.similarity_search_by_vector([1.0] * 256, k=1.5)),
        ("fetch_k must be a whole number", lambda: vectors.max_marginal_relevance_search("tea", fetch_k=None)),
        ("lambda_mult must be a number", lambda: vectors.max_marginal_relevance_search("tea", lambda_mult="1")),
        ("query must be text", lambda: vectors.similarity_search(3)),
        ("the metadata of a text must be a mapping", lambda: vectors.add_texts(["a"], ["b"])),
        ("a text must be text", lambda: vectors.add_texts([3])),
        ("to add strings, use add_texts", lambda: vectors.add_documents(["a"])),
        ("ids must be a sequence", lambda: vectors.get_by_ids(3)),
    ]
    for message, call in calls:
        with pytest.raises(errors.ArgumentError, match=message):
            call()
    assert len(vectors.similarity_search("tea", k=np.int64(1))) == 1


def test_a_retriever_rejects_a_filter_that_it_would_ignore(store: kvstore.Store) -> None:
    with pytest.raises(TypeError, match=r"^KvstoreRetriever\(\) has no argument 'filter'; did you mean 'where'\?$"):
        KvstoreRetriever(store=store, filter={"tenant": "ana"})
    with pytest.raises(TypeError, match=r"^KvstoreDocumentIndex\(\) has no argument 'wher'; did you mean 'where'\?$"):
        KvstoreDocumentIndex(store=store, wher={"tenant": "ana"})
