"""The measures of answers, against examples worked by hand."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstore.models.embedder import open_embedder

TEXTS = st.text("ab cd the.", max_size=30)


def loaded() -> ModuleType:
    path = Path(__file__).resolve().parent.parent / "tools" / "answer_metrics.py"
    spec = importlib.util.spec_from_file_location("answer_metrics", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


METRICS = loaded()
ANSWER, GOLD = "The cat sat on the mat.", "the cat lay on a mat"


def test_rouge_counts_shared_runs_of_words() -> None:
    # The answer: the cat sat on the mat. Shared words: the, cat, on, mat, 4 of 6 and 6.
    assert METRICS.rouge_n(ANSWER, GOLD, 1) == pytest.approx(2 * 4 / 12)
    # Shared pairs: "the cat", 1 of 5 and 5.
    assert METRICS.rouge_n(ANSWER, GOLD, 2) == pytest.approx(1 / 5)
    # Longest common subsequence: the cat on mat.
    assert METRICS.rouge_l(ANSWER, GOLD) == pytest.approx(4 / 6)
    assert METRICS.rouge_l("police killed the gunman", "the gunman police killed") == pytest.approx(2 / 4)


def test_f1_leaves_articles_out() -> None:
    # cat sat on mat, against cat lay on mat.
    assert METRICS.token_f1(ANSWER, GOLD) == pytest.approx(3 / 4)
    assert METRICS.token_f1("The Beatles", "beatles!") == 1
    assert METRICS.token_f1("the", "a") == 0


def test_bleu_clips_counts_adds_one_and_punishes_shortness() -> None:
    # Papineni et al., example 2: "the" seven times, of which the reference allows two.
    repeated = METRICS.bleu(["the the the the the the the"], [["the cat is on the mat"]])
    expected = [2 / 7, 1 / 7, 1 / 6, 1 / 5]
    assert repeated == pytest.approx(math.exp(sum(map(math.log, expected)) / 4))
    # One of two answers is right: 1 word of 2, no longer runs; 3 words against 2 of the references.
    short = METRICS.bleu(["Paris", "Rome"], [["Paris"], ["in Berlin"]])
    assert short == pytest.approx(math.exp(1 - 3 / 2) * (1 / 2) ** (1 / 4))
    assert METRICS.bleu(["It was a cat"], [["It was a dog", "it was a cat"]]) == pytest.approx(1)
    assert METRICS.bleu(["nothing"], [["something else"]]) == 0


def test_bertscore_matches_greedily() -> None:
    answer = np.array([[1, 0], [0, 1]], np.float32)
    gold = np.array([[1, 0], [0.6, 0.8], [0.6, 0.8]], np.float32)
    precision, recall = (1 + 0.8) / 2, (1 + 0.8 + 0.8) / 3
    assert METRICS.bertscore(answer, gold) == pytest.approx(2 * precision * recall / (precision + recall))
    assert METRICS.bertscore(answer, gold[:0]) == 0


def test_all_of_them_together_take_the_best_reference_and_no_citations() -> None:
    scores = METRICS.answer_scores(
        ["It is Paris. [1, 2]", ""], [["Rome", "it is Paris"], ["Berlin"]], open_embedder("hashing")
    )
    assert scores == pytest.approx(
        {"rouge1": 0.5, "rouge2": 0.5, "rougeL": 0.5, "f1": 0.5, "bertscore": 0.5, "bleu": math.exp(1 - 4 / 3)}
    )


@given(TEXTS, TEXTS)
def test_measures_stay_in_their_bounds_and_know_the_same(first: str, second: str) -> None:
    for measure in (lambda a, b: METRICS.rouge_n(a, b, 2), METRICS.rouge_l, METRICS.token_f1):
        assert 0 <= measure(first, second) <= 1
        assert measure(first, second) == pytest.approx(measure(second, first))
    if METRICS._words(first):
        assert METRICS.rouge_l(first, first) == METRICS.rouge_n(first, first, 1) == 1
        assert METRICS.bleu([first], [[first]]) == pytest.approx(1)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("sentence_transformers") is None, reason="the extra `local` is missing")
def test_bertscore_with_tokens_in_their_context() -> None:
    embedder = open_embedder()
    same = METRICS.answer_scores(["He sat by the river bank"], [["He sat by the river bank"]], embedder)
    near = METRICS.answer_scores(["He sat on the shore"], [["He sat by the river bank"]], embedder)
    far = METRICS.answer_scores(["Money is lent here"], [["He sat by the river bank"]], embedder)
    assert same["bertscore"] == pytest.approx(1, abs=1e-4)
    assert same["bertscore"] > near["bertscore"] > far["bertscore"]
