"""Lists of rows with a filter, counts and pages, which several explorer pages share. The argument ``q`` of a request
filters rows by text, and ``page`` is the number of a page, from 1.

In: a request, a table and conditions. Out: the rows of one page, with the number of all rows that satisfy the
conditions.
"""

from __future__ import annotations

from typing import Any

from ..store_queries import fetch_named_rows, list_built_indexes
from .page import PageContent, PageRequest

#: The number of rows per page, and the maximum number of a page in a URL.
PAGE_SIZE, MAX_PAGE = 50, 10**7


class RowQuery:
    """A query for the rows of a table that satisfy conditions, with ``size`` rows per page."""

    def __init__(self, request: PageRequest, table: str, *, size: int = PAGE_SIZE) -> None:
        """Create a query without conditions; ``table`` can be a join, and ``size`` is the number of rows per page."""
        self._request = request
        self._table = table
        self._size = size
        self._conditions: list[str] = []
        self._parameters: list[Any] = []

    def add_condition(self, condition: str, *parameters: Any) -> None:
        """Add an SQL condition that the rows must satisfy, and the values of its ``?`` parameters."""
        self._conditions.append(condition)
        self._parameters += parameters

    def filter_by_text(self, *columns: str) -> str:
        """Require that a column contains the request's ``q``, ignoring case, unless it is empty; return ``q``."""
        text = self._request.get_text("q")
        if text:
            condition = " OR ".join(f"instr(lower(coalesce({column}, '')), lower(?))" for column in columns)
            self.add_condition(f"({condition})", *[text] * len(columns))
        return text

    def count_values(self, column: str, order: str) -> list[dict[str, Any]]:
        """Return each ``value`` of a column with its ``count``, the number of rows; ``order`` is an SQL order."""
        return self._run(
            self._build_select(f"{column} AS value, count(*) AS count", f"GROUP BY {column} ORDER BY {order}")
        )

    def build_page(self, columns: str, order: str, *, details: str = "", key: str = "") -> PageContent:
        """Return the rows of the requested page, the number of all rows, the page number and the size of a page.

        ``columns`` and ``order`` are the SQL of the columns and of ORDER BY. ``details`` are further columns, which are
        computed only for the rows of the page. With ``key``, a column by which the table looks up rows, a subquery
        selects the keys of the page, and ``columns`` are also computed only for its rows.
        """
        page = self._request.get_number("page", 1, minimum=1, maximum=MAX_PAGE)
        count = self._run(self._build_select("count(*) AS count"))[0]["count"]
        statement = self._build_select(key or columns, f"ORDER BY {order} LIMIT ? OFFSET ?")
        if key:
            statement = f"SELECT {columns} FROM {self._table} WHERE {key} IN ({statement}) ORDER BY {order}"
        if details:
            statement = f"SELECT *, {details} FROM ({statement})"
        rows = self._run(statement, self._size, (page - 1) * self._size)
        return {"rows": rows, "count": count, "page_number": page, "page_size": self._size}

    def _build_select(self, columns: str, suffix: str = "") -> str:
        """Return the SELECT of some columns of the rows; ``suffix`` is the SQL after the conditions."""
        where = f" WHERE {' AND '.join(self._conditions)}" if self._conditions else ""
        return f"SELECT {columns} FROM {self._table}{where} {suffix}"

    def _run(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        """Return the rows of a SELECT as dicts by column name.

        Its parameters are the parameters of the conditions, followed by ``parameters``.
        """
        return fetch_named_rows(
            self._request.store.query(statement, [*self._parameters, *parameters], timeout=self._request.seconds_left)
        )


def build_index_page(request: PageRequest, index: str, columns: str, order: str, *, key: str = "") -> PageContent:
    """Return a page of the rows of an index, filtered by the request's ``q`` (in title or text) and ``level``.

    The other arguments are those of :meth:`RowQuery.build_page`. If the index is not built, the content has
    only ``is_built`` False and the number of documents.
    """
    if index not in list_built_indexes(request.store):
        return {"index": index, "is_built": False, "documents": len(request.store)}
    rows = RowQuery(request, index)
    text = rows.filter_by_text("title", "text")
    levels = rows.count_values("level", "level")
    level = request.get_text("level")
    if level:
        rows.add_condition("level = ?", request.get_number("level", 0))
    content = rows.build_page(columns, order, key=key)
    return content | {"index": index, "is_built": True, "q": text, "level": level, "levels": levels}
