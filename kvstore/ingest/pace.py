"""How fast an ingest goes, by the bytes of its files, and how long it will take yet.

In: the bytes that must be read, and those that are done as they are. Out: seconds left, at the pace of the last
:data:`WINDOW_SECONDS` seconds, so that a kind of file that takes longer than those before shows. The beginning, when models are
loaded, does not count: the pace is that after the first bytes. Nothing is said before :data:`SETTLING_SECONDS` seconds of it.
"""

from __future__ import annotations

import time
from collections import deque

WINDOW_SECONDS = 60.0
SETTLING_SECONDS = 3.0
#: Seconds between two points of the window.
_STEP_SECONDS = 0.25


class Pace:
    """The pace of one ingest; ``done`` bytes of ``total``."""

    def __init__(self) -> None:
        self.total = 0
        self._bytes_ended = 0
        self._bytes_within = 0
        self._points: deque[tuple[float, int]] = deque()

    @property
    def done(self) -> int:
        return self._bytes_ended + self._bytes_within

    def start(self, total: int) -> None:
        """Nothing of ``total`` bytes is done."""
        self.total = total
        self._add_point()

    def add_partial(self, size: int, file_size: int) -> None:
        """Some ``size`` bytes more of a file that has ``file_size`` are done."""
        self._bytes_within = min(self._bytes_within + size, file_size)
        self._add_point()

    def end_file(self, size: int) -> None:
        """A file of ``size`` bytes is done."""
        self._bytes_ended += size
        self._bytes_within = 0
        self._add_point()

    def seconds_left(self) -> float | None:
        """Seconds for the bytes that are left; None while nothing is known of the pace."""
        if self.done >= self.total:
            return 0.0
        if not self._points:
            return None
        start_time, start_bytes = self._points[0]
        seconds = time.monotonic() - start_time
        if seconds < SETTLING_SECONDS or self.done <= start_bytes:
            return None
        return seconds / (self.done - start_bytes) * (self.total - self.done)

    def _add_point(self) -> None:
        now = time.monotonic()
        if self._points and not self._points[-1][1] and self.done:
            self._points.clear()
        if not self._points or now - self._points[-1][0] >= _STEP_SECONDS:
            self._points.append((now, self.done))
        while len(self._points) > 1 and now - self._points[1][0] >= WINDOW_SECONDS:
            self._points.popleft()
