"""The protocol of embedders, and the base class of those that run a model in this process.

In: texts of any length (a model can read only their beginnings). Out: one row of float32 per text, of length 1, so that
a dot product is a cosine. A missing package, key or endpoint raises :class:`~kvstore.errors.EmbedderError` when it is
first needed. A model that runs in this process is opened on first use, by one thread.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from ..errors import EmbedderError
from ..extensions.entry_points import format_error
from ..extensions.extras import format_install

#: Vectors in float32: a single one, or one per row.
Embeddings = npt.NDArray[np.float32]

#: The purpose of a vector; some models treat questions and documents differently.
TextKind = Literal["query", "document"]

#: The names of the default and of the multilingual embedder.
DEFAULT_EMBEDDER = "all-MiniLM-L6-v2"
MULTILINGUAL_EMBEDDER = "multilingual-e5-small"

#: The number of texts that torch processes at once, sorted by length. For chunks of about 100 tokens on two cores,
#: sizes from 8 to 32 were equally fast, and 64 was a sixth slower.
BATCH_SIZE = 16

#: The command that installs what runs and exports any model but the default.
INSTALL_MODELS = format_install("sentence-transformers")
#: The command that installs the multilingual embedder.
INSTALL_LANGUAGES = format_install("languages")
#: The packages with which torch runs a model, and with which models are exported and run.
TORCH_PACKAGES = ("torch", "sentence_transformers")
EXPORT_PACKAGES = ("onnxruntime", "onnx")


class Embedder(Protocol):
    """An object that computes the vectors of texts; pass yours to :func:`kvstore.open`.

    A subclass needs a ``name``, a ``dimension`` and the ``embed`` method. The store records the name, and every later
    :func:`kvstore.open` needs an embedder with this name.

    >>> import kvstore, numpy
    >>> class LetterEmbedder(kvstore.Embedder):
    ...     name, dimension = "letters", 26
    ...
    ...     def embed(self, texts):
    ...         counts = [[text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]
    ...         rows = numpy.array(counts, numpy.float32).reshape(len(texts), 26) + 1e-6
    ...         return rows / numpy.linalg.norm(rows, axis=1, keepdims=True)
    >>> own = kvstore.open(tempfile.mkdtemp() + "/letters", embedder=LetterEmbedder())
    >>> own.put("tea", "Tea is made from leaves."), own.search("a leaf of tea", using="vector")[0].document
    (True, 'tea')
    >>> own.close()
    """

    @property
    def name(self) -> str:
        """The name that the store records."""
        ...

    @property
    def dimension(self) -> int:
        """The number of components of a vector; may load the model or ask the endpoint."""
        ...

    @property
    def description(self) -> str:
        """A sentence that describes the embedder and its quality; by default the name."""
        return self.name

    @property
    def poor(self) -> bool:
        """True if the embedder matches words rather than meanings; by default False."""
        return False

    def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of ``texts``, shape (len(texts), dimension), of length 1. Raises EmbedderError."""
        ...

    def embed_query(self, text: str) -> Embeddings:
        """Return the vector of a question, shape (dimension,), of length 1; :meth:`embed` computes it by default."""
        vector: Embeddings = self.embed([text])[0]
        return vector


def normalised(vectors: npt.ArrayLike) -> Embeddings:
    """Return vectors (the rows of an array, or a single one) as float32, scaled to length 1; zeros are unchanged."""
    rows = np.asarray(vectors, dtype=np.float32)
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    scaled: Embeddings = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    return scaled


#: The maximum difference from 1 of the length of a vector that is not scaled.
_MAX_LENGTH_ERROR = 1e-3


def to_unit_vectors(values: npt.ArrayLike, shape: tuple[int, ...], source: str) -> Embeddings:
    """Convert the vectors of a third-party embedder to float32, and scale them to length 1.

    A vector of zeros, or of a length of almost 1, is unchanged except that its numbers become float32. ``source`` names
    the embedder in the EmbedderError for vectors that cannot be converted, have the wrong shape, or have numbers that
    float32 does not represent, such as 1e39.
    """
    try:
        with np.errstate(over="ignore"):
            vectors = np.asarray(values, np.float32)
    except MemoryError:
        raise
    except Exception as error:  # the vectors may be an object of another library, such as torch, with its own errors
        raise EmbedderError(
            f"{source} returned no vectors, but {values!r:.80} ({format_error(error)}); the shape must be {shape}"
        ) from error
    if vectors.shape != shape:
        raise EmbedderError(f"{source} returned vectors of shape {vectors.shape}; the shape must be {shape}")
    if not np.isfinite(vectors).all():
        raise EmbedderError(f"{source} returned NaN, an infinity or a number beyond float32; all must be finite")
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=-1, keepdims=True)
    # The decision is made for each vector alone, so that it does not depend on the other vectors of the call.
    lengths[(lengths == 0) | (abs(lengths - 1) <= _MAX_LENGTH_ERROR)] = 1
    return np.asarray(vectors / lengths, np.float32)


class Runtime(Protocol):
    """A loaded model that computes vectors in this process."""

    @property
    def dimension(self) -> int:
        """The number of components of a vector."""
        ...

    def encode(self, kind: TextKind, texts: Sequence[str]) -> Embeddings:
        """Return the unit vectors of questions or documents (``kind``), shape (len(texts), dimension).

        Raises EmbedderError.
        """
        ...


class RuntimeEmbedder(ABC):
    """An embedder whose model runs in this process: a :class:`Runtime`, which is opened on first use."""

    poor = False

    def __init__(self) -> None:
        """Create an embedder whose model is loaded on first use."""
        self._lock = threading.Lock()
        self._runtime: Runtime | None = None

    def load(self) -> None:
        """Load the model now instead of on first use. Raises EmbedderError."""
        self._get_runtime()

    def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return the unit vectors of ``texts``, shape (len(texts), dimension). Raises EmbedderError."""
        return self._get_runtime().encode("document", texts)

    def embed_query(self, text: str) -> Embeddings:
        """Return the unit vector of a question, shape (dimension,). Raises EmbedderError."""
        vector: Embeddings = self._get_runtime().encode("query", [text])[0]
        return vector

    def _get_runtime(self) -> Runtime:
        """Return the loaded model, which is opened on the first call."""
        with self._lock:
            if self._runtime is None:
                self._runtime = self._open_runtime()
            return self._runtime

    @abstractmethod
    def _open_runtime(self) -> Runtime:
        """Open the model's files for computation in this process. Raises EmbedderError."""
