"""The arguments of a clause: the nouns that are the subjects, objects and prepositional complements of a verb. Words
are given by their indexes in a parsed sentence, with labels of Universal Dependencies (``nsubj``, ``acl``) and Penn
Treebank tags (``VBN``).

In: a parsed sentence and the index of a verb or predicate. Out: indexes of nouns. Relative pronouns, missing subjects
and nouns of quantity before the noun that is meant (``a number of files``) are resolved, and lists are expanded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .noun_phrases import NounPhrases
from .relation_words import PARTITIVE_NOUNS
from .syntax import Sentence


class ClauseArguments:
    """The arguments of the verbs and predicates of one sentence. All methods take and return the indexes of words."""

    def __init__(self, sentence: Sentence, phrases: NounPhrases) -> None:
        """Prepare the search for arguments in a parsed sentence and its noun phrases."""
        self._sentence = sentence
        self._words = sentence.words
        self._phrases = phrases
        # The predicate whose subject is being searched for; guards against cycles in a parse.
        self._followed_predicate: int | None = None

    def find_subjects(self, verb: int) -> Iterator[int]:
        """Yield the indexes of the nouns that are subjects of a verb or predicate; ``verb`` is its index.

        A relative pronoun is replaced by its antecedents, and a missing subject is inferred.
        """
        subjects = [index for index in self._sentence.find_dependents(verb, "nsubj") if index != verb]
        for index in subjects:
            if self._is_relative_pronoun(index):
                yield from self._find_pronoun_antecedents(index, verb)
            elif self._has_single_subject(verb, index):
                yield from self.resolve_partitive(index)
            else:
                yield from self.resolve_list_items(index)
        if not subjects and self._words[verb].head >= 0:
            yield from self._infer_subjects(verb)

    def _infer_subjects(self, verb: int) -> Iterator[int]:
        """Yield the nouns that are meant as the subjects of a verb or predicate that has none.

        They are the antecedents of a relative pronoun right before the verb, the noun that a participle describes
        ("the tug moored here"), or the subjects of the governing verb ("Ada wrote and painted").
        """
        word = self._words[verb]
        objects = self._sentence.find_dependents(verb, "obj")
        pronoun = next((index for index in objects if index < verb and self._is_relative_pronoun(index)), None)
        if pronoun is not None and all(other.tag.startswith("RB") for other in self._words[pronoun + 1 : verb]):
            # "which belonged": the pronoun right before a verb without another subject is its subject.
            yield from self._find_pronoun_antecedents(pronoun, verb)
            return
        if self._sentence.get_dependent_lemmas(verb, "mark"):
            return  # a clause with a marker, as in "a step to becoming a member": no subject is inferred
        if word.label.startswith("acl") and word.tag in ("VBN", "VBG"):
            yield from self._find_antecedents(word.head)
        elif word.label == "conj" or (word.label == "advcl" and word.tag in ("VBN", "VBG")):
            governor = self._words[word.head]
            if governor.is_nominal and word.label == "advcl":
                yield from self._find_antecedents(word.head)
            else:
                yield from self.find_subjects(word.head)

    def find_objects(self, verb: int) -> list[int]:
        """Return the indexes of the objects of a verb, each noun of a list separately."""
        return [
            index for child in self._sentence.find_dependents(verb, "obj") for index in self.resolve_list_items(child)
        ]

    def find_obliques(self, verb: int, prepositions: Iterable[str]) -> list[int]:
        """Return the indexes of the nouns, including the items of lists, that a verb governs by ``prepositions``.

        A relative pronoun is replaced by the noun that its clause describes.
        """
        nouns: list[int] = []
        for child in self._sentence.find_dependents(verb, "obl", "nmod"):
            if not self._phrases.get_prepositions(child) & set(prepositions):
                continue
            if not self._is_relative_pronoun(child):
                nouns += self.resolve_list_items(child)
            elif self._words[verb].label == "acl:relcl" and self._words[verb].head >= 0:
                nouns += self._find_antecedents(self._words[verb].head)
        return nouns

    def resolve_list_items(self, noun: int) -> Iterator[int]:
        """Yield the indexes of a noun and the other nouns of its list.

        A noun of quantity is replaced by the nouns after its ``of`` (``a number of files``).
        """
        for list_noun in self._phrases.find_list_items(noun):
            yield from self.resolve_partitive(list_noun)

    def resolve_partitive(self, noun: int) -> list[int]:
        """Return the indexes of the nouns after ``of`` if ``noun`` is only a quantity of them, otherwise ``[noun]``.

        Examples are ``a number of files``, ``a set of rules`` and ``some of the files``.
        """
        complements = self._phrases.find_complements(noun, "of")
        # A word that is not a noun is a quantifier, such as "some" or "two".
        is_partitive = self._words[noun].lemma in PARTITIVE_NOUNS or not self._words[noun].is_nominal
        return complements if complements and is_partitive else [noun]

    def is_passive(self, verb: int) -> bool:
        """True if a verb is passive, also as a participle that modifies a noun or clause (``the file read by it``)."""
        word = self._words[verb]
        if self._sentence.has_dependent(verb, "aux:pass", "nsubj:pass"):
            return True
        is_bare_participle = word.tag == "VBN" and not self._sentence.has_dependent(verb, "aux", "nsubj")
        # It modifies a noun or a clause, or is coordinated with such a participle.
        return is_bare_participle and (word.label.startswith("acl") or word.label in ("advcl", "amod", "conj"))

    def _find_antecedents(self, noun: int) -> Iterator[int]:
        """Yield the indexes of the nouns that a clause after ``noun`` describes, such as "located in Norway".

        They are the noun and the other nouns of its list. A clause after a predicate noun describes the subject of the
        predicate instead: "Bergen", not "town", in "Bergen is a town located in Norway".
        """
        is_predicate = self._sentence.has_dependent(noun, "cop")
        if is_predicate and self._followed_predicate is None:
            # The search for a subject can call this method. It follows no second predicate, so that it ends even if the
            # parse has a cycle.
            self._followed_predicate = noun
            subjects = list(self.find_subjects(noun))
            self._followed_predicate = None
            yield from subjects
        elif self._words[noun].is_nominal:
            yield from self.resolve_list_items(noun)

    def _find_pronoun_antecedents(self, pronoun: int, verb: int) -> Iterator[int]:
        """Yield the indexes of the antecedents of a relative pronoun: the nouns that it refers to.

        ``verb`` is the main verb of the pronoun's clause. The antecedent is the noun before the pronoun if a comma
        separates the two, or if the parse has no relative clause. Otherwise, it is the noun that the clause depends on.
        """
        word = self._words[verb]
        previous_noun = self._phrases.find_previous_noun(pronoun)
        is_after_comma = pronoun > 0 and self._words[pronoun - 1].text == ","
        is_relative_clause = word.label == "acl:relcl" and word.head >= 0
        if is_relative_clause and (previous_noun is None or not is_after_comma):
            yield from self._find_antecedents(word.head)
        elif previous_noun is not None:
            yield from self._find_antecedents(previous_noun)

    def _has_single_subject(self, verb: int, subject: int) -> bool:
        """True if a verb or predicate is singular and its ``subject`` is not a list with ``or``; both are indexes.

        The nouns after the subject then belong to its name (``Edward, Duke of York and Albany, was``).
        """
        auxiliaries = [self._words[index] for index in self._sentence.find_dependents(verb, "cop", "aux")]
        is_singular = any(word.tag == "VBZ" for word in (self._words[verb], *auxiliaries))
        is_singular = is_singular or any(word.text == "was" for word in auxiliaries)
        return is_singular and all(
            "or" not in self._sentence.get_dependent_lemmas(item, "cc")
            for item in self._phrases.find_list_items(subject)
        )

    def _is_relative_pronoun(self, index: int) -> bool:
        """True if a word can be a relative pronoun, such as ``which`` or ``that``."""
        return self._words[index].tag in ("WDT", "WP") or self._words[index].lemma in ("which", "that", "who", "whom")
