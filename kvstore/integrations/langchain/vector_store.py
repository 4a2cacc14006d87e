"""LangChain's vector store. A *hit* is a chunk that a search found, with its score."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from ... import Hit, Snapshot, Store
from ...arguments import check_methods, check_text, format_count, format_value
from ...errors import ArgumentError
from ..adapter_store import AdapterStore, resolve_store
from ..marginal_relevance import search_by_mmr
from . import stored_documents
from .embeddings import KvstoreEmbeddings, make_embedder
from .stored_documents import DocumentOrigin

if TYPE_CHECKING:
    from .record_manager import KvstoreRecordManager

Filter = str | Mapping[str, Any]


class KvstoreVectorStore(AdapterStore, VectorStore):
    """A store as LangChain's vector store.

    ``path`` is the path of a store. If it does not exist, it is created with the ``embedding`` (LangChain's, or the
    name of a kvstore embedder) and the creation ``settings``. ``store`` is an open store. Without an embedding the
    store's own is used. ``namespace`` labels the documents added through this object, for a record manager and for
    :meth:`delete`.

    A filter is a dictionary such as ``{"year": {"$gte": 2024}}`` or a SQL condition over the columns of ``documents``.
    Documents without text are skipped with a warning. Raises the errors of opening a store and of putting documents.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        embedding: Embeddings | str | None = None,
        *,
        store: Store | None = None,
        namespace: str = "",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Open or create the store at ``path``, or use ``store``; the class describes the arguments."""
        self.store, self._owns_store = resolve_store(
            "KvstoreVectorStore", path, store, make_embedder(embedding), settings
        )
        self.namespace = namespace
        self._embedding = embedding if isinstance(embedding, Embeddings) else KvstoreEmbeddings(self.store)

    @property
    def embeddings(self) -> Embeddings:
        """The embedding model for documents and queries."""
        return self._embedding

    def record_manager(self, source_id_key: str | Callable[[Document], Any] = "source") -> KvstoreRecordManager:
        """Return the record manager of this namespace, for :func:`langchain_core.indexing.index`.

        ``source_id_key`` is the metadata field with the group of a document, or a function of the document.
        """
        from .record_manager import KvstoreRecordManager

        return KvstoreRecordManager(self.namespace, store=self.store, source_id_key=source_id_key)

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Put texts, replacing those with the same ids; skip blank texts, and return the ids of the others.

        There is one commit per ``batch_size`` texts (None: one in total). A ``title`` or ``source`` in the metadata
        also becomes the title or source of the document. Raises ValueError if the number of ``metadatas`` or ``ids`` is
        not the number of texts.
        """
        _reject_arguments("add_texts", kwargs)
        text_list = list(texts)
        metadata_list: Sequence[Mapping[str, Any]] = [{}] * len(text_list) if metadatas is None else metadatas
        if len(metadata_list) != len(text_list):
            raise ValueError(
                f"got {format_count(len(text_list), 'text')} but {len(metadata_list):,} metadata; pass one per text, "
                "or none"
            )
        for meta in metadata_list:
            if not isinstance(meta, Mapping):
                raise ArgumentError(f"add_texts(): the metadata of a text must be a mapping, not {format_value(meta)}")
        for text in text_list:
            check_text("add_texts(): a text", text)
        documents = [Document(text, metadata=dict(meta)) for text, meta in zip(text_list, metadata_list, strict=True)]
        return self._add_documents(documents, ids or [None] * len(text_list), batch_size)

    def add_documents(
        self,
        documents: list[Document],
        *,
        ids: Sequence[str | None] | None = None,
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Put documents, replacing those with the same ids; return the ids of the stored documents.

        Documents without text are skipped. There is one commit per ``batch_size`` documents (None: one in total).
        """
        _reject_arguments("add_documents", kwargs)
        return self._add_documents(documents, ids, batch_size)

    def _add_documents(
        self, documents: list[Document], ids: Sequence[str | None] | None, batch_size: int | None
    ) -> list[str]:
        """Put documents, except those without text, and return the ids of the stored documents.

        Their origin is this namespace and the current time. ``ids`` replace the ids of the documents (None: no change).
        There is one commit per ``batch_size`` documents (None: one in total).
        """
        origin = DocumentOrigin(self.namespace, time.time())
        return stored_documents.put_documents(self.store, documents, ids, origin, batch_size)

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Delete documents by id, in one commit, and return True; unknown ids are ignored.

        Without ids, all documents of the namespace that were added through LangChain are deleted.
        """
        _reject_arguments("delete", kwargs)
        keys = self.record_manager().list_keys() if ids is None else ids
        self.store.delete_many(keys)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with these ids, in the order of ``ids``. Missing documents are omitted."""
        return stored_documents.load_documents(self.store, ids)

    def similarity_search(
        self, query: str, k: int = 4, filter: Filter | None = None, *, using: str = "vector", **kwargs: Any
    ) -> list[Document]:
        """Return the ``k`` documents nearest to a question among all that satisfy ``filter`` (None: no condition).

        ``using`` names the search: ``vector``, ``hybrid`` or ``lexical``.
        """
        scored_documents = self.similarity_search_with_score(query, k, filter, using=using, **kwargs)
        return [document for document, _ in scored_documents]

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: Filter | None = None, *, using: str = "vector", **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Return the ``k`` documents nearest to a question with their scores: cosines if ``using`` is ``vector``.

        Only documents that satisfy ``filter`` (None: all) are searched. A higher score is better for every value of
        ``using``, which can also be ``hybrid`` or ``lexical``.
        """
        _reject_arguments("similarity_search", kwargs)
        if using == "vector":
            vector = self.embeddings.embed_query(query)
            # The embedder returns zeros for a question if it knows none of its words, so no document is near.
            return self._search_nearest(vector, k, filter) if any(vector) else []
        with self.store.snapshot() as state:
            hits = state.search(query, using=using, top=k, where=filter) if k > 0 else []
            return self._build_scored_documents(state, hits)

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> list[Document]:
        """Return the ``k`` documents nearest to a vector among all that satisfy ``filter`` (None: no condition)."""
        _reject_arguments("similarity_search_by_vector", kwargs)
        return [document for document, _ in self._search_nearest(embedding, k, filter)]

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Return ``k`` diverse documents of the ``fetch_k`` nearest to a question that satisfy ``filter`` (None: all).

        They are selected by maximal marginal relevance (MMR). ``lambda_mult`` is 1 for similarity alone and 0 for
        diversity alone.
        """
        vector = self.embeddings.embed_query(query)
        if not any(vector):  # the embedder knows no word of the question, so no document is near
            return []
        return self.max_marginal_relevance_search_by_vector(vector, k, fetch_k, lambda_mult, filter, **kwargs)

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Return ``k`` diverse documents of the ``fetch_k`` nearest to a vector that satisfy ``filter`` (None: all).

        They are selected by maximal marginal relevance (MMR). ``lambda_mult`` is 1 for similarity alone and 0 for
        diversity alone.
        """
        _reject_arguments("max_marginal_relevance_search", kwargs)
        with self.store.snapshot() as state:
            scored_hits = (
                search_by_mmr(state, embedding, top=k, num_candidates=fetch_k, weight=lambda_mult, where=filter)
                if k > 0
                else []
            )
            return stored_documents.build_documents(state, [hit for hit, _ in scored_hits], evidence=False)

    def _search_nearest(self, vector: Sequence[float], k: int, filter: Filter | None) -> list[tuple[Document, float]]:
        """Return the ``k`` documents nearest to a vector, with their cosine similarities.

        ``filter`` is a condition on the documents (None: all).
        """
        with self.store.snapshot() as state:
            hits = state.search("", using="vector", vector=vector, top=k, where=filter) if k > 0 else []
            return self._build_scored_documents(state, hits)

    @staticmethod
    def _build_scored_documents(state: Snapshot, hits: list[Hit]) -> list[tuple[Document, float]]:
        """Return the documents of hits, each with its score."""
        documents = stored_documents.build_documents(state, hits, evidence=False)
        return [(document, hit.score) for document, hit in zip(documents, hits, strict=True)]

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        """Return the function by which LangChain converts a cosine similarity to a relevance from 0 to 1."""
        return lambda cosine: min(1.0, max(0.0, cosine))

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | str | None = None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        path: str | os.PathLike[str] | None = None,
        store: Store | None = None,
        namespace: str = "",
        settings: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Open or create a vector store, and add ``texts`` with their metadata and ids; return the vector store.

        ``settings`` and ``embedding`` apply to a new store. ``kwargs`` may contain the ``batch_size`` of the commits.
        """
        vector_store = cls(path, embedding, store=store, namespace=namespace, settings=settings)
        vector_store.add_texts(texts, metadatas, ids=ids, **kwargs)
        return vector_store


check_methods(KvstoreVectorStore)


def _reject_arguments(method: str, arguments: Mapping[str, Any]) -> None:
    """Raise TypeError if a call to ``method`` has unknown arguments, because ignoring one would change the result."""
    if arguments:
        raise TypeError(f"{method}() takes no argument {', '.join(map(repr, arguments))}")
