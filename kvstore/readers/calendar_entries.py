"""Calendars: each appointment, task or note becomes a document.
An *entry* is a component of the calendar with properties, which are lines such as ``DTSTART:20260302``. A *series* is
an entry that is repeated by a rule.

In: an iCalendar file (``.ics``), as calendars export it or invitations attach it. Out: documents of format ``text``. A
document's key is the entry's ``UID``, followed by the ``RECURRENCE-ID`` for a changed instance of a series. If there is
no ``UID``, or another entry has the same key, the key is the file's key and the entry's number. The title is the
summary. The text has lines ``Appointment: ...``, ``When: ...``, ``Where: ...``, the organizer and the attendees, then
the description; days have weekday and month names and the ISO 8601 date.

Metadata are ``type``, ``start``, ``end`` (or ``due``; ISO 8601), ``location``, ``organizer``, ``attendees``,
``categories``, ``status`` and ``calendar``. Times are in the time zone that the file names. A series is described by
its rule and its excluded days, and is not expanded. Alarms, time zones and free/busy times are dropped. A file without
an entry is a ReaderError.

Source: RFC 5545 (iCalendar), 3.6 and 3.8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import BinaryIO

from ..errors import ReaderError
from .content_lines import Component, Property, parse_components
from .field_lines import MONTHS, format_entry
from .raw_document import JSON, Origin, RawDocument, ReadOptions

_TYPES = {"VEVENT": "appointment", "VTODO": "task", "VJOURNAL": "note"}
_UNITS = {"YEARLY": "year", "MONTHLY": "month", "WEEKLY": "week", "DAILY": "day", "HOURLY": "hour"}
_WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_WEEKDAYS_BY_CODE = {day[:2].upper(): day for day in _WEEKDAYS}
_ORDINALS = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", -1: "last", -2: "last but one"}
#: A day or a time, which is in UTC if it ends in Z: ``20200131``, ``20200131T235900Z``.
_DATE_PATTERN = re.compile(
    r"(?P<year>\d{4})-?(?P<month>\d{2})-?(?P<day>\d{2})"
    r"(?:T(?P<hour>\d{2}):?(?P<minute>\d{2}):?(?P<second>\d{2})(?P<utc>Z?))?"
)
#: The length of an event, such as ``P1DT2H30M`` for a day, two hours and a half.
_DURATION_PATTERN = re.compile(r"\+?P(?:(\d{1,4})W)?(?:(\d{1,5})D)?(?:T(?:(\d{1,5})H)?(?:(\d{1,6})M)?(?:(\d{1,7})S)?)?")
_MARKUP_PATTERN = re.compile(r"</?(?:p|br|div|span|a|b|i|u|ul|ol|li|html|body|table|h[1-6])\b[^<>]{0,2000}>", re.I)


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Yield a document for each appointment, task or note of a calendar.

    Raises ReaderError if no entry has text, or if the file cannot be decoded.
    """
    calendars = parse_components(stream.read(), "VCALENDAR", origin.name, options.encoding)
    if not calendars:
        raise ReaderError(
            f"{origin.name}: is not a calendar (it has no line BEGIN:VCALENDAR); specify its format with AS"
        )
    entries = [(calendar, entry) for calendar in calendars for entry in calendar.components if entry.kind in _TYPES]
    has_documents = False
    for number, (calendar, entry) in enumerate(entries, 1):
        default_key = origin.key if len(entries) == 1 else f"{origin.key}:{number}"
        entry_document = _build_document(entry, calendar.get_text("X-WR-CALNAME", "NAME"), default_key, origin, options)
        if entry_document is not None:
            has_documents = True
            yield entry_document
    origin.require_content(has_documents, "has no appointment, task or note with text")


def _build_document(
    entry: Component, calendar: str, default_key: str, origin: Origin, options: ReadOptions
) -> RawDocument | None:
    """Return the document of a calendar entry (an event, task or note); None if it has no title, text or location.

    ``calendar`` is the name of its calendar. The key is the UID, or ``default_key`` without a UID. With a UID,
    ``default_key`` is the ``other_key``, used if another entry has the same UID. A description in HTML is read with the
    ``origin`` and ``options`` of the file.
    """
    title = " ".join(entry.get_text("SUMMARY").split())
    start, due = _parse_time(entry.find_property("DTSTART")), _parse_time(entry.find_property("DUE"))
    end = _find_end(entry, start)
    location = ", ".join(line.strip() for line in entry.get_text("LOCATION").split("\n") if line.strip())
    organizer = next(map(_format_person, entry.list_properties("ORGANIZER")), "")
    attendees = list(filter(None, map(_format_person, entry.list_properties("ATTENDEE"))))
    categories = entry.split_values("CATEGORIES")
    status = entry.get_text("STATUS").lower().replace("-", " ")
    type = _TYPES[entry.kind]
    fields = {
        type.title(): title,
        **_build_time_fields(start, end),
        "Due": due.text if due else "",
        "Repeats": "; ".join(
            filter(None, (_describe_rule(property.value) for property in entry.list_properties("RRULE")))
        ),
        "Except": ", ".join(_list_excluded_days(entry)),
        "Where": location,
        "Organizer": organizer,
        "With": ", ".join(attendees),
        "Status": "" if status in ("", "confirmed") else status,
        "Categories": ", ".join(categories),
        "Address": entry.get_text("URL", "CONFERENCE", "X-GOOGLE-CONFERENCE"),
    }
    paragraphs = [
        *_list_paragraphs(entry, origin, options),
        *(property.text for property in entry.list_properties("COMMENT") if property.text),
    ]
    if not title and not paragraphs and not location:
        return None
    values: dict[str, JSON] = {
        "type": type,
        **{name: time.iso for name, time in (("start", start), ("end", end), ("due", due)) if time},
        "location": location,
        "organizer": organizer,
        "status": status,
        "calendar": calendar,
        "attendees": [*attendees],
        "categories": [*categories],
    }
    meta: dict[str, JSON] = {name: value for name, value in values.items() if value}
    text = format_entry(fields.items(), paragraphs)
    identifier = entry.get_text("UID")
    instance = entry.find_property("RECURRENCE-ID")
    key = f"{identifier}/{instance.text}" if identifier and instance else identifier
    return RawDocument(
        key or default_key,
        title=title or None,
        text=text,
        meta=meta,
        format="text",
        other_key=default_key if identifier else None,
    )


def _list_paragraphs(entry: Component, origin: Origin, options: ReadOptions) -> list[str]:
    """Return the paragraphs of a calendar entry's description; HTML in it is converted to text.

    The HTML is read with the ``origin`` and ``options`` of the file.
    """
    text = entry.get_text("DESCRIPTION", "X-ALT-DESC")
    if not _MARKUP_PATTERN.search(text):
        return [text] if text else []
    from .html import convert_markup
    from .markdown_blocks import render_one_line

    lines = (render_one_line([block]) for block in convert_markup(text, origin.name, options))
    return list(filter(None, lines))


@dataclass(frozen=True, slots=True)
class _Moment:
    """A day, or a time on a day.
    ``day`` is a date, or a datetime if the time is known. ``zone`` is the name of its time zone, or an empty string.
    """

    day: date | datetime
    zone: str

    @property
    def iso(self) -> str:
        """The day or time in ISO 8601, with ``Z`` for UTC; other time zones are left out."""
        return self.day.isoformat() + ("Z" if self.zone == "UTC" else "")

    @property
    def day_text(self) -> str:
        """The day in words and in ISO 8601: ``Monday, 2 March 2026 (2026-03-02)``."""
        day = self.day
        return f"{_WEEKDAYS[day.weekday()]}, {day.day} {MONTHS[day.month - 1]} {day.year} ({day:%Y-%m-%d})"

    @property
    def time_text(self) -> str:
        """The time as HH:MM, or an empty string for an all-day entry."""
        return f"{self.day:%H:%M}" if isinstance(self.day, datetime) else ""

    @property
    def text(self) -> str:
        """The day, followed by the time and the time zone if they are known."""
        return " ".join(filter(None, (self.day_text, self.time_text, self.zone)))


def _parse_time(property: Property | None) -> _Moment | None:
    """Return the day or time in a property, such as ``DTSTART``, or None if the property is missing or invalid."""
    match = _DATE_PATTERN.match(property.value.strip()) if property is not None else None
    if property is None or match is None:
        return None
    with suppress(ValueError):  # not a valid date
        year, month, day = int(match["year"]), int(match["month"]), int(match["day"])
        if match["hour"] is None:
            return _Moment(date(year, month, day), "")
        zone = "UTC" if match["utc"] else property.get_parameter("TZID").strip("/").split(" (")[0]
        second = min(int(match["second"]), 59)  # a leap second
        return _Moment(datetime(year, month, day, int(match["hour"]), int(match["minute"]), second), zone)
    return None


def _find_end(entry: Component, start: _Moment | None) -> _Moment | None:
    """Return the end of a calendar entry that begins at ``start``; None if it has neither an end nor a duration.

    The end of an all-day entry is its last day. A duration beyond the range of dates counts as missing.
    """
    end = _parse_time(entry.find_property("DTEND"))
    duration = _DURATION_PATTERN.fullmatch(entry.get_text("DURATION"))
    with suppress(OverflowError):
        if end is None and start is not None and duration:
            weeks, days, hours, minutes, seconds = (int(digits or 0) for digits in duration.groups())
            length = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
            end = _Moment(start.day + length, start.zone)
        if end is not None and not isinstance(end.day, datetime):  # a DTEND without time is the day after the last
            end = _Moment(end.day - timedelta(days=1), "")
    return end


def _build_time_fields(start: _Moment | None, end: _Moment | None) -> dict[str, str]:
    """Return the fields ``When`` and, if a calendar entry ends on another day, ``Until``, each with its text.

    ``start`` and ``end`` are None if the entry does not state them; without a start, the text of ``When`` is empty.
    """
    if start is None or end is None or end.iso <= start.iso:
        return {"When": start.text if start else ""}
    if end.day_text != start.day_text:
        return {"When": start.text, "Until": end.text}
    return {"When": f"{start.day_text} {start.time_text} to {end.time_text} {end.zone}".rstrip()}


def _list_excluded_days(entry: Component) -> list[str]:
    """Return the days on which a series does not take place (RFC 5545, 3.8.5.1); invalid days are dropped."""
    times = (
        _parse_time(replace(property, value=value))
        for property in entry.list_properties("EXDATE")
        for value in property.value.split(",")
    )
    return list(dict.fromkeys(time.day_text for time in times if time is not None))


def _describe_rule(rule: str) -> str:
    """Return a recurrence rule in words (RFC 5545, 3.3.10), or an empty string if its frequency is unknown.

    >>> _describe_rule("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR;UNTIL=20261231T000000Z")
    'every 2 weeks on Monday, Friday, until 31 December 2026'
    >>> _describe_rule("FREQ=MONTHLY;BYDAY=-1TU;COUNT=6")
    'every month on the last Tuesday, 6 times'
    >>> _describe_rule("FREQ=YEARLY;BYMONTH=11;BYDAY=TH;BYSETPOS=4")
    'every year in November on the fourth Thursday'
    """
    fields = {name.upper(): value.upper() for name, _, value in (field.partition("=") for field in rule.split(";"))}
    unit = _UNITS.get(fields.get("FREQ", ""))
    if unit is None:
        return ""
    interval = fields.get("INTERVAL", "1")
    words = f"every {interval} {unit}s" if interval.isdecimal() and int(interval) > 1 else f"every {unit}"
    month_numbers = {number.lstrip("0") for number in fields.get("BYMONTH", "").split(",")}
    months = [month for number, month in enumerate(MONTHS, 1) if str(number) in month_numbers]
    if months:
        words += f" in {', '.join(months)}"
    weekdays = _describe_weekdays(fields.get("BYDAY", ""), fields.get("BYSETPOS", ""))
    if weekdays:
        words += f" on {weekdays}"
    if fields.get("BYMONTHDAY"):
        words += f" {'if it is' if weekdays else 'on'} day {fields['BYMONTHDAY'].replace(',', ', ')}"
    until = _parse_time(Property("UNTIL", fields.get("UNTIL", ""), parameters={}))
    if until is not None:
        words += f", until {until.day.day} {MONTHS[until.day.month - 1]} {until.day.year}"
    elif fields.get("COUNT"):
        words += f", {fields['COUNT']} times"
    return words


def _describe_weekdays(codes: str, positions: str) -> str:
    """Return the weekdays of a recurrence rule (``BYDAY``) in words; empty without a valid weekday.

    Only the days at the ``positions`` (``BYSETPOS``) are meant, if there are any: ``-1`` is the last of them.

    >>> _describe_weekdays("MO,WE", ""), _describe_weekdays("MO", "1"), _describe_weekdays("SA,SU", "-1")
    ('Monday, Wednesday', 'the first Monday', 'the last of Saturday, Sunday')
    """
    weekdays = ", ".join(filter(None, map(_describe_weekday, codes.split(","))))
    ordinals = ", ".join(filter(None, map(_describe_ordinal, positions.split(","))))
    if not weekdays or not ordinals:
        return weekdays
    return f"{ordinals} {weekdays}" if codes in _WEEKDAYS_BY_CODE else f"{ordinals} of {weekdays}"


def _describe_weekday(text: str) -> str:
    """Return a weekday of a recurrence rule in words: ``MO`` is Monday, ``-1MO`` the last Monday; empty if invalid."""
    match = re.fullmatch(r"(?P<position>[+-]?\d{1,2})?(?P<code>[A-Z]{2})", text.strip())  # -1MO
    weekday = _WEEKDAYS_BY_CODE.get(match["code"]) if match else None
    if match is None or weekday is None:
        return ""
    return f"{_describe_ordinal(match['position'] or '')} {weekday}".lstrip()


def _describe_ordinal(text: str) -> str:
    """Return a position of a recurrence rule in words: ``-1`` is ``the last``; empty if it is 0 or no number."""
    ordinal = int(text) if re.fullmatch(r"[+-]?\d{1,3}", text) else 0
    return f"the {_ORDINALS.get(ordinal, f'{ordinal}.')}" if ordinal else ""


def _format_person(property: Property) -> str:
    """Return an organizer or attendee as text: ``Ann <ann@x.org> (declined)``.

    The participation status follows if it is declined or tentative. The result is empty if the property has neither a
    name nor an address.
    """
    address = re.sub(r"(?i)^mailto:", "", property.text)
    # Calendars write invalid:nomail for people without an address.
    address = address if "@" in address and "invalid:" not in address.lower() else ""
    name = property.get_parameter("CN").strip()
    has_both = bool(name and address) and name != address
    person = f"{name} <{address}>" if has_both else name or address
    status = {"DECLINED": "declined", "TENTATIVE": "may come"}.get(property.get_parameter("PARTSTAT").upper(), "")
    return f"{person} ({status})" if person and status else person
