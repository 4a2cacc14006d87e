"""RAPTOR: retrieval from trees of summaries."""

from ...registry.contract import System
from ...registry.deferred_strategy import DeferredStrategy
from ...retrieval.query import Strategy
from .topic_index import TOPICS
from .topic_tables import TABLES


def _make_raptor() -> Strategy:
    """Import the module of the strategy, and return a new instance."""
    from .strategy import RaptorStrategy

    return RaptorStrategy()


SYSTEM = System(
    "raptor",
    "Sarthi et al., RAPTOR, ICLR 2024",
    indexes=(TOPICS,),
    strategies=(DeferredStrategy("raptor", _make_raptor),),
    tables=TABLES,
)
