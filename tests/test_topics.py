"""The index of kind ``topics``: what it holds, what is read of it after changes, and that it is a function of texts."""

from __future__ import annotations

import dataclasses
import json
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples
from model_server import PlannedResponse, Server, list_quoted_texts, make_refusal, stream_answer

import kvstore
from kvstore import errors
from kvstore.changes.dump import dump
from kvstore.storage.view import WriteView
from kvstore.structures.indexes.index import BuildTools, IndexRecord
from kvstore.structures.indexes.index_reading import bind_index
from kvstore.structures.indexes.written_texts import WrittenTextWriter
from kvstore.systems.raptor import gaussian_mixtures, topic_index
from kvstore.systems.raptor.topic_building import iter_partitions
from kvstore.systems.raptor.topic_index import TOPICS
from kvstore.systems.raptor.topic_summaries import MAX_SUMMARY_SENTENCES, MAX_SUMMARY_WORDS
from kvstore.systems.raptor.topics import Topics

SUBJECTS = {
    "tea": ("Camellia leaves are dried", "Camellia grows on wet hills", "A cup of Camellia leaves is bitter"),
    "rail": ("Locomotives pull wagons on rails", "Signals stop Locomotives", "Wagons stand on sidings with Signals"),
    "bees": ("Beekeepers open the hive", "The hive has Drones and a queen", "Drones leave the hive in autumn"),
}


def make_text(subject: str, number: int) -> str:
    """Return a text on a subject, with a unique word."""
    sentences = SUBJECTS[subject]
    return f"{sentences[number % 3]}. {sentences[(number + 1) % 3]}. The words are by Xyzzy{subject}{number}qux."


def put_subjects(store: kvstore.Store) -> None:
    for subject in SUBJECTS:
        for number in range(4):
            store.put(f"{subject}-{number}", make_text(subject, number))


def put_topics(store: kvstore.Store) -> None:
    put_subjects(store)
    store.create_index("topics")


@pytest.fixture
def topic_store(copy_store: Callable[..., kvstore.Store]) -> kvstore.Store:
    """Return a store with twelve documents on three subjects and their topics."""
    return copy_store(put_topics)


def fetch_rows(store: kvstore.Store, query: str) -> list[tuple[Any, ...]]:
    return store.execute(query).fetchall()


def get_index_state(store: kvstore.Store) -> tuple[str, int, str]:
    (index,) = (topic_index for topic_index in store.indexes() if topic_index.kind == "topics")
    return index.state, index.stale, index.detail


def collect_statements(store: kvstore.Store) -> str:
    """Return all results of statements about topics."""
    rows = [
        *fetch_rows(store, "SELECT * FROM topics"),
        *fetch_rows(store, "SELECT * FROM topic_members"),
        *fetch_rows(store, "EXPAND TOPICS DEPTH 9"),
        *fetch_rows(store, "SHOW INDEXES"),
    ]
    return repr(rows)


def bind_topics(store: kvstore.Store) -> Iterator[Topics]:
    with store.state() as state:
        topics = bind_index(state, TOPICS)
        assert topics is not None
        yield topics


def test_subjects_are_topics(topic_store: kvstore.Store) -> None:
    members: dict[int, set[str]] = {}
    for topic, document in fetch_rows(topic_store, "SELECT topic, document FROM topic_members"):
        members.setdefault(topic, set()).add(document.partition("-")[0])
    assert sum(map(len, members.values())) == len(members), "a topic is on one subject"
    top = fetch_rows(topic_store, "SELECT max(level) FROM topics")[0][0]
    assert [row[:2] for row in fetch_rows(topic_store, "EXPAND TOPICS")] == [
        row[:2]
        for row in fetch_rows(
            topic_store, f"SELECT 0, title FROM topics WHERE level = {top} ORDER BY chunks DESC, topic"
        )
    ]
    titles = " ".join(title for (title,) in fetch_rows(topic_store, "SELECT title FROM topics WHERE level = 0"))
    assert {"Camellia", "Locomotives", "Drones"} <= set(titles.replace(",", "").split())
    for level, parent, chunks, documents, stale, model, text in fetch_rows(
        topic_store, "SELECT level, parent, chunks, documents, stale, written_by, text FROM topics"
    ):
        assert (parent is None) == (level == top)
        assert chunks == documents
        assert (stale, model) == (False, None)
        assert 0 < len(text.split()) <= MAX_SUMMARY_WORDS
        assert text.count(".") <= MAX_SUMMARY_SENTENCES
    assert get_index_state(topic_store)[0] == "ready"
    assert topic_store.outline("topics", depth=2)[0].count == fetch_rows(topic_store, "EXPAND TOPICS")[0][2]


def test_a_topic_is_found_without_the_others(topic_store: kvstore.Store) -> None:
    topics = {row[0]: row for row in fetch_rows(topic_store, "SELECT * FROM topics")}
    assert len(topics) > 2
    for topic, row in topics.items():
        query = f"SELECT * FROM topics WHERE topic = {topic}"
        assert fetch_rows(topic_store, query) == [row]
        reads = [(detail, rows) for step, detail, rows, *_ in fetch_rows(topic_store, f"EXPLAIN ANALYZE {query}")]
        assert ("topics", 1) in reads
    assert fetch_rows(topic_store, "SELECT * FROM topics WHERE topic IN (-1, 99999)") == []


def test_deleted_chunks_are_not_shown_and_new_ones_get_a_topic(topic_store: kvstore.Store) -> None:
    topic_store.delete("bees-1")
    topic_store.put("tea-9", make_text("tea", 9))
    topic_store.put("rail-2", "Locomotives pull wagons on rails. Nothing else is known.")
    results = collect_statements(topic_store)
    for deleted in ("Xyzzybees1qux", "Xyzzyrail2qux", "bees-1"):
        assert deleted not in results
    placed = dict(fetch_rows(topic_store, "SELECT document, topic FROM topic_members WHERE newer"))
    assert placed.keys() == {"tea-9", "rail-2"}
    for document, topic in placed.items():
        others = fetch_rows(topic_store, f"SELECT document FROM topic_members WHERE topic = {topic}")
        assert {key.partition("-")[0] for (key,) in others} == {document.partition("-")[0]}
    stale = {topic for (topic,) in fetch_rows(topic_store, "SELECT topic FROM topics WHERE stale AND level = 0")}
    assert stale >= set(placed.values())
    assert get_index_state(topic_store) == ("ready", 3, get_index_state(topic_store)[2])
    assert get_index_state(topic_store)[2].endswith("; 2 chunks are newer")
    for topics in bind_topics(topic_store):
        newer = topics.newer_chunks[0]
        (topics_above,) = topics.find_topics_by_chunk([newer])
        assert topics_above[0] == placed["tea-9"]
        assert newer in topics.list_chunks(topics_above[-1])
    topic_store.delete_where("key LIKE 'bees%'")
    assert "Drones" not in collect_statements(topic_store)
    topic_store.refresh("topics")
    assert fetch_rows(topic_store, "SELECT count(*) FROM topics WHERE stale") == [(0,)]


def test_many_newer_chunks_are_placed_in_one_pass(topic_store: kvstore.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from kvstore.systems.raptor import topics

    for number in range(4, 9):
        topic_store.put(f"rail-{number}", make_text("rail", number))
    placed = fetch_rows(topic_store, "SELECT document, topic FROM topic_members WHERE newer")
    monkeypatch.setattr(topics, "_MAX_SEARCHES", 1)
    assert fetch_rows(topic_store, "SELECT document, topic FROM topic_members WHERE newer") == placed


def test_of_nothing_and_of_one(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store()
    store.create_index("topics")
    assert (fetch_rows(store, "SELECT * FROM topics"), fetch_rows(store, "EXPAND TOPICS")) == ([], [])
    store.put("tea-0", make_text("tea", 0))
    assert fetch_rows(store, "SELECT * FROM topics") == []
    store.refresh("topics")
    assert fetch_rows(store, "SELECT level, parent, chunks FROM topics") == [(0, None, 1)]
    assert store.forecast_refresh("topics")["topics"].texts == 0, "one chunk need not be summed up by a model"
    store.delete("tea-0")
    assert fetch_rows(store, "SELECT * FROM topics") == []


def test_soft_topics_share_chunks_between_them(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store()
    for subject in SUBJECTS:
        for number in range(4):
            store.put(f"{subject}-{number}", make_text(subject, number))
    store.execute("CREATE INDEX topics WITH (method = affinity, size = 3, soft = 1)")
    count = "SELECT count(*), count(DISTINCT document) FROM topic_members"
    members, documents = fetch_rows(store, count)[0]
    assert members > documents == 12
    assert store.check() == []


def test_mixtures_need_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.mixture", None)
    with pytest.raises(errors.InputError, match=r"kvstore-db\[gmm\]"):
        iter_partitions(np.eye(20, dtype=np.float32), "gmm", 12, 2)


@pytest.mark.slow
def test_mixtures_are_deterministic(make_store: Callable[..., kvstore.Store]) -> None:
    pytest.importorskip("sklearn")
    random = np.random.default_rng(0)
    centres = random.normal(size=(6, 32))
    vectors = centres[np.repeat(np.arange(6), 20)] + 0.3 * random.normal(size=(120, 32))
    units = (vectors / np.linalg.norm(vectors, axis=1)[:, None]).astype(np.float32)
    first, second = (gaussian_mixtures.fit_gaussian_mixtures(units, 20, 2) for _ in range(2))
    assert [labels.tolist() for labels in first.partitions] == [labels.tolist() for labels in second.partitions]
    assert first.second_groups.tolist() == second.second_groups.tolist()
    assert all(len(set(first.partitions[0][start : start + 20])) <= 2 for start in range(0, 120, 20))
    # A group that is too long is split again; a vector between two groups is in both.
    smaller = gaussian_mixtures.fit_gaussian_mixtures(units, 12, 2).partitions[0]
    assert np.bincount(smaller).max() <= 12
    between = (centres[0] + centres[1]) / np.linalg.norm(centres[0] + centres[1])
    labels, second_groups = gaussian_mixtures.fit_gaussian_mixtures(np.vstack((units[:40], between[None])), 20, 1)
    assert len(labels[0]) == 41
    assert all(labels[0][node] != group for group, node in second_groups.tolist())
    store = make_store()
    for number in range(30):
        store.put(f"tea-{number}", make_text("tea", number))
    store.create_index("topics", {"method": "gmm"})
    assert fetch_rows(store, "SELECT count(*) FROM topic_members") == [(30,)]


def write_summary(request: dict[str, Any]) -> PlannedResponse:
    prompt = request["messages"][-1]["content"]
    subject = next(subject for subject in SUBJECTS if f"Xyzzy{subject}" in prompt)
    sources = [number for number, text in enumerate(list_quoted_texts(request), 1) if f"Xyzzy{subject}" in text]
    sentence = {"sources": sources[:2], "text": list_quoted_texts(request)[sources[0] - 1]}
    return stream_answer(json.dumps({"sentences": [sentence], "title": SUBJECTS[subject][0]}))


def cite_first_source(request: dict[str, Any]) -> PlannedResponse:
    text = list_quoted_texts(request)[0]
    sentence = {"sources": [1], "text": f"So: {text}"}
    return stream_answer(json.dumps({"sentences": [sentence], "title": " ".join(text.split()[:3])}))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"text": ": 100 words"}, "it must have at least 12"),
        ({"text": ": 100 words and more."}, "the number 100, which is not in its sources"),
        ({"text": "A text of 100 words about nothing at all."}, "the number 100, which is not in its sources"),
        (
            {"text": "Ships sail across the wide and stormy ocean every summer."},
            "of the words of a sentence are in",
        ),
        ({"sources": []}, "has 0 entries"),
        ({"sources": [999]}, "must be between 1 and"),
    ],
)
def test_a_useless_summary_is_refused_and_the_extractive_one_stays(
    topic_store: kvstore.Store, server: Server, fields: dict[str, Any], message: str
) -> None:
    before = fetch_rows(topic_store, "SELECT title, text FROM topics")

    def write_useless_summary(request: dict[str, Any]) -> PlannedResponse:
        text = list_quoted_texts(request)[0]
        sentence = {"sources": [1], "text": text, **fields}
        return stream_answer(json.dumps({"sentences": [sentence], "title": " ".join(text.split()[:3])}))

    server.respond = write_useless_summary
    cursor = topic_store.execute("REFRESH INDEX topics MODEL 'scribe'")
    assert cursor.failed and message in server.requests[1]["messages"][-1]["content"]
    assert fetch_rows(topic_store, "SELECT title, text FROM topics") == before


def test_a_sentence_is_from_the_source_that_has_its_words_and_a_wrong_title_is_omitted(
    topic_store: kvstore.Store, server: Server
) -> None:
    def write_mixed_summary(request: dict[str, Any]) -> PlannedResponse:
        texts = list_quoted_texts(request)
        texts = [texts[-1], "Ships sail across the stormy ocean.", "The words are by Locomotives and Camellia."]
        sentences = [{"sources": [1], "text": text} for text in texts]
        return stream_answer(json.dumps({"sentences": sentences, "title": "Marvellous ships"}))

    titles = fetch_rows(topic_store, "SELECT title FROM topics")
    server.respond = write_mixed_summary
    assert topic_store.refresh("topics", model="scribe").written[0].failures == []
    assert fetch_rows(topic_store, "SELECT title FROM topics") == titles
    summaries = fetch_rows(topic_store, "SELECT text FROM topics WHERE written_by IS NOT NULL")
    assert summaries and not any("Ships" in text or "by Locomotives" in text for (text,) in summaries)


def test_a_second_attempt_asks_for_one_sentence_about_each_source_of_the_extractive_summary(
    topic_store: kvstore.Store, server: Server
) -> None:
    def answer_attempt(request: dict[str, Any]) -> PlannedResponse:
        schema = request["response_format"]["json_schema"]["schema"]["properties"]
        if "title" in schema:
            return stream_answer(
                '{"title": "Ships", "sentences": [{"sources": [1], "text": "Ships sail, and ships sail."}]}'
            )
        labels = schema["sentences"]["items"]["properties"]["passage"]["enum"]
        texts = list_quoted_texts(request)
        assert [label.partition(": ")[2] for label in labels] == [" ".join(text.split()[:4]) for text in texts]
        assert request["temperature"] == 0
        entries = [{"passage": label, "text": text} for label, text in zip(labels, texts, strict=True)]
        entries[0]["text"] = "Ships sail across the stormy ocean."
        return stream_answer(json.dumps({"sentences": entries}))

    titles = fetch_rows(topic_store, "SELECT title FROM topics")
    server.respond = answer_attempt
    (report,) = topic_store.refresh("topics", model="scribe").written
    assert report.failures == [] and report.refused == 3, "after three failures, the second attempt comes first"
    assert report.calls == report.texts + 3
    assert "An earlier answer was invalid" in server.requests[1]["messages"][-1]["content"]
    assert fetch_rows(topic_store, "SELECT title FROM topics") == titles
    summaries = fetch_rows(topic_store, "SELECT text FROM topics WHERE written_by IS NOT NULL")
    assert summaries and not any("ocean" in text for (text,) in summaries)


def test_a_prompt_that_exceeds_the_context_has_fewer_sources(topic_store: kvstore.Store, server: Server) -> None:
    def refuse_long_prompt(request: dict[str, Any]) -> PlannedResponse:
        if len(list_quoted_texts(request)) <= 2:
            return cite_first_source(request)
        return make_refusal(400, "request (800 tokens) exceeds the available context size (720 tokens)")

    server.respond = refuse_long_prompt
    (report,) = topic_store.refresh("topics", model="scribe").written
    assert report.texts > 0 and report.refused == 0
    assert all("exceeds the available context size" in failure for failure in report.failures)
    assert report.left == len(report.failures)


def test_a_written_summary_has_the_sources_that_the_model_named(topic_store: kvstore.Store, server: Server) -> None:
    server.respond = cite_first_source
    assert topic_store.refresh("topics", model="scribe").written[0].failures == []
    hits = topic_store.retrieve("Camellia leaves", using="raptor", options={"mode": "collapsed"}).hits
    summaries = [hit for hit in hits if hit.kind == "summary"]
    assert summaries and all(len(hit.spans) == 1 for hit in summaries)
    for hit in summaries:
        (span,) = hit.spans
        document = topic_store.get(span.document)
        assert document is not None and document.text.encode()[span.start : span.end].decode() in hit.text


def test_a_written_summary_is_found_by_the_vector_of_its_text(topic_store: kvstore.Store, server: Server) -> None:
    question = "Camellia leaves"
    (vector,) = topic_store.embed([question])

    def list_summaries() -> list[kvstore.Hit]:
        hits = topic_store.retrieve(question, using="raptor", top=30, options={"mode": "collapsed"}).hits
        return [hit for hit in hits if hit.path.startswith("topic of ")]

    centroids = {hit.spans: hit.score for hit in list_summaries()}
    server.respond = cite_first_source
    assert topic_store.refresh("topics", model="scribe").written[0].failures == []
    summaries = list_summaries()
    assert summaries and not centroids.keys() & {hit.spans for hit in summaries}
    for hit in summaries:
        (text_vector,) = topic_store.embed([f"{hit.title}\n{hit.text}"])
        assert hit.score == pytest.approx(float(text_vector @ vector), abs=1e-5)
    # The text of an earlier version has no vector: its topic has the centroid.
    by_centroid = {hit.title: hit.score for hit in summaries}

    def remove_vectors(view: WriteView) -> None:
        texts = WrittenTextWriter(view)
        for digest in list(texts.iter_digests()):
            text = texts.get(digest)
            assert text is not None
            value = {field: part for field, part in text.value.items() if field != "vector"}
            texts.copy(digest, dataclasses.replace(text, value=value))

    topic_store._session.store.environment.write_with_growth(remove_vectors)
    earlier = {hit.title: hit.score for hit in list_summaries()}
    assert earlier and earlier != by_centroid
    assert {round(score, 4) for score in earlier.values()} <= {round(score, 4) for score in centroids.values()}


def test_a_model_sums_topics_up(topic_store: kvstore.Store, server: Server) -> None:
    server.respond = write_summary
    assert topic_store.refresh("topics", model="scribe").written[0].failures == []
    first = len(server.requests)
    groups = {
        (model, title)
        for model, title in fetch_rows(topic_store, "SELECT written_by, title FROM topics WHERE chunks > 1")
    }
    assert groups >= {("scribe", sentences[0]) for sentences in SUBJECTS.values()}
    assert all(model == "scribe" for model, _ in groups)
    assert " texts by scribe" in get_index_state(topic_store)[2]
    prompt = server.requests[0]["messages"]
    assert [message["role"] for message in prompt] == ["system", "user", "assistant", "user"]
    topic_store.delete("tea-1")
    assert fetch_rows(
        topic_store, "SELECT count(*) FROM topics WHERE stale AND written_by IS NOT NULL AND level = 0"
    ) == [(0,)]
    topic_store.refresh("topics", model="scribe")
    assert len(server.requests) - first < first, "topics that are as they were are not paid for again"


def put_related_topics(store: kvstore.Store) -> None:
    put_subjects(store)
    store.execute("CREATE INDEX topics WITH (relatedness = 1)")


@pytest.fixture
def related_store(copy_store: Callable[..., kvstore.Store]) -> kvstore.Store:
    """Return a store with the same twelve documents and both trees."""
    return copy_store(put_related_topics, name="related")


RELATED = "tree = 'relatedness'"


def test_related_sentences_name_the_same_entity(related_store: kvstore.Store, topic_store: kvstore.Store) -> None:
    texts = {key: make_text(key.partition("-")[0], int(key[-1])) for key in KEYS}
    leaves = fetch_rows(
        related_store, f"SELECT topic, title, chunks, parent, text FROM topics WHERE level = 0 AND {RELATED}"
    )
    titles = {title for _, title, *_ in leaves}
    assert titles >= {"Camellia", "Drones", "Locomotives"}
    for topic, title, chunks, parent, text in leaves:
        assert chunks > 1
        assert parent is not None
        assert all(title in sentence for sentence in text.rstrip(".").split(". ")), "each names it"
        members = {
            key for (key,) in fetch_rows(related_store, f"SELECT document FROM topic_members WHERE topic = {topic}")
        }
        assert members == {key for key in KEYS if title in texts[key]}
    above = fetch_rows(related_store, f"SELECT title FROM topics WHERE level > 0 AND {RELATED}")
    assert above
    assert {name for (title,) in above for name in title.split(", ")} <= titles
    others = fetch_rows(related_store, "SELECT topic, level, title, text FROM topics WHERE tree = 'similarity'")
    assert others == fetch_rows(topic_store, "SELECT topic, level, title, text FROM topics"), (
        "the other tree is as it was"
    )
    outline = fetch_rows(related_store, "EXPAND TOPICS DEPTH 9")
    assert {line[-1] for line in outline} == {"", "related content"}
    assert [(len(outline),)] == fetch_rows(related_store, "SELECT count(*) FROM topics")
    assert f"topics of related content, {len(leaves)} of them about one name" in get_index_state(related_store)[2]
    assert "related" not in get_index_state(topic_store)[2] + collect_statements(topic_store)
    assert related_store.check() == []


def test_related_topics_omit_deleted_chunks_and_include_newer_ones_by_name(
    related_store: kvstore.Store,
) -> None:
    related_store.delete("bees-1")
    related_store.put("visit", "Drones and Camellia were seen. The words are by Xyzzyvisitqux.")
    assert "Xyzzybees1qux" not in collect_statements(related_store)
    stale = dict(fetch_rows(related_store, f"SELECT topic, stale FROM topics WHERE {RELATED} AND level = 0"))
    called = dict(fetch_rows(related_store, f"SELECT topic, title FROM topics WHERE {RELATED} AND level = 0"))
    newer = fetch_rows(
        related_store, f"SELECT topic FROM topic_members WHERE newer AND document = 'visit' AND {RELATED}"
    )
    assert {called[topic] for (topic,) in newer} == {"Camellia", "Drones"}
    assert all(stale[topic] for (topic,) in newer)
    assert [stale[topic] for topic, title in called.items() if title == "Locomotives"] == [False]
    related_store.delete("visit")
    related_store.delete_where("key LIKE 'bees%'")
    assert "Drones" not in collect_statements(related_store)
    related_store.refresh("topics")
    assert fetch_rows(related_store, f"SELECT count(*) FROM topics WHERE {RELATED} AND title = 'Camellia'") == [(1,)]
    assert fetch_rows(related_store, "SELECT count(*) FROM topics WHERE stale") == [(0,)]


def test_names_that_share_all_their_sentences_share_a_topic(
    make_store: Callable[..., kvstore.Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_index, "_MAX_LEVELS", 1)
    store = make_store()
    for number in range(3):
        store.put(f"d{number}", f"Maria Jensen met Tom Berg on day {number}. Nothing came of it.")
    store.put("alone", "Port Ellery is named once.")
    store.execute("CREATE INDEX topics WITH (relatedness = 1)")
    topics = fetch_rows(store, f"SELECT level, parent, title, chunks FROM topics WHERE {RELATED}")
    assert topics == [(0, None, "Maria Jensen, Tom Berg", 3)]
    store.put("other", "Tom Berg left for Port Ellery.")
    store.refresh("topics")
    counted = f"SELECT title, chunks FROM topics WHERE {RELATED}"
    assert fetch_rows(store, counted) == [("Maria Jensen", 3), ("Port Ellery", 2), ("Tom Berg", 4)]
    store.alias("Tommy", "Tom Berg")
    store.put("short", "Tommy was seen at sea.")
    assert ("Tom Berg", 5) in fetch_rows(store, counted)
    store.refresh("topics")
    assert ("Tom Berg", 5) in fetch_rows(store, counted)
    assert store.check() == []


def test_a_model_summarizes_related_sentences_once(related_store: kvstore.Store, server: Server) -> None:
    server.respond = cite_first_source
    forecast = related_store.forecast_refresh("topics")["topics"]
    related_store.refresh("topics", model="scribe")
    assert len(server.requests) == forecast.calls
    prompts = [request["messages"][-1]["content"] for request in server.requests]
    assert len(set(prompts)) == len(prompts)
    assert {title for (title,) in fetch_rows(related_store, f"SELECT title FROM topics WHERE {RELATED}")} <= {
        " ".join(text.split()[:3]) for request in server.requests for text in list_quoted_texts(request)
    }
    assert "related content, by scribe" in {line[-1] for line in fetch_rows(related_store, "EXPAND TOPICS")}
    related_store.delete("tea-1")
    summaries = fetch_rows(
        related_store, f"SELECT count(*) FROM topics WHERE {RELATED} AND stale AND level = 0 AND written_by IS NOT NULL"
    )
    assert summaries == [(0,)]


KEYS = [f"{subject}-{number}" for subject in SUBJECTS for number in range(4)]
#: Documents put (with a version of their text), taken out, and REFRESH (no key).
HISTORIES = st.lists(st.tuples(st.sampled_from([*KEYS, None]), st.integers(-2, 3)), min_size=1, max_size=25)


def check_history(path: Any, fresh_path: Any, history: list[tuple[str | None, int]], relatedness: int) -> None:
    """Assert that a store with a history equals a store of the remaining documents."""
    options: dict[str, Any] = {"embedder": "hashing", "settings": {"language": "rules"}}
    texts: dict[str, str] = {}
    deleted_texts: set[str] = set()
    with kvstore.open(path, **options) as store:
        store.create_index("topics", {"relatedness": relatedness})
        for key, version in history:
            if key is None:
                store.refresh("topics")
            elif version < 0:
                store.delete(key)
                deleted_texts.add(texts.pop(key, ""))
            else:
                deleted_texts.add(texts.pop(key, ""))
                texts[key] = make_text(key.partition("-")[0], int(key[-1]) + 10 * version)
                store.put(key, texts[key])
            words = {text.split()[-1] for text in deleted_texts - set(texts.values()) if text}
            results = collect_statements(store)
            assert not [word for word in words if word in results]
            placed = {document for (document,) in fetch_rows(store, "SELECT document FROM topic_members")}
            assert placed == set(texts) or not fetch_rows(store, "SELECT 1 FROM topics LIMIT 1")
        store.refresh("topics")
        with store.state() as state:
            dumped_topics = dump(state)["topics"]
        assert store.check() == []
    with kvstore.open(fresh_path, **options) as fresh:
        for key in sorted(texts, reverse=True):
            fresh.put(key, texts[key])
        fresh.create_index("topics", {"relatedness": relatedness})
        with fresh.state() as state:
            assert dump(state)["topics"] == dumped_topics


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=HISTORIES, relatedness=st.integers(0, 1))
def test_after_any_history_topics_are_those_of_a_fresh_store(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[str | None, int]], relatedness: int
) -> None:
    folder = tmp_path_factory.mktemp("topics")
    check_history(folder / "lived", folder / "fresh", history, relatedness)


@pytest.mark.slow
@settings(max_examples=num_examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=HISTORIES, relatedness=st.integers(0, 1))
def test_after_a_hundred_histories_topics_are_those_of_a_fresh_store(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[str | None, int]], relatedness: int
) -> None:
    folder = tmp_path_factory.mktemp("topics")
    check_history(folder / "lived", folder / "fresh", history, relatedness)


@pytest.mark.slow
def test_building_topics_takes_little_memory_in_addition_to_texts_and_vectors(
    make_store: Callable[..., kvstore.Store],
) -> None:
    store = make_store()
    with store.transaction() as transaction:
        for number in range(800):
            words = " ".join(f"about{(number * factor) % 97}" for factor in range(1, 12))
            transaction.put(f"d{number}", f"One says {words}. Another says {words[::-1]}.")
    with store.state() as state:
        texts, dimension = state.counters.text_bytes, state.settings.dimension
    tools = BuildTools(
        lambda texts: np.zeros((len(texts), dimension), np.float32), lambda done, of: None, lambda: False
    )
    index = IndexRecord(TOPICS, {"size": 2})
    for rows in TOPICS.build(store.state, index, tools).rows.values():  # imports what a build needs
        next(iter(rows))
    tracemalloc.start()
    try:
        generation = TOPICS.build(store.state, index, tools)
        tracemalloc.reset_peak()
        count = sum(1 for rows in generation.rows.values() for _ in rows)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == generation.header["topics"] + 1 > 800
    assert peak < 3 * texts + 500 * count
