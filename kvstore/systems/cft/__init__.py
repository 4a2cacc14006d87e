"""CFT-RAG: retrieval of entity trees through the cuckoo filter."""

from ...retrieval.query import Strategy
from ..contract import System
from ..deferred_strategy import DeferredStrategy


def _make_strategy() -> Strategy:
    from .strategy import CftStrategy

    return CftStrategy()


SYSTEM = System("cft", "CFT-RAG, section 3.4", strategies=(DeferredStrategy("cft", _make_strategy),))
