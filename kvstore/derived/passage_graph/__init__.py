"""The graph of chunks and the names in them, and the walks over it."""

from ...registry.contract import System
from .structure import GRAPH

SYSTEM = System("passage_graph", "Gutiérrez et al. 2024, HippoRAG", structures=(GRAPH,))
