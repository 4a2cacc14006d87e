"""LangGraph's store over a store: namespaces, filters, search by question, expiry, and one commit per batch.

LangGraph's own tests (tests/test_store.py in the source distribution of langgraph-checkpoint 4.3.2) also pass if this
store takes the place of its store in memory; they are not part of its wheel.
"""

from __future__ import annotations

import asyncio
import doctest
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import kvstore
from kvstore import errors

pytestmark = pytest.mark.conformance
pytest.importorskip("langgraph.store")

from langchain_core.embeddings import DeterministicFakeEmbedding  # noqa: E402
from langgraph.store.base import (  # noqa: E402
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.base.batch import AsyncBatchedBaseStore  # noqa: E402
from langgraph.store.memory import InMemoryStore  # noqa: E402

from kvstore.integrations import langgraph  # noqa: E402
from kvstore.integrations.langgraph import KvstoreStore, stored_items  # noqa: E402

RULES = {"language": "rules"}
FACTS = {
    (("users", "ana"), "diet"): {"fact": "Ana eats no fish.", "day": 1, "source": {"chat": "monday"}},
    (("users", "ana"), "city"): {"fact": "Ana lives in Porto.", "day": 2},
    (("users", "ben"), "city"): {"fact": "Ben lives in Oslo.", "day": 3},
    (("users", "anabel"), "city"): {"fact": "Anabel lives in Lima.", "day": 4},
    (("shops",), "city"): {"fact": "The shop is in Paris.", "day": 5},
}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[KvstoreStore]:
    with KvstoreStore(tmp_path / "store", embedder="hashing", settings=RULES, fields=["fact"]) as items:
        yield items
        assert items.store.check() == []


@pytest.fixture
def facts(memory: KvstoreStore) -> KvstoreStore:
    memory.batch([PutOp(namespace, key, value) for (namespace, key), value in FACTS.items()])
    return memory


def test_the_example_of_the_module_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert doctest.testmod(langgraph).failed == 0


def test_an_item_is_put_replaced_and_deleted(memory: KvstoreStore) -> None:
    memory.put(("users", "ana"), "city", {"fact": "Ana lives in Porto."})
    first = memory.get(("users", "ana"), "city")
    memory.put(("users", "ana"), "city", {"fact": "Ana lives in Lisbon."})
    second = memory.get(("users", "ana"), "city")
    assert first is not None and second is not None
    assert (second.value["fact"], second.created_at) == ("Ana lives in Lisbon.", first.created_at)
    assert second.updated_at > first.updated_at
    memory.delete(("users", "ana"), "city")
    assert memory.get(("users", "ana"), "city") is None


@pytest.mark.parametrize("key", ["plain", "..", ".hidden", "a/b", "50%_", "é"])
def test_keys_cannot_be_mistaken_for_namespaces(memory: KvstoreStore, key: str) -> None:
    memory.put(("a", "b"), key, {"fact": "one"})
    memory.put(("a",), key, {"fact": "two"})
    assert [item.namespace for item in memory.search(("a", "b"))] == [("a", "b")]
    stored_item = memory.get(("a",), key)
    assert stored_item is not None and (stored_item.key, stored_item.value) == (key, {"fact": "two"})


@pytest.mark.parametrize("label", ["", "a.b", 3])
def test_invalid_labels_are_refused(memory: KvstoreStore, label: Any) -> None:
    for operation in (PutOp((label,), "key", {}), GetOp((label,), "key"), SearchOp((label,))):
        with pytest.raises(InvalidNamespaceError):
            memory.batch([operation])


@pytest.mark.parametrize(
    "filter",
    [
        {"day": 2},
        {"day": {"$gte": 2, "$lt": 4}},
        {"day": {"$ne": 2}},
        {"fact": "Ana eats no fish."},
        {"source": {"chat": "monday"}},
        {"missing": "x"},
    ],
)
def test_filters_agree_with_the_store_in_memory(facts: KvstoreStore, filter: dict[str, Any]) -> None:
    simple = InMemoryStore()
    simple.batch([PutOp(namespace, key, value) for (namespace, key), value in FACTS.items()])
    for prefix in ((), ("users",), ("users", "ana")):
        expected = sorted((item.namespace, item.key) for item in simple.search(prefix, filter=filter))
        assert sorted((item.namespace, item.key) for item in facts.search(prefix, filter=filter)) == expected


def test_a_question_finds_the_best_items_of_a_namespace(facts: KvstoreStore) -> None:
    results = facts.search(("users",), query="Who lives in Oslo?", limit=2)
    assert (results[0].namespace, results[0].key) == (("users", "ben"), "city")
    assert results[0].score is not None and results[1].score is not None and results[0].score > results[1].score
    assert facts.search(("users", "ana"), query="Who lives in Oslo?", filter={"day": 1})[0].key == "diet"
    facts.put(("users", "ana"), "secret", {"fact": "Oslo, Oslo, Oslo."}, index=False)
    everything = facts.search(("users", "ana"), query="Oslo", limit=10)
    assert [(item.key, item.score is None) for item in everything][-1] == ("secret", True)
    pages = [item.key for offset in range(3) for item in facts.search(("users", "ana"), limit=1, offset=offset)]
    assert pages == ["city", "diet", "secret"]


def test_each_indexed_field_has_a_vector_of_its_own(memory: KvstoreStore) -> None:
    lines = [{"text": "Tea is made from leaves."}, {"text": "The sea is salty."}]
    memory.put(("chats",), "long", {"lines": lines}, index=["lines[*].text"])
    memory.put(("chats",), "other", {"lines": [{"text": "Rum is brown."}]}, index=["lines[*].text"])
    assert memory.store.describe_document("chats..long")["chunks"] == 2
    items = memory.search(("chats",), query="salty sea", limit=2)
    assert [item.key for item in items] == ["long", "other"]  # each once


@pytest.mark.parametrize("index", [None, False])
def test_an_item_can_be_longer_than_a_chunk(memory: KvstoreStore, index: Any) -> None:
    page = "The tea is green. " * 5_000 + "The ship Northern Rose sank. " + "é" * 40_000
    memory.put(("pages",), "long", {"fact": page, "day": 3}, index=index)
    memory.put(("pages",), "other", {"fact": "Rum is brown."})
    item = memory.get(("pages",), "long")
    assert item is not None and item.value == {"fact": page, "day": 3}
    found = memory.search(("pages",), query="Northern Rose", limit=2)
    assert [item.key for item in found] == (["long", "other"] if index is None else ["other", "long"])
    assert memory.store.check() == []


@pytest.mark.parametrize(
    ("value", "options", "message"),
    [
        ({"fact": "x"}, {"index": "fact"}, r"index must be a list of fields, not the string 'fact'; write \['fact'\]"),
        ({"fact": "x"}, {"ttl": float("inf")}, "ttl must be a number of minutes, not inf"),
        ({"fact": "x"}, {"ttl": "5"}, "ttl must be a number of minutes, not '5'"),
        (["x"], {}, "item 'key': its value must be a mapping, not list"),
    ],
)
def test_invalid_items_are_refused(memory: KvstoreStore, value: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(kvstore.errors.InputError, match=message):
        memory.put(("users",), "key", value, **options)
    assert memory.get(("users",), "key") is None


def test_a_text_as_fields_is_refused(tmp_path: Path) -> None:
    for options in ({"fields": "fact"}, {"index": {"dims": 256, "embed": len, "fields": "fact"}}):
        with pytest.raises(kvstore.errors.InputError, match="fields must be a list of fields"):
            KvstoreStore(tmp_path / "store", **options)
    assert not (tmp_path / "store").exists()


def test_namespaces_are_listed(facts: KvstoreStore) -> None:
    assert facts.list_namespaces(prefix=("users",)) == [("users", "ana"), ("users", "anabel"), ("users", "ben")]
    assert facts.list_namespaces(suffix=("ana",)) == [("users", "ana")]
    assert facts.list_namespaces(prefix=("*", "ben")) == [("users", "ben")]
    assert facts.list_namespaces(max_depth=1) == [("shops",), ("users",)]
    assert facts.list_namespaces(limit=1, offset=1) == [("users", "ana")]
    both = (MatchCondition("prefix", ("users",)), MatchCondition("suffix", ("ben",)))
    assert facts.batch([ListNamespacesOp(both)]) == [[("users", "ben")]]


def test_a_batch_reads_before_it_writes(memory: KvstoreStore) -> None:
    put, get = PutOp(("a",), "k", {"fact": "one"}), GetOp(("a",), "k")
    assert memory.batch([put, get]) == [None, None]
    (item,) = memory.batch([get])
    assert item.value == {"fact": "one"}
    assert memory.batch([PutOp(("a",), "k", None), get])[1] == item
    assert memory.batch([get]) == [None]


def test_expired_items_are_not_returned(memory: KvstoreStore, monkeypatch: pytest.MonkeyPatch) -> None:
    start = stored_items.get_now()
    clock = [start]
    monkeypatch.setattr(stored_items, "get_now", lambda: clock[0])
    memory.put(("a",), "short", {"fact": "one"}, ttl=10)
    memory.put(("a",), "long", {"fact": "two"})
    clock[0] = start + timedelta(minutes=8)
    assert memory.get(("a",), "short") is not None  # postpones the expiry
    clock[0] = start + timedelta(minutes=16)
    assert memory.get(("a",), "short", refresh_ttl=False) is not None
    clock[0] = start + timedelta(minutes=19)
    assert memory.get(("a",), "short") is None
    assert [item.key for item in memory.search(("a",), query="one")] == ["long"]
    assert memory.store.count() == 2
    assert (memory.sweep_ttl(), memory.store.count()) == (1, 1)


def test_coroutines_and_batches_of_tasks(facts: KvstoreStore) -> None:
    class BatchedStore(AsyncBatchedBaseStore):
        batch = facts.batch
        abatch = facts.abatch

    async def put_and_read() -> Any:
        store = BatchedStore()
        await store.aput(("tasks",), "one", {"fact": "One."})
        items = await asyncio.gather(*(store.aget(("users", name), "city") for name in ("ana", "ben", "eve")))
        return [item and item.value["day"] for item in items], len(await facts.asearch(("users",)))

    assert asyncio.run(put_and_read()) == ([2, 3, None], 4)


def test_an_embedding_of_langchain(tmp_path: Path) -> None:
    index: Any = {"dims": 8, "embed": DeterministicFakeEmbedding(size=8), "fields": ["fact"]}
    with KvstoreStore(tmp_path / "store", index=index, search="vector", settings=RULES) as memory:
        memory.put(("a",), "k", {"fact": "Tea is made from leaves."})
        memory.put(("a",), "l", {"fact": "The sea is salty."})
        assert memory.search(("a",), query="The sea is salty.")[0].key == "l"
        assert memory.store.settings.embedder.startswith("langgraph:DeterministicFakeEmbedding")


def test_other_documents_of_the_store_are_left_alone(make_store: Any) -> None:
    store: kvstore.Store = make_store()
    store.put("tea", "Tea is made from leaves.")
    memory = KvstoreStore(store=store)
    memory.put(("a",), "k", {"fact": "Tea is hot."})
    assert [item.key for item in memory.search((), query="tea")] == ["k"]
    assert memory.list_namespaces() == [("a",)]
    assert memory.get(("tea",), "") is None


def test_pages_beyond_the_most_hits_of_a_search_and_wrong_pages(
    make_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstore.integrations.langgraph.item_store._MAX_HITS", 4)
    memory = KvstoreStore(store=make_store(), search="lexical")
    for number in range(6):
        memory.put(("a",), f"k{number}", {"fact": f"Tea number {number} is hot. " * 40})
    assert {item.key for item in memory.search(("a",), query="tea", limit=20_000)} == {f"k{n}" for n in range(6)}
    assert memory.search(("a",), query="tea", limit=0) == []
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("limit must be a whole number", lambda: memory.search(("a",), limit="3")),
        ("offset takes 0 or more, not -1", lambda: memory.search(("a",), offset=-1)),
        ("filter must be a mapping", lambda: memory.search(("a",), filter="x")),
        (r"must be a tuple of labels, not str 'a'; write \('a',\)$", lambda: memory.put("a", "k", {"fact": "x"})),
        (r"must be a tuple of labels, not str 'a'; write \('a',\)$", lambda: memory.search("a")),
        ("limit takes 0 or more, not -1", lambda: memory.list_namespaces(limit=-1)),
        ("max_depth must be a whole number", lambda: memory.list_namespaces(max_depth="1")),
    ]
    for message, call in calls:
        with pytest.raises(errors.InputError, match=message):
            call()
