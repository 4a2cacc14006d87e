"""The store: one directory, opened in-process.

In: a path. Out: a :class:`Store`, with every reading method on the last commit, changes as transactions, and the
language. Nothing heavy is loaded until it is used: the embedder with the first text to embed, the parser with the
first statement.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

import kvstore_migrations

from .errors import InputError, LockTimeoutError, NotAStoreError, ReadOnlyError
from .ingest.extraction import Extracted
from .models.embedder import Embedder, open_embedder
from .reading import Context, Reading
from .settings import FixedSettings, SessionSettings
from .storage import records, tables
from .storage.environment import Environment, View, WriteView
from .storage.environment import Snapshot as StorageSnapshot
from .storage.store_view import StoreView
from .storage.temperatures import HitCounts
from .storage.vectors import VectorCache
from .transaction import Transaction

if TYPE_CHECKING:
    from .ingest.pipeline import IngestProgress, IngestReport
    from .query.cursor import Cursor
    from .query.session import Writable
    from .retrieval.query import Strategy

_SETTINGS = b"settings"
_FORMAT = b"format"


class Snapshot(Reading):
    """One state of a store, unchanged by later commits; made by :meth:`Store.snapshot`, closed by its context or
    ``close()``."""

    def __init__(self, store: Context) -> None:
        self._context = store
        self._snapshot: StorageSnapshot = store.environment.snapshot()
        self.view = StoreView(
            self._snapshot, store.settings, store.vector_cache, temperature_sort=store.session.temperature_sort
        )

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
            yield self.view


class Store(Reading):
    """An open store; see :func:`kvstore.open`. May be shared between threads; a forked child must open its own."""

    def __init__(self, environment: Environment, settings: FixedSettings, embedder: Embedder | None) -> None:
        self._context = self
        self.environment = environment
        self.settings = settings
        self.session = SessionSettings()
        self.hits = HitCounts()
        self.last_lookup: tuple[str, ...] = ()
        self.begun: Writable | None = None
        self.vector_cache = VectorCache()
        self._embedder = embedder
        self._embedder_lock = threading.Lock()

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

    def close(self) -> None:
        """Fold in temperatures where the writer's lock is free, and close; waits for open snapshots.

        A transaction that BEGIN opened is rolled back.
        """
        if not self.environment.closed:
            if self.begun is not None:
                self.begun.rollback()
                self.begun = None
            # Counts may be lost, data never; whoever writes now must not be kept waiting.
            with suppress(LockTimeoutError):
                self.flush(timeout=0)
            self.environment.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def snapshot(self) -> Snapshot:
        """One state of the store, to read from more than once."""
        return Snapshot(self)

    @contextmanager
    def reading(self) -> Iterator[StoreView]:
        with self.snapshot() as snapshot:
            yield snapshot.view

    # Changing

    def transaction(self, *, timeout: float | None = None) -> Transaction:
        """Begin the store's one write transaction, waiting at most ``timeout`` seconds for another writer.

        Raises LockTimeoutError naming the holder, and ReadOnlyError.
        """
        if self.readonly:
            raise ReadOnlyError(f"{self.path} was opened read-only; open it without readonly to change it")
        return Transaction(self, timeout)

    def put(
        self,
        key: str,
        text: str,
        *,
        title: str | None = None,
        source: str | None = None,
        meta: Mapping[str, Any] | None = None,
        format: str = "text",
        vectors: npt.ArrayLike | None = None,
    ) -> bool:
        """Store one document in a transaction of its own; see :meth:`Transaction.put`."""
        with self.transaction() as transaction:
            return transaction.put(key, text, title=title, source=source, meta=meta, format=format, vectors=vectors)

    def delete(self, key: str) -> bool:
        """Delete one document in a transaction of its own; False where there is none."""
        with self.transaction() as transaction:
            return transaction.delete(key)

    def ingest(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        format: str | None = None,
        prune: bool = False,
        options: Mapping[str, Any] | None = None,
        progress: Callable[[IngestProgress], None] | None = None,
    ) -> IngestReport:
        """Bring files, folders and globs into the store, a commit a batch; see :func:`kvstore.ingest.pipeline.ingest`.

        Bad files are reported, not raised. ``prune`` removes documents whose files vanished from a folder named here.
        """
        from .ingest.pipeline import ingest

        if self.readonly:
            raise ReadOnlyError(f"{self.path} was opened read-only; open it without readonly to ingest")
        given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        return ingest(
            _Commits(self),
            [os.fspath(path) for path in given],
            format=format,
            prune=prune,
            options=options,
            progress=progress,
        )

    def flush(self, timeout: float | None = None) -> None:
        """Fold the temperatures counted since the last commit into the entity filter."""
        if self.readonly or not len(self.hits):
            return
        from .ingest.changes import Changes

        hits = self.hits.some()
        with self.environment.write(timeout) as view:
            Changes(view, self.settings).finish(hits)
        self.hits.forget(hits)

    # Looking

    def execute(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> Cursor:
        """Run one statement of the language; see ``kvstore/query/LANGUAGE.md``. Raises StatementError and others."""
        from .query.executor import execute

        return execute(self, sql, parameters)

    def count_hit(self, key: str) -> None:
        """Count one hit of an entity for its temperature."""
        if not self.readonly:
            self.hits.add(key)

    def check(self) -> list[str]:
        """Every violated invariant of the store as a sentence; an empty list when it is sound."""
        from .storage.check import check

        with self.reading() as view:
            return list(check(view))

    def backup(self, path: str | os.PathLike[str], *, compact: bool = True) -> None:
        """Copy the store as of now into a new directory, while others read and write.

        ``compact`` leaves out free pages; without it the copy waits for the writer's lock. Raises InputError when
        ``path`` exists, StoreFullError when it cannot be written.
        """
        self.environment.copy_to(path, compact=compact)

    def statistics(self) -> dict[str, int | float | str]:
        """Counts and sizes of everything in the store, as SHOW STATS gives them."""
        from .storage.statistics import statistics

        with self.reading() as view:
            return statistics(view, self.environment.statistics())

    def settings_table(self) -> list[tuple[str, Any, bool]]:
        """All settings: name, value, and whether it was fixed when the store was made."""
        fixed = [(name, value, True) for name, value in asdict(self.settings).items()]
        return fixed + [(name, value, False) for name, value in asdict(self.session).items()]

    def strategies(self) -> list[Strategy]:
        """The strategies that a query can name, each with its name, description and options."""
        from .retrieval.strategies import STRATEGIES

        return list(STRATEGIES.values())

    def set(self, name: str, value: Any) -> None:
        """Change a setting of this session; raises InputError for an unknown name or a bad value."""
        if name == "strategy":
            from .retrieval.strategies import strategy_named

            value = strategy_named(str(value)).name
        self.session = self.session.changed(name, value)


class _Commits:
    """The store as the ingest pipeline sees it: one commit a batch."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.settings = store.settings

    def digest_of(self, key: str) -> bytes | None:
        with self._store.snapshot() as snapshot:
            record = snapshot.view.documents.find(key)
            return None if record is None else record.digest

    def keys_from(self, root: str) -> Iterator[str]:
        with self._store.snapshot() as snapshot:
            yield from [record.key for record in snapshot.view.documents.scan() if record.origin == root]

    def write(self, batch: Sequence[tuple[Extracted, str | None]], deleted: Sequence[str]) -> None:
        # Embedding takes most of the time: other writers need not wait for it.
        vectors = self._store.embed([text for extracted, _ in batch for text in extracted.embedding_texts()])
        row = 0
        with self._store.transaction() as transaction:
            for extracted, origin in batch:
                size = len(extracted.chunks)
                transaction.put_extracted(extracted, vectors[row : row + size], origin=origin)
                row += size
            transaction.delete_many(deleted)


def open_store(
    path: str | os.PathLike[str],
    *,
    create: bool = True,
    readonly: bool = False,
    embedder: str | Embedder | None = None,
    settings: Mapping[str, Any] | None = None,
    lock_timeout: float = 5.0,
    max_bytes: int | None = None,
    durability: str = "full",
) -> Store:
    """Open the store at ``path``, making one where there is none; this is :func:`kvstore.open`.

    ``embedder`` names the embedder of a new store (default ``all-MiniLM-L6-v2``) or is one; ``settings`` are further
    creation settings. On a store that exists both must agree with it. ``lock_timeout`` is how many seconds a change
    waits for another writer, ``max_bytes`` the most the store may take, ``durability`` is ``full`` or ``relaxed``.

    Raises StoreNotFoundError, NotAStoreError, StoreFormatError, SettingsMismatchError, CorruptionError,
    LockTimeoutError, InputError.
    """
    wanted = dict(settings or {})
    given = None if embedder is None or isinstance(embedder, str) else embedder
    if embedder is not None:
        wanted["embedder"] = open_embedder(embedder).name if isinstance(embedder, str) else embedder.name
    unknown = sorted(set(wanted) - set(FixedSettings.__slots__))
    if unknown:
        known = ", ".join(FixedSettings.__slots__)
        raise InputError(f"there is no creation setting {', '.join(unknown)}; there are {known}")
    FixedSettings(**wanted)  # out of range is known before anything is made
    environment = Environment.open(
        path,
        create=create,
        readonly=readonly,
        lock_timeout=lock_timeout,
        max_bytes=max_bytes,
        durability=durability,
    )
    try:
        fixed = _settle_settings(environment, wanted, given)
    except BaseException:
        environment.close()
        raise
    return Store(environment, fixed, given)


def _settle_settings(environment: Environment, wanted: Mapping[str, Any], embedder: Embedder | None) -> FixedSettings:
    """The settings the store was made with, checked against ``wanted``; a new store gets them now."""
    with environment.snapshot() as snapshot:
        fixed = _stored_settings(snapshot)
        foreign = fixed is None and snapshot.tables() and snapshot.get(tables.META, _FORMAT) is None
    if foreign or (fixed is None and environment.readonly):
        raise NotAStoreError(f"{environment.path} is an LMDB environment but no kvstore store; name another path")
    if fixed is None:
        with environment.raw() as raw:
            kvstore_migrations.migrate(raw)
        fixed = environment.write_with_growth(lambda view: _make(view, wanted, embedder))
    fixed.check_same(wanted)
    return fixed


def _stored_settings(view: View) -> FixedSettings | None:
    stored = view.get(tables.META, _FORMAT)
    if stored is not None:
        kvstore_migrations.check_format(int(records.unpack(stored, tables.META, _FORMAT)))
    value = view.get(tables.META, _SETTINGS)
    return None if value is None else FixedSettings(**records.unpack(value, tables.META, _SETTINGS))


def _make(view: WriteView, wanted: Mapping[str, Any], embedder: Embedder | None) -> FixedSettings:
    """Write the settings of a new store, unless another process has just done so."""
    fixed = _stored_settings(view)
    if fixed is None:
        fixed = FixedSettings(**wanted)
        model = embedder or open_embedder(fixed.embedder)
        fixed = replace(fixed, embedder=model.name, dimension=model.dimension)
        view.put(tables.META, _SETTINGS, records.pack(asdict(fixed)))
    return fixed


def migrate_store(path: str | os.PathLike[str]) -> list[int]:
    """Bring the store at ``path`` to this version's format; this is :func:`kvstore.migrate`.

    Returns the formats it went through, none when it was there already. Raises StoreNotFoundError, NotAStoreError, and
    StoreFormatError for a store written by a newer kvstore.
    """
    with Environment.open(path, create=False) as environment, environment.raw() as raw:
        return kvstore_migrations.migrate(raw)
