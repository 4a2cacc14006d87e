"""Rerankers: what they move, what they are called, and a cross-encoder that is really loaded and asked."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

import kvstore
from kvstore import errors

QUESTION = "Who signs the wages?"


@pytest.fixture
def filled_store(store: kvstore.Store) -> kvstore.Store:
    with store.transaction() as transaction:
        for number in range(20):
            transaction.put(f"note{number}", f"The harbour was quiet on day {number}.", title="Notes")
        transaction.put("pay", "Wages are signed by Maria Jensen.", title="Pay")
    return store


def list_keys(evidence: kvstore.Evidence) -> list[str]:
    return [hit.document for hit in evidence.hits]


def test_the_combination_joins_cosine_words_and_rank(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store(embedder="none:2")
    for key, text, cosine in (("sea", "The sea.", 1.0), ("pay", "Wages signed.", 0.9), ("tea", "Tea.", 0.5)):
        store.put(key, text, vectors=[cosine, (1 - cosine**2) ** 0.5])
    plain = store.retrieve(QUESTION, using="vector", vector=[1, 0])
    assert list_keys(plain) == ["sea", "pay", "tea"]
    moved = store.retrieve(QUESTION, using="vector", vector=[1, 0], reranker="combination")
    assert list_keys(moved) == ["pay", "sea", "tea"]
    # Cosine and BM25 stretched to 0 … 1, the latter counting half, and half of 1 / rank.
    assert [hit.score for hit in moved.hits] == pytest.approx([0.8 + 0.5 + 0.25, 1 + 0 + 0.5, 0 + 0 + 0.5 / 3])


@pytest.mark.parametrize("strategy", ["vector", "lexical", "hybrid", "bridge"])
def test_every_strategy_keeps_its_results(filled_store: kvstore.Store, strategy: str) -> None:
    plain = filled_store.retrieve(QUESTION, using=strategy, top=50)
    moved = filled_store.retrieve(QUESTION, using=strategy, top=50, reranker="combination")
    assert sorted(list_keys(plain)) == sorted(list_keys(moved))
    assert [hit.score for hit in moved.hits] == sorted((hit.score for hit in moved.hits), reverse=True)
    assert all(hit.path for hit in moved.hits)
    (step,) = [step for step in moved.steps if step.name == "rerank"]
    assert "combination" in step.detail
    assert step.count == len(plain.hits)
    assert len(filled_store.retrieve(QUESTION, using=strategy, top=1, reranker="combination").hits) == 1
    assert filled_store.retrieve(QUESTION, using=strategy, where="key = 'none'", reranker="combination").hits == []


def test_rerankers_by_clause_and_by_session(filled_store: kvstore.Store) -> None:
    steps = "EXPLAIN RETRIEVE 'Who signs the wages?' USING vector"
    assert "rerank" not in [row[0] for row in filled_store.execute(steps)]
    assert "rerank" in [row[0] for row in filled_store.execute(steps + " WITH (reranker = combination)")]
    filled_store.execute("SET reranker = combination")
    assert "rerank" in [row[0] for row in filled_store.execute(steps)]
    assert "rerank" not in [row[0] for row in filled_store.execute(steps + " WITH (reranker = none)")]
    assert "rerank" in [step.name for step in filled_store.ask(QUESTION).evidence.steps]
    assert ("reranker", "combination", False) in filled_store.settings_table()


def test_options_accept_the_values_of_with(filled_store: kvstore.Store) -> None:
    statement = "RETRIEVE 'Who signs the wages?' USING bridge WITH (reranker = combination, fill = hybrid, pool = 0.5)"
    options = {"reranker": "combination", "fill": "hybrid", "pool": 0.5}
    evidence = filled_store.retrieve(QUESTION, using="bridge", options=options)
    assert "rerank" in [step.name for step in evidence.steps]
    assert [(hit.document, hit.score) for hit in evidence.hits] == [
        (row[2], row[1]) for row in filled_store.execute(statement)
    ]
    for by_option in (
        filled_store.ask(QUESTION, using="bridge", options=options).evidence,
        filled_store.weigh(QUESTION, using="bridge", options=options)[0],
    ):
        assert "rerank" in [step.name for step in by_option.steps]
    filled_store.set("reranker", "combination")
    plain = filled_store.retrieve(QUESTION, using="vector", options={"reranker": "none"})
    assert "rerank" not in [step.name for step in plain.steps]
    with pytest.raises(errors.InputError, match="'none' and, in options, 'combination'; leave one out"):
        filled_store.retrieve(QUESTION, reranker="none", options={"reranker": "combination"})
    with pytest.raises(errors.InputError, match="option reranker must be a name .none, combination or .*., not 7"):
        filled_store.retrieve(QUESTION, options={"reranker": 7})
    with pytest.raises(errors.InputError, match=r"no option 'rerank'; it has: .*fill, reranker"):
        filled_store.retrieve(QUESTION, options={"rerank": "none"})


def test_an_invalid_name_is_answered_with_the_valid_ones(filled_store: kvstore.Store) -> None:
    with pytest.raises(errors.RerankerError, match="no reranker 'combinaton'; did you mean combination"):
        filled_store.execute("SET reranker = combinaton")
    with pytest.raises(errors.RerankerError, match="a cross-encoder by its name"):
        filled_store.retrieve(QUESTION, reranker="bm25")
    with pytest.raises(errors.StatementError, match="option reranker must be a name"):
        filled_store.execute("RETRIEVE 'x' WITH (reranker = 7)")


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("sentence_transformers") is None, reason="the extra is missing")
def test_a_cross_encoder_scores_question_and_passage_together(
    filled_store: kvstore.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from sentence_transformers import CrossEncoder
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    torch.manual_seed(7)
    words = sorted({word.lower() for word in "who signs the wages are signed by maria jensen pay . ?".split()})
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = BertConfig(vocab_size=5 + len(words), num_labels=1, **sizes)
    folder = tmp_path / "tiny"
    BertForSequenceClassification(config).save_pretrained(folder)
    BertTokenizerFast(str(vocabulary), model_max_length=64).save_pretrained(folder)

    evidence = filled_store.retrieve(QUESTION, using="vector", top=5, reranker=str(folder))
    texts = {
        hit.document: f"{hit.title}\n{hit.text}" for hit in filled_store.retrieve(QUESTION, using="vector", top=50).hits
    }
    scores = CrossEncoder(str(folder)).predict([(QUESTION, text) for text in texts.values()], show_progress_bar=False)
    expected = dict(zip(texts, map(float, scores), strict=True))
    assert [hit.score for hit in evidence.hits] == pytest.approx(sorted(expected.values(), reverse=True)[:5], abs=1e-5)
    assert [expected[hit.document] for hit in evidence.hits] == pytest.approx(
        [hit.score for hit in evidence.hits], abs=1e-5
    )
    assert f"{folder} on the candidates" in [step.detail for step in evidence.steps]

    config.num_labels = 3
    BertForSequenceClassification(config).save_pretrained(folder)
    with kvstore.open(tmp_path / "other", embedder="hashing") as other_store:
        other_store.put("pay", "Wages.")
        with pytest.raises(errors.RerankerError, match="one output"):
            other_store.retrieve(QUESTION, reranker=str(folder))
    with pytest.raises(errors.RerankerError, match="cannot be loaded"):
        filled_store.retrieve(QUESTION, reranker=str(tmp_path))
