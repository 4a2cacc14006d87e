"""The rows of the passage graph, computed from a document and the known names. The row of a chunk has the entities that
it mentions, each with *mention bits*: packed counts of mentions by spelling, and flags for names in the title, in
headings above the chunk, and in triples.

In: a document's title, headings, chunks with their mentions, and the triples imported for it. Out: for each chunk its
entities with mention bits, and the pairs of entities that the document links. :mod:`.structure` maintains exactly this
function in every commit.

Function words are left out, and a mention inside a longer one ("York" in "New York") is counted separately. The names
in titles and headings belong to every chunk below them. The names of a triple belong to the chunks that mention either
of the two, or to the first chunk if none does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TypeVar

from kvstore_cext.mentions import count_spellings

from ...registry.contract import AddedChunk
from ...structures.documents.document_triples import EntityPair, Triples, find_entity_pairs
from ...structures.documents.documents import DocumentRecord, Section
from ...structures.filter.entity_filter import EntityFilter
from ...structures.names.mentions import Occurrence, find_mentions
from ...structures.state import State
from ...text.names import get_title_forms, is_name_key
from ...text.normalize import fold, to_entity_key
from ...text.words import FUNCTION_WORDS
from . import edges

Owner = TypeVar("Owner")

#: The maximum counts in the mention bits of an edge: of mentions with a capital, inside longer ones and in
#: lower case; and the positions of their bits.
_MAX_COUNTS = edges.CAPITALIZED, edges.INSIDE >> edges.INSIDE_SHIFT, edges.LOWER >> edges.LOWER_SHIFT
_SHIFTS = 0, edges.INSIDE_SHIFT, edges.LOWER_SHIFT


def find_title_pair(title: str, max_words: int) -> tuple[str, str] | None:
    """Return the normal forms of a title and of the same title without the part in parentheses at its end.

    Returns None if they are equal, or if either is not a name of at most ``max_words`` words.
    """
    if ")" not in title:  # the case of most titles
        return None
    keys = tuple(to_entity_key(title_form) for title_form in get_title_forms(title))
    if len(keys) != 2 or keys[0] == keys[1] or not all(is_name_key(key, max_words) for key in keys):
        return None
    return keys[0], keys[1]


def list_triple_pairs(state: State, documents: Iterable[int]) -> dict[int, list[EntityPair]]:
    """Return the distinct pairs of entities that triples of each document connect, for the documents with triples."""
    triples_by_document = Triples(state.lmdb).get_many(documents)
    return {document: find_entity_pairs(triples, state.filter) for document, triples in triples_by_document.items()}


class DocumentRows:
    """A builder of the rows of chunks of one document."""

    def __init__(
        self,
        record: DocumentRecord,
        sections: list[Section],
        pairs: Sequence[EntityPair],
        entity_filter: EntityFilter,
        max_words: int,
    ) -> None:
        """Create a builder for a document (``record``) with these ``sections``, and find the names in its title.

        ``pairs`` are the pairs of entities that its triples connect. ``max_words`` is the maximum number of words of a
        name.
        """
        self._sections = sections
        self._pairs = pairs
        self._filter = entity_filter
        self._max_words = max_words
        self._first_chunk = next(record.chunk_ids(), None)
        self._title_flags = (
            self._find_name_flags(record.title, edges.TITLE_WHOLE, edges.TITLE_PART) if record.title else {}
        )
        self._heading_flags: dict[int, dict[int, int]] = {-1: {}}  # by section (-1: none) and entity

    def build_row(self, chunk: AddedChunk, unmentioned_pairs: set[EntityPair]) -> edges.EdgeRow:
        """Return the row of a chunk: the entities that it mentions, each with mention bits, which say how.

        A chunk mentions the entities in its text, title and headings. If it mentions one entity of a triple of the
        document, it also mentions the other. ``unmentioned_pairs`` are the pairs without any mention; they belong to
        the first chunk of the document.
        """
        mention_bits = encode_mention_counts(chunk)
        for entity, flags in (*self._title_flags.items(), *self._get_heading_flags(chunk.section).items()):
            mention_bits[entity] = mention_bits.get(entity, 0) | flags
        if not self._pairs:  # the case of most documents
            return mention_bits
        mentioned_entities = {entity for entity, _, _ in chunk.mentions}
        for pair in self._pairs:
            if not mentioned_entities.isdisjoint(pair) or (chunk.id == self._first_chunk and pair in unmentioned_pairs):
                for entity in pair:
                    mention_bits[entity] = mention_bits.get(entity, 0) | edges.TRIPLE
        return mention_bits

    def _get_heading_flags(self, section: int) -> dict[int, int]:
        """Return the entities in the headings of a section and its ancestors, each with mention bits; cached.

        The bits say if the name is a whole heading or a part of one.
        """
        heading_flags = self._heading_flags.get(section)
        if heading_flags is None:
            heading = self._sections[section]
            heading_flags = dict(self._get_heading_flags(heading.parent))  # -1 (no parent) is in the cache
            for entity, flag in self._find_name_flags(heading.title, edges.HEADING_WHOLE, edges.HEADING_PART).items():
                heading_flags[entity] = heading_flags.get(entity, 0) | flag
            self._heading_flags[section] = heading_flags
        return heading_flags

    def _find_name_flags(self, text: str, whole_flag: int, part_flag: int) -> dict[int, int]:
        """Return the entities that a title or heading mentions, each with ``whole_flag`` or ``part_flag``.

        It is ``whole_flag`` if the name is the whole text.
        """
        whole_entities, part_entities = find_heading_entities(text, self._filter, self._max_words)
        return {**dict.fromkeys(part_entities, part_flag), **dict.fromkeys(whole_entities, whole_flag)}


def find_heading_entities(text: str, entity_filter: EntityFilter, max_words: int) -> tuple[set[int], set[int]]:
    """Return the entities whose name is the whole title or heading ``text``, and the other entities that it mentions.

    A title without the part in parentheses at its end also counts as a whole name. Names inside longer names, and
    function words, are omitted from the second set. ``entity_filter`` recognizes known names of at most ``max_words``
    words.
    """
    if not text:
        return set(), set()
    mentions = find_mentions(entity_filter, fold(text), max_words)
    if not mentions:
        return set(), set()
    # The forms of a title are the title, and the title without the part in parentheses at its end.
    whole_keys = [to_entity_key(title_form) for title_form in (text, *get_title_forms(text))]
    whole_entities = {mention.entity for mention in mentions if mention.key in whole_keys}
    # Drop the mention that is the full title, which would make every other mention nested.
    full_keys = whole_keys[:2]  # of the text and of its first form
    other_mentions = mark_nested(
        (mention.start, mention.end, mention) for mention in mentions if mention.key not in full_keys
    )
    part_entities = {
        mention.entity
        for (_, _, mention), is_nested in other_mentions
        if not is_nested and mention.key not in FUNCTION_WORDS
    }
    return whole_entities, part_entities - whole_entities


def find_unmentioned_pairs(pairs: Sequence[EntityPair], mentions: Iterable[Sequence[Occurrence]]) -> set[EntityPair]:
    """Return the pairs in which neither entity is mentioned; ``mentions`` has the mentions in each chunk."""
    mentioned_entities = {entity for chunk_mentions in mentions for entity, _, _ in chunk_mentions}
    return {pair for pair in pairs if mentioned_entities.isdisjoint(pair)}


def encode_mention_counts(chunk: AddedChunk) -> dict[int, int]:
    """Return the entities that a chunk's text mentions, each with its counts of mentions, packed in a bit field.

    From the lowest bits, these are the numbers of mentions with a capital, inside longer names, and in lower case. Each
    number has a maximum.
    """
    return count_spellings(chunk.text, chunk.mentions, FUNCTION_WORDS, classify_spelling, _MAX_COUNTS, _SHIFTS)


@lru_cache(maxsize=1 << 15)
def classify_spelling(encoded_spelling: bytes) -> tuple[bool, bool]:
    """Return (is a content word, is in lower case) for the spelling of a name in a text, given in UTF-8.

    A content word is not a function word such as "the". A spelling with a digit does not count as lower case.
    """
    spelling = encoded_spelling.decode()
    is_function_word = to_entity_key(spelling) in FUNCTION_WORDS
    is_lower = spelling.islower() and not any(map(str.isdigit, spelling))
    return not is_function_word, is_lower


def mark_nested(spans: Iterable[tuple[int, int, Owner]]) -> Iterator[tuple[tuple[int, int, Owner], bool]]:
    """Yield spans (start, end, owner) by start, the longest first, each with True if it is inside a longer span.

    ``owner`` is any object, such as the mention at a span.
    """
    outer_start, outer_end = -1, -1  # the last span that is not nested
    for span in sorted(spans, key=lambda span: (span[0], -span[1])):  # by start, then by descending end
        start, end, _ = span
        is_nested = end <= outer_end and (start, end) != (outer_start, outer_end)
        if not is_nested:
            outer_start, outer_end = start, end
        yield span, is_nested
