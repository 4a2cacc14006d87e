import numpy as np
import numpy.typing as npt

def row_products(x: npt.NDArray[np.float32], w: npt.NDArray[np.float32], out: npt.NDArray[np.float32]) -> None: ...
