"""The published systems of a store, and the strategies that a query can name.

One system is one folder with a ``SYSTEM`` (:class:`~kvstore.systems.contract.System`), and its line here.
:func:`register` takes one more from outside.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from importlib import import_module

from ..errors import InputError, UnknownStrategyError
from ..retrieval.query import Strategy
from .contract import System

#: The folders, in the order in which their strategies are listed.
_FOLDERS = (
    "dense",
    "lexical",
    "hybrid",
    "bridge",
    "cft",
    "passage_graph",
    "adaptive",
)

#: Every system by its name, and every strategy by its name.
SYSTEMS: dict[str, System] = {}
STRATEGIES: dict[str, Strategy] = {}


def register(system: System) -> Callable[[], None]:
    """Add a system to those of every store that is opened from now on; what is returned takes it back.

    A process that writes to a store must have registered the systems whose structures the store keeps. Raises
    InputError where its name, or that of a strategy or table, is taken.
    """
    for what, own, taken in (
        ("system", {system.name}, SYSTEMS.keys()),
        ("strategy", {strategy.name for strategy in system.strategies}, STRATEGIES.keys()),
        ("table", {table.name for table in system.tables}, {t.name for s in SYSTEMS.values() for t in s.tables}),
    ):
        for name in own & taken:
            raise InputError(f"system {system.name!r}: there is a {what} {name!r} already; give it another name")
    SYSTEMS[system.name] = system
    STRATEGIES.update((strategy.name, strategy) for strategy in system.strategies)

    def take_back() -> None:
        del SYSTEMS[system.name]
        for strategy in system.strategies:
            del STRATEGIES[strategy.name]

    return take_back


def strategy_named(name: str) -> Strategy:
    """The strategy of this name; raises UnknownStrategyError suggesting the nearest."""
    strategy = STRATEGIES.get(name.lower())
    if strategy is None:
        near = difflib.get_close_matches(name.lower(), STRATEGIES, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UnknownStrategyError(f"there is no strategy {name!r}; {hint}there are {', '.join(STRATEGIES)}")
    return strategy


for _folder in _FOLDERS:
    register(import_module(f"{__name__}.{_folder}").SYSTEM)
