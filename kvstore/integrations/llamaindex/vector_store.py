"""LlamaIndex's vector store. A *node* is LlamaIndex's unit of text; each is stored as a document with one chunk, whose
key is the id of the node.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)

from ... import Hit, Snapshot, Store
from ...arguments import check_integer, check_methods, check_number, format_value
from ...errors import ArgumentError, InputError, StoreNotFoundError
from ...process.closed_on_exit import ClosedOnExit
from ..adapter_store import resolve_store
from ..blank_texts import skip_blank_texts
from ..framework_embedder import FrameworkEmbedder
from ..marginal_relevance import search_by_mmr
from .embed_model import make_embedder
from .filters import FilterMapping, build_condition, join_conditions
from .nodes import CONTENT, SOURCE, build_hit_nodes, load_nodes, to_put_arguments

_LEXICAL_MODES = (VectorStoreQueryMode.SPARSE, VectorStoreQueryMode.TEXT_SEARCH)
_HYBRID_MODES = (VectorStoreQueryMode.HYBRID, VectorStoreQueryMode.SEMANTIC_HYBRID)
#: The number of candidates per result of marginal relevance, and their minimum, unless the call sets them.
_PREFETCH_FACTOR, _MIN_PREFETCH = 4, 20


class KvstoreVectorStore(ClosedOnExit, BasePydanticVectorStore):
    """A store as LlamaIndex's vector store, which also keeps texts and metadata. Without an ``embed_model``, a missing
    store is created for the vectors of the first nodes, and every node and question needs a vector.

    ``path`` is the path of a store, ``store`` an open one. With an ``embed_model`` (LlamaIndex's, or the name of a
    kvstore embedder), a missing store is created immediately. ``settings`` are the settings of a new store.

    Query modes: DEFAULT, SPARSE and TEXT_SEARCH (by words), HYBRID and SEMANTIC_HYBRID (``alpha`` is the weight of
    vectors), MMR. Nodes without text are skipped with a warning. Raises the errors of opening a store and of putting
    documents.
    """

    stores_text: bool = True
    flat_metadata: bool = False

    _path: str | os.PathLike[str] | None = PrivateAttr()
    _store: Store | None = PrivateAttr(default=None)
    _owns_store: bool = PrivateAttr(default=False)
    _settings: dict[str, Any] = PrivateAttr()

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        store: Store | None = None,
        embed_model: BaseEmbedding | str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Open or create the store at ``path``, or use ``store``; the class describes the arguments."""
        super().__init__()
        self._path, self._settings = path, dict(settings or {})
        if path is not None and store is None and embed_model is None:
            try:
                self._open_store(embedder=None, create=False)
            except StoreNotFoundError:
                return  # created with the first vectors
        else:
            self._open_store(make_embedder(embed_model), store=store)

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the class in LlamaIndex."""
        return "KvstoreVectorStore"

    def _open_store(
        self, embedder: FrameworkEmbedder | str | None, *, store: Store | None = None, create: bool = True
    ) -> Store:
        """Open the store at the path, or use ``store``; keep it in ``_store``, and return it.

        A missing store is created with ``embedder``, unless ``create`` is False. Raises InputError for contradictory
        arguments, and the errors of :func:`kvstore.open`.
        """
        self._store, self._owns_store = resolve_store(
            "KvstoreVectorStore", self._path, store, embedder, self._settings, create=create
        )
        return self._store

    @property
    def client(self) -> Store | None:
        """The store, or None if it does not exist yet."""
        return self._store

    def close(self) -> None:
        """Close the store if this vector store opened it."""
        if self._store is not None and self._owns_store:
            self._store.close()

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Put nodes, replacing those with the same ids, in one commit; return the ids of the stored nodes.

        Nodes without text are skipped with a warning. Raises InputError if the store must be created and no node has a
        vector, and ArgumentError for anything but nodes.
        """
        for node in nodes:
            if not isinstance(node, BaseNode):
                raise ArgumentError(f"add(): nodes must be LlamaIndex nodes, not {format_value(node)}")
        rows = skip_blank_texts([to_put_arguments(node) for node in nodes], "nodes")
        if not rows:
            return []
        store = self._store
        if store is None:
            first_vector = next((row["vectors"][0] for row in rows if row["vectors"] is not None), None)
            if first_vector is None:
                raise InputError(
                    "the first nodes have no vectors; give the vector store an embed_model, or embed the nodes"
                )
            # ``none:384``, for example: the store has no embedder, and callers supply vectors of this dimension.
            store = self._open_store(f"none:{len(first_vector)}")
        store.put_many(rows)
        return [row["key"] for row in rows]

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Delete the nodes of the LlamaIndex document with the id ``ref_doc_id``, in one commit."""
        self._delete_where({SOURCE: ref_doc_id})

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **delete_kwargs: Any
    ) -> None:
        """Delete the nodes that have one of ``node_ids`` and satisfy ``filters``, in one commit.

        An argument of None sets no condition. Raises InputError if both are None.
        """
        where = join_conditions(_build_id_condition("$key", node_ids), build_condition(filters))
        if where is None:
            raise InputError("delete_nodes() takes ids, filters, or both; clear() deletes all nodes")
        self._delete_where(where)

    def clear(self) -> None:
        """Delete all nodes, in one commit; other documents of the store are kept."""
        self._delete_where({CONTENT: {"$exists": True}})

    def _delete_where(self, where: FilterMapping) -> None:
        """Delete the nodes that match a condition, if the store exists."""
        if self._store is not None:
            self._store.delete_where(where)

    def get(self, text_id: str) -> list[float]:
        """Return the vector of a node, of length 1. Raises InputError if the store is empty or has no such node."""
        if self._store is None:
            raise InputError(f"there is no node {text_id!r}; the store is empty")
        vector: list[float] = self._store.vectors([(text_id, 0)])[0].tolist()  # of the only chunk
        return vector

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        """Return the nodes that satisfy ``filters`` (None: all), with their vectors.

        With ``node_ids``, only the nodes with these ids are returned, in that order.
        """
        if self._store is None:
            return []
        where = join_conditions(_build_id_condition("$key", node_ids), build_condition(filters))
        with self._store.snapshot() as state:
            keys = state.keys(where=where) if where is not None else state.keys()
            if node_ids is not None:
                stored_keys = set(keys)
                keys = [key for key in dict.fromkeys(node_ids) if key in stored_keys]
            return load_nodes(state, keys)

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Return the nodes nearest to a question in the mode of the query. Raises InputError for an unknown mode.

        Without a store, the result is empty. Raises ArgumentError for anything but a VectorStoreQuery.
        """
        if not isinstance(query, VectorStoreQuery):
            raise ArgumentError(f"query() takes a VectorStoreQuery, not {format_value(query)}")
        if self._store is None:
            return VectorStoreQueryResult(nodes=[], similarities=[], ids=[])
        # The retriever of an index whose nodes are only in this store passes an empty list of ids.
        id_condition = _build_id_condition("$key", query.node_ids or None)
        where = join_conditions(
            id_condition, _build_id_condition(SOURCE, query.doc_ids), build_condition(query.filters)
        )
        with self._store.snapshot() as state:
            hits, scores = self._search(state, query, where, kwargs)
            nodes = build_hit_nodes(state, hits, evidence=False)
        return VectorStoreQueryResult(nodes=nodes, similarities=scores, ids=[node.node_id for node in nodes])

    def _search(
        self, state: Snapshot, query: VectorStoreQuery, where: FilterMapping | None, options: Mapping[str, Any]
    ) -> tuple[list[Hit], list[float]]:
        """Return (hits, their scores) for a query in its mode. Raises InputError for an unknown mode.

        ``where`` is the filter of the documents. Only the mode MMR (maximal marginal relevance) has ``options``.
        """
        top, mode = query.similarity_top_k, query.mode  # the mode can also be a string
        if mode == VectorStoreQueryMode.MMR:
            return self._search_mmr(state, query, where, options)
        if mode == VectorStoreQueryMode.DEFAULT:
            hits = state.search("", using="vector", vector=_get_vector(query), top=top, where=where)
        elif mode in _LEXICAL_MODES:
            hits = state.search(_get_question(query), using="lexical", top=query.sparse_top_k or top, where=where)
        elif mode in _HYBRID_MODES:
            if query.alpha is not None:
                check_number("alpha", query.alpha)
            hits = state.retrieve(
                _get_question(query),
                using="hybrid",
                vector=query.query_embedding,
                top=query.hybrid_top_k or top,
                where=where,
                # ``alpha`` is the weight of the vectors, and ``words`` the weight of the words.
                options=None if query.alpha is None else {"words": 1 - query.alpha},
            ).hits
        else:
            raise InputError(
                f"kvstore does not support the query mode {_format_mode(query)}; modes are default, sparse, "
                "text_search, hybrid, semantic_hybrid and mmr"
            )
        return hits, [hit.score for hit in hits]

    @staticmethod
    def _search_mmr(
        state: Snapshot, query: VectorStoreQuery, where: FilterMapping | None, options: Mapping[str, Any]
    ) -> tuple[list[Hit], list[float]]:
        """Return hits by maximal marginal relevance (MMR), with their scores.

        The ``options`` ``mmr_threshold`` and ``mmr_prefetch_k`` override the values of the query.
        """
        check_integer("similarity_top_k", query.similarity_top_k, low=1)
        top, vector = query.similarity_top_k, _get_vector(query)
        weight = options.get("mmr_threshold", query.mmr_threshold)
        if weight is not None:
            check_number("mmr_threshold", weight)
        num_candidates = options.get("mmr_prefetch_k") or max(_MIN_PREFETCH, _PREFETCH_FACTOR * top)
        check_integer("mmr_prefetch_k", num_candidates, low=1)
        scored_hits = search_by_mmr(
            state,
            vector,
            top=top,
            num_candidates=num_candidates,
            weight=0.5 if weight is None else weight,
            where=where,
        )
        return [hit for hit, _ in scored_hits], [score for _, score in scored_hits]


check_methods(KvstoreVectorStore)


def _build_id_condition(name: str, ids: Sequence[str] | None) -> FilterMapping | None:
    """Return the filter that selects documents whose field ``name`` is one of the ids, or None if ``ids`` is None.

    Raises ArgumentError if ``ids`` is a single string or not iterable.
    """
    if ids is None:
        return None
    if not isinstance(ids, Iterable) or isinstance(ids, str):
        raise ArgumentError(f"ids must be a list of strings, not {format_value(ids)}")
    return {name: {"$in": list(ids)}}


def _format_mode(query: VectorStoreQuery) -> str:
    """Return the mode of a query, an enum member or a string, for a message."""
    return repr(getattr(query.mode, "value", query.mode))


def _get_vector(query: VectorStoreQuery) -> Sequence[float]:
    """Return the vector of a query. Raises InputError if it has none."""
    if query.query_embedding is None:
        raise InputError(f"the query mode {_format_mode(query)} needs a vector; set query_embedding")
    vector: Sequence[float] = query.query_embedding
    return vector


def _get_question(query: VectorStoreQuery) -> str:
    """Return the text of a query. Raises InputError if it has none."""
    if query.query_str is None:
        raise InputError(f"the query mode {_format_mode(query)} needs text; set query_str")
    text: str = query.query_str
    return text
