import numpy as np
import numpy.typing as npt

NONE: int
CODE_MULTIPLE: int

Starts = npt.NDArray[np.uint32] | npt.NDArray[np.uint64]

def pack_links(
    links: npt.NDArray[np.uint32], bounds: npt.NDArray[np.uint32], upper: npt.NDArray[np.uint32]
) -> tuple[Starts, npt.NDArray[np.uint8]]: ...
def unpack_links(
    starts: Starts,
    data: npt.NDArray[np.uint8],
    links: npt.NDArray[np.uint32],
    bounds: npt.NDArray[np.uint32],
    upper: npt.NDArray[np.uint32],
) -> None: ...
def compute_checksums(
    labels: npt.NDArray[np.uint64],
    codes: npt.NDArray[np.int8],
    scales: npt.NDArray[np.float32],
    starts: Starts,
    links: npt.NDArray[np.uint8],
) -> npt.NDArray[np.uint32]: ...

class CodeGraph:
    def __init__(
        self,
        labels: npt.NDArray[np.uint64],
        codes: npt.NDArray[np.int8],
        scales: npt.NDArray[np.float32],
        starts: Starts,
        links: npt.NDArray[np.uint8],
        checks: npt.NDArray[np.uint32],
        entry: int,
    ) -> None: ...
    def search(
        self,
        query: npt.NDArray[np.float32],
        ef: int,
        groups: npt.NDArray[np.uint8] | None = None,
        group_size: int = 1,
    ) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.float32], npt.NDArray[np.float32]]: ...
    def compare(
        self,
        query: npt.NDArray[np.float32],
        limit: int,
        starts: npt.NDArray[np.int64],
        stops: npt.NDArray[np.int64],
        groups: npt.NDArray[np.uint8] | None = None,
        group_size: int = 1,
    ) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.float32], npt.NDArray[np.float32]]: ...
    def verify(self) -> None: ...

class CodeGraphBuilder:
    def __init__(
        self,
        labels: npt.NDArray[np.uint64],
        codes: npt.NDArray[np.int8],
        scales: npt.NDArray[np.float32],
        links: npt.NDArray[np.uint32],
        bounds: npt.NDArray[np.uint32],
        upper: npt.NDArray[np.uint32],
        *,
        linked: int = 0,
        entry: int = 0,
        ef_construction: int = 200,
    ) -> None: ...
    @property
    def entry(self) -> int: ...
    def link_nodes(self, count: int) -> int: ...
