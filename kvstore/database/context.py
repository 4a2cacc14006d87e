"""What a store's snapshots and transactions share with it: its files, settings, models, and what it keeps in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from ..settings import FixedSettings, SessionSettings
from ..storage.environment import Environment
from ..structures.filter.filter_cache import KeptFilter
from ..structures.filter.temperatures import HitCounts
from ..structures.forest.place_cache import PlaceCache
from ..structures.open_indexes import OpenIndexes

if TYPE_CHECKING:
    from ..models.embedder import Embedder
    from ..models.llm import LanguageModel
    from ..retrieval.reranking import Rerank


class Context(Protocol):
    """What snapshots and transactions need of the store they belong to."""

    environment: Environment
    settings: FixedSettings
    session: SessionSettings
    hits: HitCounts
    open_indexes: OpenIndexes
    place_cache: PlaceCache
    kept_filter: KeptFilter
    last_lookup: tuple[str, ...]

    @property
    def embedder(self) -> Embedder:
        """The store's embedder, loaded when first asked for."""
        ...

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Unit vectors of some texts, shape (n, dimension)."""
        ...

    def language_model(self, name: str | None = None) -> LanguageModel | None:
        """The language model of this name, else the session's; None where there is none."""
        ...

    def reranker(self, name: str | None = None) -> Rerank | None:
        """The reranker of this name, else the session's; None where there is none."""
        ...

    def count_hits(self, keys: Iterable[str]) -> None:
        """Add one to the temperature of each of some entities, with the next commit."""
        ...

    def committed(self, next_chunk: int) -> None:
        """Learn that a transaction has changed something, and from which number on there is no chunk."""
        ...
