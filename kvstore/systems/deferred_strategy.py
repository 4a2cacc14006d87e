"""Strategies whose modules are imported when they are first asked: a process that uses one need not load them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..arguments import Choice, Option
    from ..retrieval.evidence import Evidence
    from ..retrieval.query import Query, Strategy


class DeferredStrategy:
    """The strategy that ``make`` gives, which is called for whatever is asked but the name."""

    name: str
    description: str  # that of the strategy, as all that is not here

    def __init__(self, name: str, make: Callable[[], Strategy]) -> None:
        self.name = name
        self._make = make

    @cached_property
    def strategy(self) -> Strategy:
        """The strategy itself."""
        return self._make()

    @property
    def options(self) -> Mapping[str, Option | Choice]:
        """What WITH sets, by name."""
        return self.strategy.options

    def retrieve(self, query: Query) -> Evidence:
        """Evidence for the question, best first."""
        return self.strategy.retrieve(query)

    def __getattr__(self, name: str) -> Any:
        # What only some strategies have, such as ``needs``; never what Python itself looks for in any object.
        if name.startswith("_") or name == "strategy":
            raise AttributeError(name)
        return getattr(self.strategy, name)
