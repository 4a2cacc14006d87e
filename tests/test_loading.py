"""Loading many documents: what a transaction derives together, and what it keeps of it."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kvstore
from kvstore.changes.dump import DumpRows, dump
from kvstore.changes.linking import Linker
from kvstore.derived.passage_graph import edges
from kvstore.derived.passage_graph.graph import GraphWriter
from kvstore.derived.passage_graph.rows import classify_spelling, encode_mention_counts, mark_nested
from kvstore.errors import InputError
from kvstore.extraction import extraction
from kvstore.process.collection_pause import pause_collection
from kvstore.registry.contract import AddedChunk
from kvstore.storage.lmdb_errors import MapFull
from kvstore.storage.open_options import MIN_MAP_BYTES
from kvstore.storage.view import LmdbView
from kvstore.structures import tables
from kvstore.structures.documents.documents import Documents
from kvstore.structures.filter.entity_filter import TextTraces, find_occurrences
from kvstore.structures.names.mentions import Occurrence, find_mentions
from kvstore.structures.postings import PostingWriter
from kvstore.text.normalize import fold
from kvstore_cext.mentions import count_spellings


def test_a_transaction_parses_its_documents_together(
    make_store: Callable[..., kvstore.Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    derived: list[int] = []
    derive = extraction.extract_chunked
    monkeypatch.setattr(
        "kvstore.changes.document_completion.extract_chunked",
        lambda documents, settings: derived.append(len(documents)) or derive(documents, settings),  # type: ignore[func-returns-value]
    )
    store = make_store()
    with store.transaction() as transaction:
        for number in range(5):
            assert transaction.put(f"note {number}", f"Note {number} is about Ada Lovelace.")
        assert not transaction.put("note 4", "Note 4 is about Ada Lovelace.")
        assert derived == []
    assert derived == [5]
    assert len(store.lookup("Ada Lovelace")) == 5


def test_an_invalid_document_is_refused_by_put(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store()
    with store.transaction() as transaction:
        with pytest.raises(InputError, match="one for each of the 1 chunks"):
            transaction.put("two", "One chunk.", vectors=np.ones((2, 256), np.float32))
        with pytest.raises(InputError, match="tree"):
            transaction.put("pairs", "child,parent\n", format="pairs", meta={"tree": "x" * 1000})
        assert transaction.put("one", "One chunk.")
    assert store.keys() == ["one"]


def test_a_transaction_that_outgrows_the_map_derives_its_documents_again(
    make_store: Callable[..., kvstore.Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstore.database.batched_changes._MAX_FIRST_PENDING", 3)
    monkeypatch.setattr("kvstore.storage.write_transaction._MIN_FREE_BYTES", MIN_MAP_BYTES + 1)
    texts = {f"note {number}": f"Ada Lovelace wrote note {number}." for number in range(20)}
    plain, grown = make_store("plain"), make_store("grown")
    for store in (plain, grown):
        with store.transaction() as transaction:
            for key, text in texts.items():
                transaction.put(key, text, vectors=np.arange(1, 257, dtype=np.float32))
            if store is grown:

                def raise_map_full(hits: object) -> None:
                    raise MapFull("the map is full")

                monkeypatch.setattr(transaction._changes, "commit", raise_map_full)
    assert dump_store(grown) == dump_store(plain)
    assert grown.check() == []


def dump_store(store: kvstore.Store) -> dict[str, DumpRows]:
    with store.snapshot() as snapshot:
        return dump(snapshot._state)


def test_garbage_is_collected_again_after_overlapping_pauses() -> None:
    begun, done = threading.Event(), threading.Event()

    def pause_in_thread() -> None:
        with pause_collection():
            begun.set()
            done.wait(60)

    thread = threading.Thread(target=pause_in_thread)
    with pause_collection():
        thread.start()
        assert begun.wait(60)
    assert not gc.isenabled()
    done.set()
    thread.join()
    assert gc.isenabled()
    gc.disable()
    try:
        with pause_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_imported_objects_are_excluded_from_the_next_collection() -> None:
    code = "import gc, kvstore; kvstore.open; print(*(len(gc.get_objects(generation)) for generation in range(3)))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    youngest, young, old = map(int, ended.stdout.split())
    assert 10 * (youngest + young) < old


FROZEN = """
import gc
from kvstore.process.collection_pause import promote_objects

objects = [[]]
gc.freeze()
promote_objects()
assert gc.get_freeze_count()
gc.unfreeze()
objects.append([])
promote_objects()
assert not gc.get_freeze_count()
assert any(each is objects[1] for each in gc.get_objects(2))
"""


def test_objects_frozen_by_the_program_stay_frozen() -> None:
    subprocess.run([sys.executable, "-c", FROZEN], check=True)


def test_collection_is_on_after_a_load(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store()
    with pytest.raises(ZeroDivisionError), store.transaction() as transaction:
        transaction.put("note", "Ada Lovelace.")
        assert transaction.keys() == ["note"]
        raise ZeroDivisionError
    assert gc.isenabled()


@given(
    st.lists(st.sampled_from(["York", "the", "THE", "new york", "Ada 2", "Él", "és", "x1", "\u00df"]), max_size=9),
    st.lists(st.tuples(st.integers(0, 8), st.integers(1, 4), st.integers(1, 3)), max_size=20),
)
def test_mentions_are_counted_by_how_they_are_written(words: list[str], runs: list[tuple[int, int, int]]) -> None:
    ends = np.cumsum([len(word.encode()) + 1 for word in words]).tolist()
    text = "".join(f"{word} " for word in words).encode()
    spans = {(entity, ends[at] - len(words[at].encode()) - 1, ends[min(at + more, len(ends)) - 1] - 1)
             for at, more, entity in runs if at < len(words)}  # fmt: skip
    mentions = sorted((Occurrence(entity, start, end - start) for entity, start, end in spans), key=lambda m: m[1:] + m)
    counts: dict[int, list[int]] = {}
    for (start, end, entity), inside in mark_nested((start, start + size, entity) for entity, start, size in mentions):
        counts_for_something, lower = classify_spelling(text[start:end])
        if counts_for_something:
            counts.setdefault(entity, [0, 0, 0])[2 if lower else int(inside)] += 1
    expected = {
        entity: min(count[0], 15) | min(count[1], 3) << edges.INSIDE_SHIFT | min(count[2], 3) << edges.LOWER_SHIFT
        for entity, count in counts.items()
    }
    assert encode_mention_counts(AddedChunk(1, text, -1, mentions)) == expected


def test_a_mention_outside_of_its_text_is_damage() -> None:
    for mention in ((1, -1, 2), (1, 0, 0), (1, 2, 2)):
        with pytest.raises(ValueError, match="a text of 3"):
            count_spellings(b"Ada", [mention], frozenset(), classify_spelling, (15, 3, 3), (0, 4, 6))


def test_mentions_are_those_that_recognition_finds(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store()
    store.put("a", "Él Niño came to São Paulo. Ada met Él Niño again; C++ and Ada's Engine ran.", title="Ada")
    store.put_edge("...", "Ada", tree="marks")  # a name without a word in it occurs nowhere
    text = "ÉL  NIÑO, Ada and Ada's\nEngine ... in SÃO PAULO"
    with store.snapshot() as snapshot:
        names = snapshot._state.filter
        keys: dict[int, str] = {}
        mentions = names.find_mentions(fold(text), 12, keys, Occurrence)
        expected = list(find_mentions(names, fold(text), 12))
    assert mentions == [(mention.entity, mention.start, mention.end - mention.start) for mention in expected]
    assert mentions
    assert keys == {mention.entity: mention.key for mention in expected}


TEXTS = {
    "one": ("York lies in the north. the York of old.", None),
    "two": ("It is said that new york city is large. New York City has a York Street.", "On `York`"),
    "three": ("Bridges of New York City, and York.", "Bridges of New York City"),
    "four": ("Nothing is said here.", None),
}


def test_names_added_later_give_the_store_of_one_load(make_store: Callable[..., kvstore.Store]) -> None:
    later = {
        "five": ("The Mayor of New York City spoke.", "New York City"),
        "six": ("York Street is long.", "York Street"),
    }
    together, apart = make_store("together"), make_store("apart")
    with together.transaction() as transaction:
        for key, (text, title) in (TEXTS | later).items():
            transaction.put(key, text, title=title)
    for key, (text, title) in (TEXTS | later).items():
        apart.put(key, text, title=title)
        if key == "three":
            apart.put_triples("two", [("New York City", "has", "York Street")])
    apart.put_triples("two", [])
    assert dump_store(apart) == dump_store(together)
    together.put_triples("two", [("New York City", "has", "York Street")])
    apart.put_triples("two", [("New York City", "has", "York Street")])
    apart.delete("five")
    together.delete("five")
    apart.put("five", later["five"][0], title="New York City")
    together.put("five", later["five"][0], title="New York City")
    assert dump_store(apart) == dump_store(together)


def test_a_name_learnt_later_is_looked_for_by_its_rarest_word(
    make_store: Callable[..., kvstore.Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store()
    with store.transaction() as transaction:
        for number in range(40):
            transaction.put(f"river {number}", f"The bank of a river is steep at mile {number}.")
        transaction.put("ferry", "Once the quarrel at the bank ended; a quarrel bank it was.")
    read: list[str] = []
    get = PostingWriter.get
    monkeypatch.setattr(PostingWriter, "get", lambda self, term: read.append(term) or get(self, term))  # type: ignore[func-returns-value]
    store.put("new", "Ann works at Quarrel Bank and at Zephyr Bank.")
    assert "quarrel" in read
    assert not {"bank", "zephyr"} & set(read)
    assert {place.document for place in store.lookup("Quarrel Bank")} == {"ferry", "new"}


def test_a_replaced_document_has_each_word_looked_up_once(
    make_store: Callable[..., kvstore.Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has most of the words of the document before: their postings are changed once for both."""
    store = make_store()
    text = "Ann Miller keeps a ferry at the harbour and counts the boats that come in at night."
    store.put("ferry", text)
    store.put("mill", "A mill stands near the harbour.")
    keys: list[bytes] = []
    get_last_many = LmdbView.get_last_many

    def record_starts(view: LmdbView, table: str, ranges: Any) -> Any:
        keys.extend(start for start, _ in ranges if table == tables.POSTINGS)
        return get_last_many(view, table, ranges)

    monkeypatch.setattr(LmdbView, "get_last_many", record_starts)
    store.put("ferry", f"{text} So says Zoe Quill.")
    assert {b"ferri\0", b"boat\0", b"quill\0"} <= set(keys)
    assert {start for start in keys if keys.count(start) > 1} <= {b"zoe\0", b"quill\0"}
    assert store.check() == []


def test_a_name_learned_later_is_found_even_if_texts_were_skipped_before(
    make_store: Callable[..., kvstore.Store],
) -> None:
    store = make_store()
    store.put("first", "Nothing is said here.")
    given_up = store.transaction()
    given_up.put("a", "A mill stood at the harbour of Ellen, the port.")
    assert [hit.document for hit in given_up.search("mill", using="lexical")] == ["a"]  # it has been applied
    given_up.rollback()
    # The same ids, other texts: what was noted of the former must not hide the name.
    store.put("a", "They reached port ellen at night.")
    store.put("b", "The port, where Ellen lived.")
    store.put("c", "Port Ellen is a town.", title="Port Ellen")
    assert {evidence.document for evidence in store.lookup("Port Ellen")} == {"a", "c"}
    assert store.check() == []


def test_new_names_are_read_for_in_no_text_that_was_just_stored_without_them(
    make_store: Callable[..., kvstore.Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store()
    store.put("apart", "The port of Ellen. A Port, an Ellen.", title="Islands")
    store.put("here", "They saw port  ellen again.", title="Night")
    store.put("above", "The port lies below Ellen.", title="On Port Ellen")
    read: list[int] = []
    slices = Documents.read_text_slices
    monkeypatch.setattr(Documents, "read_text_slices", lambda self, places: read.extend(places) or slices(self, places))
    store.put("name", "Port Ellen is a town.", title="Port Ellen")
    assert {evidence.document for evidence in store.lookup("Port Ellen")} == {"here", "above", "name"}
    with store.snapshot() as snapshot:
        documents = snapshot._state.documents
        assert set(read) == {documents.find_id("here"), documents.find_id("above")}


words_of_texts = st.lists(st.sampled_from(["ada", "é", "b", "-", "_", "中", " ", "\n", "\n\n", "."]), max_size=9).map(
    "".join
)


@given(st.lists(st.tuples(words_of_texts, words_of_texts), min_size=1), words_of_texts)
def test_traces_never_hide_a_text_with_a_name(documents: list[tuple[str, str]], name: str) -> None:
    key = " ".join(name.split()).encode()
    traces = TextTraces(1 << 20)
    for number, (above, text) in enumerate(documents, 1):
        traces.add(number, [above.encode()], {10 * number: text.encode()})
    chunks = np.arange(10, 10 * len(documents) + 20, 10, dtype=np.uint64)
    candidates = np.frombuffer(traces.select_candidates(key, chunks), np.uint64).tolist()
    assert candidates[-1] == chunks[-1]  # nothing is known of it
    for number, (above, text) in enumerate(documents, 1):
        if find_occurrences(above.encode(), key) or find_occurrences(text.encode(), key):
            assert 10 * number in candidates


def test_traces_take_no_more_memory_than_they_may() -> None:
    traces = TextTraces(10_000)
    text = " ".join(f"word{number}" for number in range(50)).encode()
    for number in range(1, 201):
        traces.add(number, [b"a title"], {5 * number: text, 5 * number + 1: text})
        assert traces.held_bytes <= 10_000
    assert 20 < len(traces) < 100
    newest = np.array([1000, 1001, 5, 6], np.uint64)
    assert np.frombuffer(traces.select_candidates(b"elsewhere", newest), np.uint64).tolist() == [5, 6]
    traces.remove_from(1)
    assert (len(traces), traces.held_bytes) == (0, 0)
    with pytest.raises(ValueError, match="cannot be added after"):
        traces.add(3, [], {1: b""})
        traces.add(3, [], {2: b""})


FIRST_DOCUMENTS: list[tuple[str, str, dict[str, Any]]] = [
    ("ada", "Ada Lovelace wrote notes.\n\n## Engines\n\nThe engine is by Charles Babbage.", {"title": "Ada Lovelace"}),
    ("parts", "child,parent\nmill,engine\nstore,engine\n", {"format": "pairs"}),
    ("mill", "The mill of the engine. Charles Babbage of London drew it for Ada Lovelace.", {"meta": {"year": 1837}}),
    ("london", "London lies on the Thames. `pg_dump` runs there.\n\n- engine\n  - mill", {"title": "London (city)"}),
    ("later", "Babbage and Lovelace met in London; the mill and `pg_dump` were unknown.", {"title": "Mill"}),
]


def _put_fact(transaction: kvstore.Transaction) -> None:
    transaction.put_edge("London", "England")


def _replace_document(transaction: kvstore.Transaction) -> None:
    transaction.put("ada", "Charles Babbage knew Ada Lovelace.")
    transaction.put("ada", FIRST_DOCUMENTS[0][1], **FIRST_DOCUMENTS[0][2])


def _put_answer(transaction: kvstore.Transaction) -> None:
    assert "ada" in {location.document for location in transaction.lookup("Charles Babbage")}


@pytest.mark.matrix
@pytest.mark.parametrize("between", [None, _put_fact, _replace_document, _put_answer, kvstore.Transaction.keys])
@pytest.mark.parametrize("portion", [3, 1, 0])
def test_loading_documents_at_once_equals_loading_them_one_by_one(
    make_store: Callable[..., kvstore.Store],
    monkeypatch: pytest.MonkeyPatch,
    between: Callable[[kvstore.Transaction], object] | None,
    portion: int,
) -> None:
    monkeypatch.setattr("kvstore.database.batched_changes._MAX_PENDING", portion)
    monkeypatch.setattr("kvstore.database.batched_changes._MAX_FIRST_PENDING", portion)
    plain, loaded = make_store("plain"), make_store("loaded")
    for key, text, more in FIRST_DOCUMENTS:
        plain.put(key, text, **more)
    if between is _put_fact:
        plain.put_edge("London", "England")
    with loaded.transaction() as transaction:
        for number, (key, text, more) in enumerate(FIRST_DOCUMENTS):
            transaction.put(key, text, **more)
            if number == 2 and between is not None:
                between(transaction)
    assert dump_store(loaded) == dump_store(plain)
    assert loaded.check() == []
    for store in (plain, loaded):
        store.put("last", "Charles Babbage knew the Countess of Lovelace.")
    assert dump_store(loaded) == dump_store(plain)


@pytest.mark.parametrize(("max_collected_edges", "num_flushes"), [(1, 3), (1000, 1)])
def test_linked_batches_write_the_chunks_of_an_entity_together(
    make_store: Callable[..., kvstore.Store],
    monkeypatch: pytest.MonkeyPatch,
    max_collected_edges: int,
    num_flushes: int,
) -> None:
    plain, loaded = make_store("plain"), make_store("loaded")
    documents = FIRST_DOCUMENTS[2:]
    for key, text, more in documents:
        plain.put(key, text, **more)
    monkeypatch.setattr("kvstore.database.batched_changes._MAX_FIRST_PENDING", 1)
    monkeypatch.setattr("kvstore.changes.unlinked_documents._MAX_LINKED_CHUNKS", 1)
    monkeypatch.setattr("kvstore.derived.passage_graph.graph._MAX_COLLECTED_EDGES", max_collected_edges)
    flushed: list[int] = []
    flush_degrees = GraphWriter._flush_degrees

    def count_flushes(graph: GraphWriter, degrees: dict[int, int]) -> None:
        flushed.append(len(degrees))
        flush_degrees(graph, degrees)

    monkeypatch.setattr(GraphWriter, "_flush_degrees", count_flushes)
    with loaded.transaction() as transaction:
        for key, text, more in documents:
            transaction.put(key, text, **more)
    assert len(flushed) == num_flushes
    monkeypatch.setattr("kvstore.derived.passage_graph.graph._ENTITIES_PER_BATCH", 2)
    for store in (plain, loaded):
        store.put("last", "Charles Babbage knew Ada Lovelace of London.")
        store.delete("mill")
    assert dump_store(loaded) == dump_store(plain)
    assert loaded.check() == []


def test_derived_documents_are_freed_before_the_first_documents_are_linked(
    make_store: Callable[..., kvstore.Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last batch takes as much memory as the documents that are linked together."""
    monkeypatch.setattr("kvstore.database.batched_changes._MAX_FIRST_PENDING", 2)
    gc.collect()
    num_derived: list[int] = []
    link = Linker.link_document

    def count_derived(linker: Linker, *arguments: Any) -> None:
        num_derived.append(sum(isinstance(thing, extraction.ExtractedDocument) for thing in gc.get_objects()))
        link(linker, *arguments)

    monkeypatch.setattr(Linker, "link_document", count_derived)
    with make_store().transaction() as transaction:
        for key, text, more in FIRST_DOCUMENTS:
            transaction.put(key, text, **more)
    assert num_derived == [0] * len(FIRST_DOCUMENTS)


def test_the_changed_pages_of_the_entity_filter_are_written_in_batches(
    make_store: Callable[..., kvstore.Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstore.structures.filter.filter_pages._WRITE_BATCH", 2)
    store = make_store()
    with store.transaction() as transaction:
        for number in range(100):
            transaction.put(f"list {number}", " ".join(f"Ann Mill{number}x{name} wrote." for name in range(10)))
    with store.snapshot() as snapshot:
        assert snapshot._state.filter.compute_statistics().bucket_pages > 2
    assert store.check() == []
    assert [location.document for location in store.lookup("Ann Mill99x9")] == ["list 99"]


def test_no_name_is_looked_for_in_the_first_documents_of_a_store(
    make_store: Callable[..., kvstore.Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstore.database.batched_changes._MAX_FIRST_PENDING", 1)
    store = make_store()
    monkeypatch.setattr(PostingWriter, "find_chunks_with_terms", lambda *_: pytest.fail("older texts are searched"))
    with store.transaction() as transaction:
        for key, text, more in FIRST_DOCUMENTS:
            transaction.put(key, text, **more)
    assert {location.document for location in store.lookup("Charles Babbage")} == {"ada", "mill"}
