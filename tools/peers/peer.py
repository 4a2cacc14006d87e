"""What a measured system does: load, answer, replace, delete.

In: a folder of its own, documents with unit vectors, questions. On disk: whatever the system keeps there. Out: the keys
and texts of what it finds. A module that is imported before the clock starts must be light: nothing here imports more
than a few names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .corpus import Batch, Document

#: Key and text of a document, best first.
Found = list[tuple[str, str]]


class NotAnswered(Exception):
    """The system has no such question, or not without a service or a model; says why."""


class Peer(ABC):
    """One system over one folder.

    It is made, then either :meth:`load`\\ ed, which leaves a closed store, or :meth:`open`\\ ed, asked and changed, and
    closed. Every method that changes something returns when the change is durable, as far as the system promises that.
    What a system cannot answer raises NotAnswered. ``vector`` is a unit vector, float32 in bytes.
    """

    #: As the user names it, and the modules that it needs.
    name: str
    needs: tuple[str, ...]
    #: What a store is made with, in words, for the report.
    setup: str

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @abstractmethod
    def load(self, batches: Iterable[Batch]) -> None:
        """Make a store of all documents, with every index that its questions need."""

    @abstractmethod
    def open(self) -> None:
        """Open the store in this process."""

    def close(self) -> None:  # noqa: B027
        """Close what :meth:`open` opened."""

    def vector(self, vector: bytes, top: int) -> Found:
        """The nearest documents by cosine."""
        raise NotAnswered("no vector search")

    def filtered(self, vector: bytes, top: int, field: str, value: int) -> Found:
        """The nearest of those documents whose ``field`` (shelf or drawer) has a value."""
        raise NotAnswered("no vector search with a filter")

    def lexical(self, question: str, top: int) -> Found:
        """The best documents by BM25 over titles and texts."""
        raise NotAnswered("no BM25")

    def hybrid(self, question: str, vector: bytes, top: int) -> Found:
        """The best documents by words and vector together, as the system joins them."""
        raise NotAnswered("no hybrid search")

    def replace(self, document: Document, vector: bytes) -> None:
        """Put a document in place of the one of its key."""
        raise NotAnswered("documents are not replaced")

    def delete_keys(self, keys: Sequence[str]) -> None:
        """Delete documents by their keys, together."""
        raise NotAnswered("documents are not deleted")

    def delete_where(self, field: str, value: int) -> None:
        """Delete the documents whose ``field`` has a value."""
        raise NotAnswered("documents are not deleted by a condition")

    def strategies(self) -> dict[str, Callable[[str, bytes, int], Found]]:
        """Further ways to ask, by name, which no other system has."""
        return {}
