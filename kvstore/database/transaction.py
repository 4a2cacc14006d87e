"""A write transaction: changes that wait, are applied together, and become visible at once on commit.

In: documents, triples, edges and aliases, put and taken back. On disk: nothing until :meth:`Transaction.commit`. Reads
inside see the transaction's own changes. The writer's lock is held from the first moment to the last. Only the thread
that began it may use it and end it; it is rolled back when it is dropped, and when its store is closed. Bad input (an
empty or over-long name, an edge from a name to itself, a circle of names) is an InputError; a name or document that is
not known says so, with the nearest that are.
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
    PreparedDocument,
    begin,
    complete_pending,
    derive_documents,
)
from ..errors import ArgumentError, ClosedError, InputError, TransactionError
from ..extraction.own_chunks import unpack_chunks
from ..extraction.validation import PAIRS_FORMAT, ValidDocument, validate
from ..sql.nearby import make_document_error, make_entity_error
from ..storage.environment import MapFull, WriteTransaction
from ..storage.free_memory import release_free_memory
from ..structures.documents.document_triples import parse_triples
from ..structures.documents.documents import DocumentRecord
from ..structures.documents.ingested_files import IngestedFile
from ..structures.names.aliases import ALIAS, MERGE, Alias
from ..structures.state import State
from ..systems.chunk_texts import list_context_facts
from ..systems.chunked_text import ChunkedText, build_chunked_text, load_chunked_text
from ..systems.fact import DocumentFact, Key, StatedFact, Value
from ..text.normalize import to_entity_key
from ..text.stated_names import clean_name
from .context import Context
from .queryable import Queryable

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

#: Chunks, names, triples and edges that may wait before they are applied, so that a long transaction does not hold all
#: its texts in memory twice.
_MOST_PENDING = 4096
#: The same of the first documents of a store, which are linked later (:meth:`Changes.apply`).
_MOST_PENDING_FIRST = 1024


def in_owner_thread(
    method: Callable[Concatenate[Transaction, Parameters], Result],
) -> Callable[Concatenate[Transaction, Parameters], Result]:
    """A method of a transaction that is for its thread, while it is open."""

    @wraps(method)
    def call(self: Transaction, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        self._require_thread()
        with self._method_lock:
            self._require_open()
            return method(self, *args, **kwargs)

    return call


class Transaction(Queryable):
    """Changes that become visible together, or not at all; made by :meth:`Store.transaction`.

    A context manager: commits on a clean exit, rolls back on an exception. Another thread than the one that began it
    gets TransactionError from every method, and changes nothing; when the transaction is over they raise ClosedError.
    """

    _open = False
    #: Whether the user has ended it, by commit or rollback.
    _ended = False

    def __init__(self, context: Context, timeout: float | None) -> None:
        self._context = context
        self._timeout = timeout
        self._thread = threading.current_thread()
        #: Held by the thread while it is in a method.
        self._method_lock = threading.RLock()
        self._closed_message = "this transaction is over; begin another with store.transaction()"
        self._write_transaction: WriteTransaction = context.environment.write(timeout)
        try:
            self._changes = self._open_changes(self._write_transaction)
        except BaseException:
            self._write_transaction.abort()
            raise
        self._pending = PendingChanges()
        #: What was applied, to be applied once more in a larger map; nothing where this one takes all.
        self._applied: list[PendingChanges] = []
        self._can_replay = not context.environment.has_room
        self._has_changes = False
        self._open = True

    @property
    def open(self) -> bool:
        """Whether the transaction can still be used."""
        return self._open

    @contextmanager
    def state(self) -> Iterator[State]:
        self._require_thread()
        with self._method_lock:
            self._require_open()
            self._apply()
            self._changes.write_back()
            with State(self._write_transaction, self._context.settings, self._context.open_indexes) as state:
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
        """Store a document in place of the one of this key; True when that changes anything.

        ``vectors`` (one, or one a chunk) stand in for the embedder's. ``chunks`` says how the text is cut, in place of
        the rules: ``"whole"``, or at places (start, end) in characters, in order and apart from each other; they are
        kept as they are. ``origin`` is the folder it came from, ``left_out`` how many characters of its page were left
        out as navigation. Raises InputError, which names the document, for an empty or over-long text, a bad format,
        and vectors or chunks that do not fit.

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
        self._context.require_language()
        return self._put(begin(valid_document, self._context.settings, vectors, origin))

    @in_owner_thread
    def put_many(self, documents: Iterable[Mapping[str, Any]]) -> list[bool]:
        """Store documents, each a mapping of the arguments of :meth:`put`; whether each changes anything, in order.

        All are checked before one is stored: an error says which it is, the first counting as 1, and none is stored.
        Raises what :meth:`put` raises.

        >>> store.put_many([{"key": "milk", "text": "Milk goes into tea."}, {"key": "sea", "text": "It is salty."}])
        [True, True]
        """
        from .given_documents import check_documents

        pending_documents = []
        for checked_document in check_documents(documents, Transaction.put):
            with checked_document.locate_errors():
                pending_documents.append(
                    (
                        checked_document,
                        begin(
                            checked_document.document,
                            self._context.settings,
                            checked_document.vectors,
                            checked_document.origin,
                        ),
                    )
                )
        if pending_documents:
            self._context.require_language()
        return [self._put(document) for _, document in pending_documents]

    @in_owner_thread
    def _put(self, document: PreparedDocument | PendingDocument) -> bool:
        """Store a document that is cut into chunks, or extracted (and perhaps embedded) already; True when that changes
        anything.

        What else is stated of it, such as triples, stays with it as far as it fits its text.
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
        self, existing: ValidDocument | DocumentRecord | None, document: PreparedDocument | PendingDocument
    ) -> list[tuple[DocumentFact[Any], Any]]:
        """What is stated of a document that is true of another put in its place."""
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

    def _chunk_document(self, document: PreparedDocument | PendingDocument) -> ChunkedText:
        """A document that is to be stored, cut into chunks."""
        if isinstance(document, PendingDocument):
            (document,) = derive_documents([document], self._context.settings)
        return build_chunked_text(document.extracted, {})

    @in_owner_thread
    def set_origins(self, origins: Mapping[str, str | None]) -> int:
        """Say where documents, by their keys, were found last; returns of how many that is another place than before.

        An ingested document has the folder that it came from, and is pruned with that one. Nothing else of a document
        changes, so this costs little; keys of which there is no document are passed over.

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
        """Have the document of this key, if there is one, with this origin; True when that is another than it had."""
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
        """Say which files have been ingested whole, each with the digests of its documents."""
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
        """Change parts of a stored document, what is None staying as it is; True when that changes anything.

        A document with the user's own vectors keeps them, and one whose text stays keeps its triples. One that is whole
        stays whole. Raises DocumentNotFoundError with the nearest keys, and InputError for another text of a document
        whose vectors or chunks are the user's own: put it again, with these.

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
        """Delete the document of this key; False where there is none.

        >>> store.delete("tea"), store.delete("tea")
        (True, False)
        """
        if self._find_document(key) is None:
            return False
        self._pending.delete(key)
        return True

    @in_owner_thread
    def delete_many(self, keys: Sequence[str]) -> int:
        """Delete the documents of these keys; returns how many there were.

        >>> with store.transaction() as transaction:
        ...     transaction.delete_many(["tea", "cocoa"])
        1
        """
        return sum(self.delete(key) for key in keys)

    @in_owner_thread
    def delete_where(self, where: str | Mapping[str, Any], parameters: Sequence[Any] | Mapping[str, Any] = ()) -> int:
        """Delete the documents for which a condition is true, in SQL over the columns of ``documents`` or as a mapping;
        returns how many.

        Raises StatementError for SQL that is none, InputError for a mapping that is none.

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
        """Join triples (subject, relation, object) that somebody found in a document to it; True when that changes
        anything.

        They stand in place of earlier ones, or beside them with ``more``. They make their names known, those of
        ``names`` too, and link them; they go when the document is deleted or its text is another. Raises
        DocumentNotFoundError, and InputError for what is no triple and for a document of pairs.

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
        """State that ``child`` stands under ``parent`` in a tree; False when that was stated by this method before.

        Both names become known. A document may state the same edge: it stays while either does. Raises InputError for
        a name or a tree that is empty or too long, and for an edge from a name to itself.

        >>> store.put_edge("Assam", "India", tree="places")
        True
        >>> [relative.relative for relative in store.expand("India", direction="down", tree="places")]
        ['India', 'Assam', 'Darjeeling']
        """
        edge = facts.EDGES.make_edge(child, parent, tree)
        return self._find_fact(facts.EDGES, edge.key) is None and self._put_fact(facts.EDGES, edge.key, edge)

    @in_owner_thread
    def delete_edge(self, child: str, parent: str, *, tree: str = "edges") -> bool:
        """Take back what :meth:`put_edge` stated; False where there is no such edge.

        Raises InputError where only documents state it: the edge goes with what they say.

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
        """Let ``name`` stand for a known entity, wherever it is asked for; False when it does already.

        The name becomes known, and is found in every text. Given again with another entity it stands for that one.
        Raises EntityNotFoundError for an entity that is not known, and InputError for a name that is empty, too long or
        merged, or that the entity itself stands for.

        >>> store.alias("Bharat", "India"), store.lookup("bharat")[0].entity
        (True, 'India')
        """
        return self._put_alias(facts.ALIASES.make_alias(name, entity, ALIAS))

    def drop_alias(self, name: str) -> bool:
        """Take back what :meth:`alias` stated; False where ``name`` is no alias. Raises InputError for a merged one.

        >>> store.alias("Bharat", "India"), store.drop_alias("Bharat")
        (True, True)
        """
        return self._remove_alias(name, ALIAS)

    def merge(self, name: str, into: str) -> bool:
        """Let a known name stand for another known entity, so that both are read as one; False when it does already.

        As :meth:`alias`, but the name stays known only while something else introduces it.

        >>> store.merge("Darjeeling", "India"), store.aliases()
        (True, [Alias(name='Darjeeling', entity='India', kind='merge')])
        """
        return self._put_alias(facts.ALIASES.make_alias(name, into, MERGE))

    def unmerge(self, name: str) -> bool:
        """Take back what :meth:`merge` stated; False where ``name`` is not merged. Raises InputError for an alias.

        >>> store.merge("Darjeeling", "India"), store.unmerge("Darjeeling")
        (True, True)
        """
        return self._remove_alias(name, MERGE)

    @in_owner_thread
    def _put_fact(self, fact: StatedFact[Key, Value], key: Key, value: Value, *, keep_existing: bool = False) -> bool:
        """State a fact in place of what is stated under its key, or (``more``) joined to that; False when that stands
        already.

        Whether its names are known is not asked: it may have been stated before, as those of an export were. Raises
        DocumentNotFoundError, and InputError where it contradicts what is stated.
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
        if fact in list_context_facts(self._context.settings):
            self._reembed_document(str(key))
        self._apply_if_large()
        return True

    def _reembed_document(self, key: str) -> None:
        """Have a stored document take its own place, since the vectors of its chunks are made from other texts now."""
        record = None if key in self._pending.documents else self._changes.documents.find_by_key(key)
        if record is None or record.own_vectors:
            return  # one that waits is embedded when all that is stated of it is known
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
        document = begin(valid_document, self._context.settings)
        stated_facts = [(fact, self._find_fact(fact, key)) for fact in facts.iter_document_kinds()]
        self._pending.put(replace(document, origin=record.origin, changed_at=record.changed_at))
        for fact, value in stated_facts:
            if value is not None:
                self._pending.put_fact(fact, key, value)

    def _find_fact(self, fact: StatedFact[Key, Value], key: Key) -> Value | None:
        """What is stated under a key as the transaction sees it, or None."""
        if isinstance(fact, DocumentFact):
            self._require_text(fact, str(key))
        pending_values: dict[Key, Value | None] = self._pending.facts[fact.name]
        if key in pending_values:
            return pending_values[key]
        is_deleted = isinstance(fact, DocumentFact) and key in self._pending.documents
        return None if is_deleted else fact.find(self._changes.state, key)

    def _find_chunked_text(self, key: str) -> ChunkedText:
        """The document of this key, which there is, cut into chunks."""
        pending = self._pending.documents.get(key)
        if pending is not None:
            return self._chunk_document(pending)
        record = self._changes.documents.find_by_key(key)
        assert record is not None
        return load_chunked_text(self._changes.state, record, {})

    def _require_text(self, fact: StatedFact[Any, Any], key: str) -> None:
        """Raise DocumentNotFoundError where there is no document of this key, and InputError for one of pairs."""
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
        """The document of this key as the transaction sees it: one that waits, or a stored one."""
        if key in self._pending.documents:
            pending = self._pending.documents[key]
            return None if pending is None else pending.document
        return self._changes.documents.find_by_key(key)

    @in_owner_thread
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
            if not self._has_changes:
                self._close()
                return
            with self._context.hits.take_batch() as hits:
                self._write(hits, fits)
        except BaseException:
            self._close()
            raise
        self._open = False
        was_large = self._write_transaction.large
        if was_large:
            # A load reads pages all over the file, each a few times: memory must not grow with the file for that.
            self._context.environment.release_pages()
        next_chunk = self._changes.counters.next_chunk
        del self._changes  # what it holds is of no use any more, and large after a load
        if was_large:
            release_free_memory()
        self._context.indexing.extend(next_chunk)

    def _write(self, hits: Mapping[str, int], fits: bool) -> None:
        """Commit what is applied, and applied once more in a larger map where this one cannot take it."""
        try:
            if fits:
                self._changes.finish(hits)
                self._write_transaction.commit()
                self._context.filter_cache.put(self._changes.filter, self._write_transaction.change)
                self._context.trace_cache.commit(self._changes.counters)
                return
        except MapFull:
            self._write_transaction.abort()
        if not self._can_replay:
            raise self._context.environment.map_full()
        self._context.environment.write_with_growth(lambda view: self._replay(view, hits), self._timeout)

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
        elif not self._ended:  # also where an error or the closing of the store has ended it: commit says so
            self.commit()

    def _apply_if_large(self) -> None:
        """Apply what is pending where that is much."""
        if self._pending.size > (_MOST_PENDING_FIRST if self._changes.can_defer_linking else _MOST_PENDING):
            self._apply(expects_more=True)

    def _apply(self, *, expects_more: bool = False) -> None:
        """Carry what is pending into the LMDB transaction; ``more`` is likely to come before anything is read."""
        if not self._pending:
            return
        with State(self._write_transaction, self._context.settings) as state:
            complete_pending(self._pending, state, self._context.embed)
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
            # Meanwhile another process may have changed what a store keeps of documents.
            complete_pending(pending, changes.state, self._context.embed)
            changes.apply(pending, more_follow=True)
            pending.release()
        changes.finish(hits)

    def _open_changes(self, write_transaction: WriteTransaction) -> Changes:
        settings = self._context.settings
        temperature_sort = self._context.session.temperature_sort
        entity_filter = self._context.filter_cache.take(
            write_transaction, hash_seed=settings.hash_seed, temperature_sort=temperature_sort
        )
        return Changes(write_transaction, settings, entity_filter, self._context.trace_cache)

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
        """The name of the thread that has begun this, where it is open and that is not the current thread."""
        return self._thread.name if self._open and self._thread is not threading.current_thread() else None

    def _end_with_store(self, timeout: float) -> None:
        """Roll back, in whatever thread, because the store is closed; raises TransactionError where the owner is in a
        method for longer than ``timeout`` seconds."""
        if not self._method_lock.acquire(timeout=min(timeout, threading.TIMEOUT_MAX)):
            raise TransactionError(
                f"{self._context.environment.path}: thread {self._thread.name!r} is at work in a transaction, so the "
                "store cannot be closed; close it when that is over"
            )
        try:
            if self._open:
                self._closed_message = "the store was closed, which rolled this transaction back; open the store again"
                self._close()
        finally:
            self._method_lock.release()

    def __del__(self) -> None:
        # Nobody holds a reference, so nobody is in a method.
        if self._open:
            self._close()


def _make_kind_error(alias: Alias) -> InputError:
    if alias.kind == MERGE:
        return InputError(f"{alias.name!r} is merged into {alias.entity!r}; UNMERGE ENTITY (unmerge) takes that back")
    return InputError(f"{alias.name!r} is an alias for {alias.entity!r}; DROP ALIAS (drop_alias) takes that back")
