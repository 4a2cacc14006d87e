"""The per-process object of an open store, shared by all its handles (a handle is one user's access to the store).
*Undecided settings* are settings that a new store takes from its first documents. *Lookups* of names are counted in
memory and added to the stored *temperatures* of the names later.

In: an open environment and the settings of its store. In memory: models (loaded when first needed), caches, handles,
and the lookups that no commit has added to the entity filter yet (CFT-RAG §3.1, Bridge-RAG §4.2). A crash loses these
lookups. Out: the state of the last commit, vectors, models. Closing the last handle closes the store: lookups are saved
if the writer's lock is free, and the file is compacted if it has grown.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..changes.compaction import GrowthTracker
from ..errors import EmbedderError, KvstoreError, LockTimeoutError, TransactionError
from ..process.logger import get_logger
from ..storage.change_buffer import QUICK_READ_BYTES
from ..storage.environment import Environment, View, WriteTransaction
from ..structures import tables
from ..structures.forest.node_cache import NodeCache
from ..structures.open_indexes import OpenIndexes
from ..structures.state import State

if TYPE_CHECKING:
    from ..changes.fingerprint_cache import FingerprintCache
    from ..models.embedder import Embedder, EmbeddingCache
    from ..settings import FixedSettings
    from ..structures.filter.entity_filter import FilterCache
    from ..structures.spending import Spending
    from ..structures.vectors.vectors import Matrix
    from .index_worker import IndexManager

#: The maximum number of names whose counts are written in one commit.
_MAX_NAMES_PER_COMMIT = 10_000


class LookupCounts:
    """Numbers of lookups of names, not yet added to their temperatures; shared by the threads of a store.

    The temperature of a name is its number of lookups in the entity filter, which is stored.
    """

    def __init__(self) -> None:
        """Create an empty collection of counts."""
        self._lock = threading.Lock()
        #: The number of lookups of each name (normal form) that are not written to the store yet.
        self._counts: Counter[str] = Counter()
        self._thread = threading.local()  # ``paused``: do not count the lookups of this thread

    def add(self, keys: Iterable[str]) -> None:
        """Count a lookup of each name (normal form), unless this thread has paused counting."""
        if getattr(self._thread, "paused", False):
            return
        with self._lock:
            self._counts.update(keys)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Ignore the lookups of this thread within the ``with`` block."""
        self._thread.paused = True
        try:
            yield
        finally:
            self._thread.paused = False

    @contextmanager
    def take_batch(self) -> Iterator[Mapping[str, int]]:
        """Remove some counts and yield them, for the ``with`` block to write; add them again if the block raises.

        A batch has at most ``_MAX_NAMES_PER_COMMIT`` counts. Only one caller gets a count, so it is written once, even
        if other threads commit at the same time.
        """
        with self._lock:
            counts = {key: self._counts.pop(key) for key in list(islice(self._counts, _MAX_NAMES_PER_COMMIT))}
        try:
            yield counts
        except BaseException:
            with self._lock:
                self._counts.update(counts)
            raise

    def __len__(self) -> int:
        """Return the number of names with lookups."""
        return len(self._counts)


class LazyEmbedder:
    """The embedder of an open store, loaded when first needed; it is thread-safe. A *supplied* embedder is an object
    that the calling program passed; its vectors are checked and normalized.

    It is separate from :class:`.OpenStore` so that objects that embed texts do not keep the store open.
    """

    def __init__(self, path: Path, settings: FixedSettings, embedder: Embedder | None) -> None:
        """Use ``embedder`` if the program passed one, or else load the embedder that ``settings`` name on first use."""
        self._path = path
        self._settings = settings
        self._embedder = embedder
        #: True if the embedder is an object passed by the calling program, which other processes cannot load.
        self.is_supplied = embedder is not None
        self._lock = threading.Lock()

    def load(self) -> Embedder:
        """Load the embedder at the first call, and return it.

        Raises EmbedderError if its package is missing or the program must pass the embedder.
        """
        with self._lock:
            if self._embedder is None:
                from ..models.embedder import is_named_embedder, open_recorded_embedder

                name = self._settings.embedder
                if not is_named_embedder(name):
                    raise EmbedderError(
                        f"embedder {name!r} is unknown; pass the embedder that this store was created with, "
                        f"kvstore.open({str(self._path)!r}, embedder=...), or install the package that provides it"
                    )
                self._embedder = open_recorded_embedder(name, self._settings.weights)
            return self._embedder

    def use_supplied(self, embedder: Embedder) -> None:
        """Use an embedder that the calling program passed, unless an embedder is in use already."""
        with self._lock:
            if self._embedder is None:
                self._embedder, self.is_supplied = embedder, True

    def replace_embedder(self, settings: FixedSettings) -> None:
        """Replace the embedder with the embedder that ``settings`` name, which is loaded when first needed."""
        with self._lock:
            self._settings, self._embedder, self.is_supplied = settings, None, False

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return the unit vectors of these texts, shape (n, dimension). Without texts, the embedder is not loaded."""
        if texts:
            embedder = self.load()
            vectors = embedder.embed(texts)
            return self._to_unit_vectors(vectors, shape=(len(texts),)) if self.is_supplied else vectors
        import numpy as np

        return np.empty((0, self._settings.dimension), np.float32)

    def embed_query(self, text: str) -> Matrix:
        """Return the unit vector of a question, shape (dimension,).

        If the program's embedder has no method ``embed_query``, its ``embed`` computes the vector.
        """
        embedder = self.load()
        if self.is_supplied and not hasattr(embedder, "embed_query"):
            return cast("Matrix", self.embed([text])[0])
        vector = embedder.embed_query(text)
        return self._to_unit_vectors(vector, shape=()) if self.is_supplied else vector

    def _to_unit_vectors(self, vectors: Any, shape: tuple[int, ...]) -> Matrix:
        """Return the vectors of the program's embedder as unit vectors of the store's dimension.

        ``shape`` is the expected shape without the dimension. Raises EmbedderError for another shape or invalid values.
        """
        from ..models.protocol import to_unit_vectors

        return to_unit_vectors(vectors, (*shape, self._settings.dimension), f"the embedder {self._settings.embedder}")

    def embed_cached(self, texts: Sequence[str]) -> Matrix:
        """Return the unit vectors of texts, shape (n, dimension). The vectors of recent texts come from a cache."""
        return self._cache.embed(texts, self.embed)

    @cached_property
    def _cache(self) -> EmbeddingCache:
        """The cache of vectors of sentences in evidence; created on first use, because only answers need it."""
        from ..models.embedder import EmbeddingCache

        return EmbeddingCache()


def _replace_settings(settings: FixedSettings, values: Mapping[str, str]) -> FixedSettings:
    """Return settings with the given values; a new embedder also sets the dimension and the digest of its weights."""
    if "embedder" not in values:
        return settings.replace(values)
    from ..models.embedder import find_weights_digest, open_embedder

    embedder = open_embedder(values["embedder"])
    return settings.replace({**values, "dimension": embedder.dimension, "weights": find_weights_digest(embedder)})


class OpenStore:
    """The data shared by the handles of an open store.

    It is closed when its last reference goes away, so objects it holds must not refer back to it.
    """

    def __init__(
        self,
        environment: Environment,
        settings: FixedSettings,
        embedder: Embedder | None,
        undecided_settings: frozenset[str] = frozenset(),
    ) -> None:
        """Create the shared data of the store that ``environment`` has open.

        The first documents of a new store determine the settings named in ``undecided_settings``. ``embedder`` is the
        object that the program passed, or None to load the embedder that ``settings`` name.
        """
        self.environment = environment
        self.settings = settings
        #: Settings of a newly created store that will be chosen by the language of its first documents.
        self._undecided_settings = undecided_settings
        #: The lookups that are not added to the stored temperatures yet.
        self.lookups = LookupCounts()
        #: The use of language models that is not recorded in the store yet.
        self.spending: deque[Spending] = deque()
        #: The index files that are open, and their caches.
        self.open_indexes = OpenIndexes(environment)
        #: The names of tree nodes, and the sentences about them, in the last state that needed them.
        self.node_cache = NodeCache()
        #: Compacts the data file if it has grown much since it was opened.
        self.growth = GrowthTracker(environment)
        #: The open handles; a handle that is garbage-collected without being closed no longer counts.
        self.handles: weakref.WeakSet[object] = weakref.WeakSet()
        #: Held while handles are added or removed.
        self.lock = threading.RLock()
        #: The store's embedder, loaded when first needed.
        self.embedder = LazyEmbedder(environment.path, settings, embedder)

    @cached_property
    def index_manager(self) -> IndexManager:
        """The object that creates and extends the indexes; created on first use, as reads never need it."""
        from .index_worker import IndexManager

        return IndexManager(self.open_indexes, self.settings, self.embedder.embed)

    @cached_property
    def filter_cache(self) -> FilterCache:
        """The cache of the entity filter of the last write transaction; created on first use."""
        from ..structures.filter.entity_filter import FilterCache

        return FilterCache()

    @cached_property
    def fingerprint_cache(self) -> FingerprintCache:
        """The cache of text fingerprints (Bloom filters), which rule out that a new name occurs in a stored text.

        It is created on first use, because only changes need it.
        """
        from ..changes.fingerprint_cache import FingerprintCache

        return FingerprintCache()

    def remove_handle(self, handle: object) -> None:
        """Remove a handle, and close the store if it was the last one.

        Raises TransactionError if snapshots stay open; the store then stays open too.
        """
        with self.lock:
            self.handles.discard(handle)
            if self.handles or self.environment.closed:
                return
            try:
                self._close()
            except BaseException:
                self.handles.add(handle)
                raise

    def _close(self) -> None:
        """Store the lookup counts, merge the change buffer and compact the file, then close the environment.

        A read-only store is only closed. A step that fails, or for which another writer holds the lock, is skipped and
        logged. Raises TransactionError if snapshots stay open.
        """
        if "index_manager" in vars(self):  # it is created on first use
            self.index_manager.stop()
        # Losing counts is acceptable, and another writer must not be kept waiting, so the lock timeout is 0.
        last_steps: dict[str, Callable[[], None]] = {
            "storing the lookup counts": partial(self.flush, timeout=0),
            "merging the change buffer": self._merge_buffer,
            "compacting the file": self.growth.compact_if_grown,
        }
        if self.environment.readonly:
            last_steps.clear()
        for name, run_step in last_steps.items():
            try:
                run_step()
            except LockTimeoutError as error:
                get_logger().debug("%s: closed without %s: %s", self.environment.path, name, error)
            except Exception as error:
                get_logger().warning("%s: closed without %s: %s", self.environment.path, name, error)
        self.environment.close()

    def __del__(self) -> None:
        """Stop the background index thread after all handles were garbage-collected without being closed."""
        if "index_manager" in vars(self):
            self.index_manager.stop()

    def _merge_buffer(self) -> None:
        """Merge the change buffer into the other tables if it is so large that it slows down the next opening.

        Raises LockTimeoutError immediately if another writer is active.
        """
        with self.environment.snapshot() as snapshot:
            buffered_bytes = sum(len(segment) for _, segment in snapshot.scan(tables.RECENT))
        if buffered_bytes > QUICK_READ_BYTES:
            get_logger().info("%s: %d bytes of the change buffer are merged", self.environment.path, buffered_bytes)
            self.environment.write_with_growth(WriteTransaction.merge_buffer, timeout=0)

    def flush(self, timeout: float | None = None) -> None:
        """Add the counted lookups to the stored temperatures of names, and record the use of language models.

        At most ``_MAX_NAMES_PER_COMMIT`` counts are written; the others are kept for a later call. Waits at most
        ``timeout`` seconds for another writer (None: the store's lock timeout).
        """
        if self.spending:
            self._flush_spending(timeout)
        if not len(self.lookups):
            return
        from ..changes.changes import Changes

        with self.lookups.take_batch() as lookup_counts:

            def write_lookup_counts(view: WriteTransaction) -> None:
                """Add the counted lookups of entities to the entity filter within a write transaction."""
                seed = self.settings.hash_seed
                entity_filter = self.filter_cache.take_filter(view, hash_seed=seed)
                Changes(view, self.settings, entity_filter).finish(lookup_counts)

            self.environment.write_with_growth(write_lookup_counts, timeout)

    def _flush_spending(self, timeout: float | None) -> None:
        """Record the use of language models in the store, in one commit, and drop the recorded uses from memory."""
        from ..structures.spending import add_spending

        uses = list(self.spending)
        self.environment.write_with_growth(lambda view: add_spending(view, uses), timeout)
        for _ in uses:  # keep the uses that other threads have added since
            self.spending.popleft()

    def finalize_settings(self, names: Iterable[str] | None = None) -> None:
        """Keep the current values of settings that a new store would otherwise choose by its first documents.

        Examples are the language and the embedder. ``names`` are the names of these settings (None: all of them).
        """
        if self._undecided_settings:
            with self.lock:  # also held while settings are decided
                self._undecided_settings -= self._undecided_settings if names is None else frozenset(names)

    def decide_settings(self, choose: Callable[[], Mapping[str, str]]) -> dict[str, str]:
        """Write the undecided settings, with the values that ``choose`` returns, and return the changed ones by name.

        A setting is undecided if a new store takes it from its first documents. ``choose`` is not called if no
        setting is undecided. Nothing is written unless the store is empty and no other process has it open. All
        settings are final afterwards, even if nothing was written.
        """
        with self.lock:
            if not self._undecided_settings:
                return {}
            try:
                chosen_values = {
                    name: value
                    for name, value in choose().items()
                    if name in self._undecided_settings and value != getattr(self.settings, name)
                }
                if not chosen_values or not self._write_settings(_replace_settings(self.settings, chosen_values)):
                    return {}
                return chosen_values
            finally:
                self._undecided_settings = frozenset()

    def _write_settings(self, settings: FixedSettings) -> bool:
        """Write settings to an empty store, and use them from now on; return True.

        Returns False, and changes nothing, if the store is not empty or another process has it open.
        """
        from ..structures.language_version import put_language_version, put_settings

        try:
            with self.environment.write(timeout=0) as view, self.environment.exclude_other_processes():
                if any(table["entries"] for name, table in view.get_table_statistics().items() if name != tables.META):
                    return False
                put_settings(view, settings)
                put_language_version(view, settings)
                view.commit()
        except (LockTimeoutError, TransactionError) as error:
            get_logger().info("%s: the settings stay as they are: %s", self.environment.path, error)
            return False
        if settings.embedder != self.settings.embedder:
            self.embedder.replace_embedder(settings)
        self.settings = settings
        if "index_manager" in vars(self):  # it was created with the old settings
            self.index_manager.stop()
            del self.index_manager
        return True

    def build_state(self, snapshot: View) -> State:
        """Return the state of a snapshot; it uses the store's open indexes and its cache of names of tree nodes."""
        return State(snapshot, self.settings, self.open_indexes, self.node_cache)

    def load_models(self) -> None:
        """Load the language pipeline and the embedder, which new documents need.

        A model that cannot be loaded raises nothing here, only when a document that needs it is stored.
        """
        try:
            self.require_language()
        except KvstoreError as error:
            get_logger().info("%s: the language pipeline is not loaded: %s", self.environment.path, error)
        try:
            load = getattr(self.embedder.load(), "load", None)
            if load is not None:
                load()
        except KvstoreError as error:
            get_logger().info("%s: the embedder is not loaded: %s", self.environment.path, error)

    def require_language(self) -> None:
        """Load the language pipeline, if the store has one; raises LanguageError if it cannot be loaded."""
        from ..models.language import open_language

        pipeline = open_language(self.settings.language)
        if pipeline is not None:
            pipeline.load()
