"""Several questions or strategies in one RETRIEVE: fused by rank, explained, with the clauses of any strategy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from theme_texts import THEMES, write_theme_documents

from kvstore import Store
from kvstore.errors import InputError, StatementError, UnknownStrategyError
from kvstore.retrieval.evidence import Evidence
from kvstore.text.words import count_text_tokens

HARBOUR, ORCHARD = "Where was Captain Orlov seen?", "What was written of Farmer Quill?"


def put_themes(store: Store) -> None:
    with store.transaction() as transaction:
        for key, text in write_theme_documents(8).items():
            transaction.put(key, text)
    store.create_index("communities", {"least": 2})
    store.create_index("units")


@pytest.fixture
def theme_store(copy_store: Callable[..., Store]) -> Store:
    """Return a store of texts on four themes, with units and communities."""
    return copy_store(put_themes)


def list_keys(evidence: Evidence) -> list[tuple[str, int, str]]:
    return [(hit.document, hit.start, hit.kind) for hit in evidence.hits]


def test_the_hits_of_two_strategies_are_fused_by_rank(theme_store: Store) -> None:
    evidence = theme_store.retrieve(HARBOUR, using="Lexical, vector", top=10)
    assert evidence.strategy == "lexical, vector"
    ranks: dict[tuple[str, int], float] = {}
    for name in ("lexical", "vector"):
        scores = [hit.score for hit in theme_store.retrieve(HARBOUR, using=name, top=50).hits]
        for hit in theme_store.retrieve(HARBOUR, using=name, top=50).hits:
            key = hit.document, hit.start
            ranks[key] = ranks.get(key, 0.0) + 1 / (10 + scores.index(hit.score) + 1)
    expected = sorted(ranks, key=lambda key: (-ranks[key], key))[:10]
    assert [(hit.document, hit.start) for hit in evidence.hits] == expected
    assert [hit.score for hit in evidence.hits] == pytest.approx([ranks[key] for key in expected])
    assert "lexical #" in evidence.hits[0].path and "vector #" in evidence.hits[0].path
    steps = {step.name: step.detail for step in evidence.steps}
    assert steps["hits of lexical"] == HARBOUR and steps["fuse by rank"].endswith("of lexical, vector")


def test_each_of_several_questions_gets_its_hits(theme_store: Store) -> None:
    evidence = theme_store.retrieve([HARBOUR, ORCHARD], top=4)
    themes = {hit.document.partition("-")[0] for hit in evidence.hits}
    assert themes == {"harbour", "orchard"} and evidence.question == f"{HARBOUR} {ORCHARD}"
    assert any("question 1, adaptive #1 (" in hit.path for hit in evidence.hits)
    assert any("question 2, adaptive #1 (" in hit.path for hit in evidence.hits)
    statement = f"RETRIEVE ('{HARBOUR}', ?) TOP 4"
    assert [row[2] for row in theme_store.execute(statement, [ORCHARD])] == [hit.document for hit in evidence.hits]
    details = [row[1] for row in theme_store.execute("EXPLAIN " + statement, [ORCHARD])]
    assert HARBOUR in details and ORCHARD in details
    assert list_keys(theme_store.retrieve([HARBOUR])) == list_keys(theme_store.retrieve(HARBOUR))


def test_reports_are_hits_among_the_chunks(theme_store: Store) -> None:
    evidence = theme_store.retrieve(HARBOUR, using="graph, global", top=6)
    assert {hit.kind for hit in evidence.hits} == {"chunk", "report"}
    assert [hit.rank for hit in evidence.hits] == list(range(1, 7))
    assert [hit.score for hit in evidence.hits] == sorted((hit.score for hit in evidence.hits), reverse=True)
    short = theme_store.retrieve(HARBOUR, using="graph, global", within=90)
    assert short.hits and sum(count_text_tokens(hit.text) for hit in short.hits) <= 90


@pytest.mark.parametrize(
    "clauses",
    [
        {},
        {"where": "key LIKE 'orchard-%'"},
        {"as_segments": True},
        {"options": {"reranker": "combination"}},
        {"options": {"hops": 1, "restart": 0.3}},
    ],
)
def test_clauses_apply_to_the_fused_ranking(theme_store: Store, clauses: dict[str, Any]) -> None:
    more = theme_store.retrieve([HARBOUR, ORCHARD], using="cue, graph", top=20, **clauses)
    fewer = theme_store.retrieve([HARBOUR, ORCHARD], using="cue, graph", top=5, **clauses)
    assert fewer.hits == more.hits[:5] and len(fewer.hits) == 5
    if "where" in clauses:
        assert {hit.document.partition("-")[0] for hit in more.hits} == {"orchard"}
    if not clauses:
        names = [name for names in THEMES.values() for name in names]
        assert list_keys(theme_store.retrieve(names, using="cue, graph"))


def test_errors_name_the_question_the_strategy_and_the_option(theme_store: Store) -> None:
    with pytest.raises(UnknownStrategyError, match="'nope'"):
        theme_store.retrieve(HARBOUR, using="cue, nope")
    with pytest.raises(InputError, match="a question is empty"):
        theme_store.retrieve([HARBOUR, " "])
    with pytest.raises(InputError, match="a question is empty"):
        theme_store.retrieve([])
    with pytest.raises(InputError, match="a question must be a string"):
        theme_store.retrieve([HARBOUR, 1])  # type: ignore[list-item]
    with pytest.raises(InputError, match="a vector belongs to a single question"):
        theme_store.retrieve([HARBOUR, ORCHARD], vector=[1.0] * 384)
    with pytest.raises(InputError, match="cue, graph has no option 'pool'"):
        theme_store.retrieve(HARBOUR, using="cue, graph", options={"pool": 1})
    with pytest.raises(StatementError, match="expected a string"):
        theme_store.execute("RETRIEVE ()")
    theme_store.drop_index("units")
    with pytest.raises(InputError, match="strategy graph, cue needs the index units"):
        theme_store.retrieve(HARBOUR, using="graph, cue")


def test_statements_are_formatted_as_they_are_parsed() -> None:
    from kvstore.language.parser import parse

    text = "RETRIEVE ('a', 'b') USING cue, graph TOP 3"
    (parsed,) = parse(text)
    assert str(parsed.statement) == text
