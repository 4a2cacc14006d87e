"""Names as users state them: of entities, of trees, of relations.

In: a text as typed. Out: the text as it is kept, or an InputError where it is empty or too long.
"""

from __future__ import annotations

from ..arguments import format_value
from ..errors import InputError
from .normalize import to_entity_key

#: Bytes of the longest normal form of a name, of a tree's name, and of a relation.
MAX_ENTITY_KEY_BYTES = 400


def check_tree_name(name: str) -> str:
    """The name of a tree; raises InputError where it is empty or too long."""
    return _check_size(name, name, "the name of a tree")


def clean_name(name: str) -> str:
    """A name as the user typed it, its white space single; raises InputError where it is empty or too long."""
    if not isinstance(name, str):
        raise InputError(f"a name is a text, not {format_value(name)}")
    form = " ".join(name.split())
    try:
        return _check_size(form, to_entity_key(form), "a name")
    except UnicodeEncodeError:
        raise InputError(f"a name is a text, and {form!r} has half of a surrogate pair in it") from None


def clean_relation(relation: str) -> str:
    """What joins two names, its white space single; raises InputError where it is empty or too long."""
    form = " ".join(relation.split())
    return _check_size(form, form, "a relation")


def _check_size(form: str, key: str, label: str) -> str:
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise InputError(f"{label} is a text, and {form!r} has half of a surrogate pair in it") from None
    if not 0 < size <= MAX_ENTITY_KEY_BYTES:
        raise InputError(f"{label} has 1 to {MAX_ENTITY_KEY_BYTES} bytes, not {size:,}; give it another")
    return form
