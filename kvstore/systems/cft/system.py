"""The system ``cft``: its parts, for the registry."""

from ...registry import DeferredStrategy
from ...registry.contract import System

SYSTEM = System(
    "cft", "CFT-RAG, section 3.4", strategies=(DeferredStrategy("cft", f"{__package__}.strategy", "CftStrategy"),)
)
