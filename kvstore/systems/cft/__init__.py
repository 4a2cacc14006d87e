"""CFT-RAG: retrieval of entity trees through the cuckoo filter."""

from ...registry import DeferredStrategy
from ...registry.contract import System

SYSTEM = System(
    "cft", "CFT-RAG, section 3.4", strategies=(DeferredStrategy("cft", f"{__name__}.strategy", "CftStrategy"),)
)
