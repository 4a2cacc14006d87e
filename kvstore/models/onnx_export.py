"""Exported models on disk, written completely or not at all. An export is a folder with the model (``model.onnx``, from
tokens to vectors), its tokenizer (``tokenizer.json``), and its *description* (``embedder.json``: the dimension, the
inputs of the network, the prompts, and the sizes of the files).

In: a function that writes a model to a folder (:mod:`.bert_export`, :mod:`.torch_export`). On disk: the export; with
``int8``, its weights are quantized to 8 bits. A model that cannot be exported raises
:class:`~kvstore.errors.EmbedderError` with the reason.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .onnx_runtime import DESCRIPTION_FILE, MODEL_FILE, TOKENIZER_FILE
from .protocol import TextKind

#: Names under which models store the prompt of each kind; the first one present is used.
PROMPT_NAMES: dict[TextKind, tuple[str, ...]] = {"query": ("query",), "document": ("document", "passage", "corpus")}


def get_models_folder() -> Path:
    """Return the folder in the user's cache directory that exported models are written to."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kvstore" / "models"


def export_model(write: Callable[[Path], None], folder: Path, *, int8: bool = False) -> None:
    """Create ``folder`` atomically, with the model that ``write`` writes to the folder passed to it.

    If another process creates the folder first, its model is kept. With ``int8``, the weights are quantized. Raises the
    EmbedderError of ``write``, and OSError if the folder cannot be written.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary_folder = Path(tempfile.mkdtemp(prefix=".making-", dir=folder.parent))
    try:
        write(temporary_folder)
        if int8:
            _quantize_model(temporary_folder)
        for path in temporary_folder.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        temporary_folder.rename(folder)
    except OSError:
        # If two processes export at once, the first result is used; both are equivalent.
        if not (folder / DESCRIPTION_FILE).is_file():
            raise
    finally:
        shutil.rmtree(temporary_folder, ignore_errors=True)


def save_tokenizer(folder: Path, tokenizer: dict[str, Any], max_tokens: int) -> None:
    """Write ``tokenizer`` to ``tokenizer.json``, with truncation at ``max_tokens`` and without padding.

    Texts are run one by one, so none needs padding.
    """
    truncation = {"direction": "Right", "max_length": max_tokens, "strategy": "LongestFirst", "stride": 0}
    text = json.dumps({**tokenizer, "padding": None, "truncation": truncation}, ensure_ascii=False)
    (folder / TOKENIZER_FILE).write_text(text, encoding="utf-8")


def save_description(
    folder: Path, dimension: int, inputs: Sequence[str], prompts: Mapping[str, str], default: str | None
) -> None:
    """Write ``embedder.json``: the dimension, the inputs of the network, and the prompt of each kind of text.

    ``prompts`` has the model's prompts by name. ``default`` is the name of the prompt for a kind of text that has no
    specific prompt (None: no prompt).
    """
    prompt_by_kind = {}
    for kind, names in PROMPT_NAMES.items():
        name = next((name for name in names if name in prompts), default)
        prompt_by_kind[kind] = str(prompts.get(name or "") or "")
    _write_description(folder, {"dimension": dimension, "inputs": list(inputs), "prompts": prompt_by_kind})


def _write_description(folder: Path, description: dict[str, Any]) -> None:
    """Write ``description`` to ``embedder.json``, with the sizes of the other files, by which damage is detected."""
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.name != DESCRIPTION_FILE}
    (folder / DESCRIPTION_FILE).write_text(json.dumps({**description, "sizes": sizes}), encoding="utf-8")


def _quantize_model(folder: Path) -> None:
    """Quantize the weights of matrices in the exported model to 8-bit integers, with one scale per output.

    Replaces the model file, and updates the file sizes in the description. Activations are quantized dynamically. Only
    seven bits are used: with eight, processors without 32-bit accumulation would saturate and return other results.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    description = json.loads((folder / DESCRIPTION_FILE).read_text(encoding="utf-8"))
    full_model = folder / "full.onnx"
    (folder / MODEL_FILE).rename(full_model)
    with suppress_warnings():
        quantize_dynamic(
            full_model, folder / MODEL_FILE, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True
        )
    full_model.unlink()
    _write_description(folder, description)


@contextmanager
def suppress_warnings() -> Iterator[None]:
    """Suppress warnings, logged and issued, in the ``with`` block; exporters warn about every model."""
    previous_level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(previous_level)
