"""The protocol of embedders.

In: texts of any length (a model can read only their beginnings). Out: one row of float32 per text, of length 1, so that
a dot product is a cosine. A missing package, key or endpoint raises :class:`~kvstore.errors.EmbedderError` when it is
first needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

Embeddings = npt.NDArray[np.float32]

#: What a text is embedded as; a model may treat questions and passages differently.
TextKind = Literal["query", "document"]

DEFAULT_EMBEDDER = "all-MiniLM-L6-v2"

#: Texts that a model in this process sees at once, after sorting by length. On passages of about 100 tokens and two
#: cores, 8 to 32 did not differ by more than the noise, and 64 was a sixth slower.
BATCH_SIZE = 16

#: How to get what the embedders in this process need.
INSTALL_LOCAL = "pip install 'kvstore[local]'"
#: What of it torch runs a model with, and what runs an exported one.
TORCH_PACKAGES = ("torch", "sentence_transformers")
EXPORT_PACKAGES = ("onnxruntime", "onnx", "tokenizers")


class Embedder(Protocol):
    """Turns texts into vectors."""

    @property
    def name(self) -> str:
        """The name under which ``open_embedder`` gives this embedder again."""
        ...

    @property
    def dimension(self) -> int:
        """The number of components of a vector; may load the model or ask the endpoint."""
        ...

    @property
    def description(self) -> str:
        """A sentence that describes the embedder and its quality."""
        ...

    @property
    def poor(self) -> bool:
        """True if it matches words rather than meanings."""
        ...

    def embed(self, texts: Sequence[str]) -> Embeddings:
        """The vectors of passages: shape (len(texts), dimension), each row of length 1; raises EmbedderError."""
        ...

    def embed_query(self, text: str) -> Embeddings:
        """The vector of a question: shape (dimension,), length 1; raises EmbedderError."""
        ...


def normalised(vectors: npt.ArrayLike) -> Embeddings:
    """Rows scaled to length 1, as float32; a row of zeros stays as it is."""
    rows = np.asarray(vectors, dtype=np.float32)
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    scaled: Embeddings = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    return scaled
