"""What a strategy finds with one of its parts left out.

In: a strategy of which :data:`ABLATIONS` says how each part is left out, by its options. Out: a retriever for each.
"""

from __future__ import annotations

from collections.abc import Mapping

import kvstore

from .retrievers import StrategyRetriever

#: By strategy, what is left out, and the options that do so.
ABLATIONS: Mapping[str, Mapping[str, Mapping[str, float]]] = {
    "cue": {
        "no names": {"names": 0},
        "no units": {"units": 0},
        "no update": {"update": 0},
        "one beam": {"apart": 0},
    },
    "graph": {"no bias": {"bias": 0}, "no units": {"units": 0}, "neither": {"bias": 0, "units": 0}},
}


def ablations(store: kvstore.Store, strategy: str) -> list[StrategyRetriever]:
    """The strategy as it is, and without each of its parts."""
    left_out = ABLATIONS[strategy].items()
    return [
        StrategyRetriever(store, strategy),
        *(StrategyRetriever(store, strategy, options, f"{strategy}, {name}") for name, options in left_out),
    ]
