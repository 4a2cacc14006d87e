"""The interface of a measured system: load, answer, replace, delete.

In: a separate folder, documents with unit vectors, questions. On disk: the system's files. Out: the keys and texts of
the results. Importing this module must be fast, because it is part of the measured time to the first answer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .corpus import Batch, Document

#: Keys and texts of documents, best first.
Results = list[tuple[str, str]]


class UnsupportedError(Exception):
    """The system does not support this query, or needs a service or a model for it; the message gives the reason."""


class Peer(ABC):
    """A system that is compared with kvstore, with its store in one folder.

    An instance either creates the store with :meth:`load`, which leaves it closed, or opens, queries, changes and
    closes it. Every method that changes data returns when the change is durable, as far as the system promises that.
    The queries and changes of this base class raise UnsupportedError; a system overrides the ones that it supports.
    ``vector`` is a unit vector, float32 in bytes.
    """

    #: The name that the user types, and the modules that it needs.
    name: str
    needs: tuple[str, ...]
    #: A description of the store's configuration, for the report.
    setup: str

    def __init__(self, folder: str) -> None:
        """Create a system whose store is in ``folder``; nothing is read or written yet."""
        self.folder = folder

    @abstractmethod
    def load(self, batches: Iterable[Batch]) -> None:
        """Build a store of all documents, with every index that its queries need."""

    @abstractmethod
    def open(self) -> None:
        """Open the store in this process."""

    def close(self) -> None:  # noqa: B027
        """Close what :meth:`open` opened."""

    def search_by_vector(self, vector: bytes, top: int) -> Results:
        """Return (key, text) of the ``top`` documents nearest to a vector (float32, as bytes) by cosine.

        By default unsupported.
        """
        raise UnsupportedError("no vector search")

    def search_filtered(self, vector: bytes, top: int, field: str, value: int) -> Results:
        """Return (key, text) of the ``top`` nearest documents whose ``field`` (shelf or drawer) has this value.

        By default unsupported.
        """
        raise UnsupportedError("no vector search with a filter")

    def search_by_words(self, question: str, top: int) -> Results:
        """Return (key, text) of the ``top`` documents for a question by BM25 over titles and texts.

        By default unsupported.
        """
        raise UnsupportedError("no BM25")

    def search_hybrid(self, question: str, vector: bytes, top: int) -> Results:
        """Return (key, text) of the ``top`` documents for a question and its vector, as the system ranks them.

        By default unsupported.
        """
        raise UnsupportedError("no hybrid search")

    def replace(self, document: Document, vector: bytes) -> None:
        """Replace the stored document that has the key of ``document``; by default unsupported."""
        raise UnsupportedError("cannot replace a document")

    def delete_keys(self, keys: Sequence[str]) -> None:
        """Delete documents by their keys, in one call; by default unsupported."""
        raise UnsupportedError("cannot delete documents")

    def delete_where(self, field: str, value: int) -> None:
        """Delete the documents whose ``field`` has this value; by default unsupported."""
        raise UnsupportedError("cannot delete documents by a condition")

    def make_strategy_searches(self) -> dict[str, Callable[[str, bytes, int], Results]]:
        """Return the search functions of further query methods of this system, by name."""
        return {}


def to_array(vector: bytes) -> Any:
    """Return a vector, whose bytes are float32, as an array."""
    import numpy as np

    return np.frombuffer(vector, np.float32)
