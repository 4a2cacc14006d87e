"""Hits that are no chunks: what a strategy returns that joins places of several documents, and who reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict

import pytest

import kvstore
from kvstore.arguments import Option
from kvstore.registry import register
from kvstore.registry.contract import System
from kvstore.retrieval.evidence import Evidence, Hit, TextSpan
from kvstore.retrieval.query import Query

TEXTS = {
    "ada": "# Ada Lovelace\n\nAda Lovelace wrote notes on the engine. Nobody asked her to.\n\n"
    "# Birth\n\nShe was born in 1815.",
    "babbage": "# Charles Babbage\n\nCharles Babbage designed the engine of brass. He lived in Marylebone.",
}


class Overview:
    """One summary: the first sentence of the body of each document, and the birth of the first."""

    name = "overview"
    description = "a summary made of sentences of several documents"
    options: Mapping[str, Option] = {}

    def retrieve(self, query: Query) -> Evidence:
        spans = []
        for key, sentence in (("ada", "She was born in 1815."), ("ada", "Ada"), ("babbage", "Charles")):
            record = query.state.documents.find_by_key(key)
            assert record is not None
            text = query.state.documents.read_text(record.id).decode()
            start = text.index(sentence, len("# Charles Babbage")) if sentence != "Ada" else text.index("Ada", 16)
            chunks = query.state.chunks.get_many(record.chunk_ids())
            chunk = next(c.ordinal for c in chunks if c.start <= start < c.end)
            spans.append(TextSpan(key, chunk, start, text.index(".", start) + 1))
        text = " ".join(TEXTS[span.document][span.start : span.end] for span in spans)
        span = spans[0]
        place = (span.document, span.ordinal, text, "an overview", span.start, span.end, "", "Lives")
        return Evidence(query.question, self.name, [Hit(1, 1.0, *place, "summary", tuple(spans))], pool=1)


@pytest.fixture
def overview_store(store: kvstore.Store) -> Iterator[kvstore.Store]:
    take_back = register(System("overview", "of no paper", strategies=(Overview(),)))
    for key, text in TEXTS.items():
        store.put(key, text, format="markdown")
    yield store
    take_back()


def test_a_chunk_is_one_place(overview_store: kvstore.Store) -> None:
    for hit in overview_store.retrieve("Who designed the engine?").hits:
        assert (hit.kind, hit.spans) == ("chunk", (TextSpan(hit.document, hit.ordinal, hit.start, hit.end),))


def test_chunk_is_the_deprecated_name_of_ordinal(overview_store: kvstore.Store) -> None:
    answer = overview_store.ask("Who designed the engine?")
    (hit, *_), (citation, *_) = answer.evidence.hits, answer.citations
    for place in (hit, hit.spans[0], citation, citation.spans[0]):
        name = type(place).__name__
        expected = rf"{name}\.chunk is deprecated and will be removed in kvstore 0\.5; use {name}\.ordinal"
        with pytest.warns(DeprecationWarning, match=expected) as warnings:
            assert place.chunk == place.ordinal
        assert warnings[0].filename == __file__
        assert "removed in kvstore 0.5" in str(type(place).__doc__).replace("\n", " ").replace("    ", "")
    columns = answer.evidence._get_named_rows()[0]
    assert (columns[3], columns[-1]) == ("ordinal", "chunk")


def test_rows_have_every_place_of_a_summary(overview_store: kvstore.Store) -> None:
    (row,) = overview_store.execute("RETRIEVE 'Who lived?' USING overview").fetchall()
    assert row[6] == "summary"
    assert [span["document"] for span in row[7]] == ["ada", "ada", "babbage"]
    assert " ".join(TEXTS[span["document"]][span["start"] : span["end"]] for span in row[7]) == row[4]
    assert [row[2], row[3]] == [row[7][0]["document"], row[7][0]["ordinal"]]


def test_an_answer_from_a_summary_cites_the_source_of_its_sentences(overview_store: kvstore.Store) -> None:
    overview_store.set("least_confidence", 0)
    answer = overview_store.ask("What did Charles Babbage design of brass?", using="overview")
    citation = answer.citations[0]
    assert (citation.document, citation.kind) == ("babbage", "summary")
    assert TEXTS["babbage"][citation.start : citation.end] == "Charles Babbage designed the engine of brass."
    # Text next to the sentences of the summary is not part of the hit.
    assert all("Nobody asked" not in citation.text for citation in answer.citations)
    born = overview_store.ask("When was she born?", using="overview").citations[0]
    assert (TEXTS["ada"][born.start : born.end], born.ordinal) == ("She was born in 1815.", 1)


def test_a_prompt_and_a_refusal_cite_a_summary_whole(overview_store: kvstore.Store) -> None:
    prompt = overview_store.prompt("Who designed the engine?", using="overview")
    assert prompt.passages[0].text in prompt.user
    overview_store.set("least_confidence", 1)
    citation = overview_store.ask("Who designed the engine?", using="overview").citations[0]
    hit = overview_store.retrieve("Who designed the engine?", using="overview").hits[0]
    assert (citation.kind, citation.spans) == ("summary", hit.spans)
    assert [asdict(span) | {"chunk": span.ordinal} for span in citation.spans] == overview_store.execute(
        "ASK 'Who designed the engine?' USING overview"
    ).fetchall()[0][1][0]["spans"]
