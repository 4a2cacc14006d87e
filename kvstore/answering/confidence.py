"""How likely it is that a store answers a question at all, told from what was found for it.

In: a question, the chunks found and the view that they were found in. Out: a :class:`Confidence`: a number from 0 to 1
and the parts that it was made of, all of them shares and cosines, so that it means the same in a store of ten documents
and of a million. It is a logistic model (a weighted sum, put through 1 / (1 + e^-x)). Its weights were fitted by
``tools/fit_confidence.py``, which asks several stores their own questions and those of others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..retrieval.dense_search import cosines_of
from ..retrieval.evidence import Hit
from ..retrieval.lexical_search import term_rarity
from ..retrieval.query import Query
from ..structures.state import State
from ..text.words import FUNCTION_WORDS, content_terms, stemmer, terms
from .passages import chunk_of

#: Chunks that are looked at.
_CHUNKS = 8
#: What may be a proper name: capitalised and not first in the sentence, or a technical word.
_NAME = re.compile(
    r"(?<![.?!:] )(?<![\w'’-])(?<!^)[A-Z][\w'’]*\w(?: [A-Z][\w'’]*\w)*"
    r"|(?<!\w)--?[a-z][\w-]+|\w+[_/]\w[\w/]*|\b\w*\d\w*[A-Za-z]\w*\b"
)
_WORDS = re.compile(r"\w+")
#: Words of a question that say what kind of thing is asked for.
_FORM = re.compile(r"\bhow (?:long|many|much|old|often|far|large|big|tall|high|fast|deep|wide)\b", re.IGNORECASE)
#: Chunks of other texts that are imagined beside a store's, where the rarity of a term is told.
BACKGROUND = 1000


@dataclass(frozen=True, slots=True)
class Confidence:
    """``value`` from 0 to 1, and what it was made of, each from 0 to 1.

    ``similarity`` is the best cosine of a chunk with the question (None where nobody knows the scale of the embedder's
    cosines); ``coverage`` the share of the question's terms, weighted by their rarity, that one chunk has with its
    headings, ``gathered`` that all have together, ``agreement`` that the chunk of the best cosine has; ``missing`` the
    share that no chunk of the store has. ``unknown`` are the proper names of the question that have a term which no
    chunk has, ``unknown_share`` is the share of such terms among those of its names.
    """

    value: float
    similarity: float | None
    coverage: float
    gathered: float
    agreement: float
    missing: float
    unknown: tuple[str, ...]
    unknown_share: float = 0.0

    def __str__(self) -> str:
        """How EXPLAIN shows it."""
        near = "" if self.similarity is None else f"similarity {self.similarity:.2f}, "
        told = f"{near}coverage {self.coverage:.2f}, gathered {self.gathered:.2f}, agreement {self.agreement:.2f}"
        names = f" ({', '.join(self.unknown)})" if self.unknown else ""
        return f"{self.value:.2f}: {told}, missing {self.missing:.2f}{names}"


def question_rarities(question: str, view: State) -> dict[str, float]:
    """The question's terms with their rarity in the store.

    Words that only say what kind of thing is asked for ("how long") are left out. Rarities are smoothed as if
    ``BACKGROUND`` chunks of other texts stood beside the store's: in a store of ten chunks, that a word is in five of
    them says little about the word.
    """
    chunks = view.counters.chunks + BACKGROUND
    stem = stemmer(view.settings.stemmer)
    asked = _FORM.sub(" ", question)
    found = sorted(set(content_terms(asked if _WORDS.search(asked) else question, stem)))
    return {term: term_rarity(chunks, view.postings.count(term)) for term in found}


#: What a logistic model is made of: the weight of each part of a :class:`Confidence`, and what is added to their sum.
Weights = Mapping[str, float]

#: With the vectors of an embedder whose cosines are known, and from words alone.
WITH_SIMILARITY: Weights = {
    "similarity": 13.07,
    "coverage": 3.42,
    "gathered": 1.59,
    "agreement": 3.39,
    "missing": -0.75,
    "unknown": -1.94,
    "constant": -8.77,
}
WORDS_ALONE: Weights = {
    "coverage": 8.77,
    "gathered": 1.75,
    "missing": -1.35,
    "unknown": -2.37,
    "constant": -4.28,
}
#: The embedders whose cosines the first of them was fitted with.
_KNOWN_EMBEDDERS = frozenset(("all-MiniLM-L6-v2",))


def confidence_of(query: Query, hits: Sequence[Hit], context: Sequence[str] = ()) -> Confidence:
    """How likely it is that what was found for a question answers it; ``context`` are lines that stand beside it."""
    view = query.view
    stem = stemmer(view.settings.stemmer)
    rarities = question_rarities(query.question, view)
    absent = {term for term in rarities if not view.postings.count(term)}
    names = _names(query.question)
    named = {stem(word) for words in names.values() for word in words}
    unknown = tuple(name for name, words in names.items() if any(stem(word) in absent for word in words))
    hits = hits[:_CHUNKS]
    has = [set(terms(f"{hit.title or ''} {hit.heading} {hit.text}", stem)) for hit in hits]
    has += [set(terms(line, stem)) for line in context]
    missing = _share(rarities, absent)
    if not has:
        return Confidence(0.0, None, 0.0, 0.0, 0.0, missing, unknown)
    similarity, nearest = None, 0
    if hits and view.settings.embedder in _KNOWN_EMBEDDERS and query.given is None:
        found = cosines_of(view, np.array([chunk_of(hit, view) for hit in hits], np.uint64), query.vector)
        nearest = int(found.argmax())
        similarity = max(0.0, float(found[nearest]))
    shares = [_share(rarities, words) for words in has]
    parts = {
        "similarity": similarity or 0.0,
        "coverage": max(shares),
        "gathered": _share(rarities, set().union(*has)),
        "agreement": shares[nearest],
        "missing": missing,
        "unknown": len(named & absent) / len(named) if named else 0.0,
        "constant": 1.0,
    }
    weights = WORDS_ALONE if similarity is None else WITH_SIMILARITY
    value = 1 / (1 + math.exp(-sum(weight * parts[name] for name, weight in weights.items())))
    return Confidence(
        value, similarity, parts["coverage"], parts["gathered"], parts["agreement"], missing, unknown, parts["unknown"]
    )


def _share(rarities: Mapping[str, float], words: set[str]) -> float:
    """The share of the question's terms, by rarity, that are among some words."""
    total = sum(rarities.values())
    return sum(rarity for term, rarity in rarities.items() if term in words) / total if total else 0.0


def _names(question: str) -> dict[str, list[str]]:
    """What may be proper names in a question, in order, each with its words."""
    found = {match.group(): _WORDS.findall(match.group().lower()) for match in _NAME.finditer(question)}
    return {
        name: content
        for name, words in found.items()
        if (content := [word for word in words if word not in FUNCTION_WORDS])
    }
