"""Export and import of a store's facts as JSON lines.
*Facts* are the data from which everything else is derived: documents, triples, edges and aliases. Each kind of fact has
a *plural*, the name of its count.

In and out: a UTF-8 file with one JSON object per line. The first line is a header (``format``, ``version``, the
``settings`` the store was created with, and the number of ``lines`` that follow, which earlier versions did not write).
The facts follow, documents first, each kind in key order; :mod:`kvstore.changes.facts` defines the fields of each kind.
Everything else in a store is derived from the facts, so importing the file into a store with the same settings produces
the same content.

An export appears complete or not at all. An import of a file that was cut off imports nothing. An import commits batch
by batch, in bounded memory. An invalid line raises InputError, which names the line and the progress of the import.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ..changes import facts
from ..changes.document_completion import derive_documents, embed_documents
from ..changes.facts import ExportReport, ImportReport, SourceDocument, make_report
from ..changes.pending import PendingDocument, make_pending
from ..errors import DocumentNotFoundError, InputError
from ..extraction.validation import validate
from ..storage.new_file import create_file_atomically
from ..structures.state import State
from .handle import Handle

FORMAT = "kvstore-export"
#: The file suffixes of an export of the whole store, and of an export of one table.
SUFFIXES = ("", ".jsonl", ".ndjson")
TABLE_SUFFIXES = (".parquet", ".arrow")
VERSION = 1

#: A batch is committed when it holds this many chunks, or this many lines.
_BATCH_CHUNKS = 1024
_BATCH_LINES = 4096
#: The maximum number of bytes in a line of an import, because each line is read into memory.
_MAX_LINE = 512 << 20
#: The bytes of a file that are read at once to count its lines.
_READ_BYTES = 1 << 20
#: The maximum number of digits of the number of lines in the header, which is written after all lines.
_MAX_LINE_DIGITS = 20


def export(state: State, path: str | os.PathLike[str]) -> ExportReport:
    """Write all facts of one state, such as documents and edges, to a new file; return the number of each kind.

    Raises InputError if ``path`` exists, its folder is missing or its suffix belongs to a different kind of file;
    StoreFullError if it cannot be written.
    """
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        tables = " or ".join(TABLE_SUFFIXES)
        raise InputError(
            f"{target}: unsupported file type; export a whole store to a file that ends in .jsonl or .ndjson, "
            f"or one table to a file that ends in {tables}; COPY writes the rows of a statement to other files"
        )
    counts = dict.fromkeys((fact_kind.plural for fact_kind in facts.list_fact_kinds()), 0)
    with create_file_atomically(target) as partial_path, partial_path.open("w", encoding="utf-8", newline="\n") as file:
        header = {"format": FORMAT, "version": VERSION, "settings": asdict(state.settings), "lines": 0}
        # The number of lines is known only at the end, so reserve the first line for the header.
        width = len(json.dumps(header)) + _MAX_LINE_DIGITS
        file.write(" " * width + "\n")
        for fact_kind in facts.list_fact_kinds():
            for key, value in fact_kind.scan(state):
                counts[fact_kind.plural] += 1
                file.write(json.dumps(fact_kind.to_line(key, value), ensure_ascii=False) + "\n")
        file.seek(0)
        file.write(json.dumps({**header, "lines": sum(counts.values())}).ljust(width))
    return make_report(ExportReport, counts)


def import_file(handle: Handle, path: str | os.PathLike[str]) -> ImportReport:
    """Import the documents, edges and other facts of an exported file into the store of ``handle``, batch by batch.

    Returns the number of changed facts of each kind, and of unchanged ones. Facts with the same key are replaced. The
    store keeps its settings; only vectors supplied by the user must match its dimension and chunks. Raises InputError
    for an unreadable file or line, and the errors of a commit.
    """
    source = _parse_export_path(path)
    return _Importer(handle, source).run()


def check_export(path: str | os.PathLike[str]) -> None:
    """Raise InputError unless ``path`` is a file that EXPORT wrote and is complete; parses only its first line."""
    _ExportReader(_parse_export_path(path)).check()


def _parse_export_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of an exported file. Raises InputError for the export of one table."""
    source = Path(path)
    if source.suffix.lower() in TABLE_SUFFIXES:
        raise InputError(
            f"{source}: the export of a single table cannot be imported; use a file that "
            "EXPORT TO 'everything.jsonl' wrote"
        )
    return source


class _NumberedFact(NamedTuple):
    """A fact with its key, such as an edge, and the number of its line in the file."""

    line_number: int
    key: Any
    value: Any


@dataclass(slots=True)
class _Batch:
    """Facts read but not yet committed: documents by key, and other facts by kind with their line numbers."""

    documents: dict[str, PendingDocument] = field(default_factory=dict)
    facts: dict[str, list[_NumberedFact]] = field(default_factory=dict)
    lines: int = 0
    chunks: int = 0

    @property
    def is_full(self) -> bool:
        """True if the batch has enough chunks or lines to be committed."""
        return self.chunks >= _BATCH_CHUNKS or self.lines >= _BATCH_LINES


class _ExportReader:
    """An exported file that is read line by line."""

    def __init__(self, path: Path) -> None:
        """Prepare to read the file at ``path``."""
        self._path = path
        #: The number of the last line that is imported and committed; line 1 is the header.
        self._imported_line = 1

    def check(self) -> None:
        """Raise InputError unless the file can be read, begins with the header of an export and is complete."""
        with self._open() as file:
            self._check_header(file)

    def _open(self) -> BinaryIO:
        """Open the file; raises InputError if it cannot be opened, or is a device or pipe, which might never end."""
        try:
            if not stat.S_ISREG(self._path.stat().st_mode):
                raise InputError(
                    f"{self._path}: cannot be read (a folder, a device or a pipe); use a file that EXPORT wrote"
                )
            return self._path.open("rb")
        except OSError as error:
            raise InputError(f"{self._path}: cannot be read ({error.strerror}); check the path") from error

    def _read_line(self, file: BinaryIO, line_number: int) -> bytes:
        """Return the next line, empty at the end of the file; raise InputError if the line is too long.

        ``line_number`` is the number of this line, for the error message.
        """
        line = file.readline(_MAX_LINE + 1)
        if len(line) > _MAX_LINE:
            raise self._make_error(
                line_number, f"has more than {_MAX_LINE:,} bytes, the limit for a line; use a file that EXPORT wrote"
            )
        return line

    def _check_header(self, file: BinaryIO) -> None:
        """Read the first line, and raise InputError unless it is the header of an export that this version reads.

        Also raises InputError if the file has fewer lines than the header says.
        """
        header = self._parse_line(1, self._read_line(file, 1))
        if header.get("format") != FORMAT:
            raise self._make_error(
                1, f'an export begins with {{"format": "{FORMAT}", ...}}; use a file that EXPORT wrote'
            )
        if header.get("version") != VERSION:
            raise self._make_error(
                1,
                f"this export has version {header.get('version')!r}, but this kvstore reads {VERSION}; update kvstore",
            )

        expected_lines = header.get("lines")
        if not isinstance(expected_lines, int):  # an earlier version wrote the header
            return
        num_lines = _count_lines(file)
        if num_lines < expected_lines:
            raise self._make_error(
                1,
                f"the export wrote {expected_lines:,} lines after this one, but the file has {num_lines:,}, so it was "
                'cut off; copy it again (if you deleted lines on purpose, also delete "lines" from this line)',
            )

    def _parse_line(self, line_number: int, line: bytes) -> dict[str, Any]:
        """Return the JSON object in a line; raise InputError, which names ``line_number``, for any other content."""
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            remedy = "IMPORT reads files that EXPORT wrote, and INGEST reads other files"
            raise self._make_error(line_number, f"not JSON: {error}; {remedy}") from None
        if not isinstance(value, dict):
            raise self._make_error(line_number, "this line is not a JSON object")
        return value

    def _make_error(self, line_number: int, reason: str) -> InputError:
        """Return the error for a line; its message also says which lines are imported already."""
        last_line = self._imported_line
        progress = f"lines 2 to {last_line} were imported" if last_line > 1 else "nothing was imported"
        return InputError(f"{self._path}, line {line_number}: {reason} ({progress})")


def _count_lines(file: BinaryIO) -> int:
    """Return the number of lines from the current position of a file to its end; the position is restored.

    A last line without a newline counts only if it ends with ``}``; otherwise, it was cut off.
    """
    start, num_lines, last_block = file.seek(0, os.SEEK_CUR), 0, b"\n"
    while block := file.read(_READ_BYTES):
        num_lines += block.count(b"\n")
        last_block = block
    file.seek(start)
    ends_with_object = last_block.rstrip(b" \r").endswith(b"}")
    return num_lines + 1 if ends_with_object else num_lines


class _Importer(_ExportReader):
    """The import of one file: reads it line by line, and commits a batch whenever it is full."""

    def __init__(self, handle: Handle, path: Path) -> None:
        """Prepare to import the file at ``path`` into the store of ``handle``."""
        super().__init__(path)
        self._handle = handle
        self._counts = dict.fromkeys((*(fact_kind.plural for fact_kind in facts.list_fact_kinds()), "unchanged"), 0)
        self._batch = _Batch()

    def run(self) -> ImportReport:
        """Import all lines, with one commit per batch, and return the report.

        Raises InputError, which names the line; the batches committed before it are kept.
        """
        with self._open() as file:
            line_number = 1
            self._check_header(file)
            while line := self._read_line(file, line_number + 1):
                line_number += 1
                if line.strip():
                    self._add_line(line_number, self._parse_line(line_number, line))
                if self._batch.is_full:
                    self._commit(line_number)
            self._commit(line_number)
        return make_report(ImportReport, self._counts)

    def _add_line(self, line_number: int, line: dict[str, Any]) -> None:
        """Parse the fact of a line, such as a document or an edge, and add it to the batch.

        Raises InputError if it is invalid.
        """
        with self._locate_errors(line_number):
            fact_kind = facts.find_fact_kind(line)
        self._batch.lines += 1
        for name in [*fact_kind.fields, *line]:
            is_valid = name in fact_kind.fields and isinstance(line.get(name), fact_kind.fields[name])
            if not is_valid:
                names = ", ".join(fact_kind.fields)
                reason = f"the field {name!r} is missing, unknown or of the wrong type; the fields are {names}"
                raise self._make_error(line_number, reason)
        with self._locate_errors(line_number):
            key, value = fact_kind.parse(line)
            if fact_kind is facts.DOCUMENTS:
                self._add_document(key, value)
            else:
                self._batch.facts.setdefault(fact_kind.name, []).append(_NumberedFact(line_number, key, value))

    def _add_document(self, key: str, document_fields: SourceDocument) -> None:
        """Validate the fields of a document, cut it into chunks, and add it to the batch.

        Raises InputError if a field is invalid.
        """
        valid_document = validate(
            key,
            document_fields.text,
            title=document_fields.title,
            source=document_fields.source,
            meta=document_fields.meta,
            format=document_fields.format,
            left_out=document_fields.left_out or 0,
            chunks=document_fields.chunks,
        )
        settings, origin = self._handle.settings, document_fields.origin
        document = make_pending(valid_document, settings, document_fields.vectors, origin)
        self._batch.documents[key] = document
        self._batch.chunks += document.chunk_count

    def _commit(self, last_line: int) -> None:
        """Commit the batch, whose last line has the number ``last_line``, and begin another."""
        batch, self._batch = self._batch, _Batch()
        # Embed before taking the writer's lock, because embedding takes most of the time.
        settings, embed = self._handle.settings, self._handle._session.store.embedder.embed
        derived_documents = derive_documents(self._select_changed(batch), settings)
        documents = embed_documents(derived_documents, settings, self._handle.state, embed)
        counts = {facts.DOCUMENTS.plural: len(documents)}
        with self._handle.transaction(models=False) as transaction:
            for document in documents:
                transaction._put(document)
            for fact_kind in facts.list_stated_fact_kinds():
                counts[fact_kind.plural] = 0
                for line_number, key, value in batch.facts.get(fact_kind.name, ()):
                    with self._locate_errors(line_number):
                        counts[fact_kind.plural] += int(transaction._put_fact(fact_kind, key, value))
        self._imported_line = last_line
        for plural, num_changed in counts.items():
            self._counts[plural] += num_changed
        self._counts["unchanged"] += batch.lines - sum(counts.values())

    def _select_changed(self, batch: _Batch) -> list[PendingDocument]:
        """Return the documents of a batch that are new or differ from the store's."""
        changed_documents: list[PendingDocument] = []
        with self._handle.state() as state:
            for key, document in batch.documents.items():
                record = state.documents.find_by_key(key)
                if record is None or record.digest != document.document.digest:
                    changed_documents.append(document)
        return changed_documents

    @contextmanager
    def _locate_errors(self, line_number: int) -> Iterator[None]:
        """Convert errors raised in the ``with`` block to an InputError with the line and the progress of the import."""
        try:
            yield
        except (InputError, DocumentNotFoundError) as error:
            raise self._make_error(line_number, str(error)) from None
