"""Topics: a tree of groups of chunks above all documents, with extractive summaries (RAPTOR, Sarthi et al., ICLR 2024).

In: the chunks of a state, in the order of document keys and ordinals, with their vectors. Out: topics one after
another, a function of texts and vectors: no seed, no id, no order of arrival decides anything. Groups are those of
affinity clustering, or of the mixtures that the paper has (:mod:`.fit_gaussian_mixtures`).

A topic is summed up by the sentences that together have most of what its members share. Those of the finest topics are
chosen from all sentences, those above from the summaries below, so that a changed document changes its own topics and
those above them. What a model would be shown of a topic is chosen here as well, and digested.

A second tree has topics of what is related: its finest are the sentences that name one entity, which are grouped
upwards alike (the idea is that of SiReRAG, Zhang et al., ICLR 2025).

Of a large store there are more topics than chunks. No more is held of them than which are grouped, as arrays, and of
the level below the places of its sentences; what a sentence says is read again where it is weighed again. Texts and
vectors are copied to nameless files (:mod:`...storage.scratch_file`), and vectors held while they are grouped.
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
from ...text.everyday import is_everyday
from ...text.greedy_cover import SentenceWords, compute_cover_weights, extract_sentence_words, select_greedy_cover

#: The longest summary in words and sentences, and the most sentences of one document.
MAX_SUMMARY_WORDS, MAX_SUMMARY_SENTENCES, MAX_SENTENCES_PER_DOCUMENT = 100, 6, 2
NUM_TITLE_WORDS = 3
#: Names kept of a group of related topics, of which as many are its title as words of another.
_MAX_NAMES = 12
#: About how many bytes of text a model is shown of a topic.
_MAX_PROMPT_BYTES = 6_000
#: Chunks whose vectors are read together.
_VECTOR_BATCH_SIZE = 4096
#: The vectors of so many chunks are read and added up for a question; of topics with more the sum is stored.
MOST_ADDED = 8
#: Changes with what a model is shown, and with what it is asked.
_PROMPT_VERSION = b"topic 1"


class StoredSpan(NamedTuple):
    """A place in a chunk: bytes ``start`` to ``end`` of the text of its document; ids of both."""

    document: int
    chunk: int
    start: int
    end: int


class Topic(NamedTuple):
    """A group of chunks or of topics. Level 0 is the finest; ``children`` are chunks there, and topics above.

    ``chunk_count`` and ``document_count`` count all that is below. ``get_title`` are places of telling words, ``summary`` of
    sentences, ``prompt_spans`` of what a model is shown, of which ``content`` is the digest. ``vector_sum`` is the sum of the
    vectors of all chunks below, packed float32, where these are more than :data:`MOST_ADDED` and are not those of one
    topic below it. Topics are numbered from the finest level, in the order of the first chunk below each.

    Those of the second tree follow, in the order of names. They have ``entities`` (ids) in place of a title: at level 0
    those that its sentences name, and above the ones of most passages. The ``children`` at level 0 are the chunks that
    these sentences stand in.
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
        """Whether it is of the second tree."""
        return bool(self.entities)


@dataclass(frozen=True)
class OrderedChunks:
    """Chunks in canonical order: ids, the documents they are of, and where they begin there; all their ``texts``, where
    each ends in those, and whether it is plain text; and their unit ``vectors`` of so many dimensions, packed float32.
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
        """Those of a state, and their unit vectors, shape (chunks, dimension)."""
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
        """The text of a passage, or some bytes of it."""
        first = int(self.ends[position - 1]) if position else 0
        last = int(self.ends[position]) if end is None else first + end
        return self.texts.read(first + start, last)

    def get_size(self, position: int) -> int:
        """How many bytes a passage has."""
        return int(self.ends[position] - (self.ends[position - 1] if position else 0))

    def sum_vectors(self, positions: Sequence[int]) -> bytes:
        """The sum of the vectors of some passages, packed float32; empty where they are few."""
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
        """The sentences of a passage."""
        format = "text" if self.is_plain[position] else "markdown"
        for start, end, _, words in list_content_sentences(self.read_text(position).decode(), format):
            yield TopicSentence(position, start, end, words)

    def build_sentence(self, position: int, start: int, end: int) -> TopicSentence:
        """A sentence that :meth:`iter_sentences` has told, by its place."""
        text = format_summary_sentence(self.read_text(position, start, end).decode())
        return TopicSentence(position, start, end, extract_sentence_words(text))

    def to_span(self, position: int, start: int, end: int) -> StoredSpan:
        """A place in a passage, its bytes counted from the start of the passage."""
        offset = int(self.starts[position])
        return StoredSpan(int(self.documents[position]), int(self.ids[position]), offset + start, offset + end)


class TopicSentence(NamedTuple):
    """A sentence of a passage (its place in the canonical order): bytes of the passage, and what it may add."""

    position: int
    start: int
    end: int
    words: SentenceWords


class EntitySentences(NamedTuple):
    """The sentences that name an entity, in canonical order: their passages and bytes of these, shape (n, 3);
    ``entities`` (ids) are several where they are the same."""

    entities: list[int]
    spans: Partition

    @property
    def positions(self) -> list[int]:
        """The passages that they stand in."""
        positions: list[int] = np.unique(self.spans[:, 0]).tolist()
        return positions


@dataclass
class _TopicDraft:
    """A topic in the making; ``positions`` are places in the canonical order, and ``members`` as well, or the numbers of
    topics."""

    level: int
    members: list[int]
    positions: list[int]
    parent: int | None
    summary: list[TopicSentence] = field(default_factory=list)
    title: list[tuple[str, int, int, int]] = field(default_factory=list)
    prompt_spans: list[tuple[int, int, int]] = field(default_factory=list)
    entities: list[int] = field(default_factory=list)


class _Groups:
    """Numbers by groups: ``members`` of group n from ``bounds[n]`` on."""

    def __init__(self, members: Partition, bounds: Partition) -> None:
        self._members, self._bounds = members, bounds

    @staticmethod
    def from_labels(labels: Partition) -> _Groups:
        """Places by their labels, which are numbered from 0, ascending within each."""
        count = int(labels.max(initial=-1)) + 1
        order = np.argsort(labels, kind="stable")
        return _Groups(order, np.searchsorted(labels[order], np.arange(count + 1)))

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def __getitem__(self, group: int) -> Partition:
        return self._members[self._bounds[group] : self._bounds[group + 1]]


class _TopicLevel:
    """The topics of a level, by the ``labels`` of passages (or leaves): those of each, the topics of the level below
    that it is made of, and the topic above it, each counted within its level; ``first`` is the number of the first."""

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
    """The group above each group."""
    parents: Partition = np.zeros(int(labels.max(initial=-1)) + 1, np.int64)
    parents[labels] = parent_labels
    return parents


def _build_levels(partitions: Sequence[Partition], first: int = 0) -> list[_TopicLevel]:
    """The topics of some partitions, the finest first, numbered from ``first``."""
    levels: list[_TopicLevel] = []
    all_labels = [None, *map(renumber_clusters, partitions), None]
    for finer, labels, coarser in zip(all_labels, all_labels[1:], all_labels[2:], strict=False):
        assert labels is not None
        levels.append(_TopicLevel(first, labels, finer, coarser))
        first += len(levels[-1])
    return levels


class _LevelSummaries:
    """What was chosen for the topics of a level: places of sentences, and words of titles with theirs."""

    def __init__(self) -> None:
        self._sentences, self._titles = array("q"), array("q")
        self._bounds = [array("q", [0]), array("q", [0])]
        self._word_numbers: dict[str, int] = {}
        self._word: list[str] = []

    def append(self, draft: _TopicDraft) -> None:
        """Take note of the next topic."""
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
        """The sentences of a topic."""
        first, last = self._bounds[0][topic : topic + 2]
        return [chunks.build_sentence(*self._sentences[index : index + 3]) for index in range(first, last, 3)]

    def get_title(self, topic: int) -> list[tuple[str, int, int, int]]:
        """The title of a topic."""
        first, last = self._bounds[1][topic : topic + 2]
        entries = (self._titles[index : index + 4] for index in range(first, last, 4))
        return [(self._word[word], position, start, end) for word, position, start, end in entries]


class TopicTree:
    """The topics of some partitions of passages, the finest first; see :func:`iter_partitions`.

    A passage whose cosine with another topic of the same parent is at most ``soft`` less than that with its own is a
    member of both; ``vectors`` are needed for that alone.
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
    """The topics of what is related, numbered from ``first``: the leaves, and groups of them by some partitions, the
    finest first."""

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
    """The groups of unit vectors, the finest first, by a method of this name: ``affinity`` or ``gmm``.

    The vectors are let go of when ``affinity`` needs them no more. Raises InputError where the package of ``gmm`` is
    missing.
    """
    if method == "gmm":
        from .gaussian_mixtures import fit_gaussian_mixtures

        return _ensure_partition(iter(fit_gaussian_mixtures(vectors, levels)), len(vectors))
    return _ensure_partition(cluster_vectors(vectors, size=size, levels=levels), len(vectors))


def _ensure_partition(rounds: Iterator[Partition], count: int) -> Iterator[Partition]:
    """Some partitions, or the one of all in one group where there is none."""
    first = next(rounds, None)
    if first is not None:
        yield first
        yield from rounds
    elif count:
        yield np.zeros(count, np.int64)


def _add_second_topics(vectors: Matrix, finest: _TopicLevel, coarser: _TopicLevel, soft: float) -> _Groups:
    """The passages of the finest topics, those among them that have a second topic which is nearly as near."""
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
    """Sum a topic up from what was chosen for the level ``below``, of which ``first`` is the first topic."""
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
    title_words = _dedupe_words(word for word, _ in titles.most_common())  # of equals the first that was met
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
    """The sentences that sum some up, in their order."""
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
    """Words without digits, and of those that are forms of one another the first."""
    seen: set[str] = set()
    for word in words:
        bare = word.rstrip("s")
        if bare not in seen and not any(character.isdigit() for character in word):
            seen.add(bare)
            yield word


def _find_word_spans(
    chunks: OrderedChunks, sentences: Sequence[TopicSentence], words: Iterable[str]
) -> Iterator[tuple[str, int, int, int]]:
    """The first place of each of some words that has one: word, passage, bytes."""
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
    """Where a word first stands by itself in a text, in any case; a pattern for each of so many would take longer."""
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
