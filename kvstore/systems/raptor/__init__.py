"""RAPTOR: trees of summaries, read from above."""

from ..contract import System
from .strategy import RaptorStrategy

SYSTEM = System("raptor", "Sarthi et al., RAPTOR, ICLR 2024", strategies=(RaptorStrategy(),))
