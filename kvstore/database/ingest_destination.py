"""The store as the ingest pipeline sees it.

In: batches of documents. On disk: one commit a batch. Out: what the pipeline asks of the stored documents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from ..changes import facts
from ..changes.pending import Prepared, embedded
from ..errors import DocumentNotFoundError, InputError
from ..systems.fact import StatedFact
from .context import Context
from .transaction import Transaction

if TYPE_CHECKING:
    from ..ingest.file_documents import Failure, FileDocument
    from ..ingest.readers import RawFact
    from ..ingest.worker import Job
    from ..settings import FixedSettings
    from ..structures.documents.ingested_files import IngestedFile


class IngestDestination:
    """The store as the ingest pipeline sees it: one commit a batch."""

    def __init__(self, context: Context, begin: Callable[[], Transaction]) -> None:
        self._context = context
        self._begin = begin
        self.embed = context.embed
        self.state = context.state

    @property
    def settings(self) -> FixedSettings:
        return self._context.settings

    def decide_settings(self, choose: Callable[[], Mapping[str, str]]) -> dict[str, str]:
        return self._context.store.decide_settings(choose)

    @property
    def texts_per_request(self) -> int:
        from ..models.openai_embedder import BATCH, OpenAIEmbedder

        return BATCH if isinstance(self._context.store.embedder, OpenAIEmbedder) else 0

    def settle_origins(self, origins: Mapping[str, str | None]) -> None:
        with self.state() as view:
            find = view.documents.find
            stored = ((key, origin, find(key)) for key, origin in origins.items() if origin)
            moved = {key: origin for key, origin, record in stored if record and record.origin != origin}
        if moved:
            with self._begin() as transaction:
                transaction.set_origins(moved)

    def job(self, format: str | None, options: Mapping[str, Any], *, embed: bool) -> Job:
        from ..ingest.worker import Job

        embedder = self.settings.embedder if embed and not self._context.embedder_given else None
        environment = self._context.environment
        buffered = sorted(environment.buffer_reader.buffered.names)
        return Job(str(environment.path.resolve()), self.settings, format, dict(options), embedder, buffered)

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
        documents = embedded(found, self.settings, self.state, self.embed)
        with self._begin() as transaction:
            for document in documents:
                transaction._put(document)
            transaction.delete_many(deleted)
            transaction._settle_files(files)
        self._context.environment.release_pages()

    def join(self, found: Mapping[str, Sequence[RawFact]], more: Set[str]) -> tuple[dict[str, bool], list[Failure]]:
        from ..ingest.file_documents import failure

        outcomes: dict[str, bool] = {}
        failures: list[Failure] = []
        with self._begin() as transaction:
            for key, raw in found.items():
                stated: dict[StatedFact[str, Any], Any] = {}
                for each in raw:
                    fact = facts.of_line(each.line)
                    assert isinstance(fact, StatedFact)  # readers of documents yield those
                    try:
                        _, value = fact.parse(each.line)
                        stated[fact] = fact.joined(stated[fact], value) if fact in stated else value
                    except InputError as error:
                        failures.append(failure(each.place, error))
                try:
                    for fact, value in stated.items():
                        changed = transaction._put_fact(fact, key, value, more=key in more)
                        outcomes[key] = outcomes.get(key, False) or changed
                except (DocumentNotFoundError, InputError) as error:
                    failures.append(failure(raw[0].place, error))
        return outcomes, failures
