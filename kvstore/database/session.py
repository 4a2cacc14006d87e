"""The session of each handle of an open store: the data of one user, shared by a handle, its snapshots and
transactions.

The data are the settings of the session, the names of the last LOOKUP, the models that the settings name, and states of
the store, as long as the handle is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..errors import ClosedError
from ..settings import SessionSettings
from ..storage.environment import Environment
from ..structures.state import State

if TYPE_CHECKING:
    from ..models.llm import LanguageModel
    from ..retrieval.reranking import RerankFunction
    from .open_store import OpenStore


class Session:
    """The data of one handle of an open store.

    It is separate from the handle so that an open transaction does not keep the handle alive: a dropped handle is
    closed immediately.
    """

    def __init__(
        self,
        store: OpenStore,
        *,
        readonly: bool,
        settings: SessionSettings | None = None,
        lock_timeout: float | None = None,
    ) -> None:
        """Begin a session with these settings (None: the defaults) and this lock timeout (None: the store's)."""
        self.store = store
        #: The maximum time in seconds that changes of this session wait for another writer.
        self.lock_timeout = store.environment.lock_timeout if lock_timeout is None else float(lock_timeout)
        self.readonly = readonly
        self.settings = settings or SessionSettings()
        #: The names of the last LOOKUP, which EXPAND without an entity expands.
        self.last_lookup: tuple[str, ...] = ()
        #: True if this handle was closed; other handles can stay open.
        self.closed = False
        #: The name of the last reranker used, and the reranker, which can hold a model.
        self._cached_reranker: tuple[str, RerankFunction | None] = "none", None

    @property
    def environment(self) -> Environment:
        """The store's environment; raises ClosedError if the handle was closed."""
        if self.closed and not self.store.environment.closed:
            raise ClosedError(f"{self.store.environment.path}: this handle was closed; open the store again")
        return self.store.environment

    @contextmanager
    def open_state(self) -> Iterator[State]:
        """Open the state of the last commit, and close it at the end of the ``with`` block; raises ClosedError."""
        # Every question opens a state, so the slower ``environment`` property is read only to raise ClosedError.
        store = self.store
        snapshot = (self.environment if self.closed else store.environment).snapshot()
        state = State(snapshot, store.settings, store.open_indexes, store.node_cache)
        try:
            yield state
        finally:
            state.close()
            snapshot.close()

    def get_language_model(self, name: str | None = None) -> LanguageModel | None:
        """Return the language model with this name, else the session's, else the environment's.

        Returns None if no model is named, or the name is ``none``. Raises ModelError for an invalid address.
        """
        if self.settings.find_model_name(name) is None:  # the usual case: do not import the code for models
            return None
        from ..models.llm import open_language_model

        return open_language_model(name, self.settings)

    def record_spending(self, statement: str, model: LanguageModel) -> None:
        """Count the requests that a statement sent to a model; the next flush of the store writes the counts to disk.

        Does nothing in a read-only session.
        """
        from ..structures.spending import Spending

        if model.num_calls and not self.readonly:
            spending = Spending(
                statement=statement,
                model=model.name,
                calls=model.num_calls,
                sent=model.sent_tokens,
                received=model.written_tokens,
                kept=model.num_calls - model.num_refused,
                refused=model.num_refused,
            )
            self.store.spending.append(spending)

    def load_reranker(self, name: str | None) -> RerankFunction | None:
        """Return the reranker with this name, else the session's; None if the name is ``none``. Caches the last one."""
        reranker_name = name or self.settings.reranker
        if reranker_name == "none":
            return None
        cached_name, reranker = self._cached_reranker
        if cached_name != reranker_name:
            from ..retrieval.reranking import make_reranker

            reranker = make_reranker(reranker_name)
            self._cached_reranker = reranker_name, reranker
        return reranker

    def count_lookups(self, keys: Iterable[str]) -> None:
        """Add 1 to the temperature (number of lookups) of each of these entities, with the next commit.

        Does nothing in a read-only session.
        """
        if not self.readonly:
            self.store.lookups.add(keys)

    @contextmanager
    def pause_recording(self) -> Iterator[None]:
        """Do not count this thread's lookups in the ``with`` block; restore ``last_lookup``, for EXPAND, at its end."""
        last_lookup = self.last_lookup
        try:
            with self.store.lookups.pause():
                yield
        finally:
            self.last_lookup = last_lookup
