"""The system ``cue``: its parts, for the registry."""

from ...registry import DeferredStrategy
from ...registry.contract import System
from .unit_derivation import UNIT_INDEX
from .unit_tables import UNIT_MENTION_TABLE, UNIT_TABLE
from .written_units import WRITTEN_UNITS

SYSTEM = System(
    "cue",
    "Su et al. 2025, CUE-RAG: Towards Accurate and Cost-Efficient Graph-Based RAG via Multi-Partite Graph and "
    "Query-Driven Iterative Retrieval",
    indexes=(UNIT_INDEX,),
    facts=(WRITTEN_UNITS,),
    strategies=(DeferredStrategy("cue", f"{__package__}.strategy", "CueStrategy"),),
    tables=(UNIT_TABLE, UNIT_MENTION_TABLE),
)
