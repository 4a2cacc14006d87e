"""The system ``archrag``: its parts, for the registry."""

from ...registry import DeferredStrategy
from ...registry.contract import System
from .layer_index import COMMUNITY_GRAPH

SYSTEM = System(
    name="archrag",
    paper="Wang et al., ArchRAG: Attributed Community-based Hierarchical Retrieval-Augmented Generation (2025)",
    indexes=(COMMUNITY_GRAPH,),
    strategies=(DeferredStrategy("archrag", f"{__package__}.strategy", "ArchragStrategy"),),
)
