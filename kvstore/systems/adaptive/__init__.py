"""The default strategy: direct search and the walk over the graph, each weighted by how much it contributes."""

from ...retrieval.query import Strategy
from ..contract import System
from ..deferred_strategy import DeferredStrategy


def _make_strategy() -> Strategy:
    from .strategy import AdaptiveStrategy

    return AdaptiveStrategy()


SYSTEM = System(
    "adaptive",
    "of this project: it weighs hybrid against graph",
    strategies=(DeferredStrategy("adaptive", _make_strategy),),
)
