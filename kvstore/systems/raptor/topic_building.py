"""Topics: a tree of groups of chunks above all documents, with extractive summaries (RAPTOR, Sarthi et al., ICLR 2024).

In: the chunks of a state, in the order of document keys and ordinals, with their vectors. Out: a :class:`TopicTree`, a
function of texts and vectors: no seed, no id, no order of arrival decides anything. Groups are those of affinity
clustering, or of the mixtures that the paper has (:mod:`.gaussian_mixtures`).

A topic is summed up by the sentences that together have most of what its members share. Those of the finest topics are
chosen from all sentences, those above from the summaries below, so that a changed document changes its own topics and
those above them. What a model would be shown of a topic is chosen here as well, and digested.

A second tree has topics of what is related: its finest are the sentences that name one entity, which are grouped
upwards alike (the idea is that of SiReRAG, Zhang et al., ICLR 2025).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple

import numpy as np

from ...retrieval.cover import told_sentences
from ...structures.clustering.affinity import Partition, affinity_of_vectors, numbered
from ...structures.state import State
from ...structures.vectors.vectors import Matrix
from ...text.everyday import is_everyday
from ...text.greedy_cover import SentenceWords, cover_weights, greedy_cover

#: The longest summary in words and sentences, and the most sentences of one document.
SUMMARY_WORDS, SUMMARY_SENTENCES, OF_ONE_DOCUMENT = 100, 6, 2
TITLE_WORDS = 3
#: Names kept of a group of related topics, of which as many are its title as words of another.
_NAMES = 12
#: About how many bytes of text a model is shown of a topic.
_SHOWN = 6_000
#: Changes with what a model is shown, and with what it is asked.
_PROMPT = b"topic 1"


class TextPlace(NamedTuple):
    """A place in a chunk: bytes ``start`` to ``end`` of the text of its document; ids of both."""

    document: int
    chunk: int
    start: int
    end: int


class Topic(NamedTuple):
    """A group of chunks or of topics. Level 0 is the finest; ``children`` are chunks there, and topics above.

    ``chunks`` and ``documents`` count all that is below. ``title`` are places of telling words, ``summary`` of
    sentences, ``shown`` of what a model is shown, of which ``content`` is the digest. Topics are numbered from the
    finest level, in the order of the first chunk below each.

    Those of the second tree follow, in the order of names. They have ``entities`` (ids) in place of a title: at level 0
    those that its sentences name, and above the ones of most passages. The ``children`` at level 0 are the chunks that
    these sentences stand in.
    """

    level: int
    parent: int | None
    children: Sequence[int]
    chunks: int
    documents: int
    title: Sequence[TextPlace]
    summary: Sequence[TextPlace]
    shown: Sequence[TextPlace]
    content: bytes
    entities: Sequence[int] = ()

    @property
    def related(self) -> bool:
        """Whether it is of the second tree."""
        return bool(self.entities)


@dataclass(frozen=True)
class Passages:
    """Chunks in canonical order: ids, the documents they are of, where they begin, their texts and formats, and unit
    vectors, shape (chunks, dimension)."""

    chunks: list[int]
    documents: list[int]
    starts: list[int]
    texts: list[bytes]
    formats: list[str]
    vectors: Matrix

    @staticmethod
    def of(state: State) -> Passages:
        """Those of a state."""
        chunks: list[int] = []
        documents: list[int] = []
        starts: list[int] = []
        texts: list[bytes] = []
        formats: list[str] = []
        places: list[tuple[int, int]] = []
        for record in sorted(state.documents.scan(), key=lambda one: one.key):
            text = state.documents.text(record.id)
            ids = list(record.chunk_ids())
            for chunk, stored in zip(ids, state.chunks.get_many(ids), strict=True):
                chunks.append(chunk)
                documents.append(record.id)
                starts.append(stored.start)
                texts.append(text[stored.start : stored.end])
                formats.append("text" if record.format == "text" else "markdown")
                places.append((stored.block, stored.row))
        return Passages(chunks, documents, starts, texts, formats, state.vectors.gather(places))

    def span(self, passage: int, start: int, end: int) -> TextPlace:
        """A place in a passage, its bytes counted from the start of the passage."""
        before = self.starts[passage]
        return TextPlace(self.documents[passage], self.chunks[passage], before + start, before + end)


class TopicSentence(NamedTuple):
    """A sentence of a passage (its place in the canonical order): bytes of the passage, and what it may add."""

    passage: int
    start: int
    end: int
    words: SentenceWords


class NamingSentences(NamedTuple):
    """The sentences that name an entity, in canonical order; ``entities`` (ids) are several where they are the
    same."""

    entities: list[int]
    sentences: list[TopicSentence]

    @property
    def passages(self) -> list[int]:
        """The passages that they stand in."""
        return list(dict.fromkeys(sentence.passage for sentence in self.sentences))


@dataclass
class _TopicDraft:
    """A topic in the making; ``passages`` are places in the canonical order."""

    level: int
    members: list[int]
    passages: list[int]
    parent: int | None = None
    summary: list[TopicSentence] = field(default_factory=list)
    title: list[tuple[str, int, int, int]] = field(default_factory=list)
    shown: list[tuple[int, int, int]] = field(default_factory=list)
    entities: list[int] = field(default_factory=list)


def topic_tree(
    passages: Passages, partitions: Sequence[Partition], soft: float, tell: Callable[[int, int], None]
) -> list[Topic]:
    """The topics of some partitions of passages, the finest first; see :func:`partitions_of`.

    A passage whose cosine with another topic of the same parent is at most ``soft`` less than that with its own is a
    member of both. ``tell`` hears how many topics of how many are done.
    """
    drafts = _drafts(partitions)
    if soft and len(partitions) > 1:
        _join_second(passages, drafts, soft)
    for done, draft in enumerate(drafts):
        if draft.level == 0:
            _sum_up_passages(passages, draft)
        else:
            _sum_up_topics(passages, draft, [drafts[member] for member in draft.members])
        if done % 500 == 499:
            tell(done + 1, len(drafts))
    tell(len(drafts), len(drafts))
    return [_topic(passages, draft) for draft in drafts]


def related_tree(
    passages: Passages, leaves: Sequence[NamingSentences], partitions: Sequence[Partition], first: int
) -> list[Topic]:
    """The topics of what is related, numbered from ``first``: the leaves, and groups of them by some partitions, the
    finest first."""
    if not leaves:
        return []
    drafts = _drafts([np.arange(len(leaves)), *partitions])
    for draft in drafts:
        below = [leaves[leaf] for leaf in draft.passages]
        draft.passages = sorted({passage for leaf in below for passage in leaf.passages})
        if draft.level == 0:
            draft.members = draft.passages
            draft.entities = below[0].entities
            _sum_up_sentences(passages, draft, below[0].sentences)
        else:
            _sum_up_topics(passages, draft, [drafts[member] for member in draft.members])
            draft.entities = [leaf.entities[0] for leaf in sorted(below, key=lambda leaf: -len(leaf.passages))[:_NAMES]]
    return [_topic(passages, draft, first) for draft in drafts]


def partitions_of(vectors: Matrix, method: str, size: int, levels: int) -> list[Partition]:
    """The groups of unit vectors, the finest first, by a method of this name: ``affinity`` or ``gmm``.

    Raises InputError where the package of the latter is missing.
    """
    if method == "gmm":
        from .gaussian_mixtures import gaussian_mixtures

        found = gaussian_mixtures(vectors, levels)
    else:
        found = affinity_of_vectors(vectors, size=size, levels=levels)
    if not found and len(vectors):
        found = [np.zeros(len(vectors), np.int64)]
    return found


def _drafts(partitions: Sequence[Partition]) -> list[_TopicDraft]:
    drafts: list[_TopicDraft] = []
    first = 0
    below: Partition = np.empty(0, np.int64)
    for level, labels in enumerate(map(numbered, partitions)):
        order = np.argsort(labels, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
        start = len(drafts)
        for group in groups:
            passages = group.tolist()
            members = passages if level == 0 else list(dict.fromkeys((first + below[group]).tolist()))
            drafts.append(_TopicDraft(level, members, passages))
            for member in members if level else ():
                drafts[member].parent = len(drafts) - 1
        first, below = start, labels
    return drafts


def _join_second(passages: Passages, drafts: Sequence[_TopicDraft], soft: float) -> None:
    """Let passages be members of a second topic that is nearly as near."""
    parents = [draft for draft in drafts if draft.level == 1]
    for parent in parents:
        if len(parent.members) < 2:
            continue
        sums = [passages.vectors[drafts[member].passages].astype(np.float64).sum(axis=0) for member in parent.members]
        centres = np.array([one / max(np.sqrt((one * one).sum()), 1e-12) for one in sums])
        cosines = np.rint((passages.vectors[parent.passages] @ centres.T) * 10_000) / 10_000
        own = {passage: place for place, member in enumerate(parent.members) for passage in drafts[member].passages}
        joined: list[tuple[int, int]] = []
        for passage, row in zip(parent.passages, cosines, strict=True):
            mine = own[passage]
            second = int(np.argmax(np.where(np.arange(len(row)) == mine, -np.inf, row)))
            if row[second] >= row[mine] - soft:
                joined.append((passage, parent.members[second]))
        for passage, member in joined:
            drafts[member].passages = sorted([*drafts[member].passages, passage])
            drafts[member].members = drafts[member].passages


def _sum_up_passages(passages: Passages, draft: _TopicDraft) -> None:
    found: list[TopicSentence] = []
    members: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for passage in draft.passages:
        text = passages.texts[passage].decode()
        words: set[str] = set()
        for start, end, _, telling in told_sentences(text, passages.formats[passage]):
            found.append(TopicSentence(passage, start, end, telling))
            words.update(telling.words)
            counts.update(telling.words)
        members.update(words)
    draft.summary = _chosen(passages, found, members, len(draft.passages))
    shared = sorted(members, key=lambda word: (-members[word], -counts[word], word))
    telling_words = _distinct(word for word in shared if not is_everyday(word))
    draft.title = list(islice(_places(passages, found, telling_words), TITLE_WORDS))
    size = 0
    for passage in draft.passages:
        length = len(passages.texts[passage])
        if size and size + length > _SHOWN:
            break
        draft.shown.append((passage, 0, length))
        size += length


def _sum_up_sentences(passages: Passages, draft: _TopicDraft, found: Sequence[TopicSentence]) -> None:
    words: dict[int, set[str]] = {}
    for sentence in found:
        words.setdefault(sentence.passage, set()).update(sentence.words.words)
    members = Counter(word for of_passage in words.values() for word in of_passage)
    draft.summary = _chosen(passages, found, members, len(words))
    size = 0
    for passage, start, end, _ in found:
        if size and size + end - start > _SHOWN:
            break
        draft.shown.append((passage, start, end))
        size += end - start


def _sum_up_topics(passages: Passages, draft: _TopicDraft, below: Sequence[_TopicDraft]) -> None:
    unique = {sentence[:3]: sentence for child in below for sentence in child.summary}
    found = [unique[place] for place in sorted(unique)]
    members: Counter[str] = Counter()
    for child in below:
        members.update({word for sentence in child.summary for word in sentence.words.words})
    draft.summary = _chosen(passages, found, members, len(below))
    titles: Counter[str] = Counter()
    places: dict[str, tuple[str, int, int, int]] = {}
    for child in below:
        for title in child.title:
            titles[title[0]] += 1
            places.setdefault(title[0], title)
    telling = _distinct(word for word, _ in titles.most_common())  # of equals the first that was met
    draft.title = [places[word] for word in islice(telling, TITLE_WORDS)]
    size = 0
    for place in range(SUMMARY_SENTENCES):
        for child in below:
            if place < len(child.summary) and size < _SHOWN:
                passage, start, end, _ = child.summary[place]
                draft.shown.append((passage, start, end))
                size += end - start
    draft.shown = sorted(set(draft.shown))


def _chosen(
    passages: Passages, found: Sequence[TopicSentence], spread: Mapping[str, int], parts: int
) -> list[TopicSentence]:
    """The sentences that sum some up, in their order."""
    documents = [passages.documents[sentence.passage] for sentence in found]
    words = [sentence.words for sentence in found]
    several = len(set(documents)) > SUMMARY_SENTENCES // OF_ONE_DOCUMENT
    chosen = greedy_cover(
        words,
        cover_weights(words, spread, parts),
        SUMMARY_WORDS,
        most=SUMMARY_SENTENCES,
        owners=documents,
        most_of_one=OF_ONE_DOCUMENT if several else None,
    )
    return [found[number] for number in sorted(chosen)]


def _distinct(words: Iterable[str]) -> Iterator[str]:
    """Words without digits, and of those that are forms of one another the first."""
    met: set[str] = set()
    for word in words:
        bare = word.rstrip("s")
        if bare not in met and not any(sign.isdigit() for sign in word):
            met.add(bare)
            yield word


def _places(
    passages: Passages, found: Sequence[TopicSentence], words: Iterable[str]
) -> Iterator[tuple[str, int, int, int]]:
    """The first place of each of some words that has one: word, passage, bytes."""
    for word in words:
        for sentence in found:
            if word not in sentence.words.words:
                continue
            text = passages.texts[sentence.passage][sentence.start : sentence.end].decode()
            place = _place_of(word, text)
            if place is not None:
                start = sentence.start + len(text[:place].encode())
                yield word, sentence.passage, start, start + len(text[place : place + len(word)].encode())
                break


def _place_of(word: str, text: str) -> int | None:
    """Where a word first stands by itself in a text, in any case; a pattern for each of so many would take longer."""
    lower = text.lower()
    place = lower.find(word) if len(lower) == len(text) else -1
    while place >= 0:
        end = place + len(word)
        if not (_is_word(lower[place - 1 : place]) or _is_word(lower[end : end + 1])):
            return place
        place = lower.find(word, place + 1)
    return None


def _is_word(sign: str) -> bool:
    return sign.isalnum() or sign == "_"


def _topic(passages: Passages, draft: _TopicDraft, first: int = 0) -> Topic:
    digest = blake2b(_PROMPT, digest_size=16)
    for passage, start, end in draft.shown:
        digest.update(blake2b(passages.texts[passage][start:end], digest_size=16).digest())
    return Topic(
        draft.level,
        None if draft.parent is None else first + draft.parent,
        [first + member if draft.level else passages.chunks[member] for member in draft.members],
        len(draft.passages),
        len({passages.documents[passage] for passage in draft.passages}),
        [passages.span(*place) for _, *place in draft.title],
        [passages.span(*sentence[:3]) for sentence in draft.summary],
        [passages.span(*place) for place in draft.shown],
        digest.digest(),
        draft.entities,
    )
