"""Context that a language model writes about documents and sections: a title and a sentence for each (spRAG's
AutoContext). A *passage* is the beginning of a document or section, as a prompt shows it. The *context* of a chunk is
what was written about its document and its section.

In: the beginning of a document, and of each section that has chunks. On disk: table ``context_texts``. Out: for each
chunk the lines of context about its document and section.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from ...models.json_schema import build_object_schema, build_text_schema
from ...models.quoting import to_printable
from ...registry.chunked_text import ChunkedText
from ...registry.fact import Fields
from ...registry.written_passages import ModelTexts, SourcePassage, WrittenFact, compute_passage_digest
from ...structures.documents.documents import build_heading_path

#: The maximum size in bytes of a document and a section in a prompt, and the minimum of a section that gets context.
_MAX_DOCUMENT_BYTES, _MAX_SECTION_BYTES, _MIN_SECTION_BYTES = 14_000, 4_000, 300
#: The maximum number of characters of a title and of a sentence, and the minimum of a sentence.
_MAX_TITLE_CHARS, _MAX_SENTENCE_CHARS, _MIN_SENTENCE_CHARS = 120, 400, 12

_TASK = (
    "Each passage is the beginning of a document, or of a section of one. Say of each what a reader must know to place "
    "any part of it: a title of 2 to 10 words, and one sentence that says what it is about, naming the persons, "
    "organisations, products and periods that it treats by their full names. Say nothing that the passage does not "
    "say, and write in its language."
)
_ENTRY_SCHEMA = build_object_schema(
    title=build_text_schema(_MAX_TITLE_CHARS), about=build_text_schema(_MAX_SENTENCE_CHARS, _MIN_SENTENCE_CHARS)
)


class _WrittenContext(WrittenFact):
    """The texts that ``EXTRACT context`` writes: a title and a sentence about documents and sections, by a model."""

    name = "context"
    gives_context = True
    plural = "written_contexts"
    fields: ClassVar[Fields] = {"context": str, "passages": list}
    tables = ("context_texts",)
    passage_tokens = 4000
    task = _TASK
    about = "a title and a one-sentence description of each document and section"

    def list_passages(self, document: ChunkedText) -> list[SourcePassage]:
        """Return the passages that the model writes about: the beginning of the document and of each longer section."""
        return [_build_document_passage(document), *(passage for _, passage in _iter_section_passages(document))]

    def build_contexts(self, value: ModelTexts, document: ChunkedText) -> list[str]:
        """Return the context of each chunk, as lines to put before its text; "" for a chunk without context.

        The lines are the sentences in ``value`` about the document and about the section. The written title is the
        first line if the document has no title of its own.
        """
        document_lines: list[str] = []
        document_texts = value.get_texts(_build_document_passage(document).digest)
        if document_texts is not None:
            title, sentence, *_ = document_texts.texts
            document_lines = [sentence] if document.title else [title, sentence]
        section_texts = {
            section: value.get_texts(passage.digest) for section, passage in _iter_section_passages(document)
        }
        contexts = []
        for chunk in document.chunks:
            lines = list(document_lines)
            texts_about_section = section_texts.get(chunk.section)
            if texts_about_section is not None:
                _, sentence, *_ = texts_about_section.texts  # the title and the sentence
                lines.append(sentence)
            contexts.append("\n".join(lines))
        return contexts

    def build_entry_schema(self, max_chars: int) -> Mapping[str, Any]:
        """Return the JSON Schema of a title and a sentence about a passage; ``max_chars`` has no effect."""
        return _ENTRY_SCHEMA

    def convert_entry(self, output: Any, passage: SourcePassage, check: Callable[..., None]) -> tuple[str, ...]:
        """Return the title and the sentence in a model's answer; raises ValueError if ``check`` rejects one."""
        from ...models.text_checks import trim_to_sentences

        title, sentence = to_printable(" ".join(output["title"].split())), trim_to_sentences(output["about"])
        check(title, name="a title", is_title=True)
        check(sentence, name="a sentence")
        return title, sentence

    def describe_passage(self, passage: SourcePassage) -> str:
        """Return the line above a passage in the prompt, with "a section of" before the title of a section."""
        prefix = "a section of " if passage.headings else ""
        return prefix + super().describe_passage(passage)


def _build_document_passage(document: ChunkedText) -> SourcePassage:
    """Return the beginning of a document as the passage in a prompt."""
    text = _truncate_text(document.text, _MAX_DOCUMENT_BYTES)
    return SourcePassage(
        digest=compute_passage_digest(document.title, [], text),
        title=document.title,
        headings=(),
        text=text,
        chunks=range(len(document.chunks)),
    )


def _iter_section_passages(document: ChunkedText) -> Iterator[tuple[int, SourcePassage]]:
    """Yield (index of the section among the document's headings, passage for the prompt) for each long section.

    The passage is the beginning of the section. Sections without chunks of their own, and sections with less than
    :data:`_MIN_SECTION_BYTES` bytes, are skipped.
    """
    ordinals_by_section: dict[int, list[int]] = {}
    for ordinal, chunk in enumerate(document.chunks):
        if chunk.section >= 0:  # -1: before the first heading
            ordinals_by_section.setdefault(chunk.section, []).append(ordinal)
    for section, ordinals in ordinals_by_section.items():
        start, end = document.chunks[ordinals[0]].start, document.chunks[ordinals[-1]].end
        if end - start >= _MIN_SECTION_BYTES:
            headings = build_heading_path(document.sections, section)
            text = _truncate_text(document.text[start:end], _MAX_SECTION_BYTES)
            digest = compute_passage_digest(document.title, headings, text)
            chunks = range(ordinals[0], ordinals[-1] + 1)
            yield section, SourcePassage(digest, document.title, headings=headings, text=text, chunks=chunks)


def _truncate_text(text: bytes, max_bytes: int) -> str:
    """Decode at most the first ``max_bytes`` bytes of a text, without a truncated last character."""
    return text[:max_bytes].decode(errors="ignore")


#: The context that models write for documents and sections; EXTRACT context has a model write it.
WRITTEN_CONTEXT = _WrittenContext()
