"""The text of an answer in runs, each with the places of the documents that it stands in.

In: a text with numbers in brackets, the citations of these numbers, and the documents. Out: its paragraphs, as runs of
text. Where a sentence stands in what is cited, letter for letter, its place is that sentence's; else it is all that is
cited.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import kvstore

_CITED = re.compile(r"\s*\[(\d{1,3}(?:, ?\d{1,3})*)\]")
_SENTENCE = re.compile(r".+?(?:[.!?…][\"'”’)\]]*(?=\s)|\Z)\s*", re.DOTALL)
_LETTER_PATTERN = re.compile(r"\w")
#: Letters of a sentence that has a place of its own.
_LEAST = 12
#: Places of a citation that are looked through for a sentence.
_MAX_SPANS = 20


@dataclass(frozen=True, slots=True)
class AnswerRun:
    """A piece of an answer: its text, the numbers cited behind it, and the place that it stands in, if any does."""

    text: str
    numbers: tuple[int, ...]
    document: str | None = None
    places: tuple[tuple[int, int], ...] = ()

    def as_data(self) -> dict[str, Any]:
        """It as JSON holds it."""
        return {
            "text": self.text,
            "numbers": list(self.numbers),
            "document": self.document,
            "places": [list(span) for span in self.places],
        }


class Quoted:
    """What the documents of a store have at some places."""

    def __init__(self, store: kvstore.Store) -> None:
        self._store = store
        self._texts: dict[str, bytes] = {}

    def text(self, document: str, start: int, end: int) -> str:
        """The bytes of a document from one to another, as text; where it has changed meanwhile, what can be read."""
        if document not in self._texts:
            stored = self._store.get(document)
            self._texts[document] = b"" if stored is None else stored.text.encode()
        return self._texts[document][start:end].decode(errors="replace")


def split_paragraphs(text: str, citations: Sequence[kvstore.Citation], quoted: Quoted) -> list[list[AnswerRun]]:
    """The paragraphs of an answer, in runs."""
    citations_by_number = {citation.number: citation for citation in citations}
    return [
        list(_runs(paragraph, citations_by_number, quoted))
        for paragraph in re.split(r"\n{2,}", text)
        if paragraph.strip()
    ]


def _runs(paragraph: str, citations: Mapping[int, kvstore.Citation], quoted: Quoted) -> Iterator[AnswerRun]:
    position = 0
    for match in _CITED.finditer(paragraph):
        numbers = tuple(int(number) for number in match[1].split(","))
        known_citations = [citations[number] for number in numbers if number in citations]
        if known_citations:
            yield from _placed(paragraph[position : match.start()], numbers, known_citations, quoted)
            position = match.end()
    if paragraph[position:]:
        yield AnswerRun(paragraph[position:], ())


def _placed(
    text: str, numbers: tuple[int, ...], citations: Sequence[kvstore.Citation], quoted: Quoted
) -> Iterator[AnswerRun]:
    """The sentences before a citation; the last of them has the numbers."""
    sentences = [match[0] for match in _SENTENCE.finditer(text)] or [""]
    first_document = citations[0].spans[0].document
    citation_spans = tuple((span.start, span.end) for span in citations[0].spans if span.document == first_document)
    for count, sentence in enumerate(sentences, start=1):
        match = next(filter(None, (_place(sentence, citation, quoted) for citation in citations)), None)
        document, places = (first_document, citation_spans) if match is None else match
        yield AnswerRun(sentence, numbers if count == len(sentences) else (), document, places)


def _place(sentence: str, citation: kvstore.Citation, quoted: Quoted) -> tuple[str, tuple[tuple[int, int], ...]] | None:
    """Where a sentence stands in a place that a citation is of; marks and spaces may differ, letters not."""
    sentence_letters = "".join(_LETTER_PATTERN.findall(sentence))
    if len(sentence_letters) < _LEAST:
        return None
    for span in citation.spans[:_MAX_SPANS]:
        text = quoted.text(span.document, span.start, span.end)
        letters = list(_LETTER_PATTERN.finditer(text))
        position = "".join(letter[0] for letter in letters).find(sentence_letters)
        if position >= 0:
            first, last = letters[position].start(), letters[position + len(sentence_letters) - 1].end()
            last += len(text[last:]) - len(text[last:].lstrip(".!?…;\"'”’)]`*_"))
            start = span.start + len(text[:first].encode())
            return span.document, ((start, start + len(text[first:last].encode())),)
    return None
