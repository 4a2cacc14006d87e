"""The index files of one open store as this process has them in memory, shared by all its views.

In: the store's directory. Out: searches by index, and how each index stands.
"""

from __future__ import annotations

from ...storage.environment import Environment
from .index_building import trusts
from .indexes import SYNONYMS, VECTORS, IndexStatus
from .synonyms import SynonymSearch
from .vector_search import ChunkState, VectorSearch


class OpenIndexes:
    """What the views of an open store search by; ``dimension`` is that of its vectors."""

    def __init__(self, environment: Environment, dimension: int) -> None:
        path = environment.path
        self.vectors = VectorSearch(path, dimension, lambda token: trusts(environment, VECTORS, token))
        self.synonyms = SynonymSearch(path, dimension, lambda token: trusts(environment, SYNONYMS, token))

    def statuses(self, state: ChunkState) -> list[IndexStatus]:
        """How each index stands, as the state sees it; those that are part of every commit too."""
        change = state.counters.change
        exact = [IndexStatus(kind, "exact", change, 0, "part of every commit") for kind in ("entities", "lexical")]
        synonyms = self.synonyms.status(state)
        return [*exact, self.vectors.status(state), *([] if synonyms is None else [synonyms])]
