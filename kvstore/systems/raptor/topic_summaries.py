"""The extractive summaries and titles of topics, and the text of each topic that a language model is shown.

In: the chunks of a topic, the sentences of an entity, or the summaries of the level below. Out: a :class:`TopicDraft`
with sentences that together cover most of what its members share, and a title of characteristic words.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from ...text.everyday_words import is_everyday
from ...text.greedy_cover import compute_cover_weights, select_greedy_cover
from .ordered_chunks import OrderedChunks, TopicSentence

#: The maximum words and sentences of a summary, and its maximum sentences from one document.
MAX_SUMMARY_WORDS, MAX_SUMMARY_SENTENCES, MAX_SENTENCES_PER_DOCUMENT = 100, 6, 2
NUM_TITLE_WORDS = 3
#: The approximate number of bytes of a topic's text that a model is shown.
_MAX_PROMPT_BYTES = 6_000


@dataclass
class TopicDraft:
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


class LevelSummaries:
    """The summaries and titles of the topics of a level, stored compactly as positions of sentences and words."""

    def __init__(self) -> None:
        self._sentences, self._titles = array("q"), array("q")
        self._bounds = [array("q", [0]), array("q", [0])]
        self._word_numbers: dict[str, int] = {}
        self._word: list[str] = []

    def append(self, draft: TopicDraft) -> None:
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


def summarize_chunks(chunks: OrderedChunks, draft: TopicDraft) -> None:
    """Summarize a topic from all sentences of its chunks."""
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


def summarize_sentences(chunks: OrderedChunks, draft: TopicDraft, sentences: Sequence[TopicSentence]) -> None:
    """Summarize a topic from the sentences that mention its entities."""
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


def summarize_topics(chunks: OrderedChunks, draft: TopicDraft, finer_summaries: LevelSummaries, first: int) -> None:
    """Summarize a topic from the summaries of the finer level, whose first topic has number ``first``."""
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
