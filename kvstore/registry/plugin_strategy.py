"""Strategies (methods of retrieval) of installed packages, from the entry points ``kvstore.strategies``.
A *plugin* is one such entry point; its *package* is the package that declares it.

In: the object of an entry point: a class, or a function without arguments, that makes a
:class:`~kvstore.retrieval.query.Strategy` with the entry point's name. Out: a strategy whose failures are errors that
name it. Only a query that names such a strategy uses it, so the answers to other queries do not depend on the installed
packages. A whole system with tables is registered by a program (:func:`kvstore.registry.register`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..arguments import Choice, Option
from ..errors import KvstoreError, PluginError
from ..extensions.entry_points import Plugin, PluginGroup, format_error
from ..retrieval.evidence import Evidence
from ..retrieval.query import Query, Strategy


def _list_own_strategies() -> Collection[str]:
    """Return the names of built-in and registered strategies, which a plugin cannot replace."""
    from . import STRATEGIES

    return STRATEGIES


def _make_plugin_strategy(plugin: Plugin, factory: Any) -> PluginStrategy:
    """Call ``factory``, the object of a package's entry point, and return the strategy that it makes, wrapped.

    Raises PluginError, whose message is a sentence without a subject, if the object or the strategy is invalid.
    """
    if not callable(factory):
        raise PluginError(f"it must be a class or function that makes a strategy, not {factory!r:.80}")
    strategy = factory()
    missing_attributes = [
        name for name in ("name", "description", "options", "retrieve") if not hasattr(strategy, name)
    ]
    if missing_attributes:
        raise PluginError(
            f"it makes {strategy!r:.80}, which is not a strategy: it has no {' and no '.join(missing_attributes)}"
        )
    if strategy.name != plugin.name or plugin.name != plugin.name.lower():
        raise PluginError(
            f"its strategy is called {strategy.name!r}; that must be the name of the entry point, in lower case"
        )
    options = strategy.options
    if not isinstance(options, Mapping) or not all(isinstance(value, (Option, Choice)) for value in options.values()):
        raise PluginError("its options must map names to kvstore.arguments.Option or Choice")
    return PluginStrategy(plugin, strategy)


STRATEGY_PLUGINS: PluginGroup[PluginStrategy] = PluginGroup(
    "strategy", get_reserved_names=_list_own_strategies, convert=_make_plugin_strategy
)


class PluginStrategy:
    """A strategy of an installed package. Its exceptions become a PluginError that names the package."""

    def __init__(self, plugin: Plugin, strategy: Strategy) -> None:
        """Wrap a strategy that the package of ``plugin`` made."""
        self._plugin = plugin
        self._strategy = strategy
        self.name = plugin.name
        self.description = str(strategy.description)

    @property
    def options(self) -> Mapping[str, Option | Choice]:
        """The options that WITH sets, by name."""
        return self._strategy.options

    def retrieve(self, query: Query) -> Evidence:
        """Return the evidence that the package's strategy finds for the question of a query, best first.

        Raises PluginError if the strategy of the package fails or does not return :class:`Evidence`. kvstore's own
        errors and MemoryError are not changed.
        """
        try:
            evidence = self._strategy.retrieve(query)
        except (KvstoreError, MemoryError):
            raise
        except Exception as error:
            raise PluginError(f"{self._plugin} failed ({format_error(error)}); ask with another strategy") from error
        if not isinstance(evidence, Evidence):
            raise PluginError(
                f"{self._plugin} returned {evidence!r:.80} instead of evidence; ask with another strategy"
            )
        return evidence

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the package's strategy. Raises AttributeError for a private or missing name."""
        if name.startswith("_"):  # copy and pickle look up special names before ``_strategy`` exists
            raise AttributeError(name)
        return getattr(self._strategy, name)
