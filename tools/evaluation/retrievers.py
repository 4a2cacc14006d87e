"""Retrievers for questions: a strategy of the store, or a system to compare it with.

In: a question. Out: :class:`Retrieved`, the chunks, best first. The time for embedding the question is reported
separately, since it is the same for all systems.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import kvstore
from kvstore.structures.vectors.vectors import Matrix

from .measures import WORDS, Found, Outcome, measure, measure_spans
from .passages import Passage, Texts
from .question_sets import QuestionSet

#: The number of requested chunks, large enough to contain the required number of words.
CHUNKS = 60
#: Tokens (words and marks) per word, an upper estimate so that the token limit cuts no text that is read.
TOKENS_A_WORD = 1.3


@dataclass(frozen=True)
class Retrieved:
    """The retrieved chunks, the number of ranked chunks, and the embedding time.

    ``within`` maps word counts to separate results, if these are not prefixes of the chunks. ``untimed_ms`` is the time
    to retrieve more than a user gets without TOP.
    """

    found: Found
    pool: int
    embedding_ms: float = 0.0
    within: Mapping[int, Found] | None = None
    untimed_ms: float = 0.0


class Retriever(Protocol):
    """A retriever of documents for a question."""

    name: str

    def __call__(self, question: str) -> Retrieved: ...


class StrategyRetriever:
    """A strategy of kvstore (None: the one of the session), through the public API."""

    def __init__(
        self,
        store: kvstore.Store,
        strategy: str | None,
        options: Mapping[str, float] | None = None,
        name: str | None = None,
    ) -> None:
        self._store = store
        self._using = strategy
        self._options = options
        self.name = name or strategy or store._session.settings.strategy

    def __call__(self, question: str) -> Retrieved:
        evidence = self._store.retrieve(question, using=self._using, options=self._options)
        embedding = sum(step.milliseconds or 0.0 for step in evidence.steps if step.name.startswith("embed "))
        started = time.perf_counter()
        more_evidence = self._store.retrieve(question, using=self._using, top=CHUNKS, options=self._options)
        milliseconds = 1000 * (time.perf_counter() - started)
        passages = [*_list_passages(evidence), *_list_passages(more_evidence)[len(evidence.hits) :]]
        return Retrieved(passages, evidence.pool, embedding, None, milliseconds)


class SegmentRetriever:
    """A strategy whose ranking is returned as segments, computed separately for each number of words."""

    def __init__(self, store: kvstore.Store, strategy: str | None) -> None:
        self._store = store
        self._using = strategy
        self.name = f"{strategy or store._session.settings.strategy} AS SEGMENTS"

    def __call__(self, question: str) -> Retrieved:
        evidence = self._retrieve(question)
        embedding = sum(step.milliseconds or 0.0 for step in evidence.steps if step.name.startswith("embed "))
        started = time.perf_counter()
        within = {words: _list_passages(self._retrieve(question, round(TOKENS_A_WORD * words))) for words in WORDS}
        milliseconds = 1000 * (time.perf_counter() - started)
        return Retrieved(_list_passages(evidence), evidence.pool, embedding, within, milliseconds)

    def _retrieve(self, question: str, within: int | None = None) -> kvstore.Evidence:
        """Retrieve segments; ``within`` limits their total length in tokens."""
        return self._store.retrieve(question, using=self._using, top=CHUNKS, as_segments=True, within=within)


def _list_passages(evidence: kvstore.Evidence) -> list[Passage]:
    """Return the hits of evidence as passages."""
    return [Passage(hit.document, hit.start, hit.end, hit.text) for hit in evidence.hits]


class VectorRetriever:
    """A system that takes the question's vector; the embedding is timed separately."""

    def __init__(self, name: str, embed: Callable[[str], Matrix], search: Callable[[str, Matrix], Retrieved]) -> None:
        self.name = name
        self._embed = embed
        self._search = search

    def __call__(self, question: str) -> Retrieved:
        started = time.perf_counter()
        vector = self._embed(question)
        embedding = 1000 * (time.perf_counter() - started)
        retrieved = self._search(question, vector)
        return Retrieved(retrieved.found, retrieved.pool, embedding)


def compute_outcomes(
    retriever: Retriever, questions: QuestionSet, store: kvstore.Store, log: Callable[[str], None]
) -> list[Outcome]:
    """Return the outcome of every question of a set, in order; ``store`` holds its documents."""
    texts = Texts(store) if questions.details else None
    retriever(questions.questions[0].text)  # loads models and warms caches
    outcomes = []
    for number, question in enumerate(questions.questions, 1):
        started = time.perf_counter()
        retrieved = retriever(question.text)
        milliseconds = 1000 * (time.perf_counter() - started) - retrieved.untimed_ms
        bare_milliseconds = milliseconds - retrieved.embedding_ms
        passages = retrieved.found
        within = retrieved.within
        measures = measure(question, passages) if texts is None else measure_spans(question, passages, texts, within)
        outcomes.append(Outcome(measures, milliseconds, bare_milliseconds, retrieved.pool))
        log(f"{questions.name}, {retriever.name}: {number} of {len(questions.questions)} questions")
    return outcomes
