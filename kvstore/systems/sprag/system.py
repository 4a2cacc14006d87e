"""The system ``sprag``: its parts, for the registry."""

from ...registry import DeferredStrategy
from ...registry.contract import System
from .written_context import WRITTEN_CONTEXT

SYSTEM = System(
    "sprag",
    "spRAG (dsRAG of D-Star-AI): relevant segment extraction, AutoContext",
    strategies=(DeferredStrategy("sprag", f"{__package__}.strategy", "SpragStrategy"),),
    facts=(WRITTEN_CONTEXT,),
)
