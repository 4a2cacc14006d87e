"""The default strategy: hybrid search plus the walk over the graph, which is weighted by how much it can contribute."""

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
