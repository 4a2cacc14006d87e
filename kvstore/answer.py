"""From evidence to an answer: the sentences that say it, each with its citation.

In: :class:`~kvstore.retrieval.evidence.Evidence` and an embedding function. Out: an :class:`Answer`. Without a
language model the answer is extractive: sentences of the evidence, word for word, chosen by their similarity with the
question. Nothing found is said so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .retrieval.evidence import Evidence, Hit
from .storage.vectors import Matrix
from .text.blocks import plain
from .text.sentences import sentences
from .text.words import content_terms, stemmer

#: Chunks whose sentences are weighed, and sentences that make an answer.
_CHUNKS = 5
_SENTENCES = 3


@dataclass(frozen=True, slots=True)
class Citation:
    """Where a statement of an answer stands: document key, chunk id, bytes ``start`` to ``end`` of the stored text."""

    number: int
    document: str
    chunk: int
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with its citations; ``extractive`` where no language model wrote it."""

    text: str
    citations: list[Citation]
    extractive: bool
    model: str | None
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class _Sentence:
    hit: Hit
    start: int
    end: int
    text: str


def answer_from(
    evidence: Evidence, embed: Callable[[Sequence[str]], Matrix], question: Matrix, language: str
) -> Answer:
    """An extractive answer: at most three sentences of the best chunks, in the order of their rank."""
    found = [sentence for hit in evidence.hits[:_CHUNKS] for sentence in _sentences(hit)]
    if not found:
        return Answer("Nothing in the store answers this.", [], True, None, evidence)
    scores = _scores(found, evidence.question, embed, question, language)
    best = sorted(range(len(found)), key=lambda index: -scores[index])[:_SENTENCES]
    # What is much weaker than the best sentence only blurs the answer.
    kept = sorted(
        (i for i in best if scores[i] >= 0.7 * scores[best[0]]), key=lambda i: (found[i].hit.rank, found[i].start)
    )
    citations = [
        Citation(number, found[i].hit.document, found[i].hit.chunk, found[i].start, found[i].end, found[i].text)
        for number, i in enumerate(kept, 1)
    ]
    text = " ".join(f"{citation.text} [{citation.number}]" for citation in citations)
    return Answer(text, citations, True, None, evidence)


def _sentences(hit: Hit) -> list[_Sentence]:
    found = []
    for start, end in sentences(hit.text):
        piece = hit.text[start:end]
        offset = hit.start + len(hit.text[:start].encode())
        # A heading opens its chunk as a line of its own and is no statement.
        while piece.startswith("#") and "\n" in piece:
            line, _, rest = piece.partition("\n")
            cut = len(line) + 1 + len(rest) - len(rest.lstrip())
            offset, piece = offset + len(piece[:cut].encode()), piece[cut:]
        shown = plain(piece)
        if len(shown.split()) >= 3 and not piece.startswith("#"):
            found.append(_Sentence(hit, offset, offset + len(piece.encode()), shown))
    return found


def _scores(
    found: Sequence[_Sentence],
    question: str,
    embed: Callable[[Sequence[str]], Matrix],
    vector: Matrix,
    language: str,
) -> list[float]:
    """Cosine with the question, the share of its words that a sentence has, and a little for the chunk's rank."""
    cosines = np.asarray(embed([sentence.text for sentence in found])) @ vector
    stem = stemmer(language)
    wanted = set(content_terms(question, stem))
    scores = []
    for sentence, cosine in zip(found, cosines, strict=True):
        shared = len(wanted & set(content_terms(sentence.text, stem))) / max(1, len(wanted))
        scores.append(float(cosine) + 0.5 * shared + 0.2 / (1 + sentence.hit.rank))
    return scores
