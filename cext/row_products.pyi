import numpy as np
import numpy.typing as npt

def compute_row_products(
    x: npt.NDArray[np.float32], w: npt.NDArray[np.float32], out: npt.NDArray[np.float32]
) -> None: ...
def compute_row_dots(x: npt.NDArray[np.float32], y: npt.NDArray[np.float32], out: npt.NDArray[np.float32]) -> None: ...
def compute_selected_row_dots(
    x: npt.NDArray[np.float32],
    rows: npt.NDArray[np.int64],
    y: npt.NDArray[np.float32],
    out: npt.NDArray[np.float32],
) -> None: ...
