"""Segments: runs of neighbouring chunks from any ranking, AS SEGMENTS, and the strategy sprag."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples

import kvstore
from kvstore import errors
from kvstore.arguments import Option
from kvstore.registry import STRATEGIES, register
from kvstore.registry.contract import System
from kvstore.retrieval.evidence import Evidence
from kvstore.retrieval.query import Query, evidence_of
from kvstore.retrieval.segments import SEGMENT_OPTIONS, SegmentPlan, compute_relevances, select_best_ranges
from kvstore.text.blocks import parse_blocks
from kvstore.text.words import count_text_tokens

MakeStore = Callable[..., kvstore.Store]


class FixedRanking:
    """A strategy that returns a fixed ranking of chunks, by key and number, with fixed scores."""

    name = "given"
    description = "the chunks that were given"
    options: Mapping[str, Option] = {}
    ranking: Sequence[tuple[str, int, float]] = ()

    def retrieve(self, query: Query) -> Evidence:
        ranking = []
        for key, number, score in self.ranking:
            record = query.state.documents.find_by_key(key)
            assert record is not None
            ranking.append((list(record.chunk_ids())[number], score))
        return evidence_of(query, self.name, ranking, "given", len(ranking))


@contextmanager
def fix_ranking(*ranking: tuple[str, int, float]) -> Iterator[None]:
    strategy = FixedRanking()
    strategy.ranking = ranking
    take_back = register(System("given", "of no paper", strategies=(strategy,)))
    try:
        yield
    finally:
        take_back()


def make_sentence(number: int) -> str:
    return f"Sentence number {number} of this text has exactly sixteen words and marks, that is, {number}."


@pytest.fixture
def filled_store(make_store: MakeStore) -> kvstore.Store:
    """Return a store with two documents whose chunks are single sentences."""
    store = make_store(settings={"chunk_tokens": 16})
    for key in ("one", "two"):
        store.put(key, " ".join(map(make_sentence, range(30))))
        assert store.describe_document(key)["chunks"] == 30
    return store


def find_segments(store: kvstore.Store, **clauses: object) -> list[tuple[str, int, int]]:
    hits = store.retrieve("x", using="given", as_segments=True, **clauses).hits  # type: ignore[arg-type]
    return [(hit.document, hit.spans[0].ordinal, hit.spans[-1].ordinal) for hit in hits]


# The runs ------------------------------------------------------------------------------------------------------------


def find_best_runs(values: Mapping[int, float], plan: SegmentPlan) -> set[tuple[int, int]]:
    """Return the runs by brute force: the best allowed run repeatedly, then the remaining chunks one by one."""
    remaining, chosen = set(values), set[tuple[int, int]]()
    while True:
        allowed = [
            (-sum(values.get(n, -plan.penalty) for n in range(first, last + 1)), first, last)
            for first, last in itertools.product(sorted(values), repeat=2)
            if first <= last < first + plan.longest and values[first] >= 0 and values[last] >= 0
            if not any(first <= b and a <= last for a, b in chosen)
        ]
        if not allowed:
            break
        _, first, last = min(allowed)
        chosen.add((first, last))
        remaining -= set(range(first, last + 1))
    return chosen | {(number, number) for number in remaining}


@given(
    st.dictionaries(st.integers(0, 25), st.integers(-8, 48).map(lambda eighth: eighth / 64), max_size=12),
    st.integers(1, 8),
)
def test_runs_are_the_best_that_are_left(values: dict[int, float], longest: int) -> None:
    plan = SegmentPlan(8, 8, penalty=0.125, longest=longest)
    runs = select_best_ranges(values, plan)
    assert set(runs) == find_best_runs(values, plan)
    in_runs = [n for first, last in runs for n in range(first, last + 1) if n in values]
    assert sorted(in_runs) == sorted(values)


def test_worth_falls_with_rank_and_with_score_and_not_with_the_scale_of_scores() -> None:
    plan = SegmentPlan(10, 10)
    steep = [(n, 1 / (1 + n) ** 2) for n in range(40)]
    flat = [(n, 1 - n / 100) for n in range(40)]
    assert sum(compute_relevances(steep, plan)) < sum(compute_relevances(flat, plan))
    for ranking in (steep, flat):
        worth = compute_relevances(ranking, plan)
        assert worth == sorted(worth, reverse=True)
        assert np.allclose(worth, compute_relevances([(n, 30 * score) for n, score in ranking], plan))
    below = compute_relevances([(n, score - 2) for n, score in flat], plan)
    assert below[0] == 0.8 and below == sorted(below, reverse=True) and below[-1] == 0
    # With more room, chunks of lower rank have more value; equal scores have equal values.
    assert compute_relevances(flat, SegmentPlan(10, 30))[20] > compute_relevances(flat, plan)[20]
    assert len(set(compute_relevances([(n, 1.0) for n in range(5)], plan))) == 1
    assert compute_relevances([], plan) == []


# AS SEGMENTS ---------------------------------------------------------------------------------------------------------


def test_neighbours_are_one_slice_with_the_gap_between_them(filled_store: kvstore.Store) -> None:
    with fix_ranking(("one", 10, 0.9), ("two", 3, 0.8), ("one", 12, 0.7), ("one", 20, 0.6), ("one", 9, 0.5)):
        evidence = filled_store.retrieve("x", using="given", as_segments=True)
        first, second, third = evidence.hits
        assert [hit.kind for hit in evidence.hits] == ["segment", "chunk", "chunk"]
        assert (first.document, first.ordinal, first.score) == ("one", 9, 0.9)
        assert [span.ordinal for span in first.spans] == [9, 10, 11, 12]
        document = filled_store.get("one")
        assert document is not None
        assert first.text == document.text[first.start : first.end] == " ".join(map(make_sentence, range(9, 13)))
        assert (first.spans[0].start, first.spans[-1].end) == (first.start, first.end)
        assert first.path == "segment of 4 chunks around chunk 10: given"
        # In the order of the best-ranked chunk of each.
        assert [hit.rank for hit in evidence.hits] == [1, 2, 3]
        assert [(hit.document, hit.ordinal) for hit in (second, third)] == [("two", 3), ("one", 20)]
        step = evidence.steps[-1]
        assert (step.name, step.count) == ("take segments", 3)
        assert "5 of 5 chunks worth more than the penalty 0.12" in step.detail


def test_where_scores_fall_off_steeply_segments_are_short(filled_store: kvstore.Store) -> None:
    places = [10, 0, 12, 25, 9, 29, 13, 20]
    with fix_ranking(*(("one", place, 1 - rank / 20) for rank, place in enumerate(places))):
        flat = find_segments(filled_store)
    with fix_ranking(*(("one", place, 1 / 8**rank) for rank, place in enumerate(places))):
        steep = find_segments(filled_store)
    assert flat[0] == ("one", 9, 13)
    assert steep[0] == ("one", 10, 10)


def test_options_make_segments_longer_and_shorter(filled_store: kvstore.Store) -> None:
    with fix_ranking(*(("one", place, 1 - rank / 50) for rank, place in enumerate(range(5, 20)))):
        assert find_segments(filled_store)[0] == ("one", 5, 19)
        assert find_segments(filled_store, options={"longest": 3})[:2] == [("one", 5, 7), ("one", 8, 10)]
        assert find_segments(filled_store, options={"penalty": 1})[0] == ("one", 5, 5)
        assert find_segments(filled_store, options={"decay": 0.3})[0] == ("one", 5, 9)
        assert find_segments(filled_store, top=2, options={"longest": 1}) == [("one", 5, 5), ("one", 6, 6)]


def test_a_segment_that_does_not_fit_grows_outward_from_its_best_chunk(filled_store: kvstore.Store) -> None:
    with fix_ranking(("one", 10, 0.9), ("one", 12, 0.88), ("one", 9, 0.86), ("one", 8, 0.84), ("two", 0, 0.5)):
        whole = filled_store.retrieve("x", using="given", as_segments=True, within=200)
        assert [(hit.document, hit.ordinal, len(hit.spans)) for hit in whole.hits] == [("one", 8, 5), ("two", 0, 1)]
        size = count_text_tokens(make_sentence(10))
        for within, expected in (
            (size, [("one", 10, 10)]),
            (2 * size, [("one", 9, 10)]),
            (3 * size, [("one", 8, 10)]),
            (4 * size, [("one", 8, 11)]),
            (size - 1, []),
        ):
            assert find_segments(filled_store, within=within, options={"decay": 10}) == expected
            hits = filled_store.retrieve(
                "x", using="given", as_segments=True, within=within, options={"decay": 10}
            ).hits
            assert sum(count_text_tokens(hit.text) for hit in hits) <= within


def test_no_segment_crosses_a_document(make_store: MakeStore) -> None:
    store = make_store(settings={"chunk_tokens": 16})
    store.put(
        "a",
        f"# One\n\n{make_sentence(1)}\n\n## Part\n\n{make_sentence(2)}\n\n# Two\n\n{make_sentence(3)}",
        format="markdown",
    )
    store.put("b", make_sentence(4))
    with fix_ranking(("a", 1, 0.9), ("a", 2, 0.8), ("b", 0, 0.8), ("a", 0, 0.8)):
        assert find_segments(store) == [("a", 0, 2), ("b", 0, 0)]


def test_the_clause_is_valid_anywhere_and_needs_its_options(filled_store: kvstore.Store) -> None:
    statements = [
        "RETRIEVE 'sentence number 3' USING vector AS SEGMENTS TOP 2 WHERE key = 'one' WITH (penalty = 0.1)",
        "RETRIEVE 'sentence number 3' USING vector WHERE key = 'one' AS SEGMENTS WITH (penalty = 0.1) TOP 2",
    ]
    first_rows, second_rows = (filled_store.execute(text).fetchall() for text in statements)
    assert first_rows == second_rows
    assert {row[6] for row in first_rows} <= {"chunk", "segment"}
    with pytest.raises(
        errors.InputError,
        match="it has: exact, fill, reranker; penalty is an option of AS SEGMENTS",
    ):
        filled_store.retrieve("x", using="vector", options={"penalty": 0.1})
    with pytest.raises(errors.InputError, match="option longest must be between 1 and 1000"):
        filled_store.execute("ASK 'x' AS SEGMENTS WITH (longest = 0)")
    steps = [step.name for step in filled_store.explain("RETRIEVE 'sentence number 3' AS SEGMENTS")]
    assert "take segments" in steps and "read chunks" not in steps


def test_sprag_is_hybrid_search_as_segments(filled_store: kvstore.Store) -> None:
    question = "Which sentence has number 7?"
    for clauses in ({}, {"within": 100}, {"options": {"decay": 2}}):
        sprag = filled_store.retrieve(question, using="sprag", **clauses)
        hybrid = filled_store.retrieve(question, using="hybrid", as_segments=True, **clauses)
        assert sprag.hits == hybrid.hits
        assert sprag.abstracts == hybrid.abstracts
    assert SEGMENT_OPTIONS.items() <= STRATEGIES["sprag"].options.items()


def test_an_answer_from_segments_cites_chunks_of_them(filled_store: kvstore.Store) -> None:
    filled_store.put("tea", "Tea is made from leaves. " + " ".join(map(make_sentence, range(6))))
    answer = filled_store.ask("What is tea made from?", as_segments=True, using="lexical")
    citation = answer.citations[0]
    assert (citation.document, citation.ordinal, citation.text) == ("tea", 0, "Tea is made from leaves.")


def test_a_prompt_has_segments_and_the_evidence_its_chunks(filled_store: kvstore.Store) -> None:
    with fix_ranking(("one", 10, 0.9), ("two", 3, 0.8), ("one", 12, 0.7), ("one", 20, 0.6), ("one", 9, 0.5)):
        prompt = filled_store.prompt("x", using="given")
        assert [hit.ordinal for hit in prompt.evidence.hits] == [10, 3, 12, 20, 9]
        assert {hit.kind for hit in prompt.evidence.hits} == {"chunk"}
        assert prompt.passages == prompt.evidence.segments
        assert [(hit.document, hit.ordinal, len(hit.spans)) for hit in prompt.passages] == [
            *(("one", 9, 4), ("two", 3, 1), ("one", 20, 1)),
        ]
        assert " ".join(map(make_sentence, range(9, 13))) in prompt.user
        assert [step.name for step in prompt.evidence.steps][-2:] == ["take segments", "build prompt"]
        within = filled_store.prompt("x", using="given", within=40)
        assert [(hit.ordinal, len(hit.spans)) for hit in within.passages] == [(9, 2)]
        assert not filled_store.ask("x", using="given").evidence.segments  # which no model reads


# Ends ----------------------------------------------------------------------------------------------------------------

TABLE = "| name | value |\n| --- | --- |\n" + "\n".join(f"| row {n} of the table | {n} |" for n in range(12))
CODE = "```python\n" + "\n\n".join(f"value_{n} = compute(value_{n - 1}, {n})" for n in range(1, 9)) + "\n```"
ITEM = "- " + " ".join(f"The item says in its sentence number {n} that it is one." for n in range(6))
LOOSE = ITEM + "\n\n  It goes on in a paragraph of its own, which is as long as a chunk may be here.\n- Another."
PROSE = " ".join(map(make_sentence, range(4)))

document_texts = st.lists(
    st.sampled_from([TABLE, CODE, ITEM, LOOSE, PROSE, "# Heading", "## Part"]), min_size=1, max_size=6
).map("\n\n".join)


def test_a_segment_shortened_at_its_start_includes_the_table_at_its_end(tmp_path: Path) -> None:
    with (
        kvstore.open(tmp_path, embedder="hashing:16", settings={"chunk_tokens": 20, "language": "rules"}) as store,
        fix_ranking(*(("d", ordinal, 1 - rank / 10) for rank, ordinal in enumerate((20, 7, 14, 9)))),
    ):
        store.put("d", "\n\n".join([TABLE] * 4), format="markdown")
        (segment,) = store.retrieve("x", using="given", as_segments=True).hits
    assert segment.text == "\n\n".join([TABLE] * 2)


@settings(max_examples=15, deadline=None)
@given(data=st.data(), text=document_texts)
def test_segments_are_disjoint_and_end_inside_no_block_they_have_room_for(data: st.DataObject, text: str) -> None:
    check_ends_in_new_store(data, text)


@pytest.mark.slow
@settings(max_examples=num_examples(400), deadline=None)
@given(data=st.data(), text=document_texts)
def test_segments_end_inside_no_block_in_many_documents(data: st.DataObject, text: str) -> None:
    check_ends_in_new_store(data, text)


def check_ends_in_new_store(data: st.DataObject, text: str) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        kvstore.open(folder, embedder="hashing:16", settings={"chunk_tokens": 20, "language": "rules"}) as store,
    ):
        check_ends(store, data, text)


def check_ends(store: kvstore.Store, data: st.DataObject, text: str) -> None:
    store.put("d", text, format="markdown")
    document = store.get("d")
    assert document is not None
    text = document.text
    numbers = data.draw(st.lists(st.integers(0, document.chunks - 1), min_size=1, max_size=6, unique=True))
    within = data.draw(st.sampled_from([None, 60, 150, 400]))
    with fix_ranking(*(("d", number, 1 - rank / 10) for rank, number in enumerate(numbers))):
        hits = store.retrieve("x", using="given", as_segments=True, within=within).hits
    room = 15 * 20
    spans: list[tuple[int, int]] = []
    for hit in hits:
        assert all(hit.end <= start or stop <= hit.start for start, stop in spans)
        assert hit.text == text[hit.start : hit.end] == hit.text.strip()
        assert any(span.ordinal in numbers for span in hit.spans)
        for before, after in itertools.pairwise(hit.spans):
            assert before.end <= after.start and before.ordinal + 1 == after.ordinal
        spans.append((hit.start, hit.end))
    if within is not None:
        assert sum(count_text_tokens(hit.text) for hit in hits) <= within
        return
    bests = {
        hit.rank: min((numbers.index(span.ordinal), span) for span in hit.spans if span.ordinal in numbers)[1]
        for hit in hits
    }
    for hit, (start, end) in itertools.product(hits, list_blocks(text)):
        if not any(start < at < end for at in (hit.start, hit.end)):
            continue
        # An end inside a block: another segment has some of it, or it is too long and the best chunk is of it.
        others = [other for other in hits if other is not hit and other.start < end and start < other.end]
        whole = count_text_tokens(text[min(hit.start, start) : max(hit.end, end)])
        best = bests[hit.rank]
        assert others or (whole > room and best.start < end and start < best.end)


def list_blocks(text: str) -> list[tuple[int, int]]:
    """Return the tables, code blocks and list items, each with all its paragraphs."""
    blocks: list[tuple[int, int]] = []
    for block in parse_blocks(text, "markdown"):
        if block.kind == "item" and not text.startswith("- ", block.start):
            blocks[-1] = (blocks[-1][0], block.end)
        elif block.kind in ("table", "code", "item"):
            blocks.append((block.start, block.end))
    return blocks
