"""The abstract trees by cosine: all nodes in one ranking, or level by level from the roots.

In: a query. Out: evidence of chunks and of abstracts (hits of kind ``summary``), best first. The vector of an abstract
is the centroid of its chunks' vectors, and nothing need be embedded (RAPTOR embeds summaries, which a model wrote). The
published search through all nodes stops at the first that does not fit; here it goes on. An abstract whose sentences
all stand in what is shown already says nothing new and is passed over.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...retrieval.dense_search import rank_by_vector
from ...retrieval.evidence import Evidence, Hit, TextSpan
from ...retrieval.query import Query
from ...structures.documents.chunks import GROUP
from ...structures.documents.documents import DocumentRecord, heading_path
from ...text.words import token_count

#: The chunks nearest to a question, from which the abstracts are reached.
_NEAREST = 200
#: Decimals of a cosine that counts: the last ones depend on what was added first.
_DECIMALS = 6


class _TreeNode(NamedTuple):
    """An abstract, or a chunk of which ``abstract`` is None: the place of its document by key, the places of its first
    and last chunk in the document, its level (-1: a chunk), and its cosine with the question."""

    document: int
    first: int
    last: int
    level: int
    cosine: float
    abstract: int | None

    @property
    def order(self) -> tuple[float, int, int, int]:
        """Best first; equals by document key and place, what is below before what is above."""
        return -self.cosine, self.document, self.first, self.level


@dataclass(slots=True)
class _Trees:
    """The trees of some documents, given in order of their keys, and the cosines of their nodes with a question."""

    query: Query
    documents: Sequence[DocumentRecord]
    _sums: dict[int, npt.NDArray[np.float64]] = field(default_factory=dict)
    _places: dict[int, dict[int, int]] = field(default_factory=dict)

    def abstract(self, document: int, number: int) -> _TreeNode:
        record = self.query.view.abstracts.get(number)
        places = self._places_of(document)
        return self._node(document, places[record.first_chunk], places[record.last_chunk], record.level, number)

    def chunk(self, document: int, chunk: int) -> _TreeNode:
        place = self._places_of(document)[chunk]
        return self._node(document, place, place, -1, None)

    def children(self, node: _TreeNode) -> list[_TreeNode]:
        if node.abstract is None:
            return []
        record = self.query.view.abstracts.get(node.abstract)
        if record.level:
            return [self.abstract(node.document, child) for child in record.children]
        places = self._places_of(node.document)
        chunks = [chunk for chunk, place in places.items() if node.first <= place <= node.last]
        return [self.chunk(node.document, chunk) for chunk in chunks]

    def _places_of(self, document: int) -> dict[int, int]:
        """Of each chunk of a document, by its id, its place."""
        if document not in self._places:
            self._places[document] = {c: place for place, c in enumerate(self.documents[document].chunk_ids())}
        return self._places[document]

    def _node(self, document: int, first: int, last: int, level: int, abstract: int | None) -> _TreeNode:
        sums = self._sums.get(document)
        if sums is None:
            vectors = self.query.view.vectors_of(self.documents[document]).astype(np.float64)
            sums = self._sums[document] = np.vstack([np.zeros(vectors.shape[1]), np.cumsum(vectors, axis=0)])
        centre = sums[last + 1] - sums[first]
        length = float(np.linalg.norm(centre))
        cosine = float(centre @ self.query.vector.astype(np.float64)) / length if length else 0.0
        return _TreeNode(document, first, last, level, round(cosine, _DECIMALS), abstract)


def collapsed(query: Query, strategy: str) -> Evidence:
    """Chunks and the abstracts above them in one ranking."""
    trees, nearest = _near(query)
    with query.trace.step("collapse tree") as step:
        nodes: dict[tuple[int, int | None, int], _TreeNode] = {}
        for document, chunk in nearest:
            node = trees.chunk(document, chunk)
            nodes[document, None, node.first] = node
            above: int | None = chunk // GROUP
            while above is not None and (document, above, 0) not in nodes:
                nodes[document, above, 0] = trees.abstract(document, above)
                above = query.view.abstracts.get(above).parent
        step.detail = f"of {len(nearest)} nearest chunks and the abstracts above them"
        step.count = len(nodes)
    return _evidence(query, strategy, trees, nodes.values())


def traversed(query: Query, strategy: str, width: int, levels: int) -> Evidence:
    """Down from the roots of the documents, the ``width`` nearest of each level, all of which are shown; ``levels`` at
    most (0: to the chunks)."""
    trees, _ = _near(query)
    kept: list[_TreeNode] = []
    with query.trace.step("go down") as step:
        roots = ((number, record.root) for number, record in enumerate(trees.documents))
        level = [trees.abstract(number, root) for number, root in roots if root is not None]
        counts: list[str] = []
        while level:
            best = sorted(level, key=lambda node: node.order)[:width]
            kept += best
            counts.append(f"{len(best)} of {len(level)}")
            if levels and len(counts) > levels:
                break
            level = [child for node in best for child in trees.children(node)]
        step.detail, step.count = f"level by level {', '.join(counts) or 'nothing'}", len(kept)
    return _evidence(query, strategy, trees, kept)


def _near(query: Query) -> tuple[_Trees, list[tuple[int, int]]]:
    """The trees of the documents that are near the question, and their chunks that are: number of the document, id."""
    view = query.view
    ranking = rank_by_vector(query, max(_NEAREST, query.reach))
    chunks = [chunk for chunk, _ in ranking]
    owners = [record.document for record in view.chunks.get_many(chunks)]
    documents = sorted(map(view.documents.get, set(owners)), key=lambda record: record.key)
    numbers = {record.id: number for number, record in enumerate(documents)}
    return _Trees(query, documents), [(numbers[owner], chunk) for owner, chunk in zip(owners, chunks, strict=True)]


def _evidence(query: Query, strategy: str, trees: _Trees, nodes: Iterable[_TreeNode]) -> Evidence:
    """The nodes that are shown, best first, within the length asked for."""
    found = sorted(nodes, key=lambda node: node.order)
    hits: list[Hit] = []
    shown: list[TextSpan] = []
    room = query.within
    with query.trace.step("read chunks") as step:
        for node in found:
            if len(hits) == query.top:
                break
            hit = _hit(trees, node, len(hits) + 1)
            if all(any(_inside(span, other) for other in shown) for span in hit.spans):
                continue
            if room is not None:
                size = token_count(hit.text)
                if size > room:
                    continue
                room -= size
            hits.append(hit)
            shown += hit.spans
        step.detail, step.count = f"top {query.top}", len(hits)
    return Evidence(query.question, strategy, hits, [], query.trace.steps, len(found))


def _hit(trees: _Trees, node: _TreeNode, rank: int) -> Hit:
    view, record = trees.query.view, trees.documents[node.document]
    ids = list(record.chunk_ids())[node.first : node.last + 1]
    chunks = view.chunks.get_many(ids)
    if node.abstract is None:
        (chunk,) = chunks
        section, start, end = chunk.section, chunk.start, chunk.end
        text = view.documents.text_slice(record.id, start, end)
        heading = " > ".join(heading_path(view.documents.outline(record.id), section))
        path = f"cosine {node.cosine:.3f}"
        return Hit(rank, node.cosine, record.key, node.first, text, path, start, end, heading, record.title)
    abstract = view.abstracts.get(node.abstract)
    starts = [chunk.start for chunk in chunks]
    spans = tuple(
        TextSpan(record.key, node.first + bisect_right(starts, start) - 1, start, end)
        for start, end in abstract.summary
    )
    heading = " > ".join(heading_path(view.documents.outline(record.id), abstract.section))
    number = record.abstract_ordinal(node.abstract)
    path = f"abstract {number}, of chunks {node.first} to {node.last}: cosine {node.cosine:.3f}"
    first, text = spans[0], view.abstracts.text(abstract)
    place = (record.key, first.chunk, text, path, first.start, first.end, heading, record.title)
    return Hit(rank, node.cosine, *place, "summary", spans)


def _inside(span: TextSpan, other: TextSpan) -> bool:
    return span.document == other.document and other.start <= span.start and span.end <= other.end
