"""Python interface of the kernel; see folding.pyx."""

from collections.abc import Callable

def fold_pieces(
    text: str, folded: Callable[[str], tuple[bytes, list[int], int]], placed: bool = True
) -> tuple[bytes, bytes]: ...
