"""A write transaction as users see it: changes gathered, applied together, visible at once on commit.

In: documents, edges and aliases, put and taken back. On disk: nothing until :meth:`Transaction.commit`. Reads inside
see the transaction's own changes. The writer's lock is held from the first moment to the last, by the thread that began
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import numpy.typing as npt

from .errors import InputError
from .gathering import Waiting
from .ingest.examination import examine
from .ingest.extraction import Extracted, derive, with_vectors
from .query.nearby import no_document
from .reading import unit_rows
from .stating import Stating
from .storage.chunks import GROUP
from .storage.environment import MapFull
from .storage.ingested_files import IngestedFile
from .storage.vectors import Matrix


class Transaction(Stating):
    """Changes that become visible together, or not at all; made by :meth:`Store.transaction`.

    A context manager: commits on a clean exit, rolls back on an exception.
    """

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
        left_out: int = 0,
    ) -> bool:
        """Store a document in place of the one of this key; True when that changes anything.

        ``vectors`` (one, or one a chunk) stand in for the embedder's; ``origin`` is the folder it came from,
        ``left_out`` how many characters of its page were left out as navigation. Raises
        InputError for an empty or over-long text, a bad format or vectors that do not fit.
        """
        self._require_open()
        given = examine(key, text, title=title, source=source, meta=meta, format=format, left_out=left_out)
        if vectors is None and self.digest_of(key) == given.digest:
            return False
        extracted = derive(given, self._store.settings)
        if vectors is None:
            return self.put_extracted(extracted, origin=origin)
        rows = unit_rows(vectors, self._store.settings.dimension, len(extracted.chunks))
        return self.put_extracted(with_vectors(extracted, rows), rows, own_vectors=True, origin=origin)

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
        self._pending_triples.pop(extracted.key, None)
        self._pending[extracted.key] = Waiting(extracted, vectors, own_vectors, origin)
        self._grow_pending(len(extracted.chunks))
        return True

    def settle_origins(self, origins: Mapping[str, str | None]) -> None:
        """Say in which folder unchanged documents were found last: they are pruned with that one."""
        self._require_open()
        self._pending_origins.update(origins)

    def settle_files(self, files: Sequence[tuple[IngestedFile, list[bytes]]]) -> None:
        """Say which files have been ingested whole, each with the digests of its documents."""
        self._require_open()
        self._pending_files.extend(files)

    def update(
        self,
        key: str,
        *,
        text: str | None = None,
        title: str | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> bool:
        """Change parts of a stored document, what is None staying as it is; True when that changes anything.

        A document with the user's own vectors keeps them. Raises DocumentNotFoundError with the nearest keys, and
        InputError for another text of a document whose vectors are the user's own: put it again, with its vectors.
        """
        self._require_open()
        self._apply()
        record = self._changes.documents.find(key) if key else None
        if record is None:
            with self.reading() as view:
                raise no_document(view, key)
        stored = self._changes.documents.text(record.id).decode()
        vectors = None
        if record.own_vectors:
            if text is not None and text != stored:
                raise InputError(f"document {key!r} has vectors of its own; put its new text together with new vectors")
            vectors = self._changes.vectors_of(record)
        return self.put(
            key,
            stored if text is None else text,
            title=record.title if title is None else title,
            source=record.source,
            meta=record.meta if meta is None else meta,
            format=record.format,
            vectors=vectors,
            origin=record.origin,
            left_out=record.left_out if text is None or text == stored else 0,
        )

    def delete(self, key: str) -> bool:
        """Delete the document of this key; False where there is none."""
        self._require_open()
        if self.digest_of(key) is None:
            return False
        self._pending[key] = None
        self._pending_triples.pop(key, None)
        return True

    def delete_many(self, keys: Sequence[str]) -> int:
        """Delete the documents of these keys; returns how many there were.

        >>> with store.transaction() as transaction:
        ...     transaction.delete_many(["tea", "cocoa"])
        1
        """
        return sum(self.delete(key) for key in keys)

    def delete_where(self, where: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> int:
        """Delete the documents for which a SQL condition over the columns of ``documents`` is true; returns how many.

        Raises StatementError for a condition that is none.
        """
        from .query.relational import matching_documents

        with self.reading() as view:
            found = sorted(matching_documents(view, where, parameters))
            keys = [view.documents.get(document).key for document in found]
        return self.delete_many(keys)

    def digest_of(self, key: str) -> bytes | None:
        """The digest of the document of this key as the transaction sees it, or None.

        >>> with store.transaction() as transaction:
        ...     transaction.digest_of("cocoa") is None, len(transaction.digest_of("tea"))
        (True, 16)
        """
        if key in self._pending:
            waiting = self._pending[key]
            return None if waiting is None else waiting.extracted.digest
        record = self._changes.documents.find(key)
        return None if record is None else record.digest

    def commit(self) -> None:
        """Make the changes durable and visible; on any error nothing has happened.

        Raises StoreFullError where the store may not grow, and what the embedder raises.

        >>> transaction = store.transaction()
        >>> _ = transaction.put("milk", "Milk goes into tea.")
        >>> transaction.commit()
        >>> store.keys("milk"), transaction.open
        (['milk'], False)
        """
        self._require_open()
        try:
            hits = self._store.hits.some()
            try:
                self._apply()
                if not self._applied:
                    self._close()
                    return
                self._changes.finish(hits)
                self._view.commit()
                self._store.kept_filter.keep(self._changes.filter, self._view.change)
            except MapFull:
                self._view.abort()
                self._store.environment.write_with_growth(lambda view: self._replay(view, hits), self._timeout)
        except BaseException:
            self._close()
            raise
        self._store.hits.forget(hits)
        self._open = False
        self._store.committed(GROUP * self._changes.counters.next_group)

    def rollback(self) -> None:
        """Forget all changes.

        >>> transaction = store.transaction()
        >>> _ = transaction.put("milk", "Milk goes into tea.")
        >>> transaction.rollback()
        >>> store.keys("milk")
        []
        """
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
