"""A filter for relations that are informative outside the sentence that states them: both names must mean the same in
every context, unlike *the band*. Words are given by their indexes in the sentence, with labels of Universal
Dependencies (``det``, ``amod``) and Penn Treebank tags (``NNS``).

In: a parsed sentence, and the indexes of two nouns in it with the kind of their relation. Out: True or False. *The
band* or *its first version* are only known in context, and *the end of the line* says nothing about lines. A relation
is informative if its names have the same meaning in every context. A proper name or an identifier does, and a term
(several words, or a noun that is not an everyday word) usually does. An everyday noun does if it is generic (*cats are
animals*, *a cat is an animal*), or if it is the class of a named thing.

A clause that is denied, asked, supposed or doubted states nothing: :func:`compute_factuality` weighs each clause with 1
if it is stated as a fact, less if it is only possible, and 0 if it is not stated.
"""

from __future__ import annotations

from functools import cached_property

from ..text.everyday_words import ADJECTIVE, NOUN, OTHER, VERB, get_part_of_speech
from .noun_phrases import FINITE_VERB_TAGS, NounPhrases
from .relation_words import BELONGS_TO, IS_A, LOCATED_IN, OF, PART_OF
from .syntax import Sentence

#: Specificities of noun phrases: the higher, the more stable the meaning across contexts.
_EVERYDAY_WORD, _TERM, _PROPER_NAME = 0, 1, 2
#: The minimum confidence of a statement by a verb, by a predicate (``X is a Y``), and by a noun phrase (``X, a Y``).
_MIN_VERB_CONFIDENCE, _MIN_PREDICATE_CONFIDENCE, _MIN_FORM_CONFIDENCE = 0.9, 0.8, 0.7
#: Nouns that can be the class of an identifier right after them.
_CODE_NOUNS = frozenset("function command file option parameter routine module package directive method macro".split())
#: Marks that do not occur in prose.
_FORMULA_MARKS = frozenset("{}|=<>*")
#: The maximum number of words of a sentence whose parse is trusted.
_MAX_SENTENCE_WORDS = 60
#: The maximum number of words in the name of a class; a longer phrase is a description.
_MAX_CLASS_WORDS = 3
#: Nouns that apply to anything, so they are not classes.
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
#: Endings of nouns for persons by occupation, and opening quotation marks.
_PERSON_ENDINGS, _OPENING_QUOTES = ("er", "or", "ist", "ian", "ess", "man", "woman"), ('"', "“", "``", "''")
_CLOSING_QUOTES = frozenset(('"', "”", "''", ",", "."))
#: Words that restrict a noun to some of its class.
_PARTIAL_WORDS = frozenset("other most many some few several".split())
#: Words that refer to the context.
_DEMONSTRATIVES = frozenset("this that these those such same".split())
_CONTEXT_DETERMINERS = _DEMONSTRATIVES | frozenset("my your his her its our their".split())
#: How certain a clause with an auxiliary such as *can*, *may* or *must* is, as a share of the certainty of a fact.
_POSSIBLE_FACTUALITY = 0.8

_NEGATIONS = frozenset("not n't n’t never hardly scarcely barely rarely seldom neither nor no".split())
_POSSIBLE_AUXILIARIES = frozenset("can may must should shall".split())
_HYPOTHETICAL_AUXILIARIES = frozenset("would might could 'd ’d".split())
_CONDITIONAL_WORDS = frozenset("if unless whether lest".split())
#: Verbs whose complement clause is only thought, asked or denied.
_NONFACTUAL_VERBS = frozenset(
    """
    deny doubt wonder ask claim believe think suspect allege hope fear assume suppose imagine pretend guess want wish
    expect suggest propose check test
    """.split()
)
_CLAUSE_LABELS = ("ccomp", "xcomp", "advcl", "conj", "csubj", "parataxis")


class RelationFilter:
    """A filter for the relations of one sentence. All methods take the indexes of nouns."""

    def __init__(self, sentence: Sentence, phrases: NounPhrases) -> None:
        """Prepare the filter for a parsed sentence and its noun phrases."""
        self._sentence = sentence
        self._words = sentence.words
        self._phrases = phrases

    @cached_property  # lazy: most sentences assert no relation
    def _is_complete(self) -> bool:
        """True if the sentence is complete prose (no title, formula or speech), and short enough to be parsed well."""
        words = self._words
        if len(words) > _MAX_SENTENCE_WORDS:
            return False  # parses of long sentences are often wrong
        # Titles, cells and merged lists lack final punctuation or a verb.
        is_ended = words[-1].text[-1] in ".!"
        has_verb = any(word.tag in FINITE_VERB_TAGS for word in words)
        is_formula = any(word.text in _FORMULA_MARKS for word in words)
        # Interjections mark speech, which is often incomplete; so is text split inside parentheses.
        is_speech = any(word.tag == "UH" for word in words)
        is_prose = is_ended and has_verb and not is_formula and not is_speech
        return is_prose and self._has_balanced_parentheses(0, len(words))

    def is_informative(self, kind: str, child: int, parent: int, confidence: float) -> bool:
        """True if a relation between two names is informative outside the sentence that states it.

        The sentence must be complete prose, and both names must be complete and mean the same in every context.
        ``kind`` is its kind, such as ``IS_A``. ``child`` and ``parent`` are the indexes of its two nouns.
        ``confidence`` (0 to 1) depends on the syntactic form: "X is a Y" is more certain than "Y's X".
        """
        if not self._is_complete:
            return False
        child_specificity, parent_specificity = self._rate_specificity(child), self._rate_specificity(parent)
        if child_specificity is None or parent_specificity is None:
            return False
        if any(self._is_truncated(index) or self._is_title_prefix(index) for index in (child, parent)):
            return False
        if self._sentence.get_dependent_lemmas(child, "amod", "det") & _PARTIAL_WORDS:
            return False  # some cats are black: not every cat is
        if child < parent and self._is_joined_by_or(child):
            return False
        if not self._has_balanced_parentheses(min(child, parent), max(child, parent), must_close=child < parent):
            return False
        if kind == IS_A:
            return self._is_class(parent) and self._is_instance(child, parent, child_specificity, confidence)
        if kind == OF:
            if confidence < _MIN_FORM_CONFIDENCE:  # only named, as in "X of Y" and "Y's X"
                is_ownable = self._phrases.is_noun_compound(child) and self._words[child].lemma not in _NON_CLASS_NOUNS
                return parent_specificity == _PROPER_NAME and is_ownable and not self._is_superlative(child)
            return parent_specificity == child_specificity == _PROPER_NAME and not self._is_indefinite_name(parent)
        if kind in (LOCATED_IN, BELONGS_TO) and child_specificity != _PROPER_NAME:
            return False  # a town in Norway: not every town is in Norway
        if self._is_indefinite_name(child) or self._is_indefinite_name(parent):
            return False
        if (
            kind == PART_OF
            and child_specificity != _PROPER_NAME
            and child > parent
            and confidence < _MIN_VERB_CONFIDENCE
        ):
            return False  # a group of dog breeds: there are others
        return self._is_specific(child) and self._is_specific(parent)

    def _has_balanced_parentheses(self, start: int, end: int, must_close: bool = True) -> bool:
        """True if the parentheses among the words from index ``start`` to before ``end`` are balanced.

        If ``must_close`` is False, opened parentheses can stay open.
        """
        depth = 0
        for word in self._words[start:end]:
            if word.text == "(":
                depth += 1
            elif word.text == ")":
                depth -= 1
            if depth < 0:
                return False
        return depth == 0 or not must_close

    def _is_superlative(self, index: int) -> bool:
        """True if a noun is selected by its rank in an order (``the smallest one``, ``the first one``)."""
        modifiers = (self._words[child] for child in self._sentence.find_dependents(index, "amod"))
        return any(word.tag == "JJS" or word.lemma in ("first", "last") for word in modifiers)

    def _is_joined_by_or(self, index: int) -> bool:
        """True if a proper name of one word is next to ``or``, so it is part of a name (``John or Jack Robinson``)."""
        first, last = self._phrases.find_phrase_bounds(index)
        adjacent_words = [self._words[i].text for i in (first - 1, last + 1) if 0 <= i < len(self._words)]
        return first == last and self._words[index].is_proper and "or" in adjacent_words

    def _is_indefinite_name(self, index: int) -> bool:
        """True if a proper name has an indefinite article, as in ``a Bergen baker`` and ``a NULL``.

        Identifiers do not count, except those in capitals.
        """
        word = self._words[index]
        is_name = word.is_proper and (word.text.isupper() or not _is_code(word.text))
        return is_name and bool(self._sentence.get_dependent_lemmas(index, "det") & {"a", "an"})

    def _is_title_prefix(self, index: int) -> bool:
        """True if a name is only the beginning of a title in quotation marks (``"Anna Smith`` of a longer title)."""
        first, last = self._phrases.find_phrase_bounds(index)
        is_opened = first > 0 and self._words[first - 1].text in _OPENING_QUOTES
        is_closed = last + 1 < len(self._words) and self._words[last + 1].text in _CLOSING_QUOTES
        return is_opened and not is_closed

    def _is_instance(self, child: int, parent: int, child_specificity: int, confidence: float) -> bool:
        """True if the sentence clearly states that ``child`` is an instance of the class ``parent``.

        The child must have the same meaning in every context: a proper name, a plain term, or an everyday word that the
        sentence defines. ``child`` and ``parent`` are indexes of nouns, ``child_specificity`` is ``_EVERYDAY_WORD``,
        ``_TERM`` or ``_PROPER_NAME``, and ``confidence`` (0 to 1) says how certain the syntactic form is.
        """
        if confidence < _MIN_PREDICATE_CONFIDENCE:  # "X, a Y", not "X is a Y"
            is_named = child_specificity == _PROPER_NAME and confidence >= _MIN_FORM_CONFIDENCE
            return is_named and self._is_clear_apposition(child, parent)
        if child > parent and (self._words[parent].tag != "NNS" or self._sentence.get_dependent_lemmas(child, "det")):
            return False  # "such as" after a singular noun belongs to another noun
        if child_specificity < _PROPER_NAME and self._is_attribute(parent):
            return False
        if ":" in [word.text for word in self._words[min(child, parent) : max(child, parent)]]:
            return False
        if child_specificity == _EVERYDAY_WORD:
            # A sentence defines an everyday word only if the word is its topic: cats are animals.
            first, _ = self._phrases.find_phrase_bounds(child)
            return self._is_generic(child) and (child > parent or first <= 1)
        if child_specificity == _PROPER_NAME:
            return True
        first, last = self._phrases.find_phrase_bounds(child)
        if first == last and "the" in self._sentence.get_dependent_lemmas(child, "det"):
            return False  # the output: defined by the context
        return self._is_plain_term(child) and self._words[first].tag != "VBG"

    def _is_attribute(self, index: int) -> bool:
        """True if a noun is an attribute of another noun: it has ``the`` and ``of`` (``the size of the file``)."""
        is_definite = "the" in self._sentence.get_dependent_lemmas(index, "det")
        return is_definite and bool(self._phrases.find_complements(index, "of"))

    def _is_class(self, index: int) -> bool:
        """True if the noun at ``index`` is a class that can have instances, such as ``city``."""
        first, last = self._phrases.find_phrase_bounds(index)
        word = self._words[index]
        if word.text[:1].isupper() or word.lemma in _NON_CLASS_NOUNS or _is_code(word.text):
            return False
        if self._sentence.has_dependent(index, "nummod"):
            return False  # two cities
        determiners = self._sentence.get_dependent_lemmas(index, "det")
        is_definite = "the" in determiners and self._sentence.has_dependent(index, "cop")
        if is_definite and not word.lemma.endswith(_PERSON_ENDINGS) and not self._phrases.find_complements(index, "of"):
            return False  # the largest size, the text as it was entered
        copulas = (self._words[child].text for child in self._sentence.find_dependents(index, "cop"))
        if word.tag == "NNS" and any(copula in ("is", "was") for copula in copulas):
            return False  # "which is at least two pages"
        if first < last and get_part_of_speech(self._words[first].text) in (VERB, ADJECTIVE, OTHER):
            return False  # an established star, a fatal error
        if first > 0 and self._words[first - 1].is_nominal and self._words[first - 1].text.islower():
            return False  # part of a longer name: a gas mantle manufacturer
        is_known_noun = (
            get_part_of_speech(word.lemma) == NOUN or word.lemma.endswith(_PERSON_ENDINGS) or self._is_generic(index)
        )
        return is_known_noun and last - first < _MAX_CLASS_WORDS and not self._is_coordinated_modifier(index)

    def _is_plain_term(self, index: int) -> bool:
        """True if a common noun phrase consists only of nouns.

        The meaning of an adjective, such as *new*, would depend on the context.
        """
        first, last = self._phrases.find_phrase_bounds(index)
        return first == last or self._phrases.is_noun_compound(index)

    def _is_clear_apposition(self, child: int, parent: int) -> bool:
        """True if the noun ``parent``, next to the name ``child``, certainly says what the name is.

        Examples are ``Emmy Noether, a mathematician``, ``the mathematician Emmy Noether`` and ``the function floor()``.
        """
        words = self._words
        first, last = self._phrases.find_phrase_bounds(child)
        if parent > child:
            start, _ = self._phrases.find_phrase_bounds(parent)
            between = [word.text for word in words[last + 1 : start]]
            # A comma, an article and at most one other word.
            return between[:1] == [","] and bool(set(between) & {"a", "an", "the"}) and len(between) < 4
        if parent != first - 1 or words[parent].tag != "NN":
            return False
        if last + 1 < len(words) and words[last + 1].text == ":":
            return False  # the name of a speaker
        if last + 1 < len(words) and words[last + 1].text == "and" and self._begins_epithet(last + 2):
            return False  # the group Marky Mark and the Funky Bunch
        if _is_code(words[child].text):
            return words[parent].lemma in _CODE_NOUNS
        return first < last and all(
            word.text[:1].isupper() and not word.text.isupper() for word in words[first : last + 1]
        )

    def _is_specific(self, index: int) -> bool:
        """True if the phrase of a noun names something specific: a capitalized proper name, or a compound of nouns.

        A single common noun can be part of anything.
        """
        first, last = self._phrases.find_phrase_bounds(index)
        if self._rate_specificity(index) == _PROPER_NAME:
            return self._words[index].text[:1].isupper()
        return first < last and self._is_plain_term(index)

    def _is_truncated(self, index: int) -> bool:
        """True if a proper name continues before or after the words of its phrase.

        Examples are ``Thomas Edward "Tom" Sizemore`` and ``The Man Without a Face``.
        """
        if not self._words[index].is_proper:
            return False
        first, last = self._phrases.find_phrase_bounds(index)
        next_word = self._words[last + 1] if last + 1 < len(self._words) else None
        previous_word = self._words[first - 1] if first > 0 else None
        follows_apostrophe = previous_word is not None and previous_word.text in ("'", "’")
        if follows_apostrophe and first > 1 and self._words[first - 2].text[:1].isupper():
            return True  # a capitalized word, an apostrophe, and the name
        if self._begins_epithet(last + 1):
            return True  # Henry the Navigator
        if next_word is not None and next_word.text == "(":
            words = [word.text for word in self._words[last + 2 : last + 6]]  # at most two in parentheses, and the next
            words_after = words[words.index(")") + 1 :] if ")" in words else []
            if words_after and words_after[0][:1].isupper():
                return True  # Thomas (Tom) Sizemore
        if next_word is not None and (next_word.text in (*_OPENING_QUOTES, "&") or next_word.text[:1].isupper()):
            return True  # Thomas "Tom" Sizemore, Smith & Sons
        if previous_word is None:
            return False
        # A capitalized word before the name belongs to it, unless it is a function word at the start of the sentence.
        is_function_word = previous_word.pos in ("DET", "ADP", "SCONJ", "PRON")
        return previous_word.text == "&" or (previous_word.text[:1].isupper() and not is_function_word)

    def _begins_epithet(self, index: int) -> bool:
        """True if an epithet (``the`` and a capitalized word) begins at this index, as in ``Henry the Navigator``."""
        words = [word.text for word in self._words[index : index + 2]]
        return words[:1] == ["the"] and words[1:] != [] and words[1][:1].isupper()

    def _is_coordinated_modifier(self, index: int) -> bool:
        """True if a noun only modifies a later noun for a person, as ``film`` in ``a film and television actor``."""
        word = self._words[index]
        if word.lemma.endswith(_PERSON_ENDINGS) or self._has_premodifier(index):
            return False
        first_conjunct = word.head if word.label == "conj" and word.head >= 0 else index
        later_conjuncts = (
            conjunct for conjunct in self._sentence.find_dependents(first_conjunct, "conj") if conjunct > index
        )
        return any(
            self._words[conjunct].lemma.endswith(_PERSON_ENDINGS)
            and not self._sentence.get_dependent_lemmas(conjunct, "det")
            and self._has_premodifier(conjunct)
            for conjunct in later_conjuncts
        )

    def _has_premodifier(self, index: int) -> bool:
        """True if the phrase of a noun has a word before the noun, as ``television`` in ``television actor``."""
        first, _ = self._phrases.find_phrase_bounds(index)
        return first < index

    def _rate_specificity(self, index: int) -> int | None:
        """Return how specific a noun phrase is: ``_EVERYDAY_WORD``, ``_TERM`` or ``_PROPER_NAME``.

        ``index`` is its main noun. Returns None if it is not a name, or if its meaning depends on the context.
        """
        word = self._words[index]
        first, last = self._phrases.find_phrase_bounds(index)
        part_of_speech = get_part_of_speech(word.text)  # None for a word that is not an everyday word
        is_bare = first == last and not self._sentence.get_dependent_lemmas(index, "det")
        is_mistagged = part_of_speech in (ADJECTIVE, OTHER, VERB) and (index == 0 or not word.text[:1].isupper())
        if is_bare and is_mistagged:
            return None  # an imperative or adjective tagged as a noun
        if (word.is_proper and word.text[:1].isupper()) or _is_code(word.text):
            if self._has_determiner(index, _DEMONSTRATIVES):
                return None
            is_everyday_title = part_of_speech is not None and word.text.istitle()
            if first == last and (word.text[:1].isdigit() or is_everyday_title):
                return None  # a step number; the Committee, the Crown: defined by the context
            first_word = self._words[first].text
            if first < last and first_word.islower() and get_part_of_speech(first_word) is not None:
                return None  # the returned MessagePort
            # "Grey's Anatomy": a noun after a possessor is part of a name.
            return None if first > 0 and self._words[first - 1].tag == "POS" else _PROPER_NAME
        if self._has_determiner(index, _CONTEXT_DETERMINERS):
            return None
        return _TERM if first < last or part_of_speech is None else _EVERYDAY_WORD

    def _has_determiner(self, index: int, sought_determiners: frozenset[str]) -> bool:
        """True if a word of the phrase of the noun at ``index`` has one of ``sought_determiners``.

        Possessives and adjectives count as determiners. They are compared by their lemmas; those of the noun itself
        also as written, in lower case.
        """
        first, _ = self._phrases.find_phrase_bounds(index)
        determiners = set().union(
            *(self._sentence.get_dependent_lemmas(i, "det", "nmod:poss", "amod") for i in range(first, index + 1))
        )
        words = {
            self._words[child].text.lower()
            for child in self._sentence.find_dependents(index, "det", "nmod:poss", "amod")
        }
        return bool((determiners | words) & sought_determiners)

    def _is_generic(self, index: int) -> bool:
        """True if the noun at ``index`` is generic: a plural without a determiner, or a singular with ``a``."""
        determiners = self._sentence.get_dependent_lemmas(index, "det", "nmod:poss", "nummod")
        if self._words[index].tag == "NNS":
            return not determiners
        return determiners <= {"a", "an"} and bool(determiners)


def _is_code(text: str) -> bool:
    """True if a word looks like code: it has a digit, a capital after its first letter, or a symbol except a hyphen."""
    return not text.replace("-", "").isalpha() or not (text.islower() or text.istitle())


def compute_factuality(sentence: Sentence, head: int) -> float:
    """Return how certain the clause with the verb or predicate ``head`` is: 1 for a fact, 0.8 for a possibility.

    It is 0 if the statement is denied, conditional or hypothetical (``would``), or if it depends on a clause that
    denies or doubts it.
    """
    if _is_negated(sentence, head):
        return 0.0
    words = sentence.words
    verbs = [head]  # whose auxiliaries apply to the clause
    index = head
    for _ in range(len(words)):  # a parse can have a cycle
        label = words[index].label.partition(":")[0]
        if sentence.get_dependent_lemmas(index, "mark", "advmod") & _CONDITIONAL_WORDS:
            return 0.0
        governor = words[index].head
        if label not in _CLAUSE_LABELS or governor < 0:
            break
        if label in ("ccomp", "xcomp", "csubj") and (
            words[governor].lemma in _NONFACTUAL_VERBS or _is_negated(sentence, governor)
        ):
            return 0.0
        if label == "conj" and index == head and not sentence.has_dependent(index, "nsubj"):
            verbs.append(governor)  # "may contain A and include B": the auxiliary of the first verb also applies to it
        index = governor
    auxiliaries = {words[child].text.lower() for verb in verbs for child in sentence.find_dependents(verb, "aux")}
    if auxiliaries & _HYPOTHETICAL_AUXILIARIES:
        return 0.0
    return _POSSIBLE_FACTUALITY if auxiliaries & _POSSIBLE_AUXILIARIES else 1.0


def _is_negated(sentence: Sentence, index: int) -> bool:
    """True if a word has a negation (``not``, ``no``), directly or at one of its adverbs."""
    for child in sentence.find_dependents(index, "advmod", "det", "cc"):
        word = sentence.words[child]
        if word.text.lower() in _NEGATIONS or word.lemma in _NEGATIONS:
            return True
        if word.label == "advmod" and sentence.get_dependent_lemmas(child, "advmod", "det") & _NEGATIONS:
            return True
    return False
