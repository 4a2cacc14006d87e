"""What a statement gives back: named columns, rows by iteration, and a word about what was done.

In: rows made as they are read, or all at once. Out: tuples, one a row, of SQL values (text, whole and real numbers,
NULL); the citations of an answer are a list of mappings. A SELECT of many rows keeps its state of the store
until it is read to the end, closed or dropped. Reading a closed cursor gives no rows; an error while a row
is made closes the cursor and is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from types import TracebackType
from typing import Any

from ..arguments import check_integer
from ..columnar import Columnar, NamedRows

Row = tuple[Any, ...]

#: The type of a column by that of a value in it.
_TYPES = ((str, "TEXT"), (int, "INTEGER"), (float, "REAL"), (bytes, "BLOB"), ((list, dict), "JSON"))


def infer_types(rows: Sequence[Row], declared: Sequence[str | None]) -> tuple[str | None, ...]:
    """The types of columns: as ``declared``, else by the values in these rows; None where these are none, or of several
    types."""
    return tuple(kind or _infer_type(row[column] for row in rows) for column, kind in enumerate(declared))


def _infer_type(values: Iterable[Any]) -> str | None:
    type_names = {name for value in values for kind, name in _TYPES if isinstance(value, kind)}
    return "REAL" if type_names == {"INTEGER", "REAL"} else type_names.pop() if len(type_names) == 1 else None


class Cursor(Columnar):
    """The result of one statement.

    ``kind`` is the first word of the statement (``LOOKUP``, ``ASK``); ``columns`` are the names of the columns, none
    for a statement that gives no rows; ``types`` are theirs: ``TEXT``, ``INTEGER``, ``REAL``, ``BLOB``, ``JSON`` (lists
    and mappings), or None where a column may hold several or nothing tells; ``rowcount`` is how many rows there are or
    how many documents were changed, -1 where nobody has counted; ``message`` says what was done, where the rows do not.
    ``problems`` are parts that could not be done (files that INGEST could not read); ``failed`` says that all is not
    well: there are such parts, or CHECK found damage.

    >>> with store.execute("SELECT key FROM documents ORDER BY key") as cursor:
    ...     [key for (key,) in cursor]
    ['coffee', 'tea']
    >>> store.execute("DELETE DOCUMENT 'tea'").message
    '1 document deleted'
    """

    def __init__(
        self,
        kind: str,
        columns: Sequence[str] = (),
        rows: Iterable[Row] = (),
        *,
        types: Sequence[str | None] | None = None,
        rowcount: int = -1,
        message: str | None = None,
        problems: Sequence[str] = (),
        failed: bool = False,
        release: Callable[[], None] | None = None,
    ) -> None:
        self.kind = kind
        self.columns = tuple(columns)
        if types is None:
            types = infer_types(rows if isinstance(rows, Sequence) else (), [None] * len(self.columns))
        self.types = tuple(types)
        self.rowcount = rowcount
        self.message = message
        self.problems = tuple(problems)
        self.failed = failed or bool(problems)
        self._rows = iter(rows)
        self._release = release

    @property
    def description(self) -> tuple[tuple[str, str | None, None, None, None, None, None], ...] | None:
        """The columns as the Python database API (PEP 249) describes them; None for a statement without rows.

        The codes of types are those of ``types``; :mod:`kvstore.dbapi` has objects that compare equal to them.
        """
        typed_columns = zip(self.columns, self.types, strict=True)
        return tuple((name, kind, None, None, None, None, None) for name, kind in typed_columns) or None

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        try:
            return next(self._rows)
        except BaseException:
            self.close()
            raise

    def fetchone(self) -> Row | None:
        """The next row, or None after the last.

        >>> cursor = store.execute("SELECT key FROM documents ORDER BY key")
        >>> cursor.fetchone(), cursor.fetchone(), cursor.fetchone()
        (('coffee',), ('tea',), None)
        """
        return next(self, None)

    def fetchmany(self, size: int = 100) -> list[Row]:
        """The next rows, at most ``size``; none after the last. Raises InputError for a size that is no such number.

        >>> store.execute("SELECT key FROM documents ORDER BY key").fetchmany(1)
        [('coffee',)]
        """
        check_integer("size", size, 0)
        return list(islice(self, size))

    def fetchall(self) -> list[Row]:
        """All rows that are left.

        >>> store.execute("SELECT key FROM documents ORDER BY key").fetchall()
        [('coffee',), ('tea',)]
        """
        return list(self)

    def _get_named_rows(self) -> NamedRows:
        """Those that are left."""
        return self.columns, self, self.types

    def _repr_html_(self) -> str:
        """What a notebook shows: the first of the rows that are left, which stay to be read."""
        from .. import markup

        rows = self._read_ahead(markup.MAX_TABLE_ROWS + 1)
        if self.kind == "EXPLAIN" and self.columns == ("svg",):
            return f"<div>{''.join(picture for (picture,) in rows)}</div>"
        if self.kind == "EXPAND" and len(rows) <= markup.MAX_TABLE_ROWS:
            if "via" in self.columns:
                return markup.render_relatives(rows)
            return markup.render_outline(
                (level, f"{title} ({count:,})", detail) for level, title, count, detail in rows
            )
        return markup.render_table(self.columns, rows, remarks=[*filter(None, [self.message]), *self.problems])

    def _read_ahead(self, max_rows: int) -> list[Row]:
        """The next rows, which are given again."""
        rows = self.fetchmany(max_rows)
        self._rows = chain(rows, self._rows)
        return rows

    def close(self) -> None:
        """Drop the rows that are left and what they are read from; a closed cursor may be closed again."""
        self._rows = iter(())
        release, self._release = self._release, None
        if release is not None:
            release()

    def __enter__(self) -> Cursor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()
