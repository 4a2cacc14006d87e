"""A file without a name, for data that a process would otherwise hold in memory during a large build.

In: bytes, appended. Out: the bytes of some ranges. The file is in the store's directory, or in the system's temporary
directory if that is not writable. It disappears with its process. Data read from it does not count as memory of the
process, unlike mapped pages.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from pathlib import Path

#: Bytes that are collected before they are written.
_BUFFER_BYTES = 1 << 16


class ScratchFile:
    """An append-only sequence of bytes. Writing raises OSError, for instance if the disk is full."""

    def __init__(self, folder: Path | None = None) -> None:
        """Create the file in ``folder``, or in the system's temporary folder if ``folder`` is not writable."""
        is_writable = folder is not None and os.access(folder, os.W_OK)  # not for a read-only store
        # The file has no name. The copy of its descriptor keeps it after the block.
        with tempfile.TemporaryFile(dir=folder if is_writable else None) as file:
            self._descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._descriptor)
        self._buffer = bytearray()  # appended bytes that are not in the file yet
        self._num_written = 0  # the size of the file in bytes

    def __len__(self) -> int:
        """Return the number of appended bytes."""
        return self._num_written + len(self._buffer)

    def append(self, data: bytes | memoryview) -> None:
        """Append bytes to the file; they can be read immediately."""
        self._buffer += data
        if len(self._buffer) >= _BUFFER_BYTES:
            self._flush_buffer()

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes from offset ``start`` to offset ``end``, exclusive."""
        if self._buffer:
            self._flush_buffer()
        return os.pread(self._descriptor, end - start, start)

    def _flush_buffer(self) -> None:
        """Write the collected bytes to the file."""
        unwritten_bytes = memoryview(bytes(self._buffer))
        self._num_written += len(unwritten_bytes)
        self._buffer.clear()
        while unwritten_bytes:
            unwritten_bytes = unwritten_bytes[os.write(self._descriptor, unwritten_bytes) :]
