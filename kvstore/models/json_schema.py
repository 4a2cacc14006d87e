"""Parsing a language model's answer as JSON and validating it against a JSON Schema. Errors are ValueErrors whose text
is sent to the model.

In: a text, and a schema of the keywords that structured answers need: ``type``, ``properties``, ``required``,
``additionalProperties`` (false), ``items``, ``enum``, ``minItems``, ``maxItems``, ``minLength``, ``maxLength``,
``minimum`` and ``maximum`` (JSON Schema 2020-12, Validation, section 6). Out: the value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from ..text.patterns import compile_lazily
from .text_pieces import join_surrogates

#: A Markdown fence around the whole answer, which many models add.
_FENCE_PATTERN = compile_lazily(r"\A\s*```[a-z]*\s*\n(?P<content>.*?)\n?\s*```\s*\Z", re.DOTALL | re.IGNORECASE)

#: The parts of JSON that decide where a value ends. A string may lack its end.
_TOKEN_PATTERN = compile_lazily(r'[{}\[\],]|"(?:[^"\\]|\\.)*"?', re.DOTALL)
#: The end of a sentence in a string.
_SENTENCE_END_PATTERN = compile_lazily(r"[.!?…](?=\s)|[。！？]")
#: The number of prefixes of an unfinished answer that are tried.
_MAX_PREFIXES = 100

#: The Python types of each type of JSON Schema, and the supported keywords.
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_KNOWN_KEYWORDS = frozenset(
    "type properties required additionalProperties items enum minItems maxItems minLength maxLength minimum maximum "
    "title description".split()
)


def build_object_schema(**properties: Any) -> dict[str, Any]:
    """Return the schema of an object with exactly these properties; each value is the schema of a property."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def build_array_schema(items: Any, max_items: int, min_items: int = 1) -> dict[str, Any]:
    """Return the schema of an array of ``min_items`` to ``max_items`` values of the schema ``items``."""
    return {"type": "array", "minItems": min_items, "maxItems": max_items, "items": items}


def build_enum_schema(texts: Sequence[str]) -> dict[str, Any]:
    """Return the schema of a string that must be one of ``texts``."""
    return {"type": "string", "enum": list(texts)}


def build_text_schema(max_length: int, min_length: int = 1) -> dict[str, Any]:
    """Return the schema of a string of ``min_length`` to ``max_length`` characters."""
    return {"type": "string", "minLength": min_length, "maxLength": max_length}


def parse_json(text: str) -> Any:
    """Return the value of the first JSON object or array in a text, which can be in a code fence of Markdown.

    Raises ValueError if it is missing or invalid.
    """
    fence_match = _FENCE_PATTERN.match(text)
    body = (fence_match["content"] if fence_match else text).strip()
    start = min((offset for offset in (body.find("{"), body.find("[")) if offset >= 0), default=-1)
    if start < 0:
        raise ValueError("there is no JSON in the answer")
    decoder = json.JSONDecoder(parse_constant=_reject_constant)
    try:
        value, _ = decoder.raw_decode(body, start)
        encoded = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    except json.JSONDecodeError as problem:
        raise ValueError(f"the answer is not JSON: {problem.msg} at character {problem.pos}") from None
    joined_text = join_surrogates(encoded)  # an escape in a string can be half of a surrogate pair
    return value if joined_text == encoded else json.loads(joined_text)


def parse_longest_prefix(text: str, schema: Mapping[str, Any]) -> Any:
    """Return the value of the longest prefix of an unfinished JSON answer that matches its schema.

    The open brackets and strings of a prefix are closed. Raises ValueError if none of the ``_MAX_PREFIXES``
    longest prefixes matches.
    """
    body = text[text.find("{") :]
    for prefix in islice(_iter_prefixes(body), _MAX_PREFIXES):
        with suppress(ValueError, RecursionError):
            value = parse_json(prefix)
            check_value(value, schema)
            return value
    raise ValueError("no part of the answer is complete")


def _iter_prefixes(body: str) -> Iterator[str]:
    """Yield prefixes of a JSON text, with the closing brackets that they lack, longest first; some are invalid JSON.

    A prefix ends after a bracket or string, or before a comma. If the text ends inside a string, the first prefix ends
    with the last whole sentence of the string.
    """
    cuts: list[tuple[int, str]] = []  # the end of a prefix, and the text that completes it
    closing_brackets: list[str] = []  # of the open objects and arrays
    end = 0
    for match in _TOKEN_PATTERN.finditer(body):
        token, end = match.group(), match.end()
        if token in "{[":
            closing_brackets.append("}" if token == "{" else "]")
        elif token in "}]":
            if not closing_brackets:
                break
            closing_brackets.pop()
        elif token == ",":
            end = match.start()
        elif len(token) == 1 or token[-1] != '"':  # a string without an end
            sentence_ends = [match.start() + mark.end() for mark in _SENTENCE_END_PATTERN.finditer(token)]
            if sentence_ends:
                cuts.append((sentence_ends[-1], '"' + "".join(reversed(closing_brackets))))
            break
        cuts.append((end, "".join(reversed(closing_brackets))))
    for end, completion in reversed(cuts):
        yield body[:end] + completion


def _reject_constant(name: str) -> None:
    """Raise ValueError for the constant ``NaN`` or ``Infinity``, which Python's parser accepts but JSON lacks."""
    raise ValueError(f"{name} is not a JSON number")


def check_keywords(schema: Mapping[str, Any]) -> None:
    """Raise ValueError if a JSON Schema, or a schema nested in it, has a keyword that kvstore does not support."""
    unknown_keywords = schema.keys() - _KNOWN_KEYWORDS
    if unknown_keywords:
        raise ValueError(f"the JSON Schema has unsupported keywords: {', '.join(sorted(unknown_keywords))}")
    for property_schema in schema.get("properties", {}).values():
        check_keywords(property_schema)
    if "items" in schema:
        check_keywords(schema["items"])


def check_value(value: Any, schema: Mapping[str, Any], location: str = "the answer") -> None:
    """Raise ValueError if a value, decoded from JSON, violates its JSON Schema.

    The message gives the first violation and its path, which begins with ``location``. It is written for the model that
    wrote the value.
    """
    type_names = schema.get("type", ())
    type_names = (type_names,) if isinstance(type_names, str) else tuple(type_names)
    if type_names and not any(_is_type(value, type_name) for type_name in type_names):
        actual_type = next(name for name in _TYPES if _is_type(value, name))
        raise ValueError(f"{location} must be of type {' or '.join(type_names)}, not {actual_type}")
    if "enum" in schema and value not in schema["enum"]:
        raise ValueError(f"{location} must be one of {', '.join(map(str, schema['enum']))}")
    if isinstance(value, dict):
        _check_object(value, schema, location)
    elif isinstance(value, list):
        _check_length(len(value), schema, "Items", f"{location} has", "entries")
        for index, item in enumerate(value):
            check_value(item, schema.get("items", {}), f"{location}[{index}]")
    elif isinstance(value, str):
        _check_length(len(value), schema, "Length", f"{location} has", "characters")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        low, high = schema.get("minimum", value), schema.get("maximum", value)
        if not low <= value <= high:
            raise ValueError(f"{location} must be between {low} and {high}, not {value}")


def _check_object(value: Mapping[str, Any], schema: Mapping[str, Any], location: str) -> None:
    """Raise ValueError if an object lacks a required field, or has a field that is not allowed or violates its schema.

    ``location`` is the object's path in the message.
    """
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            raise ValueError(f"{location} has no field {name!r}")
    if schema.get("additionalProperties", True) is False:
        for name in value:
            if name not in properties:
                raise ValueError(f"{location} has a field {name!r} that the schema does not have")
    for name, property_schema in properties.items():
        if name in value:
            check_value(value[name], property_schema, f"{location}.{name}")


def _check_length(length: int, schema: Mapping[str, Any], keyword: str, subject: str, unit: str) -> None:
    """Raise ValueError if a length violates the minimum or the maximum in ``schema``.

    ``keyword`` is ``Items`` for the keywords ``minItems`` and ``maxItems``, ``Length`` for ``minLength`` and
    ``maxLength``. The message begins with ``subject``, followed by the length and its ``unit``.
    """
    low, high = schema.get(f"min{keyword}", 0), schema.get(f"max{keyword}")
    if length < low:
        raise ValueError(f"{subject} {length} {unit}; it must have at least {low}")
    if high is not None and length > high:
        raise ValueError(f"{subject} {length} {unit}; it must have at most {high}")


def _is_type(value: Any, type_name: str) -> bool:
    """True if a value is of a JSON Schema type, such as "string"; 1.0 is an integer, and true is not a number."""
    if isinstance(value, bool):
        return type_name == "boolean"
    is_whole_float = isinstance(value, float) and value.is_integer()
    return isinstance(value, _TYPES[type_name]) or (type_name == "integer" and is_whole_float)
