"""Hits of a second strategy (the *filler*), appended if the first strategy returned fewer hits than requested.

In: evidence, its query, and the second strategy. Out: the evidence with more hits; the path of each added hit says that
it was added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..text.words import count_text_tokens
from .evidence import Evidence, Hit
from .query import Query, Strategy


def fill_evidence(evidence: Evidence, query: Query, filler: Strategy) -> Evidence:
    """Return the evidence with hits of ``filler`` appended, if there are fewer hits than requested.

    ``top`` (a number of hits) and ``within`` (a number of tokens) of the query limit all hits together. The added hits
    are chunks that no earlier hit contains. Their scores are lowered so that no score exceeds the one before it. If the
    evidence has segments (merged neighboring chunks) for a prompt, the added hits are appended to these too.
    """
    num_missing = query.top - len(evidence.hits)
    tokens_left = None
    if query.within is not None:
        tokens_left = query.within - sum(count_text_tokens(hit.text) for hit in evidence.hits)
    if num_missing <= 0 or (tokens_left is not None and tokens_left < 1):
        return evidence
    shown_chunks = _collect_chunks(evidence.hits)
    with query.trace.step("fill") as step:
        # Even if the filler finds every chunk shown so far, this leaves enough new ones.
        filler_query = replace(
            query, options={}, top=query.top + len(shown_chunks), within=tokens_left, segments="none", abstracts=False
        )
        filler_hits = [
            hit for hit in filler.retrieve(filler_query).hits if (hit.document, hit.ordinal) not in shown_chunks
        ][:num_missing]
        step.detail = f"{filler.name}, because {evidence.strategy} found {len(evidence.hits)} of {query.top}"
        step.count = len(filler_hits)
    hits = list(evidence.hits)
    for rank, hit in enumerate(filler_hits, len(hits) + 1):
        score = min(hit.score, hits[-1].score) if hits else hit.score
        hits.append(replace(hit, rank=rank, score=score, path=f"fill: {filler.name}, {hit.path}"))
    segments = list(evidence.segments)
    if segments:
        segment_chunks = _collect_chunks(segments)
        segments += [hit for hit in hits[len(evidence.hits) :] if (hit.document, hit.ordinal) not in segment_chunks]
    return replace(evidence, hits=hits, segments=segments)


def _collect_chunks(hits: Sequence[Hit]) -> set[tuple[str, int]]:
    """Return the (document key, ordinal) of each chunk in the hits that are chunks or segments, not summaries."""
    return {(span.document, span.ordinal) for hit in hits if hit.kind in ("chunk", "segment") for span in hit.spans}
