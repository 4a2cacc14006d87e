"""The tools that a language model can use on a store: names, JSON arguments, text results.

In: a store, and the limits set by its owner (write access, a condition on documents, tokens per result). Out: the
tools, and the text of each call.

Document text is quoted as in a prompt (:mod:`kvstore.answering.prompt`): between marks drawn for each result, with keys
and titles on one line and numbers in brackets rewritten. Thus no document can imitate another passage or kvstore. Reads
go through :meth:`kvstore.Store.query`, so that one reading statement runs within :data:`TIMEOUT_SECONDS`. Every result
is limited to the allowed tokens, by :func:`kvstore.token_estimate`, and says what was left out and how to get it. An
error of the client is a KvstoreError, whose message is for the model.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

import kvstore
from kvstore.errors import DocumentNotFoundError, InputError, KvstoreError, StatementError

from .. import language
from ..answering.prompt import Quotation, quote_slice, quote_text, to_one_line
from .store_facts import get_default_strategy

#: The prefix of a document's URI; the percent-encoded key follows.
SCHEME = "kvstore:///"
#: The timeout in seconds of a tool without a language model.
TIMEOUT_SECONDS = 5.0
#: The timeout in seconds of an answer by a language model.
MODEL_TIMEOUT_SECONDS = 120.0
#: The maximum number of characters of an argument, and of the text of a document.
MAX_ARGUMENT_CHARS = 10_000
MAX_DOCUMENT_CHARS = 200_000
#: The maximum number of rows of ``select``, and of results that a tool call may request.
MAX_ROWS = 1000
MAX_RESULTS = 50
#: The minimum number of tokens of a result, which has room for a passage.
MIN_TOKENS = 500
#: The maximum number of documents that ``overview`` lists.
_MAX_LISTED = 200
_READING_KEYWORDS = ("SELECT", "WITH", "VALUES", "SHOW", "DESCRIBE")

_ARGUMENT_TYPES: dict[str, tuple[type, str]] = {
    "string": (str, "a text"),
    "integer": (int, "a whole number"),
    "object": (dict, "an object"),
    "array": (list, "a list"),
}


@dataclass(frozen=True, slots=True)
class StoreTool:
    """A tool: ``arguments`` are its properties in JSON Schema, ``required`` the mandatory ones.

    ``run`` is an unbound method of :class:`StoreTools`: a bound one would create a reference cycle and keep the store
    open until the garbage collector runs. ``changes`` is true if the tool changes the store, ``destroys`` if it may
    remove something.
    """

    name: str
    description: str
    arguments: Mapping[str, Mapping[str, Any]]
    required: tuple[str, ...]
    run: Callable[..., str]
    changes: bool = False
    destroys: bool = False

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
    return {"type": "string", "description": description}


def _build_number_schema(description: str, minimum: int = 1, maximum: int = MAX_RESULTS) -> dict[str, Any]:
    return {"type": "integer", "description": description, "minimum": minimum, "maximum": maximum}


class StoreTools:
    """The tools of one store, in their own session.

    ``write`` adds the tools that change the store. ``tokens`` is the maximum size of a result. ``strategy`` is the
    default strategy of a call. ``where`` is a SQL condition over ``documents``: other documents are neither returned
    nor changed, and tools that cannot apply it (``expand``, ``select``, ``put_edge``, ``alias``) are missing. Raises
    InputError, UnknownStrategyError and StatementError for invalid arguments.
    """

    def __init__(
        self,
        store: kvstore.Store,
        *,
        write: bool = False,
        tokens: int = 2000,
        strategy: str | None = None,
        where: str | None = None,
    ) -> None:
        if tokens < MIN_TOKENS:
            raise InputError(f"a result has {MIN_TOKENS} tokens at least, not {tokens}")
        if where is not None:
            store.count(where)
        self._handle = store
        self._store = store.session()
        self._store.set("prompt_tokens", tokens)
        self._tokens = tokens
        self._strategy = None if strategy is None else store.describe_strategy(strategy).name
        self._where = where
        self.tools = {tool.name: tool for tool in self._iter_tools() if write or not tool.changes}

    def _iter_tools(self) -> Iterable[StoreTool]:
        search_arguments: dict[str, Mapping[str, Any]] = {
            "question": _build_text_schema("The question, in words"),
            "strategy": _build_text_schema("How to find, such as hybrid or graph; overview lists them"),
        }
        if self._where is None:
            search_arguments["where"] = _build_text_schema(
                "SQL condition on columns of documents, as meta ->> 'year' >= 2024"
            )
        yield StoreTool(
            "retrieve",
            "Find the passages of the stored documents that answer a question, best first, with their places.",
            {**search_arguments, "top": _build_number_schema("How many passages (8)")},
            ("question",),
            StoreTools.retrieve,
        )
        yield StoreTool(
            "ask",
            "Answer a question from the stored documents, with citations; says so where they do not answer it.",
            search_arguments,
            ("question",),
            StoreTools.ask,
        )
        yield StoreTool(
            "lookup",
            "Where a name (person, place, thing, term) occurs: places in hierarchies, headings and texts.",
            {"name": _build_text_schema("The name"), "limit": _build_number_schema("How many places (10)")},
            ("name",),
            StoreTools.lookup,
        )
        if self._where is None:
            yield StoreTool(
                "expand",
                "The names above and below a name in the stored hierarchies.",
                {
                    "name": _build_text_schema("The name"),
                    "direction": {"type": "string", "enum": ["up", "down", "both"]},
                    "depth": _build_number_schema("Levels (1)", 0, 64),
                    "tree": _build_text_schema("One tree only"),
                },
                ("name",),
                StoreTools.expand,
            )
            yield StoreTool(
                "select",
                "Run one SELECT (SQLite's SQL), SHOW or DESCRIBE; overview names the tables.",
                {
                    "sql": _build_text_schema("The statement"),
                    "parameters": {"type": "array", "description": "Values of ?"},
                },
                ("sql",),
                StoreTools.select,
            )
        yield StoreTool(
            "document",
            "The text of a stored document, from a byte on; citations name bytes.",
            {"key": _build_text_schema("Its key"), "start": _build_number_schema("First byte (0)", 0, 2**53)},
            ("key",),
            StoreTools.document,
        )
        yield StoreTool(
            "overview",
            "What the store holds: counts, documents, tables, strategies. Begin here.",
            {
                "prefix": _build_text_schema("Only keys that begin so"),
                "after": _build_text_schema("Only keys after this one"),
            },
            (),
            StoreTools.overview,
        )
        yield StoreTool(
            "put",
            "Store a document, in place of one of the same key.",
            {
                "key": _build_text_schema("Its key, such as notes/tea"),
                "text": _build_text_schema("Plain text"),
                "title": _build_text_schema("Its title"),
                "meta": {"type": "object", "description": "Metadata"},
            },
            ("key", "text"),
            StoreTools.put,
            changes=True,
            destroys=True,
        )
        yield StoreTool(
            "delete",
            "Delete a document and all that was derived of it.",
            {"key": _build_text_schema("Its key")},
            ("key",),
            StoreTools.delete,
            changes=True,
            destroys=True,
        )
        if self._where is None:
            yield StoreTool(
                "put_edge",
                "Add an edge: one name below another in a hierarchy.",
                {
                    "child": _build_text_schema("The lower"),
                    "parent": _build_text_schema("The upper"),
                    "tree": _build_text_schema("Its hierarchy (edges)"),
                },
                ("child", "parent"),
                StoreTools.put_edge,
                changes=True,
            )
            yield StoreTool(
                "alias",
                "Make a new name an alias of a known one.",
                {"name": _build_text_schema("The new name"), "entity": _build_text_schema("The known name")},
                ("name", "entity"),
                StoreTools.alias,
                changes=True,
            )

    @property
    def store(self) -> kvstore.Store:
        """The store of the tools."""
        return self._handle

    def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> str:
        """Return the text of a call. Raises KvstoreError with a message for the client if the call fails."""
        tool = self.tools.get(name)
        if tool is None:
            raise InputError(f"there is no tool {_shorten(name)}; there are {', '.join(self.tools)}")
        tool_arguments = (
            {} if arguments is None else {key: value for key, value in arguments.items() if value is not None}
        )
        _check_arguments(tool, tool_arguments)
        return self.truncate_result(tool.run(self, **tool_arguments))

    def warm(self) -> None:
        """Load what the first question needs, in the background."""

        def search() -> None:
            with suppress(KvstoreError):
                self._query("RETRIEVE 'warm' TOP 1")

        threading.Thread(target=search, name="kvstore warm", daemon=True).start()

    def truncate_result(self, text: str) -> str:
        """Cut a text to the maximum size of a result."""
        return _truncate(text, self._tokens)

    def describe_error(self, error: KvstoreError) -> str:
        """Return an error as a client reads it: keys and names that it suggests are quoted as in a result."""
        # The place of an error in a statement is shown below it.
        text = quote_slice(str(error)) if isinstance(error, StatementError) else to_one_line(str(error))
        return self.truncate_result(text)

    # The tools: their arguments are already checked

    def retrieve(
        self, question: str, strategy: str | None = None, top: int | None = None, where: str | None = None
    ) -> str:
        """Return the passages that answer a question."""
        rows = self._query(*self._build_statement("RETRIEVE", question, strategy, where, top))
        titles = self._load_titles([row[2] for row in rows])
        if not rows:
            return "Nothing was found."
        passages = [
            _ResultPart(
                f"[{rank}] {_format_source(document, titles.get(document))}, {_format_spans(spans)} (why: "
                f"{to_one_line(path)})\n",
                quote_text(text),
            )
            for rank, _, document, _, text, path, _, spans, *_ in rows
        ]
        return self._render_parts(
            passages, "\n\n", lambda left: f"({left} more; ask for fewer with top, or see document)"
        )

    def ask(self, question: str, strategy: str | None = None, where: str | None = None) -> str:
        """Return an answer with its citations."""
        uses_model = self._store.language_model() is not None
        statement = self._build_statement("ASK", question, strategy, where)
        cursor = self._store.query(*statement, timeout=MODEL_TIMEOUT_SECONDS if uses_model else TIMEOUT_SECONDS)
        ((answer, citations, _, model, _, confidence, abstained),) = cursor.fetchall()
        origin = "abstained" if abstained else "extractive" if model is None else f"written by {model}"
        sources = [
            f"[{citation['number']}] {_format_key(citation['document'])}, {_format_spans(citation['spans'])}"
            for citation in citations
        ]
        parts = [f"(confidence {confidence:g}, {origin})", *(["Sources:"] if sources else []), *sources]
        if cursor.message:
            parts.append(to_one_line(cursor.message))
        # The only numbers in brackets in an answer are those of its citations.
        pieces = [_ResultPart("", answer), *map(_ResultPart, parts)]
        return self._render_parts(pieces, "\n", lambda left: f"({left} lines left out)")

    def lookup(self, name: str, limit: int = 10) -> str:
        """Return the locations of a name."""
        cursor = self._store.query(
            "LOOKUP ? LIMIT ?", (name, limit if self._where is None else MAX_ROWS), timeout=TIMEOUT_SECONDS
        )
        rows = cursor.fetchall()
        if self._where is not None:
            allowed = self._select_allowed([row[5] for row in rows])
            rows = [row for row in rows if row[5] in allowed][:limit]
        if not rows:
            not_found = f"no document here names {name}"
            return not_found if self._where is not None else cursor.message or not_found
        occurrences = []
        for entity, _, tree, level, parent, document, _, text in rows:
            where = f"in tree {tree}, level {level}" if document is None else f"in {_format_key(document)}"
            occurrences.append(f"{entity} {where}{f', under {parent}' if parent else ''}: {text}")
        return self._render_lines(map(to_one_line, occurrences), lambda left: f"({left} more places)")

    def expand(self, name: str, direction: str = "both", depth: int = 1, tree: str | None = None) -> str:
        """Return the names above and below a name."""
        statement, values = f"EXPAND ? {direction.upper()} DEPTH ?", [name, depth]
        if tree is not None:
            statement, values = f"{statement} IN TREE ?", [*values, tree]
        rows = self._query(statement, values)
        lines = [
            f"{level:+d} {relative}{f' (under {via})' if level > 0 else ''} in {where}{f': {text}' if text else ''}"
            for _, where, level, relative, via, text in rows
        ]
        if not lines:
            return "Nothing."
        return self._render_lines(
            map(to_one_line, lines), lambda left: f"({left} more; ask for less depth, or one tree)"
        )

    def select(self, sql: str, parameters: Sequence[Any] = ()) -> str:
        """Return the rows of a query after the column names, one JSON array per line."""
        first = next((token for token in language.tokens(sql) if token.kind not in ("space", "comment")), None)
        if first is not None and first.text.upper() not in _READING_KEYWORDS:
            raise StatementError(
                f"this tool runs {', '.join(_READING_KEYWORDS)}, not {_shorten(first.text)}; other tools do the rest"
            )
        cursor = self._store.query(sql, parameters, timeout=TIMEOUT_SECONDS, max_rows=MAX_ROWS)
        rows = ([_quote_cell(cell) for cell in row] for row in (cursor.columns, *cursor))
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
        more = f", of {cursor.message}" if cursor.message else ""
        return self._render_lines(lines, lambda left: f"({left} more rows{more}; SELECT less, or LIMIT ... OFFSET)")

    def document(self, key: str, start: int = 0) -> str:
        """Return a document's text from a byte offset on."""
        key = _parse_key(key)
        found = self._store.get(key) if self._where is None or self._select_allowed([key]) else None
        if found is None:
            if self._where is None:
                self._store.describe_document(key)  # raises the error that names near keys
            raise DocumentNotFoundError(f"there is no document {_shorten(key)} here; overview lists those there are")
        head = f"{_format_source(found.key, found.title)}, {found.bytes:,} bytes"
        if found.meta and not start:
            head += f", meta {to_one_line(json.dumps(found.meta, ensure_ascii=False))}"
        data = found.text.encode()
        while start < len(data) and data[start] & 0xC0 == 0x80:  # within a character
            start += 1
        text = data[start:].decode()
        head = _truncate(head, self._tokens // 2)
        quotation = Quotation([head, text])
        end = "\n(goes on; start at byte {})"
        frame = "\n\n".join((quotation.rule, head, quotation.quote("")))
        max_tokens = self._tokens - kvstore.token_estimate(frame) - kvstore.token_estimate(end) - 10
        excerpt = _truncate(text, max(max_tokens, MIN_TOKENS // 4), "")
        continuation = "" if excerpt == text else end.format(start + len(excerpt.encode()))
        return f"{quotation.rule}\n\n{head}\n{quotation.quote(quote_slice(excerpt))}{continuation}"

    def overview(self, prefix: str = "", after: str = "") -> str:
        """Return an overview of the store."""
        condition = "substr(key, 1, length(?)) = ? AND key > ?" + self._render_where()
        values = (prefix, prefix, after)
        ((documents, chunks),) = self._query(f"SELECT count(*), total(chunks) FROM documents WHERE {condition}", values)
        rows = self._query(
            f"SELECT key, title FROM documents WHERE {condition} ORDER BY key LIMIT {_MAX_LISTED}", values
        )
        lines = [f"{language.counted(documents, 'document')}, {language.counted(int(chunks), 'passage')}."]
        if not prefix and not after:
            names = ", ".join(strategy.name for strategy in self._store.strategies())
            lines.append(f"Strategies: {names}; default {self._strategy or get_default_strategy(self._store)}.")
            if self._where is None:
                tables = (f"{t.name}({', '.join(c.name for c in t.columns)})" for t in self._store.tables()[:5])
                lines.append(f"Tables: {'; '.join(tables)}; SHOW TABLES lists all.")
        if not rows:
            return "\n".join(lines)
        lines.append("Documents:")
        num_unlisted = documents - len(rows)
        return self._render_lines(
            [_format_source(key, title) for key, title in rows],
            lambda left: f"({left + num_unlisted:,} more; ask on with after)",
            heading="\n".join(lines),
            always_note=num_unlisted > 0,
        )

    def put(self, key: str, text: str, title: str | None = None, meta: Mapping[str, Any] | None = None) -> str:
        """Store a document."""
        key = _parse_key(key)
        with self._store.transaction() as transaction:
            exists = key in transaction
            is_free = not exists or self._is_allowed(transaction, key)
            changed = transaction.put(key, text, title=title, meta=meta)
            # A single error, after the same checks, covers a taken key and a document outside the condition. It omits
            # the condition, which may name documents. It rolls back the transaction.
            if not is_free or not self._is_allowed(transaction, key):
                raise InputError(
                    f"document {_shorten(key)} cannot be stored here: its key is taken, or this server does not "
                    "give such"
                    " documents; choose another key"
                )
        return f"{_format_key(key)}: {('changed' if exists else 'stored') if changed else 'unchanged'}"

    def delete(self, key: str) -> str:
        """Delete a document."""
        key = _parse_key(key)
        with self._store.transaction(models=False) as transaction:
            self._require_allowed(transaction, key)
            transaction.delete(key)
        return f"{_format_key(key)}: deleted"

    def put_edge(self, child: str, parent: str, tree: str = "edges") -> str:
        """State an edge."""
        is_new = self._store.put_edge(child, parent, tree=tree)
        return to_one_line(f"{child} under {parent} in tree {tree}: {'stated' if is_new else 'known already'}")

    def alias(self, name: str, entity: str) -> str:
        """State an alias."""
        return to_one_line(f"{name} for {entity}: {'stated' if self._store.alias(name, entity) else 'known already'}")

    # Documents as resources, and the prompt

    def list_documents(self, after: str, limit: int) -> list[tuple[str, str | None, int]]:
        """Return key, title and size in bytes of up to ``limit`` documents after a key, in order."""
        condition = "key > ?" + self._render_where()
        return self._query(
            f"SELECT key, title, bytes FROM documents WHERE {condition} ORDER BY key LIMIT ?", (after, limit)
        )

    def read_text(self, key: str) -> str:
        """Return the whole text of a document, quoted. Raises DocumentNotFoundError."""
        document = self._store.get(key) if self._select_allowed([key]) else None
        if document is None:
            raise DocumentNotFoundError(f"there is no document {_shorten(key)} here")
        quotation = Quotation([document.text])
        return f"{quotation.rule}\n\n{quotation.quote(quote_slice(document.text))}"

    def build_prompt(self, question: str) -> str:
        """Return a prompt that makes a language model answer a question from its evidence, with citations."""
        _check_text("question", question)
        made = self._store.prompt(question, using=self._strategy, where=self._where)
        return f"{made.system}\n\n{made.user}"

    # The store

    def _query(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        return self._store.query(sql, values, timeout=TIMEOUT_SECONDS).fetchall()

    def _build_statement(
        self, verb: str, question: str, strategy: str | None, where: str | None, top: int | None = None
    ) -> tuple[str, list[Any]]:
        """Return a statement with its values; the condition is checked, so that it cannot add a clause."""
        clauses: dict[str, Any] = {"USING": strategy or self._strategy, "TOP": top}
        set_clauses = {name: value for name, value in clauses.items() if value is not None}
        statement = f"{verb} ?" + "".join(f" {name} ?" for name in set_clauses)
        condition = self._where or where
        if condition is not None:
            language.check_condition(condition)
            statement += f" WHERE (\n{condition}\n)"
        return statement, [question, *set_clauses.values()]

    def _load_titles(self, keys: Sequence[str]) -> dict[str, str | None]:
        rows = self._query(
            "SELECT key, title FROM documents WHERE key IN (SELECT value FROM json_each(?))", [json.dumps(keys)]
        )
        return dict(rows)

    def _render_where(self) -> str:
        return "" if self._where is None else f" AND (\n{self._where}\n)"

    def _select_allowed(self, keys: Iterable[str | None]) -> set[str]:
        """Return the keys whose documents exist and may be returned."""
        keys_json = json.dumps(sorted({key for key in keys if key is not None}))
        query = f"SELECT key FROM documents WHERE key IN (SELECT value FROM json_each(?)){self._render_where()}"
        return {key for (key,) in self._query(query, [keys_json])}

    def _is_allowed(self, transaction: kvstore.Transaction, key: str) -> bool:
        return self._where is None or transaction.count(f"key = ?{self._render_where()}", (key,)) > 0

    def _require_allowed(self, transaction: kvstore.Transaction, key: str) -> None:
        if key not in transaction or not self._is_allowed(transaction, key):
            raise DocumentNotFoundError(f"there is no document {_shorten(key)} here; overview lists those there are")

    def _render_parts(self, parts: Sequence[_ResultPart], separator: str, render_note: Callable[[int], str]) -> str:
        """Return as many parts as fit in a result, the first at least partly, and a note on the number left out."""
        quotation = Quotation(text for part in parts for text in (part.head, part.quoted or ""))
        max_tokens = self._tokens - kvstore.token_estimate(f"{quotation.rule}\n\n{render_note(10**9)}") - 2
        texts = [part.to_text(quotation) for part in parts]
        count = _count_fitting(texts, separator, max_tokens)
        fitting = texts[:count] or [parts[0].truncate(quotation, max_tokens)]
        num_left = len(parts) - len(fitting)
        return f"{quotation.rule}\n\n" + separator.join([*fitting, render_note(num_left)] if num_left else fitting)

    def _render_lines(
        self, lines: Iterable[str], render_note: Callable[[int], str], *, heading: str = "", always_note: bool = False
    ) -> str:
        """Return a heading, as many lines as fit in a result, quoted together, and a note on the number left out."""
        all_lines = list(lines)
        quotation = Quotation([heading, *all_lines])
        header = f"{quotation.rule}\n{heading}\n" if heading else f"{quotation.rule}\n"
        max_tokens = self._tokens - kvstore.token_estimate(header + quotation.quote("") + render_note(10**9)) - 2
        fitting = all_lines[: _count_fitting(all_lines, "\n", max_tokens)] or [_truncate(all_lines[0], max_tokens)]
        num_left = len(all_lines) - len(fitting)
        footer = f"\n{render_note(num_left)}" if num_left or always_note else ""
        return header + quotation.quote("\n".join(fitting)) + footer


@dataclass(frozen=True, slots=True)
class _ResultPart:
    """A part of a result: kvstore's own text, followed by quoted document text, if any."""

    head: str
    quoted: str | None = None

    def to_text(self, quotation: Quotation) -> str:
        """Return both texts, with the document's between the marks."""
        return self.head + ("" if self.quoted is None else quotation.quote(self.quoted))

    def truncate(self, quotation: Quotation, tokens: int) -> str:
        """Return as much of the part as fits in so many tokens; the marks stay complete."""
        if self.quoted is None:
            return _truncate(self.head, tokens)
        head = (
            self.head if kvstore.token_estimate(self.head) <= tokens // 2 else f"{_truncate(self.head, tokens // 2)}\n"
        )
        return head + quotation.quote(
            _truncate(self.quoted, tokens - kvstore.token_estimate(head + quotation.quote("")))
        )


def _count_fitting(texts: Sequence[str], separator: str, tokens: int) -> int:
    """Return how many of the first texts together have at most ``tokens`` tokens."""
    for count, text in enumerate(texts):
        tokens -= kvstore.token_estimate(text + separator) + 1
        if tokens < 0:
            return count
    return len(texts)


def _check_arguments(tool: StoreTool, arguments: Mapping[str, Any]) -> None:
    """Raise InputError unless the arguments are valid for the tool."""
    for name in arguments:
        if name not in tool.arguments:
            raise InputError(f"{tool.name} takes {', '.join(tool.arguments)}, not {_shorten(name)}")
    for name in tool.required:
        if name not in arguments:
            raise InputError(f"{tool.name} needs {name}")
    for name, value in arguments.items():
        schema = tool.arguments[name]
        kind, expected = _ARGUMENT_TYPES[schema["type"]]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise InputError(f"{name} is {expected}, not {_shorten(json.dumps(value))}")
        if isinstance(value, str):
            _check_text(name, value, MAX_DOCUMENT_CHARS if name == "text" else MAX_ARGUMENT_CHARS)
        if "enum" in schema and value not in schema["enum"]:
            raise InputError(f"{name} is one of {', '.join(schema['enum'])}, not {_shorten(str(value))}")
        if kind is int and not schema["minimum"] <= value <= schema["maximum"]:
            raise InputError(f"{name} is from {schema['minimum']} to {schema['maximum']:,}, not {_shorten(str(value))}")


def _check_text(name: str, value: str, max_chars: int = MAX_ARGUMENT_CHARS) -> None:
    if len(value) > max_chars:
        raise InputError(f"{name} has {len(value):,} characters, and may have {max_chars:,}; give less")


def _truncate(text: str, tokens: int, mark: str = " ... (cut)") -> str:
    """Return a text, or as much of its beginning as fits in so many tokens, and a mark."""
    size = kvstore.token_estimate(text)
    if size <= tokens:
        return text
    max_size = tokens - kvstore.token_estimate(mark)
    while (size := kvstore.token_estimate(text)) > max_size:
        text = text[: min(len(text) - 1, len(text) * max_size // size)]
    return text + mark


def _shorten(text: str) -> str:
    """Return a client's text, shortened for a message."""
    return repr(text if len(text) <= 80 else f"{text[:80]}...")


def _format_source(key: str, title: str | None) -> str:
    """Return the key and the title of a document, on one line."""
    return _format_key(key) if title is None or title == key else f"{_format_key(key)} ({to_one_line(title)})"


def _format_key(key: str) -> str:
    """Return a key for a result: unchanged, or as the document's URI if it could imitate something else."""
    return key if key == to_one_line(key) and not key.startswith(SCHEME) else SCHEME + quote(key, safe="")


def _parse_key(text: str) -> str:
    """Return the key that a client names directly or as the document's URI."""
    return unquote(text.removeprefix(SCHEME)) if text.startswith(SCHEME) else text


def _format_spans(spans: Sequence[Mapping[str, Any]]) -> str:
    """Return the byte ranges of spans; spans in other documents have their key."""
    first = spans[0]["document"]
    return "bytes " + ", ".join(
        f"{'' if span['document'] == first else _format_key(span['document']) + ' '}{span['start']}-{span['end']}"
        for span in spans[:8]
    )


def _quote_cell(value: Any) -> Any:
    """Return a value of a row as JSON data, with text quoted like that of a document."""
    if isinstance(value, bytes):
        return value.hex()
    return value if value is None or isinstance(value, (int, float)) else quote_slice(str(value))
