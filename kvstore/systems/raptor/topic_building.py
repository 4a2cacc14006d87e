"""Topics: a tree of groups of chunks of all documents, with extractive summaries (RAPTOR, Sarthi et al. 2024).

In: the chunks of a state, sorted by document key and ordinal, with their vectors. Out: topics one after another, a
function of texts and vectors only: the result depends on no seed, id or order of arrival. Groups come from affinity
clustering, or from the mixtures of the paper (:mod:`.fit_gaussian_mixtures`).

The summary of a topic is the sentences that together cover most of what its members share. The finest topics choose
from all sentences, coarser topics from the summaries of their children. A changed document thus changes only its own
topics and their ancestors. This module also selects the text that a model would be shown of a topic, and digests it.

A second tree has topics of related content. Its finest topics are the sentences that mention one entity, and they are
grouped upwards in the same way (the idea is from SiReRAG, Zhang et al., ICLR 2025).

A large store has more topics than chunks. Only the groups are held in memory, as arrays, plus the offsets of the
sentences of the level below. A sentence is read again each time it is compared. Texts and vectors are copied to unnamed
files (:mod:`...storage.scratch_file`); vectors are held in memory only while they are clustered.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...retrieval.cover import list_content_sentences
from ...storage.scratch_file import ScratchFile
from ...structures.clustering.affinity import Partition, cluster_vectors, renumber_clusters
from ...structures.state import State
from ...structures.vectors.vectors import Matrix
from ...text.blocks import format_summary_sentence
from ...text.everyday_words import is_everyday
from ...text.greedy_cover import SentenceWords, compute_cover_weights, extract_sentence_words, select_greedy_cover

#: The maximum words and sentences of a summary, and its maximum sentences from one document.
MAX_SUMMARY_WORDS, MAX_SUMMARY_SENTENCES, MAX_SENTENCES_PER_DOCUMENT = 100, 6, 2
NUM_TITLE_WORDS = 3
#: The maximum number of names stored for a group of related topics; its title shows the first of them.
_MAX_NAMES = 12
#: The approximate number of bytes of a topic's text that a model is shown.
_MAX_PROMPT_BYTES = 6_000
#: The number of chunks whose vectors are read together.
_VECTOR_BATCH_SIZE = 4096
#: Up to this number of chunks, vectors are summed at query time; larger topics store their sum.
MOST_ADDED = 8
#: The version of the prompt; change it with the prompt or the selection of the text shown.
_PROMPT_VERSION = b"topic 1"


class StoredSpan(NamedTuple):
    """A span in a chunk: bytes ``start`` to ``end`` of the text of its document; ids of both."""

    document: int
    chunk: int
    start: int
    end: int


class Topic(NamedTuple):
    """A group of chunks or of topics. Level 0 is the finest; ``children`` are chunks at level 0 and topics above.

    ``chunk_count`` and ``document_count`` count everything below. ``get_title`` has spans of characteristic words,
    ``summary`` spans of sentences, and ``prompt_spans`` spans of the text that a model is shown; ``content`` is the
    digest of the latter. ``vector_sum`` is the sum of the vectors of all chunks below, packed float32. It is stored
    only if there are more than :data:`MOST_ADDED` chunks and the topic has more than one member. Topics are numbered
    from the finest level, in order of their first chunk.

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


@dataclass(frozen=True)
class OrderedChunks:
    """Chunks in canonical order, copied to scratch files.

    There are arrays of ids, of documents, and of start offsets in the documents. ``texts`` holds all texts one after
    another, ``ends`` the end of each in it, and ``is_plain`` is True for plain text. ``vectors`` holds the unit vectors
    of size ``dimension``, packed float32.
    """

    ids: Partition
    documents: Partition
    starts: Partition
    texts: ScratchFile
    ends: Partition
    is_plain: npt.NDArray[np.bool_]
    vectors: ScratchFile
    dimension: int

    @staticmethod
    def from_state(state: State) -> tuple[OrderedChunks, Matrix]:
        """Return the chunks of a state, and their unit vectors, shape (chunks, dimension)."""
        keys, count = [], 0
        for record in state.documents.scan():
            keys.append((record.key, record.id))
            count += record.chunk_count
        order = [document for _, document in sorted(keys)]
        del keys
        columns = tuple(array("q") for _ in range(5))
        chunks, documents, starts, ends, plain = columns
        folder = None if state.open_indexes is None else state.open_indexes.environment.path
        texts, rows = ScratchFile(folder), ScratchFile(folder)
        vectors: Matrix = np.empty((count, state.settings.dimension), np.float32)
        vector_rows: list[tuple[int, int]] = []
        for document in order:
            record = state.documents.get(document)
            text = state.documents.read_text(document)
            ids = list(record.chunk_ids())
            for chunk in state.chunks.get_many(ids):
                texts.append(text[chunk.start : chunk.end])
                starts.append(chunk.start)
                ends.append(len(texts))
                vector_rows.append((chunk.block, chunk.row))
            chunks.extend(ids)
            documents.extend([document] * len(ids))
            plain.extend([record.format == "text"] * len(ids))
            if len(vector_rows) >= _VECTOR_BATCH_SIZE or document == order[-1]:
                batch = vectors[len(chunks) - len(vector_rows) : len(chunks)]
                batch[:] = state.vectors.gather(vector_rows)
                rows.append(batch.tobytes())
                vector_rows.clear()
        id_array, document_array, start_array, end_array, plain_array = (
            np.frombuffer(column, np.int64) for column in columns
        )
        shape = (plain_array.astype(np.bool_), rows, state.settings.dimension)
        return OrderedChunks(id_array, document_array, start_array, texts, end_array, *shape), vectors

    def __len__(self) -> int:
        return len(self.ids)

    def read_text(self, position: int, start: int = 0, end: int | None = None) -> bytes:
        """Return the text of a chunk, or a byte range of it."""
        first = int(self.ends[position - 1]) if position else 0
        last = int(self.ends[position]) if end is None else first + end
        return self.texts.read(first + start, last)

    def get_size(self, position: int) -> int:
        """Return the size of a chunk in bytes."""
        return int(self.ends[position] - (self.ends[position - 1] if position else 0))

    def sum_vectors(self, positions: Sequence[int]) -> bytes:
        """Return the sum of the vectors of chunks, packed float32; empty for at most :data:`MOST_ADDED` chunks."""
        if len(positions) <= MOST_ADDED:
            return b""
        size = 4 * self.dimension
        total = np.zeros(self.dimension)
        for start in range(0, len(positions), _VECTOR_BATCH_SIZE):
            part = positions[start : start + _VECTOR_BATCH_SIZE]
            rows = b"".join([self.vectors.read(position * size, position * size + size) for position in part])
            total += np.frombuffer(rows, np.float32).reshape(-1, self.dimension).sum(axis=0, dtype=np.float64)
        return total.astype("<f4").tobytes()

    def iter_sentences(self, position: int) -> Iterator[TopicSentence]:
        """Yield the sentences of a chunk."""
        format = "text" if self.is_plain[position] else "markdown"
        for start, end, _, words in list_content_sentences(self.read_text(position).decode(), format):
            yield TopicSentence(position, start, end, words)

    def build_sentence(self, position: int, start: int, end: int) -> TopicSentence:
        """Return a sentence that :meth:`iter_sentences` yielded before, by its byte range."""
        text = format_summary_sentence(self.read_text(position, start, end).decode())
        return TopicSentence(position, start, end, extract_sentence_words(text))

    def to_span(self, position: int, start: int, end: int) -> StoredSpan:
        """Convert a byte range within a chunk to a stored span."""
        offset = int(self.starts[position])
        return StoredSpan(int(self.documents[position]), int(self.ids[position]), offset + start, offset + end)


class TopicSentence(NamedTuple):
    """A sentence: the index of its chunk in canonical order, its byte range there, and its words."""

    position: int
    start: int
    end: int
    words: SentenceWords


class EntitySentences(NamedTuple):
    """The sentences that mention an entity, in canonical order.

    ``spans`` has shape (n, 3): the index of the chunk and the byte range in it. ``entities`` (ids) has several entries
    if they share all sentences.
    """

    entities: list[int]
    spans: Partition

    @property
    def positions(self) -> list[int]:
        """The indices of the chunks that contain the sentences."""
        positions: list[int] = np.unique(self.spans[:, 0]).tolist()
        return positions


@dataclass
class _TopicDraft:
    """A topic under construction.

    ``positions`` are chunk indices in canonical order; ``members`` are chunk indices at level 0, or numbers of topics.
    """

    level: int
    members: list[int]
    positions: list[int]
    parent: int | None
    summary: list[TopicSentence] = field(default_factory=list)
    title: list[tuple[str, int, int, int]] = field(default_factory=list)
    prompt_spans: list[tuple[int, int, int]] = field(default_factory=list)
    entities: list[int] = field(default_factory=list)


class _Groups:
    """Integers by group: those of group n start at ``bounds[n]`` in ``members``."""

    def __init__(self, members: Partition, bounds: Partition) -> None:
        self._members, self._bounds = members, bounds

    @staticmethod
    def from_labels(labels: Partition) -> _Groups:
        """Group indices by their labels, which are numbered from 0; ascending within each group."""
        count = int(labels.max(initial=-1)) + 1
        order = np.argsort(labels, kind="stable")
        return _Groups(order, np.searchsorted(labels[order], np.arange(count + 1)))

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def __getitem__(self, group: int) -> Partition:
        return self._members[self._bounds[group] : self._bounds[group + 1]]


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


class _LevelSummaries:
    """The summaries and titles of the topics of a level, stored compactly as positions of sentences and words."""

    def __init__(self) -> None:
        self._sentences, self._titles = array("q"), array("q")
        self._bounds = [array("q", [0]), array("q", [0])]
        self._word_numbers: dict[str, int] = {}
        self._word: list[str] = []

    def append(self, draft: _TopicDraft) -> None:
        """Record the summary and title of the next topic."""
        for position, start, end, _ in draft.summary:
            self._sentences.extend((position, start, end))
        for word, *span in draft.title:
            if word not in self._word_numbers:
                self._word_numbers[word] = len(self._word)
                self._word.append(word)
            self._titles.extend((self._word_numbers[word], *span))
        self._bounds[0].append(len(self._sentences))
        self._bounds[1].append(len(self._titles))

    def get_sentences(self, topic: int, chunks: OrderedChunks) -> list[TopicSentence]:
        """Return the sentences of a topic."""
        first, last = self._bounds[0][topic : topic + 2]
        return [chunks.build_sentence(*self._sentences[index : index + 3]) for index in range(first, last, 3)]

    def get_title(self, topic: int) -> list[tuple[str, int, int, int]]:
        """Return the title of a topic."""
        first, last = self._bounds[1][topic : topic + 2]
        entries = (self._titles[index : index + 4] for index in range(first, last, 4))
        return [(self._word[word], position, start, end) for word, position, start, end in entries]


class TopicTree:
    """The topics of partitions of chunks, finest first; see :func:`iter_partitions`.

    A chunk also joins a second topic of the same parent if its cosine with it is at most ``soft`` less than with its
    own. Only this needs ``vectors``.
    """

    def __init__(
        self, chunks: OrderedChunks, partitions: Sequence[Partition], soft: float, vectors: Matrix | None
    ) -> None:
        self._chunks = chunks
        self._levels = _build_levels(partitions)
        self._finest = self._levels[0].positions if self._levels else None
        if soft and len(self._levels) > 1 and vectors is not None:
            self._finest = _add_second_topics(vectors, self._levels[0], self._levels[1], soft)

    def __len__(self) -> int:
        return sum(map(len, self._levels))

    def __iter__(self) -> Iterator[Topic]:
        finer_summaries = _LevelSummaries()
        for number, level in enumerate(self._levels):
            summaries = _LevelSummaries()
            for draft in self._iter_drafts(number, level):
                if number == 0:
                    _summarize_chunks(self._chunks, draft)
                else:
                    _summarize_topics(self._chunks, draft, finer_summaries, self._levels[number - 1].first)
                summaries.append(draft)
                yield _build_topic(self._chunks, draft)
            finer_summaries = summaries

    def _iter_drafts(self, number: int, level: _TopicLevel) -> Iterator[_TopicDraft]:
        for topic in range(len(level)):
            if number:
                members = (self._levels[number - 1].first + level.members[topic]).tolist()
                positions = level.positions[topic].tolist()
            else:
                assert self._finest is not None
                members = positions = self._finest[topic].tolist()
            yield _TopicDraft(number, members, positions, _find_parent(self._levels, number, topic))


def _find_parent(levels: Sequence[_TopicLevel], number: int, topic: int) -> int | None:
    parents = levels[number].parents
    return None if parents is None else levels[number + 1].first + int(parents[topic])


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
        chunks, finer_summaries = self._chunks, _LevelSummaries()
        for number, level in enumerate(self._levels):
            summaries = _LevelSummaries()
            for topic in range(len(level)):
                leaves = [self._leaves[leaf] for leaf in level.positions[topic].tolist()]
                positions = sorted({position for leaf in leaves for position in leaf.positions})
                draft = _TopicDraft(number, positions, positions, _find_parent(self._levels, number, topic))
                if number == 0:
                    draft.entities = leaves[0].entities
                    _summarize_sentences(
                        chunks, draft, [chunks.build_sentence(*row) for row in leaves[0].spans.tolist()]
                    )
                else:
                    first = self._levels[number - 1].first
                    draft.members = (first + level.members[topic]).tolist()
                    _summarize_topics(chunks, draft, finer_summaries, first)
                    largest_leaves = sorted(leaves, key=lambda leaf: -len(leaf.positions))[:_MAX_NAMES]
                    draft.entities = [leaf.entities[0] for leaf in largest_leaves]
                summaries.append(draft)
                yield _build_topic(chunks, draft)
            finer_summaries = summaries


def iter_partitions(vectors: Matrix, method: str, size: int, levels: int) -> Iterator[Partition]:
    """Yield the groups of unit vectors, finest first, by the method ``affinity`` or ``gmm``.

    ``affinity`` releases the vectors as soon as it no longer needs them. Raises InputError if the package for ``gmm``
    is missing.
    """
    if method == "gmm":
        from .gaussian_mixtures import fit_gaussian_mixtures

        return _ensure_partition(iter(fit_gaussian_mixtures(vectors, levels)), len(vectors))
    return _ensure_partition(cluster_vectors(vectors, size=size, levels=levels), len(vectors))


def _ensure_partition(rounds: Iterator[Partition], count: int) -> Iterator[Partition]:
    """Yield the given partitions, or a single group of everything if they are empty."""
    first = next(rounds, None)
    if first is not None:
        yield first
        yield from rounds
    elif count:
        yield np.zeros(count, np.int64)


def _add_second_topics(vectors: Matrix, finest: _TopicLevel, coarser: _TopicLevel, soft: float) -> _Groups:
    """Return the chunks of the finest topics, including chunks whose second topic is almost as near as their own."""
    pairs: list[tuple[int, int]] = []
    for parent in range(len(coarser)):
        members = coarser.members[parent].tolist()
        if len(members) < 2:
            continue
        sums = [vectors[finest.positions[member]].astype(np.float64).sum(axis=0) for member in members]
        centroids = np.array([vector / max(np.sqrt((vector * vector).sum()), 1e-12) for vector in sums])
        positions = coarser.positions[parent]
        cosines = np.rint((vectors[positions] @ centroids.T) * 10_000) / 10_000
        own_indexes = {
            position: index for index, member in enumerate(members) for position in finest.positions[member].tolist()
        }
        for position, row in zip(positions.tolist(), cosines, strict=True):
            own_index = own_indexes[position]
            second_index = int(np.argmax(np.where(np.arange(len(row)) == own_index, -np.inf, row)))
            if row[second_index] >= row[own_index] - soft:
                pairs.append((members[second_index], position))
    extra_rows = np.array(pairs, np.int64).reshape(-1, 2)
    topics = np.concatenate((finest.labels, extra_rows[:, 0]))
    positions = np.concatenate((np.arange(len(finest.labels)), extra_rows[:, 1]))
    order = np.lexsort((positions, topics))
    return _Groups(positions[order], np.searchsorted(topics[order], np.arange(len(finest) + 1)))


def _summarize_chunks(chunks: OrderedChunks, draft: _TopicDraft) -> None:
    sentences: list[TopicSentence] = []
    chunk_counts: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for position in draft.positions:
        words: set[str] = set()
        for sentence in chunks.iter_sentences(position):
            sentences.append(sentence)
            words.update(sentence.words.words)
            counts.update(sentence.words.words)
        chunk_counts.update(words)
    draft.summary = _select_sentences(chunks, sentences, chunk_counts, len(draft.positions))
    shared = sorted(chunk_counts, key=lambda word: (-chunk_counts[word], -counts[word], word))
    title_words = _dedupe_words(word for word in shared if not is_everyday(word))
    draft.title = list(islice(_find_word_spans(chunks, sentences, title_words), NUM_TITLE_WORDS))
    size = 0
    for position in draft.positions:
        length = chunks.get_size(position)
        if size and size + length > _MAX_PROMPT_BYTES:
            break
        draft.prompt_spans.append((position, 0, length))
        size += length


def _summarize_sentences(chunks: OrderedChunks, draft: _TopicDraft, sentences: Sequence[TopicSentence]) -> None:
    words: dict[int, set[str]] = {}
    for sentence in sentences:
        words.setdefault(sentence.position, set()).update(sentence.words.words)
    chunk_counts = Counter(word for chunk_words in words.values() for word in chunk_words)
    draft.summary = _select_sentences(chunks, sentences, chunk_counts, len(words))
    size = 0
    for position, start, end, _ in sentences:
        if size and size + end - start > _MAX_PROMPT_BYTES:
            break
        draft.prompt_spans.append((position, start, end))
        size += end - start


def _summarize_topics(chunks: OrderedChunks, draft: _TopicDraft, finer_summaries: _LevelSummaries, first: int) -> None:
    """Summarize a topic from the summaries of the level ``below``, whose first topic has number ``first``."""
    children = [member - first for member in draft.members]
    child_sentences = [finer_summaries.get_sentences(child, chunks) for child in children]
    unique = {sentence[:3]: sentence for sentences in child_sentences for sentence in sentences}
    candidates = [unique[i] for i in sorted(unique)]
    topic_counts: Counter[str] = Counter()
    for sentences in child_sentences:
        topic_counts.update({word for sentence in sentences for word in sentence.words.words})
    draft.summary = _select_sentences(chunks, candidates, topic_counts, len(children))
    titles: Counter[str] = Counter()
    title_spans: dict[str, tuple[str, int, int, int]] = {}
    for child in children:
        for title in finer_summaries.get_title(child):
            titles[title[0]] += 1
            title_spans.setdefault(title[0], title)
    title_words = _dedupe_words(word for word, _ in titles.most_common())  # ties in order of first occurrence
    draft.title = [title_spans[word] for word in islice(title_words, NUM_TITLE_WORDS)]
    size = 0
    for i in range(MAX_SUMMARY_SENTENCES):
        for sentences in child_sentences:
            if i < len(sentences) and size < _MAX_PROMPT_BYTES:
                position, start, end, _ = sentences[i]
                draft.prompt_spans.append((position, start, end))
                size += end - start
    draft.prompt_spans = sorted(set(draft.prompt_spans))


def _select_sentences(
    chunks: OrderedChunks, sentences: Sequence[TopicSentence], spread: Mapping[str, int], parts: int
) -> list[TopicSentence]:
    """Return the sentences of a summary, in their order."""
    documents: list[int] = chunks.documents[[sentence.position for sentence in sentences]].tolist()
    words = [sentence.words for sentence in sentences]
    has_many_documents = len(set(documents)) > MAX_SUMMARY_SENTENCES // MAX_SENTENCES_PER_DOCUMENT
    selected = select_greedy_cover(
        words,
        compute_cover_weights(words, spread, parts),
        MAX_SUMMARY_WORDS,
        max_sentences=MAX_SUMMARY_SENTENCES,
        owners=documents,
        max_per_owner=MAX_SENTENCES_PER_DOCUMENT if has_many_documents else None,
    )
    return [sentences[number] for number in sorted(selected)]


def _dedupe_words(words: Iterable[str]) -> Iterator[str]:
    """Yield words without digits, skipping those that differ from an earlier one only in a final s."""
    seen: set[str] = set()
    for word in words:
        bare = word.rstrip("s")
        if bare not in seen and not any(character.isdigit() for character in word):
            seen.add(bare)
            yield word


def _find_word_spans(
    chunks: OrderedChunks, sentences: Sequence[TopicSentence], words: Iterable[str]
) -> Iterator[tuple[str, int, int, int]]:
    """Yield the first occurrence of each word that occurs: word, chunk index, byte range."""
    for word in words:
        for sentence in sentences:
            if word not in sentence.words.words:
                continue
            text = chunks.read_text(*sentence[:3]).decode()
            offset = _find_word(word, text)
            if offset is not None:
                start = sentence.start + len(text[:offset].encode())
                yield word, sentence.position, start, start + len(text[offset : offset + len(word)].encode())
                break


def _find_word(word: str, text: str) -> int | None:
    """Return the offset of the first whole-word occurrence, ignoring case.

    Compiling a pattern for each of so many words would be slower.
    """
    lower = text.lower()
    offset = lower.find(word) if len(lower) == len(text) else -1
    while offset >= 0:
        end = offset + len(word)
        if not (_is_word_character(lower[offset - 1 : offset]) or _is_word_character(lower[end : end + 1])):
            return offset
        offset = lower.find(word, offset + 1)
    return None


def _is_word_character(character: str) -> bool:
    return character.isalnum() or character == "_"


def _build_topic(chunks: OrderedChunks, draft: _TopicDraft) -> Topic:
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
