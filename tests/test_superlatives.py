"""The rows of a table that a superlative in a question compares, and the answers that they give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

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
    return mark_extremes([ComparedRow("table", text) for text in texts], superlative)


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
        ("the top-rated hat", "Hat: A; Rating: 4.4/5|Hat: B; Rating: 4.6/5", "Hat: B; top-rated Rating: 4.6/5"),
        (
            "the longest tour",
            "Tour: A; Duration: 1 h 45 min|Tour: B; Duration: 90 min|Tour: C; Duration: 1h30",
            "Tour: A; longest Duration: 1 h 45 min",
        ),
        (
            "the largest village",
            "Village: A; Population: 12 400|Village: B; Population: 980",
            "Village: A; largest Population: 12 400",
        ),
        (
            "the cheapest car",
            "Car: A; Price: 1.250,50 €|Car: B; Price: 12.400,00 €|Car: C; Price: 900,00 €",
            "Car: C; cheapest Price: 900,00 €",
        ),
        (
            "Which club has the biggest budget?",
            "Club: A; Capacity: 900; Budget: $900,000|Club: B; Capacity: 400; Budget: $1.2 million",
            "Club: B; Capacity: 400; biggest Budget: $1.2 million",
        ),
        ("the largest file", "File: A; Size: 900 MB|File: B; Size: 2 GB", "File: B; largest Size: 2 GB"),
        (
            "the coldest hut",
            "Hut: A; Temperature: −5 °C|Hut: B; Temperature: 3 °C",
            "Hut: A; coldest Temperature: −5 °C",
        ),
        ("the cheapest lesson", "Lesson: A; Price: $40-80|Lesson: B; Price: $50", "Lesson: A; cheapest Price: $40-80"),
        ("the cheapest flat", "Flat: A; Rent: 1999|Flat: B; Rent: 1200", "Flat: B; cheapest Rent: 1200"),
        (
            "the newest flat",
            "Flat: A; Rent: 2100; Built: 1999|Flat: B; Rent: 1500; Built: 2005",
            "Flat: B; Rent: 1500; newest Built: 2005",
        ),
        (
            "the latest event",
            "Event: A; Time: 2025-03-08T10:00|Event: B; Time: 2025-03-08T17:30",
            "Event: B; latest Time: 2025-03-08T17:30",
        ),
        (
            "the latest course",
            "Course: A; Start: 8.2.2025|Course: B; Start: 1 May 2025",
            "Course: B; latest Start: 1 May 2025",
        ),
        ("Who is the youngest?", "Name: A; Age: 34|Name: B; Age: 19", "Name: B; youngest Age: 19"),
        (
            "the cheapest room in Oslo",
            "Room: A; Place: Bergen, Norway; Price: $40|Room: B; Place: Oslo, Norway; Price: $90",
            "Room: B; Place: Oslo, Norway; cheapest Price: $90",
        ),
        ("the newest wing", "Wing: A; Remodeled: 1999|Wing: B; Remodeled: 2005", "Wing: B; newest Remodeled: 2005"),
        (
            "the newest flat",
            "Flat: A; Rent: 1999; Built: 1960|Flat: B; Rent: 1200; Built: 2005",
            "Flat: B; Rent: 1200; newest Built: 2005",
        ),
        ("the youngest group", "Group: A; Ages: 6-8|Group: B; Ages: 3-5", "Group: B; youngest Ages: 3-5"),
        (
            "Which plan has the most photos?",
            "Plan: A; Photos: 500|Plan: B; Photos: unlimited",
            "Plan: B; most Photos: unlimited",
        ),
        ("the earliest trip", "Trip: A; Day: 15/03/2025|Trip: B; Day: 04/05/2025", "Trip: A; earliest Day: 15/03/2025"),
        ("the earliest trip", "Trip: A; Day: 03/15/2025|Trip: B; Day: 04/02/2025", "Trip: A; earliest Day: 03/15/2025"),
        ("Which club is ranked highest?", "Rank: 1; Club: A|Rank: 2; Club: B", "highest Rank: 1; Club: A"),
        (
            "the fastest train",
            "Train: A; Departs: 06:10; Duration: 2:15|Train: B; Departs: 07:45; Duration: 1:30",
            "Train: B; Departs: 07:45; fastest Duration: 1:30",
        ),
        (
            "the cheapest course",
            "Course: A; Fee: 90; Pass_rate: 71%|Course: B; Fee: 80; Pass_rate: 75%",
            "Course: B; cheapest Fee: 80; Pass_rate: 75%",
        ),
        ("the cheapest boat", "name: A; day_rate: 200|name: B; day_rate: 150", "name: B; cheapest day_rate: 150"),
        ("the fastest car", "Car: A; Speed (km/h): 200|Car: B; Speed (km/h): 150", "Car: A; fastest Speed (km/h): 200"),
        (
            "the highest peak",
            "Peak: A; Elevation (m): 900|Peak: B; Elevation (m): 1950",
            "Peak: B; highest Elevation (m): 1950",
        ),
        ("the largest flat", "Flat: A; Size: 45 m2|Flat: B; Size: 120 m2", "Flat: B; largest Size: 120 m2"),
        (
            "the highest rent",
            "Stall: A; Rent: $4|Stall: B; Rent: $7|Stall: Total; Rent: $11",
            "Stall: B; highest Rent: $7",
        ),
        ("What costs the most?", "Food: $4|Drinks: $7|Total costs: $11", "costs the most: Drinks: $7"),
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
        ("Which ferry is the fastest?", ["Boat: A; Length: 6 m", "Boat: B; Length: 11 m"]),
        ("Which room is the cheapest?", ["Room: A; Price: $40", "Room: B; Price: on request", "Room: C; Price: n/a"]),
        ("Which car is the cheapest?", ["Car: A; Price: $85 a day", "Car: B; Price: $300 a week"]),
        ("Which trip is the earliest?", ["Trip: A; Day: 01/03/2025", "Trip: B; Day: 03/01/2025"]),
        ("Which car is the cheapest?", ["Car: A; Price: $40", "Car: B; Price: below $50", "Car: C; Price: $60"]),
        ("Which walk is the longest?", ["Walk: A; Duration: 90", "Walk: B; Duration: 2 h"]),
        ("Which town is the largest?", ["Town: A; Population: 1.250", "Town: B; Population: 980"]),
        ("Which camp is the cheapest?", ["Price: $20", "Places: 40", "Price: $15", "Places: 10"]),
        ("Which apple is the heaviest?", ["Apple: A; Price per kg: 3", "Apple: B; Price per kg: 4"]),
        ("Which room is the cheapest?", ["Room: A; Price: $40", "Room: B; Note: new; Price: 5; Price: $60"]),
        ("What do most members pay?", ["Club: A; Price: $40", "Club: B; Price: $25"]),
        ("What is most important for members?", ["Club: A; Members: 40", "Club: B; Members: 25"]),
    ],
)
def test_rows_without_a_comparable_column_are_kept(question: str, texts: Sequence[str]) -> None:
    assert mark(question, texts) == {}


@pytest.mark.parametrize(
    "question",
    [
        "Who owns most of the boats?",
        "Is it at most 5 km away?",
        "Who keeps the boats?",
        "Which room is the second cheapest?",
        "What are the 3 cheapest rooms?",
        "the 2nd largest boat",
    ],
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


@pytest.fixture
def empty_store(tmp_path: Path) -> Iterator[kvstore.Store]:
    if load_reader() is None:
        pytest.skip("the weights of the answer reader are not installed")
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        yield store


def get_first_sentence(store: kvstore.Store, question: str, **clauses: str) -> str:
    return store.ask(question, **clauses).text.split("\n\n")[0]


def test_the_end_of_a_range_is_not_the_highest_value() -> None:
    rows = ["Lesson: A; Price: $40-80", "Lesson: B; Price: $60"]
    assert not any(mark("Which lesson is the most expensive?", rows).values())


def test_two_tables_of_a_section_are_compared_separately(empty_store: kvstore.Store, tmp_path: Path) -> None:
    tables = "| Room | Price |\n| --- | --- |\n| Fjord | $140 |\n| Top | $95 |\n\n| Meal | Price |\n| --- | --- |\n"
    (tmp_path / "hotel.md").write_text(f"# Hotel\n\nOur rooms and meals.\n\n{tables}| Soup | $9 |\n| Fish | $24 |\n")
    empty_store.ingest(tmp_path / "hotel.md")
    assert "Room: Top" in get_first_sentence(empty_store, "Which room is the cheapest?")
    assert "Meal: Fish" in get_first_sentence(empty_store, "Which meal is the most expensive?")


def test_the_name_of_a_file_selects_its_rows(empty_store: kvstore.Store, tmp_path: Path) -> None:
    (tmp_path / "oslo.csv").write_text("Room,Price\nA1,$50\nA2,$70\n")
    (tmp_path / "bergen.csv").write_text("Room,Price\nB1,$40\nB2,$90\n")
    empty_store.ingest(tmp_path / "oslo.csv")
    empty_store.ingest(tmp_path / "bergen.csv")
    assert "Room: A1" in get_first_sentence(empty_store, "What is the cheapest room in Oslo?")
    assert "Room: B1" in get_first_sentence(empty_store, "Which room is the cheapest?")


def test_rows_with_empty_cells_are_of_the_same_table(empty_store: kvstore.Store, tmp_path: Path) -> None:
    rows = [f"Room {number},{'' if number % 2 else 'quiet'},${90 - number}" for number in range(40)]
    (tmp_path / "rooms.csv").write_text("\n".join(["Room,Note,Price", *rows]))
    empty_store.ingest(tmp_path / "rooms.csv")
    assert "Room: Room 39;" in get_first_sentence(empty_store, "Which room is the cheapest?")
    assert "Room: Room 0;" in get_first_sentence(empty_store, "Which room is the most expensive?")


def test_rows_without_a_file_are_compared_over_gaps_and_other_documents(empty_store: kvstore.Store) -> None:
    for number in range(40):
        empty_store.put(f"boat {number}", f"Boat: Boat {number}\nRent: ${100 - number}\nPlace: {'AB'[number % 2]}-dock")
        empty_store.put(f"meal {number}", f"Meal: Meal {number}\nRent: ${number}")
        empty_store.put(f"note {number}", f"The note {number} says nothing about prices.")
    empty_store.delete("boat 20")
    assert "Boat: Boat 39;" in get_first_sentence(empty_store, "Which boat is the cheapest?")
    assert "Boat: Boat 0;" in get_first_sentence(empty_store, "Which boat is the most expensive?")
    assert "Boat: Boat 38;" in get_first_sentence(
        empty_store, "Which boat is the cheapest?", where="key LIKE 'boat%' AND key NOT LIKE '%9'"
    )


def test_a_column_with_an_unclear_cell_that_is_not_read_is_not_compared(
    empty_store: kvstore.Store, tmp_path: Path
) -> None:
    rows = [f"Room {number},{'Sea' if number % 2 else 'Hill'},${number + 20}" for number in range(60)]
    (tmp_path / "rooms.csv").write_text("\n".join(["Room,View,Price", *rows, "Shed,Yard,below $9"]))
    empty_store.ingest(tmp_path / "rooms.csv")
    assert empty_store.ask("Which room is the cheapest?").confidence < 0.5


def test_the_extreme_row_is_found_in_a_table_of_many_chunks(empty_store: kvstore.Store, tmp_path: Path) -> None:
    rows = "".join(
        f"| Boat {number} | {20 + number * 37 % 301} | moored at quay {number % 7} |\n" for number in range(300)
    )
    (tmp_path / "boats.md").write_text(
        f"# Boats for hire\n\n| Boat | Length (ft) | Place |\n| --- | --- | --- |\n{rows}"
    )
    empty_store.ingest(tmp_path / "boats.md")
    longest = max(range(300), key=lambda number: number * 37 % 301)
    assert f"Boat: Boat {longest};" in get_first_sentence(empty_store, "What is the longest boat?")


def test_a_superlative_of_a_long_word_is_searched_in_linear_time(limit_cpu_time: Callable[[float], None]) -> None:
    limit_cpu_time(10)
    assert find_superlative("a" * 300_000, str) is None
