"""BM25 over the words of chunks."""

from ..contract import System
from .strategy import LexicalStrategy

SYSTEM = System(
    "lexical",
    "Robertson and Zaragoza 2009, The Probabilistic Relevance Framework: BM25 and Beyond",
    strategies=(LexicalStrategy(),),
)
