"""Python interface of the kernel; see hierarchy.pyx."""

from collections.abc import Callable, Iterable

class Places:
    def __init__(self, relatives: int, most: int) -> None: ...
    def sentences(
        self, nodes: Iterable[int], load: Callable[[int], tuple[bytes, bytes, tuple[int, ...], tuple[int, ...]]]
    ) -> list[str]: ...
