"""Requests of ``raptor`` to the trees of a state: nodes, scored by cosine, and their hits. A *node* is a chunk, an
*abstract* (a summary of chunks or lower abstracts of one document) or a *topic* (a summarized group of chunks of all
documents). Its *position* is the position of its first chunk.

In: chunks near a question, or nodes found before. Out: the nodes above or below them. The vector of a node is the
vector of the text that a language model wrote about it, or the sum of its chunks' vectors. If the query allows only
some documents, there are no topics, since topics include text of other documents.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ...retrieval.cover import build_composed_hit
from ...retrieval.evidence import ChunkReadRequest, Hit, TextSpan, build_chunk_hit, convert_spans
from ...structures.documents.chunks import GROUP_SIZE, AbstractRecord
from ...structures.documents.documents import build_heading_path
from ...structures.indexes.index_reading import bind_index
from ...structures.read_requests import ReadRequest
from ...structures.state import State
from ...structures.vectors.vectors import Matrix, Vector
from .topic_index import TOPICS
from .topics import Topics

#: The maximum number of chunks of a topic that is shown; larger ones are too general and are only traversed.
_MAX_TOPIC_CHUNKS = 2_000
#: The number of decimals of a cosine; more decimals depend on the order of summation.
_DECIMALS = 6
#: The level of chunks, which is below leaf abstracts, and the level of the finest topics, above all abstracts.
_CHUNK_LEVEL = -1
_FIRST_TOPIC_LEVEL = 1_000


class NodePosition(NamedTuple):
    """The key of a document and the ordinal of a chunk in it, by which nodes of equal cosine are sorted."""

    document: str
    ordinal: int


class NodeId(NamedTuple):
    """The kind of a tree node, and its number: the id of the chunk, abstract or topic."""

    kind: Literal["chunk", "abstract", "topic"]
    number: int


class TreeNode(NamedTuple):
    """A node and its cosine with the question.

    ``position`` is the position of its first chunk, or None for a topic. ``level`` orders nodes of equal cosine and
    position: chunks first, then abstracts, then topics.
    """

    id: NodeId
    level: int
    cosine: float
    position: NodePosition | None


class AncestorNodes(NamedTuple):
    """Chunks with their ancestors that can be shown, and the number of chunks and ancestors, shown or not."""

    nodes: list[TreeNode]
    node_count: int


class ChunkAncestorsRequest(ReadRequest[AncestorNodes]):
    """A request for chunks and all tree nodes (abstracts, topics) above them, with their cosines with a unit vector.
    These are the nodes of RAPTOR's collapsed tree (section 3). Topics with too many chunks are omitted, but
    ``node_count`` includes them.
    """

    chunks: Sequence[int]
    vector: Vector

    def fetch(self, state: State) -> AncestorNodes:
        reader = _NodeReader(state)
        distinct_nodes: dict[NodeId, None] = {}  # a set that preserves the order
        for chunk, abstracts, topics in zip(
            self.chunks, reader.find_abstracts(self.chunks), reader.find_topics(self.chunks), strict=True
        ):
            distinct_nodes[NodeId("chunk", chunk)] = None
            distinct_nodes.update(dict.fromkeys(NodeId("abstract", abstract) for abstract in abstracts))
            distinct_nodes.update(dict.fromkeys(NodeId("topic", topic) for topic in topics))
        shown_nodes = [node for node in distinct_nodes if node.kind != "topic" or not reader.is_too_broad(node.number)]
        return AncestorNodes(nodes=reader.score_nodes(shown_nodes, self.vector), node_count=len(distinct_nodes))


class ChunkRootsRequest(ReadRequest[list[TreeNode]]):
    """A request for the roots above chunks: topics, and for a chunk in no topic the abstract over its document. They
    have their cosines with ``vector``, a unit vector.
    """

    chunks: Sequence[int]
    vector: Vector

    def fetch(self, state: State) -> list[TreeNode]:
        reader = _NodeReader(state)
        topics_by_chunk = reader.find_topics(self.chunks)
        without_topics = [chunk for chunk, topics in zip(self.chunks, topics_by_chunk, strict=True) if not topics]
        records = dict(zip(without_topics, state.chunks.get_many(without_topics), strict=True))
        documents = state.documents.get_many(record.document for record in records.values())
        distinct_roots: dict[NodeId, None] = {}  # a set that preserves the order
        for chunk, topics in zip(self.chunks, topics_by_chunk, strict=True):
            distinct_roots.update(
                dict.fromkeys(NodeId("topic", topic) for topic in topics if reader.is_root_topic(topic))
            )
            root_abstract = None if topics else documents[records[chunk].document].root
            if root_abstract is not None:
                distinct_roots[NodeId("abstract", root_abstract)] = None
        return reader.score_nodes(list(distinct_roots), self.vector)


class ChildNodesRequest(ReadRequest[list[TreeNode]]):
    """A request for the distinct children of nodes, in the order of their parents. They have their cosines with
    ``vector``, a unit vector.
    """

    parents: Sequence[TreeNode]
    vector: Vector

    def fetch(self, state: State) -> list[TreeNode]:
        reader = _NodeReader(state)
        reader.load_abstracts(node.id.number for node in self.parents if node.id.kind == "abstract")
        distinct_children = dict.fromkeys(chain.from_iterable(reader.list_children(node.id) for node in self.parents))
        return reader.score_nodes(list(distinct_children), self.vector)


class TopicPositionsRequest(ReadRequest[list[NodePosition]]):
    """A request for the positions of the first sentences of topics. The position is ("", 0) if no source is left."""

    topics: Sequence[int]

    def fetch(self, state: State) -> list[NodePosition]:
        spans_by_topic = _NodeReader(state).read_topic_spans(self.topics, limit=1)
        return [
            NodePosition(spans[0].document, spans[0].ordinal) if spans else NodePosition("", 0)
            for spans in spans_by_topic
        ]


class NodeHitsRequest(ReadRequest[list[Hit | None]]):
    """A request for tree nodes as hits, with rank 0; None for a topic that cannot be shown. These are topics of more
    than ``_MAX_TOPIC_CHUNKS`` chunks, and topics whose source documents have all been deleted.
    """

    nodes: Sequence[TreeNode]

    def fetch(self, state: State) -> list[Hit | None]:
        reader = _NodeReader(state)
        hits = {  # by node id
            **reader.build_chunk_hits([node for node in self.nodes if node.id.kind == "chunk"]),
            **reader.build_abstract_hits([node for node in self.nodes if node.id.kind == "abstract"]),
            **reader.build_topic_hits([node for node in self.nodes if node.id.kind == "topic"]),
        }
        return [hits.get(node.id) for node in self.nodes]


class _NodeReader:
    """Reads the nodes of a store's trees; caches the records of abstracts."""

    def __init__(self, state: State) -> None:
        """Create a reader of tree nodes; it finds no topics if the query has a condition on documents."""
        self._state = state
        # A topic can contain chunks from any document, including documents that do not match the query's condition.
        self._topics: Topics | None = bind_index(state, TOPICS) if state.allowed is None else None
        self._abstracts: dict[int, AbstractRecord] = {}

    @property
    def _bound_topics(self) -> Topics:
        """The topics of the store, which exist if any node is a topic."""
        assert self._topics is not None, "a node is a topic only if there are topics"
        return self._topics

    def load_abstracts(self, abstracts: Iterable[int]) -> None:
        """Read the records of abstracts into the cache."""
        missing_abstracts = list(dict.fromkeys(abstract for abstract in abstracts if abstract not in self._abstracts))
        self._abstracts.update(zip(missing_abstracts, self._state.abstracts.get_many(missing_abstracts), strict=True))

    def find_abstracts(self, chunks: Sequence[int]) -> list[list[int]]:
        """Return the abstracts above each chunk, from the lowest to the abstract of its document.

        Caches their records.
        """
        # The chunk ids below a lowest abstract are ``GROUP_SIZE`` times its id, plus 0, 1, ….
        paths: list[list[int]] = [[chunk // GROUP_SIZE] for chunk in chunks]
        unfinished = paths
        while unfinished:
            self.load_abstracts(path[-1] for path in unfinished)
            parents = [(path, self._abstracts[path[-1]].parent) for path in unfinished]
            unfinished = []
            for path, parent in parents:
                if parent is not None:
                    path.append(parent)
                    unfinished.append(path)
        return paths

    def find_topics(self, chunks: Sequence[int]) -> list[list[int]]:
        """Return the topics above each chunk, from both trees.

        Topics of similar content come first, then topics of related content, which group sentences about one entity.
        """
        if self._topics is None:
            return [[] for _ in chunks]
        pairs = zip(self._topics.find_topics_by_chunk(chunks), self._topics.find_related_topics(chunks), strict=True)
        return [[*similar, *related] for similar, related in pairs]

    def is_root_topic(self, topic: int) -> bool:
        """True if a topic has no parent."""
        return self._bound_topics.trees.get_parent(topic) is None

    def is_too_broad(self, topic: int) -> bool:
        """True if a topic has too many chunks to be shown."""
        topics = self._bound_topics
        # Counting chunks is slow, and an upper bound suffices for most topics: the number at the build, plus the
        # number of all chunks added since.
        max_count = int(topics.trees.sizes[topic]) + len(topics.newer_chunks)
        return max_count > _MAX_TOPIC_CHUNKS and topics.count_chunks(topic) > _MAX_TOPIC_CHUNKS

    def list_children(self, node: NodeId) -> list[NodeId]:
        """Return the children of a node, empty for a chunk; an abstract must be loaded."""
        if node.kind == "topic":
            topics = self._bound_topics.list_children(node.number)
            if topics:
                return [NodeId("topic", topic) for topic in topics]
            return [NodeId("chunk", chunk) for chunk in self._bound_topics.list_chunks(node.number)]
        if node.kind == "abstract":
            record = self._abstracts[node.number]
            if record.level:
                return [NodeId("abstract", child) for child in record.children]
            return [NodeId("chunk", chunk) for chunk in range(record.first_chunk, record.last_chunk + 1)]
        return []

    def score_nodes(self, nodes: Sequence[NodeId], vector: Vector) -> list[TreeNode]:
        """Return nodes, in order, with their cosines with a unit vector, their levels and their positions.

        The position of a node is the position of its first chunk; it is None for a topic. The vector of a node is the
        sum of its chunks' vectors. If a language model wrote the text of a topic, its vector is that text's vector if
        there is one.
        """
        self.load_abstracts(node.number for node in nodes if node.kind == "abstract")
        other_nodes = [node for node in nodes if node.kind != "topic"]
        topic_nodes = [node for node in nodes if node.kind == "topic"]
        chunk_groups, positions = self._locate_nodes(other_nodes)
        sums = self._sum_chunks(chunk_groups)
        if topic_nodes:
            topics = [node.number for node in topic_nodes]
            topic_vectors = self._sum_topics(topics)
            for index, topic in enumerate(topics):
                model_text = self._bound_topics.get_written_text(topic)
                if model_text is not None and model_text.vector is not None:
                    topic_vectors[index] = model_text.vector
            sums = np.concatenate((sums, topic_vectors))  # the topics last
        lengths = np.sqrt(np.einsum("ij,ij->i", sums, sums))
        cosines = np.round(sums @ vector.astype(np.float64) / np.where(lengths == 0, 1, lengths), _DECIMALS).tolist()
        cosine_by_node = dict(zip((*other_nodes, *topic_nodes), cosines, strict=True))
        position_by_node = dict(zip(other_nodes, positions, strict=True))
        return [
            TreeNode(node, self._get_level(node), cosine_by_node[node], position_by_node.get(node)) for node in nodes
        ]

    def _get_level(self, node: NodeId) -> int:
        """Return a number that orders nodes of equal position: chunks, then abstracts, then topics."""
        if node.kind == "topic":
            return _FIRST_TOPIC_LEVEL + int(self._bound_topics.trees.levels[node.number])
        return _CHUNK_LEVEL if node.kind == "chunk" else self._abstracts[node.number].level

    def _locate_nodes(self, nodes: Sequence[NodeId]) -> tuple[list[list[int]], list[NodePosition]]:
        """Return two lists parallel to ``nodes``, which are chunks and abstracts: their chunks and their positions.

        The only chunk of a chunk is itself; an abstract has the chunks below it, ascending. The position is the
        document key and the ordinal of the first of them. Abstracts must be loaded.
        """
        chunks = [number for kind, number in nodes if kind == "chunk"]
        chunk_records = dict(zip(chunks, self._state.chunks.get_many(chunks), strict=True))
        documents_of_nodes = [
            (chunk_records[number] if kind == "chunk" else self._abstracts[number]).document for kind, number in nodes
        ]
        documents = self._state.documents.get_many(documents_of_nodes)
        chunk_ids = {
            document: list(documents[document].chunk_ids())
            for (kind, _), document in zip(nodes, documents_of_nodes, strict=True)
            if kind == "abstract"
        }
        groups: list[list[int]] = []
        positions: list[NodePosition] = []
        for (kind, number), document in zip(nodes, documents_of_nodes, strict=True):
            if kind == "chunk":
                group, ordinal = [number], chunk_records[number].ordinal
            else:
                ids_in_document, abstract = chunk_ids[document], self._abstracts[number]
                ordinal = bisect_left(ids_in_document, abstract.first_chunk)
                group = ids_in_document[ordinal : bisect_right(ids_in_document, abstract.last_chunk)]
            groups.append(group)
            positions.append(NodePosition(documents[document].key, ordinal))
        return groups, positions

    def _sum_chunks(self, chunk_groups: Sequence[Sequence[int]]) -> npt.NDArray[np.float64]:
        """Return the sum of the vectors of each group of chunks, shape (groups, dimension).

        The chunks of a group are adjacent in one document.
        """
        # The vectors of a group are adjacent rows, because its chunks are adjacent in ``chunks``.
        chunks = sorted(set(chain.from_iterable(chunk_groups)))
        row_by_chunk = {chunk: row for row, chunk in enumerate(chunks)}
        vectors = self._read_vectors(chunks)
        sums = np.empty((len(chunk_groups), self._state.vectors.dimension))
        for total, group in zip(sums, chunk_groups, strict=True):
            first = row_by_chunk[group[0]]
            vectors[first : first + len(group)].sum(axis=0, dtype=np.float64, out=total)
        return sums

    def _read_vectors(self, chunks: Sequence[int]) -> Matrix:
        """Return the vectors of chunks, shape (chunks, dimension)."""
        return self._state.vectors.gather(self._state.chunks.get_vector_locations(chunks))

    def _sum_topics(self, topics: Sequence[int]) -> npt.NDArray[np.float64]:
        """Return the sum of the vectors of the chunks in each topic, shape (topics, dimension).

        Adds the valid stored sums of topics, and the vectors of the chunks that they do not cover.
        """
        bound_topics = self._bound_topics
        # Topics with the same chunks are summed once.
        distinct_topics, inverse = np.unique(bound_topics.trees.branching_topics[list(topics)], return_inverse=True)
        summands_by_topic = list(map(bound_topics.find_summands, distinct_topics.tolist()))
        stored_topics = list(dict.fromkeys(topic for summands in summands_by_topic for topic in summands.topics))
        chunks = list(dict.fromkeys(chunk for summands in summands_by_topic for chunk in summands.chunks))
        # The rows are the stored sums of topics, then the vectors of chunks.
        vectors = np.array([*bound_topics.read_vector_sums(stored_topics), *self._read_vectors(chunks)])
        row_by_topic = {topic: row for row, topic in enumerate(stored_topics)}
        row_by_chunk = {chunk: row for row, chunk in enumerate(chunks, len(stored_topics))}
        # The rows to add up for each topic.
        row_groups = [
            [*map(row_by_topic.__getitem__, summands.topics), *map(row_by_chunk.__getitem__, summands.chunks)]
            for summands in summands_by_topic
        ]
        starts = np.cumsum([0, *map(len, row_groups[:-1])])  # of the groups in ``summed_rows``
        summed_rows = vectors[list(chain.from_iterable(row_groups))]
        totals: npt.NDArray[np.float64] = np.add.reduceat(summed_rows, starts, axis=0, dtype=np.float64)
        return totals[inverse]

    def build_chunk_hits(self, nodes: Sequence[TreeNode]) -> dict[NodeId, Hit]:
        """Return the hits of chunk nodes, by node id, still without a rank (0)."""
        loaded_chunks = ChunkReadRequest([node.id.number for node in nodes]).fetch(self._state)
        return {
            node.id: build_chunk_hit(loaded, 0, node.cosine, f"cosine {node.cosine:.3f}")
            for node, loaded in zip(nodes, loaded_chunks, strict=True)
        }

    def build_abstract_hits(self, nodes: Sequence[TreeNode]) -> dict[NodeId, Hit]:
        """Return the hits of abstracts, by node id; their spans are the sentences of the abstracts."""
        self.load_abstracts(node.id.number for node in nodes)
        abstracts = [self._abstracts[node.id.number] for node in nodes]
        documents = self._state.documents.get_many(abstract.document for abstract in abstracts)
        sections = self._state.documents.get_sections_many(documents)
        chunk_groups, positions = self._locate_nodes([node.id for node in nodes])
        hits = {}
        for node, abstract, chunks, (_, first_ordinal) in zip(nodes, abstracts, chunk_groups, positions, strict=True):
            document = documents[abstract.document]
            ordinal = document.get_abstract_ordinal(node.id.number)
            last_ordinal = first_ordinal + len(chunks) - 1
            path = f"abstract {ordinal}, of chunks {first_ordinal} to {last_ordinal}: cosine {node.cosine:.3f}"
            hits[node.id] = build_composed_hit(
                "summary",
                self._locate_sentences(abstract, document.key, chunks, first_ordinal),
                self._state.abstracts.read_text(abstract),
                path,
                heading=" > ".join(build_heading_path(sections[document.id], abstract.section)),
                title=document.title,
                score=node.cosine,
            )
        return hits

    def _locate_sentences(
        self, abstract: AbstractRecord, document_key: str, chunks: Sequence[int], first_ordinal: int
    ) -> tuple[TextSpan, ...]:
        """Return the spans of the sentences of an abstract, each with the ordinal of its chunk.

        ``chunks`` are the chunks that the abstract summarizes, and ``first_ordinal`` is the ordinal of the first.
        """
        starts = [chunk.start for chunk in self._state.chunks.get_many(chunks)]
        return tuple(
            TextSpan(document_key, first_ordinal + bisect_right(starts, start) - 1, start, end)
            for start, end in abstract.summary
        )

    def build_topic_hits(self, nodes: Sequence[TreeNode]) -> dict[NodeId, Hit]:
        """Return the hits of topic nodes, by node id; omits topics with too many chunks or no source documents left."""
        shown_nodes = [node for node in nodes if not self.is_too_broad(node.id.number)]
        hits = {}
        for node, spans in zip(
            shown_nodes, self.read_topic_spans([node.id.number for node in shown_nodes]), strict=True
        ):
            topics, topic = self._bound_topics, node.id.number
            if spans:
                tree_note = " on related content" if topics.is_in_related_tree(topic) else ""
                path = f"topic of {topics.count_chunks(topic)} chunks{tree_note}: cosine {node.cosine:.3f}"
                text, title = topics.get_text(topic), topics.get_title(topic) or None
                hits[node.id] = build_composed_hit("summary", spans, text, path, title=title, score=node.cosine)
        return hits

    def read_topic_spans(self, topics: Sequence[int], limit: int | None = None) -> list[tuple[TextSpan, ...]]:
        """Return, for each topic, the spans of documents that its text comes from; at most ``limit`` (None: all)."""
        if not topics:
            return []
        self._bound_topics.load_topics(topics)
        stored_spans_by_topic = [self._bound_topics.list_source_spans(topic)[:limit] for topic in topics]
        # The spans of all topics are converted together, which reads each document once.
        spans = iter(convert_spans(self._state, list(chain.from_iterable(stored_spans_by_topic))))
        return [tuple(next(spans) for _ in stored_spans) for stored_spans in stored_spans_by_topic]
