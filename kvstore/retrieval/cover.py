"""A *cover* of chunks: sentences that together contain most of what the chunks are about, within a number of tokens (an
extractive summary). Each *candidate* is a sentence with its content words; a greedy algorithm selects the candidates
whose words have the highest weights.

No single chunk answers a question about a whole document, and the chunks nearest to the question repeat each other. The
greedy cover of :mod:`kvstore.text.greedy_cover` takes the sentences that add most; words from the question count
double. In: chunks of a state. Out: sentences with their spans.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..structures.ranking import sort_chunks
from ..structures.state import State
from ..text.blocks import blank_struck_text, format_summary_sentence, skip_marker, split_chunk_blocks
from ..text.greedy_cover import SentenceWords, compute_cover_weights, extract_sentence_words, select_greedy_cover
from ..text.sentences import split_sentences
from ..text.words import count_text_tokens
from .evidence import Hit, HitKind, TextSpan

#: The number of times that a word from the question counts.
_QUESTION_WORD_WEIGHT = 2.0
#: Limits of a summary: sentences, and sentences from one document if there are several documents.
MAX_SUMMARY_SENTENCES, _MAX_SENTENCES_PER_DOCUMENT = 6, 2
#: Sentences with fewer words are ignored.
_MIN_WORDS = 2


class CoverSentence(NamedTuple):
    """A candidate for a cover: a sentence without markup, and its content words.

    ``document`` and ``chunk`` are ids; ``start`` and ``end`` are bytes of the document's text.
    """

    document: int
    chunk: int
    start: int
    end: int
    text: str
    words: SentenceWords

    def to_span(self, state: State) -> TextSpan:
        """Return the sentence as a span with its document key and the ordinal of its chunk."""
        return TextSpan(
            state.documents.get_key(self.document), state.chunks.get(self.chunk).ordinal, self.start, self.end
        )


def build_composed_hit(
    kind: HitKind,
    spans: tuple[TextSpan, ...],
    text: str,
    path: str,
    *,
    heading: str = "",
    title: str | None,
    rank: int = 0,
    score: float = 0.0,
) -> Hit:
    """Return a summary or a report as a hit. Its text consists of ``spans`` or was written from them.

    The first span gives the hit's document and position. ``path`` is the reason for the hit that EXPLAIN shows, and
    ``title`` the title of the document, topic or community (None: no title). The rank is 0 if it is not known yet.
    """
    first = spans[0]
    return Hit(
        rank, score, first.document, first.ordinal, text, path, first.start, first.end, heading, title, kind, spans
    )


def collect_cover_sentences(state: State, chunks: Iterable[int]) -> list[CoverSentence]:
    """Return the sentences of chunks, given by id, as candidates for a cover.

    They are from paragraphs and list items, and in order of document key and offset.
    """
    candidates = []
    chunks = sort_chunks(state, chunks)
    format_and_language: dict[int, tuple[str, str | None]] = {}  # by document
    for chunk, record in zip(chunks, state.chunks.get_many(chunks), strict=True):
        document = record.document
        if document not in format_and_language:
            # Documents of the third format, ``pairs``, have no chunks.
            format = "text" if state.documents.get(document).format == "text" else "markdown"
            format_and_language[document] = (format, state.find_sentence_language(document))
        text = state.documents.read_text_slice(document, record.start, record.end)
        format, language = format_and_language[document]
        for start, end, sentence, words in iter_content_sentences(text, format, language):
            candidates.append(CoverSentence(document, chunk, record.start + start, record.start + end, sentence, words))
    return candidates


class ContentSentence(NamedTuple):
    """A sentence, bytes ``start`` to ``end`` of a text, without markup, and its content words."""

    start: int
    end: int
    text: str
    words: SentenceWords


def read_chunk_positions(state: State, chunks: Collection[int]) -> dict[int, tuple[str, int]]:
    """Return the document key and the ordinal of each chunk, by chunk id."""
    records = state.chunks.get_many(chunks)
    keys = state.documents.get_keys(record.document for record in records)
    return {chunk: (keys[record.document], record.ordinal) for chunk, record in zip(chunks, records, strict=True)}


def iter_content_sentences(text: str, format: str, language: str | None) -> Iterator[ContentSentence]:
    """Yield the sentences of a text that have at least two words, from its paragraphs and list items.

    Struck-out text is omitted.
    ``format`` is ``text`` or ``markdown``. ``language`` decides where sentences end (None: the rules for English). The
    offsets of the sentences are in bytes.
    """
    is_ascii = text.isascii()
    for block in split_chunk_blocks(text, format):
        if block.kind not in ("prose", "item"):
            continue
        content_start = skip_marker(text, block.start, block.end)
        content = blank_struck_text(text[content_start : block.end])
        for sentence_start, sentence_end in split_sentences(content, language):
            start, end = content_start + sentence_start, content_start + sentence_end
            sentence = format_summary_sentence(content[sentence_start:sentence_end])
            words = extract_sentence_words(sentence)
            if words.length >= _MIN_WORDS:
                if not is_ascii:  # offsets in characters become offsets in bytes
                    start, end = len(text[:start].encode()), len(text[:end].encode())
                yield ContentSentence(start, end, sentence, words)


def compute_word_weights(candidates: Sequence[CoverSentence], question_words: Collection[str] = ()) -> dict[str, float]:
    """Return how much each word of the candidates (sentences) counts in a cover, by word.

    The weight grows with the number of occurrences, and falls with the number of chunks whose candidates contain the
    word. It is doubled for ``question_words`` (from :func:`extract_question_words`).
    """
    words_by_chunk: dict[int, set[str]] = {}
    for sentence in candidates:
        words_by_chunk.setdefault(sentence.chunk, set()).update(sentence.words.words)
    chunk_counts = Counter(word for words in words_by_chunk.values() for word in words)
    weights = compute_cover_weights((sentence.words for sentence in candidates), chunk_counts, len(words_by_chunk))
    return weights | {word: _QUESTION_WORD_WEIGHT * weights[word] for word in question_words if word in weights}


def select_cover(
    candidates: Sequence[CoverSentence],
    max_tokens: int,
    *,
    question_words: Collection[str] = (),
    weights: Mapping[str, float] | None = None,
) -> list[CoverSentence]:
    """Return the candidates that together cover the most content within ``max_tokens`` tokens, in order.

    A greedy algorithm selects sentences whose distinct words have a high total weight. ``weights`` has the weight of
    each word (None: :func:`compute_word_weights` computes it, with double weights for ``question_words``).
    """
    indexes = select_greedy_cover(
        [sentence.words for sentence in candidates],
        compute_word_weights(candidates, question_words) if weights is None else weights,
        max_tokens,
        sizes=[count_text_tokens(sentence.text) for sentence in candidates],
    )
    return [candidates[index] for index in sorted(indexes)]


def select_summary(
    words: Sequence[SentenceWords],
    documents: Sequence[int],
    group_counts: Mapping[str, int],
    num_groups: int,
    max_words: int,
) -> list[int]:
    """Return the indexes of the sentences of a summary, ascending: at most ``MAX_SUMMARY_SENTENCES`` and ``max_words``.

    ``words`` has the words of each sentence to select from, and ``documents`` its document. A greedy algorithm covers
    the words that many groups of text (such as chunks) share: ``group_counts`` has the number of groups with each word,
    of ``num_groups`` in total. If there are more than three documents, at most two sentences of each are selected.
    """
    has_many_documents = len(set(documents)) > MAX_SUMMARY_SENTENCES // _MAX_SENTENCES_PER_DOCUMENT
    selected = select_greedy_cover(
        words,
        compute_cover_weights(words, group_counts, num_groups),
        max_words,
        max_sentences=MAX_SUMMARY_SENTENCES,
        documents=documents,
        max_per_document=_MAX_SENTENCES_PER_DOCUMENT if has_many_documents else None,
    )
    return sorted(selected)


def extract_question_words(question: str) -> frozenset[str]:
    """Return the content words in a question, for :func:`compute_word_weights`."""
    return frozenset(extract_sentence_words(question).words)
