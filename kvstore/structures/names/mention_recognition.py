"""The mentions of a text: every occurrence of a known name; and the addresses of the entities that a document mentions.

In: a folded text and the entity filter of a view. Out: :class:`Mention` with byte offsets in the original text. A name
without a word character is never mentioned, because postings could not find it again. From the mentions of a document:
for each entity (abstract, rank) pairs, from which :func:`kvstore.structures.filter.addresses.build_addresses` builds
its addresses. Linking and CHECK both use this rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import NamedTuple

from ...text.blocks import to_plain_text
from ...text.normalize import FoldedText, to_entity_key
from ...text.patterns import compile_lazily
from ..documents.documents import GROUP_SIZE, DocumentRecord, Section
from ..filter.addresses import (
    HEADING_PART_RANK,
    HEADING_WHOLE_RANK,
    TITLE_PART_RANK,
    TITLE_WHOLE_RANK,
    compute_body_rank,
)
from ..filter.entity_filter import EntityFilter
from .mentions import HeadingOccurrence, Occurrence

#: The (abstract, rank) pairs of one entity.
RankedTargets = list[tuple[int, int]]

_GET_ENTITY = itemgetter(0)
_WORD_PATTERN = compile_lazily(r"\w")


class Mention(NamedTuple):
    """An occurrence of a name: bytes ``start`` to ``end`` of the text, the entity and its normal form."""

    entity: int
    start: int
    end: int
    key: str


def find_mentions(entity_filter: EntityFilter, folded: FoldedText, max_words: int) -> Iterator[Mention]:
    """Yield every mention of a name of at most ``max_words`` words in a text, including overlapping mentions.

    Names without a letter or digit are omitted.
    """
    matches = entity_filter.recognize(folded, max_words)
    for start, end, entity in zip(matches.start.tolist(), matches.end.tolist(), matches.entity.tolist(), strict=True):
        key = " ".join(folded.data[start:end].decode().split())
        if _WORD_PATTERN.search(key):
            yield Mention(entity, *folded.to_original_span(start, end), key)


class HeadedAbstract(NamedTuple):
    """A title or heading and the abstract below it.

    ``whole_rank`` is the rank of the abstract for an entity whose name is the whole heading, and ``part_rank`` its rank
    for an entity whose name is a part of the heading.
    """

    text: str
    whole_rank: int
    part_rank: int
    abstract: int

    def make_occurrence(self, entity: int, key: str) -> HeadingOccurrence:
        """Return the occurrence in this heading of an entity whose name has the normal form ``key``.

        Its rank shows if the name is the whole heading or a part of it.
        """
        rank = self.whole_rank if key == to_entity_key(self.text) else self.part_rank
        return HeadingOccurrence(entity, rank, self.abstract)


def iter_headed_abstracts(record: DocumentRecord, outline: list[Section]) -> Iterator[HeadedAbstract]:
    """Yield the title of a document, if it has one and a root abstract, then its headings, each with its abstract."""
    if record.title and record.root is not None:
        yield HeadedAbstract(to_plain_text(record.title), TITLE_WHOLE_RANK, TITLE_PART_RANK, record.root)
    for section in outline:
        yield HeadedAbstract(section.title, HEADING_WHOLE_RANK, HEADING_PART_RANK, section.abstract)


def collect_mentioning_abstracts(
    occurrences_by_chunk: Mapping[int, Iterable[Occurrence]], heading_occurrences: Iterable[HeadingOccurrence]
) -> dict[int, RankedTargets]:
    """Return for each entity the abstracts that mention it, as (abstract, rank) pairs.

    The rank of a leaf abstract depends on the number of occurrences in its chunks. Occurrences in headings have their
    own ranks. An abstract can occur more than once.
    """
    entities_by_group: dict[int, list[int]] = {}
    for chunk, occurrences in occurrences_by_chunk.items():
        entities_by_group.setdefault(chunk // GROUP_SIZE, []).extend(map(_GET_ENTITY, occurrences))
    targets_by_entity: dict[int, RankedTargets] = {}
    for group, entities in entities_by_group.items():  # a group is its leaf abstract's id
        for entity, count in Counter(entities).items():
            targets_by_entity.setdefault(entity, []).append((group, compute_body_rank(count)))
    for entity, rank, abstract in heading_occurrences:
        targets_by_entity.setdefault(entity, []).append((abstract, rank))
    return targets_by_entity
