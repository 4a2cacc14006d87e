"""Synthetic documents for stores of any size, the same in every run and in every part.

In: the number of a part. Out: its documents, with titles, numbers as metadata, and texts of paragraphs. Words follow
Zipf's law over 60,000 synthetic words (Zipf, "Human Behavior and the Principle of Least Effort", 1949). Names follow
Heaps' law ("Information Retrieval", 1978, 7.5): the first n paragraphs have 7 n^0.8 different ones, about 0.7 per
paragraph at 100,000. Each paragraph has its new names and one known name, again drawn by Zipf's law. A document has 1
to 6 paragraphs, 2.7 on average, of about 85 words, so that each is a chunk.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import numpy.typing as npt

#: The number of paragraphs of a part; a part begins with a document.
PART = 10_000
VOCABULARY = 60_000
WORDS = 85
_LENGTHS, _SHARES = (1, 2, 3, 4, 6), (0.25, 0.28, 0.22, 0.15, 0.10)
_HEAPS, _EXPONENT = 7.0, 0.8
_ONSETS = "b br c ch d dr f g gr h j k kl l m n p pr r s sh st t tr v w z".split()
_VOWELS = "a e i o u ai ea ou".split()
_CODAS = ["", *"n r l s t m ck nd rt st".split()]
_FIRST = "Anna Maria John James Peter Clara Elena Ivan Fatima Omar Lucas Emma Noah Hugo Ada Alan Grace Otto".split()
_BEFORE = "New Old North South Upper Lower Mount Lake Fort".split()


def generate_vocabulary() -> list[str]:
    """Return the vocabulary, the most frequent word first."""
    choose, words = Random(1), dict[str, None]()
    while len(words) < VOCABULARY:
        words[_generate_syllables(choose, choose.choice((1, 2, 2, 3)))] = None
    return list(words)


def name(number: int) -> str:
    """Return the name for a number, of two or three words."""
    choose = Random(number)
    stem = _generate_syllables(choose, 2 + number % 2).capitalize()
    if number % 3:
        return f"{choose.choice(_FIRST)} {stem}"
    return f"{choose.choice(_BEFORE)} {stem} {_generate_syllables(choose, 1).capitalize()}"


def count_names(paragraphs: int) -> int:
    """Return the number of different names in the first ``paragraphs`` paragraphs."""
    return int(_HEAPS * paragraphs**_EXPONENT)


def generate_part(number: int, vocabulary: list[str]) -> Iterator[dict[str, str | int]]:
    """Yield the documents of a part."""
    chance = np.random.default_rng(number)
    lengths = _draw_document_lengths(chance)
    drawn = _draw_zipf_ranks(chance, VOCABULARY, (PART, WORDS))
    age = chance.random(PART)
    paragraph = number * PART
    for document, length in enumerate(lengths):
        texts, title = [], ""
        for _ in range(length):
            row = [vocabulary[rank] for rank in drawn[paragraph - number * PART]]
            new = range(count_names(paragraph), count_names(paragraph + 1))
            old = int(max(1, count_names(paragraph)) ** age[paragraph - number * PART]) - 1
            names_used = [name(entity) for entity in (*new, old)]
            title = title or names_used[0]
            texts.append(_generate_paragraph(row, names_used))
            paragraph += 1
        position = number * PART + document
        yield {
            "id": f"part {number}/{document}",
            "title": title,
            "text": "\n\n".join(texts),
            "shelf": position * 3 % 10,
            "drawer": position * 37 % 100,
        }


def write_part(file: Path, number: int, vocabulary: list[str]) -> int:
    """Write a part as JSON lines; return the bytes of its texts."""
    size = 0
    with file.open("w", encoding="utf-8") as lines:
        for document in generate_part(number, vocabulary):
            size += len(str(document["text"])) + len(str(document["title"]))
            lines.write(json.dumps(document) + "\n")
    return size


def generate_questions(paragraphs: int, number: int, vocabulary: list[str]) -> list[str]:
    """Return questions about names and words of a store with this number of paragraphs."""
    chance = np.random.default_rng(paragraphs)
    questions = []
    for _ in range(number):
        about = name(int(count_names(paragraphs) ** chance.random()) - 1)
        words = " ".join(vocabulary[rank] for rank in _draw_zipf_ranks(chance, VOCABULARY, 4))
        questions.append(f"What did {about} say about {words}?")
    return questions


def _draw_document_lengths(chance: np.random.Generator) -> list[int]:
    """Return the numbers of paragraphs of the documents of one part."""
    lengths, left = [], PART
    while left:
        lengths.append(min(left, int(chance.choice(_LENGTHS, p=_SHARES))))
        left -= lengths[-1]
    return lengths


def _generate_paragraph(row: list[str], sentence_words: list[str]) -> str:
    """Return sentences of about fourteen words, with the names spread over them."""
    row = list(row)
    for index, word in enumerate(sentence_words):
        row.insert(4 + (index * 17) % (len(row) - 8), word)
    sentences = [row[first : first + 14] for first in range(0, len(row), 14)]
    return " ".join(
        f"{sentence[0].capitalize()} {' '.join(sentence[1:])}.".replace(" .", ".") for sentence in sentences
    )


def _draw_zipf_ranks(chance: np.random.Generator, max_rank: int, shape: int | tuple[int, int]) -> npt.NDArray[np.int64]:
    """Return ranks from 0; the probability of rank r is proportional to 1 / (r + 1.5)."""
    ranks = 1.5 * (1 + max_rank / 1.5) ** chance.random(shape) - 1.5
    return np.minimum(ranks.astype(np.int64), max_rank - 1)


def _generate_syllables(choose: Random, number: int) -> str:
    """Return a word of ``number`` random syllables."""
    return "".join(choose.choice(_ONSETS) + choose.choice(_VOWELS) + choose.choice(_CODAS) for _ in range(number))
