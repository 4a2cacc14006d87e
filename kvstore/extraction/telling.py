"""Whether a relation that a sentence states tells something outside that sentence.

In: a parsed sentence, and the places of two nouns in it with the kind of their relation. Out: yes or no. *The band* or
*its first version* are known where they are read and nowhere else, and *the end of the line* says nothing of lines: a
relation is kept where its names stand for the same wherever they are read. A proper name or an identifier does, and a
term (several words, or a noun that is no everyday word) mostly; an everyday noun does where it is spoken of in general
(*cats are animals*, *a cat is an animal*), or as the class of something that has a name.
"""

from __future__ import annotations

from ..text.everyday import ADJECTIVE, NOUN, OTHER, VERB, get_everyday_kind
from .noun_phrases import FINITE_VERB_TAGS, NounPhrases
from .relation_words import BELONGS_TO, IS_A, LOCATED_IN, OF, PART_OF
from .syntax import Sentence

#: How far a noun phrase stands for the same everywhere.
_EVERYDAY, _TERM, _PROPER = 0, 1, 2
#: Confidence from which a verb says a thing outright, from which a sentence says that one is another, and from which
#: its form says so.
_MIN_VERB_CONFIDENCE, _MIN_PREDICATE_CONFIDENCE, _MIN_FORM_CONFIDENCE = 0.9, 0.8, 0.7
#: What an identifier that stands right behind it is one of.
_CODE_NOUNS = frozenset("function command file option parameter routine module package directive method macro".split())
#: Marks that no prose has.
_FORMULA_MARKS = frozenset("{}|=<>*")
#: Words of a sentence whose parse is trusted.
_MAX_SENTENCE_WORDS = 60
#: Words of the name of a class; more are a description.
_MAX_CLASS_WORDS = 3
#: What is said of anything: no class of things.
_NON_CLASS_NOUNS = frozenset(
    """
    name version bug error problem issue advantage disadvantage benefit mean means result reason cause effect way
    method approach idea concept fact case example exception rule goal aim purpose task step stage state status
    condition requirement feature aspect factor issue matter question answer choice option alternative possibility
    difference similarity change improvement success failure mistake sign mark limit limitation restriction
    consequence response request need use job work success win loss point place time
    subject beginning start end middle center side top bottom rest part half source target winner loser favorite
    daughter son child father mother brother sister wife husband cousin uncle aunt nephew niece parent grandson
    granddaughter descendant relative sibling spouse acronym abbreviation property responsibility advice voice
    body piece length copy home promise reference north south east west northeast northwest southeast southwest
    default hit attempt
    fan member friend enemy victim setup must number value amount string integer
    """.split()
)
#: Endings of what persons are called by what they do, and marks of quotation.
_PERSON_ENDINGS, _OPENING_QUOTES = ("er", "or", "ist", "ian", "ess", "man", "woman"), ('"', "“", "``", "''")
_CLOSING_QUOTES = frozenset(('"', "”", "''", ",", "."))
#: Words that leave out some of what a name says.
_PARTIAL_WORDS = frozenset("other most many some few several".split())
#: Words that point to what is known from the context.
_DEMONSTRATIVES = frozenset("this that these those such same".split())
_CONTEXT_DETERMINERS = _DEMONSTRATIVES | frozenset("my your his her its our their".split())


class RelationFilter:
    """What the relations of one sentence tell."""

    def __init__(self, sentence: Sentence, phrases: NounPhrases) -> None:
        self._sentence = sentence
        self._words = sentence.words
        self._phrases = phrases
        # Titles, cells and lists run together have no such end, or no verb; of long sentences few parses hold.
        self._is_complete = self._words[-1].text[-1] in ".!" and len(self._words) <= _MAX_SENTENCE_WORDS
        self._is_complete = self._is_complete and any(word.tag in FINITE_VERB_TAGS for word in self._words)
        self._is_complete = self._is_complete and not any(word.text in _FORMULA_MARKS for word in self._words)
        # Speech breaks off; so does a text that was parted inside brackets.
        self._is_complete = self._is_complete and all(word.tag != "UH" for word in self._words)
        self._is_complete = self._is_complete and self._has_balanced_brackets(0, len(self._words))

    def is_informative(self, kind: str, child: int, parent: int, confidence: float) -> bool:
        """Whether a relation of two nouns, stated with this confidence, tells something outside the sentence."""
        if not self._is_complete:
            return False
        child_level, parent_level = self._find_level(child), self._find_level(parent)
        if child_level is None or parent_level is None:
            return False
        if any(self._is_truncated(index) or self._is_title_prefix(index) for index in (child, parent)):
            return False
        if (
            self._is_partial(child)
            or (child < parent and self._is_alias(child))
            or not self._has_balanced_brackets(min(child, parent), max(child, parent), child < parent)
        ):
            return False
        if kind == IS_A:
            return self._is_class(parent) and self._is_instance(child, parent, child_level, confidence)
        if kind == OF:
            if confidence < _MIN_FORM_CONFIDENCE:
                is_ownable = self._phrases.is_noun_compound(child) and self._words[child].lemma not in _NON_CLASS_NOUNS
                return parent_level == _PROPER and is_ownable and not self._is_superlative(child)
            return parent_level == child_level == _PROPER and not self._is_indefinite_name(parent)
        if kind in (LOCATED_IN, BELONGS_TO) and child_level != _PROPER:
            return False  # a town in Norway: not any town is
        if self._is_indefinite_name(child) or self._is_indefinite_name(parent):
            return False
        if kind == PART_OF and child_level != _PROPER and child > parent and confidence < _MIN_VERB_CONFIDENCE:
            return False  # a group of dog breeds: there are others
        return self._is_specific(child) and self._is_specific(parent)

    def _has_balanced_brackets(self, start: int, end: int, must_close: bool = True) -> bool:
        """Whether the brackets between two places are closed, and none that was opened before them; with ``must_close``
        False they may stay open."""
        depth = 0
        for word in self._words[start:end]:
            depth += (word.text == "(") - (word.text == ")")
            if depth < 0:
                return False
        return depth == 0 or not must_close

    def _is_partial(self, index: int) -> bool:
        """Whether it is some of what its name says, or all but one that was told of before (``most tables``, ``all
        other versions``)."""
        return bool(self._sentence.get_dependent_lemmas(index, "amod", "det") & _PARTIAL_WORDS)

    def _is_superlative(self, index: int) -> bool:
        """Whether it is one among others by an order of them (``the smallest one``, ``the first one``)."""
        modifiers = [self._words[i] for i in self._sentence.find_dependents(index, "amod")]
        return any(word.tag == "JJS" or word.lemma in ("first", "last") for word in modifiers)

    def _is_alias(self, index: int) -> bool:
        """Whether a single word stands for a name of several beside it (``John or Jack Robinson``)."""
        first, last = self._phrases.get_extent(index)
        adjacent_words = [self._words[i].text for i in (first - 1, last + 1) if 0 <= i < len(self._words)]
        return first == last and self._words[index].proper and "or" in adjacent_words

    def _is_indefinite_name(self, index: int) -> bool:
        """Whether a proper name is only what one is of, or of what one is (``a Bergen baker``, ``a NULL``)."""
        word = self._words[index]
        is_name = word.proper and (word.text.isupper() or not _is_code(word.text))
        return is_name and bool(self._sentence.get_dependent_lemmas(index, "det") & {"a", "an"})

    def _is_title_prefix(self, index: int) -> bool:
        """Whether a name is the first words of a title in marks of quotation."""
        first, last = self._phrases.get_extent(index)
        is_opened = first > 0 and self._words[first - 1].text in _OPENING_QUOTES
        return is_opened and not (last + 1 < len(self._words) and self._words[last + 1].text in _CLOSING_QUOTES)

    def _is_instance(self, child: int, parent: int, child_level: int, confidence: float) -> bool:
        """Whether the child of a class stands for the same everywhere, and is said to be of it in so many words."""
        if confidence < _MIN_PREDICATE_CONFIDENCE:
            return (
                child_level == _PROPER
                and confidence >= _MIN_FORM_CONFIDENCE
                and self._is_clear_apposition(child, parent)
            )
        if child > parent and (self._words[parent].tag != "NNS" or self._sentence.get_dependent_lemmas(child, "det")):
            return False  # what "such as" stands behind a single thing hangs on another noun
        if child_level < _PROPER and self._is_attribute(parent):
            return False
        if ":" in [word.text for word in self._words[min(child, parent) : max(child, parent)]]:
            return False
        if child_level == _EVERYDAY:
            # Of an everyday word a sentence tells what it is where it is about it: cats are animals.
            return self._is_generic(child) and (child > parent or self._phrases.get_extent(child)[0] <= 1)
        if child_level == _PROPER:
            return True
        first, last = self._phrases.get_extent(child)
        if first == last and "the" in self._sentence.get_dependent_lemmas(child, "det"):
            return False  # the output: of what is told around it
        return self._is_plain_term(child) and self._words[first].tag != "VBG"

    def _is_attribute(self, index: int) -> bool:
        """Whether a noun is what another has (``the size of the file``)."""
        return "the" in self._sentence.get_dependent_lemmas(index, "det") and bool(
            self._phrases.find_complements(index, "of")
        )

    def _is_class(self, index: int) -> bool:
        """Whether a noun is a class that things are of."""
        first, last = self._phrases.get_extent(index)
        word = self._words[index]
        if word.text[:1].isupper() or word.lemma in _NON_CLASS_NOUNS or _is_code(word.text):
            return False
        if any(True for _ in self._sentence.find_dependents(index, "nummod")):
            return False
        is_definite = "the" in self._sentence.get_dependent_lemmas(index, "det") and any(
            True for _ in self._sentence.find_dependents(index, "cop")
        )
        if is_definite and not word.lemma.endswith(_PERSON_ENDINGS) and not self._phrases.find_complements(index, "of"):
            return False  # the largest size, the text as it was entered
        if word.tag == "NNS" and any(
            self._words[i].text in ("is", "was") for i in self._sentence.find_dependents(index, "cop")
        ):
            return False  # "which is at least two pages"
        if first < last and get_everyday_kind(self._words[first].text) in (VERB, ADJECTIVE, OTHER):
            return False  # an established star, a fatal error
        if first > 0 and self._words[first - 1].nominal and self._words[first - 1].text.islower():
            return False  # cut off of what stands before it: a gas mantle manufacturer
        is_known_noun = (
            get_everyday_kind(word.lemma) == NOUN or word.lemma.endswith(_PERSON_ENDINGS) or self._is_generic(index)
        )
        return is_known_noun and last - first < _MAX_CLASS_WORDS and not self._is_first_half(index)

    def _is_plain_term(self, index: int) -> bool:
        """Whether a common noun phrase is made of nouns alone: its adjectives would tell what is meant here."""
        first, last = self._phrases.get_extent(index)
        return first == last or self._phrases.is_noun_compound(index)

    def _is_clear_apposition(self, child: int, parent: int) -> bool:
        """Whether an apposition is one beyond doubt: ``Emmy Noether, a mathematician``, ``the mathematician Emmy
        Noether``, ``the function floor()``."""
        words = self._words
        first, last = self._phrases.get_extent(child)
        if parent > child:
            start = self._phrases.get_extent(parent)[0]
            between = [word.text for word in words[last + 1 : start]]
            return between[:1] == [","] and bool(set(between) & {"a", "an", "the"}) and len(between) < 4
        if parent != first - 1 or words[parent].tag != "NN":
            return False
        if last + 1 < len(words) and words[last + 1].text == ":":
            return False  # who speaks
        if last + 1 < len(words) and words[last + 1].text == "and" and self._has_epithet_at(last + 2):
            return False  # the group Marky Mark and the Funky Bunch
        if _is_code(words[child].text):
            return words[parent].lemma in _CODE_NOUNS
        return first < last and all(
            word.text[:1].isupper() and not word.text.isupper() for word in words[first : last + 1]
        )

    def _is_specific(self, index: int) -> bool:
        """Whether it is a proper name or several nouns: a single noun is part of anything."""
        first, last = self._phrases.get_extent(index)
        if self._find_level(index) == _PROPER:
            return self._words[index].text[:1].isupper()
        return first < last and self._is_plain_term(index)

    def _is_truncated(self, index: int) -> bool:
        """Whether a name goes on before it or behind it (``Thomas Edward "Tom" Sizemore``, ``The Man Without a
        Face``)."""
        if not self._words[index].proper:
            return False
        first, last = self._phrases.get_extent(index)
        next_word = self._words[last + 1] if last + 1 < len(self._words) else None
        previous_word = self._words[first - 1] if first > 0 else None
        if (
            previous_word is not None
            and previous_word.text in ("'", "’")
            and first > 1
            and self._words[first - 2].text[:1].isupper()
        ):
            return True
        if self._has_epithet_at(last + 1):
            return True
        if next_word is not None and next_word.text == "(":
            words = [word.text for word in self._words[last + 2 : last + 6]]
            words_after = words[words.index(")") + 1 :] if ")" in words else []
            if words_after and words_after[0][:1].isupper():
                return True  # Thomas (Tom) Sizemore
        if next_word is not None and (
            next_word.text in _OPENING_QUOTES or next_word.text == "&" or next_word.text[:1].isupper()
        ):
            return True
        return previous_word is not None and (
            previous_word.text == "&"
            or (previous_word.text[:1].isupper() and previous_word.pos not in ("DET", "ADP", "SCONJ", "PRON"))
        )

    def _has_epithet_at(self, index: int) -> bool:
        """Whether a name goes on at a place with an article: ``Henry the Navigator``."""
        words = [word.text for word in self._words[index : index + 2]]
        return words[:1] == ["the"] and words[1:] != [] and words[1][:1].isupper()

    def _is_first_half(self, index: int) -> bool:
        """Whether a noun is the first half of a name that ends in a person (``a film and television actor``)."""
        word = self._words[index]
        if word.lemma.endswith(_PERSON_ENDINGS) or self._phrases.get_extent(index)[0] < index:
            return False
        first_conjunct = word.head if word.label == "conj" and word.head >= 0 else index
        return any(
            conjunct > index
            and self._words[conjunct].lemma.endswith(_PERSON_ENDINGS)
            and not self._sentence.get_dependent_lemmas(conjunct, "det")
            and self._phrases.get_extent(conjunct)[0] < conjunct
            for conjunct in self._sentence.find_dependents(first_conjunct, "conj")
        )

    def _find_level(self, index: int) -> int | None:
        """How far a noun phrase stands for the same everywhere; None where it is no name at all."""
        word = self._words[index]
        first, last = self._phrases.get_extent(index)
        kind = get_everyday_kind(word.text)
        is_bare = first == last and not self._sentence.get_dependent_lemmas(index, "det")
        if is_bare and kind in (ADJECTIVE, OTHER, VERB) and (index == 0 or not word.text[:1].isupper()):
            return None  # an imperative or an adjective taken for a noun
        if (word.proper and word.text[:1].isupper()) or _is_code(word.text):
            if self._has_determiner(index, _DEMONSTRATIVES):
                return None
            if first == last and (word.text[:1].isdigit() or (kind is not None and word.text.istitle())):
                return None  # a number of a step; the Committee, the Crown: which one, the text around it says
            if (
                first < last
                and self._words[first].text.islower()
                and get_everyday_kind(self._words[first].text) is not None
            ):
                return None  # the returned MessagePort
            # "Grey's Anatomy": what stands behind a possessor is a part of a name.
            return None if first > 0 and self._words[first - 1].tag == "POS" else _PROPER
        if self._has_determiner(index, _CONTEXT_DETERMINERS):
            return None
        return _TERM if first < last or kind is None else _EVERYDAY

    def _has_determiner(self, index: int, expected: frozenset[str]) -> bool:
        first, _ = self._phrases.get_extent(index)
        determiners = set().union(
            *(self._sentence.get_dependent_lemmas(i, "det", "nmod:poss", "amod") for i in range(first, index + 1))
        )
        words = {
            self._words[child].text.lower()
            for child in self._sentence.find_dependents(index, "det", "nmod:poss", "amod")
        }
        return bool((determiners | words) & expected)

    def _is_generic(self, index: int) -> bool:
        """Whether an everyday noun is spoken of in general: a plural without an article, or one with ``a``."""
        determiners = self._sentence.get_dependent_lemmas(index, "det", "nmod:poss", "nummod")
        if self._words[index].tag == "NNS":
            return not determiners
        return determiners <= {"a", "an"} and bool(determiners)


def _is_code(text: str) -> bool:
    """Whether a word is written as none of a language: with a mark, a digit or a capital inside."""
    return not text.replace("-", "").isalpha() or not (text.islower() or text.istitle())
