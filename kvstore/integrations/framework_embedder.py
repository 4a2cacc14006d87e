"""A framework's embedding model as the embedder of a store.

In: the framework's functions that embed passages and questions. Out: an embedder. The store records its name, so that a
process that opens the store by path must supply the same one. An unavailable model raises
:class:`~kvstore.errors.EmbedderError`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..errors import EmbedderError

#: Vectors of length 1: a single one, or one per row.
UnitVectors = npt.NDArray[np.float32]
#: The attributes in which frameworks store the model's name, in order of preference.
_MODEL_ATTRIBUTES = ("model_name", "model", "model_id", "repo_id", "deployment")


class FrameworkEmbedder:
    """An embedder that calls two functions of a framework.

    ``name`` is recorded in the store. ``embed_passages`` embeds a list of texts, ``embed_question`` one question.
    """

    #: False: a framework's embedding is a real model, not a fallback such as hashing.
    poor = False

    def __init__(
        self,
        name: str,
        embed_passages: Callable[[list[str]], Sequence[Sequence[float]]],
        embed_question: Callable[[str], Sequence[float]],
    ) -> None:
        """Create an embedder from the framework's functions for a list of passages and for one question."""
        self.name = name
        self.description = f"{name}, an embedding supplied by the application"
        self._embed_passages = embed_passages
        self._embed_question = embed_question

    @cached_property
    def dimension(self) -> int:
        """The number of components of a vector. The first use embeds a word to find out."""
        return len(self.embed_query("dimension"))

    def embed(self, texts: Sequence[str]) -> UnitVectors:
        """Return the unit vectors of passages, shape (texts, dimension). Raises EmbedderError."""
        try:
            vectors = self._embed_passages(list(texts))
        except Exception as error:
            raise EmbedderError(f"the embedding {self.name} failed: {error}") from error
        return self._normalize(vectors, len(texts))

    def embed_query(self, text: str) -> UnitVectors:
        """Return the unit vector of a question, shape (dimension,). Raises EmbedderError."""
        try:
            vector = self._embed_question(text)
        except Exception as error:
            raise EmbedderError(f"the embedding {self.name} failed: {error}") from error
        unit_vector: UnitVectors = self._normalize([vector], 1)[0]
        return unit_vector

    def _normalize(self, vectors: Sequence[Sequence[float]], num_texts: int) -> UnitVectors:
        """Return vectors scaled to length 1; vectors of zeros stay as they are.

        Raises EmbedderError unless there is one row of finite numbers for each of ``num_texts`` texts.
        """
        try:
            rows = np.asarray(vectors, np.float32)
        except (TypeError, ValueError):
            rows = np.empty(0, np.float32)
        if rows.ndim != 2 or len(rows) != num_texts or not np.isfinite(rows).all():
            raise EmbedderError(
                f"the embedding {self.name} did not return {num_texts:,} vectors of finite numbers for {num_texts:,} "
                "texts"
            )
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        unit_vectors: UnitVectors = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
        return unit_vectors


def build_embedding_name(framework: str, embedding: object) -> str:
    """Return the embedder name for a store: the framework, the class, and the model if it is known.

    >>> build_embedding_name("langchain", 3.5)
    'langchain:float'
    """
    # Frameworks keep the model's name in different attributes; the first text that is not empty counts.
    models = (getattr(embedding, name, None) for name in _MODEL_ATTRIBUTES)
    model = next((model for model in models if isinstance(model, str) and model), None)
    class_name = type(embedding).__name__
    return f"{framework}:{class_name}" if model is None else f"{framework}:{class_name}:{model}"
