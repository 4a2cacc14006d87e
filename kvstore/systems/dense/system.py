"""The system ``dense``: its parts, for the registry."""

from ...registry import DeferredStrategy
from ...registry.contract import System
from ...structures.indexes.vector_index import VECTOR_INDEX

SYSTEM = System(
    "dense",
    "Karpukhin et al. 2020, Dense Passage Retrieval for Open-Domain Question Answering",
    indexes=(VECTOR_INDEX,),
    strategies=(DeferredStrategy("vector", f"{__package__}.strategy", "VectorStrategy"),),
)
