"""What follows the hits of a strategy that found fewer than were asked for: those of another that say something else.

In: evidence, its query, and the strategy that fills. Out: the evidence with more hits, each of which says in its path
that it is there to fill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..text.words import token_count
from .evidence import Evidence, Hit
from .query import Query, Strategy


def filled(evidence: Evidence, query: Query, filler: Strategy) -> Evidence:
    """The evidence with hits of ``filler`` behind its own, as far as ``top`` and ``within`` leave room.

    They are chunks, none of which stands above already. No score is greater than the one before it, so that the order
    of the hits is that of their scores.
    """
    missing = query.top - len(evidence.hits)
    within = None
    if query.within is not None:
        within = query.within - sum(token_count(hit.text) for hit in evidence.hits)
    if missing <= 0 or (within is not None and within < 1):
        return evidence
    shown = _chunks_of(evidence.hits)
    with query.trace.step("fill") as step:
        # Of so many chunks, enough are others.
        plain = replace(query, options={}, top=query.top + len(shown), within=within, segments="no", abstracts=False)
        if "vector" in vars(query):  # embedded once is enough
            plain.given = query.vector
        found = [hit for hit in filler.retrieve(plain).hits if (hit.document, hit.ordinal) not in shown][:missing]
        step.detail = f"{filler.name}, since {evidence.strategy} found {len(evidence.hits)} of {query.top}"
        step.count = len(found)
    hits = list(evidence.hits)
    for rank, hit in enumerate(found, len(hits) + 1):
        score = min(hit.score, hits[-1].score) if hits else hit.score
        hits.append(replace(hit, rank=rank, score=score, path=f"fill: {filler.name}, {hit.path}"))
    segments = list(evidence.segments)
    if segments:
        read = _chunks_of(segments)
        segments += [hit for hit in hits[len(evidence.hits) :] if (hit.document, hit.ordinal) not in read]
    return replace(evidence, hits=hits, segments=segments)


def _chunks_of(hits: Sequence[Hit]) -> set[tuple[str, int]]:
    """The chunks that hits show: not those of which a summary or a report has only been made."""
    return {(span.document, span.ordinal) for hit in hits if hit.kind in ("chunk", "segment") for span in hit.spans}
