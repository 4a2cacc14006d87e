"""Distillation: a strategy whose evidence a language model reads in parts before it answers; from outside."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from model_server import PlannedResponse, Server, make_refusal, stream_answer

import kvstore
from kvstore.arguments import Option
from kvstore.registry import register
from kvstore.registry.contract import System
from kvstore.retrieval.dense_search import rank_by_vector
from kvstore.retrieval.distillation import Distiller, build_distilled_evidence
from kvstore.retrieval.evidence import Evidence
from kvstore.retrieval.query import Query, evidence_of

QUESTION = "Which colour do the boats of Brunnen have?"
TEXTS = {
    "boats": "The boats of Brunnen are painted green every spring.",
    "harbour": "The harbour of Brunnen has room for forty boats.",
    "museum": "The museum of Brunnen shows boats and a colour chart.",
}


class CarefulStrategy:
    """A strategy that reads each passage separately and asks the follow-up questions of the model."""

    name = "careful"
    description = "reads every passage by itself"
    options: Mapping[str, Option] = {}

    def retrieve(self, query: Query) -> Evidence:
        return evidence_of(query, self.name, rank_by_vector(query, query.reach), "near", 3)

    def distill(self, evidence: Evidence, distiller: Distiller) -> Evidence:
        points = []
        for hit, rating in zip(evidence.hits, distiller.rate_passages(evidence.question, evidence.hits), strict=True):
            if rating:
                reading = distiller.extract_points(evidence.question, [hit], num_questions=1)
                points += reading.points
                for question in reading.questions:
                    points += distiller.extract_points(evidence.question, distiller.retrieve(question).hits[:1]).points
        return build_distilled_evidence(evidence, points, distiller.trace)


@pytest.fixture
def careful_strategy() -> Iterator[None]:
    take_back = register(System("careful", "of no paper", strategies=(CarefulStrategy(),)))
    yield
    take_back()


@pytest.fixture
def lake_store(store: kvstore.Store, server: Server, careful_strategy: None) -> kvstore.Store:
    for key, text in TEXTS.items():
        store.put(key, text)
    for name, value in {"base_url": server.url, "model": "stub", "least_confidence": 0, "answer_cache": False}.items():
        store.set(name, value)
    return store


def make_answer_function(
    *, rating: int = 5, number: int = 1, ask: Sequence[str] = ()
) -> Callable[[dict[str, Any]], PlannedResponse]:
    """Return a function that answers like a model that finds one point in passages about green boats."""

    def answer(request: dict[str, Any]) -> PlannedResponse:
        system, user = (message["content"] for message in request["messages"][:2])
        name = request.get("response_format", {}).get("json_schema", {}).get("name")
        if name == "ratings":
            count = user.count("\n[") + user.startswith("[")
            return stream_answer(
                json.dumps({"ratings": [{"passage": n, "rating": rating} for n in range(1, count + 1)]})
            )
        if name == "points":
            point = {"description": "The boats are\ngreen.", "score": 90, "sources": [number, 7]}
            points = [point] if "green" in user else []
            questions = {"questions": list(ask)} if "further questions" in system else {}
            return stream_answer(json.dumps({"points": points, **questions}))
        return stream_answer("They are green [1].")

    return answer


def test_an_answer_is_written_from_the_points_and_cites_their_passages(
    lake_store: kvstore.Store, server: Server
) -> None:
    server.respond = make_answer_function()
    answer = lake_store.ask(QUESTION, using="careful")
    assert (answer.text, answer.model, answer.problem) == ("They are green [1].", "stub", None)
    assert [citation.document for citation in answer.citations] == ["boats"]
    assert answer.evidence.points == ["The boats are green. (importance 90)"]
    assert [hit.document for hit in answer.evidence.hits] == ["boats"]
    last_prompt = server.requests[-1]["messages"][1]["content"]
    assert "Points:\n<<" in last_prompt and "harbour" not in last_prompt
    names = [step.name for step in answer.evidence.steps]
    assert names.count("rate passages") == 1 and names.count("points of passages") == 3
    assert len(server.requests) == 5  # one rates, three read, one answers


def test_unsupported_or_unimportant_sentences_are_left_out(lake_store: kvstore.Store, server: Server) -> None:
    server.respond = make_answer_function(number=4)
    answer = lake_store.ask(QUESTION, using="careful")
    assert answer.extractive and answer.model is None
    assert answer.problem is not None and "'stub' found nothing about this question in the evidence." in answer.problem
    server.respond = make_answer_function(rating=0)
    server.requests.clear()
    assert lake_store.ask(QUESTION, using="careful").extractive
    assert len(server.requests) == 1


def test_a_question_of_the_model_is_asked_of_the_store(lake_store: kvstore.Store, server: Server) -> None:
    server.respond = make_answer_function(ask=["Which colour are the boats painted?", "and another"])
    answer = lake_store.ask(QUESTION, using="careful")
    assert len(server.requests) == 8
    assert any("asked next: Which colour are the boats painted?" in step.detail for step in answer.evidence.steps)


def test_a_model_that_gives_no_json_twice_or_is_down_leaves_an_extractive_answer(
    lake_store: kvstore.Store, server: Server
) -> None:
    server.respond = lambda request: stream_answer("I would rather not.")
    answer = lake_store.ask(QUESTION, using="careful")
    assert answer.extractive and "rather not" not in answer.text
    assert len(server.requests) == 2
    server.respond = lambda request: make_refusal(503, "busy")
    lake_store.set("attempts", 1)
    answer = lake_store.ask(QUESTION, using="careful")
    assert answer.extractive and answer.problem is not None and "503" in answer.problem


def test_explain_analyze_shows_the_prompts_of_the_model(lake_store: kvstore.Store, server: Server) -> None:
    server.respond = make_answer_function()
    rows = lake_store.execute(f"EXPLAIN ANALYZE ASK '{QUESTION}' USING careful").fetchall()
    assert [row[0] for row in rows].count("points of passages") == 3
