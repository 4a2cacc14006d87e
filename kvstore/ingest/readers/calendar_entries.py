"""Calendars: an appointment, a task or a note of a calendar is a document.

In: a file of iCalendar (``.ics``), as calendars export it and invitations have it attached. Out: documents of format
``text``: key the entry's ``UID`` (and the day it stands for, where it is one of a series that differs), else that of
its file and its number there, by which it is named too where another entry has its key; title its summary. The text is
lines ``Appointment: ...``, ``When: ...``, ``Where: ...``, who called it and who comes, then what is said of it; days
are written with their names and as ISO 8601 has them. Metadata are ``type``, ``start``, ``end`` (or ``due``; ISO 8601),
``location``, ``organizer``, ``attendees``, ``categories``, ``status`` and ``calendar``. Times are those of the time
zone that is named; a series is told by its rule and not written out. Alarms, time zones and free times are left out. A
file without an entry is a ReaderError.

Source: RFC 5545 (iCalendar), 3.6 and 3.8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import BinaryIO

from ...errors import ReaderError
from .content_lines import Component, Property, components
from .field_lines import MONTHS, format_entry
from .raw_document import JSON, Origin, RawDocument, ReadOptions

_TYPES = {"VEVENT": "appointment", "VTODO": "task", "VJOURNAL": "note"}
_UNITS = {"YEARLY": "year", "MONTHLY": "month", "WEEKLY": "week", "DAILY": "day", "HOURLY": "hour"}
_WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_DAYS = {day[:2].upper(): day for day in _WEEKDAYS}
_NUMBERS = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", -1: "last", -2: "last but one"}
_DATE_PATTERN = re.compile(r"(\d{4})-?(\d{2})-?(\d{2})(?:T(\d{2}):?(\d{2}):?(\d{2})(Z?))?")
_DURATION_PATTERN = re.compile(r"\+?P(?:(\d{1,4})W)?(?:(\d{1,5})D)?(?:T(?:(\d{1,5})H)?(?:(\d{1,6})M)?(?:(\d{1,7})S)?)?")
_MARKUP_PATTERN = re.compile(r"</?(?:p|br|div|span|a|b|i|u|ul|ol|li|html|body|table|h[1-6])\b[^<>]{0,2000}>", re.I)


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Yield a document for each entry."""
    calendars = [
        component
        for component in components(stream.read(), origin.name, options.encoding)
        if component.kind == "VCALENDAR"
    ]
    if not calendars:
        raise ReaderError(f"{origin.name}: is no calendar: it has no line BEGIN:VCALENDAR; name its format with AS")
    entries = [(calendar, entry) for calendar in calendars for entry in calendar.components if entry.kind in _TYPES]
    count = 0
    for number, (calendar, entry) in enumerate(entries, 1):
        default_key = origin.key if len(entries) == 1 else f"{origin.key}:{number}"
        entry_document = _document(entry, calendar.text("X-WR-CALNAME", "NAME"), default_key, origin, options)
        if entry_document is not None:
            count += 1
            yield entry_document
    if not count:
        raise ReaderError(f"{origin.name}: has no appointment, task or note that says something; nothing is stored")


def _document(
    entry: Component, calendar: str, default: str, origin: Origin, options: ReadOptions
) -> RawDocument | None:
    title = " ".join(entry.text("SUMMARY").split())
    start, due = _parse_time(entry.first("DTSTART")), _parse_time(entry.first("DUE"))
    end = _end(entry, start)
    location = ", ".join(line.strip() for line in entry.text("LOCATION").split("\n") if line.strip())
    organizer = next(map(_format_person, entry.all("ORGANIZER")), "")
    attendees = [person for item in entry.all("ATTENDEE") if (person := _format_person(item))]
    categories = entry.listed("CATEGORIES")
    status = entry.text("STATUS").lower().replace("-", " ")
    type = _TYPES[entry.kind]
    facts = {
        type.title(): title,
        **_span(start, end),
        "Due": due.shown if due else "",
        "Repeats": "; ".join(filter(None, (_describe_rule(item.value) for item in entry.all("RRULE")))),
        "Where": location,
        "Organizer": organizer,
        "With": ", ".join(attendees),
        "Status": "" if status in ("", "confirmed") else status,
        "Categories": ", ".join(categories),
        "Address": entry.text("URL", "CONFERENCE", "X-GOOGLE-CONFERENCE"),
    }
    paragraphs = [*_paragraphs(entry, origin, options), *(item.text for item in entry.all("COMMENT") if item.text)]
    if not title and not paragraphs and not location:
        return None
    meta: dict[str, JSON] = {"type": type}
    times = (("start", start), ("end", end), ("due", due))
    meta |= {name: time.iso for name, time in times if time}
    texts = (("location", location), ("organizer", organizer), ("status", status), ("calendar", calendar))
    meta |= {name: text for name, text in texts if text}
    meta |= {name: [*item] for name, item in (("attendees", attendees), ("categories", categories)) if item}
    text = format_entry(facts.items(), paragraphs)
    identifier = entry.text("UID")
    instance = entry.first("RECURRENCE-ID")
    key = f"{identifier}/{instance.text}" if identifier and instance else identifier
    return RawDocument(key or default, title or None, text, meta, "text", other_key=default if identifier else None)


def _paragraphs(entry: Component, origin: Origin, options: ReadOptions) -> list[str]:
    """What is said of an entry."""
    text = entry.text("DESCRIPTION", "X-ALT-DESC")
    if not _MARKUP_PATTERN.search(text):
        return [text] if text else []
    from .html import convert_markup
    from .markdown_blocks import render_one_line

    return [line for block in convert_markup(text, origin.name, options) if (line := render_one_line([block]))]


class _Moment:
    """A day, or a time of one in a zone."""

    def __init__(self, day: date | datetime, zone: str) -> None:
        self.day = day
        self.zone = zone

    @property
    def iso(self) -> str:
        return self.day.isoformat() + ("Z" if self.zone == "UTC" else "")

    @property
    def formatted_day(self) -> str:
        day = self.day
        return f"{_WEEKDAYS[day.weekday()]}, {day.day} {MONTHS[day.month - 1]} {day.year} ({day:%Y-%m-%d})"

    @property
    def formatted_hour(self) -> str:
        return f"{self.day:%H:%M}" if isinstance(self.day, datetime) else ""

    @property
    def shown(self) -> str:
        return " ".join(filter(None, (self.formatted_day, self.formatted_hour, self.zone)))


def _parse_time(line: Property | None) -> _Moment | None:
    """The time that a line says; None where it says none."""
    found = _DATE_PATTERN.match(line.value.strip()) if line is not None else None
    if line is None or found is None:
        return None
    with suppress(ValueError):  # no day of the calendar
        year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
        if found[4] is None:
            return _Moment(date(year, month, day), "")
        zone = "UTC" if found[7] else line.parameter("TZID").strip("/").split(" (")[0]
        return _Moment(datetime(year, month, day, hour, minute, min(second, 59)), zone)
    return None


def _end(entry: Component, start: _Moment | None) -> _Moment | None:
    """When an entry ends; of days, which is the last."""
    end = _parse_time(entry.first("DTEND"))
    duration = _DURATION_PATTERN.fullmatch(entry.text("DURATION"))
    with suppress(OverflowError):
        if end is None and start is not None and duration:
            weeks, days, hours, minutes, seconds = (int(part or 0) for part in duration.groups())
            length = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
            end = _Moment(start.day + length, start.zone)
        if end is not None and not isinstance(end.day, datetime):
            end = _Moment(end.day - timedelta(days=1), "")
    return end


def _span(start: _Moment | None, end: _Moment | None) -> dict[str, str]:
    """From when to when; the end of another day has a line of its own."""
    if start is None or end is None or end.iso <= start.iso:
        return {"When": start.shown if start else ""}
    if end.formatted_day != start.formatted_day:
        return {"When": start.shown, "Until": end.shown}
    return {"When": f"{start.formatted_day} {start.formatted_hour} to {end.formatted_hour} {end.zone}".rstrip()}


def _describe_rule(rule: str) -> str:
    """How a series goes on, in words (RFC 5545, 3.3.10).

    >>> _describe_rule("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR;UNTIL=20261231T000000Z")
    'every 2 weeks on Monday, Friday, until 31 December 2026'
    >>> _describe_rule("FREQ=MONTHLY;BYDAY=-1TU;COUNT=6")
    'every month on the last Tuesday, 6 times'
    """
    parts = {name.upper(): value.upper() for name, _, value in (part.partition("=") for part in rule.split(";"))}
    unit = _UNITS.get(parts.get("FREQ", ""))
    if unit is None:
        return ""
    interval = parts.get("INTERVAL", "1")
    words = f"every {interval} {unit}s" if interval.isdecimal() and int(interval) > 1 else f"every {unit}"
    days = [_describe_weekday(day) for day in parts.get("BYDAY", "").split(",")]
    if any(days):
        words += f" on {', '.join(filter(None, days))}"
    elif parts.get("BYMONTHDAY"):
        words += f" on day {parts['BYMONTHDAY'].replace(',', ', ')}"
    until = _parse_time(Property("UNTIL", parts.get("UNTIL", ""), {}))
    if until is not None:
        words += f", until {until.day.day} {MONTHS[until.day.month - 1]} {until.day.year}"
    elif parts.get("COUNT"):
        words += f", {parts['COUNT']} times"
    return words


def _describe_weekday(written: str) -> str:
    match = re.fullmatch(r"([+-]?\d{1,2})?([A-Z]{2})", written.strip())
    if match is None or match[2] not in _DAYS:
        return ""
    number = int(match[1] or 0)
    return f"the {_NUMBERS.get(number, f'{number}.')} {_DAYS[match[2]]}" if number else _DAYS[match[2]]


def _format_person(line: Property) -> str:
    """Who is named: name and address, and what was answered where it is no."""
    address = re.sub(r"(?i)^mailto:", "", line.text)
    address = address if "@" in address and "invalid:" not in address.lower() else ""
    name = line.parameter("CN").strip()
    person = f"{name} <{address}>" if name and address and name != address else name or address
    answer = {"DECLINED": "declined", "TENTATIVE": "may come"}.get(line.parameter("PARTSTAT").upper(), "")
    return f"{person} ({answer})" if person and answer else person
