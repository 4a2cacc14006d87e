"""Requirements of applications: filling up, search by vector only, conditions as dictionaries, own chunks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples

import kvstore
from kvstore import errors
from kvstore.changes.check import check_state
from kvstore.changes.dump import dump
from kvstore.registry import STRATEGIES

pytestmark = pytest.mark.public_api

TEXTS = {
    "ada": "Ada Lovelace wrote notes on the Analytical Engine. She was born in London in 1815.",
    "babbage": "Charles Babbage designed the Analytical Engine. He lived in Marylebone.",
    "engine": "The engine was to be driven by steam. It was never finished.",
    "tea": "Tea is made from leaves. London drinks much of it.",
    "sea": "The sea is salty. Ships sail over it.",
}


@pytest.fixture
def filled_store(store: kvstore.Store, make_needed_indexes: Callable[[kvstore.Store], None]) -> kvstore.Store:
    with store.transaction() as transaction:
        for key, text in TEXTS.items():
            transaction.put(key, text, title=key.title())
    make_needed_indexes(store)
    return store


def test_bridge_filled_up_gives_as_many_as_asked_for(filled_store: kvstore.Store) -> None:
    question = "When did Charles Babbage live in Marylebone?"
    evidence = filled_store.retrieve(question, using="bridge", depth=0, top=4)
    assert [hit.document for hit in evidence.hits] == ["babbage"]
    hits = filled_store.retrieve(question, using="bridge", depth=0, top=4, options={"fill": "hybrid"}).hits
    assert hits[0] == evidence.hits[0]
    assert len({hit.document for hit in hits}) == 4
    assert [hit.rank for hit in hits] == [1, 2, 3, 4]
    assert all(a.score >= b.score for a, b in itertools.pairwise(hits))
    assert [hit.path.startswith("fill: hybrid, ") for hit in hits] == [False, True, True, True]


def test_filling_is_a_step_and_keeps_to_conditions_and_tokens(filled_store: kvstore.Store) -> None:
    question = "When did Charles Babbage live in Marylebone?"
    evidence = filled_store.retrieve(
        question, using="bridge", depth=0, top=4, options={"fill": "Hybrid"}, where="key IN ('babbage', 'tea')"
    )
    assert [hit.document for hit in evidence.hits] == ["babbage", "tea"]
    (step,) = (step for step in evidence.steps if step.name == "fill")
    assert (step.detail, step.count) == ("hybrid, because bridge found 1 of 4", 1)
    room = len(TEXTS["babbage"].split()) + 4
    within = filled_store.retrieve(question, using="bridge", depth=0, options={"fill": "hybrid"}, within=room)
    assert [hit.document for hit in within.hits] == ["babbage"]


def test_merged_segments_are_not_padded_with_their_own_chunks(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store(settings={"language": "rules", "chunk_tokens": 16})
    store.put("long", " ".join(f"Charles Babbage designed engine number {n} of brass and steam." for n in range(8)))
    store.put("tea", "Tea is made from leaves.")
    hits = store.retrieve("Charles Babbage", using="bridge", top=6, as_segments=True, options={"fill": "hybrid"}).hits
    places = [(span.document, span.ordinal) for hit in hits for span in hit.spans]
    assert len(places) == len(set(places))
    assert hits[-1].path.startswith("fill: hybrid")


def test_every_strategy_can_be_filled_up(filled_store: kvstore.Store) -> None:
    for strategy in STRATEGIES:
        hits = filled_store.retrieve("Who is Charles Babbage?", using=strategy, top=3, options={"fill": "hybrid"}).hits
        assert len(hits) == 3, strategy


def test_no_strategy_is_filled_up_with_another_word(filled_store: kvstore.Store) -> None:
    with pytest.raises(errors.InputError, match="option fill must be one of none, hybrid, not 'hybird'; did you mean"):
        filled_store.retrieve("tea", using="bridge", options={"fill": "hybird"})
    cursor = filled_store.execute("RETRIEVE 'Who is Charles Babbage?' USING bridge DEPTH 0 TOP 3 WITH (fill = hybrid)")
    assert len(cursor.fetchall()) == 3


def test_a_vector_alone_is_searched_by(filled_store: kvstore.Store) -> None:
    (vector,) = filled_store.embed(["Tea is made from leaves."])
    by_text = filled_store.search("Tea is made from leaves.", using="vector")
    assert filled_store.search("", vector=vector, using="vector") == by_text
    assert filled_store.search("", vector=vector)[0].document == "tea"
    assert [hit.document for hit in filled_store.search(" ", vector=-vector, using="vector")][-1] == "tea"


def test_every_strategy_but_lexical_takes_a_vector_without_words(filled_store: kvstore.Store) -> None:
    (vector,) = filled_store.embed(["Tea is made from leaves."])
    for strategy in STRATEGIES.keys() - {"lexical"}:
        evidence = filled_store.retrieve("", using=strategy, vector=vector, options={"fill": "hybrid"}, top=3)
        assert len(evidence.hits) == 3, strategy
        assert np.isfinite([hit.score for hit in evidence.hits]).all(), strategy


def test_a_strategy_that_needs_words_requires_them(filled_store: kvstore.Store) -> None:
    (vector,) = filled_store.embed(["tea"])
    for refused in (
        lambda: filled_store.search("", vector=vector, using="lexical"),
        lambda: filled_store.search("  "),
        lambda: filled_store.retrieve("", using="vector"),
        lambda: filled_store.ask("", vector=vector),
        lambda: filled_store.weigh("", vector=vector),
        lambda: filled_store.prompt("", vector=vector),
    ):
        with pytest.raises(errors.InputError, match="the question is empty; enter a question"):
            refused()


# Own chunks ----------------------------------------------------------------------------------------------------------

LONG = (
    "# Tea\n\nTea is made from leaves. Robert Fortune took it to India.\n\n"
    "## Milk\n\nMilk goes into tea.\r\nSome say so.\n"
)


def list_chunk_texts(store: kvstore.Store, key: str) -> list[str]:
    rows = store.execute("SELECT text FROM chunks WHERE document = ? ORDER BY ordinal", (key,))
    return [text for (text,) in rows]


def test_application_chunks_stay_as_they_are(store: kvstore.Store) -> None:
    """The bar: 1,000 chunks of an application WHOLE are 1,000 chunks, each text equal."""
    pieces = {
        f"piece/{number:04}": f"  Piece {number}: the keeper of lamp {number} writes. \n\n# Or\n\n| a |\n"
        * (1 + number % 7)
        for number in range(1000)
    }
    with store.transaction() as transaction:
        for key, text in pieces.items():
            transaction.put(key, text, format="markdown" if key.endswith("7") else "text", chunks="whole")
    assert dict(store.execute("SELECT document, text FROM chunks").fetchall()) == pieces


def test_a_whole_document_stays_whole(store: kvstore.Store) -> None:
    store.put("tea", LONG * 40, format="markdown", chunks="whole")
    assert list_chunk_texts(store, "tea") == [LONG.replace("\r\n", "\n") * 40]
    assert not store.put("tea", LONG * 40, format="markdown", chunks="whole")
    assert store.describe_document("tea")["cut"] == "whole"
    assert store.update("tea", text=LONG * 41, title="Tea")
    assert list_chunk_texts(store, "tea") == [LONG.replace("\r\n", "\n") * 41]
    assert store.put("tea", LONG * 41, format="markdown", title="Tea")
    assert len(list_chunk_texts(store, "tea")) > 3
    assert store.describe_document("tea")["cut"] == "by rule"


def test_a_document_is_split_at_the_spans_of_the_caller(store: kvstore.Store) -> None:
    spans = [(LONG.index("Tea is"), LONG.index(" Robert")), (LONG.index("took"), LONG.index("Some")), (101, len(LONG))]
    assert store.put("tea", LONG, format="markdown", chunks=spans)
    expected = [LONG[start:end].replace("\r\n", "\n") for start, end in spans]
    assert list_chunk_texts(store, "tea") == expected
    headings = store.execute("SELECT heading FROM chunks ORDER BY ordinal").fetchall()
    assert headings == [("Tea",), ("Tea",), ("Tea > Milk",)]
    assert store.update("tea", meta={"year": 2024})
    assert list_chunk_texts(store, "tea") == expected
    with pytest.raises(
        errors.InputError, match="document 'tea' has your own chunks; pass new chunks together with its new text"
    ):
        store.update("tea", text="Tea.")
    assert store.describe_document("tea")["cut"] == "by its owner"
    vectors = store.embed(["a", "b", "c"])
    assert store.put("tea", LONG, format="markdown", chunks=spans, vectors=vectors)
    assert np.allclose(
        store.vectors([id for (id,) in store.execute("SELECT id FROM chunks ORDER BY ordinal")]), vectors
    )


def test_own_chunks_are_exported_imported_repaired_and_dumped(
    store: kvstore.Store, make_store: Callable[..., kvstore.Store], tmp_path: Path
) -> None:
    store.put("whole", LONG * 30, format="markdown", title="Whole", chunks="whole")
    store.put("cut", LONG, chunks=[(7, 31), (32, 60)])
    store.put("ruled", LONG * 30)
    store.export(tmp_path / "all.jsonl")
    other = make_store("other")
    other.import_(tmp_path / "all.jsonl")
    with store.state() as first_state, other.state() as second_state:
        assert dump(first_state) == dump(second_state)
    assert other.import_(tmp_path / "all.jsonl").unchanged == 3
    script = list(store.dump())
    assert [line.endswith(" WHOLE;") for line in script if line.startswith("INSERT")] == [False, False, True]
    assert any("omits the user's own chunks of 1 document" in line for line in store.not_in_dump())
    with other._session.environment.write() as view:  # a record of what is derived is gone
        view.delete("chunks", next(bytes(key) for key, _ in view.scan("chunks")))
    assert other.repair().found
    assert other.check() == []
    with store.state() as first_state, other.state() as second_state:
        assert dump(first_state) == dump(second_state)


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        ("hole", "document 'tea': chunks must be 'whole' or a list of"),
        ([], "document 'tea': the list of chunks is empty"),
        ([(0, 3), (2, 9)], "document 'tea': chunk 1 is .2, 9., not between 3 and 109: chunks must be in order"),
        ([(0, 300)], "document 'tea': chunk 0 is .0, 300., not between 0 and 109"),
        ([(5, 5)], "document 'tea': chunk 0 is .5, 5."),
        ([(5, 7)], "document 'tea': chunk 0, .5, 7., is blank; remove it"),
        ([5], "document 'tea': chunk 0 must be two whole numbers"),
        ([(0, "3")], "document 'tea': chunk 0 must be two whole numbers"),
    ],
)
def test_invalid_chunks_are_refused_with_the_reason(store: kvstore.Store, chunks: Any, message: str) -> None:
    with pytest.raises(errors.InputError, match=message):
        store.put("tea", LONG, chunks=chunks)


def test_the_longest_chunk_is_named(store: kvstore.Store) -> None:
    assert store.put("most", "ä" * 32_767 + "b", chunks="whole")
    with pytest.raises(errors.InputError, match="'more': the chunk of the whole text has 65,536 bytes; the limit"):
        store.put("more", "ä" * 32_768, chunks="whole")
    with pytest.raises(errors.InputError, match="'more': chunk 1 has 65,536 bytes; the limit is 65,535"):
        store.put("more", "b" * 70_000, chunks=[(0, 2), (4, 65_540)])
    with pytest.raises(errors.InputError, match="'tree' consists of pairs, which have no chunks"):
        store.put("tree", "a\tb", format="pairs", chunks="whole")


def test_the_language_stores_whole_documents(store: kvstore.Store) -> None:
    store.execute("INSERT DOCUMENT 'tea' TEXT ? WHOLE META '{\"year\": 2024}'", (LONG * 30,))
    assert list_chunk_texts(store, "tea") == [LONG.replace("\r\n", "\n") * 30]
    store.execute("UPDATE DOCUMENT 'tea' SET TEXT = ?", (LONG * 31,))
    assert list_chunk_texts(store, "tea") == [LONG.replace("\r\n", "\n") * 31]


@settings(max_examples=num_examples(25))
@given(
    text=st.text("ab. #\n\r-|é", min_size=1, max_size=60),
    cuts=st.sets(st.integers(0, 60), max_size=6),
    whole=st.booleans(),
    form=st.sampled_from(["text", "markdown"]),
)
def test_chunks_at_any_places_are_those_texts(
    shelf: kvstore.Store, text: str, cuts: set[int], whole: bool, form: str
) -> None:
    borders = sorted({cut for cut in cuts if cut <= len(text)})
    spans = [(a, b) for a, b in zip(borders[::2], borders[1::2], strict=False) if text[a:b].strip()]
    if not text.strip() or not (whole or spans):
        return
    transaction = shelf.transaction()
    try:
        transaction.put("text", text, chunks="whole" if whole else spans, format=form)
        with transaction.state() as state:
            record = state.documents.find_by_key("text")
            assert record is not None
            stored = state.documents.read_text(record.id)
            chunks = state.chunks.get_many(record.chunk_ids())
            chunk_texts = [stored[chunk.start : chunk.end].decode() for chunk in chunks]
            problems = list(check_state(state))
    finally:
        transaction.rollback()
    normalized = text.replace("\r\n", "\n").replace("\r", "\n")
    assert (
        "".join(chunk_texts) == normalized
        if whole
        else [piece.strip() for piece in chunk_texts]
        == [text[a:b].replace("\r\n", "\n").replace("\r", "\n").strip() for a, b in spans]
    )
    assert problems == []


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kvstore.Store]:
    path = tmp_path_factory.mktemp("shelf") / "store"
    with kvstore.open(path, embedder="hashing:16", settings={"language": "rules"}) as store:
        yield store


# Vectors -------------------------------------------------------------------------------------------------------------


def test_stored_vectors_are_a_column_that_must_be_named(filled_store: kvstore.Store) -> None:
    rows = filled_store.execute("SELECT id, vector FROM chunks ORDER BY id").fetchall()
    vectors = np.stack([np.frombuffer(vector, "<f4") for _, vector in rows])
    assert np.array_equal(vectors, filled_store.vectors([id for id, _ in rows]))
    everything = filled_store.execute("SELECT * FROM chunks")
    assert "vector" not in everything.columns
    cursor = filled_store.execute(
        "SELECT length(vector) FROM chunks JOIN documents ON key = document WHERE title = 'Tea'"
    )
    assert cursor.fetchall() == [(4 * filled_store.settings.dimension,)]
    with pytest.raises(errors.StatementError, match="there is no column vektor; did you mean vector"):
        filled_store.execute("SELECT vektor FROM chunks")
    with filled_store.transaction() as transaction:
        transaction.put("new", "Nobody has read this yet.")
        uncommitted = transaction.vectors([("new", 0)])
    (stored,) = filled_store.execute("SELECT vector FROM chunks WHERE document = 'new'").fetchone() or (b"",)
    assert np.array_equal(np.frombuffer(stored, "<f4"), uncommitted[0])


# Many documents ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"text": " \n "}, "document 3 of 4: document 'doc/2' is empty"),
        ({"format": "tex"}, "document 3 of 4: document 'doc/2': its format must be one of"),
        (
            {"meta": {"a": object()}},
            "document 3 of 4: document 'doc/2': invalid metadata field 'a'",
        ),
        ({"vectors": [[1.0, 2.0]]}, "document 3 of 4: document 'doc/2': the store's vectors have 256 dimensions"),
        ({"vectors": np.ones((2, 256))}, "document 3 of 4: document 'doc/2': pass one vector, or one for each"),
        ({"chunks": [(0, 99)]}, "document 3 of 4: document 'doc/2': chunk 0 is"),
    ],
)
def test_a_batch_with_an_invalid_document_names_it_and_stores_nothing(
    store: kvstore.Store, wrong: dict[str, Any], message: str
) -> None:
    batch = [{"key": f"doc/{number}", "text": "Tea is made from leaves.", "chunks": "whole"} for number in range(4)]
    batch[2] |= wrong
    with pytest.raises(errors.InputError, match=message):
        store.put_many(batch)
    with pytest.raises(errors.InputError, match=message.removeprefix("document 3 of 4: ")):
        store.put(**batch[2])
    assert len(store) == 0
    del batch[2]
    assert store.put_many(batch) == [True, True, True]
    assert store.execute("SELECT DISTINCT text FROM chunks").fetchall() == [("Tea is made from leaves.",)]
