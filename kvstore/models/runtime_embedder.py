"""An embedder that runs a model in this process.

In: texts. Out: their vectors, scaled to length 1. The model is opened on first use, by one thread.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from .protocol import Embeddings, TextKind


class Runtime(Protocol):
    """A loaded model."""

    @property
    def dimension(self) -> int:
        """The number of components of a vector."""
        ...

    def encode(self, kind: TextKind, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of ``texts``, shape (len(texts), dimension). Raises EmbedderError."""
        ...


class RuntimeEmbedder(ABC):
    """An embedder whose model a :class:`Runtime` runs."""

    poor = False

    def __init__(self) -> None:
        """Create an embedder whose model is loaded on first use."""
        self._lock = threading.Lock()
        self._loaded: Runtime | None = None

    def load(self) -> None:
        """Load the model now instead of on first use. Raises EmbedderError."""
        self._get_runtime()

    def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of ``texts``, shape (len(texts), dimension). Raises EmbedderError."""
        return self._get_runtime().encode("document", texts)

    def embed_query(self, text: str) -> Embeddings:
        """Return the vector of a question, shape (dimension,). Raises EmbedderError."""
        row: Embeddings = self._get_runtime().encode("query", [text])[0]
        return row

    def _get_runtime(self) -> Runtime:
        """Return the loaded model, which is opened on the first call."""
        with self._lock:
            if self._loaded is None:
                self._loaded = self._open_runtime()
            return self._loaded

    @abstractmethod
    def _open_runtime(self) -> Runtime:
        """Open the model's files for computation in this process. Raises EmbedderError."""
