"""HippoRAG: personalized PageRank over the graph of passages and names."""

from ...registry.contract import System
from ...registry.deferred_strategy import DeferredStrategy
from .written_triples import WRITTEN_TRIPLES

SYSTEM = System(
    "hipporag",
    "Gutiérrez et al. 2024, HippoRAG",
    facts=(WRITTEN_TRIPLES,),
    strategies=(DeferredStrategy("hipporag", f"{__name__}.strategy", "HippoRagStrategy"),),
)
