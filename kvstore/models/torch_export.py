"""Export of any sentence-transformers model to ONNX by torch, verified against the original.

In: a :class:`~kvstore.models.torch_runtime.TorchRuntime` and a folder. On disk: see :mod:`.onnx_export`. A failed
export, or one with other vectors than the original, raises :class:`~kvstore.errors.EmbedderError` with the reason.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import EmbedderError
from .onnx_export import PROMPT_NAMES, save_description, save_tokenizer, suppress_warnings
from .onnx_runtime import MODEL_FILE, OnnxRuntime
from .torch_runtime import TorchRuntime

#: The largest allowed difference of a component between unit vectors of the original and of the export.
TOLERANCE = 1e-5

#: Texts for the comparison: short ones, an empty one, one beyond the limit of any model, and several scripts.
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


def export_by_tracing(original: TorchRuntime, folder: Path) -> None:
    """Write the model that torch runs to ``folder`` in ONNX; torch records its operations on sample texts (tracing).

    Raises EmbedderError if it cannot be exported or the export computes other vectors, and OSError if ``folder`` cannot
    be written.
    """
    import torch

    model = original.model.eval()
    tokenizer = getattr(model.tokenizer, "backend_tokenizer", None)
    if tokenizer is None:
        raise EmbedderError("its tokenizer runs only in transformers")
    preprocess = getattr(model, "preprocess", None) or model.tokenize
    sample_inputs = preprocess(SAMPLES[:2])
    inputs = [name for name, value in sample_inputs.items() if isinstance(value, torch.Tensor)]
    if unknown_inputs := set(inputs) - {"input_ids", "attention_mask", "token_type_ids"}:
        raise EmbedderError(f"it has unsupported inputs: {', '.join(sorted(unknown_inputs))}")
    constants = {name: value for name, value in sample_inputs.items() if name not in inputs}

    class Pipeline(torch.nn.Module):
        """All modules of the model, from tokens to vectors, as one function that torch can trace."""

        def __init__(self) -> None:
            """Register the model's modules with torch."""
            super().__init__()
            self.model = model

        def forward(self, *tensors: Any) -> Any:
            """Return the vectors of tokens; ``tensors`` are the inputs in order."""
            return self.model({**constants, **dict(zip(inputs, tensors, strict=True))})["sentence_embedding"]

    axes = {name: {0: "texts", 1: "tokens"} for name in inputs}
    try:
        with suppress_warnings():
            torch.onnx.export(
                Pipeline(),
                tuple(sample_inputs[name].to("cpu") for name in inputs),
                str(folder / MODEL_FILE),
                input_names=inputs,
                output_names=["vectors"],
                dynamic_axes={**axes, "vectors": {0: "texts"}},
                opset_version=17,
                dynamo=False,
            )
    except Exception as error:  # Tracing runs the model's own code, which can raise anything.
        raise EmbedderError(f"torch cannot export it: {error}") from error
    save_tokenizer(folder, json.loads(tokenizer.to_str()), int(model.max_seq_length))
    save_description(folder, original.dimension, inputs, model.prompts, model.default_prompt_name)
    _check_equal_vectors(original, OnnxRuntime(folder))


def _check_equal_vectors(original: TorchRuntime, exported: OnnxRuntime) -> None:
    """Raise EmbedderError if vectors of the export differ from the original's, for texts in a batch or alone."""
    for kind in PROMPT_NAMES:
        expected = original.encode(kind, SAMPLES)
        batched = exported.encode(kind, SAMPLES)
        single = np.concatenate([exported.encode(kind, [text]) for text in SAMPLES])
        max_difference = float(max(np.abs(vectors - expected).max() for vectors in (batched, single)))
        if not max_difference <= TOLERANCE:  # also if it is NaN
            raise EmbedderError(f"its export gives other vectors (a {kind} differs by {max_difference:.1e})")
