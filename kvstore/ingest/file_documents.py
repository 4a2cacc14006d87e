"""The documents of one file: read, compared with what is stored, and extracted where they are new.

In: a :class:`~kvstore.ingest.sources.Source` and how to read it. Out: a :class:`FileDocument` for each document and a
:class:`Failure` for whatever could not be read, in the order of the file. Depends on nothing but the file and the
digests of what is stored, so that it can run in another process (``worker.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InputError, KvstoreError, ReaderError
from ..settings import FixedSettings
from ..storage.vectors import Matrix
from .examination import examine
from .extraction import Extracted, derive
from .readers import RawDocument, RawTriples, read
from .sources import Source


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that was not ingested: the file (and row), and why."""

    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class FileDocument:
    """A document of a file and its place there; ``extracted`` is None where the store has it already.

    ``vectors``: one a chunk, where they are made already; shape (chunks, dimension).
    """

    key: str
    place: str
    digest: bytes
    extracted: Extracted | None
    vectors: Matrix | None = None


Found = FileDocument | RawTriples | Failure

#: The digest of the stored document of a key, or None.
StoredDigest = Callable[[str], bytes | None]


def documents_of(
    source: Source,
    format: str | None,
    options: Mapping[str, Any],
    settings: FixedSettings,
    stored: StoredDigest,
) -> Iterator[Found]:
    """The documents of a file, and what failed: a file that makes its reader fail is a failure among others.

    Raises InputError for an unknown format or option, LanguageError, and what ``stored`` raises.
    """
    place = str(source.path)
    try:
        for number, item in enumerate(read(source.path, source.key, source.format or format, options), 1):
            if isinstance(item, RawDocument):
                yield _examined(item, source, place if number == 1 else f"{place}, document {number}", settings, stored)
            elif isinstance(item, RawTriples):
                yield item
            else:
                yield Failure(item.place, item.reason)
    except (ReaderError, OSError) as error:
        yield failure(place, error)
    except KvstoreError:
        raise
    except Exception as error:  # a fault of ours, or of a library, must not cost the files behind this one
        yield Failure(place, f"made its reader fail ({type(error).__name__}: {error}); please report it with the file")


def failure(place: str, error: Exception | str) -> Failure:
    """A failure at a place; readers name the file in their messages, here it is named beside it."""
    return Failure(place, str(error).removeprefix(f"{place}: ").removeprefix(f"{place!r}: "))


def _examined(
    raw: RawDocument, source: Source, place: str, settings: FixedSettings, stored: StoredDigest
) -> FileDocument | Failure:
    try:
        examined = examine(raw.key, raw.text, title=raw.title, source=source.key, meta=raw.meta, format=raw.format)
        same = stored(raw.key) == examined.digest
        return FileDocument(raw.key, place, examined.digest, None if same else derive(examined, settings))
    except InputError as error:
        return failure(place, error)
