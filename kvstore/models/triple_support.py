"""Checks that a sentence states a triple that a language model wrote, by the order of its words. A *triple* is a
subject, a relation and an object: ("Ann Lee", "built", "mill"). A *stem* is the beginning that the forms of a word
share. A *position* is the index of a word in its sentence.

In: subject, relation and object, and the text that they are from. Out: an error if no sentence has them in an order
that relates them: a sentence with all words of a triple can still say the opposite, or relate other names. If a
sentence lacks the name of the subject, a personal pronoun can stand for it if the title of the text or the sentence
before has the name. In languages other than English, where verbs can be last, only the order of subject and object
counts; texts without spaces are not checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from functools import lru_cache
from itertools import dropwhile, groupby, pairwise, product
from typing import NamedTuple

from ..process.frozen_dataclass import frozen_dataclass
from ..text.languages import detect_language
from ..text.normalize import fold_text
from ..text.patterns import compile_lazily
from ..text.sentences import split_sentences
from ..text.words import FUNCTION_WORDS, detect_word_language, is_unspaced, segment_words, split_written_words
from .english_words import (
    ARTICLES,
    AUXILIARIES,
    BE_WORDS,
    LINKING_PARTICIPLES,
    PREPOSITIONS,
    PREPOSITIONS_IN_ING,
    RELATIVE_PRONOUNS,
    has_verb_form,
    is_adverb,
    is_common_verb,
    is_past_form,
)
from .ordered_sentence import IMPLIED_SUBJECT, OrderedSentence, WordSpan
from .statement_support import PRONOUNS, list_content_stems, to_stem

#: The marks at which a noun phrase ends.
_PUNCTUATION_PATTERN = compile_lazily(r"[,;:|()\"“”–—]")
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

#: The words that a relation does not need, and all words that are not part of a name.
_UNRELATED_WORDS = _ARTICLES_AND_CONJUNCTIONS | PRONOUNS | RELATIVE_PRONOUNS
_GAP_WORDS = FUNCTION_WORDS | PREPOSITIONS | AUXILIARIES | _UNRELATED_WORDS


@frozen_dataclass
class _OrderedText:
    """The sentences of a text. ``nouns`` are the words after an article, "and", "or" or a number.

    ``predicate_nouns`` are words by which the first sentence says what its subject is, such as "film" of "is a film".
    """

    has_spaces: bool
    is_english: bool
    nouns: Set[str]
    predicate_nouns: Set[str]
    sentences: Sequence[OrderedSentence]


class _ParsedTriple(NamedTuple):
    """A triple to check: the stems of its content words, and all words of its relation.

    ``is_object_lower`` is True if the object is written in lower case.
    """

    subject_stems: Sequence[str]
    relation_stems: Sequence[str]
    object_stems: Sequence[str]
    relation_words: Sequence[str]
    is_object_lower: bool


def check_triple(subject: str, relation: str, object_: str, text: str, *, title: str | None = None) -> None:
    """Raise ValueError unless a sentence of a text has the subject, the relation and the object of a triple in order.

    Also raises it for a relation that is not a short verb phrase, and for a triple that repeats its words. In languages
    other than English, only the order of subject and object is checked; no order is checked in languages without spaces
    between words.

    A pronoun can stand for the subject if the previous sentence or the ``title`` of the text mentions it. If the title
    does, the sentence need not mention the subject at all.
    :meth:`~kvstore.models.statement_support.SourcePassages.find_supporting` checks that a sentence has the words of
    the triple.
    """
    subject_stems, object_stems = map(parse_name, (subject, object_))
    source = _parse_text(text)
    relation_words = segment_words(relation)
    _check_relation(relation, relation_words, subject, source)
    if subject_stems == object_stems or {*segment_words(subject), *segment_words(object_)}.issuperset(relation_words):
        raise ValueError("a triple repeats its words; write other words in subject, relation and object")
    if not source.has_spaces:
        return
    triple = _ParsedTriple(
        subject_stems, list_content_stems(relation), object_stems, relation_words, is_object_lower=object_.islower()
    )
    title_names_subject = not set(subject_stems).isdisjoint(list_content_stems(title or ""))
    for previous, sentence in zip([None, *source.sentences], source.sentences, strict=False):
        previous_names_subject = previous is not None and set(subject_stems).issubset(previous.stems)
        subject_spans = _find_subjects(
            sentence,
            triple,
            source.predicate_nouns,
            is_known=title_names_subject or previous_names_subject,
            is_titled=title_names_subject,
        )
        if _states_triple(sentence, triple, subject_spans, is_english=source.is_english):
            return
    raise ValueError("no sentence of the passages has the parts of a triple in this order; use the words of a sentence")


def _states_triple(
    sentence: OrderedSentence, triple: _ParsedTriple, subject_spans: Sequence[WordSpan], *, is_english: bool
) -> bool:
    """True if a sentence states a triple whose subject is at one of ``subject_spans``.

    In languages other than English, it does if an object follows a subject.
    """
    relation_spans = sentence.find_spans(triple.relation_stems, _MAX_RELATION_WORDS)
    object_spans = sentence.find_spans(triple.object_stems, len(triple.object_stems) + _MAX_SUBJECT_GAP)
    for subject_span, object_span in product(subject_spans, object_spans):
        if subject_span.first <= object_span.last and object_span.first <= subject_span.last:
            continue  # they overlap
        if not is_english:
            is_stated = subject_span < object_span
        else:
            is_stated = _expresses_triple(sentence, triple, subject_span, relation_spans, object_span)
        if is_stated:
            return True
    return False


def _expresses_triple(
    sentence: OrderedSentence,
    triple: _ParsedTriple,
    subject: WordSpan,
    relations: Sequence[WordSpan],
    object_: WordSpan,
) -> bool:
    """True if an English sentence expresses a triple whose subject and object are at ``subject`` and ``object_``.

    ``relations`` are the spans of the relation's content words in the sentence. If the relation has only function
    words, such as "is", these must join the subject to the object.
    """
    if not (sentence.is_whole_name(subject) and sentence.is_whole_name(object_)):
        return False
    if triple.relation_stems:
        return any(
            _has_triple_order(sentence, subject, relation, object_, triple.relation_words) for relation in relations
        )
    # A capitalized name in the sentence is not the object if the triple has the object in lower case.
    if triple.is_object_lower and not sentence.can_be_common_noun(object_):
        return False
    return _is_joined_by_function_words(sentence, subject, frozenset(triple.relation_words), object_)


def _check_relation(relation: str, words: Sequence[str], subject: str, source: _OrderedText) -> None:
    """Raise ValueError unless a relation is short, has no number, and can be a verb phrase.

    ``words`` are the words of the relation. In English, it must begin in lower case, not with a preposition such as
    "including", and have a verb form. The verb form is not checked if the relation has a function word, such as "from"
    for "is from", or if the subject ends in s: a verb after a plural has no ending by which it could be recognized.
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
    sentence: OrderedSentence, triple: _ParsedTriple, predicate_nouns: Set[str], *, is_known: bool, is_titled: bool
) -> list[WordSpan]:
    """Return the spans of a triple's subject in an English sentence, and of the words that can refer to it.

    If the title or the previous sentence names the subject (``is_known``), a pronoun that begins the sentence can refer
    to it. Any pronoun can if the sentence lacks a word of the subject, or if the object has all words of the subject.
    If the title names the subject (``is_titled``), it can then also be implied, or be "the" and one of
    ``predicate_nouns``, such as "the film".
    """
    spans = sentence.find_spans(triple.subject_stems, _MAX_SUBJECT_GAP)
    subject_set = set(triple.subject_stems)
    lacks_subject = subject_set.issubset(triple.object_stems) or not subject_set.issubset(sentence.stems)
    if is_known:
        candidates = sentence.words if lacks_subject else sentence.words[:1]
        spans += [WordSpan(position, position) for position, word in enumerate(candidates) if word in _SUBJECT_PRONOUNS]
    if is_titled and lacks_subject:
        spans.append(IMPLIED_SUBJECT)  # the sentence need not mention the subject
        if sentence.words[0] in ("the", "this") and not predicate_nouns.isdisjoint(sentence.words[1:2]):
            spans.append(WordSpan(0, 1))
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
    for start, end in split_sentences(text, language=None):
        for phrase in _PUNCTUATION_PATTERN.split(text[start:end].rstrip(" .!?")):
            relation = ""  # the words between the previous name and the next, if they have a verb
            for is_name, words in _group_names(phrase.split()):
                if not is_name:
                    relation = _extract_relation(words)
                    continue
                name = " ".join(words)
                with suppress(ValueError):  # if it is not a name
                    parse_name(name)
                    names[name] = None
                    if relation:
                        predicates[relation, name] = None
                relation = ""
    return list(names), list(predicates)


def _extract_relation(words: Sequence[str]) -> str:
    """Return the verb phrase in the words between two names, or an empty string if they have no verb.

    Articles, conjunctions and pronouns are left out, and so are prepositions at the beginning.

    >>> _extract_relation("for which he has won the".split())
    'has won'
    """
    if not any(map(is_common_verb, words)):
        return ""
    related_words = [word for word in words if word.lower() not in _UNRELATED_WORDS]
    return " ".join(dropwhile(PREPOSITIONS.__contains__, related_words))


def _group_names(words: Sequence[str]) -> Iterator[tuple[bool, list[str]]]:
    """Yield the parts of a phrase: (True, the words of a name or term), or (False, the words before or after a name).

    "of" between two names, and an article after it, belong to them, as in "University of the Arts".
    """
    name_flags = [_can_be_in_name(word) for word in words]
    for position in range(1, len(words) - 1):
        next_name = position + (2 if words[position + 1].lower() in ARTICLES else 1)
        is_between_names = name_flags[position - 1] and next_name < len(words) and name_flags[next_name]
        if words[position] == "of" and is_between_names:
            name_flags[position:next_name] = [True] * (next_name - position)
    for is_name, positions in groupby(range(len(words)), key=name_flags.__getitem__):
        yield is_name, [words[position] for position in positions]


def _can_be_in_name(word: str) -> bool:
    """True if a word, as written, can be part of a name or term: neither a function word nor a common verb.

    >>> _can_be_in_name("May"), _can_be_in_name("may"), _can_be_in_name("lake")
    (True, False, True)
    """
    return word == "May" or not (fold_text(word) in _GAP_WORDS or is_common_verb(word))


def parse_name(name: str) -> list[str]:
    """Return the stems of the content words of a name or short term. Raises ValueError for any other text.

    >>> parse_name("the choir of Rome")
    ['choir', 'rome']
    """
    words, stems = split_written_words(name), list_content_stems(name)
    forbidden_ends = _LINKS | _ARTICLES_AND_CONJUNCTIONS | LINKING_PARTICIPLES
    has_valid_ends = bool(words) and words[0] not in _LINKS and words[-1] not in forbidden_ends
    if not stems or not has_valid_ends or is_adverb(words[-1]) or len(words) > _MAX_NAME_WORDS:
        raise ValueError(f"{name[:40]!r} is not a name or a short term; write names without verbs")
    return stems


@lru_cache(maxsize=1)  # The triples of a text are checked one after another.
def _parse_text(text: str) -> _OrderedText:
    """Split a text into sentences and words by the rules of its language, and find its nouns.

    The last result is cached. The ``predicate_nouns`` say what the subject of the first sentence is, such as "film" in
    "Ran is a film".
    """
    has_spaces = not is_unspaced(text)
    words = segment_words(text)
    word_language = detect_word_language(words, "english")
    is_english = has_spaces and word_language == "english"
    # A word after an article, "and", "or" or a number is a noun.
    nouns = {noun for prior, noun in pairwise(words) if prior in _ARTICLES_AND_CONJUNCTIONS or prior.isdigit()}
    sentences = []
    for start, end in split_sentences(text, None if is_english else detect_language(text) or word_language):
        written_words: list[str] = []
        phrase_ends: set[int] = set()
        for phrase in _PUNCTUATION_PATTERN.split(text[start:end]):
            written_words += split_written_words(phrase)
            phrase_ends.add(len(written_words) - 1)
        if not written_words:
            continue
        folded_words = list(map(fold_text, written_words))
        sentences.append(OrderedSentence(written_words, folded_words, list(map(to_stem, folded_words)), phrase_ends))
    predicate_nouns = _list_predicate_nouns(sentences[0]) if sentences else set()
    return _OrderedText(
        has_spaces=has_spaces, is_english=is_english, nouns=nouns, predicate_nouns=predicate_nouns, sentences=sentences
    )


def _list_predicate_nouns(sentence: OrderedSentence) -> set[str]:
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
        if position in sentence.phrase_ends:
            break
    return predicate_nouns - FUNCTION_WORDS


def _is_joined_by_function_words(
    sentence: OrderedSentence, subject: WordSpan, relation_words: frozenset[str], object_: WordSpan
) -> bool:
    """True if a relation without content words, such as "is" or "of", joins a subject to an object.

    A word of the relation must be between them, close to the object. If the relation has a form of "be", any form of
    "be" joins them, and so does an apposition with an article ("Kent, a county") or before a name ("the singer Ann
    Lee"); the object must then be complete. The object must not modify a noun after it.
    """
    if not sentence.ends_noun_phrase(object_.last):
        return False
    links = relation_words - _ARTICLES_AND_CONJUNCTIONS
    is_copula = bool(links & BE_WORDS)
    if is_copula:
        links |= BE_WORDS
        if not _can_follow_be(sentence, object_):
            return False
    if object_.first <= subject.last:  # "the singer Ann Lee"
        is_apposition = object_.last + 1 == subject.first and object_.last not in sentence.phrase_ends
        return is_copula and is_apposition and sentence.written_words[subject.first][0].isupper()
    words_between = sentence.words[subject.last + 1 : object_.first]
    has_only_articles = bool(words_between) and ARTICLES.issuperset(words_between)  # "Kent, a county"
    if is_copula and subject != IMPLIED_SUBJECT and has_only_articles:
        return sentence.find_preposition(subject.first) is None
    start = max(subject.last + 1, object_.first - _MAX_LINK_GAP)
    link_positions = [position for position in range(start, object_.first) if sentence.words[position] in links]
    if not link_positions or not sentence.is_subject(subject, link_positions[-1]):
        return False
    return sentence.is_one_phrase(link_positions[-1] + 1, object_.first, relation_words)


def _can_follow_be(sentence: OrderedSentence, span: WordSpan) -> bool:
    """True if the words at a span can say what a subject is, as "a county" in "Kent is a county".

    A past form such as "founded" cannot, nor can "the first artist" in "the first artist to sing", because it needs the
    words after it.
    """
    words = sentence.words[span.first : span.last + 1]
    is_incomplete = span.last not in sentence.phrase_ends and not _SELECTORS.isdisjoint(words)
    return not (is_incomplete or is_past_form(words[0]))


def _can_be_object(sentence: OrderedSentence, start: int, name: WordSpan, relation_words: Sequence[str]) -> bool:
    """True if a name can be the object of a relation before it, with which the words from ``start`` on connect it.

    It must have no preposition that the relation lacks, must be in the same clause, and must not modify a noun after it
    (as "mill" does in "mill owner").
    """
    has_relation_preposition = sentence.find_preposition(name.first) in relation_words
    allowed_words = [*relation_words, "of"] if has_relation_preposition else relation_words
    return sentence.is_one_phrase(start, name.first, allowed_words) and sentence.ends_noun_phrase(name.last)


def _has_triple_order(
    sentence: OrderedSentence, subject: WordSpan, relation: WordSpan, object_: WordSpan, relation_words: Sequence[str]
) -> bool:
    """True if subject, relation and object, at these positions of a sentence, are in an order that expresses a triple.

    ``relation_words`` are all words of the relation; a relation that ends with "by" is passive.
    """
    is_passive = relation_words[-1] == "by"
    if relation.last < object_.first:
        start = 1 + max(end for end in (relation.last, subject.last) if end < object_.first)
        if not _can_be_object(sentence, start, object_, relation_words):
            return False
    if subject.first < relation.first < object_.first:  # "Ann built the mill"
        # "by" before the object makes the sentence passive: "Ann was built by".
        has_agent = "by" in sentence.words[object_.first - 2 : object_.first]
        return (is_passive or not has_agent) and sentence.is_subject(subject, relation.first)
    if object_.first < relation.first < subject.first:  # "the mill was built by Ann"
        # Either the relation or the sentence is passive, not both.
        return is_passive != ("by" in sentence.words[relation.first : subject.first])
    if relation.first < object_.first < subject.first:  # "built by Ann, the mill"
        before_subject = subject.first - 1
        begins_with_relation = relation.first == 0 and before_subject in sentence.phrase_ends
        return begins_with_relation or sentence.words[before_subject] in BE_WORDS
    if relation.first < subject.first < object_.first:  # "the builder of the mill was Ann"
        has_copula = not BE_WORDS.isdisjoint(sentence.words[subject.last : object_.first])
        return has_copula and "of" in sentence.words[relation.first : subject.first]
    if object_.first < subject.first < relation.first:  # "in 1802, Ann built"
        has_relation_preposition = sentence.find_preposition(object_.first) in relation_words
        return has_relation_preposition and sentence.is_subject(subject, relation.first)
    return False
