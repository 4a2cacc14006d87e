"""The network of the answer reader: a BERT encoder with a head for "answered" and a head for the span of the answer.
It reads `[CLS] question [SEP] window [SEP]`; the window is one to three sentences.

It reads at most :data:`MAX_TOKENS` tokens, and returns `answered` [batch], a logit, and `start` and `end` [batch,
tokens], logits over the tokens of the window; every other token has :data:`OUTSIDE`.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import torch
from rows import Example, Span
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import nn
from torch.nn import functional

MAX_TOKENS = 160
MAX_SPAN_TOKENS = 30
OUTSIDE = -1e4


@dataclasses.dataclass(frozen=True)
class Inputs:
    """Encoded examples, padded to the longest; `targets` are lists of (first token, last token) per example."""

    ids: torch.Tensor
    mask: torch.Tensor
    types: torch.Tensor
    targets: list[list[Span]]


def load_tokenizer(directory: Path) -> Tokenizer:
    """Return the tokenizer of the start model with the limits of the reader."""
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS, strategy="only_second")  # cuts the window, not the question
    return tokenizer


def encode_examples(tokenizer: Tokenizer, examples: list[Example]) -> Inputs:
    """Return the inputs of the network: padded tokens, and for each window the (first, last) token of its answers."""
    encodings = tokenizer.encode_batch([(example.question, example.window) for example in examples])
    length = max(len(encoding.ids) for encoding in encodings)
    ids, mask, types = (np.zeros((len(examples), length), dtype=np.int64) for _ in range(3))
    targets = []
    for index, (example, encoding) in enumerate(zip(examples, encodings, strict=True)):
        num_tokens = len(encoding.ids)
        ids[index, :num_tokens] = encoding.ids
        mask[index, :num_tokens] = 1
        types[index, :num_tokens] = encoding.type_ids
        tokens = [  # of the window, which is the second sequence; start and end are characters
            (token, start, end)
            for token, (sequence, (start, end)) in enumerate(zip(encoding.sequence_ids, encoding.offsets, strict=True))
            if sequence == 1
        ]
        spans = []
        for span in example.spans:
            overlapping_tokens = [token for token, start, end in tokens if start < span[1] and span[0] < end]
            # An answer that extends beyond the last token was truncated.
            if overlapping_tokens and tokens[-1][2] >= span[1]:
                spans.append((overlapping_tokens[0], overlapping_tokens[-1]))
        targets.append(spans)
    return Inputs(torch.from_numpy(ids), torch.from_numpy(mask), torch.from_numpy(types), targets)


class EncoderLayer(nn.Module):
    """One transformer layer of BERT, with the three projections of attention in one matrix."""

    def __init__(self, width: int, num_heads: int, inner_width: int, dropout: float):
        """Create a layer with random weights; `inner_width` is that of the feed-forward network."""
        super().__init__()
        self.num_heads = num_heads
        self.projection = nn.Linear(width, 3 * width)
        self.attention_output = nn.Linear(width, width)
        self.attention_norm = nn.LayerNorm(width, eps=1e-12)
        self.inner = nn.Linear(width, inner_width)
        self.output = nn.Linear(inner_width, width)
        self.output_norm = nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """Return the hidden states [batch, tokens, width] after this layer, from those before it.

        `bias` [batch, 1, 1, tokens] is added to the attention scores.
        """
        batch, length, width = hidden.shape
        heads = self.projection(hidden).view(batch, length, 3, self.num_heads, width // self.num_heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4).unbind(0)
        # The export needs single operations; on a CPU they take half the time of the fused function.
        if torch.onnx.is_in_onnx_export() or hidden.device.type == "cpu":
            scores = query @ key.transpose(-1, -2) * (width // self.num_heads) ** -0.5 + bias
            context = torch.softmax(scores, dim=-1).to(value.dtype) @ value
        else:
            context = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        context = context.transpose(1, 2).reshape(batch, length, width)
        hidden = self.attention_norm(hidden + self.dropout(self.attention_output(context)))
        inner = functional.gelu(self.inner(hidden))
        return self.output_norm(hidden + self.dropout(self.output(inner)))


class Reader(nn.Module):
    """A BERT encoder with a head for "answered" and a head for the span."""

    def __init__(self, config: dict, separator: int, dropout: float = 0.1):
        """Create a reader with random weights; `config` is that of a BERT model, `separator` the id of [SEP]."""
        super().__init__()
        width = config["hidden_size"]
        self.separator = separator
        self.words = nn.Embedding(config["vocab_size"], width)
        self.positions = nn.Embedding(config["max_position_embeddings"], width)
        self.types = nn.Embedding(config["type_vocab_size"], width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(
            EncoderLayer(width, config["num_attention_heads"], config["intermediate_size"], dropout)
            for _ in range(config["num_hidden_layers"])
        )
        self.dropout = nn.Dropout(dropout)
        self.answered_inner = nn.Linear(2 * width, width)
        self.answered = nn.Linear(width, 1)
        self.span = nn.Linear(width, 2)
        for head in (self.answered_inner, self.answered, self.span):
            nn.init.normal_(head.weight, std=0.02)
            nn.init.zeros_(head.bias)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the logits `answered` [batch], and `start` and `end` [batch, tokens], from [batch, tokens] inputs."""
        positions = torch.arange(ids.shape[1], device=ids.device)
        hidden = self.dropout(self.norm(self.words(ids) + self.positions(positions) + self.types(types)))
        bias = (1.0 - mask[:, None, None, :].to(hidden.dtype)) * OUTSIDE
        for layer in self.layers:
            hidden = layer(hidden, bias)
        # The tokens of the window have the type 1, those of the question the type 0.
        is_window = (mask * types * (ids != self.separator)).to(hidden.dtype)
        mean = (hidden * is_window[:, :, None]).sum(1) / is_window.sum(1, keepdim=True).clamp(min=1.0)
        pooled = functional.gelu(self.answered_inner(torch.cat([hidden[:, 0], mean], dim=-1)))
        logits = self.span(hidden) + (1.0 - is_window[:, :, None]) * OUTSIDE
        return self.answered(self.dropout(pooled)).squeeze(-1), logits[..., 0], logits[..., 1]


def build_reader(start: Path, dropout: float) -> Reader:
    """Return a reader whose encoder has the weights of the BERT model in the folder `start`."""
    config = json.loads((start / "config.json").read_text(encoding="utf-8"))
    model = Reader(config, load_tokenizer(start).token_to_id("[SEP]"), dropout)
    with torch.no_grad():
        load_start_weights(model, start / "model.safetensors")
    return model


def load_start_weights(model: Reader, path: Path) -> None:
    """Copy the weights of a BERT encoder into the model; the file has them under the names of transformers."""
    weights = load_file(path)
    state = model.state_dict()
    names = {
        "words.weight": "embeddings.word_embeddings.weight",
        "positions.weight": "embeddings.position_embeddings.weight",
        "types.weight": "embeddings.token_type_embeddings.weight",
        "norm.weight": "embeddings.LayerNorm.weight",
        "norm.bias": "embeddings.LayerNorm.bias",
    }
    parts = {
        "attention_output": "attention.output.dense",
        "attention_norm": "attention.output.LayerNorm",
        "inner": "intermediate.dense",
        "output": "output.dense",
        "output_norm": "output.LayerNorm",
    }
    for layer_index in range(len(model.layers)):
        for kind in ("weight", "bias"):
            source_name = f"encoder.layer.{layer_index}"
            for part, name in parts.items():
                names[f"layers.{layer_index}.{part}.{kind}"] = f"{source_name}.{name}.{kind}"
            projections = [weights[f"{source_name}.attention.self.{name}.{kind}"] for name in ("query", "key", "value")]
            state[f"layers.{layer_index}.projection.{kind}"].copy_(torch.cat(projections))
    for name, source_name in names.items():
        state[name].copy_(weights[source_name])
