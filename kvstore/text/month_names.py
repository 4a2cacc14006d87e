"""The names of the months in English and in the languages of the question words, with their numbers.

In: the name of a language. Out: its names of months in lower case, in all forms that its word file lists, and the
English ones with their abbreviations, each with the number of the month, from 1.
"""

from __future__ import annotations

from functools import cache

from .name_words import MONTHS
from .question_words import read_language_file, split_phrases

#: The first letters of the names of each month in the other languages. They are longer if two months begin alike.
_STEMS = (
    "jan jän ene gen sty oca янв يناير كانون·الثاني", "feb fév fev lut şub фев فبراير شباط",
    "mar mär maa мар مارس آذار", "apr avr abr kwi nis апр أبريل إبريل نيسان",
    "mai may mag mei maj май мая мае маю مايو أيار",
    "jun juin giu cze haz июн يونيو حزيران", "jul juil lug lip tem июл يوليو تموز", "aug aoû ago sie ağu авг أغسطس",
    "sep set wrz eyl сен أيلول سبتمبر", "oct okt ott out paź eki окт أكتوبر تشرين·الأول",
    "nov lis kas ноя نوفمبر تشرين·الثاني", "dec dez déc dic gru ara дек ديسمبر كانون·الأول",
)  # fmt: skip


@cache
def list_month_names(language: str | None) -> dict[str, int]:
    """Return the names of months in a language (None: only in English) and in English, with their numbers; cached.

    >>> list_month_names("german")["märz"], list_month_names(None)["sept"]
    (3, 9)
    """
    names = {name: number for number, month in enumerate(MONTHS, 1) for name in (month, month[:3])} | {"sept": 9}
    word_file = None if language is None else read_language_file(language)
    if word_file is None:
        return names
    for name in split_phrases(word_file["answers"]["months"]):
        numbers = [
            number
            for number, stems in enumerate(_STEMS, 1)
            if any(name.startswith(stem.replace("·", " ")) for stem in stems.split())
        ]
        is_word = name.replace(" ", "").isalpha()  # not a number with a sign, such as 1月
        if len(numbers) == 1 and is_word:
            names.setdefault(name, numbers[0])
    return names
