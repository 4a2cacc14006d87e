"""Counts and sizes of everything in a store, for SHOW STATS and ``kvstore info``."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from ..registry import list_structures
from ..registry.derivation import list_maintained_derivations
from ..structures import tables
from ..structures.state import State
from .facts import list_stated_fact_kinds


def collect_statistics(state: State, file_statistics: Any) -> dict[str, int | float | str]:
    """Return figures by name: totals, then figures of systems, of the entity filter and of the data file.

    ``file_statistics`` is a dataclass of figures about the data file. The figure ``temperature`` is the number of
    lookups of entities that were recorded since the store was created.
    """
    counters = state.counters
    totals = ("documents", "chunks", "words", "text_bytes", "abstracts", "entities", "introductions", "edges", "change")
    figures: dict[str, int | float | str] = {name: getattr(counters, name) for name in totals}
    figures["temperature"] = counters.hits
    figures["trees"] = sum(1 for _ in state.forest.iter_trees())
    figures.update({fact.statistic_name: state.lmdb.count(fact.row_table) for fact in list_stated_fact_kinds()})
    figures["ingested_files"] = state.lmdb.count(tables.INGESTED_FILES)
    for structure in list_structures():
        counts = structure.compute_statistics(state.get_part(structure))
        figures.update({f"{structure.name}_{name}": count for name, count in counts.items()})
    for stored_derivation in list_maintained_derivations(state.lmdb):
        figures[f"{stored_derivation.name}_documents"] = state.get_derived_parts(
            stored_derivation.derivation
        ).document_count
    filter_statistics = state.filter.compute_statistics()
    figures.update(
        {f"filter_{field.name}": getattr(filter_statistics, field.name) for field in fields(filter_statistics)}
    )
    figures.update({f"file_{name}": value for name, value in asdict(file_statistics).items()})
    return figures
