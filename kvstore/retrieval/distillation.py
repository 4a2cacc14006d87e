"""Distillation: a language model extracts *points* (statements with a score and their passages) from *evidence*, the
hits of a retrieval, before an answer is written. A *passage* is a hit in a prompt.

In some systems a model reads the evidence in batches, and the answer is written from what it extracted: the map step of
GraphRAG's global search (Edge et al. 2024, section 3.1.6), the rounds of DRIFT, the adaptive filtering of ArchRAG
(section 4.3). Their strategies implement :class:`DistillingStrategy`. In: evidence, and a :class:`Distiller` that calls
the model. Out: evidence whose chunks and lines the answer is written from. Each point is shown with the passages that
the model cited for it; a point without passages is ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import NamedTuple, Protocol

from .evidence import Evidence, Hit, Trace
from .query import Query

#: The highest score of a point.
MAX_POINT_SCORE = 100


class Point(NamedTuple):
    """A statement that a model extracted from passages.

    ``score`` is its importance for the question (1 to ``MAX_POINT_SCORE``); ``sources`` are the passages that the model
    cited for it.
    """

    description: str
    score: int
    sources: tuple[Hit, ...]


class DistillationResult(NamedTuple):
    """A model's result for some passages: its points, and follow-up questions."""

    points: list[Point]
    questions: list[str]


class Distiller(Protocol):
    """An interface to a language model that reads passages; ``trace`` collects the steps.

    Raises ModelUnavailableError if the model is unavailable. If the model's answer is unusable twice, the trace reports
    it and the result is empty.
    """

    trace: Trace

    def split_into_batches(self, question: str, passages: Sequence[Hit]) -> list[list[Hit]]:
        """Split passages, in order, into batches that each fit one prompt; omit passages that are too long for one."""
        ...

    def extract_points(self, question: str, passages: Sequence[Hit], *, num_questions: int = 0) -> DistillationResult:
        """Return points (statements with a score) that a model extracts from passages.

        The model also writes at most ``num_questions`` follow-up questions. Only the passages that fit one prompt are
        read.
        """
        ...

    def rate_passages(self, question: str, passages: Sequence[Hit]) -> list[int]:
        """Return a rating of each passage, in order: how much it helps to answer a question, from 0 to 5."""
        ...

    def retrieve(self, question: str, using: str | None = None) -> Evidence:
        """Return evidence for another question, with the clauses of the original one except its vector.

        ``using`` is the name of another strategy, which has its default options (None: the original strategy).
        """
        ...

    def open_query(self, question: str) -> AbstractContextManager[Query]:
        """Return a context manager that yields a query for ``question`` on the newest state.

        The query has the clauses of the original question except its vector. Leave the context before a model writes,
        because it holds a snapshot.
        """
        ...


class DistillingStrategy(Protocol):
    """A strategy whose evidence a model reads before the answer is written."""

    def distill(self, evidence: Evidence, distiller: Distiller) -> Evidence:
        """Return the evidence with the points that a model extracts from it, and only the passages that these cite.

        If the model extracts no points, the result has no hits.
        """
        ...


def build_distilled_evidence(evidence: Evidence, points: Sequence[Point], trace: Trace) -> Evidence:
    """Return ``evidence`` with the points, best first, and with the distinct passages that they cite as its hits.

    The steps of ``trace`` are appended to its steps. Its groups and segments are removed.
    """
    ranked_points = sorted(points, key=lambda point: -point.score)
    sources = list(dict.fromkeys(source for point in ranked_points for source in point.sources))
    hits = [replace(hit, rank=rank) for rank, hit in enumerate(sources, 1)]
    point_texts = [f"{point.description} (importance {point.score})" for point in ranked_points]
    return replace(
        evidence, hits=hits, points=point_texts, groups=[], segments=[], steps=[*evidence.steps, *trace.steps]
    )
