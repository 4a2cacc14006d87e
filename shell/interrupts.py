"""Ctrl-C that comes where Python cannot raise it: it is kept, and raised at the next step.

In: an interrupt while a ``__del__`` runs, or what else Python calls unasked; Python prints it ("Exception ignored in")
and goes on as if nothing had been pressed. Out: :class:`KeyboardInterrupt` from the next call of a function that is
called at every step, else at the end, and nothing printed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

Step = TypeVar("Step")


class DeferredInterrupts:
    """Interrupts that Python would forget while this is entered; all else that cannot be raised is told as before."""

    def __init__(self) -> None:
        self._kept = False
        self._told: Callable[[Any], object] = sys.unraisablehook

    def __enter__(self) -> Self:
        self._told, sys.unraisablehook = sys.unraisablehook, self._keep
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.unraisablehook = self._told
        if kind is None:
            self._raise_pending()

    def before(self, told: Callable[[Step], object]) -> Callable[[Step], None]:
        """``told`` of every step, which raises what was kept instead."""

        def stepped(step: Step) -> None:
            self._raise_pending()
            told(step)

        return stepped

    def _raise_pending(self) -> None:
        if self._kept:
            self._kept = False
            raise KeyboardInterrupt

    def _keep(self, unraisable: sys.UnraisableHookArgs) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            self._kept = True
        else:
            self._told(unraisable)
