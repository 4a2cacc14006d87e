"""ArchRAG: entities and attributed communities in one layered graph, searched by a single descent."""

from ...registry import DeferredStrategy
from ...registry.contract import System
from .layer_index import COMMUNITY_GRAPH

SYSTEM = System(
    name="archrag",
    paper="Wang et al., ArchRAG: Attributed Community-based Hierarchical Retrieval-Augmented Generation (2025)",
    indexes=(COMMUNITY_GRAPH,),
    strategies=(DeferredStrategy("archrag", f"{__name__}.strategy", "ArchragStrategy"),),
)
