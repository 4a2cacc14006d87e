"""Names of noun phrases: the form of a parsed phrase as one end of a relation. The *head* of a phrase is its main noun.
Words are given by their indexes in the sentence, with labels of Universal Dependencies (``amod``: an adjective,
``conj``: a later item of a list) and Penn Treebank tags (``NNS``).

In: a :class:`~kvstore.extraction.syntax.Sentence` and the index of a noun in it. Out: the name of the phrase, and the
nouns coordinated with it. The name is the noun with the nouns and classifying adjectives before it, or a proper name as
written. A phrase that names nothing (a pronoun, a word like *thing*, a negated noun) has no name.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from ..text.everyday_words import ADJECTIVE, OTHER, VERB, get_part_of_speech, is_everyday
from ..text.name_words import CONTEXTUAL_ADJECTIVES, QUALIFYING_ADJECTIVES
from ..text.names import is_demonym, is_term, to_singular
from ..text.patterns import compile_lazily
from .syntax import Sentence, Word

#: Nouns that refer to others or to nothing specific: alone they name nothing.
_EMPTY_NOUNS = frozenset(
    """
    thing something anything nothing everything one way lot deal number amount kind sort type form variety example
    instance case fact reason problem matter point part piece portion rest half majority minority
    other others more most many few some any all each both either neither none following above below same such
    time year month week day hour minute second today tomorrow yesterday people person somebody someone
    everyone anyone bit couple dozen hundred thousand million billion percent pair range series set
    """.split()
)
#: The minimum number of uses of a term in a document, for a term of several words and of one.
_MIN_TERM_USES, _MIN_WORD_USES = 2, 3
#: The minimum number of letters of a term of one word.
_MIN_TERM_LETTERS = 4
#: The maximum number of words that can precede the head of a phrase.
_MAX_PHRASE_DISTANCE = 8
#: The maximum length of a number in a proper name, with the blank before it.
_MAX_NUMBER_LENGTH = 8
_LATIN_PATTERN = compile_lazily("[A-Za-z]")
#: The first half of a word that is hyphenated at the end of a line.
_BROKEN_WORD_PATTERN = compile_lazily(r"\w[-\u2010]\s+\Z")
#: A slash one word before a name, and a mark that joins a name to the text after it.
_SLASH_BEFORE_PATTERN = compile_lazily(r"/\w+\s\Z")
_JOINED_AFTER_PATTERN = compile_lazily("[-\u2010/][^\\W\\d_]")
_NEGATIONS = frozenset(("no", "neither", "nor", "not"))
#: Tags of finite verbs; a list of nouns ends before them.
FINITE_VERB_TAGS = frozenset(("VB", "VBP", "VBZ", "VBD", "MD"))
#: Prepositions inside a proper name, and the labels of words before a noun that belong to its name.
_NAME_PREPOSITIONS = frozenset(("of", "for", "de", "von", "van", "da", "di", "del"))
_PREMODIFIER_LABELS = frozenset(
    ("compound", "flat", "amod", "nmod:desc", "nmod:unmarked", "nummod", "obl:unmarked", "nmod")
)


class Term(NamedTuple):
    """The name of a common noun phrase. At least ``min_uses`` uses make it a term of a document.

    ``is_clear`` is True if it is certainly a term. ``is_verbal`` is True if it could be a noun and its verb (``client
    advertises``).
    """

    form: str
    min_uses: int
    is_clear: bool = False
    is_verbal: bool = False


class NounPhrases:
    """The noun phrases of one sentence. All methods take and return the indexes of words."""

    def __init__(self, sentence: Sentence) -> None:
        """Prepare the search for noun phrases in a parsed sentence."""
        self._sentence = sentence
        self._words = sentence.words
        #: Cache: the index of a noun -> the indexes of that noun and the nouns coordinated with it.
        self._coordinated_nouns: dict[int, tuple[int, ...]] = {}

    def get_name(self, index: int) -> str | None:
        """Return the name of the phrase around the noun at ``index``, or None if it has none.

        A common noun at its end becomes singular, and a common noun phrase that begins the sentence loses its capital.
        A phrase has no name if it is negated, means nothing specific (``thing``), or is a part of a longer word or
        name. A word that is not a noun has none either.
        """
        word = self._words[index]
        if not word.is_nominal or self._sentence.get_dependent_lemmas(index, "det", "cc", "advmod") & _NEGATIONS:
            return None  # not a noun, or negated, as in "no boat"
        first, last = self.find_phrase_bounds(index)
        is_empty = word.lemma in _EMPTY_NOUNS or word.lemma in QUALIFYING_ADJECTIVES or len(word.text) < 2
        if (first == last and is_empty) or not any(map(str.isalpha, word.text)):
            return None  # a word such as "thing" alone, or no word
        start, end = self._words[first].start, self._words[last].end
        form = " ".join(self._sentence.text[start:end].split())
        if not is_term(form):
            return None
        if self._is_part_of_longer_word(start, end) or _has_repeated_word(form):
            return None  # a repeated word: a term and its explanation run together
        if word.is_proper or last != index:
            return form
        if first == 0 and self._words[0].tag in ("NN", "NNS", "JJ") and self._words[0].text.istitle():
            form = form[0].lower() + form[1:]  # capitalized only because it begins the sentence
        noun_start = len(form) - len(word.text)
        return form[:noun_start] + _to_singular_form(word, form[noun_start:])

    def _is_part_of_longer_word(self, start: int, end: int) -> bool:
        """True if a hyphen or slash joins the phrase from character ``start`` to ``end`` to the text around it."""
        preceding_text = self._sentence.text[max(0, start - 40) : start]  # enough for the patterns
        return (
            preceding_text.endswith(("-", "/"))
            or _BROKEN_WORD_PATTERN.search(preceding_text) is not None
            or _SLASH_BEFORE_PATTERN.search(preceding_text) is not None
            or _JOINED_AFTER_PATTERN.match(self._sentence.text, end) is not None
        )

    def find_terms(self) -> list[Term]:
        """Return candidates for names: common noun phrases of several words, and nouns that are not everyday words.

        A document introduces a term as a name if it uses the term often enough. A phrase or noun that is written in the
        plural has two terms, the singular and the plural.
        """
        inner_labels = ("compound", "flat", "amod", "nmod:desc")  # of words inside the phrase of another noun
        terms: list[Term] = []
        for index, word in enumerate(self._words):
            if word.is_nominal and not word.is_proper and word.label not in inner_labels:
                name = self.get_name(index)
                if name is None or not _LATIN_PATTERN.search(name):
                    continue
                if name.split()[0].lower() in CONTEXTUAL_ADJECTIVES:
                    continue
                is_plain_word = len(name) >= _MIN_TERM_LETTERS and name.isalpha() and name.islower()
                if " " in name:
                    terms += self._make_phrase_terms(index, name)
                elif is_plain_word and not is_everyday(name):
                    terms += [Term(form, _MIN_WORD_USES) for form in dict.fromkeys((name, word.text.lower()))]
        return terms

    def _make_phrase_terms(self, index: int, name: str) -> list[Term]:
        """Return the terms (candidates for names) of a noun phrase of several words; empty if it cannot be a name.

        The terms are the phrase's ``name``, which is in the singular, and the phrase as written if it differs.
        ``index`` is the index of the main noun. A compound can be a certain term (``is_clear``), or possibly a noun and
        its verb (``is_verbal``). Any other phrase cannot be a name if it begins with a word such as "run" or "very", or
        if its noun is a word such as "thing".
        """
        head = self._words[index]
        is_compound = self.is_noun_compound(index)
        has_other_start = get_part_of_speech(name.split()[0]) in (VERB, OTHER)  # not a noun or an adjective
        if not is_compound and (has_other_start or head.lemma in _EMPTY_NOUNS):
            return []
        first, last = self.find_phrase_bounds(index)
        phrase_text = self._sentence.text[self._words[first].start : self._words[last].end]
        is_clear = is_compound and self._is_clear_compound(first, last)
        # "client runs" could also be a noun and its verb.
        is_verbal = is_compound and head.text.endswith("s") and get_part_of_speech(head.text) == VERB
        return [
            Term(form, _MIN_TERM_USES, is_clear=is_clear, is_verbal=is_verbal)
            for form in dict.fromkeys((name, " ".join(phrase_text.split())))
        ]

    def _is_clear_compound(self, first: int, last: int) -> bool:
        """True if the noun compound from word ``first`` to ``last`` is certainly the name of one thing.

        It then has two nouns, the first in lower case and the second not an everyday word. Neither looks like a verb
        tagged as a noun (``prints information``, ``CMake runs``).
        """
        modifier, head = self._words[first], self._words[last]
        if last - first != 1 or not modifier.text[:1].islower():
            return False
        if modifier.tag in ("NNS", "VBG") or modifier.text.endswith("ing"):
            return False
        return not is_everyday(head.text) and not (head.tag == "NN" and head.text.endswith("s"))

    def is_noun_compound(self, index: int) -> bool:
        """True if the phrase around a noun is several nouns in a row (``wire protocol``, not ``urgent report``).

        False if a word before the last noun is usually a verb or an adjective.
        """
        first, last = self.find_phrase_bounds(index)
        words = self._words[first : last + 1]
        if not all(word.is_nominal or word.tag == "HYPH" for word in words):
            return False
        return first < last and not any(
            get_part_of_speech(word.text) in (VERB, ADJECTIVE, OTHER) for word in words[:-1]
        )

    def find_phrase_bounds(self, index: int) -> tuple[int, int]:
        """Return (first, last), the indexes of the first and last word of the noun phrase around a noun.

        A proper name, such as ``Faculty of Law``, is a noun phrase too.
        """
        head = self._words[index]
        first = index
        while first > 0 and self._is_premodifier(first - 1, first, index):
            first -= 1
        # A phrase begins with a word, not with a hyphen, number or mark.
        while first < index and self._words[first].tag in ("HYPH", "CD", ":", ",", "``", "''"):
            first += 1
        last = index
        while last + 1 < len(self._words) and self._is_postmodifier(last + 1, index, last):
            last += 1
        if head.is_proper:
            last = self._extend_over_complement(last)  # "Faculty" becomes "Faculty of Law"
        return first, last

    def find_descriptor(self, index: int) -> int | None:
        """Return the index of the common noun right before a proper name that describes it, or None.

        An example is ``the mathematician Emmy Noether``.
        """
        if not self._words[index].is_proper:
            return None
        first, _ = self.find_phrase_bounds(index)
        previous = first - 1
        if previous < 0 or not self._is_descriptor(self._words[previous]) or not self._words[previous].text.isalpha():
            return None
        if self._words[index].text.isupper() or self._words[index].text[:-1].isupper():  # also an acronym and its "s"
            return None  # the backup API: the acronym is the kind, and the noun before it the name
        depends_on_name = first <= self._words[previous].head <= index
        return previous if depends_on_name or self._words[first].head == previous else None

    def get_coordinated_nouns(self, index: int) -> tuple[int, ...]:
        """Return the indexes of a noun and of the nouns that "and" or "or" joins to it (``X, Y and Z``).

        The list ends before a verb, colon or semicolon. An apposition counts if it is really the second item of a list.
        The result is cached, because each member of a long list needs it.
        """
        if index in self._coordinated_nouns:
            return self._coordinated_nouns[index]
        nouns = [index]
        determiners = self._sentence.get_dependent_lemmas(index, "det")
        for conjunct in self._sentence.find_dependents(index, "conj", "appos"):
            continuation = self._find_list_continuation(index, conjunct, determiners)
            is_coordinated = self._words[conjunct].label == "conj" or bool(continuation)
            if self.is_phrase_head(conjunct) and is_coordinated:
                words_between = self._words[nouns[-1] + 1 : conjunct]
                if any(word.tag in FINITE_VERB_TAGS or word.text in ";:" for word in words_between):
                    break
                nouns += [conjunct, *continuation]
        self._coordinated_nouns[index] = tuple(nouns)
        return self._coordinated_nouns[index]

    def find_list_items(self, index: int) -> list[int]:
        """Return the indexes of a noun and of the nouns that follow it in its list (``X, the Y and Z``).

        A list of three or more nouns is found by the order of the words, so that wrong attachments in the parse do not
        matter. For a shorter list, and for one right before a verb, the dependencies in the parse decide.
        """
        nouns = [index]
        words = self._words
        _, last = self.find_phrase_bounds(index)
        position = last + 1  # the index of the word after the last noun of the list
        has_conjunction = False
        while position < len(words) and not has_conjunction and words[position].text in (",", "and", "or"):
            has_conjunction = words[position].text != ","
            position += 1
            if position < len(words) and words[position].text in ("and", "or"):
                has_conjunction = True
                position += 1
            head = self._find_phrase_head(position)
            if head is None or head <= nouns[-1]:
                break
            nouns.append(head)
            _, last = self.find_phrase_bounds(head)
            position = last + 1
        is_before_verb = position < len(words) and (
            words[position].tag in FINITE_VERB_TAGS or words[position].label in ("cop", "aux")
        )
        coordinated_nouns = self.get_coordinated_nouns(index)  # by the parse
        # Without a conjunction and three nouns, or if the last one is the subject of a verb, the parse decides.
        if not has_conjunction or is_before_verb or len(nouns) < 3:
            return list(coordinated_nouns)
        return [*nouns, *(noun for noun in coordinated_nouns if noun > nouns[-1])]

    def _find_phrase_head(self, index: int) -> int | None:
        """Return the index of the main noun (head) of the noun phrase that begins exactly at ``index``, or None.

        The phrase has only determiners, numbers and adjectives before its nouns.
        """
        words = self._words
        while index < len(words) and not words[index].is_nominal:
            if words[index].pos not in ("DET", "NUM") and words[index].tag not in ("JJ", "PRP$", "VBN", "HYPH"):
                return None
            index += 1
        if index == len(words):
            return None
        while index + 1 < len(words) and words[index + 1].is_nominal and _is_adjacent(words[index], words[index + 1]):
            index += 1
        # The head of a flat name, such as ``Anna Smith``, is its first word.
        while words[index].label == "flat" and 0 <= words[index].head < index and words[words[index].head].is_nominal:
            index = words[index].head
        return index

    def _find_list_continuation(self, index: int, apposition: int, determiners: set[str]) -> list[int]:
        """Return the indexes of the nouns after an ``apposition`` that is really the second item of a list.

        In ``the nose, the throat and the lungs``, the parse can have ``throat`` as an apposition of ``nose``; the
        result is then ``lungs``. ``index`` is the noun before the apposition, and ``determiners`` are its determiners.
        The result is empty if the first noun is a plural, or if only one of the two is a proper noun. It is also empty
        if they have different determiners, as in ``the nose, a part of the face``.
        """
        if self._words[apposition].label != "appos" or self._words[index].tag == "NNS":
            return []
        is_alike = self._words[index].is_proper == self._words[apposition].is_proper and (
            determiners == self._sentence.get_dependent_lemmas(apposition, "det")
        )
        if not is_alike:
            return []
        return [
            conjunct for conjunct in self._sentence.find_dependents(apposition, "conj") if self.is_phrase_head(conjunct)
        ]

    def is_phrase_head(self, index: int) -> bool:
        """True if the word is a noun, and not the predicate of a clause, as ``cat`` in ``it is a cat``."""
        labels = {self._words[child].label.partition(":")[0] for child in self._words[index].children}
        return self._words[index].is_nominal and not labels & {"cop", "nsubj", "expl"}

    def find_complements(self, index: int, *prepositions: str) -> list[int]:
        """Return the indexes of the nouns after the noun at ``index`` with one of these prepositions.

        Nouns coordinated with them are included.
        """
        return [
            noun
            for child in self._sentence.find_dependents(index, "nmod", "obl")
            if child > index and self.get_prepositions(child) & set(prepositions)
            for noun in self.find_list_items(child)
        ]

    def get_prepositions(self, index: int) -> set[str]:
        """Return the prepositions (lemmas) before the phrase of a noun; if the word is not a noun, before the word.

        ``index`` is the index of the noun or word.
        """
        first, last = self.find_phrase_bounds(index) if self._words[index].is_nominal else (index, index)
        # In a parse, any word of the phrase can govern them.
        case_markers = (child for i in range(first, last + 1) for child in self._sentence.find_dependents(i, "case"))
        return {self._words[child].lemma for child in case_markers if child < first}

    def find_next_phrase(self, start: int) -> int | None:
        """Return the index of the main noun of the first noun phrase within a few words from ``start``, or None.

        Also returns None if a verb, a preposition, a subordinating conjunction or a comma, semicolon, colon or period
        comes before it.
        """
        for index in range(start, min(start + _MAX_PHRASE_DISTANCE, len(self._words))):
            word = self._words[index]
            is_modifier = index < word.head and word.label in ("compound", "nmod:desc", "nmod:poss", "amod")
            if word.is_nominal and not is_modifier:
                return index
            if word.pos in ("VERB", "AUX", "ADP", "SCONJ") or word.tag == "WRB" or word.text in ",;:.":
                return None
        return None

    def find_previous_noun(self, end: int) -> int | None:
        """Return the index of the noun right before the word at ``end``, or None if no noun is there.

        For a name of several words, such as ``Anna Smith``, it is the first word. Commas, semicolons, colons, dashes
        and ``(`` before ``end`` are skipped.
        """
        index = end - 1
        while index >= 0 and self._words[index].text in (",", "(", ";", ":", "–", "—"):
            index -= 1
        if index < 0 or not self._words[index].is_nominal:
            return None
        # The head of a flat name, such as ``Anna Smith``, is its first word.
        while self._words[index].label == "flat" and 0 <= self._words[index].head < index:
            index = self._words[index].head
        return index

    def _is_premodifier(self, index: int, next_index: int, head_index: int) -> bool:
        """True if the word at ``index`` extends, to the left, the noun phrase that so far begins at ``next_index``.

        ``head_index`` is the index of the phrase's main noun.
        """
        word, head = self._words[index], self._words[head_index]
        if word.tag == "HYPH" or (word.text in "-–/" and word.pos in ("PUNCT", "SYM")):
            # It extends the phrase only if it joins two words without spaces.
            return index > 0 and word.end == self._words[next_index].start and self._words[index - 1].end == word.start
        is_joined = word.end == self._words[next_index].start and self._words[next_index].text in "-–/"
        depends_on_phrase = word.head >= 0 and next_index <= word.head <= head_index
        if not is_joined and not (depends_on_phrase and word.label in _PREMODIFIER_LABELS):
            return False
        if word.tag == "CD":  # a number extends the phrase only after another noun of it
            return index > 0 and self._words[index - 1].is_nominal and self._words[index - 1].head == head_index
        if word.is_nominal:
            if word.lemma in ("example", "instance") and index > 0 and self._words[index - 1].text.lower() == "for":
                return False
            # A common noun before a proper name describes it and is not part of it.
            return not (head.is_proper and self._is_descriptor(word))
        if head.is_proper and word.text[:1].isupper():
            return word.pos not in ("DET", "PRON", "ADP", "ADV")
        if not head.is_proper and is_demonym(word.text) and not self._words[next_index].text.istitle():
            return False  # a Filipino rapper: the adjective is not part of the class; but European Union measures
        is_adjective = word.tag in ("JJ", "VBN", "VBG", "AFX") or word.pos == "ADJ" or is_joined
        return is_adjective and QUALIFYING_ADJECTIVES.isdisjoint((word.lemma, word.text.lower()))

    def _is_postmodifier(self, index: int, head_index: int, last: int) -> bool:
        """True if the word at ``index`` continues the name of the noun ``head_index``, which so far ends at ``last``.

        Such words are the other words of a flat name (``Anna Smith``) and a short number (``Windows 11``).
        """
        word, previous = self._words[index], self._words[last]
        if word.head != head_index and self._words[word.head].head != head_index:
            return False  # it depends neither on the noun nor on a word that depends on the noun
        if word.label == "flat":
            return word.pos not in ("PUNCT", "ADP")
        is_short_number = word.tag == "CD" and word.label == "nummod" and word.end - previous.end <= _MAX_NUMBER_LENGTH
        return self._words[head_index].is_proper and is_short_number and _is_adjacent(previous, word)

    def _extend_over_complement(self, last: int) -> int:
        """Return the index of the last word of a proper name; ``last`` is the last word before a possible complement.

        Examples are ``Faculty`` in ``Faculty of Law`` and ``Bureau`` in ``Bureau of Weights and Measures``.
        """
        words = self._words

        def is_capitalized_name(index: int) -> bool:
            """True if there is a word at ``index`` that is a part of a proper name and begins with a capital."""
            return index < len(words) and words[index].is_proper and words[index].text[:1].isupper()

        while last + 2 < len(words) and words[last + 1].text in _NAME_PREPOSITIONS:
            has_article = words[last + 2].text == "the" and last + 3 < len(words)
            name_start = last + 3 if has_article else last + 2
            if not is_capitalized_name(name_start):
                break
            last = name_start
            while is_capitalized_name(last + 1):
                last += 1
            has_conjunct = last + 2 < len(words) and words[last + 1].text == "and" and words[last + 2].is_proper
            if has_conjunct and name_start == last and words[last + 2].head == name_start:
                last += 2  # "Weights and Measures", but not "Law and the Faculty"
        return last

    @staticmethod
    def _is_descriptor(word: Word) -> bool:
        """True if a word is a common noun in lower case, which can describe the name after it (``king`` Henry)."""
        return word.tag in ("NN", "NNS") and not word.is_proper and word.text[:1].islower()


def _has_repeated_word(form: str) -> bool:
    """True if two adjacent words of the name ``form`` are the same, in singular or plural (``Bookmark Bookmarks``)."""
    singulars = [to_singular(word) or word for word in form.lower().split()]
    return any(word == following for word, following in pairwise(singulars))


def _is_adjacent(left: Word, right: Word) -> bool:
    """True if exactly one character, such as a space, separates the word ``left`` from ``right``."""
    return left.end + 1 == right.start


def _to_singular_form(word: Word, form: str) -> str:
    """Return ``form``, the noun ``word`` as written, or its singular if it is the plural of a common noun."""
    if word.is_proper or word.tag != "NNS" or not word.text[1:].islower():
        return form
    singular_form = to_singular(form)
    if singular_form is None and word.lemma[:2] == word.text[:2].lower() and not word.text.lower().endswith("s"):
        return word.lemma  # mice, children: an irregular plural begins like its singular
    return singular_form or form
