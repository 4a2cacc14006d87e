"""Python interface of the kernel; see patches.pyx."""

from collections.abc import Callable, Iterable, Mapping

Value = bytes | bytearray | memoryview

def make_patch(old: Value, new: Value) -> bytes | None: ...
def apply_patch(old: Value, patch: Value) -> bytes: ...

#: The changes of a record in the segments; None if the record is removed.
Chain = bytes | None

def apply_chain(chain: Chain, stored: Value | None) -> Value | None: ...
def record_changes(
    changes: Mapping[bytes, Value | None],
    newer: Mapping[bytes, Chain],
    older: Mapping[bytes, Chain],
    stored: Callable[[bytes], Value | None],
    max_pieces: int,
    pieces: dict[bytes, Chain],
    chains: dict[bytes, Chain],
) -> int: ...
def apply_chains(
    keys: Iterable[bytes],
    newer: Mapping[bytes, Chain],
    older: Mapping[bytes, Chain],
    stored: Callable[[bytes], memoryview | None],
) -> list[memoryview | None]: ...
def find_last_keys(ranges: list[tuple[bytes, bytes]], key_lists: tuple[list[bytes], ...]) -> list[bytes | None]: ...
def add_pieces(newer: dict[bytes, Chain], older: Mapping[bytes, Chain], pieces: Mapping[bytes, Chain]) -> None: ...
