"""The values of table cells: numbers, amounts, durations and dates in units that can be compared. A *base unit* is the
one that a unit is converted to, such as the second. A *rate* is an amount per unit ("$9 a day", "5 /kg") or on a scale
("4 out of 5").

In: the cells of a column, and its name. Out: a number for each cell, and the unit of the column. A column has no values
if the order of some of its cells is unclear: a number that it cannot read, different currencies, rates for a
day next to rates for a week, or a number without a unit next to durations.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from ...text.patterns import compile_lazily
from ...text.quantities import (
    CALENDAR_YEAR,
    CLOCK,
    DATE,
    MONTH_NUMBERS,
    WEEKDAY,
    YEAR_PATTERN,
    find_quantities,
    find_unit,
)

#: The base units of time, length, weight, data and volume.
TIME, LENGTH, WEIGHT, DATA, VOLUME = "second", "m", "g", "byte", "l"
#: Each unit that can be converted, with its base unit and the number of base units in it.
_FACTORS = {
    "second": (TIME, 1.0), "minute": (TIME, 60.0), "hour": (TIME, 3600.0), "day": (TIME, 86400.0),
    "night": (TIME, 86400.0), "week": (TIME, 604800.0), "month": (TIME, 2629800.0), "year": (TIME, 31557600.0),
    "mm": (LENGTH, 0.001), "cm": (LENGTH, 0.01), "m": (LENGTH, 1.0), "km": (LENGTH, 1000.0),
    "foot": (LENGTH, 0.3048), "mile": (LENGTH, 1609.344),
    "g": (WEIGHT, 1.0), "kg": (WEIGHT, 1000.0), "lb": (WEIGHT, 453.59237), "ton": (WEIGHT, 1_000_000.0),
    "kb": (DATA, 1e3), "mb": (DATA, 1e6), "gb": (DATA, 1e9), "tb": (DATA, 1e12),
    "ml": (VOLUME, 0.001), "cl": (VOLUME, 0.01), "l": (VOLUME, 1.0),
}  # fmt: skip
_BASE_UNITS = frozenset(unit for unit, _ in _FACTORS.values())
CURRENCIES = frozenset("$€£¥")
#: The units that a column can have. The units of other columns are compared only with each other.
_COLUMN_UNITS = _BASE_UNITS | {*CURRENCIES, DATE, CALENDAR_YEAR, CLOCK, "person", "°c", "°f", "%"}
#: The maximum number of letters of an unknown unit, such as "kW". A longer word after a number is not a unit.
_MAX_UNIT = 3
_MULTIPLIERS = {"k": 1e3, "thousand": 1e3, "m": 1e6, "mn": 1e6, "million": 1e6, "b": 1e9, "bn": 1e9, "billion": 1e9}
#: The maximum number of characters of a cell in which its value is looked for.
MAX_CELL = 60
#: The minimum number of values of a column, and the minimum share of its cells that must have a value.
_MIN_VALUES, _MIN_VALUE_SHARE = 2, 0.6
_DATE_PATTERN = compile_lazily(
    r"(?P<iso_year>\d{4})-(?P<iso_month>\d\d)(?:-(?P<iso_day>\d\d))?(?:[T ](?P<hour>\d\d):(?P<minute>\d\d)|(?![\w-]))"
    r"|(?P<dotted_day>\d{1,2})\. ?(?P<dotted_month>0?[1-9]|1[0-2])\. ?(?P<dotted_year>\d{4})\b"
    r"|(?:(?P<day>\d{1,2})(?:st|nd|rd|th)?\.? )?(?P<month>[^\W\d_]{3,9})\.?"
    r"(?: (?P<day_after>\d{1,2})(?:st|nd|rd|th)?,?)? (?P<year>\d{4})\b"
)
#: The number with which a cell begins, with its sign, currency and unit. "5-7" and "5+" are ranges.
_NUMBER_PATTERN = compile_lazily(
    r"""(?:(?:about|around|approx\.?|circa|ca\.?|from|up\ to)\ |[~≈]\ ?)?(?:(?P<code>[A-Z]{3})\ ?(?=[\d−-]))?
    (?P<sign>[-−–+]\ ?(?=[\d$€£¥]))?(?P<currency>[$€£¥]\ ?)?
    (?P<number>\d{1,3}(?:[ '’]\d{3})+(?!\d)(?:[.,]\d+)?|\d(?:[\d.,]*\d)?)
    (?:(?:st|nd|rd|th)\b)?(?P<range>\ ?(?:[-–—]|to\b)\ ?[$€£¥]?\d[\d.,]*|\ ?\+)?
    (?:\ ?(?P<multiplier>[kKM]|(?<=\d)b|mn|bn|thousand|million|billion)\b)?
    (?:[ -]?(?P<unit>[%$€£¥]|°\ ?[CF]\b|(?!(?:per|an?|each|every|to|or|out|of|and)\b)[^\W\d_]+(?:[23](?![^\W_]))?))?""",
    re.VERBOSE,
)
#: The next part of a duration, weight or length: "30 min" in "1 h 30 min".
_PART_PATTERN = compile_lazily(r",? ?(?:and )?(?P<number>\d+(?:\.\d+)?) ?(?P<unit>[^\W\d_]+)?")
#: The unit of a rate and the scale of a rating: "a day", "/kg", "monthly", "/5", "out of 10".
_RATE_PATTERN = compile_lazily(
    r" ?(?:(?:per|an?|each|every|/) ?(?P<unit>[^\W\d_]+)|(?P<adverb>(?:hour|dai|week|month|year|annual)ly)\b"
    r"|(?:/|out of|of) ?(?P<scale>5|10|100)(?![\d/.,]))"
)
_CLOCK_END_PATTERN = compile_lazily(r" ?(?:[-–—]|to\b|until\b|till\b)")
_FREE_PATTERN = compile_lazily(r"(?:free|no charge)\b\D*\Z", re.IGNORECASE)
_UNLIMITED_PATTERN = compile_lazily(r"(?:unlimited|no limit)\b\D*\Z", re.IGNORECASE)
#: A date such as 03/04/2025, whose day or month comes first.
_SLASH_DATE_PATTERN = compile_lazily(r"(?P<first>\d{1,2})[/-](?P<second>\d{1,2})[/-](?P<year>\d{4})\b")
_DIGIT_PATTERN, _WORD_PATTERN = compile_lazily(r"\d"), compile_lazily(r"[^\W\d_]|:")
#: A number with a period that can separate thousands, and one with a period that cannot.
_THOUSANDS_PATTERN = compile_lazily(r"(?<![\d.,])[1-9]\d{0,2}\.\d{3}(?![\d.,])")
_DECIMAL_PATTERN = compile_lazily(r"\d\.(?:\d{1,2}|\d{4,})(?!\d)|(?<!\d)0\.\d{3}(?!\d)")
#: Seconds at the end of the name of a column, unless they belong to a rate, such as "mb_s".
_SECONDS_PATTERN = compile_lazily(r"(?<![bm][_/ ])(?<![^\W_])m?s\W*\Z", re.IGNORECASE)
#: A unit in the name of a column: in brackets, after "in", or as the last word.
_NAME_UNIT_PATTERN = compile_lazily(r"[$€£¥]|(?<=[(\[])[^\W_]+(?=[)\]])|(?<=\bin )[^\W_]+\Z|[^\W_]+\Z")
#: The name of a column in which 1:30 is a duration.
_DURATION_PATTERN = compile_lazily(r"\b(?:duration|length)\b", re.IGNORECASE)
#: Words at the end of the name of a column that are not the unit of its cells: "Age", "First day".
_NO_NAME_UNITS = frozenset("age aged ages day night week month year".split())


class ParsedColumn(NamedTuple):
    """The values of a column by index of the row, and their unit (empty if unknown).

    ``has_ranges`` is True if a cell is a range such as "5-7". The value of a range is the lowest number in it.
    """

    values: Mapping[int, float]
    unit: str
    has_ranges: bool


class _CellValue(NamedTuple):
    """The value of a cell: a ``number`` in base units, and its ``unit``, which is empty if it has none.

    ``rate`` is the unit or scale of a rate, such as "day" in "$9 a day"; empty if the value is no rate.
    """

    number: float
    unit: str
    rate: str = ""
    is_range: bool = False


def parse_column(name: str, cells: Mapping[int, str | None]) -> ParsedColumn | None:
    """Return the values of a column with a name, or None if they cannot be compared.

    ``cells`` are its cells by index of the row; None is a cell with several values. Cells without digits, such as
    "on request", have no value.
    """
    values: dict[int, _CellValue] = {}
    for index, cell in _rewrite_dates(cells).items():
        value = None if cell is None else _parse_value(cell)
        if value is not None:
            values[index] = value
        elif cell is None or _DIGIT_PATTERN.search(cell):
            return None
    units = {value.unit for value in values.values()} - {""}
    rates = {value.rate for value in values.values()} - {""}
    has_bare_numbers = any(not value.unit and 0 != value.number < math.inf for value in values.values())
    if CALENDAR_YEAR in units and has_bare_numbers:  # 1500 in the same column as 900 is not a year
        units.remove(CALENDAR_YEAR)
    has_few_values = len(values) < max(_MIN_VALUES, _MIN_VALUE_SHARE * len(cells))
    lacks_some_units = has_bare_numbers and not units.isdisjoint(_BASE_UNITS)  # "30" next to "1 h"
    has_unclear_numbers = _has_unclear_periods([cell or "" for cell in cells.values()])
    if has_few_values or len(units) > 1 or len(rates) > 1 or lacks_some_units or has_unclear_numbers:
        return None
    name_unit = _find_unit_in_name(name)
    unit = next(iter(units & _COLUMN_UNITS), "")
    if not unit or (unit == CALENDAR_YEAR and name_unit in CURRENCIES):
        unit = name_unit
    if unit == CLOCK and _DURATION_PATTERN.search(name):  # clock times are in the same order as durations
        unit = TIME
    if unit in _BASE_UNITS and rates:  # km/h
        unit = ""
    numbers = {index: value.number for index, value in values.items()}
    return ParsedColumn(numbers, unit, any(value.is_range for value in values.values()))


def _rewrite_dates(cells: Mapping[int, str | None]) -> Mapping[int, str | None]:
    """Return the cells of a column with dates such as 31/12/2025 in ISO 8601, as 2025-12-31.

    A number above 12 is a day and shows the order of all dates. The cells are unchanged if none or both orders occur.
    """
    dates = {index: match for index, cell in cells.items() if (match := _SLASH_DATE_PATTERN.match(cell or ""))}
    has_day_first = any(int(date["first"]) > 12 for date in dates.values())
    has_day_second = any(int(date["second"]) > 12 for date in dates.values())
    if has_day_first == has_day_second:
        return cells
    day, month = ("first", "second") if has_day_first else ("second", "first")
    iso_dates = {index: f"{date['year']}-{date[month]:0>2}-{date[day]:0>2}" for index, date in dates.items()}
    return {**cells, **iso_dates}


def _parse_value(cell: str) -> _CellValue | None:
    """Return the value with which a cell begins, or None if it begins with no value.

    >>> _parse_value("1 h 30 min").number, _parse_value("$1.2 million").number, _parse_value("1.250,50 €").number
    (5400.0, 1200000.0, 1250.5)
    """
    cell = " ".join(cell[:MAX_CELL].split())  # a non-breaking space becomes a space
    date = _parse_date(cell)
    if date is not None:
        return date
    if _FREE_PATTERN.match(cell):
        return _CellValue(0.0, "")
    # A cell without letters and colons is only a number, which is the usual case.
    quantity = next(find_quantities(cell), None) if _WORD_PATTERN.search(cell) else None
    if quantity is not None and quantity.start == 0:
        if quantity.unit in (CLOCK, DATE):
            is_range = _CLOCK_END_PATTERN.match(cell, quantity.end) is not None
            return _CellValue(quantity.value, quantity.unit, is_range=is_range)
        if quantity.unit == WEEKDAY:
            return None
        is_number_word = not cell[0].isdigit() and cell[0] not in CURRENCIES
        if is_number_word:
            return _CellValue(quantity.value, "")
    if _UNLIMITED_PATTERN.match(cell):
        return _CellValue(math.inf, "")
    return _parse_number(cell)


def _parse_date(cell: str) -> _CellValue | None:
    """Return the date with which a cell begins, or None. Its number is 20240304.5 for noon on 4 March 2024.

    A missing day counts as 0.
    """
    match = _DATE_PATTERN.match(cell)
    if match is None:
        return None
    month = int(match["iso_month"] or match["dotted_month"] or MONTH_NUMBERS.get((match["month"] or "").lower(), 0))
    if month == 0:  # the word before the year is not a month
        return None
    year = match["iso_year"] or match["dotted_year"] or match["year"]
    day = match["iso_day"] or match["dotted_day"] or match["day"] or match["day_after"] or 0
    minutes = 60 * int(match["hour"] or 0) + int(match["minute"] or 0)
    return _CellValue(10_000 * int(year) + 100 * month + int(day) + minutes / 1440, DATE)


def _parse_number(cell: str) -> _CellValue | None:
    """Return the value of a cell that begins with a number, or None if its meaning is unclear ("1/2", "1e6").

    The number can have a currency, a multiplier ("2 million"), a unit, further parts ("1 h 30 min") and a rate.
    """
    match = _NUMBER_PATTERN.match(cell)
    number = None if match is None else _parse_digits(match["number"])
    if match is None or number is None:
        return None
    text_after = cell[match.end() :]
    if text_after.startswith(("'", '"', "′")):  # feet and inches
        return None
    word = (match["unit"] or "").replace(" ", "").lower()
    unit = (match["currency"] or "").strip() or find_unit((match["code"] or word).lower())
    number *= _MULTIPLIERS[match["multiplier"].lower()] if match["multiplier"] else 1.0
    if unit in CURRENCIES and word == "m":  # $2m
        number *= 1e6
    base_unit, factor = _FACTORS.get(unit, (unit, 1.0))
    number, text_after = _add_smaller_parts(number * factor, unit, text_after)
    rate = _RATE_PATTERN.match(text_after)
    is_fraction = rate is None and text_after[:1] in (":", "/") and text_after[1:2].isdigit()
    if is_fraction or text_after[:1].isalnum():  # "1/2", "1e6"
        return None
    if match["sign"] and match["sign"][0] != "+":
        number = -number
    is_known = base_unit in _COLUMN_UNITS or len(base_unit) <= _MAX_UNIT
    if not base_unit and YEAR_PATTERN.fullmatch(match["number"]) and not (match["multiplier"] or match["sign"]):
        base_unit = CALENDAR_YEAR
    return _CellValue(number, base_unit if is_known else "", _get_rate_unit(rate), match["range"] is not None)


def _add_smaller_parts(number: float, unit: str, text: str) -> tuple[float, str]:
    """Add the parts in smaller units at the start of a text to a number; return the sum, and the text after the parts.

    ``number`` is in base units, and was written with ``unit``. The text after it is " 30 min" in "1 h 30 min", or " 30"
    in "1 h 30".
    """
    base_unit, factor = _FACTORS.get(unit, (unit, 1.0))
    while factor != 1.0 and (part := _PART_PATTERN.match(text)):
        part_unit = find_unit(part["unit"].lower()) if part["unit"] else "minute" if unit == "hour" else ""
        part_base, part_factor = _FACTORS.get(part_unit, ("", factor))
        if part_base != base_unit or part_factor >= factor:
            break
        number, factor, text = number + part_factor * float(part["number"]), part_factor, text[part.end() :]
    return number, text


def _get_rate_unit(rate: re.Match[str] | None) -> str:
    """Return the unit ("day" of "a day"), adverb ("daily") or scale ("10" of "out of 10") of a matched rate, or ""."""
    if rate is None:
        return ""
    unit = find_unit((rate["unit"] or "").lower())
    return rate["scale"] or rate["adverb"] or (unit if unit in _FACTORS else "")


def _parse_digits(text: str) -> float | None:
    """Return the number that digits with decimal and thousands separators express, or None if it is unclear.

    >>> [_parse_digits(text) for text in ("1,250", "1 250.5", "12,5", "1.250,50", "1.2.3")]
    [1250.0, 1250.5, 12.5, 1250.5, None]
    """
    text = re.sub("[ '’]", "", text)
    if re.fullmatch(r"(?!0)\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?", text):
        return float(text.replace(",", ""))
    if re.fullmatch(r"\d{1,3}(?:\.\d{3})+(?:,\d+)?|\d+,\d+", text):
        return float(text.replace(".", "").replace(",", "."))
    return None


def _has_unclear_periods(cells: list[str]) -> bool:
    """True if the periods in the cells of a column can separate thousands or decimals.

    That of "1.250" is unclear next to "950", but not next to "9.5", which shows that a period separates decimals.
    """
    if not any(map(_THOUSANDS_PATTERN.search, cells)) or any(map(_DECIMAL_PATTERN.search, cells)):
        return False
    return any(_DIGIT_PATTERN.search(cell) and "." not in cell for cell in cells)


def _find_unit_in_name(name: str) -> str:
    """Return the base unit that the name of a column mentions, or an empty string.

    >>> [_find_unit_in_name(name) for name in ("Weight (kg)", "restore_s", "restore_mb_s", "Age", "Price per kg")]
    ['g', 'second', '', '', '']
    """
    name = " ".join(re.split(r"[_.\s]+", name.lower())).strip()
    if _SECONDS_PATTERN.search(name):
        return TIME
    is_rate = re.search(r"\bper\b|/|\bsq|²", name) is not None
    for word in _NAME_UNIT_PATTERN.findall(name):
        unit = "" if word in _NO_NAME_UNITS else find_unit(word)
        unit = _FACTORS.get(unit, (unit, 1.0))[0]
        if unit in _COLUMN_UNITS and (unit in CURRENCIES or not is_rate):
            return unit
    return ""
