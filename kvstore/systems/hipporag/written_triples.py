"""Triples (subject, relation, object) that a language model extracts from chunks (HippoRAG, section 2.3: open
information extraction). A *passage* is a chunk as a prompt shows it, with title and headings. A stored text is one
triple, its parts separated by tabs.

In: the chunks of a document. On disk: table ``triple_texts``. Out: triples of the document, in addition to imported
ones (:mod:`~kvstore.structures.documents.document_triples`). The prompt is kvstore's; the paper's first asks for the
names of a passage, and then for triples of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from ...errors import InputError
from ...models.json_schema import build_array_schema, build_enum_schema, build_object_schema, build_text_schema
from ...registry.contract import TRIPLE_LINK
from ...registry.fact import Fields
from ...registry.written_passages import ModelTexts, SourcePassage, WrittenListFact
from ...structures import tables
from ...structures.documents.document_triples import (
    TRIPLE_KIND,
    DocumentTriples,
    Triple,
    find_linked_pairs,
    parse_triple,
)
from ...structures.state import State

if TYPE_CHECKING:
    from ...models.statement_support import SourcePassages
    from ...models.structured import StructuredPrompt

#: The maximum number of characters of a name and of a relation.
_MAX_NAME_CHARS = 120
#: The maximum number of names, and of predicates, in the schema of a retry prompt, and of triples in its answer.
_MAX_NAMES, _MAX_RETRY_TRIPLES = 24, 4
#: The mark between the relation and the object of a predicate.
_PREDICATE_MARK = " | "

_TASK = (
    'List what each passage says as triples of subject, relation and object, such as ["Ann Lee", "founded", '
    '"choir of Rome"]. Subject and object are names, dates, numbers or short terms; the relation is a verb with its '
    "preposition. Write names in full, and in place of a pronoun what it stands for; the line above a passage says "
    "what its document and its sections are called. Use the words of the passage, and add nothing to it."
)


class _WrittenTriples(WrittenListFact):
    """The texts that ``EXTRACT triples`` writes: the triples that a language model extracts from passages."""

    name = "written_triples"
    plural = "written_triples"
    fields: ClassVar[Fields] = {"written_triples": str, "passages": list}
    tables = (tables.WRITTEN_TRIPLES,)
    kinds = (TRIPLE_KIND,)
    affects_structures = True
    item_schema = build_array_schema(build_text_schema(_MAX_NAME_CHARS), max_items=3, min_items=3)
    chars_per_item = 30
    task = _TASK
    #: Two examples of different subjects, because weak models copy the answer about a single one.
    examples = (
        (
            "Oak Lake",
            "Oak Lake is a lake in Kent, which is fed by the Rill. It was named after Bo Ray in 1802.",
            [
                ["Oak Lake", "is", "lake in Kent"],
                ["Oak Lake", "is fed by", "Rill"],
                ["Oak Lake", "named after", "Bo Ray"],
            ],
        ),
        (
            "Ann Lee",
            "Ann Lee, born in Oslo, is a singer who founded the choir of Rome. Her son Carl lives in Kent.",
            [["Ann Lee", "is", "singer"], ["Ann Lee", "founded", "choir of Rome"], ["Carl", "lives in", "Kent"]],
        ),
    )
    about = "triples of subject, relation and object, which join entities"

    @property
    def kind(self) -> str:
        """The name of this kind of texts in the statement EXTRACT."""
        return "triples"

    def build_prompt(self, passages: Sequence[SourcePassage]) -> StructuredPrompt[Mapping[bytes, tuple[str, ...]]]:
        """Build the prompt that asks a language model for the triples (subject, relation, object) of passages.

        This is the open information extraction of HippoRAG (section 2.3). A single passage with predicates (a relation
        and an object) also has a retry prompt, which is sent after an invalid answer. Its schema lists the possible
        predicates and subjects. If the passage has a title, it is the only subject, without a qualifier in parentheses.
        Without such lists, weak models copy the examples or combine any words.
        """
        from ...models.triple_support import list_names_and_predicates

        prompt = super().build_prompt(passages)
        if len(passages) > 1:
            return prompt
        title = (passages[0].title or "").partition(" (")[0]
        names, predicates = list_names_and_predicates(passages[0].text)
        if not predicates:
            return prompt
        triple_schema = build_object_schema(
            subject=build_enum_schema([title] if title else names[:_MAX_NAMES]),
            predicate=build_enum_schema([_PREDICATE_MARK.join(predicate) for predicate in predicates[:_MAX_NAMES]]),
        )
        retry_schema = build_array_schema(triple_schema, _MAX_RETRY_TRIPLES)
        return replace(prompt, build_retry_prompt=partial(self.build_schema_prompt, passages, retry_schema))

    def split_output(self, output: Iterable[Any]) -> Iterable[Sequence[str]]:
        """Return the triples in a model's answer, each as [subject, relation, object].

        The answer to a retry prompt has JSON objects instead, whose ``predicate`` is a relation and an object.
        """
        return [
            [item["subject"], *item["predicate"].split(_PREDICATE_MARK)] if isinstance(item, Mapping) else item
            for item in output
        ]

    def convert_item(
        self, item: Sequence[str], passage: SourcePassage, source: SourcePassages, check: Callable[..., None]
    ) -> str:
        """Check a triple that the model wrote, and return it as text: subject, relation and object, separated by tabs.

        ``item`` must be [subject, relation, object]. Raises ValueError if it is not, if ``check`` rejects its form, or
        if ``passage`` does not support it. ``source`` has the sentences of the passage.
        """
        from ...models.triple_support import check_triple

        try:
            triple = parse_triple(item)
        except InputError as error:
            raise ValueError(str(error)) from None
        statement = " ".join(triple)
        check(statement, name="a triple", is_title=True)  # like a title, it need not be a sentence
        source.find_supporting(statement)
        check_triple(*triple, passage.text, title=passage.title)
        return "\t".join(triple)

    def check_stored_text(self, text: str) -> None:
        """Raise InputError if a text is not a stored triple: subject, relation and object, separated by tabs."""
        parse_triple(text.split("\t"))

    def list_introductions(self, value: ModelTexts) -> Iterable[tuple[str, str]]:
        """Return (name, kind of entity) for each subject and object of triples, which become entities if unknown.

        The name is spelled as the model wrote it. The kind is always :data:`.TRIPLE_KIND`.
        """
        return ((name, TRIPLE_KIND) for name in _to_triples(value).get_spellings_by_key().values())

    def list_links(self, state: State, value: ModelTexts) -> Iterable[tuple[int, int, int]]:
        """Return (entity, entity, kind of link) for each pair of known entities that a triple in ``value`` connects."""
        return ((first, second, TRIPLE_LINK) for first, second in find_linked_pairs(_to_triples(value), state.filter))


def _to_triples(value: ModelTexts) -> DocumentTriples:
    """Return the distinct triples in ``value``, the texts that a model wrote about a document, in order.

    Each text is a triple, with tabs between its subject, relation and object.
    """
    triples = dict.fromkeys(Triple(*text.split("\t")) for text in value.list_texts())
    return DocumentTriples(triples=tuple(triples))


#: The triples written by models, by chunk; EXTRACT triples has a model write them.
WRITTEN_TRIPLES = _WrittenTriples()
