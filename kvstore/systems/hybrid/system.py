"""The system ``hybrid``: its parts, for the registry."""

from ...registry import DeferredStrategy
from ...registry.contract import System

SYSTEM = System(
    "hybrid",
    "Bruch, Gai and Ingber 2023, An Analysis of Fusion Functions for Hybrid Retrieval",
    strategies=(DeferredStrategy("hybrid", f"{__package__}.strategy", "HybridStrategy"),),
)
