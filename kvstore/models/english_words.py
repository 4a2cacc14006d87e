"""English words by which the verb of a sentence is found without a parser. A *phrase* is the words between two commas.

In: the words of a sentence. Out: True if it has a predicate, as far as lists and endings of words show it.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import chain

from ..text.everyday_words import ADJECTIVE, OTHER, VERB, get_part_of_speech
from ..text.words import FUNCTION_WORDS

ARTICLES = frozenset(("a", "an", "the"))
BE_WORDS = frozenset("am is are was were be been being".split())
PREPOSITIONS = frozenset("as at by for from in into of on than to with".split())
#: Words with a verb's ending that join an example or a source.
PREPOSITIONS_IN_ING = frozenset("according concerning excluding including regarding".split())
#: The endings of English verbs in the past; the endings in the present, which nouns have too; and common verbs without
#: a regular ending.
_PAST_ENDINGS, _PRESENT_ENDINGS = ("ed", "en"), ("s", "ing")
IRREGULAR_VERBS = frozenset(
    """
    ate beat became began bit blew border bore bought bred broke brought built came caught chose clung contain cost
    crept cut dealt develop drank drew drove dug fell felt fled flew flung forbade forgave forgot fought found froze
    gave got grew held hid hit hung hurt include kept knelt knew laid lay leapt led left lent lit lost made meant met
    overcame produce provide put ran rang receive remain require rode rose sang sank sat saw sent serve set shone
    shook shot shrank slept slew slid sold sought spent split spoke sprang spread stole stood struck stuck stung swam
    swept swore swung taught thought threw told took tore understood underwent went wept withdrew woke won wore wrote
    """.split()
)
#: Auxiliary verbs, with the ends of "it'll", "don't" and "we're".
AUXILIARIES = BE_WORDS | frozenset(
    "can cannot could d did do does had has have ll may might must re shall should t ve will would".split()
)
DETERMINERS = ARTICLES | frozenset("her his its my no our some their these this those your".split())
#: The words before nouns. A word after one of them is not the verb of a sentence.
_NOUN_SIGNS = DETERMINERS | (PREPOSITIONS - {"as", "than"})
#: The words that can begin an object.
_OBJECT_SIGNS = DETERMINERS | frozenset("him it me them us you".split())
#: Participles that are frequent after names.
_PARTICIPLES = frozenset("born built known led made sung".split())
#: Participles that need another word, as in "based in", so no name ends with one of them.
LINKING_PARTICIPLES = frozenset("based born called held known located made named released written".split())
_RARE_NOUNS_IN_LY = frozenset("anomaly bully folly homily jelly lily monopoly tally".split())
_SUBJECT_PRONOUNS = frozenset("he i it she they we who you".split())
#: The words after which "'s" is a form of "be" or "have".
_BE_SUBJECTS = frozenset("he here it let she that there what where who".split())
RELATIVE_PRONOUNS = frozenset("that which who whose whom where".split())


def has_predicate(phrases: Sequence[Sequence[str]]) -> bool:
    """True if an English sentence, given the words between its commas (``phrases``), may have a predicate.

    A capitalized word within a phrase, a participle at its beginning and the first verb of a relative clause are not
    the predicate. In a sentence in capitals, every word can be a verb.

    >>> has_predicate(["The choir of Rome".split(), "founded by Carl Berg".split()])
    False
    >>> has_predicate(["Oak Lake".split(), "which is fed by the Rill".split()])
    False
    >>> has_predicate(["Oak Lake".split(), "which is fed by the Rill".split(), "froze in 1802".split()])
    True
    >>> has_predicate(["PIER 21 IS RED".split()])
    True
    """
    is_in_capitals = " ".join(chain.from_iterable(phrases)).isupper()
    return any(
        find_verb(phrase, begins_sentence=index == 0, is_in_capitals=is_in_capitals) is not None
        for index, phrase in enumerate(phrases)
    )


def find_verb(written_words: Sequence[str], *, begins_sentence: bool, is_in_capitals: bool = False) -> int | None:
    """Return the index of the first word that can be the verb of the predicate of a phrase, or None.

    ``begins_sentence`` is True for the first phrase of a sentence. If the whole sentence ``is_in_capitals``,
    capitalized words can be verbs. The verb of a relative clause, and a participle at the beginning of a later phrase,
    are not predicates.

    >>> find_verb("the choir of Rome has forty singers".split(), begins_sentence=True)
    4
    """
    num_relative_pronouns = 0  # those whose verb has not come yet
    words = [word.lower() for word in written_words]
    for position, (previous_word, word, next_word, written_word) in enumerate(
        zip(["", *words], words, [*words[1:], ""], written_words, strict=False)
    ):
        begins_phrase = position == 0
        if written_word[0].isupper() and not begins_phrase and not is_in_capitals:
            continue
        if begins_phrase and not begins_sentence and is_participle(word, next_word):
            continue
        if word in RELATIVE_PRONOUNS and not (begins_phrase and begins_sentence):
            num_relative_pronouns += 1
        elif previous_word not in AUXILIARIES and _is_verb(word, previous_word, next_word):
            if not num_relative_pronouns:  # else it is the verb of a relative clause
                return position
            num_relative_pronouns -= 1
    return None


def is_participle(word: str, next_word: str) -> bool:
    """True if the first word of a phrase is a participle, as in "founded by Carl" and "born 2 May".

    ``next_word`` is the word after it.
    """
    return word in _PARTICIPLES or (word.endswith(_PAST_ENDINGS) and next_word in PREPOSITIONS)


def _is_verb(word: str, previous_word: str, next_word: str) -> bool:
    """True if a word of a sentence can be its finite verb.

    All words are in lower case; the previous and the next word are empty at a comma or an end of the sentence.
    """
    is_short_form = word == "s" and previous_word in _BE_SUBJECTS  # as in "he's"
    if word in AUXILIARIES or previous_word in _SUBJECT_PRONOUNS or is_short_form:
        return True
    if previous_word in _NOUN_SIGNS or word.endswith("ing"):
        return False
    part_of_speech = get_part_of_speech(word)  # None for a rare word
    if word in IRREGULAR_VERBS or word.endswith("ed") or part_of_speech == VERB:
        return True
    if part_of_speech is None and word.endswith("s") and get_part_of_speech(previous_word) != ADJECTIVE:
        return True  # as in "he audits"
    # Other words can be verbs too, as in "he exercises the power" and "beekeepers open the hive".
    # Subject and verb agree: one of them ends in s.
    has_object = word not in FUNCTION_WORDS and next_word in _OBJECT_SIGNS
    return has_object and word.endswith("s") != previous_word.endswith("s")


def is_adverb(word: str) -> bool:
    """True if a word ends in "ly", is in lower case, and is not a known noun, adjective or verb."""
    can_be_adverb = get_part_of_speech(word) in (None, OTHER) and word not in _RARE_NOUNS_IN_LY
    return word.islower() and word.endswith("ly") and can_be_adverb


def is_past_form(word: str) -> bool:
    """True if a word in lower case is a past tense or participle: by its ending, or because it is listed as one."""
    has_ending = len(word) > 4 and word.endswith("ed")  # not "need" or "bed"
    return has_ending or word in IRREGULAR_VERBS or word in LINKING_PARTICIPLES


def is_common_verb(word: str) -> bool:
    """True if a word is in lower case, and is a common verb or a past form, not a preposition such as "including"."""
    is_verb = word in BE_WORDS or get_part_of_speech(word) == VERB or is_past_form(word)
    return is_verb and word.islower() and word not in PREPOSITIONS_IN_ING


def has_verb_form(words: Sequence[str], nouns: Set[str]) -> bool:
    """True if one of the ``words`` is an irregular verb, or has the ending of a verb.

    A word with the ending of the present, such as "mills", does not count if it is in ``nouns``.
    """
    if any(word in IRREGULAR_VERBS or word in LINKING_PARTICIPLES or word.endswith(_PAST_ENDINGS) for word in words):
        return True
    return any(word.endswith(_PRESENT_ENDINGS) and word not in nouns for word in words)
