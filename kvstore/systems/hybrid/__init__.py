"""Hybrid search: dense and lexical search combined."""

from ...registry.contract import System
from ...registry.deferred_strategy import DeferredStrategy
from ...retrieval.query import Strategy


def _make_strategy() -> Strategy:
    from .strategy import HybridStrategy

    return HybridStrategy()


SYSTEM = System(
    "hybrid",
    "Bruch, Gai and Ingber 2023, An Analysis of Fusion Functions for Hybrid Retrieval",
    strategies=(DeferredStrategy("hybrid", _make_strategy),),
)
