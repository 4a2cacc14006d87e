"""What applications need of a store: filling up, searching by vector alone, conditions as dictionaries, own chunks."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

import kvstore
from kvstore import errors
from kvstore.systems import STRATEGIES

TEXTS = {
    "ada": "Ada Lovelace wrote notes on the Analytical Engine. She was born in London in 1815.",
    "babbage": "Charles Babbage designed the Analytical Engine. He lived in Marylebone.",
    "engine": "The engine was to be driven by steam. It was never finished.",
    "tea": "Tea is made from leaves. London drinks much of it.",
    "sea": "The sea is salty. Ships sail over it.",
}


@pytest.fixture
def filled(store: kvstore.Store, make_needed_indexes: Callable[[kvstore.Store], None]) -> kvstore.Store:
    with store.transaction() as transaction:
        for key, text in TEXTS.items():
            transaction.put(key, text, title=key.title())
    make_needed_indexes(store)
    return store


def test_bridge_filled_up_gives_as_many_as_asked_for(filled: kvstore.Store) -> None:
    question = "When did Charles Babbage live in Marylebone?"
    few = filled.retrieve(question, using="bridge", depth=0, top=4)
    assert [hit.document for hit in few.hits] == ["babbage"]
    hits = filled.retrieve(question, using="bridge", depth=0, top=4, options={"fill": "hybrid"}).hits
    assert hits[0] == few.hits[0]
    assert len({hit.document for hit in hits}) == 4
    assert [hit.rank for hit in hits] == [1, 2, 3, 4]
    assert all(a.score >= b.score for a, b in itertools.pairwise(hits))
    assert [hit.path.startswith("fill: hybrid, ") for hit in hits] == [False, True, True, True]


def test_filling_is_a_step_and_keeps_to_conditions_and_tokens(filled: kvstore.Store) -> None:
    question = "When did Charles Babbage live in Marylebone?"
    evidence = filled.retrieve(
        question, using="bridge", depth=0, top=4, options={"fill": "Hybrid"}, where="key IN ('babbage', 'tea')"
    )
    assert [hit.document for hit in evidence.hits] == ["babbage", "tea"]
    (step,) = (step for step in evidence.steps if step.name == "fill")
    assert (step.detail, step.count) == ("hybrid, since bridge found 1 of 4", 1)
    room = len(TEXTS["babbage"].split()) + 4
    within = filled.retrieve(question, using="bridge", depth=0, options={"fill": "hybrid"}, within=room)
    assert [hit.document for hit in within.hits] == ["babbage"]


def test_what_is_taken_together_is_not_filled_up_with_its_own_chunks(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store(settings={"language": "rules", "chunk_tokens": 16})
    store.put("long", " ".join(f"Charles Babbage designed engine number {n} of brass and steam." for n in range(8)))
    store.put("tea", "Tea is made from leaves.")
    hits = store.retrieve("Charles Babbage", using="bridge", top=6, as_segments=True, options={"fill": "hybrid"}).hits
    places = [(span.document, span.chunk) for hit in hits for span in hit.spans]
    assert len(places) == len(set(places))
    assert hits[-1].path.startswith("fill: hybrid")


def test_every_strategy_can_be_filled_up(filled: kvstore.Store) -> None:
    for strategy in STRATEGIES:
        hits = filled.retrieve("Who is Charles Babbage?", using=strategy, top=3, options={"fill": "hybrid"}).hits
        assert len(hits) == 3, strategy


def test_no_strategy_is_filled_up_with_another_word(filled: kvstore.Store) -> None:
    with pytest.raises(errors.InputError, match="option fill is one of none, hybrid, not 'hybird'; did you mean"):
        filled.retrieve("tea", using="bridge", options={"fill": "hybird"})
    cursor = filled.execute("RETRIEVE 'Who is Charles Babbage?' USING bridge DEPTH 0 TOP 3 WITH (fill = hybrid)")
    assert len(cursor.fetchall()) == 3


def test_a_vector_alone_is_searched_by(filled: kvstore.Store) -> None:
    (vector,) = filled.embed(["Tea is made from leaves."])
    by_text = filled.search("Tea is made from leaves.", using="vector")
    assert filled.search("", vector=vector, using="vector") == by_text
    assert filled.search("", vector=vector)[0].document == "tea"
    assert [hit.document for hit in filled.search(" ", vector=-vector, using="vector")][-1] == "tea"


def test_every_strategy_but_lexical_takes_a_vector_without_words(filled: kvstore.Store) -> None:
    (vector,) = filled.embed(["Tea is made from leaves."])
    for strategy in STRATEGIES.keys() - {"lexical"}:
        evidence = filled.retrieve("", using=strategy, vector=vector, options={"fill": "hybrid"}, top=3)
        assert len(evidence.hits) == 3, strategy
        assert np.isfinite([hit.score for hit in evidence.hits]).all(), strategy


def test_what_needs_words_asks_for_them(filled: kvstore.Store) -> None:
    (vector,) = filled.embed(["tea"])
    for refused in (
        lambda: filled.search("", vector=vector, using="lexical"),
        lambda: filled.search("  "),
        lambda: filled.retrieve("", using="vector"),
        lambda: filled.ask("", vector=vector),
        lambda: filled.weigh("", vector=vector),
        lambda: filled.prompt("", vector=vector),
    ):
        with pytest.raises(errors.InputError, match="the question is empty; ask something"):
            refused()
