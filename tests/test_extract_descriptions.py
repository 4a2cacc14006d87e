"""EXTRACT descriptions: what a model writes about entities is checked, shown, read by local, and gone with its text."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples
from model_server import PlannedResponse, Server, build_extract_answer, list_quoted_texts, stream_answer

import kvstore
from kvstore import errors
from kvstore.changes.dump import dump
from kvstore.models.structured import StructuredModel
from kvstore.storage import records
from kvstore.structures import tables
from kvstore.systems.descriptions.written_descriptions import WRITTEN_DESCRIPTIONS
from kvstore.systems.graphrag.community_tables import get_communities
from kvstore.systems.graphrag.community_writing import build_report_prompt

MakeStore = Callable[..., kvstore.Store]

TEXTS = {
    "fortune": "Robert Fortune was born in Kelloe. He took tea plants to Darjeeling.",
    "acme": "Maria Jensen founded Acme Corporation, with Robert Fortune. Tom Berg audits it.",
}
DESCRIPTIONS = {
    TEXTS["fortune"]: [
        ["Robert Fortune", "Robert Fortune was born in Kelloe."],
        ["Robert Fortune", "Robert Fortune took tea plants to Darjeeling."],
        ["Robert Fortune", "He took tea plants to Darjeeling."],
        ["Robert Fortune", "Robert Fortune founded Acme Corporation."],
        ["Darjeeling", "Robert Fortune was born in Kelloe."],
    ],
    TEXTS["acme"]: [["Maria Jensen", "Maria Jensen founded Acme Corporation."], ["Tom Berg", "Tom Berg audits it."]],
}
QUERY = "SELECT entity, text, document, written_by FROM descriptions ORDER BY document, text"


def write_descriptions(request: dict[str, Any]) -> PlannedResponse:
    return build_extract_answer(request, "descriptions", DESCRIPTIONS.__getitem__)


@pytest.fixture
def described_store(store: kvstore.Store, server: Server) -> kvstore.Store:
    server.respond = write_descriptions
    for key, text in TEXTS.items():
        store.put(key, text)
    store.create_index("communities", {"least": 2})
    store.refresh("communities")
    return store


def fetch_rows(store: kvstore.Store, query: str) -> list[tuple[Any, ...]]:
    return store.execute(query).fetchall()


def dump_contents(store: kvstore.Store) -> Any:
    with store.state() as state:
        return dump(state)


def test_supported_descriptions_are_stored_and_shown(described_store: kvstore.Store, server: Server) -> None:
    steps = described_store.explain("EXTRACT descriptions")
    assert [(step.name, step.count) for step in steps] == [("find passages", 2), ("choose", 2), ("ask model", 1)]
    assert server.requests == []
    ((kind, model, passages, *_),) = fetch_rows(described_store, "EXTRACT descriptions")
    assert (kind, model, passages) == ("descriptions", "tiny", 2)
    assert fetch_rows(described_store, QUERY) == [
        ("Maria Jensen", "Maria Jensen founded Acme Corporation.", "acme", "tiny"),
        ("Tom Berg", "Tom Berg audits it.", "acme", "tiny"),
        ("Robert Fortune", "Robert Fortune took tea plants to Darjeeling.", "fortune", "tiny"),
        ("Robert Fortune", "Robert Fortune was born in Kelloe.", "fortune", "tiny"),
    ]
    assert len(fetch_rows(described_store, "SELECT text FROM descriptions WHERE document = 'acme'")) == 2
    assert described_store.extract("descriptions").calls == 0
    assert dict(fetch_rows(described_store, "DESCRIBE DOCUMENT 'acme'"))["written_descriptions"] in (2, "2")


def test_local_reads_them_from_the_allowed_documents(described_store: kvstore.Store) -> None:
    question = "Where was Robert Fortune born?"
    assert described_store.retrieve(question, using="local").context == []
    described_store.extract("descriptions")
    lines = described_store.retrieve(question, using="local").context
    born = "Robert Fortune was born in Kelloe."
    assert lines[:2] == ["Robert Fortune took tea plants to Darjeeling.", born]
    assert born not in described_store.retrieve(question, using="local", where="key = 'acme'").context
    described_store.put("fortune", "Robert Fortune wrote books.")
    assert born not in described_store.retrieve(question, using="local").context


def test_an_export_has_them_and_a_wrong_line_is_reported(
    described_store: kvstore.Store, make_store: MakeStore, tmp_path: Path
) -> None:
    described_store.extract("descriptions")
    described_store.drop_index("communities")
    path = tmp_path / "all.jsonl"
    described_store.export(path)
    copy = make_store("copy")
    copy.import_(path)
    assert dump_contents(copy) == dump_contents(described_store)
    with path.open("a") as file:
        print(json.dumps({"descriptions": "acme", "passages": [[None, "given", ["no tab"]]]}), file=file)
    with pytest.raises(errors.InputError, match="a description is a name, a tab and a sentence"):
        copy.import_(path)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([], "has 0 entries; it must have at least 1"),
        ([["Robert Fortune"]], "has 1 entries; it must have at least 2"),
        ([["Robert Fortune", ""]], "must have at least 1"),
        ([["Robert Fortune", "Robert Fortune was born in"]], "not a whole sentence"),
        ([["Robert Fortune", "Robert Fortune was born and was born and was born and was born."]], "repeats"),
        ([["Zorro", "Zorro was born in Kelloe."]], "no sentence of the passages says"),
        ([["Robert Fortune", "Robert Fortune was not born in Kelloe."]], "no sentence of the passages says"),
        ([["Robert Fortune", "Robert Fortune took 300 tea plants to Darjeeling."]], "has the number 300"),
        ([["Ann Lee", "Ann Lee, born in Oslo, sings in the choir of Rome."]], "of the words of a description"),
        ([["Kelloe", f"{WRITTEN_DESCRIPTIONS.task[:95]}."]], "repeats the prompt"),
        ([["He", "He took tea plants to Darjeeling."]], "is not a name or a short term"),
        ([["was born", "Robert Fortune was born in Kelloe."]], "is not a name or a short term"),
        ([["Fort", "Robert Fortune was born in Kelloe."]], "lacks its name"),
        ([["Robert Fortune was born in Kelloe", "Robert Fortune was born in Kelloe."]], "but those of its name"),
    ],
)
def test_a_useless_answer_is_refused_with_its_reason(
    store: kvstore.Store, server: Server, items: list[list[str]], message: str
) -> None:
    server.respond = lambda request: build_extract_answer(request, "descriptions", lambda _: items)
    store.put("fortune", TEXTS["fortune"])
    report = store.extract("descriptions")
    assert (report.passages, report.calls, report.refused, report.left) == (0, 2, 2, 1)
    (failure,) = report.failures
    assert "document 'fortune'" in failure and message in failure
    assert message in server.requests[1]["messages"][-1]["content"], "the model gets the reason"
    assert fetch_rows(store, QUERY) == []


def test_requests_shrink_for_a_weak_model_and_a_loop_is_cut(store: kvstore.Store, server: Server) -> None:
    sizes: list[int] = []

    def write_weakly(request: dict[str, Any]) -> PlannedResponse:
        sizes.append(len(list_quoted_texts(request)))
        if sizes[-1] > 1:
            return stream_answer('{"passages": [{"passage": 1, "descriptions": [["Robert', *[" Robert"] * 500)
        return build_extract_answer(
            request, "descriptions", lambda text: [[" ".join(text.split()[:2]), text.partition(". ")[0] + "."]]
        )

    server.respond = write_weakly
    for number in range(8):
        store.put(f"d{number}", f"Robert Fortune{number} was born in Kelloe. He took tea to Darjeeling.")
    report = store.extract("descriptions")
    assert (report.passages, report.left, report.failures) == (8, 0, [])
    assert sizes[:4] == [8, 4, 2, 1] and report.received < 2000
    assert len(fetch_rows(store, QUERY)) == 8


MORE_TEXTS = {
    "bank": "Maria Jensen lends money to Tom Berg. Tom Berg owns a bank.",
    "choir": "Robert Fortune sang in Kelloe. Kelloe is near Darjeeling.",
    "travel": "Robert Fortune saw Darjeeling and Kelloe.",
    "meeting": "Tom Berg met Maria Jensen at Acme Corporation.",
}
BORN = "Robert Fortune was born in Kelloe."
TOOK = "Robert Fortune took tea plants to Darjeeling."


@pytest.fixture
def grouped_store(store: kvstore.Store, server: Server) -> kvstore.Store:
    """Return a store with communities, and descriptions of one of its documents."""
    server.respond = write_descriptions
    for key, text in (TEXTS | MORE_TEXTS).items():
        store.put(key, text)
    store.create_index("communities", {"least": 1})
    store.extract("descriptions", where="key = 'fortune'")
    return store


def write_report(request: dict[str, Any]) -> PlannedResponse:
    """Return a report whose summary and only finding repeat the first source."""
    _, first_source, *_ = list_quoted_texts(request)
    finding = {"summary": first_source, "explanation": first_source, "sources": [1]}
    return stream_answer(
        json.dumps({"title": "Robert Fortune", "summary": first_source, "rating": 5, "findings": [finding]})
    )


def write_reports(store: kvstore.Store, server: Server) -> list[list[str]]:
    """Write reports, and return the sources in each request for a report."""
    server.respond = write_report
    server.requests.clear()
    model = store.language_model("scribe")
    assert model is not None
    store._session.store.index_manager.refresh("communities", None, StructuredModel(model))
    return [list_quoted_texts(request)[1:] for request in server.requests]


def list_reports(store: kvstore.Store) -> list[str]:
    return [text for (text,) in fetch_rows(store, "SELECT text FROM communities WHERE written_by = 'scribe'")]


def test_a_report_is_written_from_descriptions_of_its_names(grouped_store: kvstore.Store, server: Server) -> None:
    detail = "2 descriptions of entities for the reports of a model"
    assert any(detail in step.detail for step in grouped_store.explain("REFRESH INDEX communities"))
    (sources,) = [sources for sources in write_reports(grouped_store, server) if sources[:2] == [TOOK, BORN]]
    assert TEXTS["fortune"] in sources[2:]
    assert f"{TOOK}\n{TOOK}" in list_reports(grouped_store)
    with grouped_store.state() as state:
        communities = get_communities(state)
        assert communities is not None
        number = communities.find("1/darjeeling")
        assert number is not None
        text = communities.get_written_text(number)
        assert text is not None
        (index,) = text.value["findings"][0]["sources"]
        assert communities.read_text(communities.list_sources(number)[index]) == TEXTS["fortune"]
        small_prompt = build_report_prompt(communities, number, 80)
        assert small_prompt is not None
        sent = small_prompt.messages[-1]["content"]
        assert TOOK in sent and BORN not in sent.replace(TEXTS["fortune"], "")
    assert write_reports(grouped_store, server) == []


def test_a_new_description_hides_no_report_but_is_used_by_refresh(store: kvstore.Store, server: Server) -> None:
    for key, text in (TEXTS | MORE_TEXTS).items():
        store.put(key, text)
    store.create_index("communities", {"least": 1})
    assert TOOK not in str(write_reports(store, server))
    reports = list_reports(store)
    server.respond = write_descriptions
    store.extract("descriptions", where="key = 'fortune'")
    assert list_reports(store) == reports
    assert TOOK in str(write_reports(store, server))
    assert len(list_reports(store)) == len(reports)


@pytest.mark.parametrize("change", ["delete", "put", "describe", "title"])
def test_a_report_is_hidden_with_a_description_that_it_used(
    grouped_store: kvstore.Store, server: Server, change: str
) -> None:
    write_reports(grouped_store, server)
    assert TOOK in str(list_reports(grouped_store))
    if change == "delete":
        grouped_store.delete("fortune")
    elif change == "put":
        grouped_store.put("fortune", "Robert Fortune was born in Kelloe. He wrote books.")
    elif change == "title":
        grouped_store.put("fortune", TEXTS["fortune"], title="A traveller")
    else:
        replace_descriptions(grouped_store, [f"Robert Fortune\t{BORN}"])
    assert TOOK not in str(list_reports(grouped_store))
    prompts = write_reports(grouped_store, server)
    assert prompts and TOOK not in str(prompts)
    assert any(sources[0] == BORN for sources in prompts) == (change == "describe")
    with grouped_store.state() as state:
        assert not any(TOOK.encode() in bytes(value) for _, value in state.lmdb.scan(tables.WRITTEN))
    assert grouped_store.check() == []


def replace_descriptions(store: kvstore.Store, lines: list[str]) -> None:
    """Replace the descriptions of the passage of document fortune."""
    with store.state() as state:
        document = state.documents.find_id("fortune")
        assert document is not None
        (digest,) = WRITTEN_DESCRIPTIONS.read(state, records.encode_u64(document))[1].by_digest
    with store.transaction() as transaction:
        value = WRITTEN_DESCRIPTIONS.parse_fields([[digest.hex(), "tiny", lines]])
        transaction._put_fact(WRITTEN_DESCRIPTIONS, "fortune", value)


def test_the_digests_of_reports_do_not_depend_on_history(
    grouped_store: kvstore.Store, make_store: MakeStore, server: Server
) -> None:
    def list_digests(store: kvstore.Store) -> list[bytes]:
        store.refresh("communities")
        with store.state() as state:
            communities = get_communities(state)
            assert communities is not None
            return [communities.get(number).content_digest for number in range(len(communities))]

    grouped_store.extract("descriptions", where="key = 'acme'")
    described = list_digests(grouped_store)
    other = make_store("other")
    other.create_index("communities", {"least": 1})
    other.put("acme", TEXTS["fortune"])
    other.extract("descriptions")
    for key, text in reversed((TEXTS | MORE_TEXTS).items()):
        other.put(key, text)
    undescribed = list_digests(other)
    other.extract("descriptions", where="key IN ('acme', 'fortune')")
    assert list_digests(other) == described != undescribed


def test_a_restricted_query_reads_no_report_from_other_descriptions(
    grouped_store: kvstore.Store, server: Server
) -> None:
    write_reports(grouped_store, server)
    for condition, expected in [(None, True), ("key = 'fortune'", False), ("key <> 'fortune'", False)]:
        hits = grouped_store.retrieve("Robert Fortune", using="global", where=condition).hits
        assert any(TOOK in hit.text for hit in hits) == expected


WORDS = st.sampled_from(["Ada Lovelace met Charles Babbage.", "Ada Lovelace wrote notes.", "Tea grows in Assam."])
CHANGES = st.lists(
    st.tuples(st.sampled_from(["put", "describe", "delete"]), st.sampled_from("abc"), WORDS), min_size=1, max_size=12
)


@settings(max_examples=num_examples(100), deadline=None)
@given(CHANGES)
def test_descriptions_are_dropped_with_their_text(changes: list[tuple[str, str, str]]) -> None:
    """After any changes, a store equals a new one of the surviving texts and of what was written about them."""
    texts: dict[str, str] = {}
    described: dict[str, list[str]] = {}
    options: dict[str, Any] = {"embedder": "hashing:16", "settings": {"language": "rules"}}

    def describe(store: kvstore.Store, key: str, lines: list[str]) -> None:
        with store.transaction() as transaction:
            transaction._put_fact(WRITTEN_DESCRIPTIONS, key, WRITTEN_DESCRIPTIONS.parse_fields([[None, "tiny", lines]]))

    with (
        tempfile.TemporaryDirectory() as folder,
        kvstore.open(Path(folder) / "old", **options) as store,
        kvstore.open(Path(folder) / "new", **options) as new,
    ):
        for action, key, words in changes:
            if action == "put":
                if texts.get(key) != words:
                    described.pop(key, None)
                texts[key] = words
                store.put(key, words)
            elif key in texts and action == "delete":
                store.delete(key)
                del texts[key]
                described.pop(key, None)
            elif key in texts:
                described[key] = [f"Ada Lovelace\t{words}"]
                describe(store, key, described[key])
        for key, text in texts.items():
            new.put(key, text)
        for key, lines in described.items():
            describe(new, key, lines)
        assert dump_contents(store) == dump_contents(new)
        documents = {document for (document,) in fetch_rows(store, "SELECT document FROM descriptions")}
        assert documents == described.keys()
        assert store.check() == []
