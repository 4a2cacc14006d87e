"""Tests of the cache of sentence vectors: the same vectors and answers as without it, within its limit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

import kvstore
from kvstore.answering.answer import Answer
from kvstore.models.embedder import EmbeddingCache
from kvstore.models.hashing import HashingEmbedder
from kvstore.models.protocol import Embeddings

TEXTS = ["The lamp was lit in 1861.", "The keeper is Ewan Strand.", "Tea is made from leaves."]


class CountingEmbedder(HashingEmbedder):
    """An embedder that records the texts that it embeds."""

    def __init__(self) -> None:
        super().__init__()
        self.embedded_texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> Embeddings:
        self.embedded_texts += texts
        return super().embed(texts)


def describe_answer(answer: Answer) -> tuple[object, ...]:
    """Return an answer without the times of its steps."""
    return answer.text, answer.citations, answer.weighed, answer.evidence.hits


def test_each_text_is_embedded_once() -> None:
    embedder, cache = CountingEmbedder(), EmbeddingCache()
    expected = HashingEmbedder().embed(TEXTS)
    assert np.array_equal(cache.embed(TEXTS[:2], embedder.embed), expected[:2])
    assert np.array_equal(cache.embed([TEXTS[2], TEXTS[0], TEXTS[2]], embedder.embed), expected[[2, 0, 2]])
    assert embedder.embedded_texts == TEXTS
    assert cache.embed([], lambda texts: np.empty((0, 256), np.float32)).shape == (0, 256)


def test_the_least_recently_used_vectors_are_dropped() -> None:
    embedder = CountingEmbedder()
    cache = EmbeddingCache(max_bytes=2 * embedder.embed(["one"]).nbytes)
    embedder.embedded_texts.clear()
    for text in (TEXTS[0], TEXTS[1], TEXTS[0], TEXTS[2], TEXTS[0], TEXTS[1]):
        cache.embed([text], embedder.embed)
    assert embedder.embedded_texts == [TEXTS[0], TEXTS[1], TEXTS[2], TEXTS[1]]


def test_a_call_larger_than_the_limit_returns_every_vector() -> None:
    embedder = HashingEmbedder()
    cache = EmbeddingCache(max_bytes=1)
    for _ in range(2):
        assert np.array_equal(cache.embed(TEXTS, embedder.embed), embedder.embed(TEXTS))


def test_an_answer_is_the_same_the_second_time_and_after_changes(tmp_path: Path) -> None:
    embedder = CountingEmbedder()
    question = "Who is the keeper?"
    with kvstore.open(tmp_path / "store", embedder=embedder) as store:
        for number, text in enumerate(TEXTS):
            store.put(f"{number}.txt", text)
        answer = store.ask(question)
        embedder.embedded_texts.clear()
        assert describe_answer(store.ask(question)) == describe_answer(answer)
        assert not set(TEXTS) & set(embedder.embedded_texts)
        store.put("1.txt", "The keeper is Moira Keane.")
        changed = store.ask(question)
        assert "Moira Keane" in changed.text
    with kvstore.open(tmp_path / "other", embedder=HashingEmbedder()) as other:
        for number, text in enumerate([TEXTS[0], "The keeper is Moira Keane.", TEXTS[2]]):
            other.put(f"{number}.txt", text)
        assert describe_answer(other.ask(question)) == describe_answer(changed)
