"""A stored document, as the reading methods return it, and what is read by its key.

In: a state, and keys of documents, chunks, or a condition. Out: documents with their texts and properties, vectors of
chunks, or the keys that satisfy the condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import islice
from typing import TYPE_CHECKING, Any

from ..arguments import check_integer, check_text
from ..errors import ArgumentError, InputError, shorten
from ..process.frozen_dataclass import frozen_dataclass

if TYPE_CHECKING:
    from ..structures.state import State
    from ..structures.vectors.vectors import Matrix

_MAX_ID = 2**63 - 1


#: The number of characters of a document's text that its representation contains.
_MAX_SHOWN_CHARACTERS = 200


@frozen_dataclass
class Document:
    """A stored document.

    ``bytes`` and ``chunks`` are the size of its text; ``changed`` is a UTC time in ISO 8601. ``source`` is the file it
    came from, ``origin`` the folder that was ingested.
    """

    key: str
    title: str | None
    source: str | None
    meta: dict[str, Any]
    format: str
    text: str
    bytes: int
    chunks: int
    changed: str
    origin: str | None = None

    def __repr__(self) -> str:
        """Return the fields with their values, and only the beginning of a long text."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["text"] = shorten(self.text, _MAX_SHOWN_CHARACTERS)
        return f"Document({', '.join(f'{name}={value!r}' for name, value in values.items())})"


def read_document(state: State, key: str) -> Document | None:
    """Return the document with this key, including its text, or None if there is none."""
    record = state.documents.find_by_key(key)
    if record is None:
        return None
    text = state.documents.read_text(record.id).decode()
    return Document(
        key=record.key,
        title=record.title,
        source=record.source,
        meta=record.meta,
        format=record.format,
        text=text,
        bytes=record.size,
        chunks=record.chunk_count,
        changed=record.changed,
        origin=record.origin,
    )


def _find_chunk_id(state: State, chunk: int | tuple[str, int]) -> int:
    """Return the id of a chunk that is given by its id, or by its document key and ordinal.

    If no such document or ordinal exists, return an id that no chunk has.
    """
    if not isinstance(chunk, tuple):
        return chunk
    key, ordinal = chunk
    record = state.documents.find_by_key(key)
    chunk_id = None if record is None else next(islice(record.chunk_ids(), ordinal, None), None)
    return _MAX_ID if chunk_id is None else chunk_id


def check_chunks(chunks: Sequence[int | tuple[str, int]]) -> None:
    """Raise ArgumentError unless each chunk is an id or a pair (document key, ordinal).

    Raises InputError for an id or ordinal out of range.
    """
    for chunk in chunks:
        if isinstance(chunk, tuple) and len(chunk) == 2:
            key, ordinal = chunk
            check_text("the key of a chunk's document", key)
            check_integer("the ordinal of a chunk", ordinal, 0, _MAX_ID)
        elif isinstance(chunk, (tuple, str)):
            raise ArgumentError(f"a chunk must be an id or a pair (document key, ordinal), not {chunk!r:.60}")
        else:
            check_integer("the id of a chunk", chunk, 0, _MAX_ID)


def read_vectors(state: State, chunks: Sequence[int | tuple[str, int]]) -> Matrix:
    """Return the stored unit vectors of chunks, each given by its id, or by (document key, ordinal).

    Raises InputError for a chunk that does not exist.
    """
    records = [state.chunks.find(_find_chunk_id(state, chunk)) for chunk in chunks]
    missing_chunks = [chunk for chunk, record in zip(chunks, records, strict=True) if record is None]
    if missing_chunks:
        raise InputError(
            f"there is no chunk {missing_chunks[0]}; SELECT id, document, ordinal FROM chunks lists the chunks"
        )
    # The vector of a chunk is stored in a row of a block.
    return state.vectors.gather([(record.block, record.row) for record in records if record is not None])


def list_matching_keys(
    state: State, where: str | Mapping[str, Any], parameters: Sequence[Any] | Mapping[str, Any], prefix: str
) -> list[str]:
    """Return the keys that begin with ``prefix`` of the documents that satisfy ``where``, in byte order.

    ``parameters`` are the values in the condition.
    """
    from ..sql.document_filter import filter_documents

    document_ids = filter_documents(state, where, parameters).allowed.documents.tolist()
    keys_by_id = state.documents.get_keys(document_ids)  # can also have the keys of other documents
    keys = (keys_by_id[document_id] for document_id in document_ids)
    return sorted((key for key in keys if key.startswith(prefix)), key=str.encode)
