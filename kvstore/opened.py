"""An open store as its methods see it: its settings and models, one state of it to read, a transaction to change it.

In: an open environment and the settings of the store in it. Out: what the methods of a store are made of
(:mod:`~kvstore.changing`, :mod:`~kvstore.ingesting`, :mod:`~kvstore.keeping`). Models are loaded when they are first
needed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from .context import Context
from .errors import ReadOnlyError
from .indexing import Indexing
from .models.embedder import Embedder, open_embedder
from .reading import Reading
from .settings import FixedSettings, SessionSettings
from .storage.environment import Environment
from .storage.environment import Snapshot as StorageSnapshot
from .storage.kept_filter import KeptFilter
from .storage.open_indexes import OpenIndexes
from .storage.place_cache import PlaceCache
from .storage.store_view import StoreView
from .storage.temperatures import HitCounts
from .transaction import Transaction

if TYPE_CHECKING:
    from .models.llm import LanguageModel
    from .query.session import Writable
    from .retrieval.reranking import Rerank


class Snapshot(Reading):
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
        self._view = StoreView(self._snapshot, store.settings, store.open_indexes, store.place_cache)

    def close(self) -> None:
        """Let the snapshot go; using it afterwards raises ClosedError."""
        self._snapshot.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def reading(self) -> Iterator[StoreView]:
        with self._snapshot.pin():
            yield self._view


class Opened(Reading):
    """What an open store holds, and the ways into it."""

    def __init__(self, environment: Environment, settings: FixedSettings, embedder: Embedder | None) -> None:
        self._context = self
        self.environment = environment
        self.settings = settings
        self.session = SessionSettings()
        self.hits = HitCounts()
        self.last_lookup: tuple[str, ...] = ()
        self.begun: Writable | None = None
        self.open_indexes = OpenIndexes(environment, settings.dimension)
        self._indexing = Indexing(self)
        self.place_cache = PlaceCache()
        self.kept_filter = KeptFilter()
        self._embedder = embedder
        #: Whether the embedder is an object of the program's own, which no other process has.
        self.embedder_given = embedder is not None
        self._embedder_lock = threading.Lock()
        #: The reranker that was last asked for, by name: it may hold a model.
        self._reranker: tuple[str, Rerank | None] | None = None

    @property
    def path(self) -> Path:
        """The store's directory."""
        return self.environment.path

    @property
    def readonly(self) -> bool:
        """Whether it was opened to read only."""
        return self.environment.readonly

    @property
    def embedder(self) -> Embedder:
        """The store's embedder, loaded on first use; raises EmbedderError where its package is missing."""
        with self._embedder_lock:
            if self._embedder is None:
                self._embedder = open_embedder(self.settings.embedder)
            return self._embedder

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Unit vectors of some texts, shape (n, dimension); the embedder is not loaded for none."""
        return self.embedder.embed(texts) if texts else np.empty((0, self.settings.dimension), np.float32)

    def language_model(self, name: str | None = None) -> LanguageModel | None:
        """The language model that ASK has answer: of this name, else the session's, else the environment's.

        None where none is named, or ``none``. Raises ModelError for an address that is none.

        >>> store.set("base_url", "http://localhost:11434/v1")
        >>> store.language_model("qwen3:4b").url
        'http://localhost:11434/v1/chat/completions'
        """
        from .models.llm import language_model

        return language_model(name, self.session)

    def reranker(self, name: str | None = None) -> Rerank | None:
        """What puts rankings into another order: of this name, else the session's; None for ``none``.

        Raises RerankerError for a name that can be no reranker's.

        >>> store.reranker("none") is None, store.reranker("combination") is None
        (True, False)
        """
        wanted = name or self.session.reranker
        if wanted == "none":
            return None
        if self._reranker is None or self._reranker[0] != wanted:
            from .retrieval.reranking import reranker_named

            self._reranker = wanted, reranker_named(wanted)
        return self._reranker[1]

    def snapshot(self) -> Snapshot:
        """One state of the store, to read from more than once.

        >>> with store.snapshot() as snapshot:
        ...     len(snapshot.keys()), len(snapshot.search("tea", using="lexical"))
        (2, 1)
        """
        return Snapshot(self)

    @contextmanager
    def reading(self) -> Iterator[StoreView]:
        with self.snapshot() as snapshot:
            yield snapshot._view

    def transaction(self, *, timeout: float | None = None) -> Transaction:
        """Begin the store's one write transaction, waiting at most ``timeout`` seconds for another writer.

        Raises LockTimeoutError naming the holder, and ReadOnlyError.

        >>> with store.transaction() as transaction:
        ...     transaction.delete("tea"), transaction.keys(), store.keys()
        (True, ['coffee'], ['coffee', 'tea'])
        """
        if self.readonly:
            raise ReadOnlyError(f"{self.path} was opened read-only; open it for writing to change it")
        return Transaction(self, timeout)

    def committed(self, next_chunk: int) -> None:
        """Learn that a transaction of this store has changed something: the index of vectors may have to grow."""
        self._indexing.extend(next_chunk)

    def count_hits(self, keys: Iterable[str]) -> None:
        """Count one hit of each of some entities (normal forms) for its temperature."""
        if not self.readonly:
            self.hits.add(keys)
