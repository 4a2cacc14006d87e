"""Export and import: all that a store's content follows from, as JSON lines.

In and out: a UTF-8 file of one JSON object a line. The first is a header (``format``, ``version``, the ``settings`` the
store was made with); then come documents in the order of their keys (``document``, ``title``, ``source``, ``meta``,
``format``, ``text``, ``left_out`` where navigation was left out of a page, and ``vectors`` where they were the user's
own), then the triples imported for documents
(``triples``, the document's key, ``names``, ``rows``), then the edges (``edge``, ``parent``, ``tree``) and the aliases
(``alias``, ``entity``, ``kind``) that the user stated. All else in a store is derived from these, so
that a store of the same settings that imports the file holds the same.

An export appears complete or not at all. An import commits batch by batch, in bounded memory; a line that is not as
above is an InputError that names it and says how far the import has come.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..errors import DocumentNotFoundError, InputError, ReadOnlyError, StoreFullError
from ..extraction.extraction import Extracted, extract, with_vectors
from ..settings import FixedSettings
from ..storage.data_file import flush
from ..storage.location import require_free
from ..structures.documents.documents import DocumentRecord
from ..structures.forest.forest import StatedEdge
from ..structures.names.aliases import Alias
from ..structures.state import State
from ..structures.vectors.vectors import Matrix
from .queryable import unit_rows
from .transaction import Transaction

FORMAT = "kvstore-export"
VERSION = 1

#: A batch is committed when it holds this many chunks, or this many lines.
_BATCH_CHUNKS = 1024
_BATCH_LINES = 4096

_MAYBE_TEXT = (str, type(None))
#: The kinds of line, each named by its first field, with the fields it has; a field that may be None may be missing.
_LINES: dict[str, dict[str, type | tuple[type, ...]]] = {
    "document": {
        "document": str,
        "title": _MAYBE_TEXT,
        "source": _MAYBE_TEXT,
        "meta": (dict, type(None)),
        "format": str,
        "text": str,
        "left_out": (int, type(None)),
        "vectors": (list, type(None)),
    },
    "triples": {"triples": str, "names": list, "rows": list},
    "edge": {"edge": str, "parent": str, "tree": str},
    "alias": {"alias": str, "entity": str, "kind": str},
}


@dataclass(frozen=True, slots=True)
class ExportReport:
    """How many documents, triples of documents, edges and aliases were written."""

    documents: int
    triples: int
    edges: int
    aliases: int


@dataclass(slots=True)
class ImportReport:
    """How many documents, triples of documents, edges and aliases were new or different, and how many lines changed
    nothing."""

    documents: int = 0
    triples: int = 0
    edges: int = 0
    aliases: int = 0
    unchanged: int = 0


class Destination(Protocol):
    """The store, as an import needs it."""

    @property
    def settings(self) -> FixedSettings: ...

    @property
    def path(self) -> Path: ...

    @property
    def readonly(self) -> bool: ...

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Unit vectors of some texts, shape (n, dimension)."""
        ...

    def state(self) -> AbstractContextManager[State]:
        """The parts of the store, in one state."""
        ...

    def transaction(self, *, models: bool = True) -> Transaction:
        """Begin a write transaction; without ``models`` for one that derives and embeds nothing."""
        ...


def export(view: State, path: str | os.PathLike[str]) -> ExportReport:
    """Write all documents, triples, edges and aliases of one state to a new file.

    Raises InputError when ``path`` exists or its folder does not, StoreFullError when it cannot be written.
    """
    target = Path(path)
    require_free(target)
    partial = target.with_name(f".{target.name}.partial-{os.getpid()}")
    written = dict.fromkeys(_LINES, 0)
    try:
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            header = {"format": FORMAT, "version": VERSION, "settings": asdict(view.settings)}
            file.write(json.dumps(header) + "\n")
            for line in _lines(view):
                written[next(iter(line))] += 1
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
        flush(partial)
        partial.rename(target)
        flush(target.resolve().parent)
    except OSError as error:
        raise StoreFullError(f"{target}: cannot be written ({error.strerror}); choose another place") from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
    return ExportReport(written["document"], written["triples"], written["edge"], written["alias"])


def _lines(view: State) -> Iterator[dict[str, Any]]:
    for key in sorted(view.documents.keys()):
        record = view.documents.find(key)
        if record is not None:
            yield _document_line(view, record)
    for key in sorted(view.documents.get(document).key for document, _ in view.triples.scan()):
        found = view.triples.of(view.documents.identify(key) or 0)
        yield {"triples": key, "names": found.names, "rows": found.triples}
    for edge in sorted((edge for _, _, edge in view.forest.stated_edges()), key=lambda edge: edge.key):
        yield {"edge": edge.child, "parent": edge.parent, "tree": edge.tree}
    for _, alias in view.aliases.scan():
        yield {"alias": alias.name, "entity": alias.entity, "kind": alias.kind}


def _document_line(view: State, record: DocumentRecord) -> dict[str, Any]:
    line: dict[str, Any] = {
        "document": record.key,
        "title": record.title,
        "source": record.source,
        "meta": record.meta,
        "format": record.format,
        "text": view.documents.text(record.id).decode(),
    }
    if record.left_out:
        line["left_out"] = record.left_out
    if record.own_vectors and record.chunk_count:
        stored = map(view.chunks.get, record.chunk_ids())
        line["vectors"] = view.vectors.gather([(chunk.block, chunk.row) for chunk in stored]).tolist()
    return line


def import_file(store: Destination, path: str | os.PathLike[str]) -> ImportReport:
    """Bring the documents, triples, edges and aliases of an exported file into a store, a commit a batch.

    What has the same key is replaced. The settings of the store stay its own; only own vectors must fit its dimension
    and its chunks. Raises InputError for a file or a line that cannot be read, ReadOnlyError, and what a commit raises.
    """
    if store.readonly:
        raise ReadOnlyError(f"{store.path} was opened read-only; open it for writing to import")
    return _Import(store, Path(path)).run()


@dataclass(slots=True)
class _Batch:
    """What was read and not yet committed: documents by key; triples, edges and aliases with their lines' numbers."""

    documents: dict[str, tuple[Extracted, Matrix | None]] = field(default_factory=dict)
    triples: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    edges: list[tuple[int, StatedEdge]] = field(default_factory=list)
    aliases: list[tuple[int, Alias]] = field(default_factory=list)
    lines: int = 0
    chunks: int = 0

    @property
    def full(self) -> bool:
        return self.chunks >= _BATCH_CHUNKS or self.lines >= _BATCH_LINES


class _Import:
    def __init__(self, store: Destination, path: Path) -> None:
        self._store = store
        self._path = path
        self._report = ImportReport()
        self._batch = _Batch()
        self._committed = 1

    def run(self) -> ImportReport:
        try:
            file = self._path.open("rb")
        except OSError as error:
            raise InputError(f"{self._path}: cannot be read ({error.strerror}); check the path") from error
        with file:
            number = 1
            self._check_header(file.readline())
            for number, line in enumerate(file, 2):
                if line.strip():
                    self._take(number, self._parsed(number, line))
                if self._batch.full:
                    self._commit(number)
            self._commit(number)
        return self._report

    def _check_header(self, line: bytes) -> None:
        header = self._parsed(1, line)
        if header.get("format") != FORMAT:
            raise self._failure(
                1, f'an export begins with {{"format": "{FORMAT}", ...}}; name a file that EXPORT wrote'
            )
        if header.get("version") != VERSION:
            raise self._failure(
                1,
                f"this export is of version {header.get('version')!r}, this kvstore reads {VERSION}; update kvstore",
            )

    def _parsed(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise self._failure(number, f"not JSON: {error}") from None
        if not isinstance(found, dict):
            raise self._failure(number, "a line is one JSON object")
        return found

    def _take(self, number: int, line: dict[str, Any]) -> None:
        kind = next((kind for kind in _LINES if kind in line), None)
        if kind is None:
            raise self._failure(number, f"a line has one of the fields {', '.join(_LINES)}")
        self._batch.lines += 1
        fields = _LINES[kind]
        for name in [*fields, *line]:
            if name not in fields or not isinstance(line.get(name), fields[name]):
                names = ", ".join(fields)
                raise self._failure(number, f"the field {name!r} is missing or wrong; the line of {kind} has {names}")
        if kind == "triples":
            self._batch.triples.append((number, line))
        elif kind == "edge":
            self._batch.edges.append((number, StatedEdge(line["edge"], line["parent"], line["tree"])))
        elif kind == "alias":
            self._batch.aliases.append((number, Alias(line["alias"], line["entity"], line["kind"])))
        else:
            self._take_document(number, line)

    def _take_document(self, number: int, line: dict[str, Any]) -> None:
        settings = self._store.settings
        vectors = line.get("vectors")
        try:
            extracted = extract(
                line["document"],
                line["text"],
                settings,
                title=line.get("title"),
                source=line.get("source"),
                meta=line.get("meta"),
                format=line["format"],
                left_out=line.get("left_out") or 0,
            )
            rows = None if vectors is None else unit_rows(vectors, settings.dimension, len(extracted.chunks))
        except InputError as error:
            raise self._failure(number, str(error)) from None
        if rows is not None:
            extracted = with_vectors(extracted, rows)
        self._batch.documents[extracted.key] = (extracted, rows)
        self._batch.chunks += len(extracted.chunks)

    def _commit(self, number: int) -> None:
        """Commit the lines up to ``number``."""
        batch, self._batch = self._batch, _Batch()
        documents = self._changed(batch)
        # Embedding takes most of the time: other writers need not wait for it.
        texts = [text for extracted, rows in documents if rows is None for text in extracted.embedding_texts()]
        embedded = self._store.embed(texts)
        first = 0
        triples = edges = aliases = 0
        with self._store.transaction(models=False) as transaction:
            for extracted, own in documents:
                rows = own
                if rows is None:
                    rows = embedded[first : first + len(extracted.chunks)]
                    first += len(rows)
                transaction._put_extracted(extracted, rows, own_vectors=own is not None)
            for at, line in batch.triples:
                with self._naming(at):
                    triples += transaction.put_triples(line["triples"], line["rows"], names=line["names"])
            for at, edge in batch.edges:
                with self._naming(at):
                    edges += transaction.put_edge(edge.child, edge.parent, tree=edge.tree)
            for at, alias in batch.aliases:
                with self._naming(at):
                    aliases += transaction._restate(alias)
        self._committed = number
        self._report.documents += len(documents)
        self._report.triples += triples
        self._report.edges += edges
        self._report.aliases += aliases
        self._report.unchanged += batch.lines - len(documents) - triples - edges - aliases

    def _changed(self, batch: _Batch) -> list[tuple[Extracted, Matrix | None]]:
        """The documents of a batch that are not in the store as they are."""
        with self._store.state() as view:
            stored = {key: view.documents.find(key) for key in batch.documents}
        return [
            (extracted, rows)
            for extracted, rows in batch.documents.values()
            if (record := stored[extracted.key]) is None or record.digest != extracted.digest
        ]

    @contextmanager
    def _naming(self, number: int) -> Iterator[None]:
        try:
            yield
        except (InputError, DocumentNotFoundError) as error:
            raise self._failure(number, str(error)) from None

    def _failure(self, number: int, reason: str) -> InputError:
        done = f"lines 2 to {self._committed} are imported" if self._committed > 1 else "nothing is imported"
        return InputError(f"{self._path}, line {number}: {reason} ({done})")
