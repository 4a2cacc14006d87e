"""BM25 over the words of chunks."""

from ...registry.contract import System
from ...registry.deferred_strategy import DeferredStrategy
from ...retrieval.query import Strategy


def _make_strategy() -> Strategy:
    """Import the module of the strategy, and return a new instance."""
    from .strategy import LexicalStrategy

    return LexicalStrategy()


SYSTEM = System(
    "lexical",
    "Robertson and Zaragoza 2009, The Probabilistic Relevance Framework: BM25 and Beyond",
    strategies=(DeferredStrategy("lexical", _make_strategy),),
)
