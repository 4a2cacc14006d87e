"""Registries of systems, strategies and kinds of index, by name; their packages are imported on first use.
A *manifest* names what a system contains. A *structure* is derived data that every commit updates. A *derivation*
computes data from one document alone. A *fact* is stated by a user or a model.

A system is a package whose ``system`` module contains ``SYSTEM`` (:class:`~kvstore.registry.contract.System`). Its
manifest in this module lists the names and versions that are needed before that module is imported. A process that
opens a store and uses one strategy imports one system. The module of a strategy is imported on its first use.
:func:`register` adds a system from outside kvstore.

The ``__init__`` of a system imports nothing. If it imported a module of the package while another thread imported the
same module, the threads would wait for each other. Python would then give one of them the incomplete module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Set
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ..errors import InputError, KvstoreError, UnknownStrategyError, suggest
from ..process.collection_pause import import_with_gc_paused
from ..structures.tables import CORE_TABLES
from .cached_lists import cache_list, invalidate_lists

if TYPE_CHECKING:
    from ..arguments import Choice, Option
    from ..retrieval.evidence import Evidence
    from ..retrieval.query import Query, Strategy
    from ..structures.indexes.generations import GenerationIndex
    from ..structures.indexes.index import FileIndex, Index
    from .contract import Description, LmdbTable, Structure, System
    from .fact import StatedFact
    from .sql_table import SqlTable
    from .written_passages import WrittenFact

Named = TypeVar("Named")

_NO_VERSIONS: Mapping[str, int] = MappingProxyType({})


class SystemManifest(NamedTuple):
    """The names and versions of the contents of a system, known before it is imported.

    ``sql_tables`` are tables of SELECT, and ``buffered_tables`` are tables on disk. ``structures`` and ``derivations``
    have their versions by name. ``fact_tables`` are the tables of the system's kinds of facts, which are buffered too.
    The derivation of an index is maintained only in stores that have the index. A table is buffered if its changes
    first go to the change buffer, which is merged into the tables later. ``has_automatic_index`` is True if every store
    has an index of the system without CREATE INDEX.
    """

    strategies: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    structures: Mapping[str, int] = _NO_VERSIONS
    derivations: Mapping[str, int] = _NO_VERSIONS
    sql_tables: tuple[str, ...] = ()
    buffered_tables: tuple[str, ...] = ()
    fact_tables: tuple[str, ...] = ()
    has_automatic_index: bool = False


#: The packages, in the order in which their strategies are listed.
_MANIFESTS_BY_PACKAGE = {
    "kvstore.derived.metadata_index": SystemManifest(
        structures={"metadata_index": 3}, buffered_tables=("metadata_sets", "metadata_columns")
    ),
    "kvstore.systems.dense": SystemManifest(("vector",), ("vectors",), has_automatic_index=True),
    "kvstore.systems.lexical": SystemManifest(("lexical",)),
    "kvstore.systems.hybrid": SystemManifest(("hybrid",)),
    "kvstore.systems.sprag": SystemManifest(("sprag",), fact_tables=("context_texts",)),
    "kvstore.systems.bridge": SystemManifest(("bridge",)),
    "kvstore.systems.cft": SystemManifest(("cft",)),
    "kvstore.derived.synonyms": SystemManifest(indexes=("synonyms",)),
    "kvstore.derived.passage_graph": SystemManifest(
        structures={"passage_graph": 3},
        buffered_tables=("passage_entities", "entity_passages", "entity_heads", "entity_links"),
    ),
    "kvstore.systems.hipporag": SystemManifest(("hipporag",), fact_tables=("triple_texts",)),
    "kvstore.systems.cue": SystemManifest(
        ("cue",),
        ("units",),
        derivations={"units": 1},
        sql_tables=("units", "unit_mentions"),
        buffered_tables=("units_parts", "units_vectors", "units_vector_space"),
        fact_tables=("unit_texts",),
    ),
    "kvstore.systems.descriptions": SystemManifest(sql_tables=("descriptions",), fact_tables=("description_texts",)),
    "kvstore.systems.graph": SystemManifest(("graph",)),
    "kvstore.systems.graphrag": SystemManifest(
        ("local", "global", "drift"), ("communities",), sql_tables=("communities", "community_members")
    ),
    "kvstore.systems.archrag": SystemManifest(("archrag",), ("community_graph",)),
    "kvstore.systems.adaptive": SystemManifest(("adaptive",)),
    "kvstore.systems.raptor": SystemManifest(("raptor",), ("topics",), sql_tables=("topics", "topic_members")),
}

_MANIFESTS_BY_NAME = {package.rpartition(".")[2]: manifest for package, manifest in _MANIFESTS_BY_PACKAGE.items()}


class _Placeholder(NamedTuple):
    """The value of a registered name whose package is not imported yet; importing it replaces the value."""

    package: str


class _DeferredRegistry(MutableMapping[str, Named]):
    """A registry of objects by name. It imports the package of an object when the object is first used."""

    def __init__(self) -> None:
        """Create an empty registry."""
        self._values: dict[str, Named | _Placeholder] = {}

    def defer(self, names: tuple[str, ...], package: str) -> None:
        """Register the names of a package's objects; the package is imported when one of them is first used."""
        self._values.update(dict.fromkeys(names, _Placeholder(package)))

    def get_imported(self, name: str) -> Named | None:
        """Return the object with this name, or None if its package is not imported yet. The name must be registered."""
        value = self._values[name]
        return None if isinstance(value, _Placeholder) else value

    def __getitem__(self, name: str) -> Named:
        """Return the object with this name; import its package if necessary."""
        value = self._values[name]
        if isinstance(value, _Placeholder):
            _add_system(import_with_gc_paused(f"{value.package}.system").SYSTEM)
            value = self._values[name]
            assert not isinstance(value, _Placeholder), "_add_system replaces all placeholders of the package"
        return value

    def __setitem__(self, name: str, value: Named) -> None:
        """Register an object, and drop the cached lists of registered objects."""
        self._values[name] = value
        invalidate_lists()

    def __delitem__(self, name: str) -> None:
        """Remove an object from the registry, and drop the cached lists of registered objects."""
        del self._values[name]
        invalidate_lists()

    def __iter__(self) -> Iterator[str]:
        """Return an iterator over the registered names; it imports no package."""
        return iter(list(self._values))  # another thread can add or remove names meanwhile

    def __len__(self) -> int:
        """Return the number of registered names."""
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        """True if an object has this name; its package is not imported."""
        return name in self._values


#: All systems, strategies and kinds of index, by name.
SYSTEMS: _DeferredRegistry[System] = _DeferredRegistry()
STRATEGIES: _DeferredRegistry[Strategy] = _DeferredRegistry()
INDEXES: _DeferredRegistry[Index] = _DeferredRegistry()
#: The tables of SELECT that belong to systems.
SQL_TABLES: _DeferredRegistry[SqlTable] = _DeferredRegistry()

for _package, _manifest in _MANIFESTS_BY_PACKAGE.items():
    SYSTEMS.defer((_package.rpartition(".")[2],), _package)
    STRATEGIES.defer(_manifest.strategies, _package)
    INDEXES.defer(_manifest.indexes, _package)
    SQL_TABLES.defer(_manifest.sql_tables, _package)


def register(system: System) -> Callable[[], None]:
    """Add a system (strategies, indexes and tables of one paper) to every store opened from now on.

    Returns a function that removes it. A store that contains data of an unregistered system can only be read. Raises
    InputError if the name of the system, or of anything that it declares, such as a strategy, is already in use.
    """
    _check_new_names(system)
    _add_system(system)

    def unregister() -> None:
        """Remove the system and everything that it declares."""
        del SYSTEMS[system.name]
        for strategy in system.strategies:
            del STRATEGIES[strategy.name]
        for index in system.indexes:
            del INDEXES[index.name]
        for table in system.tables:
            del SQL_TABLES[table.name]

    return unregister


def _check_new_names(system: System) -> None:
    """Raise InputError if a name that a new system adds, such as the name of a strategy, is already in use."""
    for kind_name, names, taken_names in (
        # What the error calls a name, the names that the new system adds, and the names in use.
        ("system", {system.name}, SYSTEMS.keys()),
        (
            "structure or derivation",
            set(_list_maintained_names(system)),
            {name for other in SYSTEMS.values() for name in _list_maintained_names(other)},
        ),
        ("strategy", {strategy.name for strategy in system.strategies}, STRATEGIES.keys()),
        ("kind of index", {index.name for index in system.indexes}, INDEXES.keys()),
        (
            "kind of fact",
            {fact.name for fact in system.facts},
            {fact.name for other in SYSTEMS.values() for fact in other.facts},
        ),
        ("table", {table.name for table in system.tables}, SQL_TABLES.keys()),
        (
            "kind of thing to DESCRIBE",
            {description.name for description in system.descriptions},
            {"document", "entity", "strategy"}  # the kinds that need no system
            | {description.name for other in SYSTEMS.values() for description in other.descriptions},
        ),
    ):
        for name in names & taken_names:
            raise InputError(f"system {system.name!r}: a {kind_name} {name!r} already exists; choose another name")


def _add_system(system: System) -> None:
    """Add an imported system, its strategies, indexes and SQL tables to the registries, in place of deferred names."""
    SYSTEMS[system.name] = system
    STRATEGIES.update((strategy.name, strategy) for strategy in system.strategies)
    INDEXES.update((index.name, index) for index in system.indexes)
    SQL_TABLES.update((table.name, table) for table in system.tables)


@cache_list
def list_manifests() -> tuple[SystemManifest, ...]:
    """Return the manifest of every system, without importing any system."""
    return tuple(_MANIFESTS_BY_NAME.get(name) or build_manifest(SYSTEMS[name]) for name in SYSTEMS)


def build_manifest(system: System) -> SystemManifest:
    """Build the manifest of an imported system, that is, the names and versions of its contents."""
    fact_tables = tuple(table for fact in system.facts for table in fact.tables)
    return SystemManifest(
        strategies=tuple(strategy.name for strategy in system.strategies),
        indexes=tuple(index.name for index in system.indexes),
        structures={structure.name: structure.version for structure in system.structures},
        derivations={derivation.name: derivation.version for derivation in system.list_derivations()},
        sql_tables=tuple(table.name for table in system.tables),
        buffered_tables=tuple(
            table.name for table in _list_system_tables(system) if table.buffered and table.name not in fact_tables
        ),
        fact_tables=fact_tables,
        has_automatic_index=any(index.automatic for index in system.indexes),
    )


def _list_system_tables(system: System) -> list[LmdbTable]:
    """Return the tables on disk of a system: the tables of its structures, derivations, facts and indexes."""
    from ..storage.engine_tables import LmdbTable
    from ..structures.derived_parts import list_derivation_tables
    from ..structures.indexes.generations import GenerationIndex, list_generation_tables

    generation_indexes = [index for index in system.indexes if isinstance(index, GenerationIndex)]
    return [
        *(table for structure in system.structures for table in structure.tables),
        *(table for derivation in system.list_derivations() for table in list_derivation_tables(derivation)),
        *(LmdbTable(table) for fact in system.facts for table in fact.tables),
        *(table for index in generation_indexes for table in list_generation_tables(index)),
    ]


def _list_maintained_names(system: System) -> list[str]:
    """Return the names of a system's structures and derivations, the data that every commit derives from documents."""
    manifest = build_manifest(system)
    return [*manifest.structures, *manifest.derivations]


def _iter_needed_systems(is_needed: Callable[[SystemManifest], object]) -> Iterator[System]:
    """Yield the systems that are imported already, and import and yield those whose manifest satisfies ``is_needed``.

    A manifest names what a system contains (structures, derivations, facts, indexes). Systems that contain nothing of
    the required kind are not imported, because imports are slow. If they are imported already, they are yielded too;
    the caller gets nothing from them.
    """
    for name in list(SYSTEMS):
        if SYSTEMS.get_imported(name) is not None or is_needed(_MANIFESTS_BY_NAME[name]):
            yield SYSTEMS[name]


@cache_list
def list_structures() -> tuple[Structure[Any], ...]:
    """Return the structures of all systems. A system is imported only if its manifest names a structure."""
    systems = _iter_needed_systems(lambda manifest: manifest.structures)
    return tuple(structure for system in systems for structure in system.structures)


@cache_list
def list_systems_with_derivations() -> tuple[System, ...]:
    """Return the systems that have derivations, or whose indexes have some."""
    systems = _iter_needed_systems(lambda manifest: manifest.derivations)
    # Systems that were imported for other reasons can have none.
    return tuple(system for system in systems if system.list_derivations())


@cache_list
def list_systems_with_own_derivations() -> tuple[System, ...]:
    """Return the systems with derivations that belong to no index."""
    # The derivation of an index has the name of the index, and only stores with the index maintain it.
    systems = _iter_needed_systems(lambda manifest: manifest.derivations.keys() - manifest.indexes)
    return tuple(system for system in systems if system.derivations)


@cache_list
def list_maintained_index_names() -> tuple[str, ...]:
    """Return the names of the indexes whose data every commit derives from its documents, without importing systems."""
    return tuple(name for manifest in list_manifests() for name in manifest.indexes if name in manifest.derivations)


@cache_list
def list_facts() -> tuple[StatedFact[Any, Any], ...]:
    """Return the kinds of facts of all systems. A system is imported only if its manifest names a table of facts."""
    systems = _iter_needed_systems(lambda manifest: manifest.fact_tables)
    return tuple(fact for system in systems for fact in system.facts)


def list_stored_facts(has_records: Callable[[str], bool]) -> list[StatedFact[Any, Any]]:
    """Return the kinds of facts for whose tables ``has_records`` is true; no other system is imported."""
    names = [name for name, tables in _list_fact_tables() if any(map(has_records, tables))]
    return [fact for name in names for fact in SYSTEMS[name].facts if has_records(fact.row_table)]


@cache_list
def _list_fact_tables() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the systems with facts, each by name with the tables of its facts, without importing systems."""
    manifests = zip(SYSTEMS, list_manifests(), strict=True)
    return tuple((name, manifest.fact_tables) for name, manifest in manifests if manifest.fact_tables)


@cache_list
def list_automatic_indexes() -> tuple[FileIndex[Any, Any], ...]:
    """Return the indexes that every store has without CREATE INDEX, and that are extended in the background."""
    from ..structures.indexes.index import FileIndex

    systems = _iter_needed_systems(lambda manifest: manifest.has_automatic_index)
    indexes = (index for system in systems for index in system.indexes)
    return tuple(index for index in indexes if isinstance(index, FileIndex) and index.automatic)


def list_generation_indexes() -> list[GenerationIndex[Any]]:
    """Return the indexes that are stored as generations: each build (REFRESH) replaces the result of the last."""
    from ..structures.indexes.generations import GenerationIndex

    return [index for index in INDEXES.values() if isinstance(index, GenerationIndex)]


def get_written_facts() -> dict[str, WrittenFact]:
    """Return the kinds of facts that EXTRACT can have a language model write (such as triples), by name."""
    from .written_passages import WrittenFact

    return {fact.kind: fact for fact in list_facts() if isinstance(fact, WrittenFact)}


def get_written_fact(name: str) -> WrittenFact:
    """Return the kind of texts to EXTRACT with this name, ignoring case.

    Raises InputError, with a suggestion, for an unknown name.
    """
    return _look_up_name(name, get_written_facts(), "kind of texts to EXTRACT called", InputError)


def list_store_tables() -> list[LmdbTable]:
    """Return the tables of a store: the core tables, and the tables of structures, derivations, facts and indexes."""
    return [*CORE_TABLES, *(table for system in SYSTEMS.values() for table in _list_system_tables(system))]


class _BufferedTables(Set[str]):
    """The names of the tables whose changes first go to the change buffer. Core tables need no system's manifest."""

    _IS_CORE_TABLE_BUFFERED = MappingProxyType({table.name: table.buffered for table in CORE_TABLES})

    @cached_property
    def _names(self) -> frozenset[str]:
        """The names of all buffered tables: core tables and tables of systems."""
        core_names = [name for name, is_buffered in self._IS_CORE_TABLE_BUFFERED.items() if is_buffered]
        system_names = (manifest.buffered_tables + manifest.fact_tables for manifest in list_manifests())
        return frozenset(core_names).union(*system_names)

    def __contains__(self, table: object) -> bool:
        """True if ``table`` is the name of a buffered table."""
        is_buffered = self._IS_CORE_TABLE_BUFFERED.get(str(table))  # None: not a core table
        return table in self._names if is_buffered is None else is_buffered

    def __iter__(self) -> Iterator[str]:
        """Return an iterator over the names of all buffered tables."""
        return iter(self._names)

    @classmethod
    def _from_iterable(cls, it: Iterable[Named]) -> Set[Named]:
        """Return the result of a set operation, such as a union, as a plain set; called by ``collections.abc.Set``."""
        return frozenset(it)

    def __len__(self) -> int:
        """Return the number of buffered tables."""
        return len(self._names)


def get_buffered_tables() -> Set[str]:
    """Return the names of the tables whose records go through the change buffer."""
    return _BufferedTables()


def list_strategies() -> list[Strategy]:
    """Return every strategy (method of retrieval) that a query can name; strategies of installed packages come last."""
    from .plugin_strategy import STRATEGY_PLUGINS

    return [*STRATEGIES.values(), *STRATEGY_PLUGINS.load_usable().values()]


def get_strategy(name: str) -> Strategy:
    """Return the strategy with this name, ignoring case; for several names with commas, a strategy that fuses them.

    Raises UnknownStrategyError, with a suggestion, for an unknown name, and PluginError if the strategy of an installed
    package is broken.
    """
    if "," in name:
        from ..retrieval.fused_strategy import FusedStrategy

        return FusedStrategy(tuple(get_strategy(part.strip()) for part in name.split(",")))
    strategy = STRATEGIES.get(name.lower())
    if strategy is not None:
        return strategy
    from .plugin_strategy import STRATEGY_PLUGINS

    plugin = STRATEGY_PLUGINS.get(name.lower())
    if plugin is not None:
        return plugin
    return _look_up_name(  # raises the error
        name, {strategy.name: strategy for strategy in list_strategies()}, "strategy", UnknownStrategyError
    )


def list_overview_strategies() -> list[str]:
    """Return the names of the registered strategies with ``overview``: for questions such as "What is this about?"."""
    return [name for name, strategy in STRATEGIES.items() if getattr(strategy, "overview", False)]


def get_index(name: str) -> Index:
    """Return the index with this name, ignoring case; for an unknown name, raise InputError with a suggestion."""
    return _look_up_name(name, INDEXES, "index of kind", InputError)


def get_description(name: str) -> Description:
    """Return the object that answers ``DESCRIBE name 'key'``; ``name`` is a kind of item, such as ``community``.

    Case is ignored. Raises InputError, with a suggestion, for an unknown name.
    """
    descriptions = {description.name: description for system in SYSTEMS.values() for description in system.descriptions}
    return _look_up_name(name, descriptions, "kind of thing to DESCRIBE", InputError)


def _look_up_name(name: str, values_by_name: Mapping[str, Named], kind: str, error: type[KvstoreError]) -> Named:
    """Return the value with a name, ignoring case.

    Raises ``error`` if there is no such name. Its message calls the value a ``kind`` and suggests the nearest name.
    """
    if name.lower() not in values_by_name:
        suggestion = suggest(name, values_by_name)
        hint = f"did you mean {suggestion}? " if suggestion else ""
        raise error(f"there is no {kind} {name!r}; {hint}choose one of: {', '.join(values_by_name) or 'none'}")
    return values_by_name[name.lower()]


class DeferredStrategy:
    """A proxy for a strategy, which it imports and creates when any attribute but ``name`` is used."""

    name: str
    # Forwarded to the strategy, as is every other attribute not defined here.
    description: str
    options: Mapping[str, Option | Choice]
    retrieve: Callable[[Query], Evidence]

    def __init__(self, name: str, module: str, class_name: str) -> None:
        """Prepare to load the class ``class_name`` of ``module``, a full name; ``name`` is the strategy's name."""
        self.name = name
        self._module = module
        self._class_name = class_name

    def __repr__(self) -> str:
        """Return the strategy's name in angle brackets, without importing its module."""
        return f"<strategy {self.name}>"

    @cached_property
    def strategy(self) -> Strategy:
        """The strategy, whose module is imported on first use."""
        strategy: Strategy = getattr(import_with_gc_paused(self._module), self._class_name)()
        return strategy

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the strategy itself. Raises AttributeError for a name that begins with ``_``."""
        # Python looks up special names in any object; that must not import the module. ``strategy`` is looked up here
        # only if the import raised AttributeError.
        if name.startswith("_") or name == "strategy":
            raise AttributeError(name)
        return getattr(self.strategy, name)
