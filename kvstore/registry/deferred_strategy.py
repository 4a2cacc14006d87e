"""Strategies whose modules are imported on first use, so that a process loads only those it uses."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..process.collection_pause import import_without_collection

if TYPE_CHECKING:
    from ..arguments import Choice, Option
    from ..retrieval.evidence import Evidence
    from ..retrieval.query import Query, Strategy


class DeferredStrategy:
    """A proxy for a strategy. It imports the module and creates the strategy when any attribute but ``name`` is used.

    ``module`` is the full name of the module, and ``class_name`` that of the strategy's class.
    """

    name: str
    description: str  # forwarded to the strategy, as is every other attribute not defined here

    def __init__(self, name: str, module: str, class_name: str) -> None:
        self.name = name
        self._module = module
        self._class_name = class_name

    @cached_property
    def strategy(self) -> Strategy:
        """The strategy, whose module is imported on first use."""
        strategy: Strategy = getattr(import_without_collection(self._module), self._class_name)()
        return strategy

    @property
    def options(self) -> Mapping[str, Option | Choice]:
        """The options that WITH sets, by name."""
        return self.strategy.options

    def retrieve(self, query: Query) -> Evidence:
        """Return evidence for the question, best first."""
        return self.strategy.retrieve(query)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the strategy itself."""
        # Only attributes that some strategies have, such as ``needs``; never those that Python looks up in any object.
        if name.startswith("_") or name == "strategy":
            raise AttributeError(name)
        return getattr(self.strategy, name)
