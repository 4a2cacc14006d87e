"""Names as users type them: of entities, trees and relations. They are checked and stored with single spaces. The
*normal form* of a name is case-folded, without accents.

In: a text as typed. Out: the text to store, or an InputError if it is empty or too long; and whether a phrase is
written as a name.
"""

from __future__ import annotations

from ..arguments import format_value
from ..errors import InputError
from .name_words import CALENDAR_WORDS, PARTICLES
from .normalize import to_entity_key
from .words import FUNCTION_WORDS

#: The maximum length in bytes of the normal form of a name, a tree's name, or a relation.
MAX_ENTITY_KEY_BYTES = 400
#: The maximum number of words of a phrase that is a name.
_MAX_PHRASE_WORDS = 8


def check_tree_name(name: str) -> str:
    """Return the name of a tree unchanged. Raises InputError if it is empty, too long or not valid text."""
    _check_size(name, "the name of a tree")
    return name


def clean_name(name: str) -> str:
    """Return a name as typed, with single spaces. Raises InputError if it is empty, too long or not valid text."""
    if not isinstance(name, str):
        raise InputError(f"a name must be a string, not {format_value(name)}")
    form = " ".join(name.split())
    _check_size(form, "a name", key=to_entity_key(form))
    return form


def clean_relation(relation: str) -> str:
    """Return a relation as typed, with single spaces. Raises InputError if it is empty, too long or not valid text."""
    form = " ".join(relation.split())
    _check_size(form, "a relation")
    return form


def is_written_as_name(phrase: str) -> bool:
    """True if a phrase is written as a name ("Bank of England"), not as a description, a number or a date.

    All its words except function words and particles (*van*) begin with a digit, or have a capital or a letter of a
    script without capitals. It has at most eight words, and begins with a letter and not with a function word (except
    *the*), a month or a day.
    """
    words = list(filter(None, (part.strip("\"'“”‘’«»(),.:;!?") for part in phrase.split())))
    if not 0 < len(words) <= _MAX_PHRASE_WORDS or not words[0][0].isalpha():
        return False
    first_key = words[0].lower()
    if first_key in CALENDAR_WORDS or (first_key in FUNCTION_WORDS and first_key != "the"):
        return False
    content_words = [word for word in words if word.lower() not in FUNCTION_WORDS and word not in PARTICLES]
    return bool(content_words) and all(word[0].isdigit() or not word.islower() for word in content_words)


def _check_size(form: str, label: str, key: str | None = None) -> None:
    """Raise InputError if a text to store is empty, exceeds ``MAX_ENTITY_KEY_BYTES`` or is not valid text.

    ``form`` is the text as typed. ``key`` is its normal form if this is what the limit applies to (None: ``form``).
    ``label`` names the argument in the error.
    """
    try:
        size = len((form if key is None else key).encode())
    except UnicodeEncodeError:
        raise InputError(f"{label} must be text, and {form!r} contains half of a surrogate pair; remove it") from None
    if not 0 < size <= MAX_ENTITY_KEY_BYTES:
        raise InputError(f"{label} must have 1 to {MAX_ENTITY_KEY_BYTES} bytes, not {size:,}; use a different one")
