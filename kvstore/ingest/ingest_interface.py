"""The interface of an ingest: the destination of its documents, and the options, progress and outcome for a caller.

In: the steps of the pipeline (:mod:`.pipeline`). Out: an :class:`Ingestion`, which yields each :class:`IngestProgress`
and holds the :class:`IngestReport`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypedDict

from ..arguments import check_path, format_count, format_value
from ..errors import InputError
from ..process.closed_on_exit import ClosedOnExit
from ..readers import RawFact
from ..settings import FixedSettings
from ..structures.documents.ingested_files import CompletedFile
from ..structures.state import State
from ..structures.vectors.vectors import Matrix
from .document_batch import BatchedDocument
from .file_documents import Failure
from .sources import format_skipped
from .worker import Job

#: The maximum number of failures that are listed; there may be one for every row of a file.
_MAX_PROBLEMS_SHOWN = 100


@dataclass(slots=True)
class IngestReport:
    """The outcome of an ingest. ``documents`` and ``chunks`` count what was written; ``seconds`` is wall time.

    ``added``, ``changed``, ``unchanged`` and ``removed`` count documents, compared with the store before.
    ``skipped_by`` counts the skipped files by reason (``suffix .png``, ``no suffix``, ``links to folders``, ...), and
    ``skipped`` is their sum. ``remarks`` are sentences about possibly unintended effects. Documents to which a file
    adds facts count as changed if that changes anything, else as unchanged. ``left_out`` maps each page that was read
    to the number of characters omitted as navigation, if any. ``problems`` formats the ``failures``; beyond the first
    hundred it gives only their number. ``known`` is the number of unchanged files, which were not read again.

    ``str()`` returns the counts as one line.
    """

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    skipped: int = 0
    known: int = 0
    failures: list[Failure] = field(default_factory=list)
    documents: int = 0
    chunks: int = 0
    seconds: float = 0.0
    left_out: dict[str, int] = field(default_factory=dict)
    skipped_by: Counter[str] = field(default_factory=Counter)
    remarks: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """Return the counts as one line: documents by outcome, skipped files, failures, chunks and seconds."""
        counts = f"{self.added} added, {self.changed} changed, {self.unchanged} unchanged, {self.removed} removed"
        skipped = f"{self.skipped} skipped" + (f" ({self.skips})" if self.skipped else "")
        chunks = format_count(self.chunks, "chunk")
        return f"{counts}, {skipped}, {len(self.failures)} failed; {chunks} in {self.seconds:.1f} s"

    @property
    def skips(self) -> str:
        """``skipped_by`` as text, such as ``2 .png, 1 no suffix``."""
        return format_skipped(self.skipped_by)

    @property
    def problems(self) -> list[str]:
        """The failures, one line each, with place and reason; if failures are left out, the last line counts them."""
        lines = list(map(str, self.failures[:_MAX_PROBLEMS_SHOWN]))
        num_more = len(self.failures) - len(lines)
        return [*lines, f"... and {num_more:,} more that could not be read"] if num_more else lines


@dataclass(frozen=True, slots=True)
class IngestProgress:
    """The progress of an ingest: the number of finished files, the total, the chunks written, and the current file.

    ``known`` is the number of files that an earlier ingest has already read. ``bytes`` is the size of the files to
    read, and ``bytes_done`` the part that is finished, with an estimate for the current file. ``seconds_left`` is
    computed from both at the recent speed; it is None while the speed is unknown. ``documents`` and ``chunks`` count
    only committed ones.
    """

    done: int
    total: int
    chunks: int
    chunks_per_second: float
    seconds_left: float | None
    current: str
    known: int = 0
    bytes_done: int = 0
    bytes: int = 0
    documents: int = 0


class Destination(Protocol):
    """The destination of documents: the store, as seen by the pipeline."""

    @property
    def settings(self) -> FixedSettings:
        """The creation-time settings of the store."""
        ...

    @property
    def texts_per_request(self) -> int:
        """The number of texts that the embedder sends to an endpoint per request; 0 if it needs no endpoint."""
        ...

    def decide_settings(self, choose: Callable[[], Mapping[str, str]]) -> dict[str, str]:
        """Give a new store the settings that ``choose`` returns, except those that its creator chose.

        Return the changed settings by name. ``choose`` is not called if the store is not new.
        """
        ...

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return the vectors of texts, shape (n, dimension)."""
        ...

    def open_state(self) -> AbstractContextManager[State]:
        """Return a context manager that yields the current state of the store."""
        ...

    def update_origins(self, origins: Mapping[str, str | None]) -> None:
        """Record the folder in which each unchanged document was last found, by key; None keeps the recorded folder."""
        ...

    def make_job(self, format: str | None, options: Mapping[str, Any], *, embed: bool) -> Job:
        """Return the job for workers, which read files with the ``format`` and ``options``.

        With ``embed`` they also compute the vectors, if possible.
        """
        ...

    def write(
        self, batch: Sequence[BatchedDocument], deleted_keys: Sequence[str] = (), files: Sequence[CompletedFile] = ()
    ) -> None:
        """Commit documents, and embed those without vectors.

        The same commit deletes the documents ``deleted_keys``, and records ``files`` as ingested, each with the digests
        of its documents.
        """
        ...

    def store_facts(
        self, facts: Mapping[str, Sequence[RawFact]], added_keys: Set[str]
    ) -> tuple[dict[str, bool], list[Failure]]:
        """Commit facts about stored documents (triples, or texts that a model wrote), by document key.

        They replace earlier facts about the document, or for a key in ``added_keys`` are added to them. Return for
        each key True if anything changed, and a failure for each fact that could not be committed.
        """
        ...

    def finish(self, paths: Sequence[str], report: IngestReport) -> None:
        """End an ingest of ``paths`` that was not stopped early, and keep its ``report``."""
        ...


class IngestOptions(TypedDict, total=False):
    """The options of an ingest besides its paths; :func:`create_ingestion` describes them."""

    format: str | None
    prune: bool
    include: str | Sequence[str]
    exclude: str | Sequence[str]
    options: Mapping[str, Any] | None
    workers: int | None
    engine: str
    time_limit: float
    memory_limit: float | None


class Ingestion(ClosedOnExit, Iterator[IngestProgress]):
    """An ingest that runs while it is iterated, in the iterating thread; each step reports the progress.

    ``report`` is the outcome so far. If the caller stops early, closes it or leaves its context, the committed part is
    kept, and the same ingest continues from there.
    """

    def __init__(self, steps: Generator[IngestProgress, None, None], report: IngestReport) -> None:
        """Create an ingest that runs ``steps``, which keep ``report`` up to date."""
        self._steps = steps
        self.report = report

    def __repr__(self) -> str:
        """Return the counts of the report so far."""
        return f"<kvstore.Ingestion: {self.report}>"

    def __next__(self) -> IngestProgress:
        """Run the ingest up to its next progress, and return the progress."""
        return next(self._steps)

    def close(self) -> None:
        """Stop the workers, and drop the documents that are not committed."""
        self._steps.close()


def list_paths(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """Return the paths of an ingest as strings; raises ArgumentError for an invalid path."""
    path_list = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    for path in path_list:
        check_path("a path to ingest", path)
    return [os.fspath(path) for path in path_list]


def list_ingest_patterns(include: str | Sequence[str], exclude: str | Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the patterns of files to include, and the patterns of files and folders to exclude.

    Raises InputError for an empty pattern.
    """
    return _list_patterns("include", include), _list_patterns("exclude", exclude)


def _list_patterns(option: str, value: str | Sequence[str]) -> list[str]:
    """Return the patterns of an option as a list. Raises InputError, which names the option, for an empty pattern."""
    patterns = [value] if isinstance(value, str) else list(value)
    for pattern in patterns:
        if not isinstance(pattern, str) or not pattern.strip("/"):
            raise InputError(
                f"a pattern of file names to {option} must be a string such as '*.adoc', not {format_value(pattern)}"
            )
    return patterns
