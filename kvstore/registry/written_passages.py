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
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InputError
from ..text.words import list_content_terms
from .fact import BoundStatement, DocumentFact

if TYPE_CHECKING:
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

    ``about`` describes the texts in half a sentence. ``fields`` are two: the document, and a list of passages.
    ``passage_tokens`` limits the estimated tokens of the passages in one request. The passages of a request always
    belong to one document, so no document can influence the texts of another.
    """

    is_cumulative = True
    affects_structures = False
    about: str
    in_files: bool = False
    passage_tokens: int = 1200

    @abstractmethod
    def list_passages(self, document: ChunkedText) -> Sequence[SourcePassage]:
        """Return the passages that texts are written from, in text order."""

    @abstractmethod
    def build_prompt(self, passages: Sequence[SourcePassage]) -> StructuredPrompt[Mapping[bytes, tuple[str, ...]]]:
        """Build the prompt for some passages of one document, all with different digests. The answer has texts for
        every digest.
        """

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
        """Return the texts of passages that the document still has, and assign texts without a passage."""
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
