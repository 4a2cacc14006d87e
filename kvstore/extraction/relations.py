"""Relations stated in prose (CFT-RAG §2.2, Bridge-RAG §3.2): pairs of names, one the child of the other. Words are
given by their indexes in a parsed sentence, with labels of Universal Dependencies (``conj``: a later item of a list)
and Penn Treebank tags (``NNS``).

In: a parsed sentence. Out: :class:`StatedRelation` objects, always from child to parent: belonging, parts, kinds,
dependence, location, and ``X of Y``. A compound states nothing beyond its own words (*disk space*). Rules use the heads
and labels of Universal Dependencies. Clauses that are denied, asked, supposed or doubted state nothing. Each conjunct
is a separate child of the parent.

The confidence reflects how rarely the construction means something else: an outright verb 0.9, a list of examples 0.85,
a predicate 0.85, apposition 0.75, ``X of Y`` 0.6. A statement that is only possible gets four fifths of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ..process.frozen_dataclass import frozen_dataclass
from ..text.names import to_singular
from ..text.normalize import to_entity_key
from .clause_arguments import ClauseArguments
from .noun_phrases import FINITE_VERB_TAGS, NounPhrases
from .relation_filter import RelationFilter, compute_factuality
from .relation_words import (
    ACT_ENDINGS,
    BELONGS_TO,
    COLLECTION_NOUNS,
    DEPENDS_ON,
    EXAMPLE_ADVERBS,
    EXAMPLE_PHRASES,
    IS_A,
    KIND_NOUNS,
    NAMED_CLASSES,
    OF,
    PART_NOUNS,
    PART_OF,
    THING_NOUNS,
    UNAMBIGUOUS_VERBS,
    UNOWNED_NOUNS,
    VERB_FRAMES,
)
from .syntax import Sentence

#: Marks between a noun and an apposition which show that the two do not describe one thing.
_APPOSITION_SEPARATORS = frozenset((":", ";", "/", '"', "”"))
_VERB_CONFIDENCE = 0.9
_LIST_CONFIDENCE = _PREDICATE_CONFIDENCE = 0.85
_APPOSITION_CONFIDENCE = 0.75
_POSSESSION_CONFIDENCE = 0.6


@frozen_dataclass
class StatedRelation:
    """A statement that ``child`` is below ``parent``. Characters ``start`` to ``end`` of the text contain both names.

    ``is_informative`` is True if it is also informative outside its sentence
    (:mod:`~kvstore.extraction.relation_filter`).
    """

    child: str
    parent: str
    kind: str
    confidence: float
    start: int
    end: int
    is_informative: bool = True

    def shift(self, offset: int) -> StatedRelation:
        """Return the same statement with its offsets increased by ``offset`` characters."""
        return replace(self, start=self.start + offset, end=self.end + offset) if offset else self


def extract_statements(sentence: Sentence) -> list[StatedRelation]:
    """Return the relations that a sentence asserts: the most confident statement for each pair of names and kind."""
    best_statements: dict[tuple[str, str, str], StatedRelation] = {}
    for statement in _SentenceRelations(sentence).find_statements():
        # Singular, so that "Cats" and "cat" are equal.
        child_key, parent_key = (
            to_entity_key(to_singular(name) or name) for name in (statement.child, statement.parent)
        )
        best = best_statements.get((child_key, parent_key, statement.kind))
        if child_key != parent_key and (best is None or best.confidence < statement.confidence):
            best_statements[child_key, parent_key, statement.kind] = statement
    return list(best_statements.values())


class _SentenceRelations:
    """The rules, applied to one sentence. ``find_statements`` yields the statements; the other methods take indexes of
    words. The *frames* of a verb are the patterns by which it states relations, such as "X belongs to Y".
    """

    def __init__(self, sentence: Sentence) -> None:
        """Prepare the noun phrases, clauses and filter of a sentence."""
        self._sentence = sentence
        self._words = sentence.words
        self._phrases = NounPhrases(sentence)
        self._arguments = ClauseArguments(sentence, self._phrases)
        self._filter = RelationFilter(sentence, self._phrases)
        # A sentence without a verb is a title or, if it has more words and a period, its verb was tagged as a noun.
        has_verb = any(word.tag in FINITE_VERB_TAGS or word.pos in ("VERB", "AUX") for word in self._words)
        self._is_misread = not has_verb and len(self._words) > 4 and self._words[-1].text == "."
        # Predicate nouns whose "of" already states a relation: "the capital of France" in a statement about Paris.
        self._described_nouns: set[int] = set()

    def find_statements(self) -> Iterator[StatedRelation]:
        """Yield all statements of the sentence, possibly several about the same names. A question states nothing.

        If the parser misread the sentence (tagged its verb as a noun), nouns alone state nothing.
        """
        if self._words[-1].text == "?":
            return
        for index, word in enumerate(self._words):
            if word.text.lower() == "including":
                yield from self._find_preposition_examples(index)
            elif self._get_frame_name(index):
                yield from self._find_verb_relations(index)
            elif word.lemma in ("become", "remain", "form"):
                yield from self._find_becoming_relations(index)
            elif word.lemma == "be" and word.label == "cop" and word.head >= 0:
                yield from self._find_predicate_relations(word.head)
        for index, word in enumerate(self._words):
            if word.label == "appos" and word.head >= 0:
                yield from self._find_apposition_relations(word.head, index)
            if word.text.lower() in ("such", "as"):
                yield from self._find_preposition_examples(index)
            elif word.lemma in EXAMPLE_ADVERBS or self._introduces_example(index):
                yield from self._find_adverb_examples(index)
        # Last, because the loops above collect ``_described_nouns``.
        for index, word in enumerate(self._words):
            if word.is_nominal and not self._is_misread:
                yield from self._find_noun_relations(index)

    # Verbs.

    def _get_frame_name(self, verb: int) -> str:
        """Return the name under which :data:`VERB_FRAMES` lists a verb: its lemma, or "make up".

        Return "" for a verb that states no relation, which the table does not list. ``verb`` is an index.
        """
        lemma = self._words[verb].lemma
        if lemma == "make":
            return "make up" if verb + 1 < len(self._words) and self._words[verb + 1].text == "up" else ""
        return lemma if lemma in VERB_FRAMES else ""

    def _find_verb_relations(self, verb: int) -> Iterator[StatedRelation]:
        """Yield the relations that a verb states between its subjects and its objects or prepositional complements."""
        factuality = compute_factuality(self._sentence, verb)
        if not factuality:  # the clause is negated or doubted
            return
        word = self._words[verb]
        is_passive = self._arguments.is_passive(verb)
        subjects = list(self._arguments.find_subjects(verb))
        for frame in VERB_FRAMES[self._get_frame_name(verb)]:
            if frame.passive is not None and frame.passive != is_passive:  # a frame of the other voice
                continue
            complements = (
                self._arguments.find_obliques(verb, frame.prepositions)
                if frame.prepositions
                else self._arguments.find_objects(verb)
            )
            for subject in subjects:
                kind = frame.kind
                # "Formats include X": a plural without a determiner is a class.
                if word.lemma == "include" and not frame.prepositions and self._is_generic_plural(subject):
                    kind = IS_A
                children, parents = ([subject], complements) if frame.subject_is_child else (complements, [subject])
                yield from self._make_statements(children, parents, kind, _VERB_CONFIDENCE * factuality)

    def _is_generic_plural(self, noun: int) -> bool:
        """True if the plural at index ``noun`` means a whole class: ``formats``, but not ``the collections``."""
        is_plural = self._words[noun].tag == "NNS"
        has_determiner = self._sentence.has_dependent(noun, "det", "nmod:poss")
        return is_plural and not has_determiner and "most" not in self._sentence.get_dependent_lemmas(noun, "amod")

    def _find_becoming_relations(self, verb: int) -> Iterator[StatedRelation]:
        """Yield the relations of ``X became a Y`` and ``X forms part of Y``; ``verb`` is the index of the verb."""
        factuality = compute_factuality(self._sentence, verb)
        if not factuality or self._arguments.is_passive(verb):
            return
        predicates = [
            noun
            for child in self._sentence.find_dependents(verb, "xcomp", "obj")
            if self._words[child].is_nominal
            for noun in self._phrases.get_coordinated_nouns(child)
        ]
        if self._words[verb].lemma == "form":
            predicates = [index for index in predicates if self._words[index].lemma == "part"]
        yield from self._find_descriptions(
            list(self._arguments.find_subjects(verb)), predicates, _PREDICATE_CONFIDENCE * factuality
        )

    def _find_predicate_relations(self, predicate: int) -> Iterator[StatedRelation]:
        """Yield the relations of ``X is a Y`` and ``X is dependent on Y``.

        ``predicate`` is the index of ``Y`` or of ``dependent``.
        """
        factuality = compute_factuality(self._sentence, predicate)
        subjects = list(self._arguments.find_subjects(predicate))
        if not factuality or not subjects:
            return
        word = self._words[predicate]
        if word.lemma in ("dependent", "reliant"):
            complements = self._arguments.find_obliques(predicate, ("on", "upon"))
            yield from self._make_statements(subjects, complements, DEPENDS_ON, _VERB_CONFIDENCE * factuality)
        elif not self._sentence.get_dependent_lemmas(predicate, "case"):  # not "X is in Y"
            yield from self._find_descriptions(
                subjects, [predicate, *self._find_conjuncts(predicate)], _PREDICATE_CONFIDENCE * factuality
            )

    def _find_conjuncts(self, noun: int) -> list[int]:
        """Return the indexes of the nouns coordinated with a noun, up to and including the noun after ``and``.

        Later nouns belong to an apposition (``the director and producer of the play, a comedy``).
        """
        conjuncts: list[int] = []
        for index in self._sentence.find_dependents(noun, "conj"):
            if (
                conjuncts
                and self._sentence.get_dependent_lemmas(conjuncts[-1], "cc")
                and not self._sentence.get_dependent_lemmas(index, "cc")
            ):
                break
            if self._phrases.is_phrase_head(index):
                conjuncts.append(index)
        return conjuncts

    # Nouns.

    def _find_descriptions(
        self, subjects: list[int], predicates: Iterable[int], confidence: float
    ) -> Iterator[StatedRelation]:
        """Yield the relations that predicate nouns (``X is a Y of Z``) state about their subjects.

        They are classes, parts, members and owners. ``subjects`` and ``predicates`` are indexes of nouns, and
        ``confidence`` (0 to 1) is the confidence of the relations. The predicates are added to ``_described_nouns``, so
        that their "of" states no further relation.
        """
        for predicate in predicates:
            word = self._words[predicate]
            complements = self._phrases.find_complements(predicate, "of")
            is_quantifier = word.lemma == "one" or word.pos in ("DET", "PRON", "NUM")
            if complements and is_quantifier:  # "X is one of the Ys": the Ys describe X
                yield from self._find_descriptions(subjects, complements, confidence)
                continue
            self._described_nouns.add(predicate)
            if complements and word.lemma in KIND_NOUNS:
                yield from self._make_statements(subjects, complements, IS_A, confidence)
            elif complements and word.lemma in PART_NOUNS:
                yield from self._make_statements(subjects, complements, PART_OF, confidence)
            elif complements and word.lemma == "member":
                yield from self._make_statements(subjects, complements, BELONGS_TO, confidence)
            elif complements and word.lemma in COLLECTION_NOUNS:
                yield from self._make_statements(complements, subjects, PART_OF, confidence)
            elif word.is_nominal and not word.is_proper and not self._is_bare_singular(predicate):
                yield from self._find_class_relations(subjects, predicate, complements, confidence)

    def _find_class_relations(
        self, subjects: list[int], predicate: int, complements: list[int], confidence: float
    ) -> Iterator[StatedRelation]:
        """Yield the relations of ``X is a Y``, ``X is the Y of Z`` and ``X is Z's Y``: X is a Y, and X belongs to Z.

        ``predicate`` is the noun Y, ``complements`` are the nouns after its "of", and ``subjects`` are the nouns X.
        """
        possessors = self._sentence.find_dependents(predicate, "nmod:poss")
        owners = [*complements, *(index for index in possessors if self._words[index].is_proper)]
        is_definite = "the" in self._sentence.get_dependent_lemmas(predicate, "det")
        for subject in subjects:
            # "The X is the Y" about common nouns does not state a class.
            if is_definite and not owners and not self._words[subject].is_proper:
                continue
            yield from self._make_statements([subject], [predicate], IS_A, confidence)
            yield from self._make_statements([subject], owners, OF, confidence)

    def _is_bare_singular(self, predicate: int) -> bool:
        """True if the word at ``predicate`` is a singular noun without determiner, owner and number.

        It is then probably a mistagged adjective. A later noun of a list shares the determiner of the first.
        """
        word = self._words[predicate]
        return (
            word.tag == "NN"
            and word.label != "conj"
            and not self._sentence.has_dependent(predicate, "det", "nmod:poss", "nummod")
        )

    def _find_apposition_relations(self, noun: int, apposition: int) -> Iterator[StatedRelation]:
        """Yield the relations of ``X, a Y`` and ``Ys, X and Z``: X is a Y.

        ``noun`` is the first noun, and ``apposition`` the noun that describes it.
        """
        if not (self._words[noun].is_nominal and self._words[apposition].is_nominal):
            return
        if apposition in self._phrases.get_coordinated_nouns(noun):
            return
        appositions = self._phrases.find_list_items(apposition)
        is_proper = self._words[noun].is_proper
        lists_instances = self._words[noun].tag == "NNS" and len(appositions) > 1  # "Ys, X and Z"
        if self._words[apposition].is_proper or lists_instances:
            if not is_proper:
                classes = self._arguments.resolve_list_items(noun)
                yield from self._make_statements(appositions, classes, IS_A, _APPOSITION_CONFIDENCE)
        elif self._is_unseparated_apposition(noun, apposition):
            has_article = bool(self._sentence.get_dependent_lemmas(apposition, "det") & {"a", "an", "the"})
            if has_article or (is_proper and self._phrases.find_complements(apposition, "of")):
                yield from self._find_descriptions([noun], appositions, _APPOSITION_CONFIDENCE)

    def _is_unseparated_apposition(self, noun: int, apposition: int) -> bool:
        """True if no colon, semicolon, slash or quotation mark separates an apposition from its noun."""
        start, _ = self._phrases.find_phrase_bounds(apposition)
        words_between = {word.text for word in self._words[min(noun, apposition) + 1 : start]}
        return words_between.isdisjoint(_APPOSITION_SEPARATORS)

    def _introduces_example(self, index: int) -> bool:
        """True if a phrase of two words such as ``for example`` begins at ``index``, after a mark such as a comma."""
        if index == 0 or self._words[index - 1].text not in ",(;:":
            return False
        return tuple(word.text.lower() for word in self._words[index : index + 2]) in EXAMPLE_PHRASES

    def _find_preposition_examples(self, index: int) -> Iterator[StatedRelation]:
        """Yield the relations of ``Ys such as X``, ``such Ys as X`` and ``Ys including X``: each X is a Y.

        ``index`` is the word ``such``, ``as`` or ``including``. After a singular noun, ``including`` lists parts, as in
        ``the kit, including a lamp``.
        """
        words = self._words
        if words[index].text.lower() == "such":
            if index + 1 == len(words) or words[index + 1].text != "as":
                return
            first = self._phrases.find_next_phrase(index + 2)
            class_noun = self._phrases.find_previous_noun(index)
        elif words[index].text.lower() == "as":
            class_noun = self._phrases.find_previous_noun(index)
            if class_noun is None or not any(
                words[child].text.lower() == "such" for child in words[class_noun].children
            ):
                return
            first = self._phrases.find_next_phrase(index + 1)
        else:
            first = self._phrases.find_next_phrase(index + 1)
            class_noun = self._phrases.find_previous_noun(index)
        if first is None or class_noun is None:  # no example, or no noun that it is an example of
            return
        is_plural = words[class_noun].tag in ("NNS", "NNPS")
        if not is_plural and self._phrases.get_prepositions(class_noun) - {"of"}:
            return  # "names in the industry, including Ada": Ada is not part of the industry
        kind = PART_OF if words[index].text.lower() == "including" and not is_plural else IS_A
        yield from self._make_statements(
            self._find_listed_nouns(first), self._arguments.resolve_partitive(class_noun), kind, _LIST_CONFIDENCE
        )

    def _find_adverb_examples(self, index: int) -> Iterator[StatedRelation]:
        """Yield the relations of ``Ys, especially X`` and ``Ys, for example X``: X is a Y.

        ``index`` is the index of the word ``especially``, or of ``for`` in ``for example``.
        """
        if index == 0 or self._words[index - 1].text not in (",", "(", ";", ":", "–", "—"):
            return
        num_words = 1 if self._words[index].lemma in EXAMPLE_ADVERBS else 2  # otherwise, "for example" or the like
        first = index + num_words
        if first < len(self._words) and self._words[first].text in (",", ":"):
            first += 1
        example, class_noun = self._phrases.find_next_phrase(first), self._phrases.find_previous_noun(index)
        if example is not None and class_noun is not None and self._words[class_noun].tag == "NNS":
            yield from self._make_statements(self._find_listed_nouns(example), [class_noun], IS_A, _LIST_CONFIDENCE)

    def _find_listed_nouns(self, first: int) -> list[int]:
        """Return the indexes of the nouns of a list from ``first`` on: "Y" and "Z" of "X, Y and Z" if ``first`` is Y.

        The order of the words shows most of them. The parse can show others, since it attaches every noun of a list to
        the first noun. An index can occur twice.
        """
        word = self._words[first]
        nouns = self._phrases.find_list_items(first)  # includes ``first``
        if word.label == "conj" and word.head >= 0:
            nouns += [noun for noun in self._phrases.get_coordinated_nouns(word.head) if noun > first]
        return nouns

    def _find_noun_relations(self, index: int) -> Iterator[StatedRelation]:
        """Yield the relations that the phrase of the noun at ``index`` states without a verb.

        The forms are ``X, Y and other Zs``, ``the Z X``, ``X of Y`` and ``Y's X``. The last two are skipped for a name,
        for a verb tagged as a noun, and for a noun in ``_described_nouns``, whose "of" states its own relation.
        """
        word = self._words[index]
        is_conjunct = word.label == "conj" and word.head >= 0
        if is_conjunct and "other" in self._sentence.get_dependent_lemmas(index, "amod", "det"):
            preceding_nouns = [noun for noun in self._phrases.get_coordinated_nouns(word.head) if noun < index]
            _, last = self._phrases.find_phrase_bounds(index)
            precedes_verb = last + 1 < len(self._words) and self._words[last + 1].tag in FINITE_VERB_TAGS
            is_subject = self._words[word.head].label.startswith("nsubj")
            if is_subject or not precedes_verb:  # otherwise, another clause: "and other teams do"
                yield from self._make_statements(preceding_nouns, [index], IS_A, _LIST_CONFIDENCE)
        descriptor = self._phrases.find_descriptor(index)
        if descriptor is not None:
            yield from self._make_statements([index], [descriptor], IS_A, _APPOSITION_CONFIDENCE)
        next_tag = self._words[index + 1].tag if index + 1 < len(self._words) else ""
        # An article or pronoun directly after a noun means that the noun is a mistagged verb.
        if word.is_proper or word.lemma in UNAMBIGUOUS_VERBS or next_tag in ("DT", "PRP", "PRP$"):
            return
        if index not in self._described_nouns:
            yield from self._find_possession_relations(index)

    def _find_possession_relations(self, index: int) -> Iterator[StatedRelation]:
        """Yield the relations of ``X of Y``, ``Y's X`` and ``Y, whose X``: X belongs to Y. ``index`` is the noun X.

        A named class (``the city of X``) yields that X is an instance of the class. A noun for a quantity, a kind or an
        act (``the removal of Y``) yields nothing.
        """
        word = self._words[index]
        for owner in self._sentence.find_dependents(index, "nmod:poss"):
            is_relative = self._words[owner].lemma == "whose"
            clause = self._find_relative_clause(index) if is_relative else -1
            # The owner in "Y, whose X" is the noun that the relative clause depends on.
            owners = [self._words[clause].head] if clause >= 0 else self._phrases.get_coordinated_nouns(owner)
            yield from self._make_statements([index], owners, OF, _POSSESSION_CONFIDENCE)
        complements = self._phrases.find_complements(index, "of")
        if word.lemma in NAMED_CLASSES:
            proper_nouns = [noun for noun in complements if self._words[noun].is_proper]
            if proper_nouns and word.tag == "NN":
                yield from self._make_statements(proper_nouns, [index], IS_A, _APPOSITION_CONFIDENCE)
                return
        if word.lemma in UNOWNED_NOUNS or (word.lemma.endswith(ACT_ENDINGS) and word.lemma not in THING_NOUNS):
            return
        yield from self._make_statements([index], complements[:1], OF, _POSSESSION_CONFIDENCE)

    def _find_relative_clause(self, index: int) -> int:
        """Return the index of the verb of the innermost relative clause that contains the word at ``index``, or -1."""
        for _ in range(len(self._words)):  # a parse can have a cycle
            if index < 0 or self._words[index].label == "acl:relcl":
                break
            index = self._words[index].head
        return index if index >= 0 and self._words[index].head >= 0 else -1

    def _make_statements(
        self, children: Iterable[int], parents: Iterable[int], kind: str, confidence: float
    ) -> Iterator[StatedRelation]:
        """Yield a statement for each pair of a child and a parent, given by the indexes of nouns, if both have names.

        ``kind`` is the relation, such as ``IS_A``, and ``confidence`` is from 0 to 1. The span of a statement is from
        the first of its nouns to the last. It is informative if it also makes sense outside the sentence.
        """
        names_of_parents = ((index, self._phrases.get_name(index)) for index in parents)
        parent_names = [(index, name) for index, name in names_of_parents if name]
        if not parent_names:  # as for most nouns; finding the name of a child is slow
            return
        for index in children:
            child = self._phrases.get_name(index)
            if child:
                for parent_index, parent in parent_names:
                    first, last = sorted((index, parent_index))
                    span = self._words[first].start, self._words[last].end
                    is_informative = self._filter.is_informative(kind, index, parent_index, confidence)
                    yield StatedRelation(child, parent, kind, round(confidence, 3), *span, is_informative)
