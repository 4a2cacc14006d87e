"""Python interface of the kernel; see mentions.pyx."""

from collections.abc import Callable, Collection, Iterable

def counted_mentions(
    text: bytes,
    mentions: Iterable[tuple[int, int, int]],
    leaving_out: Collection[str],
    written_as: Callable[[bytes], tuple[bool, bool]],
    most: tuple[int, int, int],
    shifts: tuple[int, int, int],
) -> dict[int, int]: ...
def outermost_mentions(rows: list[memoryview | None]) -> list[bytes]: ...
