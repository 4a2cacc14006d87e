"""Python interface of the kernel; see mentions.pyx."""

from collections.abc import Callable, Collection, Iterable

def count_spellings(
    text: bytes,
    mentions: Iterable[tuple[int, int, int]],
    excluded: Collection[str],
    classify_form: Callable[[bytes], tuple[bool, bool]],
    max_counts: tuple[int, int, int],
    shifts: tuple[int, int, int],
) -> dict[int, int]: ...
def select_outermost_mentions(rows: list[memoryview | None]) -> list[bytes]: ...
