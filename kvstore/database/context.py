"""What a store's snapshots and transactions share with it: its files, settings, models, and what it keeps in memory.

In: an open environment and the settings of the store in it. Out: the last commit as a state, vectors, models. Models
are loaded when they are first needed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from ..errors import KvstoreError
from ..models.embedder import Embedder, open_embedder
from ..models.language import open_language
from ..settings import FixedSettings, SessionSettings
from ..storage.environment import Environment, View
from ..structures.filter.filter_cache import FilterCache
from ..structures.filter.temperatures import HitCounts
from ..structures.forest.place_cache import PlaceCache
from ..structures.open_indexes import OpenIndexes
from ..structures.state import State
from ..structures.vectors.vectors import Matrix
from .index_worker import Indexing

if TYPE_CHECKING:
    from ..models.llm import LanguageModel
    from ..retrieval.reranking import Rerank

_log = logging.getLogger("kvstore")


class Context:
    """What an open store shares with its snapshots and transactions."""

    def __init__(self, environment: Environment, settings: FixedSettings, embedder: Embedder | None) -> None:
        self.environment = environment
        self.settings = settings
        self.session = SessionSettings()
        self.hits = HitCounts()
        self.last_lookup: tuple[str, ...] = ()
        self.open_indexes = OpenIndexes(environment)
        self.indexing = Indexing(self.open_indexes, settings, self.embed)
        self.place_cache = PlaceCache()
        self.filter_cache = FilterCache()
        self._embedder = embedder
        #: Whether the embedder is an object of the program's own, which no other process has.
        self.embedder_given = embedder is not None
        self._embedder_lock = threading.Lock()
        #: The reranker that was last asked for, by name: it may hold a model.
        self._reranker: tuple[str, Rerank | None] | None = None

    def state_of(self, snapshot: View) -> State:
        """The structures of a snapshot."""
        return State(snapshot, self.settings, self.open_indexes, self.place_cache)

    @contextmanager
    def state(self) -> Iterator[State]:
        """The structures of the last commit, while the context is open."""
        with self.environment.snapshot() as snapshot:
            yield self.state_of(snapshot)

    @property
    def embedder(self) -> Embedder:
        """The store's embedder, loaded when first asked for."""
        with self._embedder_lock:
            if self._embedder is None:
                self._embedder = open_embedder(self.settings.embedder)
            return self._embedder

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Unit vectors of some texts, shape (n, dimension)."""
        return self.embedder.embed(texts) if texts else np.empty((0, self.settings.dimension), np.float32)

    def load_models(self) -> None:
        """Load what documents are read and embedded with.

        What cannot be loaded raises nothing here: it does when something is put that needs it.
        """
        try:
            self.require_language()
        except KvstoreError as error:
            _log.info("%s: the language pipeline is not loaded: %s", self.environment.path, error)
        try:
            load = getattr(self.embedder, "load", None)
            if load is not None:
                load()
        except KvstoreError as error:
            _log.info("%s: the embedder is not loaded: %s", self.environment.path, error)

    def require_language(self) -> None:
        """Load the language pipeline, if the store has one; raises LanguageError where it cannot be."""
        pipeline = open_language(self.settings.language)
        if pipeline is not None:
            pipeline.load()

    def language_model(self, name: str | None = None) -> LanguageModel | None:
        """The language model of this name, else the session's; None where there is none."""
        from ..models.llm import language_model

        return language_model(name, self.session)

    def reranker(self, name: str | None = None) -> Rerank | None:
        """The reranker of this name, else the session's; None where there is none."""
        wanted = name or self.session.reranker
        if wanted == "none":
            return None
        known = self._reranker
        if known is None or known[0] != wanted:
            from ..retrieval.reranking import reranker_named

            self._reranker = known = wanted, reranker_named(wanted)
        return known[1]

    def count_hits(self, keys: Iterable[str]) -> None:
        """Add one to the temperature of each of some entities, with the next commit."""
        if not self.environment.readonly:
            self.hits.add(keys)
