"""GraphRAG: communities of related entities at several levels, and reports on them."""

from ...registry import DeferredStrategy
from ...registry.contract import Description, System
from .community_index import COMMUNITIES
from .community_tables import COMMUNITY_TABLE, MEMBER_TABLE, describe_community, describe_entity_communities

SYSTEM = System(
    "graphrag",
    "Edge et al. 2024, From Local to Global: A Graph RAG Approach to Query-Focused Summarization",
    indexes=(COMMUNITIES,),
    strategies=(
        DeferredStrategy("local", f"{__name__}.local_search", "LocalStrategy"),
        DeferredStrategy("global", f"{__name__}.global_search", "GlobalStrategy"),
        DeferredStrategy("drift", f"{__name__}.drift_search", "DriftStrategy"),
    ),
    tables=(COMMUNITY_TABLE, MEMBER_TABLE),
    descriptions=(Description("community", describe_community),),
    describe_entity=describe_entity_communities,
)
