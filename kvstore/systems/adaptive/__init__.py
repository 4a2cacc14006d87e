"""The default strategy: hybrid search plus the walk over the graph, which is weighted by how much it can contribute."""

from ...registry import DeferredStrategy
from ...registry.contract import System

SYSTEM = System(
    "adaptive",
    "designed for kvstore: combines hybrid and graph",
    strategies=(DeferredStrategy("adaptive", f"{__name__}.strategy", "AdaptiveStrategy"),),
)
