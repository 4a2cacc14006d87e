"""Ablations of a strategy: retrieval with one of its parts disabled.

In: a strategy that :data:`ABLATIONS` has, with options that disable its parts. Out: a retriever for each of them.
"""

from __future__ import annotations

from collections.abc import Mapping

import kvstore

from .retrievers import StrategyRetriever

#: For each strategy, the ablations and their options.
ABLATIONS: Mapping[str, Mapping[str, Mapping[str, float]]] = {
    "cue": {"no update": {"update": 0}},
    "graph": {"no bias": {"bias": 0}, "no units": {"units": 0}, "neither": {"bias": 0, "units": 0}},
}


def build_ablations(store: kvstore.Store, strategy: str) -> list[StrategyRetriever]:
    """Return retrievers: one that uses the full strategy, then one for each of its ablations."""
    ablations = ABLATIONS[strategy].items()
    return [
        StrategyRetriever(store, strategy),
        *(StrategyRetriever(store, strategy, options, f"{strategy}, {name}") for name, options in ablations),
    ]
