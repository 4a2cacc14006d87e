"""The system ``hipporag``: its parts, for the registry."""

from ...registry import DeferredStrategy
from ...registry.contract import System
from .written_triples import WRITTEN_TRIPLES

SYSTEM = System(
    "hipporag",
    "Gutiérrez et al. 2024, HippoRAG",
    facts=(WRITTEN_TRIPLES,),
    strategies=(DeferredStrategy("hipporag", f"{__package__}.strategy", "HippoRagStrategy"),),
)
