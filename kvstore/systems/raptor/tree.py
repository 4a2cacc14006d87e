"""The trees of summaries by cosine: all nodes in one ranking, or level by level from the roots.

In: a query. Out: evidence of chunks and of what stands above them (hits of kind ``summary``), best first: the abstracts
of each document and, where the index ``topics`` is and all documents may answer, the topics above them all. The vector
of an abstract or a topic is the centroid of its chunks' vectors, and nothing need be embedded (RAPTOR embeds summaries,
which a model wrote). The published search through all nodes stops at the first that does not fit; here it goes on. What
stands in what is shown already says nothing new and is passed over.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ...retrieval.dense_search import rank_by_vector
from ...retrieval.evidence import Evidence, Hit, TextSpan
from ...retrieval.query import Query
from ...structures.documents.chunks import GROUP, AbstractRecord
from ...structures.documents.documents import DocumentRecord, heading_path
from ...structures.indexes.index_reading import bound_index
from ...structures.vectors.vectors import Matrix
from ...text.words import token_count
from .topic_index import TOPICS
from .topics import Topics

#: The chunks nearest to a question, from which what stands above them is reached.
_NEAREST = 200
#: Topics with more chunks are about so much that they are about nothing: they are gone through, and not shown.
_BROADEST = 2_000
#: Decimals of a cosine that counts: the last ones depend on what was added first.
_DECIMALS = 6


class _TreeNode(ABC):
    """A chunk, an abstract or a topic: its height and its cosine with the question.

    The best comes first; equals by document key and place, what is below before what is above.
    """

    level: int
    cosine: float

    @abstractmethod
    def children(self) -> Sequence[_TreeNode]:
        """What stands below it."""
        ...

    @abstractmethod
    def hit(self, rank: int) -> Hit | None:
        """How it is shown; None where nothing of it is left that can be."""
        ...

    @property
    @abstractmethod
    def place(self) -> tuple[str, int]:
        """The key of its document, or of the first that it is about, and the number of its first chunk there."""
        ...

    @property
    def order(self) -> tuple[float, str, int, int]:
        return (-self.cosine, *self.place, self.level)


class _DocumentTree:
    """The abstract tree of a document, and the cosines of its nodes with a question."""

    def __init__(self, query: Query, record: DocumentRecord) -> None:
        self.query = query
        self.record = record
        self.ids = list(record.chunk_ids())
        self.places = {chunk: place for place, chunk in enumerate(self.ids)}

    @cached_property
    def vectors(self) -> Matrix:
        return self.query.view.vectors_of(self.record)

    @cached_property
    def _sums(self) -> npt.NDArray[np.float64]:
        return np.vstack([np.zeros(self.vectors.shape[1]), np.cumsum(self.vectors.astype(np.float64), axis=0)])

    def cosine(self, first: int, last: int) -> float:
        """The cosine of the centroid of some chunks, by their places."""
        return _cosine(self._sums[last + 1] - self._sums[first], self.query)

    def heading(self, section: int) -> str:
        return " > ".join(heading_path(self.query.view.documents.outline(self.record.id), section))


def _cosine(centre: npt.NDArray[np.float64], query: Query) -> float:
    length = float(np.linalg.norm(centre))
    return round(float(centre @ query.vector.astype(np.float64)) / length, _DECIMALS) if length else 0.0


@dataclass(frozen=True)
class _ChunkNode(_TreeNode):
    tree: _DocumentTree
    chunk: int
    level = -1

    @cached_property
    def cosine(self) -> float:  # type: ignore[override]
        place = self.tree.places[self.chunk]
        return self.tree.cosine(place, place)

    @property
    def place(self) -> tuple[str, int]:
        return self.tree.record.key, self.tree.places[self.chunk]

    def children(self) -> Sequence[_TreeNode]:
        return ()

    def hit(self, rank: int) -> Hit:
        view, record = self.tree.query.view, self.tree.record
        stored = view.chunks.get(self.chunk)
        text = view.documents.text_slice(record.id, stored.start, stored.end)
        place = (record.key, stored.ordinal, text, f"cosine {self.cosine:.3f}", stored.start, stored.end)
        return Hit(rank, self.cosine, *place, self.tree.heading(stored.section), record.title)


@dataclass(frozen=True)
class _AbstractNode(_TreeNode):
    tree: _DocumentTree
    number: int

    @cached_property
    def _record(self) -> AbstractRecord:
        return self.tree.query.view.abstracts.get(self.number)

    @cached_property
    def _ends(self) -> tuple[int, int]:
        return self.tree.places[self._record.first_chunk], self.tree.places[self._record.last_chunk]

    @cached_property
    def level(self) -> int:  # type: ignore[override]
        return self._record.level

    @cached_property
    def cosine(self) -> float:  # type: ignore[override]
        return self.tree.cosine(*self._ends)

    @property
    def place(self) -> tuple[str, int]:
        return self.tree.record.key, self._ends[0]

    def children(self) -> Sequence[_TreeNode]:
        if self.level:
            return [_AbstractNode(self.tree, child) for child in self._record.children]
        return [_ChunkNode(self.tree, chunk) for chunk in self.tree.ids[self._ends[0] : self._ends[1] + 1]]

    def hit(self, rank: int) -> Hit:
        view, record = self.tree.query.view, self.tree.record
        first, last = self._ends
        starts = [chunk.start for chunk in view.chunks.get_many(self.tree.ids[first : last + 1])]
        spans = tuple(
            TextSpan(record.key, first + bisect_right(starts, start) - 1, start, end)
            for start, end in self._record.summary
        )
        number = record.abstract_ordinal(self.number)
        path = f"abstract {number}, of chunks {first} to {last}: cosine {self.cosine:.3f}"
        heading = self.tree.heading(self._record.section)
        return _summary(rank, self.cosine, view.abstracts.text(self._record), path, heading, record.title, spans)


@dataclass(frozen=True)
class _TopicNode(_TreeNode):
    trees: _Trees
    topics: Topics
    number: int

    @cached_property
    def level(self) -> int:  # type: ignore[override]
        return 1_000 + int(self.topics.tree.levels[self.number])  # above any abstract

    @cached_property
    def _chunks(self) -> list[int]:
        return self.topics.chunks(self.number)

    @cached_property
    def cosine(self) -> float:  # type: ignore[override]
        return _cosine(self.trees.vectors(self._chunks).astype(np.float64).sum(axis=0), self.trees.query)

    @property
    def broad(self) -> bool:
        return len(self._chunks) > _BROADEST

    @cached_property
    def _spans(self) -> tuple[TextSpan, ...]:
        view = self.trees.query.view
        spans = self.topics.spans(self.number)
        chunks = view.chunks.get_many(span.chunk for span in spans)
        return tuple(
            TextSpan(view.documents.key_of(span.document), chunk.ordinal, span.start, span.end)
            for span, chunk in zip(spans, chunks, strict=True)
        )

    @property
    def place(self) -> tuple[str, int]:
        return (self._spans[0].document, self._spans[0].chunk) if self._spans else ("", 0)

    def children(self) -> Sequence[_TreeNode]:
        below = self.topics.children(self.number)
        if below:
            return [_TopicNode(self.trees, self.topics, child) for child in below]
        return [self.trees.chunk(chunk) for chunk in self._chunks]

    def hit(self, rank: int) -> Hit | None:
        if not self._spans or self.broad:
            return None
        title = self.topics.title(self.number) or None
        of = f"topic of {len(self._chunks)} chunks"
        if self.topics.is_related(self.number):
            of += " on what is related"
        path = f"{of}: cosine {self.cosine:.3f}"
        return _summary(rank, self.cosine, self.topics.text(self.number), path, "", title, self._spans)


def _summary(
    rank: int, score: float, text: str, path: str, heading: str, title: str | None, spans: tuple[TextSpan, ...]
) -> Hit:
    first = spans[0]
    place = (first.document, first.chunk, text, path, first.start, first.end)
    return Hit(rank, score, *place, heading, title, "summary", spans)


class _Trees:
    """The trees of the documents that are met."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self._trees: dict[int, _DocumentTree] = {}
        self._vectors: dict[int, Matrix] = {}  # of chunks below topics, of which each may be below many

    def of(self, document: int) -> _DocumentTree:
        if document not in self._trees:
            self._trees[document] = _DocumentTree(self.query, self.query.view.documents.get(document))
        return self._trees[document]

    def vectors(self, chunks: Sequence[int]) -> Matrix:
        """The vectors of some chunks."""
        new = [chunk for chunk in chunks if chunk not in self._vectors]
        if new:
            view = self.query.view
            rows = [(record.block, record.row) for record in view.chunks.get_many(new)]
            self._vectors.update(zip(new, view.vectors.gather(rows), strict=True))
        return np.array([self._vectors[chunk] for chunk in chunks])

    def chunk(self, chunk: int) -> _ChunkNode:
        return _ChunkNode(self.of(self.query.view.chunks.get(chunk).document), chunk)


def collapsed(query: Query, strategy: str) -> Evidence:
    """Chunks and what stands above them in one ranking."""
    trees, topics, nearest = _near(query)
    with query.trace.step("collapse tree") as step:
        nodes: dict[tuple[str, int], _TreeNode] = {}
        for node in nearest:
            nodes["chunk", node.chunk] = node
            above: int | None = node.chunk // GROUP
            while above is not None and ("abstract", above) not in nodes:
                nodes["abstract", above] = _AbstractNode(node.tree, above)
                above = query.view.abstracts.get(above).parent
            for topic in () if topics is None else (*topics.topics_of(node.chunk), *topics.related_of(node.chunk)):
                if ("topic", topic) not in nodes and topics is not None:
                    nodes["topic", topic] = _TopicNode(trees, topics, topic)
        step.detail = f"of {len(nearest)} nearest chunks and what stands above them"
        step.count = len(nodes)
    found = [node for node in nodes.values() if not (isinstance(node, _TopicNode) and node.broad)]
    return _evidence(query, strategy, found)


def traversed(query: Query, strategy: str, width: int, levels: int) -> Evidence:
    """Down from the roots above the nearest chunks, the ``width`` nearest of each level, all of which are shown;
    ``levels`` at most (0: to the chunks). Roots are topics where there are some, else the abstracts over documents."""
    trees, topics, nearest = _near(query)
    kept: list[_TreeNode] = []
    with query.trace.step("go down") as step:
        roots: dict[tuple[str, int], _TreeNode] = {}
        for node in nearest:
            above = [] if topics is None else topics.topics_of(node.chunk)
            root = node.tree.record.root
            if above and topics is not None:
                related = (topic for topic in topics.related_of(node.chunk) if topics.tree.parent(topic) is None)
                for topic in (above[-1], *related):
                    roots["topic", topic] = _TopicNode(trees, topics, topic)
            elif root is not None:  # newer chunks may be like none that topics were made of
                roots["abstract", root] = _AbstractNode(node.tree, root)
        level = list(roots.values())
        counts: list[str] = []
        while level:
            best = sorted(level, key=lambda node: node.order)[:width]
            kept += best
            counts.append(f"{len(best)} of {len(level)}")
            if levels and len(counts) > levels:
                break
            level = list(dict.fromkeys(child for node in best for child in node.children()))
        step.detail, step.count = f"level by level {', '.join(counts) or 'nothing'}", len(kept)
    return _evidence(query, strategy, kept)


def _near(query: Query) -> tuple[_Trees, Topics | None, list[_ChunkNode]]:
    """The chunks near a question, and what may stand above them; no topics where not all documents may answer: they
    say what others say."""
    view = query.view
    trees = _Trees(query)
    chunks = [chunk for chunk, _ in rank_by_vector(query, max(_NEAREST, query.reach))]
    owners = [record.document for record in view.chunks.get_many(chunks)]
    topics = bound_index(view, TOPICS) if query.allowed is None else None
    return trees, topics, [_ChunkNode(trees.of(owner), chunk) for owner, chunk in zip(owners, chunks, strict=True)]


def _evidence(query: Query, strategy: str, nodes: Iterable[_TreeNode]) -> Evidence:
    """The nodes that are shown, best first, within the length asked for."""
    found = sorted(nodes, key=lambda node: node.order)
    hits: list[Hit] = []
    shown: list[TextSpan] = []
    room = query.within
    with query.trace.step("read chunks") as step:
        for node in found:
            if len(hits) == query.top:
                break
            hit = node.hit(len(hits) + 1)
            if hit is None or all(any(_inside(span, other) for other in shown) for span in hit.spans):
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


def _inside(span: TextSpan, other: TextSpan) -> bool:
    return span.document == other.document and other.start <= span.start and span.end <= other.end
