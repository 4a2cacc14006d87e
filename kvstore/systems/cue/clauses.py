"""Clauses of a sentence that make sense on their own, found in its dependency parse. A word is given by its index in
the sentence. Its *head* is the word it depends on, and its *subtree* the word itself and all words that depend on it.

In: a parsed sentence. Out: its clauses as character ranges, each with its subject if that lies outside the clause. A
coordinate clause ("was born in Kelloe *and died in London*") ends the one before it. If it has no subject, it takes the
subject of the clause before. A relative clause whose subject is the relative pronoun takes the noun phrase that it
modifies as subject; the sentence around it is not split. "London, *which he loved*" has a different subject and is not
extracted. (Del Corro, Gemulla 2013, "ClausIE: clause-based open information extraction", section 3, has a fuller set of
clauses.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...extraction.syntax import Sentence, Word

#: The minimum number of words of a clause without its subject, and the maximum of a subject that is repeated.
_MIN_WORDS, _MAX_SUBJECT_WORDS = 3, 12
#: The words and punctuation that join a clause to the one before it.
_CONNECTIVES = frozenset((",", ";", ":", "-", "–", "—", "and", "or", "but", "yet", "so"))


class Clause(NamedTuple):
    """A clause: a range of characters in its text, and the range of its ``subject`` (None: within the clause)."""

    start: int
    end: int
    subject: tuple[int, int] | None = None


def find_clauses(sentence: Sentence) -> list[Clause]:
    """Return the coordinate clauses of a parsed sentence in text order, then its relative clauses.

    "She was born in Kelloe and died in London" has two coordinate clauses; the second one gets the subject of the
    first. A sentence without coordinate clauses is itself the first clause. If a coordinate clause would be too short,
    only the whole sentence is returned.
    """
    words = sentence.words
    subtrees = _Subtrees(sentence)
    clause_starts = _find_clause_starts(sentence, subtrees)
    # Indexes of words: each clause ends before the first word of the next one.
    stops = [*(start.word for start in clause_starts[1:]), len(words)]
    clauses: list[Clause] = []
    for (first, subject), stop in zip(clause_starts, stops, strict=True):
        # Connectives between two clauses belong to neither.
        while clauses and first < stop and _is_connective(words[first]):
            first += 1
        last = stop - 1
        while stop < len(words) and last > first and _is_connective(words[last]):
            last -= 1
        if stop - first < _MIN_WORDS:
            return [Clause(words[0].start, words[-1].end)]
        clauses.append(Clause(words[first].start, words[last].end, subject))
    return [*clauses, *_iter_relative_clauses(sentence, subtrees)]


def _is_connective(word: Word) -> bool:
    """True if a word or punctuation mark, such as "and" or a comma, can join a clause to the one before it."""
    return word.text.lower() in _CONNECTIVES


class _ClauseStart(NamedTuple):
    """The index of the first word of a clause, and the character range of its subject if an earlier clause has it."""

    word: int
    subject: tuple[int, int] | None


def _find_clause_starts(sentence: Sentence, subtrees: _Subtrees) -> list[_ClauseStart]:
    """Return the starts of the coordinate clauses of a sentence, in text order; the first clause starts at word 0.

    Another clause starts with the subtree of a finite verb that is coordinated with an earlier predicate. A verb
    without a subject of its own gets the subject of the predicate; if the predicate has no subject or a long one, no
    clause starts.
    """
    clause_starts = [_ClauseStart(0, subject=None)]
    for index, word in enumerate(sentence.words):
        is_verb = word.pos in ("VERB", "AUX")
        if not is_verb or not _is_coordinate(sentence, index) or not _is_finite(sentence, index):
            continue
        first, last = subtrees.get_span(index)
        follows_predicate = word.head < first and first > clause_starts[-1].word
        if not follows_predicate or not subtrees.is_contiguous(index) or not _is_clause_end(sentence, last):
            continue
        has_subject = sentence.has_dependent(index, "nsubj", "expl")
        subject = None if has_subject else _find_subject(sentence, subtrees, word.head)
        if has_subject or subject is not None:
            clause_starts.append(_ClauseStart(first, subject))
    return clause_starts


def _iter_relative_clauses(sentence: Sentence, subtrees: _Subtrees) -> Iterator[Clause]:
    """Yield the relative clauses that begin with their subject, a relative pronoun, without the pronoun.

    The subject of each is the noun phrase that the pronoun refers to. Clauses that are too short, or have a long noun
    phrase, are omitted. ``subtrees`` are the dependency subtrees of the words.
    """
    words = sentence.words
    for index, word in enumerate(words):
        if word.label != "acl:relcl" or word.head < 0 or not subtrees.is_contiguous(index):
            continue
        first, last = subtrees.get_span(index)
        # The noun phrase is before the clause; a comma between them belongs to neither.
        noun_first, _ = subtrees.get_span(word.head)
        noun_last = first - 1
        while first < index and words[first].text == ",":
            first += 1
        while noun_last > noun_first and words[noun_last].text == ",":
            noun_last -= 1
        subject = next(sentence.find_dependents(index, "nsubj"), None)
        if subject != first or words[first].text.lower() not in ("who", "which", "that"):
            continue
        has_valid_length = last - first >= _MIN_WORDS and noun_last - noun_first < _MAX_SUBJECT_WORDS
        if has_valid_length and word.head <= noun_last:
            yield Clause(
                start=words[first + 1].start,  # after the pronoun
                end=words[last].end,
                subject=(words[noun_first].start, words[noun_last].end),
            )


def _is_coordinate(sentence: Sentence, index: int) -> bool:
    """True if the predicate at ``index`` is coordinated with another one, or juxtaposed without a conjunction.

    The labels follow Universal Dependencies: the parser labels a juxtaposed clause ``advcl``, as an adverbial clause,
    but it has no subordinating word (``mark`` or ``advmod``).
    """
    label = sentence.words[index].label
    return label == "conj" or (label == "advcl" and not sentence.has_dependent(index, "mark", "advmod"))


def _is_finite(sentence: Sentence, index: int) -> bool:
    """True if the verb at ``index`` or one of its auxiliaries has a tense, by its Penn Treebank tag."""
    words = sentence.words
    tags = {words[index].tag, *(words[child].tag for child in sentence.find_dependents(index, "aux", "cop"))}
    return not tags.isdisjoint(("VBD", "VBZ", "VBP", "MD"))  # past tense, present tense, modal verb


def _is_clause_end(sentence: Sentence, index: int) -> bool:
    """True if a clause can end with the word at ``index``: a connective, only punctuation, or nothing follows it."""
    next_words = sentence.words[index + 1 :]
    if not next_words or _is_connective(next_words[0]):
        return True
    return not any(word.text[0].isalnum() for word in next_words)


def _find_subject(sentence: Sentence, subtrees: _Subtrees, index: int) -> tuple[int, int] | None:
    """Return the character range of the subject (a subtree of words) of the predicate at word ``index``.

    A predicate without a subject shares the subject of the predicate with which it is coordinated. Returns None if
    there is no subject, or if it is too long to be repeated.
    """
    words = sentence.words
    while index >= 0:  # the head of the root is -1
        subject = next(sentence.find_dependents(index, "nsubj"), None)
        if subject is not None:
            first, last = subtrees.get_span(subject)
            return (words[first].start, words[last].end) if last - first < _MAX_SUBJECT_WORDS else None
        if not _is_coordinate(sentence, index):
            return None
        index = words[index].head
    return None


class _Subtrees:
    """The dependency subtrees of the words of a sentence, computed on demand and cached."""

    def __init__(self, sentence: Sentence) -> None:
        """Create an index of the subtrees of the words of a sentence; a word is identified by its position."""
        self._sentence = sentence
        #: Cached results of :meth:`_measure_subtree`.
        self._measures: dict[int, tuple[int, int, int]] = {}

    def get_span(self, index: int) -> tuple[int, int]:
        """Return the indexes of the first and the last word of the subtree of a word."""
        first, last, _ = self._measure_subtree(index)
        return first, last

    def is_contiguous(self, index: int) -> bool:
        """True if the words of a word's subtree are adjacent in the sentence."""
        first, last, count = self._measure_subtree(index)
        return last - first + 1 == count

    def _measure_subtree(self, index: int) -> tuple[int, int, int]:
        """Return the indexes of the first and the last word of a subtree, and the number of its words; cached."""
        if index not in self._measures:
            visited = {index}
            stack = [index]
            while stack:
                for child in self._sentence.words[stack.pop()].children:
                    if child not in visited:
                        visited.add(child)
                        stack.append(child)
            self._measures[index] = (min(visited), max(visited), len(visited))
        return self._measures[index]
