"""Distillation: what a language model takes from evidence before an answer is written from it.

Some systems have a model read what was found in parts, and write the answer from what it took from each: the map step
of GraphRAG's global search (Edge et al. 2024, section 3.1.6), the rounds of DRIFT, the adaptive filtering of ArchRAG
(section 4.3). A strategy that does so is :class:`DistillingStrategy`. In: evidence, and a :class:`Distiller` that asks the
model. Out: evidence again, whose chunks and lines the answer is written from; the points that a model made are told
beside the passages that it named for them, and count for nothing without those.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from .evidence import Evidence, Hit, Trace
from .query import Query

#: The most that a point counts.
MAX_POINT_SCORE = 100


class Point(NamedTuple):
    """What a model took from passages: in a sentence, how much it says about the question (1 to ``MAX_POINT_SCORE``), and the
    passages that say it."""

    description: str
    score: int
    sources: tuple[Hit, ...]


@dataclass(frozen=True, slots=True)
class DistillationResult:
    """What a model made of some passages: its points, and what should be asked next."""

    points: list[Point]
    questions: list[str]


class Distiller(Protocol):
    """Has a language model read passages; ``trace`` gathers what was done.

    A model that is down raises ModelUnavailableError; one whose answer was twice of no use is said so in the trace, and
    gives nothing.
    """

    trace: Trace

    def split_into_batches(self, question: str, passages: Sequence[Hit]) -> list[list[Hit]]:
        """Passages in order, in as many parts as it takes to read all of them; one too long for a prompt is left
        out."""
        ...

    def read(self, question: str, passages: Sequence[Hit], *, questions: int = 0) -> DistillationResult:
        """The points of some passages, as many as fit a prompt, and at most so many ``questions`` to ask next."""
        ...

    def rate(self, question: str, passages: Sequence[Hit]) -> list[int]:
        """How much each of some passages may help to answer a question, from 0 (not at all) to 5."""
        ...

    def retrieve(self, question: str, using: str | None = None) -> Evidence:
        """Evidence for another question, with the same clauses; by another strategy, with its own options."""
        ...

    def open_query(self, question: str) -> AbstractContextManager[Query]:
        """A question with the same clauses, on the newest state of the store: hold it for as long as something is read,
        not while a model writes."""
        ...


class DistillingStrategy(Protocol):
    """A strategy that has a model read what it found."""

    def distil(self, evidence: Evidence, distiller: Distiller) -> Evidence:
        """The evidence to answer from; with no hits where the model found nothing of use."""
        ...


def build_distilled_evidence(evidence: Evidence, points: Sequence[Point], trace: Trace) -> Evidence:
    """Evidence made of points, best first: their sources as hits, each once, and what they say as points."""
    ranked_points = sorted(points, key=lambda point: -point.score)
    sources = list(dict.fromkeys(source for point in ranked_points for source in point.sources))
    hits = [replace(hit, rank=rank) for rank, hit in enumerate(sources, 1)]
    point_texts = [f"{point.description} (importance {point.score})" for point in ranked_points]
    return replace(
        evidence, hits=hits, points=point_texts, groups=[], segments=[], steps=[*evidence.steps, *trace.steps]
    )
