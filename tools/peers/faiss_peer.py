"""Faiss: an HNSW graph in memory, read from a file. It stores no documents, and its HNSW cannot delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .peer import Peer, Results
from .plain_files import read_documents, write_documents

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .corpus import Batch

#: The number of neighbors of a node, and the search width.
_LINKS, _SEARCHED = 32, 64


class Faiss(Peer):
    """A Faiss graph (HNSW32) over inner products of unit vectors, with filters as bitmaps of allowed documents."""

    name = "faiss"
    needs = ("faiss",)
    setup = "IndexHNSWFlat, 32 links, efSearch 64, inner product; IDSelectorBitmap as filter"

    def load(self, batches: Iterable[Batch]) -> None:
        """Create the store in :attr:`folder` with all documents of the batches, and its indexes."""
        import faiss
        import numpy as np

        vectors = np.concatenate(write_documents(self.folder, batches))
        index = faiss.IndexHNSWFlat(vectors.shape[1], _LINKS, faiss.METRIC_INNER_PRODUCT)
        index.add(vectors)
        faiss.write_index(index, f"{self.folder}/vectors.faiss")

    def open(self) -> None:
        """Open the store that :meth:`load` created."""
        import faiss
        import numpy as np

        self.faiss, self.numpy = faiss, np
        self.documents = read_documents(self.folder)
        self.index = faiss.read_index(f"{self.folder}/vectors.faiss")
        self.fields = {
            field: np.array([getattr(document, field) for document in self.documents]) for field in ("shelf", "drawer")
        }

    def search_by_vector(self, vector: bytes, top: int) -> Results:
        """Return (key, text) of the ``top`` documents nearest to a vector (float32, as bytes), best first."""
        return self._search(vector, top, self.faiss.SearchParametersHNSW(efSearch=_SEARCHED))

    def search_filtered(self, vector: bytes, top: int, field: str, value: int) -> Results:
        """Return (key, text) of the ``top`` nearest documents whose ``field`` (shelf or drawer) has this value."""
        bits = self.numpy.packbits(self.fields[field] == value, bitorder="little")
        selector = self.faiss.IDSelectorBitmap(bits)
        return self._search(vector, top, self.faiss.SearchParametersHNSW(sel=selector, efSearch=_SEARCHED))

    def _search(self, vector: bytes, top: int, parameters: Any) -> Results:
        """Return (key, text) of the documents nearest to a vector; ``parameters`` are the search parameters of Faiss.

        Faiss returns the index -1 for each missing result.
        """
        row = self.numpy.frombuffer(vector, self.numpy.float32).reshape(1, -1)
        _, indexes = self.index.search(row, top, params=parameters)
        documents = [self.documents[index] for index in indexes[0].tolist() if index >= 0]
        return [(document.key, document.text) for document in documents]
