"""The words of a sentence in order, and the noun phrases, names and subjects that their order shows. A *position* is
the index of a word in the sentence. A *stem* is the beginning that the forms of a word share. Words are classified by
lists and endings, without a parser.

In: a sentence of a text, as words. Out: the positions of given words in it, and if the words at some positions can be a
whole name, a subject or the end of a noun phrase.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from typing import NamedTuple

from ..process.frozen_dataclass import frozen_dataclass
from ..text.everyday_words import ADJECTIVE, get_part_of_speech
from ..text.words import FUNCTION_WORDS
from .english_words import (
    AUXILIARIES,
    BE_WORDS,
    DETERMINERS,
    IRREGULAR_VERBS,
    PREPOSITIONS,
    RELATIVE_PRONOUNS,
    has_verb_form,
    is_adverb,
)

#: The words that, like verbs with a regular ending, begin another clause.
_CLAUSE_SIGNS = BE_WORDS | IRREGULAR_VERBS | RELATIVE_PRONOUNS
#: The words between a subject and its verb.
_VERB_SIGNS = AUXILIARIES | RELATIVE_PRONOUNS


class WordSpan(NamedTuple):
    """The positions of the first and the last of some adjacent words in a sentence."""

    first: int
    last: int


#: The span of a subject that only the title of the text mentions, before a sentence that begins with its verb.
IMPLIED_SUBJECT = WordSpan(-1, -1)


@frozen_dataclass
class OrderedSentence:
    """The words of a sentence as written (``written_words``), in lower case without accents (``words``), and as stems.
    ``phrase_ends`` are the positions of the words before a punctuation mark. The *implied subject* is one that only the
    title of the text names.
    """

    written_words: Sequence[str]
    words: Sequence[str]
    stems: Sequence[str]
    phrase_ends: Set[int]

    def find_spans(self, stems: Sequence[str], max_other_words: int) -> list[WordSpan]:
        """Return the spans (first and last position) of words with ``stems``, in this order.

        Stems that the sentence lacks are skipped. If the other stems are not all in one span, the search is repeated
        without the last stem, then without the last two, down to half of ``stems``. A span has at most
        ``max_other_words`` other words between its first and last word.
        """
        present_stems = [stem for stem in stems if stem in self.stems]
        starts = [position for position, stem in enumerate(self.stems) if stem in present_stems[:1]]
        min_length = (len(stems) + 1) // 2
        # "Ann is Queen of Oslo" mentions "Ann of Oslo" as "Ann".
        for length in range(len(present_stems), min_length - 1, -1):
            matches = (self._match_stems(present_stems[:length], start, max_other_words) for start in starts)
            if spans := [span for span in matches if span is not None]:
                return spans
        return []

    def _match_stems(self, stems: Sequence[str], start: int, max_other_words: int) -> WordSpan | None:
        """Return the span of words with ``stems`` in this order; the first stem is at position ``start``.

        A Roman numeral after the words, such as "IV", is part of the span. Return None if the sentence lacks a stem
        after the previous one, or if more than ``max_other_words`` other words are between the first and the last.
        """
        last = start
        for stem in stems[1:]:
            if stem not in self.stems[last + 1 :]:
                return None
            last = self.stems.index(stem, last + 1)
        if last - start >= len(stems) + max_other_words:
            return None
        for position in range(last + 1, len(self.words)):
            if last in self.phrase_ends or not set(self.written_words[position]) <= set("IVX"):
                break
            last = position
        return WordSpan(start, last)

    def ends_noun_phrase(self, position: int) -> bool:
        """True if a noun phrase can end with the word at a position: no noun follows it, as "writer" follows "comics".

        A noun can also follow after "and" or "or" and one word, as "actor" follows "film" in "film and television
        actor".
        """
        if position in self.phrase_ends or position + 1 >= len(self.words):
            return True
        if self.words[position + 1] in ("and", "or"):
            joined, next_noun = position + 2, position + 3  # "television" and "actor" in the example above
            return joined in self.phrase_ends or not self._can_be_noun(next_noun)
        return not self._can_be_noun(position + 1)

    def _can_be_noun(self, position: int) -> bool:
        """True if the word at a position exists and is not known as another part of speech."""
        if position >= len(self.words):
            return False
        word = self.words[position]
        is_function_word = word in FUNCTION_WORDS or word in PREPOSITIONS
        is_verb_or_adverb = has_verb_form([word], nouns=frozenset()) or is_adverb(self.written_words[position])
        return not (is_function_word or is_verb_or_adverb or word.isdigit())

    def is_whole_name(self, span: WordSpan) -> bool:
        """True if the name at a span is not part of a longer one, as "York" is of "New York" and "Ann" of "Ann Lee".

        True for the implied subject, and for a term whose last word is in lower case.
        """
        if span == IMPLIED_SUBJECT or not self.written_words[span.last][0].isupper():
            return True
        neighbors = []  # the positions next to the name, without a punctuation mark between
        if span.first > 0 and span.first - 1 not in self.phrase_ends:
            neighbors.append(span.first - 1)
        if span.last not in self.phrase_ends and span.last + 1 < len(self.words):
            neighbors.append(span.last + 1)
        return not any(map(self._can_be_part_of_name, neighbors))

    def _can_be_part_of_name(self, position: int) -> bool:
        """True if the word at a position is capitalized, and not only because it is the first of the sentence."""
        word = self.words[position]
        if not self.written_words[position][0].isupper() or word in FUNCTION_WORDS:
            return False
        # Every first word is capitalized; it counts only if it is no known word, or an adjective as in "New York".
        return position > 0 or get_part_of_speech(word) in (None, ADJECTIVE)

    def is_subject(self, span: WordSpan, verb: int) -> bool:
        """True if the name or pronoun at ``span`` can be the subject of the verb at the later position ``verb``.

        A name after a preposition is not a subject.
        """
        if self.find_preposition(span.first) is not None:
            return False
        last = verb - 1  # the last word before the auxiliaries and adverbs of the verb
        while last > span.last and (self.words[last] in _VERB_SIGNS or is_adverb(self.written_words[last])):
            last -= 1
        return last == span.last or self._can_precede_verb(span, last, verb)

    def _can_precede_verb(self, span: WordSpan, last: int, verb: int) -> bool:
        """True if the words after a subject (``span``) up to the position ``last`` can be between it and its verb.

        They can be a predicate noun, a phrase with a preposition, words between punctuation marks, or another
        predicate. Only auxiliaries, adverbs and relative pronouns are between ``last`` and the verb.
        """
        # A predicate noun: "Kent is a county located in".
        copula = next(
            (position for position in range(span.last + 1, last + 1) if self.words[position] in BE_WORDS), last
        )
        if copula < last and self.is_subject(span, copula) and self.is_one_phrase(copula + 1, last + 1):
            return True
        words_between = self.words[span.last + 1 : verb]
        if not RELATIVE_PRONOUNS.isdisjoint(words_between):
            return False
        # After the first name of the sentence, a preposition with its nouns: "the light at the pier is".
        is_first_name = DETERMINERS.issuperset(self.words[: span.first])
        has_preposition = not PREPOSITIONS.isdisjoint(words_between[:1])
        if is_first_name and has_preposition and self.is_one_phrase(span.last + 1, last + 1, PREPOSITIONS):
            return True
        # Words between punctuation marks, or another predicate and a comma or "and": "Ann was born in Oslo and sings".
        is_before_mark = last in self.phrase_ends and (is_first_name or span.last in self.phrase_ends)
        return is_before_mark or (is_first_name and self.words[last] == "and")

    def find_preposition(self, position: int) -> str | None:
        """Return the preposition before the name at a position and its determiners, or None without a preposition."""
        for earlier_position in range(position - 1, -1, -1):
            if earlier_position in self.phrase_ends:
                return None
            word = self.words[earlier_position]
            if word not in DETERMINERS:
                return word if word in PREPOSITIONS else None
        return None

    def is_one_phrase(self, start: int, end: int, allowed_words: Collection[str] = ()) -> bool:
        """True if the words from position ``start`` to before ``end`` are within one phrase.

        None of them is a preposition or can begin another clause, unless it is one of ``allowed_words``. No punctuation
        mark is before, between or after them.
        """
        has_preposition = any(word in PREPOSITIONS and word not in allowed_words for word in self.words[start:end])
        has_mark = any(position in self.phrase_ends for position in range(start - 1, end))
        return not (has_preposition or has_mark or self._has_clause_start(start, end, allowed_words))

    def _has_clause_start(self, start: int, end: int, allowed_words: Collection[str]) -> bool:
        """True if a word from ``start`` to before ``end`` can begin another clause, such as "which" or "founded".

        The ``allowed_words`` do not count.
        """
        lower_words = [self.words[position] for position in range(start, end) if self.written_words[position].islower()]
        return any(
            word in _CLAUSE_SIGNS or word.endswith(("ed", "ing")) for word in lower_words if word not in allowed_words
        )

    def can_be_common_noun(self, span: WordSpan) -> bool:
        """True if the words of a span need not be a name, because not all of them are capitalized.

        The first word of the sentence does not count, because every sentence begins with a capital.
        """
        is_only_first_word = span.last == 0
        return is_only_first_word or any(map(str.islower, self.written_words[max(1, span.first) : span.last + 1]))
