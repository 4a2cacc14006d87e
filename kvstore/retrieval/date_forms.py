"""Dates in questions: searches for a date in the *form* in which documents write it (``2026-03-14`` for *14 March*). A
numeric date such as ``03/04/2026`` has two *interpretations*: 3 April and 4 March. A *term* is the stem of a word; its
*rarity* is its IDF.

In: a question and a state. Out: the dates in the question that documents write in a different form, each with the text
to search for instead. If documents write a date in several forms, the one in the chunk with the most other words of the
question, weighted by rarity, is used. A date without a year can be any such date, preferably the latest.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import date
from functools import lru_cache
from itertools import islice, product
from typing import NamedTuple

import numpy as np

from ..structures.ranking import best
from ..structures.state import State
from ..text.month_names import read_month_numbers
from ..text.words import count_chunk_terms, find_technical_tokens, list_content_terms
from .evidence import ChunkReadRequest, LoadedChunk
from .lexical_search import TermWeights, compute_bm25_scores, read_term_weights

#: The years in which dates without a year are searched, and the maximum number of these, the latest first.
_YEARS, _MAX_YEARS = range(1950, 2100), 8
#: The maximum numbers of dates in a question, of chunks that are read for a date, and of characters of a chunk, so that
#: pasted lines with dates take little time.
_MAX_DATES, _MAX_CHUNKS, _MAX_CHARACTERS = 4, 32, 10_000
#: A date without a year is checked in this one, which has a 29 February.
_LEAP_YEAR = 2024


class _MonthDay(NamedTuple):
    """The month and day of a date, both from 1."""

    month: int
    day: int


class _WrittenDate(NamedTuple):
    """A date as written in a text, its possible interpretations (``03/04`` has two), and its year (None: no year)."""

    text: str
    interpretations: list[_MonthDay]
    year: int | None

    def can_equal(self, other: _WrittenDate) -> bool:
        """True if two dates share an interpretation and, if both have a year, also the year."""
        has_same_year = None in (self.year, other.year) or self.year == other.year
        return has_same_year and not set(self.interpretations).isdisjoint(other.interpretations)


def find_date_replacements(
    question: str, state: State, stem: Callable[[str], str], language: str | None
) -> dict[str, str]:
    """Return the dates in a question that documents write in a different form, each with the text that replaces it.

    If that form has no year, the year in the question is appended. ``stem`` is the stemming function for the question,
    and ``language`` the language of the question (None: unclear).
    """
    dates = list(islice(_iter_dates(question, language), _MAX_DATES))
    if not dates:
        return {}
    for asked_date in dates:
        question = question.replace(asked_date.text, " ")
    weights = read_term_weights(state, list(dict.fromkeys(list_content_terms(question, stem))))
    replacements = {}
    for asked_date in dates:
        chunks = _load_chunks_with_date(asked_date, state, weights, stem, language)
        best_form = _find_best_form(asked_date, chunks, weights.rarities, stem, language)
        if best_form is not None and best_form.text.lower() != asked_date.text.lower():
            needs_year = best_form.year is None and asked_date.year is not None
            replacements[asked_date.text] = best_form.text + (f" {asked_date.year}" if needs_year else "")
    return replacements


def _find_best_form(
    asked_date: _WrittenDate,
    chunks: Iterable[LoadedChunk],
    rarities: Mapping[str, float],
    stem: Callable[[str], str],
    language: str | None,
) -> _WrittenDate | None:
    """Return a date in the form of the best chunk for the question; None if no chunk contains the date.

    The best chunk has the highest sum of ``rarities``, by term of the question without those of its dates. If chunks
    tie, the form in the question is preferred, then the latest year, and then the form that sorts last.
    """
    best_rank, best_form = (-1.0, False, 0, ""), None
    for chunk in chunks:
        text = "\n".join((chunk.document.title or "", *chunk.headings, chunk.text))[:_MAX_CHARACTERS]
        forms = [other for other in _iter_dates(text, language) if asked_date.can_equal(other)]
        if not forms:
            continue
        chunk_terms = count_chunk_terms(chunk.document.title, chunk.headings, chunk.text, stem)
        score = math.fsum(rarity for term, rarity in rarities.items() if term in chunk_terms)
        for form in forms:
            rank = (score, form.text.lower() == asked_date.text.lower(), form.year or 0, form.text)
            if rank > best_rank:
                best_rank, best_form = rank, form
    return best_form


def _load_chunks_with_date(
    asked_date: _WrittenDate, state: State, weights: TermWeights, stem: Callable[[str], str], language: str | None
) -> list[LoadedChunk]:
    """Return the best ``_MAX_CHUNKS`` chunks, by BM25, that contain all words of a date in any of its forms.

    The words can be apart. ``weights`` are the BM25 parameters of the question without its dates. ``stem`` is the
    stemming function for the question, and ``language`` its language (None: unclear).
    """
    forms = _list_forms(asked_date, state, language)
    term_sets = {frozenset(_list_terms(form, stem)) for form in (asked_date.text, *forms)}
    # If the question has a condition, only the chunks that it allows are searched.
    allowed = state.allowed
    narrow = None if allowed is None else lambda chunks: chunks[allowed.get_chunk_mask(chunks)]
    counts = state.postings.count_chunks_by_term(list(frozenset().union(*term_sets)))
    matching_chunks = [
        state.postings.find_chunks_with_terms(terms, narrow=narrow)
        for terms in term_sets
        if all(counts[term] for term in terms)  # else no chunk has all of them
    ]
    if not matching_chunks:
        return []
    chunks = np.unique(np.concatenate(matching_chunks))
    scores = compute_bm25_scores(state, weights, chunks) if weights.rarities else np.zeros(len(chunks))
    ranking = best(state, chunks, scores, _MAX_CHUNKS)
    return ChunkReadRequest([chunk for chunk, _ in ranking]).fetch(state)


def _list_forms(asked_date: _WrittenDate, state: State, language: str | None) -> list[str]:
    """Return the forms in which documents may write a date: with the name of the month, then in digits.

    A date without a year gets the latest years in the store for the forms in digits. ``language`` is the language of
    the question (None: unclear).
    """
    word_forms = [
        form for interpretation in asked_date.interpretations for form in _list_word_forms(*interpretation, language)
    ]
    if asked_date.year is None:
        # The latest years that chunks contain, in descending order.
        counts = state.postings.count_chunks_by_term([str(year) for year in _YEARS])
        years = [year for year in reversed(_YEARS) if counts[str(year)]][:_MAX_YEARS]
    else:
        years = [asked_date.year]
        word_forms += [f"{form} {asked_date.year}" for form in word_forms]
    dates = product(years, asked_date.interpretations)
    return [
        *word_forms,
        *(form for year, interpretation in dates for form in _list_numeric_forms(year, *interpretation)),
    ]


def _list_terms(form: str, stem: Callable[[str], str]) -> list[str]:
    """Return the index terms of a date: itself if it is indexed as a whole (``14.03.2026``), else its words."""
    return find_technical_tokens(form) or list_content_terms(form, stem)


def _list_word_forms(month: int, day: int, language: str | None) -> list[str]:
    """Return the forms of a day with the name of its month, such as ``4 March`` and ``4th March``.

    The names are in English and in ``language`` (None: only English).
    """
    names = [name for name, number in read_month_numbers(language).items() if number == month]
    suffix = "th" if day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    days = (str(day), f"{day}{suffix}", *(["1er"] if day == 1 else []))  # 1er mars
    return [f"{written_day} {name}" for written_day, name in product(days, names)]


def _list_numeric_forms(year: int, month: int, day: int) -> list[str]:
    """Return the forms of a date in digits, the international one first.

    >>> _list_numeric_forms(2026, 3, 4)[:3]
    ['2026-03-04', '04.03.2026', '4.3.2026']
    """
    return [
        f"{year}-{month:02}-{day:02}",
        f"{day:02}.{month:02}.{year}",
        f"{day}.{month}.{year}",
        f"{day:02}/{month:02}/{year}",
        f"{day}/{month}/{year}",
        f"{month:02}/{day:02}/{year}",
        f"{month}/{day}/{year}",
        f"{year}年{month}月{day}日",
    ]


def _iter_dates(text: str, language: str | None) -> Iterator[_WrittenDate]:
    """Yield the valid dates in a text in a language (None: English). A date such as ``03/04`` has two interpretations.

    A year of two digits is in this century; a date can also have no year.
    """
    month_names = read_month_numbers(language)
    for match in _compile_date_pattern(language).finditer(text):
        groups = match.groupdict()
        written_year = groups["year"] or groups["iso_year"] or groups["numeric_year"] or groups["cjk_year"]
        if groups["name"]:  # 4 March, March 4th
            interpretations = [
                _MonthDay(month_names[groups["name"].lower()], int(groups["day"] or groups["day_after"]))
            ]
        elif groups["first"]:  # 03/04/2026: 3 April or 4 March
            first, second = int(groups["first"]), int(groups["second"])
            interpretations = [_MonthDay(second, first), _MonthDay(first, second)]
        else:  # 2026-03-04, 3月4日
            month, day = groups["iso_month"] or groups["cjk_month"], groups["iso_day"] or groups["cjk_day"]
            interpretations = [_MonthDay(int(month), int(day))]
        year = None if written_year is None else int(written_year) + (2000 if len(written_year) == 2 else 0)
        valid_interpretations = [
            interpretation for interpretation in dict.fromkeys(interpretations) if _is_valid(year, interpretation)
        ]
        if valid_interpretations:
            yield _WrittenDate(match.group(), valid_interpretations, year)


def _is_valid(year: int | None, interpretation: _MonthDay) -> bool:
    """True if a date exists in its year or, if ``year`` is None, in any year."""
    with suppress(ValueError):
        date(_LEAP_YEAR if year is None else year, interpretation.month, interpretation.day)
        return True
    return False


@lru_cache(maxsize=32)
def _compile_date_pattern(language: str | None) -> re.Pattern[str]:
    """Return the pattern of dates in texts in a language (None: English); cached.

    It matches dates such as 14 March 2026, March 14th, 2026-03-14, 14.3.2026, 3/14/2026 and 3月14日.
    """
    names = "|".join(re.escape(word) for word in sorted(read_month_numbers(language), key=len, reverse=True))
    ordinal = r"(?:st|nd|rd|th|er|\.|º|°|ª)?"
    year = r"(?:,?\s(?:de\s|del\s)?(?P<year>\d{4})\b)?"
    return re.compile(
        rf"(?<![0-9A-Za-z_./-])(?:(?P<iso_year>\d{{4}})-(?P<iso_month>\d\d)-(?P<iso_day>\d\d)"
        r"|(?P<first>\d\d?)(?P<separator>[./-])(?P<second>\d\d?)(?P=separator)(?P<numeric_year>\d{4}|\d\d)"
        rf"|(?:(?P<day>\d\d?){ordinal}\s(?:of\s|de\s|di\s)?(?=(?:{names})\b))?(?P<name>{names})\b\.?"
        rf"(?(day)|\s(?P<day_after>\d\d?)(?:st|nd|rd|th)?(?![\w.:]\d|\w)){year})(?![0-9A-Za-z_/-]|\.\d)"
        r"|(?:(?P<cjk_year>\d{4})年)?(?P<cjk_month>\d\d?)月(?P<cjk_day>\d\d?)日",
        re.IGNORECASE,
    )
