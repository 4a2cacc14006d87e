"""A walk from names and chunks after HippoRAG 2, combined with relevance and with paths of units."""

from ...retrieval.query import Strategy
from ..contract import System
from ..deferred_strategy import DeferredStrategy


def _make_strategy() -> Strategy:
    from .strategy import GraphStrategy

    return GraphStrategy()


SYSTEM = System(
    "graph",
    "after Gutiérrez et al. 2025, From RAG to Memory (HippoRAG 2)",
    strategies=(DeferredStrategy("graph", _make_strategy),),
)
