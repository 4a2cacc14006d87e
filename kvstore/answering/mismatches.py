"""Checks if passages are about another thing than a question names: another section, reference number, date or person.
A *passage* is a hit with its title and headings. A *reference number* is the number of an invoice or version, for
example.

In: a question, and the hits or passages for it. Out: truth values, and the numbers that are missing. The search ranks
"section 6" high for a question about "section 7", because all other words agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from ..retrieval.evidence import Hit
from ..retrieval.query import Query
from ..text.name_words import CALENDAR_WORDS
from ..text.normalize import fold_text
from ..text.patterns import compile_lazily
from ..text.words import FUNCTION_WORDS, find_reference_numbers, list_terms
from .numbered_sections import AMBIGUOUS_WORDS, count_missing_words
from .question_dates import find_date_words, has_year
from .question_names import PassageWords, QuestionName, find_numbered_nouns
from .question_terms import QuestionTerms
from .section_references import (
    find_section_reference,
    has_ordinal_labels,
    is_section_mentioned,
    mentions_numbered_thing,
    parse_changes_request,
)

if TYPE_CHECKING:
    from .answer_reader.reading import ReaderResult
    from .passages import Passage

#: An amount with a decimal comma or in groups of thousands, or the digits after a decimal point.
_DECIMAL_PATTERN = compile_lazily(
    r"(?<![\d.,])(?:\d{1,3}(?:\.\d{3})+(?:,\d+)?(?![.,]?\d)|\d+,\d+(?![.,]?\d)|(?P<whole>\d+)\.\d+(?!\.|,?\d))"
)
#: A date such as 2026-02-03, and the marks inside a reference number, which texts can write differently.
_ISO_DATE_PATTERN, _MARK_PATTERN = compile_lazily(r"\d{4}-\d\d(?:-\d\d)?"), compile_lazily("[-./]")


def is_section_missing(query: Query, language: str | None, hits: Sequence[Hit], context: Sequence[str]) -> bool:
    """True if a question names one section by its number ("§ 7", "step 9"), and neither a hit nor ``context`` has it.

    ``language`` is the language of the question (None: English), and ``context`` has lines of evidence besides the
    hits. If the question names a document, only its hits count. Two kinds of question also accept the number of a
    thing: a question for a fact about "item 7", which can be a thing, and one in a language whose documents label their
    sections with ordinals that kvstore cannot parse ("artículo segundo").
    """
    reference = find_section_reference(query.question, language)
    if reference is None or not reference.number:
        return False
    missing = [count_missing_words(reference, f"{hit.title or ''} {hit.document}", query) for hit in hits]
    hits = [hit for hit, count in zip(hits, missing, strict=True) if count == min(missing)]
    headings = {heading for hit in hits for heading in hit.heading.split(" > ")}
    texts = [*(hit.text for hit in hits), *context]
    asks_for_fact = bool(reference.other_words - reference.document_words) and not reference.has_about
    can_be_thing = reference.word in AMBIGUOUS_WORDS and asks_for_fact
    can_have_ordinal = reference.word != "§" and language not in (None, "english", "german")
    if can_be_thing or (can_have_ordinal and has_ordinal_labels([*headings, *texts])):
        return not any(mentions_numbered_thing(reference, text) for text in chain(headings, texts))
    return not is_section_mentioned(reference, headings, texts)


def find_missing_numbers(question: str, texts: Sequence[str]) -> list[str]:
    """Return the reference numbers (invoices, versions) that a question has and no text, as the question writes them.

    The marks in a number can differ: ``INV-2024/017`` is ``INV 2024-017``. Dates are omitted, because texts can write
    them in other ways.
    """
    numbers = [number for number in find_reference_numbers(question) if not _ISO_DATE_PATTERN.fullmatch(number)]
    changes_request = parse_changes_request(question)
    if changes_request is not None:
        numbers.append(changes_request.version)
    if not numbers:
        return []
    content = fold_text("\n".join(texts))
    missing_numbers = {number for number in numbers if not _has_number(content, number)}
    words = [word.strip("?!.,;:()") for word in question.split()]
    return [word for word in words if not missing_numbers.isdisjoint([word, *find_reference_numbers(word)])]


def _has_number(text: str, number: str) -> bool:
    """True if a text has a reference number, perhaps with other marks in it. Both are in lower case.

    >>> [_has_number("inv 2024-017 of release v2.1.0", number) for number in ("inv-2024/017", "2.1.0", "1.0")]
    [True, True, False]
    """
    parts = _MARK_PATTERN.split(number.removeprefix("v"))
    mark = r"[-–./]" if all(map(str.isdigit, parts)) else r"[-–./ ]"
    # A text about version 2.1.3 has the version 2.1.
    end = r"(?!\d)" if len(parts) == 2 and all(map(str.isdigit, parts)) else r"(?!\w|\.\d)"
    return re.search(rf"(?<![\w.])v?{mark.join(map(re.escape, parts))}{end}", text) is not None


def is_question_contradicted(
    question: str,
    language: str | None,
    *,
    texts: Sequence[str],
    passages: Sequence[PassageWords],
    first_text: str,
    first_paragraph: str,
    names: Iterable[QuestionName],
) -> bool:
    """True if passages have other dates than a question, only other numbers after its nouns, or its name elsewhere.

    ``language`` is the language of the question. ``texts`` are the passages as text, and ``passages`` are their words.
    The answer begins with the passage ``first_text``: if another passage has one of the ``names``, it must have it,
    too. ``first_paragraph`` is the part of it that is displayed first.
    """
    first_passage = replace(passages[0], text=blank_decimals(first_text, question))
    return (
        _has_other_date(question, language, first_text, first_paragraph, texts)
        or any(_has_other_number(noun, number, passages) for noun, number in find_numbered_nouns(question, language))
        or _is_name_elsewhere(names, first_passage, passages)
    )


def _has_other_date(
    question: str, language: str | None, first_text: str, first_paragraph: str, texts: Sequence[str]
) -> bool:
    """True if ``first_text`` has other weekdays or months than a question, or if a year of the question is missing.

    ``language`` is the language of the question. ``texts`` are all passages; the answer begins with the passage
    ``first_text``. If its ``first_paragraph`` compares several years, one of the two must have the year; otherwise, any
    passage can.
    """
    dates = find_date_words(question, language)
    compares_years = len(find_date_words(first_paragraph, language).years) > 1
    year_texts = [first_text, first_paragraph] if compares_years else texts
    if any(not has_year(year, year_texts) for year in dates.years):
        return True
    return bool(dates.weekdays or dates.months) and dates.is_contradicted_by(find_date_words(first_text, language))


def _has_other_number(noun: str, number: int, passages: Sequence[PassageWords]) -> bool:
    """True if the passages have only other numbers than ``number`` after a noun: *línea 5*, and never *línea 4*."""
    ranges = list(chain.from_iterable(passage.list_number_ranges(passage.stem(noun)) for passage in passages))
    return bool(ranges) and not any(first <= number <= last for first, last in ranges)


def _is_name_elsewhere(
    names: Iterable[QuestionName],
    first_passage: PassageWords,
    passages: Sequence[PassageWords],
) -> bool:
    """True if another passage has a name of the question, but not the first one, with which the answer begins.

    The amount or person in the first passage then belongs to another name. Numbers and technical tokens do not count as
    names, and neither do German names, because ordinary nouns can be part of them.
    """
    return any(
        not (first_passage.has_name(name) or first_passage.has_titled_surname(name))
        and any(passage.has_name(name) for passage in passages)
        for name in names
        if not (name.is_token or name.can_include_nouns or name.text.isdecimal())
    )


def lacks_rare_name(passage: Passage, question_terms: QuestionTerms, query: Query) -> bool:
    """True if the document of a passage has no word of a name in the question, and no words with the initials of "ICU".

    The name must be in few other chunks: that of a company is not repeated in each of its documents.
    """
    rare_names = {
        name: words
        for name, rarity in question_terms.names.items()
        if (words := set(name.words) - CALENDAR_WORDS - FUNCTION_WORDS)
        and rarity >= question_terms.max_rarity / 2 * len(name.words)
        and not (name.opens_sentence or name.is_token or any(map(str.isdigit, name.text)))
        and name.text not in question_terms.unknown_names
    }
    if not rare_names:
        return False
    documents = query.state.documents
    content = documents.read_text(documents.get_by_key(passage.document).id).decode()
    text = fold_text(f"{passage.document} {passage.title or ''} {content}")

    def has_initials(name: QuestionName) -> bool:
        """True if the text has adjacent words with the initials of a name in capitals."""
        initials = r"\w*[\s-]+".join(map(re.escape, name.words[0]))
        return name.text.isupper() and re.search(rf"\b{initials}", text) is not None

    def has_family(name: QuestionName) -> bool:
        """True if the text has the surname of a family in the question: Haddad for "the Haddads"."""
        is_family = name.text.endswith("s") and re.search(rf"\bthe {re.escape(name.text)}\b", query.question)
        return bool(is_family) and re.search(rf"\b{re.escape(name.text[:-1])}\b", content) is not None

    return any(
        not (any(word in text for word in words) or has_initials(name) or has_family(name))
        for name, words in rare_names.items()
    )


def is_in_other_section(reader_result: ReaderResult, question_terms: QuestionTerms) -> bool:
    """True if the question names the heading of a table other than that of the reader's best row: "Dogs", not "Cats".

    Both tables are in one document and have the same first column. The question has no word of the first heading, and
    the row no word of the second.
    """
    passages, (passage_index, index) = reader_result.passages, reader_result.best.position
    passage, row = passages[passage_index], passages[passage_index].snippets[index]
    own_text = " ".join([*passage.list_labels(index), row.labeled_text])
    own_terms, heading_terms = (set(list_terms(text, question_terms.stem)) for text in (own_text, row.heading))
    if row.kind != "table" or not heading_terms or heading_terms & question_terms.rarities.keys():
        return False
    column, _, _ = row.text.partition(": ")
    related_passages = (other for other in passages if other.document == passage.document)
    related_rows = chain.from_iterable(other.snippets for other in related_passages)
    headings = {other.heading for other in related_rows if other.text.startswith(f"{column}: ")}
    terms_of_headings = (list_terms(heading, question_terms.stem) for heading in headings)
    missing_terms = question_terms.rarities.keys() - own_terms
    return any(terms and missing_terms.issuperset(terms) for terms in terms_of_headings)


def blank_decimals(text: str, question: str) -> str:
    """Return a text without the digits of decimals, which are other numbers than the one they form together.

    A decimal that is also in the question remains.

    >>> blank_decimals("Am 3.5. kostet § 14 in Version 1.14 insgesamt 14,85 Euro", "§ 14")
    'Am 3.5. kostet § 14 in Version 1 insgesamt   Euro'
    """
    return _DECIMAL_PATTERN.sub(
        lambda match: match.group() if match.group() in question else match["whole"] or " ", text
    )
