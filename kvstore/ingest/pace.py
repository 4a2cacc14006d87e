"""How fast an ingest goes, by the bytes of its files, and how long it will take yet.

In: the bytes that must be read, and those that are done as they are. Out: seconds left, at the pace of the last
:data:`WINDOW` seconds, so that a kind of file that takes longer than those before shows. The beginning, when models are
loaded, does not count: the pace is that after the first bytes. Nothing is said before :data:`SETTLING` seconds of it.
"""

from __future__ import annotations

import time
from collections import deque

WINDOW = 60.0
SETTLING = 3.0
#: Seconds between two points of the window.
_STEP = 0.25


class Pace:
    """The pace of one ingest; ``done`` bytes of ``total``."""

    def __init__(self) -> None:
        self.total = 0
        self._ended = 0
        self._within = 0
        self._points: deque[tuple[float, int]] = deque()

    @property
    def done(self) -> int:
        return self._ended + self._within

    def begin(self, total: int) -> None:
        """Nothing of ``total`` bytes is done."""
        self.total = total
        self._note()

    def within(self, size: int, most: int) -> None:
        """Some ``size`` bytes more of a file that has ``most`` are done."""
        self._within = min(self._within + size, most)
        self._note()

    def end(self, size: int) -> None:
        """A file of ``size`` bytes is done."""
        self._ended += size
        self._within = 0
        self._note()

    def seconds_left(self) -> float | None:
        """Seconds for the bytes that are left; None while nothing is known of the pace."""
        if self.done >= self.total:
            return 0.0
        if not self._points:
            return None
        start_time, start_bytes = self._points[0]
        seconds = time.monotonic() - start_time
        if seconds < SETTLING or self.done <= start_bytes:
            return None
        return seconds / (self.done - start_bytes) * (self.total - self.done)

    def _note(self) -> None:
        now = time.monotonic()
        if self._points and not self._points[-1][1] and self.done:
            self._points.clear()
        if not self._points or now - self._points[-1][0] >= _STEP:
            self._points.append((now, self.done))
        while len(self._points) > 1 and now - self._points[1][0] >= WINDOW:
            self._points.popleft()
