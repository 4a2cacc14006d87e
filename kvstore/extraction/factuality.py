"""Factuality of clauses: a clause that is denied, asked, supposed or doubted states nothing.

In: a parsed sentence and the index of a clause's head. Out: a weight: 1 if the clause is stated as a fact, less if it
is only possible, and 0 if it is not stated.
"""

from __future__ import annotations

from .syntax import Sentence

#: The weight of a clause with an auxiliary such as *can*, *may* or *must*.
POSSIBLE_WEIGHT = 0.8

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


class Factuality:
    """The factuality of the clauses of one sentence."""

    def __init__(self, sentence: Sentence) -> None:
        self._sentence = sentence
        self._words = sentence.words

    def compute_weight(self, head: int) -> float:
        """Return the weight of the clause whose head is this verb or predicate: 1, ``POSSIBLE_WEIGHT`` or 0."""
        if self._is_negated(head):
            return 0.0
        words = self._words
        auxiliaries = self._get_auxiliaries(head)
        index = head
        for _ in range(len(words)):
            label = words[index].label.partition(":")[0]
            if self._sentence.get_dependent_lemmas(index, "mark", "advmod") & _CONDITIONAL_WORDS:
                return 0.0
            governor = words[index].head
            if label not in _CLAUSE_LABELS or governor < 0:
                break
            if label in ("ccomp", "xcomp", "csubj") and (
                words[governor].lemma in _NONFACTUAL_VERBS or self._is_negated(governor)
            ):
                return 0.0
            if (
                label == "conj"
                and index == head
                and not any(True for _ in self._sentence.find_dependents(index, "nsubj"))
            ):
                # "may contain A and include B": the auxiliary of the first verb applies to the second too.
                auxiliaries |= self._get_auxiliaries(governor)
            index = governor
        if auxiliaries & _HYPOTHETICAL_AUXILIARIES:
            return 0.0
        return POSSIBLE_WEIGHT if auxiliaries & _POSSIBLE_AUXILIARIES else 1.0

    def _get_auxiliaries(self, index: int) -> set[str]:
        """Return the auxiliaries of a verb in lower case."""
        return {self._words[child].text.lower() for child in self._sentence.find_dependents(index, "aux")}

    def _is_negated(self, index: int) -> bool:
        """True if a word, or one of its adverbs, is negated."""
        for child in self._sentence.find_dependents(index, "advmod", "det", "cc"):
            word = self._words[child]
            if word.text.lower() in _NEGATIONS or word.lemma in _NEGATIONS:
                return True
            if word.label == "advmod" and self._sentence.get_dependent_lemmas(child, "advmod", "det") & _NEGATIONS:
                return True
        return False
