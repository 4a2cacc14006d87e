"""Records of integers, read in bulk.

In: sealed msgpack arrays of equally many integers, as :func:`~kvstore.storage.records.pack` writes them. Out: an array
with one row per record; nil is -1. A record that is damaged, or has another number of integers, raises CorruptionError.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kvstore_cext.msgpack_rows import read_numbers

from ..errors import CorruptionError
from . import records


def unpack_numbers(
    values: list[memoryview | None], table: str, keys: Sequence[bytes], num_columns: int
) -> npt.NDArray[np.int64]:
    """Decode the records of keys, shape (n, columns); raise CorruptionError if one is damaged or missing."""
    rows = np.empty((len(values), num_columns), np.int64)
    bad_index = read_numbers(values, rows)
    if bad_index >= 0:
        key, value = keys[bad_index], values[bad_index]
        if value is None:
            raise records.make_missing_error(f"table {table}: key {key.hex()}")
        records.unpack(value, table, key)
        raise CorruptionError(f"table {table}, key {key.hex()}: not a list of {num_columns} integers; run CHECK REPAIR")
    return rows
