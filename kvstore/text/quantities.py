"""Quantities in a text: numbers with their units, years, dates, weekdays and clock times. The *value* of a date is 100
times the month plus the day (3 June: 603), of a clock time the minutes since midnight, of a weekday 0 (Monday) to 6.

In: a text in English. Out: each :class:`Quantity` with its place in the text and its value. Quantities with the same
unit can be compared. Ordinals, negative numbers and the digits of identifiers are not quantities.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from .month_names import read_month_numbers
from .name_words import MONTHS
from .number_words import NUMBERS
from .patterns import compile_lazily
from .words import FUNCTION_WORDS

#: The units of the calendar.
CALENDAR_YEAR, DATE, CLOCK, WEEKDAY = "calendar year", "date", "clock time", "weekday"
#: The number of values after which the values of a unit start again.
PERIODS = {DATE: 1300, CLOCK: 24 * 60, WEEKDAY: 7}
#: Names of units and currencies; the first name of a group represents the unit.
_UNIT_GROUPS = (
    "$ dollar usd buck; € euro eur; £ gbp; ¥ yen; % percent; second sec; minute min; hour hr h; day; night; week wk;"
    " month; year yr age aged; kg kilo kilogram; g gram; lb pound; ton tonne; km kilometer kilometre; m meter metre;"
    " cm centimeter centimetre; mm millimeter millimetre; foot feet ft; mile mi; l liter litre; °c; °f; degree;"
    " person people guest participant visitor attendee"
)
_UNITS = {name: group.split()[0] for group in _UNIT_GROUPS.split(";") for name in group.split()}
#: The unit of an age or another number of years, and of the words "age" and "aged".
_YEARS = "year"
#: The units of measurement. A number without a unit matches a range in one of them only if its text mentions the unit;
#: an amount without a currency is assumed to be in the usual currency.
MEASURES = frozenset(_UNITS.values()).difference("$€£¥")
_DAYS = "mon tues wednes thurs fri satur sun".split()
_NUMBER_WORDS = "|".join(word for word in NUMBERS if word != "one")  # "one" is mostly a pronoun
MONTH_NUMBERS = read_month_numbers(None)
_MONTHS = rf"(?:{'|'.join(sorted(MONTH_NUMBERS, key=len, reverse=True))})"  # the abbreviations last
#: The names that can be the second end of a range without spaces, as in "Mon–Fri" and "June–August".
_CALENDAR_NAMES = rf"(?:{'|'.join(MONTHS)}|Mon|Tue|Wed|Thu|Fri|Sat|Sun)".title()
_QUANTITY_PATTERN = compile_lazily(
    rf"""(?<![^\W_])(?<![.,:/\#−])(?:(?<![^\W\d][-–])|(?={_CALENDAR_NAMES}))(?<![\s(][-–])(?<!\A[-–])(?:
    \d{{4}}-(?P<iso_month>0[1-9]|1[0-2])(?:-(?P<iso_day>\d\d))?(?!\d)
    |(?P<month_before>(?i:{_MONTHS}))\.?\ (?P<day_after>[0-3]?\d)(?:st|nd|rd|th)?(?!\w|[:.]\d|\ ?[ap]\.?m\b)
    |(?P<day_before>[0-3]?\d)(?:st|nd|rd|th)?(?:\ of)?\ (?P<month_after>(?i:{_MONTHS}))\b
    |(?:(?<=in\ )|(?=[A-Z]))(?!May\ (?:be|I|it|not|s?he|they|we|you)\b)(?P<month>(?i:{"|".join(MONTHS)}))\b
    |(?P<hour>[01]?\d)(?:[:.](?P<minute>[0-5]\d))?\ ?(?P<half>[AaPp])\.?[Mm]\b\.?
    |(?P<hour_24>[0-2]?\d):(?P<minute_24>[0-5]\d)(?!:?\d)|(?P<noon>(?i:noon|midnight))\b
    |(?P<day>(?i:{"|".join(_DAYS)})(?i:days?)\b|(?:Mon|Tue|Tues|Wed|Thu|Thur|Thurs|Fri|Sat|Sun)\b)
    |(?P<days>(?i:weekdays?|weekends?))\b
    |(?P<currency>[$€£¥]\ ?)?
    (?P<number>(?!0\d)(?:\d{{1,3}}(?:,\d{{3}})+|\d{{1,9}})(?:\.\d{{1,4}})?|(?i:{_NUMBER_WORDS})\b(?!-))
    (?!\d|[.,:/]\d|(?:st|nd|rd|th)\b|\ o['’]clock)(?:[\ -]?(?P<unit>%|°\ ?[CF]\b|[^\W\d_]+))?)""",
    re.VERBOSE,
)
#: The start of a quantity: a digit, the sign of a currency, or one of the words with which a quantity can begin.
_START_PATTERN = compile_lazily(r"[$€£¥]|(?<![^\W_])(?:\d|[^\W\d_]+)")
_START_WORDS = frozenset(
    "noon midnight tue wed thu thur sat weekday weekdays weekend weekends".split()
    + [f"{day}{ending}" for day in _DAYS for ending in ("", "day", "days")]
).union(NUMBERS, MONTH_NUMBERS)
#: The number of characters before a number in which the word before it is looked for.
_MAX_WORD = 30
YEAR_PATTERN = compile_lazily(r"1\d{3}|20\d\d")


class Quantity(NamedTuple):
    """A quantity in a text from character ``start`` to ``end``; the unit of a number ends at ``unit_end``.

    ``value`` and ``last`` are the same, except for a month, weekdays or a weekend: their first and last day. ``unit``
    is a unit of the calendar or of measurement, a currency, or the noun that is counted; empty if it is unknown.
    ``is_identifier`` is True for a number after a noun that it can identify, as in "purchase 4711".
    """

    start: int
    end: int
    unit_end: int
    value: float
    last: float
    unit: str
    is_identifier: bool = False


def find_quantities(text: str) -> Iterator[Quantity]:
    """Yield the quantities in a text, in order.

    >>> [(quantity.value, quantity.unit) for quantity in find_quantities("Up to 5 kg on 3 June, Fri 9:30, for $1,200")]
    [(5.0, 'kg'), (603, 'date'), (4, 'weekday'), (570, 'clock time'), (1200.0, '$')]
    """
    end = 0
    for start in _START_PATTERN.finditer(text):
        can_start = start.start() >= end and (not start[0].isalpha() or start[0].lower() in _START_WORDS)
        match = _QUANTITY_PATTERN.match(text, start.start()) if can_start else None
        if match is None:
            continue
        end = match.end()
        if match["iso_month"] and not match["iso_day"]:
            continue  # 2025-11 is no range of numbers
        if match["number"]:
            yield _parse_number(match, text)
        elif match["month"]:
            month = MONTH_NUMBERS[match["month"].lower()]
            yield Quantity(*match.span(), match.end(), 100 * month, 100 * month + 99, DATE)
        elif match["days"]:
            first, last = (0, 4) if "day" in match["days"].lower() else (5, 6)
            yield Quantity(*match.span(), match.end(), first, last, WEEKDAY)
        else:
            value, unit = _parse_calendar_value(match)
            yield Quantity(*match.span(), match.end(), value, value, unit)


def find_unit(word: str) -> str:
    """Return the unit that a word in lower case names ("hours": "hour"); a word that is no unit loses its plural s."""
    singular = word.removesuffix("s") if len(word) > 2 else word
    return _UNITS.get(word) or _UNITS.get(singular, singular)


def _parse_number(match: re.Match[str], text: str) -> Quantity:
    """Return the quantity of a matched number, with its currency, the unit after it, or a unit shown by the context.

    Without a currency or unit, a number such as 1998 is a calendar year, and a number after a word such as "aged" is a
    number of years. Any other number has no unit, and is an identifier if it follows a noun ("purchase 4711").
    """
    number, currency = match["number"].lower(), (match["currency"] or "").strip()
    value = float(NUMBERS.get(number) or number.replace(",", ""))
    word = (match["unit"] or "").replace(" ", "").lower()
    unit = "" if word in FUNCTION_WORDS else find_unit(word)
    end = match.end("number")
    unit_end = match.end() if unit else end
    quantity = Quantity(match.start(), end, unit_end, value=value, last=value, unit=currency or unit)
    if currency or unit:
        return quantity
    if YEAR_PATTERN.fullmatch(number):
        return quantity._replace(unit=CALENDAR_YEAR)
    word_before = next(iter(text[max(0, match.start() - _MAX_WORD) : match.start()].split()[-1:]), "").lower()
    if find_unit(word_before) == _YEARS:  # "aged 5"
        return quantity._replace(unit=_YEARS)
    follows_noun = word_before.isalpha() and word_before not in FUNCTION_WORDS
    return quantity._replace(is_identifier=follows_noun)


def _parse_calendar_value(match: re.Match[str]) -> tuple[int, str]:
    """Return the value and the unit of a matched date, clock time or weekday."""
    if match["day"]:
        return next(index for index, day in enumerate(_DAYS) if match["day"].lower().startswith(day[:3])), WEEKDAY
    if match["noon"]:
        return 24 * 60 if match["noon"].lower() == "midnight" else 12 * 60, CLOCK
    if match["hour"]:
        hour = int(match["hour"]) % 12 + (12 if match["half"].lower() == "p" else 0)
        return 60 * hour + int(match["minute"] or 0), CLOCK
    if match["hour_24"]:
        return 60 * int(match["hour_24"]) + int(match["minute_24"]), CLOCK
    if match["iso_month"]:
        return 100 * int(match["iso_month"]) + int(match["iso_day"]), DATE
    month = match["month_before"] or match["month_after"]
    return 100 * MONTH_NUMBERS[month.lower()] + int(match["day_after"] or match["day_before"]), DATE
