"""A write transaction as users see it: changes gathered, applied together, visible at once on commit.

In: documents, edges and aliases, put and taken back. On disk: nothing until :meth:`Transaction.commit`. Reads inside
see the transaction's own changes. The writer's lock is held from the first moment to the last. Only the thread that
began it may use it and end it; it is rolled back when it is dropped, and when its store is closed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ..arguments import check_whole
from ..changes.pending import Prepared
from ..errors import InputError
from ..extraction.extraction import Extracted, derive, with_vectors
from ..extraction.validation import LONGEST_TEXT, PAIRS, Examined, examine
from ..settings import FixedSettings
from ..sql.nearby import no_document
from ..storage.environment import MapFull
from ..structures.documents.ingested_files import IngestedFile
from ..structures.documents.triples import DocumentTriples
from ..structures.vectors.vectors import Matrix
from .gathering import working
from .queryable import unit_rows
from .stating import Stating


class Transaction(Stating):
    """Changes that become visible together, or not at all; made by :meth:`Store.transaction`.

    A context manager: commits on a clean exit, rolls back on an exception. Another thread than the one that began it
    gets TransactionError from every method, and changes nothing; when the transaction is over they raise ClosedError.
    """

    #: Whether the user has ended it, by commit or rollback.
    _ended = False

    @working
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
        check_whole("left_out", left_out, 0, LONGEST_TEXT)
        given = examine(key, text, title=title, source=source, meta=meta, format=format, left_out=left_out)
        if vectors is None and self._digest_of(key) == given.digest:
            return False
        extracted, rows = derived(given, self._store.settings, vectors)
        return self._put_extracted(extracted, rows, own_vectors=rows is not None, origin=origin)

    @working
    def _put_extracted(
        self,
        extracted: Extracted,
        vectors: Matrix | None = None,
        *,
        own_vectors: bool = False,
        origin: str | None = None,
    ) -> bool:
        """Store a document that is extracted (and perhaps embedded) already; True when that changes anything.

        The triples that somebody found in its text stay with it while the text is the same.
        """
        key = extracted.key
        if self._digest_of(key) == extracted.digest:
            return False
        triples = self._triples_of(key) if self._keeps_triples(extracted) else DocumentTriples()
        self._pending.put(Prepared(extracted, vectors, own_vectors, origin), triples)
        self._apply_many()
        return True

    def _keeps_triples(self, extracted: Extracted) -> bool:
        """Whether a document is stored already, as the transaction sees it, with the text that it has now."""
        if extracted.format == PAIRS:
            return False
        if extracted.key in self._pending.documents:
            waiting = self._pending.documents[extracted.key]
            return (
                waiting is not None and waiting.extracted.format != PAIRS and (waiting.extracted.text == extracted.text)
            )
        record = self._changes.documents.find(extracted.key)
        return (
            record is not None
            and record.format != PAIRS
            and record.size == len(extracted.text)
            and self._changes.documents.text(record.id) == extracted.text
        )

    @working
    def _settle_origins(self, origins: Mapping[str, str | None]) -> None:
        """Say in which folder unchanged documents were found last: they are pruned with that one."""
        self._pending.origins.update(origins)

    @working
    def _settle_files(self, files: Sequence[tuple[IngestedFile, list[bytes]]]) -> None:
        """Say which files have been ingested whole, each with the digests of its documents."""
        self._pending.files.extend(files)

    @working
    def update(
        self,
        key: str,
        *,
        text: str | None = None,
        title: str | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> bool:
        """Change parts of a stored document, what is None staying as it is; True when that changes anything.

        A document with the user's own vectors keeps them, and one whose text stays keeps its triples. Raises
        DocumentNotFoundError with the nearest keys, and InputError for another text of a document whose vectors are the
        user's own: put it again, with its vectors.
        """
        self._apply()
        record = self._changes.documents.find(key) if key else None
        if record is None:
            with self.state() as view:
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

    @working
    def delete(self, key: str) -> bool:
        """Delete the document of this key; False where there is none."""
        if self._digest_of(key) is None:
            return False
        self._pending.delete(key)
        return True

    @working
    def delete_many(self, keys: Sequence[str]) -> int:
        """Delete the documents of these keys; returns how many there were.

        >>> with store.transaction() as transaction:
        ...     transaction.delete_many(["tea", "cocoa"])
        1
        """
        return sum(self.delete(key) for key in keys)

    @working
    def delete_where(self, where: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> int:
        """Delete the documents for which a SQL condition over the columns of ``documents`` is true; returns how many.

        Raises StatementError for a condition that is none.
        """
        from ..sql.relational import matching_documents

        with self.state() as view:
            found = sorted(matching_documents(view, where, parameters))
            keys = [view.documents.get(document).key for document in found]
        return self.delete_many(keys)

    @working
    def _digest_of(self, key: str) -> bytes | None:
        """The digest of the document of this key as the transaction sees it, or None."""
        if key in self._pending.documents:
            waiting = self._pending.documents[key]
            return None if waiting is None else waiting.extracted.digest
        record = self._changes.documents.find(key)
        return None if record is None else record.digest

    @working
    def commit(self) -> None:
        """Make the changes durable and visible; on any error nothing has happened.

        Raises StoreFullError where the store may not grow, and what the embedder raises; in another thread than the one
        that began the transaction TransactionError, and it stays open.

        >>> transaction = store.transaction()
        >>> _ = transaction.put("milk", "Milk goes into tea.")
        >>> transaction.commit()
        >>> store.keys("milk"), transaction.open
        (['milk'], False)
        """
        self._ended = True
        try:
            try:
                self._apply()
                fits = True
            except MapFull:
                fits = False
            if not self._applied:
                self._close()
                return
            with self._store.hits.taken() as hits:
                self._write(hits, fits)
        except BaseException:
            self._close()
            raise
        self._open = False
        self._store.committed(self._changes.counters.next_chunk)

    def _write(self, hits: Mapping[str, int], fits: bool) -> None:
        """Commit what is applied, and applied once more in a larger map where this one cannot take it."""
        try:
            if fits:
                self._changes.finish(hits)
                self._view.commit()
                self._store.kept_filter.keep(self._changes.filter, self._view.change)
                return
        except MapFull:
            self._view.abort()
        self._store.environment.write_with_growth(lambda view: self._replay(view, hits), self._timeout)

    def rollback(self) -> None:
        """Forget all changes; does nothing when the transaction is over.

        Raises TransactionError in another thread than the one that began it, and it stays open.

        >>> transaction = store.transaction()
        >>> _ = transaction.put("milk", "Milk goes into tea.")
        >>> transaction.rollback()
        >>> store.keys("milk")
        []
        """
        self._require_thread()
        with self._at_work:
            self._ended = True
            if self._open:
                self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.rollback()
        elif not self._ended:  # also where an error or the closing of the store has ended it: commit says so
            self.commit()


def derived(
    given: Examined, settings: FixedSettings, vectors: npt.ArrayLike | None
) -> tuple[Extracted, npt.NDArray[np.float32] | None]:
    """What follows from a document and the user's vectors of it, if any: unit rows, shape (chunks, dimension).

    Raises InputError for vectors that do not fit, and what :func:`~kvstore.extraction.extraction.derive` raises.
    """
    extracted = derive(given, settings)
    if vectors is None:
        return extracted, None
    rows = unit_rows(vectors, settings.dimension, len(extracted.chunks))
    return with_vectors(extracted, rows), rows
