"""Counts and sizes of everything in a store, for SHOW STATS and ``kvstore info``."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from ..structures import tables
from ..structures.state import State
from ..systems import structures
from ..systems.kept_derivations import kept_derivations
from .facts import stated


def statistics(view: State, file: Any) -> dict[str, int | float | str]:
    """Names and figures: totals, then the entity filter's, then the file's (``file`` is a dataclass of figures).

    ``temperature`` is the number of hits folded in since the store was made.
    """
    counters = view.counters
    totals = ("documents", "chunks", "words", "text_bytes", "abstracts", "entities", "introductions", "edges", "change")
    found: dict[str, int | float | str] = {name: getattr(counters, name) for name in totals}
    found["temperature"] = counters.hits
    found["trees"] = sum(1 for _ in view.forest.trees())
    found.update({fact.figure: view.lmdb.count(fact.tables[0]) for fact in stated()})
    found["ingested_files"] = view.lmdb.count(tables.INGESTED_FILES)
    for structure in structures():
        counts = structure.counts(view.part(structure))
        found.update({f"{structure.name}_{name}": count for name, count in counts.items()})
    for kept_derivation in kept_derivations(view.lmdb):
        found[f"{kept_derivation.name}_documents"] = view.derived_parts(kept_derivation.derivation).documents
    filter_statistics = view.filter.statistics()
    found.update(
        {f"filter_{field.name}": getattr(filter_statistics, field.name) for field in fields(filter_statistics)}
    )
    found.update({f"file_{name}": value for name, value in asdict(file).items()})
    return found
