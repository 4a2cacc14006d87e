"""Names as users state them: of entities, of trees, of relations.

In: a text as typed. Out: the text as it is kept, or an InputError where it is empty or too long.
"""

from __future__ import annotations

from ..arguments import shown
from ..errors import InputError
from .normalize import entity_key

#: Bytes of the longest normal form of a name, of a tree's name, and of a relation.
LONGEST_ENTITY_KEY = 400


def stated_tree(name: str) -> str:
    """The name of a tree; raises InputError where it is empty or too long."""
    return _checked(name, name, "the name of a tree")


def stated_name(name: str) -> str:
    """A name as the user typed it, its white space single; raises InputError where it is empty or too long."""
    if not isinstance(name, str):
        raise InputError(f"a name is a text, not {shown(name)}")
    form = " ".join(name.split())
    try:
        return _checked(form, entity_key(form), "a name")
    except UnicodeEncodeError:
        raise InputError(f"a name is a text, and {form!r} has half of a surrogate pair in it") from None


def stated_relation(relation: str) -> str:
    """What joins two names, its white space single; raises InputError where it is empty or too long."""
    form = " ".join(relation.split())
    return _checked(form, form, "a relation")


def _checked(form: str, key: str, what: str) -> str:
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise InputError(f"{what} is a text, and {form!r} has half of a surrogate pair in it") from None
    if not 0 < size <= LONGEST_ENTITY_KEY:
        raise InputError(f"{what} has 1 to {LONGEST_ENTITY_KEY} bytes, not {size:,}; give it another")
    return form
