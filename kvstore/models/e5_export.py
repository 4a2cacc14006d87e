"""Export of multilingual-e5-small to ONNX with weights of 8 bits. *Activations* are the inputs of a layer: a row for
each token, a channel for each component. *Smoothing* divides channels with extreme activations by a factor, so that
they can be rounded to bytes.

In: the weights of 4 bits (:mod:`.e5_weights`). On disk: see :mod:`.onnx_export`; the vocabulary takes the place of the
tokenizer's file. The word vectors keep their 4 bits. Each row of activations has its own scale, so a row never depends
on other tokens or texts. ``smoothing.bin`` moves powers of two from channels with large activations to their weights
(Xiao et al., "SmoothQuant", ICML 2023); ``tools/measure_smoothing.py`` wrote it. Two weights that a processor adds in
16 bits have absolute values of at most 128 together, so that all processors return the same sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .bert_export import MAX_PAIR, MAX_WEIGHT, BertGraph, QuantizedBertGraph, QuantizedLayer, Tensors
from .e5_weights import (
    BLOCK,
    EPSILON,
    INNER_WIDTH,
    MAX_TOKENS,
    NUM_HEADS,
    NUM_LAYERS,
    NUM_WORDS,
    VOCABULARY_FILE,
    WIDTH,
    E5Weights,
)
from .onnx_export import save_description
from .onnx_runtime import MODEL_FILE

SMOOTHING_FILE = Path(__file__).parent / "e5" / "smoothing.bin"

#: The settings of the network, as BERT's configuration names them.
CONFIG = {
    "hidden_size": WIDTH,
    "num_attention_heads": NUM_HEADS,
    "num_hidden_layers": NUM_LAYERS,
    "layer_norm_eps": EPSILON,
}
#: BERT's names of a layer's matrices and biases, with their names in the file.
_LINEAR_NAMES = {
    "attention.self.query": "q",
    "attention.self.key": "k",
    "attention.self.value": "v",
    "attention.output.dense": "ao",
    "intermediate.dense": "fi",
    "output.dense": "fo",
}
_NORM_NAMES = {"attention.output.LayerNorm": "aln", "output.LayerNorm": "oln"}


def write_e5(folder: Path) -> None:
    """Write the installed model multilingual-e5-small to ``folder`` in ONNX.

    Raises EmbedderError if its package is missing or damaged, and OSError if ``folder`` cannot be written.
    """
    weights = E5Weights()
    graph = QuantizedE5Graph(weights, read_smoothing())
    graph.add_bert(CONFIG, use_mean=True)
    graph.save(folder / MODEL_FILE, WIDTH)
    (folder / VOCABULARY_FILE).write_bytes(weights.get_vocabulary())
    prompts = {"query": "query: ", "passage": "passage: "}
    save_description(folder, WIDTH, inputs=["input_ids"], prompts=prompts, default=None)


def read_tensors(weights: E5Weights) -> Tensors:
    """Return the model's weights in float32 by BERT's names.

    The table of word vectors is empty, since the graph uses them in 4 bits.
    """
    tensors: Tensors = {
        "embeddings.word_embeddings.weight": np.zeros((0, WIDTH), np.float32),
        "embeddings.position_embeddings.weight": weights.read_floats("emb.pos").reshape(MAX_TOKENS, WIDTH),
        "embeddings.token_type_embeddings.weight": weights.read_floats("emb.type").reshape(-1, WIDTH),
        "embeddings.LayerNorm.weight": weights.read_floats("emb.ln.w"),
        "embeddings.LayerNorm.bias": weights.read_floats("emb.ln.b"),
    }
    for layer_index in range(NUM_LAYERS):
        layer = f"encoder.layer.{layer_index}"
        for name, short_name in _LINEAR_NAMES.items():  # ``fi`` is the only layer with the inner width as its output
            integers, scales = weights.read_quantized(
                f"l{layer_index}.{short_name}.w", INNER_WIDTH if short_name == "fi" else WIDTH
            )
            tensors[f"{layer}.{name}.weight"] = (integers * scales[..., None]).reshape(len(integers), -1)
            tensors[f"{layer}.{name}.bias"] = weights.read_floats(f"l{layer_index}.{short_name}.b")
        for name, short_name in _NORM_NAMES.items():
            tensors[f"{layer}.{name}.weight"] = weights.read_floats(f"l{layer_index}.{short_name}.w")
            tensors[f"{layer}.{name}.bias"] = weights.read_floats(f"l{layer_index}.{short_name}.b")
    return tensors


def iter_smoothed_layers() -> Iterator[tuple[str, int]]:
    """Yield the name and the number of inputs of each layer with smoothed inputs, in the order of ``smoothing.bin``.

    The inputs of an attention's output layer are averages, which have no extreme channels, so they are not smoothed.
    Query, key and value share their input, so only the query is listed.
    """
    for layer_index in range(NUM_LAYERS):
        yield f"encoder.layer.{layer_index}.attention.self.query", WIDTH
        yield f"encoder.layer.{layer_index}.intermediate.dense", WIDTH
        yield f"encoder.layer.{layer_index}.output.dense", INNER_WIDTH


def read_smoothing() -> dict[str, npt.NDArray[np.float32]]:
    """Return the smoothing factor of each input channel, by layer (Xiao et al., "SmoothQuant", 2023).

    The factors are powers of two; the ``smoothing.bin`` file has their exponents as signed bytes.
    """
    factors = np.exp2(np.fromfile(SMOOTHING_FILE, np.int8).astype(np.float32))
    smoothing = {}
    for name, width in iter_smoothed_layers():
        smoothing[name], factors = factors[:width], factors[width:]
    return smoothing


class E5Graph(BertGraph):
    """A graph of the model in float32, with word vectors of 4 bits."""

    def __init__(self, weights: E5Weights) -> None:
        """Create an empty ONNX graph with the model's weights; the word vectors stay in 4 bits."""
        super().__init__(read_tensors(weights))
        self._words = weights.read_quantized("emb.word", NUM_WORDS)

    def _add_word_vectors(self, table: npt.NDArray[np.float32]) -> str:
        """Add an operation that looks up the tokens' word vectors in a table of 4 bits; return the name of its result.

        ``table``, the argument of the base class, is empty and unused: the large table is not read in float32.
        """
        integers, scales = self._words
        # Two weights of 4 bits per byte, the first in the low bits.
        nibbles = integers.reshape(NUM_WORDS, WIDTH).view(np.uint8) & 15
        packed = nibbles[:, ::2] | nibbles[:, 1::2] << 4
        four_bits = self._helper.TensorProto.INT4
        self._constants["words"] = self._helper.make_tensor(
            "words", four_bits, [NUM_WORDS, WIDTH], packed.tobytes(), raw=True
        )
        inputs = ["words", "input_ids", self._add_constant("words.scales", scales)]
        return self._add_operation(
            "GatherBlockQuantized",
            inputs,
            "tokens",
            domain="com.microsoft",
            block_size=BLOCK,
            gather_axis=0,
            quantize_axis=1,
        )


class QuantizedE5Graph(E5Graph, QuantizedBertGraph):
    """A graph of the model with linear layers that multiply bytes, and with word vectors of 4 bits."""

    def __init__(self, weights: E5Weights, smoothing: dict[str, npt.NDArray[np.float32]]) -> None:
        """Create an empty ONNX graph; ``smoothing`` has the factors of each layer's input channels, by layer name."""
        super().__init__(weights)
        self._smoothing = smoothing

    def _compute_input_scales(self, name: str) -> npt.NDArray[np.float32]:
        """Return the factors by which a layer's input channels are divided before they are quantized (SmoothQuant).

        They are 1 for a layer whose inputs are not smoothed.
        """
        if name in self._smoothing:
            return self._smoothing[name]
        _, num_inputs = self._weights[f"{name}.weight"].shape
        return np.ones(num_inputs, np.float32)

    def _quantize_layer(self, name: str, scales: npt.NDArray[np.float32], shift: float) -> QuantizedLayer:
        """Return the layer ``name`` with its weights as bytes.

        ``scales`` are the smoothing factors of the inputs. The effect of the ``shift`` of the inputs is subtracted from
        the bias.
        """
        integers, column_scales = _round_matrix(self._take_weight(name) * scales)
        bias = self._take_weight(name, "bias")
        if shift:
            shift_products = (integers / scales.astype(np.float64)).sum(axis=1) * shift * column_scales
            bias = bias - shift_products.astype(np.float32)
        return QuantizedLayer(integers.T, column_scales, bias)


def _round_matrix(matrix: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Return a matrix (outputs, inputs) rounded to signed bytes, and the scale of each output.

    The scales are chosen so that no magnitude exceeds ``MAX_WEIGHT``, and the magnitudes of inputs 2i and 2i + 1 sum to
    at most ``MAX_PAIR``. A processor adds the products of such a pair in 16 bits, which then never overflow.
    """
    magnitudes = np.abs(matrix)
    # One less than MAX_PAIR, because rounding can increase both by a half.
    pair_scales = (magnitudes[:, ::2] + magnitudes[:, 1::2]).max(axis=1) / np.float32(MAX_PAIR - 1)
    scales = np.maximum(magnitudes.max(axis=1) / np.float32(MAX_WEIGHT), pair_scales)
    return np.rint(matrix / scales[:, None]).astype(np.int8), scales
