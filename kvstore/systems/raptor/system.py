"""The system ``raptor``: its parts, for the registry."""

from ...registry import DeferredStrategy
from ...registry.contract import System
from .topic_index import TOPICS
from .topic_tables import TABLES

SYSTEM = System(
    "raptor",
    "Sarthi et al., RAPTOR, ICLR 2024",
    indexes=(TOPICS,),
    strategies=(DeferredStrategy("raptor", f"{__package__}.strategy", "RaptorStrategy"),),
    tables=TABLES,
)
