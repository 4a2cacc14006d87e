"""Bridge-RAG: retrieval from entities through abstracts to chunks."""

from ...retrieval.query import Strategy
from ..contract import System
from ..deferred_strategy import DeferredStrategy


def _make_strategy() -> Strategy:
    from .strategy import BridgeStrategy

    return BridgeStrategy()


SYSTEM = System(
    "bridge", "Bridge-RAG, Algorithm 1 and section 4.3", strategies=(DeferredStrategy("bridge", _make_strategy),)
)
