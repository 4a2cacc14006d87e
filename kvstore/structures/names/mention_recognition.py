"""The mentions of a text: every occurrence of a known name.

In: a folded text and the entity filter of a view. Out: :class:`Mention` with byte offsets in the original text. A name
without a word character is never mentioned, because postings could not find it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...text.blocks import to_plain_text
from ...text.normalize import FoldedText, to_entity_key
from ...text.patterns import compile_lazily
from ..documents.documents import DocumentRecord, Section
from ..filter.addresses import HEADING_PART_RANK, HEADING_WHOLE_RANK, TITLE_PART_RANK, TITLE_WHOLE_RANK
from ..filter.entity_filter import EntityFilter
from .mentions import HeadingOccurrence

_WORD_PATTERN = compile_lazily(r"\w")


class Mention(NamedTuple):
    """An occurrence of a name: bytes ``start`` to ``end`` of the text, the entity and its normal form."""

    entity: int
    start: int
    end: int
    key: str


def find_mentions(entity_filter: EntityFilter, folded: FoldedText, max_words: int) -> Iterator[Mention]:
    """Yield every mention of a name of at most ``max_words`` words in a text, including overlapping mentions."""
    matches = entity_filter.recognize(folded, max_words)
    for start, end, entity in zip(matches.start.tolist(), matches.end.tolist(), matches.entity.tolist(), strict=True):
        key = " ".join(folded.data[start:end].decode().split())
        if _WORD_PATTERN.search(key):
            yield Mention(entity, folded.to_original_offset(start), folded.to_original_offset(end), key)


class HeadedAbstract(NamedTuple):
    """A title or heading and the abstract below it.

    ``whole_rank`` is the rank of the abstract for an entity whose name is the whole heading, ``part_rank`` that for one
    whose name is a part of it.
    """

    text: str
    whole_rank: int
    part_rank: int
    abstract: int

    def make_occurrence(self, entity: int, key: str) -> HeadingOccurrence:
        """Return the occurrence in this heading of an entity whose name has the normal form ``key``."""
        rank = self.whole_rank if key == to_entity_key(self.text) else self.part_rank
        return HeadingOccurrence(entity, rank, self.abstract)


def iter_headed_abstracts(record: DocumentRecord, outline: list[Section]) -> Iterator[HeadedAbstract]:
    """Yield the title of a document, if it has one and a root abstract, then its headings, each with its abstract."""
    if record.title and record.root is not None:
        yield HeadedAbstract(to_plain_text(record.title), TITLE_WHOLE_RANK, TITLE_PART_RANK, record.root)
    for section in outline:
        yield HeadedAbstract(section.title, HEADING_WHOLE_RANK, HEADING_PART_RANK, section.abstract)
