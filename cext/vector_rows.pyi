"""Python interface of the kernel; see vector_rows.pyx."""

import numpy as np
import numpy.typing as npt

def gather_rows(
    blocks: list[memoryview | None],
    size: int,
    encoding: bytes,
    rows_of_block: int,
    quantized: bool,
    verified: npt.NDArray[np.uint64],
    block_indexes: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    order: npt.NDArray[np.int64],
    out: npt.NDArray[np.float32],
) -> int: ...
def read_used_rows(
    blocks: list[memoryview],
    size: int,
    encoding: bytes,
    rows_of_block: int,
    quantized: bool,
    verified: npt.NDArray[np.uint64],
    ids: npt.NDArray[np.uint64],
    out: npt.NDArray[np.float32],
) -> tuple[int, int]: ...
