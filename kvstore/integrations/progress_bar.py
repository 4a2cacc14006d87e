"""A progress bar for notebooks, without widgets, scripts or further packages.

In: the progress of an ingest, an index or an extraction, at every report. Out: one output of the cell, which is updated
at most four times a second; outside of IPython, one line on standard error.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from .. import ExtractionProgress, IndexProgress, IngestProgress
from ..arguments import format_count
from ..rendering.markup import escape

_UPDATE_SECONDS = 0.25


class ProgressBar:
    """A function for ``progress=`` of ``ingest``, ``create_index``, ``refresh``, ``extract`` and ``execute``.

    >>> bar = ProgressBar()
    >>> bar.update(IndexProgress("topics", 1, 4))
    >>> print(bar)
    topics: 1 of 4 steps
    """

    def __init__(self) -> None:
        """Create a bar without progress; it is displayed at the first report."""
        self._text = "0 files"
        self._fraction = 0.0
        self._next_time = 0.0
        self._display: Any = None

    def __call__(self, progress: IngestProgress | IndexProgress | ExtractionProgress) -> None:
        """Record the progress. Display it at most four times a second, and always at the end."""
        self.update(progress)
        now = time.monotonic()
        if now >= self._next_time or progress.done == progress.total:
            self._next_time = now + _UPDATE_SECONDS
            self._show()

    def update(self, progress: IngestProgress | IndexProgress | ExtractionProgress) -> None:
        """Record the progress without displaying it."""
        done, total = progress.done, progress.total
        if isinstance(progress, IngestProgress):
            self._text = (
                f"{done:,} of {format_count(total, 'file')}, {format_count(progress.documents, 'document')}, "
                f"{format_count(progress.chunks, 'chunk')}"
            )
            if progress.bytes:  # bytes progress more evenly than files
                done, total = progress.bytes_done, progress.bytes
            seconds = progress.seconds_left
            if seconds is not None and done < total:
                self._text += f", {seconds:.0f} s left" if seconds < 90 else f", {seconds / 60:.0f} min left"
        else:
            unit = progress.unit if isinstance(progress, IndexProgress) else "requests"
            self._text = f"{progress.kind}: {done:,} of {total:,} {unit}"
        self._fraction = min(1.0, done / total) if total else 1.0

    def __str__(self) -> str:
        """Return the progress as text, without a bar."""
        return self._text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook displays."""
        return f'<div><progress value="{self._fraction:.3f}" max="1"></progress> {escape(self._text)}</div>'

    def _show(self) -> None:
        """Display the bar, or update the displayed bar; outside of IPython, print the text to standard error."""
        ipython = sys.modules.get("IPython")
        if ipython is None or ipython.get_ipython() is None:
            end = "\n" if self._fraction == 1 else ""
            print(f"\r{self._text}\x1b[K", end=end, file=sys.stderr, flush=True)  # the code clears the rest of the line
        elif self._display is None:
            self._display = ipython.display.display(self, display_id=True)
        else:
            self._display.update(self)
