"""Python interface of the kernel; see compact.pyx."""

from collections.abc import Iterable, Mapping, Sequence, Set

Payload = bytes | memoryview
Changes = dict[int, tuple[Sequence[int], Sequence[int]]]

def unpack_numbers(first: int, payload: Payload) -> bytes: ...
def pack_numbers(numbers: Iterable[int]) -> bytes: ...
def locate_last_blocks(changes: Changes) -> list[tuple[bytes, bytes]]: ...
def change_blocks(
    changes: Changes,
    blocks: Sequence[tuple[bytes, Payload] | None],
    max_numbers: int,
    min_numbers: int,
    written: dict[bytes, bytes | None],
) -> tuple[list[tuple[int, int]], Changes, dict[int, tuple[bytes, int]]]: ...

class EdgeChanges:
    def __init__(self, label_bits: int, chunk_shift: int) -> None: ...
    def change_row(
        self,
        chunk: int,
        key: bytes,
        value: Payload | None,
        new_edges: Mapping[int, int],
        removed_entities: Set[int],
        kept_labels: int,
        written: dict[bytes, bytes | None],
    ) -> None: ...
    def __len__(self) -> int: ...
    def take(self, max_entities: int) -> dict[int, tuple[list[int], list[int]]]: ...
