"""Export a reader as ONNX with weights of 8 bits, describe the files, and load an exported reader again.

In: a trained reader. On disk: ``reader.onnx``, with dynamically quantized matrix products and with word vectors as rows
of int8, each with a scale, which the network gathers and multiplies; ``tokenizer.json``; ``reader.json`` with the
digests of both, which kvstore checks, and of the data and the start weights.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import onnx
import torch
from network import Reader, encode_examples
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from rows import Example, compute_digest
from tokenizers import Tokenizer

#: A gathered table of at least so many rows is quantized; those of positions and types are small.
_MIN_ROWS = 10_000


def export_reader(model: Reader, tokenizer: Tokenizer, folder: Path, digests: dict[str, str]) -> None:
    """Write the quantized network, the tokenizer and the description of a reader to `folder`."""
    # The export traces the network with any example.
    example = Example("Who wrote it?", "It was written by Jane Austen in 1813.", answered=True, spans=[])
    inputs = encode_examples(tokenizer, [example])
    input_names = ["input_ids", "attention_mask", "token_type_ids"]
    axes = {0: "batch", 1: "tokens"}
    with tempfile.TemporaryDirectory() as scratch:
        original = Path(scratch) / "reader.onnx"
        torch.onnx.export(
            model.eval(),
            (inputs.ids, inputs.mask, inputs.types),
            str(original),
            input_names=input_names,
            output_names=["answered", "start", "end"],
            dynamic_axes={**dict.fromkeys([*input_names, "start", "end"], axes), "answered": {0: "batch"}},
            opset_version=17,
            dynamo=False,
        )
        quantize_reader(original, folder / "reader.onnx")
    tokenizer.save(str(folder / "tokenizer.json"))
    file_digests = {file: compute_digest(folder / file) for file in ("reader.onnx", "tokenizer.json")}
    description = {"digests": file_digests, "made_from": digests}
    (folder / "reader.json").write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")


def quantize_reader(source: Path, target: Path) -> None:
    """Write the quantized network of ``source`` to ``target``."""
    quantize_dynamic(source, target, op_types_to_quantize=["MatMul"], per_channel=True, weight_type=QuantType.QInt8)
    model = onnx.load(target)
    quantize_embeddings(model)
    onnx.save(model, target)


def load_quantized_weights(model: Reader, path: Path) -> None:
    """Copy the weights of an exported reader into the model, converted from 8 bits to floats."""
    graph = onnx.load(path).graph
    tables = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    state = {name: torch.from_numpy(table.copy()) for name, table in tables.items() if table.dtype == np.float32}
    state["words.weight"] = torch.from_numpy(tables["words.weight.rows"] * tables["words.weight.scales"])
    # The export names matrices by number. They are used in the order of the computation: first those of the layers,
    # then those of the heads, which differ in shape.
    suffix = "_quantized"
    matrices = [name.removesuffix(suffix) for node in graph.node for name in node.input if name.endswith(suffix)]
    matrices = [name for name in dict.fromkeys(matrices) if f"{name}{suffix}" in tables]
    parts = ("projection", "attention_output", "inner", "output")
    layer_parts = [f"layers.{index}.{part}" for index in range(len(model.layers)) for part in parts]
    shapes = {head: model.get_submodule(head).weight.shape for head in ("answered_inner", "span", "answered")}
    for index, name in enumerate(matrices):
        matrix = (tables[f"{name}{suffix}"] * tables[f"{name}_scale"]).T
        target = (
            layer_parts[index]
            if index < len(layer_parts)
            else next(head for head, shape in shapes.items() if shape == matrix.shape)
        )
        state[f"{target}.weight"] = torch.from_numpy(matrix.copy())
    model.load_state_dict({name: state[name] for name in model.state_dict()})


def quantize_embeddings(model: onnx.ModelProto) -> None:
    """Replace each large gathered table of float32 with rows of int8 and one scale per row."""
    graph = model.graph
    tables = {tensor.name: tensor for tensor in graph.initializer}
    nodes = []
    for node in graph.node:
        table = tables.get(node.input[0]) if node.op_type == "Gather" else None
        if table is None or table.data_type != TensorProto.FLOAT or table.dims[0] < _MIN_ROWS:
            nodes.append(node)
            continue
        values = numpy_helper.to_array(table)
        # The lower bound avoids a division by zero in rows of zeros.
        scales = np.maximum(np.abs(values).max(axis=1, keepdims=True), 1e-12) / 127
        quantized = np.rint(values / scales).astype(np.int8)
        table_name = table.name
        graph.initializer.remove(table)
        graph.initializer.extend(
            [
                numpy_helper.from_array(quantized, f"{table_name}.rows"),
                numpy_helper.from_array(scales.astype(np.float32), f"{table_name}.scales"),
            ]
        )
        ids, output = node.input[1], node.output[0]
        nodes += [
            helper.make_node("Gather", [f"{table_name}.rows", ids], [f"{output}.int8"]),
            helper.make_node("Cast", [f"{output}.int8"], [f"{output}.cast"], to=TensorProto.FLOAT),
            helper.make_node("Gather", [f"{table_name}.scales", ids], [f"{output}.scale"]),
            helper.make_node("Mul", [f"{output}.cast", f"{output}.scale"], [output]),
        ]
    del graph.node[:]
    graph.node.extend(nodes)
