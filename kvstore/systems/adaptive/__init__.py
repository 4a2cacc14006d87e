"""The default: direct search and the walk over the graph, each weighed by how much it knows."""

from ..contract import System
from .strategy import AdaptiveStrategy

SYSTEM = System("adaptive", "of this project: it weighs hybrid against graph", strategies=(AdaptiveStrategy(),))
