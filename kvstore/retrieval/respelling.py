"""Replaces unknown words of a question: typing errors, and British or American spellings that no document uses. A word
is *unknown* if no chunk has it in any form (with the same stem). A *correction* is a word that differs by one typing
error; a *variant* is the other spelling (colour, color).

In: a question and a state. Out: the question to search for, and the replacements. In languages other than English,
unknown words are replaced by other forms of them, or without their typing error (:mod:`.foreign_respelling`), and
German nouns by compounds or their parts (:mod:`.compounds`). Dates get the form that documents use
(:mod:`.date_forms`), and so do English numbers, acronyms and other terms (:mod:`.word_forms`). English contractions get
their apostrophe ("whos").

*Spellings.* A word is replaced by its other spelling if a chunk contains that.

*Question words.* If the first word is not English, it is replaced by the question word with one letter that is missing
or added, or with two letters in another order ("wich", "waht").

*Typing errors.* A word that is not known to be English is replaced by the known word that was probably meant. A
correction differs by one letter that is missing, added or wrong, or by two letters in the wrong order. Both begin with
the same letter. Unless the order of letters is wrong, they also end with the same letter, because another end usually
makes a different form of a word ("router", "route"). The frequent words of English are those in the vocabulary of the
default embedder. Of 568 random errors in the words of the questions about six folders, 497 are corrected, and 12 become
a wrong word. With one error in each of 163 questions, the first sentence answers 128 instead of 89 of them, and 133
without errors. Source: Damerau, "A technique for computer detection and correction of spelling errors", CACM 1964.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from string import ascii_lowercase

from ..structures.state import State
from ..text.everyday_words import is_everyday
from ..text.languages import detect_question_language, get_main_language, open_question_stemmer
from ..text.patterns import compile_lazily
from ..text.words import FUNCTION_WORDS, MULTILINGUAL, WORD_PATTERN, is_unspaced, list_stemmed_languages
from .lexical_search import count_chunks_with_words
from .word_forms import (
    find_abbreviation_replacements,
    find_form_replacements,
    is_english,
    list_similar_words,
    load_english_vocabulary,
)

#: Words that may be replaced. Capitalized words are excluded: they may be names, which have one spelling.
_SPELLED_WORD_PATTERN = compile_lazily(r"(?<![^\W_])[a-z]{4,}(?![^\W_])")
#: Contractions without an apostrophe that are no other words. "Cant" and "wont" are rare words.
_CONTRACTION_PATTERN = compile_lazily(
    r"(?<![\w-])((?:who|what|when|where|why|how|that|there|here)(?=s)|(?:do|does|did|is|are|was|were|has|have|had|ca|wo"
    r"|could|should|would)n(?=t))([st])(?![\w'’-])",
    re.IGNORECASE,
)
#: Words that ask, and the first word of a question, which can be one of them with an error.
_QUESTION_WORDS = "what when where which who whose why how does".split()
_FIRST_WORD_PATTERN = compile_lazily(r"\W*([A-Za-z]{2,6})(?![\w'’-])")
_DIGIT_PATTERN = re.compile(r"\d")
_VERB_ENDINGS = "(?=(?:e|ed|er|ers|es|ing|ation|ations|ational|able)$)"
_NOUN_ENDINGS = "(?=(?:ed|ing|s|ful|able|ably|ite|ites|hood|hoods|less|al|ally|er|ers)?$)"
#: Pairs of a pattern in one spelling and its replacement in the other.
_SPELLING_RULES = (
    (f"(?<=...)is{_VERB_ENDINGS}", "iz"), (f"(?<=...)iz{_VERB_ENDINGS}", "is"), (f"(?<=..)ys{_VERB_ENDINGS}", "yz"),
    (f"(?<=..)yz{_VERB_ENDINGS}", "ys"), (f"(?<=...)our{_NOUN_ENDINGS}", "or"), (f"(?<=...)or{_NOUN_ENDINGS}", "our"),
    ("(?<=[tb])re(?=s?$)", "er"), ("(?<=[tb])er(?=s?$)", "re"), ("(?<=t)red$", "ered"), ("(?<=t)ered$", "red"),
    ("(?<=...)nce(?=[ds]?$)", "nse"), ("(?<=...)nse(?=[ds]?$)", "nce"), ("ogue(?=s?$)", "og"), ("og(?=s?$)", "ogue"),
    ("(?<=.)[ao]e(?=...)", "e"), ("(?<=program)me(?=s?$)", ""), ("(?<=program)(?=s?$)", "me"), ("(?<=alumin)i", ""),
    ("(?<=alumin)(?=um)", "i"), ("gement", "gment"), ("gment", "gement"), ("(?<=art)e(?=fact)", "i"),
    ("(?<=art)i(?=fact)", "e"), ("sulph", "sulf"), ("sulf", "sulph"), ("(?<=fulfi)l(?!l)", "ll"), ("(?<=fulfi)ll", "l"),
)  # fmt: skip
#: A prefilter: every word that has another spelling matches it.
_VARIANT_PATTERN = compile_lazily(
    "[iy][sz]|our?|or|[tb]e?re?|n[cs]e|og|[ao]e|program|alumin|ge?ment|art[ei]fact|sul(?:ph|f)|fulfil"
)
#: Words that can contain an error, without capitalized words, identifiers and parts of paths, which may be names.
_TYPED_WORD_PATTERN = compile_lazily(r"(?<![\w./@=-])[a-z]{4,}(?![\w/@=-]|\.\w)")
#: The minimum length of a correction, and of a word whose correction need not be frequent: few other words are like it.
_MIN_CORRECTION, _MIN_LONG_WORD = 5, 8
#: The maximum number of characters of a question whose words are respelled. A longer one has pasted lines, in which
#: many words are unknown, and each takes about 3 ms.
_MAX_LENGTH = 1_000


def respell_question(question: str, state: State) -> tuple[str, list[tuple[str, str]]]:
    """Return a question whose unknown words are replaced by words in chunks, and pairs of old and new words.

    The replacement is the other spelling (British or American), a correction, or another form of the word. German nouns
    are replaced by their parts or by compounds, and dates by the form in which documents write them.
    """
    stemmer = state.settings.stemmer.lower()
    stem = open_question_stemmer(question, stemmer, state.counters.languages)
    if stemmer == MULTILINGUAL:
        stemmer = detect_question_language(question, state.main_language) or "none"
    if _DIGIT_PATTERN.search(question) is None:
        return _respell_words(question, state, stem, stemmer)
    from .date_forms import find_date_replacements

    dates = find_date_replacements(question, state, stem, detect_question_language(question, state.main_language))
    for written_date, replacement in dates.items():
        question = question.replace(written_date, replacement)
    respelled_question, replacements = _respell_words(question, state, stem, stemmer)
    return respelled_question, [*dates.items(), *replacements]


def _respell_words(
    question: str, state: State, stem: Callable[[str], str], stemmer: str
) -> tuple[str, list[tuple[str, str]]]:
    """Return a question whose unknown words, except dates, are replaced, and pairs of old and new words.

    ``stem`` is the stemming function for the question, and ``stemmer`` its name, such as ``english``. A question of
    more than ``_MAX_LENGTH`` characters is not changed.
    """
    if len(question) > _MAX_LENGTH:
        return question, []
    if stemmer != "english":
        replacements = _find_foreign_replacements(question, state, stem, stemmer)
        replaced_question = WORD_PATTERN.sub(lambda match: replacements.get(match.group(), match.group()), question)
        return replaced_question, list(replacements.items())
    # Contractions that lack the apostrophe: "whos", "dont".
    replacements = {match.group(): f"{match[1]}'{match[2]}" for match in _CONTRACTION_PATTERN.finditer(question)}
    question = _replace_words(question, replacements)
    all_replacements = list(replacements.items())
    for find_replacements in (
        _find_question_word,
        find_form_replacements,
        _find_spellings,
        _find_corrections,
        find_abbreviation_replacements,
    ):
        replacements = find_replacements(question, state, stem)
        question = _replace_words(question, replacements)
        all_replacements += replacements.items()
    return question, all_replacements


def _replace_words(question: str, replacements: Mapping[str, str]) -> str:
    """Return a question with the words or phrases that are keys of ``replacements`` replaced by their values.

    If two overlap, the longer one is replaced. Parts of paths, identifiers and longer numbers are not replaced.
    """
    if not replacements:
        return question
    alternatives = "|".join(re.escape(words) for words in sorted(replacements, key=len, reverse=True))
    pattern = rf"(?<![\w/@=])(?<!\w[.,:])(?:{alternatives})(?![\w/@=%]|[.,:]\w)"
    return re.sub(pattern, lambda match: replacements[match.group()], question)


def _find_question_word(question: str, state: State, stem: Callable[[str], str]) -> dict[str, str]:
    """Map the first word of a question to the question word that it misspells ("wich": "which").

    A word that chunks contain is not replaced. The result is empty if several question words are possible.
    """
    match = _FIRST_WORD_PATTERN.match(question)
    word = match[1].lower() if match else ""
    meant_words = [question_word for question_word in _QUESTION_WORDS if _has_typing_error(word, question_word)]
    if match is None or len(meant_words) != 1 or is_english(word) or count_chunks_with_words([word], state, stem)[word]:
        return {}
    return {match[1]: meant_words[0].capitalize() if match[1][0].isupper() else meant_words[0]}


def _has_typing_error(word: str, meant_word: str) -> bool:
    """True if a word lacks one letter of ``meant_word``, has one more, or has two neighboring letters swapped.

    >>> [_has_typing_error(word, "which") for word in ("wich", "whiich", "whihc", "which", "winch")]
    [True, True, True, False, False]
    """
    shorter, longer = sorted((word, meant_word), key=len)
    if len(shorter) == len(longer):
        swaps = (f"{word[:index]}{word[index + 1]}{word[index]}{word[index + 2 :]}" for index in range(len(word) - 1))
        return word != meant_word and meant_word in swaps
    return any(f"{longer[:index]}{longer[index + 1 :]}" == shorter for index in range(len(longer)))


def _find_foreign_replacements(question: str, state: State, stem: Callable[[str], str], stemmer: str) -> dict[str, str]:
    """Map the unknown words of a question in a language other than English to the known words to search for.

    The result is empty if ``stemmer`` is not the name of a Snowball stemmer, or if the language has no spaces between
    words.
    """
    language = get_main_language(stemmer, {})
    if language is None or stemmer not in list_stemmed_languages() or is_unspaced(question):
        return {}
    from .foreign_respelling import find_foreign_replacements

    replacements = find_foreign_replacements(question, language, state, stem)
    if language == "german":
        from .compounds import find_compound_replacements

        replacements |= find_compound_replacements(question, state, stem)
    return replacements


def _find_spellings(question: str, state: State, stem: Callable[[str], str]) -> dict[str, str]:
    """Map the unknown words of an English question to their variant, the British or American spelling that chunks have.

    If there are several, the variant in the most chunks is used. Words without one are omitted.
    """
    terms = {word: stem(word) for word in _SPELLED_WORD_PATTERN.findall(question) if _VARIANT_PATTERN.search(word)}
    counts = state.postings.count_chunks_by_term(list(dict.fromkeys(terms.values())))
    variants_by_word = {word: _list_variants(word) for word, term in terms.items() if not counts[term]}
    variant_terms = {variant: stem(variant) for variants in variants_by_word.values() for variant in variants}
    if not variant_terms:
        return {}
    variant_counts = state.postings.count_chunks_by_term(list(dict.fromkeys(variant_terms.values())))
    replacements: dict[str, str] = {}
    for word, variants in variants_by_word.items():
        known_variants = [variant for variant in variants if variant_counts[variant_terms[variant]]]
        if known_variants:
            replacements[word] = max(
                known_variants, key=lambda variant: (variant_counts[variant_terms[variant]], variant)
            )
    return replacements


@lru_cache(maxsize=1024)
def _list_variants(word: str) -> list[str]:
    """Return the other spellings of a word, such as "colour" for "color"; cached."""
    variants = (re.sub(pattern, replacement, word) for pattern, replacement in _SPELLING_RULES)
    return [variant for variant in variants if variant != word]


def _find_corrections(question: str, state: State, stem: Callable[[str], str]) -> dict[str, str]:
    """Map the misspelled words of an English question to their most probable corrections, if they have any.

    ``stem`` is the stemming function for the question. A correction occurs in chunks in some form, or is an everyday
    word. Frequent English words are preferred, and then the correction in the most chunks.
    """
    words = list(dict.fromkeys(_TYPED_WORD_PATTERN.findall(question)))
    counts = count_chunks_with_words(words, state, stem)
    corrections = {}
    # Chunks have nearly all words, so few questions need the vocabulary of English.
    for word in (word for word in words if not counts[word] and not is_english(word)):
        candidates = _list_candidates(word)
        candidate_counts = count_chunks_with_words(candidates, state, stem)
        known_words = [candidate for candidate in candidates if candidate_counts[candidate] or is_everyday(candidate)]
        if known_words:
            corrections[word] = max(
                known_words,
                key=lambda candidate: (candidate in load_english_vocabulary(), candidate_counts[candidate], candidate),
            )
    return corrections


@lru_cache(maxsize=1024)
def _list_candidates(word: str) -> list[str]:
    """Return the possible corrections of a word, which differ by one typing error after its first letter; cached.

    The corrections of a short word are frequent words of English; those of a long one need not be words. Function words
    are omitted, because searches ignore them.

    >>> _list_candidates("huose"), _list_candidates("houser")
    (['house'], [])
    """
    is_long = len(word) >= _MIN_LONG_WORD
    return [
        candidate
        for candidate in list_similar_words(word, ascii_lowercase)
        if len(candidate) >= _MIN_CORRECTION
        and (is_long or candidate in load_english_vocabulary())
        and candidate not in FUNCTION_WORDS
    ]
