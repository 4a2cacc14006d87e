"""From evidence to an answer: the sentences that say it, each with its citation.

In: :class:`~kvstore.retrieval.evidence.Evidence` and an embedding function. Out: an :class:`Answer`. Without a
language model the answer is extractive: sentences of the evidence, word for word, chosen by their similarity with the
question. Nothing found is said so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .retrieval.evidence import Evidence, Hit
from .retrieval.lexical import term_rarity
from .storage.store_view import StoreView
from .text.blocks import plain
from .text.sentences import sentences
from .text.words import content_terms, stemmer, terms

#: A line that begins a statement of its own: a list item, a table row, a heading or what follows one.
_ITEM = re.compile(r"\n(?=[|#>]|[-*+] |\d+[.)] )|(?<=\n)\n")
_MARKER = re.compile(r"^(?:[-*+>] |\d+[.)] )+")
_WORD = re.compile(r"\w+")
#: Chunks whose sentences are weighed, and sentences that make an answer.
_CHUNKS = 8
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


def answer_from(evidence: Evidence, view: StoreView, similarity: Callable[[Sequence[str]], Sequence[float]]) -> Answer:
    """An extractive answer: at most three sentences of the best chunks, in the order of their rank.

    ``similarity`` gives the cosine of each of some sentences with the question (all 0 where there is no embedder),
    ``view`` is the one that the evidence comes from.
    """
    found = [sentence for hit in evidence.hits[:_CHUNKS] for sentence in _sentences(hit)]
    if not found:
        return Answer("Nothing in the store answers this.", [], True, None, evidence)
    scores = _scores(found, _question_terms(evidence.question, view), view, similarity)
    best = sorted(range(len(found)), key=lambda index: (-scores[index], index))[:_SENTENCES]
    # What is much weaker than the best sentence only blurs the answer.
    strong = (index for index in best if scores[index] >= 0.75 * scores[best[0]])
    kept = sorted(strong, key=lambda index: (found[index].hit.rank, found[index].start))
    citations = [
        Citation(number, found[i].hit.document, found[i].hit.chunk, found[i].start, found[i].end, found[i].text)
        for number, i in enumerate(kept, 1)
    ]
    text = " ".join(f"{citation.text} [{citation.number}]" for citation in citations)
    return Answer(text, citations, True, None, evidence)


def _sentences(hit: Hit) -> list[_Sentence]:
    """The statements of a chunk: sentences, list items and table rows; headings and rules are none."""
    found = []
    for first, last in sentences(hit.text):
        start = first
        for end in [*(match.start() for match in _ITEM.finditer(hit.text, first, last)), last]:
            piece = hit.text[start:end].rstrip()
            shown = plain(_MARKER.sub("", piece))
            if len(_WORD.findall(shown)) >= 3 and not piece.startswith("#"):
                offset = hit.start + len(hit.text[:start].encode())
                found.append(_Sentence(hit, offset, offset + len(piece.encode()), shown))
            start = end + 1
    return found


def _question_terms(question: str, view: StoreView) -> dict[str, float]:
    """The question's terms with their rarity in the store."""
    chunks = view.counters.chunks
    terms = set(content_terms(question, stemmer(view.settings.stemmer)))
    return {term: term_rarity(chunks, view.postings.count(term)) for term in terms}


def _scores(
    found: Sequence[_Sentence],
    wanted: dict[str, float],
    view: StoreView,
    similarity: Callable[[Sequence[str]], Sequence[float]],
) -> list[float]:
    """Cosine with the question, the weight of its terms that the sentence has, and a little for the chunk's rank.

    A term that only the title or the headings have counts less: they say what the sentence is about, not what it says.
    """
    cosines = similarity([sentence.text for sentence in found])
    stem = stemmer(view.settings.stemmer)
    total = sum(wanted.values()) or 1.0
    scores = []
    for sentence, cosine in zip(found, cosines, strict=True):
        said = set(terms(sentence.text, stem))
        around = set(terms(f"{sentence.hit.title or ''} {sentence.hit.heading}", stem))
        shared = sum(
            rarity * (1.0 if term in said else 0.6 if term in around else 0.0) for term, rarity in wanted.items()
        )
        scores.append(cosine + shared / total + 0.2 / (1 + sentence.hit.rank))
    return scores
