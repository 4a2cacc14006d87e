"""Long results through a pager, as litecli and psql show them.

In: lines of a result. Out, masked as all that a terminal shows: to the terminal while they fit on it; from the line on
that does not, all of them go to the pager's standard input. A pager that is left early is no error, one that cannot be
started leaves the terminal.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from typing import TextIO

from .masking import mask_lines


def get_default_pager() -> str | None:
    """The command of ``$PAGER``, else ``less`` where there is one; None where paging makes no sense."""
    return os.environ.get("PAGER") or ("less -SRXF" if shutil.which("less") else None)


class PagedStream:
    """A stream that turns to a pager when it holds more than a screen; ``close`` it to see the rest."""

    def __init__(self, terminal: TextIO, command: str) -> None:
        self._terminal = terminal
        self._command = command
        self._lines_left = shutil.get_terminal_size().lines - 2
        self._pending: list[str] = []
        self._pager: subprocess.Popen[str] | None = None

    def write(self, text: str) -> int:
        """Take some text; raises BrokenPipeError when the pager has been left."""
        text = mask_lines(text)
        if self._pager is not None and self._pager.stdin is not None:
            return self._pager.stdin.write(text)
        self._pending.append(text)
        self._lines_left -= text.count("\n")
        if self._lines_left < 0:
            # The shell of the system: $PAGER may hold options.
            self._pager = subprocess.Popen(self._command, shell=True, stdin=subprocess.PIPE, text=True)
            self._flush_pending()
        return len(text)

    def _flush_pending(self) -> None:
        pending, self._pending = self._pending, []
        stream = self._terminal if self._pager is None else self._pager.stdin
        if stream is not None:
            stream.write("".join(pending))
            stream.flush()

    def close(self) -> None:
        """Show what is left, and wait until the pager is left."""
        if self._pager is None:
            self._flush_pending()
            return
        if self._pager.stdin is not None:
            with suppress(BrokenPipeError):
                self._pager.stdin.close()
        while True:
            try:
                self._pager.wait()
                return
            except KeyboardInterrupt:  # is the pager's business while it has the terminal
                continue
