"""The index of kind communities: what statements and strategies see of it, before and after documents change."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from model_server import PlannedResponse, Server, list_quoted_texts, stream_answer
from theme_texts import THEMES, write_theme_documents, write_theme_text

from kvstore import Store
from kvstore.changes.dump import dump
from kvstore.errors import CorruptionError, InputError
from kvstore.models.structured import MAX_FAILURES, StructuredModel
from kvstore.storage import records
from kvstore.systems.archrag.layer_requests import NearestNodesRequest
from kvstore.systems.graphrag.community_rows import TABLES
from kvstore.systems.graphrag.community_tables import get_communities, get_community_text

MakeStore = Callable[..., Store]
SMALL = {"least": 2}


def fill_with_themes(store: Store) -> None:
    with store.transaction() as transaction:
        for key, text in write_theme_documents(10).items():
            transaction.put(key, text)
    store.create_index("communities", SMALL)


@pytest.fixture
def themed_store(copy_store: MakeStore) -> Store:
    """Return a store of texts on four themes, with their communities."""
    return copy_store(fill_with_themes)


def select_rows(store: Any, text: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in store.execute(text).fetchall()]


def describe_communities(store: Store) -> str:
    """Return all text that the store shows about its communities."""
    keys = [key for (key,) in select_rows(store, "SELECT community FROM communities")]
    described = [store.describe("community", key) for key in keys]
    return repr(
        [
            described,
            select_rows(store, "SELECT * FROM communities"),
            select_rows(store, "SELECT * FROM community_members"),
            [store.describe_entity(name)["communities"] for (name,) in select_rows(store, "SELECT name FROM entities")],
        ]
    )


def dump_store(store: Store) -> dict[str, Any]:
    with store.state() as state:
        return dump(state)


def test_tables_and_descriptions(themed_store: Store) -> None:
    coarsest = select_rows(
        themed_store,
        "SELECT community, entities, passages, documents, stale, written_by FROM communities "
        "WHERE level = 0 ORDER BY community",
    )
    assert len(coarsest) == len(THEMES)
    assert all(row[1:] == (6, 10, 10, 0, None) for row in coarsest)
    assert [key for key, *_ in coarsest] == sorted(f"0/{min(names).lower()}" for names in THEMES.values())
    # Each level is in the one above it, and each member of a community is found from either side.
    assert not select_rows(
        themed_store,
        "SELECT 1 FROM communities AS c LEFT JOIN communities AS p ON c.parent = p.community "
        "WHERE c.level > 0 AND (p.level IS NULL OR p.level >= c.level)",
    )
    for community, level, entity, weight in select_rows(themed_store, "SELECT * FROM community_members"):
        by_entity = select_rows(themed_store, f"SELECT * FROM community_members WHERE entity = '{entity}'")
        by_community = select_rows(themed_store, f"SELECT * FROM community_members WHERE community = '{community}'")
        assert (community, level, entity, weight) in by_entity and (community, level, entity, weight) in by_community
    description = themed_store.describe("community", "0/apple russet")
    assert description["strongest"] and set(description["strongest"]) == set(THEMES["orchard"])
    assert (
        description["title"] == ", ".join(description["strongest"][:3])
        and description["findings"]
        and description["children"]
    )
    assert (
        description["text"]
        in select_rows(themed_store, "SELECT text FROM communities WHERE community = '0/apple russet'")[0]
    )
    assert themed_store.describe_entity("lake tarn")["communities"][0] == "0/apple russet"
    with pytest.raises(InputError, match="no community '0/apple rust'; did you mean '0/apple russet'"):
        themed_store.execute("DESCRIBE COMMUNITY '0/apple rust'")
    for invalid_key in ("", "apple russet", "9/apple russet", "0/nobody", "x/y", "0/"):
        with pytest.raises(InputError, match="no community"):
            themed_store.describe("community", invalid_key)


def test_without_the_index_there_are_no_communities(make_store: MakeStore) -> None:
    store = make_store()
    store.put("one", "Port Ellery is a harbour.")
    assert (
        select_rows(store, "SELECT * FROM communities") == select_rows(store, "SELECT * FROM community_members") == []
    )
    assert "communities" not in store.describe_entity("Port Ellery")
    with pytest.raises(InputError, match="CREATE INDEX communities"):
        store.describe("community", "0/dock marston")
    store.create_index("communities")
    assert select_rows(store, "SELECT * FROM communities") == []
    assert store.describe_entity("Port Ellery")["communities"] == []
    store.drop_index("communities")
    assert not any(store.statistics().get(table) for table in TABLES)


def test_options_are_checked(make_store: MakeStore) -> None:
    store = make_store()
    for options, message in (
        ("method = lieden", "one of affinity, leiden"),
        ("neighbours = some", "one of none, knn"),
        ("largest = 1", "between 2 and 1000"),
        ("size = 3", "no option 'size'"),
    ):
        with pytest.raises(InputError, match=message):
            store.execute(f"CREATE INDEX communities WITH ({options})")


def test_no_word_of_a_deleted_document_is_shown_and_a_new_one_is_at_home_at_once(themed_store: Store) -> None:
    # A text with words that occur nowhere else, among names that do.
    themed_store.put(
        "secret", "Lake Tarn met Apple Russet, and Orchard Velda saw the xylographic quintessence of both."
    )
    themed_store.refresh("communities")
    with themed_store.state() as state:
        communities = get_communities(state)
        assert communities is not None and not communities.list_newer_chunks()
        chunk = next(state.documents.find_by_key("secret").chunk_ids())  # type: ignore[union-attr]
        home = communities.find_by_chunks([chunk])[0]
        assert home and all(chunk in dict(communities.list_chunks(number)) for number in home)
    themed_store.delete("secret")
    assert "xylographic" not in describe_communities(themed_store)
    with themed_store.state() as state:
        communities = get_communities(state)
        assert communities is not None
        assert [communities.is_stale(number) for number in home] == [True] * len(home)
        assert all(chunk not in dict(communities.list_chunks(number)) for number in home)
    themed_store.put("new", "Station Moorby is where Engine Halcyon and Driver Pell stand since yesterday.")
    with themed_store.state() as state:
        communities = get_communities(state)
        assert communities is not None
        (newer,) = communities.list_newer_chunks()
        homes = communities.find_by_chunks([newer])[0]
        assert [communities.get(number).level for number in homes] == sorted(
            communities.get(number).level for number in homes
        )
        assert "driver pell" in {state.entities.get(entity).key for entity, _ in communities.list_members(homes[0])}
        assert all(communities.is_stale(number) and newer in dict(communities.list_chunks(number)) for number in homes)
    stale = {key for (key,) in select_rows(themed_store, "SELECT community FROM communities WHERE stale")}
    assert {"0/apple russet", "0/driver pell"} <= stale and "0/actress soane" not in stale
    assert "1 newer chunk" in select_rows(themed_store, "SELECT detail FROM indexes WHERE kind = 'communities'")[0][0]


def test_a_deleted_name_is_in_no_community(themed_store: Store) -> None:
    for key in [key for key in themed_store.keys("") if key.startswith("theatre")]:
        themed_store.delete(key)
    assert (
        "theatre" not in describe_communities(themed_store).lower()
        and "soane" not in describe_communities(themed_store).lower()
    )
    assert len(select_rows(themed_store, "SELECT 1 FROM communities WHERE level = 0")) == len(THEMES) - 1
    assert "are hidden" in select_rows(themed_store, "SELECT detail FROM indexes WHERE kind = 'communities'")[0][0]
    # The key is that of the first member left.
    themed_store.execute("DELETE FROM documents WHERE key LIKE 'orchard%' AND key <> 'orchard-1'")
    themes = {name.lower() for name in THEMES["orchard"] if name.lower() in themed_store.get("orchard-1").text.lower()}
    assert select_rows(themed_store, f"SELECT 1 FROM communities WHERE community = '0/{min(themes)}'")
    for key in list(themed_store.keys("")):
        themed_store.delete(key)
    assert (
        select_rows(themed_store, "SELECT * FROM communities")
        == select_rows(themed_store, "SELECT * FROM community_members")
        == []
    )


def test_a_transaction_sees_its_deletions(themed_store: Store) -> None:
    themed_store.execute("BEGIN")
    themed_store.execute("DELETE FROM documents WHERE key LIKE 'theatre%'")
    output = repr(
        select_rows(themed_store, "SELECT * FROM communities")
        + select_rows(themed_store, "SELECT * FROM community_members")
    )
    assert "soane" not in output.lower() and "Apple Russet" in output
    assert select_rows(themed_store, "SELECT count(*) FROM communities WHERE level = 0") == [(len(THEMES) - 1,)]
    themed_store.execute("ROLLBACK")
    assert "soane" in repr(select_rows(themed_store, "SELECT community FROM communities"))


def test_partitions_and_vectors(themed_store: Store) -> None:
    with themed_store.state() as state:
        communities = get_communities(state)
        assert communities is not None
        for level in range(communities.levels):
            parts = [
                {entity for entity, _ in communities.list_members(number)} for number in communities.list_level(level)
            ]
            assert sum(map(len, parts)) == len(set().union(*parts)) == 24
        everyone = communities.list_entities()
        assert [state.entities.get(entity).key for entity in everyone] == sorted(
            name.lower() for names in THEMES.values() for name in names
        )
        vectors = communities.get_vectors(range(len(communities)))
        for number in range(len(communities)):
            assert communities.find_nearest(vectors[number], 1)[0][0] == number
        (nearest, cosine), *_ = communities.find_nearest(vectors[0], 3, level=0)
        assert (nearest, round(cosine, 4)) == (0, 1)
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
        places = communities.list_sources(0)
        assert {place.document for place in places} <= {record.id for record in state.documents.scan()}


@pytest.mark.parametrize("options", [SMALL, SMALL | {"neighbours": "knn"}, SMALL | {"method": "leiden"}])
def test_after_refresh_history_does_not_show(make_store: MakeStore, options: dict[str, Any]) -> None:
    documents = write_theme_documents(7)
    fresh_store = make_store("fresh")
    for key, text in documents.items():
        fresh_store.put(key, text)
    fresh_store.create_index("communities", options)
    other_store = make_store("other")
    other_store.put("gone", write_theme_text("theatre", 40) + write_theme_text("harbour", 41))
    other_store.create_index("communities", options)
    keys = list(documents)
    random.Random(3).shuffle(keys)
    for number, key in enumerate(keys):
        other_store.put(key, write_theme_text("railway", 50 + number) if number % 5 == 0 else documents[key])
        if number == 9:
            other_store.refresh("communities")
            other_store.delete("gone")
    for key in keys[::5]:
        other_store.put(key, documents[key])
    other_store.refresh("communities")
    fresh_dump, other_dump = dump_store(fresh_store), dump_store(other_store)
    assert {table for table in fresh_dump if "communit" in table} == set(TABLES) - {"community_vectors"}
    assert fresh_dump == other_dump


def assert_history(make_store: MakeStore, name: str, changes: list[tuple[str, str, int]]) -> None:
    """Check that deleted text is not shown after any changes, and that REFRESH builds the index of a new store."""
    store = make_store(name)
    store.create_index("communities", SMALL)
    texts: dict[str, str] = {}
    for change, (kind, theme, number) in enumerate(changes):
        key = f"{theme}-{number % 6}"
        if kind == "put":
            texts[key] = f"{write_theme_text(theme, number)} Mark{change}x was here with Token{change}x."
            store.put(key, texts[key])
        elif kind == "delete" and key in texts:
            del texts[key]
            store.delete(key)
        elif kind == "refresh":
            store.refresh("communities")
        output = describe_communities(store)
        marks = {f"{word}{at}x" for at in range(len(changes)) for word in ("Mark", "Token")}
        present = " ".join(texts.values())
        assert not [mark for mark in marks if mark in output and mark not in present]
    store.refresh("communities")
    fresh_store = make_store(f"{name}-fresh")
    for key, text in sorted(texts.items()):
        fresh_store.put(key, text)
    fresh_store.create_index("communities", SMALL)
    assert dump_store(store) == dump_store(fresh_store)
    for each_store in (store, fresh_store):
        assert each_store.check() == []
        each_store.close()


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "delete", "refresh"]), st.sampled_from([*THEMES][:3]), st.integers(0, 30)
    ),
    max_size=25,
)


def check_histories(make_store: MakeStore, examples: int) -> None:
    number = iter(range(10**6))

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(CHANGES)
    def check(changes: list[tuple[str, str, int]]) -> None:
        assert_history(make_store, f"store{next(number)}", changes)

    check()


def test_random_histories(make_store: MakeStore) -> None:
    check_histories(make_store, 5)


@pytest.mark.slow
@pytest.mark.long
def test_many_random_histories(make_store: MakeStore) -> None:
    check_histories(make_store, 100)


def test_a_document_changes_few_texts(make_store: MakeStore) -> None:
    """A text of a model is kept as long as its inputs are unchanged."""
    store = make_store()
    with store.transaction() as transaction:
        for key, text in write_theme_documents(10).items():
            transaction.put(key, text)
    store.create_index("communities", SMALL)

    def collect_contents() -> set[bytes]:
        with store.state() as state:
            communities = get_communities(state)
            assert communities is not None
            return {communities.get(number).content_digest for number in range(len(communities))}

    old_contents = collect_contents()
    store.put("orchard-3", write_theme_text("orchard", 3).replace("filled", "took"))
    store.refresh("communities")
    new_contents = collect_contents()
    assert old_contents != new_contents and len(new_contents - old_contents) <= 3


def answer_report(request: dict[str, Any]) -> PlannedResponse:
    """Answer with a report of the request: one finding that its source supports, and two that it does not."""
    names, *sources = list_quoted_texts(request)
    name = names.split(", ")[0]
    finding = {"summary": f"So {name} was joined.", "explanation": f"Much is told of {name}: {sources[1]}"}
    return stream_answer(
        json.dumps(
            {
                "title": f"The circle of {name}",
                "summary": f"A model wrote of {name}: {sources[0]}",
                "rating": 7,
                "findings": [
                    finding | {"sources": [2, 2]},
                    finding | {"explanation": "Nobody says so anywhere.", "sources": [1]},
                    finding | {"explanation": "Nowhere.", "sources": [2]},
                ],
            }
        )
    )


def write_reports(store: Store) -> int:
    model = store.language_model("scribe")
    assert model is not None
    writer = StructuredModel(model)
    store._session.store.index_manager.refresh("communities", None, writer)
    return writer.num_calls


def test_a_model_writes_reports_of_existing_communities(themed_store: Store, server: Server) -> None:
    server.respond = answer_report
    count = len(select_rows(themed_store, "SELECT 1 FROM communities"))
    assert write_reports(themed_store) == count and write_reports(themed_store) == 0
    assert select_rows(themed_store, "SELECT DISTINCT written_by FROM communities") == [("scribe",)]
    community = themed_store.describe("community", "0/apple russet")
    assert community["written by"] == "scribe" and "A model wrote of " in community["text"]
    assert (
        "told of" in community["text"]
        and "Nobody says so" not in community["text"]
        and "Nowhere" not in community["text"]
    )
    with themed_store.state() as state:
        communities = get_communities(state)
        assert communities is not None
        (number,) = communities.get_written_text(0).value["findings"][0]["sources"]  # type: ignore[union-attr]
        assert number == 1
        place = communities.list_sources(0)[number]
        prompts = [request["messages"][-1]["content"] for request in server.requests]
        assert any(communities.read_text(place) in text for text in prompts)
    assert (
        f"{count} texts by scribe"
        in select_rows(themed_store, "SELECT detail FROM indexes WHERE kind = 'communities'")[0][0]
    )
    # A text written from a deleted document is not shown; remaining sentences replace it.
    themed_store.put("orchard-3", write_theme_text("orchard", 3).replace("filled", "took"))
    silent = [key for (key,) in select_rows(themed_store, "SELECT community FROM communities WHERE written_by IS NULL")]
    assert silent and all(key in ("0/apple russet", *community["children"]) for key in silent)
    for key in silent:
        text = themed_store.describe("community", key)["text"]
        assert text and "A model wrote" not in text
    assert 0 < write_reports(themed_store) <= 3
    assert not select_rows(themed_store, "SELECT 1 FROM communities WHERE written_by IS NULL")


def test_a_report_by_a_model_is_found_by_the_vector_of_its_text(themed_store: Store, server: Server) -> None:
    (vector,) = themed_store.embed(["Which apples are in the orchard?"])

    def find_nearest() -> dict[int, float]:
        with themed_store.state() as state:
            communities = get_communities(state)
            assert communities is not None
            return dict(communities.find_nearest(vector, len(communities)))

    def search_layers() -> dict[int, float]:
        with themed_store.state() as state:
            search = NearestNodesRequest(vector, 100, 9, 200).fetch(state)
        return dict(pair for layer in search.layers[1:] for pair in layer)

    centroids = find_nearest()
    assert search_layers() == pytest.approx(centroids, abs=1e-3)
    server.respond = answer_report
    write_reports(themed_store)
    expected: dict[int, float] = {}
    with themed_store.state() as state:
        communities = get_communities(state)
        assert communities is not None
        for number in range(len(communities)):
            text = communities.get_written_text(number)
            assert text is not None
            (text_vector,) = themed_store.embed([f"{text.value['title']}\n{text.value['summary']}"])
            expected[number] = float(text_vector @ vector)
    similarities = find_nearest()
    assert similarities == pytest.approx(expected, abs=1e-5)
    assert list(similarities.values()) == sorted(similarities.values(), reverse=True)
    assert search_layers() == pytest.approx(expected, abs=1e-3)
    # The vector is dropped with its text: the communities whose source is gone have their centroids again.
    themed_store.delete("orchard-3")
    silent = {key for (key,) in select_rows(themed_store, "SELECT community FROM communities WHERE written_by IS NULL")}
    with themed_store.state() as state:
        communities = get_communities(state)
        assert communities is not None
        numbers = {number for number in centroids if communities.get_key(number) in silent}
    assert numbers
    nearest = find_nearest()
    for number in numbers & nearest.keys():
        assert nearest[number] == pytest.approx(centroids[number], abs=1e-6)


def test_a_report_without_sources_is_invalid(themed_store: Store, server: Server) -> None:
    def answer_without_sources(request: dict[str, Any]) -> PlannedResponse:
        name, text = (text.split(", ")[0] for text in list_quoted_texts(request)[:2])
        finding = {"summary": "So it is.", "explanation": "So it is said.", "sources": [0]}
        return stream_answer(json.dumps({"title": name, "summary": text, "rating": 1, "findings": [finding]}))

    server.respond = answer_without_sources
    count = len(select_rows(themed_store, "SELECT 1 FROM communities"))
    assert write_reports(themed_store) == 2 * min(count, MAX_FAILURES), (
        "each is asked for once more, until the model is useless"
    )
    assert "must be between 1 and" in server.requests[1]["messages"][-1]["content"]
    assert not select_rows(
        themed_store, "SELECT 1 FROM communities WHERE written_by IS NOT NULL OR text LIKE '%So it is%'"
    )


def test_a_community_in_which_no_passage_was_at_home_is_shown(themed_store: Store) -> None:
    key, last_community = "communities", len(select_rows(themed_store, "SELECT 1 FROM communities")) - 1
    with themed_store._session.environment.write() as view:
        (number,) = [bytes(key) for key, _ in view.scan(key) if key[4:] == records.encode_u32(last_community)]
        row = records.unpack(view.get(key, number), key, number)
        view.put(key, number, records.pack([*row[:4], 0, 0, 0, *row[7:9], [], []]))
        view.delete("community_passages", number)
    assert select_rows(themed_store, "SELECT count(*) FROM communities") == [(last_community + 1,)]
    assert select_rows(themed_store, "SELECT text, stale FROM communities WHERE passages = 0") == [("", 0)]


def test_check_reports_contradictions(themed_store: Store) -> None:
    with themed_store._session.environment.write() as view:
        (key,) = [bytes(key) for key, _ in view.scan("community_members")][:1]
        view.delete("community_members", key)
    assert any("members of community 0" in problem for problem in themed_store.check())
    with themed_store._session.environment.write() as view:
        (key,) = [bytes(key) for key, _ in view.scan("communities")][-1:]
        row = records.unpack(view.get("communities", key), "communities", key)
        view.put("communities", key, records.pack([row[0], 10**6, *row[2:]]))
    assert any("is below 1000000" in problem for problem in themed_store.check())
    themed_store.drop_index("communities")
    assert themed_store.check() == []


def test_the_tree_is_that_of_the_rows(themed_store: Store) -> None:
    with themed_store.state() as state:
        communities = get_communities(state)
        assert communities is not None
        tree, every = communities.tree, [communities.get(number) for number in range(len(communities))]
        numbers = np.arange(len(every))
        members = [{entity for entity, _ in communities.list_members(number)} for number in range(len(every))]
        for number, community in enumerate(every):
            assert tuple(tree.list_children(numbers[number : number + 1])) == community.children
            at = tree.map_to_levels(numbers[number : number + 1], communities.levels)[:, 0].tolist()
            path = [parent for parent in numbers if members[parent] >= members[number]]
            assert at == [
                max(
                    (ancestor for ancestor in path if every[ancestor].level <= level),
                    key=lambda ancestor: every[ancestor].level,
                )
                for level in range(communities.levels)
            ]
        assert tree.list_children(numbers).tolist() == [child for community in every for child in community.children]
        for level in range(communities.levels):
            assert tree.get_partition(level).tolist() == [
                number
                for number, community in enumerate(every)
                if community.level == level or (community.level < level and not community.children)
            ]


@pytest.mark.parametrize("damage", [("parent", 1, 10_000), ("level", 0, 9), ("a circle", 1, 0)])
def test_an_invalid_tree_is_reported(themed_store: Store, damage: tuple[str, int, int]) -> None:
    _, place, value = damage

    with themed_store._session.environment.write() as view:
        key, stored = next((bytes(key), bytes(value)) for key, value in view.scan("communities"))
        row = records.unpack(stored, "communities", key)
        row[place] = value
        view.put("communities", key, records.pack(row))
    with pytest.raises(CorruptionError, match="index communities: .*DROP INDEX communities, and create it again"):
        themed_store.retrieve("What is all of this about?", using="global")
    assert any("index communities" in problem for problem in themed_store.check())
    themed_store.drop_index("communities")


def test_words_of_deleted_documents_are_in_no_file_after_compact(make_store: MakeStore) -> None:
    store = make_store()
    with store.transaction() as transaction:
        for key, text in write_theme_documents(10).items():
            transaction.put(key, text)
    secret, name = "xylophonist", "Quizzenburg"
    store.put("secret", f"Captain Orlov and Professor {name} had a {secret} in the year 1904, and no other.")
    store.create_index("communities", SMALL)
    store.delete("secret")
    evidence = store.retrieve(f"Who had a {secret}?", using="global")
    assert secret not in repr(evidence.hits)
    store.compact()
    file_bytes = b"".join(file.read_bytes() for file in store.path.iterdir()).lower()
    assert secret.encode() not in file_bytes and name.lower().encode() not in file_bytes
    assert store.check() == []
    assert repr(store.retrieve(f"Who had a {secret}?", using="global").hits) == repr(evidence.hits)
    store.refresh("communities")
    store.compact()
    with store.state() as state:
        communities = get_communities(state)
        assert communities is not None and any(communities.get_built_terms(range(len(communities))))


def test_a_snapshot_keeps_its_communities(themed_store: Store) -> None:
    with themed_store.snapshot() as snapshot, snapshot.state() as state:
        communities = get_communities(state)
        assert communities is not None
        texts = [get_community_text(state, communities, number) for number in range(len(communities))]
        themed_store.delete("harbour-1")
        themed_store.refresh("communities")
        assert texts == [get_community_text(state, communities, number) for number in range(len(communities))]
