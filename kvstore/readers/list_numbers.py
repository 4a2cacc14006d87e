"""Numbers of list items in the formats of Word and HTML: ``c``, ``iv``, ``07``.

In: a number and the name of a format. Out: its text.
"""

from __future__ import annotations

_ROMAN_DIGITS = tuple(
    zip((1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1), "m cm d cd c xc l xl x ix v iv i".split(), strict=True)
)
#: The highest number that is written in letters or in Roman digits.
_MAX_LETTERS, _MAX_ROMAN = 780, 3999


def format_list_number(number: int, number_format: str) -> str:
    """Return a number in a format of Word (ECMA-376, 17.18.59); decimal in a format that is not supported.

    ``lowerAlphabetic`` and ``upperAlphabetic`` are the letters of HTML, in which ``ab`` follows ``aa``, not ``bb``.

    >>> [format_list_number(29, name) for name in ("decimal", "decimalZero", "lowerLetter", "upperRoman", "none")]
    ['29', '29', 'cc', 'XXIX', '']
    >>> format_list_number(29, "lowerAlphabetic")
    'ac'
    """
    if number_format == "none":
        return ""
    if number_format in ("lowerAlphabetic", "upperAlphabetic") and number >= 1:
        letters = ""
        while number:
            number, letter_index = divmod(number - 1, 26)
            letters = chr(ord("a") + letter_index) + letters  # a to z, aa, ab
        return letters if number_format == "lowerAlphabetic" else letters.upper()
    if number_format in ("lowerLetter", "upperLetter") and 1 <= number <= _MAX_LETTERS:
        letters = chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)  # a to z, aa, bb
        return letters if number_format == "lowerLetter" else letters.upper()
    if number_format in ("lowerRoman", "upperRoman") and 1 <= number <= _MAX_ROMAN:
        digits = ""
        for value, digit in _ROMAN_DIGITS:
            digits += digit * (number // value)
            number %= value
        return digits if number_format == "lowerRoman" else digits.upper()
    return f"{number:02}" if number_format == "decimalZero" else str(number)


def parse_list_number(text: str | None, default: int) -> int:
    """Return the number in an attribute, which is in digits, or ``default`` for None and any other text."""
    return int(text) if text is not None and text.isdecimal() and len(text) < 10 else default
