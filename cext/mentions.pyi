"""Python interface of the kernel; see mentions.pyx."""

from collections.abc import Callable, Collection, Iterable

def count_spellings(
    text: bytes,
    mentions: Iterable[tuple[int, int, int]],
    leaving_out: Collection[str],
    written_as: Callable[[bytes], tuple[bool, bool]],
    most: tuple[int, int, int],
    shifts: tuple[int, int, int],
) -> dict[int, int]: ...
def select_outermost_mentions(rows: list[memoryview | None]) -> list[bytes]: ...
