"""The system ``bridge``: its parts, for the registry."""

from ...registry import DeferredStrategy
from ...registry.contract import System

SYSTEM = System(
    "bridge",
    "Bridge-RAG, Algorithm 1 and section 4.3",
    strategies=(DeferredStrategy("bridge", f"{__package__}.strategy", "BridgeStrategy"),),
)
