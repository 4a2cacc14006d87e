"""A write transaction: changes are buffered, applied in batches, and become visible together on commit.

In: documents, triples, edges and aliases to store or remove. On disk: nothing until :meth:`Transaction.commit`. Reads
inside a transaction see its changes. The transaction holds the writer's lock from start to end. Only the thread that
began it can use or end it; it is rolled back when it is garbage-collected or its store is closed. Invalid input (an
empty or over-long name, an edge from a name to itself, a cycle of names) raises InputError. The error for an unknown
name or document suggests the nearest known ones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import numpy.typing as npt

from ..arguments import check_text
from ..changes import facts
from ..changes.changes import Changes
from ..changes.pending import (
    PendingChanges,
    PendingDocument,
    complete_pending,
    derive_documents,
    make_pending,
)
from ..errors import ArgumentError, ClosedError, InputError, TransactionError
from ..extraction.own_chunks import unpack_chunks
from ..extraction.validation import PAIRS_FORMAT, ValidDocument, validate
from ..registry.chunk_texts import list_context_facts
from ..registry.chunked_text import ChunkedText, build_chunked_text, load_chunked_text
from ..registry.fact import DocumentFact, Key, StatedFact, Value
from ..sql.suggestions import make_document_error, make_entity_error
from ..storage.environment import MapFull, WriteTransaction
from ..storage.free_memory import release_free_memory
from ..structures.documents.document_triples import parse_triples
from ..structures.documents.documents import DocumentRecord
from ..structures.documents.ingested_files import IngestedFile
from ..structures.names.aliases import ALIAS, MERGE, Alias
from ..structures.state import State
from ..text.normalize import to_entity_key
from ..text.stated_names import clean_name
from .queryable import Queryable
from .session import Session

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

#: The most chunks, names, triples and edges to buffer before they are applied, so that a long transaction does not hold
#: all its texts in memory twice.
_MOST_PENDING = 4096
#: The same limit for the first documents of a store, which are linked later (:meth:`Changes.apply`).
_MOST_PENDING_FIRST = 1024


def in_owner_thread(
    method: Callable[Concatenate[Transaction, Parameters], Result],
) -> Callable[Concatenate[Transaction, Parameters], Result]:
    """Wrap a transaction method so that it requires the owner thread and an open transaction."""

    @wraps(method)
    def call(self: Transaction, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        self._require_thread()
        with self._method_lock:
            self._require_open()
            return method(self, *args, **kwargs)

    return call


class Transaction(Queryable):
    """Changes that become visible together or not at all; created by :meth:`Store.transaction`.

    As a context manager, it commits on a clean exit and rolls back on an exception. Only the thread that began it can
    use it; in other threads every method raises TransactionError and changes nothing. After the end of the transaction,
    methods raise ClosedError.
    """

    _open = False
    #: True if the user ended the transaction, by commit or rollback.
    _ended = False

    def __init__(self, session: Session, timeout: float | None) -> None:
        self._session = session
        self._timeout = timeout
        self._thread = threading.current_thread()
        #: Held by the owner thread while it executes a method.
        self._method_lock = threading.RLock()
        self._closed_message = "this transaction is over; begin another with store.transaction()"
        self._write_transaction: WriteTransaction = session.environment.write(timeout)
        try:
            self._changes = self._open_changes(self._write_transaction)
        except BaseException:
            self._write_transaction.abort()
            raise
        self._pending = PendingChanges()
        #: Applied batches, kept to replay them in a larger map; empty if the map has enough room.
        self._applied: list[PendingChanges] = []
        self._can_replay = not session.environment.has_room
        self._has_changes = False
        self._open = True

    @property
    def open(self) -> bool:
        """True if the transaction can still be used."""
        return self._open

    @contextmanager
    def state(self) -> Iterator[State]:
        self._require_thread()
        with self._method_lock:
            self._require_open()
            self._apply()
            self._changes.write_back()
            with State(
                self._write_transaction, self._session.store.settings, self._session.store.open_indexes
            ) as state:
                yield state

    @in_owner_thread
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
        chunks: str | Sequence[Sequence[int]] | None = None,
        origin: str | None = None,
        left_out: int = 0,
    ) -> bool:
        """Store a document, replacing the one with this key; returns True if that changes anything.

        ``vectors`` (one, or one per chunk) replace the embedder's. ``chunks`` overrides how the text is divided:
        ``"whole"``, or spans (start, end) in characters, in order and without overlap, which are used unchanged.
        ``origin`` is the folder the document came from, ``left_out`` the number of characters of its page that were
        omitted as navigation. Raises InputError, which names the document, for an empty or over-long text, an invalid
        format, and vectors or chunks that do not fit.

        >>> store.put("milk", "Milk goes into tea.", title="Milk", meta={"year": 2025})
        True
        >>> store.put("milk", "Milk goes into tea.", title="Milk", meta={"year": 2025})
        False
        """
        valid_document = validate(
            key, text, title=title, source=source, meta=meta, format=format, left_out=left_out, chunks=chunks
        )
        existing = self._find_document(key)
        if vectors is None and existing is not None and existing.digest == valid_document.digest:
            return False
        self._session.store.require_language()
        return self._put(make_pending(valid_document, self._session.store.settings, vectors, origin))

    @in_owner_thread
    def put_many(self, documents: Iterable[Mapping[str, Any]]) -> list[bool]:
        """Store documents, each a mapping of the arguments of :meth:`put`; returns whether each changes anything.

        All documents are checked before any is stored. An error names the document's position, from 1, and nothing is
        stored then. Raises what :meth:`put` raises.

        >>> store.put_many([{"key": "milk", "text": "Milk goes into tea."}, {"key": "sea", "text": "It is salty."}])
        [True, True]
        """
        from .checked_documents import check_documents

        pending_documents = []
        for checked_document in check_documents(documents, Transaction.put):
            with checked_document.locate_errors():
                pending_documents.append(
                    (
                        checked_document,
                        make_pending(
                            checked_document.document,
                            self._session.store.settings,
                            checked_document.vectors,
                            checked_document.origin,
                        ),
                    )
                )
        if pending_documents:
            self._session.store.require_language()
        return [self._put(document) for _, document in pending_documents]

    @in_owner_thread
    def _put(self, document: PendingDocument) -> bool:
        """Store a document that is already chunked or extracted; return True if that changes anything.

        Other facts about the document, such as triples, are kept if they fit its text.
        """
        key = document.document.key
        existing = self._find_document(key)
        if existing is not None and existing.digest == document.document.digest:
            return False
        kept_facts = self._select_fitting_facts(existing, document)
        self._pending.put(document)
        for fact, value in kept_facts:
            self._pending.put_fact(fact, key, value)
        self._apply_if_large()
        return True

    def _select_fitting_facts(
        self, existing: ValidDocument | DocumentRecord | None, document: PendingDocument
    ) -> list[tuple[DocumentFact[Any], Any]]:
        """Return the facts about an existing document that remain valid for its replacement."""
        valid_document = document.document
        if existing is None or PAIRS_FORMAT in (existing.format, valid_document.format):
            return []
        stated_facts = [(fact, self._find_fact(fact, valid_document.key)) for fact in facts.iter_document_kinds()]
        stated_facts = [(fact, value) for fact, value in stated_facts if value is not None]
        if not stated_facts:
            return []
        is_same_text = self._has_same_text(existing, valid_document)
        fitted_facts = [
            (fact, fact.fit_to_document(value, lambda: self._chunk_document(document), is_same_text))
            for fact, value in stated_facts
        ]
        return [(fact, value) for fact, value in fitted_facts if value]

    def _has_same_text(self, existing: ValidDocument | DocumentRecord, valid_document: ValidDocument) -> bool:
        if isinstance(existing, ValidDocument):
            return existing.text == valid_document.text
        return (
            existing.size == len(valid_document.text)
            and self._changes.documents.read_text(existing.id) == valid_document.text
        )

    def _chunk_document(self, document: PendingDocument) -> ChunkedText:
        """Return a pending document as chunked text."""
        if not document.is_derived:
            (document,) = derive_documents([document], self._session.store.settings)
        return build_chunked_text(document.extracted, {})

    @in_owner_thread
    def set_origins(self, origins: Mapping[str, str | None]) -> int:
        """Set the origins of documents, given by key; returns the number of documents whose origin changed.

        The origin of an ingested document is the folder it came from; pruning that folder removes the document if its
        file is gone. Nothing else of the document changes, so this is cheap. Keys without a document are ignored.

        >>> store.set_origins({"tea": "notes", "cocoa": "notes"}), store.get("tea").origin
        (1, 'notes')
        """
        num_moved = 0
        for key, origin in origins.items():
            check_text("a key", key)
            if not isinstance(origin, str | None):
                raise ArgumentError(f"an origin is a text or None, not {origin!r}")
            num_moved += self._set_origin(key, origin)
        return num_moved

    def _set_origin(self, key: str, origin: str | None) -> bool:
        """Set the origin of the document with this key, if it exists; return True if the origin changed."""
        if key in self._pending.documents:
            pending = self._pending.documents[key]
            if pending is None or pending.origin == origin:
                return False
            self._pending.documents[key] = replace(pending, origin=origin)
            return True
        record = self._changes.documents.find_by_key(key)
        if record is None or self._pending.origins.get(key, record.origin) == origin:
            return False
        self._pending.origins[key] = origin
        return True

    @in_owner_thread
    def _record_files(self, files: Sequence[tuple[IngestedFile, list[bytes]]]) -> None:
        """Record which files were ingested completely, each with the digests of its documents."""
        self._pending.files.extend(files)

    @in_owner_thread
    def update(
        self,
        key: str,
        *,
        text: str | None = None,
        title: str | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> bool:
        """Change parts of a stored document; None keeps a part unchanged. Returns True if anything changed.

        The document keeps vectors supplied by the user. If its text is unchanged, it keeps its triples. A document
        stored as a single chunk (``"whole"``) stays so. Raises DocumentNotFoundError, which suggests the nearest keys,
        and InputError for a new text of a document whose vectors or chunks were supplied by the user: put that document
        again, with new ones.

        >>> store.update("coffee", title="Coffee"), store.get("coffee").title
        (True, 'Coffee')
        """
        self._apply()
        record = self._changes.documents.find_by_key(key) if key else None
        if record is None:
            with self.state() as state:
                raise make_document_error(state, key)
        current_text = self._changes.documents.read_text(record.id).decode()
        vectors = None
        if record.own_vectors:
            if text is not None and text != current_text:
                raise InputError(f"document {key!r} has vectors of its own; put its new text together with new vectors")
            vectors = self._changes.state.read_vectors(record)
        own_chunks = unpack_chunks(record.own_chunks)
        if isinstance(own_chunks, tuple) and text is not None and text != current_text:
            raise InputError(f"document {key!r} has chunks of its own; put its new text together with new chunks")
        return self.put(
            key,
            current_text if text is None else text,
            title=record.title if title is None else title,
            source=record.source,
            meta=record.meta if meta is None else meta,
            format=record.format,
            vectors=vectors,
            chunks=own_chunks,
            origin=record.origin,
            left_out=record.left_out if text is None or text == current_text else 0,
        )

    @in_owner_thread
    def delete(self, key: str) -> bool:
        """Delete the document with this key; returns False if it does not exist.

        >>> store.delete("tea"), store.delete("tea")
        (True, False)
        """
        if self._find_document(key) is None:
            return False
        self._pending.delete(key)
        return True

    @in_owner_thread
    def delete_many(self, keys: Sequence[str]) -> int:
        """Delete the documents with these keys; returns the number deleted.

        >>> with store.transaction() as transaction:
        ...     transaction.delete_many(["tea", "cocoa"])
        1
        """
        return sum(self.delete(key) for key in keys)

    @in_owner_thread
    def delete_where(self, where: str | Mapping[str, Any], parameters: Sequence[Any] | Mapping[str, Any] = ()) -> int:
        """Delete the documents that satisfy a condition; returns the number deleted.

        The condition is SQL over the columns of ``documents``, or a mapping. Raises StatementError for invalid SQL,
        InputError for an invalid mapping.

        >>> store.delete_where("meta ->> 'year' >= ?", (2024,)), store.keys()
        (1, ['tea'])
        """
        from ..sql.document_filter import filter_documents

        with self.state() as state:
            document_ids = filter_documents(state, where, parameters).allowed.documents.tolist()
            keys = [state.documents.get(document).key for document in document_ids]
        return self.delete_many(keys)

    @in_owner_thread
    def put_triples(
        self, key: str, triples: Iterable[Sequence[str]], *, names: Iterable[str] = (), more: bool = False
    ) -> bool:
        """Attach triples (subject, relation, object) to a document; returns True if that changes anything.

        They replace the document's earlier triples, or are added to them with ``more``. Their names, and those in
        ``names``, become known and linked. The triples are removed when the document is deleted or its text changes.
        Raises DocumentNotFoundError, and InputError for an invalid triple or a document of pairs.

        >>> store.put_triples("tea", [("Robert Fortune", "was born in", "Kelloe")])
        True
        >>> [place.document for place in store.lookup("Kelloe")]
        []
        >>> store.triples("tea")
        [Triple(subject='Robert Fortune', relation='was born in', object='Kelloe')]
        """
        return self._put_fact(facts.TRIPLES, key, parse_triples(triples, names), keep_existing=more)

    @in_owner_thread
    def put_edge(self, child: str, parent: str, *, tree: str = "edges") -> bool:
        """Add an edge that places ``child`` under ``parent`` in a tree; returns False if this method already added it.

        Both names become known. If a document also states the edge, it exists as long as either source does. Raises
        InputError for an empty or over-long name or tree, and for an edge from a name to itself.

        >>> store.put_edge("Assam", "India", tree="places")
        True
        >>> [relative.relative for relative in store.expand("India", direction="down", tree="places")]
        ['India', 'Assam', 'Darjeeling']
        """
        edge = facts.EDGES.make_edge(child, parent, tree)
        return self._find_fact(facts.EDGES, edge.key) is None and self._put_fact(facts.EDGES, edge.key, edge)

    @in_owner_thread
    def delete_edge(self, child: str, parent: str, *, tree: str = "edges") -> bool:
        """Remove an edge added by :meth:`put_edge`; returns False if there is no such edge.

        Raises InputError if only documents state the edge; change or delete those documents to remove it.

        >>> store.delete_edge("Darjeeling", "India", tree="places")
        True
        """
        edge = facts.EDGES.make_edge(child, parent, tree)
        if self._find_fact(facts.EDGES, edge.key) is not None:
            self._pending.put_fact(facts.EDGES, edge.key, None)
            return True
        self._apply()
        nodes = facts.EDGES.find_nodes(self._changes.state, edge.key)
        document_ids = () if nodes is None else self._changes.forest.list_stating_documents(*nodes)
        if document_ids:
            keys = ", ".join(repr(self._changes.documents.get(document).key) for document in document_ids[:3])
            others_text = f" and {len(document_ids) - 3} more" if len(document_ids) > 3 else ""
            raise InputError(
                f"{edge.child!r} is under {edge.parent!r} in tree {edge.tree!r} because document "
                f"{keys}{others_text} says so; "
                "change or delete the document"
            )
        return False

    def alias(self, name: str, entity: str) -> bool:
        """Make ``name`` an alias of a known entity in all lookups and queries; returns False if it already is.

        The name becomes known and is recognized in every text. A second call with another entity redirects the alias.
        Raises EntityNotFoundError for an unknown entity, and InputError for a name that is empty, too long or merged,
        or of which the entity is itself an alias.

        >>> store.alias("Bharat", "India"), store.lookup("bharat")[0].entity
        (True, 'India')
        """
        return self._put_alias(facts.ALIASES.make_alias(name, entity, ALIAS))

    def drop_alias(self, name: str) -> bool:
        """Remove an alias added by :meth:`alias`; returns False if ``name`` is no alias.

        Raises InputError if ``name`` is merged.

        >>> store.alias("Bharat", "India"), store.drop_alias("Bharat")
        (True, True)
        """
        return self._remove_alias(name, ALIAS)

    def merge(self, name: str, into: str) -> bool:
        """Merge a known name into another known entity, so that both count as one; returns False if already merged.

        This works like :meth:`alias`, but the name stays known only while something else introduces it.

        >>> store.merge("Darjeeling", "India"), store.aliases()
        (True, [Alias(name='Darjeeling', entity='India', kind='merge')])
        """
        return self._put_alias(facts.ALIASES.make_alias(name, into, MERGE))

    def unmerge(self, name: str) -> bool:
        """Undo :meth:`merge`; returns False if ``name`` is not merged. Raises InputError for an alias.

        >>> store.merge("Darjeeling", "India"), store.unmerge("Darjeeling")
        (True, True)
        """
        return self._remove_alias(name, MERGE)

    @in_owner_thread
    def _put_fact(self, fact: StatedFact[Key, Value], key: Key, value: Value, *, keep_existing: bool = False) -> bool:
        """Store a fact, replacing the one under its key or (``more``) joined to it; return False if nothing changes.

        The names in the fact are not required to be known, because an import brings facts that were checked before.
        Raises DocumentNotFoundError, and InputError if the fact contradicts existing facts.
        """
        existing = self._find_fact(fact, key)
        is_joined = keep_existing or fact.is_cumulative
        new_value: Value | None = value if existing is None or not is_joined else fact.merge(existing, value)
        if isinstance(fact, DocumentFact):
            new_value = fact.fit_to_document(new_value, lambda: self._find_chunked_text(str(key)), True)
        if new_value == existing or not (new_value or existing):
            return False
        if new_value is not None:
            fact.check_consistency(new_value, partial(self._find_fact, fact))
        self._pending.put_fact(fact, key, new_value or None)
        if fact in list_context_facts(self._session.store.settings):
            self._reembed_document(str(key))
        self._apply_if_large()
        return True

    def _reembed_document(self, key: str) -> None:
        """Re-embed a stored document whose embedding texts changed."""
        record = None if key in self._pending.documents else self._changes.documents.find_by_key(key)
        if record is None or record.own_vectors:
            return  # a pending document is embedded later, with all its facts
        text = self._changes.documents.read_text(record.id).decode()
        valid_document = validate(
            key,
            text,
            title=record.title,
            source=record.source,
            meta=record.meta,
            format=record.format,
            left_out=record.left_out,
            chunks=unpack_chunks(record.own_chunks),
        )
        document = make_pending(valid_document, self._session.store.settings)
        stated_facts = [(fact, self._find_fact(fact, key)) for fact in facts.iter_document_kinds()]
        self._pending.put(replace(document, origin=record.origin, changed_at=record.changed_at))
        for fact, value in stated_facts:
            if value is not None:
                self._pending.put_fact(fact, key, value)

    def _find_fact(self, fact: StatedFact[Key, Value], key: Key) -> Value | None:
        """Return the fact under a key as the transaction sees it, or None."""
        if isinstance(fact, DocumentFact):
            self._require_text(fact, str(key))
        pending_values: dict[Key, Value | None] = self._pending.facts[fact.name]
        if key in pending_values:
            return pending_values[key]
        is_deleted = isinstance(fact, DocumentFact) and key in self._pending.documents
        return None if is_deleted else fact.find(self._changes.state, key)

    def _find_chunked_text(self, key: str) -> ChunkedText:
        """Return the document with this key, which must exist, as chunked text."""
        pending = self._pending.documents.get(key)
        if pending is not None:
            return self._chunk_document(pending)
        record = self._changes.documents.find_by_key(key)
        assert record is not None
        return load_chunked_text(self._changes.state, record, {})

    def _require_text(self, fact: StatedFact[Any, Any], key: str) -> None:
        """Raise DocumentNotFoundError if the document does not exist, and InputError if it consists of pairs."""
        document = self._find_document(key)
        if document is None:
            with self.state() as state:
                raise make_document_error(state, key)
        if document.format == PAIRS_FORMAT:
            raise InputError(f"document {key!r} is made of pairs; {fact.plural} belong to a document with a text")

    @in_owner_thread
    def _put_alias(self, alias: Alias) -> bool:
        existing = self._find_fact(facts.ALIASES, alias.key)
        if existing is not None and existing.kind != alias.kind:
            raise _make_kind_error(existing)
        if existing is not None and existing.target == alias.target:
            return False
        with self.state() as state:
            for form in (alias.entity, alias.name) if alias.kind == MERGE else (alias.entity,):
                if state.filter.find(to_entity_key(form)) is None:
                    raise make_entity_error(state, form)
        return self._put_fact(facts.ALIASES, alias.key, alias)

    @in_owner_thread
    def _remove_alias(self, name: str, kind: str) -> bool:
        existing = self._find_fact(facts.ALIASES, to_entity_key(clean_name(name)))
        if existing is None:
            return False
        if existing.kind != kind:
            raise _make_kind_error(existing)
        self._pending.put_fact(facts.ALIASES, existing.key, None)
        return True

    @in_owner_thread
    def _find_document(self, key: str) -> ValidDocument | DocumentRecord | None:
        """Return the document with this key as the transaction sees it (pending or stored), or None."""
        if key in self._pending.documents:
            pending = self._pending.documents[key]
            return None if pending is None else pending.document
        return self._changes.documents.find_by_key(key)

    @in_owner_thread
    def commit(self) -> None:
        """Make the changes durable and visible; an error leaves the store unchanged.

        Raises StoreFullError if the store cannot grow, and the errors of the embedder. In a thread other than the one
        that began the transaction, raises TransactionError and the transaction stays open.

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
            if not self._has_changes:
                self._close()
                return
            with self._session.store.hits.take_batch() as hits:
                self._write(hits, fits)
        except BaseException:
            self._close()
            raise
        self._open = False
        was_large = self._write_transaction.is_large
        if was_large:
            # A load touches pages throughout the file; without this, resident memory would grow with the file.
            self._session.environment.release_pages()
        next_chunk = self._changes.counters.next_chunk
        del self._changes  # no longer needed, and large after a load
        if was_large:
            release_free_memory()
        self._session.store.indexing.extend(next_chunk)

    def _write(self, hits: Mapping[str, int], fits: bool) -> None:
        """Commit the applied changes; if the map is too small, replay them in a larger one."""
        try:
            if fits:
                self._changes.finish(hits)
                self._write_transaction.commit()
                self._session.store.filter_cache.put(self._changes.filter, self._write_transaction.change)
                self._session.store.trace_cache.commit(self._changes.counters)
                return
        except MapFull:
            self._write_transaction.abort()
        if not self._can_replay:
            raise self._session.environment.make_map_full_error()
        self._session.environment.write_with_growth(lambda view: self._replay(view, hits), self._timeout)

    def rollback(self) -> None:
        """Discard all changes; does nothing if the transaction has ended.

        In a thread other than the one that began the transaction, raises TransactionError and the transaction stays
        open.

        >>> transaction = store.transaction()
        >>> _ = transaction.put("milk", "Milk goes into tea.")
        >>> transaction.rollback()
        >>> store.keys("milk")
        []
        """
        self._require_thread()
        with self._method_lock:
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
        elif not self._ended:  # if an error or closing the store ended it, commit raises that
            self.commit()

    def _apply_if_large(self) -> None:
        """Apply the pending changes if there are many."""
        if self._pending.size > (_MOST_PENDING_FIRST if self._changes.can_defer_linking else _MOST_PENDING):
            self._apply(expects_more=True)

    def _apply(self, *, expects_more: bool = False) -> None:
        """Apply pending changes to the LMDB transaction; ``more``: further changes are likely before the next read."""
        if not self._pending:
            return
        with State(self._write_transaction, self._session.store.settings) as state:
            complete_pending(self._pending, state, self._session.store.embed)
        pending, self._pending = self._pending, PendingChanges()
        self._has_changes = True
        if self._can_replay:
            self._applied.append(pending)
        try:
            self._changes.apply(pending, more_follow=expects_more)
            if self._can_replay:
                pending.release()
        except BaseException as error:
            self._closed_message = f"this transaction is over: an error ended it and undid its changes ({error})"
            self._close()
            raise

    def _replay(self, write_transaction: WriteTransaction, hits: Mapping[str, int]) -> None:
        changes = self._open_changes(write_transaction)
        for pending in self._applied:
            # Another process may have changed which derivations the store keeps in the meantime.
            complete_pending(pending, changes.state, self._session.store.embed)
            changes.apply(pending, more_follow=True)
            pending.release()
        changes.finish(hits)

    def _open_changes(self, write_transaction: WriteTransaction) -> Changes:
        settings = self._session.store.settings
        temperature_sort = self._session.settings.temperature_sort
        entity_filter = self._session.store.filter_cache.take(
            write_transaction, hash_seed=settings.hash_seed, temperature_sort=temperature_sort
        )
        return Changes(write_transaction, settings, entity_filter, self._session.store.trace_cache)

    def _close(self) -> None:
        self._open = False
        self._changes.state.close()
        self._write_transaction.abort()

    def _require_open(self) -> None:
        if not self._open:
            raise ClosedError(self._closed_message)

    def _require_thread(self) -> None:
        owner = self._get_other_owner()
        if owner is not None:
            raise TransactionError(
                f"the transaction was begun in thread {owner!r}, and this is thread "
                f"{threading.current_thread().name!r}; use and end it there, or begin another here"
            )

    def _get_other_owner(self) -> str | None:
        """Return the owner thread's name if the transaction is open and this is another thread, else None."""
        return self._thread.name if self._open and self._thread is not threading.current_thread() else None

    def _end_with_store(self, timeout: float) -> None:
        """Roll back, from any thread, because the store is being closed.

        Raises TransactionError if the owner thread stays in a method for longer than ``timeout`` seconds.
        """
        if not self._method_lock.acquire(timeout=min(timeout, threading.TIMEOUT_MAX)):
            raise TransactionError(
                f"{self._session.environment.path}: thread {self._thread.name!r} is at work in a transaction, so the "
                "store cannot be closed; close it when that is over"
            )
        try:
            if self._open:
                self._closed_message = "the store was closed, which rolled this transaction back; open the store again"
                self._close()
        finally:
            self._method_lock.release()

    def __del__(self) -> None:
        # No reference is left, so no thread is executing a method.
        if self._open:
            self._close()


def _make_kind_error(alias: Alias) -> InputError:
    if alias.kind == MERGE:
        return InputError(f"{alias.name!r} is merged into {alias.entity!r}; UNMERGE ENTITY (unmerge) takes that back")
    return InputError(f"{alias.name!r} is an alias for {alias.entity!r}; DROP ALIAS (drop_alias) takes that back")
