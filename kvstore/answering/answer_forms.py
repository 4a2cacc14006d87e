"""The *forms* of answers: regular expressions for text that can answer a question of a type, such as a number with a
unit for a weight, or a word for a color. A text without the form of the asked type hardly ever answers.

Out: the form of each type in English (:data:`ANSWER_FORMS`), and the units that questions also name ("how many
miles"). Other languages have theirs in :mod:`..text.question_words`.
"""

from __future__ import annotations

import re

from ..text.name_words import MONTHS
from ..text.patterns import compile_lazily

_MONTHS = "|".join(MONTHS)
#: A date with an abbreviated month, such as "6 Sept", "Jul. 14" or "12-Oct".
_SHORT_MONTHS = "(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)"
_SHORT_DATE = rf"\b\d{{1,2}}(?:st|nd|rd|th)?[ -]{_SHORT_MONTHS}\b|\b{_SHORT_MONTHS}\.? \d{{1,2}}(?![\d:.])"
_DAYS = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
_NUMBERS = (
    "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|"
    "nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundreds?|thousands?|millions?|billions?|half|thirds?|"
    "quarters?|twice|once|none|dozens?|single|both"
)
#: Currencies, units of time and of length, as words and signs.
CURRENCIES = "euros?|dollars?|pounds?|cents?|pence|francs?|kroner|yen|eur|usd|gbp|chf|€|£|¥|\\$"
TIME_UNITS = "(?:(?:milli)?second|minute|hour|day|night|week|month|year|decade)s?|centur(?:y|ies)"
_SHORT_TIME_UNITS = "ms|s|secs?|m|mins?|h|hrs?|d|wks?|yrs?"
DISTANCE_UNITS = "(?:kilo|centi|milli)?met(?:er|re)s?|miles?|feet|inch(?:es)?|yards?"
_LENGTH_UNITS = f"[mk]m|[mcd]?m|ft|{DISTANCE_UNITS}|pages?|words?|characters?|tokens?"
WEIGHT_UNITS = "(?:kilo|milli|giga|mega)?(?:grams?|tons?|tonnes?)|kilos?|ounces?|stone"
AREA_UNITS = f"acres?|hectares?|square (?:{DISTANCE_UNITS})"
VOLUME_UNITS = f"(?:milli|centi|hecto)?lit(?:er|re)s?|gallons?|pints?|quarts?|barrels?|cubic (?:{DISTANCE_UNITS})"
_COLORS = (
    "black|white|gr[ae]y|red|blue|green|yellow|orange|purple|violet|pink|brown|beige|cream|ivory|gold|golden|silver|bronze"
    "|copper|chrome|turquoise|teal|cyan|magenta|maroon|crimson|scarlet|burgundy|navy|indigo|lavender|lilac|mauve|tan|khaki"
    "|olive|lime|mint|coral|peach|amber|ochre|charcoal|ebony|blonde?|brunette|auburn|ginger|tabby|tortoiseshell|brindle"
    "|piebald|chestnut|bay|sorrel|roan|fawn|sable|dark|light|pale|transparent|opaque|clear|rose|plum|aqua|azure|emerald"
    "|anthracite|neutral|rainbow|striped|spotted"
)
#: A match begins at the first digit of a number and never ends inside it, or a chain of numbers would take minutes.
_AMOUNT = rf"(?:(?<!\d)(?<!\d[.,])\d[\d.,]*+|\b(?:an?|one|{_NUMBERS}))"


def _build_field_pattern(units: str) -> str:
    """Return a regular expression for a number in a field whose name has the unit, such as ``Duration (weeks): 3``.

    ``units`` is a regular expression for the names of the units.
    """
    return rf"(?<![^\W_])(?:{units})(?![^\W_])[^:;.\d]{{0,12}}: ?[^\w:;\s]?\d"


def _build_quantity_pattern(units: str) -> str:
    """Return a regular expression for a number with a unit: ``3 km``, ``two and a half miles``, ``Length (m): 7``.

    ``units`` is a regular expression for the names of the units.
    """
    return rf"{_AMOUNT}(?:[ -](?:\d+|[a-z]+))?[ -]?(?<![^\W\d_])(?:{units})(?![^\W_])|{_build_field_pattern(units)}"


def _build_label_pattern(labels: str) -> str:
    """Return a regular expression for a digit soon after a label: ``Serial no.: KX-12``.

    ``labels`` is a regular expression for the labels.
    """
    return rf"(?<![^\W_])(?:{labels})(?![^\W_])[^\n]{{0,60}}?\d"


#: A capitalized word that does not open a sentence.
_CAPITALIZED = r"(?<![.!?] )(?<!^)\b[A-Z][\w'’.-]*\w"
_QUOTED_CODE = "`[^`]+`"
ANSWER_FORMS = {
    "person": compile_lazily(_CAPITALIZED),
    "place": compile_lazily(rf"{_CAPITALIZED}|(?<![\w/])(?:~|/|\$)[\w.${{}}-]+(?:/[\w.-]*)+|{_QUOTED_CODE}"),
    "time": compile_lazily(
        rf"\b(?:1\d|20)\d\ds?\b|\b(?:(?:{_MONTHS}) \d{{1,2}}|{_MONTHS}|{_DAYS}|century|years?|noon|midnight)\b"
        r"|\b\d{1,2}:\d\d\b"
        rf"|\b\d{{1,2}}(?:st|nd|rd|th)\b|\b\d{{1,2}} ?[ap]\.?m\b|\b\d{{1,2}}[./]\d{{1,2}}[./]\d|{_SHORT_DATE}"
        rf"|{_AMOUNT} (?:{TIME_UNITS})\b",
        re.IGNORECASE,
    ),
    # The digits of an identifier, such as "E-1407", are not a number.
    "number": compile_lazily(rf"(?<!\w)(?<![^\W\d]-)\d|\b(?:{_NUMBERS})\b", re.IGNORECASE),
    # An amount in a list of prices has no currency; a number with a unit, a year, a clock time or a telephone
    # number is not a price. A share answers "How much of the pay", and "free of charge" any question for a price.
    "money": compile_lazily(
        rf"\d ?%|\bper ?cent\b"
        rf"|(?:{CURRENCIES}) ?\d[\d.,]*|{_AMOUNT}(?:[ -](?:{_NUMBERS}|k|m|us)){{0,6}}[ -]?(?:{CURRENCIES})(?!\w)"
        r"|(?<![\w.,:/-])(?<!\d )(?!(?:19|20)\d\d\b|0\d)\d[\d.,]*\d(?![\w%:/-]| \d)"
        rf"(?! (?:{TIME_UNITS}|{_LENGTH_UNITS}|people)\b)|{_build_field_pattern(CURRENCIES)}"
        r"|\b(?:free of charge|for free|half (?:of|price|the)|(?:costs?|pays?) nothing|no (?:charge|costs?|fees?))\b"
        r"|\bfree\b(?! (?:from|of|to)\b)|\b(?:in)?expensive\b|\bcheap|\d ?k\b|\btimes as much\b"
        rf"|\b(?:{_NUMBERS}) of [a-z. ]{{0,6}}(?:{CURRENCIES})(?!\w)|\bwithout (?:charge|cost|payment)",
        re.IGNORECASE,
    ),
    "duration": compile_lazily(
        rf"{_build_quantity_pattern(f'{TIME_UNITS}|{_LENGTH_UNITS}')}|\b\d+(?:st|nd|rd|th) (?:{TIME_UNITS})\b"
        rf"|(?<![^\W\d])\d ?(?:{_SHORT_TIME_UNITS})\b"
        rf"|\b(?:several|few|couple of|many|number of|some|past|last|in|over|for|all) (?:more )?(?:{TIME_UNITS})\b"
        rf"|\b(?:{TIME_UNITS}) (?:after|ago|before|later)\b"
        r"|\b(?:from|through|throughout|between)(?: [\w'’-]+){0,5}? \d"
        r"|\b(?:until|till|since|as long as) (?:the )?[\w-]+|\b\d{3,4} ?(?:[-–]|to|until|and) ?(?:\d{3,4}|present)\b"
        r"|\b(?:forever|permanent(?:ly)?|indefinite(?:ly)?|overnight|lifetime|life|generations|centuries|millennia)\b",
        re.IGNORECASE,
    ),
    "weight": compile_lazily(
        rf"{_build_quantity_pattern(f'[kmµ]?g|t|lbs?|oz|pounds?|{WEIGHT_UNITS}')}|\b(?:light|heavy|heavier)",
        re.IGNORECASE,
    ),
    "length": compile_lazily(_build_quantity_pattern(f"[ckm]?m|ft|mi|yd|{DISTANCE_UNITS}"), re.IGNORECASE),
    "area": compile_lazily(_build_quantity_pattern(f"ha|sq|[ck]?m[²2]|{AREA_UNITS}"), re.IGNORECASE),
    "volume": compile_lazily(_build_quantity_pattern(f"[cmh]?l|gal|bbl|cc|[cd]?m[³3]|{VOLUME_UNITS}"), re.IGNORECASE),
    "time of day": compile_lazily(
        r"\b\d{1,2}[:.h]\d\d\b|\b\d{1,2} ?(?:[ap]\.? ?m\b|o['’]clock|h\b)|\b\d{4} ?(?:hours|hrs|h|UTC|GMT)\b"
        r"|\b(?:at|from|until|till|to|by|before|after|between|and)(?: about| around)? \d{1,2}\b"
        rf"(?![%./]| ?(?:{TIME_UNITS}|{_LENGTH_UNITS}|{_MONTHS})\b)"
        r"|\b\d{1,2} ?(?:-|–|to|until) ?\d{1,2}\b(?![%./]| \w)|\b(?:half past|quarter (?:past|to)) \w+"
        r"|\b(?:noon|midday|midnight|dawn|dusk|sunrise|sunset|lunchtime|24 hours|around the clock)\b",
        re.IGNORECASE,
    ),
    "color": compile_lazily(
        rf"\b(?:{_COLORS})(?:s|y|ish|er)?\b|\bcolou?red\b|#[\da-f]{{3,6}}\b|\bRAL ?\d", re.IGNORECASE
    ),
    "percentage": compile_lazily(
        rf"\d ?%|{_build_field_pattern('%|per ?cent')}|\b(?:per ?cent|half|thirds?|quarters?|fourths?|fifths?|tenths?"
        rf"|(?:one|{_NUMBERS}|\d+) (?:in|of|out of) [\w-]+|\d/\d|majority|most|fraction)\b",
        re.IGNORECASE,
    ),
    "frequency": compile_lazily(
        rf"\d|\b(?:{_NUMBERS}|(?:bi-?)?(?:hourly|daily|weekly|monthly|quarterly|yearly|annually|annual))\b"
        r"|\b(?:every|each|per|an?|never|always|sometimes|often|several|all) [\w-]+"
        r"|\b(?:rare|seldom|occasional|frequent|regular|routine|usual|constant|continuous|continual|repeated"
        r"|every(?:day|night))(?:ly)?\b",
        re.IGNORECASE,
    ),
    "command": compile_lazily(
        rf"{_QUOTED_CODE}|(?<![\w-])--?[A-Za-z][\w-]*|\b[a-z]+_\w+|\b[A-Z]{{2,}}_\w+|\w\(\)|(?<!\w)[/~]\w[\w./-]+|"
        r"\b[a-z]+=\w|\b[A-Z][A-Z\d]{2,}\b"
    ),
    "telephone number": compile_lazily(
        r"(?:tel|phone|fax|mobile|call|ring|dial)[a-z]*\.?:?(?: us| me)?(?: at| on| under)? ?[+(]?\d[\d ()/.-]{3,}\d"
        r"|\b(?:tele)?(?:phone|tel)\b[^:\d]{0,10}:? ?\d{2}|\bext(?:ension)?\b\.?:? ?\d{2}"
        rf"|\bext(?:ension)?\.?:? ?(?:is )?\d{{2,}}(?![\d%]| (?:{TIME_UNITS}|{_LENGTH_UNITS}|{CURRENCIES})(?!\w))"
        r"|[+]\d[\d ()/.-]{6,}\d|(?<![\d.-])\(?0\d{1,4}\)?[ /-]\d[\d -]{3,}\d|\(?\b\d{3}\)?[ .-]\d{3}[ .-]\d{4}\b"
        r"|(?<![\w.-])\d{3}-\d{4}(?![\w-])",
        re.IGNORECASE,
    ),
    "e-mail address": compile_lazily(r"(?<![\w.+-])[\w.+-]++(?:@| at )[\w-]+(?:(?:\.| dot )[\w-]+)+", re.IGNORECASE),
    "web address": compile_lazily(
        r"\bhttps?://\S+|\bwww\.\w\S+|(?<!\w)(?<!\w-)\b[\w-]++\.(?:com|org|net|edu|gov|io|[a-z]{2})\b", re.IGNORECASE
    ),
    "serial number": compile_lazily(_build_label_pattern("serial|s/?n"), re.IGNORECASE),
    "license plate": compile_lazily(
        _build_label_pattern("plates?|registration|registered|reg")
        + r"|(?-i:\b[A-Z]{1,3}[ -]?\d{2,4}[ -]?[A-Z]{2,3}\b)",
        re.IGNORECASE,
    ),
    "account number": compile_lazily(
        rf"{_build_label_pattern('account|acct|a/c|iban')}|\b[a-z]{{2}}\d\d(?: ?[\da-z]{{4}}){{3}}", re.IGNORECASE
    ),
    "reason": compile_lazily(
        r"\b(?:because|since|so that|due to|in order|reasons?|causes?d?|therefore|as a result|owing|thus|otherwise)\b|"
        r"\bto (?:avoid|prevent|allow|ensure|make)\b",
        re.IGNORECASE,
    ),
}

#: A time in the broadest sense, which nearly all answers to "when" have: also a season, or a clause ("after lunch").
TIME_OR_EVENT_PATTERN = compile_lazily(
    rf"\b(?:(?:{_MONTHS})\.? \d{{1,2}}|\d{{1,2}}(?:st|nd|rd|th)?(?: of)? (?:{_MONTHS})|{_MONTHS}|{_DAYS})s?\b"
    rf"|\b(?:{TIME_UNITS})\b"
    r"|\b\d{3,4}s?\b|['’]\d\ds?\b|\b\d{1,2}:\d\d\b|\b\d{1,2}(?:st|nd|rd|th| ?[ap]\.?m)\b"
    rf"|\b\d{{1,2}}[./]\d{{1,2}}[./]\d|{_SHORT_DATE}"
    r"|\b(?:bce?|ad|ce|noon|midnight|today|tomorrow|yesterday|tonight|now|currently|recently|immediately|eventually|once"
    r"|soon|later|early|late|never|always|annually|daily|weekly|monthly|yearly|twenties|thirties|forties|fifties|sixties"
    r"|seventies|eighties|nineties|weekends?|spring|summer|autumn|winter|fall|christmas|easter|mornings?|afternoons?"
    r"|evenings?|dawn|dusk|sunrise|sunset|era|ages|period|dynasty|season|holidays?|lunch|dinner|breakfast|birthday"
    r"|anniversary|term|semester|quarter)\b"
    r"|\b(?:before|after|until|till|since|during|throughout|when(?:ever)?|upon|as soon as|while|within|following|if"
    r"|prior to|by the time|at the (?:beginning|start|end)(?: of)?)(?: the| an?)? [\w'’]+",
    re.IGNORECASE,
)
