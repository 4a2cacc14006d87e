"""A request for the names nearest to a vector."""

from __future__ import annotations

from ...structures.indexes.index_reading import bind_index
from ...structures.read_requests import ReadRequest, Vector
from ...structures.state import State
from .synonym_index import SYNONYMS


class NearestNamesRequest(ReadRequest[list[tuple[int, float]] | None]):
    """A request for the entities whose names are nearest to a unit vector, at most ``max_names``, with their cosines.

    The answer is None if the store has no index of kind ``synonyms``.
    """

    vector: Vector
    max_names: int

    def fetch(self, state: State) -> list[tuple[int, float]] | None:
        synonyms = bind_index(state, SYNONYMS)
        return None if synonyms is None else list(synonyms.find_nearest(self.vector, self.max_names))
