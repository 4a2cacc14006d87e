"""The tools that a language model, the *client*, can use on a store: names, JSON arguments, text results. The result of
some tools is also JSON data.

In: a store, and the limits set by its owner (write access, a condition on documents, tokens per result). Out: the
tools, and the text and data of each call.

Reads go through :meth:`kvstore.Store.query`, so that one reading statement runs within :data:`TIMEOUT_SECONDS`. An
error of the client is a KvstoreError, whose message is for the model. Results are built by :mod:`.result_text`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import kvstore
from kvstore.errors import DocumentNotFoundError, InputError, KvstoreError, StatementError

from .. import language
from ..answering.prompt import Quotation, sanitize_slice, sanitize_text, to_one_line
from ..arguments import format_count
from .result_text import (
    ResultPart,
    ToolResult,
    build_list_data,
    format_key,
    format_occurrence,
    format_outcome,
    format_relative,
    format_source,
    format_spans,
    parse_key,
    quote_argument,
    render_lines,
    render_parts,
    sanitize_span,
    to_json_value,
    truncate,
)
from .store_queries import fetch_named_rows, get_default_strategy
from .tool_definitions import check_argument_length, check_tool_arguments, iter_tools

#: The timeout in seconds of a tool without a language model.
TIMEOUT_SECONDS = 5.0
#: The timeout in seconds of an answer from a language model.
MODEL_TIMEOUT_SECONDS = 120.0
#: The maximum number of rows of ``select``.
MAX_ROWS = 1000
#: The minimum number of tokens of a result, which has room for a passage.
MIN_TOKENS = 500
#: The maximum number of documents that ``overview`` lists.
_MAX_LISTED = 200
#: The number of tables whose columns ``overview`` shows.
_NUM_SHOWN_TABLES = 5
#: The note after a part of a document, and the number of tokens reserved for the digits of its offset.
_CONTINUATION_NOTE = "\n(continues; start at byte {})"
_OFFSET_TOKENS = 10
#: The first words of the statements that ``select`` runs.
_READING_KEYWORDS = ("SELECT", "WITH", "VALUES", "SHOW", "DESCRIBE")


class StoreTools:
    """The tools of one store, in their own session. Their *condition* (``where``), if they have one, is an SQL
    condition on ``documents``. Only the *allowed* documents, which satisfy it, are returned and changed.

    Tools that cannot apply a condition (``expand``, ``select``, ``put_edge``, ``alias``) are then missing. ``write``
    adds the tools that change the store. ``tokens`` is the maximum size of a result. ``strategy`` is the default
    strategy of a call. Raises InputError, UnknownStrategyError and StatementError for invalid arguments.
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
        """Open a session on ``store`` for the tools; the class describes the arguments."""
        if tokens < MIN_TOKENS:
            raise InputError(f"tokens must be at least {MIN_TOKENS}, not {tokens}")
        if where is not None:
            store.count(where)  # raises an error if the condition is invalid
        #: The store that the tools were created for.
        self.store = store
        self._session = store.session()
        self._session.set("prompt_tokens", tokens)
        self._tokens = tokens
        self._strategy = None if strategy is None else store.describe_strategy(strategy).name
        self._where = where
        self.tools = {tool.name: tool for tool in iter_tools(where) if write or not tool.is_write}

    def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> str:
        """Run a tool and return its text. Raises KvstoreError with a message for the client if the call fails."""
        return self.call_tool(name, arguments).text

    def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> ToolResult:
        """Run a tool; return its text, and JSON data if it has an output schema. An argument of None is omitted.

        The text is truncated to the maximum size of a result. Raises KvstoreError with a message for the client if the
        call fails.
        """
        tool = self.tools.get(name)
        if tool is None:
            raise InputError(f"there is no tool {quote_argument(name)}; tools are {', '.join(self.tools)}")
        tool_arguments = (
            {} if arguments is None else {key: value for key, value in arguments.items() if value is not None}
        )
        check_tool_arguments(tool, tool_arguments)
        result = getattr(self, tool.name)(**tool_arguments)
        if isinstance(result, str):
            result = ToolResult(result)
        return ToolResult(self.truncate_result(result.text), result.data)

    def warm_up(self) -> None:
        """Run a question in the background, so that the first real one does not wait for the embedder and indexes."""

        def run_question() -> None:
            """Ask a question to load the models; ignore its result and kvstore's errors."""
            with suppress(KvstoreError):
                self._query("RETRIEVE 'warm' TOP 1")

        threading.Thread(target=run_question, name="kvstore warm", daemon=True).start()

    def truncate_result(self, text: str) -> str:
        """Cut a text to the maximum size of a result."""
        return truncate(text, self._tokens)

    def format_error(self, error: KvstoreError) -> str:
        """Return the message of an error, sanitized and truncated like a result."""
        # The message of a StatementError shows the position of the error on a separate line.
        text = sanitize_slice(str(error)) if isinstance(error, StatementError) else to_one_line(str(error))
        return self.truncate_result(text)

    # The tools, by their names: their arguments are already checked

    def retrieve(
        self, question: str, strategy: str | None = None, top: int | None = None, where: str | None = None
    ) -> ToolResult:
        """Return the ``top`` passages that answer a question, best first, as text and as JSON data.

        ``strategy`` names the search (None: the default), and ``where`` is an SQL condition on the documents.
        """
        condition = self._choose_condition(where)
        statement = self._build_statement("RETRIEVE", question, strategy, condition, top)
        with language.locate_in_condition(condition or ""):
            hits = fetch_named_rows(self._session.query(*statement, timeout=TIMEOUT_SECONDS))
        query = "SELECT key, title FROM documents WHERE key IN (SELECT value FROM json_each(?))"
        titles = dict(self._query(query, [json.dumps([hit["document"] for hit in hits])]))
        data = build_list_data("passages", list(map(_to_passage_data, hits)), self._tokens)
        if not hits:
            return ToolResult("Nothing was found.", data)
        passages = [
            ResultPart(
                f"[{hit['rank']}] {format_source(hit['document'], titles.get(hit['document']))}, "
                f"{format_spans(hit['spans'])} (why: {to_one_line(hit['path'])})\n",
                sanitize_text(hit["text"]),
            )
            for hit in hits
        ]
        advice = "ask for fewer with top, or read the document"
        text = render_parts(self._tokens, passages, "\n\n", lambda num_left: f"({num_left} more omitted; {advice})")
        return ToolResult(text, data)

    def ask(self, question: str, strategy: str | None = None, where: str | None = None) -> ToolResult:
        """Return an answer with its outcome and citations, as text and as JSON data.

        ``strategy`` names the search (None: the default), and ``where`` is an SQL condition on the documents. Raises
        the errors of ASK, such as a StatementError that points at a position in the condition.
        """
        uses_model = self._session.language_model() is not None
        condition = self._choose_condition(where)
        statement = self._build_statement("ASK", question, strategy, condition)
        with language.locate_in_condition(condition or ""):
            cursor = self._session.query(*statement, timeout=MODEL_TIMEOUT_SECONDS if uses_model else TIMEOUT_SECONDS)
        (answer,) = fetch_named_rows(cursor)
        sources = [
            f"[{citation['number']}] {format_key(citation['document'])}, {format_spans(citation['spans'])}"
            for citation in answer["citations"]
        ]
        lines = [format_outcome(answer), *(["Sources:"] if sources else []), *sources]
        if cursor.message:
            lines.append(to_one_line(cursor.message))
        # Every number in brackets in an answer is the number of a citation.
        result_parts = [ResultPart("", answer["answer"]), *map(ResultPart, lines)]
        text = render_parts(
            self._tokens, result_parts, "\n", lambda num_left: f"({format_count(num_left, 'more line')} omitted)"
        )
        return ToolResult(text, _to_answer_data(answer, self._tokens))

    def lookup(self, name: str, limit: int = 10) -> ToolResult:
        """Return up to ``limit`` occurrences of a name in trees and texts, as text and as JSON data.

        If the tools have a condition, only occurrences in allowed documents are returned.
        """
        max_rows = limit if self._where is None else MAX_ROWS  # rows of documents that are not allowed are dropped
        cursor = self._session.query("LOOKUP ? LIMIT ?", (name, max_rows), timeout=TIMEOUT_SECONDS)
        rows = fetch_named_rows(cursor)
        if self._where is not None:
            allowed_keys = self._select_allowed(row["document"] for row in rows)
            rows = [row for row in rows if row["document"] in allowed_keys][:limit]
        fields = ("tree", "level", "parent", "document")
        locations = [
            {"name": row["entity"], **{field: row[field] for field in fields}, "text": sanitize_slice(row["text"])}
            for row in rows
        ]
        data = build_list_data("locations", locations, self._tokens)
        if not rows:
            not_found_text = f"no document here mentions {name}"
            return ToolResult(not_found_text if self._where is not None else cursor.message or not_found_text, data)
        lines = map(to_one_line, map(format_occurrence, rows))
        return ToolResult(
            render_lines(self._tokens, lines, lambda num_left: f"({format_count(num_left, 'more occurrence')})"), data
        )

    def expand(self, name: str, direction: str = "both", depth: int = 1, tree: str | None = None) -> str:
        """Return the names above and below a name in the entity trees, one per line, or a note that none exist.

        ``direction`` is up, down or both, ``depth`` the number of levels, and ``tree`` the only tree to follow.
        """
        statement, parameters = f"EXPAND ? {direction.upper()} DEPTH ?", [name, depth]
        if tree is not None:
            statement, parameters = f"{statement} IN TREE ?", [*parameters, tree]
        rows = fetch_named_rows(self._session.query(statement, parameters, timeout=TIMEOUT_SECONDS))
        if not rows:
            return "No names are above or below it."
        return render_lines(
            self._tokens,
            map(to_one_line, map(format_relative, rows)),
            lambda num_left: f"({num_left} more; use a smaller depth, or one tree)",
        )

    def select(self, sql: str, parameters: Sequence[Any] = ()) -> ToolResult:
        """Return the column names and then the rows of a query, one JSON array per line.

        Raises StatementError unless the statement only reads, like SELECT.
        """
        first_token = next(
            (token for token in language.iter_tokens(sql) if token.kind not in ("space", "comment")), None
        )
        if first_token is not None and first_token.text.upper() not in _READING_KEYWORDS:
            raise StatementError(
                f"this tool runs only {', '.join(_READING_KEYWORDS)}, not {quote_argument(first_token.text)}; use the "
                "other tools for everything else"
            )
        cursor = self._session.query(sql, parameters, timeout=TIMEOUT_SECONDS, max_rows=MAX_ROWS)
        rows = [list(map(to_json_value, row)) for row in (cursor.columns, *cursor)]
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
        data = {"columns": rows[0], **build_list_data("rows", rows[1:], self._tokens)}
        note = f"{f', of {cursor.message}' if cursor.message else ''}; select fewer columns, or use LIMIT ... OFFSET"
        text = render_lines(self._tokens, lines, lambda num_left: f"({format_count(num_left, 'more row')}{note})")
        return ToolResult(text, data)

    def document(self, key: str, start: int = 0) -> ToolResult:
        """Return a document's text from the byte offset ``start`` on, as much as fits in a result, as text and as data.

        ``key`` can also be the document's URI, and the text begins at the first whole character. Raises
        DocumentNotFoundError if the document is missing or not allowed.
        """
        document = self._get_document(parse_key(key))
        header = f"{format_source(document.key, document.title)}, {document.bytes:,} bytes"
        if document.meta and not start:
            header += f", meta {to_one_line(json.dumps(document.meta, ensure_ascii=False))}"
        header = truncate(header, self._tokens // 2)
        text_bytes = document.text.encode()
        while start < len(text_bytes) and text_bytes[start] & 0xC0 == 0x80:  # a byte 10xxxxxx continues a character
            start += 1
        text = text_bytes[start:].decode()
        quotation = Quotation([header, text])
        excerpt = self._cut_document(text, header, quotation)
        end_byte = start + len(excerpt.encode())
        continuation = "" if excerpt == text else _CONTINUATION_NOTE.format(end_byte)
        quoted_text = sanitize_slice(excerpt)
        data = {
            "document": document.key,
            "title": document.title,
            "bytes": document.bytes,
            "start": start,
            "end": end_byte,
            "text": quoted_text,
        }
        return ToolResult(f"{quotation.rule}\n\n{header}\n{quotation.quote(quoted_text)}{continuation}", data)

    def overview(self, prefix: str = "", after: str = "") -> str:
        """Return the counts, and the documents whose key begins with ``prefix`` and follows ``after``, in order.

        Without ``prefix`` and ``after`` the overview also lists the strategies and the tables.
        """
        condition = "substr(key, 1, length(?)) = ? AND key > ?" + self._render_where()
        values = (prefix, prefix, after)
        ((documents, chunks),) = self._query(f"SELECT count(*), total(chunks) FROM documents WHERE {condition}", values)
        rows = self._query(
            f"SELECT key, title FROM documents WHERE {condition} ORDER BY key LIMIT {_MAX_LISTED}", values
        )
        lines = [f"{language.format_count(documents, 'document')}, {language.format_count(int(chunks), 'passage')}."]
        if not prefix and not after:
            names = ", ".join(strategy.name for strategy in self._session.strategies())
            lines.append(f"Strategies: {names}; default {self._strategy or get_default_strategy(self._session)}.")
            if self._where is None:
                tables = (
                    f"{table.name}({', '.join(column.name for column in table.columns)})"
                    for table in self._session.tables()[:_NUM_SHOWN_TABLES]
                )
                lines.append(f"Tables: {'; '.join(tables)}; SHOW TABLES lists all.")
        if not rows:
            return "\n".join(lines)
        lines.append("Documents:")
        num_unlisted = documents - len(rows)
        return render_lines(
            self._tokens,
            [format_source(key, title) for key, title in rows],
            lambda num_left: f"({num_left + num_unlisted:,} more; list them with after)",
            heading="\n".join(lines),
            always_note=num_unlisted > 0,
        )

    def put(self, key: str, text: str, title: str | None = None, meta: Mapping[str, Any] | None = None) -> str:
        """Store a document; return its key and ``stored``, ``changed`` or ``unchanged``.

        Raises InputError if the condition on documents does not allow the document.
        """
        key = parse_key(key)
        with self._session.transaction() as transaction:
            exists = key in transaction
            is_permitted = not exists or self._is_allowed(transaction, key)
            is_changed = transaction.put(key, text, title=title, meta=meta)
            # The error, which rolls back the transaction, does not reveal whether a document that the condition hides
            # has this key. It omits the condition, which may name documents.
            if not is_permitted or not self._is_allowed(transaction, key):
                raise InputError(
                    f"document {quote_argument(key)} cannot be stored here: its key is taken, or this server does not "
                    "return such documents; choose another key"
                )
        outcome = "unchanged" if not is_changed else "changed" if exists else "stored"
        return f"{format_key(key)}: {outcome}"

    def delete(self, key: str) -> str:
        """Delete a document and return a confirmation. Raises DocumentNotFoundError if it is missing or not allowed."""
        key = parse_key(key)
        with self._session.transaction(models=False) as transaction:
            if key not in transaction or not self._is_allowed(transaction, key):
                raise DocumentNotFoundError(
                    f"there is no document {quote_argument(key)} here; overview lists the documents"
                )
            transaction.delete(key)
        return f"{format_key(key)}: deleted"

    def put_edge(self, child: str, parent: str, tree: str = "edges") -> str:
        """Add the edge from ``child`` to ``parent`` to a tree; return the edge and ``added`` or ``already known``."""
        is_new = self._session.put_edge(child, parent, tree=tree)
        return to_one_line(f"{child} under {parent} in tree {tree}: {'added' if is_new else 'already known'}")

    def alias(self, name: str, entity: str) -> str:
        """Add ``name`` as an alias of an entity; return the alias and ``added`` or ``already known``."""
        is_changed = self._session.alias(name, entity)
        return to_one_line(f"{name} for {entity}: {'added' if is_changed else 'already known'}")

    # Documents as resources of the Model Context Protocol, and its prompt

    def list_documents(self, after: str, limit: int) -> list[tuple[str, str | None, int]]:
        """Return (key, title or None, size in bytes) of up to ``limit`` documents after the key ``after``, in order."""
        condition = "key > ?" + self._render_where()
        return self._query(
            f"SELECT key, title, bytes FROM documents WHERE {condition} ORDER BY key LIMIT ?", (after, limit)
        )

    def read_text(self, key: str) -> str:
        """Return the whole text of a document, quoted. Raises DocumentNotFoundError if it is missing or not allowed."""
        document = self._session.get(key) if self._select_allowed([key]) else None
        if document is None:
            raise DocumentNotFoundError(f"there is no document {quote_argument(key)} here")
        quotation = Quotation([document.text])
        return f"{quotation.rule}\n\n{quotation.quote(sanitize_slice(document.text))}"

    def build_prompt(self, question: str) -> str:
        """Return a prompt that makes a language model answer a question from its evidence, with citations."""
        check_argument_length("question", question)
        prompt = self._session.prompt(question, using=self._strategy, where=self._where)
        return f"{prompt.system}\n\n{prompt.user}"

    # The store

    def _query(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return the rows of a SELECT or another read-only statement with the parameters ``values``.

        Raises QueryInterruptedError after :data:`TIMEOUT_SECONDS`.
        """
        return self._session.query(sql, values, timeout=TIMEOUT_SECONDS).fetchall()

    def _choose_condition(self, where: str | None) -> str | None:
        """Return the condition of the tools, or else ``where``, the condition of a call; None if neither exists.

        If the tools have a condition, their calls cannot have one.
        """
        return self._where or where

    def _build_statement(
        self, verb: str, question: str, strategy: str | None, condition: str | None, top: int | None = None
    ) -> tuple[str, list[Any]]:
        """Return the SQL of a question and its parameters; ``verb`` is RETRIEVE or ASK.

        ``strategy`` (None: the default), ``top`` and ``condition`` are its clauses USING, TOP and WHERE. Raises
        StatementError for a condition that is not one expression.
        """
        clauses: dict[str, Any] = {"USING": strategy or self._strategy, "TOP": top}
        set_clauses = {name: value for name, value in clauses.items() if value is not None}
        statement = f"{verb} ?" + "".join(f" {name} ?" for name in set_clauses)
        if condition is not None:
            language.check_condition(condition)
            statement += f" WHERE (\n{condition}\n)"  # the line end ends a comment in the condition
        return statement, [question, *set_clauses.values()]

    def _render_where(self) -> str:
        """Return " AND (condition)" for the condition of the tools, to append to another; empty if they have none."""
        return "" if self._where is None else f" AND (\n{self._where}\n)"

    def _cut_document(self, text: str, header: str, quotation: Quotation) -> str:
        """Return the beginning of a document's text that fits in a result with its header and the continuation note."""
        surrounding_text = "\n\n".join((quotation.rule, header, quotation.quote("")))
        note_tokens = kvstore.token_estimate(_CONTINUATION_NOTE) + _OFFSET_TOKENS
        max_tokens = self._tokens - kvstore.token_estimate(surrounding_text) - note_tokens
        return truncate(text, max(max_tokens, MIN_TOKENS // 4), "")

    def _get_document(self, key: str) -> kvstore.Document:
        """Return a document. Raises DocumentNotFoundError if it is missing or not allowed."""
        document = self._session.get(key) if self._where is None or self._select_allowed([key]) else None
        if document is not None:
            return document
        if self._where is None:
            self._session.describe_document(key)  # raises the error that suggests similar keys
        raise DocumentNotFoundError(f"there is no document {quote_argument(key)} here; overview lists the documents")

    def _select_allowed(self, keys: Iterable[str | None]) -> set[str]:
        """Return those ``keys`` whose documents exist and are allowed."""
        keys_json = json.dumps(sorted({key for key in keys if key is not None}))
        query = f"SELECT key FROM documents WHERE key IN (SELECT value FROM json_each(?)){self._render_where()}"
        return {key for (key,) in self._query(query, [keys_json])}

    def _is_allowed(self, transaction: kvstore.Transaction, key: str) -> bool:
        """True if the tools have no condition, or if the document with this key exists and satisfies it."""
        return self._where is None or transaction.count(f"key = ?{self._render_where()}", (key,)) > 0


def _to_passage_data(hit: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a row of RETRIEVE to JSON data, with the byte offsets of its first span."""
    return {
        "document": hit["document"],
        "start": hit["spans"][0]["start"],
        "end": hit["spans"][0]["end"],
        "score": hit["score"],
        "why": sanitize_slice(hit["path"]),
        "text": sanitize_slice(hit["text"]),
    }


def _to_answer_data(answer: Mapping[str, Any], max_tokens: int) -> dict[str, Any]:
    """Convert a row of ASK to JSON data; the text of the answer is cut to ``max_tokens`` tokens."""
    citation_fields = ("number", "document", "start", "end")
    return {
        "outcome": answer["outcome"],
        "answer": truncate(answer["answer"], max_tokens),
        "answer_span": sanitize_span(answer["answer_span"]),
        "verdict": answer["verdict"],
        # The answers to the parts of a question that asks for several facts.
        "parts": list(map(_to_part_data, answer["parts"])),
        "model": answer["model"],
        "confidence": answer["confidence"],
        "citations": [{name: citation[name] for name in citation_fields} for citation in answer["citations"]],
    }


def _to_part_data(part: Mapping[str, Any]) -> dict[str, Any]:
    """Convert an element of ASK's column ``parts`` to JSON data.

    It is the answer to a part of a question, such as "Who founded it, and when?". The text of its ``span``, the words
    that answer the part, becomes ``answer_span``.
    """
    fields = {name: value for name, value in part.items() if name != "span"}
    return {**fields, "answer_span": sanitize_span(part["span"])}
