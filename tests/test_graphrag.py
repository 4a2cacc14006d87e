"""GraphRAG's searches over communities: local, global and drift, without a language model and with one."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from model_server import PlannedResponse, Server, stream_answer
from theme_texts import THEMES, write_theme_documents, write_theme_text

from kvstore import Store
from kvstore.errors import InputError
from kvstore.retrieval.evidence import Evidence, Hit
from kvstore.structures.documents.documents import Documents
from kvstore.text.words import count_text_tokens

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
from bench_reads import measure_strategy

STRATEGIES = ("local", "global", "drift")
QUESTION = "What did Captain Orlov and the Kestrel Ferry have to do with each other?"


def put_themes(store: Store) -> None:
    with store.transaction() as transaction:
        for key, text in write_theme_documents(10).items():
            transaction.put(key, text)
    store.create_index("communities", {"least": 2})


@pytest.fixture
def theme_store(copy_store: Callable[..., Store]) -> Store:
    """Return a store of texts on four themes, and their communities."""
    return copy_store(put_themes)


def _list_themes(hit: Hit) -> set[str]:
    return {span.document.partition("-")[0] for span in hit.spans}


def _join_texts(evidence: Evidence) -> str:
    return repr((evidence.hits, evidence.context, evidence.abstracts, [step.detail for step in evidence.steps]))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_without_communities_the_statement_that_makes_them_is_named(store: Store, strategy: str) -> None:
    store.put("one", "Port Ellery is a harbour.")
    with pytest.raises(InputError, match=f"{strategy} needs the index communities; create it with: CREATE INDEX"):
        store.retrieve("Where is Port Ellery?", using=strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_hit_has_the_text_of_its_spans(theme_store: Store, strategy: str) -> None:
    evidence = theme_store.retrieve(QUESTION, using=strategy, top=7)
    assert 0 < len(evidence.hits) <= 7
    assert [hit.rank for hit in evidence.hits] == list(range(1, len(evidence.hits) + 1))
    for hit in evidence.hits:
        places = [theme_store.get(span.document).text.encode()[span.start : span.end].decode() for span in hit.spans]
        assert hit.text == "\n".join(places) and hit.path
    assert _list_themes(evidence.hits[0]) == {"harbour"}
    assert {hit.kind for hit in evidence.hits} == ({"report"} if strategy == "global" else {"chunk", "report"})
    assert evidence.hits == theme_store.retrieve(QUESTION, using=strategy, top=7).hits


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_where_and_within_limit_every_kind_of_hit(theme_store: Store, strategy: str) -> None:
    evidence = theme_store.retrieve(QUESTION, using=strategy, where="key LIKE 'railway%'")
    assert evidence.hits and all(_list_themes(hit) == {"railway"} for hit in evidence.hits)
    for within in (12, 60, 200):
        hits = theme_store.retrieve(QUESTION, using=strategy, within=within).hits
        assert sum(count_text_tokens(hit.text) for hit in hits) <= within
    assert theme_store.retrieve(QUESTION, using=strategy, within=200).hits
    assert not theme_store.retrieve(QUESTION, using=strategy, where="key = 'none'").hits


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_deleted_word_is_never_shown_and_a_new_document_is_found_at_once(theme_store: Store, strategy: str) -> None:
    theme_store.put("secret", "Captain Orlov met the Kestrel Ferry in a xylographic quintessence of Port Ellery.")
    theme_store.refresh("communities")
    theme_store.delete("secret")
    assert "xylographic" not in _join_texts(theme_store.retrieve(QUESTION, using=strategy, top=20))
    theme_store.put("new", "The zymurgy of Harwick Glen is praised by everybody in the trade.")
    hits = theme_store.retrieve("Who praises the zymurgy of Harwick Glen?", using=strategy).hits
    assert any(span.document == "new" for hit in hits for span in hit.spans)
    hits = theme_store.retrieve("What of Captain Orlov?", using=strategy, where="key = 'new'").hits
    assert [span.document for hit in hits for span in hit.spans] == ["new"]


def test_local_starts_at_the_names_of_the_question(theme_store: Store) -> None:
    evidence = theme_store.retrieve("Captain Orlov?", using="local", options={"entities": 1})
    chunks = [hit for hit in evidence.hits if hit.kind == "chunk"]
    names = [(hit.path, "Captain Orlov" in hit.text) for hit in chunks]
    assert names[0] == ("names captain orlov", True)
    assert {*names} <= {("names captain orlov", True), ("near the question", False)}
    report = evidence.hits[6]  # 1 / 0.15, rounded up, is rank 7
    assert (
        report.kind == "report" and report.path == "community of captain orlov" and _list_themes(report) == {"harbour"}
    )
    without = theme_store.retrieve("Captain Orlov?", using="local", options={"entities": 1, "reports": 0})
    assert {hit.kind for hit in without.hits} == {"chunk"}
    theme_store.put_edge("Captain Orlov", "Port Ellery", tree="harbours")
    assert any("Orlov" in line for line in theme_store.retrieve("Captain Orlov?", using="local").context)
    nothing = theme_store.retrieve("xyzzy", using="local")
    assert nothing.hits


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_cached_data_changes_no_answer(theme_store: Store, make_store: Callable[..., Store], strategy: str) -> None:
    questions = [QUESTION, "What is all of this about?", "Who was seen with Actress Soane?"]
    theme_store.put("more", "Captain Orlov sold the Kestrel Ferry to Actress Soane, who is a captain's daughter.")
    for gone in (None, "harbour-3", "theatre-1", "more"):
        if gone is not None:
            theme_store.delete(gone)
        warm = [_join_texts(theme_store.retrieve(question, using=strategy)) for question in questions for _ in range(2)]
        theme_store.close()
        theme_store = make_store()
        assert warm == [
            _join_texts(theme_store.retrieve(question, using=strategy)) for question in questions for _ in range(2)
        ]


def _make_town(make_store: Callable[..., Store], name: str, people: int) -> Store:
    """Return a store of people who each met the next one and one of a few mayors, and their communities."""
    store = make_store(name)
    with store.transaction() as transaction:
        for number in range(people):
            person, neighbor, mayor = f"Person Nr{number}", f"Person Nr{(number + 1) % people}", f"Mayor Nr{number % 5}"
            transaction.put(
                str(number), f"{person} met {neighbor} at the market. {person} was a friend of {mayor} for years."
            )
    store.create_index("communities", {"least": 2})
    return store


def test_a_community_of_many_costs_global_no_more_reads(make_store: Callable[..., Store]) -> None:
    town = _make_town(make_store, "town", 240)
    question = "What did Mayor Nr3 do at the market?"
    reports = town.retrieve(question, using="global").pool
    assert measure_strategy(town, "global", [question])["reads"] < 60 * reports


def test_global_reads_all_reports_in_one_round(theme_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    read_text_slices = Documents.read_text_slices

    def count_reads(self: Documents, places: Any) -> Any:
        read.append(len(places))
        return read_text_slices(self, places)

    monkeypatch.setattr(Documents, "read_text_slices", count_reads)
    assert measure_strategy(theme_store, "global", [QUESTION])["reads"] < 200
    read.clear()
    theme_store.retrieve(QUESTION, using="global", top=1)
    assert sum(read) < 10
    theme_store.put("harbour-1", write_theme_text("harbour", 90))
    assert measure_strategy(theme_store, "global", [QUESTION])["reads"] < 300
    assert sum(read) > 20
    read.clear()
    theme_store.retrieve("Which orchard did Farmer Quill write of?", using="global", top=1)
    assert sum(read) < 10


def test_global_gives_the_same_from_stored_terms_and_from_reports(theme_store: Store) -> None:
    questions = (QUESTION, "Which orchard did Farmer Quill write of?", "What is all of this about?")
    stored = [_join_texts(theme_store.retrieve(question, using="global")) for question in questions]
    theme_store.put("passing", "A visitor saw nothing here.")
    theme_store.delete("passing")  # the store has changed since the communities were built
    assert [_join_texts(theme_store.retrieve(question, using="global")) for question in questions] == stored


def test_global_has_every_theme_for_a_question_on_all(theme_store: Store) -> None:
    evidence = theme_store.retrieve("What is all of this about?", using="global", top=8, within=400)
    assert {theme for hit in evidence.hits for theme in _list_themes(hit)} == set(THEMES)
    coarse = theme_store.retrieve("What is all of this about?", using="global", options={"levels": 0})
    assert {hit.heading.partition("/")[0] for hit in coarse.hits} == {"0"}


# With a language model ------------------------------------------------------------------------------------------------


def _answer_points(request: dict[str, Any]) -> PlannedResponse:
    """Rate passages with Orlov, make a point of each, ask one further question, and answer from the first point."""
    user = request["messages"][1]["content"]
    name = request.get("response_format", {}).get("json_schema", {}).get("name")
    passages = dict(re.findall(r"^\[(\d+)\][^\n]*\n<<\w+\n(.*?)\n\w+>>$", user, re.DOTALL | re.MULTILINE))
    relevant = [int(number) for number, text in passages.items() if "Orlov" in text]
    if name == "ratings":
        return stream_answer(json.dumps({"ratings": [{"passage": number, "rating": 4} for number in relevant]}))
    if name == "points":
        points = [{"description": f"Point {n}.", "score": 50 + n, "sources": [n, 999]} for n in relevant]
        questions = {"questions": ["What of Dock Marston?"]} if "further questions" in user + str(request) else {}
        return stream_answer(json.dumps({"points": points, **questions}))
    return stream_answer("They were seen together [1].")


@pytest.fixture
def model_store(theme_store: Store, server: Server) -> Store:
    for name, value in {"base_url": server.url, "model": "stub", "least_confidence": 0, "answer_cache": False}.items():
        theme_store.set(name, value)
    server.respond = _answer_points
    return theme_store


def test_global_answers_from_the_points_of_the_reports_that_a_model_rates(model_store: Store, server: Server) -> None:
    answer = model_store.ask(QUESTION, using="global")
    assert (answer.text, answer.problem) == ("They were seen together [1].", None)
    assert answer.citations[0].kind == "report" and answer.evidence.points
    assert all(_list_themes(hit) == {"harbour"} for hit in answer.evidence.hits)
    steps = [step.name for step in answer.evidence.steps]
    assert steps.index("rate passages") < steps.index("points of passages")


def test_drift_follows_the_questions_that_a_model_asks(model_store: Store, server: Server) -> None:
    answer = model_store.ask(QUESTION, using="drift", options={"rounds": 1})
    assert answer.problem is None and answer.evidence.points
    followed = [r["messages"][1]["content"] for r in server.requests if "What of Dock Marston?" in str(r["messages"])]
    assert len(followed) == 1
    server.requests.clear()
    model_store.ask(QUESTION, using="drift", options={"rounds": 0})
    assert len(server.requests) == 2


def test_local_needs_no_further_call(model_store: Store, server: Server) -> None:
    assert model_store.ask(QUESTION, using="local").text == "They were seen together [1]."
    assert len(server.requests) == 1
