"""Ctrl-C at points where Python cannot raise it: the interrupt is kept, and raised at the next step.

In: an interrupt while a ``__del__`` or another callback of the interpreter runs; Python prints it ("Exception ignored
in") and goes on as if no key had been pressed. Out: :class:`KeyboardInterrupt` from the next call of a function that is
called at every step, else at the end, and nothing printed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

Step = TypeVar("Step")


class DeferredInterrupts:
    """A context that defers interrupts that Python cannot raise; other unraisable errors are reported as before."""

    def __init__(self) -> None:
        """Prepare to defer interrupts; the context begins to do so."""
        self._is_pending = False
        self._previous_hook: Callable[[Any], object] = sys.unraisablehook

    def __enter__(self) -> Self:
        self._previous_hook, sys.unraisablehook = sys.unraisablehook, self._defer
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop deferring interrupts; unless the context ends with an error, raise a pending one."""
        sys.unraisablehook = self._previous_hook
        if kind is None:
            self._raise_pending()

    def wrap_callback(self, callback: Callable[[Step], object]) -> Callable[[Step], None]:
        """Return a function that calls ``callback`` with a step, such as a report of progress.

        If an interrupt is pending, it raises KeyboardInterrupt instead.
        """

        def run_step(step: Step) -> None:
            """Raise a pending interrupt, or call the callback."""
            self._raise_pending()
            callback(step)

        return run_step

    def _raise_pending(self) -> None:
        """Raise KeyboardInterrupt once if an interrupt is pending."""
        if self._is_pending:
            self._is_pending = False
            raise KeyboardInterrupt

    def _defer(self, unraisable: sys.UnraisableHookArgs) -> None:
        """Handle an error that Python cannot raise: record an interrupt, pass any other error to the previous hook."""
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            self._is_pending = True
        else:
            self._previous_hook(unraisable)
