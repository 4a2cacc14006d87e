"""Ranges in texts are replaced by the quantities of a question that they include."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstore.answering.answer_reader.quantity_ranges import replace_ranges
from kvstore.text.quantities import find_quantities
from kvstore.text.words import get_stemmer

STEM = get_stemmer("english")


@pytest.mark.parametrize(
    ("question", "text", "replaced"),
    [
        ("How many parts of a lot of 60?", "lot size: 26–100; parts: 5", "lot size: 60; parts: 5"),
        ("Who pays freight on an order of $700?", "on orders from $500 up we pay", "on orders for $700 we pay"),
        ("Who approves a purchase of 3000 dollars?", "approval.up_to_5000: Dale", "approval.3000: Dale"),
        ("leave after 7 years", "between five and nine years: 24 days", "7 years: 24 days"),
        ("leave after 7 years", "years of service: 5-9; days: 24", "years of service: 7; days: 24"),
        ("if I cancel five days before arrival", "14 to 4 days: half", "five days: half"),
        ("What does a 45-year-old pay?", "ages 18-64: $10", "ages 45: $10"),
        ("admission for someone aged 70", "Seniors (65 and over): $9", "Seniors (70): $9"),
        ("a group of 18 visitors", "Groups of 10 to 24 people pay $10", "Groups of 18 people pay $10"),
        ("discount on 60 jars of honey", "honey: min qty: 48; max qty: 119", "honey: qty: 60"),
        ("Which zone is postcode 2750 in?", "Postcode from: 2300; Postcode to: 3999", "Postcode: 2750"),
        (
            "Who drives to 1620?",
            "from: 1500; to: 2299; place: Kirkby; who drives: Lotte",
            "1620; place: Kirkby; who drives: Lotte",
        ),
        ("Is room 12 upstairs?", "Rooms 10–15 are upstairs.", "Rooms 12 are upstairs."),
        ("Who was mayor in 1942?", "Ann Lee was mayor from 1939 to 1945.", "Ann Lee was mayor in 1942."),
        ("Who was director in 2020?", "Tom Berg, since 2017", "Tom Berg, 2020"),
        ("Where do I park on June 5?", "From 3 to 7 June, park at the church.", "on June 5, park at the church."),
        ("Is it open on 12 January?", "Winter: November 1 - February 28", "Winter: 12 January"),
        ("When is it open on Wednesday?", "Mon–Fri: 8–16", "Wednesday: 8–16"),
        ("When is it open on weekdays?", "Day: Mon-Fri; Hours: 8–16", "Day: weekdays; Hours: 8–16"),
        ("Is it closed in July?", "Closed June–August.", "Closed July."),
        ("Who is on leave on 8 May?", "start: 2026-05-04; end: 2026-05-15; name: Bea", "8 May; name: Bea"),
        (
            "Who is on call on 8 May?",
            "Duty: Bea; When: Friday, 7 May 2026 (2026-05-07) 18:00; Until: Monday, 10 May 2026 (2026-05-10) 08:30",
            "Duty: Bea; When: 8 May",
        ),
        ("Who is on call on Saturday at 3 pm?", "Friday to Sunday, 8 a.m. to 6 p.m.", "Saturday, 3 pm"),
        ("Who is on duty at 2 a.m.?", "Night shift 22:00-06:00: Bea", "Night shift 2 a.m.: Bea"),
    ],
)
def test_a_range_is_replaced_by_the_quantity_that_it_includes(question: str, text: str, replaced: str) -> None:
    (compared,) = replace_ranges([text], question, STEM)
    assert (compared.text, compared.is_within, compared.is_outside) == (replaced, True, False)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("What does a parcel of 12 kg cost?", "up to 10 kg: $6"),
        ("What does a parcel of 5 kg cost?", "less than 5 kg: $6"),
        ("What does a parcel of 5 kg cost?", "more than 5 kg: $9"),
        ("Who was mayor in 1950?", "Ann Lee was mayor from 1939 to 1945."),
        ("Where do I park on June 9?", "From 3 to 7 June, park at the church."),
        ("Who is on call on Monday?", "Friday to Sunday: Bea"),
        ("When is it open at the weekend?", "Mon–Fri: 8:00–16:00"),
        (
            "Who is on call on 12 May?",
            "When: Friday, 7 May 2026 (2026-05-07) 18:00; Until: Monday, 10 May 2026 (2026-05-10) 08:30",
        ),
    ],
)
def test_a_range_that_does_not_include_the_quantity_is_kept(question: str, text: str) -> None:
    (compared,) = replace_ranges([text], question, STEM)
    assert compared.text == text and not compared.is_within
    has_number = any(quantity.value == 5 for quantity in find_quantities(text))
    assert compared.is_outside is not has_number  # a text with the number itself is about it


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Who approves purchase 4711?", "Purchases up to 5000 dollars are approved by Ann."),
        ("What does a parcel of 3 kg cost?", "1 to 7 days late: 20 cents"),
        ("Can we meet at 3 pm?", "from 1 to 5 rooms"),
        ("May I park on the lawn?", "from April to October"),
        ("How loud may it be?", "up to 60 dB"),
        ("order of 700", "Telephone 555-1234, KX-120, 2024-03-11"),
        ("Where was the offsite in 2019?", "offsite 2025-11-19"),
        ("Who is on call in room 13?", "rooms list 2025-10"),
        ("How long does a migration of 11 take?", "migration 2.2 -> 2.4"),
    ],
)
def test_other_numbers_are_not_compared(question: str, text: str) -> None:
    (compared,) = replace_ranges([text], question, STEM)
    assert (compared.text, compared.is_within, compared.is_outside) == (text, False, False)


def test_only_the_narrowest_of_the_ranges_of_one_form_is_replaced() -> None:
    texts = ["up to 5 kg: 4.50", "up to 10 kg: 6.90", "up to 20 kg: 9.90"]
    assert [compared.text for compared in replace_ranges(texts, "What does a parcel of 7 kg cost?", STEM)] == [
        "up to 5 kg: 4.50",
        "7 kg: 6.90",
        "up to 20 kg: 9.90",
    ]


@given(st.integers(2, 10**6), st.integers(2, 10**6), st.integers(2, 10**6))
def test_a_range_includes_the_numbers_between_its_ends(lower: int, upper: int, value: int) -> None:
    lower, upper = sorted((lower, upper))
    question = f"What do {value} screws cost?"
    texts = {
        f"{lower}-{upper} screws: $1": lower <= value <= upper,
        f"from {lower:,} to {upper:,} screws: $1": lower <= value <= upper,
        f"up to {upper} screws: $1": value <= upper,
        f"under {upper} screws: $1": value < upper,
        f"{lower} or more screws: $1": value >= lower,
        f"more than {lower} screws: $1": value > lower,
    }
    for text, is_included in texts.items():
        (compared,) = replace_ranges([text], question, STEM)
        if value not in (lower, upper):
            assert (compared.is_within, compared.is_outside) == (is_included, not is_included)
        assert (f"{value} screws: $1" in compared.text) or not compared.is_within
