"""The result of a statement: named columns, rows by iteration, and a message about what was done.

In: rows, produced lazily or all at once. Out: one tuple per row, of SQL values (text, integers, reals, NULL); the
citations of an answer are a list of mappings. A SELECT with many rows keeps its snapshot until the cursor is exhausted,
closed or dropped. A closed cursor returns no rows. An error while a row is produced closes the cursor and propagates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from types import TracebackType
from typing import Any

from ..arguments import check_integer
from ..rendering.columnar import Columnar, NamedRows

Row = tuple[Any, ...]

#: The column type for each Python type of value.
_TYPES = ((str, "TEXT"), (int, "INTEGER"), (float, "REAL"), (bytes, "BLOB"), ((list, dict), "JSON"))


def infer_types(rows: Sequence[Row], declared_types: Sequence[str | None]) -> tuple[str | None, ...]:
    """Return the SQL type of each column: its type in ``declared_types`` or, if this is None, the type of its values.

    The type is None if a column of ``rows`` has no values, or if they have several types.
    """
    return tuple(
        declared_type or _infer_type(row[column] for row in rows) for column, declared_type in enumerate(declared_types)
    )


def _infer_type(values: Iterable[Any]) -> str | None:
    """Return the common SQL type of some values, such as ``TEXT``; None without values or if their types differ.

    Integers and floats together are REAL. NULLs (None) are ignored.
    """
    type_names = {name for value in values for python_type, name in _TYPES if isinstance(value, python_type)}
    if type_names == {"INTEGER", "REAL"}:
        return "REAL"
    return type_names.pop() if len(type_names) == 1 else None


class Cursor(Columnar):
    """The result of one statement.

    ``kind`` is the first word of the statement (``LOOKUP``, ``ASK``). ``columns`` are the names of the columns, empty
    for a statement without rows. ``types`` are their types: ``TEXT``, ``INTEGER``, ``REAL``, ``BLOB``, ``JSON`` (lists
    and mappings), or None if unknown or mixed. ``rowcount`` is the number of rows or of changed documents, -1 if
    unknown. ``message`` says what was done, if the rows do not. ``problems`` lists parts that failed, such as files
    that INGEST could not read. ``failed`` is true if there are such parts, or if CHECK found damage.

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
        """Create a cursor of ``rows``. The other arguments are the attributes that the class describes.

        ``types`` is None to infer them from the rows, if these are a sequence. ``release`` is called once, when the
        cursor is closed (None: nothing to release).
        """
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
        #: The rows as an Arrow table, once a library has read them as a stream.
        self._arrow_table: Any = None

    @property
    def description(self) -> tuple[tuple[str, str | None, None, None, None, None, None], ...] | None:
        """The columns in the format of the Python database API (PEP 249), or None for a statement without rows.

        The type codes are the elements of ``types``; :mod:`kvstore.dbapi` has objects that compare equal to them.
        """
        typed_columns = zip(self.columns, self.types, strict=True)
        return tuple((name, kind, None, None, None, None, None) for name, kind in typed_columns) or None

    def __repr__(self) -> str:
        """Return the kind of the statement, and what it did or the names of its columns."""
        return f"<kvstore.Cursor {self.kind}: {self.message or ', '.join(self.columns)}>"

    def __iter__(self) -> Iterator[Row]:
        """Return the cursor itself, which iterates over the remaining rows."""
        return self

    def __next__(self) -> Row:
        """Return the next row; close the cursor at the end and after an error."""
        try:
            return next(self._rows)
        except BaseException:
            self.close()
            raise

    def fetchone(self) -> Row | None:
        """Return the next row, or None after the last.

        >>> cursor = store.execute("SELECT key FROM documents ORDER BY key")
        >>> cursor.fetchone(), cursor.fetchone(), cursor.fetchone()
        (('coffee',), ('tea',), None)
        """
        return next(self, None)

    def fetchmany(self, size: int = 100) -> list[Row]:
        """Return the next rows, at most ``size``, or an empty list after the last.

        Raises InputError for an invalid size.

        >>> store.execute("SELECT key FROM documents ORDER BY key").fetchmany(1)
        [('coffee',)]
        """
        check_integer("size", size, 0)
        return list(islice(self, size))

    def fetchall(self) -> list[Row]:
        """Return all remaining rows.

        >>> store.execute("SELECT key FROM documents ORDER BY key").fetchall()
        [('coffee',), ('tea',)]
        """
        return list(self)

    def _get_named_rows(self) -> NamedRows:
        """Return the columns, the remaining rows and the types, for conversion to tables in other libraries."""
        return self.columns, self, self.types

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the remaining rows as a stream of Arrow's C interface, from which pyarrow, polars and duckdb read.

        Each call returns a stream with the same rows, because duckdb opens a separate stream to read the schema.
        """
        if self._arrow_table is None:
            self._arrow_table = self.to_arrow()
        stream: object = self._arrow_table.__arrow_c_stream__(requested_schema)
        return stream

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook displays: the first remaining rows, which can still be fetched."""
        from ..rendering import markup
        from ..retrieval.relatives import Relative, render_relatives

        rows = self._read_ahead(markup.MAX_TABLE_ROWS + 1)
        if self.kind == "EXPLAIN" and self.columns == ("svg",):
            return f"<div>{''.join(picture for (picture,) in rows)}</div>"
        if self.kind == "EXPAND" and len(rows) <= markup.MAX_TABLE_ROWS:
            if "via" in self.columns:
                return render_relatives(Relative(*row) for row in rows)
            return markup.render_outline(
                (level, f"{title} ({count:,})", detail) for level, title, count, detail in rows
            )
        return markup.render_table(self.columns, rows, remarks=[*filter(None, [self.message]), *self.problems])

    def _read_ahead(self, max_rows: int) -> list[Row]:
        """Return the next ``max_rows`` rows without consuming them: they can still be fetched."""
        rows = self.fetchmany(max_rows)
        self._rows = chain(rows, self._rows)
        return rows

    def close(self) -> None:
        """Drop the remaining rows and release what they are read from. Closing twice is allowed."""
        self._rows = iter(())
        release, self._release = self._release, None
        if release is not None:
            release()

    def __enter__(self) -> Cursor:
        """Return the cursor, which the end of the ``with`` block closes."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the cursor."""
        self.close()

    def __del__(self) -> None:
        """Close a cursor that is no longer referenced, so that it does not keep a snapshot open."""
        self.close()
