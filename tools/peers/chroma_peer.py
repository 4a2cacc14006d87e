"""Chroma: a persistent collection with cosine distance, which stores documents, metadata and vectors.

Its local form has no BM25; its full-text search only tests whether a text contains a string.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .peer import Peer, Results, to_array

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .corpus import Batch, Document


class Chroma(Peer):
    """A Chroma collection: SQLite for documents and metadata, HNSW for vectors."""

    name = "chroma"
    needs = ("chromadb",)
    setup = "PersistentClient, space cosine, adds of the client's largest batch or less"

    def load(self, batches: Iterable[Batch]) -> None:
        """Create the store in :attr:`folder` with all documents of the batches, and its indexes."""
        client = self._open_client()
        collection = client.create_collection(
            "documents", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
        )
        max_batch = client.get_max_batch_size()
        for documents, vectors in batches:
            for start in range(0, len(documents), max_batch):
                # Chroma rejects larger batches.
                batch = documents[start : start + max_batch]
                collection.add(
                    ids=[document.key for document in batch],
                    embeddings=vectors[start : start + max_batch],
                    documents=[_join_text(document) for document in batch],
                    metadatas=[_make_metadata(document) for document in batch],
                )

    def open(self) -> None:
        """Open the store that :meth:`load` created."""
        self.client = self._open_client()
        self.collection = self.client.get_collection("documents", embedding_function=None)

    def search_by_vector(self, vector: bytes, top: int) -> Results:
        """Return (key, text) of the ``top`` documents nearest to a vector (float32, as bytes), best first."""
        return self._search(vector, top)

    def search_filtered(self, vector: bytes, top: int, field: str, value: int) -> Results:
        """Return (key, text) of the ``top`` nearest documents whose ``field`` (shelf or drawer) has this value."""
        return self._search(vector, top, where={field: value})

    def replace(self, document: Document, vector: bytes) -> None:
        """Replace the stored document that has the key of ``document``."""
        self.collection.update(
            ids=[document.key],
            embeddings=[to_array(vector)],
            documents=[_join_text(document)],
            metadatas=[_make_metadata(document)],
        )

    def delete_keys(self, keys: Sequence[str]) -> None:
        """Delete the documents with these keys."""
        max_batch = self.client.get_max_batch_size()
        for start in range(0, len(keys), max_batch):
            self.collection.delete(ids=list(keys[start : start + max_batch]))

    def delete_where(self, field: str, value: int) -> None:
        """Delete the documents whose ``field`` has this value."""
        self.collection.delete(where={field: value})

    def _open_client(self) -> Any:
        """Open the client of the folder, with its telemetry disabled."""
        import chromadb

        return chromadb.PersistentClient(self.folder, settings=chromadb.Settings(anonymized_telemetry=False))

    def _search(self, vector: bytes, top: int, **clauses: Any) -> Results:
        """Return (key, text) of the documents nearest to a vector.

        ``clauses`` are further arguments of Chroma's ``query``, such as ``where``.
        """
        result = self.collection.query(
            query_embeddings=[to_array(vector)], n_results=top, include=["documents", "distances"], **clauses
        )
        return list(zip(result["ids"][0], result["documents"][0], strict=True))


def _join_text(document: Document) -> str:
    """Return the title and the text of a document as one text."""
    return f"{document.title}\n\n{document.text}"


def _make_metadata(document: Document) -> dict[str, int]:
    """Return the fields that filters use."""
    return {"shelf": document.shelf, "drawer": document.drawer}
