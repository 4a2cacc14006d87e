"""RAPTOR: trees of summaries, read from above."""

from ..contract import System
from .strategy import RaptorStrategy
from .topic_index import TOPICS
from .topic_tables import TABLES

SYSTEM = System(
    "raptor",
    "Sarthi et al., RAPTOR, ICLR 2024",
    indexes=(TOPICS,),
    strategies=(RaptorStrategy(),),
    tables=TABLES,
)
