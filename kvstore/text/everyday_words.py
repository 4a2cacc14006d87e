"""Everyday words of English: words that are usually not names.

In: a word in any case. Out: its part of speech, or None if it is not an everyday word. The list
(``everyday_words.txt``) is built by ``tools/everyday_words.py``: words that occur in several documents of two treebanks
of English, in the forms that occur there. Their other regular forms are everyday words too.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

NOUN, VERB, ADJECTIVE, OTHER = "noun", "verb", "adjective", "other"

#: Read as a file, because importing ``importlib.resources`` takes longer.
_WORD_LIST = Path(__file__).with_name("everyday_words.txt")

#: Endings of regular forms, each with its replacement in the listed form.
_ENDINGS = (
    *(("ies", "y"), ("es", "e"), ("es", ""), ("s", ""), ("ied", "y"), ("ed", "e"), ("ed", "")),
    *(("ing", "e"), ("ing", ""), ("ly", "")),
    *(("tre", "ter"), ("tres", "ter")),  # British spelling
)
_REGULAR_ENDINGS = tuple(ending for ending, _ in _ENDINGS)
#: Endings of words that take *es* instead of *s*.
_ES_STEM_ENDINGS = ("s", "x", "z", "ch", "sh", "o")


def is_everyday(word: str) -> bool:
    """True if a word is an everyday word of English.

    >>> is_everyday("Rooms"), is_everyday("metres"), is_everyday("initdb")
    (True, True, False)
    """
    return get_part_of_speech(word) is not None


@lru_cache(maxsize=1 << 14)
def get_part_of_speech(word: str) -> str | None:
    """Return the most frequent part of speech of an everyday word of English; None for any other word, such as a name.

    The parts of speech are :data:`NOUN`, :data:`VERB`, :data:`ADJECTIVE` and :data:`OTHER`.
    """
    parts_of_speech, lower = _load_parts_of_speech(), word.lower()
    if lower in parts_of_speech or not lower.endswith(_REGULAR_ENDINGS):  # no base form can differ; true for most names
        return parts_of_speech.get(lower)
    return next((parts_of_speech[form] for form in iter_base_forms(lower) if form in parts_of_speech), None)


def iter_base_forms(word: str) -> Iterator[str]:
    """Yield a word and its possible base forms: ``rooms`` yields ``rooms`` and ``room``."""
    yield word
    for ending, replacement in _ENDINGS:
        if word.endswith(ending) and len(word) > len(ending) + 1:
            base = word[: -len(ending)] + replacement
            if ending == "es" and not replacement and not base.endswith(_ES_STEM_ENDINGS):
                continue  # "James" is not the plural of "Jam"
            yield base
            if ending in ("ed", "ing") and len(base) > 3 and base[-1:] == base[-2:-1]:
                yield base[:-1]  # "stopped" is a form of "stop"


@lru_cache(maxsize=1)
def _load_parts_of_speech() -> dict[str, str]:
    """Read ``everyday_words.txt``, and return the part of speech of each listed word. The result is cached."""
    parts_of_speech: dict[str, str] = {}
    part_of_speech = ""
    for line in _WORD_LIST.read_text(encoding="ascii").splitlines():
        if line.startswith("["):
            part_of_speech = line.strip("[]")
        else:
            parts_of_speech.update(dict.fromkeys(line.split(), part_of_speech))
    return parts_of_speech
