"""Texts that a language model wrote about passages of documents, such as chunks, by the *digest* (hash) of the passage.
A prompt asks about several passages. Each *entry* of the answer has the *label* of a passage ("1: Oak Lake") and the
model's *output* about it. Users can supply such texts too.

In: the texts that EXTRACT had a model write, and texts of the same kind that users ingest or import. On disk, for each
kind a table: document → sealed msgpack list of [digest, model, texts] (:class:`~kvstore.registry.fact.DocumentFact`).
Out: the texts of a passage while it equals the passage they were written from, so texts can be absent but never wrong.
They are exported, imported and repaired like other facts. They are deleted with the document, and the texts of a
passage when the passage changes.
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InputError
from ..models.quoting import replace_quotes, to_printable
from ..process.frozen_dataclass import frozen_dataclass
from ..text.words import list_content_terms
from .fact import BoundStatement, DocumentFact

if TYPE_CHECKING:
    from ..models.quoting import Quotation
    from ..models.statement_support import SourcePassages
    from ..models.structured import StructuredPrompt
    from ..structures.state import State
    from .chunked_text import ChunkedText

#: In place of the model's name, for texts that a user supplied. It is stored and exported.
USER_SOURCE = "given"
#: The maximum number of characters of a title in the label of a passage.
_MAX_LABEL_CHARS = 60


class SourcePassage(NamedTuple):
    """A passage that a model writes about: its text, title and headings, and the ordinals of its chunks."""

    digest: bytes
    title: str | None
    headings: Sequence[str]
    text: str
    chunks: range

    def list_source_texts(self) -> list[str]:
        """Return the texts that must support what a model writes about the passage: title, headings and text."""
        return [self.title or "", *self.headings, self.text]


def compute_passage_digest(title: str | None, headings: Sequence[str], text: str) -> bytes:
    """Return the digest (BLAKE2b, 16 bytes) of a passage as a prompt shows it: title (or None), headings and text.

    >>> compute_passage_digest("Tea", ["Leaves"], "They are picked.").hex()[:8]
    '8704ee67'
    """
    payload = json.dumps([title, list(headings), text], ensure_ascii=False).encode()
    return hashlib.blake2b(payload, digest_size=16).digest()


def build_chunk_passage(document: ChunkedText, ordinal: int) -> SourcePassage:
    """Return the chunk with this ordinal as a passage, a text that a language model is asked to write about."""
    headings, text = document.list_headings(ordinal), document.get_chunk_text(ordinal).decode()
    chunk_digest = compute_passage_digest(document.title, headings, text)
    return SourcePassage(chunk_digest, document.title, headings, text, chunks=range(ordinal, ordinal + 1))


class PassageTexts(NamedTuple):
    """The texts that a language model wrote about one passage, and the model's name."""

    model: str
    texts: tuple[str, ...]


class UnassignedText(NamedTuple):
    """A text that does not name its passage, and the name of the model that wrote it."""

    model: str
    text: str


@frozen_dataclass
class ModelTexts:
    """The texts that language models wrote about the passages of one document, by the digest of the passage.

    ``unassigned_texts`` do not name their passage; they get one when they are stored.
    """

    by_digest: Mapping[bytes, PassageTexts] = field(default_factory=dict)
    unassigned_texts: tuple[UnassignedText, ...] = ()

    def __bool__(self) -> bool:
        """True if there is any text."""
        return bool(self.by_digest or self.unassigned_texts)

    def list_texts(self) -> list[str]:
        """Return all texts, in the order of the digests of their passages, then texts without a passage."""
        assigned_texts = (text for _, (_, texts) in sorted(self.by_digest.items()) for text in texts)
        return [*assigned_texts, *(unassigned_text.text for unassigned_text in self.unassigned_texts)]

    def get_texts(self, digest: bytes) -> PassageTexts | None:
        """Return the texts about the passage with this digest, and their model, or None if there are no texts."""
        passage_texts = self.by_digest.get(digest)
        return passage_texts if passage_texts and passage_texts.texts else None


class WrittenFact(DocumentFact[ModelTexts]):
    """A kind of texts that a model writes about passages of documents, such as ``units`` (statements) or ``triples``.
    The value of a document (:class:`ModelTexts`) has the texts by the digest of the passage.

    EXTRACT takes its ``kind``; so does INGEST ... AS, if such texts can be ingested from files (``in_files``).
    ``about`` describes the texts in half a sentence. ``task`` instructs the model, and ``examples`` are passages, each
    with its title, its text, and what the model should write about it. ``fields`` are two: the document, and a list of
    passages. ``passage_tokens`` limits the estimated tokens of the passages in one request. If it ``shares_requests``,
    the passages of a request can belong to several documents, so each text must be checked against its own passage.
    """

    is_cumulative = True
    affects_structures = False
    about: str
    task: str
    examples: Sequence[tuple[str, str, Any]] = ()
    in_files: bool = False
    shares_requests: bool = False
    passage_tokens: int = 1200

    @property
    def kind(self) -> str:
        """The name of this kind of texts in the statement EXTRACT, such as ``units``."""
        return self.name

    def list_passages(self, document: ChunkedText) -> Sequence[SourcePassage]:
        """Return the passages of a document that a model writes texts about, in text order: by default, its chunks."""
        return [build_chunk_passage(document, ordinal) for ordinal in range(len(document.chunks))]

    @abstractmethod
    def build_entry_schema(self, max_chars: int) -> Mapping[str, Any]:
        """Return the JSON Schema of the model's output for a passage of up to ``max_chars`` characters."""

    @abstractmethod
    def convert_entry(self, output: Any, passage: SourcePassage, check: Callable[..., None]) -> tuple[str, ...]:
        """Return the usable texts in ``output``, the JSON value that the model wrote about a passage, each on one line.

        ``check(text, name=...)`` raises ValueError for an unusable text
        (:func:`~kvstore.models.text_checks.check_text`). Raises ValueError if no text is usable.
        """

    def describe_passage(self, passage: SourcePassage) -> str:
        """Return the line above a passage in a prompt: the document's title and the headings above the passage."""
        return " > ".join(dict.fromkeys(filter(None, (passage.title, *passage.headings))))

    def label_passage(self, number: int, passage: SourcePassage) -> str:
        """Return the label of a passage, which the model repeats before it writes about the passage.

        It is the number of the passage in its request, with the beginning of its description. Weak models then write
        about this passage, not about the examples.
        """
        return f"{number}: {self._format_description(passage)[:_MAX_LABEL_CHARS]}".strip()

    def _format_description(self, passage: SourcePassage) -> str:
        """Return the description of a passage on one line of printable characters."""
        return to_printable(" ".join(self.describe_passage(passage).split()))

    def build_prompt(self, passages: Sequence[SourcePassage]) -> StructuredPrompt[Mapping[bytes, tuple[str, ...]]]:
        """Build the prompt that asks a language model for texts about passages, all with different digests.

        The checked answer maps digests to texts. It has the passages with usable texts, at least one.
        """
        # One schema for all passages, because a schema per passage costs a third of its tokens.
        return self.build_schema_prompt(
            passages, self.build_entry_schema(max(len(passage.text) for passage in passages))
        )

    def build_schema_prompt(
        self, passages: Sequence[SourcePassage], texts_schema: Mapping[str, Any]
    ) -> StructuredPrompt[Mapping[bytes, tuple[str, ...]]]:
        """Build the prompt that asks a language model for texts about passages, all with different digests.

        ``texts_schema`` is the JSON Schema of the model's output for one passage. The checked answer maps digests to
        texts. It has the passages with usable texts, at least one.
        """
        from ..models.quoting import Quotation
        from ..models.structured import StructuredPrompt
        from ..models.token_estimate import token_estimate

        quotation = Quotation(text for passage in passages for text in passage.list_source_texts())
        labels = [self.label_passage(number, passage) for number, passage in enumerate(passages, 1)]
        quoted_passages = [
            f"Passage {number}: {self._format_description(passage)}\n"
            f"{quotation.quote(replace_quotes(to_printable(passage.text)))}"
            for number, passage in enumerate(passages, 1)
        ]
        build_schema = partial(self._build_answer_schema, texts_schema, len(passages))
        messages = [
            {"role": "system", "content": f"{self.task} The answer has an entry for each passage. {quotation.rule}"},
            *self._build_few_shot_messages(quotation),
            {"role": "user", "content": "\n\n".join(quoted_passages)},
        ]
        # No valid answer is twice as long as its passages; the rest is for the JSON around the texts.
        answer_tokens = 200 + 2 * sum(token_estimate(passage.text) for passage in passages)
        return StructuredPrompt(
            self.kind,
            messages=messages,
            # Servers that do not enforce the schema may write a number only.
            schema=build_schema(min_passages=1, label_schema={"type": ["string", "integer"]}),
            check=partial(self._convert_answer, passages=passages, labels=labels),
            answer_tokens=answer_tokens,
            requested_schema=build_schema(min_passages=len(passages), label_schema={"type": "string", "enum": labels}),
        )

    def _build_answer_schema(
        self, texts_schema: Mapping[str, Any], max_passages: int, *, min_passages: int, label_schema: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return the JSON Schema of an answer: a list of passages, each with its label and the texts about it."""
        from ..models.json_schema import build_array_schema, build_object_schema

        labeled_schema = build_object_schema(passage=label_schema, **{self.kind: texts_schema})
        return build_object_schema(passages=build_array_schema(labeled_schema, max_passages, min_passages))

    def _convert_answer(
        self, answer: Any, passages: Sequence[SourcePassage], labels: Sequence[str]
    ) -> dict[bytes, tuple[str, ...]]:
        """Return the usable texts in a model's answer about passages, by the digest of the passage.

        ``answer`` has the label of a passage, one of ``labels``, before the output about it. Raises ValueError if no
        text is usable.
        """
        from ..models.text_checks import check_text

        texts: dict[bytes, tuple[str, ...]] = {}
        first_error: ValueError | None = None
        for labeled_output in answer["passages"]:
            try:
                passage = passages[_parse_label(labeled_output["passage"], labels)]
                check = partial(check_text, sources=passage.list_source_texts(), prompt=self.task)
                passage_texts = self.convert_entry(labeled_output[self.kind], passage, check)
            except ValueError as error:
                first_error = first_error or error
            else:
                texts.setdefault(passage.digest, passage_texts)
        if first_error is not None and not texts:
            raise first_error
        return texts

    def _build_few_shot_messages(self, quotation: Quotation) -> list[dict[str, str]]:
        """Return the few-shot messages: the example passages from a user, and the expected JSON from the assistant.

        They show weak models the form of an answer. Each example is a title, the text of a passage, and the expected
        output for it. Without examples, there are no messages.
        """
        if not self.examples:
            return []
        quoted_passages = [
            f"Passage {number}: {title}\n{quotation.quote(text)}"
            for number, (title, text, _) in enumerate(self.examples, 1)
        ]
        outputs = [
            {"passage": f"{number}: {title}", self.kind: output}
            for number, (title, _, output) in enumerate(self.examples, 1)
        ]
        return [
            {"role": "user", "content": "\n\n".join(quoted_passages)},
            {"role": "assistant", "content": json.dumps({"passages": outputs}, ensure_ascii=False)},
        ]

    def parse_fields(self, *fields: Any) -> ModelTexts:
        """Build a value from ``fields``, the fields of an export line after the document: a single list of rows.

        Each row is (digest, model, texts). The digest identifies the passage; it is None if the texts do not name
        their passage. Raises InputError for an invalid row.
        """
        (rows,) = fields
        texts_by_digest: dict[bytes, PassageTexts] = {}
        unassigned_texts: list[UnassignedText] = []
        try:
            for digest, model, texts in rows:
                if not all(isinstance(text, str) and text.strip() for text in [model, *texts]):
                    raise ValueError
                if digest is None:
                    unassigned_texts += (UnassignedText(model, text) for text in texts)
                else:
                    texts_by_digest[bytes.fromhex(digest)] = PassageTexts(model, tuple(texts))
        except (TypeError, ValueError):
            raise InputError(
                f"{self.name} must be lists of a digest (of a passage, or null), the name of a model, and a list of "
                "texts; names and texts must not be blank"
            ) from None
        return ModelTexts(texts_by_digest, tuple(unassigned_texts))

    def to_fields(self, value: ModelTexts) -> Sequence[Any]:
        """Return the fields of an export line after the document: a list of rows (digest in hex, model, texts)."""
        return [[[digest.hex(), model, texts] for digest, (model, texts) in sorted(value.by_digest.items())]]

    def merge(self, value: ModelTexts, new_value: ModelTexts) -> ModelTexts:
        """Return the texts of both values. For a passage with texts in both, only the texts of ``new_value`` are kept.

        Unassigned texts, which do not name their passage, are concatenated.
        """
        return ModelTexts(
            {**value.by_digest, **new_value.by_digest}, (*value.unassigned_texts, *new_value.unassigned_texts)
        )

    def fit_to_document(self, value: ModelTexts, document: Callable[[], ChunkedText], same_text: bool) -> ModelTexts:
        """Return the texts in ``value`` whose passages the document still has; the result can be empty.

        Texts that were stored without a passage are assigned to one, whose other texts they replace. ``document``
        returns the current document. ``same_text`` has no effect: passages are compared even if the document's text is
        the same.
        """
        passages = {passage.digest: passage for passage in self.list_passages(document())}
        texts_by_digest = {digest: texts for digest, texts in value.by_digest.items() if digest in passages}
        texts_by_digest |= _assign_texts(value.unassigned_texts, list(passages.values()))
        return ModelTexts(texts_by_digest)

    def estimate_size(self, value: ModelTexts) -> int:
        """Return the number of texts: each takes about as much memory as a chunk."""
        return self.count_items(value)

    def count_items(self, value: ModelTexts) -> int:
        """Return the number of texts that are assigned to a passage, which DESCRIBE shows for the document."""
        return sum(len(passage_texts.texts) for passage_texts in value.by_digest.values())

    def format_count(self, number: int) -> str:
        """Return, for example, "the units written for 2 documents"; ``number`` counts documents. Return "" for 0."""
        return f"the {self.name} written for {number:,} document{'' if number == 1 else 's'}" if number else ""

    def iter_dump_comments(self, state: State) -> Iterator[BoundStatement]:
        """Yield a comment for the dump if documents have texts of this kind, because no statement can create these.

        The comment is a pair (text, values of its parameters), like a statement; it has no parameters.
        """
        num_documents = state.lmdb.count(self.row_table)
        if num_documents:
            documents = f"{num_documents:,} document{'' if num_documents == 1 else 's'}"
            yield f"the dump omits the {self.name} written for {documents}; use EXPORT TO to keep them", ()


class WrittenListFact(WrittenFact):
    """A list of texts that a model writes for each passage; ``item_schema`` is the JSON schema of an item.

    The list has at most four items, and one more for every ``chars_per_item`` characters of the passage.
    """

    shares_requests = True
    item_schema: Mapping[str, Any]
    chars_per_item: int

    def build_entry_schema(self, max_chars: int) -> Mapping[str, Any]:
        """Return the JSON Schema of the list that a model writes about a passage of ``max_chars`` characters.

        It has at most four items, plus one for every ``chars_per_item`` characters.
        """
        from ..models.json_schema import build_array_schema

        return build_array_schema(self.item_schema, 4 + max_chars // self.chars_per_item)

    def convert_entry(self, output: Any, passage: SourcePassage, check: Callable[..., None]) -> tuple[str, ...]:
        """Convert the valid items of ``output``, the list that the model wrote about a passage, to distinct texts.

        ``check`` raises ValueError for an unusable text. Raises the error of the first invalid item if no item is
        valid.
        """
        from ..models.statement_support import SourcePassages

        source = SourcePassages([passage.text], [passage.title or "", *passage.headings])
        texts: dict[str, None] = {}
        first_error: ValueError | None = None
        for item in self.split_output(output):
            try:
                texts[self.convert_item(item, passage, source, check)] = None
            except ValueError as error:
                first_error = first_error or error
        if not texts and first_error is not None:
            raise first_error
        return tuple(texts)

    def split_output(self, output: Iterable[Any]) -> Iterable[Any]:
        """Return the items of ``output``, the list that the model wrote; a subclass can change or split them."""
        return list(output)

    def check_stored_text(self, text: str) -> None:
        """Raise InputError if an imported text does not have the form of this kind of texts; by default, accept all."""

    def parse_fields(self, *fields: Any) -> ModelTexts:
        """Build a value from ``fields``, the fields of an export line after the document: a single list of rows.

        Each row is (digest, model, texts). The digest identifies the passage; it is None if the texts do not name
        their passage. Raises InputError if a row or a text is invalid.
        """
        value = super().parse_fields(*fields)
        for text in value.list_texts():
            self.check_stored_text(text)
        return value

    @abstractmethod
    def convert_item(
        self, item: Any, passage: SourcePassage, source: SourcePassages, check: Callable[..., None]
    ) -> str:
        """Return the text to store for an item of the list that the model wrote about ``passage``.

        ``check`` raises ValueError for an unusable text. ``source`` has the sentences of ``passage``; one of them must
        support the item, that is, say the same. Raises ValueError if ``check`` does, or if none supports it.
        """


def _parse_label(label: str | int, labels: Sequence[str]) -> int:
    """Return the index of the passage with a label; ``labels`` has the labels of all passages, such as "1: Oak Lake".

    ``label`` is from a model's answer, and can be the number alone. Raises ValueError if no passage has the label.
    """
    number = str(label).partition(":")[0].strip()
    for index, known_label in enumerate(labels):
        if known_label.startswith(f"{number}:"):
            return index
    raise ValueError(f"the answer names the passage {label!r}, and the passages are {', '.join(labels)}")


def _assign_texts(
    unassigned_texts: Sequence[UnassignedText], passages: Sequence[SourcePassage]
) -> dict[bytes, PassageTexts]:
    """Assign each text to the passage that shares the most words with it, the first of equal passages.

    Returns the texts by the digest of the passage. The model of a passage's texts is the model of the last one. Titles
    and headings of passages are not compared.
    """
    if not unassigned_texts or not passages:
        return {}
    # ``str`` as the stemming function leaves words unchanged.
    passage_words = [set(list_content_terms(passage.text, str)) for passage in passages]
    texts_by_digest: dict[bytes, PassageTexts] = {}
    for model, text in unassigned_texts:
        text_words = set(list_content_terms(text, str))
        best_index = max(range(len(passages)), key=lambda index: (len(text_words & passage_words[index]), -index))
        digest = passages[best_index].digest
        earlier_texts = texts_by_digest[digest].texts if digest in texts_by_digest else ()
        texts_by_digest[digest] = PassageTexts(model, (*earlier_texts, text))
    return texts_by_digest
