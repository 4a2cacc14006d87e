"""An open store as its methods see it: its settings and models, one state of it to read, a transaction to change it.

In: an open environment and the settings of the store in it. Out: what the methods of a store are made of
(:mod:`~kvstore.database.changing`, :mod:`~kvstore.database.ingesting`, :mod:`~kvstore.database.keeping`). Models are
loaded when they are first needed, and never while the writer's lock keeps others waiting.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from ..arguments import check_text
from ..errors import ClosedError, KvstoreError, ReadOnlyError
from ..models.embedder import Embedder, open_embedder
from ..models.language import open_language
from ..settings import FixedSettings, SessionSettings
from ..storage.environment import Environment
from ..storage.environment import Snapshot as StorageSnapshot
from ..structures.filter.filter_cache import KeptFilter
from ..structures.filter.temperatures import HitCounts
from ..structures.forest.place_cache import PlaceCache
from ..structures.open_indexes import OpenIndexes
from ..structures.state import State
from .context import Context
from .index_worker import Indexing
from .queryable import Queryable
from .transaction import Transaction

if TYPE_CHECKING:
    from ..models.llm import LanguageModel
    from ..retrieval.reranking import Rerank

_log = logging.getLogger("kvstore")


class Snapshot(Queryable):
    """One state of a store, unchanged by later commits; made by :meth:`Store.snapshot`, closed by its context or
    ``close()``.

    >>> with store.snapshot() as snapshot:
    ...     _ = store.delete("tea")
    ...     snapshot.get("tea") is None, store.get("tea") is None
    (False, True)
    """

    def __init__(self, store: Context) -> None:
        self._context = store
        self._snapshot: StorageSnapshot = store.environment.snapshot()
        self._view = State(self._snapshot, store.settings, store.open_indexes, store.place_cache)

    def close(self) -> None:
        """Let the snapshot go; using it afterwards raises ClosedError."""
        self._snapshot.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def state(self) -> Iterator[State]:
        with self._snapshot.pin():
            yield self._view


class OpenContext:
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
        self.kept_filter = KeptFilter()
        self._embedder = embedder
        #: Whether the embedder is an object of the program's own, which no other process has.
        self.embedder_given = embedder is not None
        self._embedder_lock = threading.Lock()
        #: The reranker that was last asked for, by name: it may hold a model.
        self._reranker: tuple[str, Rerank | None] | None = None

    @property
    def embedder(self) -> Embedder:
        with self._embedder_lock:
            if self._embedder is None:
                self._embedder = open_embedder(self.settings.embedder)
            return self._embedder

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return self.embedder.embed(texts) if texts else np.empty((0, self.settings.dimension), np.float32)

    def load_models(self) -> None:
        """Load what documents are read and embedded with.

        What cannot be loaded raises nothing here: it does when something is put that needs it.
        """
        try:
            pipeline = open_language(self.settings.language)
            if pipeline is not None:
                pipeline.load()
        except KvstoreError as error:
            _log.info("%s: the language pipeline is not loaded: %s", self.environment.path, error)
        try:
            load = getattr(self.embedder, "load", None)
            if load is not None:
                load()
        except KvstoreError as error:
            _log.info("%s: the embedder is not loaded: %s", self.environment.path, error)

    def language_model(self, name: str | None = None) -> LanguageModel | None:
        from ..models.llm import language_model

        return language_model(name, self.session)

    def reranker(self, name: str | None = None) -> Rerank | None:
        wanted = name or self.session.reranker
        if wanted == "none":
            return None
        known = self._reranker
        if known is None or known[0] != wanted:
            from ..retrieval.reranking import reranker_named

            self._reranker = known = wanted, reranker_named(wanted)
        return known[1]

    def committed(self, next_chunk: int) -> None:
        self.indexing.extend(next_chunk)

    def count_hits(self, keys: Iterable[str]) -> None:
        if not self.environment.readonly:
            self.hits.add(keys)


class Opened(Queryable):
    """What an open store holds, and the ways into it."""

    def __init__(self, environment: Environment, settings: FixedSettings, embedder: Embedder | None) -> None:
        self._context: OpenContext = OpenContext(environment, settings, embedder)
        #: The transaction that was begun last; its thread alone may use it.
        self._last_transaction: weakref.ref[Transaction] | None = None
        self._closing = False

    @property
    def path(self) -> Path:
        """The store's directory."""
        return self._context.environment.path

    @property
    def readonly(self) -> bool:
        """Whether it was opened to read only."""
        return self._context.environment.readonly

    @property
    def closed(self) -> bool:
        """Whether the store can be used no more: closed, or inherited through a fork."""
        return self._context.environment.closed

    @property
    def settings(self) -> FixedSettings:
        """The settings that it was made with."""
        return self._context.settings

    @property
    def embedder(self) -> Embedder:
        """The store's embedder; raises EmbedderError where its package is missing."""
        return self._context.embedder

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Unit vectors of some texts, shape (n, dimension); the embedder is not loaded for none.

        >>> store.embed(["Tea is made from leaves."]).shape
        (1, 256)
        """
        for text in texts:
            check_text("a text to embed", text)
        return self._context.embed(texts)

    def language_model(self, name: str | None = None) -> LanguageModel | None:
        """The language model that ASK has answer: of this name, else the session's, else the environment's.

        None where none is named, or ``none``. Raises ModelError for an address that is none.

        >>> store.set("base_url", "http://localhost:11434/v1")
        >>> store.language_model("qwen3:4b").url
        'http://localhost:11434/v1/chat/completions'
        """
        return self._context.language_model(name)

    def snapshot(self) -> Snapshot:
        """One state of the store, to read from more than once.

        >>> with store.snapshot() as snapshot:
        ...     len(snapshot.keys()), len(snapshot.search("tea", using="lexical"))
        (2, 1)
        """
        return Snapshot(self._context)

    @contextmanager
    def state(self) -> Iterator[State]:
        with self.snapshot() as snapshot:
            yield snapshot._view

    def transaction(self, *, timeout: float | None = None, models: bool = True) -> Transaction:
        """Begin the store's one write transaction, waiting at most ``timeout`` seconds for another writer.

        It belongs to the thread that begins it, and is rolled back when it is dropped and when the store is closed;
        other threads read the last commit meanwhile. The models that a document needs are loaded before others are
        kept waiting; ``models=False`` does without, for a transaction that puts none. Raises LockTimeoutError naming
        the holder, TransactionError where this thread has one open, and ReadOnlyError.

        >>> with store.transaction() as transaction:
        ...     transaction.delete("tea"), transaction.keys(), store.keys()
        (True, ['coffee'], ['coffee', 'tea'])
        """
        self._require_writable()
        if models:
            self._context.load_models()
        transaction = Transaction(self._context, timeout)
        self._last_transaction = weakref.ref(transaction)
        if self._closing:
            transaction.rollback()
            raise ClosedError(f"{self.path}: the store is being closed; open it again")
        return transaction

    def _require_writable(self) -> None:
        """Raise ClosedError or ReadOnlyError where nothing can be changed."""
        self._context.environment.require_open()
        if self.readonly:
            raise ReadOnlyError(f"{self.path} was opened read-only; open it for writing to change it")
