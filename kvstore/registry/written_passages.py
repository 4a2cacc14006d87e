"""Texts that a language model wrote about passages of documents, stored by the digest of the passage.

In: the texts that EXTRACT had a model write, and texts of the same kind that users ingest or import. On disk, for each
    kind a table: document → sealed msgpack list of [digest, model, texts]
    (:class:`~kvstore.registry.fact.DocumentFact`). Out: the texts of a passage while it equals the passage they were
    written from, so texts can be absent but never wrong. They are exported, imported and repaired like other facts.
    They are deleted with the document, and those of a passage when the passage changes.
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InputError
from ..text.words import list_content_terms
from .fact import BoundStatement, DocumentFact

if TYPE_CHECKING:
    from ..models.quoting import Quotation
    from ..models.structured import StructuredPrompt
    from ..structures.state import State
    from .chunked_text import ChunkedText

#: In place of the model's name, for texts that a user supplied. It is stored and exported.
USER_SOURCE = "given"


class SourcePassage(NamedTuple):
    """The source of written texts: a text, its title and headings, and the ordinals of the chunks that it covers."""

    digest: bytes
    title: str | None
    headings: Sequence[str]
    text: str
    chunks: range


def compute_passage_digest(title: str | None, headings: Sequence[str], text: str) -> bytes:
    """Return the digest (BLAKE2b, 16 bytes) of what a model is shown of a passage.

    >>> compute_passage_digest("Tea", ["Leaves"], "They are picked.").hex()[:8]
    '8704ee67'
    """
    payload = json.dumps([title, list(headings), text], ensure_ascii=False).encode()
    return hashlib.blake2b(payload, digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class WrittenPassages:
    """The texts written about the passages of one document: by digest, the model's name and the texts.

    ``unassigned`` texts do not name their passage; one is assigned when they are stored.
    """

    passages: Mapping[bytes, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    unassigned: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.passages or self.unassigned)

    def get_texts(self, digest: bytes) -> tuple[str, tuple[str, ...]] | None:
        """Return the model and the texts for the passage with this digest, or None."""
        entry = self.passages.get(digest)
        return entry if entry and entry[1] else None


class WrittenFact(DocumentFact[WrittenPassages]):
    """A kind of texts that a model writes about documents. EXTRACT takes its ``name``; so does INGEST ... AS, if texts
    of this kind can be ingested from files (``in_files``).

    ``about`` describes the texts in half a sentence. ``task`` instructs the model, and ``example`` is a passage and
    what the model should write about it. ``fields`` are two: the document, and a list of passages. ``passage_tokens``
    limits the estimated tokens of the passages in one request. The passages of a request always belong to one document,
    so no document can influence the texts of another.
    """

    is_cumulative = True
    affects_structures = False
    about: str
    task: str
    example: tuple[str, Any] | None = None
    in_files: bool = False
    passage_tokens: int = 1200

    @abstractmethod
    def list_passages(self, document: ChunkedText) -> Sequence[SourcePassage]:
        """Return the passages that texts are written from, in text order."""

    @abstractmethod
    def build_entry_schema(self, passage: SourcePassage) -> Mapping[str, Any]:
        """Return the JSON Schema of what the model writes about one passage."""

    @abstractmethod
    def convert_entry(self, entry: Any, passage: SourcePassage, check: Callable[..., None]) -> tuple[str, ...]:
        """Return the usable texts of what the model wrote about a passage, each on one line.

        ``check`` is :func:`~kvstore.models.text_checks.check_text` for this passage and prompt. Raises ValueError if no
        text is usable.
        """

    def describe_passage(self, passage: SourcePassage) -> str:
        """Return the line above a passage in a prompt: its title and headings."""
        return " > ".join(dict.fromkeys(filter(None, (passage.title, *passage.headings))))

    def build_prompt(self, passages: Sequence[SourcePassage]) -> StructuredPrompt[Mapping[bytes, tuple[str, ...]]]:
        """Build the prompt for some passages of one document, all with different digests.

        The answer has the texts of the passages that the model wrote usable texts about, at least one.
        """
        from ..models.json_schema import build_object_schema
        from ..models.quoting import Quotation, to_printable
        from ..models.structured import StructuredPrompt
        from ..models.text_checks import check_text
        from ..models.token_estimate import token_estimate

        sources = [[passage.title or "", *passage.headings, passage.text] for passage in passages]
        quotation = Quotation(part for parts in sources for part in parts)

        def check(value: Any) -> dict[bytes, tuple[str, ...]]:
            texts: dict[bytes, tuple[str, ...]] = {}
            problems: list[str] = []
            for number, (passage, parts) in enumerate(zip(passages, sources, strict=True), 1):
                try:
                    check_entry = partial(check_text, sources=parts, prompt=self.task)
                    texts[passage.digest] = self.convert_entry(value[f"passage_{number}"], passage, check_entry)
                except ValueError as problem:
                    problems.append(str(problem))
            if not texts:
                raise ValueError(problems[0])
            return texts

        quoted_passages = [
            f"Passage {number}: {to_printable(' '.join(self.describe_passage(passage).split()))}\n"
            f"{quotation.quote(to_printable(passage.text))}"
            for number, passage in enumerate(passages, 1)
        ]
        entry_schemas = {
            f"passage_{number}": self.build_entry_schema(passage) for number, passage in enumerate(passages, 1)
        }
        messages = [
            {
                "role": "system",
                "content": f"{self.task} The answer has a field for each passage. {quotation.rule}",
            },
            *self._build_example_messages(quotation),
            {"role": "user", "content": "\n\n".join(quoted_passages)},
        ]
        answer_tokens = 200 + 2 * sum(token_estimate(passage.text) for passage in passages)
        return StructuredPrompt(self.name, messages, build_object_schema(**entry_schemas), check, answer_tokens)

    def _build_example_messages(self, quotation: Quotation) -> list[dict[str, str]]:
        """Return a request and its answer, from which weak models learn the form of an answer."""
        if self.example is None:
            return []
        text, entry = self.example
        return [
            {"role": "user", "content": f"Passage 1: \n{quotation.quote(text)}"},
            {"role": "assistant", "content": json.dumps({"passage_1": entry}, ensure_ascii=False)},
        ]

    def parse_fields(self, *parts: Any) -> WrittenPassages:
        """Parse the rows of an export: digest of a passage (or None), model, texts. Raises InputError."""
        (rows,) = parts
        passages: dict[bytes, tuple[str, tuple[str, ...]]] = {}
        unassigned: list[tuple[str, str]] = []
        try:
            for digest, model, texts in rows:
                if not all(isinstance(text, str) and text.strip() for text in [model, *texts]):
                    raise ValueError
                if digest is None:
                    unassigned += ((model, text) for text in texts)
                else:
                    passages[bytes.fromhex(digest)] = (model, tuple(texts))
        except (TypeError, ValueError):
            raise InputError(
                f"{self.name} must be lists of a digest (of a passage, or null), the name of a model, and a list of "
                "texts; names and texts must not be blank"
            ) from None
        return WrittenPassages(passages, tuple(unassigned))

    def to_fields(self, value: WrittenPassages) -> Sequence[Any]:
        return [[[digest.hex(), model, texts] for digest, (model, texts) in sorted(value.passages.items())]]

    def merge(self, value: WrittenPassages, more: WrittenPassages) -> WrittenPassages:
        return WrittenPassages({**value.passages, **more.passages}, (*value.unassigned, *more.unassigned))

    def fit_to_document(
        self, value: WrittenPassages, document: Callable[[], ChunkedText], same_text: bool
    ) -> WrittenPassages | None:
        """Return the texts whose passages the document still has; texts without a passage get the nearest one."""
        passages = {passage.digest: passage for passage in self.list_passages(document())}
        fitting = {digest: texts for digest, texts in value.passages.items() if digest in passages}
        fitting |= _assign_texts(value.unassigned, list(passages.values()))
        return WrittenPassages(fitting)

    def estimate_size(self, value: WrittenPassages) -> int:
        return sum(len(texts) for _, texts in value.passages.values())

    def count_items(self, value: WrittenPassages) -> int:
        return self.estimate_size(value)

    def format_count(self, number: int) -> str:
        return f"the {self.name} written for {number:,} document{'' if number == 1 else 's'}" if number else ""

    def find_inexpressible(self, state: State) -> Iterator[BoundStatement]:
        num_documents = state.lmdb.count(self.tables[0])
        if num_documents:
            documents = f"{num_documents:,} document{'' if num_documents == 1 else 's'}"
            yield f"the {self.name} written for {documents} are in no statement; EXPORT TO keeps them", ()


def _assign_texts(
    unassigned: Sequence[tuple[str, str]], passages: Sequence[SourcePassage]
) -> dict[bytes, tuple[str, tuple[str, ...]]]:
    """Assign each text to the passage that shares most of its words, the first of equals. Titles and headings do not
    count.
    """
    if not unassigned or not passages:
        return {}
    passage_words = [set(list_content_terms(passage.text, str)) for passage in passages]
    assigned: dict[bytes, tuple[str, tuple[str, ...]]] = {}
    for model, text in unassigned:
        text_words = set(list_content_terms(text, str))
        best_index = max(range(len(passages)), key=lambda index: (len(text_words & passage_words[index]), -index))
        digest = passages[best_index].digest
        _, earlier_texts = assigned.get(digest, (model, ()))
        assigned[digest] = (model, (*earlier_texts, text))
    return assigned
