"""The system ``descriptions``: its parts, for the registry."""

from ...registry.contract import System
from .written_descriptions import DESCRIPTION_TABLE, WRITTEN_DESCRIPTIONS

SYSTEM = System(
    "descriptions",
    "Edge et al. 2024, From Local to Global: A Graph RAG Approach to Query-Focused Summarization",
    facts=(WRITTEN_DESCRIPTIONS,),
    tables=(DESCRIPTION_TABLE,),
)
