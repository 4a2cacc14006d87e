"""Passages and the names in them as a graph, the walk over it, and HippoRAG's strategy."""

from ..contract import System
from .hipporag_strategy import HippoRagStrategy
from .structure import GRAPH

SYSTEM = System(
    "passage_graph",
    "Gutiérrez et al. 2024, HippoRAG",
    structures=(GRAPH,),
    strategies=(HippoRagStrategy(),),
)
