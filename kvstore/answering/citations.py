"""Citations of an answer, and those of a model's text checked while it comes.

In: text with numbers in brackets (``[1]``, ``[2, 3]``, ``[1-3]``, ``【4】``), in pieces. Out: the same text, in which
only numbers of passages that were given stand, each list written ``[2, 3]``. A number that was not given is left out
and remembered. A number of more than three digits, such as a year, is no citation. What a model is given to quote has
no citations of its own, see :func:`neutralize_citations`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..retrieval.evidence import ChunkReference, Hit, HitKind, TextSpan

_BRACKETED_PATTERN = re.compile(r"[\[【]\s*(\d{1,3}(?:\s*[,;–-]\s*\d{1,3})*)\s*[\]】]")
#: A citation, with the white space before it.
_CITATION_PATTERN = re.compile(rf"\s*{_BRACKETED_PATTERN.pattern}")
#: What may yet become one, at the end of a piece.
_PARTIAL_CITATION_PATTERN = re.compile(r"\s*(?:[\[【][\d\s,;–-]{0,80})?\Z")
_RANGE_PATTERN = re.compile(r"(\d+)\s*[–-]\s*(\d+)")
_NUMBER_PATTERN = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Citation(ChunkReference):
    """Where a statement of an answer stands: document key, ``ordinal`` of the chunk (its number in the document), bytes
    ``start`` to ``end`` of the stored text. ``chunk`` is the deprecated name of ``ordinal``; it is removed in kvstore
    0.5.

    ``kind`` is that of the hit it is of. ``spans`` are its places, never none: more than one where what is cited is a
    segment, a summary or a report, see :class:`~kvstore.retrieval.evidence.Hit`.
    """

    number: int
    document: str
    ordinal: int
    start: int
    end: int
    text: str
    kind: HitKind = "chunk"
    spans: tuple[TextSpan, ...] = ()

    def __post_init__(self) -> None:
        if not self.spans:
            object.__setattr__(self, "spans", (TextSpan(self.document, self.ordinal, self.start, self.end),))


def cite_hit(number: int, hit: Hit) -> Citation:
    """The citation of a whole hit."""
    return Citation(number, hit.document, hit.ordinal, hit.start, hit.end, hit.text, hit.kind, hit.spans)


def neutralize_citations(text: str) -> str:
    """A text whose numbers in brackets stand in parentheses: a model that copies them cites nothing.

    >>> neutralize_citations("The Moon has no air.[3] See list[0] and [1984].")
    'The Moon has no air.(3) See list(0) and [1984].'
    """
    return _BRACKETED_PATTERN.sub(r"(\1)", text)


class CitationFilter:
    """Lets citations of passages 1 to ``num_passages`` pass and drops the others, piece by piece.

    ``cited`` are the numbers that passed and ``dropped`` those that did not, each in order of its first place.
    """

    def __init__(self, num_passages: int) -> None:
        self._num_passages = num_passages
        self._pending = ""
        self._cited: dict[int, None] = {}
        self._dropped: dict[int, None] = {}

    @property
    def cited(self) -> list[int]:
        return list(self._cited)

    @property
    def dropped(self) -> list[int]:
        return list(self._dropped)

    def feed(self, text: str) -> str:
        """What is settled by some more text."""
        self._pending += text
        partial = _PARTIAL_CITATION_PATTERN.search(self._pending)
        end = len(self._pending) if partial is None else partial.start()
        ready, self._pending = self._pending[:end], self._pending[end:]
        return _CITATION_PATTERN.sub(self._filter_citation, ready)

    def flush(self) -> str:
        """What was held back, the text being over."""
        ready, self._pending = self._pending, ""
        return _CITATION_PATTERN.sub(self._filter_citation, ready).rstrip()

    def _filter_citation(self, match: re.Match[str]) -> str:
        expanded = _RANGE_PATTERN.sub(_expand_range, match[1])
        numbers = list(dict.fromkeys(map(int, _NUMBER_PATTERN.findall(expanded))))
        valid = [number for number in numbers if 1 <= number <= self._num_passages]
        self._cited |= dict.fromkeys(valid)
        self._dropped |= dict.fromkeys(number for number in numbers if number not in valid)
        before = match[0][: len(match[0]) - len(match[0].lstrip())]
        return f"{before}[{', '.join(map(str, valid))}]" if valid else ""


def _expand_range(match: re.Match[str]) -> str:
    first, last = int(match[1]), int(match[2])
    return ",".join(map(str, range(first, last + 1))) if first <= last else match[0]
