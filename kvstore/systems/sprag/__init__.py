"""spRAG, now dsRAG: neighboring chunks that belong together are returned as one segment of their document."""

from ...registry.contract import System
from ...registry.deferred_strategy import DeferredStrategy
from ...retrieval.query import Strategy
from .written_context import WRITTEN_CONTEXT


def _make_strategy() -> Strategy:
    from .strategy import SpragStrategy

    return SpragStrategy()


SYSTEM = System(
    "sprag",
    "spRAG (dsRAG of D-Star-AI): relevant segment extraction, AutoContext",
    strategies=(DeferredStrategy("sprag", _make_strategy),),
    facts=(WRITTEN_CONTEXT,),
)
