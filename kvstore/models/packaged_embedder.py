"""The default embedder: all-MiniLM-L6-v2 with weights of 8 bits, which are part of kvstore. A store records their
*digest*, the beginning of a SHA-256, because other weights give other vectors.

In: texts; the model reads the first 256 tokens. Out: its vectors, scaled to length 1. ``tools/quantize_embedder.py``
made the files in ``minilm`` from the original weights. Their digest is checked when they are loaded. onnxruntime runs
the model; nothing is downloaded or exported. Missing packages and damaged files raise EmbedderError.

Source: Wang et al., "MiniLM", NeurIPS 2020, tuned on a billion sentence pairs; Apache License 2.0.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path

from ..errors import EmbedderError
from ..extensions.extras import find_first_missing
from .onnx_runtime import DESCRIPTION_FILE, MODEL_FILE, TOKENIZER_FILE, OnnxRuntime, Tokenize
from .protocol import DEFAULT_EMBEDDER, RuntimeEmbedder
from .wordpiece_tokenizer import WordPieceTokenizer

WEIGHTS_FOLDER = Path(__file__).parent / "minilm"

#: The SHA-256 of ``model.safetensors`` of the original, all-MiniLM-L6-v2 with weights in float32.
ORIGINAL_DIGEST = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

#: The number of hexadecimal digits of a digest in the settings of a store.
_RECORDED_DIGITS = 16


class PackagedEmbedder(RuntimeEmbedder):
    """The default embedder. It loads its weights on first use."""

    dimension = 384
    name = DEFAULT_EMBEDDER
    description = "all-MiniLM-L6-v2, 384 dimensions, run in this process with 8-bit weights"

    @property
    def weights(self) -> str:
        """The digest of the weights, which stores record."""
        return get_weights_digest()

    def _open_runtime(self) -> OnnxRuntime:
        """Load the model that is part of kvstore. Raises EmbedderError if a package is missing or a file is damaged."""
        if find_first_missing(("onnxruntime",)) is not None:
            raise EmbedderError(
                f"embedder {DEFAULT_EMBEDDER} needs the package onnxruntime; run pip install onnxruntime"
            )
        try:
            if compute_digest(WEIGHTS_FOLDER) != _read_digest():
                raise ValueError("their SHA-256 is not the recorded one")
            return OnnxRuntime(WEIGHTS_FOLDER, _load_tokenizer)
        except (OSError, ValueError) as error:
            raise EmbedderError(
                f"the weights of {DEFAULT_EMBEDDER} in {WEIGHTS_FOLDER} are damaged ({error}); install kvstore again"
            ) from error


@cache
def get_weights_digest() -> str:
    """Return the digest of the default embedder's weights, as stores record it (the first 16 hexadecimal digits).

    The file of the digest is read once per process. Raises EmbedderError if it cannot be read.
    """
    try:
        return _read_digest()[:_RECORDED_DIGITS]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise EmbedderError(
            f"{WEIGHTS_FOLDER / DESCRIPTION_FILE} cannot be read ({error}); install kvstore again"
        ) from error


def load_vocabulary() -> frozenset[str]:
    """Return the pieces of words that the default embedder knows, among them 20,000 frequent words of English.

    A piece that continues a word begins with ``##``. Raises EmbedderError if the file cannot be read.
    """
    path = WEIGHTS_FOLDER / TOKENIZER_FILE
    try:
        return frozenset(json.loads(path.read_text(encoding="utf-8"))["model"]["vocab"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise EmbedderError(f"{path} cannot be read ({error}); install kvstore again") from error


def _load_tokenizer(folder: Path) -> Tokenize:
    """Load the tokenizer of the default embedder; return a function from a batch of texts to their token ids."""
    tokenizer = WordPieceTokenizer(json.loads((folder / TOKENIZER_FILE).read_text(encoding="utf-8")))
    return lambda texts: list(map(tokenizer.encode, texts))


def _read_digest() -> str:
    """Return the SHA-256 of the default model's files that ``embedder.json`` records."""
    description = json.loads((WEIGHTS_FOLDER / DESCRIPTION_FILE).read_text(encoding="utf-8"))
    return str(description["sha256"])


def compute_digest(folder: Path, tokenizer_file: str = TOKENIZER_FILE) -> str:
    """Return a hexadecimal SHA-256 of the digests of ``model.onnx`` and ``tokenizer_file`` in a folder."""
    digest = hashlib.sha256()
    for name in (MODEL_FILE, tokenizer_file):
        with (folder / name).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
