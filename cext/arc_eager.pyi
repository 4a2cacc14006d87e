"""Python interface of the kernel; see arc_eager.pyx."""

import numpy as np
import numpy.typing as npt

MOVE_LETTERS: str

def parse(
    rows: npt.NDArray[np.float32],
    bias: npt.NDArray[np.float32],
    upper: npt.NDArray[np.float32],
    upper_bias: npt.NDArray[np.float32],
    kinds: npt.NDArray[np.uint8],
    lengths: npt.NDArray[np.int32],
    heads: npt.NDArray[np.int32],
    labels: npt.NDArray[np.int32],
) -> None: ...
