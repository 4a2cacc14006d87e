"""Segments: runs of neighbouring chunks, each one slice of a document, from the ranking of any strategy.

Relevant segment extraction of dsRAG, which was spRAG (D-Star-AI, ``rse.py``): a chunk is worth what its rank says less
a penalty, a chunk that nobody ranked is worth minus the penalty, and the run of chunks with the greatest sum is taken,
again and again. Where the published code is otherwise:

- What a chunk is worth follows from the room and the shape of the scores, not from a constant: it falls with the rank,
  measured by how many chunks there is room for, and with the score, as a share of the best one. Where scores fall off
  steeply, and where there is little room, segments are short.
- Every ranked chunk is in a segment, at least in one of its own, and segments come in the order of their best-ranked
  chunk: by their sums, long middling runs would push the best short one back.
- A segment too long for what room is left grows outward from its best chunk, and none ends inside a table, an item of a
  list or a block of code, unless that block alone is too long.

In: a state, a ranking and a :class:`SegmentPlan`. Out: :class:`Segment` places. Only chunks with a rank are looked at,
nothing is stored, and equal sums go by place, so segments are a function of the ranking and the documents.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ..arguments import Option
from ..structures.ranking import Ranking, assign_ranks
from ..text.words import count_text_tokens

if TYPE_CHECKING:
    from ..structures.documents.chunks import ChunkRecord
    from ..structures.documents.documents import DocumentRecord, Section
    from ..structures.state import State

#: How many chunks of a ranking are looked at, where no more hits are asked for.
CONSIDERED = 100
#: Of a chunk's size, the share below which it is not worth looking for one that has room.
_LEAST = 0.25
#: What the best chunk is worth before the penalty (dsRAG's relevance where scores are no probabilities), and how much
#: the share of the best score counts beside the rank: strategies differ in how their scores fall.
_BEST_RELEVANCE, _SCORE_EXPONENT = 0.8, 0.25

#: What WITH sets beside the options of a strategy, where its ranking is taken as segments. The defaults were chosen on
#: the even questions of meetings (answers of a page) and excerpts (of a sentence).
SEGMENT_OPTIONS: Mapping[str, Option] = {
    "penalty": Option(0.12, 0, 1, "what each chunk of a segment has to be worth: more makes segments shorter"),
    "decay": Option(1, 0.01, 100, "over how many times the chunks that there is room for worth falls to a third"),
    "longest": Option(15, 1, 1000, "chunks of a segment at most"),
    "sections": Option(0, 0, 1, "1: no segment goes on from one section of the highest level to another"),
}


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """How segments are made: ``top`` of them at most, of ``within`` tokens together; ``room`` is how many chunks would
    be read otherwise; the rest as in ``SEGMENT_OPTIONS``."""

    top: int
    room: float
    within: int | None = None
    penalty: float = SEGMENT_OPTIONS["penalty"].default
    decay: float = SEGMENT_OPTIONS["decay"].default
    longest: int = int(SEGMENT_OPTIONS["longest"].default)
    sections: bool = False


@dataclass(frozen=True, slots=True)
class Segment:
    """Bytes ``start`` to ``end`` of a document, which are ``text``: some chunks, of the first and the last perhaps a
    part. ``best`` is the id of the best-ranked of them, ``score`` that one's."""

    record: DocumentRecord
    chunks: Sequence[ChunkRecord]
    start: int
    end: int
    text: str
    best: int
    score: float

    @property
    def is_whole_chunk(self) -> bool:
        """Whether it is one chunk and nothing else."""
        return len(self.chunks) == 1 and (self.start, self.end) == (self.chunks[0].start, self.chunks[0].end)


class _ChunkRun(NamedTuple):
    """Chunks ``first`` to ``last`` of a document, by their numbers in it; ``place`` is that of their best in the
    ranking."""

    place: int
    document: int
    first: int
    last: int


def relevances(ranking: Ranking, plan: SegmentPlan) -> list[float]:
    """What each chunk of a ranking is worth, before the penalty."""
    if not ranking:
        return []
    decay_chunks = plan.decay * plan.room
    min_score = min(0.0, ranking[-1][1])
    score_range = max(ranking[0][1] - min_score, sys.float_info.min)
    return [
        _BEST_RELEVANCE * math.exp(-(rank - 1) / decay_chunks) * ((score - min_score) / score_range) ** _SCORE_EXPONENT
        for (_, score), (_, rank) in zip(ranking, assign_ranks(ranking), strict=True)
    ]


def select_best_runs(
    values: Mapping[int, float], plan: SegmentPlan, borders: Sequence[int] = ()
) -> list[tuple[int, int]]:
    """Runs of the chunks of one document, in no order, that together have every chunk with a value once.

    ``values`` are those of chunks by their numbers, the penalty taken off; ``borders`` are numbers of chunks before
    which every run ends.
    """
    numbers = sorted(values)
    runs: list[tuple[float, int, int]] = []
    for index, first in enumerate(numbers):
        if values[first] < 0:
            continue
        stop = min([first + plan.longest, *(border for border in borders if border > first)])
        worth, previous = 0.0, first - 1
        for last in numbers[index:]:
            if last >= stop:
                break
            worth += values[last] - plan.penalty * (last - previous - 1)
            previous = last
            if values[last] >= 0:
                runs.append((-worth, first, last))
    used: set[int] = set()
    selected = []
    for _, first, last in sorted(runs):
        if used.isdisjoint(range(first, last + 1)):
            used.update(range(first, last + 1))
            selected.append((first, last))
    return selected + [(number, number) for number in numbers if number not in used]


def segments(view: State, ranking: Ranking, plan: SegmentPlan) -> list[Segment]:
    """The segments of a ranking, in the order of their best-ranked chunks."""
    ranking = ranking[: max(CONSIDERED, plan.top)]
    builder = _SegmentBuilder(view, ranking, plan)
    selected: list[Segment] = []
    tokens_left = plan.within
    for run in builder.runs():
        if len(selected) == plan.top or (tokens_left is not None and tokens_left < view.settings.chunk_tokens * _LEAST):
            break
        segment = builder.segment(run, tokens_left)
        if segment is None:
            continue
        if tokens_left is not None:
            tokens_left -= count_text_tokens(segment.text)
        selected.append(segment)
    return selected


def told(ranking: Ranking, plan: SegmentPlan, found: Sequence[Segment]) -> str:
    """What EXPLAIN says of segments: how many chunks the shape of the scores lets in, and what came of them."""
    considered = ranking[: max(CONSIDERED, plan.top)]
    num_worthwhile = sum(value > plan.penalty for value in relevances(considered, plan))
    num_longer = sum(not segment.is_whole_chunk for segment in found)
    num_chunks = sum(len(segment.chunks) for segment in found)
    return (
        f"as the scores fall, {num_worthwhile} of {len(considered)} chunks are worth more than the penalty "
        f"{plan.penalty:g}, "
        f"with room for {plan.room:.3g}; {num_longer} segments of more than one chunk, {num_chunks} chunks in all"
    )


class _SegmentBuilder:
    """Makes segments of one ranking."""

    def __init__(self, view: State, ranking: Ranking, plan: SegmentPlan) -> None:
        from .block_borders import BlockFinder

        self._view = view
        self._ranking = ranking
        self._plan = plan
        self._block_finder = BlockFinder(view.documents)
        self._records: dict[int, DocumentRecord] = {}
        self._ids: dict[int, list[int]] = {}
        self._outlines: dict[int, list[Section]] = {}
        #: Of each document the places of segments that are made, which no other may have.
        self._made: dict[int, list[tuple[int, int]]] = {}
        chunks = view.chunks.get_many(chunk for chunk, _ in ranking)
        self._places = {(chunk.document, chunk.ordinal): ranking_index for ranking_index, chunk in enumerate(chunks)}
        self._ranked_chunks = chunks

    def runs(self) -> list[_ChunkRun]:
        values_by_document: dict[int, dict[int, float]] = {}
        for chunk, worth in zip(self._ranked_chunks, relevances(self._ranking, self._plan), strict=True):
            values_by_document.setdefault(chunk.document, {})[chunk.ordinal] = worth - self._plan.penalty
        found = []
        for document, chunk_values in values_by_document.items():
            borders = self._find_section_borders(document) if self._plan.sections else ()
            for first, last in select_best_runs(chunk_values, self._plan, borders):
                ranking_index = min(
                    self._places[document, number] for number in chunk_values if first <= number <= last
                )
                found.append(_ChunkRun(ranking_index, document, first, last))
        return sorted(found)

    def segment(self, run: _ChunkRun, left: int | None) -> Segment | None:
        """The segment of a run, within ``left`` tokens; None where there is no room for its best chunk, or another
        segment has it."""
        record = self._record(run.document)
        ids = self._chunk_ids(record)
        chunks = self._view.chunks.get_many(ids[run.first : run.last + 1])
        best_record = self._ranked_chunks[run.place]
        if left is not None:
            chunks = self._select_fitting(chunks, best_record.ordinal - run.first, left)
            if not chunks:
                return None
        used_spans = self._made.setdefault(record.id, [])
        start, end = chunks[0].start, chunks[-1].end
        low = max((stop for begin, stop in used_spans if begin <= best_record.start), default=0)
        high = min((begin for begin, _ in used_spans if begin >= best_record.start), default=record.size)
        if low > best_record.start or high < best_record.end:
            return None
        max_tokens = self._plan.longest * self._view.settings.chunk_tokens
        token_limit = max_tokens if left is None else min(max_tokens, left)
        start, end = self._align_to_blocks(
            record, best_record, (max(start, low), min(end, high)), (low, high), token_limit
        )
        used_spans.append((start, end))
        chunks = self._list_covering_chunks(ids, chunks, start, end)
        text = self._view.documents.text_slice(record.id, start, end)
        return Segment(record, chunks, start, end, text, *self._ranking[run.place])

    def _tokens(self, document: int, start: int, end: int) -> int:
        return count_text_tokens(self._view.documents.text_slice(document, start, end))

    def _select_fitting(self, chunks: list[ChunkRecord], best: int, left: int) -> list[ChunkRecord]:
        """Chunks around the best that have at most ``left`` tokens together, grown on the better side first."""
        document = chunks[0].document
        if chunks[-1].end - chunks[0].start <= left or self._tokens(document, chunks[0].start, chunks[-1].end) <= left:
            return chunks

        def size(number: int) -> int:
            return self._tokens(document, chunks[number].start, chunks[number].end)

        def place(number: int) -> int:
            return self._places.get((chunks[number].document, chunks[number].ordinal), len(self._ranking))

        first = last = best
        left -= size(best)
        if left < 0:
            return []
        sides = {index for index in (best - 1, best + 1) if 0 <= index < len(chunks)}
        while sides:
            index = min(sides, key=lambda side: (place(side), -side))
            sides.discard(index)
            num_tokens = size(index)
            if num_tokens > left:
                continue  # the other side may have room yet
            left -= num_tokens
            first, last = min(first, index), max(last, index)
            next_index = index - 1 if index < best else index + 1
            if 0 <= next_index < len(chunks):
                sides.add(next_index)
        return chunks[first : last + 1]

    def _align_to_blocks(
        self, record: DocumentRecord, best: ChunkRecord, at: tuple[int, int], limits: tuple[int, int], room: int
    ) -> tuple[int, int]:
        """A place whose ends are inside no block, within ``limits`` and ``room`` tokens: with the whole block, else
        without it, where the best chunk is not in it."""
        start, end = at
        if record.format != "markdown":
            return at

        def fits(first: int, last: int) -> bool:
            if first < limits[0] or last > limits[1] or last - first > room * _MAX_TOKEN_BYTES:
                return False
            return last - first <= room or self._tokens(record.id, first, last) <= room

        outline = self._outline(record.id)
        block = self._block_finder.around(record, outline, end)
        if block is not None:
            if fits(start, block.end):
                end = block.end
            elif block.start >= best.end:
                end = block.before
        block = self._block_finder.around(record, outline, start)
        if block is not None:
            if fits(block.start, end):
                start = block.start
            elif block.end <= best.start:
                start = block.after
        return start, end

    def _list_covering_chunks(
        self, ids: Sequence[int], chunks: list[ChunkRecord], start: int, end: int
    ) -> list[ChunkRecord]:
        """The chunks that have some of a place, of which some are at hand."""
        covering = [chunk for chunk in chunks if chunk.start < end and chunk.end > start]
        for neighbor in self._iter_chunks(ids, reversed(range(covering[0].ordinal))):
            if neighbor.end <= start:
                break
            covering.insert(0, neighbor)
        for neighbor in self._iter_chunks(ids, range(covering[-1].ordinal + 1, len(ids))):
            if neighbor.start >= end:
                break
            covering.append(neighbor)
        return covering

    def _iter_chunks(self, ids: Sequence[int], numbers: Iterable[int]) -> Iterator[ChunkRecord]:
        return (self._view.chunks.get(ids[ordinal]) for ordinal in numbers)

    def _find_section_borders(self, document: int) -> list[int]:
        """The numbers of the first chunks of a document's sections of the highest level."""
        outline = self._outline(document)
        top_sections: list[int] = []
        for parent, number in zip((section.parent for section in outline), range(len(outline)), strict=True):
            top_sections.append(number if parent < 0 else top_sections[parent])
        borders, previous = [], -1
        for chunk in self._view.chunks.get_many(self._chunk_ids(self._record(document))):
            top_section = top_sections[chunk.section] if chunk.section >= 0 else -1
            if top_section != previous:
                borders.append(chunk.ordinal)
            previous = top_section
        return borders

    def _record(self, document: int) -> DocumentRecord:
        if document not in self._records:
            self._records[document] = self._view.documents.get(document)
        return self._records[document]

    def _chunk_ids(self, record: DocumentRecord) -> list[int]:
        if record.id not in self._ids:
            self._ids[record.id] = list(record.chunk_ids())
        return self._ids[record.id]

    def _outline(self, document: int) -> list[Section]:
        if document not in self._outlines:
            self._outlines[document] = self._view.documents.outline(document)
        return self._outlines[document]


#: Bytes of a token, rather too many: what is longer than so many for each token of the room is not read to count them.
_MAX_TOKEN_BYTES = 40
