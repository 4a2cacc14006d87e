"""What the states of one open store share of its indexes, in memory: the index files that were read, what was made of
generations, and vectors."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..storage.index_file import Content, LoadedFile, build_index_path
from .documents.condition_cache import ConditionCache
from .vectors.vectors import VerifiedBlocks

if TYPE_CHECKING:
    from ..storage.environment import Environment
    from .vectors.vector_cache import VectorCache

#: Generations of a kind of which something is kept: a snapshot may still read the one before.
_MAX_GENERATIONS = 2


class OpenIndexes:
    """The index files of one open store, each read when it is first asked for; ``vectors`` serves exact search,
    ``verified_blocks`` are the blocks of vectors that were, ``condition_cache`` those that were asked before."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.clear_caches()
        self._files: dict[str, LoadedFile[Any]] = {}
        self._generations: dict[str, dict[bytes, dict[str, Any]]] = {}

    def clear_caches(self) -> None:
        """Keep nothing that was read of the store's tables: after a repair all of it stands elsewhere."""
        self.__dict__.pop("vectors", None)
        self.verified_blocks = VerifiedBlocks()
        self.condition_cache = ConditionCache()

    @cached_property
    def vectors(self) -> VectorCache:
        """The vectors that are held; what holds them is loaded when they are asked for."""
        from .vectors.vector_cache import VectorCache

        return VectorCache()

    def get_file(self, kind: str, read: Callable[[Path], Content]) -> LoadedFile[Content]:
        """The file of a kind of index; ``read`` makes of it what is kept."""
        return self._files.setdefault(kind, LoadedFile(build_index_path(self.environment.path, kind), read))

    def get_generation_memory(self, kind: str, token: bytes) -> dict[str, Any]:
        """What is kept of a generation of a kind of index, by name; of the last two that were asked for."""
        memories = self._generations.setdefault(kind, {})
        memory = memories.setdefault(token, {})
        for old_token in list(memories)[:-_MAX_GENERATIONS]:
            memories.pop(old_token, None)
        return memory
