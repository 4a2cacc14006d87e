"""A write transaction as users see it: changes gathered, applied together, visible at once on commit.

In: documents, edges and aliases, put and taken back. On disk: nothing until :meth:`Transaction.commit`. Reads inside
see the transaction's own changes. The writer's lock is held from the first moment to the last, by the thread that began
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

import numpy.typing as npt

from .errors import ClosedError, InputError
from .ingest.changes import Batch, Changes, Prepared
from .ingest.examination import examine, stated_name, stated_tree, stated_triples
from .ingest.extraction import Extracted, derive, vectors_for, with_vectors
from .query.nearby import no_document, no_entity
from .reading import Context, Reading, unit_rows
from .storage.aliases import ALIAS, MERGE, Alias
from .storage.environment import MapFull, WriteTransaction
from .storage.forest import EdgeKey, StatedEdge
from .storage.ingested_files import IngestedFile
from .storage.store_view import StoreView
from .storage.triples import DocumentTriples
from .storage.vectors import Matrix
from .text.normalize import entity_key

#: Chunks and edges that may wait before they are applied, so that a long transaction does not hold all its texts in
#: memory twice.
_MOST_PENDING = 4096


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
        self._changes = self._changes_of(self._view)
        self._pending: dict[str, _Waiting | None] = {}
        self._pending_origins: dict[str, str | None] = {}
        self._pending_files: list[tuple[IngestedFile, list[bytes]]] = []
        self._pending_edges: dict[EdgeKey, StatedEdge | None] = {}
        self._pending_aliases: dict[str, Alias | None] = {}
        self._pending_triples: dict[str, DocumentTriples] = {}
        self._pending_size = 0
        self._applied: list[Batch] = []
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
        given = examine(key, text, title=title, source=source, meta=meta, format=format)
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
        self._pending[extracted.key] = _Waiting(extracted, vectors, own_vectors, origin)
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

    def put_triples(
        self, key: str, triples: Iterable[Sequence[str]], *, names: Iterable[str] = (), more: bool = False
    ) -> bool:
        """Join triples (subject, relation, object) that somebody found in a document to it; True when that changes
        anything.

        They stand in place of earlier ones, or beside them with ``more``. They make their names known, those of
        ``names`` too, and link them; they go when the document is deleted or put anew. Raises DocumentNotFoundError,
        and InputError for what is no triple and for a document of pairs.

        >>> with store.transaction() as transaction:
        ...     transaction.put_triples("tea", [("Robert Fortune", "was born in", "Kelloe")])
        True
        """
        self._require_open()
        found = stated_triples(triples, names)
        before = self._triples_of(key)
        if more:
            found = before.joined(found)
        if found == before:
            return False
        self._pending_triples[key] = found
        self._grow_pending(len(found.names) + len(found.triples))
        return True

    def _triples_of(self, key: str) -> DocumentTriples:
        """What was joined to a document as the transaction sees it."""
        waiting = self._pending.get(key)
        record = None if key in self._pending else self._changes.documents.find(key)
        document = record if waiting is None else waiting.extracted
        if document is None:
            with self.reading() as view:
                raise no_document(view, key)
        if document.format == "pairs":
            raise InputError(f"document {key!r} is made of pairs; triples belong to a document with a text")
        if key in self._pending_triples:
            return self._pending_triples[key]
        return DocumentTriples() if record is None else self._changes.triples.of(record.id)

    def put_edge(self, child: str, parent: str, *, tree: str = "edges") -> bool:
        """State that ``child`` stands under ``parent`` in a tree; False when that was stated by this method before.

        Both names become known. A document may state the same edge: it stays while either does. Raises InputError for
        a name or a tree that is empty or too long, and for an edge from a name to itself.
        """
        self._require_open()
        edge = _edge(child, parent, tree)
        if self._stated(edge.key):
            return False
        self._pending_edges[edge.key] = edge
        self._grow_pending(1)
        return True

    def delete_edge(self, child: str, parent: str, *, tree: str = "edges") -> bool:
        """Take back what :meth:`put_edge` stated; False where there is no such edge.

        Raises InputError where only documents state it: the edge goes with what they say.
        """
        self._require_open()
        edge = _edge(child, parent, tree)
        if self._stated(edge.key):
            self._pending_edges[edge.key] = None
            return True
        self._apply()
        nodes = self._changes.edge_nodes(edge.key)
        stating = () if nodes is None else self._changes.forest.stated_by(*nodes)
        if stating:
            keys = ", ".join(repr(self._changes.documents.get(document).key) for document in stating[:3])
            more = f" and {len(stating) - 3} more" if len(stating) > 3 else ""
            raise InputError(
                f"{edge.child!r} is under {edge.parent!r} in tree {edge.tree!r} because document {keys}{more} says so; "
                "change or delete the document"
            )
        return False

    def alias(self, name: str, entity: str) -> bool:
        """Let ``name`` stand for a known entity, wherever it is asked for; False when it does already.

        The name becomes known, and is found in every text. Given again with another entity it stands for that one.
        Raises EntityNotFoundError for an entity that is not known, and InputError for a name that is empty, too long or
        merged, or that the entity itself stands for.
        """
        return self._name(Alias(stated_name(name), stated_name(entity), ALIAS))

    def drop_alias(self, name: str) -> bool:
        """Take back what :meth:`alias` stated; False where ``name`` is no alias. Raises InputError for a merged one."""
        return self._take_back(name, ALIAS)

    def merge(self, name: str, into: str) -> bool:
        """Let a known name stand for another known entity, so that both are read as one; False when it does already.

        As :meth:`alias`, but the name stays known only while something else introduces it.
        """
        return self._name(Alias(stated_name(name), stated_name(into), MERGE))

    def unmerge(self, name: str) -> bool:
        """Take back what :meth:`merge` stated; False where ``name`` is not merged. Raises InputError for an alias."""
        return self._take_back(name, MERGE)

    def restate(self, alias: Alias) -> bool:
        """State an alias or a merge in place of whatever was stated of its name, whether or not its names are known.

        For one that was stated before, such as that of an export; False when it stands already. Raises InputError where
        it would close a circle.

        >>> with store.transaction() as transaction:
        ...     transaction.restate(kvstore.Alias("cuppa", "Tea time", "alias"))
        True
        """
        self._require_open()
        alias = Alias(stated_name(alias.name), stated_name(alias.entity), alias.kind)
        if alias.kind not in (ALIAS, MERGE):
            raise InputError(f"what is stated of a name is an {ALIAS} or a {MERGE}, not {alias.kind!r}")
        if alias == self._alias(alias.key):
            return False
        key = alias.target
        while key != alias.key:
            further = self._alias(key)
            if further is None:
                self._pending_aliases[alias.key] = alias
                self._grow_pending(1)
                return True
            key = further.target
        raise InputError(f"{alias.entity!r} is {alias.name!r} already; a name cannot stand for itself")

    def _name(self, alias: Alias) -> bool:
        self._require_open()
        stands = self._alias(alias.key)
        if stands is not None and stands.kind != alias.kind:
            raise _other_kind(stands)
        if stands is not None and stands.target == alias.target:
            return False
        with self.reading() as view:
            for form in (alias.entity, alias.name) if alias.kind == MERGE else (alias.entity,):
                if view.filter.find(entity_key(form)) is None:
                    raise no_entity(view, form)
        return self.restate(alias)

    def _take_back(self, name: str, kind: str) -> bool:
        self._require_open()
        stands = self._alias(entity_key(stated_name(name)))
        if stands is None:
            return False
        if stands.kind != kind:
            raise _other_kind(stands)
        self._pending_aliases[stands.key] = None
        return True

    def _alias(self, key: str) -> Alias | None:
        """What is stated of a name as the transaction sees it."""
        return self._pending_aliases[key] if key in self._pending_aliases else self._changes.aliases.get(key)

    def _stated(self, key: EdgeKey) -> bool:
        """Whether the user states an edge as the transaction sees it."""
        edge = self._pending_edges[key] if key in self._pending_edges else self._changes.stated_edge(key)
        return edge is not None

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
            except MapFull:
                self._view.abort()
                self._store.environment.write_with_growth(lambda view: self._replay(view, hits), self._timeout)
        except BaseException:
            self._close()
            raise
        self._store.hits.forget(hits)
        self._open = False
        self._store.committed()

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

    @contextmanager
    def reading(self) -> Iterator[StoreView]:
        self._require_open()
        self._apply()
        self._changes.write_back()
        yield StoreView(self._view, self._store.settings, self._store.open_indexes)

    def _grow_pending(self, size: int) -> None:
        self._pending_size += size
        if self._pending_size > _MOST_PENDING:
            self._apply()

    def _apply(self) -> None:
        """Carry what is pending into the LMDB transaction."""
        batch = Batch((), (), self._pending_edges, self._pending_aliases, self._pending_origins, self._pending_triples)
        if not self._pending and not self._pending_files and batch == Batch():
            return
        waiting = [item for item in self._pending.values() if item is not None]
        deleted = [key for key, item in self._pending.items() if item is None]
        vectors = vectors_for([(item.extracted, item.vectors) for item in waiting], self._store.embed)
        prepared = [
            Prepared(item.extracted, rows, item.own_vectors, item.origin)
            for item, rows in zip(waiting, vectors, strict=True)
        ]
        batch = replace(batch, documents=prepared, deleted=deleted, files=self._pending_files)
        self._applied.append(batch)
        self._pending, self._pending_origins, self._pending_size = {}, {}, 0
        self._pending_files = []
        self._pending_edges, self._pending_aliases, self._pending_triples = {}, {}, {}
        try:
            self._changes.apply(batch)
        except BaseException:
            self._close()
            raise

    def _replay(self, view: WriteTransaction, hits: Mapping[str, int]) -> None:
        changes = self._changes_of(view)
        for batch in self._applied:
            changes.apply(batch)
        changes.finish(hits)

    def _changes_of(self, view: WriteTransaction) -> Changes:
        return Changes(view, self._store.settings, temperature_sort=self._store.session.temperature_sort)

    def _close(self) -> None:
        self._open = False
        self._view.abort()

    def _require_open(self) -> None:
        if not self._open:
            raise ClosedError("this transaction is over; begin another with store.transaction()")


def _edge(child: str, parent: str, tree: str) -> StatedEdge:
    edge = StatedEdge(stated_name(child), stated_name(parent), stated_tree(tree))
    _, lower, upper = edge.key
    if lower == upper:
        raise InputError(f"{edge.child!r} cannot stand under itself; name another parent")
    return edge


def _other_kind(alias: Alias) -> InputError:
    if alias.kind == MERGE:
        return InputError(f"{alias.name!r} is merged into {alias.entity!r}; UNMERGE ENTITY (unmerge) takes that back")
    return InputError(f"{alias.name!r} is an alias for {alias.entity!r}; DROP ALIAS (drop_alias) takes that back")
