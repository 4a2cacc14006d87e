"""The speed of an ingest in bytes, and the time it still needs. The speed is measured over a window of recent *points*:
a time, and the bytes done by then.

In: the bytes to read, and the bytes that are done. Out: the seconds left, at the speed of the last
:data:`WINDOW_SECONDS` seconds, so that a slower kind of file shows. The time before the first bytes, when models load,
does not count. No estimate is given before :data:`SETTLING_SECONDS` seconds.
"""

from __future__ import annotations

import time
from collections import deque
from typing import NamedTuple

WINDOW_SECONDS = 60.0
SETTLING_SECONDS = 3.0
#: The seconds between two points of the window.
_STEP_SECONDS = 0.25


class _PacePoint(NamedTuple):
    """A time, and the bytes done by then."""

    time: float
    bytes_done: int


class Pace:
    """The progress of one ingest in bytes, and an estimate of the time it still needs."""

    def __init__(self) -> None:
        """Create the progress of an ingest that has not started yet."""
        self.total_bytes = 0
        self._finished_bytes = 0  # of finished files
        self._current_bytes = 0  # of the current file
        self._points: deque[_PacePoint] = deque()

    @property
    def bytes_done(self) -> int:
        """The number of bytes read so far."""
        return self._finished_bytes + self._current_bytes

    def start(self, total_bytes: int) -> None:
        """Start the measurement of an ingest that has ``total_bytes`` bytes to read."""
        self.total_bytes = total_bytes
        self._add_point()

    def add_partial(self, size: int, file_size: int) -> None:
        """Count ``size`` more bytes of the current file as done, up to ``file_size`` in total."""
        self._current_bytes = min(self._current_bytes + size, file_size)
        self._add_point()

    def end_file(self, size: int) -> None:
        """Finish the current file, of ``size`` bytes."""
        self._finished_bytes += size
        self._current_bytes = 0
        self._add_point()

    def abandon_file(self, size: int) -> None:
        """End the current file, of ``size`` bytes, early, and subtract its unread bytes from the total."""
        self.total_bytes -= size - self._current_bytes
        self.end_file(self._current_bytes)

    def estimate_seconds_left(self) -> float | None:
        """Return the estimated seconds for the remaining bytes, at the speed of the last ``WINDOW_SECONDS`` seconds.

        Return 0 if no bytes remain, and None if the speed is unknown.
        """
        if self.bytes_done >= self.total_bytes:
            return 0.0
        if not self._points:
            return None
        first = self._points[0]
        seconds, recent_bytes = time.monotonic() - first.time, self.bytes_done - first.bytes_done
        if seconds < SETTLING_SECONDS or recent_bytes <= 0:
            return None
        return seconds / recent_bytes * (self.total_bytes - self.bytes_done)

    def _add_point(self) -> None:
        """Record the time and the bytes done by then as a point, from which the speed is computed.

        At most one point is recorded per ``_STEP_SECONDS`` seconds. Points older than ``WINDOW_SECONDS`` are dropped.
        Points before the first bytes are also dropped, so that the speed excludes the start of the workers.
        """
        now = time.monotonic()
        if self._points and not self._points[-1].bytes_done and self.bytes_done:
            self._points.clear()
        if not self._points or now - self._points[-1].time >= _STEP_SECONDS:
            self._points.append(_PacePoint(now, self.bytes_done))
        while len(self._points) > 1 and now - self._points[1].time >= WINDOW_SECONDS:
            self._points.popleft()
