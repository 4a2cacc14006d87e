"""Strategy cft: the entities of the question are described with their ancestors and descendants, next to chunks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

import kvstore
from kvstore.changes.pending import PendingDocument
from kvstore.errors import InputError
from kvstore.extraction.document_names import Introduction
from kvstore.extraction.extraction import extract
from kvstore.extraction.stated_relations import Relation
from kvstore.text.normalize import to_entity_key

FLEET = "tug,ship\nferry,ship\nship,vessel\nvessel,craft\ncraft,thing\nsteam tug,tug\nharbour tug,tug\n"


@pytest.fixture
def fleet(store: kvstore.Store) -> kvstore.Store:
    store.put("fleet", FLEET, format="pairs")
    store.put_edge("tug", "Harbour", tree="places")
    store.put("diary", "We saw a tug in the morning and the bakery at noon.", title="Diary")
    return store


def test_every_location_of_an_entity_is_described_with_its_first_relatives(fleet: kvstore.Store) -> None:
    evidence = fleet.retrieve("What is a tug?", using="cft")
    assert set(evidence.context) == {
        "tug (in fleet) is under ship, vessel, craft; above harbour tug, steam tug",
        "tug (in places) is under Harbour",
    }
    assert evidence.hits[0].document == "diary"
    with_relatives = fleet.retrieve("What is a tug?", using="cft", options={"relatives": 1})
    assert "tug (in fleet) is under ship; above harbour tug" in with_relatives.context
    steps = {step.name: step for step in evidence.steps}
    assert steps["find nodes in the forest"].detail == "tug (2)"
    assert steps["ancestors and descendants"].count == 2


def test_displaced_edges_are_left_out_and_merged_names_are_described_together(fleet: kvstore.Store) -> None:
    fleet.put_edge("tug", "vessel", tree="fleet")
    fleet.put_edge("Towboat", "Workboat", tree="boats")
    fleet.merge("towboat", "tug")
    context = fleet.retrieve("What is a towboat?", using="cft").context
    assert {line.split(" is ")[0] for line in context} == {
        "tug (in fleet)", "tug (in places)", "Towboat (in boats)"
    }  # fmt: skip
    assert any("under ship, vessel, craft;" in line for line in context)


def test_a_root_is_above_and_an_unknown_name_is_nowhere(fleet: kvstore.Store) -> None:
    assert fleet.retrieve("A thing?", using="cft").context == ["thing (in fleet) is above craft, vessel, ship"]
    evidence = fleet.retrieve("Who bakes?", using="cft")
    assert evidence.context == []
    assert [hit.document for hit in evidence.hits] == ["diary"]
    assert "dense search alone" in " ".join(step.detail for step in evidence.steps)


def test_more_chunks_may_state_relations_than_are_asked_for(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store(settings={"language": "en"})
    for number, kind in enumerate(("tug", "ferry", "barge", "yacht", "dredger", "trawler")):
        store.put(f"kind-{number}", f"A {kind} is a kind of vessel. Every vessel of this kind has a bell.")
    evidence = store.retrieve("What is a vessel?", using="cft", top=2, options={"relatives": 10})
    assert len(evidence.hits) == 2
    assert all(" under vessel" in hit.path for hit in evidence.hits)


def test_an_answer_quotes_the_forest(fleet: kvstore.Store) -> None:
    fleet.set("least_confidence", 0)  # "seen" is no word of the store
    answer = fleet.ask("Where was a tug seen?", using="cft")
    assert answer.text.startswith("Diary: We saw a tug in the morning and the bakery at noon. [1]\n\ntug (in ")
    assert len(answer.citations) == 1
    fleet.delete("diary")
    assert fleet.ask("A thing?", using="cft").text == "thing (in fleet) is above craft, vessel, ship."
    assert fleet.ask("Who bakes?", using="cft").text == "The documents do not say this."


def test_chunks_that_state_relations_are_found_and_marked(store: kvstore.Store) -> None:
    extracted = extract("notes", "The port has news. The tug belongs to the harbour fleet.", store.settings)
    sentence = extracted.text.index(b"The tug")
    relation = Relation("tug", "harbour fleet", "belongs", 0.9, sentence, len(extracted.text))
    names = [Introduction(to_entity_key(name), name, "tree") for name in ("harbour fleet", "tug")]
    extracted_twice = replace(extracted, relations=[relation], introductions=names)
    with store.transaction() as transaction:
        transaction._put(PendingDocument(extracted_twice))
    evidence = store.retrieve("tug", using="cft")
    assert evidence.context == ["tug (in relations) is under harbour fleet"]
    assert evidence.hits[0].path == "vector #1, relations #1, states tug under harbour fleet"
    assert store.expand("tug")[1].text == "The tug belongs to the harbour fleet."
    row = ("tug", "harbour fleet", "relations", "belongs", 0.9, "notes", sentence, len(extracted.text), 1)
    assert list(store.execute("SELECT * FROM edges")) == [row]
    store.delete("notes")
    assert list(store.execute("SELECT * FROM edges")) == []


def test_options_are_checked(fleet: kvstore.Store) -> None:
    with pytest.raises(InputError, match="relatives must be between 1 and 100"):
        fleet.retrieve("tug", using="cft", options={"relatives": 0})
