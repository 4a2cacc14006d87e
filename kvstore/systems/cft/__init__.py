"""CFT-RAG: retrieval of entity trees through the cuckoo filter."""

from ...registry.contract import System
from ...registry.deferred_strategy import DeferredStrategy
from ...retrieval.query import Strategy


def _make_strategy() -> Strategy:
    from .strategy import CftStrategy

    return CftStrategy()


SYSTEM = System("cft", "CFT-RAG, section 3.4", strategies=(DeferredStrategy("cft", _make_strategy),))
