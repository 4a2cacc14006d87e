"""Generations of indexes: built, activated, and removed while others read and write. A *generation* is the result of
one build of an index: rows in tables of the store, with keys that begin with its number. A *writing task* is a text,
such as a summary, for a language model to write for the index.

In: an open environment and a kind of index. On disk: the rows of the next generation, in commits of at most
:data:`_BATCH_BYTES` bytes. A separate commit then writes its number to the record of the index, and the previous
generation is removed in batches. A crash leaves the generation in use complete, and rows that belong to no generation
in use; the next refresh removes these. One thread of one process refreshes an index at a time.

Texts of a language model are requested afterwards, for the generation in use. Each is stored as soon as it arrives, so
that an interruption loses none.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from ...errors import IndexUnavailableError, InvalidAnswerError, PromptTooLongError, TokenLimitError
from ...models.structured import MAX_FAILURES, ModelReport
from ...models.token_estimate import token_estimate
from ...process.frozen_dataclass import frozen_dataclass
from ...settings import FixedSettings
from ...storage import index_file, records
from ...storage.view import WriteView
from .. import tables
from ..counters import Counters
from ..open_indexes import OpenIndexes
from ..state import State
from ..vectors.vectors import Matrix
from .generations import Generation, GenerationIndex, GenerationRows, WritingTask, bind_generation
from .index import Indexes, IndexRecord, IndexWriter
from .index_building import IndexFiller, IndexProgress, ReportProgress, make_build_tools
from .written_texts import WrittenTexts, WrittenTextWriter, add_vector, get_embedded_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...models.structured import StructuredModel, StructuredPrompt

#: The maximum bytes of rows written in one commit, and the maximum number of rows removed in one.
_BATCH_BYTES = 2 << 20
_MAX_REMOVED_ROWS = 20_000

#: A table, a key and a sealed value.
TableRecord = tuple[str, bytes, bytes]


@frozen_dataclass
class WritingForecast:
    """A forecast of the texts that a language model would write on REFRESH.

    ``described`` describes the index after the REFRESH. ``texts`` is the number of texts, and ``written`` the number of
    texts that exist already. ``tokens`` estimates the tokens of the prompts for the missing texts.
    """

    described: str
    texts: int
    written: int
    tokens: int

    @property
    def calls(self) -> int:
        """The number of requests, if every answer follows the schema at the first attempt."""
        return self.texts - self.written


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingReport(ModelReport):
    """A report of the texts that a language model wrote for an index on REFRESH; ``texts`` is the number stored."""

    texts: int


class GenerationBuilder(IndexFiller):
    """Builds indexes that are stored in generations: each build of an index is a generation, a set of table rows."""

    _open_indexes: OpenIndexes

    def __init__(
        self, open_indexes: OpenIndexes, settings: FixedSettings, embed: Callable[[Sequence[str]], Matrix]
    ) -> None:
        """Create a builder for an open store; ``embed`` returns the unit vectors of texts, shape (n, dimension)."""
        super().__init__(open_indexes.environment, settings, embed)
        self._open_indexes = open_indexes

    def refresh(self, index_kind: GenerationIndex[Any], progress: ReportProgress | None = None) -> bool:
        """Rebuild an index from the last commit and switch readers to the new rows; return True if this was done.

        A generation is the set of rows of one build; rows are written in bulk and never changed. Removes the rows and
        texts that belong to no generation in use. ``progress`` receives the progress (None: no reports). Returns False
        if the store has no such index, the generation is up to date, or the index changed during the build. Raises
        IndexUnavailableError if another thread or process is refreshing the index, LockTimeoutError, StoreFullError,
        EmbedderError.
        """
        with self._hold_lock(index_kind):
            self._remove_unused_rows(index_kind)
            with self._open_state() as state:
                record = Indexes(state.lmdb).get(index_kind)
                if record is None or (index_kind.is_usable(record) and record.state["change"] == state.counters.change):
                    return False
            generation = index_kind.build(self._open_state, record, make_build_tools(index_kind, self._embed, progress))
            generation_number = record.state.get("generation", 0) + 1
            for batch in _iter_batches(index_kind, generation_number, generation):
                self._environment.write_with_growth(partial(_put_batch, batch))
            is_current = self._environment.write_with_growth(
                partial(_switch_generation, index_kind, record, generation_number, generation)
            )
            self._remove_unused_rows(index_kind)
            self._remove_unused_texts(index_kind)
            return is_current

    def write_texts(
        self, index_kind: GenerationIndex[Any], model: StructuredModel, progress: ReportProgress | None = None
    ) -> WritingReport:
        """Request the missing texts of an index from a language model, and store them.

        Tasks with the largest weight come first. Stops at the token limit of the model. Each text is embedded and
        stored in a separate commit. An invalid answer is dropped and reported, and the next REFRESH requests it again.
        After several consecutive requests without a valid answer, no more are sent. Errors of the model are raised;
        texts written until then are kept.
        """
        num_written = 0
        failures: list[str] = []
        previous_usage = model.get_usage()
        with self._hold_lock(index_kind):
            with self._open_state() as state:
                pending_tasks = [
                    task for task in _list_writing_tasks(index_kind, state) if not _is_written(state, task)
                ]
            for task in sorted(pending_tasks, key=lambda task: (-task.weight, task.digest)):
                try:
                    is_written = self._write_text(index_kind, task, model)
                except TokenLimitError:
                    break
                except (InvalidAnswerError, PromptTooLongError) as error:
                    failures.append(f"{index_kind.name}, {task.title}: {error}")
                    if model.num_failures >= MAX_FAILURES:
                        failures.append(
                            f"{index_kind.name}: stopped after {MAX_FAILURES} requests without a usable answer; use "
                            "another model, and REFRESH continues"
                        )
                        break
                    continue
                if is_written:
                    num_written += 1
                    if progress is not None:
                        progress(IndexProgress(index_kind.name, num_written, len(pending_tasks)))
        usage = {name: count - previous_usage[name] for name, count in model.get_usage().items()}
        return WritingReport(
            kind=index_kind.name,
            model=model.model.name,
            texts=num_written,
            **usage,
            left=len(pending_tasks) - num_written,
            failures=failures,
        )

    def _write_text(self, index_kind: GenerationIndex[Any], task: WritingTask, model: StructuredModel) -> bool:
        """Request the text of ``task`` from a language model, embed it, and commit it with its vector.

        Returns False, without a commit, if a source of the text no longer exists. Raises the model's errors.
        """
        answer = self._request_text(index_kind, task, model)
        if answer is None:
            return False
        answer = add_vector(answer, self._embed([get_embedded_text(answer)])[0])
        model_name = model.model.name
        self._environment.write_with_growth(
            lambda view: WrittenTextWriter(view).put(task.digest, index_kind.name, model_name, answer)
        )
        return True

    def _request_text(
        self, index_kind: GenerationIndex[Any], task: WritingTask, model: StructuredModel
    ) -> Mapping[str, Any] | None:
        """Request the text of ``task`` from a language model; return its fields, or None if a source no longer exists.

        The sources are the texts that the prompt quotes. A prompt that is too long for the model is built once more,
        with as many sources as fit. Raises the model's errors.
        """
        from ...models.llm import compute_fitting_tokens

        prompt = self._build_prompt(index_kind, task)
        if prompt is None:
            return None
        try:
            return model.ask(prompt)
        except PromptTooLongError as error:
            fitting_tokens = compute_fitting_tokens(prompt.tokens, error, prompt.answer_tokens)
            if fitting_tokens is None:
                raise
            # The last message has the sources.
            overhead = prompt.tokens - token_estimate(prompt.messages[-1]["content"])
            smaller_prompt = self._build_prompt(index_kind, task, max(1, fitting_tokens - overhead))
            if smaller_prompt is None:
                raise
        return model.ask(smaller_prompt)

    def _build_prompt(
        self, index_kind: GenerationIndex[Any], task: WritingTask, max_tokens: int | None = None
    ) -> StructuredPrompt[Mapping[str, Any]] | None:
        """Return the prompt for the text of ``task``, from the current state; None if a source no longer exists.

        The sources, which the prompt quotes, have at most ``max_tokens`` tokens (None: the default of the index kind).
        """
        with self._open_state() as state:
            reader = bind_generation(state, index_kind)
            return None if reader is None else index_kind.build_prompt(reader, task, max_tokens)

    def forecast(self, index_kind: GenerationIndex[Any], record: IndexRecord) -> WritingForecast:
        """Forecast the texts that a REFRESH would request from a language model, without any change or request.

        Unless the generation in use is up to date, one is built in memory.
        """
        with self._open_state() as state:
            if index_kind.is_usable(record) and record.state["change"] == state.counters.change:
                return _compute_forecast(index_kind, state, bind_generation(state, index_kind))
        generation = index_kind.build(self._open_state, record, make_build_tools(index_kind, self._embed))
        generation_number = 0  # any number: the rows are only in memory
        row_source = _MemoryRows(_iter_batches(index_kind, generation_number, generation))
        with self._open_state() as state:
            rows = GenerationRows(
                row_source, generation_number, _build_record_state(index_kind, generation_number, generation)
            )
            return _compute_forecast(index_kind, state, index_kind.bind(rows, state))

    def drop(self, index_kind: GenerationIndex[Any], progress: ReportProgress | None = None) -> None:
        """Drop an index with its rows and the texts that models wrote for it.

        ``progress`` is not called; builders of other kinds of indexes report their progress with it.
        """
        self._environment.write_with_growth(lambda view: IndexWriter(view).drop(index_kind))
        with suppress(IndexUnavailableError):  # the index is being refreshed, and the refresh then removes the rows
            self.remove_unused(index_kind)

    def remove_unused(self, index_kind: GenerationIndex[Any]) -> None:
        """Remove rows and texts that belong to no generation in use, left by a crash or a dropped index.

        Raises IndexUnavailableError if the index is being refreshed.
        """
        with self._open_state() as state:
            if not any(state.lmdb.count(table) for table in (*index_kind.tables, tables.WRITTEN)):
                return
        with self._hold_lock(index_kind):
            self._remove_unused_rows(index_kind)
            self._remove_unused_texts(index_kind)

    def _remove_unused_rows(self, index_kind: GenerationIndex[Any]) -> None:
        """Remove the rows of all generations of an index except the generation in use, in batches."""
        for table in index_kind.tables:
            while True:
                with self._open_state() as state:
                    ranges = _list_unused_ranges(Indexes(state.lmdb).get(index_kind))
                    unused_keys = (key for start, stop in ranges for key, _ in state.lmdb.scan(table, start, stop))
                    keys = [bytes(key) for key in islice(unused_keys, _MAX_REMOVED_ROWS)]
                if not keys:
                    break
                self._environment.write_with_growth(partial(_remove_keys, table, keys))

    def _remove_unused_texts(self, index_kind: GenerationIndex[Any]) -> None:
        """Remove texts that a language model wrote for an index, except those of the generation in use.

        Does nothing if the index exists without a usable build, because the next build may use the texts.
        """
        with self._open_state() as state:
            record = Indexes(state.lmdb).get(index_kind)
            if record is not None and not index_kind.is_usable(record):
                return
            stored_digests = list(WrittenTexts(state.lmdb).iter_digests_of_kind(index_kind.name))
            used_digests = {task.digest for task in _list_writing_tasks(index_kind, state)} if stored_digests else set()
            unused_digests = [digest for digest in stored_digests if digest not in used_digests]
        if unused_digests:
            self._environment.write_with_growth(lambda view: WrittenTextWriter(view).remove(unused_digests))

    @contextmanager
    def _hold_lock(self, index_kind: GenerationIndex[Any]) -> Iterator[None]:
        """Hold the exclusive right to refresh an index; raise IndexUnavailableError if another refresh is running."""
        self._environment.verify_path()  # the directory may belong to another store by now
        # Opening the draft of an index file takes the lock of the index. Nothing is written to this draft.
        with index_file.open_draft(index_file.build_index_path(self._environment.path, index_kind.name)):
            yield


class _MemoryRows:
    """The rows of a generation in memory, for :class:`GenerationRows` to read."""

    def __init__(self, batches: Iterable[Sequence[TableRecord]]) -> None:
        """Create an in-memory copy of the records (table, key, value) of all ``batches``."""
        self._values: dict[str, dict[bytes, bytes]] = {}
        for table, key, value in chain.from_iterable(batches):
            self._values.setdefault(table, {})[key] = value
        self._keys = {table: sorted(values) for table, values in self._values.items()}

    def get_many(self, table: str, keys: Sequence[bytes]) -> list[Any]:
        """Return the value of each key of a table, or None for a missing key."""
        values = self._values.get(table, {})
        return [values.get(key) for key in keys]

    def scan(self, table: str, start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, Any]]:
        """Yield the keys with ``start`` <= key < ``stop`` (None: no end) of a table and their values, in key order."""
        keys = self._keys.get(table, [])
        stop_index = len(keys) if stop is None else bisect_left(keys, stop)
        for key in keys[bisect_left(keys, start) : stop_index]:
            yield key, self._values[table][key]


def _iter_batches(
    index_kind: GenerationIndex[Any], generation_number: int, generation: Generation
) -> Iterator[list[TableRecord]]:
    """Yield the table records of a generation (the rows of one build of an index), in batches for one commit each."""
    batch: list[TableRecord] = []
    num_bytes = 0
    for table in index_kind.tables:
        for key, value in generation.rows.get(table, ()):
            stored_key, stored_value = records.encode_u32(generation_number) + key, records.pack(value)
            batch.append((table, stored_key, stored_value))
            num_bytes += len(stored_key) + len(stored_value)
            if num_bytes > _BATCH_BYTES:
                yield batch
                batch, num_bytes = [], 0
    if batch:
        yield batch


def _put_batch(batch: Sequence[TableRecord], view: WriteView) -> None:
    """Write a batch of records (table, key, value) to a transaction."""
    for table, key, value in batch:
        view.put(table, key, value)


def _build_record_state(
    index_kind: GenerationIndex[Any], generation_number: int, generation: Generation
) -> Mapping[str, Any]:
    """Return the description of a generation without its rows, for :attr:`IndexRecord.state`."""
    return {
        "generation": generation_number,
        "version": index_kind.version,
        "token": os.urandom(16),  # identifies this build in the caches of processes
        "change": generation.change,  # of the state that it was built from
        "chunk_stop": generation.chunk_stop,  # all chunks of that state have smaller ids
        "head": dict(generation.header),
    }


def _switch_generation(
    index_kind: GenerationIndex[Any],
    record: IndexRecord,
    generation_number: int,
    generation: Generation,
    view: WriteView,
) -> bool:
    """Switch an index to the rows of a new generation; return False if it was dropped or created again."""
    if Indexes(view).get(index_kind) != record:
        return False
    IndexWriter(view).put(replace(record, state=_build_record_state(index_kind, generation_number, generation)))
    return True


def _list_unused_ranges(record: IndexRecord | None) -> list[tuple[bytes, bytes | None]]:
    """Return the key ranges (start, stop) of the rows of all generations of an index except the one in use.

    ``record`` is the record of the index, which names the generation in use (None: there is no index). The key of a row
    begins with the number of its generation. A stop of None means the end of the table.
    """
    if record is None or not record.state:
        return [(b"", None)]
    used_generation = record.state["generation"]
    return [(b"", records.encode_u32(used_generation)), (records.encode_u32(used_generation + 1), None)]


def remove_stale_quotes(view: WriteView, kinds: Iterable[GenerationIndex[Any]]) -> bool:
    """Remove a batch of the rows in which indexes quote documents, if the store has changed since they were built.

    Such rows are no longer read. Returns True if a row was removed; the caller repeats the call until it returns False.
    """
    change = Counters.load(view).change
    has_removed = False
    for kind in kinds:
        record = Indexes(view).get(kind)
        if record is not None and record.state and record.state["change"] != change:
            generation_number = record.state["generation"]
            for table in kind.quoting_tables:
                stale_records = view.scan(
                    table, records.encode_u32(generation_number), records.encode_u32(generation_number + 1)
                )
                keys = [bytes(key) for key, _ in islice(stale_records, _MAX_REMOVED_ROWS)]
                _remove_keys(table, keys, view)
                has_removed = has_removed or bool(keys)
    return has_removed


def _remove_keys(table: str, keys: Sequence[bytes], view: WriteView) -> None:
    """Remove the records with these keys from a table."""
    view.change_many(table, dict.fromkeys(keys))  # a value of None removes the record


def _list_writing_tasks(index_kind: GenerationIndex[Any], state: State) -> Iterable[WritingTask]:
    """Return a task for each text that a language model may write for an index; empty if the index is not built yet."""
    reader = bind_generation(state, index_kind)
    return () if reader is None else index_kind.list_writing_tasks(reader)


def _is_written(state: State, task: WritingTask) -> bool:
    """True if the store already has the text of ``task``, written by a language model."""
    return WrittenTexts(state.lmdb).get(task.digest) is not None


def _compute_forecast(index_kind: GenerationIndex[Any], state: State, reader: Any) -> WritingForecast:
    """Count the texts that a model may write for an index, and estimate the tokens of prompts for the missing ones.

    A text without a prompt, because a source no longer exists, takes no tokens.
    """
    num_texts = num_written = num_tokens = 0
    for task in index_kind.list_writing_tasks(reader):
        num_texts += 1
        if _is_written(state, task):
            num_written += 1
            continue
        prompt = index_kind.build_prompt(reader, task)
        num_tokens += 0 if prompt is None else prompt.tokens
    return WritingForecast(index_kind.describe(reader), num_texts, num_written, num_tokens)
