"""Export of a BERT model to ONNX from its weights, without torch. The *graph* of a model is its operations in ONNX. In
a *quantized* graph, linear layers multiply bytes instead of floating-point numbers.

In: the folder of a sentence-transformers model (``modules.json``, ``config.json``, ``model.safetensors``,
``tokenizer.json``) whose network is BERT (Devlin et al., "BERT", NAACL 2019) and whose vector is the mean of the
tokens' vectors or the first token's (Reimers and Gurevych, "Sentence-BERT", EMNLP 2019). On disk: see
:mod:`.onnx_export`. Texts are run one by one, so there is no padding and no mask: the network has a fifth of the
operations that torch traces. Unknown settings in a folder raise :class:`~kvstore.errors.EmbedderError`, because a
network of a different kind would give wrong vectors.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import EmbedderError
from .onnx_export import save_description, save_tokenizer
from .onnx_runtime import MODEL_FILE

#: The required values of a configuration, if it has the setting.
_REQUIRED_CONFIG = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
    "is_decoder": False,
}

#: The supported modules of sentence-transformers; vectors are scaled to length 1 in any case.
_KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")

#: The versions of ONNX's operators and of its file format.
_OPSET, _IR_VERSION = 17, 8

#: The largest absolute value of a quantized weight, and the largest sum of the absolute values of two weights whose
#: products a processor adds in 16 bits (of inputs 2i and 2i + 1), so that these sums never overflow.
MAX_WEIGHT, MAX_PAIR = 127, 128
#: The minimum of GELU, rounded down. The outputs of GELU are shifted by it, so that bytes without a sign are used.
_GELU_MINIMUM = -0.17

#: The weights of a model, by name.
Tensors = dict[str, npt.NDArray[np.float32]]


def write_bert(model: Path, folder: Path, make_graph: Callable[[Tensors], BertGraph] | None = None) -> None:
    """Convert the sentence-transformers model (a BERT) in the ``model`` folder to an ONNX model in ``folder``.

    ``make_graph`` creates the ONNX graph from the weights; without it, the graph computes in float32. Raises
    EmbedderError if the model cannot be read or is not supported, and OSError if ``folder`` cannot be written.
    """
    try:
        # The folder of each module, by the name of its class, such as "Pooling".
        modules = {
            str(module["type"]).split(".")[-1]: model / module["path"] for module in _read_json(model / "modules.json")
        }
        if unknown_modules := [name for name in modules if name not in _KNOWN_MODULES]:
            raise EmbedderError(f"it has an unsupported module: {unknown_modules[0]}")
        network = modules["Transformer"]
        config = _read_json(network / "config.json")
        for name, expected in _REQUIRED_CONFIG.items():
            if config.get(name, expected) != expected:
                raise EmbedderError(f"its {name} is {config[name]!r}, but only {expected!r} is supported")
        graph = (make_graph or BertGraph)(read_safetensors(network / "model.safetensors"))
        graph.add_bert(config, use_mean=_is_mean_pooling(_read_json(modules["Pooling"] / "config.json")))
        tokenizer = _read_tokenizer(network)
        limits = _read_json(network / "sentence_bert_config.json")
        if limits.get("do_lower_case"):
            raise EmbedderError("it lowercases texts before its tokenizer, which is not supported")
        max_tokens = limits.get("max_seq_length") or _read_json(network / "tokenizer_config.json")["model_max_length"]
        max_tokens = min(int(max_tokens), int(config["max_position_embeddings"]))
        description = _read_json(model / "config_sentence_transformers.json")
        width = int(config["hidden_size"])
    except (OSError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise EmbedderError(f"{model} cannot be read as a BERT model: {error!r}") from error
    graph.save(folder / MODEL_FILE, width)
    save_tokenizer(folder, tokenizer, max_tokens)
    prompts = description.get("prompts") or {}
    save_description(folder, width, ["input_ids"], prompts, description.get("default_prompt_name"))


def _read_json(path: Path) -> Any:
    """Return the content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def _is_mean_pooling(pooling: Mapping[str, Any]) -> bool:
    """True if a text's vector is the mean of its tokens' vectors, False if it is the first token's.

    ``pooling`` is the configuration of sentence-transformers' pooling module. Raises EmbedderError for other modes, and
    if the mean leaves out the tokens of the prompt.
    """
    # The mode is one word or, in the older form, one switch per mode.
    modes = [str(pooling["pooling_mode"])] if "pooling_mode" in pooling else []
    modes += [name for name, on in pooling.items() if name.startswith("pooling_mode_") and on]
    modes = [mode.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token") for mode in modes]
    if modes not in (["mean"], ["cls"]) or not pooling.get("include_prompt", True):
        raise EmbedderError(f"its pooling is not supported: {', '.join(modes) or 'none'}")
    return modes == ["mean"]


def _read_tokenizer(network: Path) -> dict[str, Any]:
    """Return the content of ``tokenizer.json`` in the ``network`` folder of a model.

    Raises EmbedderError if the tokenizer is not BERT's.
    """
    tokenizer: dict[str, Any] = _read_json(network / "tokenizer.json")
    settings = _read_json(network / "tokenizer_config.json")
    normalizer = tokenizer["normalizer"]
    if normalizer["type"] != "BertNormalizer" or settings.get("do_lower_case", True) != normalizer["lowercase"]:
        raise EmbedderError("its tokenizer is not BERT's, or does not say if it lowercases")
    return tokenizer


def read_safetensors(path: Path) -> Tensors:
    """Return the weights in a safetensors file in float32, by their names without the prefix ``bert.``.

    The file has 8 bytes of length (little-endian), a header of this length in JSON, and the numbers
    (https://huggingface.co/docs/safetensors).
    """
    data = np.memmap(path, np.uint8, "r")
    header_end = 8 + int.from_bytes(data[:8].tobytes(), "little")
    tensors = {}
    for name, tensor in json.loads(data[8:header_end].tobytes()).items():
        if name == "__metadata__" or tensor["dtype"] not in ("F32", "F16"):
            continue  # the position ids, which are integers, are not weights
        data_start, data_end = tensor["data_offsets"]  # from the end of the header
        float_type = np.float32 if tensor["dtype"] == "F32" else np.float16
        numbers = data[header_end + data_start : header_end + data_end].view(float_type)
        tensors[name.removeprefix("bert.")] = numbers.reshape(tensor["shape"]).astype(np.float32)
    return tensors


class BertGraph:
    """An ONNX graph under construction. The methods ``_add_...`` add operations or a constant, and return the name of
    the *result*, which later operations take as an input. Each operation has the name of its result. The name of a
    layer is the prefix of its weights.
    """

    def __init__(self, weights: Tensors) -> None:
        """Create an empty ONNX graph. ``weights`` has the model's weights by name; the graph removes those it uses."""
        from onnx import helper, numpy_helper

        self._helper, self._numpy = helper, numpy_helper
        self._weights = weights
        #: The ONNX tensors of the constants, by name.
        self._constants: dict[str, Any] = {}
        #: The ONNX nodes (operations), in the order of execution.
        self._nodes: list[Any] = []

    def add_bert(self, config: Mapping[str, Any], *, use_mean: bool) -> None:
        """Add all layers of BERT to the graph, from the input ``input_ids`` to the output ``vectors``.

        ``config`` is the content of the model's ``config.json``. With ``use_mean``, the vector of a text is the mean of
        its tokens' vectors, else the vector of its first token. Raises EmbedderError if the model has weights that
        these layers do not use.
        """
        width, num_heads = int(config["hidden_size"]), int(config["num_attention_heads"])
        epsilon = float(config["layer_norm_eps"])
        # Every token of a text has type 0.
        position_table = (
            self._take_weight("embeddings.position_embeddings")
            + self._take_weight("embeddings.token_type_embeddings")[0]
        )
        tokens = self._add_word_vectors(self._take_weight("embeddings.word_embeddings"))
        # The input has a row per text; from dimension 1 on, its shape is the number of tokens.
        count = self._add_operation("Shape", ["input_ids"], "count", start=1)
        all_positions = self._add_position_table(position_table)
        positions = self._add_operation("Slice", [all_positions, self._add_integers("zero", [0]), count], "positions")
        tokens = self._add_sum(tokens, positions, "embedded")
        tokens = self._add_layer_norm(tokens, "embeddings.LayerNorm", epsilon)
        for layer_index in range(int(config["num_hidden_layers"])):
            layer = f"encoder.layer.{layer_index}"
            attended = self._add_attention(tokens, f"{layer}.attention.self", width, num_heads)
            attended = self._add_linear_layer(attended, f"{layer}.attention.output.dense")
            tokens = self._add_sum(attended, tokens, f"{layer}.attended")
            tokens = self._add_layer_norm(tokens, f"{layer}.attention.output.LayerNorm", epsilon)
            inner = self._add_gelu(self._add_linear_layer(tokens, f"{layer}.intermediate.dense"), f"{layer}.gelu")
            tokens = self._add_sum(self._add_linear_layer(inner, f"{layer}.output.dense"), tokens, f"{layer}.sum")
            tokens = self._add_layer_norm(tokens, f"{layer}.output.LayerNorm", epsilon)
        if use_mean:
            self._add_operation("ReduceMean", [tokens], "vectors", axes=[1], keepdims=0)
        else:
            self._add_operation("Gather", [tokens, self._add_integers("first", 0)], "vectors", axis=1)
        if unused_weights := [name for name in self._weights if not name.startswith("pooler.")]:
            raise EmbedderError(f"it has unsupported weights: {unused_weights[0]}")

    def save(self, path: Path, width: int) -> None:
        """Write the graph, whose vectors have ``width`` components, to ``path`` as an ONNX model."""
        import onnx

        integers, floats = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
        input_info = self._helper.make_tensor_value_info("input_ids", integers, ["texts", "tokens"])
        output_info = self._helper.make_tensor_value_info("vectors", floats, ["texts", width])
        graph = self._helper.make_graph(
            self._nodes, "bert", [input_info], [output_info], list(self._constants.values())
        )
        domains = {"": _OPSET, **{node.domain: 1 for node in self._nodes if node.domain}}
        opsets = [self._helper.make_opsetid(domain, version) for domain, version in domains.items()]
        onnx.save(self._helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION), str(path))

    def _add_word_vectors(self, table: npt.NDArray[np.float32]) -> str:
        """Add the look-up of the tokens' word vectors in ``table``; return the name of its result.

        Subclasses with a table in a different format override this.
        """
        return self._add_operation("Gather", [self._add_constant("words", table), "input_ids"], "tokens")

    def _add_position_table(self, table: npt.NDArray[np.float32]) -> str:
        """Add ``table``, the vectors of all positions, as a constant; return its name.

        Subclasses with a table in a different format override this.
        """
        return self._add_constant("position_table", table)

    def _add_attention(self, tokens: str, name: str, width: int, num_heads: int) -> str:
        """Add multi-head self-attention, softmax(q kᵀ / √d) v for each head, and return the name of its result.

        ``tokens`` names the tokens' vectors, and ``name`` the layer. A vector has ``width`` components, divided equally
        among ``num_heads`` heads. Source: Vaswani et al. 2017, formula 1.
        """
        # A dimension of 0 keeps its former size.
        head_shape = self._add_integers("heads", [0, -1, num_heads, width // num_heads])
        projections = {}
        # From (texts, tokens, heads, components), heads move before tokens; keys are also transposed, for the product.
        for layer, order in (("query", (0, 2, 1, 3)), ("key", (0, 2, 3, 1)), ("value", (0, 2, 1, 3))):
            rows = self._add_operation(
                "Reshape", [self._add_linear_layer(tokens, f"{name}.{layer}"), head_shape], f"{name}.{layer}.heads"
            )
            projections[layer] = self._add_operation("Transpose", [rows], f"{name}.{layer}.transposed", perm=order)
        products = self._add_operation("MatMul", [projections["query"], projections["key"]], f"{name}.products")
        scaled = self._add_operation(
            "Mul", [products, self._add_number("scale", math.sqrt(num_heads / width))], f"{name}.scaled"
        )
        weights = self._add_operation("Softmax", [scaled], f"{name}.softmax", axis=-1)
        attended = self._add_operation("MatMul", [weights, projections["value"]], f"{name}.attended")
        transposed = self._add_operation("Transpose", [attended], f"{name}.transposed", perm=(0, 2, 1, 3))
        merged_shape = self._add_integers("merged", [0, -1, width])
        return self._add_operation("Reshape", [transposed, merged_shape], f"{name}.merged")

    def _add_linear_layer(self, activations: str, name: str) -> str:
        """Add the linear layer ``name``: ``activations`` times its weights, plus its bias. Return its result's name."""
        matrix = self._add_constant(f"{name}.weight", self._take_weight(name).T)
        products = self._add_operation("MatMul", [activations, matrix], f"{name}.products")
        return self._add_sum(
            products, self._add_constant(f"{name}.bias", self._take_weight(name, "bias")), f"{name}.output"
        )

    def _add_gelu(self, inputs: str, name: str) -> str:
        """Add the activation function GELU, x (1 + erf(x / √2)) / 2, of the result ``inputs``; return its name.

        Source: Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016. onnxruntime recognizes and fuses the
        operations in this order.
        """
        divided = self._add_operation("Div", [inputs, self._add_number("root", math.sqrt(2))], f"{name}.divided")
        error = self._add_operation("Erf", [divided], f"{name}.erf")
        raised = self._add_sum(error, self._add_number("one", 1), f"{name}.raised")
        product = self._add_operation("Mul", [inputs, raised], f"{name}.product")
        return self._add_operation("Mul", [product, self._add_number("half", 0.5)], name)

    def _add_layer_norm(self, activations: str, name: str, epsilon: float) -> str:
        """Add the layer normalization ``name`` of the result ``activations``; return the name of its result.

        ``epsilon`` is added to the variance. Source: Ba et al., "Layer Normalization", 2016.
        """
        weight = self._add_constant(f"{name}.weight", self._take_weight(name))
        bias = self._add_constant(f"{name}.bias", self._take_weight(name, "bias"))
        return self._add_operation(
            "LayerNormalization", [activations, weight, bias], f"{name}.output", axis=-1, epsilon=epsilon
        )

    def _add_sum(self, first: str, second: str, name: str) -> str:
        """Add the sum of the results ``first`` and ``second``, and call it ``name``; return the name."""
        return self._add_operation("Add", [first, second], name)

    def _take_weight(self, name: str, parameter: str = "weight") -> npt.NDArray[np.float32]:
        """Remove the ``weight`` or ``bias`` parameter of the layer ``name`` from the model's weights, and return it.

        It is removed so that weights that the graph does not use can be found at the end. Raises KeyError if the model
        lacks it.
        """
        return self._weights.pop(f"{name}.{parameter}")

    def _add_operation(self, op_type: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        """Add an ONNX operation, such as "MatMul", to the graph; return ``name``, the name of its result.

        ``inputs`` are the names of other results or constants, and ``attributes`` the settings of the ONNX operator.
        """
        self._nodes.append(self._helper.make_node(op_type, inputs, [name], name=name, **attributes))
        return name

    def _add_constant(self, name: str, numbers: npt.ArrayLike) -> str:
        """Add ``numbers`` to the graph as a constant, unless one with this name exists; return the name."""
        if name not in self._constants:
            self._constants[name] = self._numpy.from_array(np.asarray(numbers, order="C"), name)
        return name

    def _add_integers(self, name: str, numbers: int | Sequence[int]) -> str:
        """Add an integer constant, a single number or a list; return its name."""
        return self._add_constant(name, np.array(numbers, np.int64))

    def _add_number(self, name: str, number: float) -> str:
        """Add a constant number in float32; return its name."""
        return self._add_constant(name, np.array(number, np.float32))


class _QuantizedActivations(NamedTuple):
    """Activations of an ONNX graph that are rounded to bytes, with one row per token.

    ``bytes_name`` and ``scales_name`` name the results with the bytes and with the scale of each row. Before rounding,
    ``shift`` was added to the activations, and each channel was divided by its ``channel_scales``.
    """

    bytes_name: str
    scales_name: str
    channel_scales: npt.NDArray[Any]
    shift: float


class QuantizedLayer(NamedTuple):
    """The weights of a linear layer as bytes (inputs, outputs), the scale of each output, and the bias."""

    weights: npt.NDArray[np.int8]
    scales: npt.NDArray[np.float32]
    bias: npt.NDArray[np.float32]


class QuantizedBertGraph(BertGraph):
    """A graph whose linear layers multiply bytes. *Activations* are the inputs of a layer, with a row for each token.

    Each row of activations has its own scale. Subclasses choose the scales of input channels and round the weights.
    """

    def __init__(self, weights: Tensors) -> None:
        """Create an empty ONNX graph whose linear layers multiply bytes; ``weights`` has the weights by name."""
        super().__init__(weights)
        #: The quantized activations that layers read, by the name of the result before quantization.
        self._activations_by_input: dict[str, _QuantizedActivations] = {}

    def _compute_input_scales(self, name: str) -> npt.NDArray[Any]:
        """Return the scale of each input channel of the layer ``name``; subclasses must override this.

        Layers with the same input share the scales of the first such layer.
        """
        raise NotImplementedError

    def _quantize_layer(self, name: str, scales: npt.NDArray[Any], shift: float) -> QuantizedLayer:
        """Return the layer ``name`` with its weights as bytes.

        The inputs are divided by ``scales`` after ``shift`` is added to them. Subclasses must override this.
        """
        raise NotImplementedError

    def _add_linear_layer(self, activations: str, name: str) -> str:
        """Add the linear layer ``name``, which multiplies bytes of ``activations``; return the name of its result.

        Activations that several layers read are quantized once.
        """
        if activations not in self._activations_by_input:
            self._activations_by_input[activations] = self._add_quantized_activations(activations, name)
        bytes_name, row_scales, channel_scales, shift = self._activations_by_input[activations]
        layer = self._quantize_layer(name, channel_scales, shift)
        products = self._add_operation(
            "MatMulIntegerToFloat",
            [
                bytes_name,
                self._add_constant(f"{name}.weight", layer.weights),
                self._add_number("unit", 1),  # no scale of the inputs, since each row has its own, multiplied below
                self._add_constant(f"{name}.scales", layer.scales),
                self._add_zero_point(shift),
            ],
            f"{name}.integers",
            domain="com.microsoft",
        )
        products = self._add_operation("Mul", [products, row_scales], f"{name}.products")
        return self._add_sum(products, self._add_constant(f"{name}.bias", layer.bias), f"{name}.output")

    def _add_quantized_activations(self, activations: str, name: str) -> _QuantizedActivations:
        """Add operations that round activations to bytes, with a scale for each row (the vector of a token).

        Before, each channel is divided by its own scale, and the results of GELU are shifted to be positive. ``name``
        is the first layer that reads the activations.
        """
        # A result of GELU is at least _GELU_MINIMUM; the shift makes it positive, so that all 255 steps are used.
        follows_gelu = name.endswith("output.dense") and "attention" not in name
        shift = -_GELU_MINIMUM if follows_gelu else 0.0
        scales = self._compute_input_scales(name)
        scaled = self._add_operation(
            "Mul",
            [activations, self._add_constant(f"{name}.smoothing", (1 / scales).astype(np.float32))],
            f"{name}.scaled",
        )
        if shift:
            shifts = self._add_constant(f"{name}.shifts", (shift / scales).astype(np.float32))
            scaled = magnitudes = self._add_sum(scaled, shifts, f"{name}.shifted")
        else:
            magnitudes = self._add_operation("Abs", [scaled], f"{name}.magnitudes")
        # The largest value of each row becomes the largest byte; a row of zeros must not divide by zero.
        highest = self._add_operation("ReduceMax", [magnitudes], f"{name}.highest", axes=[-1], keepdims=1)
        highest = self._add_operation("Max", [highest, self._add_number("tiny", 1e-12)], f"{name}.range")
        # Shifted activations are not negative and use all bytes; the others use half of them for each sign.
        steps = self._add_number("steps", 255) if shift else self._add_number("signed_steps", 127)
        factors = self._add_operation("Div", [steps, highest], f"{name}.factors")
        numbers = self._add_operation("Mul", [scaled, factors], f"{name}.numbers")
        bytes_name = self._add_operation(
            "QuantizeLinear", [numbers, self._add_number("unit", 1), self._add_zero_point(shift)], f"{name}.bytes"
        )
        scales_name = self._add_operation("Div", [highest, steps], f"{name}.row_scales")
        return _QuantizedActivations(bytes_name, scales_name, channel_scales=scales, shift=shift)

    def _add_zero_point(self, shift: float) -> str:
        """Add a constant with the byte that represents 0 (the zero point of the quantization), and return its name.

        Activations to which a ``shift`` was added are not negative, so their zero point is the lowest byte. The zero
        point of other activations (``shift`` 0) is the middle byte.
        """
        return self._add_constant("first_byte", np.uint8(0)) if shift else self._add_constant("middle", np.uint8(128))
