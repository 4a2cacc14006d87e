"""A request for whether a store has an index, without importing the module of that kind of index."""

from __future__ import annotations

from ...registry.structure_versions import has_index
from ...structures.read_requests import ReadRequest
from ...structures.state import State


class HasIndex(ReadRequest[bool]):
    """A request for whether the store has an index of a kind, given by its name in CREATE INDEX."""

    kind: str

    def fetch(self, state: State) -> bool:
        """Return True if the index was created."""
        return has_index(state.lmdb, self.kind)
