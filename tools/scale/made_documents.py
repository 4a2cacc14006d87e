"""Synthetic documents for stores of any size, the same in every run. A *part* is the documents of 10,000 paragraphs; a
paragraph becomes a chunk. The names in them have indexes in the order in which they first occur.

In: the number of a part. Out: its documents, with titles, numbers as metadata, and texts of paragraphs. Words follow
Zipf's law over 60,000 synthetic words (Zipf, "Human Behavior and the Principle of Least Effort", 1949). Names follow
Heaps' law ("Information Retrieval", 1978, 7.5): the first n paragraphs have 7 n^0.8 different ones, about 0.7 per
paragraph at 100,000. Each paragraph has its new names and one known name, again drawn by Zipf's law. A document has 1
to 6 paragraphs, 2.7 on average, of about 85 words, so that each is a chunk.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random

import numpy as np
import numpy.typing as npt

#: The number of paragraphs of a part; a part begins with a document.
PARAGRAPHS_PER_PART = 10_000
VOCABULARY_SIZE = 60_000
WORDS_PER_PARAGRAPH = 85
_WORDS_PER_SENTENCE = 14
_DOCUMENT_LENGTHS, _LENGTH_SHARES = (1, 2, 3, 4, 6), (0.25, 0.28, 0.22, 0.15, 0.10)
_HEAPS_FACTOR, _HEAPS_EXPONENT = 7.0, 0.8
_ONSETS = "b br c ch d dr f g gr h j k kl l m n p pr r s sh st t tr v w z".split()
_VOWELS = "a e i o u ai ea ou".split()
_CODAS = ["", *"n r l s t m ck nd rt st".split()]
_FIRST = "Anna Maria John James Peter Clara Elena Ivan Fatima Omar Lucas Emma Noah Hugo Ada Alan Grace Otto".split()
_BEFORE = "New Old North South Upper Lower Mount Lake Fort".split()


def generate_vocabulary() -> list[str]:
    """Return VOCABULARY_SIZE different random words, the most frequent first."""
    generator, words = Random(1), dict[str, None]()  # a dict keeps the order, unlike a set
    while len(words) < VOCABULARY_SIZE:
        words[_generate_syllables(generator, generator.choice((1, 2, 2, 3)))] = None
    return list(words)


def generate_name(index: int) -> str:
    """Return the name with an index, of two or three words; almost all indexes have different names."""
    generator = Random(index)
    stem = _generate_syllables(generator, 2 + index % 2).capitalize()
    if index % 3:
        return f"{generator.choice(_FIRST)} {stem}"
    return f"{generator.choice(_BEFORE)} {stem} {_generate_syllables(generator, 1).capitalize()}"


def count_names(paragraphs: int) -> int:
    """Return the number of different names in the first ``paragraphs`` paragraphs, by Heaps' law."""
    return int(_HEAPS_FACTOR * paragraphs**_HEAPS_EXPONENT)


def generate_part(part: int, vocabulary: list[str]) -> Iterator[dict[str, str | int]]:
    """Yield the documents of part number ``part``; ``vocabulary`` is that of :func:`generate_vocabulary`."""
    generator = np.random.default_rng(part)
    lengths = _draw_document_lengths(generator)
    word_ranks = _draw_zipf_ranks(generator, VOCABULARY_SIZE, (PARAGRAPHS_PER_PART, WORDS_PER_PARAGRAPH))
    draws = generator.random(PARAGRAPHS_PER_PART)
    first_paragraph = part * PARAGRAPHS_PER_PART
    paragraphs = iter(range(PARAGRAPHS_PER_PART))
    for document_index, length in enumerate(lengths):
        texts, title = [], ""
        for index_in_part in islice(paragraphs, length):
            paragraph = first_paragraph + index_in_part
            words = [vocabulary[rank] for rank in word_ranks[index_in_part]]
            new_indexes = range(count_names(paragraph), count_names(paragraph + 1))
            # The exponent makes a known name as probable as Zipf's law says, since its index is its rank.
            known_index = int(max(1, count_names(paragraph)) ** draws[index_in_part]) - 1
            names = [generate_name(index) for index in (*new_indexes, known_index)]
            title = title or names[0]
            texts.append(_generate_paragraph(words, names))
        position = first_paragraph + document_index
        yield {
            "id": f"part {part}/{document_index}",
            "title": title,
            "text": "\n\n".join(texts),
            "shelf": position * 3 % 10,
            "drawer": position * 37 % 100,
        }


def write_part(file: Path, part: int, vocabulary: list[str]) -> int:
    """Write a part as JSON lines to a file; return the bytes of its titles and texts, which are ASCII."""
    num_bytes = 0
    with file.open("w", encoding="utf-8") as lines:
        for document in generate_part(part, vocabulary):
            num_bytes += len(str(document["text"])) + len(str(document["title"]))
            lines.write(json.dumps(document) + "\n")
    return num_bytes


def generate_questions(paragraphs: int, count: int, vocabulary: list[str]) -> list[str]:
    """Return ``count`` questions about names and words of a store with this number of paragraphs."""
    generator = np.random.default_rng(paragraphs)
    questions = []
    for _ in range(count):
        subject = generate_name(int(count_names(paragraphs) ** generator.random()) - 1)
        words = " ".join(vocabulary[rank] for rank in _draw_zipf_ranks(generator, VOCABULARY_SIZE, 4))
        questions.append(f"What did {subject} say about {words}?")
    return questions


def _draw_document_lengths(generator: np.random.Generator) -> list[int]:
    """Return the random lengths in paragraphs of the documents of a part, which add up to PARAGRAPHS_PER_PART."""
    lengths, num_left = [], PARAGRAPHS_PER_PART
    while num_left:
        lengths.append(min(num_left, int(generator.choice(_DOCUMENT_LENGTHS, p=_LENGTH_SHARES))))
        num_left -= lengths[-1]
    return lengths


def _generate_paragraph(words: list[str], names: list[str]) -> str:
    """Return a paragraph of the words in sentences of _WORDS_PER_SENTENCE words, with the names inserted among them."""
    parts = list(words)
    for index, name in enumerate(names):
        # Scattered between the fourth word and the fourth from the end.
        parts.insert(4 + (index * 17) % (len(parts) - 8), name)
    sentences = [parts[start : start + _WORDS_PER_SENTENCE] for start in range(0, len(parts), _WORDS_PER_SENTENCE)]
    return " ".join(
        # The replacement is for a sentence of one word.
        f"{sentence[0].capitalize()} {' '.join(sentence[1:])}.".replace(" .", ".")
        for sentence in sentences
    )


def _draw_zipf_ranks(
    generator: np.random.Generator, max_rank: int, shape: int | tuple[int, int]
) -> npt.NDArray[np.int64]:
    """Return random ranks from 0 to ``max_rank`` - 1; the probability of rank r is proportional to 1 / (r + 1.5)."""
    # The inverse of the cumulative distribution, applied to uniform random numbers.
    ranks = 1.5 * (1 + max_rank / 1.5) ** generator.random(shape) - 1.5
    return np.minimum(ranks.astype(np.int64), max_rank - 1)


def _generate_syllables(generator: Random, count: int) -> str:
    """Return a word of ``count`` random syllables."""
    return "".join(
        generator.choice(_ONSETS) + generator.choice(_VOWELS) + generator.choice(_CODAS) for _ in range(count)
    )
