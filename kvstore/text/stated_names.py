"""Names as users state them: of entities, trees and relations.

In: a text as typed. Out: the text to store, or an InputError if it is empty or too long.
"""

from __future__ import annotations

from ..arguments import format_value
from ..errors import InputError
from .normalize import to_entity_key

#: The maximum length in bytes of the normal form of a name, a tree's name, or a relation.
MAX_ENTITY_KEY_BYTES = 400


def check_tree_name(name: str) -> str:
    """Return the name of a tree. Raises InputError if it is empty or too long."""
    return _check_size(name, name, "the name of a tree")


def clean_name(name: str) -> str:
    """Return a name as typed, with single spaces. Raises InputError if it is empty or too long."""
    if not isinstance(name, str):
        raise InputError(f"a name must be a text, not {format_value(name)}")
    form = " ".join(name.split())
    try:
        return _check_size(form, to_entity_key(form), "a name")
    except UnicodeEncodeError:
        raise InputError(f"the name {form!r} contains half of a surrogate pair, which is not text; remove it") from None


def clean_relation(relation: str) -> str:
    """Return the text of a relation, with single spaces. Raises InputError if it is empty or too long."""
    form = " ".join(relation.split())
    return _check_size(form, form, "a relation")


def _check_size(form: str, key: str, label: str) -> str:
    """Return ``form`` if its normal form ``key`` has a valid size; ``label`` names it in the InputError."""
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise InputError(f"{label} must be text, and {form!r} contains half of a surrogate pair; remove it") from None
    if not 0 < size <= MAX_ENTITY_KEY_BYTES:
        raise InputError(f"{label} must have 1 to {MAX_ENTITY_KEY_BYTES} bytes, not {size:,}; use a different one")
    return form
