"""LlamaIndex over a store: what is asked of its own simple store, and what that cannot do."""

from __future__ import annotations

import asyncio
import doctest
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kvstore
from kvstore import errors

pytestmark = pytest.mark.conformance
pytest.importorskip("llama_index.core")

from llama_index.core import Document, MockEmbedding, StorageContext, VectorStoreIndex  # noqa: E402
from llama_index.core.schema import NodeRelationship, QueryBundle, RelatedNodeInfo, TextNode  # noqa: E402
from llama_index.core.vector_stores.simple import SimpleVectorStore  # noqa: E402
from llama_index.core.vector_stores.types import (  # noqa: E402
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

from kvstore.integrations import llamaindex  # noqa: E402
from kvstore.integrations.llamaindex import KvstoreRetriever, KvstoreVectorStore  # noqa: E402

RULES = {"language": "rules"}
#: Three nodes of as many documents: their vectors, and their metadata.
LAMPS: dict[str, tuple[list[float], dict[str, Any]]] = {
    "oil": ([1.0, 0.0], {"height": 1.0, "kind": "oil", "seen": ["north", "east"], "mark": "LX12-North"}),
    "gas": ([0.0, 1.0], {"height": 2.0, "kind": "gas", "seen": ["north"], "mark": "lx12-South"}),
    "arc": ([1.0, 1.0], {"height": 3.0, "kind": "gas", "seen": ["west", "north", "east"], "mark": "QV77"}),
}


def make_lamp_nodes() -> list[TextNode]:
    return [
        TextNode(
            id_=name,
            text=f"The {name} lamp of the tower.",
            embedding=vector,
            metadata=metadata,
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"book of {name}")},
        )
        for name, (vector, metadata) in LAMPS.items()
    ]


@pytest.fixture
def lamps(tmp_path: Path) -> Iterator[KvstoreVectorStore]:
    with KvstoreVectorStore(tmp_path / "store", settings=RULES) as vectors:
        assert vectors.add(make_lamp_nodes()) == ["oil", "gas", "arc"]
        yield vectors
        assert vectors.client is not None
        assert vectors.client.check() == []


def query_ids(vectors: KvstoreVectorStore | SimpleVectorStore, top: int = 3, **fields: Any) -> list[str]:
    return vectors.query(VectorStoreQuery(query_embedding=[1.0, 1.0], similarity_top_k=top, **fields)).ids or []


def make_filters(*conditions: tuple[str, FilterOperator, Any], condition: Any = FilterCondition.AND) -> MetadataFilters:
    return MetadataFilters(
        filters=[MetadataFilter(key=key, operator=operator, value=value) for key, operator, value in conditions],
        condition=condition,
    )


def test_without_filters_all_are_ranked_by_similarity(lamps: KvstoreVectorStore) -> None:
    result = lamps.query(VectorStoreQuery(query_embedding=[1.0, 1.0], similarity_top_k=3))
    assert result.ids is not None and result.nodes is not None and result.similarities is not None
    assert (result.ids[0], sorted(result.ids)) == ("arc", ["arc", "gas", "oil"])
    assert result.similarities == pytest.approx([1, 0.5**0.5, 0.5**0.5])
    (arc, *_) = result.nodes
    expected = make_lamp_nodes()[2]
    assert (arc.get_content(), arc.metadata, arc.ref_doc_id) == (
        expected.get_content(), expected.metadata, "book of arc"
    )  # fmt: skip


By = FilterOperator


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        # Equality
        ([("kind", By.EQ, "gas")], {"gas", "arc"}),
        ([("height", By.EQ, 1.0)], {"oil"}),
        ([("kind", By.EQ, "gas"), ("height", By.EQ, 2.0)], {"gas"}),
        ([("height", By.EQ, 2), ("height", By.EQ, 3)], set()),
        ([("unknown", By.EQ, "gas")], set()),
        ([("height", By.NE, 1.0)], {"gas", "arc"}),
        ([("unknown", By.NE, "gas")], set(LAMPS)),
        # Order
        ([("height", By.GT, 1.5)], {"gas", "arc"}),
        ([("height", By.GT, 2.0)], {"arc"}),
        ([("height", By.GTE, 1.0)], set(LAMPS)),
        ([("height", By.LT, 1.1)], {"oil"}),
        ([("height", By.LT, 1.0)], set()),
        ([("height", By.LTE, 1.0)], {"oil"}),
        ([("height", By.GTE, 2.0), ("height", By.LT, 3.0)], {"gas"}),
        # Lists of values, and values that are lists
        ([("kind", By.IN, ["oil", "gas"])], set(LAMPS)),
        ([("kind", By.IN, ["oil", "wax"])], {"oil"}),
        ([("kind", By.NIN, ["gas"])], {"oil"}),
        ([("unknown", By.NIN, ["gas"])], set(LAMPS)),
        ([("seen", By.CONTAINS, "east")], {"oil", "arc"}),
        ([("seen", By.ANY, ["east", "west"])], {"oil", "arc"}),
        ([("seen", By.ALL, ["north", "east"])], {"oil", "arc"}),
        ([("seen", By.ALL, ["north", "west"])], {"arc"}),
        # Texts
        ([("mark", By.TEXT_MATCH, "LX12")], {"oil"}),
        ([("mark", By.TEXT_MATCH_INSENSITIVE, "lx12")], {"oil", "gas"}),
        # What is empty
        ([("unknown", By.IS_EMPTY, None)], set(LAMPS)),
        ([("kind", By.IS_EMPTY, None)], set()),
    ],
)
def test_filters_agree_with_the_simple_store(
    lamps: KvstoreVectorStore, conditions: list[tuple[str, FilterOperator, Any]], expected: set[str]
) -> None:
    assert set(query_ids(lamps, filters=make_filters(*conditions))) == expected
    simple = SimpleVectorStore()
    simple.add(make_lamp_nodes())
    assert set(query_ids(simple, filters=make_filters(*conditions))) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (FilterCondition.AND, set()),
        (None, set()),
        (FilterCondition.OR, set(LAMPS)),
        (FilterCondition.NOT, set()),
    ],
)
def test_filters_are_joined(lamps: KvstoreVectorStore, condition: Any, expected: set[str]) -> None:
    filters = make_filters(("kind", By.EQ, "gas"), ("height", By.EQ, 1.0), condition=condition)
    assert set(query_ids(lamps, filters=filters)) == expected


def test_not_selects_nodes_that_no_filter_accepts(lamps: KvstoreVectorStore) -> None:
    assert set(query_ids(lamps, filters=make_filters(("kind", By.EQ, "oil"), condition=FilterCondition.NOT))) == {
        "gas",
        "arc",
    }


def test_filters_lie_within_filters(lamps: KvstoreVectorStore) -> None:
    either = make_filters(("kind", By.EQ, "oil"), ("height", By.GT, 2.5), condition=FilterCondition.OR)
    both = MetadataFilters(filters=[either, MetadataFilter(key="seen", operator=By.CONTAINS, value="west")])
    assert query_ids(lamps, filters=both) == ["arc"]


def test_empty_values_are_empty(lamps: KvstoreVectorStore) -> None:
    for name, value in (("none", None), ("text", ""), ("list", [])):
        lamps.add([TextNode(id_=name, text="A lamp.", embedding=[1.0, 0.0], metadata={"kind": value})])
    assert set(query_ids(lamps, 9, filters=make_filters(("kind", By.IS_EMPTY, None)))) == {"none", "text", "list"}


def test_filters_go_before_the_number_of_nodes(lamps: KvstoreVectorStore) -> None:
    gas = make_filters(("kind", By.EQ, "gas"))
    assert query_ids(lamps, filters=gas) == ["arc", "gas"]
    assert query_ids(lamps, 1, filters=gas) == ["arc"]


def test_nodes_and_documents_that_may_answer(lamps: KvstoreVectorStore) -> None:
    gas = make_filters(("kind", By.EQ, "gas"))
    assert query_ids(lamps, filters=gas, node_ids=["arc", "oil"]) == ["arc"]
    assert query_ids(lamps, doc_ids=["book of gas", "book of none"]) == ["gas"]
    assert query_ids(lamps, doc_ids=["book of gas"], node_ids=["arc"]) == []
    assert query_ids(lamps, doc_ids=[]) == []


def test_deleted_nodes_are_not_found(lamps: KvstoreVectorStore) -> None:
    lamps.delete("book of gas")
    assert query_ids(lamps, 2) == ["arc", "oil"]
    lamps.delete("book of none")
    lamps.delete_nodes(["oil", "none"])
    assert query_ids(lamps) == ["arc"]
    lamps.delete_nodes(filters=make_filters(("height", By.GT, 5.0)))
    assert query_ids(lamps) == ["arc"]
    with pytest.raises(errors.InputError, match="clear"):
        lamps.delete_nodes()


def test_clear_keeps_other_documents(lamps: KvstoreVectorStore) -> None:
    assert lamps.client is not None
    lamps.client.put("manual", "The manual.", vectors=[[1.0, 0.0]])
    lamps.clear()
    assert query_ids(lamps) == ["manual"]
    assert lamps.client.keys() == ["manual"]


def test_nodes_and_vectors_are_returned(lamps: KvstoreVectorStore) -> None:
    assert lamps.get("arc") == pytest.approx([0.5**0.5, 0.5**0.5])
    with pytest.raises(errors.KvstoreError):
        lamps.get("none")
    assert [node.node_id for node in lamps.get_nodes(["gas", "none", "arc", "gas"])] == ["gas", "arc"]
    (oil,) = lamps.get_nodes(filters=make_filters(("kind", By.EQ, "oil")))
    assert (oil.node_id, oil.get_content()) == ("oil", "The oil lamp of the tower.")
    assert len(lamps.get_nodes()) == 3
    assert [node.embedding for node in lamps.get_nodes(["oil", "gas"])] == [[1.0, 0.0], [0.0, 1.0]]


def test_nodes_can_be_copied_with_their_vectors(lamps: KvstoreVectorStore, tmp_path: Path) -> None:
    with KvstoreVectorStore(tmp_path / "copy", settings=RULES) as copy:
        copy.add(lamps.get_nodes())
        assert query_ids(copy) == query_ids(lamps)


def test_nodes_of_long_documents_have_no_vector(store: kvstore.Store) -> None:
    store.put("long", "Wages are paid every month. " * 200)
    (node,) = KvstoreVectorStore(store=store).get_nodes()
    assert node.embedding is None


@pytest.mark.parametrize(
    ("of_query", "of_call", "expected"),
    [
        (0.0, {}, ["a", "c"]),
        (0.25, {}, ["a", "c"]),
        (1.0, {}, ["a", "b"]),
        (None, {"mmr_threshold": 0.0}, ["a", "c"]),
        (None, {"mmr_threshold": 1.0}, ["a", "b"]),
        (1.0, {"mmr_threshold": 0.0}, ["a", "c"]),
        (0.0, {"mmr_threshold": 1.0}, ["a", "b"]),
    ],
)
def test_marginal_relevance(
    store: kvstore.Store, tmp_path: Path, of_query: float | None, of_call: dict[str, Any], expected: list[str]
) -> None:
    with KvstoreVectorStore(tmp_path / "lamps", settings=RULES) as vectors:
        placed = {"a": [1.0, 0.0], "b": [1.0, 0.0], "c": [0.0, 1.0]}
        vectors.add([TextNode(id_=name, text="A lamp.", embedding=vector) for name, vector in placed.items()])
        query = VectorStoreQuery(
            query_embedding=[1.0, 0.0], similarity_top_k=2, mode=VectorStoreQueryMode.MMR, mmr_threshold=of_query
        )
        assert vectors.query(query, **of_call).ids == expected


def test_modes_of_words_and_of_both(lamps: KvstoreVectorStore) -> None:
    def list_ids(mode: VectorStoreQueryMode, **fields: Any) -> list[str]:
        query = VectorStoreQuery(
            query_embedding=[1.0, 0.0], query_str="the gas lamp", similarity_top_k=3, mode=mode, **fields
        )
        return lamps.query(query).ids or []

    assert list_ids(VectorStoreQueryMode.SPARSE)[0] == list_ids(VectorStoreQueryMode.TEXT_SEARCH)[0] == "gas"
    assert list_ids(VectorStoreQueryMode.SPARSE, sparse_top_k=1) == ["gas"]
    assert list_ids(VectorStoreQueryMode.HYBRID, alpha=0.0)[0] == "gas"
    assert list_ids(VectorStoreQueryMode.HYBRID, alpha=1.0, hybrid_top_k=1) == ["oil"]
    assert len(list_ids(VectorStoreQueryMode.SEMANTIC_HYBRID)) == 3
    with pytest.raises(errors.InputError, match="svm"):
        list_ids(VectorStoreQueryMode.SVM)
    with pytest.raises(errors.InputError, match="query_str"):
        lamps.query(VectorStoreQuery(query_embedding=[1.0, 0.0], mode=VectorStoreQueryMode.SPARSE))
    with pytest.raises(errors.InputError, match="query_embedding"):
        lamps.query(VectorStoreQuery(query_str="lamp"))


def test_before_the_first_node_there_is_nothing(tmp_path: Path) -> None:
    vectors = KvstoreVectorStore(tmp_path / "store", settings=RULES)
    assert (query_ids(vectors), vectors.get_nodes(), vectors.client) == ([], [], None)
    vectors.clear()
    with pytest.raises(errors.InputError, match="give the vector store an embed_model"):
        vectors.add([TextNode(text="A lamp.")])
    with pytest.warns(UserWarning, match="1 of 1 nodes have no text"):
        assert vectors.add([TextNode(text=" ", id_="blank", embedding=[1.0, 0.0])]) == []
    assert not (tmp_path / "store").exists()
    with pytest.raises(errors.InputError, match="a path or a store"):
        KvstoreVectorStore()


def test_the_asynchronous_methods_do_the_same(lamps: KvstoreVectorStore) -> None:
    async def add_delete_and_query() -> list[str]:
        await lamps.async_add([TextNode(id_="wax", text="A wax lamp.", embedding=[1.0, 1.0])])
        await lamps.adelete("book of arc")
        result = await lamps.aquery(VectorStoreQuery(query_embedding=[1.0, 1.0], similarity_top_k=1))
        return result.ids or []

    assert asyncio.run(add_delete_and_query()) == ["wax"]


BUILD = """
import sys
from llama_index.core import Document, MockEmbedding, StorageContext, VectorStoreIndex
from kvstore.integrations.llamaindex import KvstoreVectorStore
vectors = KvstoreVectorStore(sys.argv[1], settings={"language": "rules"})
VectorStoreIndex.from_documents(
    [Document(id_=str(n), text=f"Lamp number {n} burns.", metadata={"number": n}) for n in range(3)],
    storage_context=StorageContext.from_defaults(vector_store=vectors),
    embed_model=MockEmbedding(embed_dim=4),
)
vectors.close()
"""


def test_an_index_is_opened_in_another_process(tmp_path: Path) -> None:
    path = tmp_path / "store"
    subprocess.run([sys.executable, "-c", BUILD, str(path)], check=True)
    with KvstoreVectorStore(path) as vectors:
        index = VectorStoreIndex.from_vector_store(vectors, embed_model=MockEmbedding(embed_dim=4))
        nodes = index.as_retriever(similarity_top_k=5).retrieve("Which lamp burns?")
        assert {node.node.ref_doc_id for node in nodes} == {"0", "1", "2"}
        index.delete_ref_doc("1")
        index.insert(Document(id_="4", text="Lamp number 4 burns."))
        nodes = index.as_retriever(similarity_top_k=5, vector_store_query_mode="hybrid").retrieve("Lamp number 4")
        assert {node.node.ref_doc_id for node in nodes} == {"0", "2", "4"}
        assert nodes[0].node.ref_doc_id == "4"
    with kvstore.open(path) as store:
        assert store.check() == []
        assert len(store) == 3


def test_an_embedding_of_the_framework_embeds_the_store(tmp_path: Path) -> None:
    embedding = MockEmbedding(embed_dim=4)
    with KvstoreVectorStore(tmp_path / "store", embed_model=embedding, settings=RULES) as vectors:
        vectors.add([TextNode(id_="oil", text="The oil lamp."), TextNode(id_="gas", text="The gas lamp.")])
        assert vectors.client is not None
        assert vectors.client.settings.embedder == "llamaindex:MockEmbedding:unknown"
        retriever = KvstoreRetriever(store=vectors.client, strategy="lexical", similarity_top_k=1)
        assert [result.node.node_id for result in retriever.retrieve("gas")] == ["gas"]


def test_a_retriever_by_any_strategy(store: kvstore.Store) -> None:
    store.put("handbook", "# Leave\n\nMaria Jensen approves parental leave.\n\n# Pay\n\n" + "Wages are paid. " * 200,
              format="markdown", meta={"year": 2024})  # fmt: skip
    store.put("notes", "Maria Jensen is away.", meta={"year": 2023})
    for strategy in ("vector", "lexical", "hybrid", "bridge", "graph", None):
        retriever = KvstoreRetriever(store=store, strategy=strategy, similarity_top_k=3)
        results = retriever.retrieve("Who approves parental leave?")
        assert len(results) == 3
        assert len({result.node.node_id for result in results}) == 3
        evidence = results[0].node.metadata["evidence"]
        assert evidence["path"] and evidence["rank"] == 1
        assert "evidence" not in results[0].node.get_content("llm")
    only = KvstoreRetriever(store=store, strategy="hybrid", filters=make_filters(("year", By.LT, 2024)))
    assert [result.node.node_id for result in only.retrieve("Who approves leave?")] == ["notes"]
    query = QueryBundle("What?", embedding=store.embed(["Maria Jensen is away."])[0].tolist())
    by_vector = KvstoreRetriever(store=store, strategy="vector", similarity_top_k=1)
    assert by_vector.retrieve(query)[0].node.node_id == "notes"
    with pytest.raises(errors.InputError, match="filters or where"):
        KvstoreRetriever(store=store, filters=make_filters(("year", By.LT, 2024)), where="key = 'a'")


def test_the_example_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert doctest.testmod(llamaindex).failed == 0


def test_a_retriever_brings_the_embedding_of_a_store_without_one(tmp_path: Path) -> None:
    embedding, path = MockEmbedding(embed_dim=4), tmp_path / "store"
    with KvstoreVectorStore(path, settings=RULES) as vectors:
        VectorStoreIndex.from_documents(
            [Document(id_=name, text=f"The {name} lamp.") for name in LAMPS],
            storage_context=StorageContext.from_defaults(vector_store=vectors),
            embed_model=embedding,
        )
    for strategy in ("vector", "lexical", "hybrid", "bridge", "graph", "adaptive"):
        retriever = KvstoreRetriever(path, embed_model=embedding, strategy=strategy, similarity_top_k=3)
        assert len(retriever.retrieve("Where is the gas lamp?")) == 3, strategy
        retriever.close()
    retriever = KvstoreRetriever(path, strategy="lexical")
    assert {result.node.ref_doc_id for result in retriever.retrieve("gas")} == {"gas"}
    retriever.close()
    with pytest.raises(errors.StoreNotFoundError):
        KvstoreRetriever(tmp_path / "none")


def test_a_mode_can_be_a_text_and_wrong_arguments_are_named(lamps: KvstoreVectorStore) -> None:
    def run_query(**fields: Any) -> Any:
        return lamps.query(VectorStoreQuery(**{"query_str": "oil lamp", "query_embedding": [1.0, 0.0], **fields}))

    for mode in ("default", "sparse", "hybrid", "mmr"):
        assert (
            run_query(mode=mode, similarity_top_k=1).ids
            == run_query(mode=VectorStoreQueryMode(mode), similarity_top_k=1).ids
        )
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("does not support the query mode 'nosuch'", {"mode": "nosuch"}),
        ("the query mode 'default' needs a vector", {"mode": "default", "query_embedding": None}),
        ("the query mode 'sparse' needs text", {"mode": "sparse", "query_str": None}),
        ("similarity_top_k must be a whole number", {"mode": "mmr", "similarity_top_k": "3"}),
        ("alpha must be a number", {"mode": "hybrid", "alpha": "1"}),
        ("mmr_threshold must be a number", {"mode": "mmr", "mmr_threshold": "1"}),
        ("filters must be MetadataFilters", {"filters": {"kind": "gas"}}),
        ("ids must be a list of strings", {"node_ids": "oil"}),
    ]
    for message, fields in wrong:
        with pytest.raises(errors.InputError, match=message):
            run_query(**fields)
    with pytest.raises(errors.ArgumentError, match="nodes must be LlamaIndex nodes"):
        lamps.add(["oil"])
    with pytest.raises(errors.ArgumentError, match="takes a VectorStoreQuery"):
        lamps.query("oil")
