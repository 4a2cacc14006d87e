"""The graph of chunks and the names in them, the walk over it, and HippoRAG's strategy."""

from ...retrieval.query import Strategy
from ..contract import System
from ..deferred_strategy import DeferredStrategy
from .structure import GRAPH


def _make_strategy() -> Strategy:
    from .hipporag_strategy import HippoRagStrategy

    return HippoRagStrategy()


SYSTEM = System(
    "passage_graph",
    "Gutiérrez et al. 2024, HippoRAG",
    structures=(GRAPH,),
    strategies=(DeferredStrategy("hipporag", _make_strategy),),
)
