"""Bridge-RAG: retrieval from entities through abstracts to chunks."""

from ...registry.contract import System
from ...registry.deferred_strategy import DeferredStrategy
from ...retrieval.query import Strategy


def _make_strategy() -> Strategy:
    from .strategy import BridgeStrategy

    return BridgeStrategy()


SYSTEM = System(
    "bridge", "Bridge-RAG, Algorithm 1 and section 4.3", strategies=(DeferredStrategy("bridge", _make_strategy),)
)
