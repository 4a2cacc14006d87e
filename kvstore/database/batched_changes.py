"""The changes of a write transaction, which are collected and applied in batches.

In: documents, and the other facts that the user states. Out: documents and facts as the transaction sees them: the
pending batch takes precedence over applied batches. On disk: applied batches, invisible until the transaction commits.
If the map was too small for them, they are applied again to another transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ..changes import facts
from ..changes.changes import Changes
from ..changes.pending import (
    PendingChanges,
    PendingDocument,
    complete_pending,
    derive_documents,
    make_pending,
    validate_stored,
)
from ..extraction.validation import PAIRS_FORMAT, ValidDocument
from ..registry.chunked_text import ChunkedText, build_chunked_text, load_chunked_text
from ..registry.derivation import list_context_facts
from ..registry.fact import DocumentFact, Key, StatedFact, Value
from ..storage.environment import WriteTransaction
from ..structures.documents.documents import DocumentRecord
from .session import Session

#: The most chunks, names, triples and edges to buffer before they are applied, so that a long transaction does not hold
#: all its texts in memory twice.
_MAX_PENDING = 4096
#: The same limit for the first documents of a store, which are linked later (:meth:`Changes.apply`).
_MAX_FIRST_PENDING = 1024


class BatchedChanges:
    """The pending batch of a write transaction, and the batches already applied to it."""

    def __init__(self, session: Session, transaction: WriteTransaction) -> None:
        """Begin with an empty batch of changes to ``transaction``."""
        self._session = session
        self._transaction = transaction
        self._settings = session.store.settings
        self._changes = self._open_changes(transaction)
        #: The state with all applied batches, including data that is not written to the transaction yet.
        self.state = self._changes.state
        self.pending = PendingChanges()
        #: True if a batch was applied.
        self.has_applied = False
        #: Applied batches, kept to apply them again in a larger map; empty if the map has enough room.
        self._applied: list[PendingChanges] = []
        self.can_replay = transaction.may_outgrow_map

    # Documents

    def find_document(self, key: str) -> ValidDocument | DocumentRecord | None:
        """Return the document with this key as the transaction sees it (pending or stored), or None."""
        if key in self.pending.documents:
            pending = self.pending.documents[key]
            return None if pending is None else pending.document
        return self.state.documents.find_by_key(key)

    def put_document(self, document: PendingDocument) -> bool:
        """Store a document; return True if that changes anything.

        Other facts about the document, such as triples, are kept if they remain valid for its text.
        """
        key = document.document.key
        existing = self.find_document(key)
        if existing is not None and existing.digest == document.document.digest:
            return False
        valid_facts = self._select_valid_facts(existing, document)
        self.pending.put(document)
        for fact, value in valid_facts:
            self.pending.put_fact(fact, key, value)
        return True

    def set_origin(self, key: str, origin: str | None) -> bool:
        """Set the origin of the document with this key, if it exists; return True if the origin changed."""
        if key in self.pending.documents:
            pending = self.pending.documents[key]
            if pending is None or pending.origin == origin:
                return False
            self.pending.documents[key] = replace(pending, origin=origin)
            return True
        record = self.state.documents.find_by_key(key)
        if record is None or self.pending.origins.get(key, record.origin) == origin:
            return False
        self.pending.origins[key] = origin
        return True

    def _select_valid_facts(
        self, existing: ValidDocument | DocumentRecord | None, document: PendingDocument
    ) -> list[tuple[DocumentFact[Any], Any]]:
        """Return the facts about ``existing`` that remain valid if ``document`` replaces it, as (kind, value)."""
        valid_document = document.document
        if existing is None or PAIRS_FORMAT in (existing.format, valid_document.format):
            return []
        stated_facts = [(fact, self.find_fact(fact, valid_document.key)) for fact in facts.list_document_fact_kinds()]
        stated_facts = [(fact, value) for fact, value in stated_facts if value is not None]
        if not stated_facts:
            return []
        is_same_text = self._has_same_text(existing, valid_document)
        adapted_facts = [
            (fact, fact.fit_to_document(value, lambda: self._chunk_document(document), is_same_text))
            for fact, value in stated_facts
        ]
        return [(fact, value) for fact, value in adapted_facts if value]

    def _has_same_text(self, existing: ValidDocument | DocumentRecord, valid_document: ValidDocument) -> bool:
        """True if the existing document has the same text as its replacement ``valid_document``."""
        if isinstance(existing, ValidDocument):
            return existing.text == valid_document.text
        return (
            existing.size == len(valid_document.text)
            and self.state.documents.read_text(existing.id) == valid_document.text
        )

    def _chunk_document(self, document: PendingDocument) -> ChunkedText:
        """Return a pending document as chunked text, without other facts about it."""
        if not document.is_derived:
            (document,) = derive_documents([document], self._settings)
        return build_chunked_text(document.extracted, {})

    def _find_chunked_text(self, key: str) -> ChunkedText:
        """Return the document with this key, which must exist, as chunked text without other facts about it."""
        pending = self.pending.documents.get(key)
        if pending is not None:
            return self._chunk_document(pending)
        record = self.state.documents.find_by_key(key)
        assert record is not None
        return load_chunked_text(self.state, record, {})

    # Other facts

    def find_fact(self, fact: StatedFact[Key, Value], key: Key) -> Value | None:
        """Return the fact under a key as the transaction sees it, or None."""
        pending_values: dict[Key, Value | None] = self.pending.facts[fact.name]
        if key in pending_values:
            return pending_values[key]
        is_replaced = isinstance(fact, DocumentFact) and key in self.pending.documents
        return None if is_replaced else fact.find(self.state, key)

    def put_fact(self, fact: StatedFact[Key, Value], key: Key, value: Value, *, keep_existing: bool = False) -> bool:
        """Store a fact. Replace the existing value or, with ``keep_existing``, merge into it.

        Returns True if that changes anything. The document of a fact about a document must exist. Raises InputError if
        the fact contradicts existing facts.
        """
        existing = self.find_fact(fact, key)
        is_merged = keep_existing or fact.is_cumulative
        new_value: Value | None = value if existing is None or not is_merged else fact.merge(existing, value)
        if isinstance(fact, DocumentFact):
            new_value = fact.fit_to_document(new_value, lambda: self._find_chunked_text(str(key)), same_text=True)
        if new_value == existing or not (new_value or existing):
            return False
        if new_value is not None:
            fact.check_consistency(new_value, partial(self.find_fact, fact))
        self.pending.put_fact(fact, key, new_value or None)
        if fact in list_context_facts(self._settings):
            self._reembed_document(str(key))
        return True

    def _reembed_document(self, key: str) -> None:
        """Re-embed a stored document whose embedding texts changed."""
        record = None if key in self.pending.documents else self.state.documents.find_by_key(key)
        if record is None or record.own_vectors:
            return  # a pending document is embedded later, with all its facts
        text = self.state.documents.read_text(record.id).decode()
        document = make_pending(validate_stored(record, text), self._settings)
        stated_facts = [(fact, self.find_fact(fact, key)) for fact in facts.list_document_fact_kinds()]
        self.pending.put(replace(document, origin=record.origin, changed_at=record.changed_at))
        for fact, value in stated_facts:
            if value is not None:
                self.pending.put_fact(fact, key, value)

    # Batches

    @property
    def is_large(self) -> bool:
        """True if the pending batch is large enough to be applied."""
        return self.pending.size > (_MAX_FIRST_PENDING if self._changes.can_defer_linking else _MAX_PENDING)

    def complete(self) -> None:
        """Derive the missing data of the pending batch, and embed its texts, so that it can be applied.

        Raises LanguageError and the errors of the embedder.
        """
        complete_pending(self.pending, self.state, self._session.store.embedder.embed)

    def apply(self, *, more_follow: bool) -> None:
        """Apply the completed batch and begin another. After an error, the transaction must be aborted.

        ``more_follow``: True if further batches are likely before the next read.
        """
        pending, self.pending = self.pending, PendingChanges()
        self.has_applied = True
        if self.can_replay:
            self._applied.append(pending)
        self._changes.apply(pending, more_follow=more_follow)
        if self.can_replay:
            pending.release()

    def write_back(self) -> None:
        """Write the data that applied batches hold in memory to the transaction, so that its view sees it."""
        self._changes.write_back()

    def commit(self, lookup_counts: Mapping[str, int]) -> None:
        """Commit the applied batches, and add numbers of lookups, by entity key, to the temperatures."""
        self._changes.finish(lookup_counts)
        self._transaction.commit()
        self._session.store.filter_cache.put(self._changes.filter, self._transaction.change)
        self._session.store.trace_cache.commit(self._changes.counters)

    def replay(self, transaction: WriteTransaction, lookup_counts: Mapping[str, int]) -> None:
        """Apply all batches, and numbers of lookups by entity key, to another transaction, which the caller commits."""
        changes = self._open_changes(transaction)
        for pending in self._applied:
            # Another process may have changed which derivations the store keeps in the meantime.
            complete_pending(pending, changes.state, self._session.store.embedder.embed)
            changes.apply(pending, more_follow=True)
            pending.release()
        changes.finish(lookup_counts)

    def close(self) -> None:
        """Close the state, and drop what it has cached."""
        self.state.close()

    def _open_changes(self, transaction: WriteTransaction) -> Changes:
        """Return changes to a transaction, with the cached entity filter of its state."""
        store = self._session.store
        entity_filter = store.filter_cache.take_filter(transaction, hash_seed=self._settings.hash_seed)
        return Changes(transaction, self._settings, entity_filter, store.trace_cache)
