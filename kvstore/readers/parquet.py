"""Apache Parquet: each row becomes a document, as a line of JSON Lines does.

In: a Parquet file, which is read in batches of rows. Out: documents as of :mod:`.json_lines`, with the columns as
fields and the number of the row, from 1, as the number of the line. Dates and times become ISO 8601, decimals text, and
NaN null. Columns of bytes and of vectors (lists of floats) are left out. A file that is not valid, and a missing
pyarrow, are ReaderErrors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, BinaryIO

from ..errors import ReaderError
from ..extensions.extras import import_extra
from .json_lines import BadLineError, read_objects
from .raw_document import JSON, Item, Origin, ReadOptions

_BATCH_ROWS = 256
_MAX_COLUMNS = 10_000


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[Item]:
    """Yield a document, or a failure, for each row of a Parquet file.

    Raises ReaderError if the file is invalid, has too many columns or no rows, or if pyarrow is not installed.
    """
    purpose = f"{origin.name}: reading Parquet"
    parquet = import_extra("pyarrow.parquet", "arrow", purpose, package="pyarrow", error=ReaderError)
    pa = import_extra("pyarrow", "arrow", purpose, error=ReaderError)
    try:
        file = parquet.ParquetFile(stream)
        names = [field.name for field in file.schema_arrow if not _is_skipped_type(pa.types, field.type)]
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ReaderError(f"{origin.name}: is not a valid Parquet file ({error}); write it again") from None
    if len(names) > _MAX_COLUMNS:
        raise ReaderError(f"{origin.name}: has {len(names):,} columns; the limit is {_MAX_COLUMNS:,}: remove some")
    origin.require_content(names and file.metadata.num_rows, "has no rows with text")
    try:
        yield from read_objects(enumerate(_iter_objects(file, names), 1), origin, options)
    except (pa.ArrowException, OSError) as error:
        raise ReaderError(f"{origin.name}: is damaged ({error}); write it again") from None


def _is_skipped_type(types: Any, type: Any) -> bool:
    """True if values of an Arrow type are bytes or vectors (lists of floats); ``types`` is ``pyarrow.types``."""
    if types.is_list(type) or types.is_large_list(type) or types.is_fixed_size_list(type):
        return bool(types.is_floating(type.value_type))
    return bool(types.is_binary(type) or types.is_large_binary(type) or types.is_fixed_size_binary(type))


def _iter_objects(file: Any, names: list[str]) -> Iterator[dict[str, JSON] | BadLineError]:
    """Yield the columns ``names`` of each row of a Parquet ``file`` as a JSON object.

    A row that JSON cannot express yields a BadLineError instead.
    """
    for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=names):
        for row in batch.to_pylist():
            try:
                yield {name: _to_json(value) for name, value in row.items()}
            except BadLineError as error:
                yield error


def _to_json(value: Any) -> JSON:
    """Convert a value of Arrow to JSON. Raises BadLineError for a value that JSON cannot express."""
    if isinstance(value, str):
        if "\0" in value:
            raise BadLineError("contains a NUL character; remove it")
        return value
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        if math.isinf(value):
            raise BadLineError("contains an infinite number; write null")
        return None if math.isnan(value) else value
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, (Decimal, timedelta)):
        return str(value)
    if isinstance(value, dict):
        return {str(name): _to_json(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_json(element) for element in value]
    raise BadLineError(f"contains a value of the type {type(value).__name__}, which JSON does not have; convert it")
