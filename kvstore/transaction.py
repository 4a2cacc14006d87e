"""A write transaction as users see it: changes gathered, applied together, visible at once on commit.

In: puts and deletes. On disk: nothing until :meth:`Transaction.commit`. Reads inside see the transaction's own
changes. The writer's lock is held from the first moment to the last, by the thread that began it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy.typing as npt

from .errors import ClosedError
from .ingest.changes import Changes, Prepared
from .ingest.extraction import Extracted, extract
from .reading import Context, Reading, unit_rows
from .storage.environment import MapFull, WriteTransaction
from .storage.store_view import StoreView
from .storage.vectors import Matrix

#: Chunks that may wait before they are applied, so that a long transaction does not hold all its texts in memory twice.
_PENDING_CHUNKS = 4096


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A document put but not applied; without vectors it is embedded when it is."""

    extracted: Extracted
    vectors: Matrix | None
    own_vectors: bool
    origin: str | None


class Transaction(Reading):
    """Changes that become visible together, or not at all; made by :meth:`Store.transaction`.

    A context manager: commits on a clean exit, rolls back on an exception.
    """

    def __init__(self, store: Context, timeout: float | None) -> None:
        self._store = store
        self._context = store
        self._timeout = timeout
        self._view: WriteTransaction = store.environment.write(timeout)
        self._changes = Changes(self._view, store.settings)
        self._pending: dict[str, _Waiting | None] = {}
        self._pending_chunks = 0
        self._applied: list[tuple[list[Prepared], list[str]]] = []
        self._open = True

    @property
    def open(self) -> bool:
        """Whether the transaction can still be used."""
        return self._open

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
        origin: str | None = None,
    ) -> bool:
        """Store a document in place of the one of this key; True when that changes anything.

        ``vectors`` (one, or one a chunk) stand in for the embedder's; ``origin`` is the folder it came from. Raises
        InputError for an empty or over-long text, a bad format or vectors that do not fit.
        """
        self._require_open()
        extracted = extract(
            key, text, self._store.settings, title=title, source=source, meta=meta, format=format, vectors=vectors
        )
        if vectors is None:
            return self.put_extracted(extracted, origin=origin)
        rows = unit_rows(vectors, self._store.settings.dimension, len(extracted.chunks))
        return self.put_extracted(extracted, rows, own_vectors=True, origin=origin)

    def put_extracted(
        self,
        extracted: Extracted,
        vectors: Matrix | None = None,
        *,
        own_vectors: bool = False,
        origin: str | None = None,
    ) -> bool:
        """Store a document that is extracted (and perhaps embedded) already; True when that changes anything."""
        self._require_open()
        if self.digest_of(extracted.key) == extracted.digest:
            return False
        self._pending.pop(extracted.key, None)
        self._pending[extracted.key] = _Waiting(extracted, vectors, own_vectors, origin)
        self._pending_chunks += len(extracted.chunks)
        if self._pending_chunks > _PENDING_CHUNKS:
            self._apply()
        return True

    def delete(self, key: str) -> bool:
        """Delete the document of this key; False where there is none."""
        self._require_open()
        if self.digest_of(key) is None:
            return False
        self._pending[key] = None
        return True

    def delete_many(self, keys: Sequence[str]) -> int:
        """Delete the documents of these keys; returns how many there were."""
        return sum(self.delete(key) for key in keys)

    def digest_of(self, key: str) -> bytes | None:
        """The digest of the document of this key as the transaction sees it, or None."""
        if key in self._pending:
            waiting = self._pending[key]
            return None if waiting is None else waiting.extracted.digest
        record = self._changes.documents.find(key)
        return None if record is None else record.digest

    def commit(self) -> None:
        """Make the changes durable and visible; on any error nothing has happened.

        Raises StoreFullError where the store may not grow, and what the embedder raises.
        """
        self._require_open()
        try:
            self._apply()
            if not self._applied:
                self._close()
                return
            hits = self._store.hits.some()
            try:
                self._changes.finish(hits)
                self._view.commit()
            except MapFull:
                self._view.abort()
                self._store.environment.write_with_growth(lambda view: self._replay(view, hits), self._timeout)
        except BaseException:
            self._close()
            raise
        self._store.hits.forget(hits)
        self._open = False

    def rollback(self) -> None:
        """Forget all changes."""
        if self._open:
            self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._open:
            self.commit()
        else:
            self.rollback()

    @contextmanager
    def reading(self) -> Iterator[StoreView]:
        self._require_open()
        self._apply()
        self._changes.write_back()
        yield StoreView(self._view, self._store.settings)

    def _apply(self) -> None:
        """Carry what is pending into the LMDB transaction."""
        if not self._pending:
            return
        waiting = [item for item in self._pending.values() if item is not None]
        deleted = [key for key, item in self._pending.items() if item is None]
        texts = [text for item in waiting if item.vectors is None for text in item.extracted.embedding_texts()]
        embedded = self._store.embed(texts)
        prepared = []
        row = 0
        for item in waiting:
            vectors = item.vectors
            if vectors is None:
                vectors = embedded[row : row + len(item.extracted.chunks)]
                row += len(vectors)
            prepared.append(Prepared(item.extracted, vectors, item.own_vectors, item.origin))
        self._applied.append((prepared, deleted))
        self._pending, self._pending_chunks = {}, 0
        try:
            self._changes.apply(prepared, deleted)
        except BaseException:
            self._close()
            raise

    def _replay(self, view: WriteTransaction, hits: Mapping[str, int]) -> None:
        changes = Changes(view, self._store.settings)
        for prepared, deleted in self._applied:
            changes.apply(prepared, deleted)
        changes.finish(hits)

    def _close(self) -> None:
        self._open = False
        self._view.abort()

    def _require_open(self) -> None:
        if not self._open:
            raise ClosedError("this transaction is over; begin another with store.transaction()")
