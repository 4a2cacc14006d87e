"""GraphRAG: communities of related entities at several levels, and reports on them."""

from ...registry.contract import Description, System
from ...registry.deferred_strategy import DeferredStrategy
from ...retrieval.query import Strategy
from .community_index import COMMUNITIES
from .community_tables import COMMUNITY_TABLE, MEMBER_TABLE, describe_community, describe_entity_communities


def _make_drift() -> Strategy:
    """Import the module of the strategy, and return a new instance."""
    from .drift_search import DriftStrategy

    return DriftStrategy()


def _make_global() -> Strategy:
    """Import the module of the strategy, and return a new instance."""
    from .global_search import GlobalStrategy

    return GlobalStrategy()


def _make_local() -> Strategy:
    """Import the module of the strategy, and return a new instance."""
    from .local_search import LocalStrategy

    return LocalStrategy()


SYSTEM = System(
    "graphrag",
    "Edge et al. 2024, From Local to Global: A Graph RAG Approach to Query-Focused Summarization",
    indexes=(COMMUNITIES,),
    strategies=(
        DeferredStrategy("local", _make_local),
        DeferredStrategy("global", _make_global),
        DeferredStrategy("drift", _make_drift),
    ),
    tables=(COMMUNITY_TABLE, MEMBER_TABLE),
    descriptions=(Description("community", describe_community),),
    describe_entity=describe_entity_communities,
)
