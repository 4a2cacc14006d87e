"""ArchRAG: entities and attributed communities in one layered graph, searched by a single descent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...registry.contract import System
from ...registry.deferred_strategy import DeferredStrategy
from .layer_index import COMMUNITY_GRAPH

if TYPE_CHECKING:
    from ...retrieval.query import Strategy


def _make_strategy() -> Strategy:
    """Import the module of the strategy, and return a new instance."""
    from .strategy import ArchragStrategy

    return ArchragStrategy()


SYSTEM = System(
    name="archrag",
    paper="Wang et al., ArchRAG: Attributed Community-based Hierarchical Retrieval-Augmented Generation (2025)",
    indexes=(COMMUNITY_GRAPH,),
    strategies=(DeferredStrategy("archrag", _make_strategy),),
)
