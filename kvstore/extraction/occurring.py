"""Which names occur in a document: only those can be found again, and only those are introduced.

In: the texts of a document that mentions are looked for in (title, headings, chunks), and normal forms. Out: those that
occur in one of the texts, by the definition of :mod:`~kvstore.text.normalize`. The cost grows with the length of the
texts, not with the number of names: a name is looked for only where its longest word stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..structures.filter.entity_filter import occurring_keys
from ..text.normalize import folded_data

_WORD = re.compile(r"\w+")
#: So many words are looked for one by one, which is faster than to cut a text into all of its words.
_FEW = 128
#: In the chunks of a document this short each name is looked for as it is.
_SHORT = 4


def occurring(texts: Sequence[str], keys: Iterable[str], most_words: int) -> set[str]:
    """The normal forms that occur in one of some texts.

    >>> sorted(occurring(["The planner of Ada's  engine"], ["ada", "engine", "plan", "ada's engine"], 12))
    ['ada', "ada's engine", 'engine']
    """
    if len(texts) <= _SHORT:
        return _occurring_in_few(texts, keys, most_words)
    wanted: dict[bytes, list[bytes]] = {}
    for key in keys:
        found = _WORD.findall(key)
        if found:
            wanted.setdefault(max(found, key=len).encode(), []).append(key.encode())
    occur: set[bytes] = set()
    for text in texts:
        if not wanted:
            break
        data = folded_data(text)
        if len(wanted) <= _FEW:
            there: Iterable[bytes] = [word for word in wanted if word in data]
        else:
            there = wanted.keys() & {word.encode() for word in _WORD.findall(data.decode())}
        here = set(occurring_keys(data, [key for word in there for key in wanted[word]], most_words))
        occur |= here
        for word in there:
            left = [key for key in wanted[word] if key not in here]
            if left:
                wanted[word] = left
            else:
                del wanted[word]
    return {key.decode() for key in occur}


def _occurring_in_few(texts: Iterable[str], keys: Iterable[str], most_words: int) -> set[str]:
    """As :func:`occurring`, with no note taken of the words of names."""
    left = [key.encode() for key in keys if _WORD.search(key)]
    occur: set[bytes] = set()
    for text in texts:
        here = set(occurring_keys(folded_data(text), left, most_words)) if left else set[bytes]()
        if here:
            occur |= here
            left = [key for key in left if key not in here]
    return {key.decode() for key in occur}
