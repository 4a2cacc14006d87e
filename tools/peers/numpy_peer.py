"""numpy: all vectors in one matrix, compared by a full scan, as a baseline for every index. It supports no changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .peer import Peer, Results
from .plain_files import read_documents, write_documents

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .corpus import Batch


class Numpy(Peer):
    """A matrix of vectors and a list of documents, both read from files into memory."""

    name = "numpy"
    needs = ("numpy",)
    setup = "float32 matrix in memory, one product a question, masks as filters"

    def load(self, batches: Iterable[Batch]) -> None:
        """Write the documents of the batches to a file in :attr:`folder`, and their vectors to another."""
        import numpy as np

        vectors = write_documents(self.folder, batches)
        np.save(f"{self.folder}/vectors.npy", np.concatenate(vectors))

    def open(self) -> None:
        """Open the store that :meth:`load` created."""
        import numpy as np

        self.numpy: Any = np
        self.documents = read_documents(self.folder)
        self.vectors = np.load(f"{self.folder}/vectors.npy")
        self.fields = {
            field: np.array([getattr(document, field) for document in self.documents]) for field in ("shelf", "drawer")
        }

    def search_by_vector(self, vector: bytes, top: int) -> Results:
        """Return (key, text) of the ``top`` documents nearest to a vector (float32, as bytes), best first."""
        return self._select_nearest(self.vectors @ self.numpy.frombuffer(vector, self.numpy.float32), top)

    def search_filtered(self, vector: bytes, top: int, field: str, value: int) -> Results:
        """Return (key, text) of the ``top`` nearest documents whose ``field`` (shelf or drawer) has this value."""
        rows = self.numpy.flatnonzero(self.fields[field] == value)
        return self._select_nearest(self.vectors[rows] @ self.numpy.frombuffer(vector, self.numpy.float32), top, rows)

    def _select_nearest(self, cosines: Any, top: int, rows: Any = None) -> Results:
        """Return the ``top`` documents with the greatest cosines, best first.

        ``rows`` are the indexes of the documents that the cosines belong to, by default those of all documents.
        """
        count = min(top, len(cosines))
        top_rows = self.numpy.argpartition(-cosines, count - 1)[:count]
        top_rows = top_rows[self.numpy.argsort(-cosines[top_rows])]
        documents = top_rows if rows is None else rows[top_rows]
        return [(self.documents[index].key, self.documents[index].text) for index in documents.tolist()]
