"""The embedder of a store as LangChain's embeddings, and LangChain's as that of a store."""

from __future__ import annotations

from langchain_core.embeddings import Embeddings

from ... import Store
from ..framework_embedder import FrameworkEmbedder, build_embedding_name


class KvstoreEmbeddings(Embeddings):
    """The embedder of a store, for whatever in LangChain takes embeddings; the vectors are of length 1."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The vectors of passages."""
        vectors: list[list[float]] = self._store.embed(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """The vector of a question."""
        vector: list[float] = self._store.embedder.embed_query(text).tolist()
        return vector


def make_embedder(embedding: Embeddings | str | None) -> FrameworkEmbedder | str | None:
    """LangChain's embedding as the embedder of a store; the name of one of kvstore's own as it is."""
    if embedding is None or isinstance(embedding, str):
        return embedding
    return FrameworkEmbedder(
        build_embedding_name("langchain", embedding), embedding.embed_documents, embedding.embed_query
    )
