"""Passages and the names in them as a graph, and the strategies that walk over it."""

from ..contract import System
from .graph_strategy import GraphStrategy
from .hipporag_strategy import HippoRagStrategy
from .structure import GRAPH

SYSTEM = System(
    "passage_graph",
    "Gutiérrez et al. 2024, HippoRAG; 2025, From RAG to Memory",
    structures=(GRAPH,),
    strategies=(HippoRagStrategy(), GraphStrategy()),
)
