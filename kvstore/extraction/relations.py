"""Relations that prose states (CFT-RAG §2.2, Bridge-RAG §3.2): which of two names stands under the other.

In: a parsed sentence. Out: :class:`StatedRelation` objects, always from child to parent: belonging, parts, kinds,
dependence, place, and ``X of Y``. A noun before a noun states nothing that its words do not say (*disk space*). Rules
over the heads and labels of Universal Dependencies; what is denied, asked, supposed or doubted states nothing.
Conjuncts stand under one parent each.

The confidence of a statement says how seldom its shape means something else: what a verb says outright 0.9, a list of
examples 0.85, a predicate 0.85, apposition 0.75, ``X of Y`` 0.6; what only can or may be so
counts for four fifths of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ..text.names import singular
from ..text.normalize import to_entity_key
from .factuality import Factuality
from .noun_phrases import FINITE, NounPhrases
from .relation_words import (
    ACT_ENDINGS,
    BELONGS_TO,
    COLLECTIONS,
    DEPENDS_ON,
    EXAMPLE_PHRASES,
    EXAMPLES,
    FRAMES,
    IS_A,
    KINDS,
    LEADING,
    NAMED_CLASSES,
    OF,
    PART_OF,
    PARTS,
    THINGS,
    UNAMBIGUOUS_VERBS,
    UNOWNED_NOUNS,
)
from .syntax import Sentence
from .telling import Telling

_OUTRIGHT, _LISTED, _PREDICATE_CONFIDENCE, _APPOSITION_CONFIDENCE, _POSSESSION_CONFIDENCE = 0.9, 0.85, 0.85, 0.75, 0.6


@dataclass(frozen=True, slots=True)
class StatedRelation:
    """That ``child`` stands under ``parent``; ``start`` to ``end`` are the characters that the two names lie in.

    ``telling`` where it says something outside its sentence too (:mod:`~kvstore.extraction.telling`).
    """

    child: str
    parent: str
    kind: str
    confidence: float
    start: int
    end: int
    telling: bool = True

    def shifted(self, by: int) -> StatedRelation:
        """The same statement in a text that begins ``by`` characters earlier."""
        return replace(self, start=self.start + by, end=self.end + by) if by else self


def statements(sentence: Sentence) -> list[StatedRelation]:
    """The relations that a sentence states, each pair of names once a kind, the most confident."""
    found = _SentenceRelations(sentence).statements()
    best_statements: dict[tuple[str, str, str], StatedRelation] = {}
    for statement in found:
        key = _key(statement.child), _key(statement.parent), statement.kind
        if key[0] != key[1] and (key not in best_statements or best_statements[key].confidence < statement.confidence):
            best_statements[key] = statement
    return list(best_statements.values())


def _key(name: str) -> str:
    """The normal form of a name in the singular."""
    return to_entity_key(singular(name) or name)


class _SentenceRelations:
    """One reading of a sentence, rule by rule."""

    def __init__(self, sentence: Sentence) -> None:
        self._sentence = sentence
        self._words = sentence.words
        self._phrases = NounPhrases(sentence)
        self._factuality = Factuality(sentence)
        self._filter = Telling(sentence, self._phrases)
        # A sentence without a verb in it is a title, or a verb in it was taken for a noun.
        has_verb = any(word.tag in FINITE or word.pos in ("VERB", "AUX") for word in self._words)
        self._is_misread = not has_verb and len(self._words) > 4 and self._words[-1].text == "."
        # Nouns whose "of" was already read: "the capital of France" said of Paris.
        self._described: set[int] = set()
        # The predicate whose subject is looked for: a parse may lead from there to another, or back.
        self._followed_predicate: int | None = None

    def statements(self) -> Iterator[StatedRelation]:
        if self._words[-1].text == "?":
            return
        for index, word in enumerate(self._words):
            if word.text.lower() == "including":
                yield from self._find_preposition_examples(index)
            elif self._frame(index):
                yield from self._verb(index)
            elif word.lemma in ("become", "remain", "form"):
                yield from self._find_becoming_relations(index)
            elif word.lemma == "be" and word.label == "cop" and word.head >= 0:
                yield from self._predicate(word.head)
        for index, word in enumerate(self._words):
            if word.label == "appos" and word.head >= 0:
                yield from self._find_apposition_relations(word.head, index)
            if word.text.lower() in ("such", "as"):
                yield from self._find_preposition_examples(index)
            elif word.lemma in EXAMPLES or self._is_example_opening(index):
                yield from self._find_adverb_examples(index)
        for index, word in enumerate(self._words):
            if word.nominal and not self._is_misread:
                yield from self._find_noun_relations(index)

    # Verbs.

    def _frame(self, verb: int) -> str:
        """The name under which :data:`FRAMES` knows a verb, or an empty string."""
        lemma = self._words[verb].lemma
        if lemma == "make":
            return "make up" if verb + 1 < len(self._words) and self._words[verb + 1].text == "up" else ""
        return lemma if lemma in FRAMES else ""

    def _verb(self, verb: int) -> Iterator[StatedRelation]:
        weight = self._factuality.weight(verb)
        if not weight:
            return
        word = self._words[verb]
        is_passive = self._is_passive(verb)
        subjects = list(self._find_subjects(verb))
        for frame in FRAMES[self._frame(verb)]:
            if frame.passive is not None and frame.passive != is_passive:
                continue
            complements = self._find_obliques(verb, frame.prepositions) if frame.prepositions else self._objects(verb)
            for subject in subjects:
                kind = frame.kind
                if word.lemma == "include" and not frame.prepositions and self._is_generic_plural(subject):
                    kind = IS_A
                lower, upper = ([subject], complements) if frame.upward else (complements, [subject])
                yield from self._make_statements(lower, upper, kind, _OUTRIGHT * weight)

    def _is_generic_plural(self, noun: int) -> bool:
        """Whether a plural stands for all of a class: ``formats``, but not ``the collections``."""
        return (
            self._words[noun].tag == "NNS"
            and not self._sentence.lemmas(noun, "det", "nmod:poss")
            and ("most" not in self._sentence.lemmas(noun, "amod"))
        )

    def _find_becoming_relations(self, verb: int) -> Iterator[StatedRelation]:
        """``X became a Y``, ``X forms part of Y``."""
        weight = self._factuality.weight(verb)
        if not weight or self._is_passive(verb):
            return
        predicates = [
            member
            for child in self._sentence.having(verb, "xcomp", "obj")
            if self._words[child].nominal
            for member in self._phrases.members(child)
        ]
        if self._words[verb].lemma == "form":
            predicates = [index for index in predicates if self._words[index].lemma == "part"]
        yield from self._describe(list(self._find_subjects(verb)), predicates, _PREDICATE_CONFIDENCE * weight)

    def _predicate(self, predicate: int) -> Iterator[StatedRelation]:
        """``X is a Y``."""
        weight = self._factuality.weight(predicate)
        subjects = list(self._find_subjects(predicate))
        if not weight or not subjects:
            return
        word = self._words[predicate]
        if word.lemma in ("dependent", "reliant"):
            complements = self._find_obliques(predicate, ("on", "upon"))
            yield from self._make_statements(subjects, complements, DEPENDS_ON, _OUTRIGHT * weight)
        elif not self._sentence.lemmas(predicate, "case"):
            yield from self._describe(
                subjects, [predicate, *self._find_conjuncts(predicate)], _PREDICATE_CONFIDENCE * weight
            )

    def _find_conjuncts(self, noun: int) -> list[int]:
        """The nouns coordinated with a noun; what follows the one that an ``and`` stands before is another's
        apposition (``the director and producer of the play, a comedy``)."""
        conjuncts: list[int] = []
        for index in self._sentence.having(noun, "conj"):
            if conjuncts and self._sentence.lemmas(conjuncts[-1], "cc") and not self._sentence.lemmas(index, "cc"):
                break
            conjuncts += [index] if self._phrases.is_phrase(index) else []
        return conjuncts

    def _find_subjects(self, verb: int) -> Iterator[int]:
        """The nouns a verb or predicate is about, relative pronouns and missing subjects resolved."""
        word = self._words[verb]
        own = [index for index in self._sentence.having(verb, "nsubj") if index != verb]
        for index in own:
            if not self._is_relative(index):
                yield from self._led_to(index) if self._is_singular(verb, index) else self._resolve_noun(index)
            else:
                yield from self._find_pronoun_antecedents(index, verb)
        if own or word.head < 0:
            return
        pronoun = next((i for i in self._sentence.having(verb, "obj") if i < verb and self._is_relative(i)), None)
        if pronoun is not None and all(other.tag.startswith("RB") for other in self._words[pronoun + 1 : verb]):
            # "which belonged": the pronoun right before a verb without another subject is its subject.
            yield from self._find_pronoun_antecedents(pronoun, verb)
            return
        if self._sentence.lemmas(verb, "mark"):
            return  # a step to becoming a member
        if word.label.startswith("acl") and word.tag in ("VBN", "VBG"):
            yield from self._find_antecedents(word.head)
        elif word.label == "conj" or (word.label == "advcl" and word.tag in ("VBN", "VBG")):
            governor = self._words[word.head]
            yield from (
                self._find_antecedents(word.head)
                if governor.nominal and word.label == "advcl"
                else self._find_subjects(word.head)
            )

    def _is_singular(self, verb: int, subject: int) -> bool:
        """Whether a verb or predicate is in the singular: what follows its subject is no list of subjects then, but
        belongs to its name (``Edward, Duke of York and Albany, was``)."""
        tags = {self._words[verb].tag, *(self._words[index].tag for index in self._sentence.having(verb, "cop", "aux"))}
        is_past = any(self._words[index].text == "was" for index in self._sentence.having(verb, "cop", "aux"))
        phrases = self._phrases.listed(subject)
        return ("VBZ" in tags or is_past) and all("or" not in self._sentence.lemmas(index, "cc") for index in phrases)

    def _find_pronoun_antecedents(self, pronoun: int, verb: int) -> Iterator[int]:
        """What a relative pronoun stands for: after a comma the noun before it, else what its clause hangs on."""
        word = self._words[verb]
        previous_noun = self._find_previous_noun(pronoun)
        is_after_comma = pronoun > 0 and self._words[pronoun - 1].text == ","
        if word.label == "acl:relcl" and word.head >= 0 and (previous_noun is None or not is_after_comma):
            yield from self._find_antecedents(word.head)
        elif previous_noun is not None:
            yield from self._find_antecedents(previous_noun)

    def _find_antecedents(self, noun: int) -> Iterator[int]:
        if self._followed_predicate is None and any(True for _ in self._sentence.having(noun, "cop")):
            # What is said of a predicate is said of its subject: "Bergen is a town located in Norway".
            self._followed_predicate = noun
            subjects = list(self._find_subjects(noun))
            self._followed_predicate = None
            yield from subjects
        elif self._words[noun].nominal:
            yield from self._resolve_noun(noun)

    def _resolve_noun(self, noun: int) -> Iterator[int]:
        """A noun and its conjuncts; where they only lead to the noun after their ``of``, that one."""
        for member in self._phrases.listed(noun):
            yield from self._led_to(member)

    def _led_to(self, noun: int) -> list[int]:
        """A noun, or what stands after its ``of`` where it only leads to that."""
        behind = self._phrases.complements(noun, "of")
        is_leading = self._words[noun].lemma in LEADING or not self._words[noun].nominal
        return behind if behind and is_leading else [noun]

    def _objects(self, verb: int) -> list[int]:
        return [index for child in self._sentence.having(verb, "obj") for index in self._resolve_noun(child)]

    def _find_obliques(self, verb: int, prepositions: Iterable[str]) -> list[int]:
        nouns: list[int] = []
        for child in self._sentence.having(verb, "obl", "nmod"):
            if not self._phrases.prepositions(child) & set(prepositions):
                continue
            if not self._is_relative(child):
                nouns += self._resolve_noun(child)
            elif self._words[verb].label == "acl:relcl" and self._words[verb].head >= 0:
                nouns += self._find_antecedents(self._words[verb].head)
        return nouns

    def _is_relative(self, place: int) -> bool:
        return self._words[place].tag in ("WDT", "WP") or self._words[place].lemma in ("which", "that", "who", "whom")

    def _is_passive(self, verb: int) -> bool:
        word = self._words[verb]
        if any(True for _ in self._sentence.having(verb, "aux:pass", "nsubj:pass")):
            return True
        is_bare = not self._sentence.lemmas(verb, "aux", "nsubj")
        return (
            word.tag == "VBN" and is_bare and (word.label.startswith("acl") or word.label in ("advcl", "amod", "conj"))
        )

    # Nouns.

    def _describe(self, subjects: list[int], predicates: Iterable[int], confidence: float) -> Iterator[StatedRelation]:
        """What nouns said of others state: kinds, parts, members, and what they are the Y of."""
        for predicate in predicates:
            word = self._words[predicate]
            behind = self._phrases.complements(predicate, "of")
            if behind and (word.lemma == "one" or word.pos in ("DET", "PRON", "NUM")):
                yield from self._describe(subjects, behind, confidence)
                continue
            self._described.add(predicate)
            if behind and word.lemma in KINDS:
                yield from self._make_statements(subjects, behind, IS_A, confidence)
            elif behind and word.lemma in PARTS:
                yield from self._make_statements(subjects, behind, PART_OF, confidence)
            elif behind and word.lemma == "member":
                yield from self._make_statements(subjects, behind, BELONGS_TO, confidence)
            elif behind and word.lemma in COLLECTIONS:
                yield from self._make_statements(behind, subjects, PART_OF, confidence)
            elif word.nominal and not word.proper and not self._is_bare(predicate):
                possessors = self._sentence.having(predicate, "nmod:poss")
                owners = [*behind, *(index for index in possessors if self._words[index].proper)]
                is_definite = "the" in self._sentence.lemmas(predicate, "det")
                for subject in subjects:
                    if is_definite and not owners and not self._words[subject].proper:
                        continue
                    yield from self._make_statements([subject], [predicate], IS_A, confidence)
                    yield from self._make_statements([subject], owners, OF, confidence)

    def _is_bare(self, predicate: int) -> bool:
        """Whether a singular noun has no article before it: an adjective or a participle taken for a noun."""
        word = self._words[predicate]
        return (
            word.tag == "NN"
            and word.label != "conj"
            and not any(True for _ in self._sentence.having(predicate, "det", "nmod:poss", "nummod"))
        )

    def _find_apposition_relations(self, noun: int, apposed: int) -> Iterator[StatedRelation]:
        """``X, a Y`` and ``Ys, X and Z``."""
        if not (self._words[noun].nominal and self._words[apposed].nominal):
            return
        if apposed in self._phrases.members(noun):
            return
        members = self._phrases.listed(apposed)
        upper = list(self._resolve_noun(noun))
        is_proper = self._words[noun].proper
        if self._words[apposed].proper or (self._words[noun].tag == "NNS" and len(members) > 1):
            if not is_proper:
                yield from self._make_statements(members, upper, IS_A, _APPOSITION_CONFIDENCE)
        elif self._is_set_off(noun, apposed) and (
            self._sentence.lemmas(apposed, "det") & {"a", "an", "the"}
            or (is_proper and self._phrases.complements(apposed, "of"))
        ):
            yield from self._describe([noun], members, _APPOSITION_CONFIDENCE)

    def _is_set_off(self, noun: int, apposed: int) -> bool:
        """Whether an apposition stands behind a comma, a bracket or a dash, or right behind its noun: what follows a
        colon explains, or lists something else."""
        between = {word.text for word in self._words[min(noun, apposed) + 1 : self._phrases.extent(apposed)[0]]}
        return not between & {":", ";", "/", '"', "”"}

    def _is_example_opening(self, place: int) -> bool:
        if place == 0 or self._words[place - 1].text not in ",(;:":
            return False
        return tuple(word.text.lower() for word in self._words[place : place + 2]) in EXAMPLE_PHRASES

    def _find_preposition_examples(self, place: int) -> Iterator[StatedRelation]:
        """``Ys such as X``, ``such Ys as X``, ``Ys including X``."""
        words = self._words
        if words[place].text.lower() == "such":
            if place + 1 == len(words) or words[place + 1].text != "as":
                return
            first = self._find_next_phrase(place + 2)
            upper = self._find_previous_noun(place)
        elif words[place].text.lower() == "as":
            upper = self._find_previous_noun(place)
            if upper is None or not any(words[child].text.lower() == "such" for child in words[upper].children):
                return
            first = self._find_next_phrase(place + 1)
        else:
            first = self._find_next_phrase(place + 1)
            upper = self._find_previous_noun(place)
        if first is None or upper is None:
            return
        is_plural = words[upper].tag in ("NNS", "NNPS")
        if not is_plural and self._phrases.prepositions(upper) - {"of"}:
            return  # "names in the industry, including Ada": she is no part of the industry
        kind = PART_OF if words[place].text.lower() == "including" and not is_plural else IS_A
        yield from self._make_statements(self._find_listed_nouns(first), self._led_to(upper), kind, _LISTED)

    def _find_adverb_examples(self, place: int) -> Iterator[StatedRelation]:
        """``Ys, especially X``, ``Ys, for example X``."""
        if place == 0 or self._words[place - 1].text not in (",", "(", ";", ":", "–", "—"):
            return
        length = 1 if self._words[place].lemma in EXAMPLES else 2
        first = place + length
        if first < len(self._words) and self._words[first].text in (",", ":"):
            first += 1
        lower, upper = self._find_next_phrase(first), self._find_previous_noun(place)
        if lower is not None and upper is not None and self._words[upper].tag == "NNS":
            yield from self._make_statements(self._find_listed_nouns(lower), [upper], IS_A, _LISTED)

    def _find_next_phrase(self, place: int) -> int | None:
        """The head of the noun phrase that begins at ``place``."""
        for index in range(place, min(place + 8, len(self._words))):
            word = self._words[index]
            if word.nominal and not (
                index < word.head and word.label in ("compound", "nmod:desc", "nmod:poss", "amod")
            ):
                return index
            if word.pos in ("VERB", "AUX", "ADP", "SCONJ") or word.tag == "WRB" or word.text in ",;:.":
                return None
        return None

    def _find_previous_noun(self, place: int) -> int | None:
        """The noun right before ``place``, a comma or bracket aside."""
        index = place - 1
        while index >= 0 and self._words[index].text in (",", "(", ";", ":", "–", "—"):
            index -= 1
        if index < 0 or not self._words[index].nominal:
            return None
        while self._words[index].label == "flat" and 0 <= self._words[index].head < index:
            index = self._words[index].head
        return index

    def _find_listed_nouns(self, first: int) -> list[int]:
        """A noun and the nouns coordinated with it that follow it."""
        word = self._words[first]
        found = self._phrases.listed(first)
        if word.label == "conj" and word.head >= 0:
            found += [other for other in self._phrases.members(word.head) if other > first]
        return found

    def _find_noun_relations(self, place: int) -> Iterator[StatedRelation]:
        """What a noun phrase says by itself."""
        word = self._words[place]
        if word.label == "conj" and word.head >= 0 and "other" in self._sentence.lemmas(place, "amod", "det"):
            lower = [member for member in self._phrases.members(word.head) if member < place]
            next_index = self._phrases.extent(place)[1] + 1
            precedes_verb = next_index < len(self._words) and self._words[next_index].tag in FINITE
            if not precedes_verb or self._words[word.head].label.startswith(
                "nsubj"
            ):  # "and other teams do": another clause
                yield from self._make_statements(lower, [place], IS_A, _LISTED)
        descriptor = self._phrases.find_descriptor(place)
        if descriptor is not None:
            yield from self._make_statements([place], [descriptor], IS_A, _APPOSITION_CONFIDENCE)
        next_tag = self._words[place + 1].tag if place + 1 < len(self._words) else ""
        # An article or a pronoun follows at once after verbs taken for nouns.
        if word.proper or word.lemma in UNAMBIGUOUS_VERBS or next_tag in ("DT", "PRP", "PRP$"):
            return
        if place not in self._described:
            yield from self._find_possession_relations(place)

    def _find_possession_relations(self, place: int) -> Iterator[StatedRelation]:
        """``X of Y``, ``Y's X``, ``Y, whose X``."""
        word = self._words[place]
        for owner in self._sentence.having(place, "nmod:poss"):
            is_relative = self._words[owner].lemma == "whose"
            clause = self._find_relative_clause(place) if is_relative else -1
            owners = [self._words[clause].head] if clause >= 0 else self._phrases.members(owner)
            yield from self._make_statements([place], owners, OF, _POSSESSION_CONFIDENCE)
        behind = self._phrases.complements(place, "of")
        if word.lemma in NAMED_CLASSES:
            proper_nouns = [noun for noun in behind if self._words[noun].proper]
            if proper_nouns and word.tag == "NN":
                yield from self._make_statements(proper_nouns, [place], IS_A, _APPOSITION_CONFIDENCE)
                return
        if word.lemma in UNOWNED_NOUNS or (word.lemma.endswith(ACT_ENDINGS) and word.lemma not in THINGS):
            return
        yield from self._make_statements([place], behind[:1], OF, _POSSESSION_CONFIDENCE)

    def _find_relative_clause(self, place: int) -> int:
        """The relative clause that a word stands in, or -1."""
        for _ in range(len(self._words)):
            if place < 0 or self._words[place].label == "acl:relcl":
                break
            place = self._words[place].head
        return place if place >= 0 and self._words[place].head >= 0 else -1

    def _make_statements(
        self, lower: Iterable[int], upper: Iterable[int], kind: str, confidence: float
    ) -> Iterator[StatedRelation]:
        parents = [(index, self._phrases.name(index)) for index in upper]
        for index in lower:
            child = self._phrases.name(index)
            for parent_index, parent in parents:
                if child and parent:
                    yield self._statement(child, parent, kind, confidence, index, parent_index)

    def _statement(
        self, child: str, parent: str, kind: str, confidence: float, lower: int, upper: int
    ) -> StatedRelation:
        first, last = min(lower, upper), max(lower, upper)
        span = self._words[first].start, self._words[last].end
        is_informative = self._filter.tells(kind, lower, upper, confidence)
        return StatedRelation(child, parent, kind, round(confidence, 3), *span, is_informative)
