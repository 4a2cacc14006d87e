"""English numbers in words.

In: a text or an integer. Out: the numbers that are written in words, such as "twenty-five", and the words of a number.
"""

from __future__ import annotations

import re

from .patterns import compile_lazily

_BELOW_TWENTY = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
#: The number of each word.
NUMBERS: dict[str, int] = {
    **{word: number for number, word in enumerate(_BELOW_TWENTY, 1)},
    **{word: 10 * number for number, word in enumerate(_TENS, 2)},
}
#: A number from 20 to 99 in words, such as "forty" or "forty-two".
_TENS_AND_UNITS = rf"(?:{'|'.join(_TENS)})(?:[ -](?:{'|'.join(_BELOW_TWENTY[:9])}))?"
#: A number from 2 to 99 in words; "one" is mostly a pronoun.
NUMBER_PATTERN = compile_lazily(
    rf"(?<![\w-])(?:{_TENS_AND_UNITS}|{'|'.join(_BELOW_TWENTY[:0:-1])})(?!\w)", re.IGNORECASE
)


def spell_number(number: int) -> str | None:
    """Return a number from 2 to 99 in words, or None for any other.

    >>> spell_number(8), spell_number(25), spell_number(100)
    ('eight', 'twenty-five', None)
    """
    if not 2 <= number <= 99:
        return None
    if number < 20:
        return _BELOW_TWENTY[number - 1]
    tens, unit = divmod(number, 10)
    return _TENS[tens - 2] + (f"-{_BELOW_TWENTY[unit - 1]}" if unit else "")
