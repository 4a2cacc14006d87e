"""The system ``graph``: its parts, for the registry."""

from ...registry import DeferredStrategy
from ...registry.contract import System

SYSTEM = System(
    "graph",
    "after Gutiérrez et al. 2025, From RAG to Memory (HippoRAG 2)",
    strategies=(DeferredStrategy("graph", f"{__package__}.strategy", "GraphStrategy"),),
)
