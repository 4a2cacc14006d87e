"""The batches of changes of a write transaction: the pending batch, and those already applied.
A *fact* is what a user states, such as an edge or the triples of a document; a *kind* of fact reads and stores it. A
document of *pairs* is a list of (child, parent) names without a text.

In: documents, and the other facts that the user adds. On disk: applied batches, invisible until the transaction
commits. If the map was too small for them, they are applied again to another transaction. Out: the state, documents and
facts that the transaction sees: the pending batch takes precedence over applied batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ..changes import facts
from ..changes.changes import Changes
from ..changes.document_completion import complete_pending, derive_documents
from ..changes.pending import (
    MetadataChange,
    PendingChanges,
    PendingDocument,
    changes_only_metadata,
    has_same_text,
    make_pending,
    validate_stored,
)
from ..errors import TransactionError
from ..extraction.validation import PAIRS_FORMAT, ValidDocument
from ..registry.chunked_text import ChunkedText, build_chunked_text, load_chunked_text
from ..registry.derivation import list_context_facts
from ..registry.fact import DocumentFact, Key, StatedFact, Value
from ..storage.environment import WriteTransaction
from ..structures.documents.documents import DocumentRecord
from .session import Session

#: The maximum number of chunks, names, triples and edges to buffer before they are applied, so that a long transaction
#: does not hold all its texts in memory twice.
_MAX_PENDING = 4096
#: The same limit for the first documents of a store, which are linked later (:meth:`Changes.apply`).
_MAX_FIRST_PENDING = 512


class BatchedChanges:
    """The pending batch of a write transaction, and the batches already applied to it. They are kept
    (``keeps_batches``) if the transaction may outgrow LMDB's map of the file, and replayed in a larger map.
    """

    def __init__(self, session: Session, transaction: WriteTransaction) -> None:
        """Create an empty batch of changes to ``transaction``."""
        self._session = session
        self._transaction = transaction
        self._settings = session.store.settings
        self._changes = self._open_changes(transaction)
        #: The state with all applied batches, including data that is not written to the transaction yet.
        self.state = self._changes.state
        self.pending = PendingChanges()
        #: The id of the first chunk that this transaction can add.
        self._first_new_chunk = self.state.counters.next_chunk
        #: True if a batch was applied.
        self.has_applied = False
        #: Applied batches, kept to apply them again in a larger map; empty if the map has enough room.
        self._applied_batches: list[PendingChanges] = []
        #: True if applied batches are kept, because the transaction may outgrow LMDB's map of the file.
        self.keeps_batches = transaction.may_outgrow_map

    @property
    def has_new_chunks(self) -> bool:
        """True if the applied batches add chunks."""
        return self.state.counters.next_chunk > self._first_new_chunk

    # Documents

    def find_document(self, key: str) -> ValidDocument | DocumentRecord | None:
        """Return the document with this key as the transaction sees it: pending, or stored with pending metadata.

        Returns None if it does not exist or is deleted in the pending batch.
        """
        if key in self.pending.documents:
            pending_document = self.pending.documents[key]  # None: the batch deletes the document
            return pending_document.document if pending_document is not None else None
        record, change = self.state.documents.find_by_key(key), self.pending.metadata.get(key)
        if record is not None and change is not None:
            record = replace(record, **change._asdict())  # with the new metadata and digest
        return record

    def put_document(self, document: PendingDocument) -> bool:
        """Put a document into the pending batch; return True if that changes anything.

        Facts stated about the existing document, such as triples, are kept if they remain valid for the new text.
        """
        key = document.document.key
        existing_document = self.find_document(key)
        valid_facts = []
        if existing_document is not None:
            if existing_document.digest == document.document.digest:
                return False
            if self.put_metadata(existing_document, document):
                return True
            valid_facts = self._select_valid_facts(existing_document, document)
        self.pending.put(document)
        for fact_kind, value in valid_facts:
            self.pending.put_fact(fact_kind, key, value)
        return True

    def put_metadata(self, existing_document: ValidDocument | DocumentRecord, document: PendingDocument) -> bool:
        """Add new metadata and the origin (ingested folder) of a stored document to the batch, if nothing else differs.

        Returns True if they were added. Returns False, and changes nothing, if the text or other properties differ, or
        if ``existing_document``, the document with the same key, is still pending. Also returns False if the metadata
        changes the document's language or tree name, because derived data depends on these.
        """
        if not isinstance(existing_document, DocumentRecord):  # still pending
            return False
        if not changes_only_metadata(self.state, existing_document, document):
            return False
        self._record_digest(existing_document.key)
        self.pending.put_metadata(
            existing_document.key, MetadataChange(document.document.meta, document.document.digest)
        )
        self.set_origin(existing_document.key, document.origin)
        return True

    def delete_documents(self, keys: Sequence[str]) -> int:
        """Add the deletion of the documents with these keys to the batch, and return how many of them existed."""
        existing_keys = {key for key in keys if self.pending.documents.get(key) is not None}
        nonpending_keys = (key for key in dict.fromkeys(keys) if key not in self.pending.documents)
        existing_keys |= self._changes.documents.find_stored_keys(nonpending_keys)
        for key in dict.fromkeys(keys):
            if key in existing_keys:
                self.pending.delete(key)
        return len(existing_keys)

    def set_origin(self, key: str, origin: str | None) -> bool:
        """Set the origin (ingested folder) of the document with this key; return True if it exists and changes."""
        if key in self.pending.documents:
            pending_document = self.pending.documents[key]
            if pending_document is None or pending_document.origin == origin:
                return False
            self.pending.documents[key] = replace(pending_document, origin=origin)
            return True
        record = self.state.documents.find_by_key(key)
        if record is None or self.pending.origins.get(key, record.origin) == origin:
            return False
        self.pending.origins[key] = origin
        return True

    def _select_valid_facts(
        self, existing_document: ValidDocument | DocumentRecord, document: PendingDocument
    ) -> list[tuple[DocumentFact[Any], Any]]:
        """Return the stated facts, such as triples, that stay valid if ``document`` replaces an existing one.

        Each fact is a pair of its kind and its value, which is adapted to the new text. No fact about a document of
        pairs stays valid. ``existing_document`` is the pending or stored document with the same key.
        """
        valid_document = document.document
        if PAIRS_FORMAT in (existing_document.format, valid_document.format):
            return []  # a document of pairs has no text to state facts about
        stated_facts = self._list_facts(valid_document.key)
        if not stated_facts:
            return []
        is_same_text = has_same_text(self.state, existing_document, valid_document)
        adapted_facts = [
            (fact_kind, fact_kind.fit_to_document(value, lambda: self._chunk_document(document), is_same_text))
            for fact_kind, value in stated_facts
        ]
        return [(fact_kind, value) for fact_kind, value in adapted_facts if value]  # None, empty: no longer valid

    def _chunk_document(self, document: PendingDocument) -> ChunkedText:
        """Return the chunks and headings of a pending document, without triples or other facts stated about it."""
        (derived_document,) = derive_documents([document], self._settings)
        return build_chunked_text(derived_document.extracted, facts={})

    def _find_chunked_text(self, key: str) -> ChunkedText:
        """Return the chunks and headings of the document with this key, which must exist, without facts about it."""
        pending_document = self.pending.documents.get(key)
        if pending_document is not None:
            return self._chunk_document(pending_document)
        record = self.state.documents.find_by_key(key)
        assert record is not None
        return load_chunked_text(self.state, record, facts={})

    # Other facts

    def find_fact(self, fact_kind: StatedFact[Key, Value], key: Key) -> Value | None:
        """Return the fact of a kind (such as edges) with this key as the transaction sees it; None if missing."""
        pending_values: dict[Key, Value | None] = self.pending.facts[fact_kind.name]
        if key in pending_values:
            return pending_values[key]
        # The facts about a pending document are pending, too.
        is_replaced = isinstance(fact_kind, DocumentFact) and key in self.pending.documents
        return None if is_replaced else fact_kind.find(self.state, key)

    def _list_facts(self, key: str) -> list[tuple[DocumentFact[Any], Any]]:
        """Return the facts stated about a document, such as its triples, as the transaction sees them.

        Each fact is a pair of its kind and its value.
        """
        has_pending = any(self.pending.facts.values())
        # Without pending facts, only the kinds of stored facts are relevant; the others are not imported.
        kinds = facts.list_document_fact_kinds() if has_pending else facts.list_present_fact_kinds(self.state)
        facts_or_none = [(fact_kind, self.find_fact(fact_kind, key)) for fact_kind in kinds]
        return [(fact_kind, value) for fact_kind, value in facts_or_none if value is not None]

    def put_fact(
        self, fact_kind: StatedFact[Key, Value], key: Key, value: Value, *, keep_existing: bool = False
    ) -> bool:
        """Add a fact of a kind (such as edges) to the batch. It replaces the existing fact with the same key.

        With ``keep_existing``, or for a kind whose values accumulate (``is_cumulative``), it is merged with the
        existing fact instead. An empty value deletes the fact. If the fact is part of the embedded text, its document
        is embedded again. Returns True if anything changes. The document of a fact about a document must exist. Raises
        InputError if the fact contradicts existing facts.
        """
        existing_value = self.find_fact(fact_kind, key)
        new_value: Value | None = value
        if existing_value is not None and (keep_existing or fact_kind.is_cumulative):
            new_value = fact_kind.merge(existing_value, value)
        if isinstance(fact_kind, DocumentFact):  # drop what does not apply to the document, such as an old passage
            new_value = fact_kind.fit_to_document(new_value, lambda: self._find_chunked_text(str(key)), same_text=True)
        is_unchanged = new_value == existing_value or not (new_value or existing_value)  # None and empty are equal
        if is_unchanged:
            return False
        if new_value is not None:
            fact_kind.check_consistency(new_value, partial(self.find_fact, fact_kind))
        if isinstance(fact_kind, DocumentFact):
            self._record_digest(str(key))  # so that :meth:`replay` detects another version of the document
        self.pending.put_fact(fact_kind, key, new_value or None)
        if fact_kind in list_context_facts(self._settings):
            self._reembed_document(str(key))
        return True

    def _record_digest(self, key: str) -> None:
        """Record the digest of a stored document whose metadata or facts change, if the batch may be applied again.

        :meth:`replay` compares it, because another process may store another document with this key by then.
        """
        record = self.state.documents.find_by_key(key) if self.keeps_batches else None
        if record is not None and key not in self.pending.documents:
            self.pending.stored_digests[key] = record.digest

    def _reembed_document(self, key: str) -> None:
        """Put a stored document into the pending batch again, with its facts, because the texts to embed changed.

        Does nothing for a document with vectors from the user, or one that is in the batch already.
        """
        record = self.find_document(key)
        if not isinstance(record, DocumentRecord) or record.own_vectors:
            return  # a pending document is embedded when it is applied, with all its facts
        text = self.state.documents.read_text(record.id).decode()
        document = make_pending(validate_stored(record, text), self._settings)
        stated_facts = self._list_facts(key)
        origin = self.pending.origins.get(key, record.origin)
        # A pending change of its metadata sets the time of change; new embedding texts alone do not.
        changed_at = None if key in self.pending.metadata else record.changed_at
        self.pending.put(replace(document, origin=origin, changed_at=changed_at))
        for fact_kind, value in stated_facts:
            self.pending.put_fact(fact_kind, key, value)

    # Batches

    @property
    def is_large(self) -> bool:
        """True if the pending batch is large enough to be applied.

        The limit is lower for the first documents of a store, which are linked to the names in them only at the end.
        """
        return self.pending.size > (_MAX_FIRST_PENDING if self._changes.can_defer_linking else _MAX_PENDING)

    def apply(self, *, expect_more: bool) -> None:
        """Apply the pending batch, whose derived data is complete, and begin another.

        After an error, the transaction must be aborted. If the transaction may outgrow LMDB's map of the file
        (``keeps_batches``), the batch is kept without its derived data, to apply it again in a larger map.
        ``expect_more`` is True if further batches are likely before the next read.
        """
        batch, self.pending = self.pending, PendingChanges()
        self.has_applied = True
        if self.keeps_batches:
            self._applied_batches.append(batch)
        self._changes.apply(batch, expect_more=expect_more)
        if self.keeps_batches:
            batch.drop_derived_data()

    def write_back(self) -> None:
        """Write the data that applied batches hold in memory to the transaction, so that its view sees it."""
        self._changes.write_back()

    def commit(self, lookup_counts: Mapping[str, int]) -> None:
        """Commit the applied batches, and add ``lookup_counts``, by entity key, to the temperatures of entities.

        Then cache the entity filter (the index of all names) and the fingerprints (Bloom filters) of new texts for the
        next transaction.
        """
        self._changes.finish(lookup_counts)
        self._transaction.commit()
        self._session.store.filter_cache.put(self._changes.filter, self._transaction.change)
        self._session.store.fingerprint_cache.commit(self._changes.counters)

    def replay(self, transaction: WriteTransaction, lookup_counts: Mapping[str, int]) -> None:
        """Apply all applied batches again, to another transaction, which the caller commits.

        Also adds ``lookup_counts``, the numbers of lookups by entity key, to the temperatures of the entities. Raises
        TransactionError if another writer has changed a document whose metadata or facts the batches change.
        """
        changes = self._open_changes(transaction)
        for batch in self._applied_batches:
            for key, digest in batch.stored_digests.items():
                record = changes.documents.find_by_key(key)
                if record is None or record.digest != digest:
                    raise TransactionError(
                        f"another transaction changed document {key!r} while the store was growing, so this "
                        "transaction was not committed; run it again"
                    )
            # Derive the data again: another process may have changed which derived data the store keeps.
            complete_pending(batch, changes.state, self._session.store.embedder.embed)
            changes.apply(batch, expect_more=True)
            batch.drop_derived_data()
        changes.finish(lookup_counts)

    def _open_changes(self, transaction: WriteTransaction) -> Changes:
        """Return an object that applies changes to a transaction.

        It uses the filter of entity names that the last transaction cached, if it fits the state of this one.
        """
        store = self._session.store
        entity_filter = store.filter_cache.take_filter(transaction, hash_seed=self._settings.hash_seed)
        return Changes(transaction, self._settings, entity_filter, store.fingerprint_cache)
