"""Search in trees of summaries by cosine: all nodes in one ranking, or level by level from the roots.

In: a query. Out: evidence of chunks and their ancestors (hits of kind ``summary``), best first. Ancestors are the
abstracts of each document. If the index ``topics`` exists and all documents may answer, they include the topics above
them. The vector of an abstract or a topic is the centroid of its chunks' vectors, so nothing is embedded (RAPTOR embeds
summaries written by a model). The published search of all nodes stops at the first that does not fit; kvstore skips it
and goes on. A node whose sentences were all shown already is skipped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, groupby, islice
from math import isnan, nan

import numpy as np
import numpy.typing as npt

from ...retrieval.dense_search import rank_by_vector
from ...retrieval.evidence import Evidence, Hit, TextSpan
from ...retrieval.query import Query
from ...structures.documents.chunks import GROUP_SIZE, AbstractRecord, ChunkRecord
from ...structures.documents.documents import DocumentRecord, build_heading_path
from ...structures.indexes.index_reading import bind_index
from ...structures.vectors.vectors import Matrix
from ...text.words import count_text_tokens
from .topic_index import TOPICS
from .topics import Topics

#: The number of chunks nearest to a question, whose ancestors are candidates.
_NUM_NEAREST = 200
#: The maximum number of chunks of a topic that is shown; larger ones are too general and are only traversed.
_MAX_TOPIC_CHUNKS = 2_000
#: The number of decimals of a cosine; further ones depend on the order of summation.
_DECIMALS = 6


class _TreeNode(ABC):
    """A chunk, an abstract or a topic: its level and, once computed, its cosine with the question.

    Nodes are sorted by descending cosine, ties by document key and position, lower levels first.
    """

    level: int
    cosine: float = nan

    @abstractmethod
    def list_children(self) -> Sequence[_TreeNode]:
        """Return the children of the node."""
        ...

    @abstractmethod
    def build_hit(self, rank: int) -> Hit | None:
        """Return the node as a hit, or None if nothing of it can be shown."""
        ...

    @property
    @abstractmethod
    def position(self) -> tuple[str, int]:
        """The key of its document (for a topic, of its first sentence), and the ordinal of its first chunk there."""
        ...


class _DocumentTree:
    """The abstract tree of a document.

    ``vector_sums`` are prefix sums of the vectors of its chunks, one more than chunks, with a constant offset.
    """

    def __init__(
        self, cache: _TreeNodeCache, record: DocumentRecord, ids: list[int], vector_sums: npt.NDArray[np.float64]
    ) -> None:
        self.cache = cache
        self.state = cache.query.view
        self.record = record
        self.ids = ids
        self.ordinals = {chunk: ordinal for ordinal, chunk in enumerate(ids)}
        self.vector_sums = vector_sums

    def format_heading(self, section: int) -> str:
        return " > ".join(build_heading_path(self.state.documents.get_outline(self.record.id), section))


class _DocumentNode(_TreeNode):
    """A chunk or an abstract: the ordinals of its first and last chunk in the document."""

    tree: _DocumentTree
    first: int
    last: int

    @property
    def vector_sum(self) -> npt.NDArray[np.float64]:
        """The sum of the vectors of its chunks."""
        vector_sum: npt.NDArray[np.float64] = self.tree.vector_sums[self.last + 1] - self.tree.vector_sums[self.first]
        return vector_sum

    @property
    def position(self) -> tuple[str, int]:
        return self.tree.record.key, self.first


class _ChunkNode(_DocumentNode):
    level = -1

    def __init__(self, tree: _DocumentTree, chunk: int) -> None:
        self.tree = tree
        self.chunk = chunk
        self.first = self.last = tree.ordinals[chunk]

    def list_children(self) -> Sequence[_TreeNode]:
        return ()

    def build_hit(self, rank: int) -> Hit:
        record = self.tree.record
        chunk = self.tree.state.chunks.get(self.chunk)
        text = self.tree.state.documents.read_text_slice(record.id, chunk.start, chunk.end)
        fields = (record.key, chunk.ordinal, text, f"cosine {self.cosine:.3f}", chunk.start, chunk.end)
        return Hit(rank, self.cosine, *fields, self.tree.format_heading(chunk.section), record.title)


class _AbstractNode(_DocumentNode):
    def __init__(self, tree: _DocumentTree, number: int, record: AbstractRecord) -> None:
        self.tree = tree
        self.level = record.level
        self.first, self.last = tree.ordinals[record.first_chunk], tree.ordinals[record.last_chunk]
        self.parent = record.parent
        self._number = number
        self._record = record

    def list_children(self) -> Sequence[_TreeNode]:
        if self.level:
            return self.tree.cache.get_abstracts([(self.tree, child) for child in self._record.children])
        return [self.tree.cache.get_chunk(self.tree, chunk) for chunk in self.tree.ids[self.first : self.last + 1]]

    def build_hit(self, rank: int) -> Hit:
        state, record = self.tree.state, self.tree.record
        first, last = self.first, self.last
        starts = [chunk.start for chunk in state.chunks.get_many(self.tree.ids[first : last + 1])]
        spans = tuple(
            TextSpan(record.key, first + bisect_right(starts, start) - 1, start, end)
            for start, end in self._record.summary
        )
        number = record.get_abstract_ordinal(self._number)
        path = f"abstract {number}, of chunks {first} to {last}: cosine {self.cosine:.3f}"
        heading = self.tree.format_heading(self._record.section)
        return _build_summary_hit(
            rank, self.cosine, state.abstracts.read_text(self._record), path, heading, record.title, spans
        )


class _TopicNode(_TreeNode):
    def __init__(self, cache: _TreeNodeCache, topics: Topics, number: int) -> None:
        self.level = 1_000 + int(topics.tree.levels[number])  # higher than any abstract
        self.topics = topics
        self.number = number
        self._cache = cache

    @cached_property
    def chunk_count(self) -> int:
        """The number of chunks below the topic."""
        return self.topics.count_chunks(self.number)

    @property
    def is_broad(self) -> bool:
        return self.chunk_count > _MAX_TOPIC_CHUNKS

    @cached_property
    def _spans(self) -> tuple[TextSpan, ...]:
        state = self._cache.query.view
        spans = self.topics.list_summary_spans(self.number)
        chunks = state.chunks.get_many(span.chunk for span in spans)
        return tuple(
            TextSpan(state.documents.get_key(span.document), chunk.ordinal, span.start, span.end)
            for span, chunk in zip(spans, chunks, strict=True)
        )

    @property
    def position(self) -> tuple[str, int]:
        return (self._spans[0].document, self._spans[0].ordinal) if self._spans else ("", 0)

    def list_children(self) -> Sequence[_TreeNode]:
        below = self.topics.list_children(self.number)
        if below:
            return [self._cache.get_topic(self.topics, child) for child in below]
        return self._cache.get_chunks(self.topics.list_chunks(self.number))

    def build_hit(self, rank: int) -> Hit | None:
        if not self._spans or self.is_broad:
            return None
        title = self.topics.get_title(self.number) or None
        label = f"topic of {self.chunk_count} chunks"
        if self.topics.is_related(self.number):
            label += " on related content"
        path = f"{label}: cosine {self.cosine:.3f}"
        return _build_summary_hit(rank, self.cosine, self.topics.get_text(self.number), path, "", title, self._spans)


def _build_summary_hit(
    rank: int, score: float, text: str, path: str, heading: str, title: str | None, spans: tuple[TextSpan, ...]
) -> Hit:
    """Return an abstract or a topic as a hit of kind ``summary``, located at its first span."""
    first = spans[0]
    fields = (first.document, first.ordinal, text, path, first.start, first.end)
    return Hit(rank, score, *fields, heading, title, "summary", spans)


class _TreeNodeCache:
    """The trees of the documents visited so far, and their nodes; each node is a unique object."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self._state = query.view
        self._trees: dict[int, _DocumentTree] = {}
        self._records: dict[int, ChunkRecord] = {}
        self._vectors: dict[int, Matrix] = {}  # by chunk, since a chunk can be below many topics
        self._chunks: dict[int, _ChunkNode] = {}
        self._abstracts: dict[int, _AbstractNode] = {}
        self._topics: dict[int, _TopicNode] = {}

    def get_chunks(self, chunks: Sequence[int]) -> list[_ChunkNode]:
        """Return the nodes of chunks; documents not read yet are read together."""
        self._read_records(chunks)
        documents = [self._records[chunk].document for chunk in chunks]
        self._read_documents(documents)
        return [self.get_chunk(self._trees[document], chunk) for document, chunk in zip(documents, chunks, strict=True)]

    def get_chunk(self, tree: _DocumentTree, chunk: int) -> _ChunkNode:
        if chunk not in self._chunks:
            self._chunks[chunk] = _ChunkNode(tree, chunk)
        return self._chunks[chunk]

    def get_abstracts(self, pairs: Sequence[tuple[_DocumentTree, int]]) -> list[_AbstractNode]:
        """Return the nodes of abstracts."""
        missing = {number: tree for tree, number in pairs if number not in self._abstracts}
        for (number, tree), record in zip(missing.items(), self._state.abstracts.get_many(missing), strict=True):
            self._abstracts[number] = _AbstractNode(tree, number, record)
        return [self._abstracts[number] for _, number in pairs]

    def find_abstracts_above(self, chunks: Sequence[_ChunkNode]) -> list[list[_AbstractNode]]:
        """Return the abstracts above each chunk, nearest first."""
        abstracts: list[list[_AbstractNode]] = [[] for _ in chunks]
        pending = [(index, chunk.tree, chunk.chunk // GROUP_SIZE) for index, chunk in enumerate(chunks)]
        while pending:
            nodes = self.get_abstracts([(tree, number) for _, tree, number in pending])
            for (index, _, _), node in zip(pending, nodes, strict=True):
                abstracts[index].append(node)
            pending = [
                (index, tree, node.parent)
                for (index, tree, _), node in zip(pending, nodes, strict=True)
                if node.parent is not None
            ]
        return abstracts

    def get_topic(self, topics: Topics, number: int) -> _TopicNode:
        if number not in self._topics:
            self._topics[number] = _TopicNode(self, topics, number)
        return self._topics[number]

    def score_nodes(self, nodes: Iterable[_TreeNode]) -> None:
        """Compute the cosines of nodes that have none yet."""
        unscored = [node for node in nodes if isnan(node.cosine)]
        document_nodes = [node for node in unscored if isinstance(node, _DocumentNode)]
        topic_nodes = [node for node in unscored if isinstance(node, _TopicNode)]
        vector_sums = np.array([node.vector_sum for node in document_nodes]).reshape(-1, self._state.vectors.dimension)
        if topic_nodes:
            vector_sums = np.concatenate((vector_sums, self._sum_topic_vectors(topic_nodes)))
        lengths = np.sqrt(np.einsum("ij,ij->i", vector_sums, vector_sums))
        cosines = vector_sums @ self.query.vector.astype(np.float64) / np.where(lengths == 0, 1, lengths)
        for node, cosine in zip([*document_nodes, *topic_nodes], np.round(cosines, _DECIMALS).tolist(), strict=True):
            node.cosine = cosine

    def _sum_topic_vectors(self, nodes: Sequence[_TopicNode]) -> npt.NDArray[np.float64]:
        """Return the sums of the vectors of the chunks below topics, shape (topics, dimension)."""
        topics = nodes[0].topics
        branching = topics.tree.branching[[node.number for node in nodes]]
        distinct, inverse = np.unique(branching, return_inverse=True)
        summands = list(map(topics.find_summands, distinct.tolist()))
        stored_topics = list(dict.fromkeys(topic for numbers, _ in summands for topic in numbers))
        chunks = list(dict.fromkeys(chunk for _, numbers in summands for chunk in numbers))
        self._read_vectors(chunks)
        rows = np.array([*topics.read_vector_sums(stored_topics), *(self._vectors[chunk] for chunk in chunks)])
        topic_rows = {topic: row for row, topic in enumerate(stored_topics)}
        chunk_rows = {chunk: row for row, chunk in enumerate(chunks, len(stored_topics))}
        row_groups = [
            [*map(topic_rows.__getitem__, topic_part), *map(chunk_rows.__getitem__, chunk_part)]
            for topic_part, chunk_part in summands
        ]
        starts = np.cumsum([0, *map(len, row_groups[:-1])])
        totals: npt.NDArray[np.float64] = np.add.reduceat(rows[[*chain(*row_groups)]], starts, axis=0, dtype=np.float64)
        return totals[inverse]

    def _read_documents(self, documents: Sequence[int]) -> None:
        """Read documents not read yet, and the vectors of their chunks."""
        missing = (document for document in documents if document not in self._trees)
        records = self._state.documents.get_many(missing)
        ids = {document: list(record.chunk_ids()) for document, record in records.items()}
        chunks = [*chain(*ids.values())]
        self._read_vectors(chunks)
        sums = np.zeros((len(chunks) + 1, self._state.vectors.dimension))
        if chunks:
            np.cumsum(np.array([self._vectors[chunk] for chunk in chunks]), axis=0, dtype=np.float64, out=sums[1:])
        first = 0
        for document, record in records.items():
            last = first + len(ids[document])
            self._trees[document] = _DocumentTree(self, record, ids[document], sums[first : last + 1])
            first = last

    def _read_vectors(self, chunks: Iterable[int]) -> None:
        missing = [chunk for chunk in dict.fromkeys(chunks) if chunk not in self._vectors]
        self._read_records(missing)
        rows = [(self._records[chunk].block, self._records[chunk].row) for chunk in missing]
        self._vectors.update(zip(missing, self._state.vectors.gather(rows), strict=True))

    def _read_records(self, chunks: Iterable[int]) -> None:
        missing = [chunk for chunk in chunks if chunk not in self._records]
        self._records.update(zip(missing, self._state.chunks.get_many(missing), strict=True))


def search_collapsed(query: Query, strategy: str) -> Evidence:
    """Return chunks and their ancestors in one ranking."""
    cache, topics, nearest = _find_nearest_chunks(query)
    with query.trace.step("collapse tree") as step:
        nodes: dict[_TreeNode, None] = {}
        rows = zip(nearest, cache.find_abstracts_above(nearest), _find_topics_above(topics, nearest), strict=True)
        for node, abstracts, numbers in rows:
            nodes.update(dict.fromkeys((node, *abstracts)))
            if topics is not None:
                nodes.update(dict.fromkeys(cache.get_topic(topics, number) for number in numbers))
        step.detail = f"the {len(nearest)} nearest chunks and the nodes above them"
        step.count = len(nodes)
    candidates = [node for node in nodes if not (isinstance(node, _TopicNode) and node.is_broad)]
    cache.score_nodes(candidates)
    return _build_evidence(query, strategy, candidates)


def search_by_traversal(query: Query, strategy: str, width: int, levels: int) -> Evidence:
    """Return the ``width`` nearest nodes of each level, descending from the roots above the nearest chunks.

    Descends at most ``levels`` levels (0: down to the chunks). The roots are topics if there are any, otherwise the
    abstracts over documents.
    """
    cache, topics, nearest = _find_nearest_chunks(query)
    selected: list[_TreeNode] = []
    with query.trace.step("go down") as step:
        roots: dict[_TreeNode, None] = {}
        for node, numbers in zip(nearest, _find_topics_above(topics, nearest), strict=True):
            root = node.tree.record.root
            if numbers and topics is not None:
                for topic in numbers:
                    if topics.tree.get_parent(topic) is None:
                        roots[cache.get_topic(topics, topic)] = None
            elif root is not None:  # a newer chunk can be in no topic
                roots.update(dict.fromkeys(cache.get_abstracts([(node.tree, root)])))
        level = list(roots)
        counts: list[str] = []
        while level:
            cache.score_nodes(level)
            best = list(islice(_sort_nodes(level), width))
            selected += best
            counts.append(f"{len(best)} of {len(level)}")
            if levels and len(counts) > levels:
                break
            level = list(dict.fromkeys(child for node in best for child in node.list_children()))
        step.detail, step.count = f"level by level {', '.join(counts) or 'nothing'}", len(selected)
    return _build_evidence(query, strategy, selected)


def _find_nearest_chunks(query: Query) -> tuple[_TreeNodeCache, Topics | None, list[_ChunkNode]]:
    """Return a cache of tree nodes, the topics, and the nodes of the chunks nearest to a question.

    There are no topics (None) if the query is filtered, since topics include text of other documents.
    """
    cache = _TreeNodeCache(query)
    chunks = [chunk for chunk, _ in rank_by_vector(query, max(_NUM_NEAREST, query.reach))]
    topics = bind_index(query.view, TOPICS) if query.allowed is None else None
    return cache, topics, cache.get_chunks(chunks)


def _find_topics_above(topics: Topics | None, nearest: Sequence[_ChunkNode]) -> list[list[int]]:
    """Return the topics above each chunk: first those of similar content, then those of related content."""
    if topics is None:
        return [[] for _ in nearest]
    chunks = [node.chunk for node in nearest]
    pairs = zip(topics.find_topics_by_chunk(chunks), topics.find_related_by_chunk(chunks), strict=True)
    return [[*similar, *related] for similar, related in pairs]


def _sort_nodes(nodes: Iterable[_TreeNode]) -> Iterator[_TreeNode]:
    """Yield nodes best first; breaks ties by position, which is read only for tied nodes."""
    for _, equals in groupby(sorted(nodes, key=lambda node: -node.cosine), key=lambda node: node.cosine):
        ties = list(equals)
        yield from sorted(ties, key=lambda node: (*node.position, node.level)) if len(ties) > 1 else ties


def _build_evidence(query: Query, strategy: str, nodes: Iterable[_TreeNode]) -> Evidence:
    """Return the nodes to show, best first, within the length requested."""
    candidates = list(nodes)
    hits: list[Hit] = []
    shown_spans: list[TextSpan] = []
    room = query.within
    with query.trace.step("read chunks") as step:
        for node in _sort_nodes(candidates):
            if len(hits) == query.top:
                break
            hit = node.build_hit(len(hits) + 1)
            if hit is None or all(any(_is_inside(span, other) for other in shown_spans) for span in hit.spans):
                continue
            if room is not None:
                size = count_text_tokens(hit.text)
                if size > room:
                    continue
                room -= size
            hits.append(hit)
            shown_spans += hit.spans
        step.detail, step.count = f"top {query.top}", len(hits)
    return Evidence(query.question, strategy, hits, [], query.trace.steps, len(candidates))


def _is_inside(span: TextSpan, other: TextSpan) -> bool:
    return span.document == other.document and other.start <= span.start and span.end <= other.end
