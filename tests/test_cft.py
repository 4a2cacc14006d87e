"""Strategy cft: the question's entities are told with their ancestors and descendants, beside chunks."""

from __future__ import annotations

import pytest

import kvstore
from kvstore.errors import InputError

FLEET = "tug,ship\nferry,ship\nship,vessel\nvessel,craft\ncraft,thing\nsteam tug,tug\nharbour tug,tug\n"


@pytest.fixture
def fleet(store: kvstore.Store) -> kvstore.Store:
    store.put("fleet", FLEET, format="pairs")
    store.put_edge("tug", "Harbour", tree="places")
    store.put("diary", "We saw a tug in the morning and the bakery at noon.", title="Diary")
    return store


def test_every_place_of_an_entity_is_told_with_its_first_relatives(fleet: kvstore.Store) -> None:
    evidence = fleet.retrieve("What is a tug?", using="cft")
    assert set(evidence.context) == {
        "tug (in fleet) is under ship, vessel, craft; above steam tug, harbour tug",
        "tug (in places) is under Harbour",
    }
    assert evidence.hits[0].document == "diary"
    near = fleet.retrieve("What is a tug?", using="cft", options={"relatives": 1, "places": 1})
    assert len(near.context) == 1
    assert near.context[0] in ("tug (in fleet) is under ship; above steam tug", "tug (in places) is under Harbour")
    told = {step.name: step for step in evidence.steps}
    assert told["filter to places in the forest"].detail == "tug (2)"
    assert told["ancestors and descendants"].count == 2


def test_what_yields_is_not_told_and_names_that_are_one_are_told_together(fleet: kvstore.Store) -> None:
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


def test_options_are_checked(fleet: kvstore.Store) -> None:
    with pytest.raises(InputError, match="relatives lies between 1 and 100"):
        fleet.retrieve("tug", using="cft", options={"relatives": 0})
