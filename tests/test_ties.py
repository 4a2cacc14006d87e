"""Equals come by document key and place in the text, whatever came first."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from operator import add
from typing import Any

import pytest

import kvstore
from kvstore.registry import STRATEGIES

KEYS = ["d", "b", "e", "a", "c"]


@pytest.fixture(scope="module", params=[KEYS, KEYS[::-1]], ids=["one order", "the other"])
def twin_store(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    make_needed_indexes: Callable[[kvstore.Store], None],
) -> Iterator[kvstore.Store]:
    """Yield a store of documents with one text, put in an order or in the opposite."""
    settings = {"chunk_tokens": 16, "language": "rules"}
    with kvstore.open(tmp_path_factory.mktemp("ties") / "store", embedder="hashing", settings=settings) as store:
        store.create_index("units")
        for key in request.param:
            store.put(key, "# Ada\n\nAda knew the Engine well. " + "Ada wrote of the Engine. " * 6, format="markdown")
        make_needed_indexes(store)
        yield store
        assert store.check() == []


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_hits_of_equal_score_are_ordered_by_key_and_position(twin_store: kvstore.Store, strategy: str) -> None:
    for top in (3, 30):
        hits = twin_store.retrieve("What did Ada know of the Engine?", using=strategy, top=top).hits
        order = [(-hit.score, hit.document, hit.start) for hit in hits]
        assert order == sorted(order)
        whole = len(order) == top or len({key for _, key, _ in order}) == len(KEYS)
        assert whole or any(hit.kind == "report" for hit in hits)  # which says the same thing once


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_where_nothing_may_answer_nothing_is_found(twin_store: kvstore.Store, strategy: str) -> None:
    question = "What did Ada write of the Engine?"
    assert twin_store.retrieve(question, using=strategy, where="key = 'none'").hits == []


def test_equal_scores_have_one_rank_in_merged_rankings(twin_store: kvstore.Store) -> None:
    hits = twin_store.search("Ada knew the Engine well", using="hybrid", top=5)
    assert len({hit.score for hit in hits}) == 1
    assert {hit.path for hit in hits} == {"vector #1, words #1"}


def _sum_rounding_each_addition(values: Iterable[Any], /, start: Any = 0) -> Any:
    """Add as ``sum`` does until Python 3.11."""
    return reduce(add, values, start)


def _sum_rounding_once(values: Iterable[Any], /, start: Any = 0) -> Any:
    """Add floats as ``sum`` does from Python 3.12 on, except that it nearly always rounds once."""
    values = list(values)
    return (
        math.fsum(values) + start if any(isinstance(value, float) for value in values) else reduce(add, values, start)
    )


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_scores_do_not_depend_on_how_sum_rounds(
    twin_store: kvstore.Store, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    answers = []
    for sum_function in (_sum_rounding_each_addition, _sum_rounding_once):
        monkeypatch.setattr(builtins, "sum", sum_function)
        for question in ("What did Ada know of the Engine, and who wrote well of it?", "Ada Engine wrote knew well"):
            answer = twin_store.ask(question, using=strategy)
            answers.append([(hit.document, hit.start, hit.score) for hit in answer.evidence.hits])
            answers.append([answer.text, answer.weighed])
    assert answers[:4] == answers[4:]
