"""HippoRAG: personalized PageRank over the graph of passages and names."""

from ...registry.contract import System
from ...registry.deferred_strategy import DeferredStrategy
from ...retrieval.query import Strategy
from .written_triples import WRITTEN_TRIPLES


def _make_strategy() -> Strategy:
    from .strategy import HippoRagStrategy

    return HippoRagStrategy()


SYSTEM = System(
    "hipporag",
    "Gutiérrez et al. 2024, HippoRAG",
    facts=(WRITTEN_TRIPLES,),
    strategies=(DeferredStrategy("hipporag", _make_strategy),),
)
