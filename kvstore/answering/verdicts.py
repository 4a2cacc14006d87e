"""Verdicts: yes or no, the answer to a question that asks for it, if one sentence settles it beyond doubt. A *term* is
the stem of a content word. A *clause* is a part of the sentence between commas or words such as "but".

In: the question, the sentence that answers it, and its context: the title and heading above it. Out: ``yes``, ``no``,
or None, which most questions get. There is a verdict only if the sentence with its context has every content word in
the question. Then these rules apply in order:

- Another number with the same unit is a no, unless one of the two is a limit ("up to 3 days").
- A negation (*not*, *no*, *never*) directly before words from the question is a no, and so is *forbidden* if the
  question asks for permission.
- A sentence without a negation or a restriction (*only*, *unless*, *if*), with the names in the same order, is a yes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from ..text.name_words import MONTHS
from ..text.patterns import compile_lazily
from ..text.quantities import WEEKDAY, find_quantities
from ..text.words import WORD_PATTERN, list_content_terms
from .answer_span import Verdict

_COMPARISON_PATTERN = compile_lazily(
    r"\b(?P<words>\w+er than|(?:more|less) than|over|under|above|below|at least|at most|up to|before|after|until|within"
    r"|from|between|about|around|almost|nearly|than|exceed)\W*\Z",
    re.IGNORECASE,
)
_MONTH_RANGE_PATTERN = compile_lazily(rf"\bfrom ({'|'.join(MONTHS)}) to ({'|'.join(MONTHS)})\b", re.IGNORECASE)
_MONTH_PATTERN = compile_lazily(rf"\b(?:in|on|of|since|until) ({'|'.join(MONTHS)})\b", re.IGNORECASE)
_SEASON_OR_DAY_PATTERN = compile_lazily(
    r"\b(?:spring|summer|autumn|winter|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|week-?ends?)\b", re.IGNORECASE
)
_CLAUSE_PATTERN = compile_lazily(r"[,;:()]|\b(?:but|and|while|which|who|although|though|because)\b", re.IGNORECASE)
_NEGATION_PATTERN = compile_lazily(r"\b(?:not|no|never|cannot|neither|nor|without)\b|n['’]t\b", re.IGNORECASE)
_FORBIDDEN_PATTERN = compile_lazily(r"\b(?:forbidden|prohibited|banned)\b", re.IGNORECASE)
_PERMISSION_PATTERN = compile_lazily(r"\b(?:may|can|could|allowed|permitted)\b", re.IGNORECASE)
_PERMITTED_PATTERN = compile_lazily(r"\b(?:may|can|could|allowed|permitted|free|entitled|welcome)\b", re.IGNORECASE)
_OBLIGATION_PATTERN = compile_lazily(r"\b(?:must|needs?|required|obliged|ha(?:s|ve) to|mandatory)\b", re.IGNORECASE)
#: Words that restrict a statement, and those that also make it a possibility or deny it.
_RESTRICTION_PATTERN = compile_lazily(r"\b(?:only|unless|except|until|if|when|than|other)\b", re.IGNORECASE)
_DOUBT_PATTERN = compile_lazily(
    r"\b(?:rarely|seldom|hardly|usually|often|sometimes|some|most|few|may|might|could|would|should|plan(?:ned|s)?"
    r"|propose[ds]?|wanted|asked|almost|nearly|former|formerly|fail(?:ed|s)?|refused|instead|or|either|nobody|none"
    r"|nothing|said|supposed|intended|second|third|fourth|fifth|similar|im\w+ible|unable|denied)\b",
    re.IGNORECASE,
)
#: Words of a question that a sentence for a yes must have too.
_STRICT_PATTERN = compile_lazily(
    r"\b(?:always|only|alone|both|still|again|more|most|first|last|same|before|after|without)\b", re.IGNORECASE
)
_UNIVERSAL_PATTERN = compile_lazily(r"\b(?:all|every|each|any)\b", re.IGNORECASE)
#: Words of a question that the sentence need not have.
_OPTIONAL_TERMS = "ever still yet already made may s"
_NAME_PATTERN = compile_lazily(r"(?<!^)\b[A-Z][\w-]+")
#: A sentence that only says yes or no, at the start of a text.
_STATED_VERDICT_PATTERN = compile_lazily(r"(yes|no)[.!](?:\s+|\Z)", re.IGNORECASE)
#: The maximum number of words from a negation or permission to a content word from the question, both included.
_MAX_DISTANCE = 5


class _ComparedQuantity(NamedTuple):
    """The value of a quantity with its unit, and the words before it that compare it ("more than"), if any."""

    value: float
    unit: str
    comparison: str


def decide_verdict(question: str, sentence: str, context: str, stem: Callable[[str], str]) -> Verdict | None:
    """Return the answer yes or no to a question if a sentence settles it beyond doubt; None in most cases.

    The sentence must have the content words of the question; ``context``, such as its title and heading, can supply all
    but one of them. Then numbers decide, if they differ, or a negation or prohibition. Any other sentence is a yes only
    if nothing in it weakens the statement. ``stem`` is the stemming function.

    >>> [decide_verdict(f"Is the {part} lit?", text, "", str.lower)
    ...  for part in ("tower", "mole") for text in ("The tower is lit.", "The tower is never lit.")]
    ['yes', 'no', None, None]
    >>> decide_verdict("Was it built in 1988?", "It was built in 1998.", "", str.lower)
    'no'
    """
    question = question.strip(" ?")
    asks_permission = _PERMISSION_PATTERN.search(question) is not None
    is_forbidden = asks_permission and _FORBIDDEN_PATTERN.search(sentence) is not None
    # A sentence that forbids something need not have the words that ask for permission.
    optional_terms = f"{_OPTIONAL_TERMS} allowed permitted" if is_forbidden else _OPTIONAL_TERMS
    shared_terms = _find_shared_terms(question, sentence, context, optional_terms, stem)
    if not shared_terms:
        return None
    is_ambiguous = _NEGATION_PATTERN.search(question) is not None  # "Is it not open?"
    if is_ambiguous or not _has_all_calendar_words(question, sentence):
        return None
    comparison = _compare_quantities(question, sentence, asks_permission)
    if comparison != "equal":
        return comparison
    clauses = _select_clauses(sentence, shared_terms, stem)
    is_negated = any(_precedes_term(_NEGATION_PATTERN, clause, shared_terms, stem) for clause in clauses)
    is_restricted = bool(_find_missing_matches(_RESTRICTION_PATTERN, sentence, missing_from=question))
    if is_forbidden or is_negated:
        return None if is_restricted else "no"
    gives_permission = not asks_permission or _precedes_term(_PERMITTED_PATTERN, "; ".join(clauses), shared_terms, stem)
    is_yes = (
        gives_permission
        and not is_restricted
        and not _has_doubt(question, sentence, asks_permission)
        and _is_as_strict(question, sentence)
        and _has_same_name_order(question, sentence)
    )
    return "yes" if is_yes else None


def _find_shared_terms(
    question: str, sentence: str, context: str, optional_terms: str, stem: Callable[[str], str]
) -> set[str]:
    """Return the terms of the question that the sentence has.

    Returns an empty set if a term is neither in the sentence nor in ``context``, its title and heading. The words in
    ``optional_terms`` can be missing.
    """
    for quantity in reversed(list(find_quantities(question))):  # quantities are compared separately
        question = f"{question[: quantity.start]} {question[quantity.unit_end :]}"
    terms = set(list_content_terms(question, stem))
    terms.difference_update(list_content_terms(optional_terms, stem))
    shared_terms = terms & set(list_content_terms(sentence, stem))
    missing_terms = terms - shared_terms - set(list_content_terms(context, stem))
    return set() if missing_terms else shared_terms


def _has_doubt(question: str, sentence: str, asks_permission: bool) -> bool:
    """True if a sentence has a negation, or a word such as "usually" or "planned" that the question lacks."""
    doubts = _find_missing_matches(_DOUBT_PATTERN, sentence, missing_from=question)
    if asks_permission:
        doubts.discard("may")  # it gives the permission
    return bool(doubts) or _NEGATION_PATTERN.search(sentence) is not None


def _has_same_name_order(question: str, sentence: str) -> bool:
    """True if the names in a question have the same order in the sentence; otherwise their roles may differ."""
    names = [name for name in find_names(question) if name in sentence]
    return names == sorted(names, key=sentence.index)


def split_stated_verdict(text: str) -> tuple[Verdict | None, str]:
    """Return (yes or no, rest of the text) if the first sentence of a text is only "Yes." or "No."; else (None, text).

    >>> split_stated_verdict("No. Cats stay at home."), split_stated_verdict("No cats.")
    (('no', 'Cats stay at home.'), (None, 'No cats.'))
    """
    match = _STATED_VERDICT_PATTERN.match(text)
    if match is None:
        return None, text
    return ("yes" if match[1].lower() == "yes" else "no"), text[match.end() :]


def find_names(text: str) -> list[str]:
    """Return the capitalized words of a text in order, except its first word, as an approximation of its names."""
    return _NAME_PATTERN.findall(text)


def _is_as_strict(question: str, sentence: str) -> bool:
    """True if the sentence keeps every qualifier of the question, such as "all", "must" or "first".

    Words that mean "all" are interchangeable, and so are words that mean "must".
    """
    is_as_universal = not _UNIVERSAL_PATTERN.search(question) or _UNIVERSAL_PATTERN.search(sentence)
    is_as_obligatory = not _OBLIGATION_PATTERN.search(question) or _OBLIGATION_PATTERN.search(sentence)
    missing_words = _find_missing_matches(_STRICT_PATTERN, question, missing_from=sentence)
    return bool(is_as_universal and is_as_obligatory and not missing_words)


def _compare_quantities(question: str, sentence: str, asks_permission: bool) -> Literal["no", "equal"] | None:
    """Compare each quantity of a question with the quantity of the sentence that has the same unit.

    Return ``equal`` if all are equal or there are none, so that other rules decide; ``no`` if one is different; and
    None if they cannot be compared. A limit ("up to 3 days") is compared only with the same limit, and in a question
    that ``asks_permission``, every number can be a limit.
    """
    quantities = _find_compared_quantities(sentence)
    verdict: Literal["no", "equal"] = "equal"
    for quantity in _find_compared_quantities(question):
        same_unit = [other for other in quantities if other.unit == quantity.unit]
        if quantity in same_unit:
            continue
        has_limit = asks_permission or any(other.comparison for other in (quantity, *same_unit))
        if has_limit or len(same_unit) != 1:
            return None
        verdict = "no"
    return verdict


def _find_compared_quantities(text: str) -> list[_ComparedQuantity]:
    """Return the numbers, dates and times of a text in order, each with the comparison before it ("more than").

    Weekdays and months are omitted, because :func:`_has_all_calendar_words` compares them.
    """
    quantities = []
    for quantity in find_quantities(text):
        if quantity.unit != WEEKDAY and quantity.value == quantity.last:
            comparison = _COMPARISON_PATTERN.search(text[: quantity.start])
            words = comparison["words"].lower() if comparison else ""
            quantities.append(_ComparedQuantity(quantity.value, quantity.unit, words))
    return quantities


def _has_all_calendar_words(question: str, sentence: str) -> bool:
    """True if a sentence has all months, seasons and weekdays of a question.

    A month in the question counts only after a preposition ("in May"). A range of months in the sentence ("from May to
    July") includes the months between.
    """
    months = _get_matches(_MONTH_PATTERN, question)
    period = _MONTH_RANGE_PATTERN.search(sentence.lower())
    if period is not None:
        first, last = map(MONTHS.index, period.groups())
        months -= set(MONTHS[first : last + 1])
    return months <= _get_matches(WORD_PATTERN, sentence) and (
        _get_matches(_SEASON_OR_DAY_PATTERN, question) <= _get_matches(_SEASON_OR_DAY_PATTERN, sentence)
    )


def _select_clauses(sentence: str, terms: set[str], stem: Callable[[str], str]) -> list[str]:
    """Return the clauses of a sentence with the most distinct ``terms`` of the question; several if they tie."""
    clauses = [clause for clause in _CLAUSE_PATTERN.split(sentence) if clause]
    counts = [len(terms.intersection(list_content_terms(clause, stem))) for clause in clauses]
    return [clause for clause, count in zip(clauses, counts, strict=True) if count == max(counts)]


def _precedes_term(pattern: re.Pattern[str], text: str, terms: set[str], stem: Callable[[str], str]) -> bool:
    """True if a match of a pattern (such as "not") in a text is closely followed by one of the ``terms``.

    The term must be among the first ``_MAX_DISTANCE`` words from the start of the match.
    """
    for match in pattern.finditer(text):
        words = WORD_PATTERN.findall(text[match.start() :])[:_MAX_DISTANCE]
        if not terms.isdisjoint(list_content_terms(" ".join(words), stem)):
            return True
    return False


def _find_missing_matches(pattern: re.Pattern[str], text: str, *, missing_from: str) -> set[str]:
    """Return the distinct matches of a pattern in ``text``, in lower case, that are not in ``missing_from``."""
    return _get_matches(pattern, text) - _get_matches(pattern, missing_from)


def _get_matches(pattern: re.Pattern[str], text: str) -> set[str]:
    """Return the distinct matches of a pattern, or of its only group, in lower case."""
    return {match.lower() for match in pattern.findall(text)}
