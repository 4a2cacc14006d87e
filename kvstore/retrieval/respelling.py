"""British and American spelling: replace a question's unknown word by its other spelling if documents use that.

In: a question and a state. Out: the question to search for, and the replacements. A word is replaced only if no chunk
has it in any form and some chunk has the other spelling. Typing errors are corrected too (:mod:`.typing_errors`). In a
store of German words, compounds are replaced instead (:mod:`.compounds`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from ..structures.state import State
from ..text.languages import detect_question_language, open_question_stemmer
from ..text.patterns import compile_lazily
from ..text.words import MULTILINGUAL
from .typing_errors import find_corrections

#: Words that may have another spelling. Capitalized words are excluded: they may be names, which have one spelling.
_WORD_PATTERN = compile_lazily(r"(?<![^\W_])[a-z]{5,}(?![^\W_])")
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


def respell_question(question: str, state: State) -> tuple[str, list[tuple[str, str]]]:
    """Return a question with unknown words in another spelling (British or American), and the replacements.

    Words that no chunk has are replaced if chunks have the other spelling, or if they are typing errors. A replacement
    is a pair of the word and the new word. In German, nouns are replaced by their parts or by compounds. The question
    is unchanged if the stemmer for it is for neither English nor German.
    """
    stemmer = state.settings.stemmer.lower()
    stem = open_question_stemmer(question, stemmer, state.counters.languages)
    if stemmer == MULTILINGUAL:
        stemmer = detect_question_language(question, state.main_language) or "none"
    if stemmer == "german":
        from .compounds import find_compound_replacements

        compounds = find_compound_replacements(question, state, stem)
        respelled = re.sub(r"\w+", lambda match: compounds.get(match.group(), match.group()), question)
        return respelled, list(compounds.items())
    if stemmer != "english":
        return question, []
    replacements = find_corrections(question, state, stem) | _find_spellings(question, state, stem)
    if not replacements:
        return question, []
    respelled = _WORD_PATTERN.sub(lambda match: replacements.get(match.group(), match.group()), question)
    return respelled, list(replacements.items())


def _find_spellings(question: str, state: State, stem: Callable[[str], str]) -> dict[str, str]:
    """Return the words of an English question that no chunk has, each with its most frequent other spelling.

    A word without a spelling that occurs in chunks is omitted.
    """
    terms = {word: stem(word) for word in _WORD_PATTERN.findall(question) if _VARIANT_PATTERN.search(word)}
    counts = state.postings.count_chunks_by_term(list(dict.fromkeys(terms.values())))
    variants_by_word = {word: _list_variants(word) for word, term in terms.items() if not counts[term]}
    variant_terms = {variant: stem(variant) for spellings in variants_by_word.values() for variant in spellings}
    if not variant_terms:
        return {}
    variant_counts = state.postings.count_chunks_by_term(list(dict.fromkeys(variant_terms.values())))
    replacements: dict[str, str] = {}
    for word, spellings in variants_by_word.items():
        known_variants = [variant for variant in spellings if variant_counts[variant_terms[variant]]]
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
