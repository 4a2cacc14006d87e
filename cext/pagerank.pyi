import numpy as np
import numpy.typing as npt

class ForwardPush:
    pushes: int
    rows: int
    work: float
    def __init__(
        self,
        seeds: npt.NDArray[np.uint64],
        masses: npt.NDArray[np.float64],
        sizes: npt.NDArray[np.float64],
        restart: float,
        epsilon: float,
    ) -> None: ...
    def add_rows(
        self,
        nodes: npt.NDArray[np.uint64],
        bounds: npt.NDArray[np.int64],
        neighbors: npt.NDArray[np.uint64],
        weights: npt.NDArray[np.float64],
        sizes: npt.NDArray[np.float64],
    ) -> None: ...
    def run(self) -> npt.NDArray[np.uint64]: ...
    def get_masses(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.float64], float]: ...
    def get_predecessors(self, node: int) -> npt.NDArray[np.uint64]: ...
