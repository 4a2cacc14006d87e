"""Dense retrieval by the vectors of chunks."""

from ...registry.contract import System
from ...registry.deferred_strategy import DeferredStrategy
from ...retrieval.query import Strategy
from ...structures.indexes.vector_index import VECTOR_INDEX


def _make_strategy() -> Strategy:
    """Import the module of the strategy, and return a new instance."""
    from .strategy import VectorStrategy

    return VectorStrategy()


SYSTEM = System(
    "dense",
    "Karpukhin et al. 2020, Dense Passage Retrieval for Open-Domain Question Answering",
    indexes=(VECTOR_INDEX,),
    strategies=(DeferredStrategy("vector", _make_strategy),),
)
