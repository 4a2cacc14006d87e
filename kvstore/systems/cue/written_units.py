"""Units that a language model writes: short statements, each of which can be understood alone (CUE-RAG, section 3.1).

In: the chunks of a document. On disk: table ``unit_texts``. Out: the statements of each chunk, in place of its
sentences wherever units are read. What a model is told is our own; the paper's prompt asks for the same: simple
sentences, names in full, pronouns resolved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ...models.json_schema import build_object_schema
from ...models.quoting import Quotation, to_printable
from ...models.structured import StructuredPrompt
from ...text.words import segment_words
from ..chunked_text import ChunkedText
from ..fact import Fields
from ..written_passages import SourcePassage, WrittenFact, passage_digest

#: Characters of the longest statement, and how many times as long as a passage its statements may be together.
_MAX_STATEMENT_CHARS, _MAX_EXPANSION = 1000, 6

_TASK = (
    "Split each passage into short statements, each of which can be understood without the others. A statement says "
    "one thing, in a simple sentence and in the language of its passage. Write names in full, and in place of a "
    "pronoun what it stands for; the line above a passage says what its document and its sections are called. Leave "
    "out nothing that a passage says, and add nothing to it."
)
_SCHEMA = build_object_schema(
    passages={
        "type": "array",
        "items": build_object_schema(
            number={"type": "integer"}, statements={"type": "array", "items": {"type": "string"}}
        ),
    }
)


def compute_unit_digest(document: ChunkedText, chunk: int) -> bytes:
    """The digest of what a model is shown of a chunk, by its number in the document."""
    return passage_digest(document.title, document.list_headings(chunk), document.get_chunk_text(chunk).decode())


class _WrittenUnits(WrittenFact):
    name = "units"
    plural = "written_units"
    fields: ClassVar[Fields] = {"units": str, "passages": list}
    tables = ("unit_texts",)
    in_files = True
    about = "statements that can be understood alone, in place of a chunk's sentences"

    def list_passages(self, document: ChunkedText) -> list[SourcePassage]:
        return [
            SourcePassage(
                compute_unit_digest(document, number),
                document.title,
                document.list_headings(number),
                document.get_chunk_text(number).decode(),
                range(number, number + 1),
            )
            for number in range(len(document.chunks))
        ]

    def build_prompt(self, passages: Sequence[SourcePassage]) -> StructuredPrompt[Mapping[bytes, tuple[str, ...]]]:
        quotation = Quotation(
            part for source in passages for part in (source.title or "", *source.headings, source.text)
        )

        def check(value: Any) -> dict[bytes, tuple[str, ...]]:
            statements = {entry["number"]: entry["statements"] for entry in value["passages"]}
            if statements.keys() != set(range(1, len(passages) + 1)) or len(statements) != len(value["passages"]):
                raise ValueError(f"each of the passages 1 to {len(passages)} has one entry")
            return {
                passage.digest: _check_statements(statements[number], passage, quotation)
                for number, passage in enumerate(passages, 1)
            }

        user = "\n\n".join(_format_passage(number, passage, quotation) for number, passage in enumerate(passages, 1))
        messages = [
            {"role": "system", "content": f"{_TASK} {quotation.rule}"},
            {"role": "user", "content": user},
        ]
        return StructuredPrompt(self.name, messages, _SCHEMA, check)


def _format_passage(number: int, passage: SourcePassage, quotation: Quotation) -> str:
    heading_line = " > ".join(dict.fromkeys(filter(None, (passage.title, *passage.headings))))
    return f"Passage {number}: {to_printable(' '.join(heading_line.split()))}\n{quotation.quote(to_printable(passage.text))}"


def _check_statements(texts: Sequence[str], passage: SourcePassage, quotation: Quotation) -> tuple[str, ...]:
    """The statements on one line each, without those that share no word with what they were written from; raises
    ValueError where they are too long, or repeat the marks of the quotation."""
    statements = list(dict.fromkeys(to_printable(" ".join(text.split())) for text in texts if text.strip()))
    if any(len(text) > _MAX_STATEMENT_CHARS for text in statements):
        raise ValueError(f"a statement is one sentence, of at most {_MAX_STATEMENT_CHARS} characters")
    if sum(map(len, statements)) > _MAX_EXPANSION * (len(passage.text) + 100):
        raise ValueError("the statements say much more than their passage")
    if any(quotation.mark in text for text in statements):
        raise ValueError(f"a statement does not repeat the mark {quotation.mark}")
    source_words = {
        word for part in (passage.title or "", *passage.headings, passage.text) for word in segment_words(part)
    }
    return tuple(text for text in statements if not source_words.isdisjoint(segment_words(text)))


#: The units that models wrote, by chunk; EXTRACT units has one write them.
WRITTEN_UNITS = _WrittenUnits()
