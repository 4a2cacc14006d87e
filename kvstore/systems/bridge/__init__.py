"""Bridge-RAG: from entities over abstracts to chunks."""

from ..contract import System
from .strategy import BridgeStrategy

SYSTEM = System("bridge", "Bridge-RAG, Algorithm 1 and section 4.3", strategies=(BridgeStrategy(),))
