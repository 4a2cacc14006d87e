"""The tools of a store as data: names, descriptions, arguments in JSON Schema, and the check of arguments.

In: a tool and the arguments of a call. Out: its schema; an InputError with a message for the client if an argument is
invalid.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kvstore.errors import InputError

from .result_text import quote_argument

#: The maximum number of characters of an argument, and of the text of a document.
MAX_ARGUMENT_CHARS = 10_000
MAX_DOCUMENT_CHARS = 200_000
#: The maximum number of results that a tool call may request.
MAX_RESULTS = 50

#: The Python type of each JSON type of an argument, and its name in errors.
_ARGUMENT_TYPES: dict[str, tuple[type, str]] = {
    "string": (str, "a string"),
    "integer": (int, "a whole number"),
    "object": (dict, "an object"),
    "array": (list, "a list"),
}


@dataclass(frozen=True, slots=True)
class StoreTool:
    """A tool: ``arguments`` has the JSON Schema of each argument by name, and ``required`` the names of mandatory ones.

    The method of :class:`~.store_tools.StoreTools` with its name runs it. ``is_write`` is true if the tool changes the
    store, ``is_destructive`` if it may remove something.
    """

    name: str
    description: str
    arguments: Mapping[str, Mapping[str, Any]]
    required: tuple[str, ...]
    is_write: bool = False
    is_destructive: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return {
            "type": "object",
            "properties": dict(self.arguments),
            "required": list(self.required),
            "additionalProperties": False,
        }


def _build_text_schema(description: str) -> dict[str, Any]:
    """Return the JSON schema of a text argument with a description for the language model."""
    return {"type": "string", "description": description}


def _build_number_schema(description: str, minimum: int = 1, maximum: int = MAX_RESULTS) -> dict[str, Any]:
    """Return the JSON schema of an integer from ``minimum`` to ``maximum``, with a description for a language model."""
    return {"type": "integer", "description": description, "minimum": minimum, "maximum": maximum}


def iter_tools(where: str | None) -> Iterator[StoreTool]:
    """Yield the definitions of all tools, for a language model that works with a store.

    ``where`` is the condition that limits the documents of the tools, if any; tools that cannot apply it are omitted.
    """
    search_arguments: dict[str, Mapping[str, Any]] = {
        "question": _build_text_schema("The question, in words"),
        "strategy": _build_text_schema("Strategy of retrieval, such as hybrid or graph; overview lists them"),
    }
    if where is None:
        search_arguments["where"] = _build_text_schema(
            "SQL condition on the columns of documents, such as meta ->> 'year' >= 2024"
        )
    yield StoreTool(
        "retrieve",
        "Find the passages of the stored documents that answer a question, best first, with their key and bytes.",
        {**search_arguments, "top": _build_number_schema("Number of passages (default 8)")},
        ("question",),
    )
    yield StoreTool(
        "ask",
        "Answer a question from the stored documents, with citations. If they do not answer it, the result says so.",
        search_arguments,
        ("question",),
    )
    yield StoreTool(
        "lookup",
        "Find where a name (person, place, thing, term) occurs: in hierarchies, headings and texts.",
        {"name": _build_text_schema("The name"), "limit": _build_number_schema("Number of occurrences (default 10)")},
        ("name",),
    )
    if where is None:
        yield StoreTool(
            "expand",
            "Return the names above and below a name in the stored hierarchies.",
            {
                "name": _build_text_schema("The name"),
                "direction": {"type": "string", "enum": ["up", "down", "both"]},
                "depth": _build_number_schema("Number of levels (default 1)", 0, 64),
                "tree": _build_text_schema("Only this tree"),
            },
            ("name",),
        )
        yield StoreTool(
            "select",
            "Run one SELECT (SQLite's SQL), SHOW or DESCRIBE; overview lists the tables.",
            {"sql": _build_text_schema("The statement"), "parameters": {"type": "array", "description": "Values of ?"}},
            ("sql",),
        )
    yield StoreTool(
        "document",
        "Return the text of a stored document from a byte offset on, such as the one in a citation.",
        {
            "key": _build_text_schema("Key of the document"),
            "start": _build_number_schema("First byte (default 0)", 0, 2**53),
        },
        ("key",),
    )
    yield StoreTool(
        "overview",
        "Return what the store contains: counts, documents, tables, strategies. Begin here.",
        {
            "prefix": _build_text_schema("Only keys with this prefix"),
            "after": _build_text_schema("Only keys after this one"),
        },
        (),
    )
    yield StoreTool(
        "put",
        "Store a document, replacing one with the same key.",
        {
            "key": _build_text_schema("Key of the document, such as notes/tea"),
            "text": _build_text_schema("Plain text"),
            "title": _build_text_schema("Title of the document"),
            "meta": {"type": "object", "description": "Metadata"},
        },
        ("key", "text"),
        is_write=True,
        is_destructive=True,
    )
    yield StoreTool(
        "delete",
        "Delete a document and everything derived from it.",
        {"key": _build_text_schema("Key of the document")},
        ("key",),
        is_write=True,
        is_destructive=True,
    )
    if where is None:
        yield StoreTool(
            "put_edge",
            "Add an edge: one name below another in a hierarchy.",
            {
                "child": _build_text_schema("The lower name"),
                "parent": _build_text_schema("The upper name"),
                "tree": _build_text_schema("The hierarchy (default edges)"),
            },
            ("child", "parent"),
            is_write=True,
        )
        yield StoreTool(
            "alias",
            "Make a new name an alias of a known one.",
            {"name": _build_text_schema("The new name"), "entity": _build_text_schema("The known name")},
            ("name", "entity"),
            is_write=True,
        )


def _build_output_schema(**fields: str) -> dict[str, Any]:
    """Return the JSON schema of an object that must have all ``fields``, such as ``title="string?"``.

    The value is the JSON type of a field, followed by ``?`` if it can be null.
    """
    return {"type": "object", **_build_item_schema(**fields), "required": list(fields)}


def _build_item_schema(**fields: str) -> dict[str, Any]:
    """Return the JSON schema of an item of a list, as short as possible: only the types of its fields.

    The value of one of the ``fields`` is its JSON type, such as ``string``, followed by ``?`` if it can be null.
    """
    return {
        "properties": {
            name: {"type": [json_type[:-1], "null"] if json_type.endswith("?") else json_type}
            for name, json_type in fields.items()
        }
    }


def _build_list_schema(name: str, items: Mapping[str, Any], **fields: str) -> dict[str, Any]:
    """Return the JSON schema of an object with a list ``name`` and ``left_out``, the number of items that do not fit.

    ``items`` is the schema of an item. ``fields`` are the JSON types of further fields, such as ``columns="array"``.
    """
    schema = _build_output_schema(**fields, **{name: "array"})
    schema["properties"][name]["items"] = items
    schema["properties"]["left_out"] = {"type": "integer"}
    return schema


#: The schemas of the parts of results.
_PASSAGE = _build_item_schema(
    document="string", start="integer", end="integer", score="number", why="string", text="string"
)
_CITATION = _build_item_schema(number="integer", document="string", start="integer", end="integer")
_LOCATION = _build_item_schema(
    name="string", tree="string?", level="integer?", parent="string?", document="string?", text="string"
)
_ANSWER_PART = _build_item_schema(question="string", citation="integer?", verdict="string?", answer_span="string?")
_ANSWER = _build_output_schema(
    outcome="string",
    answer="string",
    answer_span="string?",
    verdict="string?",
    parts="array",
    model="string?",
    confidence="number",
    citations="array",
)
_ANSWER["properties"]["parts"]["items"] = _ANSWER_PART
_ANSWER["properties"]["citations"]["items"] = _CITATION
#: The schemas of the data of the tools that return data. Offsets are bytes of the document.
OUTPUT_SCHEMAS: Mapping[str, dict[str, Any]] = {
    "retrieve": _build_list_schema("passages", _PASSAGE),
    "ask": _ANSWER,
    "lookup": _build_list_schema("locations", _LOCATION),
    "select": _build_list_schema("rows", {"type": "array"}, columns="array"),
    "document": _build_output_schema(
        document="string", title="string?", bytes="integer", start="integer", end="integer", text="string"
    ),
}


def check_tool_arguments(tool: StoreTool, arguments: Mapping[str, Any]) -> None:
    """Raise InputError if an argument is unknown to the tool, missing, too long, or of the wrong type or range."""
    for name in arguments:
        if name not in tool.arguments:
            raise InputError(f"{tool.name} takes the arguments {', '.join(tool.arguments)}, not {quote_argument(name)}")
    for name in tool.required:
        if name not in arguments:
            raise InputError(f"{tool.name} needs the argument {name}")
    for name, value in arguments.items():
        schema = tool.arguments[name]
        python_type, description = _ARGUMENT_TYPES[schema["type"]]
        # In Python, a bool is also an int.
        if not isinstance(value, python_type) or isinstance(value, bool):
            raise InputError(f"{name} must be {description}, not {quote_argument(json.dumps(value))}")
        if isinstance(value, str):
            check_argument_length(name, value, MAX_DOCUMENT_CHARS if name == "text" else MAX_ARGUMENT_CHARS)
        if "enum" in schema and value not in schema["enum"]:
            raise InputError(f"{name} must be one of {', '.join(schema['enum'])}, not {quote_argument(str(value))}")
        if python_type is int and not schema["minimum"] <= value <= schema["maximum"]:
            raise InputError(
                f"{name} must be from {schema['minimum']} to {schema['maximum']:,}, not {quote_argument(str(value))}"
            )


def check_argument_length(name: str, value: str, max_chars: int = MAX_ARGUMENT_CHARS) -> None:
    """Raise InputError if an argument is longer than ``max_chars`` characters."""
    if len(value) > max_chars:
        raise InputError(f"{name} has {len(value):,} characters, but at most {max_chars:,} are allowed; shorten it")
