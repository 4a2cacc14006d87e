"""LangGraph's store of items. An *item* is a mapping, its value, with a key in a *namespace*, a tuple of labels. An
item can expire, and a read can *refresh* it: postpone its expiry. An item is stored in a document.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchItem,
    SearchOp,
    TTLConfig,
    ensure_embeddings,
    validate_op_namespace,
)

from ... import Hit, Snapshot, Store
from ...arguments import check_integer, check_text, format_value
from ...errors import ArgumentError
from ..adapter_store import AdapterStore, make_async, resolve_store
from ..framework_embedder import FrameworkEmbedder, build_embedding_name
from . import stored_items
from .stored_items import TIMES, VALUE

#: The maximum number of hits of a search.
_MAX_HITS = 10_000


class KvstoreStore(AdapterStore, BaseStore):
    """A store as LangGraph's store of items, with search by question, filters and expiry.

    ``path`` is the path of a store, ``store`` an open one. A missing store is created with the ``embedder`` (the name
    of a kvstore embedder) or the embedding of LangGraph's configuration ``index``, and the creation ``settings``.
    ``fields`` are the paths of the indexed fields (default: those of ``index``, else ``$``, the whole value).
    ``search`` names the search of a question: ``hybrid``, ``vector`` or ``lexical``. ``ttl`` is LangGraph's
    configuration of the expiry of items. Expired items are never returned; :meth:`sweep_ttl` deletes them.

    A batch reads one state, then puts and deletes in one commit. Items are returned in the order of their scores, else
    of their keys.
    """

    supports_ttl = True

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        store: Store | None = None,
        embedder: str | None = None,
        index: IndexConfig | None = None,
        fields: Sequence[str] | None = None,
        search: str = "hybrid",
        ttl: TTLConfig | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Open or create the store at ``path``, or use ``store``; the class describes the arguments."""
        configured_fields = None if index is None else index.get("fields")
        indexed_fields = fields or configured_fields or ["$"]
        stored_items.check_paths("fields", indexed_fields)
        self._fields = list(indexed_fields)
        embedding = None if index is None else ensure_embeddings(index.get("embed"))
        self.index_config, self.embeddings = index, embedding
        store_embedder = (
            embedder
            if embedding is None
            else FrameworkEmbedder(
                build_embedding_name("langgraph", embedding), embedding.embed_documents, embedding.embed_query
            )
        )
        self.store, self._owns_store = resolve_store("KvstoreStore", path, store, store_embedder, settings)
        self._search_kind = search
        self.ttl_config = ttl

    def batch(self, ops: Iterable[Op]) -> list[Any]:
        """Read one state, then put and delete in one commit; return a result per operation, in order.

        Gets and searches do not see the puts of the same batch; they postpone the expiry of the items that they return
        if they ask for it (``refresh_ttl``). If a batch puts an item several times, the last put is written.
        """
        operations = list(ops)
        for operation in operations:
            _check_namespace(operation)
            validate_op_namespace(operation)
        now = stored_items.get_now()
        keys_to_refresh: set[str] = set()  # of the items whose expiry the reads postpone
        with self.store.snapshot() as state:
            results = [self._run_read(state, operation, now, keys_to_refresh) for operation in operations]
        puts = {stored_items.build_key(put.namespace, put.key): put for put in operations if isinstance(put, PutOp)}
        if puts or keys_to_refresh:
            self._write_changes(puts, keys_to_refresh - puts.keys(), now)
        return results

    abatch = make_async(batch)

    def sweep_ttl(self) -> int:
        """Delete the expired items; return their number."""
        return self.store.delete_where({TIMES: {"expires": {"$lte": stored_items.get_now().isoformat()}}})

    def _run_read(self, state: Snapshot, operation: Op, now: datetime, keys_to_refresh: set[str]) -> Any:
        """Return the result of an operation on one state: an item or None, a list of items or of namespaces.

        The result of a put is None, since it is written later. Keys of the items whose expiry the operation postpones
        are added to ``keys_to_refresh``. Raises ValueError for an unknown operation.
        """
        if isinstance(operation, GetOp):
            document = state.get(stored_items.build_key(operation.namespace, operation.key))
            if document is None or not stored_items.is_live_item(document, now):
                return None
            items: list[Item] = [Item(**stored_items.build_item_fields(document))]
        elif isinstance(operation, SearchOp):
            items = list(self._search(state, operation, now))
        elif isinstance(operation, ListNamespacesOp):
            return _list_namespaces(state, operation, now)
        elif isinstance(operation, PutOp):  # written later
            return None
        else:
            raise ValueError(f"there is no operation {type(operation).__name__}; use those of langgraph.store.base")
        if operation.refresh_ttl:
            keys_to_refresh.update(stored_items.build_key(item.namespace, item.key) for item in items)
        return items[0] if isinstance(operation, GetOp) else items

    def _search(self, state: Snapshot, search: SearchOp, now: datetime) -> list[SearchItem]:
        """Return a page of the items in a namespace that satisfy the filter and are not expired at the time ``now``.

        The hits of a question come first, best first, then the other items in the order of their keys. Raises
        InputError for an invalid operation.
        """
        _check_page(search)
        if search.query is not None:
            check_text("query", search.query)
        if search.filter is not None and not isinstance(search.filter, Mapping):
            raise ArgumentError(f"filter must be a mapping of names to values, not {format_value(search.filter)}")
        condition = stored_items.build_prefix_condition(search.namespace_prefix, now)
        if search.filter:
            condition["$and"] += [{VALUE: {name: value}} for name, value in search.filter.items()]
        num_items = search.offset + search.limit
        hits: dict[str, Hit] = {}
        if search.query and num_items:
            indexed_condition = {"$and": [*condition["$and"], {TIMES: {"indexed": True}}]}
            hits = self._find_best_hits(state, search.query, indexed_condition, num_items)
        keys = list(hits)
        if len(keys) < num_items:
            keys += [key for key in state.keys(where=condition) if key not in hits]
        documents = state.get_many(keys[search.offset : num_items])
        scores = {key: hit.score for key, hit in hits.items()}
        return [
            SearchItem(**stored_items.build_item_fields(document), score=scores.get(document.key))
            for document in documents
            if document is not None
        ]

    def _find_best_hits(self, state: Snapshot, query: str, where: Mapping[str, Any], num_items: int) -> dict[str, Hit]:
        """Return the best hit of each document, by document key, best first, for at least ``num_items`` documents.

        Only documents that satisfy the ``where`` condition are searched. A document can have several hits. The search
        is therefore repeated with twice as many hits until there are enough documents, no more hits, or ``_MAX_HITS``.
        """
        top = min(num_items, _MAX_HITS)
        while True:
            hits = state.search(query, using=self._search_kind, top=top, where=where)
            best_hits: dict[str, Hit] = {}
            for hit in hits:
                best_hits.setdefault(hit.document, hit)
            if len(best_hits) >= num_items or len(hits) < top or top == _MAX_HITS:
                return best_hits
            top = min(2 * top, _MAX_HITS)

    def _write_changes(self, puts: Mapping[str, PutOp], keys_to_refresh: Iterable[str], now: datetime) -> None:
        """Put and delete items, and postpone the expiry of the items with ``keys_to_refresh``, in one commit.

        ``puts`` are the operations by document key; one without a value deletes its item.
        """
        deleted_keys = [key for key, put in puts.items() if put.value is None]
        refreshed_metadata: dict[str, dict[str, Any]] = {}  # of the items whose expiry is postponed
        with self.store.snapshot() as state:
            for document in state.get_many(sorted(keys_to_refresh)):
                meta = None if document is None else stored_items.build_refreshed_meta(document, now)
                if document is not None and meta is not None:
                    refreshed_metadata[document.key] = meta
            previous_documents = state.get_many(list(puts))
        rows = []
        for put, previous in zip(puts.values(), previous_documents, strict=True):
            if put.value is not None:
                live_item = previous if stored_items.is_live_item(previous, now) else None
                rows.append(stored_items.to_put_arguments(put, self._fields, live_item, now))
        if not deleted_keys and not refreshed_metadata:
            if rows:
                self.store.put_many(rows)  # embeds before it takes the writer's lock, which a transaction cannot
            return
        with self.store.transaction() as transaction:
            for key, meta in refreshed_metadata.items():
                if key in transaction:
                    transaction.update(key, meta=meta)
            transaction.delete_many(deleted_keys)
            transaction.put_many(rows)


def _check_page(operation: SearchOp | ListNamespacesOp) -> None:
    """Raise InputError unless the limit and the offset of an operation are whole numbers and not negative."""
    check_integer("limit", operation.limit, low=0)
    check_integer("offset", operation.offset, low=0)


def _check_namespace(operation: Op) -> None:
    """Raise ArgumentError if the namespace is a string, which LangGraph takes for a tuple of one-letter labels."""
    if isinstance(operation, ListNamespacesOp):
        return
    namespace = operation.namespace_prefix if isinstance(operation, SearchOp) else operation.namespace
    if isinstance(namespace, str):
        raise ArgumentError(f"a namespace must be a tuple of labels, not str {namespace!r}; write ({namespace!r},)")


def _list_namespaces(state: Snapshot, operation: ListNamespacesOp, now: datetime) -> list[tuple[str, ...]]:
    """Return a page of the distinct namespaces that match all conditions, cut to the maximum depth, in order.

    Only namespaces with an item that is not expired at the time ``now`` are returned.
    """
    _check_page(operation)
    if operation.max_depth is not None:
        check_integer("max_depth", operation.max_depth, low=1)
    keys = state.keys(where=stored_items.build_prefix_condition(namespace=(), now=now))
    namespaces = {namespace for namespace, _ in map(stored_items.split_key, keys)}
    matching_namespaces = {
        namespace[: operation.max_depth]
        for namespace in namespaces
        if all(_matches_condition(condition, namespace) for condition in operation.match_conditions or ())
    }
    return sorted(matching_namespaces)[operation.offset : operation.offset + operation.limit]


def _matches_condition(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    """True if a namespace begins or ends with the path of a condition, depending on its ``match_type``.

    In the path, ``*`` matches any label of the namespace.
    """
    length = len(condition.path)
    if len(namespace) < length:
        return False
    labels = namespace[:length] if condition.match_type == "prefix" else namespace[len(namespace) - length :]
    return all(expected in ("*", label) for label, expected in zip(labels, condition.path, strict=True))
