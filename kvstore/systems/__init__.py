"""The published systems of a store, the strategies that a query can name, and the kinds of index that it can have.

One system is one folder with a ``SYSTEM`` (:class:`~kvstore.systems.contract.System`), and its line here.
:func:`register` takes one more from outside.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeVar

from ..errors import InputError, KvstoreError, UnknownStrategyError
from ..retrieval.query import Strategy
from ..structures.derived_parts import derived_tables
from ..structures.indexes.generations import GenerationIndex, generation_tables
from ..structures.indexes.index import Index
from ..structures.tables import SPINE
from .contract import Derivation, Description, LmdbTable, MaintainedIndex, Structure, System
from .fact import StatedFact
from .written_passages import WrittenFact

Named = TypeVar("Named")

#: The folders, in the order in which their strategies are listed.
_FOLDERS = (
    "metadata_index",
    "dense",
    "lexical",
    "hybrid",
    "sprag",
    "bridge",
    "cft",
    "synonyms",
    "passage_graph",
    "cue",
    "graph",
    "graphrag",
    "archrag",
    "adaptive",
    "raptor",
)

#: Every system, every strategy and every kind of index by its name.
SYSTEMS: dict[str, System] = {}
STRATEGIES: dict[str, Strategy] = {}
INDEXES: dict[str, Index] = {}


def register(system: System) -> Callable[[], None]:
    """Add a system to those of every store that is opened from now on; what is returned takes it back.

    A store that keeps what no registered system knows is only read. Raises InputError where its name, or that of a
    strategy, a kind of index or a table, is taken.
    """
    for what, own, taken in (
        ("system", {system.name}, SYSTEMS.keys()),
        ("structure or derivation", set(_kept(system)), {name for other in SYSTEMS.values() for name in _kept(other)}),
        ("strategy", {strategy.name for strategy in system.strategies}, STRATEGIES.keys()),
        ("kind of index", {kind.name for kind in system.indexes}, INDEXES.keys()),
        (
            "kind of fact",
            {fact.name for fact in system.facts},
            {fact.name for s in SYSTEMS.values() for fact in s.facts},
        ),
        ("table", {table.name for table in system.tables}, {t.name for s in SYSTEMS.values() for t in s.tables}),
        (
            "kind of thing to DESCRIBE",
            {description.name for description in system.descriptions},
            {"document", "entity", "strategy"} | {d.name for s in SYSTEMS.values() for d in s.descriptions},
        ),
    ):
        for name in own & taken:
            raise InputError(f"system {system.name!r}: there is a {what} {name!r} already; give it another name")
    SYSTEMS[system.name] = system
    STRATEGIES.update((strategy.name, strategy) for strategy in system.strategies)
    INDEXES.update((kind.name, kind) for kind in system.indexes)

    def take_back() -> None:
        del SYSTEMS[system.name]
        for strategy in system.strategies:
            del STRATEGIES[strategy.name]
        for kind in system.indexes:
            del INDEXES[kind.name]

    return take_back


def _kept(system: System) -> list[str]:
    chosen = [index.derivation for index in system.indexes if isinstance(index, MaintainedIndex)]
    kept: list[Structure[Any] | Derivation] = [*system.structures, *system.derivations, *chosen]
    return [one.name for one in kept]


def structures() -> list[Structure[Any]]:
    """What the systems keep beside the spine."""
    return [structure for system in SYSTEMS.values() for structure in system.structures]


def derivations() -> list[Derivation]:
    """What the systems derive from each document, in every store or where it has the index."""
    every = [derivation for system in SYSTEMS.values() for derivation in system.derivations]
    return [*every, *(index.derivation for index in INDEXES.values() if isinstance(index, MaintainedIndex))]


def facts() -> list[StatedFact[Any, Any]]:
    """What can be stated for the systems."""
    return [fact for system in SYSTEMS.values() for fact in system.facts]


def generation_kinds() -> list[GenerationIndex[Any]]:
    """The kinds of index that are kept in the store in generations."""
    return [kind for kind in INDEXES.values() if isinstance(kind, GenerationIndex)]


def written_facts() -> dict[str, WrittenFact]:
    """The kinds of texts that EXTRACT has a model write, by name."""
    return {fact.name: fact for fact in facts() if isinstance(fact, WrittenFact)}


def written_fact_named(name: str) -> WrittenFact:
    """The kind of texts of this name, in any case; raises InputError suggesting the nearest."""
    return _named(name, written_facts(), "kind of texts to EXTRACT called", InputError)


def store_tables() -> list[LmdbTable]:
    """The tables of a store: the spine's, and those of what the systems keep and have stated."""
    derived = (table for derivation in derivations() for table in derived_tables(derivation))
    stated = (LmdbTable(table) for fact in facts() for table in fact.tables)
    grouped = (table for kind in generation_kinds() for table in generation_tables(kind))
    kept = (table for structure in structures() for table in structure.tables)
    return [*SPINE, *kept, *derived, *stated, *grouped]


def buffered_tables() -> frozenset[str]:
    """The tables whose records go through the change buffer."""
    return frozenset(table.name for table in store_tables() if table.buffered)


def strategies() -> list[Strategy]:
    """Every strategy that a query can name, those of installed packages last."""
    from .plugin_strategy import STRATEGY_PLUGINS

    return [*STRATEGIES.values(), *STRATEGY_PLUGINS.usable().values()]


def strategy_named(name: str) -> Strategy:
    """The strategy of this name; raises UnknownStrategyError suggesting the nearest, and PluginError for one of an
    installed package that is broken."""
    if name.lower() in STRATEGIES:
        return STRATEGIES[name.lower()]
    from .plugin_strategy import STRATEGY_PLUGINS

    brought = STRATEGY_PLUGINS.get(name.lower())
    if brought is not None:
        return brought
    return _named(name, {strategy.name: strategy for strategy in strategies()}, "strategy", UnknownStrategyError)


def overview_strategies() -> list[str]:
    """The names of our strategies that give an overview, rather than details, where a question asks for one: those
    with an attribute ``overview`` that is true."""
    return [name for name, strategy in STRATEGIES.items() if getattr(strategy, "overview", False)]


def index_named(name: str) -> Index:
    """The kind of index of this name, in any case; raises InputError suggesting the nearest."""
    return _named(name, INDEXES, "index of kind", InputError)


def description_named(name: str) -> Description:
    """What DESCRIBE says of a kind of thing that a system keeps, in any case; raises InputError suggesting the
    nearest."""
    known = {description.name: description for system in SYSTEMS.values() for description in system.descriptions}
    return _named(name, known, "kind of thing to DESCRIBE", InputError)


def _named(name: str, known: Mapping[str, Named], what: str, error: type[KvstoreError]) -> Named:
    if name.lower() not in known:
        near = difflib.get_close_matches(name.lower(), known, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise error(f"there is no {what} {name!r}; {hint}there are {', '.join(known) or 'none'}")
    return known[name.lower()]


for _folder in _FOLDERS:
    register(import_module(f"{__name__}.{_folder}").SYSTEM)
