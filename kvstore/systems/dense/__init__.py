"""Dense retrieval by the vectors of chunks."""

from ..contract import System
from .strategy import VectorStrategy

SYSTEM = System(
    "dense",
    "Karpukhin et al. 2020, Dense Passage Retrieval for Open-Domain Question Answering",
    strategies=(VectorStrategy(),),
)
