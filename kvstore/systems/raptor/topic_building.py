"""Topics: a tree of groups of chunks of all documents, with extractive summaries (RAPTOR, Sarthi et al. 2024). The
*items* that a level groups are chunks or, in a second tree, *leaves*: the sentences that mention an entity. A
*partition* (labels) has the group of each item. Level 0 is the finest.

In: the chunks of a state, sorted by document key and ordinal, with their vectors. Out: topics one after another, a
function of texts and vectors only: the result depends on no seed, id or order of arrival. Groups come from affinity
clustering, or from the mixtures of the paper (:mod:`.gaussian_mixtures`).

The summary of a topic is the sentences that together cover most of what its members share. The finest topics choose
from all sentences, coarser topics from the summaries of their children. A changed document thus changes only its own
topics and their ancestors. Summaries come from :mod:`.topic_summaries`. This module also computes the digest of the
text that a model would be shown of a topic.

A second tree has topics of related content. Its finest topics are the leaves, and they are grouped upward in the same
way (the idea is from SiReRAG, Zhang et al., ICLR 2025).

A large store has more topics than chunks. Only the groups are held in memory, as arrays, plus the offsets of the
sentences of the level below. Vectors are held in memory only while they are clustered. All else is in scratch files
(:mod:`.ordered_chunks`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from ...retrieval.evidence import StoredSpan
from ...structures.clustering.affinity import IntArray, Partition, cluster_vectors, renumber_clusters
from ...structures.vectors.vectors import Matrix
from .ordered_chunks import EntitySentences, OrderedChunks
from .topic_summaries import (
    LevelSummaries,
    TopicDraft,
    summarize_from_children,
    summarize_from_chunks,
    summarize_from_sentences,
)

if TYPE_CHECKING:
    from .gaussian_mixtures import Mixtures

#: The maximum number of names stored for a group of related topics; its title shows the first of them.
_MAX_NAMES = 12
#: Cosines are rounded to this many steps before they are compared.
_COSINE_STEPS = 10_000
#: The version of the prompt; change it with the prompt or the selection of the text shown.
_PROMPT_VERSION = b"topic 1"


class Topic(NamedTuple):
    """A group of chunks or of topics. Level 0 is the finest; ``children`` are chunks at level 0 and topics above.

    ``parent`` is the id of the topic above it (None: a root). ``chunk_count`` and ``document_count`` count everything
    below. ``title`` has spans of characteristic words, ``summary`` spans of sentences, and ``prompt_spans`` spans of
    the text that a model is shown; ``content_digest`` is the digest of that text. ``vector_sum`` is the sum of the
    vectors of all chunks below, packed float32. It is stored only if there are more than
    :data:`~.ordered_chunks.MAX_SUMMED_CHUNKS` chunks and more than one member. The ids of topics count from 0, from the
    finest level and in order of their first chunk.

    The topics of the second tree follow, in order of names. They have ``entities`` (ids) instead of a title: at level 0
    the entities that its sentences mention, above that the entities in the most chunks. Their ``children`` at level 0
    are the chunks that contain these sentences.
    """

    level: int
    parent: int | None
    children: Sequence[int]
    chunk_count: int
    document_count: int
    title: Sequence[StoredSpan]
    summary: Sequence[StoredSpan]
    prompt_spans: Sequence[StoredSpan]
    content_digest: bytes
    vector_sum: bytes = b""
    entities: Sequence[int] = ()

    @property
    def is_in_related_tree(self) -> bool:
        """True if the topic belongs to the tree of related content, which groups sentences by their entities."""
        return bool(self.entities)


class _Groups:
    """Lists of integers, one for each group, such as the chunks of each topic; ``groups[n]`` is the list of group n."""

    def __init__(self, members: IntArray, starts: IntArray) -> None:
        """Store groups of integers: group n is ``members[starts[n] : starts[n + 1]]``."""
        self._members, self._starts = members, starts

    @staticmethod
    def from_labels(labels: IntArray) -> _Groups:
        """Group the indexes of labels by label; labels count from 0, and indexes ascend within each group."""
        count = int(labels.max(initial=-1)) + 1
        order = np.argsort(labels, kind="stable")
        return _Groups(order, np.searchsorted(labels[order], np.arange(count + 1)))

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self._starts) - 1

    def __getitem__(self, group: int) -> IntArray:
        """Return the members of a group, ascending."""
        return self._members[self._starts[group] : self._starts[group + 1]]


class _TopicLevel:
    """The topics of a level, each a group of items. ``labels`` hold the topic of each item, and ``item_indexes`` the
    items of each topic. ``members`` holds the child topics of each topic (at the finest level, its items), and
    ``parents`` its parent (None at the coarsest level), as indexes in their levels.

    The items are chunks or, in the tree of related content, leaves. ``first_id`` is the id of the first topic.
    """

    def __init__(
        self, first_id: int, labels: IntArray, finer_labels: IntArray | None, coarser_labels: IntArray | None
    ) -> None:
        """Group items by ``labels``, the topic of each item at this level, and find the children and parent of topics.

        ``first_id`` is the id of the level's first topic. ``finer_labels`` and ``coarser_labels`` are the topics of the
        items at the next finer and the next coarser level; None if this level is the finest or the coarsest.
        """
        self.first_id, self.labels = first_id, labels
        self.item_indexes = _Groups.from_labels(labels)
        if finer_labels is None:
            self.members = self.item_indexes
        else:
            self.members = _Groups.from_labels(_map_to_parents(finer_labels, labels))
        self.parents = None if coarser_labels is None else _map_to_parents(labels, coarser_labels)

    def __len__(self) -> int:
        """Return the number of topics of the level."""
        return len(self.item_indexes)


def _map_to_parents(labels: IntArray, parent_labels: IntArray) -> IntArray:
    """Return the parent of each topic: the topic of the next coarser level that contains its items.

    ``labels`` hold the topic of each item, and ``parent_labels`` the topic of each item at the coarser level.
    """
    parents: IntArray = np.zeros(int(labels.max(initial=-1)) + 1, np.int64)
    parents[labels] = parent_labels
    return parents


def _build_levels(partitions: Sequence[Partition], first_id: int = 0) -> list[_TopicLevel]:
    """Return a level of topics for each partition, finest first; ids count from ``first_id``."""
    levels: list[_TopicLevel] = []
    all_labels = [None, *map(renumber_clusters, partitions), None]
    for finer, labels, coarser in zip(all_labels, all_labels[1:], all_labels[2:], strict=False):
        assert labels is not None
        levels.append(_TopicLevel(first_id, labels, finer, coarser))
        first_id += len(levels[-1])
    return levels


class _SummarizedTree:
    """A tree of topics, which are yielded with their summaries, finest level first. Coarser topics are summarized from
    their children. A subclass yields the topics of each level as drafts, and summarizes the topics of the finest level.
    """

    def __init__(self, chunks: OrderedChunks, levels: list[_TopicLevel]) -> None:
        """Store the levels of topics, finest first; ``chunks`` has the texts that are summarized."""
        self._chunks, self._levels = chunks, levels

    def __len__(self) -> int:
        """Return the number of topics of all levels."""
        return sum(map(len, self._levels))

    def __iter__(self) -> Iterator[Topic]:
        """Yield the topics, finest level first, each with its summary and its title or entities."""
        finer_summaries = LevelSummaries()
        for level_index in range(len(self._levels)):
            summaries = LevelSummaries()
            for draft in self._iter_drafts(level_index):
                if level_index:
                    first_id = self._levels[level_index - 1].first_id
                    summarize_from_children(self._chunks, draft, finer_summaries, first_id)
                summaries.append(draft)
                yield _build_topic(self._chunks, draft)
            finer_summaries = summaries

    def _iter_drafts(self, level_index: int) -> Iterator[TopicDraft]:
        """Yield the topics of a level under construction; only topics of level 0 have summaries already.

        Implemented by the subclasses.
        """
        raise NotImplementedError

    def _list_child_topics(self, level_index: int, topic_index: int) -> list[int]:
        """Return the ids of the children of a topic above the finest level; ``topic_index`` is within its level."""
        members: list[int] = self._levels[level_index].members[topic_index].tolist()
        return [self._levels[level_index - 1].first_id + member for member in members]

    def _find_parent(self, level_index: int, topic_index: int) -> int | None:
        """Return the id of a topic's parent, or None at the coarsest level; ``topic_index`` is within its level."""
        parents = self._levels[level_index].parents
        return None if parents is None else self._levels[level_index + 1].first_id + int(parents[topic_index])


class TopicTree(_SummarizedTree):
    """The tree of topics of similar content. A chunk can also be in a second topic, with the same parent as its own."""

    def __init__(
        self,
        chunks: OrderedChunks,
        partitions: Sequence[Partition],
        soft: float,
        vectors: Matrix | None,
        second_topics: IntArray | None = None,
    ) -> None:
        """Build a tree of topics of similar content from ``partitions`` of the chunks, finest first.

        A chunk can also be in a second topic of the finest level, unless there is only one level. With ``soft`` above
        0, it is the nearest other topic, if its cosine with the chunk is at most ``soft`` lower than the cosine of the
        chunk's own topic. This needs the ``vectors`` of the chunks. Otherwise, ``second_topics`` has rows (topic,
        chunk), or is None for no second topic.
        """
        super().__init__(chunks, _build_levels(partitions))
        self._leaf_chunk_indexes = self._levels[0].item_indexes if self._levels else None
        if len(self._levels) < 2:
            return
        if soft and vectors is not None:
            second_topics = _find_second_topics(vectors, self._levels[0], self._levels[1], soft)
        if second_topics is not None:
            self._leaf_chunk_indexes = _add_second_topics(self._levels[0], second_topics)

    def _iter_drafts(self, level_index: int) -> Iterator[TopicDraft]:
        """Yield the topics of a level under construction; topics of level 0 get their summaries and titles here.

        Coarser topics get theirs later, from their children.
        """
        level = self._levels[level_index]
        for topic_index in range(len(level)):
            parent = self._find_parent(level_index, topic_index)
            if level_index:
                child_topics = self._list_child_topics(level_index, topic_index)
                chunk_indexes = level.item_indexes[topic_index].tolist()
                yield TopicDraft(level_index, members=child_topics, chunk_indexes=chunk_indexes, parent=parent)
            else:
                assert self._leaf_chunk_indexes is not None
                chunk_indexes = self._leaf_chunk_indexes[topic_index].tolist()
                draft = TopicDraft(0, members=chunk_indexes, chunk_indexes=chunk_indexes, parent=parent)
                summarize_from_chunks(self._chunks, draft)
                yield draft


class RelatedTree(_SummarizedTree):
    """The tree of topics of related content: a topic for each entity, then groups of these, finest first."""

    def __init__(
        self, chunks: OrderedChunks, leaves: Sequence[EntitySentences], partitions: Sequence[Partition], first_id: int
    ) -> None:
        """Build the tree of topics of related content (the idea is from SiReRAG).

        The finest level has a topic for each of ``leaves``, the sentences that mention an entity. Each other level is
        one of the ``partitions`` of the leaves, finest first. The ids of topics count from ``first_id``.
        """
        super().__init__(chunks, _build_levels([np.arange(len(leaves)), *partitions], first_id) if leaves else [])
        self._leaves = leaves

    def _iter_drafts(self, level_index: int) -> Iterator[TopicDraft]:
        """Yield the topics of a level under construction, with the entities of their sentences.

        A topic of level 0 is a leaf (the sentences that mention an entity), and gets its summary here. Coarser topics
        get theirs later, from their children.
        """
        level = self._levels[level_index]
        for topic_index in range(len(level)):
            leaves = [self._leaves[leaf] for leaf in level.item_indexes[topic_index].tolist()]
            chunk_indexes = sorted({chunk_index for leaf in leaves for chunk_index in leaf.chunk_indexes})
            members = self._list_child_topics(level_index, topic_index) if level_index else chunk_indexes
            parent = self._find_parent(level_index, topic_index)
            draft = TopicDraft(level_index, members, chunk_indexes, parent)
            if level_index:
                largest_leaves = sorted(leaves, key=lambda leaf: -len(leaf.chunk_indexes))[:_MAX_NAMES]
                draft.entities = [leaf.entities[0] for leaf in largest_leaves]
            else:
                (leaf,) = leaves
                draft.entities = leaf.entities
                sentences = [self._chunks.build_sentence(*span) for span in leaf.spans.tolist()]
                summarize_from_sentences(self._chunks, draft, sentences)
            yield draft


def iter_partitions(vectors: Matrix, method: str, size: int, levels: int) -> Iterator[Partition]:
    """Yield at most ``levels`` partitions of unit vectors, finest first, by the ``affinity`` or ``gmm`` method.

    A partition is an array with the group of each vector. A finest group has at most ``size`` vectors if possible.
    ``affinity`` releases the vectors as soon as it no longer needs them. Raises InputError if the package for ``gmm``
    is missing.
    """
    if method == "gmm":
        return iter(fit_partitions(vectors, size, levels).partitions)
    return _ensure_partition(cluster_vectors(vectors, max_cluster_size=size, max_levels=levels), len(vectors))


def fit_partitions(vectors: Matrix, size: int, levels: int) -> Mixtures:
    """Return partitions of unit vectors by Gaussian mixtures (``gmm``), at least one partition.

    They are at most ``levels`` partitions, finest first; a finest group has at most ``size`` vectors if possible.
    Raises InputError if the package for mixtures is missing.
    """
    from .gaussian_mixtures import fit_gaussian_mixtures

    mixtures = fit_gaussian_mixtures(vectors, size, levels)
    return mixtures._replace(partitions=list(_ensure_partition(iter(mixtures.partitions), len(vectors))))


def _ensure_partition(partitions: Iterator[Partition], count: int) -> Iterator[Partition]:
    """Yield the partitions unchanged or, if there are none, a partition with all ``count`` vectors in one group.

    Yields nothing if there are no vectors either.
    """
    finest_partition = next(partitions, None)
    if finest_partition is not None:
        yield finest_partition
        yield from partitions
    elif count:
        yield np.zeros(count, np.int64)


def _find_second_topics(
    vectors: Matrix, finest_level: _TopicLevel, coarser_level: _TopicLevel, soft: float
) -> IntArray:
    """Return rows (topic, chunk) for chunks that are almost as near to another topic as to their own, shape (n, 2).

    A topic is an index in ``finest_level``, and a chunk the index of its row in ``vectors``. The other topic is the
    nearest one with the same parent (in ``coarser_level``). The chunk's cosine with the other topic is at least its
    cosine with its own topic minus ``soft``.
    """
    pairs: list[IntArray] = [np.empty((0, 2), np.int64)]
    for parent in range(len(coarser_level)):
        topics = coarser_level.members[parent]
        if len(topics) < 2:
            continue
        centroids = np.array([compute_centroid(vectors[finest_level.item_indexes[topic]]) for topic in topics.tolist()])
        chunk_indexes = coarser_level.item_indexes[parent]
        # The cosine of each chunk (row) with each topic (column). Rounded, so that the last bits, which depend on the
        # order of the chunks, decide nothing.
        cosines = np.rint((vectors[chunk_indexes] @ centroids.T) * _COSINE_STEPS) / _COSINE_STEPS
        rows, own_columns = np.arange(len(chunk_indexes)), np.searchsorted(topics, finest_level.labels[chunk_indexes])
        own_cosines = cosines[rows, own_columns]
        cosines[rows, own_columns] = -np.inf  # so that the nearest topic is another one
        nearest_columns = cosines.argmax(axis=1)
        is_near = cosines[rows, nearest_columns] >= own_cosines - soft
        pairs.append(np.column_stack((topics[nearest_columns], chunk_indexes))[is_near])
    return np.concatenate(pairs)


def compute_centroid(vectors: Matrix) -> npt.NDArray[np.float64]:
    """Return the centroid of vectors, scaled to unit length; the centroid of opposite vectors is 0."""
    total = vectors.astype(np.float64).sum(axis=0)
    centroid: npt.NDArray[np.float64] = total / max(np.sqrt((total * total).sum()), 1e-12)  # not 0, as a divisor
    return centroid


def _add_second_topics(finest_level: _TopicLevel, second_topics: IntArray) -> _Groups:
    """Return the chunks of each finest topic: those for which it is the first or the second topic.

    ``second_topics`` has rows (topic, chunk). A row counts only if the topic has the same parent as the chunk's own
    topic.
    """
    assert finest_level.parents is not None  # there is a coarser level
    topics, chunk_indexes = second_topics.T
    has_own_parent = finest_level.parents[topics] == finest_level.parents[finest_level.labels[chunk_indexes]]
    topics = np.concatenate((finest_level.labels, topics[has_own_parent]))
    chunk_indexes = np.concatenate((np.arange(len(finest_level.labels)), chunk_indexes[has_own_parent]))
    order = np.lexsort((chunk_indexes, topics))
    return _Groups(chunk_indexes[order], np.searchsorted(topics[order], np.arange(len(finest_level) + 1)))


def _build_topic(chunks: OrderedChunks, draft: TopicDraft) -> Topic:
    """Return the topic to store for a finished draft: chunk indexes become ids, and ranges in chunks become spans.

    A digest of the texts that a model would be shown identifies a summary that the model writes.
    """
    digest = blake2b(_PROMPT_VERSION, digest_size=16)
    for span in draft.prompt_spans:
        digest.update(blake2b(chunks.read_text(*span), digest_size=16).digest())
    return Topic(
        level=draft.level,
        parent=draft.parent,
        children=draft.members if draft.level else chunks.ids[draft.members].tolist(),
        chunk_count=len(draft.chunk_indexes),
        document_count=len(set(chunks.documents[draft.chunk_indexes].tolist())),
        title=[chunks.to_span(*span) for _, *span in draft.title],
        summary=[chunks.to_span(*sentence.span) for sentence in draft.summary],
        prompt_spans=[chunks.to_span(*span) for span in draft.prompt_spans],
        content_digest=digest.digest(),
        # A topic with a single member has the chunks of that member.
        vector_sum=chunks.sum_vectors(draft.chunk_indexes) if len(draft.members) > 1 else b"",
        entities=draft.entities,
    )
