"""ArchRAG: entities and attributed communities, searched layer by layer in one descent over one graph."""

from __future__ import annotations

from ..contract import System
from .layer_index import COMMUNITY_GRAPH
from .strategy import ArchragStrategy

SYSTEM = System(
    name="archrag",
    paper="Wang et al., ArchRAG: Attributed Community-based Hierarchical Retrieval-Augmented Generation (2025)",
    indexes=(COMMUNITY_GRAPH,),
    strategies=(ArchragStrategy(),),
)
