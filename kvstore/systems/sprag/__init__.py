"""spRAG, now dsRAG: neighbouring chunks that belong together are given as one segment of their document."""

from ..contract import System
from .strategy import SpragStrategy

SYSTEM = System("sprag", "spRAG (dsRAG of D-Star-AI): relevant segment extraction", strategies=(SpragStrategy(),))
