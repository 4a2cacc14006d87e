"""Sentence-transformers models run by torch: on any device, and as the original that exports are verified against.

In: texts, as questions or as passages. Out: the model's vectors, scaled to length 1. On devices other than the CPU, the
other texts of a batch change a vector by about 1e-7. A missing package or model raises
:class:`~kvstore.errors.EmbedderError` that says what to install.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from ..errors import EmbedderError
from ..extensions.extras import find_first_missing
from .hub_access import explain_missing_model, must_load_locally
from .onnx_runtime import set_variable
from .protocol import BATCH_SIZE, INSTALL_MODELS, TORCH_PACKAGES, Embeddings, TextKind, normalised

#: The variable that prevents the library of the model hub from using the network.
_OFFLINE_VARIABLE = "HF_HUB_OFFLINE"


class TorchRuntime:
    """A model that torch runs; it is loaded when the object is created."""

    def __init__(self, name: str, model: str, *, device: str | None = None, offline: bool = False) -> None:
        """Load a model by its name or folder ``model``; ``name`` is the embedder's name in errors.

        ``device`` is the name of a torch device (None: torch chooses). With ``offline``, the model hub is not
        contacted. Raises EmbedderError.
        """
        self._name = name
        missing_package = find_first_missing(TORCH_PACKAGES)
        if missing_package is not None:
            raise EmbedderError(f"embedder {name} needs the package {missing_package}; run {INSTALL_MODELS}")
        with set_variable(_OFFLINE_VARIABLE) if offline else nullcontext():
            self.model = _load_model(name, model, device)
        # On the CPU, each text is run by itself, so that its vector does not depend on others; see OnnxRuntime.
        self._batch = 1 if self.model.device.type == "cpu" else BATCH_SIZE
        get_dimension = (
            getattr(self.model, "get_embedding_dimension", None) or self.model.get_sentence_embedding_dimension
        )
        self.dimension = int(get_dimension())

    def encode(self, kind: TextKind, texts: Sequence[str]) -> Embeddings:
        """Return the unit vectors of questions or documents (``kind``), shape (len(texts), dimension).

        Raises EmbedderError.
        """
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        encode = self.model.encode_query if kind == "query" else self.model.encode_document
        return normalised(self._run_encoder(encode, texts, convert_to_numpy=True))

    def embed_tokens(self, texts: Sequence[str]) -> list[Embeddings]:
        """Return the contextual vectors of the tokens of each text, shape (tokens, dimension).

        The first and last token, which mark the beginning and end, are omitted. Raises EmbedderError.
        """
        token_rows = self._run_encoder(
            self.model.encode, texts, output_value="token_embeddings", convert_to_numpy=False
        )
        return [normalised(rows.cpu().numpy()[1:-1]) for rows in token_rows]

    def _run_encoder(self, encode: Any, texts: Sequence[str], **options: Any) -> Any:
        """Return the result of ``encode``, a method of the model, for texts; its failures become EmbedderErrors."""
        try:
            return encode(list(texts), batch_size=self._batch, show_progress_bar=False, **options)
        except (RuntimeError, ValueError) as error:
            raise EmbedderError(f"embedder {self._name}: failed on {len(texts)} texts: {error}") from error


def _load_model(name: str, model: str, device: str | None) -> Any:
    """Return the sentence-transformers model with the name or folder ``model``, on ``device`` (None: torch chooses).

    Raises EmbedderError, whose message begins with ``name``, the name of the embedder.
    """
    from sentence_transformers import SentenceTransformer

    is_local = must_load_locally(model)
    try:
        with hide_progress_bars():
            return SentenceTransformer(model, device=device, local_files_only=is_local)
    except (OSError, RuntimeError, ValueError, ImportError) as error:
        reason = explain_missing_model(model) if is_local and isinstance(error, OSError) else ""
        raise EmbedderError(f"embedder {name}: cannot load {model!r}: {reason or error}") from error


@contextmanager
def hide_progress_bars() -> Iterator[None]:
    """Hide the progress bars of transformers in the ``with`` block, which loads a model."""
    from transformers.utils import logging as transformers_logging

    logging: Any = transformers_logging

    were_enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if were_enabled:
            logging.enable_progress_bar()
