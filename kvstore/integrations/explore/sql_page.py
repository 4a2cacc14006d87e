"""The SQL page: a read-only statement and its rows, with the shell's completion, and with CSV and JSON output. The
*run* of a request is a name by which another request can interrupt its statement.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, NamedTuple

import kvstore

from ...errors import InputError, KvstoreError
from ...language.statement_completion import StatementCatalog, complete_statement
from ...rendering.row_formats import ROW_FORMATS, format_plain, is_non_finite
from ..saved_queries import delete_query, load_queries, save_query
from .page import ExplorerPage, PageContent, PageRepresentation, PageRequest
from .urls import build_document_url, build_entity_url

#: The maximum number of rows of a page, and of a file.
_MAX_SHOWN_ROWS = 500
_MAX_ROWS = 100_000
#: The maximum number of columns of a result, which is SQLite's, and of displayed characters of a value.
_MAX_COLUMNS, _MAX_VALUE_CHARS = 2000, 600
#: The end of the name of an abstract in the rows of EXPAND.
_ABSTRACT_PATTERN = re.compile(r" \[\d+\]$")
#: The maximum number of completions, and the words that a statement may begin with.
_MAX_COMPLETIONS = 12
_READING_KEYWORDS = frozenset("LOOKUP EXPAND SEARCH RETRIEVE ASK SELECT WITH VALUES SHOW DESCRIBE EXPLAIN".split())
_EXAMPLES = (
    "SELECT name, mentions FROM entities ORDER BY mentions DESC LIMIT 20",
    "SELECT key, title, bytes, changed FROM documents ORDER BY bytes DESC LIMIT 20",
    'SELECT child, parent, tree, document, start, "end" FROM edges WHERE accepted LIMIT 50',
    "SHOW TABLES",
    "SHOW STRATEGIES",
)


def build_content(request: PageRequest) -> PageContent:
    """Return the rows of the read-only statement in the ``sql`` argument of a request, within limits.

    Other arguments are ``sort`` (the number of a column, from 1, to sort by), ``down`` (reverses the order), ``page``
    (from 1) and ``run`` (by which ``/sql/stop`` interrupts the statement). In the content, ``total`` is the number of
    all rows (None: unknown). The error of the statement is ``problem`` in the content of a page, and is raised for
    JSON.
    """
    statement, page = request.get_text("sql"), request.get_number("page", 1, minimum=1, maximum=_MAX_ROWS)
    # Rows are sorted here, since not every statement can be sorted.
    sort, is_descending = request.get_number("sort", 0, maximum=_MAX_COLUMNS), request.get_text("down") not in ("", "0")
    content: PageContent = {
        "sql": statement,
        "columns": [],
        "rows": [],
        "total": None,
        "message": None,
        "milliseconds": None,
        "problem": None,
        "sort": sort,
        "down": is_descending,
        "page_number": page,
        "page_size": _MAX_SHOWN_ROWS,
    }
    if not request.as_data:
        content |= _build_editor_content(request)
    if not statement:
        return content
    try:
        result = _run_statement(request, statement, page, reads_all=sort > 0)
    except KvstoreError as error:
        if request.as_data:
            raise
        return content | {"problem": str(error)}
    rows = result.rows
    if 0 < sort <= len(result.columns):
        rows.sort(key=lambda row: _build_sort_key(row[sort - 1]), reverse=is_descending)
    if not request.as_data:
        rows = rows[(page - 1) * _MAX_SHOWN_ROWS : page * _MAX_SHOWN_ROWS]
    has_other_pages = not request.as_data and (result.total is None or result.total > _MAX_SHOWN_ROWS)
    content |= {
        "columns": list(result.columns),
        # JSON has no infinities; they become text, as in CSV.
        "rows": [[format_plain(value) if is_non_finite(value) else value for value in row] for row in rows],
        "total": result.total,
        "message": None if has_other_pages else result.message,
        "milliseconds": result.milliseconds,
    }
    return content if request.as_data else content | _build_table(result.columns, rows)


class _StatementResult(NamedTuple):
    """The rows read from the result of a statement; ``total`` is the number of all its rows (None: unknown)."""

    columns: Sequence[str]
    rows: list[Any]
    total: int | None
    message: str | None
    milliseconds: float


def _run_statement(request: PageRequest, statement: str, page: int, *, reads_all: bool) -> _StatementResult:
    """Run a statement, and return its rows up to the end of ``page``, or all if ``reads_all`` or for JSON.

    At most ``_MAX_ROWS`` rows are returned (for a page, one more). Raises the errors of the statement.
    """
    start_time = time.perf_counter()
    max_rows = _MAX_ROWS
    if not request.as_data:
        max_rows = 1 + (_MAX_ROWS if reads_all else page * _MAX_SHOWN_ROWS)  # one extra row shows if there are more
    with _register_statement(request):
        cursor = request.store.query(statement, timeout=request.seconds_left, max_rows=max_rows)
        rows = cursor.fetchall()
        milliseconds = 1000 * (time.perf_counter() - start_time)
        total: int | None = len(rows)
        if not request.as_data and not reads_all and len(rows) == max_rows:
            total = _count_rows(request, statement)
    return _StatementResult(cursor.columns, rows, total, cursor.message, milliseconds)


def _build_editor_content(request: PageRequest) -> PageContent:
    """Return the content around the editor: examples, saved statements, and the tables with their columns."""
    return {
        "examples": _EXAMPLES,
        "most": _MAX_ROWS,
        "saved": _load_saved_statements(),
        "tables": [
            {"name": table.name, "columns": [column.name for column in table.columns], "description": table.description}
            for table in request.store.tables()
        ],
    }


def _build_sort_key(value: Any) -> tuple[int, Any]:
    """Return the sort key of a value, in SQLite's order: NULL, numbers, texts (also JSON), bytes."""
    if value is None:
        return 0, 0
    if isinstance(value, int | float):
        return 1, value
    return (3, value) if isinstance(value, bytes) else (2, format_plain(value))


#: The sessions of running statements, by the names of their requests.
_RUNNING: dict[str, kvstore.Store] = {}


@contextmanager
def _register_statement(request: PageRequest) -> Iterator[None]:
    """Register the statement of a request within the ``with`` block, so that ``/sql/stop`` can interrupt it.

    Its name is the request's argument ``run``. Without this argument, nothing is registered.
    """
    run_name = request.get_text("run")
    if run_name:
        _RUNNING[run_name] = request.store
    try:
        yield
    finally:
        _RUNNING.pop(run_name, None)


def _interrupt_statement(request: PageRequest) -> str:
    """Interrupt the statement registered under the argument ``run``; return JSON that says if there was one."""
    session = _RUNNING.get(request.get_text("run"))
    if session is not None:
        session.interrupt()
    return json.dumps({"stopped": session is not None})


def _load_saved_statements() -> list[dict[str, str]]:
    """Return the saved statements, or an empty list if their file is damaged."""
    try:
        return [{"name": name, "sql": statement} for name, statement in load_queries().items()]
    except InputError:
        return []


def _save_or_delete_statement(request: PageRequest) -> str:
    """Save the statement ``sql`` under ``name``, or delete it if ``sql`` is empty; return all of them as JSON."""
    name, statement = request.get_text("name"), request.get_text("sql")
    if statement:
        save_query(name, statement)
    else:
        delete_query(name)
    return json.dumps(_load_saved_statements())


def _count_rows(request: PageRequest, statement: str) -> int | None:
    """Return the number of rows of a statement, at most one more than a file holds; None if it fails or is too slow."""
    try:
        return request.store.query(statement, timeout=request.seconds_left, max_rows=_MAX_ROWS + 1).rowcount
    except KvstoreError:
        return None


def _build_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> PageContent:
    """Return the rows as ``cells`` of a table, and for each column True in ``are_numbers`` if it has only numbers."""
    types_by_column = [{type(row[index]) for row in rows} - {type(None)} for index in range(len(columns))]
    return {
        "are_numbers": [bool(types) and types <= {int, float} for types in types_by_column],
        "cells": [_build_cells(columns, row) for row in rows],
    }


def _build_cells(columns: Sequence[str], row: Sequence[Any]) -> list[dict[str, Any]]:
    """Return a row as table cells: the text of each value, cut if long, and its link."""
    values_by_column = dict(zip(columns, row, strict=True))
    cells = []
    for column, value in zip(columns, row, strict=True):
        text = None if value is None else format_plain(value)
        if text is not None and len(text) > _MAX_VALUE_CHARS:
            text = text[:_MAX_VALUE_CHARS] + "…"
        cells.append({"text": text, "url": _build_item_url(column, value, values_by_column)})
    return cells


def _build_item_url(column: str, value: Any, row: Mapping[str, Any]) -> str | None:
    """Return the URL of the document or entity that a value names, judged by its column's name, or None.

    The URL of a document marks the span ``start`` to ``end`` if the row has these columns.
    """
    if not isinstance(value, str):
        return None
    # A row with a column "mentions" describes an entity, so its key is not the key of a document.
    document_columns = ("document",) if "mentions" in row else ("document", "key")
    if column in document_columns:
        start, end = row.get("start"), row.get("end")
        return (
            build_document_url(value, start, end)
            if isinstance(start, int) and isinstance(end, int)
            else build_document_url(value)
        )
    is_abstract = column == "relative" and _ABSTRACT_PATTERN.search(value)  # such as "The tower [1]"
    if column in ("entity", "child", "parent", "relative") and value and not is_abstract:
        return build_entity_url(value)
    return None


def _render_csv(request: PageRequest) -> Iterator[str]:
    """Return the rows of the statement as lines of CSV. Raises InputError without a statement."""
    content = build_content(request)
    if not content["sql"]:
        raise InputError("there is no statement; pass one as sql=")
    return (f"{line}\r\n" for line in ROW_FORMATS["csv"](content["columns"], content["rows"]))


def _format_completions(request: PageRequest) -> str:
    """Return the shell's completions of the text in ``before`` as JSON.

    If the text has no word yet, only words that begin a read-only statement are returned.
    """
    text_before = (request.get_texts("before") or [""])[-1]
    completions = complete_statement(text_before, StatementCatalog(lambda: request.store))
    allowed_completions = [
        completion
        for completion in completions
        if text_before[: completion.start].strip() or completion.text in _READING_KEYWORDS
    ]
    return json.dumps(list(map(asdict, allowed_completions[:_MAX_COMPLETIONS])))


PAGE = ExplorerPage(
    "/sql",
    build_content,
    "sql.html",
    label="SQL",
    representations={
        ".csv": PageRepresentation("text/csv", _render_csv, "rows.csv"),
        "/completions.json": PageRepresentation("application/json", _format_completions),
        "/stop": PageRepresentation("application/json", _interrupt_statement),
        "/saved": PageRepresentation("application/json", _save_or_delete_statement, method="POST"),
    },
)
