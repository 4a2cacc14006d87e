"""Chroma: a persistent collection with cosine distance, which stores documents, metadata and vectors.

Its local form has no BM25; its full-text search only tests whether a text contains a string.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .peer import Found, Peer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .corpus import Batch, Document


class Chroma(Peer):
    """SQLite for documents and metadata, HNSW for vectors."""

    name = "chroma"
    needs = ("chromadb",)
    setup = "PersistentClient, space cosine, adds of the client's largest batch or less"

    def load(self, batches: Iterable[Batch]) -> None:
        client = self._client()
        collection = client.create_collection(
            "documents", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
        )
        most = client.get_max_batch_size()
        for documents, vectors in batches:
            for first in range(0, len(documents), most):
                part = documents[first : first + most]
                collection.add(
                    ids=[document.key for document in part],
                    embeddings=vectors[first : first + most],
                    documents=[_join_text(document) for document in part],
                    metadatas=[_make_metadata(document) for document in part],
                )

    def open(self) -> None:
        self.client = self._client()
        self.collection = self.client.get_collection("documents", embedding_function=None)

    def search_by_vector(self, vector: bytes, top: int) -> Found:
        return self._found(vector, top)

    def search_filtered(self, vector: bytes, top: int, field: str, value: int) -> Found:
        return self._found(vector, top, where={field: value})

    def replace(self, document: Document, vector: bytes) -> None:
        self.collection.update(
            ids=[document.key],
            embeddings=[_to_list(vector)],
            documents=[_join_text(document)],
            metadatas=[_make_metadata(document)],
        )

    def delete_keys(self, keys: Sequence[str]) -> None:
        most = self.client.get_max_batch_size()
        for first in range(0, len(keys), most):
            self.collection.delete(ids=list(keys[first : first + most]))

    def delete_where(self, field: str, value: int) -> None:
        self.collection.delete(where={field: value})

    def _client(self) -> Any:
        import chromadb

        return chromadb.PersistentClient(self.folder, settings=chromadb.Settings(anonymized_telemetry=False))

    def _found(self, vector: bytes, top: int, **clauses: Any) -> Found:
        found = self.collection.query(
            query_embeddings=[_to_list(vector)], n_results=top, include=["documents", "distances"], **clauses
        )
        return list(zip(found["ids"][0], found["documents"][0], strict=True))


def _join_text(document: Document) -> str:
    return f"{document.title}\n\n{document.text}"


def _make_metadata(document: Document) -> dict[str, int]:
    return {"shelf": document.shelf, "drawer": document.drawer}


def _to_list(vector: bytes) -> Any:
    import numpy as np

    return np.frombuffer(vector, np.float32)
