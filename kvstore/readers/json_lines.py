"""JSON Lines: each line is an object and becomes a document. JSON: a list of objects, or one document for the file.
A *row* is a line or an object that is already parsed. An *item* is a document, a failure, or a fact about a document.
A *position* is ``path:line``.

In: UTF-8 (or the encoding that a byte-order mark or option names), one JSON object on each line; blank lines are
ignored. Out: one document of format ``text`` for each line. Its key is ``id`` or ``key``; if that is missing or another
file uses it, the key is the file's key and the line number. Its text is ``text``, ``content``, ``body`` or
``contents``, else a line ``name: value`` for each nonempty field. Its title is ``title``. The ``meta`` object and all
other fields are its metadata. An invalid line is a ReadFailure, and the next line is read. Line length is limited only
by memory.

A file with a single JSON value becomes a document of format ``markdown``, with the indented value in a code block. A
list of objects becomes one document for each object. So does a list that is most of an object, as exports have it under
``data`` or ``messages``; the other fields become another document. Lock files of package managers, and other values of
more than a million characters, are skipped because they are for programs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice
from pathlib import PurePosixPath
from typing import BinaryIO, NoReturn, TypeAlias

from ..errors import ReaderError
from .decoding import (
    SURROGATE_PATTERN,
    check_nul,
    clean_text,
    decode_file,
    detect_bom_encoding,
    iter_decoded_lines,
)
from .markdown_blocks import join_blocks, make_code_block, make_heading
from .raw_document import JSON, Item, Origin, RawDocument, ReadFailure, ReadOptions, SkippedPart, choose_other_key

#: The number of characters of the longest 64-bit integer (a sign and 19 digits, or 20 digits), and the number of shown
#: characters of an integer that is longer.
_MAX_INTEGER_CHARACTERS = 20
_NUM_SHOWN_CHARACTERS = 24

_TEXT_FIELDS = ("text", "content", "body", "contents")
_TITLE_FIELDS = ("title",)
_KEY_FIELDS = ("id", "key")
#: The maximum number of fields that an error lists.
_MAX_LISTED_FIELDS = 20
#: An escape that can be NUL or half of a surrogate pair; only text with one is searched for these.
_SUSPECT_ESCAPE_PATTERN = re.compile(r"\\u(?:d[89a-f]|0000)", re.I)
_LOCK_FILE_PATTERN = re.compile(r"(?:package-lock|npm-shrinkwrap|composer\.lock|.*[.-]lock)\.json")  # package-lock.json
#: The maximum number of characters of a value that becomes one document.
_MAX_VALUE_CHARACTERS = 1_000_000
#: The number of bytes that decide if a file is text.
_START_BYTES = 4096
_UTF8_NAMES = ("utf-8", "utf8", "utf_8")
_TOO_DEEP_MESSAGE = "nests lists or objects too deeply; flatten them"


class BadLineError(Exception):
    """Raised for an invalid line; its message is the reason."""


#: A function that makes items from an object and its position (``path:line``); it raises BadLineError for an invalid
#: object.
ItemMaker: TypeAlias = Callable[[dict[str, JSON], str], Iterator[Item]]
#: A line, or the error if it cannot be decoded; a row is a line or an object that is already parsed.
_Line: TypeAlias = str | BadLineError
_Row: TypeAlias = dict[str, JSON] | _Line


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[Item]:
    """Yield a document for each line of a JSON Lines file, or a failure for an invalid line.

    Raises ReaderError if all lines are blank, or if the file is not text.
    """
    return read_lines(stream, origin, _make_document_maker(origin, options), options)


def read_objects(rows: Iterable[tuple[int, _Row]], origin: Origin, options: ReadOptions) -> Iterator[Item]:
    """Yield a document, or a failure, for each object in ``rows``, such as the rows of a Parquet file.

    ``rows`` are pairs of a row number, from 1, and a parsed object, a line of JSON, or the error of an invalid row.
    """
    return _iter_items(rows, origin, _make_document_maker(origin, options))


def read_value(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[Item]:
    """Yield a document, or a failure, for each object of the main list of a JSON value, and a document for the rest.

    The main list is the value itself, or its field with most of the text; without one, the value is one document. A
    lock file, or a rest of more than ``_MAX_VALUE_CHARACTERS``, becomes a SkippedPart. Raises ReaderError if the file
    is empty or not valid JSON.
    """
    # Not decode_text: JSON allows raw line breaks such as U+2028 in strings, and \n would make it invalid.
    text = decode_file(stream.read(), origin.name, options.encoding)
    origin.require_content(text, "is empty")
    path = PurePosixPath(origin.name)
    if _LOCK_FILE_PATTERN.fullmatch(path.name):
        yield SkippedPart(origin.name, "lock file")
        return
    try:
        objects, value = _split_main_list(_parse_json(text))
        is_suspect = _SUSPECT_ESCAPE_PATTERN.search(text) is not None
        if is_suspect:
            _check_strings(value)
    except BadLineError as error:
        raise ReaderError(f"{origin.name}: {error}") from None
    except RecursionError:
        raise ReaderError(f"{origin.name}: {_TOO_DEEP_MESSAGE}") from None
    if objects:
        rows = _iter_checked_rows(objects) if is_suspect else enumerate(objects, 1)
        yield from _iter_items(rows, origin, _make_document_maker(origin, options))
        if not value:
            return
    if value in (None, "", [], {}):
        raise ReaderError(f"{origin.name}: is empty; there is nothing to store")
    num_characters = _measure_size(value) if objects else len(text)
    if num_characters > _MAX_VALUE_CHARACTERS:
        remedy = "write it as a list of objects or as JSON Lines, so that each object becomes a document"
        yield SkippedPart(origin.name, "large JSON", f"is one JSON value of {num_characters:,} characters; {remedy}")
        return
    indented_value = clean_text(json.dumps(value, ensure_ascii=False, indent=2))
    blocks = [make_heading(1, path.name), make_code_block(indented_value, "json")]
    yield RawDocument(origin.key, path.name, join_blocks(blocks) + "\n", meta={}, format="markdown")


def _split_main_list(value: JSON) -> tuple[list[dict[str, JSON]], JSON]:
    """Return the objects of a value's main list, and the value without it.

    The main list is the value itself (the rest is then None), or a field of several objects with more than half of its
    text. Without a main list, return an empty list and the unchanged value.
    """
    objects = _get_objects(value)
    if objects:
        return objects, None
    if isinstance(value, dict):
        sizes = {name: _measure_size(field) for name, field in value.items() if len(_get_objects(field)) > 1}
        longest = max(sizes, key=sizes.__getitem__, default=None)
        if longest is not None and 2 * sizes[longest] > _measure_size(value):
            return _get_objects(value[longest]), {name: field for name, field in value.items() if name != longest}
    return [], value


def _get_objects(value: JSON) -> list[dict[str, JSON]]:
    """Return ``value`` if it is a list that contains only objects; otherwise, an empty list."""
    if not isinstance(value, list):
        return []
    objects = [element for element in value if isinstance(element, dict)]
    return objects if len(objects) == len(value) else []


def _measure_size(value: JSON) -> int:
    """Return the length of a value as JSON in characters."""
    return len(json.dumps(value))


def _make_document_maker(origin: Origin, options: ReadOptions) -> ItemMaker:
    """Return a function that creates the document of a JSON object.

    It remembers the keys of the file. Only the first document with a key gets an alternative (``other_key``), because a
    key that occurs twice in a file is an error.
    """
    used_keys: set[str] = set()

    def make_document(fields: dict[str, JSON], position: str) -> Iterator[Item]:
        """Yield the document of the object ``fields``; its default key ends with its line number."""
        default_key = origin.key + position.removeprefix(origin.name)
        raw_document = _build_document(fields, default_key, options)
        yield replace(raw_document, other_key=choose_other_key(raw_document.key, default_key, used_keys))

    return make_document


def read_lines(stream: BinaryIO, origin: Origin, make_items: ItemMaker, options: ReadOptions) -> Iterator[Item]:
    """Yield the items that ``make_items`` creates from the object of each line, or a failure for an invalid line.

    Items are documents, or facts about stored documents. Raises ReaderError if all lines are blank, or if the file is
    not text.
    """
    lines = _iter_lines(stream, origin, options)
    # An undecodable line, a BadLineError, is not blank.
    nonblank_lines = ((number, line) for number, line in lines if not isinstance(line, str) or line.strip())
    first_line = next(nonblank_lines, None)
    if first_line is None:
        raise ReaderError(f"{origin.name}: is empty; there is nothing to store")
    yield from _iter_items(chain([first_line], nonblank_lines), origin, make_items)


def _iter_items(rows: Iterable[tuple[int, _Row]], origin: Origin, make_items: ItemMaker) -> Iterator[Item]:
    """Yield the items that ``make_items`` creates from the object of each row, or a failure for an invalid row.

    ``rows`` are pairs of a row number, from 1, and an object, a line of JSON, or the error of an undecodable line.
    """
    for line_number, row in rows:
        position = f"{origin.name}:{line_number}"
        try:
            yield from make_items(row if isinstance(row, dict) else _parse_object(row), position)
        except BadLineError as error:
            yield ReadFailure(position, str(error))
        except RecursionError:
            yield ReadFailure(position, _TOO_DEEP_MESSAGE)


def _iter_lines(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[tuple[int, _Line]]:
    """Yield the number (from 1) and the text of each line.

    In UTF-8, an invalid byte affects only its line, which is yielded as a BadLineError instead of a text. Raises
    ReaderError for an invalid byte in another encoding, and for a binary file.
    """
    start = stream.read(_START_BYTES)
    encoding = options.encoding or detect_bom_encoding(start) or "utf-8"
    if encoding.lower() not in _UTF8_NAMES:
        yield from enumerate(iter_decoded_lines(stream, origin.name, encoding, "\n"), 1)
        return
    check_nul(start.decode("latin-1"), origin.name)
    stream.seek(0)
    offset = 0
    for number, line in enumerate(stream, 1):
        try:
            yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            # The object of the error is the line without its byte-order mark.
            byte_offset = offset + line.index(error.object) + error.start
            yield (
                number,
                BadLineError(
                    f"byte 0x{byte:02X} at offset {byte_offset} is not valid UTF-8; specify the encoding of the file, "
                    "for example WITH (encoding = 'latin-1'), options={'encoding': 'latin-1'} in Python, or "
                    "-o encoding=latin-1 on the command line"
                ),
            )
        offset += len(line)


def _parse_object(line: _Line) -> dict[str, JSON]:
    """Return the object of a line of JSON.

    Raises BadLineError if it is not an object, or if a string has NUL or half of a surrogate pair. ``line`` can also be
    the error of reading the line, which is raised.
    """
    if isinstance(line, BadLineError):
        raise line
    value = _parse_json(line)
    if _SUSPECT_ESCAPE_PATTERN.search(line):
        _check_strings(value)
    if not isinstance(value, dict):
        raise BadLineError("is not a JSON object; write one {...} per line")
    return value


def _iter_checked_rows(objects: Iterable[dict[str, JSON]]) -> Iterator[tuple[int, _Row]]:
    """Yield the number (from 1) of each object, and the object or, if it has a string that is not text, the error."""
    for number, fields in enumerate(objects, 1):
        try:
            _check_strings(fields)
            yield number, fields
        except BadLineError as error:
            yield number, error


def _check_strings(value: JSON) -> None:
    """Raise BadLineError if a string in ``value`` is not text that a document can store."""
    for string in _iter_strings(value):
        if "\0" in string or SURROGATE_PATTERN.search(string):
            raise BadLineError(r"contains \u0000 or half of a surrogate pair, which is not valid text; remove it")


def _parse_json(text: str) -> JSON:
    """Parse JSON. Strings with NUL or half of a surrogate pair are accepted; the caller must reject them.

    Raises BadLineError if the JSON is invalid or nested too deeply, or if a number is too large.
    """
    try:
        value: JSON = json.loads(
            text, parse_int=_parse_integer, parse_float=_parse_decimal, parse_constant=_reject_constant
        )
    except json.JSONDecodeError as json_error:
        # Not after the line break at the end, which a reader would look for in the next row.
        error = json.JSONDecodeError(json_error.msg, text, min(json_error.pos, len(text.rstrip())))
        position = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno}, column {error.colno}"
        raise BadLineError(f"is not valid JSON: {error.msg} at {position}") from None
    except RecursionError:
        raise BadLineError(_TOO_DEEP_MESSAGE) from None
    return value


def _parse_integer(digits: str) -> int:
    """Parse ``digits``, an integer of a JSON text. Raises BadLineError if it does not fit in 64 bits."""
    # The length is checked first, because int() is slow for a long text.
    if len(digits) <= _MAX_INTEGER_CHARACTERS:
        value = int(digits)
        if -(1 << 63) <= value < 1 << 64:  # signed or unsigned
            return value
    raise BadLineError(
        f"the number {digits[:_NUM_SHOWN_CHARACTERS]}... does not fit into 64 bits; write it as a string"
    )


def _parse_decimal(digits: str) -> float:
    """Parse ``digits``, a decimal number of a JSON text. Raises BadLineError if it is too large for a float."""
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise BadLineError(
            f"the number {digits[:_NUM_SHOWN_CHARACTERS]} does not fit into 64 bits; write it as a string"
        )
    return value


def _reject_constant(name: str) -> NoReturn:
    """Raise BadLineError for ``NaN``, ``Infinity`` or ``-Infinity``, which Python's parser accepts."""
    raise BadLineError(f"is not valid JSON: {name} is not a number; write null")


def _iter_strings(value: JSON) -> Iterator[str]:
    """Yield every string in a JSON value, including field names."""
    stack = [value]
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            yield from value
            stack += value.values()
        elif isinstance(value, list):
            stack += value


def _build_document(fields: dict[str, JSON], default_key: str, options: ReadOptions) -> RawDocument:
    """Return the document of an object; its title replaces a missing or blank text.

    Raises BadLineError if it has neither text nor title, if it lacks the field that the ``key`` option names, or if a
    field has the wrong type. Key, title and text are removed from ``fields``. The other fields, and the fields of a
    ``meta`` object, become the metadata. Without a text field, unless an option names it, the text has a line for each
    other field. ``default_key`` is the key of an object without a key.
    """
    if options.key is not None and options.key not in fields:
        names = ", ".join(name[:_NUM_SHOWN_CHARACTERS] for name in islice(fields, _MAX_LISTED_FIELDS))
        remedy = f"the option key must name one of: {names}" if fields else "the object is empty"
        raise BadLineError(f"has no field {options.key!r}; {remedy}")
    key_field, key = take_field(fields, options.key, _KEY_FIELDS)
    title_field, title = take_field(fields, options.title, _TITLE_FIELDS)
    text_field, text = take_field(fields, options.text, _TEXT_FIELDS)
    if key is None:
        key = default_key
    if isinstance(key, bool) or not isinstance(key, (str, int, float)) or key == "":
        raise BadLineError(f"the field {key_field} must be a number or a string that is not empty")
    if title is not None and not isinstance(title, str):
        raise BadLineError(f"the field {title_field} must be a string")
    if text is None and options.text is None:
        text = "\n".join(f"{name.removesuffix(':')}: {value}" for name, value in _iter_field_texts(fields)) or None
    if text is None and not title:
        expected_fields = options.text or "text, content, body or contents"
        raise BadLineError(
            f"has no field {expected_fields}; specify the text field: WITH (text = NAME), or -o text=NAME on the "
            "command line"
        )
    if not isinstance(text, str) and text is not None:
        raise BadLineError(f"the field {text_field} must be a string")
    body = clean_text(text or "")
    if body.isspace() or not body:
        body = title or ""
    if not body:
        raise BadLineError(f"the field {text_field} is empty; fill it in or remove the line")
    meta = fields.pop("meta", None)
    if isinstance(meta, dict):
        fields.update(meta)
    elif meta is not None:
        fields["meta"] = meta
    return RawDocument(str(key), title=title or None, text=body, meta=fields, format="text")


def _iter_field_texts(fields: Mapping[str, JSON], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield (name, value as text) for each field that has a value.

    The name of a nested field is a dotted path, such as ``author.name``. ``prefix`` is put before each name.
    """
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _iter_field_texts(value, f"{prefix}{name}.")
            continue
        elements = value if isinstance(value, list) else [value]
        if any(isinstance(element, (dict, list)) for element in elements):
            text = json.dumps(value, ensure_ascii=False)
        else:
            text = ", ".join(" ".join(str(element).split()) for element in elements if element is not None)
        if text:
            yield prefix + name, text


def take_document_key(fields: dict[str, JSON], field: str | None) -> str:
    """Remove the field with the key of a stored document, and return the key; raise BadLineError if there is none.

    ``field`` is the name of the field (None: ``document``, ``id`` or ``key``).
    """
    name, key = take_field(fields, field, ("document", *_KEY_FIELDS))
    if isinstance(key, bool) or not isinstance(key, (str, int)) or key == "":
        raise BadLineError(f"the field {name} must be the key of a document; write a string or an integer")
    return str(key)


def take_field(fields: dict[str, JSON], field: str | None, default_fields: tuple[str, ...]) -> tuple[str, JSON]:
    """Remove the field named ``field`` (None: the first of ``default_fields`` that is not null).

    Return its name and value. If no such field has a value, return the (first) name and None.
    """
    for name in (field,) if field is not None else default_fields:
        value = fields.get(name)
        if value is not None:
            del fields[name]
            return name, value
    return field or default_fields[0], None
