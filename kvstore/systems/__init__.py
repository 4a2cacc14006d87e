"""The strategies a query can name."""

from __future__ import annotations

import difflib

from ..errors import UnknownStrategyError
from ..retrieval.query import Strategy
from .adaptive.strategy import AdaptiveStrategy
from .bridge.strategy import BridgeStrategy
from .cft.strategy import CftStrategy
from .dense.strategy import VectorStrategy
from .hybrid.strategy import HybridStrategy
from .lexical.strategy import LexicalStrategy
from .passage_graph.graph_strategy import GraphStrategy
from .passage_graph.hipporag_strategy import HippoRagStrategy

STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        VectorStrategy(),
        LexicalStrategy(),
        HybridStrategy(),
        BridgeStrategy(),
        CftStrategy(),
        HippoRagStrategy(),
        GraphStrategy(),
        AdaptiveStrategy(),
    )
}


def strategy_named(name: str) -> Strategy:
    """The strategy of this name; raises UnknownStrategyError suggesting the nearest."""
    strategy = STRATEGIES.get(name.lower())
    if strategy is None:
        near = difflib.get_close_matches(name.lower(), STRATEGIES, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UnknownStrategyError(f"there is no strategy {name!r}; {hint}there are {', '.join(STRATEGIES)}")
    return strategy
