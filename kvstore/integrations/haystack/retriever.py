"""Haystack's retriever, with any strategy of the store. A *hit* is a passage that answers a question, with the *path*
by which the strategy found it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from haystack import component, default_from_dict, default_to_dict
from haystack.dataclasses import Document
from haystack.document_stores.types import FilterPolicy
from haystack.document_stores.types.filter_policy import apply_filter_policy

from ...arguments import format_value
from ...errors import ArgumentError
from ..adapter_store import QuestionStore, make_async
from .document_store import KvstoreDocumentStore
from .filters import build_condition
from .stored_documents import build_hit_documents


@component
class KvstoreRetriever:
    """A retriever of evidence with ``store.retrieve``; the path of each hit is in ``meta["evidence"]``.

    ``strategy`` defaults to the setting of the store's session. ``clauses`` are further keyword arguments of
    :meth:`kvstore.Store.retrieve`, such as ``reranker`` or ``as_segments``. If a strategy finds fewer than ``top_k``
    hits, hits of ``hybrid`` follow, unless the ``options`` clause sets ``fill`` to ``none``.
    """

    def __init__(
        self,
        document_store: KvstoreDocumentStore,
        strategy: str | None = None,
        top_k: int = 8,
        filters: dict[str, Any] | None = None,
        filter_policy: FilterPolicy = FilterPolicy.REPLACE,
        clauses: Mapping[str, Any] | None = None,
    ) -> None:
        """Create a retriever of ``document_store``, which answers questions by ``strategy`` with ``top_k`` hits.

        ``filters`` select documents; ``filter_policy`` says how they are combined with the filters of a question.
        ``clauses`` are further keyword arguments of :meth:`kvstore.Store.retrieve`.
        """
        if not isinstance(document_store, KvstoreDocumentStore):
            raise ArgumentError(
                f"KvstoreRetriever(): document_store must be a KvstoreDocumentStore, not {format_value(document_store)}"
            )
        self.document_store = document_store
        self.strategy = strategy
        self.top_k = top_k
        self.filters = filters
        self.filter_policy = filter_policy
        self.clauses = dict(clauses or {})
        self._question_store = QuestionStore("KvstoreRetriever", path=None, store=document_store.store, embedder=None)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings of the retriever and of its document store."""
        description: dict[str, Any] = default_to_dict(
            self,
            document_store=self.document_store.to_dict(),
            strategy=self.strategy,
            top_k=self.top_k,
            filters=self.filters,
            filter_policy=self.filter_policy.value,
            clauses=self.clauses,
        )
        return description

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> KvstoreRetriever:
        """Create the retriever whose settings are in ``data``, a result of :meth:`to_dict`."""
        parameters = dict(data["init_parameters"])
        if isinstance(parameters["document_store"], dict):
            parameters["document_store"] = KvstoreDocumentStore.from_dict(parameters["document_store"])
        parameters["filter_policy"] = FilterPolicy.from_str(parameters["filter_policy"])
        retriever: KvstoreRetriever = default_from_dict(cls, {**data, "init_parameters": parameters})
        return retriever

    @component.output_types(documents=list[Document])
    def run(
        self,
        query: str = "",
        query_embedding: list[float] | None = None,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
    ) -> dict[str, list[Document]]:
        """Return the hits for a question (``query``), its ``query_embedding``, or both, as ``documents``.

        ``top_k`` is the number of hits (None: the default of the retriever). The retriever's ``filter_policy`` says how
        ``filters`` are combined with its own filters.
        """
        where = build_condition(apply_filter_policy(self.filter_policy, self.filters, filters))
        arguments = self._question_store.build_retrieve_arguments(query, query_embedding, fill="hybrid")
        arguments["options"] |= self.clauses.get("options") or {}
        with self.document_store.store.snapshot() as state:
            evidence = state.retrieve(
                query,
                using=self.strategy or (None if query else "vector"),  # without a text, only its vector can be searched
                top=self.top_k if top_k is None else top_k,
                where=where,
                **{**self.clauses, **arguments},
            )
            return {"documents": build_hit_documents(state, evidence.hits)}

    run_async = component.output_types(documents=list[Document])(make_async(run))
