"""Search in trees of summaries by cosine: all nodes in one ranking, or level by level from the roots. A *node* is a
chunk, an *abstract* (a summary of chunks or lower abstracts of one document) or a *topic* (a summarized group of chunks
of all documents).

In: a query. Out: evidence of chunks and their ancestors (hits of kind ``summary``), best first. Ancestors are the
abstracts of each document. If the ``topics`` index exists and the query allows all documents, they include the topics
above them. The vector of an abstract or a topic is the centroid of its chunks' vectors; the vector of a summary that a
model wrote is made from its text, as in RAPTOR. The published search of all nodes stops at the first that does not fit;
kvstore skips it and goes on. A node whose sentences were all shown already is skipped. The requests are in
:mod:`.node_requests`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby

from ...retrieval.dense_search import rank_by_vector
from ...retrieval.evidence import Evidence, Hit, TextSpan
from ...retrieval.query import Query
from ...structures.read_requests import BatchedReader
from ...text.words import count_text_tokens
from .node_requests import (
    ChildNodesRequest,
    ChunkAncestorsRequest,
    ChunkRootsRequest,
    NodeHitsRequest,
    TopicPositionsRequest,
    TreeNode,
)

#: The number of chunks nearest to a question, whose ancestors are candidates.
_NUM_NEAREST = 200


def search_collapsed(query: Query, strategy: str) -> Evidence:
    """Rank the nearest chunks and all their ancestors together by cosine, and return them as evidence.

    This is the collapsed tree retrieval of RAPTOR. Ancestors are summaries of chunks: abstracts and topics.
    ``strategy`` is the name that the evidence shows.
    """
    nearest_chunks = _find_nearest_chunks(query)
    with query.trace.step("collapse tree") as step:
        nodes, step.count = query.reading.fetch(ChunkAncestorsRequest(nearest_chunks, query.vector))
        step.detail = f"the {len(nearest_chunks)} nearest chunks and the nodes above them"
    return _build_evidence(query, strategy, nodes)


def search_by_traversal(query: Query, strategy: str, width: int, levels: int) -> Evidence:
    """Return the ``width`` tree nodes of each level nearest to the question, from the roots above the nearest chunks.

    This is the tree traversal retrieval of RAPTOR. It descends at most ``levels`` levels (0: down to the chunks). The
    roots are topics if there are any, otherwise the abstracts of documents. ``strategy`` is the name that the evidence
    shows.
    """
    nearest_chunks = _find_nearest_chunks(query)
    nodes: list[TreeNode] = []
    with query.trace.step("go down") as step:
        level = query.reading.fetch(ChunkRootsRequest(nearest_chunks, query.vector))
        counts: list[str] = []
        while level:
            best = _sort_nodes(query.reading, level)[:width]
            nodes += best
            counts.append(f"{len(best)} of {len(level)}")
            if levels and len(counts) > levels:
                break
            level = query.reading.fetch(ChildNodesRequest(best, query.vector))
        step.detail, step.count = f"level by level {', '.join(counts) or 'nothing'}", len(nodes)
    return _build_evidence(query, strategy, nodes)


def _find_nearest_chunks(query: Query) -> list[int]:
    """Return the ids of the :data:`_NUM_NEAREST` chunks nearest to the question, nearest first."""
    return [chunk for chunk, _ in rank_by_vector(query, _NUM_NEAREST)]


def _sort_nodes(reader: BatchedReader, nodes: Iterable[TreeNode]) -> list[TreeNode]:
    """Return nodes by descending cosine, ties by position and then level.

    The position is the document key and the ordinal of the first chunk. The positions of topics are read only if topics
    tie, since this takes another read of the store.
    """
    nearest_first = sorted(nodes, key=lambda node: -node.cosine)
    groups = [list(group) for _, group in groupby(nearest_first, key=lambda node: node.cosine)]
    # Only the positions of topics are not known yet.
    tied_topics = [node.id.number for group in groups if len(group) > 1 for node in group if node.position is None]
    if tied_topics:
        topic_positions = dict(zip(tied_topics, reader.fetch(TopicPositionsRequest(tied_topics)), strict=True))
    for group in groups:
        if len(group) > 1:
            group.sort(key=lambda node: (*(node.position or topic_positions[node.id.number]), node.level))
    return list(chain.from_iterable(groups))


def _build_evidence(query: Query, strategy: str, nodes: Sequence[TreeNode]) -> Evidence:
    """Return evidence of the tree nodes with the greatest cosines that fit the limits.

    Skips a node whose spans are all inside spans already shown. ``strategy`` is the name that the evidence shows.
    """
    hits: list[Hit] = []
    shown_spans: list[TextSpan] = []
    remaining_tokens = query.within
    with query.trace.step("read chunks") as step:
        for hit in _iter_hits(query.reading, _sort_nodes(query.reading, nodes), query.top):
            shows_nothing_new = all(any(_is_inside(span, other) for other in shown_spans) for span in hit.spans)
            if shows_nothing_new:
                continue
            if remaining_tokens is not None:
                num_tokens = count_text_tokens(hit.text)
                if num_tokens > remaining_tokens:
                    continue
                remaining_tokens -= num_tokens
            hits.append(replace(hit, rank=len(hits) + 1))
            shown_spans += hit.spans
            if len(hits) == query.top:
                break
        step.detail, step.count = f"top {query.top}", len(hits)
    return Evidence(query.question, strategy, hits, steps=query.trace.steps, pool=len(nodes))


def _iter_hits(reader: BatchedReader, nodes: Sequence[TreeNode], batch_size: int) -> Iterator[Hit]:
    """Yield tree nodes as hits, read in batches; nodes that cannot be shown are skipped.

    The first batch has ``batch_size`` nodes, and each further one is twice as large, which limits the number of reads.
    """
    start = 0
    while start < len(nodes):
        batch = nodes[start : start + batch_size]
        yield from filter(None, reader.fetch(NodeHitsRequest(batch)))
        start, batch_size = start + batch_size, 2 * batch_size


def _is_inside(span: TextSpan, other: TextSpan) -> bool:
    """True if a span lies within another span of the same document."""
    return span.document == other.document and other.start <= span.start and span.end <= other.end
