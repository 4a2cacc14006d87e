"""A store's embedder as LangChain embeddings, and LangChain embeddings as a store's embedder."""

from __future__ import annotations

from langchain_core.embeddings import Embeddings

from ... import Store
from ..framework_embedder import FrameworkEmbedder, build_embedding_name


class KvstoreEmbeddings(Embeddings):
    """The embedder of a store as LangChain embeddings; the vectors have length 1."""

    def __init__(self, store: Store) -> None:
        """Use the embedder of an open store."""
        self._store = store

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of passages."""
        vectors: list[list[float]] = self._store.embed(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question."""
        vector: list[float] = self._store.embedder.embed_query(text).tolist()
        return vector


def make_embedder(embedding: Embeddings | str | None) -> FrameworkEmbedder | str | None:
    """Return a LangChain embedding as the embedder of a store; return None and names of embedders unchanged."""
    if embedding is None or isinstance(embedding, str):
        return embedding
    return FrameworkEmbedder(
        build_embedding_name("langchain", embedding), embedding.embed_documents, embedding.embed_query
    )
