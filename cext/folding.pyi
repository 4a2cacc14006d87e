"""Python interface of the kernel; see folding.pyx."""

from collections.abc import Callable

def fold_pieces(
    text: str, fold_piece: Callable[[str], tuple[bytes, list[int], int]], with_offsets: bool = True
) -> tuple[bytes, bytes]: ...
