"""Long results through a pager, as litecli and psql show them.

In: lines of a result. Out: masked lines. They go to the terminal while they fit on it; from the first line that does
not fit, all lines go to the pager's standard input. Leaving the pager early is not an error. If the pager cannot be
started, output goes to the terminal.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from typing import TextIO

from .masking import mask_lines


def get_default_pager() -> str | None:
    """Return the command in ``$PAGER``, else ``less`` if it is installed, else None.

    The options of ``less``: long lines are not wrapped, colors are shown, and a short text is printed without paging.
    """
    return os.environ.get("PAGER") or ("less -SRXF" if shutil.which("less") else None)


class PagedStream:
    """A stream that holds text until it is longer than the screen; then it starts the pager and pipes the text to it.

    Call ``close`` to show the text that is still held.
    """

    def __init__(self, terminal: TextIO, command: str) -> None:
        """Create an empty stream for ``terminal``; ``command`` is the pager for text longer than the screen."""
        self._terminal = terminal
        self._command = command
        self._lines_left = shutil.get_terminal_size().lines - 2  # room for the prompt and the statement's message
        self._held_texts: list[str] = []  # the text held so far
        self._pager: subprocess.Popen[str] | None = None

    def write(self, text: str) -> int:
        """Mask the control characters of ``text``; hold it, or send it to the pager if all text exceeds the screen.

        Return the number of characters. Raises BrokenPipeError if the user has left the pager.
        """
        text = mask_lines(text)
        if self._pager is not None and self._pager.stdin is not None:
            return self._pager.stdin.write(text)
        self._held_texts.append(text)
        self._lines_left -= text.count("\n")
        if self._lines_left < 0:
            # Run through the system's shell, because $PAGER may contain options.
            self._pager = subprocess.Popen(self._command, shell=True, stdin=subprocess.PIPE, text=True)
            self._flush_pending()
        return len(text)

    def _flush_pending(self) -> None:
        """Write the held text to the pager, or to the terminal if no pager runs."""
        pending_texts, self._held_texts = self._held_texts, []
        stream = self._terminal if self._pager is None else self._pager.stdin
        if stream is not None:
            stream.write("".join(pending_texts))
            stream.flush()

    def close(self) -> None:
        """Show the text that was held back, or wait until the user leaves the pager if one runs."""
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
            except KeyboardInterrupt:  # the pager handles it while it has the terminal
                continue
