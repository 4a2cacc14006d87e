"""Python interface of the kernel; see patches.pyx."""

from collections.abc import Callable, Iterable, Mapping

Value = bytes | bytearray | memoryview

def patch(old: Value, new: Value) -> bytes | None: ...
def patched(old: Value, patch: Value) -> bytes: ...

#: The changes of a record in the segments; None if the record is removed.
Chain = bytes | None

def value_of(chain: Chain, stored: Value | None) -> Value | None: ...
def say_many(
    changes: Mapping[bytes, Value | None],
    newer: Mapping[bytes, Chain],
    older: Mapping[bytes, Chain],
    stored: Callable[[bytes], Value | None],
    most: int,
    pieces: dict[bytes, Chain],
    chains: dict[bytes, Chain],
) -> int: ...
def values_of(
    keys: Iterable[bytes],
    newer: Mapping[bytes, Chain],
    older: Mapping[bytes, Chain],
    stored: Callable[[bytes], Value | None],
) -> list[Value | None]: ...
def add_pieces(newer: dict[bytes, Chain], older: Mapping[bytes, Chain], pieces: Mapping[bytes, Chain]) -> None: ...
