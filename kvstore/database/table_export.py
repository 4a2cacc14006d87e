"""Export of one table to an Apache Parquet or Arrow file, for other programs and embedding viewers.

In: one state of the store, and the name of an SQL table. Out: a new file with the table's columns and rows in order:
TEXT as strings, INTEGER as 64-bit integers, REAL as doubles. The file of ``chunks`` also has the hidden ``vector``
column: a list of 32-bit floats, one per dimension of the embedder. Its ``embedder`` metadata key names the embedder.
The file is written batch by batch, in bounded memory, and appears complete or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any

from ..errors import InputError
from ..extensions.extras import import_extra
from ..registry.sql_table import SqlTable, SqlValue
from ..registry.table_reader import TableReader
from ..rendering.columnar import ARROW_TYPES, to_column_text
from ..sql.document_tables import CHUNKS
from ..sql.table_catalog import get_sql_table
from ..storage.new_file import create_file_atomically
from ..structures.state import State
from .exchange import TABLE_SUFFIXES

VECTOR_COLUMN = "vector"
#: Rows written at once, as a Parquet row group or an Arrow record batch.
_BATCH_ROWS = 8192

_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "string": to_column_text,
    "int64": lambda value: None if value is None else int(value),
}


def export_table(reader: TableReader, name: str, path: str | os.PathLike[str]) -> int:
    """Write a table to a new file; return the number of rows.

    Raises InputError for an unknown table, a suffix other than ``.parquet`` or ``.arrow``, or an existing path;
    MissingExtraError without pyarrow; StoreFullError if the file cannot be written.
    """
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in TABLE_SUFFIXES:
        raise InputError(f"{target}: unsupported file type; choose a name that ends in {' or '.join(TABLE_SUFFIXES)}")
    table = get_sql_table(name)
    pa = import_extra("pyarrow", "arrow", f"a {suffix} file")
    schema = _build_schema(pa, table, reader.state)
    rows = 0
    with (
        create_file_atomically(target) as partial_path,
        partial_path.open("wb") as file,
        open_table_writer(suffix, file, schema) as writer,
    ):
        for batch in _iter_batches(pa, reader, table, schema):
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


@contextmanager
def open_table_writer(suffix: str, file: IO[bytes], schema: Any) -> Iterator[Any]:
    """Open a writer of rows of an Arrow ``schema``: Parquet for the suffix ``.parquet``, else Arrow.

    Raises MissingExtraError without pyarrow.
    """
    if suffix == ".parquet":
        parquet = import_extra("pyarrow.parquet", "arrow", "a .parquet file")
        with parquet.ParquetWriter(file, schema) as writer:
            yield writer
    else:
        with import_extra("pyarrow.ipc", "arrow", "an .arrow file").new_file(file, schema) as writer:
            yield writer


def _build_schema(pa: Any, table: SqlTable, state: State) -> Any:
    """Return the Arrow schema of a table; the ``chunks`` table also gets the vectors. ``pa`` is the module pyarrow."""
    fields = [(name, pa.type_for_alias(ARROW_TYPES.get(kind, "string"))) for name, (kind, _) in table.columns.items()]
    if table is not CHUNKS:
        return pa.schema(fields)
    vectors = (VECTOR_COLUMN, pa.list_(pa.float32(), state.settings.dimension))
    return pa.schema([*fields, vectors], metadata={"embedder": state.settings.embedder})


def _iter_batches(pa: Any, reader: TableReader, table: SqlTable, schema: Any) -> Iterator[Any]:
    """Yield the rows of a table as Arrow record batches of its Arrow ``schema``. ``pa`` is the module pyarrow."""
    rows = table.scan(reader)
    while batch := list(islice(rows, _BATCH_ROWS)):
        records = [table.load(reader, row) for row in batch]
        arrays = []
        # A column is (SQL type, function that reads its value). The schema of ``chunks`` also has a field for vectors.
        for field, (_, read_value) in zip(schema, table.columns.values(), strict=False):
            convert: Callable[[SqlValue], Any] = _CONVERTERS.get(str(field.type), lambda value: value)
            values = [convert(read_value(reader, row, record)) for row, record in zip(batch, records, strict=True)]
            arrays.append(pa.array(values, type=field.type))
        if table is CHUNKS:
            # The vector of a chunk is stored in a row of a block.
            vectors = reader.state.vectors.gather([(record.block, record.row) for record in records])
            arrays.append(pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1]))
        yield pa.record_batch(arrays, schema=schema)
