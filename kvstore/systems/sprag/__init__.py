"""spRAG, now dsRAG: neighbouring chunks that belong together are given as one segment of their document."""

from ..contract import System
from .strategy import SpragStrategy
from .written_context import WRITTEN_CONTEXT

SYSTEM = System(
    "sprag",
    "spRAG (dsRAG of D-Star-AI): relevant segment extraction, AutoContext",
    strategies=(SpragStrategy(),),
    facts=(WRITTEN_CONTEXT,),
)
