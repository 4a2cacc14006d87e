"""BM25 over the words of chunks."""

from ...registry import DeferredStrategy
from ...registry.contract import System

SYSTEM = System(
    "lexical",
    "Robertson and Zaragoza 2009, The Probabilistic Relevance Framework: BM25 and Beyond",
    strategies=(DeferredStrategy("lexical", f"{__name__}.strategy", "LexicalStrategy"),),
)
