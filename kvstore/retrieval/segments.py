"""Segments: ranges of adjacent chunks, each one slice of a document, from a ranking. An *ordinal* is the number of a
chunk in its document. The *relevance* of a chunk falls with its rank; its *value* is that minus a *penalty*. The
*capacity* is the number of chunks that fit.

Relevant segment extraction of dsRAG, formerly spRAG (D-Star-AI, ``rse.py``): an unranked chunk is worth minus the
penalty, and the range of chunks with the largest sum is selected repeatedly. Differences from the published code:

- The relevance of a chunk depends on the token limit and on the shape of the scores, not on a constant. It falls with
  the rank, relative to the number of chunks that fit, and with the score as a fraction of the best one. If scores fall
  off steeply or few chunks fit, segments are short.
- Every ranked chunk is in a segment, at least in one by itself, and segments are in the order of their best-ranked
  chunk. By their sums, long mediocre ranges would push back the best short one.
- A segment too long for the remaining tokens grows outward from its best chunk. No segment ends inside a table, a list
  item or a code block, unless that block alone is too long.

In: a state, a ranking and a :class:`SegmentPlan`. Out: :class:`Segment` objects. Only ranked chunks are read, nothing
is stored, and ties are broken by position, so segments are a function of the ranking and the documents.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from ..arguments import Option, format_count
from ..structures.ranking import Ranking, assign_ranks
from ..text.words import count_text_tokens

if TYPE_CHECKING:
    from ..structures.documents.chunks import ChunkRecord
    from ..structures.documents.documents import DocumentRecord
    from ..structures.state import State

#: The number of ranked chunks that can be joined; later ones are segments by themselves.
NUM_JOINABLE = 100
#: The number of chunks that fit, by assumption, if the number of tokens is not limited.
DEFAULT_CAPACITY = 8
#: The fraction of a chunk's size; if fewer tokens remain, no further segment is built.
_MIN_CHUNK_SHARE = 0.25
#: The relevance of the best chunk before the penalty, as in dsRAG if scores are not probabilities.
_BEST_RELEVANCE = 0.8
#: The exponent of a chunk's share of the best score. It is small, because the scores of strategies fall differently.
_SCORE_EXPONENT = 0.25

#: Options of WITH for segments, in addition to those of the strategy. The defaults were chosen on the even questions of
#: meetings (answers of a page) and excerpts (answers of a sentence).
SEGMENT_OPTIONS: Mapping[str, Option] = {
    "penalty": Option(0.12, 0, 1, "value subtracted from each chunk; a larger penalty makes segments shorter"),
    "decay": Option(
        1, 0.01, 100, "rank at which the value of a chunk falls to a third, relative to the number of chunks that fit"
    ),
    "longest": Option(15, 1, 1000, "maximum number of chunks in a segment"),
}


class SegmentPlan(NamedTuple):
    """The parameters of segments: at most ``top``, and at most ``within`` tokens together (None: no limit).

    ``capacity`` is the number of chunks of full size that ``within`` allows, or :data:`DEFAULT_CAPACITY`. The other
    fields are those of :data:`SEGMENT_OPTIONS`.
    """

    top: int
    capacity: float
    within: int | None = None
    penalty: float = SEGMENT_OPTIONS["penalty"].default
    decay: float = SEGMENT_OPTIONS["decay"].default
    longest: int = int(SEGMENT_OPTIONS["longest"].default)


class Segment(NamedTuple):
    """A range of adjacent chunks: bytes ``start`` to ``end`` of a document, and their ``text``.

    The first and last chunk can be truncated. ``best_chunk`` is the id of the best-ranked chunk, ``score`` its score.
    """

    record: DocumentRecord
    chunks: Sequence[ChunkRecord]
    start: int
    end: int
    text: str
    best_chunk: int
    score: float

    @property
    def is_whole_chunk(self) -> bool:
        """True if the segment is exactly one chunk."""
        return len(self.chunks) == 1 and (self.start, self.end) == (self.chunks[0].start, self.chunks[0].end)


class _ChunkRange(NamedTuple):
    """A range of chunks, ordinals ``first`` to ``last`` of a document (its id).

    ``ranking_index`` is the index of its best chunk in the ranking.
    """

    ranking_index: int
    document: int
    first: int
    last: int


def compute_relevances(ranking: Ranking, plan: SegmentPlan) -> list[float]:
    """Return the relevance of each chunk of a ranking, from 0 to 0.8, in order.

    It falls with the score and, exponentially, with the rank. The greater the capacity of the plan, the more slowly it
    falls. The penalty of the plan is not subtracted.
    """
    if not ranking:
        return []
    decay_chunks = plan.decay * plan.capacity
    (_, best_score), (_, last_score) = ranking[0], ranking[-1]
    min_score = min(0.0, last_score)
    score_range = max(best_score - min_score, sys.float_info.min)  # a divisor, so never 0
    relevances = []
    for (_, score), (_, rank) in zip(ranking, assign_ranks(ranking), strict=True):
        rank_factor = math.exp(-(rank - 1) / decay_chunks)
        score_factor = ((score - min_score) / score_range) ** _SCORE_EXPONENT
        relevances.append(_BEST_RELEVANCE * rank_factor * score_factor)
    return relevances


def select_best_ranges(values: Mapping[int, float], plan: SegmentPlan) -> list[tuple[int, int]]:
    """Return disjoint ranges of adjacent chunks of one document, each as its first and last ordinal, unordered.

    ``values`` maps the ordinals of ranked chunks to their values. An unranked chunk in a range is worth minus the
    penalty. Ranges of at most ``plan.longest`` chunks are selected by value, the largest first. A ranked chunk that is
    in none of them becomes a range by itself.
    """
    used_ordinals: set[int] = set()
    selected = []
    candidates = _iter_range_values(values, plan)
    for _, first_ordinal, last_ordinal in sorted((-value, first, last) for value, first, last in candidates):
        if used_ordinals.isdisjoint(range(first_ordinal, last_ordinal + 1)):
            used_ordinals.update(range(first_ordinal, last_ordinal + 1))
            selected.append((first_ordinal, last_ordinal))
    return selected + [(ordinal, ordinal) for ordinal in sorted(values) if ordinal not in used_ordinals]


def _iter_range_values(values: Mapping[int, float], plan: SegmentPlan) -> Iterator[tuple[float, int, int]]:
    """Yield the value, the first and the last ordinal of each range of chunks that can be worth a segment.

    ``values`` maps the ordinals of ranked chunks to their values.
    """
    ordinals = sorted(values)
    for index, first_ordinal in enumerate(ordinals):
        if values[first_ordinal] < 0:  # without its first chunk, a range would be worth more
            continue
        range_value, previous_ordinal = 0.0, first_ordinal - 1
        for last_ordinal in ordinals[index:]:
            if last_ordinal >= first_ordinal + plan.longest:
                break
            num_unranked = last_ordinal - previous_ordinal - 1
            range_value += values[last_ordinal] - plan.penalty * num_unranked
            previous_ordinal = last_ordinal
            if values[last_ordinal] >= 0:  # otherwise, a range without its last chunk would be worth more
                yield range_value, first_ordinal, last_ordinal


def select_segments(state: State, ranking: Ranking, plan: SegmentPlan) -> list[Segment]:
    """Join adjacent chunks of a ranking into segments, and return those that fit the limits of the plan.

    The segments are in the order of their best-ranked chunks.
    """
    builder = _SegmentBuilder(state, ranking, plan)
    selected: list[Segment] = []
    tokens_left = plan.within
    for chunk_range in builder.list_ranges():
        # If only a small part of a chunk would still fit, the rest of the limit stays unused.
        is_full = tokens_left is not None and tokens_left < state.settings.chunk_tokens * _MIN_CHUNK_SHARE
        if is_full or len(selected) == plan.top:
            break
        segment = builder.build_segment(chunk_range, tokens_left)
        if segment is None:
            continue
        if tokens_left is not None:
            tokens_left -= count_text_tokens(segment.text)
        selected.append(segment)
    return selected


def describe_segments(ranking: Ranking, plan: SegmentPlan, segments: Sequence[Segment]) -> str:
    """Return the description of segments for EXPLAIN.

    It has the number of joinable chunks with a relevance above the penalty of the plan, the number of segments that are
    not exactly one chunk, and the number of chunks in all segments.
    """
    joinable_ranking = ranking[:NUM_JOINABLE]
    num_worthwhile = sum(value > plan.penalty for value in compute_relevances(joinable_ranking, plan))
    num_longer = sum(not segment.is_whole_chunk for segment in segments)
    num_chunks = sum(len(segment.chunks) for segment in segments)
    return (
        f"{num_worthwhile} of {len(joinable_ranking)} chunks worth more than the penalty {plan.penalty:g}, "
        f"with room for {plan.capacity:.3g}; {format_count(num_longer, 'segment')} of more than one chunk, "
        f"{format_count(num_chunks, 'chunk')} in total"
    )


class _SegmentBuilder:
    """Builds the segments of one ranking, which do not overlap. The *best chunk* of a range of chunks is the first of
    them in the ranking. A *span* is a range of bytes of a document.
    """

    def __init__(self, state: State, ranking: Ranking, plan: SegmentPlan) -> None:
        """Read the records of the chunks of a ranking; the first :data:`NUM_JOINABLE` of them can be joined."""
        from .block_borders import BlockFinder

        self._state = state
        self._ranking = ranking
        self._plan = plan
        self._block_finder = BlockFinder(state.documents)
        # Cached by document id. The functions must not refer to ``self``: a reference cycle would keep the store open.
        self._get_record = get_record = cache(state.documents.get)
        self._get_sections = cache(state.documents.get_sections)
        self._get_chunk_ids = cache(lambda document: list(get_record(document).chunk_ids()))
        #: The spans of finished segments by document; other segments must not overlap them.
        self._used_spans: dict[int, list[tuple[int, int]]] = {}
        chunks = state.chunks.get_many(chunk for chunk, _ in ranking)
        #: By (document id, ordinal), the index in the ranking of each chunk that can be joined.
        self._ranking_indexes = {
            (chunk.document, chunk.ordinal): ranking_index for ranking_index, chunk in enumerate(chunks[:NUM_JOINABLE])
        }
        self._ranked_chunks = chunks

    def list_ranges(self) -> list[_ChunkRange]:
        """Return the best ranges of adjacent chunks of all documents, in the order of their best-ranked chunks.

        Only the first ``NUM_JOINABLE`` chunks of the ranking are joined. Each later chunk is a range of its own.
        """
        values_by_document: dict[int, dict[int, float]] = {}
        relevances = compute_relevances(self._ranking[:NUM_JOINABLE], self._plan)
        for chunk, relevance in zip(self._ranked_chunks[:NUM_JOINABLE], relevances, strict=True):
            values_by_document.setdefault(chunk.document, {})[chunk.ordinal] = relevance - self._plan.penalty
        ranges = []
        for document, chunk_values in values_by_document.items():
            for first_ordinal, last_ordinal in select_best_ranges(chunk_values, self._plan):
                ranking_index = min(
                    self._ranking_indexes[document, ordinal]
                    for ordinal in chunk_values
                    if first_ordinal <= ordinal <= last_ordinal
                )
                ranges.append(_ChunkRange(ranking_index, document, first_ordinal, last_ordinal))
        single_chunks = enumerate(self._ranked_chunks[NUM_JOINABLE:], NUM_JOINABLE)
        ranges += (_ChunkRange(index, chunk.document, chunk.ordinal, chunk.ordinal) for index, chunk in single_chunks)
        return sorted(ranges)  # by ``ranking_index``, their first field

    def build_segment(self, chunk_range: _ChunkRange, tokens_left: int | None) -> Segment | None:
        """Build the segment of a range of chunks within ``tokens_left`` tokens (None: no limit), and reserve its span.

        Returns None if the best chunk of the range does not fit, or overlaps another segment.
        """
        record = self._get_record(chunk_range.document)
        ids = self._get_chunk_ids(record.id)
        chunks = self._state.chunks.get_many(ids[chunk_range.first : chunk_range.last + 1])
        best_record = self._ranked_chunks[chunk_range.ranking_index]
        if tokens_left is not None:
            chunks = self._select_fitting_chunks(chunks, best_record.ordinal - chunk_range.first, tokens_left)
            if not chunks:
                return None
        free_start, free_end = self._find_free_span(record, best_record.start)  # between the other segments
        if free_start > best_record.start or free_end < best_record.end:
            return None
        max_tokens = self._plan.longest * self._state.settings.chunk_tokens
        token_limit = max_tokens if tokens_left is None else min(max_tokens, tokens_left)
        span = max(chunks[0].start, free_start), min(chunks[-1].end, free_end)
        start, end = self._align_to_blocks(record, best_record, span, (free_start, free_end), token_limit)
        self._used_spans.setdefault(record.id, []).append((start, end))
        chunks = self._list_covering_chunks(ids, chunks, start, end)
        text = self._state.documents.read_text_slice(record.id, start, end)
        best_chunk, score = self._ranking[chunk_range.ranking_index]
        return Segment(
            record=record, chunks=chunks, start=start, end=end, text=text, best_chunk=best_chunk, score=score
        )

    def _find_free_span(self, record: DocumentRecord, offset: int) -> tuple[int, int]:
        """Return the byte range of a document between the finished segments before and after byte ``offset``."""
        used_spans = self._used_spans.get(record.id, [])
        ends_before = [used_end for used_start, used_end in used_spans if used_start <= offset]
        starts_after = [used_start for used_start, _ in used_spans if used_start >= offset]
        return max(ends_before, default=0), min(starts_after, default=record.size)

    def _count_tokens(self, document: int, start: int, end: int) -> int:
        """Read the text between two byte offsets of a document, and return its number of tokens."""
        return count_text_tokens(self._state.documents.read_text_slice(document, start, end))

    def _select_fitting_chunks(self, chunks: list[ChunkRecord], best_index: int, tokens_left: int) -> list[ChunkRecord]:
        """Return adjacent chunks around the one at ``best_index``, with at most ``tokens_left`` tokens together.

        All ``chunks`` are returned if they fit. Otherwise, chunks are added to the best one on both sides, each time
        the better-ranked neighbor. The list is empty if the best chunk alone does not fit.
        """
        document, start, end = chunks[0].document, chunks[0].start, chunks[-1].end
        # A token has at least one byte, so a short text need not be read.
        if end - start <= tokens_left or self._count_tokens(document, start, end) <= tokens_left:
            return chunks

        def count_chunk_tokens(index: int) -> int:
            """Return the number of tokens of the chunk with this index."""
            return self._count_tokens(document, chunks[index].start, chunks[index].end)

        def get_ranking_index(index: int) -> int:
            """Return the index of a chunk in the ranking, or one beyond all ranked chunks if it is unranked."""
            return self._ranking_indexes.get((chunks[index].document, chunks[index].ordinal), NUM_JOINABLE)

        first_index = last_index = best_index
        tokens_left -= count_chunk_tokens(best_index)
        if tokens_left < 0:
            return []
        candidates = {index for index in (best_index - 1, best_index + 1) if 0 <= index < len(chunks)}
        while candidates:
            # If both neighbors are unranked, the one after the best chunk comes first.
            index = min(candidates, key=lambda candidate: (get_ranking_index(candidate), -candidate))
            candidates.discard(index)
            num_tokens = count_chunk_tokens(index)
            if num_tokens > tokens_left:
                continue  # the neighbor on the other side can still fit
            tokens_left -= num_tokens
            first_index, last_index = min(first_index, index), max(last_index, index)
            next_index = index - 1 if index < best_index else index + 1
            if 0 <= next_index < len(chunks):
                candidates.add(next_index)
        return chunks[first_index : last_index + 1]

    def _align_to_blocks(
        self,
        record: DocumentRecord,
        best: ChunkRecord,
        span: tuple[int, int],
        limits: tuple[int, int],
        token_limit: int,
    ) -> tuple[int, int]:
        """Return ``span`` with its ends moved out of tables, list items and code blocks, if possible.

        Spans and ``limits`` are byte offsets (start, end) in the document. A block that contains an end is included
        whole if the span stays within ``limits`` and ``token_limit``. Otherwise it is excluded, unless the best chunk
        overlaps it. Only Markdown has such blocks.
        """
        start, end = span
        min_start, max_end = limits
        if record.format != "markdown":
            return span

        def is_within_limits(first_byte: int, last_byte: int) -> bool:
            """True if a span of bytes lies within the limits and has few enough tokens; long texts are not read."""
            size = last_byte - first_byte
            if first_byte < min_start or last_byte > max_end or size > token_limit * _MAX_TOKEN_BYTES:
                return False
            # A token has at least one byte, so a short text need not be read either.
            return size <= token_limit or self._count_tokens(record.id, first_byte, last_byte) <= token_limit

        sections = self._get_sections(record.id)
        for side in ("end", "start", "end"):  # the end once more, because a moved start can leave more tokens for it
            block = self._block_finder.find_block(record, sections, end if side == "end" else start)
            if block is None:
                continue
            if side == "end":
                if is_within_limits(start, block.end):
                    end = block.end
                elif block.start >= best.end:
                    end = block.previous_end
            elif is_within_limits(block.start, end):
                start = block.start
            elif block.end <= best.start:
                start = block.next_start
        return start, end

    def _list_covering_chunks(
        self, ids: Sequence[int], chunks: list[ChunkRecord], start: int, end: int
    ) -> list[ChunkRecord]:
        """Return the chunks of a document that overlap its bytes ``start`` to ``end``, in order.

        ``chunks`` are adjacent chunks that are already read; at least one overlaps the span. ``ids`` are the ids of all
        chunks of the document.
        """
        covering_chunks = [chunk for chunk in chunks if chunk.start < end and chunk.end > start]
        for neighbor in self._iter_chunks(ids, reversed(range(covering_chunks[0].ordinal))):
            if neighbor.end <= start:
                break
            covering_chunks.insert(0, neighbor)
        for neighbor in self._iter_chunks(ids, range(covering_chunks[-1].ordinal + 1, len(ids))):
            if neighbor.start >= end:
                break
            covering_chunks.append(neighbor)
        return covering_chunks

    def _iter_chunks(self, ids: Sequence[int], ordinals: Iterable[int]) -> Iterator[ChunkRecord]:
        """Yield the chunks of a document with these ordinals. ``ids`` are the ids of all its chunks, by ordinal."""
        return (self._state.chunks.get(ids[ordinal]) for ordinal in ordinals)


#: A high estimate of the bytes per token: the tokens of a text longer than the limit times this are not counted.
_MAX_TOKEN_BYTES = 40
