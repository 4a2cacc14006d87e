"""Units written by a language model: short statements that are understandable alone (CUE-RAG, section 3.1). They
replace the sentences of a chunk. A *passage* is a chunk as a prompt shows it, with title and headings. The *retry
prompt* is sent after an invalid answer.

In: the chunks of a document. On disk: table ``unit_texts``. Out: the statements of each chunk, which replace its
sentences as units. The prompt is kvstore's; it asks for the same as the paper's: simple sentences, full names, resolved
pronouns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from ...models.json_schema import build_text_schema
from ...models.quoting import replace_quotes, to_printable
from ...registry.fact import Fields
from ...registry.written_passages import SourcePassage, WrittenListFact

if TYPE_CHECKING:
    from ...models.statement_support import SourcePassages
    from ...models.structured import StructuredPrompt

#: The minimum and maximum number of characters of a statement.
_MIN_STATEMENT_CHARS, _MAX_STATEMENT_CHARS = 6, 1000
#: The maximum number of sentences of a passage that a retry prompt asks about.
_MAX_SENTENCES = 6

_TASK = (
    "Split each passage into short statements, each of which can be understood without the others. A statement says "
    "one thing, in a simple sentence and in the language of its passage. Write names in full, and in place of a "
    "pronoun what it stands for; the line above a passage says what its document and its sections are called. Leave "
    "out nothing that a passage says, use its words, and add nothing to it."
)


class _WrittenUnits(WrittenListFact):
    """The texts that ``EXTRACT units`` writes: short statements that a language model writes in place of sentences."""

    name = "units"
    plural = "written_units"
    fields: ClassVar[Fields] = {"units": str, "passages": list}
    tables = ("unit_texts",)
    in_files = True
    item_schema = build_text_schema(_MAX_STATEMENT_CHARS, _MIN_STATEMENT_CHARS)
    chars_per_item = 25
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

    def build_prompt(self, passages: Sequence[SourcePassage]) -> StructuredPrompt[Mapping[bytes, tuple[str, ...]]]:
        """Build the prompt that asks a language model for the statements that each passage makes.

        A single passage has a retry prompt, which is sent after an invalid answer. It asks for one sentence about each
        of the first sentences of the passage. Weak models do not split a passage into statements, but most can shorten
        or repeat a sentence.
        """
        prompt = super().build_prompt(passages)
        if len(passages) > 1:
            return prompt
        return replace(prompt, build_retry_prompt=partial(self._build_retry_prompt, passages[0]))

    def _build_retry_prompt(self, passage: SourcePassage) -> StructuredPrompt[Mapping[bytes, tuple[str, ...]]]:
        """Build the prompt that asks for one sentence about each of the first sentences of a passage.

        Only sentences that a weak model can copy are used, if there are any.
        """
        from ...models.sentence_prompt import SENTENCE_TASK, build_sentence_prompt, select_usable_indexes
        from ...models.text_checks import check_text, iter_written_sentences

        text = replace_quotes(to_printable(passage.text))
        sentences = [" ".join(sentence.split()) for sentence in iter_written_sentences(text)] or [text]
        usable_indexes = select_usable_indexes(sentences, range(len(sentences)))[:_MAX_SENTENCES]
        check_sentence = partial(check_text, sources=passage.list_source_texts(), prompt=SENTENCE_TASK)
        return build_sentence_prompt(
            self.kind,
            [sentences[index] for index in usable_indexes],
            lambda statements: {passage.digest: self.convert_entry(statements, passage, check_sentence)},
        )

    def split_output(self, output: Iterable[str]) -> Iterable[tuple[str, bool]]:
        """Yield the distinct sentences of each distinct line in ``output``, the lines that a model wrote.

        Each is in a pair with a flag: True if its line has more than one sentence.
        """
        from ...models.text_checks import add_final_period, iter_written_sentences, trim_to_sentences

        for line in dict.fromkeys(map(add_final_period, map(trim_to_sentences, output))):
            sentences = [*iter_written_sentences(line)] or [line]
            yield from ((sentence, len(sentences) > 1) for sentence in dict.fromkeys(sentences))

    def convert_item(
        self, item: tuple[str, bool], passage: SourcePassage, source: SourcePassages, check: Callable[..., None]
    ) -> str:
        """Validate a statement written by a model, and return it unchanged.

        ``item`` is the statement, and True if it shares its line with other sentences. Raises ValueError if ``check``
        rejects its form, if it is a fragment, or if it begins with a pronoun and shares its line. Also raises
        ValueError if no sentence in ``source``, the texts that the model read, supports it.
        """
        from ...models.statement_support import has_unresolved_pronoun
        from ...models.text_checks import is_fragment

        text, shares_line = item
        check(text, name="a statement")
        if shares_line and has_unresolved_pronoun(text):
            raise ValueError("a statement begins with a pronoun; write the name")
        if is_fragment(text, is_english=source.is_english):
            raise ValueError("a statement is a part of a sentence; write a whole sentence")
        source.find_supporting(text, must_keep_phrases=True)
        return text


#: The units written by models, by chunk; EXTRACT units has a model write them.
WRITTEN_UNITS = _WrittenUnits()
