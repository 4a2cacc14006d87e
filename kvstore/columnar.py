"""Rows as columns of other libraries: tables of Apache Arrow, data frames of pandas.

In: names of columns, rows of SQL values, and the types of the columns where they are known. Out: a ``pyarrow.Table``
or a ``pandas.DataFrame`` with the same names, rows and values, NULL as null. A column of several kinds of values is
text in Arrow, which has one type a column, and stays as it is in pandas. Whole numbers stay whole beside a NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .extras import import_extra

#: The Arrow type of a column of SQL.
ARROW_TYPES: Mapping[str, str] = {"TEXT": "string", "INTEGER": "int64", "REAL": "double", "BLOB": "binary"}
NamedRows = tuple[Sequence[str], Iterable[Sequence[Any]], Sequence[str | None]]
#: The type of pandas of a column of SQL without values.
_EMPTY_TYPES: Mapping[str, str] = {"TEXT": "str", "INTEGER": "int64", "REAL": "float64"}


class Columnar:
    """What has rows of named columns, for other programs."""

    __slots__ = ()

    def _get_named_rows(self) -> NamedRows:
        """Names of columns, rows, and the types of the columns where they are known (else none at all)."""
        raise NotImplementedError

    def to_arrow(self) -> Any:
        """The rows as a ``pyarrow.Table``; a column of several kinds of values is text.

        Raises MissingExtraError without pyarrow (``pip install 'kvstore[arrow]'``).
        """
        return to_arrow_table(*self._get_named_rows())

    def to_pandas(self) -> Any:
        """The rows as a ``pandas.DataFrame``; whole numbers stay whole beside a NULL (type Int64).

        Raises MissingExtraError without pandas (``pip install 'kvstore[pandas]'``).
        """
        return to_data_frame(*self._get_named_rows())


def to_arrow_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], types: Sequence[str | None] = ()) -> Any:
    """A ``pyarrow.Table`` of these rows; raises MissingExtraError without pyarrow."""
    pa = import_extra("pyarrow", "arrow", "to_arrow()")
    values = _transpose_rows(columns, rows)
    column_types = types or [None] * len(columns)
    return pa.table(
        [
            _build_arrow_column(pa, column_values, kind)
            for column_values, kind in zip(values, column_types, strict=True)
        ],
        names=list(columns),
    )


def to_data_frame(columns: Sequence[str], rows: Iterable[Sequence[Any]], types: Sequence[str | None] = ()) -> Any:
    """A ``pandas.DataFrame`` of these rows; raises MissingExtraError without pandas."""
    pd = import_extra("pandas", "pandas", "to_pandas()")
    values = _transpose_rows(columns, rows)
    column_types = types or [None] * len(columns)
    # By number first, since two columns may have one name.
    frame = pd.DataFrame(
        {
            index: _build_series(pd, column_values, kind)
            for index, (column_values, kind) in enumerate(zip(values, column_types, strict=True))
        }
    )
    frame.columns = list(columns)
    return frame


def to_plain_text(value: Any) -> str | None:
    """A value as text, NULL as such."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, list | dict):
        import json

        return json.dumps(value, ensure_ascii=False)
    return str(int(value) if isinstance(value, bool) else value)  # as SQLite shows it


def _transpose_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
    values: list[list[Any]] = [[] for _ in columns]
    for row in rows:
        for column_values, value in zip(values, row, strict=True):
            column_values.append(value)
    return values


def _find_types(values: Iterable[Any]) -> frozenset[type]:
    return frozenset(type(value) for value in values if value is not None)


def _build_arrow_column(pa: Any, values: list[Any], declared: str | None) -> Any:
    kinds = _find_types(values)
    if not kinds:
        name = ARROW_TYPES.get(declared or "")
        return pa.array(values, type=None if name is None else pa.type_for_alias(name))
    if len(kinds) > 1 and kinds <= {bool, int, float}:
        number = float if float in kinds else int
        return pa.array([None if value is None else number(value) for value in values])
    if len(kinds) == 1:
        try:
            return pa.array(values)
        except pa.ArrowException:  # lists or mappings that are not of one form
            pass
    return pa.array([to_plain_text(value) for value in values], type=pa.string())


def _build_series(pd: Any, values: list[Any], declared: str | None) -> Any:
    kinds = _find_types(values)
    if not kinds:
        return pd.Series(values, dtype="object" if values else _EMPTY_TYPES.get(declared or "", "object"))
    has_nulls = any(value is None for value in values)
    if kinds == {int}:
        return pd.Series(values, dtype="Int64" if has_nulls else "int64")
    if kinds == {bool}:
        return pd.Series(values, dtype="boolean" if has_nulls else "bool")
    if kinds <= {int, float}:
        return pd.Series(values, dtype="float64")
    return pd.Series(values, dtype=None if kinds == {str} else "object")
