"""Bridge-RAG: retrieval from entities through abstracts to chunks."""

from ...registry.contract import System
from ...registry.deferred_strategy import DeferredStrategy

SYSTEM = System(
    "bridge",
    "Bridge-RAG, Algorithm 1 and section 4.3",
    strategies=(DeferredStrategy("bridge", f"{__name__}.strategy", "BridgeStrategy"),),
)
