"""Dense retrieval by the vectors of chunks."""

from ...retrieval.query import Strategy
from ...structures.indexes.vector_index import VECTORS
from ..contract import System
from ..deferred_strategy import DeferredStrategy


def _vector() -> Strategy:
    from .strategy import VectorStrategy

    return VectorStrategy()


SYSTEM = System(
    "dense",
    "Karpukhin et al. 2020, Dense Passage Retrieval for Open-Domain Question Answering",
    indexes=(VECTORS,),
    strategies=(DeferredStrategy("vector", _vector),),
)
