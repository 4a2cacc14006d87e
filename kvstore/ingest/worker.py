"""A worker process, which reads, extracts and embeds files for the ingesting process. A *job* has the parameters of all
*tasks*, which are lists of files. An *item* of a file is a document, a fact, a failure or a skipped part. To *deliver*
a batch is to send its items, with vectors.

In: a :class:`Job`, then tasks, each a list of ``(number, items to leave out, Source)``. Out: ``("ready",)`` first;
``("begin", number)`` when it reads a file, ``("busy",)`` when it does something else; ``("found", number, item)`` in
the order of the file; ``("done", number)``, or ``("absent", number)`` for a file that it cannot see; ``("loading",)``
and ``("loaded",)`` around the loading of its models; ``("failed", class, message)`` for an error that ends the ingest.

Embedding of a batch starts as soon as its texts are known, and runs while the batch is parsed and the next one is
read and parsed. If a worker has only one processor, as in a cluster, it embeds the texts at once.

:func:`main` is a local worker: messages of ``transport.py`` arrive on standard input and leave on standard output. It
opens the store read-only, to check which documents are already stored. It exits when standard input ends, because the
other process closed it or died. A remote worker (:mod:`.engines.ray`) receives what it needs of the store with each
task.
"""

from __future__ import annotations

import os
import queue
import resource
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from typing import Any, BinaryIO, Protocol

from .. import process
from ..errors import KvstoreError, OutOfMemoryError
from ..models.embedder import ANY_SPACE, collect_vectors, open_recorded_embedder
from ..models.language import open_language
from ..registry.derivation import StoredDerivation, collect_missing_texts, derive_parts, list_maintained_derivations
from ..settings import TIME_LIMIT, FixedSettings
from ..storage.environment import Environment
from ..structures.documents.documents import Documents
from ..structures.vectors.vectors import Matrix
from .file_documents import (
    FileDocument,
    FileItem,
    NewDocument,
    NumberedItem,
    ReadItem,
    extract_batch,
    read_documents,
    split_into_batches,
)
from .sources import Source
from .transport import frame_message, read_message

#: The minimum memory of a worker in bytes, if no limit is given.
MIN_MEMORY = 2 << 30

#: The error message if the models need more memory than a worker may use, with a field for this limit in megabytes.
SHORTAGE_MESSAGE = (
    "the models need more memory than a worker may use ({:,.0f} MB); committed documents are kept; raise the memory "
    "limit, and run the same ingest again to continue"
)
#: Parts of the messages of errors other than MemoryError if memory is short: of threading, and of the dynamic linker.
_SHORTAGE_REASONS = ("can't start new thread", "cannot map zero-fill pages", "failed to map segment", "cannot allocate")


@dataclass(frozen=True, slots=True)
class Job:
    """The parameters shared by all tasks of a worker.

    ``store`` is the store's path, and ``buffered_tables`` has the names of its tables with a change buffer.
    ``embedder`` is None if vectors are computed elsewhere.
    """

    store: str
    settings: FixedSettings
    format: str | None
    options: dict[str, Any]
    embedder: str | None
    buffered_tables: list[str]

    def to_message(self) -> tuple[Any, ...]:
        """Return the fields of the job in order: the first message to a worker, which builds the job from them."""
        return self.store, self.settings, self.format, self.options, self.embedder, self.buffered_tables


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a worker: seconds of silence while it reads a file, and megabytes of memory.

    By default a worker gets its share of half of the machine's memory, but at least :data:`MIN_MEMORY`, which models
    need.
    """

    seconds: float = TIME_LIMIT
    megabytes: float | None = None

    def get_memory_bytes(self, workers: int) -> int:
        """Return the memory limit in bytes of each of ``workers`` workers.

        The default is an equal share of half of the machine's memory, but at least ``MIN_MEMORY``.
        """
        if self.megabytes is not None:
            return int(min(self.megabytes * 1e6, 1 << 62))  # setrlimit takes 64 bits
        machine_memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return max(MIN_MEMORY, machine_memory // 2 // workers)


class WorkerContext(Protocol):
    """Access of a worker to the store and to the files of its tasks."""

    def get_digest(self, key: str) -> bytes | None:
        """Return the digest of the stored document with a key, or None."""
        ...

    def list_derivations(self) -> Sequence[StoredDerivation]:
        """Return the derivations (data computed from documents) that the store maintains."""
        ...

    def get_content(self, source: Source) -> bytes | None:
        """Return the bytes of a file if they were sent with the task, else None: the worker reads the file itself.

        Raises FileNotFoundError if the worker cannot see the file.
        """
        ...


class _LocalContext:
    """The context of a worker on the same machine, which reads the store itself."""

    def __init__(self, environment: Environment) -> None:
        """Create a context for the store in ``environment``, an open LMDB environment."""
        self._environment = environment

    def get_digest(self, key: str) -> bytes | None:
        """Return the digest of the stored document with a key, or None."""
        with self._environment.snapshot() as snapshot:
            record = Documents(snapshot).find_by_key(key)
            return None if record is None else record.digest

    def list_derivations(self) -> Sequence[StoredDerivation]:
        """Return the derivations (data computed from documents) that the store maintains."""
        with self._environment.snapshot() as snapshot:
            return list_maintained_derivations(snapshot)

    def get_content(self, source: Source) -> None:
        """Return None: a local worker reads each file itself."""
        return None


#: Sends a message from the calling thread.
Send = Callable[[tuple[Any, ...]], None]


def limit_memory(memory_bytes: int) -> None:
    """Limit the private memory of this process, if the system supports that; mapped files do not count."""
    with suppress(OSError, ValueError):  # the system does not support the limit, or has a lower one
        _, hard_limit = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, hard_limit))


def run_worker(
    job: Job,
    send: Send,
    memory_bytes: int,
    get_task: Callable[[], tuple[list[Any], WorkerContext]],
    *,
    has_one_processor: bool = False,
) -> None:
    """Process one task after another until an error, which is sent to the ingesting process or, if unexpected, printed.

    Return silently if the ingesting process has closed the pipe. ``send`` sends a message to that process. ``get_task``
    waits for the next task, and returns it with its WorkerContext. ``memory_bytes`` is the memory limit reported in the
    out-of-memory error. With ``has_one_processor``, embedding does not run in parallel with reading.
    """
    try:
        worker = Worker(job, send, _SynchronousExecutor() if has_one_processor else ThreadPoolExecutor(1))
        send(("ready",))
        while True:
            worker.run_task(*get_task())
    except KvstoreError as error:
        send(("failed", type(error).__name__, str(error)))
    except BrokenPipeError:
        pass
    except Exception as error:
        # Only the models run out of memory here. If a reader or an extraction does, only its file fails.
        if _is_shortage(error):
            send(_build_shortage_message(memory_bytes))
        else:
            traceback.print_exc()


def main(memory_bytes: int) -> None:
    """Run the job and the tasks that arrive on standard input; exit the process when the input ends, or after an error.

    The process may use ``memory_bytes`` bytes of private memory; the memory map of the store does not count. The
    messages of the worker, with its results and errors, are written to standard output.
    """
    shortage_message = frame_message(_build_shortage_message(memory_bytes))  # later there is no memory for it
    limit_memory(memory_bytes)
    tasks = sys.stdin.buffer
    # Standard output is for messages, so output of libraries goes to standard error.
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def send_message(message: tuple[Any, ...]) -> None:
        """Write a message to the ingesting process."""
        results.write(frame_message(message))
        results.flush()

    try:
        job = Job(*read_message(tasks))
        queued_tasks: queue.SimpleQueue[list[Any]] = queue.SimpleQueue()
        threading.Thread(target=_receive_tasks, args=(tasks, queued_tasks), daemon=True).start()
        with Environment.open(
            job.store, readonly=True, create=False, buffered_tables=frozenset(job.buffered_tables)
        ) as environment:
            store = _LocalContext(environment)
            run_worker(job, send_message, memory_bytes, lambda: (queued_tasks.get(), store))
    except KvstoreError as error:
        send_message(("failed", type(error).__name__, str(error)))
    except EOFError:
        pass  # the ingesting process ended before it sent the job
    except Exception as error:
        if _is_shortage(error):
            results.write(shortage_message)
            results.flush()
        else:
            traceback.print_exc()
    finally:
        # Python would wait for its threads, which may hang when memory is short.
        os._exit(1)


def _build_shortage_message(memory_bytes: int) -> tuple[str, str, str]:
    """Return the message to the ingesting process that a worker ran out of memory: tag, name of the error, reason.

    The reason includes ``memory_bytes``, the memory limit of the worker.
    """
    return "failed", OutOfMemoryError.__name__, SHORTAGE_MESSAGE.format(memory_bytes / 1e6)


def _is_shortage(error: Exception) -> bool:
    """True if an error means that memory ran out for an object, the stack of a thread or a shared library."""
    return isinstance(error, MemoryError) or any(reason in str(error) for reason in _SHORTAGE_REASONS)


def _receive_tasks(tasks: BinaryIO, queued_tasks: queue.SimpleQueue[list[Any]]) -> None:
    """Queue the tasks that arrive on a stream; exit the process if the stream ends or cannot be read."""
    while True:
        try:
            queued_tasks.put(read_message(tasks))
        except (EOFError, OSError):
            os._exit(0)


class _SynchronousExecutor(Executor):
    """An executor that runs each call in ``submit``."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Future[Any]:
        """Call a function, and return its result or exception as a finished future."""
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments, **keywords))
        except BaseException as error:
            future.set_exception(error)
        return future


class Worker:
    """A worker of an ingest: it reads, extracts and embeds the files of its tasks, and sends the results."""

    def __init__(self, job: Job, send: Send, embedding_executor: Executor) -> None:
        """Create the worker of a job; it passes its messages to ``send``, and embeds in ``embedding_executor``."""
        self._job = job
        self._send_unlocked = send  # called only with the lock held
        self._send_lock = threading.Lock()
        # A batch is embedded while the one before it is being delivered.
        self._embedding_executor = embedding_executor
        self._delivery_executor = ThreadPoolExecutor(1)
        self._embedder = None if job.embedder is None else open_recorded_embedder(job.embedder, job.settings.weights)
        self._is_loaded = False  # True if the models are loaded

    def run_task(self, task: list[tuple[int, int, Source]], context: WorkerContext) -> None:
        """Process the files of a task and send the results.

        ``task`` has the number of each file, the number of its items that the ingesting process already has, and the
        source. The message ``begin``, with the number of a file, is sent when the file is read. The message ``busy`` is
        sent when items are processed; they can be from several files.
        """
        settings = self._job.settings
        delivery: Future[None] | None = None
        derivations = context.list_derivations()
        for batch in split_into_batches(self._iter_items(task, context)):
            self._send_message(("busy",))
            if not self._is_loaded and any(isinstance(item, NewDocument) for _, item in batch):
                self._load_models()
            embeddings: list[Future[dict[str, Matrix]]] = []
            extracted_items = extract_batch(batch, settings, partial(self._submit_embedding, embeddings))
            items = [(file_number, self._add_derived_data(derivations, item)) for file_number, item in extracted_items]
            if delivery is not None:
                delivery.result()  # one batch is delivered while the next is read and extracted
            delivery = self._delivery_executor.submit(self._deliver_batch, derivations, items, embeddings)
            last_file_number, _ = batch[-1]
            self._send_message(("begin", last_file_number))  # the next batch begins with the rest of this file
        self._send_message(("busy",))
        if delivery is not None:
            delivery.result()

    def _iter_items(self, task: list[tuple[int, int, Source]], context: WorkerContext) -> Iterator[ReadItem]:
        """Yield (file number, item) for the files of a task, without items that the ingesting process already has.

        None ends a file. The message ``begin`` is sent before each file, and ``absent`` for a file that this worker
        cannot see.
        """
        for file_number, num_received, source in task:
            self._send_message(("begin", file_number))
            try:
                content = context.get_content(source)
            except FileNotFoundError:
                self._send_message(("absent", file_number))
                continue
            documents = read_documents(source, self._job.format, self._job.options, context.get_digest, content)
            for index, item in enumerate(documents):
                if index >= num_received:
                    yield file_number, item
            yield file_number, None

    def _add_derived_data(self, derivations: Sequence[StoredDerivation], item: FileItem | None) -> FileItem | None:
        """Return a document with the data, such as sentence lists, that the derivations of the store compute from it.

        Any other item, and None at the end of a file, is returned unchanged.
        """
        if isinstance(item, FileDocument) and item.extracted:
            return replace(item, extracted=derive_parts(item.extracted, self._job.settings, derivations))
        return item

    def _submit_embedding(self, embeddings: list[Future[dict[str, Matrix]]], texts: list[str]) -> None:
        """Start to embed the texts of a batch, if any, and append the future of their vectors to ``embeddings``."""
        if texts:
            embeddings.append(self._embedding_executor.submit(self._embed_texts, texts))

    def _load_models(self) -> None:
        """Load the models before the first file, so that running out of memory is not attributed to a file.

        The message ``loading`` is sent before, and ``loaded`` after.
        """
        self._send_message(("loading",))
        language = open_language(self._job.settings.language)
        load_embedder = getattr(self._embedder, "load", None)
        embedder_load = None if load_embedder is None else self._embedding_executor.submit(load_embedder)
        if language is not None:
            process.runs_only_kvstore = True  # so spaCy is imported without modules that kvstore does not need
            language.load()
        if embedder_load is not None:
            embedder_load.result()
        # The delivery thread needs memory too; this starts it.
        self._delivery_executor.submit(self._send_message, ("loaded",)).result()
        self._is_loaded = True

    def _embed_texts(self, texts: Sequence[str]) -> dict[str, Matrix]:
        """Return a mapping from each text to its vector, empty if vectors are computed elsewhere."""
        return dict(zip(texts, self._embedder.embed(texts), strict=True)) if self._embedder else {}

    def _deliver_batch(
        self,
        derivations: Sequence[StoredDerivation],
        items: Sequence[NumberedItem],
        embeddings: Sequence[Future[dict[str, Matrix]]],
    ) -> None:
        """Send the items of a batch (documents, failures, ...), documents with their vectors; None ends a file.

        ``embeddings`` has the vectors of the chunks' texts. The vectors of the other texts that ``derivations`` (data
        computed from documents) need are computed here.
        """
        documents = [item.extracted for _, item in items if isinstance(item, FileDocument) and item.extracted]
        vectors: Iterator[dict[str, Matrix]] = repeat({})  # without an embedder, the ingesting process embeds
        if self._embedder is not None:
            # ANY_SPACE, because the embedder gives a text the same vector in every vector space.
            known_vectors = {
                (ANY_SPACE, text): vector for future in embeddings for text, vector in future.result().items()
            }
            missing_texts = [
                collect_missing_texts(
                    document, embedded_spaces=(), settings=self._job.settings, derivations=derivations
                )
                for document in documents
            ]
            vectors = iter(collect_vectors(missing_texts, self._embedder.embed, known_vectors))
        for file_number, item in items:
            if isinstance(item, FileDocument) and item.extracted:
                self._send_message(("found", file_number, replace(item, vectors=next(vectors))))
            else:
                self._send_message(("done", file_number) if item is None else ("found", file_number, item))

    def _send_message(self, message: tuple[Any, ...]) -> None:
        """Send a message; only one thread sends at a time."""
        with self._send_lock:
            self._send_unlocked(message)
