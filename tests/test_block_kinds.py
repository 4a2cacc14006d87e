"""Tests of the kinds of paragraphs that are not sentences: each is recognized and split as its row says."""

from __future__ import annotations

import pytest

from kvstore.answering.block_kinds import BLOCK_KINDS, BlockKind, find_block_kind
from kvstore.answering.snippets import PassageBlock

#: The displayed snippets of the example of each kind.
SNIPPETS = {
    "bill": ["Milk 1.20", "Bread 3.40"],
    "timestamped": ["[3.12.26, 18:22] Bo: Who has it?", "[3.12.26, 18:24] Al: Me."],
    "piped": ["Bed: 2; Name: Ann Lee; Notes: stays"],
    "record": ["country: Albania; income: 10620"],
    "columns": ["Monday: closed", "Friday: 10:00 - 18:00"],
    "line list": ["Dentist 0171 55 23", "Blue bins on Tuesday"],
}


@pytest.mark.parametrize("kind", BLOCK_KINDS, ids=[kind.name for kind in BLOCK_KINDS])
def test_the_example_of_a_kind_is_recognized_and_split(kind: BlockKind) -> None:
    assert find_block_kind(kind.example) is kind
    text = f"Before.\n\n{kind.example}\n\nAfter."
    start = text.index(kind.example)
    snippets = list(kind.split(PassageBlock(text, start, start + len(kind.example), 1)))
    assert [snippet.text for snippet in snippets] == SNIPPETS[kind.name]
    assert all(text[snippet.start : snippet.end] in kind.example for snippet in snippets)


@pytest.mark.parametrize("paragraph", ["The port of\nBergen is old.", "At 9:30\nor 10:00.", "Ann: Is it high?"])
def test_sentences_have_no_kind(paragraph: str) -> None:
    assert find_block_kind(paragraph) is None


@pytest.mark.parametrize("line", ["<br>", "<!-- draft -->", "![A boat](boat.png)"])
def test_lines_that_display_nothing_have_no_snippets(line: str) -> None:
    text = f"{line}\n{line}"
    kind = find_block_kind(text)
    assert kind is not None and list(kind.split(PassageBlock(text, 0, len(text), 0))) == []


def test_a_record_can_have_a_sentence() -> None:
    row = "patient: Biscuit\nweight: 12 kg\nadvice: Check the ear every three months for one year and then yearly."
    kind = find_block_kind(row)
    assert kind is not None and kind.name == "record"
    assert find_block_kind(f"{row}\nnote: See above.\nremark: It is cured.") is None, "most lines are sentences"
    assert find_block_kind(f"{row}{' It heals.' * 40}") is None, "the row is too long to be displayed"


def test_the_colons_of_a_form_can_be_aligned() -> None:
    form = "Ward          : Heron\nReported by   : Bo Ray   Phone: 23"
    kind = find_block_kind(form)
    assert kind is not None
    snippets = kind.split(PassageBlock(form, 0, len(form), 0))
    assert [snippet.text for snippet in snippets] == ["Ward: Heron", "Reported by: Bo Ray; Phone: 23"]


def test_the_names_of_columns_are_repeated_in_each_row() -> None:
    def split_table(text: str) -> list[str]:
        kind = find_block_kind(text)
        assert kind is not None and kind.name == "columns"
        return [snippet.text for snippet in kind.split(PassageBlock(text, 0, len(text), 0))]

    prices = "Boat     Crew   Fee a day\nDinghy   1      12.50\nCutter   4      80.00"
    assert split_table(prices) == ["Boat: Dinghy; Crew: 1; Fee a day: 12.50", "Boat: Cutter; Crew: 4; Fee a day: 80.00"]
    fees = "Service   2023/24   2024/25\nGrave     £430      £455\nPermit    none      free"
    assert split_table(fees)[1] == "Service: Permit; 2023/24: none; 2024/25: free"
    shows = "Show    2023      2024\nFair    May 2023  May 2024\nRegatta  none     June 2024"
    assert split_table(shows)[0] == "Show: 2023; 2024", "the cells have years too"
    lanes = "Lane     20' DV   40' HC\nGdynia   380      610\nBilbao   495      on request\nRiga     420      1,660"
    assert split_table(lanes)[0] == "Lane: Gdynia; 20' DV: 380; 40' HC: 610"
    races = "Heat 1   400 m   Ann\nHeat 2   800 m   Bo\nHeat 3   200 m   Cy"
    assert split_table(races)[0] == "Heat 1: 400 m; Ann"
    hours = "Monday    closed   closed\nTuesday   9-12     14-18\nFriday    9-12     14-20"
    assert split_table(hours) == ["Monday: closed; closed", "Tuesday: 9-12; 14-18", "Friday: 9-12; 14-20"]
    staff = "Ann Lee   Chief   None\nBo Ray    Cook    room 12\nCy Day    Guard   room 14"
    assert split_table(staff) == ["Ann Lee: Chief; None", "Bo Ray: Cook; room 12", "Cy Day: Guard; room 14"]
    for missing in ("None", "n/a", "on request"):
        boats = f"Dinghy   Quay   {missing}\nCutter   Yard   12 euros\nSloop    Quay   15 euros"
        assert split_table(boats)[0] == f"Dinghy: Quay; {missing}"
    people = "Full Name   Task    Phone\nAnn Lee     boats   31\nBo Ray      ropes   27"
    assert split_table(people)[0] == "Full Name: Ann Lee; Task: boats; Phone: 31"
