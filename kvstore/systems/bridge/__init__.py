"""Bridge-RAG: retrieval from entities through abstracts to chunks."""

from ...registry import DeferredStrategy
from ...registry.contract import System

SYSTEM = System(
    "bridge",
    "Bridge-RAG, Algorithm 1 and section 4.3",
    strategies=(DeferredStrategy("bridge", f"{__name__}.strategy", "BridgeStrategy"),),
)
