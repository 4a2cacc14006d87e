"""LangChain's retriever, with any strategy of the store. A *hit* is a passage that answers a question, with the *path*
by which the strategy found it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import PrivateAttr, model_validator

from ...arguments import make_name_error
from ...process.closed_on_exit import ClosedOnExit
from ..adapter_store import QuestionStore
from . import stored_documents
from .embeddings import make_embedder


class KvstoreRetriever(ClosedOnExit, BaseRetriever):
    """A retriever of evidence with ``store.retrieve``; the path of each hit is in ``metadata["evidence"]``.

    ``path`` is the path of a store, ``store`` an open one. ``embedding`` is what the store was created with, or the
    source of the vectors supplied with its documents. ``strategy`` defaults to the setting of the store's session. The
    other fields are keyword arguments of :meth:`kvstore.Store.retrieve`. If a strategy finds fewer than ``k`` hits,
    hits of ``hybrid`` follow, unless ``fill="none"``. ``invoke(question, k=3)`` overrides a field for one call.
    """

    path: str | Path | None = None
    store: Any = None
    embedding: Any = None
    strategy: str | None = None
    k: int = 8
    where: str | dict[str, Any] | None = None
    depth: int | None = None
    within: int | None = None
    options: dict[str, Any] = {}  # noqa: RUF012 - pydantic copies it
    reranker: str | None = None
    as_segments: bool = False
    fill: Literal["none", "hybrid"] = "hybrid"

    #: True if a missing store is created.
    _creates_store: ClassVar[bool] = False
    _question_store: QuestionStore = PrivateAttr()

    @model_validator(mode="before")
    @classmethod
    def _reject_unknown_fields(cls, values: Any) -> Any:
        """Raise TypeError for an unknown field; if pydantic ignored a ``filter``, hits would be unfiltered."""
        for name in values if isinstance(values, Mapping) else ():
            if name in ("filter", "filters"):
                raise TypeError(f"{cls.__name__}() has no argument {name!r}; did you mean 'where'?")
            if name not in cls.model_fields:
                raise make_name_error(cls.__name__, name, cls.model_fields)
        return values

    def model_post_init(self, context: Any, /) -> None:
        """Open the store at ``path``, or use ``store``; pydantic calls this after it has set the fields."""
        super().model_post_init(context)
        self._question_store = QuestionStore(
            type(self).__name__, self.path, self.store, make_embedder(self.embedding), create=self._creates_store
        )

    def close(self) -> None:
        """Close the store if this retriever opened it."""
        self._question_store.close()

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun | None = None,
        k: int | None = None,
        strategy: str | None = None,
        where: str | Mapping[str, Any] | None = None,
        depth: int | None = None,
        within: int | None = None,
        options: Mapping[str, Any] | None = None,
        reranker: str | None = None,
        as_segments: bool | None = None,
        fill: Literal["none", "hybrid"] | None = None,
    ) -> list[Document]:
        """Return the best hits for the question ``query`` as documents, each with its path in the metadata.

        The other arguments are those of :meth:`kvstore.Store.retrieve`; they override the values of the retriever
        (None: no change).
        """
        arguments = self._question_store.build_retrieve_arguments(query, vector=None, fill=fill or self.fill)
        with self._question_store.store.snapshot() as state:
            evidence = state.retrieve(
                query,
                vector=arguments["vector"],
                using=strategy or self.strategy,
                top=self.k if k is None else k,
                where=self.where if where is None else where,
                depth=self.depth if depth is None else depth,
                within=self.within if within is None else within,
                options=arguments["options"] | dict(self.options if options is None else options),
                reranker=reranker or self.reranker,
                as_segments=self.as_segments if as_segments is None else as_segments,
            )
            return stored_documents.build_documents(state, evidence.hits, evidence=True)
