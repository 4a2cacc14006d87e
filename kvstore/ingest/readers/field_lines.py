"""The text of an entry of fields, such as an appointment or an address card: lines ``name: value``, then paragraphs.

In: fields in their order, and what is told in prose. Out: plain text. Short fields stand together, as those of a row
do; a long one is a paragraph of its own, which can be told without the others.
"""

from __future__ import annotations

from collections.abc import Iterable

#: What entries call the months, whatever the locale of the process.
MONTHS = "January February March April May June July August September October November December".split()
#: Words of a field that stands in a line among others.
_MAX_SHORT_WORDS = 10


def format_entry(fields: Iterable[tuple[str, str]], paragraphs: Iterable[str]) -> str:
    r"""What an entry says.

    >>> format_entry([("Where", "Quay 3"), ("When", "at noon"), ("With", "")], ["Ring twice."])
    'Where: Quay 3\nWhen: at noon\n\nRing twice.\n'
    """
    lines = dict.fromkeys(
        (f"{name}: {value}", len(value.split()) <= _MAX_SHORT_WORDS) for name, value in fields if value
    )
    short_text = "\n".join(line for line, is_short in lines if is_short)
    long_lines = [line for line, is_short in lines if not is_short]
    return "\n\n".join(filter(None, (short_text, *long_lines, *paragraphs))) + "\n"
