"""Direct search by vectors and words together."""

from ..contract import System
from .strategy import HybridStrategy

SYSTEM = System(
    "hybrid",
    "Bruch, Gai and Ingber 2023, An Analysis of Fusion Functions for Hybrid Retrieval",
    strategies=(HybridStrategy(),),
)
