"""Communities of entities that belong together, at several levels, and what they are about."""

from ..contract import Description, System
from .community_index import COMMUNITIES
from .community_tables import COMMUNITY_TABLE, MEMBER_TABLE, communities_of_entity, describe_community
from .drift_search import DriftStrategy
from .global_search import GlobalStrategy
from .local_search import LocalStrategy

SYSTEM = System(
    "graphrag",
    "Edge et al. 2024, From Local to Global: A Graph RAG Approach to Query-Focused Summarization",
    indexes=(COMMUNITIES,),
    strategies=(LocalStrategy(), GlobalStrategy(), DriftStrategy()),
    tables=(COMMUNITY_TABLE, MEMBER_TABLE),
    descriptions=(Description("community", describe_community),),
    of_entity=communities_of_entity,
)
