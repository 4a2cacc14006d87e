"""Weekdays, months and years in a question and in texts, in the languages of ``kvstore/text/questions`` that are in
Latin script. A text *contradicts* a question if it has other weekdays, or other months, than the question.

In: a question or another text. Out: its :class:`DateWords`, and if a text contradicts a question or lacks its year. The
hours of Friday do not answer "When is it open on Sunday?", but those of "Monday to Sunday" do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from ..text.month_names import read_month_numbers
from ..text.name_words import MONTHS
from ..text.normalize import fold_text
from ..text.patterns import compile_lazily
from ..text.question_words import read_language_file, split_phrases

#: For each weekday, the first letters of its names, without accents.
_WEEKDAY_STEMS = (
    "montag|lundi|lunes|lunedi|maandag|mandag|segundas?-feira|poniedzial|maanantai",
    "dienstag|mardi|martes|martedi|dinsdag|tisdag|tirsdag|tercas?-feira|wtor|tiistai",
    "mittwoch|mercredi|miercoles|mercoledi|woensdag|onsdag|quartas?-feira|srod|keskiviik",
    "donnerstag|jeudi|jueves|giovedi|donderdag|torsdag|quintas?-feira|czwart|torstai",
    "freitag|vendredi|viernes|venerdi|vrijdag|fredag|sextas?-feira|piat|perjantai",
    "samstag|sonnabend|samedi|sabado|sabato|zaterdag|lordag|sobot|lauantai",
    "sonntag|dimanche|domingo|domenica|zondag|sondag|niedziel|sunnuntai",
)
#: The same of languages in which they begin words of other languages: "marti" is in Martin, "joi" in Joiner.
_WEEKDAY_STEMS_BY_LANGUAGE = {
    "czech": ("pondel", "uter[yink]", r"stred[auye](?!\w)", "ctvrte?k", r"pat(?:ek|k[uy])(?!\w)", "sobot", "nedel"),
    "romanian": (
        r"(?<!\d )lun(?:i|ea)(?!\w)", r"mart(?:i|ea)(?!\w)", "miercur", r"joi(?:a|lea)?(?!\w)", "viner[ie]", "sambat",
        "duminic",
    ),
}  # fmt: skip
#: Words for several weekdays without their names, and the ends of their abbreviations: daily, on workdays, Mo-Fr.
_OTHER_DAYS_PATTERN = compile_lazily(
    r"(?<!\w)(?:taglich|jederzeit|(?:werk|wochen|feier|arbeits)tag\w*|wochenend\w*|tous les jours|chaque jour"
    r"|en semaine|week-?ends?|jours (?:ouvr\w+|feries)|(?:todos los|cada) dias?|diari\w*|entre semana|laborables?"
    r"|festiv[oi]s?|fin(?:es)? de semana|tutti i giorni|ogni giorno|feriali|fine settimana|todos os dias|dias uteis"
    r"|fi[mn]s? de semana|feriados?|dagelijks|(?:elke|iedere) dag|(?:werk|week|feest)dag\w*|doordeweeks|dagligen"
    r"|varje dag|vardag\w*|helg\w*|codziennie|dni \w+|dagligt|hver ?dag\w*|(?:vsedni|pracovni|kazdy) d\w+"
    r"|arki(?:na|sin|paiv\w*)?|joka paiva|viikonlo\w*|zilnic|fiecare zi)(?!\w)"
    r"|(?<!\w)[^\W\d_]{1,3}\.?\s?[-–—/]\s?[^\W\d_]{1,3}(?!\w)"
)
#: Abbreviations of the weekdays from Monday on, without accents. They count in a list or range, or before an hour.
_WEEKDAY_ABBREVIATIONS = {
    "dutch": "ma di wo do vr za zo", "french": "lun mar mer jeu ven sam dim", "german": "mo di mi do fr sa so",
    "italian": "lun mar mer gio ven sab dom", "portuguese": "seg ter qua qui sex sab dom",
    "spanish": "lun mar mie jue vie sab dom", "swedish": "man tis ons tor fre lor son",
    "danish": "man tir ons tor fre lor son", "finnish": "ma ti ke to pe la su", "czech": "po ut st ct pa so ne",
}  # fmt: skip
#: The words between the first and the last weekday or month of a range, and words that only join two of them.
_RANGE_WORDS = frozenset("a al ao ate au bis do fino hasta jusqu m pana t til till to tot до по".split())
_CONJUNCTIONS = frozenset("and e en et i o oder och of oraz ou u und y".split())
#: The maximum number of characters between the first and the last weekday or month of a range.
_MAX_RANGE_GAP = 24
_WORD_PATTERN = compile_lazily(r"[^\W\d_]+")
#: Languages that write months in lower case and have names of persons like them: *Maj*, *Марта*.
_LOWER_CASE_MONTH_LANGUAGES = frozenset("czech danish finnish norwegian polish romanian russian ukrainian".split())
_NEXT_WORD_PATTERN = compile_lazily(r"(?<=[^\W\d_] )([^\W\d_]++)(?!\w| ?\d)")
_NUMERIC_DATE_PATTERN = compile_lazily(
    # With a year: "7.1." can be the number of a section.
    r"(?<![\d./-])(?:\d{1,2}[./-] ?(?P<month>1[0-2]|0?[1-9])[./-] ?(?:19|20)?\d\d(?![./-]?\d)"
    r"|(?:19|20)\d\d-(?P<iso>1[0-2]|0[1-9])(?!\d))"
)
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_ENGLISH_DAY = rf"\b({'|'.join(_DAYS)})(?:s|nes|rs?|ur)?"
_ENGLISH_DAY_PATTERN = compile_lazily(rf"{_ENGLISH_DAY}days?\b", re.IGNORECASE)
_DAY_RANGE_PATTERN = compile_lazily(
    rf"{_ENGLISH_DAY}(?:days?)?\b(?: ?(?:[-–—]|to|until|through) ?{_ENGLISH_DAY}(?:days?)?\b)?"
)
_ENGLISH_MONTH_PATTERN = compile_lazily(rf"\b(?:{'|'.join(map(str.title, MONTHS))})\b")
#: A year, but no amount ("2000 euros").
YEAR_PATTERN = compile_lazily(
    r"(?<![\d.,€$£])(?<![€$£] )(?:1[5-9]|20)\d\d(?![.,]?\d|\s?[€$£%°]|\s?(?:euros?|eur|usd|gbp|franken|francs?|dollars?"
    r"|d[oó]lares|pounds?|pesos?|person\w*|people|guests?|visitors?|[ckm]?[glmw]h?[²³]?|kilo\w*|kcal|calories?|miles?"
    r"|met(?:ers?|res?|ros?|ri)|liter|litr\w*|percent|square)(?!\w))",
    re.IGNORECASE,
)
#: A range of years: 1998–2004, 2025/26, "von 1998 bis 2004".
_YEAR_RANGE_PATTERN = compile_lazily(
    r"(?<!\d)((?:1\d|20)\d\d)(?:\s?[-–—/]\s?|\s(?:bis|and|y|e|et|und|a|al|à|au|até|hasta|en|tot|to)\s(?:el\s)?)"
    r"((?:1\d|20)?\d\d)(?!\d)",
    re.IGNORECASE,
)


class DateWords(NamedTuple):
    """The weekdays (0 to 6) and months (1 to 12) in a text, and its years as written.

    ``has_other_days`` is True if it also has weekdays without their names, as in *daily*.
    """

    weekdays: frozenset[int]
    months: frozenset[int]
    years: frozenset[str]
    has_other_days: bool

    def is_contradicted_by(self, text: DateWords) -> bool:
        """True if a text has weekdays, but none of those in this question, or has months, but none of those in it.

        A text with a word such as *daily* contradicts no weekday.
        """
        have_weekdays = bool(self.weekdays and text.weekdays) and not text.has_other_days
        have_months = bool(self.months and text.months)
        return (have_weekdays and self.weekdays.isdisjoint(text.weekdays)) or (
            have_months and self.months.isdisjoint(text.months)
        )


def find_date_words(text: str, language: str | None) -> DateWords:
    """Return the weekdays, months and years in a text; ``language`` is the language in which months are named.

    A range has all weekdays or months from the first to the last one.

    >>> dates = find_date_words("Lunes a miércoles y sábado, del 1 de octubre al 15 de enero de 2026", "spanish")
    >>> sorted(dates.weekdays), sorted(dates.months), sorted(dates.years)
    ([0, 1, 2, 5], [1, 10, 11, 12], ['2026'])
    >>> sorted(find_date_words("Mo.-Mi. 9-12 Uhr, Fr 9.30 Uhr", "german").weekdays)
    [0, 1, 2, 4]
    >>> sorted(find_date_words("Wie war 2019 der Preis für 2025 Euro?", "german").years)
    ['2019']
    """
    folded_text = fold_text(text)
    weekdays = [
        (match.start(), match.end(), match.lastindex - 1)
        for match in _compile_weekdays(language).finditer(folded_text)
        if match.lastindex is not None
    ]
    abbreviations = _WEEKDAY_ABBREVIATIONS.get(language or "", "").split()
    other_text = folded_text
    if abbreviations:
        pattern = _compile_abbreviated_days(tuple(abbreviations))
        weekdays += [
            (days.start() + match.start(), days.start() + match.end(), abbreviations.index(match.group()))
            for days in pattern.finditer(folded_text)
            for match in _WORD_PATTERN.finditer(days.group())
        ]
        weekdays.sort()
        other_text = pattern.sub(" ", folded_text)
    numbers = _read_months(language)
    months = [
        (match.start(), match.end(), numbers[match.group()] - 1)
        for match in _WORD_PATTERN.finditer(folded_text)
        if match.group() in numbers
    ]
    if months and language in _LOWER_CASE_MONTH_LANGUAGES:
        names = _list_capitalized_words(text)
        months = [month for month in months if folded_text[month[0] : month[1]] not in names]
    numeric_months = (int(match["month"] or match["iso"]) for match in _NUMERIC_DATE_PATTERN.finditer(text))
    return DateWords(
        _expand_ranges(folded_text, weekdays, 7),
        frozenset(month + 1 for month in _expand_ranges(folded_text, months, 12)) | frozenset(numeric_months),
        frozenset(year for year in YEAR_PATTERN.findall(text) if not year.endswith("00")),  # no round numbers
        _OTHER_DAYS_PATTERN.search(other_text) is not None,
    )


def has_year(year: str, texts: Iterable[str]) -> bool:
    """True if one of the texts has a year, or a range of years with it: 1998–2004, 2025/26.

    >>> has_year("2001", ["Von 1998 bis 2004"]), has_year("2026", ["Im Jahr 2025/26"]), has_year("2026", ["2025, 2027"])
    (True, True, False)
    """
    for text in texts:
        if re.search(rf"(?<!\d){year}(?!\d)", text):
            return True
        for first, last in _YEAR_RANGE_PATTERN.findall(text):
            if first <= year <= first[: 4 - len(last)] + last:
                return True
    return False


@cache
def _compile_weekdays(language: str | None) -> re.Pattern[str]:
    """Return a pattern for the names of weekdays, with a group for each day from Monday on. Cached."""
    days: Iterable[str] = _WEEKDAY_STEMS
    if language in _WEEKDAY_STEMS_BY_LANGUAGE:
        days = map("|".join, zip(days, _WEEKDAY_STEMS_BY_LANGUAGE[language], strict=True))
    return re.compile(rf"(?<!\w)(?:{'|'.join(f'({stems})' for stems in days)})\w*")


def _list_capitalized_words(text: str) -> frozenset[str]:
    """Return the words after another word that begin with a capital and have no number after them, without accents."""
    words = (match[1] for match in _NEXT_WORD_PATTERN.finditer(text))
    return frozenset(fold_text(word) for word in words if word[0].isupper())


@cache
def _compile_abbreviated_days(abbreviations: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern for a list or range of abbreviated weekdays, or one before an hour. Cached."""
    day = rf"(?:{'|'.join(abbreviations)})\b\.?"
    return re.compile(rf"(?<!\w){day}(?:(?:\s?[-–—/,+&]\s?{day})+|(?=:?\s+\d{{1,2}}[:.h]\d\d))")


def spell_dates_like_question(text: str, question: str) -> str:
    """Rewrite the dates of a text with the month and weekday names that the question uses, so that their words match.

    Only English names are known. They replace numbers and abbreviations of months, and weekdays that are abbreviated or
    in a range.

    >>> spell_dates_like_question("brewed: 2025-03-20", "Who brewed in March?")
    'brewed: 20 March 2025'
    >>> spell_dates_like_question("Fri–Sun: 9 to 5", "When on Saturdays?")
    'Saturdays: 9 to 5'
    """
    for name in set(_ENGLISH_MONTH_PATTERN.findall(question)):
        month = MONTHS.index(name.lower()) + 1
        text = re.sub(rf"\b{name[:3]}t?\b\.?", name, text)
        text = re.sub(rf"\b(\d{{4}})-{month:02}(?:-(\d\d))?\b", rf"\2 {name} \1", text)
        # With slashes, only a day after 12 shows which number is the month.
        day = r"(?:\b(\d\d?(?=\.)|(?:1[3-9]|[23]\d)(?=/))[./]|(?<![\d./]))"
        text = re.sub(rf"{day}0?{month}[./](\d{{4}})\b", rf"\1 {name} \2", text)
    names = {_DAYS.index(match[1].title()): match[0] for match in _ENGLISH_DAY_PATTERN.finditer(question)}

    def name_days(days: re.Match[str]) -> str:
        """Return the weekdays of the question that are among some days; the days if there are none."""
        first, last = _DAYS.index(days[1]), _DAYS.index(days[2] or days[1])
        return " and ".join(name for day, name in names.items() if (day - first) % 7 <= (last - first) % 7) or days[0]

    return _DAY_RANGE_PATTERN.sub(name_days, text) if names else text


@cache
def _read_months(language: str | None) -> Mapping[str, int]:
    """Return the number (1 to 12) of each name of a month in the word file of a language, without accents. Cached."""
    word_file = None if language is None else read_language_file(language)
    names = [] if word_file is None else split_phrases(word_file["answers"]["months"])
    numbers = read_month_numbers(language)
    return {fold_text(name): numbers[name] for name in names if name in numbers}


def _expand_ranges(text: str, matches: list[tuple[int, int, int]], period: int) -> frozenset[int]:
    """Return the numbers of the weekdays or months in a text, and those between the first and the last of a range.

    ``matches`` are the start, the end and the number of each name in the text. Numbers are 0 to ``period`` - 1, and a
    range can go on from the last to the first: October to January.
    """
    numbers = {number for *_, number in matches}
    for (_, end, first), (start, _, last) in pairwise(matches):
        gap = text[end:start]
        words = set(_WORD_PATTERN.findall(gap))
        is_range = gap.strip(" .") in ("-", "–", "—", "/") or (bool(words & _RANGE_WORDS) and not words & _CONJUNCTIONS)
        if is_range and len(gap) <= _MAX_RANGE_GAP and not set(",;") & set(gap):
            numbers |= {(first + step) % period for step in range((last - first) % period)}
    return frozenset(numbers)
