"""The system ``adaptive``: its parts, for the registry."""

from ...registry import DeferredStrategy
from ...registry.contract import System

SYSTEM = System(
    "adaptive",
    "designed for kvstore: combines hybrid and graph",
    strategies=(DeferredStrategy("adaptive", f"{__package__}.strategy", "AdaptiveStrategy"),),
)
