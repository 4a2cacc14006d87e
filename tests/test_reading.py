"""The reading protocol: strategies ask in few rounds, for many things at once, and get what they got one by one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis_profile import IS_THOROUGH

import kvstore
from kvstore.database.question_retrieval import prepare_query
from kvstore.derived.passage_graph.structure import GRAPH
from kvstore.registry import get_strategy
from kvstore.retrieval.dense_search import NearestChunksRequest, compute_cosines
from kvstore.retrieval.evidence import ChunkReadRequest, Trace
from kvstore.structures.ranking import best, sort_chunks
from kvstore.structures.read_requests import BatchedReader
from kvstore.structures.state import State
from kvstore.structures.vectors.vectors import cosines

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
import bench_reads

#: The most rounds of a question, by strategy.
MOST_ROUNDS = {
    "vector": 3,
    "lexical": 3,
    "hybrid": 3,
    "bridge": 3,
    "cft": 4,
    "hipporag": 13,
    "graph": 13,
    "adaptive": 13,
    "archrag": 9,
    "cue": 17,
    "local": 13,
    "global": 6,
    "drift": 17,
}

NEED_INDEXES = [name for name in MOST_ROUNDS if getattr(get_strategy(name), "needs", None) is not None]
#: The most rounds of a question to ``raptor``, by mode.
RAPTOR_MOST_ROUNDS = {"auto": 3, "leaves": 3, "cover": 3, "collapsed": 8, "traversal": 14}

PEOPLE = ["Nora Quill", "Otto Brandt", "Ines Falk", "Ada Moss", "Karl Thorn", "Lena Voss", "Emil Ross", "Ruth Hale"]
PLACES = ["Blue Harbour", "Red Mill", "Old Quay", "North Lock", "Salt Yard"]
TRADES = ["built boats", "sold rope", "mended sails", "kept the light", "wrote songs"]
QUESTIONS = [
    "Who taught the one who built boats at Blue Harbour?",
    "Where did the teacher of Nora Quill grow up?",
    "Did Otto Brandt and Ines Falk work at the same place?",
    "What did Ada Moss sell at the Old Quay?",
    "who keeps the light",
    "Which songs did Karl Thorn write?",
    "At which harbour were boats built by the man that taught Vera Lind songs?",
][:: 1 if IS_THOROUGH else 3]


def build_town(path: Path) -> kvstore.Store:
    """Return a store of people, places and their relations in prose, with edges of a tree."""
    store = kvstore.open(path, embedder="hashing", settings={"language": "rules"})
    chance = Random(7)
    with store.transaction() as transaction:
        for number in range(120):
            person, teacher = chance.sample(PEOPLE, 2)
            place, trade = chance.choice(PLACES), chance.choice(TRADES)
            paragraph = f"{person} {trade} at {place}. {person} was taught by {teacher}."
            text = f"# {place}\n\n{paragraph}\n\n{teacher} came from {place}."
            transaction.put(f"d{number:03}", text, title=person if number % 3 else None)
        transaction.put("rare", "Vera Lind was taught by Nora Quill at the Salt Yard.")
        for place in PLACES:
            transaction.put_edge(place, "Town")
        transaction.put_triples("d001", [("Nora Quill", "was taught by", "Otto Brandt")])
    return store


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kvstore.Store]:
    """Yield the town without indexes for strategies. Tests only read it."""
    with build_town(tmp_path_factory.mktemp("town") / "store") as store:
        yield store
        assert store.check() == []


@pytest.fixture(scope="module")
def town_with_indexes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kvstore.Store]:
    """Yield the town with every index that a strategy needs."""
    with build_town(tmp_path_factory.mktemp("indexes") / "store") as store:
        bench_reads.create_needed_indexes(store, NEED_INDEXES)
        yield store
        assert store.check() == []


@pytest.fixture(scope="module")
def town_with_topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kvstore.Store]:
    """Yield the town with topics and a document that is newer than they are."""
    with build_town(tmp_path_factory.mktemp("topics") / "store") as store:
        store.create_index("topics", {"size": 4})
        store.put("newer", "Nora Quill built boats at the Salt Yard.")
        yield store
        assert store.check() == []


@pytest.mark.parametrize("strategy", MOST_ROUNDS)
def test_a_strategy_reads_in_few_rounds(request: pytest.FixtureRequest, town: kvstore.Store, strategy: str) -> None:
    store = town if strategy not in NEED_INDEXES else request.getfixturevalue("town_with_indexes")
    row = bench_reads.measure_strategy(store, strategy, QUESTIONS, repetitions=1)
    assert row["most_rounds"] <= MOST_ROUNDS[strategy]
    assert row["rounds"] > 1 < row["reads"]


@pytest.mark.parametrize("with_topics", [False, True])
@pytest.mark.parametrize("mode", RAPTOR_MOST_ROUNDS)
def test_raptor_reads_in_few_rounds(request: pytest.FixtureRequest, mode: str, with_topics: bool) -> None:
    store: kvstore.Store = request.getfixturevalue("town_with_topics" if with_topics else "town")
    row = bench_reads.measure_strategy(
        store, "raptor", [*QUESTIONS, "What are the main topics?"], {"mode": mode}, repetitions=1
    )
    assert row["most_rounds"] <= RAPTOR_MOST_ROUNDS[mode]
    if mode not in ("auto", "leaves"):  # these read the texts of their hits on first use
        assert row["outside"] == 0
        assert row["preparing"] < 16, "other forms of unknown words are looked up in few reads"
    assert row["rounds"] > 1 < row["reads"]


def test_reranking_takes_two_rounds(town: kvstore.Store) -> None:
    rounds = []
    for reranker in ("none", "combination"):
        with town.snapshot() as snapshot:
            chosen, query = prepare_query(
                snapshot._session, snapshot._state, QUESTIONS[0], using="hybrid", reranker=reranker
            )
            assert chosen.retrieve(query).hits
            rounds.append(query.reading.rounds)
    assert rounds[1] <= rounds[0] + 3, "counts of terms, then scores, and the sort keys of ties"


def test_the_view_of_a_query_is_a_deprecated_name_of_its_state(town: kvstore.Store) -> None:
    with town.snapshot() as snapshot:
        _, query = prepare_query(snapshot._session, snapshot._state, QUESTIONS[0], using="hybrid")
        with pytest.warns(FutureWarning, match=r"Query\.view is deprecated.*Query\.reading or use Query\.state"):
            state = query.view
        assert state is query.state is snapshot._state


def test_joint_requests_are_one_round(town: kvstore.Store) -> None:
    with town.snapshot() as snapshot:
        reading = BatchedReader(snapshot._state)
        vector = np.full(reading.settings.dimension, reading.settings.dimension**-0.5, np.float32)
        (near, _), passages = reading.fetch(NearestChunksRequest(vector, 4), ChunkReadRequest([]))
        assert (reading.rounds, reading.requests, len(near), passages) == (1, 2, 4, [])
        chunks = [chunk for chunk, _ in near]
        assert [passage.chunk for passage in reading.fetch(ChunkReadRequest(chunks))] == chunks
        assert (reading.rounds, reading.requests) == (2, 3)


def test_sort_keys_of_chunks_are_requested_once(town: kvstore.Store) -> None:
    with town.snapshot() as snapshot:
        state = snapshot._state
        reading = BatchedReader(state)
        vector = np.full(reading.settings.dimension, reading.settings.dimension**-0.5, np.float32)
        near = [chunk for chunk, _ in reading.fetch(NearestChunksRequest(vector, 6))[0]]
        assert sort_chunks(reading, near) == sort_chunks(state, near)
        assert reading.rounds == 1, "they came with the nearest"
        every = [chunk for chunk, _ in state.chunks.scan()]
        scores = np.repeat([2.0, 1.0], [len(every) // 2, len(every) - len(every) // 2])
        assert best(reading, every, scores, len(every)) == best(state, every, scores, len(every))
        assert reading.rounds == 2, "all ties of a ranking together"
        assert sort_chunks(reading, every) == sort_chunks(state, every)
        assert reading.rounds == 2, "they are known by now"


def test_each_request_of_a_round_is_a_step_with_its_own_time(town: kvstore.Store) -> None:
    with town.snapshot() as snapshot:
        reading = BatchedReader(snapshot._state)
        vector = np.full(reading.settings.dimension, reading.settings.dimension**-0.5, np.float32)
        trace = Trace()
        with trace.record_requests(reading, "near", "nothing") as (near, nothing):
            (ranking, near.detail), _ = reading.fetch(NearestChunksRequest(vector, 3), ChunkReadRequest([]))
            near.count, nothing.detail = len(ranking), "said"
        assert [(step.name, step.count) for step in trace.steps] == [("near", 3), ("nothing", 0)]
        assert trace.steps[1].detail == "said"
        assert all(step.milliseconds is not None and step.milliseconds >= 0 for step in trace.steps)
        assert reading.on_answer is None


def test_search_reads_no_abstracts(town: kvstore.Store) -> None:
    hits = town.search("boats at Blue Harbour", using="lexical")
    assert hits == town.retrieve("boats at Blue Harbour", using="lexical", top=10).hits
    with town.snapshot() as snapshot:
        view = snapshot._state
        _, query = prepare_query(snapshot._session, view, "boats at Blue Harbour", using="lexical")
        query.abstracts = False
        view.__dict__["abstracts"] = None  # reading one fails
        assert get_strategy("lexical").retrieve(query).abstracts == []


def test_cosines_are_the_same_bits_whether_or_not_vectors_are_in_memory(
    make_store: Callable[..., kvstore.Store],
) -> None:
    store = make_store()
    for number in range(40):
        store.put(f"d{number}", f"Passage {number} is about {TRADES[number % 5]} and {PEOPLE[number % 8]}.")
    vector = np.full(store.settings.dimension, store.settings.dimension**-0.5, np.float32)

    def assert_equal_cosines(state: State) -> None:
        stored = list(state.chunks.scan())
        chunks = np.array([chunk for chunk, _ in reversed(stored)], np.uint64)
        matrix = state.vectors.gather([(record.block, record.row) for _, record in reversed(stored)])
        assert compute_cosines(state, chunks, vector).tobytes() == cosines(matrix, vector).tobytes()

    def count_vectors_in_memory() -> int:
        vectors = store._session.store.open_indexes.vectors.vectors
        return 0 if vectors is None else sum(len(ids) for ids, _ in vectors.batches)

    with store.snapshot() as snapshot:
        assert_equal_cosines(snapshot._state)
    assert count_vectors_in_memory() == 0
    store.search("boats", using="vector")
    assert count_vectors_in_memory() == 40
    with store.snapshot() as snapshot:
        assert_equal_cosines(snapshot._state)
    store.delete("d7")
    store.put("d8", "Another text, of rope.")
    with store.transaction() as transaction:
        transaction.put("d41", "A passage that is not committed yet.")
        with transaction.state() as state:
            assert_equal_cosines(state)
    with store.snapshot() as snapshot:
        assert_equal_cosines(snapshot._state)


def test_assertions_and_links_of_many_are_those_of_each(town: kvstore.Store) -> None:
    with town.snapshot() as snapshot:
        state = snapshot._state
        edges = list(state.forest.iter_edges())
        assert len(edges) >= len(PLACES)
        together = state.forest.get_assertions(edges)
        assert together == {edge: list(state.forest.iter_assertions(*edge)) for edge in edges}
        assert all(together.values())
        graph = state.get_part(GRAPH)
        every = list(graph.iter_links())
        entities = np.array(sorted({entity for entity, _ in every}, reverse=True), np.uint32)
        rows = graph.read_link_rows(entities)
        values = zip(*(column.tolist() for column in rows), strict=True)
        ordered = sorted(every, key=lambda row: (-row[0], row[1].other, row[1].kind))
        assert list(values) == [(entity, *link) for entity, link in ordered] != []
