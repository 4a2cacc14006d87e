"""Whether a relation that a sentence states tells something outside that sentence.

In: a parsed sentence, and the places of two nouns in it with the kind of their relation. Out: yes or no. *The band* or
*its first version* are known where they are read and nowhere else, and *the end of the line* says nothing of lines: a
relation is kept where its names stand for the same wherever they are read. A proper name or an identifier does, and a
term (several words, or a noun that is no everyday word) mostly; an everyday noun does where it is spoken of in general
(*cats are animals*, *a cat is an animal*), or as the class of something that has a name.
"""

from __future__ import annotations

from ..text.everyday import ADJECTIVE, OTHER, VERB, everyday_kind
from .noun_phrases import NounPhrases
from .relation_words import IS_A, OF
from .syntax import Sentence

#: How far a noun phrase stands for the same everywhere.
_EVERYDAY, _TERM, _PROPER = 0, 1, 2
#: Confidence from which a sentence says outright that one is another, and from which its form says so.
_SURE, _HINTED = 0.8, 0.7
#: Words of the name of a class; more are a description.
_LONGEST_CLASS = 3
#: What is said of anything: no class of things.
_NO_CLASS = frozenset(
    """
    name version bug error problem issue advantage disadvantage benefit mean means result reason cause effect way
    method approach idea concept fact case example exception rule goal aim purpose task step stage state status
    condition requirement feature aspect factor issue matter question answer choice option alternative possibility
    difference similarity change improvement success failure mistake sign mark limit limitation restriction
    consequence response request need use job work success win loss point place time
    subject beginning start end middle center side top bottom rest part half source target winner loser favorite
    daughter son child father mother brother sister wife husband cousin uncle aunt nephew niece parent grandson
    granddaughter descendant relative
    fan member friend enemy victim setup must number value amount string integer
    """.split()
)
#: Endings of what persons are called by what they do, and marks of quotation.
_PERSONS, _QUOTES = ("er", "or", "ist", "ian", "ess", "man", "woman"), ('"', "“", "``", "''")
#: Words that point to what is known from the context.
_POINTING = frozenset("this that these those such same my your his her its our their".split())


class Telling:
    """What the relations of one sentence tell."""

    def __init__(self, sentence: Sentence, phrases: NounPhrases) -> None:
        self._sentence = sentence
        self._words = sentence.words
        self._phrases = phrases

    def tells(self, kind: str, child: int, parent: int, confidence: float) -> bool:
        """Whether a relation of two nouns, stated with this confidence, tells something outside the sentence."""
        lower, upper = self._standing(child), self._standing(parent)
        if lower is None or upper is None:
            return False
        if kind == IS_A:
            if self._words[parent].text[:1].isupper() or self._words[parent].lemma in _NO_CLASS:
                return False
            first, last = self._phrases.extent(parent)
            if last - first >= _LONGEST_CLASS or self._is_cut(child) or self._is_half(parent):
                return False
            if confidence < _SURE:
                return lower == _PROPER and confidence >= _HINTED
            return self._is_general(child) or lower == _PROPER or (lower == upper == _TERM)
        if kind == OF:
            if confidence < _HINTED:
                had = self._phrases.is_of_nouns(child) and self._words[child].lemma not in _NO_CLASS
                return upper == _PROPER and had
            return upper == lower == _PROPER
        return lower > _EVERYDAY and upper > _EVERYDAY and not self._is_definite(parent)

    def _is_cut(self, place: int) -> bool:
        """Whether a name goes on behind a mark of quotation (``Thomas Edward "Tom" Sizemore``)."""
        after = self._phrases.extent(place)[1] + 1
        return after < len(self._words) and self._words[after].text in _QUOTES and self._words[place].proper

    def _is_half(self, place: int) -> bool:
        """Whether a noun is the first half of a name that ends in a person (``a film and television actor``)."""
        lemma = self._words[place].lemma
        if lemma.endswith(_PERSONS):
            return False
        return any(
            self._words[other].lemma.endswith(_PERSONS)
            and not self._sentence.lemmas(other, "det")
            and self._phrases.extent(other)[0] < other
            for other in self._sentence.having(place, "conj")
        )

    def _is_definite(self, place: int) -> bool:
        """Whether it is a single noun with ``the``: one that was spoken of before."""
        first, last = self._phrases.extent(place)
        single = first == last and not self._words[place].proper and not _is_code(self._words[place].text)
        return single and "the" in self._sentence.lemmas(place, "det")

    def _standing(self, place: int) -> int | None:
        """How far a noun phrase stands for the same everywhere; None where it is no name at all."""
        word = self._words[place]
        first, last = self._phrases.extent(place)
        kind = everyday_kind(word.text)
        bare = first == last and not self._sentence.lemmas(place, "det")
        if bare and kind in (ADJECTIVE, OTHER, VERB) and (place == 0 or not word.text[:1].isupper()):
            return None  # an imperative or an adjective taken for a noun
        if (word.proper and word.text[:1].isupper()) or _is_code(word.text):
            # "Grey's Anatomy": what stands behind a possessor is a part of a name.
            return None if first > 0 and self._words[first - 1].tag == "POS" else _PROPER
        if self._points(place):
            return None
        return _TERM if first < last or kind is None else _EVERYDAY

    def _points(self, place: int) -> bool:
        first, _ = self._phrases.extent(place)
        determiners = set().union(
            *(self._sentence.lemmas(at, "det", "nmod:poss", "amod") for at in range(first, place + 1))
        )
        words = {self._words[child].text.lower() for child in self._sentence.having(place, "det", "nmod:poss", "amod")}
        return bool((determiners | words) & _POINTING)

    def _is_general(self, place: int) -> bool:
        """Whether an everyday noun is spoken of in general: a plural without an article, or one with ``a``."""
        determiners = self._sentence.lemmas(place, "det", "nmod:poss", "nummod")
        if self._words[place].tag == "NNS":
            return not determiners
        return determiners <= {"a", "an"} and bool(determiners)


def _is_code(text: str) -> bool:
    """Whether a word is written as none of a language: with a mark, a digit or a capital inside."""
    return not text.replace("-", "").isalpha() or not (text.islower() or text.istitle())
