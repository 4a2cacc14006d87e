"""The documents of files: read, compared with the store, and extracted if they are new. An *item* of a file is a
document, a fact about a stored document, a failure, or a part that is skipped on purpose. None ends the items of a
file. To *extract* is to derive chunks, names and other data.

In: a :class:`~kvstore.ingest.sources.Source` and the options of its reader. Out, in the order of the file: a
:class:`FileDocument` for each document, a :class:`Failure` for each part that could not be read, and a
:class:`~.readers.SkippedPart` for each part that is skipped on purpose.

Items are grouped into batches, because documents are extracted faster together. The module depends only on the files
and on the stored digests, so that it can run in another process (``worker.py``).
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ..errors import InputError, KvstoreError, ReaderError
from ..extraction.extraction import ExtractedDocument, TextsCallback, extract_documents
from ..extraction.validation import ValidDocument, compute_document_digest, validate
from ..readers import NavigationPart, RawDocument, RawFact, SkippedPart, read_stream
from ..settings import FixedSettings
from ..structures.documents.documents import DocumentRecord
from ..structures.vectors.vectors import Matrix
from .sources import Source


@dataclass(frozen=True, slots=True)
class Failure:
    """A file or row that was not ingested: ``place`` is its path, with the line of a row, and ``reason`` says why."""

    place: str
    reason: str

    def __str__(self) -> str:
        """Return the place and the reason as one line."""
        return f"{self.place}: {self.reason}"


@dataclass(frozen=True, slots=True)
class FileDocument:
    """A document of a file; ``label`` names it in messages, and ``extracted`` is None if the store already has it.

    ``digest`` is the digest of its text and properties, to compare it with a stored document. ``vectors`` are by space,
    of shape (texts, dimension), if already computed. ``left_out`` has the parts of its page that were omitted as
    navigation. ``other_key`` is the key that it gets if an earlier document of the ingest has ``key`` (None: it fails).
    """

    key: str
    label: str
    digest: bytes
    extracted: ExtractedDocument | None
    vectors: dict[str, Matrix] = field(default_factory=dict)
    left_out: tuple[NavigationPart, ...] = ()
    other_key: str | None = None


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A new or changed document of a file, from which nothing is derived yet; ``label`` names it in messages."""

    label: str
    validated: ValidDocument
    left_out: tuple[NavigationPart, ...] = ()
    other_key: str | None = None


FileItem = FileDocument | RawFact | SkippedPart | Failure

#: The number of a file and an item of it, or None at the end of the file, before extraction and after it.
ReadItem = tuple[int, NewDocument | FileItem | None]
NumberedItem = tuple[int, FileItem | None]

#: A batch is extracted (and embedded) when it reaches this many items, or bytes of texts of new documents.
MAX_BATCH_ITEMS = 512
MAX_BATCH_BYTES = 256 << 10

MEMORY_SHORTAGE_MESSAGE = "it needs more memory than a worker may use; raise the memory limit, or split it"

#: Returns the digest of the stored document with a key, or None.
GetStoredDigest = Callable[[str], bytes | None]


def read_documents(
    source: Source,
    format: str | None,
    options: Mapping[str, Any],
    get_stored_digest: GetStoredDigest,
    content: bytes | None = None,
) -> Iterator[NewDocument | FileItem]:
    """Yield the documents, facts, skipped parts and failures of a file; a crash of its reader becomes a failure too.

    A fact is a statement about a stored document, such as its triples. The format of the source takes precedence over
    ``format``; if both are None, its name or content decides. ``content`` is the bytes of the file (None: they are read
    here). ``get_stored_digest`` returns the digest of the stored document of a key, so that unchanged documents are not
    extracted again; its errors are raised. Raises InputError for an unknown format or option.
    """
    path = source.path
    location = source.location
    source_format = source.format or format
    open_stream = source.open if content is None else partial(io.BytesIO, content)
    try:
        for position, item in enumerate(read_stream(open_stream, path, source.key, source_format, options), 1):
            if isinstance(item, RawDocument):
                label = path if position == 1 else f"{path}, document {position}"
                yield _compare_document(item, location, label, get_stored_digest)
            elif isinstance(item, (RawFact, SkippedPart)):
                yield item
            else:
                yield Failure(item.place, item.reason)
    except ReaderError as error:
        yield make_failure(path, error)
    except KvstoreError:
        raise
    except MemoryError:
        yield Failure(path, f"could not be read: {MEMORY_SHORTAGE_MESSAGE}")
    except Exception as error:  # a bug here or in a library must not fail the remaining files
        yield Failure(path, f"its reader crashed ({type(error).__name__}: {error}); please report it with the file")


def make_failure(place: str, error: Exception | str) -> Failure:
    """Return a failure at a place (a file path), without the place that readers put in front of their messages.

    A line number that the message adds to the path, as in ``rows.csv:3``, becomes part of the place.
    """
    message = str(error)
    place_and_line = re.match(rf"{re.escape(place)}:\d+(?=: )", message)  # "rows.csv:3: has 4 cells"
    location = place_and_line[0] if place_and_line else place
    return Failure(location, message.removeprefix(f"{location}: ").removeprefix(f"{place!r}: "))


def split_into_batches(items: Iterable[ReadItem]) -> Iterator[list[ReadItem]]:
    """Yield the (file number, item) pairs in batches that are large enough to extract efficiently."""
    batch: list[ReadItem] = []
    num_bytes = 0
    for file_number, item in items:
        batch.append((file_number, item))
        num_bytes += len(item.validated.text) if isinstance(item, NewDocument) else 0
        if len(batch) >= MAX_BATCH_ITEMS or num_bytes >= MAX_BATCH_BYTES:
            yield batch
            batch, num_bytes = [], 0
    if batch:
        yield batch


def extract_batch(
    batch: Sequence[ReadItem], settings: FixedSettings, on_texts_known: TextsCallback | None = None
) -> Iterator[NumberedItem]:
    """Derive chunks, names and other data from the new documents of a batch together, which is faster.

    Yield the (file number, item) pairs of the batch; new documents are replaced by extracted documents or failures,
    other items are unchanged. ``on_texts_known`` is called with the texts to embed, before prose is parsed, unless
    an error occurs earlier. Raises LanguageError if the language pipeline of the store is missing or different.
    """
    documents = [item.validated for _, item in batch if isinstance(item, NewDocument)]
    outcomes = iter(_extract_documents(documents, settings, on_texts_known))
    for file_number, item in batch:
        if not isinstance(item, NewDocument):
            yield file_number, item
            continue
        outcome = next(outcomes)
        if isinstance(outcome, ExtractedDocument):
            file_document = FileDocument(
                key=outcome.key,
                label=item.label,
                digest=outcome.digest,
                extracted=outcome,
                left_out=item.left_out,
                other_key=item.other_key,
            )
            yield file_number, file_document
        else:
            yield file_number, make_failure(item.label, outcome)


def _extract_documents(
    documents: Sequence[ValidDocument], settings: FixedSettings, on_texts_known: TextsCallback | None = None
) -> list[ExtractedDocument | InputError | str]:
    """Return for each document the extracted document, or an error or text that says why it could not be extracted.

    ``on_texts_known`` receives the texts to embed before anything is parsed. After a crash, each document is extracted
    alone, so that only the document that causes it fails. An error of kvstore, such as LanguageError, concerns all
    documents, so it is raised.
    """
    try:
        return list(extract_documents(documents, settings, on_texts_known))
    except KvstoreError:
        raise
    except Exception as error:  # a bug here or in a library must not fail the other documents
        if len(documents) > 1:
            outcomes = []
            for document in documents:
                outcomes += _extract_documents([document], settings)
            return outcomes
        if isinstance(error, MemoryError):
            return [f"could not be extracted: {MEMORY_SHORTAGE_MESSAGE}"]
        return [f"could not be extracted ({type(error).__name__}: {error}); please report it with the file"]


def _compare_document(
    raw: RawDocument, location: str, label: str, get_stored_digest: GetStoredDigest
) -> NewDocument | FileDocument | Failure:
    """Validate ``raw``, a document as its reader yielded it, and compare it with the store.

    Return a FileDocument without content if the store has the same document, a Failure if the document is invalid,
    else a NewDocument. ``location`` is the path that is stored as the document's source, and ``label`` names the
    document in messages. ``get_stored_digest`` returns the digest of the stored document with a key, or None.
    """
    try:
        left_out = sum(part.characters for part in raw.left_out)
        validated = validate(
            raw.key, raw.text, title=raw.title, source=location, meta=raw.meta, format=raw.format, left_out=left_out
        )
    except InputError as error:
        return make_failure(label, error)
    if get_stored_digest(raw.key) == validated.digest:
        return FileDocument(raw.key, label, validated.digest, extracted=None, left_out=raw.left_out)
    return NewDocument(label, validated, raw.left_out, raw.other_key)


def is_moved(document: ExtractedDocument | None, record: DocumentRecord | None) -> bool:
    """True if a document equals the stored one, ``record``, but comes from another file; False if either is None."""
    if document is None or record is None or document.source == record.source:
        return False
    return compute_digest_for_source(document, record.source) == record.digest


def compute_digest_for_source(document: ExtractedDocument, source: str | None) -> bytes:
    """Return the digest that a document would have if it came from the ``source`` file."""
    return compute_document_digest(replace(document, source=source))
