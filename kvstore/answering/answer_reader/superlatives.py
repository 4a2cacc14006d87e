"""Rows with an extreme value: the cheapest of a list of prices, the latest date, the highest number of a column.

In: a question with a superlative ("the cheapest", "costs the most", "the highest hourly rate"), and the rows of tables.
Out: for each table with a column that the superlative compares, the row with the extreme value, as a text in which the
superlative is written before the name of that column. The answer reader (a neural network) does not compare numbers,
and it sees one row at a time; "Service: Health check; cheapest Price: €480" it can read.

A column is comparable if most of its cells begin with a number, date or amount. A superlative with a measure, such as
"cheapest", compares a column of this measure; one without, such as "highest", a column that the question names. If the
question has the value of another cell ("the cheapest vendor for plumbing"), only the rows with that value are compared.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

from ...text.month_names import list_month_names
from ...text.patterns import compile_lazily
from ...text.words import list_content_terms, list_terms
from .quantities import CALENDAR_YEAR, CLOCK, DATE, WEEKDAY, find_quantities, find_unit

#: The superlatives of each measure: those of its highest values, and those of its lowest.
_SUPERLATIVES = {
    "price": (
        "most expensive, priciest, dearest, costliest, best paid, highest paid",
        "cheapest, least expensive, worst paid, lowest paid",
    ),
    "length": ("longest", "shortest, briefest"),
    "date": ("latest, newest, most recent", "earliest"),
    "age": ("oldest", "youngest"),
    "size": ("largest, biggest, roomiest", "smallest"),
    "weight": ("heaviest", "lightest"),
    "height": ("tallest", ""),
    "width": ("widest", "narrowest"),
    "depth": ("deepest", "shallowest"),
    "speed": ("fastest, quickest", "slowest"),
    "distance": ("farthest, furthest", "nearest, closest"),
    "rating": ("best rated, top rated, best-rated, top-rated", "worst rated, worst-rated"),
    "temperature": ("hottest, warmest", "coldest"),
    "": ("highest, greatest, maximum, most", "lowest, minimum, fewest, least"),
}
#: The words of the names of columns with each measure.
_COLUMN_WORDS = {
    "price": "price cost fee rate charge rent amount fare premium salary budget tariff offer bid quote total hire",
    "length": "duration length time long day days hours minutes weeks months years distance term period warranty",
    "date": "date day when released opened closed founded built since year joined start begins deadline due",
    "age": "age",
    "size": "size area capacity seats places population members volume people guests persons beds rooms",
    "weight": "weight mass",
    "height": "height elevation altitude",
    "width": "width",
    "depth": "depth",
    "speed": "speed pace",
    "distance": "distance away",
    "rating": "rating score stars grade review reviews",
    "temperature": "temperature",
}
#: The units of each measure; those of time and of the calendar are the base units of :data:`_FACTORS` and of dates.
_TIME, _LENGTH, _WEIGHT = "second", "m", "g"
_UNITS_OF_MEASURES = {
    "price": "$€£¥",
    "length": (_TIME, _LENGTH),
    "date": (DATE, CALENDAR_YEAR, CLOCK),
    "size": ("person",),
    "weight": (_WEIGHT,),
    "height": (_LENGTH,),
    "width": (_LENGTH,),
    "depth": (_LENGTH,),
    "distance": (_LENGTH,),
    "temperature": ("°c", "°f"),
}
#: Measures that other columns express in the opposite direction: the fastest takes the least time.
_OPPOSITE_MEASURES = {"speed": "length", "age": "date"}
#: Words that name the measure of a superlative without one: "costs the most", "takes the longest".
_MEASURE_WORDS = {
    **dict.fromkeys(
        "cost costs price priced pay pays paid charge charges offer bid quote spend spent".split(), "price"
    ),
    **dict.fromkeys("take takes last lasts".split(), "length"),
    **dict.fromkeys("weigh weighs".split(), "weight"),
}
#: Each unit that can be converted, with its base unit and the number of base units in it.
_FACTORS = {
    "second": (_TIME, 1.0), "minute": (_TIME, 60.0), "hour": (_TIME, 3600.0), "day": (_TIME, 86400.0),
    "night": (_TIME, 86400.0), "week": (_TIME, 604800.0), "month": (_TIME, 2629800.0), "year": (_TIME, 31557600.0),
    "mm": (_LENGTH, 0.001), "cm": (_LENGTH, 0.01), "m": (_LENGTH, 1.0), "km": (_LENGTH, 1000.0),
    "foot": (_LENGTH, 0.3048), "mile": (_LENGTH, 1609.344),
    "g": (_WEIGHT, 1.0), "kg": (_WEIGHT, 1000.0), "lb": (_WEIGHT, 453.59237), "ton": (_WEIGHT, 1_000_000.0),
}  # fmt: skip
_DATE_PATTERN = compile_lazily(
    r"(?P<iso_year>\d{4})-(?P<iso_month>\d\d)(?:-(?P<iso_day>\d\d))?(?![\w-])"
    r"|(?:(?P<day>\d{1,2})(?:st|nd|rd|th)?\.? )?(?P<month>[^\W\d_]{3,9})\.?"
    r"(?: (?P<day_after>\d{1,2})(?:st|nd|rd|th)?,?)? (?P<year>\d{4})\b"
)
_NUMBER_PATTERN = compile_lazily(r"[-−]?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w-])|[-−]?\d+(?:\.\d+)?(?![\d-]|[.,:/]\d)")
_FREE_PATTERN = compile_lazily(r"free\b|no charge\b", re.IGNORECASE)
#: Seconds at the end of the name of a column, which are not those of a rate, such as "mb_s".
_SECONDS_PATTERN = compile_lazily(r"(?<![bm][_/ ])(?<![^\W_])m?s\W*\Z", re.IGNORECASE)
#: The start of a field of a row: the name of its column.
_FIELD_PATTERN = compile_lazily(r"(?:\A|; )([^:;]{1,60}): ")
#: The maximum number of characters of a cell in which its value is looked for.
_MAX_CELL = 60
#: The minimum number of rows that can be compared, and the share of the cells of a column that must have a value.
_MIN_ROWS, _MIN_VALUE_SHARE = 2, 0.6
#: The words of a question that select rows: capitalized words, and words with a digit.
_SELECTING_WORD_PATTERN = compile_lazily(r"(?<!\A)\b[A-Z][\w-]*|\b\w*\d[\w-]*")
#: The measure of each superlative, and True for its highest values.
_MEASURES_BY_WORD = {
    word: (measure, is_highest)
    for measure, directions in _SUPERLATIVES.items()
    for is_highest, words in zip((True, False), directions, strict=True)
    for word in words.split(", ")
    if word
}
#: A superlative, but not the "most" of "most of", nor that of "at most".
_SUPERLATIVE_PATTERN = compile_lazily(
    rf"(?<![\w-])(?<!at )(?:{'|'.join(sorted(_MEASURES_BY_WORD, key=len, reverse=True))})(?![\w-])(?! of\b)",
    re.IGNORECASE,
)
#: A verb that names the measure of the superlative after it.
_VERB_PATTERN = compile_lazily(rf"\b(?:{'|'.join(_MEASURE_WORDS)}) (?:the )?\Z", re.IGNORECASE)


class Superlative(NamedTuple):
    """A superlative of a question: its ``text``, its ``measure`` (empty if it has none), and its direction.

    ``phrase`` is the superlative with a verb before it that names its measure, such as "costs the least". ``terms`` are
    the stems of the other content words of the question, and ``names`` its capitalized words and words with digits, in
    lower case.
    """

    text: str
    phrase: str
    measure: str
    is_highest: bool
    terms: frozenset[str]
    names: tuple[str, ...]


class ComparedRow(NamedTuple):
    """A row as text, ``Name: value; Name: value``, and the ``table`` that it belongs to."""

    table: Hashable
    text: str


class _Cell(NamedTuple):
    """A cell of a row: the offset of the column's name in the text of the row, and the content."""

    offset: int
    content: str


class _CellValue(NamedTuple):
    """The value of a cell, in base units, and the unit (empty if the cell has none)."""

    number: float
    unit: str


class _ComparedColumn(NamedTuple):
    """A comparable column of a table: its name, its values by index of the row, and their unit."""

    name: str
    values: Mapping[int, float]
    unit: str


def find_superlative(question: str, stem: Callable[[str], str]) -> Superlative | None:
    """Return the first superlative of a question that can compare rows, or None. ``stem`` maps a word to its stem.

    >>> superlative = find_superlative("Which room is the cheapest in May?", str)
    >>> superlative.text, superlative.measure, superlative.is_highest
    ('cheapest', 'price', False)
    """
    match = _SUPERLATIVE_PATTERN.search(question)
    if match is None:
        return None
    measure, is_highest = _MEASURES_BY_WORD[match[0].lower()]
    rest = f"{question[: match.start()]} {question[match.end() :]}"
    if not measure:
        words = rest.lower().replace("?", " ").split()
        measure = next((_MEASURE_WORDS[word] for word in words if word in _MEASURE_WORDS), "")
    verb = _VERB_PATTERN.search(question, 0, match.start())
    phrase = question[match.start() if verb is None else verb.start() : match.end()]
    names = tuple(name.lower() for name in _SELECTING_WORD_PATTERN.findall(rest))
    return Superlative(match[0], phrase, measure, is_highest, frozenset(list_content_terms(rest, stem)), names)


def mark_extremes(
    rows: Sequence[ComparedRow], superlative: Superlative, stem: Callable[[str], str]
) -> dict[int, str | None]:
    """Map the indexes of rows with an extreme value to their texts with the superlative before the column's name.

    The other rows of a table in which a single column was compared are mapped to None.

    >>> rows = [ComparedRow("fees", "Room: A; Price: $40"), ComparedRow("fees", "Room: B; Price: $25")]
    >>> mark_extremes(rows, find_superlative("Which room is the cheapest?", str), str)
    {1: 'Room: B; cheapest Price: $25', 0: None}
    """
    indexes_by_table: dict[Hashable, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        indexes_by_table[row.table].append(index)
    marked: dict[int, str | None] = {}
    for indexes in indexes_by_table.values():
        cells = {index: split_cells(rows[index].text) for index in indexes}
        columns = _choose_columns(_list_columns(cells), superlative, stem)
        for column in columns:
            compared = _filter_rows(cells, column, superlative, stem)
            is_highest = superlative.is_highest != _is_opposite(column, superlative.measure)
            extreme = (max if is_highest else min)(column.values[index] for index in compared)
            for index in compared:
                if column.values[index] == extreme:
                    offset, text = cells[index][column.name].offset, rows[index].text
                    mark = f"{superlative.text} " if column.name else f"{superlative.phrase}: "
                    marked[index] = f"{text[:offset]}{mark}{text[offset:]}"
        if len(columns) == 1:
            for index in indexes:
                marked.setdefault(index, None)
    return marked


def split_cells(text: str) -> dict[str, _Cell]:
    """Return the cells of a row, ``Name: value; Name: value``, by the names of their columns.

    An entry with a single name, ``Minibus: $85``, has one cell without a column; its offset is that of the name.

    >>> split_cells("Room: A; Note: quiet; cool")
    {'Room': _Cell(offset=0, content='A'), 'Note': _Cell(offset=9, content='quiet; cool')}
    >>> split_cells("Minibus: $85 a day")
    {'': _Cell(offset=0, content='$85 a day')}
    """
    matches = list(_FIELD_PATTERN.finditer(text))
    starts = [match.start() for match in matches]
    return {
        (match[1] if len(matches) > 1 else ""): _Cell(match.start(1), text[match.end() : end].strip())
        for match, end in zip(matches, [*starts[1:], len(text)], strict=False)  # no row without a field has an end
    }


def _list_columns(rows: Mapping[int, Mapping[str, _Cell]]) -> list[_ComparedColumn]:
    """Return the comparable columns of the rows of a table."""
    contents: dict[str, dict[int, str]] = defaultdict(dict)
    for index, cells in rows.items():
        for name, cell in cells.items():
            contents[name][index] = cell.content
    columns = []
    for name, cells_of_column in contents.items():
        values = {index: value for index, cell in cells_of_column.items() if (value := _parse_value(cell)) is not None}
        units = {value.unit for value in values.values()} - {""}
        if len(values) >= max(_MIN_ROWS, _MIN_VALUE_SHARE * len(cells_of_column)) and len(units) <= 1:
            unit = next(iter(units), "") or _find_unit_in_name(name)
            columns.append(_ComparedColumn(name, {index: value.number for index, value in values.items()}, unit))
    return columns


def _find_unit_in_name(name: str) -> str:
    """Return the base unit that the name of a column mentions, or an empty string.

    >>> [_find_unit_in_name(name) for name in ("Weight (kg)", "restore_s", "restore_mb_s", "Rating")]
    ['g', 'second', '', '']
    """
    if _SECONDS_PATTERN.search(name):
        return _TIME
    units = map(find_unit, re.findall(r"[$€£¥°]|[^\W\d_]+", name.lower()))
    base_units = (_FACTORS.get(unit, (unit, 1.0))[0] for unit in units)
    return next((unit for unit in base_units if unit in _COMPARED_UNITS), "")


def _parse_value(cell: str) -> _CellValue | None:
    """Return the value with which a cell begins, or None. A date is the number of its year, month and day."""
    cell = cell[:_MAX_CELL]
    date = _DATE_PATTERN.match(cell)
    month = int(date["iso_month"] or list_month_names(None).get((date["month"] or "").lower(), 0)) if date else 0
    if date and month:
        day = date["iso_day"] or date["day"] or date["day_after"] or 0
        return _CellValue(10_000 * int(date["iso_year"] or date["year"]) + 100 * month + int(day), DATE)
    if _FREE_PATTERN.match(cell):
        return _CellValue(0.0, "")
    quantity = next(find_quantities(cell), None)
    if quantity is not None and quantity.start == 0 and quantity.unit != WEEKDAY:
        unit, factor = _FACTORS.get(quantity.unit, (quantity.unit, 1.0))
        return _CellValue(quantity.value * factor, unit if unit in _COMPARED_UNITS else "")
    number = _NUMBER_PATTERN.match(cell)
    return None if number is None else _CellValue(float(number[0].replace(",", "").replace("−", "-")), "")


_COMPARED_UNITS = frozenset(unit for units in _UNITS_OF_MEASURES.values() for unit in units)


def _choose_columns(
    columns: Sequence[_ComparedColumn], superlative: Superlative, stem: Callable[[str], str]
) -> list[_ComparedColumn]:
    """Return the columns that a superlative compares: of its measure, or named by the question.

    Of several, these are the columns with the most terms of the question in their names. A column whose name has the
    superlative ("Minimum age") is not compared.
    """
    superlative_terms = set() if superlative.text.endswith("rated") else set(list_terms(superlative.text, stem))
    terms = {column.name: set(list_terms(column.name.replace("_", " "), stem)) for column in columns}
    columns = [column for column in columns if superlative_terms.isdisjoint(terms[column.name])]
    counts = {column.name: len(terms[column.name] & superlative.terms) for column in columns}
    chosen = [column for column in columns if _has_measure(column, superlative.measure)]
    if not chosen or superlative.measure == "":
        chosen = [column for column in columns if counts[column.name]]
    highest_count = max((counts[column.name] for column in chosen), default=0)
    return [column for column in chosen if counts[column.name] == highest_count]


def _has_measure(column: _ComparedColumn, measure: str) -> bool:
    """True if a column has values of a measure, or of the measure that expresses it in the opposite direction."""
    measures = filter(None, (measure, _OPPOSITE_MEASURES.get(measure)))
    return any(_has_own_measure(column, measure) for measure in measures)


def _has_own_measure(column: _ComparedColumn, measure: str) -> bool:
    """True if the unit of a column, or without one a word of its name, is one of a measure."""
    if column.unit:
        return column.unit in _UNITS_OF_MEASURES.get(measure, ())
    words = re.split(r"[\W_]+", column.name.lower())
    return not set(_COLUMN_WORDS[measure].split()).isdisjoint(words)


def _is_opposite(column: _ComparedColumn, measure: str) -> bool:
    """True if a column expresses a measure in the opposite direction, as a time does a speed."""
    opposite = _OPPOSITE_MEASURES.get(measure)
    return opposite is not None and not _has_own_measure(column, measure) and _has_own_measure(column, opposite)


def _filter_rows(
    rows: Mapping[int, Mapping[str, _Cell]],
    column: _ComparedColumn,
    superlative: Superlative,
    stem: Callable[[str], str],
) -> list[int]:
    """Return the indexes of the rows that the question compares; each has a value in the compared column.

    If rows have a cell in another column with only words of the question, only these rows remain. The same holds for
    each name in the question. A condition that no remaining row satisfies is ignored.
    """
    indexes = [index for index in rows if index in column.values]
    for name in dict.fromkeys(name for index in indexes for name in rows[index]):
        if name != column.name:
            matching = [index for index in indexes if _is_named(rows[index].get(name), superlative, stem)]
            indexes = matching or indexes
    for word in superlative.names:
        matching = [
            index for index in indexes if any(word in cell.content.lower().split() for cell in rows[index].values())
        ]
        indexes = matching or indexes
    return indexes


def _is_named(cell: _Cell | None, superlative: Superlative, stem: Callable[[str], str]) -> bool:
    """True if all words of a cell are in the question."""
    terms = set(list_terms(cell.content, stem)) if cell is not None and len(cell.content) <= _MAX_CELL else set()
    return bool(terms) and terms <= superlative.terms
