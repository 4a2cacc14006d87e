"""What the kernel offers to Python; see compact.pyx."""

from collections.abc import Iterable, Sequence

Payload = bytes | memoryview

def unpack_numbers(first: int, payload: Payload) -> bytes: ...
def pack_numbers(numbers: Iterable[int]) -> bytes: ...
def change_numbers(
    first: int | None, payload: Payload | None, gone: Iterable[int], added: Sequence[int], most: int
) -> tuple[list[tuple[int, bytes]], int, int, int]: ...
def count_postings(payload: Payload) -> int: ...
def unpack_postings(first: int, payload: Payload) -> tuple[bytes, bytes, bytes]: ...
def change_postings(
    first: int | None,
    payload: Payload | None,
    gone: Iterable[int],
    added: Iterable[tuple[int, int, int]],
    most: int,
) -> list[tuple[int, bytes]]: ...
