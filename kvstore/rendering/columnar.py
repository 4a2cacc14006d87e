"""Rows as columns of other libraries: tables of Apache Arrow, data frames of pandas.

In: names of columns, rows of SQL values, and the types of the columns if they are known. Out: a ``pyarrow.Table`` or a
``pandas.DataFrame`` with the same names, rows and values, and NULL as null. A column with several types of values
becomes text in Arrow, which has one type per column, and is unchanged in pandas. Whole numbers stay whole in a column
with NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..extensions.extras import import_extra
from .row_formats import number_repeated_names

#: The Arrow type of each SQL column type.
ARROW_TYPES: Mapping[str, str] = {"TEXT": "string", "INTEGER": "int64", "REAL": "double", "BLOB": "binary"}
#: The names of columns, the rows, and the SQL type of each column (None, or an empty sequence: unknown).
NamedRows = tuple[Sequence[str], Iterable[Sequence[Any]], Sequence[str | None]]
#: The pandas type of a column without values, for each SQL column type.
_EMPTY_TYPES: Mapping[str, str] = {"TEXT": "str", "INTEGER": "int64", "REAL": "float64"}


class Columnar:
    """A mixin for rows with named columns, which converts them for other libraries."""

    __slots__ = ()

    def _get_named_rows(self) -> NamedRows:
        """Return the names of the columns, the rows, and the columns' SQL types. Subclasses must override this."""
        raise NotImplementedError

    def to_arrow(self) -> Any:
        """Return the rows as a ``pyarrow.Table``. A column with several types of values becomes text.

        Raises MissingExtraError without pyarrow (``pip install 'kvstore-db[arrow]'``).
        """
        return to_arrow_table(*self._get_named_rows())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows as a stream of Arrow's C interface, from which pyarrow, polars and duckdb read directly."""
        stream: object = self.to_arrow().__arrow_c_stream__(requested_schema)
        return stream

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return each row as a dict from the names of the columns to the values, for example to write JSON.

        A column with the name of an earlier one gets a number: ``key:1``.

        >>> store.execute("SELECT key, title FROM documents WHERE key = 'tea'").to_dicts()
        [{'key': 'tea', 'title': 'Tea'}]
        """
        columns, rows, _ = self._get_named_rows()
        names = number_repeated_names(columns)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def to_pandas(self) -> Any:
        """Return the rows as a ``pandas.DataFrame``. Whole numbers stay whole in a column with NULL (type Int64).

        Raises MissingExtraError without pandas (``pip install 'kvstore-db[pandas]'``).
        """
        return to_data_frame(*self._get_named_rows())


def to_arrow_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], types: Sequence[str | None] = ()) -> Any:
    """Return a ``pyarrow.Table`` of rows. ``types`` are the SQL types of the columns (empty, or None: unknown).

    Raises MissingExtraError without pyarrow.
    """
    pa = import_extra("pyarrow", "arrow", "to_arrow()")
    values = _transpose_rows(columns, rows)
    column_types = types or [None] * len(columns)
    return pa.table(
        [
            _build_arrow_column(pa, column_values, sql_type)
            for column_values, sql_type in zip(values, column_types, strict=True)
        ],
        names=list(columns),
    )


def to_data_frame(columns: Sequence[str], rows: Iterable[Sequence[Any]], types: Sequence[str | None] = ()) -> Any:
    """Return a ``pandas.DataFrame`` of rows. ``types`` are the SQL types of the columns (empty, or None: unknown).

    Raises MissingExtraError without pandas.
    """
    pd = import_extra("pandas", "pandas", "to_pandas()")
    values = _transpose_rows(columns, rows)
    column_types = types or [None] * len(columns)
    # Keyed by index first, because two columns can have the same name.
    frame = pd.DataFrame(
        {
            index: _build_series(pd, column_values, sql_type)
            for index, (column_values, sql_type) in enumerate(zip(values, column_types, strict=True))
        }
    )
    frame.columns = list(columns)
    return frame


def to_column_text(value: Any) -> str | None:
    """Convert an SQL value of any type to text, for a column that has only strings; None (NULL) stays None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, list | dict):
        import json

        return json.dumps(value, ensure_ascii=False)
    return str(int(value) if isinstance(value, bool) else value)  # as SQLite displays it


def _transpose_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """Return a list of the values of each column, in the order of ``columns``.

    Raises ValueError if a row has a different length than ``columns``.
    """
    columns_of_values: list[list[Any]] = [[] for _ in columns]
    for row in rows:
        for column_values, value in zip(columns_of_values, row, strict=True):
            column_values.append(value)
    return columns_of_values


def _find_types(values: Iterable[Any]) -> frozenset[type]:
    """Return the distinct Python types of the values other than None."""
    return frozenset(type(value) for value in values if value is not None)


def _build_arrow_column(pa: Any, values: list[Any], sql_type: str | None) -> Any:
    """Return a ``pyarrow.Array`` of the values of a column; ``pa`` is the ``pyarrow`` module.

    ``sql_type`` is the type of the column (None: unknown), which is used only if all values are NULL. Numbers of
    several types become floats or integers. Values of other mixed types, and lists or mappings of different shapes,
    become text.
    """
    value_types = _find_types(values)
    if not value_types:
        name = ARROW_TYPES.get(sql_type or "")
        return pa.array(values, type=None if name is None else pa.type_for_alias(name))
    if len(value_types) > 1 and value_types <= {bool, int, float}:
        number_type = float if float in value_types else int
        return pa.array([None if value is None else number_type(value) for value in values])
    if len(value_types) == 1:
        try:
            return pa.array(values)
        except pa.ArrowException:  # lists or mappings of different shapes
            pass
    return pa.array([to_column_text(value) for value in values], type=pa.string())


def _build_series(pd: Any, values: list[Any], sql_type: str | None) -> Any:
    """Return a ``pandas.Series`` of the values of a column; ``pd`` is the ``pandas`` module.

    ``sql_type`` is the type of the column (None: unknown), which is used only if there are no rows.
    """
    value_types = _find_types(values)
    if not value_types:
        return pd.Series(values, dtype="object" if values else _EMPTY_TYPES.get(sql_type or "", "object"))
    has_nulls = any(value is None for value in values)
    if value_types == {int}:
        return pd.Series(values, dtype="Int64" if has_nulls else "int64")
    if value_types == {bool}:
        return pd.Series(values, dtype="boolean" if has_nulls else "bool")
    if value_types <= {int, float}:
        return pd.Series(values, dtype="float64")
    return pd.Series(values, dtype=None if value_types == {str} else "object")
