"""Records of whole numbers, many read at once.

In: sealed msgpack arrays of equally many integers, as :func:`~kvstore.storage.records.pack` writes them. Out: an array,
a row a record; nil is -1. A record that is damaged, or has other than so many numbers, is a CorruptionError.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kvstore_cext.msgpack_rows import read_numbers

from ..errors import CorruptionError
from . import records


def unpack_numbers(
    values: list[memoryview | None], table: str, keys: Sequence[bytes], columns: int
) -> npt.NDArray[np.int64]:
    """The records of keys, shape (n, columns); raises CorruptionError for one that is damaged or None."""
    rows = np.empty((len(values), columns), np.int64)
    bad_index = read_numbers(values, rows)
    if bad_index >= 0:
        key, value = keys[bad_index], values[bad_index]
        if value is None:
            raise CorruptionError(f"table {table}, key {key.hex()}: referred to but not stored; run CHECK")
        records.unpack(value, table, key)
        raise CorruptionError(f"table {table}, key {key.hex()}: not {columns} whole numbers; run CHECK REPAIR")
    return rows
