"""Direct search by vectors and words together."""

from ...retrieval.query import Strategy
from ..contract import System
from ..deferred_strategy import DeferredStrategy


def _make_strategy() -> Strategy:
    from .strategy import HybridStrategy

    return HybridStrategy()


SYSTEM = System(
    "hybrid",
    "Bruch, Gai and Ingber 2023, An Analysis of Fusion Functions for Hybrid Retrieval",
    strategies=(DeferredStrategy("hybrid", _make_strategy),),
)
