"""Clauses of an English sentence that mean the same without the rest of it, found by lists of words. A *phrase* is a
part of a sentence between punctuation marks or conjunctions. It is *joined* to the phrase before it if a conjunction or
a semicolon is between them.

In: the phrases of a sentence between punctuation marks and conjunctions. Out: its clauses, each as a list of phrases:
the main clause without those joined to it, a joined clause with a subject, a joined predicate with the subject before
it, and what an apposition or a relative clause says about the subject. A clause with an uncertain subject is omitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..text.everyday_words import NOUN, get_part_of_speech
from ..text.words import FUNCTION_WORDS, split_written_words
from .english_words import ARTICLES, AUXILIARIES, DETERMINERS, RELATIVE_PRONOUNS, find_verb, is_participle

#: The conjunctions that join clauses.
_CONJUNCTIONS = frozenset("and but while whereas".split())
#: The words after which a joined clause can be a condition, or reported speech, so that it is not said alone.
_SUBORDINATORS = frozenset("although as because how if since than that though unless until what when why".split())
#: The words that need both of two joined clauses.
_PAIRING_WORDS = frozenset("between both either neither whether".split())
_SUBJECT_PRONOUNS = frozenset("he i it she that there they this we who which you".split())


def iter_clauses(phrases: Sequence[str], connectives: Sequence[str]) -> Iterator[list[str]]:
    """Yield the clauses of a sentence that keep their meaning without the rest of the sentence.

    A clause is a list of texts, such as subject and predicate. One with an uncertain subject, or after a word such as
    "if", is omitted. ``phrases`` are the parts of the sentence between conjunctions and punctuation marks, and
    ``connectives`` the text before each of them.

    >>> list(iter_clauses(["Ann sings", "Bo swims", "runs"], ["", " and ", " and "]))
    [['Ann sings'], ['Bo swims'], ['Bo', 'runs']]
    >>> list(iter_clauses(["Oak Lake", "which is deep", "froze"], ["", ", ", ", "]))
    [['Oak Lake', 'is deep']]
    """
    nonempty_indexes = [index for index, phrase in enumerate(phrases) if split_written_words(phrase)]
    phrases = [phrases[index] for index in nonempty_indexes]
    connectives = [connectives[index] for index in nonempty_indexes]
    words = list(map(split_written_words, phrases))
    main_verb_place = _find_main_verb(words)
    if main_verb_place is None:
        return
    main_index, main_verb = main_verb_place
    # The subject is the words before the main verb.
    subject = list(filter(None, [*phrases[:main_index], " ".join(words[main_index][:main_verb])]))
    # A subject, an attribute between punctuation marks, and the predicate, as in "Ann, a singer, sailed".
    if main_index == 2 and main_verb == 0 and not connectives[main_index].strip().isalpha():
        subject_words, attribute_words, predicate_words = words[: main_index + 1]
        for attribute in _iter_attributes(subject_words, attribute_words, predicate_words[0].lower()):
            subject = phrases[:1]  # the later clauses do not repeat the attribute
            yield [*subject, attribute]
    yield from _iter_joined_clauses(phrases, words, connectives, main_index, subject)


def _iter_joined_clauses(
    phrases: Sequence[str],
    words: Sequence[Sequence[str]],
    connectives: Sequence[str],
    main_index: int,
    subject: list[str],
) -> Iterator[list[str]]:
    """Yield the clauses into which joined phrases divide a sentence; nothing if it is a single clause.

    ``words`` are the words of each phrase, ``connectives`` the text before it, and ``main_index`` is the index of the
    phrase with the main verb. ``subject`` is the subject of the main verb, as texts; a joined predicate shares it.
    """
    phrases = list(phrases)
    # The current clause begins with the phrase ``start``, after ``shared_subject`` (the subject that it shares with an
    # earlier clause, or nothing); None if it could mean something else without the rest.
    start = 0
    shared_subject: list[str] | None = []
    for index, joined_words in enumerate(map(_find_joined_words, words, connectives)):
        verb = find_verb(joined_words, begins_sentence=False)
        if index <= main_index or verb is None:
            continue
        clause_words = {word.lower() for phrase_words in words[start:index] for word in phrase_words}
        if shared_subject is not None and _PAIRING_WORDS.isdisjoint(clause_words):
            yield [*shared_subject, *phrases[start:index]]
        start, phrases[index] = index, " ".join(joined_words)
        earlier_words = {word.lower() for phrase_words in words[:index] for word in phrase_words}
        if verb > 0 and _can_begin_noun_phrase(joined_words[0]):  # a clause with its own subject
            subject = [" ".join(joined_words[:verb])]
            shared_subject = [] if (_SUBORDINATORS | _PAIRING_WORDS).isdisjoint(earlier_words) else None
        elif subject and _is_predicate(joined_words, verb, clause_words):  # it shares the subject before it
            shared_subject = subject
        else:
            subject, shared_subject = [], None
    if start > 0 and shared_subject is not None:
        yield [*shared_subject, *phrases[start:]]


def _find_main_verb(phrases: Sequence[Sequence[str]]) -> tuple[int, int] | None:
    """Return the index of the first phrase with a verb, and the index of the verb among the words of this phrase.

    The main clause ends with this phrase. ``phrases`` are the words of each phrase. Returns None without a verb.
    """
    for index, words in enumerate(phrases):
        verb = find_verb(words, begins_sentence=index == 0)
        if verb is not None:
            return index, verb
    return None


def _find_joined_words(words: Sequence[str], connective: str) -> Sequence[str]:
    """Return the words of a phrase if it is joined to the phrase before it, without the conjunction, else no words.

    ``connective`` is the text between the two phrases.

    >>> _find_joined_words(["and", "Bo", "swims"], ", "), _find_joined_words(["who", "swims"], ", ")
    (['Bo', 'swims'], [])
    """
    if words and words[0].lower() in _CONJUNCTIONS:
        return words[1:]
    is_conjunction = connective.strip().isalpha()  # such as " and "
    return words if is_conjunction or ";" in connective else []


def _can_begin_noun_phrase(word: str) -> bool:
    """True if a word can be a noun, a name, or a determiner before a noun."""
    if word.lower() in FUNCTION_WORDS:
        return word.lower() in DETERMINERS
    may_be_noun = get_part_of_speech(word) in (NOUN, None)  # None: the word is unknown
    return not word.endswith("ly") and (word[0].isupper() or may_be_noun)


def _is_predicate(words: Sequence[str], verb: int, clause_words: set[str]) -> bool:
    """True if ``words`` can be a further predicate of a clause, as "sings" in "Ann swims and sings".

    ``verb`` is the index of their verb, and ``clause_words`` are the lower-case words of the clause before them. False
    if the words have another subject, or if the verb is a participle ("was sold and burned") or an infinitive ("may
    sing and dance"). Also False if the clause has a subordinator, such as "if", or a relative pronoun.
    """
    if any(_can_begin_noun_phrase(word) or word.lower() in _SUBJECT_PRONOUNS for word in words[:verb]):
        return False
    if not (_SUBORDINATORS | _PAIRING_WORDS | RELATIVE_PRONOUNS).isdisjoint(clause_words):
        return False
    # After an auxiliary or "to", other forms are participles or infinitives.
    is_finite = words[verb] in AUXILIARIES or words[verb].endswith("s")
    return is_finite or (AUXILIARIES | {"to"}).isdisjoint(clause_words)


def _iter_attributes(subject: Sequence[str], words: Sequence[str], verb: str) -> Iterator[str]:
    """Yield predicates that ``words``, an apposition or a relative clause, state about the ``subject`` before them.

    No predicate is yielded for a pronoun as the subject. ``verb`` is the verb of the sentence, whose tense decides
    between "is" and "was" before an article.

    >>> list(_iter_attributes(["Ann"], "a singer".split(), "sailed")), list(_iter_attributes(["It"], ["born"], "is"))
    (['was a singer'], [])
    """
    first_word = subject[0].lower()
    if not _can_begin_noun_phrase(first_word):
        return
    if words[0].lower() in ("which", "who"):
        if find_verb(words[1:], begins_sentence=True) == 0:
            yield " ".join(words[1:])
    elif words[0].lower() in ARTICLES:
        is_present = verb in ("is", "are", "has", "have") or (verb.endswith("s") and verb != "was")
        yield " ".join(["is" if is_present else "was", *words])
    elif is_participle(words[0].lower(), words[1].lower() if len(words) > 1 else ""):
        yield from (" ".join([be, *words]) for be in ("is", "was"))
