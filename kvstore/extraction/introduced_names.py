"""The names that a document introduces, each once."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from ..errors import InputError
from ..text.names import Name, is_name_key
from ..text.normalize import to_entity_key
from ..text.stated_names import MAX_ENTITY_KEY_BYTES


class Introduction(NamedTuple):
    """A name that a document introduces: its normal form, its form as written, and its kind."""

    key: str
    form: str
    kind: str


def collect_introductions(names: Iterable[Name], max_words: int | None, document: str) -> list[Introduction]:
    """Return each name once, with the form and kind of its first occurrence, sorted by normal form.

    Names that cannot be entities by rule, such as names of more than ``max_words`` words, are omitted. If ``max_words``
    is None, every name is kept, and a name of invalid length raises InputError with the key ``document``.
    """
    introductions: dict[str, Introduction] = {}
    seen_forms: set[str] = set()
    for form, kind in names:
        if form in seen_forms:
            continue
        seen_forms.add(form)
        if max_words is None:
            name_key = to_entity_key(form)
            if not 0 < len(name_key.encode()) <= MAX_ENTITY_KEY_BYTES:
                raise InputError(
                    f"document {document!r}: a name in a tree has 1 to {MAX_ENTITY_KEY_BYTES} bytes, not {form!r}"
                )
        else:
            name_key = _to_name_key(form, max_words)
        if name_key and name_key not in introductions:
            introductions[name_key] = Introduction(name_key, form, kind)
    return [introductions[name_key] for name_key in sorted(introductions)]


@lru_cache(maxsize=1 << 13)  # names recur across documents
def _to_name_key(form: str, max_words: int) -> str:
    """Return the normal form of a name, or an empty string if it cannot become an entity by rule."""
    key = to_entity_key(form)
    return key if is_name_key(key, max_words) else ""
