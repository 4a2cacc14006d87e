"""Deferral of a Ctrl-C that arrives in a ``__del__`` or another callback of the interpreter.

Python cannot raise an exception there: it prints the interrupt ("Exception ignored in") and continues. In: such an
interrupt. Out: :class:`KeyboardInterrupt` from the next report of progress, or at the end of the ``with`` block.
Nothing is printed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

Progress = TypeVar("Progress")


class DeferredInterrupts:
    """A context manager that defers interrupts that Python cannot raise.

    Python still prints other errors that it cannot raise.
    """

    def __init__(self) -> None:
        """Start without a pending interrupt; interrupts are deferred within the ``with`` block."""
        self._is_pending = False
        self._previous_hook: Callable[[Any], object] = sys.unraisablehook

    def __enter__(self) -> Self:
        """Install the hook that records interrupts which Python cannot raise."""
        self._previous_hook, sys.unraisablehook = sys.unraisablehook, self._defer
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop deferring interrupts; raise a pending interrupt, unless the ``with`` block ends with an error."""
        sys.unraisablehook = self._previous_hook
        if kind is None:
            self._raise_pending()

    def wrap_callback(self, callback: Callable[[Progress], object]) -> Callable[[Progress], None]:
        """Return a function that passes each report of progress to ``callback``.

        If an interrupt is pending, the function raises KeyboardInterrupt instead.
        """

        def report_progress(progress: Progress) -> None:
            """Raise a pending interrupt, or call the callback."""
            self._raise_pending()
            callback(progress)

        return report_progress

    def _raise_pending(self) -> None:
        """Raise KeyboardInterrupt once if an interrupt is pending."""
        if self._is_pending:
            self._is_pending = False
            raise KeyboardInterrupt

    def _defer(self, unraisable: sys.UnraisableHookArgs) -> None:
        """Record an interrupt that Python cannot raise; pass any other error to the previous ``sys.unraisablehook``."""
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            self._is_pending = True
        else:
            self._previous_hook(unraisable)
