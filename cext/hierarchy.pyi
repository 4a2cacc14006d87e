"""Python interface of the kernel; see hierarchy.pyx."""

from collections.abc import Callable, Iterable

class NodeSentences:
    def __init__(self, max_relatives: int, max_nodes: int) -> None: ...
    def describe(
        self, nodes: Iterable[int], load: Callable[[int], tuple[bytes, bytes, tuple[int, ...], tuple[int, ...]]]
    ) -> list[str]: ...
