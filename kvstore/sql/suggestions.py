"""Suggestions for the key of a document or the name of an entity that the store does not have.
The *key* of an entity is the normal form of its name.

In: one state of the store, and the key or name. Out: the nearest existing ones, best first, and the error that suggests
them. Only a limited number of keys with the same prefix are compared, so a misspelling does not scan the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from ..errors import DocumentNotFoundError, EntityNotFoundError
from ..structures.state import State
from ..text.normalize import to_entity_key
from .literals import format_literal

#: The maximum number of keys or names that a misspelled one is compared with.
_MAX_COMPARED = 20_000
#: The minimum similarity of a suggestion to the misspelled key or name, as measured by difflib.
_MIN_SIMILARITY = 0.75


def find_near_keys(state: State, key: str) -> list[str]:
    """Return at most three document keys that are similar to ``key``, the most similar first."""
    from difflib import get_close_matches

    # Similar keys mostly share their first half, so keys without it are compared only if no key with it is similar.
    for prefix in (key[: max(1, len(key) // 2)], ""):
        keys = islice(state.documents.iter_keys(prefix), _MAX_COMPARED)
        matches = get_close_matches(key, keys, 3, _MIN_SIMILARITY)
        if matches:
            return matches
    return []


def find_near_names(state: State, name: str, limit: int = 3) -> list[str]:
    """Return at most ``limit`` names of entities that are similar to ``name``, the most similar first.

    If no name is spelled similarly, these are names with all words of ``name``, such as "Maria Jensen" for "Jensen".
    """
    from difflib import get_close_matches

    key = to_entity_key(name)
    matches: list[str] = []
    # Similar names mostly share their first half; the first names in key order are compared only as a last resort.
    for length in (max(1, len(key) // 2), 1):
        matches = matches or get_close_matches(key, _list_name_keys(state, key[:length]), limit, _MIN_SIMILARITY)
    if not matches and (words := set(key.split())):
        matches = [other_key for other_key in _list_name_keys(state) if words <= set(other_key.split())][:limit]
    entity_ids = map(state.entities.find_id, matches)
    return [state.entities.get(entity_id).name for entity_id in entity_ids if entity_id is not None]


def _list_name_keys(state: State, prefix: str = "") -> list[str]:
    """Return the normal forms of at most ``_MAX_COMPARED`` names that begin with ``prefix``."""
    return [key for key, _ in islice(state.entities.iter_names(prefix), _MAX_COMPARED)]


def make_document_error(state: State, key: str) -> DocumentNotFoundError:
    """Return the error for a missing document, which suggests similar keys."""
    hint = _format_hint(find_near_keys(state, key)) or "; SELECT key FROM documents lists the documents"
    return DocumentNotFoundError(f"there is no document {format_literal(key)}{hint}")


def make_entity_error(state: State, name: str) -> EntityNotFoundError:
    """Return the error for an unknown entity, which suggests similar names."""
    hint = _format_hint(find_near_names(state, name)) or "; SELECT name FROM entities lists the names"
    return EntityNotFoundError(f"no entity is called {format_literal(name)}{hint}")


def _format_hint(matches: Sequence[str]) -> str:
    """Return the end of an error message that suggests similar names; empty without ``matches``."""
    return f"; did you mean {' or '.join(map(format_literal, matches))}?" if matches else ""
