"""The trees of topics of one build as arrays. A *topic* is a group of chunks, given by its index; *leaf* topics are the
topics of level 0, the finest. The tree of *similar* content groups chunks by vectors, and the tree of *related* content
groups sentences that mention the same entity.

In: topics, one after another, or the rows of the ``topic_trees`` table. Out: these rows, or :class:`StoredTopicTrees`;
topics are indexes into its arrays. It takes about 20 bytes for each topic and 20 for each chunk, and is read once for
all states that read the generation.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import CorruptionError
from ...storage.records import U32
from ...structures.clustering.affinity import IntArray
from ...structures.clustering.children import ChildIndex
from ...structures.indexes.generations import GenerationRows
from ...structures.vectors.vectors import Ids
from .topic_building import Topic

#: Topics as indexes into the arrays of :class:`StoredTopicTrees`.
TopicIds = npt.NDArray[np.int64]

TREES_TABLE = "topic_trees"
#: The parent of a root.
ROOT = -1
_TOPICS_PER_ROW = 4096
#: The stored form of :data:`ROOT`.
_NO_PARENT = 0xFFFFFFFF


class TreeColumns:
    """The columns of trees of topics, filled one topic at a time."""

    def __init__(self) -> None:
        """Create empty columns: level, parent, number of chunks, and the chunks of leaf topics."""
        self._levels, self._parents, self._chunk_counts = array("B"), array("I"), array("I")
        self._chunks = array("Q")  # only the chunks of the leaf topics

    def append(self, topic: Topic) -> None:
        """Append the level, parent, chunk count and, for a leaf topic, the chunks of the topic with the next id."""
        self._levels.append(topic.level)
        self._parents.append(_NO_PARENT if topic.parent is None else topic.parent)
        self._chunk_counts.append(topic.chunk_count)
        if topic.level == 0:
            self._chunks.extend(topic.children)

    def iter_rows(self) -> Iterator[tuple[bytes, list[bytes]]]:
        """Yield the rows (key, packed columns) of the ``topic_trees`` table, each with several appended topics."""
        chunk_start = 0
        for row, first in enumerate(range(0, len(self._levels), _TOPICS_PER_ROW)):
            topics = slice(first, first + _TOPICS_PER_ROW)
            levels, chunk_counts = np.array(self._levels[topics], "u1"), np.array(self._chunk_counts[topics], "<u4")
            # Only the chunks of leaf topics are stored.
            chunk_stop = chunk_start + int(chunk_counts[levels == 0].sum())
            columns = (
                levels,
                np.array(self._parents[topics], "<u4"),
                chunk_counts,
                np.array(self._chunks[chunk_start:chunk_stop], "<u8"),
            )
            chunk_start = chunk_stop
            yield U32.pack(row), [column.tobytes() for column in columns]


class StoredTopicTrees:
    """Two trees of topics in parallel arrays by topic: the first ``similar_count`` are the tree of similar content
    (chunks), the others of related content (sentences). ``sizes`` are numbers of chunks; a topic without parent has the
    parent :data:`ROOT`. ``in_related_tree`` selects the tree that is read.
    """

    def __init__(
        self, levels: npt.NDArray[np.uint8], parents: IntArray, sizes: IntArray, chunks: Ids, similar_count: int
    ) -> None:
        """Store the arrays, which are indexed by topic, and the chunks of the leaf topics, one topic after another."""
        self.levels = levels
        self.parents = parents
        self.sizes = sizes
        self.similar_count = similar_count
        self._chunks = chunks
        #: The end of each topic's chunks in ``_chunks``, which has only the chunks of leaf topics.
        self._stops = np.cumsum(np.where(levels == 0, sizes, 0))

    @classmethod
    def from_rows(cls, rows: GenerationRows) -> StoredTopicTrees:
        """Read the topic trees that one build stored. Raises CorruptionError if they are invalid.

        A parent must have a larger id than its children, and be one level above them.
        """
        columns: list[list[npt.NDArray[Any]]] = [[np.empty(0, dtype)] for dtype in ("u1", "<u4", "<u4", "<u8")]
        for _, row in rows.scan(TREES_TABLE):
            for arrays, packed_column in zip(columns, row, strict=True):
                arrays.append(np.frombuffer(packed_column, arrays[0].dtype))
        levels, stored_parents, counts, chunks = map(np.concatenate, columns)
        parents = np.where(stored_parents == _NO_PARENT, ROOT, stored_parents.astype(np.int64))
        trees = cls(
            levels,
            parents,
            sizes=counts.astype(np.int64),
            chunks=chunks.astype(np.uint64),
            similar_count=int(rows.header["similar"]),
        )
        children = np.flatnonzero(parents != ROOT)
        is_complete = len(trees) == rows.header["topics"] and len(chunks) == counts[levels == 0].sum()
        if not is_complete or (parents[children] <= children).any():
            raise CorruptionError("index topics: the topic trees are damaged; DROP INDEX topics, and create it again")
        if (parents >= len(trees)).any() or (levels[parents[children]] != levels[children] + 1).any():
            raise CorruptionError(
                "index topics: the topic trees contradict each other; DROP INDEX topics, and create it again"
            )
        return trees

    def __len__(self) -> int:
        """Return the number of topics of both trees."""
        return len(self.levels)

    def is_in_related_tree(self, topic: int) -> bool:
        """True if a topic belongs to the tree of related content, which groups sentences by their entities."""
        return topic >= self.similar_count

    def get_parent(self, topic: int) -> int | None:
        """Return the parent of a topic, or None for a root."""
        parent = int(self.parents[topic])
        return None if parent == ROOT else parent

    def list_level(self, level: int, *, in_related_tree: bool) -> TopicIds:
        """Return the topics at a level of one tree."""
        return np.flatnonzero(self._mask_tree(in_related_tree) & (self.levels == level))

    def list_roots(self, *, in_related_tree: bool) -> TopicIds:
        """Return the topics without a parent in one tree."""
        return np.flatnonzero(self._mask_tree(in_related_tree) & (self.parents == ROOT))

    def list_children(self, topic: int) -> list[int]:
        """Return the children of a topic, ascending."""
        children: list[int] = self._children.get_children(topic).tolist()
        return children

    def list_chunks(self, topic: int) -> list[int]:
        """Return the chunks of a leaf topic, in order of document keys and ordinals."""
        start = self._stops[topic - 1] if topic else 0
        chunks: list[int] = self._chunks[start : self._stops[topic]].tolist()
        return chunks

    def iter_leaves(self, topic: int) -> Iterator[int]:
        """Yield the leaf topics at or below a topic."""
        if self.levels[topic] == 0:
            yield topic
        for child in self.list_children(topic):
            yield from self.iter_leaves(child)

    def find_leaves(self, chunks: Sequence[int], *, in_related_tree: bool = False) -> list[list[int]]:
        """Return, for each chunk, the leaf topics that contain it in one tree, ascending."""
        if in_related_tree and self.similar_count == len(self):
            return [[] for _ in chunks]
        ids, leaves = self._leaves_by_chunk
        chunk_ids = np.array(chunks, np.uint64)
        starts, stops = np.searchsorted(ids, chunk_ids).tolist(), np.searchsorted(ids, chunk_ids, "right").tolist()
        return [
            [leaf for leaf in leaves[start:stop].tolist() if self.is_in_related_tree(leaf) == in_related_tree]
            for start, stop in zip(starts, stops, strict=True)
        ]

    def select_finest_topics(self, limit: int) -> IntArray:
        """Return the topics of the finest level with at most ``limit`` topics of similar content, ascending.

        If no level has so few, the ``limit`` topics of the coarsest level with the most chunks are returned, ties by
        id.
        """
        levels = self.levels[: self.similar_count]
        for level in range(int(levels.max(initial=0)) + 1):
            topics = np.flatnonzero(levels == level)
            if len(topics) <= limit:
                return topics
        largest_first = np.argsort(-self.sizes[topics], kind="stable")  # ``topics`` has the coarsest level
        return np.sort(topics[largest_first[:limit]])

    @cached_property
    def has_disjoint_leaves(self) -> bool:
        """True if no chunk is in two leaf topics of the tree of similar content."""
        ids, leaves = self._leaves_by_chunk
        ids = ids[leaves < self.similar_count]
        return not (ids[1:] == ids[:-1]).any()

    @cached_property
    def branching_topics(self) -> IntArray:
        """For each topic, the topic itself or, if it has a single child, the first descendant with several or none.

        Both contain the same chunks.
        """
        topics = np.arange(len(self))
        single_child_topics = np.flatnonzero(self._children.counts == 1)
        children = self._children.get_children_of_nodes(single_child_topics)
        for level in range(1, int(self.levels.max(initial=0)) + 1):  # children first
            is_of_level = self.levels[single_child_topics] == level
            topics[single_child_topics[is_of_level]] = topics[children[is_of_level]]
        return topics

    @cached_property
    def known_chunks(self) -> Ids:
        """The chunks that the topics were built from, ascending, without duplicates."""
        ids, leaves = self._leaves_by_chunk
        return np.unique(ids[leaves < self.similar_count])

    def _mask_tree(self, in_related_tree: bool) -> npt.NDArray[np.bool_]:
        """Return the mask of the topics of one tree."""
        mask: npt.NDArray[np.bool_] = (np.arange(len(self)) >= self.similar_count) == in_related_tree
        return mask

    @cached_property
    def _leaves_by_chunk(self) -> tuple[Ids, IntArray]:
        """Two parallel arrays: chunks, ascending, and a leaf topic of either tree that contains each of them."""
        leaves = np.repeat(np.arange(len(self)), np.diff(self._stops, prepend=0))
        order = np.argsort(self._chunks, kind="stable")
        return self._chunks[order], leaves[order]

    @cached_property
    def _children(self) -> ChildIndex:
        """The children of each topic."""
        return ChildIndex(self.parents)
