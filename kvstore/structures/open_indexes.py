"""In-memory index data shared by the states of an open store: index files, generation caches, and vectors. A
*generation* is one build of an index whose rows are in tables of the store. Its *token* is random and identifies it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..storage.index_file import Content, LazyIndexFile, build_index_path

if TYPE_CHECKING:
    from ..storage.environment import Environment
    from .decoded_data import DecodedDataCache
    from .documents.condition_cache import ConditionCache
    from .vectors.vector_cache import VectorCache
    from .vectors.verified_blocks import VerifiedBlocks

#: The number of cached generations per kind: a snapshot may still read the previous one.
_MAX_GENERATIONS = 2


class OpenIndexes:
    """The index files of one open store, each read on first use.

    ``vectors`` serves exact search, ``verified_blocks`` records the vector blocks already verified, and
    ``condition_cache`` caches conditions.
    """

    def __init__(self, environment: Environment) -> None:
        """Create an empty registry of open index files and caches for the store that ``environment`` has open."""
        self.environment = environment
        self._files: dict[str, LazyIndexFile[Any]] = {}
        self._generation_caches: dict[str, dict[bytes, dict[str, Any]]] = {}

    def clear_caches(self) -> None:
        """Drop the caches of vectors, conditions and decoded data, after a repair has rewritten the tables."""
        # Without its stored value, a cached property is computed again on its next use.
        for name in ("vectors", "verified_blocks", "condition_cache", "decoded_data"):
            self.__dict__.pop(name, None)

    @cached_property
    def vectors(self) -> VectorCache:
        """The cache of vectors; its module is loaded on first use."""
        from .vectors.vector_cache import VectorCache

        return VectorCache()

    @cached_property
    def verified_blocks(self) -> VerifiedBlocks:
        """The record of the vector blocks whose checksums are verified. Its class is imported on first use."""
        from .vectors.verified_blocks import VerifiedBlocks

        return VerifiedBlocks()

    @cached_property
    def condition_cache(self) -> ConditionCache:
        """The cache of the documents that match conditions; its module is loaded on first use."""
        from .documents.condition_cache import ConditionCache

        return ConditionCache()

    @cached_property
    def decoded_data(self) -> DecodedDataCache:
        """The cache of decoded records of the last commit, such as documents; its module is loaded on first use."""
        from .decoded_data import DecodedDataCache

        return DecodedDataCache()

    def get_index_file(self, kind: str, read: Callable[[Path], Content]) -> LazyIndexFile[Content]:
        """Return the file of an index, given its kind (such as "vectors"); the same object on every call.

        ``read`` reads the content of a file at a path, on first use.
        """
        return self._files.setdefault(kind, LazyIndexFile(build_index_path(self.environment.path, kind), read))

    def get_generation_cache(self, kind: str, token: bytes) -> dict[str, Any]:
        """Return the cache of a generation (one build) of an index: a map from names to data built from its rows.

        ``token`` identifies the generation. Only the caches of the last two generations of a kind are kept.
        """
        caches = self._generation_caches.setdefault(kind, {})
        cache = caches.setdefault(token, {})
        for old_token in list(caches)[:-_MAX_GENERATIONS]:
            caches.pop(old_token, None)
        return cache
