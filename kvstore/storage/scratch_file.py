"""A file without a name, for what a process would else hold in memory while it makes something large.

In: bytes, one after another. Out: the bytes at some places. It lies in the folder of the store, or where the system has
such files if nothing can be written there, and is gone with whoever made it. What is read of it is no memory of the
process, as pages that are mapped are.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from pathlib import Path

#: Bytes that are gathered before they are written.
_BUFFER_BYTES = 1 << 16


class ScratchFile:
    """Bytes that were written one after another. Writing raises OSError, where the disk is full for instance."""

    def __init__(self, folder: Path | None = None) -> None:
        writable = folder is not None and os.access(folder, os.W_OK)  # a store that is only read may be where none is
        with tempfile.TemporaryFile(dir=folder if writable else None) as file:
            self._descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._descriptor)
        self._buffer = bytearray()
        self._num_written = 0

    def __len__(self) -> int:
        return self._num_written + len(self._buffer)

    def append(self, data: bytes | memoryview) -> None:
        """Write more at the end."""
        self._buffer += data
        if len(self._buffer) >= _BUFFER_BYTES:
            self._flush_buffer()

    def read(self, start: int, end: int) -> bytes:
        """Bytes ``start`` to ``end``."""
        if self._buffer:
            self._flush_buffer()
        return os.pread(self._descriptor, end - start, start)

    def _flush_buffer(self) -> None:
        remaining = memoryview(bytes(self._buffer))
        self._num_written += len(remaining)
        self._buffer.clear()
        while remaining:
            remaining = remaining[os.write(self._descriptor, remaining) :]
