"""Ranges that include a quantity of the question: "26–100", "up to 5 kg", "3 to 7 June". A *quantity* is a number with
its unit, a date, weekday or time. A range has two *ends*, or one ("up to 5 kg"). The *form* of a range is the text
before it with its kind, such as "at_most".

In: the question and the texts that the answer reader is about to read. Out: the texts, with the quantity of the
question in place of each such range. The network does not compare numbers: for a question about a lot of 60, the table
rows "lot size: 1–25" and "lot size: 26–100" are the same to it.

A range and a quantity are comparable if they have the same unit. If one of them has none, both texts must name the unit
or the same thing. If several ranges of the same form include a quantity ("up to 5 kg", "up to 10 kg"), only the
narrowest is replaced.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

from ...text.patterns import compile_lazily
from ...text.quantities import (
    CALENDAR_YEAR,
    CLOCK,
    DATE,
    MEASURES,
    PERIODS,
    WEEKDAY,
    Quantity,
    find_quantities,
    find_unit,
)
from ...text.words import list_content_terms, segment_words

_KINDS = ("at_most", "below", "at_least", "above")
_CALENDAR_UNITS = frozenset((CALENDAR_YEAR, DATE, CLOCK, WEEKDAY))
#: The text between the two ends of a range ("and" only after "between"), and the word before the first.
_CONNECTOR_PATTERN = compile_lazily(
    r" ?(?:[-–—]|\b(?:up to|to|through|until|till)\b) ?|(?P<conjunction> and )", re.IGNORECASE
)
_OPENING_PATTERN = compile_lazily(r"\b(?:(?P<between>between)|from) \Z", re.IGNORECASE)
#: The name of a field of a record that is an end of a range, such as "min quantity" and "valid until".
_FIELD_PATTERN = compile_lazily(
    r"(?P<name>(?P<label>(?:\b[^:;\d]{0,20}[^\w:;])?)\b(?:(?P<at_least>from|min(?:imum)?|start|first|lower)"
    r'|(?P<at_most>to|max(?:imum)?|until|till|end|last|upper))(?P<rest>\b[^:;\d]{0,20}:)) "?\Z',
    re.IGNORECASE,
)
#: The dates in the fields of an appointment of several days.
_APPOINTMENT_PATTERN = compile_lazily(
    r"\bWhen: (?P<days>(?:\w+, )?(?P<first>\d)[^;]*; Until: (?:\w+, )?(?P<last>\d)[^;\n]*)"
)
#: The words and signs before the only end of a range of numbers, and of a range of the calendar.
_COMPARISON_PATTERN = compile_lazily(
    r"(?:(?P<at_most>\b(?:up[ _]to|at most|(?:no|not) more than|max(?:imum|\.)?(?: of)?)|≤|<=)"
    r"|(?P<below>\b(?:under|below|(?:less|fewer) than)|<)"
    r"|(?P<at_least>\b(?:from|at least|starting at|min(?:imum|\.)?(?: of)?)|≥|>=)"
    r"|(?P<above>\b(?:over|above|more than|exceeding)|(?<![-=])>))[ _]?\Z",
    re.IGNORECASE,
)
_CALENDAR_COMPARISON_PATTERN = compile_lazily(
    r"\b(?:(?P<at_most>until|till|up to)|(?P<below>before)|(?P<at_least>from|since|as of)|(?P<above>after)) \Z",
    re.IGNORECASE,
)
#: The words after the only end of a range.
_SUFFIX_PATTERN = compile_lazily(
    r"(?P<at_least>\+|,? (?:and|or) (?:more|above|over|older|longer|larger|higher|up)\b| (?:upwards?|onwards?|up)\b)"
    r"|(?P<at_most>,? (?:and|or) (?:less|fewer|below|under|younger|shorter|smaller|lower)\b)",
    re.IGNORECASE,
)
#: The number of characters before an end of a range in which the words that belong to it are looked for.
_MAX_WORDS_BEFORE = 60
#: Words for people of an age, which show that a number without a unit is in years.
_AGE_WORDS = frozenset(
    "adult adults child children kid kids pensioner pensioners senior seniors teenager youth".split()
)
#: The maximum numbers of characters of a text, and of quantities of a question, that are compared.
_MAX_TEXT, _MAX_QUANTITIES = 3000, 8
#: The numbers of characters before and after a range among which a word of the question is looked for.
_MAX_LABEL, _MAX_LABEL_AFTER = 80, 20


class _RangeForm(NamedTuple):
    """The form of a range: the text before it, and a kind such as ``between``, ``at_most`` or ``fields`` (of a row)."""

    text_before: str
    kind: str


class _Range(NamedTuple):
    """A range from character ``start`` to ``end`` of a text: the values from ``lower`` to ``upper``, both included.

    If ``lower`` is greater, the range passes the end of the year, the day or the week. An end that is missing is
    infinite. ``label`` is the text to write before a value that replaces the range.
    """

    start: int
    end: int
    lower: float
    upper: float
    unit: str
    form: _RangeForm
    label: str = ""

    def includes(self, quantity: Quantity) -> bool:
        """True if the range overlaps a quantity, which must have the same unit; a month may overlap only partly.

        A range whose lower end is greater wraps around, as from November to February.
        """
        is_above, is_below = self.lower <= quantity.last, quantity.value <= self.upper
        return (is_above or is_below) if self.lower > self.upper else (is_above and is_below)

    def compute_width(self, quantity: Quantity) -> float:
        """Return the width of the range; if it has one end, the distance from that end to the value of the quantity."""
        lower, upper = (quantity.value if math.isinf(end) else end for end in (self.lower, self.upper))
        return upper - lower + (PERIODS.get(self.unit, 0) if upper < lower else 0)


class _Context(NamedTuple):
    """The stems of the content words of a question, the units that it mentions, and the function that stems a word."""

    terms: frozenset[str]
    units: frozenset[str]
    stem: Callable[[str], str]


class ComparedText(NamedTuple):
    """A text after the replacement of its ranges, and how these compare with the quantities of the question.

    ``is_within`` is True if a range was replaced, because it includes a quantity. ``is_outside`` is True if none was,
    and a range that is comparable with a quantity does not include it.
    """

    text: str
    is_within: bool
    is_outside: bool


def replace_ranges(texts: Sequence[str], question: str, stem: Callable[[str], str]) -> list[ComparedText]:
    """Replace each range in the texts that includes a quantity of the question by that quantity.

    ``stem`` maps a word to its stem. A text that has the quantity itself is not changed.

    >>> texts = ["lot size: 1–25; parts: 5", "lot size: 26–100; parts: 9", "up to 5 kg: $4", "up to 10 kg: $6"]
    >>> [compared.text for compared in replace_ranges(texts[:2], "How many parts of a lot of 60?", str)]
    ['lot size: 1–25; parts: 5', 'lot size: 60; parts: 9']
    >>> [compared.text for compared in replace_ranges(texts[2:], "What do 3 kg cost?", str)]
    ['3 kg: $4', 'up to 10 kg: $6']
    """
    quantities = list(islice(find_quantities(question), _MAX_QUANTITIES))
    if not quantities:
        return [ComparedText(text, is_within=False, is_outside=False) for text in texts]
    context = _Context(frozenset(list_content_terms(question, stem)), _find_units(question), stem)
    quantities_of_texts = [list(find_quantities(text[:_MAX_TEXT])) for text in texts]
    ranges_of_texts = list(map(_find_ranges, texts, quantities_of_texts))
    replacements: list[dict[_Range, str]] = [{} for _ in texts]
    has_outside_range = [False] * len(texts)
    for quantity in quantities:
        including_ranges: list[tuple[int, _Range]] = []  # the ranges that include it, each with the index of its text
        for index, (text, others) in enumerate(zip(texts, quantities_of_texts, strict=True)):
            if any(
                (other.value, other.last, other.unit) == (quantity.value, quantity.last, quantity.unit)
                for other in others
            ):
                continue
            for quantity_range in ranges_of_texts[index]:
                if _is_comparable(quantity_range, quantity, text, context):
                    if quantity_range.includes(quantity):
                        including_ranges.append((index, quantity_range))
                    else:
                        has_outside_range[index] = True
        for index, quantity_range in _select_narrowest(including_ranges, quantity):
            replacements[index][quantity_range] = question[quantity.start : quantity.end]
    return [
        ComparedText(_replace_all(text, ranges), bool(ranges), is_outside and not ranges)
        for text, ranges, is_outside in zip(texts, replacements, has_outside_range, strict=True)
    ]


def _select_narrowest(ranges: Sequence[tuple[int, _Range]], quantity: Quantity) -> list[tuple[int, _Range]]:
    """Return the narrowest of the ``ranges`` of each form, in the same order; several if they are equally narrow.

    A pair has the index of a text and a range in it. All ranges include ``quantity``; the width of a range with only
    one end is measured from it.
    """
    widths: dict[tuple[str, str], float] = {}
    for _, quantity_range in ranges:
        width = quantity_range.compute_width(quantity)
        widths[quantity_range.form] = min(width, widths.get(quantity_range.form, math.inf))
    return [
        (index, quantity_range)
        for index, quantity_range in ranges
        if quantity_range.compute_width(quantity) == widths[quantity_range.form]
    ]


def _find_ranges(text: str, quantities: Sequence[Quantity]) -> list[_Range]:
    """Return the ranges in a text whose ends are among its ``quantities``, in order.

    An appointment of several days has only the range of its dates.
    """
    appointment = _APPOINTMENT_PATTERN.search(text)
    if appointment is not None:
        starts = (appointment.start("first"), appointment.start("last"))
        ends = [end for end in quantities if end.unit == DATE and end.start in starts]
        if len(ends) == len(starts):
            first, last = ends
            start, end = appointment.span("days")
            return [_Range(start, end, first.value, last.last, DATE, _RangeForm(text[:start], "between"))]
    ranges = []
    index = 0
    while index < len(quantities):
        first, *others = quantities[index : index + 2]
        closed_range = _make_closed_range(text, first, others[0]) if others else None
        quantity_range = closed_range or _make_open_range(text, first)
        if quantity_range is not None:
            ranges.append(quantity_range)
        index += 1 if closed_range is None else 2
    return ranges


def _make_closed_range(text: str, first: Quantity, last: Quantity) -> _Range | None:
    """Return the range between two consecutive quantities of a text, or None if they are not the ends of a range.

    The ends are joined by a word or dash ("3 to 7 June"), or are fields of a record ("min: 3; max: 7").
    """
    first, last = _complete_ends(first, last)
    units = {first.unit, last.unit}
    if len(units - {""}) > 1 or (len(units) > 1 and not units.isdisjoint(_CALENDAR_UNITS)):
        return None
    unit = last.unit or first.unit
    lower, upper = first.value, last.last
    if lower > upper and unit not in PERIODS:  # "14 to 4 days before"
        lower, upper = upper, lower
    between = text[first.unit_end : last.start]
    first_field, last_field = (_search_before(_FIELD_PATTERN, text, end) for end in (first.start, last.start))
    # "min: 3; max: 7"
    if first_field and last_field and first_field["at_least"] and last_field["at_most"] and between.count(";") == 1:
        start, end = first_field.start("name"), last.end + (text[last.end : last.end + 1] == '"')
        return _Range(start, end, lower, upper, unit, _RangeForm(text[:start], "fields"), _format_label(first_field))
    opening = _search_before(_OPENING_PATTERN, text, first.start)  # "from" or "between"
    connector = _CONNECTOR_PATTERN.fullmatch(between)
    if connector is None or (connector["conjunction"] and not (opening and opening["between"])):
        return None
    start = opening.start() if opening else first.start
    label = {CALENDAR_YEAR: "in ", DATE: "on "}.get(unit, "for ") if opening and not opening["between"] else ""
    return _Range(start, last.end, lower, upper, unit, _RangeForm(text[:start], "between"), label)


def _format_label(field: re.Match[str]) -> str:
    """Return the name of a matched field without the word for an end of a range, with a colon and a space; or "".

    "min quantity" becomes "quantity: ", and "valid until" becomes "valid: ".
    """
    label = f"{field['label'].strip()} {field['rest'].strip()}".replace(" :", ":").strip()
    return "" if label == ":" else f"{label} "


def _search_before(pattern: re.Pattern[str], text: str, end: int) -> re.Match[str] | None:
    """Return the match of a pattern that ends at character ``end`` of a text, or None."""
    return pattern.search(text, max(0, end - _MAX_WORDS_BEFORE), end)


def _complete_ends(first: Quantity, last: Quantity) -> tuple[Quantity, Quantity]:
    """Return two ends of a range; an end without a month, or without a.m. or p.m., gets that of the other end.

    Such an end is a plain number: the 3 of "3 to 7 June", the 7 of "June 3–7", the 9 of "9 to 11 a.m.". The 1500 of
    "1500 to 2500" becomes a plain number instead, because it is not a year. A date is the number month · 100 + day, and
    a time of day is in minutes.
    """
    if first.unit != last.unit:
        first, last = (end._replace(unit="") if end.unit == CALENDAR_YEAR else end for end in (first, last))
    if last.unit == DATE and not first.unit and first.value <= 31:
        value = last.value - last.value % 100 + first.value
        return first._replace(value=value, last=value, unit=DATE), last
    if first.unit == DATE and not last.unit and last.value <= 31:
        value = first.value - first.value % 100 + last.value
        return first, last._replace(value=value, last=value, unit=DATE)
    if last.unit == CLOCK and not first.unit and first.value <= 12:
        value = 60 * first.value + (12 * 60 if 60 * first.value + 12 * 60 < last.value else 0)
        return first._replace(value=value, last=value, unit=CLOCK), last
    return first, last


def _make_open_range(text: str, quantity: Quantity) -> _Range | None:
    """Return the range with one end that the words around a quantity express ("up to 5 kg", "5 or more"), or None."""
    field = _search_before(_FIELD_PATTERN, text, quantity.start)
    comparison = field or _search_before(_COMPARISON_PATTERN, text, quantity.start)
    suffix = _SUFFIX_PATTERN.match(text, quantity.unit_end)
    if quantity.unit == CALENDAR_YEAR and (comparison or suffix):  # "1500 or more"
        quantity = quantity._replace(unit="")
    elif quantity.unit in _CALENDAR_UNITS:
        comparison = field or _search_before(_CALENDAR_COMPARISON_PATTERN, text, quantity.start)
    match = comparison or suffix
    if match is None:
        return None
    kind = next(kind for kind in _KINDS if match.groupdict().get(kind))
    lower, upper = {
        "at_most": (-math.inf, quantity.last),
        "below": (-math.inf, math.nextafter(quantity.value, -math.inf)),
        "at_least": (quantity.value, math.inf),
        "above": (math.nextafter(quantity.last, math.inf), math.inf),
    }[kind]
    start = comparison.start() if comparison else quantity.start
    end = suffix.end() if suffix and quantity.unit_end == quantity.end else quantity.end
    label = _format_label(field) if field else "for " if text[start:].lower().startswith("from") else ""
    return _Range(start, end, lower, upper, quantity.unit, _RangeForm(text[:start], kind), label)


def _is_comparable(quantity_range: _Range, quantity: Quantity, text: str, context: _Context) -> bool:
    """True if a range in ``text`` and a quantity of the question have the same unit or count the same things.

    ``context`` has the words of the question. A quantity that is an identifier, such as the number of a room, is
    comparable only with a range of two numbers without a unit.
    """
    if quantity_range.unit == quantity.unit != "":
        return True
    quantity_unit = "" if quantity.unit == CALENDAR_YEAR else quantity.unit  # 1500 need not be a year
    unit = quantity_range.unit or quantity_unit
    has_two_ends = math.isfinite(quantity_range.upper - quantity_range.lower)
    if (quantity_range.unit and quantity_unit) or unit in _CALENDAR_UNITS:
        return False
    if quantity.is_identifier and (unit or not has_two_ends):
        return False
    if quantity_range.form.kind != "fields":  # the question can name any field of a record
        text = text[max(0, quantity_range.start - _MAX_LABEL) : quantity_range.end + _MAX_LABEL_AFTER]
    if unit in MEASURES:
        return unit in (context.units if quantity_range.unit else _find_units(text))
    return not context.terms.isdisjoint(list_content_terms(text, context.stem))


def _find_units(text: str) -> frozenset[str]:
    """Return the units that a text mentions; words for people of an age count as years."""
    return frozenset("year" if word in _AGE_WORDS else find_unit(word) for word in segment_words(text))


def _replace_all(text: str, replacements: dict[_Range, str]) -> str:
    """Return a text with each range replaced by its value in ``replacements``, after the label of the range."""
    for quantity_range, value in sorted(replacements.items(), reverse=True):  # the last first, so offsets stay valid
        text = text[: quantity_range.start] + quantity_range.label + value + text[quantity_range.end :]
    return text
