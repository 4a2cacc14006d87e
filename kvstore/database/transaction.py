"""A write transaction: changes are buffered, applied in batches, and become visible together on commit.
*Pending* changes are not applied yet. A *fact* is what a user states: an edge, an alias, or the triples of a document.

In: documents, triples, edges and aliases to store or remove. On disk: nothing until the commit. Reads inside a
transaction see its changes. Invalid input (an empty or over-long name, an edge from a name to itself, a cycle of names)
raises InputError. The error for an unknown name or document suggests the nearest known ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..arguments import check_text
from ..changes import facts
from ..changes.pending import PendingDocument, make_pending
from ..errors import ArgumentError, InputError
from ..extraction.validation import PAIRS_FORMAT, unpack_chunks, validate
from ..registry.fact import DocumentFact, Key, StatedFact, Value
from ..structures.documents.document_triples import parse_triples
from ..structures.documents.ingested_files import CompletedFile
from ..structures.names.aliases import ALIAS, MERGE, Alias
from ..text.normalize import to_entity_key
from ..text.stated_names import clean_name
from .owned_transaction import OwnedTransaction, in_owner_thread

if TYPE_CHECKING:
    import numpy.typing as npt


class Transaction(OwnedTransaction):
    """Changes that become visible together or not at all; created by :meth:`Store.transaction`.

    As a context manager, it commits on a clean exit and rolls back on an exception. Only the thread that began it can
    use it; in other threads every method raises TransactionError and changes nothing. After the end of the transaction,
    methods raise ClosedError.
    """

    def __repr__(self) -> str:
        """Return the path of the store, and ``ended`` if the transaction has ended."""
        return f"<kvstore.Transaction {str(self._session.environment.path)!r}{'' if self.open else ', ended'}>"

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
        ``source`` is the path of its file, ``origin`` the folder it came from, ``left_out`` the number of characters of
        its page that were omitted as navigation. Keys of ``meta`` become texts, as in JSON. Raises InputError, which
        names the document, for an empty or over-long text, an invalid format, vectors or chunks that do not fit, and
        keys of ``meta`` that become the same text.

        >>> store.put("milk", "Milk goes into tea.", title="Milk", meta={"year": 2025})
        True
        >>> store.put("milk", "Milk goes into tea.", title="Milk", meta={"year": 2025})
        False
        """
        valid_document = validate(
            key, text, title=title, source=source, meta=meta, format=format, left_out=left_out, chunks=chunks
        )
        if vectors is None:  # an unchanged text need not be cut into chunks, which takes most of the time
            existing_document = self._changes.find_document(key)
            if existing_document is not None and existing_document.digest == valid_document.digest:
                return False
            if existing_document is not None and self._changes.put_metadata(
                existing_document, PendingDocument(valid_document, origin=origin)
            ):
                self._apply_large_batch()
                return True
        self._session.store.require_language()
        return self._store(make_pending(valid_document, self._session.store.settings, vectors, origin))

    @in_owner_thread
    def put_many(self, documents: Iterable[Mapping[str, Any]], *, replace: bool = True) -> list[bool]:
        """Store documents, each a mapping of the arguments of :meth:`put`; returns whether each changes anything.

        With ``replace=False``, a document whose key is already stored is skipped. If a key occurs twice, its last
        document is stored (with ``replace=False``, its first). All documents are checked before any is stored. An error
        names the document's position, from 1, and nothing is stored then. Raises what :meth:`put` raises.

        >>> store.put_many([{"key": "milk", "text": "Milk goes into tea."}, {"key": "sea", "text": "It is salty."}])
        [True, True]
        """
        from .checked_documents import validate_documents

        settings = self._session.store.settings
        pending_documents = [
            checked_document.to_pending(settings) for checked_document in validate_documents(documents, Transaction.put)
        ]
        if pending_documents:
            self._session.store.require_language()
        return [self._store(document, replace=replace) for document in pending_documents]

    @in_owner_thread
    def _put(self, document: PendingDocument, *, replace: bool = True) -> bool:
        """Store a document that is already cut into chunks, as :meth:`_store` does, after checking the owner thread.

        It is not part of the API, because users have no such documents; only kvstore's own modules call it.
        """
        return self._store(document, replace=replace)

    def _store(self, document: PendingDocument, *, replace: bool = True) -> bool:
        """Store a document that is already cut into chunks; return True if that changes anything.

        Without ``replace``, a document whose key is already stored is skipped. Applies the pending changes if there are
        many.
        """
        if not replace and self._changes.find_document(document.document.key) is not None:
            return False
        is_changed = self._changes.put_document(document)
        self._apply_large_batch()
        return is_changed

    def _apply_large_batch(self) -> None:
        """Apply the pending changes if there are many."""
        if self._changes.is_large:
            self._apply(expect_more=True)

    @in_owner_thread
    def set_origins(self, origins: Mapping[str, str | None]) -> int:
        """Set the origins of documents, given by key; returns the number of documents whose origin changed.

        The origin of an ingested document is the folder it came from; pruning that folder removes the document if its
        file is gone. Nothing else of the document changes, so this is cheap. Keys without a document are ignored.
        Raises ArgumentError for a key or an origin of the wrong type.

        >>> store.set_origins({"tea": "notes", "cocoa": "notes"}), store.get("tea").origin
        (1, 'notes')
        """
        num_moved = 0
        for key, origin in origins.items():
            check_text("a key", key)
            if not isinstance(origin, str | None):
                raise ArgumentError(f"an origin must be a string or None, not {origin!r}")
            if origin:
                check_text("an origin", origin)
            num_moved += int(self._changes.set_origin(key, origin))
        return num_moved

    @in_owner_thread
    def _has_document(self, key: str) -> bool:
        """True if a document with this key is stored or pending.

        Unlike ``key in transaction``, this does not apply the pending changes.
        """
        return self._changes.find_document(key) is not None

    @in_owner_thread
    def _record_files(self, files: Sequence[CompletedFile]) -> None:
        """Record which files were ingested completely, so that the next ingest need not read them again."""
        self._changes.pending.files.extend(files)

    @in_owner_thread
    def update(
        self, key: str, *, text: str | None = None, title: str | None = None, meta: Mapping[str, Any] | None = None
    ) -> bool:
        """Change parts of a stored document; None keeps a part unchanged. Returns True if anything changed.

        ``title=""`` removes the title, and ``meta={}`` the metadata. The document keeps vectors supplied by the user.
        If its text is unchanged, it keeps its triples. A document stored as a single chunk (``"whole"``) stays so.
        Raises DocumentNotFoundError, which suggests the nearest keys. Raises InputError for a new text of a document
        whose vectors or chunks were supplied by the user: put that document again, with new ones.

        >>> store.update("coffee", title="Coffee"), store.get("coffee").title
        (True, 'Coffee')
        """
        return self.put(**self._complete_update(key, text, title, meta))

    @in_owner_thread
    def _check_update(
        self, key: str, *, text: str | None = None, title: str | None = None, meta: Mapping[str, Any] | None = None
    ) -> None:
        """Raise the errors that :meth:`update` with the same arguments would raise; store nothing."""
        arguments = self._complete_update(key, text, title, meta)
        vectors, origin = arguments.pop("vectors"), arguments.pop("origin")
        make_pending(validate(**arguments), self._session.store.settings, vectors, origin)

    def _complete_update(
        self, key: str, text: str | None, title: str | None, meta: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Return the arguments of :meth:`put` for an :meth:`update`, which changes only parts of a stored document.

        Applies pending changes of the document first, to read them. Raises DocumentNotFoundError and InputError like
        :meth:`update`.
        """
        pending = self._changes.pending
        if key in pending.documents or key in pending.origins or key in pending.metadata:
            self._apply()
        record = self._changes.state.documents.find_by_key(key) if key else None
        if not record:
            from ..sql.suggestions import make_document_error

            with self.state() as state:
                raise make_document_error(state, key)
        current_text = self._changes.state.documents.read_text(record.id).decode()
        is_text_changed = text is not None and text != current_text
        vectors = None
        if record.own_vectors:
            if is_text_changed:
                raise InputError(f"document {key!r} has your own vectors; pass new vectors together with its new text")
            vectors = self._changes.state.read_vectors(record)
        own_chunks = unpack_chunks(record.own_chunks)
        # Spans of the user do not fit another text; ``"whole"``, which is a string, does.
        if isinstance(own_chunks, tuple) and is_text_changed:
            raise InputError(f"document {key!r} has your own chunks; pass new chunks together with its new text")
        return {
            "key": key,
            "text": current_text if text is None else text,
            "title": record.title if title is None else title or None,  # "" removes the title
            "source": record.source,
            "meta": record.meta if meta is None else meta,
            "format": record.format,
            "vectors": vectors,
            "chunks": own_chunks,
            "origin": record.origin,
            "left_out": 0 if is_text_changed else record.left_out,
        }

    @in_owner_thread
    def delete(self, key: str) -> bool:
        """Delete the document with this key; returns False if it does not exist.

        >>> store.delete("tea"), store.delete("tea")
        (True, False)
        """
        if self._changes.find_document(key) is None:
            return False
        self._changes.pending.delete(key)
        return True

    @in_owner_thread
    def delete_many(self, keys: Sequence[str]) -> int:
        """Delete the documents with these keys; returns the number deleted.

        >>> with store.transaction() as transaction:
        ...     transaction.delete_many(["tea", "cocoa"])
        1
        """
        for key in keys:
            check_text("a key", key)
        return self._changes.delete_documents(keys)

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

        They replace the document's earlier triples, or are added to them with ``more``. The subjects and objects that
        are written as names (``Maria Jensen``), and all ``names``, become known, and names in one triple are linked.
        Other phrases (``parental leave``, ``1963``) are only values, unless ``names`` has them. The triples are removed
        when the document is deleted or its text changes. Raises DocumentNotFoundError, and InputError for an invalid
        triple or a document of pairs.

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

        Both names become known. If a document also asserts the edge, it exists as long as either source does. Raises
        InputError for an empty or over-long name or tree, and for an edge from a name to itself.

        >>> store.put_edge("Assam", "India", tree="places")
        True
        >>> [relative.relative for relative in store.expand("India", direction="down", tree="places")]
        ['India', 'Assam', 'Darjeeling']
        """
        edge = facts.EDGES.make_edge(child, parent, tree)
        return self._changes.find_fact(facts.EDGES, edge.key) is None and self._put_fact(facts.EDGES, edge.key, edge)

    @in_owner_thread
    def delete_edge(self, child: str, parent: str, *, tree: str = "edges") -> bool:
        """Remove an edge added by :meth:`put_edge`; returns False if there is no such edge.

        Raises InputError if only documents assert the edge; change or delete those documents to remove it.

        >>> store.delete_edge("Darjeeling", "India", tree="places")
        True
        """
        edge = facts.EDGES.make_edge(child, parent, tree)
        if self._changes.find_fact(facts.EDGES, edge.key) is not None:
            self._changes.pending.put_fact(facts.EDGES, edge.key, value=None)
            return True
        self._apply()
        nodes = facts.EDGES.find_nodes(self._changes.state, edge.key)  # the child's and the parent's, or None
        document_ids = () if nodes is None else self._changes.state.forest.list_asserting_documents(*nodes)
        if document_ids:
            keys = ", ".join(repr(self._changes.state.documents.get(document).key) for document in document_ids[:3])
            others_text = f" and {len(document_ids) - 3} more" if len(document_ids) > 3 else ""
            raise InputError(
                f"{edge.child!r} is under {edge.parent!r} in tree {edge.tree!r} because document {keys}{others_text} "
                "says so; change or delete the document"
            )
        return False

    def alias(self, name: str, entity: str) -> bool:
        """Make ``name`` an alias of a known entity in all lookups and queries; returns False if it already is.

        The name becomes known and is recognized in all texts. A second call with another entity redirects the alias.
        Raises EntityNotFoundError for an unknown entity, and InputError for a name that is empty, too long or merged,
        or if ``entity`` is itself an alias of ``name``.

        >>> store.alias("Bharat", "India"), store.lookup("bharat")[0].entity
        (True, 'India')
        """
        return self._put_alias(facts.ALIASES.make_alias(name, entity, ALIAS))

    def drop_alias(self, name: str) -> bool:
        """Remove an alias added by :meth:`alias`; returns False if ``name`` is not an alias.

        Raises InputError if ``name`` is merged.

        >>> store.alias("Bharat", "India"), store.drop_alias("Bharat")
        (True, True)
        """
        return self._remove_alias(name, ALIAS)

    def merge(self, name: str, into: str) -> bool:
        """Merge a known name into another known entity, so that both count as one; returns False if already merged.

        This works like :meth:`alias`, but the name stays known only while a document, edge, triple or alias mentions
        it.

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
    def _put_fact(
        self, fact_kind: StatedFact[Key, Value], key: Key, value: Value, *, keep_existing: bool = False
    ) -> bool:
        """Store a fact of a kind (such as edges), which replaces the fact with the same key.

        With ``keep_existing``, it is merged with that fact. Returns True if that changes anything. The names in the
        fact are not required to be known, because an import brings facts that were checked before. Applies the pending
        changes if there are many. Raises DocumentNotFoundError, and InputError if the fact contradicts existing facts.
        """
        if isinstance(fact_kind, DocumentFact):
            self._require_document_text(fact_kind, str(key))
        is_changed = self._changes.put_fact(fact_kind, key, value, keep_existing=keep_existing)
        self._apply_large_batch()
        return is_changed

    def _require_document_text(self, fact_kind: DocumentFact[Any], key: str) -> None:
        """Raise DocumentNotFoundError if the document does not exist, and InputError if it has no text.

        A document in the ``pairs`` format has none: it is a list of (child, parent) pairs. ``fact_kind`` is the kind of
        fact that the message names.
        """
        document = self._changes.find_document(key)
        if document is None:
            from ..sql.suggestions import make_document_error

            with self.state() as state:
                raise make_document_error(state, key)
        if document.format == PAIRS_FORMAT:
            raise InputError(
                f"document {key!r} consists of pairs and cannot have {fact_kind.plural}; use a document that has text"
            )

    @in_owner_thread
    def _put_alias(self, alias: Alias) -> bool:
        """Store an alias of a known entity, or a merge of two known names; return False if it is stored already.

        Raises InputError if the name of an alias is merged, or the reverse; EntityNotFoundError for an unknown name.
        """
        existing_alias = self._changes.find_fact(facts.ALIASES, alias.key)
        if existing_alias is not None and existing_alias.kind != alias.kind:
            raise _make_kind_error(existing_alias)
        if existing_alias is not None and existing_alias.target == alias.target:
            return False
        from ..sql.suggestions import make_entity_error

        required_names = (alias.entity, alias.name) if alias.kind == MERGE else (alias.entity,)
        with self.state() as state:
            for required_name in required_names:
                if state.filter.find(to_entity_key(required_name)) is None:
                    raise make_entity_error(state, required_name)
        return self._put_fact(facts.ALIASES, alias.key, alias)

    @in_owner_thread
    def _remove_alias(self, name: str, kind: str) -> bool:
        """Remove the alias or the merge of a name, as ``kind`` says; return False if the name has neither.

        Raises InputError if the name is merged but ``kind`` is an alias, or the reverse.
        """
        existing_alias = self._changes.find_fact(facts.ALIASES, to_entity_key(clean_name(name)))
        if existing_alias is None:
            return False
        if existing_alias.kind != kind:
            raise _make_kind_error(existing_alias)
        self._changes.pending.put_fact(facts.ALIASES, existing_alias.key, value=None)
        return True


def _make_kind_error(alias: Alias) -> InputError:
    """Return the error for a name that is merged but used as an alias, or the reverse."""
    if alias.kind == MERGE:
        return InputError(f"{alias.name!r} is merged into {alias.entity!r}; UNMERGE ENTITY (unmerge) undoes the merge")
    return InputError(f"{alias.name!r} is an alias for {alias.entity!r}; DROP ALIAS (drop_alias) removes the alias")
