"""Topics: a tree of groups of chunks of all documents, with extractive summaries (RAPTOR, Sarthi et al. 2024).

In: the chunks of a state, sorted by document key and ordinal, with their vectors. Out: topics one after another, a
function of texts and vectors only: the result depends on no seed, id or order of arrival. Groups come from affinity
clustering, or from the mixtures of the paper (:mod:`.gaussian_mixtures`).

The summary of a topic is the sentences that together cover most of what its members share. The finest topics choose
from all sentences, coarser topics from the summaries of their children. A changed document thus changes only its own
topics and their ancestors. Summaries come from :mod:`.topic_summaries`. This module also digests the text that a model
would be shown of a topic.

A second tree has topics of related content. Its finest topics are the sentences that mention one entity, and they are
grouped upwards in the same way (the idea is from SiReRAG, Zhang et al., ICLR 2025).

A large store has more topics than chunks. Only the groups are held in memory, as arrays, plus the offsets of the
sentences of the level below. Vectors are held in memory only while they are clustered. All else is in scratch files
(:mod:`.ordered_chunks`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...retrieval.evidence import StoredSpan
from ...structures.clustering.affinity import Partition, cluster_vectors, renumber_clusters
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
#: The version of the prompt; change it with the prompt or the selection of the text shown.
_PROMPT_VERSION = b"topic 1"


class Topic(NamedTuple):
    """A group of chunks or of topics. Level 0 is the finest; ``children`` are chunks at level 0 and topics above.

    ``chunk_count`` and ``document_count`` count everything below. ``title`` has spans of characteristic words,
    ``summary`` spans of sentences, and ``prompt_spans`` spans of the text that a model is shown; ``content`` is the
    digest of the latter. ``vector_sum`` is the sum of the vectors of all chunks below, packed float32. It is stored
    only if there are more than :data:`~.ordered_chunks.MAX_SUMMED_CHUNKS` chunks and more than one member. Topics are
    numbered from the finest level, in order of their first chunk.

    The topics of the second tree follow, in order of names. They have ``entities`` (ids) instead of a title: at level 0
    the entities that its sentences mention, above that the ones in the most chunks. Their ``children`` at level 0 are
    the chunks that contain these sentences.
    """

    level: int
    parent: int | None
    children: Sequence[int]
    chunk_count: int
    document_count: int
    title: Sequence[StoredSpan]
    summary: Sequence[StoredSpan]
    prompt_spans: Sequence[StoredSpan]
    content: bytes
    vector_sum: bytes = b""
    entities: Sequence[int] = ()

    @property
    def is_related(self) -> bool:
        """True if the topic belongs to the second tree."""
        return bool(self.entities)


class _Groups:
    """Integers by group: those of group n are ``members[starts[n] : starts[n + 1]]``."""

    def __init__(self, members: Partition, starts: Partition) -> None:
        self._members, self._starts = members, starts

    @staticmethod
    def from_labels(labels: Partition) -> _Groups:
        """Group indices by their labels, which are numbered from 0; ascending within each group."""
        count = int(labels.max(initial=-1)) + 1
        order = np.argsort(labels, kind="stable")
        return _Groups(order, np.searchsorted(labels[order], np.arange(count + 1)))

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, group: int) -> Partition:
        return self._members[self._starts[group] : self._starts[group + 1]]


class _TopicLevel:
    """The topics of a level, given the ``labels`` of chunks (or leaves).

    ``positions`` holds the chunks of each topic, ``members`` its child topics, and ``parents`` its parent, each
    numbered within its level. ``first`` is the global number of the first topic.
    """

    def __init__(
        self, first: int, labels: Partition, finer_labels: Partition | None, coarser_labels: Partition | None
    ) -> None:
        self.first, self.labels = first, labels
        self.positions = _Groups.from_labels(labels)
        child_labels = None if finer_labels is None else _map_to_parents(finer_labels, labels)
        self.members = self.positions if child_labels is None else _Groups.from_labels(child_labels)
        self.parents = None if coarser_labels is None else _map_to_parents(labels, coarser_labels)

    def __len__(self) -> int:
        return len(self.positions)


def _map_to_parents(labels: Partition, parent_labels: Partition) -> Partition:
    """Return the parent group of each group."""
    parents: Partition = np.zeros(int(labels.max(initial=-1)) + 1, np.int64)
    parents[labels] = parent_labels
    return parents


def _build_levels(partitions: Sequence[Partition], first: int = 0) -> list[_TopicLevel]:
    """Return the levels of topics of partitions, finest first, numbered from ``first``."""
    levels: list[_TopicLevel] = []
    all_labels = [None, *map(renumber_clusters, partitions), None]
    for finer, labels, coarser in zip(all_labels, all_labels[1:], all_labels[2:], strict=False):
        assert labels is not None
        levels.append(_TopicLevel(first, labels, finer, coarser))
        first += len(levels[-1])
    return levels


class TopicTree:
    """The tree of topics of similar content, given partitions of the chunks, finest first.

    A chunk can also be in a second topic that has the same parent as its own. The candidates are ``second_topics``
    (rows of topic and chunk). If ``soft`` and ``vectors`` are given, they are instead the topics whose cosine with the
    chunk is at most ``soft`` less than that of its own topic.
    """

    def __init__(
        self,
        chunks: OrderedChunks,
        partitions: Sequence[Partition],
        soft: float,
        vectors: Matrix | None,
        second_topics: Partition | None = None,
    ) -> None:
        self._chunks = chunks
        self._levels = _build_levels(partitions)
        self._finest = self._levels[0].positions if self._levels else None
        if len(self._levels) < 2:
            return
        if soft and vectors is not None:
            second_topics = _find_second_topics(vectors, self._levels[0], self._levels[1], soft)
        if second_topics is not None:
            self._finest = _add_second_topics(self._levels[0], second_topics)

    def __len__(self) -> int:
        return sum(map(len, self._levels))

    def __iter__(self) -> Iterator[Topic]:
        """Yield the topics, finest level first, each with its summary and title."""
        finer_summaries = LevelSummaries()
        for number, level in enumerate(self._levels):
            summaries = LevelSummaries()
            for draft in self._iter_drafts(number, level):
                if number == 0:
                    summarize_from_chunks(self._chunks, draft)
                else:
                    summarize_from_children(self._chunks, draft, finer_summaries, self._levels[number - 1].first)
                summaries.append(draft)
                yield _build_topic(self._chunks, draft)
            finer_summaries = summaries

    def _iter_drafts(self, number: int, level: _TopicLevel) -> Iterator[TopicDraft]:
        """Yield a draft of each topic of a level, still without summary and title."""
        for topic in range(len(level)):
            if number:
                members = (self._levels[number - 1].first + level.members[topic]).tolist()
                positions = level.positions[topic].tolist()
            else:
                assert self._finest is not None
                members = positions = self._finest[topic].tolist()
            yield TopicDraft(number, members, positions, _find_parent(self._levels, number, topic))


def _find_parent(levels: Sequence[_TopicLevel], level: int, topic: int) -> int | None:
    """Return the global number of the parent of a topic, given its level and its number within the level."""
    parents = levels[level].parents
    return None if parents is None else levels[level + 1].first + int(parents[topic])


class RelatedTree:
    """The topics of related content, numbered from ``first``: the leaves, then groups of them, finest first."""

    def __init__(
        self, chunks: OrderedChunks, leaves: Sequence[EntitySentences], partitions: Sequence[Partition], first: int
    ) -> None:
        self._chunks, self._leaves = chunks, leaves
        self._levels = _build_levels([np.arange(len(leaves)), *partitions], first) if leaves else []

    def __len__(self) -> int:
        return sum(map(len, self._levels))

    def __iter__(self) -> Iterator[Topic]:
        """Yield the topics, finest level first, each with its summary and entities."""
        chunks, finer_summaries = self._chunks, LevelSummaries()
        for number, level in enumerate(self._levels):
            summaries = LevelSummaries()
            for topic in range(len(level)):
                leaves = [self._leaves[leaf] for leaf in level.positions[topic].tolist()]
                positions = sorted({position for leaf in leaves for position in leaf.positions})
                draft = TopicDraft(number, positions, positions, _find_parent(self._levels, number, topic))
                if number == 0:
                    draft.entities = leaves[0].entities
                    summarize_from_sentences(
                        chunks, draft, [chunks.build_sentence(*row) for row in leaves[0].spans.tolist()]
                    )
                else:
                    first = self._levels[number - 1].first
                    draft.members = (first + level.members[topic]).tolist()
                    summarize_from_children(chunks, draft, finer_summaries, first)
                    largest_leaves = sorted(leaves, key=lambda leaf: -len(leaf.positions))[:_MAX_NAMES]
                    draft.entities = [leaf.entities[0] for leaf in largest_leaves]
                summaries.append(draft)
                yield _build_topic(chunks, draft)
            finer_summaries = summaries


def iter_partitions(vectors: Matrix, method: str, size: int, levels: int) -> Iterator[Partition]:
    """Yield partitions of unit vectors into groups, finest first, by the method ``affinity`` or ``gmm``.

    ``affinity`` releases the vectors as soon as it no longer needs them. Raises InputError if the package for ``gmm``
    is missing.
    """
    if method == "gmm":
        return iter(fit_partitions(vectors, size, levels).partitions)
    return _ensure_partition(cluster_vectors(vectors, size=size, levels=levels), len(vectors))


def fit_partitions(vectors: Matrix, size: int, levels: int) -> Mixtures:
    """Return partitions of unit vectors by Gaussian mixtures (``gmm``), at least one partition.

    Raises InputError if the package for mixtures is missing.
    """
    from .gaussian_mixtures import fit_gaussian_mixtures

    mixtures = fit_gaussian_mixtures(vectors, size, levels)
    return mixtures._replace(partitions=list(_ensure_partition(iter(mixtures.partitions), len(vectors))))


def _ensure_partition(rounds: Iterator[Partition], count: int) -> Iterator[Partition]:
    """Yield the given partitions or, if there are none, one with a single group of all ``count`` items."""
    first = next(rounds, None)
    if first is not None:
        yield first
        yield from rounds
    elif count:
        yield np.zeros(count, np.int64)


def _find_second_topics(vectors: Matrix, finest: _TopicLevel, coarser: _TopicLevel, soft: float) -> Partition:
    """Return rows of topic and chunk for chunks that are almost as near to another topic as to their own.

    The other topic is the nearest with the same parent. Its cosine with the chunk is at most ``soft`` less.
    """
    pairs: list[tuple[int, int]] = []
    for parent in range(len(coarser)):
        members = coarser.members[parent].tolist()
        if len(members) < 2:
            continue
        sums = [vectors[finest.positions[member]].astype(np.float64).sum(axis=0) for member in members]
        centroids = np.array([vector / max(np.sqrt((vector * vector).sum()), 1e-12) for vector in sums])
        positions = coarser.positions[parent]
        # Rounded, so that the last bits, which depend on the order of the chunks, decide nothing.
        cosines = np.rint((vectors[positions] @ centroids.T) * 10_000) / 10_000
        own_indexes = {
            position: index for index, member in enumerate(members) for position in finest.positions[member].tolist()
        }
        for position, row in zip(positions.tolist(), cosines, strict=True):
            own_index = own_indexes[position]
            second_index = int(np.argmax(np.where(np.arange(len(row)) == own_index, -np.inf, row)))
            if row[second_index] >= row[own_index] - soft:
                pairs.append((members[second_index], position))
    return np.array(pairs, np.int64).reshape(-1, 2)


def _add_second_topics(finest: _TopicLevel, second_topics: Partition) -> _Groups:
    """Return the chunks of the finest topics, with those of ``second_topics`` (rows of topic and chunk) added.

    A second topic counts only if it has the same parent as the chunk's own topic.
    """
    assert finest.parents is not None  # there is a coarser level
    topic_parents, own_parents = finest.parents[second_topics[:, 0]], finest.parents[finest.labels[second_topics[:, 1]]]
    extra_rows = second_topics[topic_parents == own_parents]
    topics = np.concatenate((finest.labels, extra_rows[:, 0]))
    positions = np.concatenate((np.arange(len(finest.labels)), extra_rows[:, 1]))
    order = np.lexsort((positions, topics))
    return _Groups(positions[order], np.searchsorted(topics[order], np.arange(len(finest) + 1)))


def _build_topic(chunks: OrderedChunks, draft: TopicDraft) -> Topic:
    """Convert a draft to a topic: replace chunk indices by ids, and compute the digest of the prompt texts."""
    digest = blake2b(_PROMPT_VERSION, digest_size=16)
    for span in draft.prompt_spans:
        digest.update(blake2b(chunks.read_text(*span), digest_size=16).digest())
    return Topic(
        draft.level,
        draft.parent,
        draft.members if draft.level else chunks.ids[draft.members].tolist(),
        len(draft.positions),
        len(set(chunks.documents[draft.positions].tolist())),
        [chunks.to_span(*span) for _, *span in draft.title],
        [chunks.to_span(*sentence[:3]) for sentence in draft.summary],
        [chunks.to_span(*span) for span in draft.prompt_spans],
        digest.digest(),
        chunks.sum_vectors(draft.positions) if len(draft.members) > 1 else b"",
        draft.entities,
    )
