"""Strategy ``archrag``: entities and communities of every layer, what they lead to, and the file they are found in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from model_server import PlannedResponse, Server, stream_answer
from theme_texts import THEMES, write_theme_documents, write_theme_text

from kvstore import Store
from kvstore.errors import IndexUnavailableError, InputError
from kvstore.retrieval.evidence import Evidence
from kvstore.storage import index_file
from kvstore.structures.indexes.index_reading import bind_index
from kvstore.systems.archrag import layer_index
from kvstore.systems.archrag.layer_index import COMMUNITY_GRAPH

MakeStore = Callable[..., Store]
SMALL = {"least": 2, "neighbours": "knn"}
QUESTION = "Who was joined with Lake Tarn in the orchard?"
OVERVIEW = "What do people remember of the railway?"


@contextmanager
def enable_links() -> Iterator[None]:
    """Build the file with links within the block, although there are few nodes."""
    with mock.patch.object(layer_index, "_EXACT_BELOW", 0), mock.patch.object(layer_index, "_NUM_LINKS", 4):
        yield


def fill_with_themes(store: Store) -> None:
    with store.transaction() as transaction:
        for key, text in write_theme_documents(10).items():
            transaction.put(key, text)
    store.create_index("communities", SMALL)


@pytest.fixture
def themed_store(copy_store: MakeStore) -> Store:
    """Return a store of texts on four themes, with their communities."""
    return copy_store(fill_with_themes)


def ask(store: Any, question: str = QUESTION, **clauses: Any) -> Evidence:
    evidence: Evidence = store.retrieve(question, using="archrag", **clauses)
    return evidence


def describe_evidence(evidence: Evidence) -> list[tuple[Any, ...]]:
    """Return the parts of evidence that do not depend on internal ids."""
    return [
        (hit.document, hit.ordinal, hit.text, hit.path, round(hit.score, 6), hit.kind, hit.spans)
        for hit in evidence.hits
    ]


def find_step(evidence: Evidence, name: str) -> str:
    return next(step.detail for step in evidence.steps if step.name == name)


def get_index_state(store: Store) -> tuple[str, str]:
    """Return the state of the index file."""
    rows = {row[0]: row for row in store.execute("SHOW INDEXES").fetchall()}
    return rows["community_graph"][1], rows["community_graph"][4]


def test_entities_and_communities_of_every_layer_lead_to_passages_and_reports(themed_store: Store) -> None:
    evidence = ask(themed_store)
    chunks = [hit for hit in evidence.hits if hit.kind == "chunk"]
    assert len(evidence.hits) == 8 and {hit.document.partition("-")[0] for hit in chunks[:4]} == {"orchard"}
    assert [hit.rank for hit in evidence.hits if hit.kind == "report"] == [8]
    assert [hit.rank for hit in evidence.hits] == list(range(1, 9))
    names = "|".join(THEMES["orchard"])
    assert all('community "' in hit.path and "(level " in hit.path for hit in chunks[:4])
    assert any(hit.path.rpartition(" → ")[2] in names for hit in chunks[:4])
    entities, *layer_titles = [group.title for group in evidence.groups]
    assert entities == "entities" and all(title.startswith("communities of level ") for title in layer_titles)
    assert sorted(place for group in evidence.groups for place in group.hits) == list(range(8))
    assert find_step(evidence, "descend layers").endswith("layers, exact search, because they are few")
    more = ask(themed_store, options={"reports": 0.25})
    assert [hit.rank for hit in more.hits if hit.kind == "report"] == [4, 8]


def test_the_index_is_asked_for(make_store: MakeStore) -> None:
    store = make_store()
    store.put("one", "Port Ellery is a harbour.")
    with pytest.raises(InputError, match="CREATE INDEX communities"):
        ask(store)
    store.create_index("communities")
    assert [hit.document for hit in ask(store, "What is Port Ellery?").hits] == ["one"]
    for options in ("k = 0", "share = -1", "reports = 1", "depth = 1"):
        with pytest.raises(InputError, match="archrag"):
            store.execute(f"RETRIEVE 'x' USING archrag WITH ({options})")


def test_reports_and_layers_can_be_left_out(themed_store: Store) -> None:
    evidence = ask(themed_store, options={"reports": 0})
    assert {hit.kind for hit in evidence.hits} == {"chunk"} and len(evidence.groups) == 1
    only_names = ask(themed_store, options={"levels": 0})
    assert {hit.kind for hit in only_names.hits} == {"chunk"}
    hybrid = [hit.document for hit in themed_store.retrieve(QUESTION, using="hybrid").hits]
    assert [hit.document for hit in ask(themed_store, options={"share": 0, "reports": 0}).hits] == hybrid
    assert len(ask(themed_store, top=1).hits) == 1


def test_a_node_is_a_reason_only_if_it_adds_to_the_score(themed_store: Store) -> None:
    without = ask(themed_store, options={"share": 0, "reports": 0}).hits
    assert not any("community" in hit.path for hit in without if "#" in hit.path)
    with_share = [hit for hit in ask(themed_store, options={"reports": 0}).hits if "community" in hit.path]
    assert any(hit.path.startswith("vector #") and "; community " in hit.path for hit in with_share)


def test_within_and_where_hold_for_passages_and_reports(themed_store: Store) -> None:
    from kvstore.text.words import count_text_tokens

    evidence = ask(themed_store, within=120)
    assert evidence.hits and sum(count_text_tokens(hit.text) for hit in evidence.hits) <= 120
    evidence = ask(themed_store, where="key LIKE 'harbour-%'")
    assert evidence.hits
    assert {span.document.partition("-")[0] for hit in evidence.hits for span in hit.spans} == {"harbour"}


def test_without_a_model_an_answer_has_the_best_sentences_of_each_layer(themed_store: Store) -> None:
    answer = themed_store.ask(OVERVIEW, using="archrag")
    groups = answer.evidence.groups
    assert answer.extractive and 1 < len(answer.citations) <= len(groups)
    assert answer.citations[0].kind == "chunk" and answer.citations[-1].kind == "report"
    assert all(citation.text for citation in answer.citations)


# -- The file


def test_with_links_the_same_is_found_as_without(themed_store: Store, make_store: MakeStore) -> None:
    linked = make_store("linked")
    with linked.transaction() as transaction:
        for key, text in write_theme_documents(10).items():
            transaction.put(key, text)
    with enable_links():
        linked.create_index("communities", SMALL)
    assert "graph search" in get_index_state(linked)[1] and "exact search" in get_index_state(themed_store)[1]
    for question in (QUESTION, OVERVIEW):
        assert describe_evidence(ask(linked, question)) == describe_evidence(ask(themed_store, question))


def test_the_file_cannot_be_created_by_itself(make_store: MakeStore) -> None:
    store = make_store()
    with pytest.warns(FutureWarning, match="communities: the option m no longer has any effect"):
        store.execute("CREATE INDEX communities WITH (m = 3)")
    with pytest.raises(InputError, match="dropped together with communities; use communities"):
        store.execute("CREATE INDEX community_graph")


def test_without_its_index_file_a_store_answers_the_same_or_names_the_file(
    themed_store: Store, make_store: MakeStore
) -> None:
    expected = describe_evidence(ask(themed_store))
    path = themed_store.path / "community_graph.index"
    content = path.read_bytes()
    vectors = index_file.read(path, path.stem, lambda token: True)[1]["vectors"].tobytes()
    place = content.index(vectors)
    corrupted = content[:place] + bytes(len(vectors)) + content[place + len(vectors) :]
    # Lost, cut, and damaged where it is known only once it is met.
    for kind in ("lost", "cut", "inside"):
        damaged = {"lost": None, "cut": content[: len(content) // 2], "inside": corrupted}[kind]
        themed_store.close()
        path.unlink()
        if damaged is not None:
            path.write_bytes(damaged)
        themed_store = make_store()
        evidence = ask(themed_store)
        detail = find_step(evidence, "descend layers")
        assert describe_evidence(evidence) == expected and "built in memory" in detail and "REFRESH" in detail
        # It is not known what the file said once something has changed since.
        themed_store.close()
        themed_store = make_store()
        themed_store.put("more", "Nothing of note.")
        with pytest.raises(IndexUnavailableError, match="REFRESH INDEX communities"):
            ask(themed_store)
        themed_store.delete("more")
        themed_store.refresh("communities")
        assert describe_evidence(ask(themed_store)) == expected
        content = path.read_bytes()
        place = content.index(vectors)
        corrupted = content[:place] + bytes(len(vectors)) + content[place + len(vectors) :]
    themed_store.execute("DROP INDEX communities")
    assert not path.exists()
    with enable_links():
        themed_store.create_index("communities", SMALL)
        path.unlink()
        themed_store.close()
        with pytest.raises(IndexUnavailableError, match="its file is missing"):
            ask(make_store())


def test_a_snapshot_remains_usable_while_a_newer_file_replaces_its_own(themed_store: Store) -> None:
    with themed_store.snapshot() as snapshot:
        hits = ask(snapshot)
        themed_store.delete("railway-1")
        themed_store.refresh("communities")
        later_hits = ask(snapshot)
        assert "built in memory" in find_step(later_hits, "descend layers")
        assert describe_evidence(later_hits) == describe_evidence(hits)
    assert "built in memory" not in find_step(ask(themed_store), "descend layers")


def test_a_file_as_new_as_the_communities_is_not_rebuilt(themed_store: Store) -> None:
    path = themed_store.path / "community_graph.index"
    number = path.stat().st_ino
    themed_store.refresh("communities")
    assert path.stat().st_ino == number
    themed_store.put("more", write_theme_text("theatre", 77))
    themed_store.refresh("communities")
    assert path.stat().st_ino != number and get_index_state(themed_store)[0] == "ready"
    with themed_store.state() as state:
        graph = bind_index(state, COMMUNITY_GRAPH)
        assert graph is not None and graph.change == state.counters.change


# -- The laws


def test_a_new_document_is_found_and_a_deleted_one_is_not_without_refresh(themed_store: Store) -> None:
    themed_store.put("new", "Lake Tarn was joined with the xylographic Society of Brunnen in the orchard.")
    evidence = ask(themed_store, "What is xylographic and was joined with Lake Tarn?")
    assert evidence.hits[0].document == "new"
    themed_store.refresh("communities")
    themed_store.delete("new")
    for question in (QUESTION, "What is xylographic?", "Society of Brunnen"):
        answer = themed_store.ask(question, using="archrag")
        output = repr((answer.evidence.hits, answer.evidence.abstracts, answer.evidence.groups, answer.citations))
        assert "xylographic" not in output and "Brunnen" not in output
        assert "was joined with the" not in answer.text
    # A whole theme gone: its entities and communities lead nowhere, others come in their place.
    for key in [key for key in themed_store.keys("") if key.startswith("orchard")]:
        themed_store.delete(key)
    evidence = ask(themed_store)
    assert evidence.hits and "orchard" not in {hit.document.partition("-")[0] for hit in evidence.hits}
    assert not any(name in repr(evidence.hits) for name in THEMES["orchard"])
    for key in list(themed_store.keys("")):
        themed_store.delete(key)
    assert ask(themed_store).hits == []


def assert_history(make_store: MakeStore, name: str, changes: list[tuple[str, str, int]]) -> None:
    """Check that deleted text never appears, new text is found, and answers after REFRESH are those of a new store."""
    with enable_links() if len(changes) % 2 else nullcontext():
        assert_changes(make_store, name, changes)


def assert_changes(make_store: MakeStore, name: str, changes: list[tuple[str, str, int]]) -> None:
    store = make_store(name)
    store.create_index("communities", SMALL)
    texts: dict[str, str] = {}
    for change, (kind, theme, number) in enumerate(changes):
        key = f"{theme}-{number % 6}"
        if kind == "put":
            texts[key] = f"{write_theme_text(theme, number)} Mark{change}x was here with Token{change}x."
            store.put(key, texts[key])
            assert key in {hit.document for hit in ask(store, f"Who was here with Token{change}x?").hits}
        elif kind == "delete" and key in texts:
            del texts[key]
            store.delete(key)
        elif kind == "refresh":
            store.refresh("communities")
        output = repr([(answer.text, answer.evidence.hits) for answer in [store.ask(OVERVIEW, using="archrag")]])
        present = " ".join(texts.values())
        marks = {f"{word}{at}x" for at in range(len(changes)) for word in ("Mark", "Token")}
        assert not [mark for mark in marks if mark in output and mark not in present]
    store.refresh("communities")
    fresh_store = make_store(f"{name}-fresh")
    for key, text in sorted(texts.items()):
        fresh_store.put(key, text)
    fresh_store.create_index("communities", SMALL)
    for question in (QUESTION, OVERVIEW, "Captain Orlov and the harbour"):
        assert describe_evidence(ask(store, question)) == describe_evidence(ask(fresh_store, question))
        assert store.ask(question, using="archrag").text == fresh_store.ask(question, using="archrag").text
    for each_store in (store, fresh_store):
        assert each_store.check() == []
        each_store.close()


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "delete", "refresh"]), st.sampled_from([*THEMES][:3]), st.integers(0, 30)
    ),
    max_size=20,
)


def check_histories(make_store: MakeStore, examples: int) -> None:
    number = iter(range(10**6))

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(CHANGES)
    def check(changes: list[tuple[str, str, int]]) -> None:
        assert_history(make_store, f"store{next(number)}", changes)

    check()


def test_random_histories(make_store: MakeStore) -> None:
    check_histories(make_store, 4)


@pytest.mark.slow
def test_many_random_histories(make_store: MakeStore) -> None:
    check_histories(make_store, 100)


# -- Adaptive filtering


def use_model(store: Store, server: Server) -> None:
    for name, value in {"base_url": server.url, "model": "stub", "least_confidence": 0, "answer_cache": False}.items():
        store.set(name, value)


def answer_with_point(request: dict[str, Any]) -> PlannedResponse:
    """Answer with a point from the first passage of each prompt; later requests return more."""
    name = request.get("response_format", {}).get("json_schema", {}).get("name")
    if name != "points":
        return stream_answer("They remember it [1].")
    user = request["messages"][1]["content"]
    score = 10 if "was joined" in user else 90
    points = [{"description": "A point.", "score": score, "sources": [1]}]
    return stream_answer(
        json.dumps({"points": [*points, {"description": "Nobody says so.", "score": 99, "sources": [99]}]})
    )


def test_with_a_model_each_layer_is_filtered_in_one_call_and_the_points_are_merged_in_one(
    themed_store: Store, server: Server
) -> None:
    use_model(themed_store, server)
    server.respond = answer_with_point
    answer = themed_store.ask(OVERVIEW, using="archrag")
    assert (answer.text, answer.model, answer.problem) == ("They remember it [1].", "stub", None)
    with themed_store.state() as state:
        graph = bind_index(state, COMMUNITY_GRAPH)
        assert graph is not None
        layers = len(graph.nodes)
    assert len(server.requests) == layers + 1 >= 3
    # The merge sees points and what they were taken from, and no answer that the model gave without any.
    merge = server.requests[-1]["messages"][1]["content"]
    assert "A point. (importance 90)" in merge or "A point. (importance 10)" in merge
    assert "Nobody says so" not in merge
    assert answer.citations[0].document.partition("-")[0] in THEMES
    steps = [step.name for step in answer.evidence.steps]
    assert steps.count("points of passages") == layers


def test_a_model_that_finds_nothing_in_any_layer_leaves_an_extractive_answer(
    themed_store: Store, server: Server
) -> None:
    use_model(themed_store, server)
    server.respond = lambda request: stream_answer(json.dumps({"points": []}))
    answer = themed_store.ask(OVERVIEW, using="archrag")
    assert answer.extractive and answer.problem is not None and answer.citations


def test_the_file_of_a_store_that_was_moved_is_used(themed_store: Store, make_store: MakeStore, tmp_path: Path) -> None:
    evidence = describe_evidence(ask(themed_store))
    themed_store.close()
    (tmp_path / "store").rename(tmp_path / "elsewhere")
    moved = make_store("elsewhere")
    assert describe_evidence(ask(moved)) == evidence and "in memory" not in find_step(ask(moved), "descend layers")
