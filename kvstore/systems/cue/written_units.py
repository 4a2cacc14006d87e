"""Units written by a language model: short statements that are understandable alone (CUE-RAG, section 3.1).

In: the chunks of a document. On disk: table ``unit_texts``. Out: the statements of each chunk, which replace its
sentences as units. The prompt is kvstore's; it asks for the same as the paper's: simple sentences, full
names, resolved pronouns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from ...models.statement_support import SourcePassages, begins_with_pronoun
from ...models.text_checks import has_open_bracket, trim_to_sentences
from ...registry.fact import Fields
from ...registry.written_passages import SourcePassage, WrittenFact
from ...text.sentences import split_sentences

#: The minimum and maximum characters of a statement, and the number of characters of a passage for each statement.
_MIN_STATEMENT_CHARS, _MAX_STATEMENT_CHARS, _CHARS_PER_STATEMENT = 6, 1000, 25

_TASK = (
    "Split each passage into short statements, each of which can be understood without the others. A statement says "
    "one thing, in a simple sentence and in the language of its passage. Write names in full, and in place of a "
    "pronoun what it stands for; the line above a passage says what its document and its sections are called. Leave "
    "out nothing that a passage says, use its words, and add nothing to it."
)


class _WrittenUnits(WrittenFact):
    """The kind of fact for units that a language model writes; see :class:`WrittenFact`."""

    name = "units"
    plural = "written_units"
    fields: ClassVar[Fields] = {"units": str, "passages": list}
    tables = ("unit_texts",)
    in_files = True
    shares_requests = True
    task = _TASK
    #: Two examples of different subjects, because weak models copy the answer about a single one.
    examples = (
        (
            "Oak Lake",
            "Oak Lake, which is fed by the Rill, froze in 1802. Carp live in it.",
            ["Oak Lake is fed by the Rill.", "Oak Lake froze in 1802.", "Carp live in Oak Lake."],
        ),
        (
            "Ann Lee",
            "Ann Lee, born in Oslo, sings in the choir of Rome. She has two sons.",
            ["Ann Lee was born in Oslo.", "Ann Lee sings in the choir of Rome.", "Ann Lee has two sons."],
        ),
    )
    about = "statements that can be understood alone, which replace the sentences of a chunk"

    def build_entry_schema(self, max_chars: int) -> Mapping[str, Any]:
        """Return the JSON Schema of the statements about a passage of up to ``max_chars`` characters."""
        return {
            "type": "array",
            "minItems": 1,
            "maxItems": 4 + max_chars // _CHARS_PER_STATEMENT,
            "items": {"type": "string", "minLength": _MIN_STATEMENT_CHARS, "maxLength": _MAX_STATEMENT_CHARS},
        }

    def convert_entry(self, entry: Any, passage: SourcePassage, check: Callable[..., None]) -> tuple[str, ...]:
        """Return the distinct statements that the passage supports. Each sentence of an entry is a statement.

        ``check`` raises ValueError if a text is not usable. Raises the first error if every statement fails.
        """
        source = SourcePassages([passage.text], [passage.title or "", *passage.headings])
        statements: dict[str, None] = {}
        problem: ValueError | None = None
        for line in dict.fromkeys(map(trim_to_sentences, entry)):
            sentences = [line[start:end] for start, end in split_sentences(line)] or [line]
            for text in dict.fromkeys(sentences):
                try:
                    check(text, name="a statement")
                    if len(sentences) > 1 and begins_with_pronoun(text):
                        raise ValueError("a statement begins with a pronoun; write the name")
                    if has_open_bracket(text):
                        raise ValueError("a statement has half of a pair of brackets; write a whole sentence")
                    source.find_supporting(text)
                    statements.setdefault(text)
                except ValueError as error:
                    problem = problem or error
        if not statements and problem is not None:
            raise problem
        return tuple(statements)


#: The units written by models, by chunk; EXTRACT units has a model write them.
WRITTEN_UNITS = _WrittenUnits()
