"""German compounds: replaces an unknown noun of a question with its parts, or with a compound that documents contain.
The *modifier* is the first part, the *head* the last (*Bücherei-Ausweis*). A *linking element* (*s*, *en*) can join
them. A noun is *unknown* if no chunk has it.

In: a question and a state. Out: the unknown nouns, with their replacements. *Büchereiausweis* becomes
*Bücherei-Ausweis* if chunks contain both words or the head, which says what kind of thing it is. *Frist* becomes
*Kündigungsfrist* in a question about the "Frist der Kündigung" if chunks contain only the compound, and *Beitritt* the
stem of *Beitrittserklärung* if chunks contain this compound and its head. The dictionary consists of the terms of the
store.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import chain

from ..structures.state import State
from ..text.normalize import fold_text
from ..text.patterns import compile_lazily
from ..text.words import get_function_words
from .lexical_search import count_chunks_with_words, list_stems

_FEMININE_ENDINGS = ("in", "innen")
_NOUN_PATTERN = compile_lazily(r"(?<![\w-])[A-ZÄÖÜ][a-zäöüß]{2,}(?![\w-])")
#: The linking elements: letters that can join the parts of a compound; the empty string if nothing does.
_LINKS = ("", "s", "es", "n", "en", "er", "e")
#: The minimum length of a part, and of the last part (head) if the first (modifier) is unknown.
MIN_PART, _MIN_LONE_HEAD = 4, 5
#: The maximum number of terms that begin with an unknown noun and are examined, and the minimum length of the stem of
#: their head: a short one is often the end of another word (*Schrift*, *Schriftsteller*).
_MAX_COMPOUNDS, _MIN_HEAD_STEM = 32, 6


def find_compound_replacements(question: str, state: State, stem: Callable[[str], str]) -> dict[str, str]:
    """Return the nouns of a German question that no chunk contains, each with its replacement.

    ``stem`` is the stemming function for the question. A noun without a replacement is omitted.
    """
    nouns = list(dict.fromkeys(_NOUN_PATTERN.findall(question)))
    counts = count_chunks_with_words(list(map(fold_text, nouns)), state, stem)
    unknown_nouns = [noun for noun in nouns if not counts[fold_text(noun)]]
    replacements: dict[str, str] = {}
    for noun in unknown_nouns:
        other_nouns = [other_noun for other_noun in nouns if other_noun != noun]
        replacement = (
            find_compound(noun, other_nouns, state, stem)
            or _split_compound(noun, state, stem)
            or _find_longer_compound(noun, state, stem)
        )
        if replacement is not None:
            replacements[noun] = replacement
    return replacements


def find_compound(noun: str, other_nouns: list[str], state: State, stem: Callable[[str], str]) -> str | None:
    """Return a compound of one of ``other_nouns`` and ``noun``, such as *Kündigungsfrist* for *Frist*, or None.

    ``other_nouns`` are the other nouns in the question. A linking element such as *s* can join the two. The compound in
    the most chunks is returned, or None if no chunk contains any.
    """
    compounds = [f"{other_noun}{link}{noun.lower()}" for other_noun in other_nouns for link in _LINKS]
    # Ignore stems that cut off the whole second noun: the Romanian stemmer removes *auto* as if it were an ending.
    terms = {
        compound: [term for term in list_stems(fold_text(compound), stem) if len(term) > len(compound) - len(noun)]
        for compound in compounds
    }
    counts = state.postings.count_chunks_by_term(list(dict.fromkeys(chain.from_iterable(terms.values()))))
    totals = {compound: sum(counts[term] for term in compound_terms) for compound, compound_terms in terms.items()}
    best = max(compounds, key=lambda compound: totals[compound], default=None)  # None if there are no other nouns
    return None if best is None or not totals[best] else best


def _split_compound(noun: str, state: State, stem: Callable[[str], str]) -> str | None:
    """Return a compound with a hyphen between its modifier and its head, such as *Bücherei-Ausweis*, or None.

    Without a known modifier, a short head is ignored, because it is likely the end of another word.
    """
    parts = divide_compound(noun, state, stem, min_lone_head=_MIN_LONE_HEAD)
    return None if parts is None else f"{parts[0]}-{parts[1].capitalize()}"


def divide_compound(
    word: str, state: State, stem: Callable[[str], str], min_lone_head: float = math.inf
) -> tuple[str, str] | None:
    """Return the best division of a compound into modifier and head, or None.

    The head must be known; the modifier too, unless the head has at least ``min_lone_head`` letters (a *lone head*). A
    division with a known modifier is preferred, and then the longest head. A modifier is known with or without the
    linking element at its end.
    """
    divisions = [(word[:end], word[end:]) for end in range(MIN_PART, len(word) - MIN_PART + 1)]
    modifier_forms = {
        modifier: [
            fold_text(modifier.removesuffix(link))
            for link in _LINKS  # the empty one gives the modifier itself
            if modifier.endswith(link) and len(modifier) - len(link) >= MIN_PART
        ]
        for modifier, _ in divisions
    }
    words = [*(fold_text(head) for _, head in divisions), *chain.from_iterable(modifier_forms.values())]
    counts = count_chunks_with_words(words, state, stem)
    # A lone head must not begin inside a known modifier: not "derzeitung" in "Mitglieder|zeitung".
    known_ends = [len(modifier) for modifier, forms in modifier_forms.items() if any(map(counts.__getitem__, forms))]
    known_divisions: list[tuple[bool, int, tuple[str, str]]] = []  # the best one is the greatest
    for modifier, head in divisions:
        is_modifier_known = any(counts[form] for form in modifier_forms[modifier])
        is_lone_head = len(head) >= min_lone_head and len(modifier) >= max(known_ends, default=0)
        if counts[fold_text(head)] and (is_modifier_known or is_lone_head) and not _is_ending(head, stem):
            known_divisions.append((is_modifier_known, len(head), (modifier, head)))
    _, _, best_division = max(known_divisions, default=(False, 0, None))
    return best_division


def _is_ending(head: str, stem: Callable[[str], str]) -> bool:
    """True if a head is a feminine ending after another word: *isterin*, whose stem is *ist*, in *Bürgermeisterin*."""
    return head.endswith(_FEMININE_ENDINGS) and stem(fold_text(head)) in get_function_words("german")


def _find_longer_compound(noun: str, state: State, stem: Callable[[str], str]) -> str | None:
    """Return the stem of a compound whose modifier is ``noun``, such as *Beitrittserklärung* for *Beitritt*, or None.

    A linking element such as *s* can follow the noun. The head must also occur in chunks by itself, because other words
    can begin with the letters of the noun. If there are several compounds, the one in the most chunks is returned.
    """
    modifier = fold_text(noun)
    if len(modifier) < MIN_PART:
        return None
    head_terms: dict[str, list[str]] = {}  # by compound; which linking element it has is unknown
    for compound in state.postings.list_terms_with_prefix(modifier, _MAX_COMPOUNDS):
        heads = (compound[len(modifier) + len(link) :] for link in _LINKS if compound.startswith(modifier + link))
        if stem(compound) == compound:  # the question is stemmed again
            head_terms[compound] = [stem(head) for head in heads if len(head) >= _MIN_HEAD_STEM]
    terms = [*head_terms, *(term for terms in head_terms.values() for term in terms)]
    counts = state.postings.count_chunks_by_term(list(dict.fromkeys(terms)))
    compounds = [compound for compound, terms in head_terms.items() if any(counts[term] for term in terms)]
    return max(compounds, key=lambda compound: (counts[compound], compound), default=None)
