"""LlamaIndex's retriever, with any strategy of the store. A *hit* is a passage that answers a question, with the *path*
by which the strategy found it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import MetadataFilters

from ... import Store
from ...errors import InputError
from ...process.closed_on_exit import ClosedOnExit
from ..adapter_store import QuestionStore
from .embed_model import make_embedder
from .filters import build_condition
from .nodes import build_hit_nodes


class KvstoreRetriever(ClosedOnExit, BaseRetriever):
    """A retriever of evidence with ``store.retrieve``; the path of each hit is in ``metadata["evidence"]``.

    ``path`` is the path of a store, ``store`` an open one. ``embed_model`` is what the store was created with, or the
    source of the vectors supplied with its nodes. ``strategy`` defaults to the setting of the store's session.
    ``filters`` are LlamaIndex's, and ``where`` is an alternative condition. The other arguments are those of
    :meth:`kvstore.Store.retrieve`. If a strategy finds fewer than ``similarity_top_k`` hits, hits of ``hybrid`` follow,
    unless ``fill="none"``. A question's own vector is used if there is one. Raises InputError for both ``filters`` and
    ``where``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        store: Store | None = None,
        embed_model: BaseEmbedding | str | None = None,
        strategy: str | None = None,
        similarity_top_k: int = 8,
        filters: MetadataFilters | None = None,
        where: str | Mapping[str, Any] | None = None,
        depth: int | None = None,
        within: int | None = None,
        options: Mapping[str, Any] | None = None,
        reranker: str | None = None,
        as_segments: bool = False,
        fill: Literal["none", "hybrid"] = "hybrid",
        **kwargs: Any,
    ) -> None:
        """Open the store at ``path``, or use ``store``; the class describes the arguments."""
        super().__init__(**kwargs)
        if filters is not None and where is not None:
            raise InputError("KvstoreRetriever takes filters or where, not both; put all conditions into one of them")
        self._question_store = QuestionStore("KvstoreRetriever", path, store, make_embedder(embed_model))
        self._filters, self._where = filters, where
        self._fill, self._options = fill, dict(options or {})
        self._retrieve_arguments: dict[str, Any] = {
            "using": strategy,
            "top": similarity_top_k,
            "depth": depth,
            "within": within,
            "reranker": reranker,
            "as_segments": as_segments,
        }

    def close(self) -> None:
        """Close the store if this retriever opened it."""
        self._question_store.close()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Return the evidence of a question as nodes with scores, best first."""
        question = query_bundle.query_str
        arguments = self._question_store.build_retrieve_arguments(question, query_bundle.embedding, self._fill)
        with self._question_store.store.snapshot() as state:
            evidence = state.retrieve(
                question,
                vector=arguments["vector"],
                where=build_condition(self._filters) if self._where is None else self._where,
                options=arguments["options"] | self._options,
                **self._retrieve_arguments,
            )
            nodes = build_hit_nodes(state, evidence.hits, evidence=True)
        return [NodeWithScore(node=node, score=hit.score) for node, hit in zip(nodes, evidence.hits, strict=True)]
