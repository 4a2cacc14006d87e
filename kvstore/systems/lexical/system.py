"""The system ``lexical``: its parts, for the registry."""

from ...registry import DeferredStrategy
from ...registry.contract import System

SYSTEM = System(
    "lexical",
    "Robertson and Zaragoza 2009, The Probabilistic Relevance Framework: BM25 and Beyond",
    strategies=(DeferredStrategy("lexical", f"{__package__}.strategy", "LexicalStrategy"),),
)
