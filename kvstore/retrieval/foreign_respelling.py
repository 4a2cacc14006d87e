"""Replaces unknown words of a question in a language other than English. A word is *unknown* if no chunk has it in any
form (with the same stem). A *correction* differs by one typing error. A *compound* is one word for several
(*sjukanmäla*), of a *modifier* and a *head*.

In: a question, its language and a state. Out: the unknown words, with their replacements, which occur in chunks. There
are three kinds:

- Another form of the word that has another stem, because the stemmer of the language does not know the endings
  (Swedish *rektor*, *rektorn*; Portuguese *inscrição*, *inscrições*; Italian *apre*, *apertura*), or the *ge-* of
  German participles (*gegründet*, *gründeten*).
- In Germanic languages, the parts of a compound in lower case (*sjukanmäla* becomes *sjuk-anmäla*), or the compound of
  another word of the question and the word (*hyra* becomes *kajakhyra* in a question with *kajak*).
- The word without a typing error: one letter is missing, added or wrong, or two letters are in the wrong order. The
  vocabulary of these languages is unknown, so only long words are corrected. Their first and last letters are kept, as
  in :mod:`.respelling`. A capitalized word can be a name, except in a language that capitalizes nouns (German): there,
  it is corrected if it is long and no letter is wrong.

The forms of words are compared without accents.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from string import ascii_lowercase

from ..structures.state import State
from ..text.function_words import FUNCTION_WORDS_BY_LANGUAGE
from ..text.languages import capitalizes_nouns
from ..text.normalize import fold_text
from ..text.patterns import compile_lazily
from .compounds import MIN_PART, divide_compound, find_compound
from .lexical_search import count_chunks_with_words
from .word_forms import list_similar_words

#: Words, without identifiers or parts of paths.
_WORD_PATTERN = compile_lazily(r"(?<![\w./@=-])[^\W\d_]{3,}(?![\w/@=-]|\.\w)")
_CYRILLIC_LETTERS = "абвгдежзийклмнопрстуфхцчшщъыьэюя"
_VOWELS = frozenset("aeiouyаеиоуыэюя")
#: The minimum length of a word with two letters in the wrong order, with a wrong vowel, and with another typing error.
_MIN_SWAPPED, _MIN_OTHER_VOWEL, _MIN_CORRECTED = 6, 7, 9
#: The minimum length of the stem of a correction of swapped letters, of a missing or added letter (_MIN_ADDED_STEM),
#: and of a wrong letter.
_MIN_SWAPPED_STEM, _MIN_ADDED_STEM, _MIN_WRONG_STEM = 4, 6, 7
#: The same for a wrong vowel, which is a frequent error: unstressed vowels often sound alike.
_MIN_OTHER_VOWEL_STEM = 5
#: Pairs of endings, without accents, that two forms of one word have: a plural, or the noun of a verb that rules and
#: tables use instead (Italian *apre*, *apertura*).
_ENDINGS = {
    "german": (("ffnet", "ffnungszeiten"), ("ffnet", "ffnung")),
    "portuguese": (
        ("cao", "coes"), ("ao", "oes"), ("ao", "aes"), ("al", "ais"), ("el", "eis"), ("il", "is"), ("m", "ns"),
        ("bre", "berto"), ("bre", "bertura"),
    ),
    "spanish": (
        ("z", "ces"), ("bre", "bierto"), ("bre", "pertura"), ("bren", "pertura"), ("ierra", "errado"),
        ("ierra", "ierre"),
    ),
    "french": (("ail", "aux"), ("al", "aux"), ("uvre", "uvert"), ("uvre", "uverture"), ("uvrent", "uverture")),
    "italian": (
        ("pre", "perto"), ("pre", "pertura"), ("prono", "pertura"), ("ude", "uso"), ("ude", "usura"), ("ende", "eso"),
        ("erde", "erso"),
    ),
    "swedish": (("a", "an"), ("", "n"), ("", "et"), ("e", "et"), ("", "en"), ("", "arna"), ("", "erna")),
    "danish": (("e", "en"), ("e", "et"), ("", "et"), ("", "en")),
    "norwegian": (("e", "en"), ("e", "et"), ("", "et"), ("", "en"), ("e", "a")),
}  # fmt: skip
#: Languages that write compounds as one word.
_COMPOUNDING_LANGUAGES = frozenset(("swedish", "danish", "norwegian", "dutch", "german"))
#: Endings of German verb forms, longest first, each with the ending of the participle, and the minimum length of the
#: rest. The participle of other forms, such as *bietet* and *bieten*, would often have the stem of a noun (*Gebiet*).
_VERB_ENDINGS = {"eten": "et", "ete": "et", "ten": "", "te": "t", "en": "t", "et": "", "e": "t", "t": "t"}
_MIN_VERB_BASE = 3


def find_foreign_replacements(question: str, language: str, state: State, stem: Callable[[str], str]) -> dict[str, str]:
    """Return the unknown words of a question, each with its replacement, in lower case and without accents.

    ``language`` is the question's language, and ``stem`` the stemming function for it. Function words and words without
    a replacement are omitted. Other forms are preferred, then the parts of a compound, then the compound of the word
    and another word of the question, and then corrections. A word with a capital letter is replaced only if it is a
    long German noun, and only by a correction with a capital.
    """
    function_words = FUNCTION_WORDS_BY_LANGUAGE.get(language, frozenset())
    folded_words = {
        word: folded
        for word in dict.fromkeys(_WORD_PATTERN.findall(question))
        if (word.islower() or _is_long_noun(word, language)) and (folded := fold_text(word)) not in function_words
    }
    counts = count_chunks_with_words(list(folded_words.values()), state, stem)
    replacements: dict[str, str] = {}
    for word, folded in folded_words.items():
        if counts[folded]:
            continue
        if not word.islower():
            corrections = _list_corrections(folded, stem)
            correction = _find_most_frequent(
                [noun for noun in corrections if _is_likely_same_noun(folded, noun, stem)], state, stem
            )
            if correction is not None:
                replacements[word] = correction.capitalize()
            continue
        other_words = [other for other in folded_words.values() if other != folded]
        for candidates in _iter_candidate_lists(folded, other_words, language, state, stem):
            candidate = _find_most_frequent(candidates, state, stem)
            if candidate is not None and candidate not in function_words:
                replacements[word] = candidate
                break
    return replacements


def _iter_candidate_lists(
    word: str, other_words: list[str], language: str, state: State, stem: Callable[[str], str]
) -> Iterator[Iterable[str]]:
    """Yield the lists of words that can replace an unknown word, the most likely list first; each is computed lazily.

    ``other_words`` are the other words of the question, with which the word can form a compound.
    """
    yield _list_forms(word, language)
    if language in _COMPOUNDING_LANGUAGES:
        parts = divide_compound(word, state, stem)
        if parts is not None:
            yield ["-".join(parts)]
        compound = find_compound(word, other_words, state, stem)
        if compound is not None:
            yield [compound]
    yield _list_corrections(word, stem)


def _is_long_noun(word: str, language: str) -> bool:
    """True if a word can be a noun that is long enough to be corrected, in a language that capitalizes nouns."""
    return capitalizes_nouns(language) and len(word) >= _MIN_CORRECTED and word[0].isupper() and word[1:].islower()


def _is_likely_same_noun(noun: str, correction: str, stem: Callable[[str], str]) -> bool:
    """True if a misspelled German noun and its ``correction``, which must have a long stem, are likely the same noun.

    If one letter differs, the correction is often another noun (*Abrechnung*, *Anrechnung*) or a name. If it begins
    with the stem of ``noun`` and ends with its ending, it is another form of it, with letters between them.
    """
    noun_stem = stem(noun)
    has_other_letter = len(noun) == len(correction) and sorted(noun) != sorted(correction)
    ending = noun.removeprefix(noun_stem)
    is_other_form = ending != "" and correction.startswith(noun_stem) and correction.endswith(ending)
    return not (has_other_letter or is_other_form) and len(stem(correction)) >= _MIN_WRONG_STEM


def _find_most_frequent(candidates: Iterable[str], state: State, stem: Callable[[str], str]) -> str | None:
    """Return the candidate in the most chunks, or None if no chunk contains any.

    A candidate with a hyphen is a divided compound. Its parts occur in chunks, so it counts as if in one chunk.
    """
    candidates = list(candidates)
    counts = count_chunks_with_words([candidate for candidate in candidates if "-" not in candidate], state, stem)
    best = max(candidates, key=lambda candidate: (counts.get(candidate, 1), candidate), default=None)
    return None if best is None or not counts.get(best, 1) else best


def _list_corrections(word: str, stem: Callable[[str], str]) -> list[str]:
    """Return the plausible corrections of a word: words that differ by one typing error after the first letter.

    The word and the stem of the correction need a minimum length, which depends on the kind of error. Short stems match
    unrelated words: Dutch *leedingen* has the stem of *leden*. A word in neither ASCII nor Cyrillic letters has no
    corrections.
    """
    is_cyrillic = re.search("[а-я]", word) is not None
    if len(word) < _MIN_SWAPPED or not (is_cyrillic or word.isascii()):
        return []
    corrections = []
    for correction in list_similar_words(word, _CYRILLIC_LETTERS if is_cyrillic else ascii_lowercase):
        if sorted(word) == sorted(correction):  # swapped letters
            min_length, min_stem = _MIN_SWAPPED, _MIN_SWAPPED_STEM
        elif len(word) != len(correction):  # a missing or added letter
            min_length, min_stem = _MIN_CORRECTED, _MIN_ADDED_STEM
        # A wrong vowel instead of another vowel.
        elif _VOWELS.issuperset(*(pair for pair in zip(word, correction, strict=True) if pair[0] != pair[1])):
            min_length, min_stem = _MIN_OTHER_VOWEL, _MIN_OTHER_VOWEL_STEM
        else:  # another wrong letter
            min_length, min_stem = _MIN_CORRECTED, _MIN_WRONG_STEM
        if len(word) >= min_length and len(stem(correction)) >= min_stem:
            corrections.append(correction)
    return corrections


@lru_cache(maxsize=1024)
def _list_forms(word: str, language: str) -> list[str]:
    """Return other forms of a word, such as its plural, by exchanging its ending (``_ENDINGS``). The result is cached.

    The stemmer of the language gives these forms different stems. The word must be longer than the ending, by
    ``MIN_PART`` letters if one of the two endings is a single letter or empty. German has those of
    :func:`_list_verb_forms` too.

    >>> _list_forms("inscricoes", "portuguese"), _list_forms("rektor", "swedish")[:2]
    (['inscricao'], ['rektorn', 'rektoret'])
    >>> _list_forms("gegrundet", "german"), _list_forms("kaufte", "german")
    (['grundet'], ['gekauft'])
    """
    forms = dict.fromkeys(_list_verb_forms(word) if language == "german" else ())
    for endings in _ENDINGS.get(language, ()):
        for ending, other in (endings, endings[::-1]):
            min_length = len(ending) + (1 if min(map(len, endings)) > 1 else MIN_PART)
            if word.endswith(ending) and len(word) >= min_length:
                forms[word.removesuffix(ending) + other] = None
    return list(forms)


def _list_verb_forms(word: str) -> list[str]:
    """Return a German participle without its *ge-*, or the participle of another form of a weak verb, as a list.

    The list is empty if the word cannot be such a form.
    """
    if word.startswith("ge") and word.endswith(("t", "en")):
        rest = word.removeprefix("ge")
        return [rest] if len(rest) >= MIN_PART else []
    for ending, participle_ending in _VERB_ENDINGS.items():
        if word.endswith(ending):
            base = word.removesuffix(ending)
            return [f"ge{base}{participle_ending}"] if participle_ending and len(base) >= _MIN_VERB_BASE else []
    return []
