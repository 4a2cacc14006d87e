"""The text of an answer, split into *pieces*: sentences, each with the spans of the document that supports it. A
citation is numbers in brackets after a sentence. A *span* is a byte range of a document.

In: a text with numbers in brackets, the citations with these numbers, and the documents. Out: its paragraphs as pieces
of text. If a sentence occurs in the cited text letter by letter, its span is the span of the occurrence, else the whole
citation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from markupsafe import Markup

import kvstore

from ...rendering.markup import escape
from .markdown_view import Insert, render_markdown
from .urls import build_spans_url

_CITATION_PATTERN = re.compile(r"(?<!\s)\s*+\[(\d{1,3}(?:, ?\d{1,3})*)\]")  # the citation of "tea [1, 2]"
#: A sentence with the white space after it; the last one can lack its full stop.
_SENTENCE_PATTERN = re.compile(r".+?(?:[.!?…][\"'”’)\]]*(?=\s)|\Z)\s*", re.DOTALL)
_LETTER_PATTERN = re.compile(r"\w")
#: The minimum number of letters of a sentence with its own span.
_MIN_LETTERS = 12
#: The maximum number of a citation's spans that are searched for a sentence.
_MAX_SPANS = 20


@dataclass(frozen=True, slots=True)
class CitedPiece:
    """A piece of an answer: its text, the citation numbers after it, and its spans in a document, if any."""

    text: str
    numbers: tuple[int, ...]
    document: str | None = None
    spans: tuple[tuple[int, int], ...] = ()

    def as_data(self) -> dict[str, Any]:
        """Return the piece of an answer as JSON data; ``places`` are its spans in the document that it cites."""
        return {
            "text": self.text,
            "numbers": list(self.numbers),
            "document": self.document,
            "places": [list(span) for span in self.spans],
        }


class DocumentTexts:
    """A reader of document texts and formats that caches every document it has read."""

    def __init__(self, store: kvstore.Store) -> None:
        """Create a reader of the documents of ``store``, with an empty cache."""
        self._store = store
        self._documents: dict[str, tuple[bytes, str]] = {}

    def read_slice(self, document: str, start: int, end: int) -> str:
        """Return the text between the byte offsets ``start`` and ``end`` of a document.

        A document that has changed since it was cited may have other text there, or none; undecodable bytes become
        ``�``.
        """
        text_bytes, _ = self._load_document(document)
        return text_bytes[start:end].decode(errors="replace")

    def get_format(self, document: str) -> str:
        """Return the format of a document: ``markdown`` or ``text``."""
        _, format = self._load_document(document)
        return format

    def _load_document(self, document: str) -> tuple[bytes, str]:
        """Return the text, in UTF-8, and the format of a document; both are cached. A missing document has no text."""
        if document not in self._documents:
            stored_document = self._store.get(document)
            self._documents[document] = (
                (b"", "text") if stored_document is None else (stored_document.text.encode(), stored_document.format)
            )
        return self._documents[document]


def render_cited_pieces(pieces: Sequence[Mapping[str, Any]], words: str | None) -> Markup:
    """Render a paragraph of an answer as HTML; ``pieces`` are its pieces as JSON data.

    Every piece (a sentence, or the text after the last citation) is Markdown. It is linked to the spans that it cites,
    and followed by its citation numbers. The first occurrence of ``words``, which answer the question, is marked.
    """
    source, inserts = "", []
    for piece in pieces:
        start, source = len(source), source + piece["text"]
        if piece["document"] is not None:
            url = escape(build_spans_url(piece["document"], piece["places"]))
            inserts.append(Insert(start, len(source), f'<a class="said" href="{url}">', "</a>", is_link=True))
        if words and words in piece["text"]:
            mark_start = start + piece["text"].index(words)
            inserts.append(Insert(mark_start, mark_start + len(words), "<mark>", "</mark>"))
            words = None
        end = start + len(piece["text"].rstrip())
        inserts += [
            Insert(end, end, f'<sup><a href="#cited-{number}" aria-label="citation {number}">{number}</a></sup>', "")
            for number in piece["numbers"]
        ]
    return render_markdown(source, inserts)


def split_paragraphs(text: str, citations: Sequence[kvstore.Citation], texts: DocumentTexts) -> list[list[CitedPiece]]:
    """Split the text of an answer into paragraphs, and each paragraph into sentences with the spans that they cite.

    Text without a citation is one piece, even if it has several sentences.
    """
    citations_by_number = {citation.number: citation for citation in citations}
    return [
        list(_iter_pieces(paragraph, citations_by_number, texts))
        for paragraph in re.split(r"\n{2,}", text)
        if paragraph.strip()
    ]


def _iter_pieces(
    paragraph: str, citations: Mapping[int, kvstore.Citation], texts: DocumentTexts
) -> Iterator[CitedPiece]:
    """Yield the pieces of a paragraph: each sentence before a citation, and the text after the last one.

    ``citations`` are the citations of the whole answer, by number. Brackets with only unknown numbers remain text.
    """
    position = 0
    for match in _CITATION_PATTERN.finditer(paragraph):
        numbers = tuple(int(number) for number in match[1].split(","))
        known_citations = [citations[number] for number in numbers if number in citations]
        if known_citations:
            yield from _iter_sentence_pieces(paragraph[position : match.start()], numbers, known_citations, texts)
            position = match.end()
    if paragraph[position:]:
        yield CitedPiece(paragraph[position:], numbers=())


def _iter_sentence_pieces(
    text: str, numbers: tuple[int, ...], citations: Sequence[kvstore.Citation], texts: DocumentTexts
) -> Iterator[CitedPiece]:
    """Yield the sentences of ``text``, which a citation follows, as pieces with their spans in the cited documents.

    ``numbers`` are the numbers in the citation's brackets, which only the last piece gets, and ``citations`` have these
    numbers. A sentence that no cited text contains gets the spans of the first citation in its first document.
    """
    sentences = [match[0] for match in _SENTENCE_PATTERN.finditer(text)] or [""]
    first_document = citations[0].spans[0].document
    first_spans = tuple((span.start, span.end) for span in citations[0].spans if span.document == first_document)
    for sentence_number, sentence in enumerate(sentences, start=1):
        sentence_spans = (_find_sentence(sentence, citation, texts) for citation in citations)
        span = next(filter(None, sentence_spans), None)
        is_last = sentence_number == len(sentences)
        document, spans = (first_document, first_spans) if span is None else (span.document, ((span.start, span.end),))
        yield CitedPiece(sentence, numbers if is_last else (), document, spans)


class _SentenceLocation(NamedTuple):
    """The span of a document, in bytes, that contains a sentence."""

    document: str
    start: int
    end: int


def _find_sentence(sentence: str, citation: kvstore.Citation, texts: DocumentTexts) -> _SentenceLocation | None:
    """Return the span in which the cited text contains a sentence.

    Only the first spans of the citation are searched, and only letters and digits are compared, so punctuation and
    spaces may differ. Returns None if they do not contain the sentence, or if it has too few letters.
    """
    sentence_letters = "".join(_LETTER_PATTERN.findall(sentence))
    if len(sentence_letters) < _MIN_LETTERS:
        return None
    for span in citation.spans[:_MAX_SPANS]:
        text = texts.read_slice(span.document, span.start, span.end)
        letters = list(_LETTER_PATTERN.finditer(text))
        first_index = "".join(letter[0] for letter in letters).find(sentence_letters)
        if first_index >= 0:
            last_index = first_index + len(sentence_letters) - 1
            match_start, match_end = letters[first_index].start(), letters[last_index].end()
            # Closing punctuation belongs to the sentence.
            match_end += len(text[match_end:]) - len(text[match_end:].lstrip(".!?…;\"'”’)]`*_"))
            start = span.start + len(text[:match_start].encode())
            return _SentenceLocation(span.document, start, start + len(text[match_start:match_end].encode()))
    return None
