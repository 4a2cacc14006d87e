"""A session's context: what a handle of an open store shares with its snapshots and transactions.

In: the open store. Out: what all handles share, and what is this one's: its settings, the names it looked up last, its
reranker, and whether it only reads.
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
    """What one handle works with."""

    def __init__(self, store: OpenStore, *, readonly: bool, session: SessionSettings | None = None) -> None:
        self.store = store
        self.readonly = readonly
        self.session = session or SessionSettings()
        self.last_lookup: tuple[str, ...] = ()
        #: Whether the handle was closed; others may go on.
        self.closed = False
        #: The reranker that was last asked for, by name: it may hold a model.
        self._reranker: tuple[str, RerankFunction | None] | None = None
        self.hits = store.hits
        self.open_indexes = store.open_indexes
        self.filter_cache = store.filter_cache
        self.build_state = store.build_state
        self.embed = store.embed
        self.load_models = store.load_models
        self.require_language = store.require_language

    @property
    def settings(self) -> FixedSettings:
        """The settings that the store was made with."""
        return self.store.settings

    @property
    def environment(self) -> Environment:
        """The store's environment; raises ClosedError where the handle was closed."""
        if self.closed and not self.store.environment.closed:
            raise ClosedError(f"{self.store.environment.path}: this handle was closed; open the store again")
        return self.store.environment

    @property
    def indexing(self) -> IndexManager:
        """What makes and extends the indexes of the store."""
        return self.store.indexing

    @property
    def trace_cache(self) -> TraceCache:
        """What was noted of texts, for names that are new."""
        return self.store.trace_cache

    @property
    def has_own_embedder(self) -> bool:
        """Whether the embedder is an object of the program's own, which no other process has."""
        return self.store.has_own_embedder

    def state(self) -> AbstractContextManager[State]:
        """The structures of the last commit, while the context is open."""
        self.environment.require_open()
        return self.store.state()

    def get_language_model(self, name: str | None = None) -> LanguageModel | None:
        """The language model of this name, else the session's; None where there is none."""
        from ..models.llm import open_language_model

        return open_language_model(name, self.session)

    def load_reranker(self, name: str | None = None) -> RerankFunction | None:
        """The reranker of this name, else the session's; None where there is none."""
        reranker_name = name or self.session.reranker
        if reranker_name == "none":
            return None
        cached = self._reranker
        if cached is None or cached[0] != reranker_name:
            from ..retrieval.reranking import make_reranker

            self._reranker = cached = reranker_name, make_reranker(reranker_name)
        return cached[1]

    def count_hits(self, keys: Iterable[str]) -> None:
        """Add one to the temperature of each of some entities, with the next commit."""
        if not self.readonly:
            self.hits.add(keys)

    @contextmanager
    def pause_recording(self) -> Iterator[None]:
        """Record nothing of what this thread looks up within the block: no temperatures and no last LOOKUP."""
        last_lookup = self.last_lookup
        try:
            with self.hits.pause():
                yield
        finally:
            self.last_lookup = last_lookup
