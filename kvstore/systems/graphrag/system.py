"""The system ``graphrag``: its parts, for the registry."""

from ...registry import DeferredStrategy
from ...registry.contract import Description, System
from .community_index import COMMUNITIES
from .community_tables import COMMUNITY_TABLE, MEMBER_TABLE, build_entity_properties, load_community_properties

SYSTEM = System(
    "graphrag",
    "Edge et al. 2024, From Local to Global: A Graph RAG Approach to Query-Focused Summarization",
    indexes=(COMMUNITIES,),
    strategies=(
        DeferredStrategy("local", f"{__package__}.local_search", "LocalStrategy"),
        DeferredStrategy("global", f"{__package__}.global_search", "GlobalStrategy"),
        DeferredStrategy("drift", f"{__package__}.drift_search", "DriftStrategy"),
    ),
    tables=(COMMUNITY_TABLE, MEMBER_TABLE),
    descriptions=(Description("community", load_community_properties),),
    describe_entity=build_entity_properties,
)
