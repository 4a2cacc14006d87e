"""Units written by a language model: short statements that are understandable alone (CUE-RAG, section 3.1).

In: the chunks of a document. On disk: table ``unit_texts``. Out: the statements of each chunk, which replace its
sentences wherever units are read. The prompt is kvstore's; it asks for the same as the paper's: simple sentences, full
names, resolved pronouns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ...models.json_schema import build_object_schema
from ...models.quoting import Quotation, to_printable
from ...models.structured import StructuredPrompt
from ...registry.chunked_text import ChunkedText
from ...registry.fact import Fields
from ...registry.written_passages import SourcePassage, WrittenFact, compute_passage_digest
from ...text.words import segment_words

#: The maximum characters of a statement, and the maximum total length of statements relative to their chunk.
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
    """Return the digest of the text that a model is shown of a chunk, given its ordinal."""
    return compute_passage_digest(
        document.title, document.list_headings(chunk), document.get_chunk_text(chunk).decode()
    )


class _WrittenUnits(WrittenFact):
    name = "units"
    plural = "written_units"
    fields: ClassVar[Fields] = {"units": str, "passages": list}
    tables = ("unit_texts",)
    in_files = True
    about = "statements that can be understood alone, which replace the sentences of a chunk"

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
    """Return a numbered passage of the prompt: its title and headings on one line, then its quoted text."""
    heading_line = " > ".join(dict.fromkeys(filter(None, (passage.title, *passage.headings))))
    return (
        f"Passage {number}: "
        f"{to_printable(' '.join(heading_line.split()))}\n{quotation.quote(to_printable(passage.text))}"
    )


def _check_statements(texts: Sequence[str], passage: SourcePassage, quotation: Quotation) -> tuple[str, ...]:
    """Return the statements, each on one line, without those that share no word with their source.

    Raises ValueError if they are too long or repeat the quotation mark of the prompt.
    """
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


#: The units written by models, by chunk; EXTRACT units has a model write them.
WRITTEN_UNITS = _WrittenUnits()
