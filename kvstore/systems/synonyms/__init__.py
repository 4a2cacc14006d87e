"""Names that mean much the same."""

from ..contract import System
from .synonym_index import SYNONYMS

SYSTEM = System("synonyms", "Gutiérrez et al. 2024, HippoRAG, section 2", indexes=(SYNONYMS,))
