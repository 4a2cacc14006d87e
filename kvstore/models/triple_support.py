"""Support of a triple that a language model wrote by the order of the words in a sentence.

In: subject, relation and object, and the text that they are from. Out: an error if no sentence has them in an order
that relates them: a sentence with all words of a triple can still say the opposite, or relate other names. If a
sentence lacks the name of the subject, a personal pronoun can stand for it if the title of the text or the sentence
before has the name. In languages other than English, where verbs can be last, only the order of subject and object
counts; texts without spaces are not checked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence, Set
from contextlib import suppress
from functools import lru_cache
from itertools import dropwhile, groupby, pairwise, product
from typing import NamedTuple

from ..process.frozen_dataclass import frozen_dataclass
from ..text.everyday_words import ADJECTIVE, get_part_of_speech
from ..text.languages import detect_language
from ..text.normalize import fold_text
from ..text.patterns import compile_lazily
from ..text.sentences import split_sentences
from ..text.words import FUNCTION_WORDS, detect_word_language, is_unspaced, segment_words, split_written_words
from .english_words import (
    ARTICLES,
    AUXILIARIES,
    BE_WORDS,
    DETERMINERS,
    IRREGULAR_VERBS,
    LINKING_PARTICIPLES,
    PREPOSITIONS,
    PREPOSITIONS_IN_ING,
    RELATIVE_PRONOUNS,
    has_verb_form,
    is_adverb,
    is_common_verb,
    is_past_form,
)
from .statement_support import PRONOUNS, list_content_stems, to_stem

#: The marks at which a noun phrase ends.
_PUNCTUATION_PATTERN = compile_lazily(r"[,;:|()\"“”–—]")
#: The maximum number of words of a relation, and of a name.
_MAX_RELATION_WORDS, _MAX_NAME_WORDS = 7, 12
#: The maximum number of other words between the words of a subject, and between "is" and an object.
_MAX_SUBJECT_GAP, _MAX_LINK_GAP = 3, 6
_ARTICLES_AND_CONJUNCTIONS = ARTICLES | {"and", "or"}
#: Words that select one of several things, so a term with one of them needs the words after it ("the first artist to").
_SELECTORS = frozenset("best first second third fourth fifth last latest only other same".split())
#: The pronouns that can be the subject of a sentence.
_SUBJECT_PRONOUNS = PRONOUNS - {"him", "her", "them", "his", "hers", "its", "their", "theirs"}
#: The words with which no name begins. No name ends with one of them, with an article or with a participle that needs
#: another word.
_LINKS = BE_WORDS | PREPOSITIONS | frozenset("had has have that which".split())
#: The words that, like verbs with a regular ending, begin another clause.
_CLAUSE_SIGNS = BE_WORDS | IRREGULAR_VERBS | RELATIVE_PRONOUNS
#: The words that a relation does not need, and all words that are not part of a name.
_UNRELATED_WORDS = _ARTICLES_AND_CONJUNCTIONS | PRONOUNS | RELATIVE_PRONOUNS
_GAP_WORDS = FUNCTION_WORDS | PREPOSITIONS | AUXILIARIES | _UNRELATED_WORDS
#: The words between a subject and its verb.
_VERB_SIGNS = AUXILIARIES | RELATIVE_PRONOUNS


class _WordSpan(NamedTuple):
    """The positions of the first and the last of some adjacent words in a sentence."""

    first: int
    last: int


#: The span of a subject that only the title of the text names, before a sentence that begins with its verb.
_IMPLIED = _WordSpan(-1, -1)


@frozen_dataclass
class _OrderedSentence:
    """The words of a sentence as written, folded (lower case, no accents), and as stems.

    ``ends`` are the positions of the words before a punctuation mark.
    """

    written_words: Sequence[str]
    words: Sequence[str]
    stems: Sequence[str]
    ends: Set[int]

    def find_spans(self, stems: Sequence[str], max_other_words: int) -> list[_WordSpan]:
        """Return the spans (first and last position) that have, in order, all of the ``stems`` that the sentence has.

        If no span has them, the last stems are left out one by one, but at least half of ``stems`` must be in a span. A
        span has at most ``max_other_words`` other words between its first and last word.
        """
        present = [stem for stem in stems if stem in self.stems]
        starts = [position for position, stem in enumerate(self.stems) if stem in present[:1]]
        # Without its last stems, if they are elsewhere: "Ann of Oslo" is "Ann" in "Ann is Queen of Oslo".
        for length in range(len(present), max(0, (len(stems) - 1) // 2), -1):
            matches = (self._match_stems(present[:length], start, max_other_words) for start in starts)
            if spans := [span for span in matches if span is not None]:
                return spans
        return []

    def _match_stems(self, stems: Sequence[str], start: int, max_other_words: int) -> _WordSpan | None:
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
        while last not in self.ends and last + 1 < len(self.words) and set(self.written_words[last + 1]) <= set("IVX"):
            last += 1
        return _WordSpan(start, last)

    def ends_noun_phrase(self, position: int) -> bool:
        """True if the word at a position is not followed by a noun, which it would only modify ("comics writer")."""
        if position in self.ends or position + 1 >= len(self.words):
            return True
        word = self.words[position + 1]
        if word in ("and", "or"):
            # "film" modifies "actor" in "film and television actor"; "writer" of "writer and editor" does not.
            return position + 2 in self.ends or not self._can_be_noun(position + 3)
        return not self._can_be_noun(position + 1)

    def _can_be_noun(self, position: int) -> bool:
        """True if the word at a position exists and is not known as another part of speech."""
        if position >= len(self.words):
            return False
        word = self.words[position]
        is_function_word = word in FUNCTION_WORDS or word in PREPOSITIONS
        is_verb_or_adverb = has_verb_form([word], frozenset()) or is_adverb(self.written_words[position])
        return not (is_function_word or is_verb_or_adverb or word.isdigit())

    def is_whole_name(self, span: _WordSpan) -> bool:
        """True if the name at a span is not part of a longer one, as "York" is of "New York" and "Ann" of "Ann Lee"."""
        if span == _IMPLIED or not self.written_words[span.last][0].isupper():
            return True
        neighbors = []  # the words next to the name, without a punctuation mark between
        if span.first > 0 and span.first - 1 not in self.ends:
            neighbors.append(span.first - 1)
        if span.last not in self.ends and span.last + 1 < len(self.words):
            neighbors.append(span.last + 1)
        return not any(
            self.written_words[position][0].isupper()
            and self.words[position] not in FUNCTION_WORDS
            # A common first word has its capital from the sentence; "New" of "New York" can be an adjective.
            and (position > 0 or get_part_of_speech(self.words[position]) in (None, ADJECTIVE))
            for position in neighbors
        )

    def is_subject(self, span: _WordSpan, start: int) -> bool:
        """True if the name or pronoun at ``span`` can be the subject of the verb at the later position ``start``.

        Between them are at most auxiliaries, adverbs, a relative pronoun, a predicate noun ("Kent is a county located
        in"), or words between punctuation marks; after the first name of a sentence also a preposition with its nouns
        ("the light at the pier is"), or another predicate and "and" or a comma ("Ann was born in Oslo and sings"). A
        name after a preposition is not a subject.
        """
        if self.find_preposition(span.first) is not None:
            return False
        last = start - 1
        while last > span.last and (self.words[last] in _VERB_SIGNS or is_adverb(self.written_words[last])):
            last -= 1
        if last == span.last:
            return True
        copula = next(
            (position for position in range(span.last + 1, last + 1) if self.words[position] in BE_WORDS), last
        )
        if copula < last and self.is_subject(span, copula) and self.joins_object((), copula + 1, last + 1):
            return True
        if not RELATIVE_PRONOUNS.isdisjoint(self.words[span.last + 1 : start]):
            return False
        is_first = DETERMINERS.issuperset(self.words[: span.first])
        has_preposition = not PREPOSITIONS.isdisjoint(self.words[span.last + 1 : span.last + 2])
        if is_first and has_preposition and self.joins_object(PREPOSITIONS, span.last + 1, last + 1):
            return True
        is_between_marks = last in self.ends and (is_first or span.last in self.ends)
        return is_between_marks or (is_first and self.words[last] == "and")

    def find_preposition(self, position: int) -> str | None:
        """Return the preposition before the name at a position and its determiners, or None without a preposition."""
        before = position - 1
        while before >= 0 and before not in self.ends and self.words[before] in DETERMINERS:
            before -= 1
        is_preposition = before >= 0 and before not in self.ends and self.words[before] in PREPOSITIONS
        return self.words[before] if is_preposition else None

    def joins_object(self, relation_words: Collection[str], start: int, end: int) -> bool:
        """True if the words from a relation, which ends before ``start``, to an object at ``end`` belong to the object.

        They do if they begin no other clause, and contain no punctuation mark and no preposition that the relation
        lacks.
        """
        has_preposition = any(word in PREPOSITIONS and word not in relation_words for word in self.words[start:end])
        is_interrupted = any(position in self.ends for position in range(start - 1, end))
        return not (has_preposition or is_interrupted or self.has_clause_start(relation_words, start, end))

    def has_lower_case(self, span: _WordSpan) -> bool:
        """True if a word of a span is in lower case, or the span is the first word, which always has a capital."""
        return span.last == 0 or any(map(str.islower, self.written_words[max(1, span.first) : span.last + 1]))

    def has_clause_start(self, relation_words: Collection[str], start: int, end: int) -> bool:
        """True if a word from ``start`` to before ``end`` can begin another clause, such as "which" or "founded".

        The ``relation_words``, the words of the relation of the checked triple, do not count.
        """
        return any(
            word not in relation_words
            and written_word.islower()
            and (word in _CLAUSE_SIGNS or word.endswith(("ed", "ing")))
            for word, written_word in zip(self.words[start:end], self.written_words[start:end], strict=True)
        )


@frozen_dataclass
class _OrderedText:
    """The sentences of a text. ``nouns`` are the words after an article, "and", "or" or a number.

    ``predicate_nouns`` are words by which the first sentence says what its subject is, such as "film" of "is a film".
    """

    has_spaces: bool
    is_english: bool
    nouns: Set[str]
    predicate_nouns: Set[str]
    sentences: Sequence[_OrderedSentence]


def check_triple(subject: str, relation: str, object_: str, text: str, *, title: str | None = None) -> None:
    """Raise ValueError unless a sentence of a text has the subject, the relation and the object of a triple in order.

    Also raises it for a relation that is not a short verb phrase, and for a triple that repeats its words. In languages
    other than English, only the order of subject and object is checked; in those without spaces between words, no
    order.

    A pronoun can stand for the subject if the previous sentence or the ``title`` of the text names it. If the title
    does, the sentence need not mention the subject at all.
    :meth:`~kvstore.models.statement_support.SourcePassages.find_supporting` checks that a sentence has their words.
    """
    subject_stems, object_stems = map(check_name, (subject, object_))
    relation_stems = list_content_stems(relation)
    source = _parse_text(text)
    relation_words = segment_words(relation)
    _check_relation(relation, relation_words, subject, source)
    if subject_stems == object_stems or {*segment_words(subject), *segment_words(object_)}.issuperset(relation_words):
        raise ValueError("a triple repeats its words; write other words in subject, relation and object")
    if not source.has_spaces:
        return
    is_titled = not set(subject_stems).isdisjoint(list_content_stems(title or ""))
    for previous, sentence in zip([None, *source.sentences], source.sentences, strict=False):
        is_known = is_titled or (previous is not None and set(subject_stems).issubset(previous.stems))
        relation_spans = sentence.find_spans(relation_stems, _MAX_RELATION_WORDS)
        subject_spans = _find_subjects(
            sentence, subject_stems, object_stems, source.predicate_nouns, is_known=is_known, is_titled=is_titled
        )
        object_spans = sentence.find_spans(object_stems, len(object_stems) + _MAX_SUBJECT_GAP)
        for subject_span, object_span in product(subject_spans, object_spans):
            if subject_span.first <= object_span.last and object_span.first <= subject_span.last:
                continue  # they overlap
            if not source.is_english:
                has_order = subject_span < object_span
            elif not (sentence.is_whole_name(subject_span) and sentence.is_whole_name(object_span)):
                has_order = False
            elif relation_stems:
                has_order = any(
                    _has_order(sentence, subject_span, relation_span, object_span, relation_words)
                    for relation_span in relation_spans
                )
            else:
                # A capitalized name in the sentence is not the object if the triple has the object in lower case.
                has_order = (
                    not object_.islower() or sentence.has_lower_case(object_span)
                ) and _is_joined_by_function_words(sentence, subject_span, frozenset(relation_words), object_span)
            if has_order:
                return
    raise ValueError("no sentence of the passages has the parts of a triple in this order; use the words of a sentence")


def _check_relation(relation: str, words: Sequence[str], subject: str, source: _OrderedText) -> None:
    """Raise ValueError unless a relation, with these ``words``, is short, has no number, and can be a verb phrase.

    In English, it must begin in lower case and have a verb, except after a plural subject, since its present has no
    ending, or with a function word, since "from" can mean "is from".
    """
    if not 0 < len(words) <= _MAX_RELATION_WORDS or any(map(str.isdigit, words)):
        raise ValueError(f"the relation of a triple must be a verb of at most {_MAX_RELATION_WORDS} words")
    if not source.is_english:
        return
    may_lack_verb = subject.endswith("s") or not FUNCTION_WORDS.isdisjoint(words)
    begins_like_verb = relation[0].islower() and words[0] not in PREPOSITIONS_IN_ING
    if not (begins_like_verb and (may_lack_verb or has_verb_form(words, source.nouns))):
        raise ValueError("the relation of a triple has no verb")


def _find_subjects(
    sentence: _OrderedSentence,
    subject_stems: Sequence[str],
    object_stems: Sequence[str],
    predicate_nouns: Set[str],
    *,
    is_known: bool,
    is_titled: bool,
) -> list[_WordSpan]:
    """Return the spans of a triple's subject in a sentence, including those of words that can stand for it.

    If the title or the previous sentence names the subject (``is_known``), a pronoun that begins the sentence can stand
    for it. If the sentence also lacks a word of the subject, or has its words only in the object, any pronoun can. The
    subject can then also be "the" and one of ``predicate_nouns``, or be implied, if the title names it (``is_titled``).
    ``predicate_nouns`` are the words by which the text says what its subject is, such as "film".
    """
    spans = sentence.find_spans(subject_stems, _MAX_SUBJECT_GAP)
    subject_set = set(subject_stems)
    lacks_subject = subject_set.issubset(object_stems) or not subject_set.issubset(sentence.stems)
    if is_known:
        spans += [
            _WordSpan(position, position)
            for position, word in enumerate(sentence.words)
            if word in _SUBJECT_PRONOUNS and (lacks_subject or position == 0)
        ]
    if is_titled and lacks_subject:
        spans.append(_IMPLIED)  # nothing stands for the subject
        if sentence.words[0] in ("the", "this") and not predicate_nouns.isdisjoint(sentence.words[1:2]):
            spans.append(_WordSpan(0, 1))
    return spans


def list_names_and_predicates(text: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the names and terms of an English text, and its predicates: each a relation and the name after it.

    A triple (subject, relation, object) about the text can combine them. Both lists are empty for another language.

    >>> list_names_and_predicates("Oak Lake (born of ice) is fed by the Rill, a river in Kent.")
    (['Oak Lake', 'ice', 'Rill', 'river', 'Kent'], [('born of', 'ice'), ('is fed by', 'Rill')])
    """
    if not _parse_text(text).is_english:
        return [], []
    names: dict[str, None] = {}
    predicates: dict[tuple[str, str], None] = {}
    for start, end in split_sentences(text, None):
        for phrase in _PUNCTUATION_PATTERN.split(text[start:end].rstrip(" .!?")):
            relation = ""  # the words between the previous name and the next, if they have a verb
            for is_name, words in _group_names(phrase.split()):
                name = " ".join(words)
                if is_name:
                    with suppress(ValueError):
                        check_name(name)
                        names[name] = None
                        if relation:
                            predicates[relation, name] = None
                has_verb = not is_name and any(map(is_common_verb, words))
                related_words = [word for word in words if word.lower() not in _UNRELATED_WORDS]
                # Without the preposition of "the film for which he won".
                relation = " ".join(dropwhile(PREPOSITIONS.__contains__, related_words)) if has_verb else ""
    return list(names), list(predicates)


def _group_names(words: Sequence[str]) -> Iterator[tuple[bool, list[str]]]:
    """Yield the words of a sentence in groups of adjacent ones, each with True if the group is a name or term.

    "of" between two names, and an article after it, belong to them, as in "University of the Arts".
    """
    are_names = [word == "May" or (fold_text(word) not in _GAP_WORDS and not is_common_verb(word)) for word in words]
    for position in range(1, len(words) - 1):
        next_name = position + (2 if words[position + 1].lower() in ARTICLES else 1)
        is_between_names = are_names[position - 1] and any(are_names[next_name : next_name + 1])
        if words[position] == "of" and is_between_names:
            are_names[position:next_name] = [True] * (next_name - position)
    for is_name, positions in groupby(range(len(words)), key=are_names.__getitem__):
        yield is_name, [words[position] for position in positions]


def check_name(name: str) -> list[str]:
    """Return the stems of the content words of a name. Raises ValueError unless it is a name or a short term.

    >>> check_name("the choir of Rome")
    ['choir', 'rome']
    """
    words, stems = split_written_words(name), list_content_stems(name)
    forbidden_ends = _LINKS | _ARTICLES_AND_CONJUNCTIONS | LINKING_PARTICIPLES
    has_invalid_end = bool(words) and (words[0] in _LINKS or words[-1] in forbidden_ends or is_adverb(words[-1]))
    if not stems or has_invalid_end or len(words) > _MAX_NAME_WORDS:
        raise ValueError(f"{name[:40]!r} is not a name or a short term; write names without verbs")
    return stems


@lru_cache(maxsize=1)  # The triples of a text are checked one after another.
def _parse_text(text: str) -> _OrderedText:
    """Parse a text into sentences by the rules of its language, and find its nouns and what it says its subject is."""
    has_spaces = not is_unspaced(text)
    words = segment_words(text)
    word_language = detect_word_language(words, "english")
    is_english = has_spaces and word_language == "english"
    nouns = {noun for article, noun in pairwise(words) if article in _ARTICLES_AND_CONJUNCTIONS or article.isdigit()}
    sentences = []
    for start, end in split_sentences(text, None if is_english else detect_language(text) or word_language):
        written_words: list[str] = []
        ends: set[int] = set()
        for phrase in _PUNCTUATION_PATTERN.split(text[start:end]):
            written_words += split_written_words(phrase)
            ends.add(len(written_words) - 1)
        if not written_words:
            continue
        folded_words = list(map(fold_text, written_words))
        sentences.append(_OrderedSentence(written_words, folded_words, list(map(to_stem, folded_words)), ends))
    predicate_nouns = _list_predicate_nouns(sentences[0]) if sentences else set()
    return _OrderedText(has_spaces, is_english, nouns, predicate_nouns, sentences)


def _list_predicate_nouns(sentence: _OrderedSentence) -> set[str]:
    """Return the words that say what the subject of a sentence is, such as "film" in "Ran is a film by Kurosawa".

    They are the lower-case content words after the first form of "be", up to a preposition or punctuation mark.
    """
    copula = next((position for position, word in enumerate(sentence.words) if word in BE_WORDS), len(sentence.words))
    predicate_nouns = set()
    for position in range(copula + 1, len(sentence.words)):
        if sentence.words[position] in PREPOSITIONS:
            break
        if sentence.written_words[position].islower():
            predicate_nouns.add(sentence.words[position])
        if position in sentence.ends:
            break
    return predicate_nouns - FUNCTION_WORDS


def _is_joined_by_function_words(
    sentence: _OrderedSentence, subject: _WordSpan, relation_words: frozenset[str], object_: _WordSpan
) -> bool:
    """True if a relation without content words, such as "is" or "of", joins a subject to an object.

    A word of the relation must be between them. If the relation has a form of "be", any form of "be" joins them, and so
    does an apposition with an article ("Kent, a county") or before a name ("the singer Ann Lee"). The object must not
    modify a noun after it.
    """
    if not sentence.ends_noun_phrase(object_.last):
        return False
    links = relation_words - _ARTICLES_AND_CONJUNCTIONS
    is_copula = bool(links & BE_WORDS)
    if is_copula:
        links |= BE_WORDS
        object_words = sentence.words[object_.first : object_.last + 1]
        is_selection_cut = object_.last not in sentence.ends and not _SELECTORS.isdisjoint(object_words)  # "one of the"
        if is_selection_cut or is_past_form(object_words[0]):
            return False
    if subject.last < object_.first:
        between = sentence.words[subject.last + 1 : object_.first]
        if is_copula and subject != _IMPLIED and between and ARTICLES.issuperset(between):
            return sentence.find_preposition(subject.first) is None
        first = max(subject.last + 1, object_.first - _MAX_LINK_GAP)
        last_link = max((at for at in range(first, object_.first) if sentence.words[at] in links), default=None)
        if last_link is None or not sentence.is_subject(subject, last_link):
            return False
        return sentence.joins_object(relation_words, last_link + 1, object_.first)
    is_apposition = object_.last + 1 == subject.first and object_.last not in sentence.ends
    return is_copula and is_apposition and sentence.written_words[subject.first][0].isupper()


def _has_order(
    sentence: _OrderedSentence,
    subject: _WordSpan,
    relation: _WordSpan,
    object_: _WordSpan,
    relation_words: Sequence[str],
) -> bool:
    """True if subject, relation and object, at these positions of a sentence, are in an order that expresses a triple.

    An object after its relation must have no preposition that the relation lacks, and must not be in another clause.
    """
    is_passive = relation_words[-1] == "by"
    if relation.last < object_.first:
        has_preposition = sentence.find_preposition(object_.first) in relation_words
        inner_words = [*relation_words, "of"] if has_preposition else relation_words
        start = 1 + max(end for end in (relation.last, subject.last) if end < object_.first)
        if not sentence.joins_object(inner_words, start, object_.first):
            return False
        if not sentence.ends_noun_phrase(object_.last):
            return False
    if subject.first < relation.first < object_.first:  # "Ann built the mill"
        has_agent = "by" in sentence.words[object_.first - 2 : object_.first]
        return (is_passive or not has_agent) and sentence.is_subject(subject, relation.first)
    if object_.first < relation.first < subject.first:  # "the mill was built by Ann"
        return is_passive != ("by" in sentence.words[relation.first : subject.first])
    if relation.first < object_.first < subject.first:  # "built by Ann, the mill"
        before_subject = subject.first - 1
        begins_with_relation = relation.first == 0 and before_subject in sentence.ends
        return begins_with_relation or sentence.words[before_subject] in BE_WORDS
    if relation.first < subject.first < object_.first:  # "the builder of the mill was Ann"
        has_copula = not BE_WORDS.isdisjoint(sentence.words[subject.last : object_.first])
        return has_copula and "of" in sentence.words[relation.first : subject.first]
    if object_.first < subject.first < relation.first:  # "in 1802, Ann built"
        return sentence.find_preposition(object_.first) in relation_words and sentence.is_subject(
            subject, relation.first
        )
    return False
