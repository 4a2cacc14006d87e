"""The names that a document *introduces* (makes known as entities), each once, and only if they occur in it. The *key*
of a name is its normal form: lower case, single spaces. To *fold* a text is to normalize it in the same way.

In: names, and the texts of a document in which kvstore looks for mentions (title, headings, chunks). Out:
introductions, and the normal forms that occur in one of the texts, as defined by :mod:`~kvstore.text.normalize`. The
cost of the search grows with the length of the texts, not with the number of names: a name is searched for only if the
text contains its longest word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..errors import InputError
from ..structures.filter.entity_filter import select_occurring_keys
from ..text.names import Name, is_name_key
from ..text.normalize import fold_to_bytes, to_entity_key
from ..text.patterns import compile_lazily
from ..text.stated_names import MAX_ENTITY_KEY_BYTES

_WORD_PATTERN = compile_lazily(r"\w+")
#: Up to this many words are searched for one by one, which is faster than splitting the text into words.
_MAX_WORD_SEARCHES = 128
#: With up to this many texts, every name is searched for directly.
_MAX_DIRECT_TEXTS = 4


def find_occurring_keys(texts: Sequence[str], keys: Iterable[str], max_words: int) -> set[str]:
    """Return the ``keys`` that occur in at least one text; keys are names in normal form (lower case, single spaces).

    Keys without a word, or of more than ``max_words`` words, are not found. If there are many texts, a key is searched
    for only in those that contain its longest word.

    >>> sorted(find_occurring_keys(["The planner of Ada's  engine"], ["ada", "engine", "plan", "ada's engine"], 12))
    ['ada', "ada's engine", 'engine']
    """
    if len(texts) <= _MAX_DIRECT_TEXTS:
        return _find_in_few_texts(texts, keys, max_words)
    keys_by_word: dict[bytes, list[bytes]] = {}  # by the longest word of each name
    for key in keys:
        words = _WORD_PATTERN.findall(key)
        if words:
            keys_by_word.setdefault(max(words, key=len).encode(), []).append(key.encode())
    occurring_keys: set[bytes] = set()
    for text in texts:
        if not keys_by_word:
            break
        folded_text = fold_to_bytes(text)
        # The longest words that the text contains, whose keys may be in it.
        if len(keys_by_word) <= _MAX_WORD_SEARCHES:
            text_words: Iterable[bytes] = [word for word in keys_by_word if word in folded_text]
        else:
            text_words = keys_by_word.keys() & {word.encode() for word in _WORD_PATTERN.findall(folded_text.decode())}
        candidates = [key for word in text_words for key in keys_by_word[word]]
        text_keys = set(select_occurring_keys(folded_text, candidates, max_words))
        occurring_keys |= text_keys
        for word in text_words:  # a key that one text contains is not searched for again
            remaining = [key for key in keys_by_word[word] if key not in text_keys]
            if remaining:
                keys_by_word[word] = remaining
            else:
                del keys_by_word[word]
    return {key.decode() for key in occurring_keys}


def _find_in_few_texts(texts: Iterable[str], keys: Iterable[str], max_words: int) -> set[str]:
    """Return the ``keys`` (names in normal form) of at most ``max_words`` words that occur in at least one text.

    Each key is searched for in each text until it is found.
    """
    remaining = [key.encode() for key in keys if key[:1].isalnum() or _WORD_PATTERN.search(key)]
    occurring_keys: set[bytes] = set()
    for text in texts:
        text_keys = set(select_occurring_keys(fold_to_bytes(text), remaining, max_words)) if remaining else set[bytes]()
        if text_keys:
            occurring_keys |= text_keys
            remaining = [key for key in remaining if key not in text_keys]
    return {key.decode() for key in occurring_keys}


class Introduction(NamedTuple):
    """A name that a document makes known as an entity: its normal form, its form as written, and its kind."""

    key: str
    form: str
    kind: str


def collect_introductions(names: Iterable[Name], max_words: int | None, document_key: str) -> list[Introduction]:
    """Return each name once, with the spelling (form) and kind of its first occurrence, sorted by key.

    Names that cannot become entities, such as names of more than ``max_words`` words, are omitted. If ``max_words`` is
    None, every name is included; a name that is empty or too long raises InputError with ``document_key``.
    """
    introductions: dict[str, Introduction] = {}
    seen_forms: set[str] = set()
    for form, kind in names:
        if form in seen_forms:
            continue
        seen_forms.add(form)
        name_key = to_entity_key(form)
        if max_words is None:
            if not 0 < len(name_key.encode()) <= MAX_ENTITY_KEY_BYTES:
                raise InputError(
                    f"document {document_key!r}: a name in a tree must have 1 to {MAX_ENTITY_KEY_BYTES} bytes, not "
                    f"{form!r}"
                )
        elif not is_name_key(name_key, max_words):
            continue
        if name_key not in introductions:
            introductions[name_key] = Introduction(name_key, form, kind)
    return [introductions[name_key] for name_key in sorted(introductions)]
