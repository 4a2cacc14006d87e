"""Mentions of a text: every place where a known name occurs in it.

In: a folded text and the entity filter of a view. Out: :class:`Mention` with bytes of the original text. A name
without any word in it occurs nowhere (postings could not find it again).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ...text.blocks import plain
from ...text.normalize import Folded, to_entity_key
from ..documents.documents import DocumentRecord, Section
from ..filter.addresses import HEADING_PART, HEADING_WHOLE, TITLE_PART, TITLE_WHOLE
from ..filter.entity_filter import EntityFilter
from .mentions import HeadingOccurrence

_WORD = re.compile(r"\w")


class Mention(NamedTuple):
    """An occurrence of a name: bytes ``start`` to ``end`` of the text, the entity and its normal form."""

    entity: int
    start: int
    end: int
    key: str


def mentions_in(entity_filter: EntityFilter, folded: Folded, most_words: int) -> Iterator[Mention]:
    """Every mention in a text, overlapping ones too."""
    matches = entity_filter.recognise(folded, most_words)
    for start, end, entity in zip(matches.start.tolist(), matches.end.tolist(), matches.entity.tolist(), strict=True):
        key = " ".join(folded.data[start:end].decode().split())
        if _WORD.search(key):
            yield Mention(entity, folded.original(start), folded.original(end), key)


class HeadedAbstract(NamedTuple):
    """A title or heading: its text, the ranks of a name that is all or part of it, and the abstract it stands for."""

    text: str
    whole: int
    part: int
    abstract: int

    def occurrence(self, entity: int, key: str) -> HeadingOccurrence:
        """That an entity, by its normal form, is named here."""
        return HeadingOccurrence(entity, self.whole if key == to_entity_key(self.text) else self.part, self.abstract)


def iter_headed_abstracts(record: DocumentRecord, outline: list[Section]) -> Iterator[HeadedAbstract]:
    """The title and the headings of a document, those that an abstract stands for."""
    if record.title and record.root is not None:
        yield HeadedAbstract(plain(record.title), TITLE_WHOLE, TITLE_PART, record.root)
    for section in outline:
        yield HeadedAbstract(section.title, HEADING_WHOLE, HEADING_PART, section.abstract)
