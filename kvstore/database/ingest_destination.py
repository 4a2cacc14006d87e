"""The store as the ingest pipeline sees it.

In: batches of documents. On disk: one commit a batch. Out: what the pipeline asks of the stored documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from ..changes.pending import Prepared, embedded
from ..errors import DocumentNotFoundError, InputError
from ..structures.documents.triples import DocumentTriples
from .context import Context
from .transaction import Transaction

if TYPE_CHECKING:
    from ..ingest.file_documents import FileDocument
    from ..ingest.worker import Job
    from ..structures.documents.ingested_files import IngestedFile


class IngestDestination:
    """The store as the ingest pipeline sees it: one commit a batch."""

    def __init__(self, context: Context, begin: Callable[[], Transaction]) -> None:
        self._context = context
        self._begin = begin
        self.settings = context.settings
        self.embed = context.embed

    @property
    def texts_per_request(self) -> int:
        from ..models.openai_embedder import BATCH, OpenAIEmbedder

        return BATCH if isinstance(self._context.embedder, OpenAIEmbedder) else 0

    def digest_of(self, key: str) -> bytes | None:
        with self._context.state() as view:
            record = view.documents.find(key)
            return None if record is None else record.digest

    def documents_from(self, root: str) -> Iterator[tuple[str, str | None]]:
        with self._context.state() as view:
            yield from [(record.key, record.source) for record in view.documents.scan() if record.origin == root]

    def source_of(self, key: str) -> str | None:
        with self._context.state() as view:
            record = view.documents.find(key)
            return None if record is None else record.source

    def settle_origins(self, origins: Mapping[str, str | None]) -> None:
        with self._context.state() as view:
            find = view.documents.find
            stored = ((key, origin, find(key)) for key, origin in origins.items() if origin)
            moved = {key: origin for key, origin, record in stored if record and record.origin != origin}
        if moved:
            with self._begin() as transaction:
                transaction._settle_origins(moved)

    def job(self, format: str | None, options: Mapping[str, Any], *, embed: bool) -> Job:
        from ..ingest.worker import Job

        embedder = self.settings.embedder if embed and not self._context.embedder_given else None
        environment = self._context.environment
        buffered = sorted(environment.recent_reader.buffered)
        return Job(str(environment.path.resolve()), self.settings, format, dict(options), embedder, buffered)

    def ingested(self, source: str) -> IngestedFile | None:
        with self._context.state() as view:
            return view.ingested_files.get(source)

    def write(
        self,
        batch: Sequence[tuple[FileDocument, str | None]],
        deleted: Sequence[str] = (),
        files: Sequence[tuple[IngestedFile, list[bytes]]] = (),
    ) -> None:
        # Embedding takes most of the time: other writers need not wait for it.
        found = [
            Prepared(document.extracted, document.vectors, origin=origin)
            for document, origin in batch
            if document.extracted
        ]
        documents = embedded(found, self._context.state, self.embed)
        with self._begin() as transaction:
            for document in documents:
                transaction._put(document)
            transaction.delete_many(deleted)
            transaction._settle_files(files)
        self._context.environment.release_pages()

    def join_triples(self, triples: Mapping[str, DocumentTriples], more: Set[str]) -> Mapping[str, bool | InputError]:
        outcomes: dict[str, bool | InputError] = {}
        with self._begin() as transaction:
            for key, found in triples.items():
                try:
                    outcomes[key] = transaction.put_triples(key, found.triples, names=found.names, more=key in more)
                except (DocumentNotFoundError, InputError) as error:
                    outcomes[key] = error if isinstance(error, InputError) else InputError(str(error))
        return outcomes
