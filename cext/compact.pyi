"""What the kernel offers to Python; see compact.pyx."""

from collections.abc import Iterable, Sequence

Payload = bytes | memoryview

def unpack_numbers(first: int, payload: Payload) -> bytes: ...
def pack_numbers(numbers: Iterable[int]) -> bytes: ...
def change_numbers(
    first: int | None, payload: Payload | None, gone: Iterable[int], added: Sequence[int], most: int
) -> tuple[list[tuple[int, bytes]], int, int, int]: ...
