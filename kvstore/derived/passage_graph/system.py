"""The system ``passage_graph``: its parts, for the registry."""

from ...registry.contract import System
from .structure import GRAPH

SYSTEM = System("passage_graph", "Gutiérrez et al. 2024, HippoRAG", structures=(GRAPH,))
