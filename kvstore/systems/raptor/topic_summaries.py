"""The extractive summaries and titles of topics, and the text of each topic that a language model is shown. A *topic*
is a group of chunks; its *members* are chunks at level 0, and topics of the finer level above. A *span* is (index of a
chunk, first byte, end) within that chunk.

In: the chunks of a topic, the sentences of an entity, or the summaries of the level below. Out: a :class:`TopicDraft`
with sentences that together cover most of what its members share, and a title of characteristic words.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from ...retrieval.cover import MAX_SUMMARY_SENTENCES, select_summary
from ...text.everyday_words import is_everyday
from .ordered_chunks import OrderedChunks, TopicSentence

MAX_SUMMARY_WORDS, MAX_TITLE_WORDS = 100, 3
#: The approximate number of bytes of a topic's text that a model is shown.
_MAX_PROMPT_BYTES = 6_000


class TitleWord(NamedTuple):
    """A word of a title, and where it occurs first: the index of the chunk in canonical order, and the byte range."""

    word: str
    chunk_index: int
    start: int
    end: int


@dataclass
class TopicDraft:
    """A topic under construction.

    ``parent`` is the id of the topic above it, or None for a root. ``chunk_indexes`` are the chunks in canonical order;
    ``members`` are chunk indexes at level 0, or ids of topics. ``prompt_spans`` are the texts that a model is shown:
    chunk index and byte range. Only topics of related content have ``entities``.
    """

    level: int
    members: list[int]
    chunk_indexes: list[int]
    parent: int | None
    summary: list[TopicSentence] = field(default_factory=list)
    title: list[TitleWord] = field(default_factory=list)
    prompt_spans: list[tuple[int, int, int]] = field(default_factory=list)
    entities: list[int] = field(default_factory=list)


class LevelSummaries:
    """The summaries and titles of the topics of a level, stored compactly as spans of sentences and words."""

    def __init__(self) -> None:
        """Create an empty collection, to which the topics of the level are appended in the order of their ids."""
        self._sentences = array("q")  # three integers per sentence: chunk index, start and end
        self._titles = array("q")  # four integers per title word: index in ``_words``, chunk index, start and end
        # The sentences of topic n start at ``_sentence_starts[n]``, and end at ``_sentence_starts[n + 1]``.
        self._sentence_starts, self._title_starts = array("q", [0]), array("q", [0])
        self._word_indexes: dict[str, int] = {}
        self._words: list[str] = []

    def append(self, draft: TopicDraft) -> None:
        """Store the summary and title of ``draft``, the next topic of the level."""
        for chunk_index, start, end, _ in draft.summary:
            self._sentences.extend((chunk_index, start, end))
        for word, *span in draft.title:
            if word not in self._word_indexes:
                self._word_indexes[word] = len(self._words)
                self._words.append(word)
            self._titles.extend((self._word_indexes[word], *span))
        self._sentence_starts.append(len(self._sentences))
        self._title_starts.append(len(self._titles))

    def get_sentences(self, topic: int, chunks: OrderedChunks) -> list[TopicSentence]:
        """Return the sentences of a topic's summary; ``topic`` is its index within the level."""
        first, stop = self._sentence_starts[topic : topic + 2]
        return [chunks.build_sentence(*self._sentences[index : index + 3]) for index in range(first, stop, 3)]

    def get_title(self, topic: int) -> list[TitleWord]:
        """Return the words of a topic's title; ``topic`` is its index within the level."""
        first, stop = self._title_starts[topic : topic + 2]
        # Four integers per word: its index in ``_words``, the index of its chunk, its start and its end.
        packed_words = (self._titles[index : index + 4] for index in range(first, stop, 4))
        return [TitleWord(self._words[word_index], *span) for word_index, *span in packed_words]


def summarize_from_chunks(chunks: OrderedChunks, draft: TopicDraft) -> None:
    """Set the summary, title and texts for a model (``prompt_spans``) of a topic (``draft``), chosen from its chunks.

    The sentences of the summary have most of the words that the chunks share. The title consists of the words that the
    most chunks share, except everyday words.
    """
    sentences: list[TopicSentence] = []
    chunk_counts: Counter[str] = Counter()
    word_counts: Counter[str] = Counter()
    for chunk_index in draft.chunk_indexes:
        words: set[str] = set()
        for sentence in chunks.iter_sentences(chunk_index):
            sentences.append(sentence)
            words.update(sentence.words.words)
            word_counts.update(sentence.words.words)
        chunk_counts.update(words)
    draft.summary = _select_sentences(chunks, sentences, chunk_counts, len(draft.chunk_indexes))
    most_shared_first = sorted(chunk_counts, key=lambda word: (-chunk_counts[word], -word_counts[word], word))
    title_words = _iter_distinct_words(word for word in most_shared_first if not is_everyday(word))
    draft.title = list(islice(_iter_title_words(chunks, sentences, title_words), MAX_TITLE_WORDS))
    draft.prompt_spans = _limit_prompt_spans(
        (chunk_index, 0, chunks.get_size(chunk_index)) for chunk_index in draft.chunk_indexes
    )


def summarize_from_sentences(chunks: OrderedChunks, draft: TopicDraft, sentences: Sequence[TopicSentence]) -> None:
    """Set the summary and the texts for a model (``prompt_spans``) of ``draft``, a topic that consists of sentences.

    The ``sentences`` mention the topic's entities; the summary is a selection of them.
    """
    words_by_chunk: dict[int, set[str]] = {}
    for sentence in sentences:
        words_by_chunk.setdefault(sentence.chunk_index, set()).update(sentence.words.words)
    chunk_counts = Counter(word for chunk_words in words_by_chunk.values() for word in chunk_words)
    draft.summary = _select_sentences(chunks, sentences, chunk_counts, len(words_by_chunk))
    draft.prompt_spans = _limit_prompt_spans(sentence.span for sentence in sentences)


def _limit_prompt_spans(spans: Iterable[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Return the first ``spans`` that have at most :data:`_MAX_PROMPT_BYTES` bytes in total, but at least one span.

    A model is shown their texts. A span is (chunk index, start, end), in bytes.
    """
    prompt_spans: list[tuple[int, int, int]] = []
    num_bytes = 0
    for chunk_index, start, end in spans:
        if num_bytes and num_bytes + end - start > _MAX_PROMPT_BYTES:
            break
        prompt_spans.append((chunk_index, start, end))
        num_bytes += end - start
    return prompt_spans


def summarize_from_children(
    chunks: OrderedChunks, draft: TopicDraft, finer_summaries: LevelSummaries, first_id: int
) -> None:
    """Set the summary, title and prompt texts of a topic (``draft``), selected from the summaries of its child topics.

    ``finer_summaries`` are the summaries of the next finer level, whose first topic has the id ``first_id``.
    """
    children = [member - first_id for member in draft.members]
    child_sentences = [finer_summaries.get_sentences(child, chunks) for child in children]
    sentences_by_span = {sentence.span: sentence for sentences in child_sentences for sentence in sentences}
    candidates = [sentences_by_span[span] for span in sorted(sentences_by_span)]
    topic_counts: Counter[str] = Counter()
    for sentences in child_sentences:
        topic_counts.update({word for sentence in sentences for word in sentence.words.words})
    draft.summary = _select_sentences(chunks, candidates, topic_counts, len(children))
    draft.title = _select_shared_words([finer_summaries.get_title(child) for child in children])
    draft.prompt_spans = _select_prompt_spans(child_sentences)


def _select_shared_words(titles: Sequence[Sequence[TitleWord]]) -> list[TitleWord]:
    """Return the words of a new title: the few words in the most titles, ties in order of first occurrence."""
    word_counts: Counter[str] = Counter()
    first_title_words: dict[str, TitleWord] = {}
    for title in titles:
        for title_word in title:
            word_counts[title_word.word] += 1
            first_title_words.setdefault(title_word.word, title_word)
    words = _iter_distinct_words(word for word, _ in word_counts.most_common())
    return [first_title_words[word] for word in islice(words, MAX_TITLE_WORDS)]


def _select_prompt_spans(child_sentences: Sequence[Sequence[TopicSentence]]) -> list[tuple[int, int, int]]:
    """Return the sentences that a model is shown to summarize a topic, as (chunk index, start, end).

    They are the first sentence of the summary of every child topic, then the second, and so on. No sentence is added
    once they have :data:`_MAX_PROMPT_BYTES`. The result is sorted.
    """
    num_bytes = 0
    prompt_spans: set[tuple[int, int, int]] = set()
    for rank in range(MAX_SUMMARY_SENTENCES):
        for sentences in child_sentences:
            if rank < len(sentences) and num_bytes < _MAX_PROMPT_BYTES:
                sentence = sentences[rank]
                prompt_spans.add(sentence.span)
                num_bytes += sentence.end - sentence.start
    return sorted(prompt_spans)


def _select_sentences(
    chunks: OrderedChunks, sentences: Sequence[TopicSentence], member_counts: Mapping[str, int], num_members: int
) -> list[TopicSentence]:
    """Return the sentences of a topic's summary: a selection of ``sentences``, in the same order.

    Together they have most of the words that the members of the topic (chunks or child topics) share. There are
    ``num_members`` members; ``member_counts`` is the number of them that have each word.
    """
    documents: list[int] = chunks.documents[[sentence.chunk_index for sentence in sentences]].tolist()
    words = [sentence.words for sentence in sentences]
    selected_indexes = select_summary(words, documents, member_counts, num_members, MAX_SUMMARY_WORDS)
    return [sentences[index] for index in selected_indexes]


def _iter_distinct_words(words: Iterable[str]) -> Iterator[str]:
    """Yield the words without digits; skip a word that differs from an earlier one only by final ``s``."""
    seen_stems: set[str] = set()
    for word in words:
        stem = word.rstrip("s")
        if stem not in seen_stems and not any(character.isdigit() for character in word):
            seen_stems.add(stem)
            yield word


def _iter_title_words(
    chunks: OrderedChunks, sentences: Sequence[TopicSentence], words: Iterable[str]
) -> Iterator[TitleWord]:
    """Yield each word that occurs in the sentences, located at its first occurrence."""
    for word in words:
        for sentence in sentences:
            if word not in sentence.words.words:
                continue
            text = chunks.read_text(*sentence.span).decode()
            offset = _find_word(word, text)
            if offset is not None:
                start = sentence.start + len(text[:offset].encode())
                end = start + len(text[offset : offset + len(word)].encode())
                yield TitleWord(word, sentence.chunk_index, start, end)
                break


def _find_word(word: str, text: str) -> int | None:
    """Return the character offset of the first whole-word occurrence of a lower-case word, ignoring case, or None.

    It is also None if the lower case of the text has a different length, so that its offsets differ. No pattern is
    compiled, since that would be slower for so many words.
    """
    lower = text.lower()
    offset = lower.find(word) if len(lower) == len(text) else -1
    while offset >= 0:
        end = offset + len(word)
        # At the start of the text, the first slice is empty.
        if not (_is_word_character(lower[offset - 1 : offset]) or _is_word_character(lower[end : end + 1])):
            return offset
        offset = lower.find(word, offset + 1)
    return None


def _is_word_character(character: str) -> bool:
    """True if a character can be part of a word."""
    return character.isalnum() or character == "_"
