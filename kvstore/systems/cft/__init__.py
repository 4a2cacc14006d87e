"""CFT-RAG: entity trees found through the cuckoo filter."""

from ..contract import System
from .strategy import CftStrategy

SYSTEM = System("cft", "CFT-RAG, section 3.4", strategies=(CftStrategy(),))
