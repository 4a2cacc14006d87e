"""Python interface of the kernel; see msgpack_rows.pyx."""

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

Value = bytes | memoryview

def read_elements(value: Value, positions: Iterable[int]) -> list[bytes | None]: ...
def replace_elements(value: Value, replacements: Mapping[int, bytes | None]) -> bytes | None: ...
def read_numbers(values: list[memoryview | None], out: npt.NDArray[np.int64], nil: int = -1) -> int: ...
