"""Files into a store: the methods that ingest and import, and the store as the ingest pipeline sees it.

In: files, folders and globs, or an export. On disk: one commit a batch; a file that has grown by this is compacted at
the end. Out: a report, or what an ingest would do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from ..arguments import check_options, check_path
from ..changes.compaction import compacting_growth
from ..changes.embedding_reuse import kept_vectors
from ..errors import DocumentNotFoundError, InputError, ReadOnlyError
from ..extraction.extraction import vectors_for
from ..settings import TIME_LIMIT
from ..structures.documents.triples import DocumentTriples
from .opened import Opened

if TYPE_CHECKING:
    from ..ingest.file_documents import FileDocument
    from ..ingest.forecast import Forecast
    from ..ingest.pipeline import IngestProgress, IngestReport
    from ..ingest.worker import Job
    from ..structures.documents.ingested_files import IngestedFile
    from .exchange import ImportReport


class Ingesting(Opened):
    """The methods that bring files in."""

    def ingest(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        format: str | None = None,
        prune: bool = False,
        include: str | Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        progress: Callable[[IngestProgress], None] | None = None,
        workers: int | None = None,
        time_limit: float = TIME_LIMIT,
        memory_limit: float | None = None,
    ) -> IngestReport:
        """Bring files, folders and globs into the store, a commit a batch; see :func:`kvstore.ingest.pipeline.ingest`.

        Bad files are reported, not raised. ``prune`` removes documents whose files vanished from the folders and
        patterns named here. ``include`` has patterns such as ``*.adoc``: the files taken from folders are those whose
        names match one, whatever their suffixes.
        ``workers`` processes read, extract and embed (0: this one; None: as many as the files are worth); a file at
        which one is silent for ``time_limit`` seconds, wants more than ``memory_limit`` megabytes (None: its share of
        half of the machine's), or ends, is reported. Where this has made most of the store's file and nobody else has
        it open, the file is compacted at the end.

        >>> folder = tempfile.mkdtemp()
        >>> _ = open(folder + "/milk.md", "w").write("# Milk\\n\\nMilk goes into tea.")
        >>> report = store.ingest(folder)
        >>> report.added, report.failures, store.keys("milk")
        (1, [], ['milk.md'])
        """
        from ..ingest.pipeline import ingest

        if self.readonly:
            raise ReadOnlyError(f"{self.path} was opened read-only; open it for writing to ingest")
        check_options("options", options)
        given = _given(paths)
        with compacting_growth(self._context.environment):
            return ingest(
                _Commits(self),
                given,
                format=format,
                prune=prune,
                include=_patterns(include),
                options=options,
                progress=progress,
                workers=workers,
                time_limit=time_limit,
                memory_limit=memory_limit,
            )

    def forecast_ingest(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        format: str | None = None,
        include: str | Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
    ) -> Forecast:
        """What :meth:`ingest` would do, estimated from a sample of the files; nothing is changed, no endpoint called.

        >>> folder = tempfile.mkdtemp()
        >>> _ = open(folder + "/cream.md", "w").write("# Cream\\n\\nCream goes into coffee.")
        >>> forecast = store.forecast_ingest(folder)
        >>> forecast.files, forecast.documents, forecast.chunks, forecast.calls
        (1, 1, 1, 0)
        """
        from ..ingest.forecast import forecast

        check_options("options", options)
        return forecast(_Commits(self), _given(paths), format, options or {}, _patterns(include))

    def import_(self, path: str | os.PathLike[str]) -> ImportReport:
        """Read what :meth:`export` wrote, a commit a batch, in place of what has the same key.

        See :func:`kvstore.database.exchange.import_file`. Raises InputError naming the line.

        >>> path = tempfile.mkdtemp() + "/all.jsonl"
        >>> _ = store.export(path)
        >>> _ = store.delete("tea")
        >>> store.import_(path)
        ImportReport(documents=1, triples=0, edges=0, aliases=0, unchanged=2)
        """
        from .exchange import import_file

        with compacting_growth(self._context.environment):
            return import_file(self, path)


def _patterns(include: str | Sequence[str]) -> list[str]:
    patterns = [include] if isinstance(include, str) else list(include)
    if not all(isinstance(pattern, str) and pattern for pattern in patterns):
        raise InputError(f"a pattern of files to include is a text such as '*.adoc', not {include!r}")
    return patterns


class _Commits:
    """The store as the ingest pipeline sees it: one commit a batch."""

    def __init__(self, store: Ingesting) -> None:
        self._store = store
        self.settings = store.settings
        self.embed = store.embed

    @property
    def texts_per_request(self) -> int:
        from ..models.openai_embedder import BATCH, OpenAIEmbedder

        return BATCH if isinstance(self._store.embedder, OpenAIEmbedder) else 0

    def digest_of(self, key: str) -> bytes | None:
        with self._store.state() as view:
            record = view.documents.find(key)
            return None if record is None else record.digest

    def documents_from(self, root: str) -> Iterator[tuple[str, str | None]]:
        with self._store.state() as view:
            yield from [(record.key, record.source) for record in view.documents.scan() if record.origin == root]

    def source_of(self, key: str) -> str | None:
        with self._store.state() as view:
            record = view.documents.find(key)
            return None if record is None else record.source

    def settle_origins(self, origins: Mapping[str, str | None]) -> None:
        with self._store.state() as view:
            find = view.documents.find
            stored = ((key, origin, find(key)) for key, origin in origins.items() if origin)
            moved = {key: origin for key, origin, record in stored if record and record.origin != origin}
        if moved:
            with self._store.transaction(models=False) as transaction:
                transaction._settle_origins(moved)

    def job(self, format: str | None, options: Mapping[str, Any], *, embed: bool) -> Job:
        from ..ingest.worker import Job

        embedder = self.settings.embedder if embed and not self._store._context.embedder_given else None
        return Job(str(self._store.path.resolve()), self.settings, format, dict(options), embedder)

    def ingested(self, source: str) -> IngestedFile | None:
        with self._store.state() as view:
            return view.ingested_files.get(source)

    def write(
        self,
        batch: Sequence[tuple[FileDocument, str | None]],
        deleted: Sequence[str] = (),
        files: Sequence[tuple[IngestedFile, list[bytes]]] = (),
    ) -> None:
        # Embedding takes most of the time: other writers need not wait for it.
        found = [(document.extracted, document.vectors, origin) for document, origin in batch if document.extracted]
        with self._store.state() as view:
            kept = kept_vectors(view, [extracted for extracted, made, _ in found if made is None])
        vectors = vectors_for([(extracted, made) for extracted, made, _ in found], self._store.embed, kept)
        with self._store.transaction(models=False) as transaction:
            for (extracted, _, origin), rows in zip(found, vectors, strict=True):
                transaction._put_extracted(extracted, rows, origin=origin)
            transaction.delete_many(deleted)
            transaction._settle_files(files)
        self._store._context.environment.release_pages()

    def join_triples(self, triples: Mapping[str, DocumentTriples], more: Set[str]) -> Mapping[str, bool | InputError]:
        outcomes: dict[str, bool | InputError] = {}
        with self._store.transaction(models=False) as transaction:
            for key, found in triples.items():
                try:
                    outcomes[key] = transaction.put_triples(key, found.triples, names=found.names, more=key in more)
                except (DocumentNotFoundError, InputError) as error:
                    outcomes[key] = error if isinstance(error, InputError) else InputError(str(error))
        return outcomes


def _given(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """Paths as texts; raises ArgumentError for what can be none."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    for path in given:
        check_path("a path to ingest", path)
    return [os.fspath(path) for path in given]
