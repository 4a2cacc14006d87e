"""Citations of an answer, and a filter that checks those in a model's text as it arrives in pieces. A citation in a
text is one or several passage numbers in brackets: ``[1]``, ``[2, 3]``, ``[1-3]``, ``【4】``. A *hit* is a retrieved
text.

In: text with such numbers, in pieces. Out: the same text with valid passage numbers only, each list written ``[2, 3]``.
Invalid numbers are removed and recorded. A number of more than three digits, such as a year, is not a citation. Text
quoted to a model has no citations, see :func:`neutralize_citations`.
"""

from __future__ import annotations

import re

from ..process.frozen_dataclass import frozen_dataclass
from ..retrieval.evidence import ChunkReference, Hit, HitKind, TextSpan
from ..text.patterns import compile_lazily

_BRACKETED_PATTERN = compile_lazily(r"[\[【]\s*(\d{1,3}(?:\s*[,;–-]\s*\d{1,3})*)\s*[\]】]")
#: A citation, with the white space before it. Only the start of a run of white space is tried, because trying each
#: character takes quadratic time in the length of the run.
_CITATION_PATTERN = compile_lazily(rf"(?<!\s)\s*+{_BRACKETED_PATTERN.pattern}")
#: The possible beginning of a citation at the end of a piece.
_PARTIAL_CITATION_PATTERN = compile_lazily(r"(?<!\s)\s*+(?:[\[【][\d\s,;–-]{0,80})?\Z")
_RANGE_PATTERN = compile_lazily(r"(?<!\d)(\d++)\s*[–-]\s*(\d+)")
_NUMBER_PATTERN = compile_lazily(r"\d+")


@frozen_dataclass
class Citation(ChunkReference):
    """The source of a statement in an answer.

    It consists of the document key, the ``ordinal`` of the chunk (its number in the document), and the bytes ``start``
    to ``end`` of the stored text. ``chunk`` is the deprecated name of ``ordinal``; it is removed in kvstore 0.5.

    ``number`` is the number in the answer. ``text`` is the cited text in readable form: after its heading, if the
    sentence alone does not name its subject, and with the names of the columns in a table row. If a language model
    wrote the answer, it is the text of the whole hit.

    ``kind`` is the kind of the cited hit. ``spans`` is never empty; it has several spans if a segment, a summary or a
    report is cited, see :class:`~kvstore.retrieval.evidence.Hit`.
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
        """Set the spans of a citation that was created without spans: its own span."""
        if not self.spans:
            object.__setattr__(self, "spans", (TextSpan(self.document, self.ordinal, self.start, self.end),))


def cite_hit(number: int, hit: Hit) -> Citation:
    """Return a citation of a whole hit, with this ``number``."""
    return Citation(number, hit.document, hit.ordinal, hit.start, hit.end, hit.text, hit.kind, hit.spans)


def neutralize_citations(text: str) -> str:
    """Replace the brackets of numbers like ``[3]`` in a text by parentheses, so that they do not look like citations.

    >>> neutralize_citations("The Moon has no air.[3] See list[0] and [1984].")
    'The Moon has no air.(3) See list(0) and [1984].'
    """
    return _BRACKETED_PATTERN.sub(r"(\1)", text)


class CitationFilter:
    """A streaming filter that passes citations of passages 1 to ``num_passages`` and drops all others.

    ``cited`` has the numbers that passed, and ``dropped`` the numbers that were removed, in order of first occurrence.
    """

    def __init__(self, num_passages: int) -> None:
        """Create a filter for one text, in which the numbers 1 to ``num_passages`` are valid citations."""
        self._num_passages = num_passages
        self._pending_text = ""
        self._cited: dict[int, None] = {}
        self._dropped: dict[int, None] = {}

    @property
    def cited(self) -> list[int]:
        """The passage numbers that the text cites, in order of their first citation."""
        return list(self._cited)

    @property
    def dropped(self) -> list[int]:
        """The cited numbers that are not passage numbers; their citations are removed from the text."""
        return list(self._dropped)

    def feed(self, text: str) -> str:
        """Add a piece of the text; return the text that is complete now, with invalid numbers removed from citations.

        White space and a possible beginning of a citation at the end are held back until the next call.
        """
        self._pending_text += text
        partial_citation = _PARTIAL_CITATION_PATTERN.search(self._pending_text)
        end = len(self._pending_text) if partial_citation is None else partial_citation.start()
        complete_text, self._pending_text = self._pending_text[:end], self._pending_text[end:]
        return _CITATION_PATTERN.sub(self._filter_citation, complete_text)

    def flush(self) -> str:
        """Return the text that was held back, at the end of the stream: filtered, without white space at its end."""
        complete_text, self._pending_text = self._pending_text, ""
        return _CITATION_PATTERN.sub(self._filter_citation, complete_text).rstrip()

    def _filter_citation(self, match: re.Match[str]) -> str:
        """Return the replacement of a matched citation: its valid numbers in brackets, or nothing if it has none.

        Its numbers are added to ``cited`` or ``dropped``.
        """
        expanded_numbers = _RANGE_PATTERN.sub(_expand_range, match[1])
        numbers = list(dict.fromkeys(map(int, _NUMBER_PATTERN.findall(expanded_numbers))))
        valid_numbers = [number for number in numbers if 1 <= number <= self._num_passages]
        self._cited |= dict.fromkeys(valid_numbers)
        self._dropped |= dict.fromkeys(number for number in numbers if number not in valid_numbers)
        leading_space = match[0][: len(match[0]) - len(match[0].lstrip())]
        return f"{leading_space}[{', '.join(map(str, valid_numbers))}]" if valid_numbers else ""


def _expand_range(match: re.Match[str]) -> str:
    """Return the numbers in a matched range (``1,2,3`` for ``1-3``); a descending range stays as it is."""
    first, last = int(match[1]), int(match[2])
    return ",".join(map(str, range(first, last + 1))) if first <= last else match[0]
