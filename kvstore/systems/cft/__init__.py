"""CFT-RAG: retrieval of entity trees through the cuckoo filter."""

from ...registry.contract import System
from ...registry.deferred_strategy import DeferredStrategy

SYSTEM = System(
    "cft", "CFT-RAG, section 3.4", strategies=(DeferredStrategy("cft", f"{__name__}.strategy", "CftStrategy"),)
)
