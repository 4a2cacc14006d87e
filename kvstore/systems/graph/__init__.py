"""HippoRAG 2's walk from names and passages, after this house's own manner: with relevance, and with paths of units."""

from ..contract import System
from .strategy import GraphStrategy

SYSTEM = System(
    "graph",
    "after Gutiérrez et al. 2025, From RAG to Memory (HippoRAG 2)",
    strategies=(GraphStrategy(),),
)
