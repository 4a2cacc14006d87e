"""spRAG, now dsRAG: neighboring chunks that belong together are returned as one segment of their document."""

from ...registry import DeferredStrategy
from ...registry.contract import System
from .written_context import WRITTEN_CONTEXT

SYSTEM = System(
    "sprag",
    "spRAG (dsRAG of D-Star-AI): relevant segment extraction, AutoContext",
    strategies=(DeferredStrategy("sprag", f"{__name__}.strategy", "SpragStrategy"),),
    facts=(WRITTEN_CONTEXT,),
)
