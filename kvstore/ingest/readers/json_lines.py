"""JSON Lines: a line is an object is a document.

In: UTF-8 (or as marked or named), one JSON object a line; blank lines are left out. Out: a document of format ``text``
a line: key from ``id`` or ``key`` (else the file's key and the line), text from ``text``, ``content``, ``body`` or
``contents``, title from ``title``; the object ``meta`` and all other fields are its metadata. A line that is not such
an object is a ReadFailure and the next line is read. Lines may be as long as memory allows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import BinaryIO, NoReturn

from ...errors import ReaderError
from .decoding import clean, decoded_lines, marked_encoding, refuse_nul
from .raw_document import JSON, Item, Origin, RawDocument, ReadFailure, ReadOptions

_TEXT = ("text", "content", "body", "contents")
_TITLE = ("title",)
_KEY = ("id", "key")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SUSPECT = re.compile(r"\\u(?:d[89a-f]|0000)", re.I)
_UTF8_NAMES = ("utf-8", "utf8", "utf_8")


class BadLineError(Exception):
    """Why a line is not what it should be."""


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[Item]:
    """Yield a document, or a failure, for each line."""

    def document(fields: dict[str, JSON], place: str) -> Iterator[Item]:
        yield _document(fields, origin.key + place.removeprefix(origin.name), options)

    return read_lines(stream, origin, document, options)


def read_lines(
    stream: BinaryIO, origin: Origin, items: Callable[[dict[str, JSON], str], Iterator[Item]], options: ReadOptions
) -> Iterator[Item]:
    """Yield what ``items`` makes of each line's object and place, and a failure where it raises BadLineError."""
    empty = True
    for number, line in _lines(stream, origin, options):
        if isinstance(line, str) and (not line or line.isspace()):
            continue
        empty = False
        place = f"{origin.name}:{number}"
        try:
            yield from items(_parsed(line), place)
        except BadLineError as error:
            yield ReadFailure(place, str(error))
    if empty:
        raise ReaderError(f"{origin.name}: is empty; there is nothing to store")


def _lines(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[tuple[int, str | BadLineError]]:
    """Yield numbered lines; in UTF-8, where a bad byte spoils its line only, the error in place of such a line."""
    start = stream.read(4096)
    encoding = options.encoding or marked_encoding(start) or "utf-8"
    if encoding.lower() not in _UTF8_NAMES:
        yield from enumerate(decoded_lines(stream, origin.name, encoding, "\n"), 1)
        return
    refuse_nul(start.decode("latin-1"), origin.name)
    stream.seek(0)
    offset = 0
    for number, raw in enumerate(stream, 1):
        try:
            yield number, raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            place = offset + raw.index(error.object) + error.start
            yield (
                number,
                BadLineError(
                    f"byte 0x{byte:02X} at offset {place} is not valid UTF-8; "
                    "name the encoding it is in, such as WITH (encoding = 'latin-1'), on the command line "
                    "-o encoding=latin-1"
                ),
            )
        offset += len(raw)


def _parsed(line: str | BadLineError) -> dict[str, JSON]:
    if isinstance(line, BadLineError):
        raise line
    try:
        value = json.loads(line, parse_int=_integer, parse_float=_decimal, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise BadLineError(f"is not valid JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise BadLineError("nests lists or objects too deep; flatten it") from None
    if not isinstance(value, dict):
        raise BadLineError("is not a JSON object; write one {...} a line")
    if _SUSPECT.search(line):
        for text in _strings(value):
            if "\0" in text or _SURROGATE.search(text):
                raise BadLineError(r"holds \u0000 or half of a surrogate pair, which is no text; remove it")
    return value


def _integer(digits: str) -> int:
    if len(digits) <= 20 and -(1 << 63) <= (value := int(digits)) < 1 << 64:
        return value
    raise BadLineError(f"the number {digits[:24]}... does not fit into 64 bits; write it as a string")


def _decimal(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise BadLineError(f"the number {digits[:24]} does not fit into 64 bits; write it as a string")
    return value


def _no_number(name: str) -> NoReturn:
    raise BadLineError(f"is not valid JSON: {name} is no number; write null")


def _strings(value: JSON) -> Iterator[str]:
    """Every string in a JSON value, names of fields too."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            yield from value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _document(fields: dict[str, JSON], default_key: str, options: ReadOptions) -> RawDocument:
    named_key, key = take(fields, options.key, _KEY)
    named_title, title = take(fields, options.title, _TITLE)
    named_text, text = take(fields, options.text, _TEXT)
    if key is None:
        key = default_key
    if isinstance(key, bool) or not isinstance(key, (str, int, float)) or key == "":
        raise BadLineError(f"the field {named_key} must be a number or a string that is not empty")
    if title is not None and not isinstance(title, str):
        raise BadLineError(f"the field {named_title} must be a string")
    if text is None and not title:
        wanted = options.text or "text, content, body or contents"
        raise BadLineError(f"has no field {wanted}; name the one that holds the text WITH (text = ...)")
    if not isinstance(text, str) and text is not None:
        raise BadLineError(f"the field {named_text} must be a string")
    body = clean(text or "")
    if body.isspace() or not body:
        body = title or ""
    if not body:
        raise BadLineError(f"the field {named_text} is empty; fill it or leave the line out")
    meta = fields.pop("meta", None)
    if isinstance(meta, dict):
        fields.update(meta)
    elif meta is not None:
        fields["meta"] = meta
    return RawDocument(str(key), title or None, body, fields, "text")


def take(fields: dict[str, JSON], named: str | None, usual: tuple[str, ...]) -> tuple[str, JSON]:
    """Remove and return the field that an option names, else the first of the usual ones that is there and not null."""
    for name in (named,) if named is not None else usual:
        value = fields.get(name)
        if value is not None:
            del fields[name]
            return name, value
    return named or usual[0], None
