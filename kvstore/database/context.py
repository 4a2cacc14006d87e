"""The context of a session: the data that a handle of an open store shares with its snapshots and transactions.

In: the open store. Out: the objects shared by all handles, and the data of this one: session settings, the names of the
last lookup, the reranker, and the read-only flag.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from ..errors import ClosedError
from ..settings import FixedSettings, SessionSettings
from ..storage.environment import Environment
from ..structures.state import State
from .open_store import OpenStore

if TYPE_CHECKING:
    from ..changes.trace_cache import TraceCache
    from ..models.llm import LanguageModel
    from ..retrieval.reranking import RerankFunction
    from .index_worker import IndexManager


class Context:
    """The shared and private data of one handle."""

    def __init__(self, store: OpenStore, *, readonly: bool, session: SessionSettings | None = None) -> None:
        self.store = store
        self.readonly = readonly
        self.session = session or SessionSettings()
        self.last_lookup: tuple[str, ...] = ()
        #: True if this handle was closed; other handles can stay open.
        self.closed = False
        #: The name and instance of the last reranker used, cached because it can hold a model.
        self._reranker: tuple[str, RerankFunction | None] | None = None
        self.hits = store.hits
        self.open_indexes = store.open_indexes
        self.filter_cache = store.filter_cache
        self.build_state = store.build_state
        self.embed = store.embed
        self.embed_cached = store.embed_cached
        self.load_models = store.load_models
        self.require_language = store.require_language

    @property
    def settings(self) -> FixedSettings:
        """The settings that the store was created with."""
        return self.store.settings

    @property
    def environment(self) -> Environment:
        """The store's environment; raises ClosedError if the handle was closed."""
        if self.closed and not self.store.environment.closed:
            raise ClosedError(f"{self.store.environment.path}: this handle was closed; open the store again")
        return self.store.environment

    @property
    def indexing(self) -> IndexManager:
        """The object that creates and extends the store's indexes."""
        return self.store.indexing

    @property
    def trace_cache(self) -> TraceCache:
        """The cache that rules out stored texts in which a new name cannot occur."""
        return self.store.trace_cache

    @property
    def has_own_embedder(self) -> bool:
        """True if the embedder is an object passed by the calling program, which other processes cannot load."""
        return self.store.has_own_embedder

    def state(self) -> AbstractContextManager[State]:
        """Open the state of the last commit, for as long as the context lasts."""
        self.environment.require_open()
        return self.store.state()

    def get_language_model(self, name: str | None = None) -> LanguageModel | None:
        """Return the language model with this name, else the session's, else the environment's; None without a name."""
        from ..models.llm import open_language_model

        return open_language_model(name, self.session)

    def load_reranker(self, name: str | None = None) -> RerankFunction | None:
        """Return the reranker with this name, else the session's; None if the name is ``none``."""
        reranker_name = name or self.session.reranker
        if reranker_name == "none":
            return None
        cached = self._reranker
        if cached is None or cached[0] != reranker_name:
            from ..retrieval.reranking import make_reranker

            self._reranker = cached = reranker_name, make_reranker(reranker_name)
        return cached[1]

    def count_hits(self, keys: Iterable[str]) -> None:
        """Add 1 to the temperature of each of these entities, with the next commit."""
        if not self.readonly:
            self.hits.add(keys)

    @contextmanager
    def pause_recording(self) -> Iterator[None]:
        """Do not record this thread's lookups within the block, neither as temperatures nor as the last LOOKUP."""
        last_lookup = self.last_lookup
        try:
            with self.hits.pause():
                yield
        finally:
            self.last_lookup = last_lookup
