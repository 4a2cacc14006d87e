"""Export of a sentence-transformers model to ONNX, once, checked against the original.

In: a :class:`~kvstore.models.torch_runtime.TorchRuntime` and the folder to make. On disk: ``model.onnx`` (the whole
model, from tokens to vectors; with ``int8`` its weights quantised to 8 bits), ``tokenizer.json`` (truncation included)
and ``embedder.json`` (dimension, inputs, prompts, sizes of the files). The folder appears complete or not at
all. A model whose export fails, or gives other vectors than the original, raises
:class:`~kvstore.errors.EmbedderError` that says why.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import EmbedderError
from .onnx_runtime import DESCRIPTION, MODEL, TOKENIZER, OnnxRuntime
from .protocol import Kind
from .torch_runtime import TorchRuntime

#: The largest difference of a component, between vectors of length 1 of the original and of the export.
TOLERANCE = 1e-5

#: What both are compared on: short, empty, long beyond any limit, of several scripts, and of very different lengths.
SAMPLES = [
    "What is the capital of France?",
    "",
    "a",
    "  Blanks, TABS\tand\nline breaks  ",
    "Ein längerer Satz über Datenbanken – mit Umlauten, Gedankenstrich und «Anführung».",
    "数据库是什么？ База данных 🙂",
    "The vacuum process reclaims storage occupied by dead tuples. " * 12,
    "word " * 3000,
]
KINDS: tuple[Kind, ...] = ("query", "document")
#: Names under which models keep the prompt of each kind, the first that there is.
PROMPTS: dict[Kind, tuple[str, ...]] = {"query": ("query",), "document": ("document", "passage", "corpus")}


def export(original: TorchRuntime, folder: Path, *, int8: bool = False) -> None:
    """Make ``folder``, or leave another process's; raises EmbedderError, or OSError where it cannot be written."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".making-", dir=folder.parent))
    try:
        _write(original, made)
        _compare(original, OnnxRuntime(made))
        if int8:
            _quantise(made)
        for path in made.iterdir():
            with path.open("rb") as written:
                os.fsync(written.fileno())
        made.rename(folder)
    except OSError:
        # Of two processes that export at once, one comes second; what the first made is as good.
        if not (folder / DESCRIPTION).is_file():
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _write(original: TorchRuntime, folder: Path) -> None:
    import torch

    model = original.model.eval()
    tokenizer = getattr(model.tokenizer, "backend_tokenizer", None)
    if tokenizer is None:
        raise EmbedderError("its tokenizer is none that runs without transformers")
    features = getattr(model, "preprocess", None) or model.tokenize
    given = features(SAMPLES[:2])
    inputs = [name for name, value in given.items() if isinstance(value, torch.Tensor)]
    if unknown := set(inputs) - {"input_ids", "attention_mask", "token_type_ids"}:
        raise EmbedderError(f"it takes inputs that are not made from text here: {', '.join(sorted(unknown))}")
    constants = {name: value for name, value in given.items() if name not in inputs}

    class Pipeline(torch.nn.Module):
        """All modules of the model, from tokens to vectors."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *tensors: Any) -> Any:
            return self.model({**constants, **dict(zip(inputs, tensors, strict=True))})["sentence_embedding"]

    axes = {name: {0: "texts", 1: "tokens"} for name in inputs}
    try:
        with _quiet():
            torch.onnx.export(
                Pipeline(),
                tuple(given[name].to("cpu") for name in inputs),
                str(folder / MODEL),
                input_names=inputs,
                output_names=["vectors"],
                dynamic_axes={**axes, "vectors": {0: "texts"}},
                opset_version=17,
                dynamo=False,
            )
    except Exception as error:  # Tracing runs the model's own code, which may raise anything.
        raise EmbedderError(f"torch cannot export it: {error}") from error
    text = json.loads(tokenizer.to_str())
    text["padding"] = None
    text["truncation"] = {
        "direction": "Right",
        "max_length": int(model.max_seq_length),
        "strategy": "LongestFirst",
        "stride": 0,
    }
    (folder / TOKENIZER).write_text(json.dumps(text, ensure_ascii=False), encoding="utf-8")
    described = {
        "dimension": original.dimension,
        "inputs": inputs,
        "prompts": {kind: _prompt(model, PROMPTS[kind]) for kind in KINDS},
    }
    _describe(folder, described)


def _prompt(model: Any, names: tuple[str, ...]) -> str:
    name = next((name for name in names if name in model.prompts), model.default_prompt_name)
    return str(model.prompts.get(name) or "")


def _describe(folder: Path, described: dict[str, Any]) -> None:
    sizes = {name: (folder / name).stat().st_size for name in (MODEL, TOKENIZER)}
    (folder / DESCRIPTION).write_text(json.dumps({**described, "sizes": sizes}), encoding="utf-8")


def _compare(original: TorchRuntime, exported: OnnxRuntime) -> None:
    for kind in KINDS:
        expected = original.encode(kind, SAMPLES)
        together = exported.encode(kind, SAMPLES)
        alone = np.concatenate([exported.encode(kind, [text]) for text in SAMPLES])
        furthest = float(max(np.abs(found - expected).max() for found in (together, alone)))
        if not furthest <= TOLERANCE:
            raise EmbedderError(f"its export gives other vectors (a {kind} differs by {furthest:.1e})")


def _quantise(folder: Path) -> None:
    """Weights of matrices as 8-bit integers, each output's with a scale of its own; activations as they come.

    Seven of the bits are used, so that processors without 32-bit accumulation do not saturate and give the same.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    described = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
    full = folder / "full.onnx"
    (folder / MODEL).rename(full)
    with _quiet():
        quantize_dynamic(full, folder / MODEL, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)
    full.unlink()
    _describe(folder, described)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what exporters warn about out of our output: the comparison afterwards says whether it went well."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
