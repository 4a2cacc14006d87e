"""The page of documents: those that satisfy a condition, paginated, with metadata values to filter by. A *facet* is a
metadata field and one of its values; in a URL it is a JSON list such as ``["year", 2024]``.
"""

from __future__ import annotations

import json
from typing import Any

from ... import language
from ...errors import InputError, StatementError
from ..store_queries import fetch_named_rows
from .list_page import MAX_PAGE, PAGE_SIZE
from .page import ExplorerPage, PageContent, PageRequest

#: The number of documents whose metadata is counted, of values shown per field, and of fields.
_MAX_COUNTED = 20_000
_MAX_VALUES = 8
_MAX_FIELDS = 12
#: The SQL of ORDER BY for each order of the documents.
_ORDERS = {
    "key": "key",
    "title": "title IS NULL, title, key",
    "newest": "changed DESC, key",
    "longest": "bytes DESC, key",
}


def build_content(request: PageRequest) -> PageContent:
    """Return a page of the documents that match the arguments of a request, and the values of their metadata fields.

    Documents match if they satisfy ``where``, contain ``q`` in their key or title, and have each ``facet``. ``page``
    counts from 1, ``order`` is one of key, title, newest and longest. In the content, ``chosen`` are the facets, and
    ``of`` is the number of all documents of the store. A page reports an invalid condition in its form. Raises
    InputError for any other order or an invalid facet.
    """
    store = request.store
    order, page = request.get_text("order", "key"), request.get_number("page", 1, minimum=1, maximum=MAX_PAGE)
    if order not in _ORDERS:
        raise InputError(f"order must be one of {', '.join(_ORDERS)}, not {order[:40]!r}")
    search_text, where = request.get_text("q"), request.get_text("where")
    facets = [_parse_facet(text) for text in request.get_texts("facet") if text]
    content: PageContent = {
        "q": search_text,
        "where": where,
        "order": order,
        "orders": list(_ORDERS),
        "chosen": [{"field": name, "value": value, "facet": json.dumps([name, value])} for name, value in facets],
        "count": 0,
        "of": len(store),
        "page_number": page,
        "page_size": PAGE_SIZE,
        "documents": [],
        "fields": [],
    }
    try:
        where_clause, parameters = _build_where_clause(where, search_text, facets)
        with language.locate_in_condition(where):
            rows = _fetch_documents(request, f"{where_clause} ORDER BY {_ORDERS[order]}", parameters, page)
    except StatementError as error:
        return request.report_invalid(content, error)
    count_cursor = store.query(
        f"SELECT count(*) FROM documents{where_clause}", parameters, timeout=request.seconds_left
    )
    ((count,),) = count_cursor.fetchall()
    return content | {"count": count, "documents": rows, "fields": _summarize_fields(request, where_clause, parameters)}


def _fetch_documents(request: PageRequest, clauses: str, parameters: list[Any], page: int) -> list[dict[str, Any]]:
    """Return a page of documents as JSON data, with their metadata.

    ``clauses`` are the SQL of WHERE and ORDER BY, with ``parameters``. Raises StatementError for an invalid condition.
    """
    rows = fetch_named_rows(
        request.store.query(
            f"SELECT key, title, bytes, chunks, changed, meta FROM documents{clauses} LIMIT ? OFFSET ?",
            [*parameters, PAGE_SIZE, (page - 1) * PAGE_SIZE],
            timeout=request.seconds_left,
        )
    )
    for row in rows:
        row["meta"] = json.loads(row["meta"] or "{}")
    return rows


def _build_where_clause(where: str, search_text: str, facets: list[tuple[str, Any]]) -> tuple[str, list[Any]]:
    """Return the WHERE clause of the documents, empty if all are shown, and its parameters.

    Documents must satisfy ``where``, have all ``facets``, and contain ``search_text`` in their key or title, ignoring
    case. Raises StatementError for an invalid ``where`` condition.
    """
    conditions, parameters = [], list[Any]()
    if where:
        language.check_condition(where)
        conditions.append(f"(\n{where}\n)")  # a comment at the end of ``where`` ends at the line end
    if search_text:
        conditions.append("(instr(lower(key), lower(?)) OR instr(lower(coalesce(title, '')), lower(?)))")
        parameters += [search_text, search_text]
    for name, value in facets:
        quoted_name = name.replace("'", "''")  # for an SQL string; the name of a facet has no '"'
        conditions.append(f"? IN (SELECT value FROM json_each(meta, '$.\"{quoted_name}\"'))")
        parameters.append(value)
    return f" WHERE {' AND '.join(conditions)}" if conditions else "", parameters


def _parse_facet(text: str) -> tuple[str, Any]:
    """Return the metadata field and the value of a facet, a JSON list of both. Raises InputError for any other text."""
    try:
        facet = json.loads(text)
    except (ValueError, RecursionError):
        facet = None
    name, value = facet if isinstance(facet, list) and len(facet) == 2 else (None, None)
    if not isinstance(name, str) or '"' in name or isinstance(value, list | dict):  # a JSON path cannot quote '"'
        raise InputError(f'a facet must be a field and a value, such as ["year", 2024], not {text[:40]!r}')
    return name, value


def _summarize_fields(request: PageRequest, where_clause: str, parameters: list[Any]) -> list[dict[str, Any]]:
    """Return the metadata fields of the matching documents, each with its most frequent values and their counts.

    ``where_clause``, with its ``parameters``, selects the documents. Only the first ``_MAX_COUNTED`` of them are
    counted, and at most ``_MAX_FIELDS`` fields are returned. ``different`` is the number of values of a field, and
    ``facet`` is the argument of a request for the documents with a value. Fields with nested objects are omitted.
    """
    # Fields whose values are all different, such as ids, come last.
    rows = request.store.query(
        f"""WITH chosen AS (SELECT meta FROM documents{where_clause} LIMIT {_MAX_COUNTED}),
        fields AS (
            SELECT field.key AS name, coalesce(element.value, field.value) AS value
            FROM chosen, json_each(chosen.meta) AS field
            LEFT JOIN json_each(iif(field.type = 'array', field.value, '[]')) AS element
            WHERE field.type <> 'object' AND instr(field.key, '"') = 0
        ),
        counted AS (
            SELECT name, value, count(*) AS documents,
                row_number() OVER (PARTITION BY name ORDER BY count(*) DESC, value) AS place,
                count(*) OVER (PARTITION BY name) AS different, sum(count(*)) OVER (PARTITION BY name) AS total
            FROM fields WHERE value IS NOT NULL GROUP BY name, value
        )
        SELECT name, value, documents, different FROM counted
        WHERE place <= {_MAX_VALUES} ORDER BY different = total, total DESC, name, place""",
        parameters,
        timeout=request.seconds_left,
    ).fetchall()
    fields: dict[str, dict[str, Any]] = {}
    for name, value, documents, different in rows:
        field = fields.setdefault(name, {"field": name, "different": different, "values": []})
        field["values"].append({"value": value, "documents": documents, "facet": json.dumps([name, value])})
    return list(fields.values())[:_MAX_FIELDS]


PAGE = ExplorerPage("/documents", build_content, "documents.html", label="Documents")
