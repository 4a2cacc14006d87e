"""Dense retrieval by the vectors of chunks."""

from ...structures.indexes.vector_index import VECTORS
from ..contract import System
from .strategy import VectorStrategy

SYSTEM = System(
    "dense",
    "Karpukhin et al. 2020, Dense Passage Retrieval for Open-Domain Question Answering",
    indexes=(VECTORS,),
    strategies=(VectorStrategy(),),
)
