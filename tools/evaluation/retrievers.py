"""Retrievers for questions: a strategy of the store, or a system to compare it with. *Untimed* chunks are retrieved for
the measures, in addition to those that a user gets without TOP; a *segment* joins adjacent chunks.

In: a question. Out: :class:`RetrievedChunks`, the chunks, best first. The time for embedding the question is reported
separately, since it is the same for all systems.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import kvstore
from kvstore.structures.vectors.vectors import Matrix

from .measures import WORD_LIMITS, Outcome, Passages, compute_document_measures, compute_span_measures
from .passages import Passage, Texts
from .question_sets import QuestionSet

#: The number of requested chunks, large enough to contain the required number of words.
NUM_CHUNKS = 60
#: Tokens (words and marks) per word, an upper estimate so that the token limit cuts no text that is read.
TOKENS_PER_WORD = 1.3


@dataclass(frozen=True)
class RetrievedChunks:
    """The retrieved chunks, the number of ranked chunks, and the embedding time.

    ``results_by_words`` maps word counts to separate results, if these are not prefixes of the chunks.
    ``untimed_ms`` is the time to retrieve more than a user gets without TOP.
    """

    passages: Passages
    pool: int
    embedding_ms: float = 0.0
    results_by_words: Mapping[int, Passages] | None = None
    untimed_ms: float = 0.0


class Retriever(Protocol):
    """A function that returns the chunks for a question; ``name`` is its name in the report."""

    name: str

    def __call__(self, question: str) -> RetrievedChunks: ...


class StrategyRetriever:
    """A kvstore strategy (None: the session's), through the public API."""

    def __init__(
        self,
        store: kvstore.Store,
        strategy: str | None,
        options: Mapping[str, float] | None = None,
        name: str | None = None,
    ) -> None:
        """Retrieve with a strategy (None: the session's); ``name`` is its name in the report."""
        self._store = store
        self._strategy = strategy
        self._options = options
        self.name = name or strategy or store._session.settings.strategy

    def __call__(self, question: str) -> RetrievedChunks:
        """Return the hits that a user gets without TOP, followed by untimed ones, NUM_CHUNKS in all."""
        evidence = self._store.retrieve(question, using=self._strategy, options=self._options)
        embedding_ms = sum(step.milliseconds or 0.0 for step in evidence.steps if step.name.startswith("embed "))
        started = time.perf_counter()
        more_evidence = self._store.retrieve(question, using=self._strategy, top=NUM_CHUNKS, options=self._options)
        untimed_ms = 1000 * (time.perf_counter() - started)
        passages = [*_list_passages(evidence), *_list_passages(more_evidence)[len(evidence.hits) :]]
        return RetrievedChunks(passages, evidence.pool, embedding_ms, untimed_ms=untimed_ms)


class SegmentRetriever:
    """A kvstore strategy that returns segments instead of chunks, with a separate result for each number of words."""

    def __init__(self, store: kvstore.Store, strategy: str | None) -> None:
        """Retrieve segments with a strategy (None: the session's)."""
        self._store = store
        self._strategy = strategy
        self.name = f"{strategy or store._session.settings.strategy} AS SEGMENTS"

    def __call__(self, question: str) -> RetrievedChunks:
        """Return the segments for a question, and, untimed, the segments within each number of words."""
        evidence = self._retrieve(question)
        embedding_ms = sum(step.milliseconds or 0.0 for step in evidence.steps if step.name.startswith("embed "))
        started = time.perf_counter()
        results_by_words = {
            limit: _list_passages(self._retrieve(question, round(TOKENS_PER_WORD * limit))) for limit in WORD_LIMITS
        }
        untimed_ms = 1000 * (time.perf_counter() - started)
        passages = _list_passages(evidence)
        return RetrievedChunks(passages, evidence.pool, embedding_ms, results_by_words, untimed_ms)

    def _retrieve(self, question: str, within: int | None = None) -> kvstore.Evidence:
        """Retrieve segments; ``within`` limits their total length in tokens."""
        return self._store.retrieve(question, using=self._strategy, top=NUM_CHUNKS, as_segments=True, within=within)


def _list_passages(evidence: kvstore.Evidence) -> list[Passage]:
    """Return the hits of evidence as passages."""
    return [Passage(hit.document, hit.start, hit.end, hit.text) for hit in evidence.hits]


class VectorRetriever:
    """A system that takes the question's vector; the embedding is timed separately."""

    def __init__(
        self, name: str, embed: Callable[[str], Matrix], search: Callable[[str, Matrix], RetrievedChunks]
    ) -> None:
        """Retrieve with ``search``, which gets a question and the vector that ``embed`` returns for it."""
        self.name = name
        self._embed = embed
        self._search = search

    def __call__(self, question: str) -> RetrievedChunks:
        """Embed a question, search with its vector, and return the result with the time of the embedding."""
        started = time.perf_counter()
        vector = self._embed(question)
        embedding = 1000 * (time.perf_counter() - started)
        retrieved = self._search(question, vector)
        return RetrievedChunks(retrieved.passages, retrieved.pool, embedding)


def compute_outcomes(
    retriever: Retriever, question_set: QuestionSet, store: kvstore.Store, log: Callable[[str], None]
) -> list[Outcome]:
    """Return the outcome of every question of a set, in order; ``store`` contains its documents."""
    texts = Texts(store) if question_set.details else None
    retriever(question_set.questions[0].text)  # loads models and warms caches
    outcomes = []
    for num_asked, question in enumerate(question_set.questions, 1):
        started = time.perf_counter()
        retrieved = retriever(question.text)
        total_ms = 1000 * (time.perf_counter() - started) - retrieved.untimed_ms
        bare_ms = total_ms - retrieved.embedding_ms
        if texts is None:
            measures = compute_document_measures(question, retrieved.passages)
        else:
            measures = compute_span_measures(question, retrieved.passages, texts, retrieved.results_by_words)
        outcomes.append(Outcome(measures, total_ms, bare_ms, retrieved.pool))
        log(f"{question_set.name}, {retriever.name}: {num_asked} of {len(question_set.questions)} questions")
    return outcomes
