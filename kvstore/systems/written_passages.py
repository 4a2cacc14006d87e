"""What a language model wrote of the passages of documents, kept as input by the digest of what it was written from.

In: what EXTRACT had a model write, and what users ingest and import of the same kind. On disk, for each kind a table:
document → sealed msgpack list of [digest, model, texts] (:class:`~kvstore.systems.fact.DocumentFact`). Out: the texts
of a passage, as long as it is what they were written from: they are never wrong, only absent. They are exported,
imported and repaired as other facts are, go when the document does, and those of a passage when that changes.
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

#: What stands for the model where somebody else wrote the texts.
USER_SOURCE = "given"


class SourcePassage(NamedTuple):
    """What something is written from: a text, the title and the headings above it, and the chunks of the document that
    it covers, by their numbers."""

    digest: bytes
    title: str | None
    headings: Sequence[str]
    text: str
    chunks: range


def passage_digest(title: str | None, headings: Sequence[str], text: str) -> bytes:
    """The digest (BLAKE2b, 16 bytes) of what a model is shown of a passage.

    >>> passage_digest("Tea", ["Leaves"], "They are picked.").hex()[:8]
    '8704ee67'
    """
    payload = json.dumps([title, list(headings), text], ensure_ascii=False).encode()
    return hashlib.blake2b(payload, digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class WrittenPassages:
    """What was written of the passages of one document: by digest the model's name and the texts.

    ``unassigned`` texts say no passage; they are given one when they are stored.
    """

    passages: Mapping[bytes, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    unassigned: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.passages or self.unassigned)

    def get_texts(self, digest: bytes) -> tuple[str, tuple[str, ...]] | None:
        """Who wrote what of the passage of this digest; None where nobody wrote anything."""
        entry = self.passages.get(digest)
        return entry if entry and entry[1] else None


class WrittenFact(DocumentFact[WrittenPassages]):
    """A kind of texts that a model writes of documents: EXTRACT takes it by its ``name``, and INGEST ... AS does where
    they come ``in_files`` too.

    ``about`` says in half a sentence what is written. ``fields`` are two: the document, and a list of passages.
    ``passage_tokens`` is the most that the passages of one request are together, an estimate; the passages of one
    request are always of one document, so that no document can have anything written of another.
    """

    is_cumulative = True
    affects_structures = False
    about: str
    in_files: bool = False
    passage_tokens: int = 1200

    @abstractmethod
    def list_passages(self, document: ChunkedText) -> Sequence[SourcePassage]:
        """What texts are written from, in order of the text."""

    @abstractmethod
    def build_prompt(self, passages: Sequence[SourcePassage]) -> StructuredPrompt[Mapping[bytes, tuple[str, ...]]]:
        """What a model is asked to write of some passages of one document, each of another digest; the answer has texts
        for every digest."""

    def parse_fields(self, *parts: Any) -> WrittenPassages:
        (rows,) = parts
        passages: dict[bytes, tuple[str, tuple[str, ...]]] = {}
        unplaced: list[tuple[str, str]] = []
        try:
            for digest, model, texts in rows:
                if not all(isinstance(text, str) and text.strip() for text in [model, *texts]):
                    raise ValueError
                if digest is None:
                    unplaced += ((model, text) for text in texts)
                else:
                    passages[bytes.fromhex(digest)] = (model, tuple(texts))
        except (TypeError, ValueError):
            raise InputError(
                f"{self.name} are lists of a digest (of a passage, or null), the name of a model, and a list of texts, "
                "none of them blank"
            ) from None
        return WrittenPassages(passages, tuple(unplaced))

    def to_fields(self, value: WrittenPassages) -> Sequence[Any]:
        return [[[digest.hex(), model, texts] for digest, (model, texts) in sorted(value.passages.items())]]

    def merge(self, value: WrittenPassages, more: WrittenPassages) -> WrittenPassages:
        return WrittenPassages({**value.passages, **more.passages}, (*value.unassigned, *more.unassigned))

    def fit_to_document(
        self, value: WrittenPassages, document: Callable[[], ChunkedText], same_text: bool
    ) -> WrittenPassages | None:
        passages = {passage.digest: passage for passage in self.list_passages(document())}
        fitting = {digest: entry for digest, entry in value.passages.items() if digest in passages}
        fitting |= _assign_unplaced(value.unassigned, list(passages.values()))
        return WrittenPassages(fitting)

    def estimate_size(self, value: WrittenPassages) -> int:
        return sum(len(texts) for _, texts in value.passages.values())

    def count_items(self, value: WrittenPassages) -> int:
        return self.estimate_size(value)

    def format_count(self, number: int) -> str:
        return f"the {self.name} written for {number:,} document{'' if number == 1 else 's'}" if number else ""

    def find_inexpressible(self, state: State) -> Iterator[BoundStatement]:
        number = state.lmdb.count(self.tables[0])
        if number:
            documents = f"{number:,} document{'' if number == 1 else 's'}"
            yield f"the {self.name} written for {documents} are in no statement; EXPORT TO keeps them", ()


def _assign_unplaced(
    unassigned: Sequence[tuple[str, str]], passages: Sequence[SourcePassage]
) -> dict[bytes, tuple[str, tuple[str, ...]]]:
    """Texts by the passage that has most of their words, of several the first; titles and headings do not count."""
    if not unassigned or not passages:
        return {}
    words = [set(list_content_terms(passage.text, str)) for passage in passages]
    assigned: dict[bytes, tuple[str, tuple[str, ...]]] = {}
    for model, text in unassigned:
        text_words = set(list_content_terms(text, str))
        best_index = max(range(len(passages)), key=lambda number: (len(text_words & words[number]), -number))
        digest = passages[best_index].digest
        assigned[digest] = (model, (*assigned.get(digest, (model, ()))[1], text))
    return assigned
