"""The system ``synonyms``: its parts, for the registry."""

from ...registry.contract import System
from .synonym_index import SYNONYMS

SYSTEM = System("synonyms", "Gutiérrez et al. 2024, HippoRAG, section 2", indexes=(SYNONYMS,))
