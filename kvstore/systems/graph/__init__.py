"""A walk from names and chunks after HippoRAG 2, combined with relevance and with paths of units."""

from ...registry import DeferredStrategy
from ...registry.contract import System

SYSTEM = System(
    "graph",
    "after Gutiérrez et al. 2025, From RAG to Memory (HippoRAG 2)",
    strategies=(DeferredStrategy("graph", f"{__name__}.strategy", "GraphStrategy"),),
)
