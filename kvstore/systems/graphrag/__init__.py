"""Communities of entities that belong together, at several levels, and what they are about."""

from ...retrieval.query import Strategy
from ..contract import Description, System
from ..deferred_strategy import DeferredStrategy
from .community_index import COMMUNITIES
from .community_tables import COMMUNITY_TABLE, MEMBER_TABLE, communities_of_entity, describe_community


def _drift() -> Strategy:
    from .drift_search import DriftStrategy

    return DriftStrategy()


def _global() -> Strategy:
    from .global_search import GlobalStrategy

    return GlobalStrategy()


def _local() -> Strategy:
    from .local_search import LocalStrategy

    return LocalStrategy()


SYSTEM = System(
    "graphrag",
    "Edge et al. 2024, From Local to Global: A Graph RAG Approach to Query-Focused Summarization",
    indexes=(COMMUNITIES,),
    strategies=(
        DeferredStrategy("local", _local),
        DeferredStrategy("global", _global),
        DeferredStrategy("drift", _drift),
    ),
    tables=(COMMUNITY_TABLE, MEMBER_TABLE),
    descriptions=(Description("community", describe_community),),
    of_entity=communities_of_entity,
)
