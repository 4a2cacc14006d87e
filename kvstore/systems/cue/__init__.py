"""CUE-RAG: a graph of chunks, units (sentences) and entities, and paths through it."""

from ..contract import System
from .strategy import CueStrategy
from .unit_derivation import UNIT_INDEX
from .unit_tables import UNIT_MENTION_TABLE, UNIT_TABLE
from .written_units import WRITTEN_UNITS

SYSTEM = System(
    "cue",
    "Su et al. 2025, CUE-RAG: Towards Accurate and Cost-Efficient Graph-Based RAG via Multi-Partite Graph and "
    "Query-Driven Iterative Retrieval",
    indexes=(UNIT_INDEX,),
    facts=(WRITTEN_UNITS,),
    strategies=(CueStrategy(),),
    tables=(UNIT_TABLE, UNIT_MENTION_TABLE),
)
