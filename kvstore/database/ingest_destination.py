"""The store as the destination of the ingest pipeline, which reads files and passes batches of documents.
The *origin* of a document is the folder that it was ingested from.

In: batches of documents. On disk: one commit per batch. Out: the data on stored documents that the pipeline needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from ..changes import facts
from ..changes.document_completion import embed_documents
from ..changes.pending import PendingDocument
from ..errors import DocumentNotFoundError, InputError
from ..registry.fact import StatedFact
from .handle import Handle

if TYPE_CHECKING:
    from ..ingest.document_batch import BatchedDocument
    from ..ingest.file_documents import Failure
    from ..ingest.ingest_interface import IngestReport
    from ..ingest.worker import Job
    from ..readers import RawFact
    from ..settings import FixedSettings
    from ..structures.documents.ingested_files import CompletedFile


class IngestDestination:
    """The destination of an ingest, which writes each batch in one commit.

    It implements :class:`~kvstore.ingest.ingest_interface.Destination`, which documents the methods.
    """

    def __init__(self, handle: Handle) -> None:
        """Create a destination that writes to the store of ``handle``."""
        self._handle = handle
        self._session = handle._session
        self.embed = self._session.store.embedder.embed
        self.open_state = self._session.open_state

    @property
    def settings(self) -> FixedSettings:
        """The fixed settings of the store."""
        return self._session.store.settings

    def decide_settings(self, choose: Callable[[], Mapping[str, str]]) -> dict[str, str]:
        """Give a new store the settings that ``choose`` returns, which depend on its first documents.

        Returns the settings that changed; does nothing if the store is not new.
        """
        return self._session.store.decide_settings(choose)

    @property
    def texts_per_request(self) -> int:
        """The number of texts that the embedder sends to a server per request; 0 if it runs in this process."""
        from ..models.openai_embedder import BATCH_SIZE, OpenAIEmbedder

        return BATCH_SIZE if isinstance(self._session.store.embedder.load(), OpenAIEmbedder) else 0

    def update_origins(self, origins: Mapping[str, str | None]) -> None:
        """Record the origins (ingested folders) of unchanged documents that were found in a different folder.

        ``origins`` maps document keys to folders; a document with None keeps its origin.
        """
        moved_origins: dict[str, str | None] = {}
        with self.open_state() as state:
            for key, origin in origins.items():
                record = state.documents.find_by_key(key)
                if origin and record is not None and record.origin != origin:
                    moved_origins[key] = origin
        if moved_origins:
            with self._handle.transaction(models=False) as transaction:
                transaction.set_origins(moved_origins)

    def make_job(self, format: str | None, options: Mapping[str, Any], *, embed: bool) -> Job:
        """Return the data that a worker process needs to read files of this store and, with ``embed``, to embed them.

        ``format`` and ``options`` are the arguments of the ingest.
        """
        from ..ingest.worker import Job

        # An embedder that the caller supplied exists only in this process.
        embedder = self.settings.embedder if embed and not self._session.store.embedder.is_supplied else None
        environment = self._session.environment
        buffered_tables = sorted(environment.buffer_reader.buffered_tables.names)
        return Job(
            store=str(environment.path.resolve()),
            settings=self.settings,
            format=format,
            options=dict(options),
            embedder=embedder,
            buffered_tables=buffered_tables,
        )

    def write(
        self, batch: Sequence[BatchedDocument], deleted_keys: Sequence[str] = (), files: Sequence[CompletedFile] = ()
    ) -> None:
        """Store a batch of documents, delete the documents ``deleted_keys``, and record ``files``, in one commit.

        The files are completely ingested, and have the digests of their documents; the next ingest skips them if they
        are unchanged.
        """
        # Embed before taking the writer's lock, because embedding takes most of the time.
        new_documents = [
            PendingDocument(document.extracted, document.vectors, origin=document.origin) for document in batch
        ]
        documents = embed_documents(new_documents, self.settings, self.open_state, self.embed)
        with self._handle.transaction(models=False) as transaction:
            for document in documents:
                transaction._put(document)
            transaction.delete_many(deleted_keys)
            transaction._record_files(files)
        self._session.environment.release_pages()

    def store_facts(
        self, facts_by_key: Mapping[str, Sequence[RawFact]], added_keys: Set[str]
    ) -> tuple[dict[str, bool], list[Failure]]:
        """Store facts that file readers found, such as triples, by document key, in one commit.

        They replace existing facts about a document, or are added to them if its key is in ``added_keys``.

        Returns for each document key with a stored fact True if its facts changed, else False; and the failures. A
        failure is an invalid fact, or a document that does not exist or cannot have these facts.
        """
        from ..ingest.file_documents import make_failure

        outcomes: dict[str, bool] = {}
        failures: list[Failure] = []
        with self._handle.transaction(models=False) as transaction:
            for key, raw_facts in facts_by_key.items():
                values_by_kind, parse_failures = _parse_facts(raw_facts)
                failures += parse_failures
                try:
                    for fact_kind, value in values_by_kind.items():
                        is_changed = transaction._put_fact(fact_kind, key, value, keep_existing=key in added_keys)
                        outcomes[key] = outcomes.get(key, False) or is_changed
                except (DocumentNotFoundError, InputError) as error:
                    failures.append(make_failure(raw_facts[0].place, error))
        return outcomes, failures

    def finish(self, paths: Sequence[str], report: IngestReport) -> None:
        """Compact the store's file if it has grown much, and log the ingest of ``paths``."""
        from ..ingest.ingest_log import log_ingest

        self._session.store.growth.compact_if_grown()
        log_ingest(self._handle.path, paths, report)


def _parse_facts(raw_facts: Sequence[RawFact]) -> tuple[dict[StatedFact[str, Any], Any], list[Failure]]:
    """Parse the facts that a file reader found about one document; return the value of each kind, and the failures.

    Facts of the same kind, such as triples from several lines, are merged into one value. An invalid fact is a failure.
    """
    from ..ingest.file_documents import make_failure

    values_by_kind: dict[StatedFact[str, Any], Any] = {}
    failures: list[Failure] = []
    for raw_fact in raw_facts:
        fact_kind = facts.find_fact_kind(raw_fact.line)
        assert isinstance(fact_kind, StatedFact)  # file readers yield only stated facts
        try:
            _, value = fact_kind.parse(raw_fact.line)
            previous_value = values_by_kind.get(fact_kind)
            values_by_kind[fact_kind] = value if previous_value is None else fact_kind.merge(previous_value, value)
        except InputError as error:
            failures.append(make_failure(raw_fact.place, error))
    return values_by_kind, failures
