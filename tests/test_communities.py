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
from kvstore.systems.archrag.layer_requests import NearestNodes
from kvstore.systems.graphrag.community_rows import TABLES
from kvstore.systems.graphrag.community_tables import get_communities, get_community_text

MakeStore = Callable[..., Store]
SMALL = {"least": 2}


def put_themes(store: Store) -> None:
    with store.transaction() as transaction:
        for key, text in write_theme_documents(10).items():
            transaction.put(key, text)
    store.create_index("communities", SMALL)


@pytest.fixture
def themed(copy_store: MakeStore) -> Store:
    """A store of texts on four themes, and their communities."""
    return copy_store(put_themes)


def rows(store: Any, text: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in store.execute(text).fetchall()]


def describe_communities(store: Store) -> str:
    """Everything that the store says of its communities."""
    keys = [key for (key,) in rows(store, "SELECT community FROM communities")]
    described = [store.describe("community", key) for key in keys]
    return repr(
        [
            described,
            rows(store, "SELECT * FROM communities"),
            rows(store, "SELECT * FROM community_members"),
            [store.describe_entity(name)["communities"] for (name,) in rows(store, "SELECT name FROM entities")],
        ]
    )


def logical(store: Store) -> dict[str, Any]:
    with store.state() as state:
        return dump(state)


def test_tables_and_descriptions(themed: Store) -> None:
    coarsest = rows(
        themed,
        "SELECT community, entities, passages, documents, stale, written_by FROM communities "
        "WHERE level = 0 ORDER BY community",
    )
    assert len(coarsest) == len(THEMES)
    assert all(row[1:] == (6, 10, 10, 0, None) for row in coarsest)
    assert [key for key, *_ in coarsest] == sorted(f"0/{min(names).lower()}" for names in THEMES.values())
    # Each level is in the one above it, and each member of a community is found from either side.
    assert not rows(
        themed,
        "SELECT 1 FROM communities AS c LEFT JOIN communities AS p ON c.parent = p.community "
        "WHERE c.level > 0 AND (p.level IS NULL OR p.level >= c.level)",
    )
    for community, level, entity, weight in rows(themed, "SELECT * FROM community_members"):
        by_entity = rows(themed, f"SELECT * FROM community_members WHERE entity = '{entity}'")
        by_community = rows(themed, f"SELECT * FROM community_members WHERE community = '{community}'")
        assert (community, level, entity, weight) in by_entity and (community, level, entity, weight) in by_community
    found = themed.describe("community", "0/apple russet")
    assert found["strongest"] and set(found["strongest"]) == set(THEMES["orchard"])
    assert found["title"] == ", ".join(found["strongest"][:3]) and found["findings"] and found["children"]
    assert found["text"] in rows(themed, "SELECT text FROM communities WHERE community = '0/apple russet'")[0]
    assert themed.describe_entity("lake tarn")["communities"][0] == "0/apple russet"
    with pytest.raises(InputError, match="no community '0/apple rust'; did you mean '0/apple russet'"):
        themed.execute("DESCRIBE COMMUNITY '0/apple rust'")
    for wrong in ("", "apple russet", "9/apple russet", "0/nobody", "x/y", "0/"):
        with pytest.raises(InputError, match="no community"):
            themed.describe("community", wrong)


def test_without_the_index_there_are_no_communities(make_store: MakeStore) -> None:
    store = make_store()
    store.put("one", "Port Ellery is a harbour.")
    assert rows(store, "SELECT * FROM communities") == rows(store, "SELECT * FROM community_members") == []
    assert "communities" not in store.describe_entity("Port Ellery")
    with pytest.raises(InputError, match="CREATE INDEX communities"):
        store.describe("community", "0/dock marston")
    store.create_index("communities")
    assert rows(store, "SELECT * FROM communities") == []
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


def test_no_word_of_a_deleted_document_is_shown_and_a_new_one_is_at_home_at_once(themed: Store) -> None:
    # A text with words that occur nowhere else, among names that do.
    themed.put("secret", "Lake Tarn met Apple Russet, and Orchard Velda saw the xylographic quintessence of both.")
    themed.refresh("communities")
    with themed.state() as state:
        communities = get_communities(state)
        assert communities is not None and not communities.list_newer_chunks()
        chunk = next(state.documents.find_by_key("secret").chunk_ids())  # type: ignore[union-attr]
        home = communities.find_by_chunks([chunk])[0]
        assert home and all(chunk in dict(communities.list_chunks(one)) for one in home)
    themed.delete("secret")
    assert "xylographic" not in describe_communities(themed)
    with themed.state() as state:
        communities = get_communities(state)
        assert communities is not None
        assert [communities.is_stale(one) for one in home] == [True] * len(home)
        assert all(chunk not in dict(communities.list_chunks(one)) for one in home)
    themed.put("new", "Station Moorby is where Engine Halcyon and Driver Pell stand since yesterday.")
    with themed.state() as state:
        communities = get_communities(state)
        assert communities is not None
        (newer,) = communities.list_newer_chunks()
        homes = communities.find_by_chunks([newer])[0]
        assert [communities.get(one).level for one in homes] == sorted(communities.get(one).level for one in homes)
        assert "driver pell" in {state.entities.get(entity).key for entity, _ in communities.list_members(homes[0])}
        assert all(communities.is_stale(one) and newer in dict(communities.list_chunks(one)) for one in homes)
    stale = {key for (key,) in rows(themed, "SELECT community FROM communities WHERE stale")}
    assert {"0/apple russet", "0/driver pell"} <= stale and "0/actress soane" not in stale
    assert "1 newer chunk" in rows(themed, "SELECT detail FROM indexes WHERE kind = 'communities'")[0][0]


def test_a_deleted_name_is_in_no_community(themed: Store) -> None:
    for key in [key for key in themed.keys("") if key.startswith("theatre")]:
        themed.delete(key)
    assert "theatre" not in describe_communities(themed).lower() and "soane" not in describe_communities(themed).lower()
    assert len(rows(themed, "SELECT 1 FROM communities WHERE level = 0")) == len(THEMES) - 1
    assert "are hidden" in rows(themed, "SELECT detail FROM indexes WHERE kind = 'communities'")[0][0]
    # The key is that of the first member left.
    themed.execute("DELETE FROM documents WHERE key LIKE 'orchard%' AND key <> 'orchard-1'")
    kept = {name.lower() for name in THEMES["orchard"] if name.lower() in themed.get("orchard-1").text.lower()}
    assert rows(themed, f"SELECT 1 FROM communities WHERE community = '0/{min(kept)}'")
    for key in list(themed.keys("")):
        themed.delete(key)
    assert rows(themed, "SELECT * FROM communities") == rows(themed, "SELECT * FROM community_members") == []


def test_a_transaction_sees_its_deletions(themed: Store) -> None:
    themed.execute("BEGIN")
    themed.execute("DELETE FROM documents WHERE key LIKE 'theatre%'")
    found = repr(rows(themed, "SELECT * FROM communities") + rows(themed, "SELECT * FROM community_members"))
    assert "soane" not in found.lower() and "Apple Russet" in found
    assert rows(themed, "SELECT count(*) FROM communities WHERE level = 0") == [(len(THEMES) - 1,)]
    themed.execute("ROLLBACK")
    assert "soane" in repr(rows(themed, "SELECT community FROM communities"))


def test_partitions_and_vectors(themed: Store) -> None:
    with themed.state() as state:
        communities = get_communities(state)
        assert communities is not None
        assert communities.list_roots() == communities.list_level(0)
        for level in range(communities.levels):
            parts = [{entity for entity, _ in communities.list_members(one)} for one in communities.list_level(level)]
            assert sum(map(len, parts)) == len(set().union(*parts)) == 24
        everyone = communities.list_entities()
        assert [state.entities.get(entity).key for entity in everyone] == sorted(
            name.lower() for names in THEMES.values() for name in names
        )
        vectors = communities.get_vectors(range(len(communities)))
        for one in range(len(communities)):
            assert communities.find_nearest(vectors[one], 1)[0][0] == one
        (nearest, cosine), *_ = communities.find_nearest(vectors[0], 3, level=0)
        assert (nearest, round(cosine, 4)) == (0, 1)
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
        places = communities.list_sources(0)
        assert {place.document for place in places} <= {record.id for record in state.documents.scan()}


@pytest.mark.parametrize("options", [SMALL, SMALL | {"neighbours": "knn"}, SMALL | {"method": "leiden"}])
def test_after_refresh_history_does_not_show(make_store: MakeStore, options: dict[str, Any]) -> None:
    kept = write_theme_documents(7)
    fresh = make_store("fresh")
    for key, text in kept.items():
        fresh.put(key, text)
    fresh.create_index("communities", options)
    other = make_store("other")
    other.put("gone", write_theme_text("theatre", 40) + write_theme_text("harbour", 41))
    other.create_index("communities", options)
    keys = list(kept)
    random.Random(3).shuffle(keys)
    for number, key in enumerate(keys):
        other.put(key, write_theme_text("railway", 50 + number) if number % 5 == 0 else kept[key])
        if number == 9:
            other.refresh("communities")
            other.delete("gone")
    for key in keys[::5]:
        other.put(key, kept[key])
    other.refresh("communities")
    one, two = logical(fresh), logical(other)
    assert {table for table in one if "communit" in table} == set(TABLES) - {"community_vectors"}
    assert one == two


def assert_history(make_store: MakeStore, name: str, changes: list[tuple[str, str, int]]) -> None:
    """After any changes and REFRESHes, deleted text is not shown, and REFRESH gives the index of a new store."""
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
        said = describe_communities(store)
        marks = {f"{what}{at}x" for at in range(len(changes)) for what in ("Mark", "Token")}
        present = " ".join(texts.values())
        assert not [mark for mark in marks if mark in said and mark not in present]
    store.refresh("communities")
    fresh = make_store(f"{name}-fresh")
    for key, text in sorted(texts.items()):
        fresh.put(key, text)
    fresh.create_index("communities", SMALL)
    assert logical(store) == logical(fresh)
    for one in (store, fresh):
        assert one.check() == []
        one.close()


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

    def contents() -> set[bytes]:
        with store.state() as state:
            communities = get_communities(state)
            assert communities is not None
            return {communities.get(one).content for one in range(len(communities))}

    before = contents()
    store.put("orchard-3", write_theme_text("orchard", 3).replace("filled", "took"))
    store.refresh("communities")
    after = contents()
    assert before != after and len(after - before) <= 3


def report(request: dict[str, Any]) -> PlannedResponse:
    """A report of what was sent: one finding that its source supports, and two that it does not."""
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


def write(store: Store) -> int:
    model = store.language_model("scribe")
    assert model is not None
    writer = StructuredModel(model)
    store._session.store.indexing.refresh("communities", None, writer)
    return writer.num_calls


def test_a_model_writes_reports_of_existing_communities(themed: Store, server: Server) -> None:
    server.respond = report
    count = len(rows(themed, "SELECT 1 FROM communities"))
    assert write(themed) == count and write(themed) == 0
    assert rows(themed, "SELECT DISTINCT written_by FROM communities") == [("scribe",)]
    found = themed.describe("community", "0/apple russet")
    assert found["written by"] == "scribe" and "A model wrote of " in found["text"]
    assert "told of" in found["text"] and "Nobody says so" not in found["text"] and "Nowhere" not in found["text"]
    with themed.state() as state:
        communities = get_communities(state)
        assert communities is not None
        (number,) = communities.get_written_text(0).value["findings"][0]["sources"]  # type: ignore[union-attr]
        assert number == 1
        place = communities.list_sources(0)[number]
        sent = [request["messages"][-1]["content"] for request in server.requests]
        assert any(communities.read_text(place) in text for text in sent)
    assert f"{count} texts by scribe" in rows(themed, "SELECT detail FROM indexes WHERE kind = 'communities'")[0][0]
    # A text written from a deleted document is not shown; remaining sentences replace it.
    themed.put("orchard-3", write_theme_text("orchard", 3).replace("filled", "took"))
    silent = [key for (key,) in rows(themed, "SELECT community FROM communities WHERE written_by IS NULL")]
    assert silent and all(key in ("0/apple russet", *found["children"]) for key in silent)
    for key in silent:
        text = themed.describe("community", key)["text"]
        assert text and "A model wrote" not in text
    assert 0 < write(themed) <= 3
    assert not rows(themed, "SELECT 1 FROM communities WHERE written_by IS NULL")


def test_a_report_by_a_model_is_found_by_the_vector_of_its_text(themed: Store, server: Server) -> None:
    (vector,) = themed.embed(["Which apples are in the orchard?"])

    def find_nearest() -> dict[int, float]:
        with themed.state() as state:
            communities = get_communities(state)
            assert communities is not None
            return dict(communities.find_nearest(vector, len(communities)))

    def search_layers() -> dict[int, float]:
        with themed.state() as state:
            search = NearestNodes(vector, 100, 9, 200).fetch(state)
        return dict(pair for layer in search.layers[1:] for pair in layer)

    centroids = find_nearest()
    assert search_layers() == pytest.approx(centroids, abs=1e-3)
    server.respond = report
    write(themed)
    expected: dict[int, float] = {}
    with themed.state() as state:
        communities = get_communities(state)
        assert communities is not None
        for number in range(len(communities)):
            text = communities.get_written_text(number)
            assert text is not None
            (text_vector,) = themed.embed([f"{text.value['title']}\n{text.value['summary']}"])
            expected[number] = float(text_vector @ vector)
    written = find_nearest()
    assert written == pytest.approx(expected, abs=1e-5)
    assert list(written.values()) == sorted(written.values(), reverse=True)
    assert search_layers() == pytest.approx(expected, abs=1e-3)
    # The vector is dropped with its text: the communities whose source is gone have their centroids again.
    themed.delete("orchard-3")
    silent = {key for (key,) in rows(themed, "SELECT community FROM communities WHERE written_by IS NULL")}
    with themed.state() as state:
        communities = get_communities(state)
        assert communities is not None
        numbers = {number for number in centroids if communities.get_key(number) in silent}
    assert numbers
    nearest = find_nearest()
    for number in numbers & nearest.keys():
        assert nearest[number] == pytest.approx(centroids[number], abs=1e-6)


def test_a_report_without_sources_is_invalid(themed: Store, server: Server) -> None:
    def unfounded(request: dict[str, Any]) -> PlannedResponse:
        name, text = (text.split(", ")[0] for text in list_quoted_texts(request)[:2])
        told = {"summary": "So it is.", "explanation": "So it is said.", "sources": [0]}
        return stream_answer(json.dumps({"title": name, "summary": text, "rating": 1, "findings": [told]}))

    server.respond = unfounded
    count = len(rows(themed, "SELECT 1 FROM communities"))
    assert write(themed) == 2 * min(count, MAX_FAILURES), "each is asked for once more, until the model is useless"
    assert "must be between 1 and" in server.requests[1]["messages"][-1]["content"]
    assert not rows(themed, "SELECT 1 FROM communities WHERE written_by IS NOT NULL OR text LIKE '%So it is%'")


def test_a_community_in_which_no_passage_was_at_home_is_shown(themed: Store) -> None:
    key, last = "communities", len(rows(themed, "SELECT 1 FROM communities")) - 1
    with themed._session.environment.write() as view:
        (number,) = [bytes(key) for key, _ in view.scan(key) if key[4:] == records.encode_u32(last)]
        row = records.unpack(view.get(key, number), key, number)
        view.put(key, number, records.pack([*row[:4], 0, 0, 0, *row[7:9], [], []]))
        view.delete("community_passages", number)
    assert rows(themed, "SELECT count(*) FROM communities") == [(last + 1,)]
    assert rows(themed, "SELECT text, stale FROM communities WHERE passages = 0") == [("", 0)]


def test_check_reports_contradictions(themed: Store) -> None:
    with themed._session.environment.write() as view:
        (key,) = [bytes(key) for key, _ in view.scan("community_members")][:1]
        view.delete("community_members", key)
    assert any("members of community 0" in problem for problem in themed.check())
    with themed._session.environment.write() as view:
        (key,) = [bytes(key) for key, _ in view.scan("communities")][-1:]
        row = records.unpack(view.get("communities", key), "communities", key)
        view.put("communities", key, records.pack([row[0], 10**6, *row[2:]]))
    assert any("is below 1000000" in problem for problem in themed.check())
    themed.drop_index("communities")
    assert themed.check() == []


def test_the_tree_is_that_of_the_rows(themed: Store) -> None:
    with themed.state() as state:
        communities = get_communities(state)
        assert communities is not None
        tree, every = communities.tree, [communities.get(number) for number in range(len(communities))]
        numbers = np.arange(len(every))
        members = [{entity for entity, _ in communities.list_members(number)} for number in range(len(every))]
        for number, one in enumerate(every):
            assert tuple(tree.list_children(numbers[number : number + 1])) == one.children
            at = tree.map_to_levels(numbers[number : number + 1], communities.levels)[:, 0].tolist()
            path = [parent for parent in numbers if members[parent] >= members[number]]
            assert at == [
                max((each for each in path if every[each].level <= level), key=lambda each: every[each].level)
                for level in range(communities.levels)
            ]
        assert tree.list_children(numbers).tolist() == [child for one in every for child in one.children]
        for level in range(communities.levels):
            assert tree.get_partition(level).tolist() == [
                number
                for number, one in enumerate(every)
                if one.level == level or (one.level < level and not one.children)
            ]


@pytest.mark.parametrize("damage", [("parent", 1, 10_000), ("level", 0, 9), ("a circle", 1, 0)])
def test_an_invalid_tree_is_reported(themed: Store, damage: tuple[str, int, int]) -> None:
    _, place, value = damage

    with themed._session.environment.write() as view:
        key, stored = next((bytes(key), bytes(value)) for key, value in view.scan("communities"))
        row = records.unpack(stored, "communities", key)
        row[place] = value
        view.put("communities", key, records.pack(row))
    with pytest.raises(CorruptionError, match="index communities: .*DROP INDEX communities, and create it again"):
        themed.retrieve("What is all of this about?", using="global")
    assert any("index communities" in problem for problem in themed.check())
    themed.drop_index("communities")


def test_words_of_deleted_documents_are_in_no_file_after_compact(make_store: MakeStore) -> None:
    store = make_store()
    with store.transaction() as transaction:
        for key, text in write_theme_documents(10).items():
            transaction.put(key, text)
    secret, name = "xylophonist", "Quizzenburg"
    store.put("secret", f"Captain Orlov and Professor {name} had a {secret} in the year 1904, and no other.")
    store.create_index("communities", SMALL)
    store.delete("secret")
    asked = store.retrieve(f"Who had a {secret}?", using="global")
    assert secret not in repr(asked.hits)
    store.compact()
    written = b"".join(file.read_bytes() for file in store.path.iterdir()).lower()
    assert secret.encode() not in written and name.lower().encode() not in written
    assert store.check() == []
    assert repr(store.retrieve(f"Who had a {secret}?", using="global").hits) == repr(asked.hits)
    store.refresh("communities")
    store.compact()
    with store.state() as state:
        communities = get_communities(state)
        assert communities is not None and any(communities.get_built_terms(range(len(communities))))


def test_a_snapshot_keeps_its_communities(themed: Store) -> None:
    with themed.snapshot() as snapshot, snapshot.state() as state:
        communities = get_communities(state)
        assert communities is not None
        texts = [get_community_text(state, communities, one) for one in range(len(communities))]
        themed.delete("harbour-1")
        themed.refresh("communities")
        assert texts == [get_community_text(state, communities, one) for one in range(len(communities))]
