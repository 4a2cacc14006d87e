"""The progress of an ingest, an index, an EXTRACT or an evaluation: one line, or an occasional line in a log.

In: :class:`kvstore.IngestProgress`, :class:`kvstore.IndexProgress` or :class:`kvstore.ExtractionProgress`, or a number
of questions, at every report. Out: text on a stream, drawn at most ten times a second on a terminal and every ten
seconds elsewhere.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from .layout import measure_width, to_printable, truncate
from .masking import MaskedStream

if TYPE_CHECKING:
    from kvstore import ExtractionProgress, IndexProgress, IngestProgress

# The modules of these classes are large, and most statements report no progress: they are imported on first use.

_REDRAW_SECONDS = 0.1
_REPEAT_SECONDS = 10.0
_BAR_WIDTH = 20


class ProgressLine:
    """A line that shows the progress of a statement; call ``close`` before writing anything else to the stream."""

    def __init__(self, stream: TextIO | MaskedStream, *, silent: bool = False) -> None:
        """Create a progress line on ``stream``; with ``silent``, nothing is written."""
        # The line needs carriage returns, so the stream is unmasked; text from documents is masked in the line itself.
        self._stream = stream.unmasked_stream if isinstance(stream, MaskedStream) else stream
        self._silent = silent
        self._is_terminal = stream.isatty()
        self._next_time = 0.0 if self._is_terminal else time.monotonic() + _REPEAT_SECONDS
        self._drawn_width = 0  # cells
        self._last_progress: IngestProgress | IndexProgress | ExtractionProgress | None = None

    def show(self, progress: IngestProgress | IndexProgress | ExtractionProgress) -> None:
        """Record the progress, and draw the line, at most every 0.1 seconds (without a terminal: every 10 seconds)."""
        self._last_progress = progress
        self._show_if_due(lambda has_bar: _format_progress(progress, has_bar=has_bar))

    def show_questions(self, label: str, done: int, total: int) -> None:
        """Draw the number of questions that an evaluation has asked, ``done`` of ``total``, as often as :meth:`show`.

        ``label`` names the setting that is evaluated.
        """
        self._show_if_due(
            lambda has_bar: f"{_format_bar(done, total) if has_bar else ''}{label}: {done:,} of {total:,} questions"
        )

    def _show_if_due(self, format_line: Callable[[bool], str]) -> None:
        """Write a line, cut to the width of a terminal, if enough time has passed since the last one.

        ``format_line`` returns the line; its argument is True on a terminal, which also shows a progress bar.
        """
        if self._silent or time.monotonic() < self._next_time:
            return
        self._next_time = time.monotonic() + (_REDRAW_SECONDS if self._is_terminal else _REPEAT_SECONDS)
        if self._is_terminal:
            width = shutil.get_terminal_size().columns
            self._draw(truncate(format_line(True), width - 1))
        else:
            self._stream.write(format_line(False) + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Clear the line from the terminal."""
        if self._drawn_width:
            self._draw("")
            self._stream.flush()

    @property
    def is_resumable(self) -> bool:
        """True if the last progress was of an ingest or EXTRACT, which continues where it stopped if run again."""
        from kvstore import ExtractionProgress, IngestProgress

        return isinstance(self._last_progress, IngestProgress | ExtractionProgress)

    @property
    def resumable_index(self) -> str | None:
        """The index that was being built, such as ``topics``, if its finished work is kept, so that REFRESH continues.

        None if no index was interrupted, or if its work is lost.
        """
        from kvstore import IndexProgress

        progress = self._last_progress
        return progress.kind if isinstance(progress, IndexProgress) and progress.kept else None

    def describe_saved_progress(self) -> str:
        """Return a clause that says how much work of an interrupted ingest, index or EXTRACT is kept.

        It is part of a message for the user, such as "12 documents are committed and kept (40 chunks)".
        """
        from kvstore import ExtractionProgress, IndexProgress
        from kvstore.language import format_count

        if isinstance(self._last_progress, IndexProgress):
            done, total = f"{self._last_progress.done:,}", f"{self._last_progress.total:,} {self._last_progress.unit}"
            return f"{done} of {total} are done and will not be repeated"
        if isinstance(self._last_progress, ExtractionProgress):
            return (
                f"what the model wrote in {self._last_progress.done:,} of "
                f"{format_count(self._last_progress.total, 'request')} is kept"
            )
        if self._last_progress is None or not self._last_progress.documents:
            return "nothing was committed"
        documents, chunks = self._last_progress.documents, self._last_progress.chunks
        noun_phrase = "document is" if documents == 1 else "documents are"
        return f"{documents:,} {noun_phrase} committed and kept ({format_count(chunks, 'chunk')})"

    def _draw(self, text: str) -> None:
        """Replace the drawn line with ``text``; spaces overwrite a longer line, which works on every terminal."""
        self._stream.write(f"\r{text}{' ' * (self._drawn_width - measure_width(text))}\r{text}")
        self._drawn_width = measure_width(text)


def _format_progress(progress: IngestProgress | IndexProgress | ExtractionProgress, *, has_bar: bool) -> str:
    """Return the progress as one line, which begins with a progress bar if ``has_bar``."""
    from kvstore import ExtractionProgress, IndexProgress, IngestProgress
    from kvstore.language import format_count

    done, total = progress.done, progress.total
    if isinstance(progress, IngestProgress) and progress.bytes:
        done, total = progress.bytes_done, progress.bytes
    bar = _format_bar(done, total) if has_bar else ""
    if isinstance(progress, IndexProgress):
        return f"{bar}index {progress.kind}: {progress.done:,} of {progress.total:,} {progress.unit}"
    if isinstance(progress, ExtractionProgress):
        return (
            f"{bar}{progress.kind}: {done:,} of {format_count(total, 'request')}, "
            f"{format_count(progress.sent, 'token')} sent"
        )
    time_left = "" if progress.seconds_left is None else f"{_format_duration(progress.seconds_left)} left"
    rate = f"{format_count(progress.chunks, 'chunk')}, {progress.chunks_per_second:,.0f} chunks/s"
    known_files = f" ({progress.known:,} unchanged)" if progress.known else ""
    files = f"{progress.done:,} of {format_count(progress.total, 'file')}{known_files}"
    if progress.bytes:
        files += f", {_format_size(progress.bytes_done)} of {_format_size(progress.bytes)}"
    # On a terminal, the end of the line can be cut off, so the time comes first.
    parts = filter(None, [time_left, files, rate] if has_bar else [files, rate, time_left])
    return f"{bar}{', '.join(parts)}  {to_printable(progress.current)}".rstrip()


def _format_bar(done: int, total: int) -> str:
    """Return a bar of 20 characters in brackets, filled by the share ``done / total``, and a space."""
    num_filled = _BAR_WIDTH * done // max(total, 1)
    return f"[{'█' * num_filled}{'·' * (_BAR_WIDTH - num_filled)}] "


def _format_size(num_bytes: int) -> str:
    """Format a number of bytes: ``812 B``, ``3.4 MB``."""
    size = float(num_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{num_bytes} B" if unit == "B" else f"{size:.1f} {unit}"


def _format_duration(seconds: float) -> str:
    """Format a duration: ``45 s``, ``3 min 20 s``, ``2 h 5 min``."""
    whole_seconds = round(seconds)
    if whole_seconds < 60:
        return f"{whole_seconds} s"
    if whole_seconds < 3600:
        return f"{whole_seconds // 60} min {whole_seconds % 60} s"
    return f"{whole_seconds // 3600} h {whole_seconds % 3600 // 60} min"
