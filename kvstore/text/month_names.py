"""The numbers of the months by their names, in English and in other languages. A *word file*
(``questions/LANGUAGE.toml``) lists the forms of all names in a language. A *stem* is the first letters that show the
month of a form: *jan* is 1.

In: the name of a language. Out: its names of months in lower case, in all forms that its word file lists, and the
English ones with their abbreviations, each with the number of the month, from 1.
"""

from __future__ import annotations

from functools import cache

from .name_words import MONTHS
from .question_words import read_language_file, split_phrases

#: For each month, the stems (first letters) of its names in the other languages, separated by spaces. A stem with a
#: space in it has a "·" in its place. The longest stem counts if two months begin alike.
_MONTH_STEMS = (
    "jan jän ene gen sty oca ian led tammi янв січ ιαν जन يناير كانون·الثاني",
    "feb fév fev lut şub úno helmi фев лют φεβ फ़र फर فبراير شباط",
    "mar mär maa bře maalis мар бер μάρ μαρ मार्च مارس آذار",
    "apr avr abr kwi nis dub huhti апр кві απρ अप्र أبريل إبريل نيسان",
    "mai may mag mei maj kvě touko май мая мае маю тра μάι μαΐ मई مايو أيار",
    "jun juin giu cze haz iun červ kesä июн чер ιούν ιουν जून يونيو حزيران",
    "jul juil lug lip tem iul červenc červenec heinä июл лип ιούλ ιουλ जुल يوليو تموز",
    "aug aoû ago sie ağu srp elo авг сер αύγ αυγ अग أغسطس", "sep set wrz eyl zář syys сен вер σεπ सित أيلول سبتمبر",
    "oct okt ott out paź eki říj loka окт жов οκτ अक् أكتوبر تشرين·الأول",
    "nov lis kas noi marras ноя лис νοέ νοε नव نوفمبر تشرين·الثاني",
    "dec dez déc dic gru ara pro joulu дек гру δεκ दिस ديسمبر كانون·الأول",
)  # fmt: skip


@cache
def read_month_numbers(language: str | None) -> dict[str, int]:
    """Return the number of each month by its names in English and in ``language`` (None: English only). Cached.

    English names can be abbreviated. In another language, the names are all forms in its word file that begin with a
    stem of a month.

    >>> read_month_numbers("german")["märz"], read_month_numbers(None)["sept"]
    (3, 9)
    """
    numbers_by_name = {name: number for number, month in enumerate(MONTHS, 1) for name in (month, month[:3])}
    numbers_by_name["sept"] = 9
    word_file = None if language is None else read_language_file(language)
    if word_file is None:
        return numbers_by_name
    for name in split_phrases(word_file["answers"]["months"]):
        matches = [
            (len(stem), number)
            for number, stems in enumerate(_MONTH_STEMS, 1)
            for stem in stems.split()
            if name.startswith(stem.replace("·", " "))
        ]
        is_word = "*" not in name and not any(map(str.isdigit, name))  # not a number with a sign, such as 1月
        if matches and is_word:
            numbers_by_name.setdefault(name, max(matches)[1])
    return numbers_by_name
