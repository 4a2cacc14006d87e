"""Ablations of a strategy: retrieval with one of its parts disabled.

In: a strategy whose parts :data:`ABLATIONS` disables through its options. Out: a retriever for each part.
"""

from __future__ import annotations

from collections.abc import Mapping

import kvstore

from .retrievers import StrategyRetriever

#: For each strategy, the ablations and their options.
ABLATIONS: Mapping[str, Mapping[str, Mapping[str, float]]] = {
    "cue": {
        "no update": {"update": 0},
    },
    "graph": {"no bias": {"bias": 0}, "no units": {"units": 0}, "neither": {"bias": 0, "units": 0}},
}


def build_ablations(store: kvstore.Store, strategy: str) -> list[StrategyRetriever]:
    """Return the full strategy, followed by a version without each of its parts."""
    ablations = ABLATIONS[strategy].items()
    return [
        StrategyRetriever(store, strategy),
        *(StrategyRetriever(store, strategy, options, f"{strategy}, {name}") for name, options in ablations),
    ]
