"""What the kernel offers to Python; see msgpack_rows.pyx."""

from collections.abc import Iterable, Mapping

Value = bytes | memoryview

def elements(value: Value, places: Iterable[int]) -> list[bytes | None]: ...
def with_elements(value: Value, changed: Mapping[int, bytes | None]) -> bytes | None: ...
