"""What the states of one open store share of its indexes, in memory: the index files that were read, and vectors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..storage.environment import Environment
from ..storage.index_file import Kept, LoadedFile, path_of
from .vectors.vector_cache import VectorCache


class OpenIndexes:
    """The index files of one open store, each read when it is first asked for; ``vectors`` serves exact search."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.vectors = VectorCache()
        self._files: dict[str, LoadedFile[Any]] = {}

    def file(self, kind: str, read: Callable[[Path], Kept]) -> LoadedFile[Kept]:
        """The file of a kind of index; ``read`` makes of it what is kept."""
        return self._files.setdefault(kind, LoadedFile(path_of(self.environment.path, kind), read))
