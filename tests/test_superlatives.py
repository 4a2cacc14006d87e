"""The rows of a table that a superlative in a question compares, and the answers that they give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kvstore
from kvstore.answering.answer_reader.reader import load_reader
from kvstore.answering.answer_reader.superlatives import ComparedRow, find_superlative, mark_extremes
from kvstore.text.words import get_stemmer

STEM = get_stemmer("english")
UNITS = {"min": 60, "h": 3600, "days": 86400, "weeks": 604800}


def mark(question: str, texts: Sequence[str]) -> dict[int, str | None]:
    superlative = find_superlative(question, STEM)
    assert superlative is not None
    return mark_extremes([ComparedRow("table", text) for text in texts], superlative, STEM)


@pytest.mark.parametrize(
    ("question", "rows", "marked"),
    [
        ("the cheapest room", "Room: A; Price: $1,040|Room: B; Price: $250", "Room: B; cheapest Price: $250"),
        ("the longest tour", "Tour: A; Duration: 90 min|Tour: B; Duration: 2 h", "Tour: B; longest Duration: 2 h"),
        ("newest club", "Club: A; Founded: 1979; Fee: $9|Club: B; Founded: 2012", "Club: B; newest Founded: 2012"),
        (
            "the earliest course",
            "Course: A; Start: 2025-03-08|Course: B; Start: 2 March 2025",
            "Course: B; earliest Start: 2 March 2025",
        ),
        (
            "Which disk restores fastest?",
            "disk: A; restore_s: 40|disk: B; restore_s: 31",
            "disk: B; fastest restore_s: 31",
        ),
        (
            "Which disk restores fastest?",
            "disk: A; restore_mb_s: 40|disk: B; restore_mb_s: 31",
            "disk: A; fastest restore_mb_s: 40",
        ),
        (
            "Who has the highest hourly rate?",
            "Name: A; Hourly rate: 9; Fee: 1|Name: B; Hourly rate: 8; Fee: 5",
            "Name: A; highest Hourly rate: 9; Fee: 1",
        ),
        ("Which car costs the least?", "Minibus: $85 a day|Pickup: $62 a day", "costs the least: Pickup: $62 a day"),
        ("the cheapest venue", "Venue: A; Hire: $40|Venue: B; Hire: free", "Venue: B; cheapest Hire: free"),
        (
            "the cheapest plumber",
            "Firm: A; Trade: Painter; Rate: $10|Firm: B; Trade: Plumber; Rate: $30|Firm: C; Trade: Plumber; Rate: $20",
            "Firm: C; Trade: Plumber; cheapest Rate: $20",
        ),
        ("Which hat is best rated?", "Hat: A; Rating: 4.4|Hat: B; Rating: 4.6", "Hat: B; best rated Rating: 4.6"),
    ],
)
def test_the_superlative_is_written_into_the_row_with_the_extreme_value(question: str, rows: str, marked: str) -> None:
    assert [text for text in mark(question, rows.split("|")).values() if text] == [marked]


@pytest.mark.parametrize(
    ("question", "texts"),
    [
        ("What is the minimum age?", ["Course: A; Minimum age: 16", "Course: B; Minimum age: 18"]),
        ("What is the heaviest room?", ["Room: A; Price: $40", "Room: B; Price: $25"]),
        ("Which club has the most coaches?", ["Club: A; Members: 40", "Club: B; Members: 25"]),
        ("Which room is the cheapest?", ["Room: A; Price: $40", "Room: B; Price: €25"]),
        ("Which room is the cheapest?", ["Room: A; Price: $40", "Room: B; Price: on request", "Room: C; Price: n/a"]),
    ],
)
def test_rows_without_a_comparable_column_are_kept(question: str, texts: Sequence[str]) -> None:
    assert mark(question, texts) == {}


@pytest.mark.parametrize(
    "question", ["Who owns most of the boats?", "Is it at most 5 km away?", "Who keeps the boats?"]
)
def test_a_question_without_a_comparison_has_no_superlative(question: str) -> None:
    assert find_superlative(question, STEM) is None


@pytest.mark.property
@given(st.lists(st.tuples(st.integers(1, 500), st.sampled_from(sorted(UNITS))), min_size=2, max_size=12), st.booleans())
def test_the_marked_rows_have_the_extreme_of_all_durations(values: list[tuple[int, str]], is_longest: bool) -> None:
    texts = [f"Walk: {number}; Duration: {value} {unit}" for number, (value, unit) in enumerate(values)]
    marked = mark(f"Which walk is the {'longest' if is_longest else 'shortest'}?", texts)
    seconds = [value * UNITS[unit] for value, unit in values]
    extreme = max(seconds) if is_longest else min(seconds)
    assert [index for index in range(len(texts)) if marked[index]] == [
        index for index, value in enumerate(seconds) if value == extreme
    ]


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kvstore.Store]:
    """Yield a store with a file of sixty rows, and with a table of twelve rows in several chunks of a document."""
    if load_reader() is None:
        pytest.skip("the weights of the answer reader are not installed")
    folder = tmp_path_factory.mktemp("market")
    documents = folder / "documents"
    documents.mkdir()
    rows = [f"Stall {number},{('Fruit', 'Cloth')[number % 2]},${(number * 37) % 61 + 5}" for number in range(60)]
    (documents / "stalls.csv").write_text("\n".join(["Stall,Goods,Rent per day", *rows]))
    boats = "".join(f"| Boat {name} | {(number * 7) % 12 + 20} |\n" for number, name in enumerate("ABCDEFGHIJKL"))
    (documents / "boats.md").write_text(f"# Boats for hire\n\n| Boat | Length (ft) |\n| --- | --- |\n{boats}")
    with kvstore.open(folder / "store", settings={"language": "rules", "chunk_tokens": 32}) as store:
        store.ingest(documents)
        yield store


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which stall is the cheapest?", "Stall: Stall 0; Goods: Fruit; Rent per day: $5"),
        ("Which cloth stall is the cheapest?", "Stall: Stall 33; Goods: Cloth; Rent per day: $6"),
        ("Which stall costs the most?", "Stall: Stall 28; Goods: Fruit; Rent per day: $65"),
        ("What is the longest boat?", "Boat: Boat F; Length (ft): 31"),
    ],
)
def test_the_extreme_row_of_a_whole_table_answers(market: kvstore.Store, question: str, answer: str) -> None:
    result = market.ask(question)
    assert result.outcome == "answered"
    assert answer in result.text.split("\n\n")[0]


def test_a_superlative_of_a_missing_column_is_not_answered(market: kvstore.Store) -> None:
    assert market.ask("Which boat is the heaviest?").outcome == "nearest"


def test_only_allowed_rows_are_compared(market: kvstore.Store) -> None:
    result = market.ask("Which stall is the cheapest?", where="meta ->> 'Goods' = 'Cloth'")
    assert "Stall 33" in result.text.split("\n\n")[0]
