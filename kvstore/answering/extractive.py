"""The answer that needs no language model: sentences of the evidence, word for word, each with its citation.

In: :class:`~kvstore.retrieval.evidence.Evidence`, how rare the question's terms are, and an embedding function. Out: at
most three sentences of the best chunks, in the order of their rank, and after them what the entity forest says of the
question's rarest entity, where the evidence has that. Nothing found is said so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..retrieval.evidence import Evidence, Hit
from ..retrieval.lexical import term_rarity
from ..storage.store_view import StoreView
from ..text.blocks import plain
from ..text.sentences import sentences
from ..text.words import content_terms, stemmer, terms
from .citations import Citation

#: A line that begins a statement of its own: a list item, a table row, a heading or what follows one.
_ITEM = re.compile(r"\n(?=[|#>]|[-*+] |\d+[.)] )|(?<=\n)\n")
_MARKER = re.compile(r"^(?:[-*+>] |\d+[.)] )+")
_WORD = re.compile(r"\w+")
#: Chunks whose sentences are weighed, and sentences that make an answer.
_CHUNKS = 8
_SENTENCES = 3

Stem = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class _Sentence:
    hit: Hit
    start: int
    end: int
    text: str


def question_rarities(question: str, view: StoreView) -> dict[str, float]:
    """The question's terms with their rarity in the store."""
    chunks = view.counters.chunks
    found = set(content_terms(question, stemmer(view.settings.stemmer)))
    return {term: term_rarity(chunks, view.postings.count(term)) for term in found}


def extracted(
    evidence: Evidence,
    rarities: Mapping[str, float],
    stem: Stem,
    similarity: Callable[[Sequence[str]], Sequence[float]],
) -> tuple[str, list[Citation]]:
    """The answer's text and its citations.

    ``rarities`` are those of the question's terms, see :func:`question_rarities`; ``similarity`` gives the cosine of
    each of some sentences with the question (all 0 where there is no embedder).
    """
    found = [sentence for hit in evidence.hits[:_CHUNKS] for sentence in _sentences(hit)]
    told = [f"{line}." for line in evidence.context[:1]]
    if not found:
        return "".join(told) or "Nothing in the store answers this.", []
    scores = _scores(found, rarities, stem, similarity)
    best = sorted(range(len(found)), key=lambda index: (-scores[index], index))[:_SENTENCES]
    # What is much weaker than the best sentence only blurs the answer.
    strong = (index for index in best if scores[index] >= 0.75 * scores[best[0]])
    kept = sorted(strong, key=lambda index: (found[index].hit.rank, found[index].start))
    citations = [
        Citation(number, found[i].hit.document, found[i].hit.chunk, found[i].start, found[i].end, found[i].text)
        for number, i in enumerate(kept, 1)
    ]
    return " ".join([*(f"{citation.text} [{citation.number}]" for citation in citations), *told]), citations


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


def _scores(
    found: Sequence[_Sentence],
    wanted: Mapping[str, float],
    stem: Stem,
    similarity: Callable[[Sequence[str]], Sequence[float]],
) -> list[float]:
    """Cosine with the question, the weight of its terms that the sentence has, and a little for the chunk's rank.

    A term that only the title or the headings have counts less: they say what the sentence is about, not what it says.
    """
    cosines = similarity([sentence.text for sentence in found])
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
