"""Python interface of the kernel; see mentions.pyx."""

from collections.abc import Callable, Collection, Container, Iterable
from typing import TypeVar

Payload = bytes | memoryview
Mention = TypeVar("Mention", bound=tuple[int, int, int])

def count_spellings(
    text: bytes,
    mentions: Iterable[tuple[int, int, int]],
    excluded: Collection[str],
    classify_form: Callable[[bytes], tuple[bool, bool]],
    max_counts: tuple[int, int, int],
    shifts: tuple[int, int, int],
) -> dict[int, int]: ...
def unpack_mentions(value: Payload, kind: type[Mention]) -> list[Mention]: ...
def select_outermost_mentions(rows: list[Payload | None]) -> list[bytes]: ...
def pack_mentions(mentions: Iterable[tuple[int, int, int]]) -> bytes | None: ...
def remove_mentions(
    rows: list[Payload | None], removed: Container[int]
) -> list[tuple[bytes | None, set[int], bool] | None]: ...
def collect_groups(
    chunks: Iterable[int], rows: list[Payload | None], group_size: int, addends: tuple[int, ...]
) -> dict[int, list[int]]: ...
