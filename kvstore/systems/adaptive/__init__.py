"""The default strategy: direct search and the walk over the graph, each weighted by how much it contributes."""

from ...registry.contract import System
from ...registry.deferred_strategy import DeferredStrategy
from ...retrieval.query import Strategy


def _make_strategy() -> Strategy:
    from .strategy import AdaptiveStrategy

    return AdaptiveStrategy()


SYSTEM = System(
    "adaptive",
    "designed for kvstore: combines hybrid and graph",
    strategies=(DeferredStrategy("adaptive", _make_strategy),),
)
