import numpy as np
import numpy.typing as npt

NONE: int
MAX_COMPARED_NODES: int

def compute_checksums(layers: npt.NDArray[np.uint32], vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.uint32]: ...

class LayeredGraph:
    def __init__(
        self,
        layers: npt.NDArray[np.uint32],
        vectors: npt.NDArray[np.float32],
        links0: npt.NDArray[np.uint32],
        links: npt.NDArray[np.uint32],
        down: npt.NDArray[np.uint32],
        entry: npt.NDArray[np.uint32],
        checks: npt.NDArray[np.uint32],
        bounds: npt.NDArray[np.uint32],
        members: npt.NDArray[np.uint32],
    ) -> None: ...
    def search(
        self,
        query: npt.NDArray[np.float32],
        counts: npt.NDArray[np.int64],
        ef: int,
        *,
        follow_links_down: bool = True,
        max_compared_nodes: int = ...,
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.float32], npt.NDArray[np.int64], int]: ...

class LayeredGraphBuilder:
    def __init__(
        self,
        layers: npt.NDArray[np.uint32],
        vectors: npt.NDArray[np.float32],
        order: npt.NDArray[np.uint32],
        m: int = 16,
        ef_construction: int = 100,
    ) -> None: ...
    def link_nodes(self, count: int) -> int: ...
    def build_arrays(
        self,
    ) -> tuple[
        npt.NDArray[np.uint32],
        npt.NDArray[np.uint32],
        npt.NDArray[np.uint32],
        npt.NDArray[np.uint32],
        npt.NDArray[np.uint32],
    ]: ...
