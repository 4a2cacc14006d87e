"""Export and import: all that a store's content follows from, as JSON lines.

In and out: a UTF-8 file of one JSON object a line. The first is a header (``format``, ``version``, the ``settings`` the
store was made with); then come the facts (:mod:`kvstore.changes.facts` says the fields of each kind), the documents
first, each kind in the order of its keys. All else in a store is derived from these, so that a store of the same
settings that imports the file holds the same.

An export appears complete or not at all. An import commits batch by batch, in bounded memory; a line that is not as
above is an InputError that names it and says how far the import has come.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from ..changes import facts
from ..changes.facts import ExportReport, ImportReport, SourceDocument, make_report
from ..changes.pending import PendingDocument, begin, derive_documents, embed_documents
from ..errors import DocumentNotFoundError, InputError
from ..extraction.validation import validate
from ..storage.new_file import create_file_atomically
from ..structures.state import State
from .context import Context
from .transaction import Transaction

FORMAT = "kvstore-export"
#: What the names of such files end in, where they have a suffix; and those of files of one table.
SUFFIXES = ("", ".jsonl", ".ndjson")
TABLE_SUFFIXES = (".parquet", ".arrow")
VERSION = 1

#: A batch is committed when it holds this many chunks, or this many lines.
_BATCH_CHUNKS = 1024
_BATCH_LINES = 4096
#: Bytes of a line of an import: a line is read as a whole.
_MAX_LINE = 512 << 20


def export(state: State, path: str | os.PathLike[str]) -> ExportReport:
    """Write all facts of one state to a new file.

    Raises InputError when ``path`` exists, its folder does not, or its suffix says that it is another kind of file,
    StoreFullError when it cannot be written.
    """
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        tables = " or ".join(TABLE_SUFFIXES)
        raise InputError(
            f"{target}: an export of everything is JSON lines, in a file that ends in .jsonl or .ndjson; "
            f"one table alone goes to a file that ends in {tables}"
        )
    counts = dict.fromkeys((fact.plural for fact in facts.list_fact_kinds()), 0)
    with create_file_atomically(target) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        header = {"format": FORMAT, "version": VERSION, "settings": asdict(state.settings)}
        file.write(json.dumps(header) + "\n")
        for fact in facts.list_fact_kinds():
            for key, value in fact.scan(state):
                counts[fact.plural] += 1
                file.write(json.dumps(fact.to_line(key, value), ensure_ascii=False) + "\n")
    return make_report(ExportReport, counts)


def import_file(context: Context, begin: Callable[[], Transaction], path: str | os.PathLike[str]) -> ImportReport:
    """Bring the facts of an exported file into a store, a commit a batch; ``begin`` begins a transaction.

    What has the same key is replaced. The settings of the store stay its own; only own vectors must fit its dimension
    and its chunks. Raises InputError for a file or a line that cannot be read, and what a commit raises.
    """
    source = Path(path)
    if source.suffix.lower() in TABLE_SUFFIXES:
        raise InputError(
            f"{source}: a file of one table is for other programs and not imported; name a file that EXPORT TO "
            "'everything.jsonl' wrote"
        )
    return _Importer(context, begin, source).run()


@dataclass(slots=True)
class _Batch:
    """What was read and not yet committed: documents by key, and facts of each other kind with their lines' numbers."""

    documents: dict[str, PendingDocument] = field(default_factory=dict)
    facts: dict[str, list[tuple[int, Any, Any]]] = field(default_factory=dict)
    lines: int = 0
    chunks: int = 0

    @property
    def is_full(self) -> bool:
        return self.chunks >= _BATCH_CHUNKS or self.lines >= _BATCH_LINES


class _Importer:
    def __init__(self, context: Context, begin: Callable[[], Transaction], path: Path) -> None:
        self._context = context
        self._begin = begin
        self._path = path
        self._counts = dict.fromkeys((*(fact.plural for fact in facts.list_fact_kinds()), "unchanged"), 0)
        self._batch = _Batch()
        self._committed = 1

    def run(self) -> ImportReport:
        with self._open() as file:
            number = 1
            self._check_header(self._read_line(file, 1))
            while line := self._read_line(file, number + 1):
                number += 1
                if line.strip():
                    self._add_line(number, self._parse_line(number, line))
                if self._batch.is_full:
                    self._commit(number)
            self._commit(number)
        return make_report(ImportReport, self._counts)

    def _open(self) -> BinaryIO:
        """Open the file; raises InputError for a folder, and for a device or pipe, which may never end."""
        try:
            if not stat.S_ISREG(self._path.stat().st_mode):
                raise InputError(
                    f"{self._path}: cannot be read (a folder, a device or a pipe); name a file that EXPORT wrote"
                )
            return self._path.open("rb")
        except OSError as error:
            raise InputError(f"{self._path}: cannot be read ({error.strerror}); check the path") from error

    def _read_line(self, file: BinaryIO, number: int) -> bytes:
        line = file.readline(_MAX_LINE + 1)
        if len(line) > _MAX_LINE:
            raise self._make_error(
                number, f"has more than {_MAX_LINE:,} bytes, the limit of a line; name a file that EXPORT wrote"
            )
        return line

    def _check_header(self, line: bytes) -> None:
        header = self._parse_line(1, line)
        if header.get("format") != FORMAT:
            raise self._make_error(
                1, f'an export begins with {{"format": "{FORMAT}", ...}}; name a file that EXPORT wrote'
            )
        if header.get("version") != VERSION:
            raise self._make_error(
                1,
                f"this export is of version {header.get('version')!r}, this kvstore reads {VERSION}; update kvstore",
            )

    def _parse_line(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise self._make_error(number, f"not JSON: {error}") from None
        if not isinstance(value, dict):
            raise self._make_error(number, "a line is one JSON object")
        return value

    def _add_line(self, number: int, line: dict[str, Any]) -> None:
        with self._locate_errors(number):
            fact = facts.find_line_kind(line)
        self._batch.lines += 1
        for name in [*fact.fields, *line]:
            if name not in fact.fields or not isinstance(line.get(name), fact.fields[name]):
                names = ", ".join(fact.fields)
                reason = f"the field {name!r} is missing or wrong; the line of {fact.name} has {names}"
                raise self._make_error(number, reason)
        with self._locate_errors(number):
            key, value = fact.parse(line)
            if fact is facts.DOCUMENTS:
                self._add_document(key, value)
            else:
                self._batch.facts.setdefault(fact.name, []).append((number, key, value))

    def _add_document(self, key: str, document_fields: SourceDocument) -> None:
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
        document = begin(valid_document, self._context.settings, document_fields.vectors)
        self._batch.documents[key] = document
        self._batch.chunks += document.chunk_count

    def _commit(self, number: int) -> None:
        """Commit the lines up to ``number``."""
        batch, self._batch = self._batch, _Batch()
        # Embedding takes most of the time: other writers need not wait for it.
        settings = self._context.settings
        derived_documents = derive_documents(self._select_changed(batch), settings)
        documents = embed_documents(derived_documents, settings, self._context.state, self._context.embed)
        counts = {facts.DOCUMENTS.plural: len(documents)}
        with self._begin() as transaction:
            for document in documents:
                transaction._put(document)
            for fact in facts.iter_stated_kinds():
                counts[fact.plural] = 0
                for line_number, key, value in batch.facts.get(fact.name, ()):
                    with self._locate_errors(line_number):
                        counts[fact.plural] += transaction._put_fact(fact, key, value)
        self._committed = number
        for plural, count in counts.items():
            self._counts[plural] += count
        self._counts["unchanged"] += batch.lines - sum(counts.values())

    def _select_changed(self, batch: _Batch) -> list[PendingDocument]:
        """The documents of a batch that are not in the store as they are."""
        with self._context.state() as state:
            records = {key: state.documents.find_by_key(key) for key in batch.documents}
        return [
            document
            for key, document in batch.documents.items()
            if (record := records[key]) is None or record.digest != document.document.digest
        ]

    @contextmanager
    def _locate_errors(self, number: int) -> Iterator[None]:
        try:
            yield
        except (InputError, DocumentNotFoundError) as error:
            raise self._make_error(number, str(error)) from None

    def _make_error(self, number: int, reason: str) -> InputError:
        progress = f"lines 2 to {self._committed} are imported" if self._committed > 1 else "nothing is imported"
        return InputError(f"{self._path}, line {number}: {reason} ({progress})")
